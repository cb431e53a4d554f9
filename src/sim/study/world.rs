//! What everything costs: the device and its instructions, and the software around them.

use crate::sim::dsa::{QueueMode, Timing};
use crate::sim::lab::Dice;

/// A machine to copy on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct World {
    /// The device, the instructions that submit to it, and the cpu's copies.
    pub timing: Timing,
    /// The library around them.
    pub software: Software,
    /// Shared: ENQCMD. Dedicated: MOVDIR64B.
    pub queue: QueueMode,
}

/// The core's time for what a library does around a submission, in nanoseconds. Fitted: half a hundred instructions each, at about two a nanosecond. Every
/// policy pays the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Software {
    /// Before the submission: a slot, a descriptor, a cleared record.
    pub prepare_ns: f64,
    /// After it: the record is read, the task woken.
    pub reap_ns: f64,
}

impl Default for World {
    fn default() -> Self {
        let software = Software { prepare_ns: 25.0, reap_ns: 15.0 };
        Self { timing: Timing::default(), software, queue: QueueMode::Shared }
    }
}

impl World {
    /// Another machine: every parameter within 50 % either way, each by itself; odd seeds have a dedicated queue.
    pub fn drawn(seed: u64) -> Self {
        let usual = Self::default();
        // Not the seeds of `Timing`, or the first factors would be the same.
        let mut dice = Dice::new(!seed);
        let mut around = |usual: f64| usual * (0.5 + dice.unit());
        let software =
            Software { prepare_ns: around(usual.software.prepare_ns), reap_ns: around(usual.software.reap_ns) };
        let queue = if seed % 2 == 1 { QueueMode::Dedicated } else { QueueMode::Shared };
        Self { timing: usual.timing.drawn(seed), software, queue }
    }

    /// The core's time for one portal write.
    pub fn submit_ns(&self) -> f64 {
        match self.queue {
            QueueMode::Shared => self.timing.enqcmd_ns,
            QueueMode::Dedicated => self.timing.movdir64b_ns,
        }
    }

    /// The cpu's own copy, of data that is in no cache.
    pub fn cpu_ns(&self, bytes: usize) -> f64 {
        self.timing.cpu_copy_ns(bytes as u64, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_worlds_stay_within_half_and_have_both_kinds_of_queue() {
        let usual = World::default();
        for seed in 0..50 {
            let drawn = World::drawn(seed);
            for (drawn, usual) in [
                (drawn.software.prepare_ns, usual.software.prepare_ns),
                (drawn.software.reap_ns, usual.software.reap_ns),
                (drawn.timing.latency_ns, usual.timing.latency_ns),
            ] {
                assert!((0.5..=1.5).contains(&(drawn / usual)) && drawn != usual, "seed {seed}: {drawn} for {usual}");
            }
            assert_eq!(drawn, World::drawn(seed), "seed {seed}");
            assert_eq!(drawn.queue == QueueMode::Dedicated, seed % 2 == 1);
        }
        assert!(World::drawn(0).submit_ns() > World::drawn(1).submit_ns());
    }
}
