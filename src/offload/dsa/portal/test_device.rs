//! What portals are tested with: a page that is a file's, and a state that a test sets.

use std::sync::Arc;
use std::sync::Mutex;

use super::Death;
use super::page::{PAGE_BYTES, Page};
use super::state::StateSource;

/// Says what it was told to, and counts how often it was asked.
#[derive(Clone, Debug, Default)]
pub(crate) struct AnyState(Arc<Mutex<(Option<Death>, usize)>>);

impl AnyState {
    pub(crate) fn set(&self, death: Option<Death>) {
        self.0.lock().unwrap().0 = death;
    }
    pub(crate) fn looks(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

impl StateSource for AnyState {
    fn death(&self) -> Option<Death> {
        let mut inner = self.0.lock().unwrap();
        inner.1 += 1;
        inner.0
    }
}

/// A page of a file, mapped as a portal is.
pub(crate) fn page() -> Page {
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGE_BYTES as u64).unwrap();
    Page::map(&file).unwrap()
}
