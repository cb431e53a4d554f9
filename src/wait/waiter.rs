//! Carries out a doze: waits in user mode for so many ticks, and looks for news meanwhile.
//!
//! Pauses come in slices; before each slice it asks whether something came, after each it looks at the clock. So a doze
//! ends at most one slice after either, whatever a PAUSE takes. It also ends when the clock stands still or PAUSE takes
//! no time: pauses are counted too. Nothing relies on a doze being as long as asked; every return is a reason to poll
//! again, no more.

use super::clock::{Spin, Ticks};

/// How a lane dozes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    /// Ticks that a PAUSE takes, at least 1.
    pause: u64,
    /// Pauses in a full slice.
    slice: u64,
}

/// How a doze went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dozed {
    /// When it ended; with the instant it began, what it really took.
    pub(crate) until: Ticks,
    /// Why it ended.
    pub(crate) ended: Ended,
}

/// Why a doze ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The time asked for is over, give or take one pause, or should be by the number of pauses.
    Deadline,
    /// Something came.
    Interrupted,
}

/// Pauses in a slice: about a sixth of a microsecond between two looks where a PAUSE takes 18 ns, a third where it
/// takes 43 ns, with a twelfth of the doze spent on looking.
const SLICE_MAX: u64 = 8;
/// A doze ends after so many times the pauses that should have filled it. The calibrated figure may be too long by this
/// much (a lane moved to a faster kind of core) before a doze falls short of what was asked.
const PAUSES_EXCESS: u64 = 4;

impl Waiter {
    /// `pause`: ticks that a PAUSE takes. `unseen_max`: ticks that news may lie unseen, which shortens the slices if
    /// need be.
    pub(crate) fn new(pause: u64, unseen_max: u64) -> Self {
        let pause = pause.max(1);
        Self { pause, slice: (unseen_max / pause).clamp(1, SLICE_MAX) }
    }

    /// Waits `ticks` from `from`, the instant at which the caller last looked at the clock, or until `interrupted`
    /// answers true.
    ///
    /// `interrupted` is asked before every slice, the first one included: what came before the doze is not slept
    /// through. It is not asked after the last, because the pass that follows looks anyway. A doze takes no more than
    /// one slice longer than asked, unless the thread is preempted.
    #[inline]
    pub(crate) fn doze(
        &self,
        cpu: &impl Spin,
        from: Ticks,
        ticks: u64,
        mut interrupted: impl FnMut() -> bool,
    ) -> Dozed {
        let mut until = from;
        let mut left = ticks;
        // What the pauses should take by calibration, against a clock that does not advance.
        let mut allowance = ticks.saturating_mul(PAUSES_EXCESS);
        loop {
            if interrupted() {
                return Dozed { until, ended: Ended::Interrupted };
            }
            let pauses = (left / self.pause).clamp(1, self.slice);
            for _ in 0..pauses {
                cpu.pause();
            }
            until = cpu.now();
            left = ticks.saturating_sub(until.since(from));
            allowance = allowance.saturating_sub(pauses * self.pause);
            if left < self.pause || allowance == 0 {
                return Dozed { until, ended: Ended::Deadline };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A cpu in virtual time: what a PAUSE really takes, and what reading the clock costs.
    #[derive(Default)]
    struct Cpu {
        now: Cell<u64>,
        pause: u64,
        reading: u64,
        pauses: Cell<u64>,
    }

    impl Spin for Cpu {
        fn now(&self) -> Ticks {
            self.now.set(self.now.get() + self.reading);
            Ticks(self.now.get())
        }
        fn pause(&self) {
            self.pauses.set(self.pauses.get() + 1);
            self.now.set(self.now.get() + self.pause);
        }
    }

    const NEVER: fn() -> bool = || false;

    #[test]
    fn a_doze_takes_what_was_asked_within_a_slice() {
        for calibrated in [1, 10, 42, 140] {
            let waiter = Waiter::new(calibrated, u64::MAX);
            // What it really takes: as calibrated, longer (another kind of core), shorter.
            for pause in [calibrated, calibrated * 15, calibrated.div_ceil(3)] {
                for asked in [1, 42, 100, 1_000, 2_300, 9_200, 1_000_000] {
                    let cpu = Cpu { pause, reading: 13, ..Cpu::default() };
                    let dozed = waiter.doze(&cpu, Ticks(0), asked, NEVER);
                    let took = dozed.until.since(Ticks(0));
                    assert_eq!(dozed.ended, Ended::Deadline);
                    assert!(took <= asked + SLICE_MAX * pause + 13, "{asked} took {took}, PAUSE {pause}/{calibrated}");
                    assert!(took + calibrated >= asked, "{asked} took {took}, PAUSE {pause}/{calibrated}");
                }
            }
        }
    }

    #[test]
    fn news_end_a_doze_within_a_slice() {
        let (pause, asked) = (42, 10_000);
        let waiter = Waiter::new(pause, u64::MAX);
        for news_at in [0, 1, 335, 336, 5_000, 9_000] {
            let cpu = Cpu { pause, ..Cpu::default() };
            let dozed = waiter.doze(&cpu, Ticks(0), asked, || cpu.now.get() >= news_at);
            assert_eq!(dozed.ended, Ended::Interrupted);
            assert!(dozed.until.0 >= news_at && dozed.until.0 < news_at + SLICE_MAX * pause, "{news_at}: {dozed:?}");
        }
    }

    #[test]
    fn news_that_are_there_already_are_not_slept_through() {
        let cpu = Cpu { pause: 42, ..Cpu::default() };
        let dozed = Waiter::new(42, u64::MAX).doze(&cpu, Ticks(7), 1_000, || true);
        assert_eq!(dozed, Dozed { until: Ticks(7), ended: Ended::Interrupted });
        assert_eq!(cpu.pauses.get(), 0);
    }

    #[test]
    fn slices_are_no_longer_than_news_may_lie() {
        for (pause, unseen_max, slice) in
            [(42, u64::MAX, 8), (42, 200, 4), (42, 41, 1), (42, 0, 1), (0, 0, 1), (140, 1_000, 7)]
        {
            assert_eq!(Waiter::new(pause, unseen_max).slice, slice, "PAUSE {pause}, {unseen_max}");
        }
    }

    #[test]
    fn a_doze_ends_without_time() {
        // Neither the clock nor PAUSE takes any.
        let cpu = Cpu::default();
        let dozed = Waiter::new(42, u64::MAX).doze(&cpu, Ticks(0), 10_000, NEVER);
        assert_eq!(dozed.ended, Ended::Deadline);
        let wanted = 10_000_u64.div_ceil(42) * PAUSES_EXCESS;
        assert!(cpu.pauses.get().abs_diff(wanted) <= SLICE_MAX, "{} pauses for {wanted}", cpu.pauses.get());
    }

    #[test]
    fn a_doze_ends_when_time_runs_backwards_or_leaps() {
        struct Broken(Cell<u64>, fn(u64) -> u64);
        impl Spin for Broken {
            fn now(&self) -> Ticks {
                self.0.set((self.1)(self.0.get()));
                Ticks(self.0.get())
            }
            fn pause(&self) {}
        }
        let waiter = Waiter::new(42, u64::MAX);
        let back =
            waiter.doze(&Broken(Cell::new(1 << 40), |now| now.saturating_sub(1_000)), Ticks(1 << 40), 10_000, NEVER);
        assert_eq!(back.ended, Ended::Deadline);
        let leap = waiter.doze(&Broken(Cell::new(0), |_| u64::MAX), Ticks(0), 10_000, NEVER);
        assert_eq!(leap, Dozed { until: Ticks(u64::MAX), ended: Ended::Deadline });
    }

    #[test]
    fn a_doze_of_one_pause_is_one_pause() {
        for asked in [0, 1, 41, 42, 83] {
            let cpu = Cpu { pause: 42, reading: 13, ..Cpu::default() };
            Waiter::new(42, u64::MAX).doze(&cpu, Ticks(0), asked, NEVER);
            assert_eq!(cpu.pauses.get(), 1, "{asked}");
        }
    }
}
