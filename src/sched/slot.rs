//! A lane's hand-off slot: room for one task that the sibling takes with a single line transfer.
//!
//! The lane that runs the pass is the only one that fills it; anybody may empty it. It holds the oldest task or none: the owner fills
//! it only while its deque is empty, so a task never overtakes one that waits there.

use std::ptr::{self, NonNull};

use crate::sync::atomic::{AtomicPtr, Ordering::*};
use crate::sync::prefetch;
use crate::task::{Header, Runnable};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Slot(AtomicPtr<Header>);

impl Slot {
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Whether there is nothing to take. A hint, except for the owner, who alone can fill it.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: the pointer is not followed; `take` synchronises.
        self.0.load(Relaxed).is_null()
    }

    /// Fills the slot. Only the owner may call it, and only after it saw [`is_empty`](Self::is_empty).
    #[inline]
    pub(crate) fn fill(&self, task: Runnable) {
        debug_assert!(self.is_empty(), "the owner filled a slot that it had not seen empty");
        // Release: publishes the task. Partner: the Acquire swap in `take`.
        self.0.store(task.into_raw().as_ptr(), Release);
    }

    /// Empties the slot.
    #[inline]
    pub(crate) fn take(&self) -> Option<Runnable> {
        // Relaxed: the pointer is not followed. Its lines are asked for while the swap waits for the slot's own; if somebody else wins it, that
        // was in vain, and does no harm even if the task is gone by then.
        prefetch(NonNull::new(self.0.load(Relaxed))?.cast());
        // Acquire: partner is the Release store in `fill`. The swap decides among takers.
        let task = NonNull::new(self.0.swap(ptr::null_mut(), Acquire))?;
        // SAFETY: the pointer came from `Runnable::into_raw` in `fill`, and the swap gave it to us alone.
        Some(unsafe { Runnable::from_raw(task) })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(task) = self.take() {
            let _ = task.cancel();
        }
    }
}
