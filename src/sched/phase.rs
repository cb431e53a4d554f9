//! How far the runtime is in its life. One-way: each phase is entered once, by the thread that shuts down.

use crate::sync::atomic::{AtomicU8, Ordering::*, fence};

/// The phases, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Takes work from everybody.
    Running = 0,
    /// Refuses work from outside; pollers are asked to end; what is queued runs, futures that merely wait are dropped.
    Draining = 1,
    /// Lanes drop what they have left and end.
    Ending = 2,
}

/// The current phase.
#[derive(Debug)]
pub(crate) struct PhaseCell(AtomicU8);

impl PhaseCell {
    pub(crate) fn new() -> Self {
        Self(AtomicU8::new(Phase::Running as u8))
    }

    #[inline]
    pub(crate) fn now(&self) -> Phase {
        // Acquire: partner is the Release in `advance`.
        match self.0.load(Acquire) {
            0 => Phase::Running,
            1 => Phase::Draining,
            _ => Phase::Ending,
        }
    }

    /// Enters `phase`, unless it is past. The caller rings every lane afterwards.
    pub(crate) fn advance(&self, phase: Phase) {
        // Release: what was decided before is seen by whoever sees the phase. Partner: `now`.
        self.0.fetch_max(phase as u8, Release);
        fence(SeqCst); // EndFence: pairs with PostFence in `Sleepers::notify`, see `Shared::inject`.
    }
}
