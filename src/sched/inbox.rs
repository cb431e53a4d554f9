//! What other threads want of one particular lane: pollers to adopt. Cold: a lock, and looked at only when the doorbell rang.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::poll::Adoption;

/// Adoptions that a lane carries out between two passes: each runs user code, and the pollers that are there already wait for it.
pub(crate) const DRAIN_MAX: usize = 16;

/// See the module's documentation.
pub(crate) struct Inbox(Mutex<Option<VecDeque<Adoption>>>);

impl Inbox {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(VecDeque::new())))
    }

    /// Adds one; ring the lane's doorbell afterwards. Gives it back if the lane has ended.
    pub(crate) fn push(&self, adoption: Adoption) -> Result<(), Adoption> {
        match &mut *self.0.lock() {
            Some(queue) => {
                queue.push_back(adoption);
                Ok(())
            }
            None => Err(adoption),
        }
    }

    pub(crate) fn pop(&self) -> Option<Adoption> {
        self.0.lock().as_mut()?.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().as_ref().is_none_or(VecDeque::is_empty)
    }

    /// Refuses what comes from now on, and gives out what is there. Dropping it runs user code, and resolves the handles.
    pub(crate) fn close(&self) -> VecDeque<Adoption> {
        self.0.lock().take().unwrap_or_default()
    }
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Inbox").field(&self.0.lock().as_ref().map(VecDeque::len)).finish()
    }
}
