//! Is a work queue worth a submission? One word, with named transitions.
//!
//! ```text
//!         (1) an answer is overdue           (3) it is known to be dead
//!   Up ─────────────────────────► Suspect ─────────────────────────────► Dead(why)
//!    ▲                               │                                      ▲
//!    └───────────────────────────────┘                                      │
//!         (2) an answer came                                                │
//!   Up ─────────────────────────────────────────────────────────────────────┘ (3)
//! ```
//!
//! Dead is final: a queue that is enabled again is opened again, and that is another [`Queue`](super::Queue). The first reason stays.

use crate::offload::dsa::portal::Death;
use crate::sync::atomic::{AtomicU64, Ordering::*};

/// What a submitter should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// It answers.
    Up,
    /// An answer is overdue: submit nothing until one comes, or until it is dead.
    Suspect,
    /// It accepts nothing any more.
    Dead(Death),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Health {
    /// Low byte: one of the constants below. High half: an errno.
    word: AtomicU64,
}

const UP: u64 = 0;
const SUSPECT: u64 = 1;
const DISABLED: u64 = 2;
const HALTED: u64 = 3;
const GONE: u64 = 4;
const FORKED: u64 = 5;
const ERRNO: u64 = 6;
const SILENT: u64 = 7;
const RETIRED: u64 = 8;
const ERRNO_SHIFT: u32 = 32;

impl Health {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(UP) }
    }

    /// The one load of a submission.
    #[inline]
    pub(crate) fn is_up(&self) -> bool {
        // Relaxed: advice. The portal finds out by itself what has died since.
        self.word.load(Relaxed) == UP
    }

    pub(crate) fn condition(&self) -> Condition {
        // Relaxed: a report; the word carries all of it.
        decode(self.word.load(Relaxed))
    }

    /// Edge 1. `false`: it was not up.
    pub(crate) fn suspect(&self) -> bool {
        // Relaxed: the word stands for itself, nothing is published with it.
        self.word.compare_exchange(UP, SUSPECT, Relaxed, Relaxed).is_ok()
    }

    /// Edge 2: it answered after all. `false`: it was not suspected.
    pub(crate) fn clear(&self) -> bool {
        // Relaxed: as in `suspect`.
        self.word.compare_exchange(SUSPECT, UP, Relaxed, Relaxed).is_ok()
    }

    /// Edge 3, from wherever it was. `false`: it was dead before, and keeps its first reason.
    pub(crate) fn die(&self, death: Death) -> bool {
        let dead = encode(death);
        let mut word = self.word.load(Relaxed); // Relaxed: the exchange decides.
        while word == UP || word == SUSPECT {
            // Relaxed: as in `suspect`. Ends: only edges 1 and 2 can make it fail, and dead ends the loop.
            match self.word.compare_exchange(word, dead, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

fn encode(death: Death) -> u64 {
    match death {
        Death::Disabled => DISABLED,
        Death::Halted => HALTED,
        Death::Gone => GONE,
        Death::Forked => FORKED,
        // Truncation is meant: the bits of an i32, upwards.
        Death::Errno(errno) => ERRNO | u64::from(errno as u32) << ERRNO_SHIFT,
        Death::Silent => SILENT,
        Death::Retired => RETIRED,
    }
}

fn decode(word: u64) -> Condition {
    Condition::Dead(match word & 0xff {
        UP => return Condition::Up,
        SUSPECT => return Condition::Suspect,
        DISABLED => Death::Disabled,
        HALTED => Death::Halted,
        GONE => Death::Gone,
        FORKED => Death::Forked,
        ERRNO => Death::Errno((word >> ERRNO_SHIFT) as u32 as i32),
        SILENT => Death::Silent,
        // `encode` makes no other.
        _ => Death::Retired,
    })
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_death_is_told_as_it_was() {
        for death in [
            Death::Disabled,
            Death::Halted,
            Death::Gone,
            Death::Forked,
            Death::Errno(libc::EPERM),
            Death::Errno(-1),
            Death::Silent,
            Death::Retired,
        ] {
            let health = Health::new();
            assert!(health.die(death));
            assert_eq!(health.condition(), Condition::Dead(death));
            assert!(!health.is_up());
        }
    }

    #[test]
    fn the_edges_are_those_of_the_diagram() {
        let health = Health::new();
        assert!(!health.clear(), "nobody suspects it");
        assert!(health.suspect());
        assert!(!health.suspect(), "once");
        assert_eq!(health.condition(), Condition::Suspect);
        assert!(!health.is_up());
        assert!(health.clear());
        assert!(health.is_up());
        assert!(health.suspect() && health.die(Death::Silent));
        assert!(!health.die(Death::Halted), "the first reason stays");
        assert!(!health.clear() && !health.suspect(), "dead is final");
        assert_eq!(health.condition(), Condition::Dead(Death::Silent));
    }
}
