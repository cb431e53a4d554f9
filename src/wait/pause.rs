//! How long does a PAUSE take here? Measured on the lane's own cpu when the lane starts.
//!
//! From 10 to 190 cycles, depending on the model and on the kind of core within one machine, so no table is right. A
//! short wait is cut into so many of them; a wrong figure makes dozes coarser, never longer than asked by more than one
//! slice, since the waiter looks at the clock after every slice.

use super::clock::Spin;

/// Pauses timed together, so that reading the clock (two PAUSEs' worth) is small beside them.
const BATCH: u32 = 32;
/// Batches, of which the shortest counts: preemption, interrupts and a hypervisor's exits only ever lengthen one.
const BATCHES: u32 = 8;

/// Ticks that one PAUSE takes, at least 1. Takes [`BATCHES`] x [`BATCH`] pauses: 5 to 50 us.
///
/// Call it on the cpu that the result is for.
pub(crate) fn calibrate(cpu: &impl Spin) -> u64 {
    let shortest = |pauses: u32| (0..BATCHES).map(|_| time(cpu, pauses)).min().unwrap_or(0);
    let reading = shortest(0);
    let batch = shortest(BATCH).saturating_sub(reading);
    // Rounded to the nearest; where a pause takes less than half a tick (a coarse counter, a cpu on which it does
    // nothing), it counts as one tick, so that a wait is never cut into more pauses than it has ticks.
    (batch.saturating_add(u64::from(BATCH / 2)) / u64::from(BATCH)).max(1)
}

fn time(cpu: &impl Spin, pauses: u32) -> u64 {
    let start = cpu.now();
    for _ in 0..pauses {
        cpu.pause();
    }
    cpu.now().since(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::clock::{Clock, Ticks};
    use std::cell::Cell;

    /// A cpu in virtual time.
    struct Cpu {
        now: Cell<u64>,
        pause: u64,
        reading: u64,
        /// The `n`th pause takes this much longer: a preemption.
        late: fn(u32) -> u64,
        pauses: Cell<u32>,
    }

    impl Cpu {
        fn new(pause: u64, reading: u64, late: fn(u32) -> u64) -> Self {
            Self { now: Cell::new(1_000), pause, reading, late, pauses: Cell::new(0) }
        }
    }

    impl Spin for Cpu {
        fn now(&self) -> Ticks {
            self.now.set(self.now.get().saturating_add(self.reading));
            Ticks(self.now.get())
        }
        fn pause(&self) {
            let n = self.pauses.get();
            self.pauses.set(n + 1);
            self.now.set(self.now.get().saturating_add(self.pause).saturating_add((self.late)(n)));
        }
    }

    #[test]
    fn the_shortest_batch_counts_and_the_clock_does_not() {
        let punctual = |_| 0;
        for (pause, reading, late, wanted, why) in [
            (42, 0, punctual as fn(u32) -> u64, 42, "plain"),
            (42, 26, punctual, 42, "reading the clock is taken off"),
            (10, 26, punctual, 10, "also where it is the larger part"),
            (140, 26, (|n| if n % 64 < 32 { 50_000 } else { 0 }) as fn(u32) -> u64, 140, "every other batch preempted"),
            (42, 26, |n| if n != 40 { 0 } else { u64::MAX / 2 }, 42, "one jump of the clock"),
            (0, 26, punctual, 1, "a pause that takes no time"),
            (0, 0, punctual, 1, "a clock that stands still"),
        ] {
            assert_eq!(calibrate(&Cpu::new(pause, reading, late)), wanted, "{why}");
        }
    }

    #[test]
    fn a_coarse_counter_gives_at_least_one_tick() {
        // 25 MHz: 32 pauses of 18 ns are 14 ticks, so one is nearer to 0 than to 1.
        let coarse = Cpu::new(18, 11, |_| 0);
        struct Coarse(Cpu);
        impl Spin for Coarse {
            fn now(&self) -> Ticks {
                Ticks(self.0.now().0 / 40)
            }
            fn pause(&self) {
                self.0.pause();
            }
        }
        assert_eq!(calibrate(&Coarse(coarse)), 1);
    }

    #[test]
    fn the_real_pause_is_shorter_than_a_microsecond_and_a_half() {
        // The longest that was ever reported is 92 ns; the bound leaves room for emulators.
        let ns = Clock::monotonic().rate().ns_from_ticks(calibrate(&Clock::monotonic()));
        assert!((1..=1_500).contains(&ns), "a PAUSE took {ns} ns");
    }
}
