//! Events as a producer makes them: a stamp in memory, at random instants, seen by whoever looks at its place.

use std::sync::atomic::{AtomicU64, Ordering::*};

use crate::common::ticks;
use crate::common::work::Gaps;

/// Events of a slot; at [`MEAN_GAP_NS`], 40 ms of them.
pub const EVENTS: usize = 800;
/// 20 000 events a second, at random instants: most find the lane idle for long.
pub const MEAN_GAP_NS: f64 = 50_000.0;
/// The producer has nothing more.
const END: u64 = u64::MAX;

/// A place for each event, in order, so that none is overwritten before it is seen. Each on a line of its own: what one event costs does not depend on the
/// one before.
pub struct Events(Box<[Place]>);

#[repr(align(64))]
struct Place(AtomicU64);

/// What a look at a place found.
pub enum Look {
    Nothing,
    /// An event that was stamped then.
    Event(u64),
    /// There will be no more.
    End,
}

impl Events {
    pub fn new() -> Self {
        Self((0..=EVENTS).map(|_| Place(AtomicU64::new(0))).collect())
    }

    /// Makes all events, on the calling thread, and returns when the last one is made. `seed` chooses the instants.
    pub fn produce(&self, seed: u64) {
        let mut gaps = Gaps::new(MEAN_GAP_NS, seed);
        let mut due = ticks::now();
        for place in &self.0[..EVENTS] {
            due += gaps.next();
            while ticks::now() < due {
                std::hint::spin_loop();
            }
            // Release: as a producer would publish what the stamp stands for. Partner: the Acquire load in `look`.
            place.0.store(ticks::now(), Release);
        }
        self.0[EVENTS].0.store(END, Release);
    }

    /// What is at the `n`th place.
    #[inline]
    pub fn look(&self, n: usize) -> Look {
        // Acquire: partner is the Release store in `produce`.
        match self.0[n].0.load(Acquire) {
            0 => Look::Nothing,
            END => Look::End,
            stamp => Look::Event(stamp),
        }
    }
}
