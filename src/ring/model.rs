//! What the loom models (`tests/loom_ring.rs`) need beside the rings' own ends: a lane, as far as rings know one.

use super::{Arc, Consumer};
use crate::sched::doorbell::{self, Wake};
use crate::sched::model::Epoch;

/// In the place of [`crate::poll::Doorbell`]: a lane that parks on its futex.
#[derive(Clone, Debug)]
pub struct Doorbell(Arc<doorbell::Doorbell>);

impl Doorbell {
    #[allow(clippy::new_without_default)] // nobody asks for a default of it
    pub fn new() -> Self {
        Self(Arc::new(doorbell::Doorbell::new()))
    }

    pub fn ring(&self) {
        // The futex is woken already, and this lane has no eventfd.
        let (Wake::NotNeeded | Wake::Futex | Wake::Eventfd) = self.0.ring(|| ());
    }

    /// Waits as a lane does, once its pollers' `before_wait` was called. `pass` is the full pass; `true` keeps the lane awake.
    pub fn park(&self, seen: Epoch, pass: impl FnOnce() -> bool) {
        self.0.announce(doorbell::ParkIn::Futex);
        if !pass() && self.0.epoch() == seen.0 {
            self.0.block(seen.0, None);
        }
        self.0.retract();
    }

    pub fn epoch(&self) -> Epoch {
        Epoch(self.0.epoch())
    }
}

impl<T> Consumer<T> {
    /// What a ring poller's first call on a lane does.
    pub fn come_to(&self, lane: &Doorbell) {
        self.hang(lane.clone());
    }

    /// What its `before_wait` does.
    pub fn before_wait(&self) {
        self.expect();
    }
}
