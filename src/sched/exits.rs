//! Which lanes have ended, what they dropped, and a place for the shutdown to wait until something happens.

use std::time::Instant;

use parking_lot::{Condvar, Mutex};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Exits {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    lanes: Box<[Life]>,
    /// No lane begins any more.
    closed: bool,
    dropped_pollers: Vec<String>,
    cancelled_closures: usize,
}

/// Where a lane is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// It waits for a thread of the user's, or for its own.
    Absent,
    Live,
    Ended,
}

impl Exits {
    pub(crate) fn new(lanes: usize) -> Self {
        let state = State {
            lanes: vec![Life::Absent; lanes].into(),
            closed: false,
            dropped_pollers: Vec::new(),
            cancelled_closures: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The lane is about to run. `false`: too late, the runtime has ended.
    pub(crate) fn begins(&self, lane: usize) -> bool {
        let mut state = self.state.lock();
        if !state.closed {
            state.lanes[lane] = Life::Live;
        }
        !state.closed
    }

    /// Lanes that have begun and not ended. Also the last word on that: none begins afterwards, if `close`.
    pub(crate) fn live(&self, close: bool) -> Vec<usize> {
        let mut state = self.state.lock();
        state.closed |= close;
        state.live()
    }

    /// The lane's loop is over: it touches nothing that is shared any more, except to say so here.
    pub(crate) fn ended(&self, lane: usize) {
        self.state.lock().lanes[lane] = Life::Ended;
        self.changed.notify_all();
    }

    /// Pollers that were live when their lane ended.
    pub(crate) fn pollers_dropped(&self, names: Vec<String>) {
        self.state.lock().dropped_pollers.extend(names);
    }

    /// A closure was queued when the runtime ended.
    pub(crate) fn closure_cancelled(&self) {
        self.state.lock().cancelled_closures += 1;
    }

    /// Pollers and closures that were dropped, for the report.
    pub(crate) fn take_dropped(&self) -> (Vec<String>, usize) {
        let mut state = self.state.lock();
        (std::mem::take(&mut state.dropped_pollers), state.cancelled_closures)
    }

    /// Something happened that a waiting shutdown should look at.
    pub(crate) fn nudge(&self) {
        self.changed.notify_all();
    }

    /// Waits until all lanes have ended, or `until`. Returns those that have not.
    pub(crate) fn wait_all(&self, until: Instant) -> Vec<usize> {
        let mut state = self.state.lock();
        loop {
            let left = state.live();
            if left.is_empty() || self.changed.wait_until(&mut state, until).timed_out() {
                return left;
            }
        }
    }

    /// Waits for a nudge, or `until`.
    pub(crate) fn wait(&self, until: Instant) {
        let mut state = self.state.lock();
        let _ = self.changed.wait_until(&mut state, until);
    }
}

impl State {
    fn live(&self) -> Vec<usize> {
        (0..self.lanes.len()).filter(|&lane| self.lanes[lane] == Life::Live).collect()
    }
}
