//! Tasks that are due: what queues hold and lanes run.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::header::{Go, Header, Kind, Reference};
use super::state::Start;

/// A task in a queue. Owns one reference; one pointer wide.
///
/// A runnable is spent by running or cancelling it. Dropped, it cancels: a queue that goes takes its tasks along, and their handles hear of it.
#[repr(transparent)]
pub(crate) struct Runnable(NonNull<Header>);

/// The right to run a queued task here and now, taken by its handle; the runnable in the queue has become stale.
///
/// Dropped, it cancels.
#[must_use]
pub(crate) struct Claimed(NonNull<Header>);

/// How a run ended.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// The task has its output.
    Finished,
    /// The future waits, or is queued again already.
    Pending,
    /// Nothing was run: the handle had claimed the task.
    Stale,
    /// The task ended, and some of its code panicked: the closure, the future, or the drop of the future or of its output.
    Panicked,
    /// The body was dropped instead of run.
    Cancelled,
}

// SAFETY: a reference is `Send`, and a runnable is one.
unsafe impl Send for Runnable {}
// SAFETY: as above.
unsafe impl Send for Claimed {}

impl Runnable {
    /// Polls the task once, or runs its closure. Panics of user code are contained.
    ///
    /// `begun` is called when the task is the caller's, just before its code: what the caller tells others of it then does not delay the locked
    /// instruction that takes it. Not called if nothing is run.
    pub(crate) fn run_telling(self, begun: impl FnOnce()) -> Ran {
        self.spend(|go| {
            begun();
            go
        })
    }

    /// As [`run_telling`](Self::run_telling), where there is nobody to tell.
    #[cfg(any(test, twolane_loom))]
    pub(crate) fn run(self) -> Ran {
        self.spend(|go| go)
    }

    /// Drops the task's closure or future instead, as far as it is still there; the handle hears that it was cancelled.
    pub(crate) fn cancel(self) -> Ran {
        self.spend(|_| Go::Cancel)
    }

    /// What all tasks of this type have in common.
    pub(crate) fn kind(&self) -> &'static Kind {
        // SAFETY: our reference keeps the task alive.
        unsafe { self.0.as_ref() }.kind
    }

    /// The runnable as a pointer, for a word that threads exchange.
    pub(crate) fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    /// # Safety
    ///
    /// - `task` comes from [`into_raw`](Self::into_raw), and no other runnable was made of it since.
    pub(crate) unsafe fn from_raw(task: NonNull<Header>) -> Self {
        Self(task)
    }

    fn spend(self, choose: impl FnOnce(Go) -> Go) -> Ran {
        // SAFETY: a runnable's reference is ours to give, and the runnable is gone.
        let reference = unsafe { Reference::from_raw(self.into_raw()) };
        let go = match reference.header().state.start() {
            Start::Stale => return Ran::Stale,
            Start::Poll => choose(Go::Poll),
            Start::Cancel => choose(Go::Cancel),
        };
        // SAFETY: *start* has given us the body.
        unsafe { (reference.header().kind.verbs.run)(reference, go) }
    }
}

impl Claimed {
    /// # Safety
    ///
    /// - *claim* was granted to the caller, who gives the right and the reference away.
    pub(super) unsafe fn from_raw(task: NonNull<Header>) -> Self {
        Self(task)
    }

    /// Polls the task once, or runs its closure, on this thread. Panics of user code are contained.
    pub(crate) fn run(self) -> Ran {
        // An abort that came before this line is still heeded.
        // SAFETY: our reference keeps the task alive.
        let aborted = unsafe { self.0.as_ref() }.state.load().is_aborted();
        ManuallyDrop::new(self).spend(if aborted { Go::Cancel } else { Go::Poll })
    }

    /// Called once, by `run` or by `drop`.
    fn spend(&mut self, go: Go) -> Ran {
        // SAFETY: *claim* added a reference for us and gave us the body, and we are called once.
        unsafe {
            let reference = Reference::from_raw(self.0);
            (reference.header().kind.verbs.run)(reference, go)
        }
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        let _ = Self(self.0).cancel();
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let _ = self.spend(Go::Cancel);
    }
}

impl fmt::Debug for Runnable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: our reference keeps the task alive.
        f.debug_tuple("Runnable").field(unsafe { self.0.as_ref() }).finish()
    }
}

impl fmt::Debug for Claimed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: our reference keeps the task alive.
        f.debug_tuple("Claimed").field(unsafe { self.0.as_ref() }).finish()
    }
}
