//! Which lanes have ended, and a place for the shutdown to wait until something happens.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Exits {
    ended: Mutex<Box<[bool]>>,
    changed: Condvar,
}

impl Exits {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { ended: Mutex::new(vec![false; lanes].into()), changed: Condvar::new() }
    }

    /// The lane's loop is over: it touches nothing that is shared any more, except to say so here.
    pub(crate) fn ended(&self, lane: usize) {
        self.ended.lock()[lane] = true;
        self.changed.notify_all();
    }

    /// Something happened that a waiting shutdown should look at.
    pub(crate) fn nudge(&self) {
        self.changed.notify_all();
    }

    pub(crate) fn has_ended(&self, lane: usize) -> bool {
        self.ended.lock()[lane]
    }

    /// Waits until all lanes but `except` have ended, or `until`. Returns those that have not.
    pub(crate) fn wait_all(&self, except: Option<usize>, until: Instant) -> Vec<usize> {
        let mut ended = self.ended.lock();
        loop {
            let left: Vec<usize> = (0..ended.len()).filter(|&lane| !ended[lane] && Some(lane) != except).collect();
            if left.is_empty() || self.changed.wait_until(&mut ended, until).timed_out() {
                return left;
            }
        }
    }

    /// Waits for a nudge, or `until`.
    pub(crate) fn wait(&self, until: Instant) {
        let mut ended = self.ended.lock();
        let _ = self.changed.wait_until(&mut ended, until);
    }
}
