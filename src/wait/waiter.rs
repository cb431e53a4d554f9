//! Carries out a doze: waits in user mode for so many ticks, and no longer than news may lie.
//!
//! By which instruction is [`choose`]'s decision. Short waits, and all of them where the cpu has nothing better, are PAUSEs
//! in slices: before each slice it asks whether something came, after each it looks at the clock, and at the word of a poller that is watched. So a doze ends at most
//! one slice after either, whatever a PAUSE takes. It also ends when the clock stands still or PAUSE takes no time: pauses
//! are counted too. Longer waits are one instruction, which sleeps until the time is over or, if there is a word to
//! watch, until that is written: the monitor is armed, the word is looked at again, and only then the cpu waits.
//!
//! Nothing relies on a doze being as long as asked. An instruction may return at once, every time, for no reason; every
//! return is a reason to poll again, no more, and none is made up for by waiting again here.

use super::clock::{Clock, Spin, Ticks};
use super::means::Means;
use crate::arch::{self, Depth, Instruction, Span, Watch, Woke};

/// How a lane dozes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    /// Ticks that a PAUSE takes, at least 1.
    pause: u64,
    /// Pauses in a full slice.
    slice: u64,
    limits: Limits,
    means: Means,
}

/// What no doze exceeds, in ticks, whatever is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// How long a doze may last at all.
    pub(crate) doze_max: u64,
    /// How long the lane's doorbell may ring unheard.
    pub(crate) unheard_max: u64,
}

/// The word whose change ends a doze early, where a monitor can watch it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wakeup<'a> {
    /// The lane's doorbell.
    Doorbell(Watch<'a>),
    /// A poller's own word. The doorbell is not heard meanwhile.
    Peek(Watch<'a>),
}

/// By what a doze is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// PAUSEs, and a look for news between two slices of them.
    Pauses,
    /// One wait for the time.
    Timed(Instruction, Depth),
    /// One wait for the time or for a store.
    Monitored(Instruction, Depth),
}

/// How a doze went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dozed {
    /// When it ended; with the instant it began, what it really took.
    pub(crate) until: Ticks,
    /// Why it ended.
    pub(crate) ended: Ended,
    /// By what it was carried out.
    pub(crate) how: How,
}

/// Why a doze ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The time asked for is over, give or take one pause, or should be by the number of pauses.
    Deadline,
    /// Something came.
    Interrupted,
    /// The operating system's limit for one wait.
    OsLimit,
    /// A poller's word was written; or the instruction returned for another reason: an interrupt came, or nothing happened.
    Early,
}

/// What a doze needs of the cpu beyond spinning. A [`Clock`] is the real one.
pub(crate) trait Waits: Spin {
    /// As [`arch::wait`].
    fn wait(&self, by: Instruction, depth: Depth, span: Span) -> Woke;
    /// As [`arch::wait_on`].
    fn wait_on(&self, by: Instruction, depth: Depth, watch: &Watch<'_>, span: Span) -> Woke;
}

impl Waits for Clock {
    #[inline]
    fn wait(&self, by: Instruction, depth: Depth, span: Span) -> Woke {
        arch::wait(by, depth, span)
    }
    #[inline]
    fn wait_on(&self, by: Instruction, depth: Depth, watch: &Watch<'_>, span: Span) -> Woke {
        arch::wait_on(by, depth, watch, span)
    }
}

/// Pauses in a slice: about a sixth of a microsecond between two looks where a PAUSE takes 18 ns, a third where it
/// takes 43 ns, with a twelfth of the doze spent on looking.
const SLICE_MAX: u64 = 8;
/// A doze ends after so many times the pauses that should have filled it. The calibrated figure may be too long by this
/// much (a lane moved to a faster kind of core) before a doze falls short of what was asked.
const PAUSES_EXCESS: u64 = 4;

/// By what to wait for `ticks`, with a word to watch or without.
#[inline]
fn choose(ticks: u64, means: &Means, word: bool) -> How {
    match means.instruction {
        Some(instruction) if ticks >= means.shortest => {
            let depth = means.depth(ticks);
            if word && means.monitors { How::Monitored(instruction, depth) } else { How::Timed(instruction, depth) }
        }
        _ => How::Pauses,
    }
}

impl Waiter {
    /// `pause`: ticks that a PAUSE takes.
    pub(crate) fn new(pause: u64, limits: Limits, means: Means) -> Self {
        let pause = pause.max(1);
        Self { pause, slice: (limits.unheard_max / pause).clamp(1, SLICE_MAX), limits, means }
    }

    /// Whether there is an instruction whose wait a store ends.
    #[inline]
    pub(crate) fn monitors(&self) -> bool {
        self.means.monitors
    }

    /// What a doze of so many ticks takes, if that is one PAUSE and no instruction is better: short enough to be done without a look at the clock.
    #[inline]
    pub(crate) fn one_pause(&self, ticks: u64) -> Option<u64> {
        let one = ticks < 2 * self.pause && choose(ticks, &self.means, false) == How::Pauses;
        one.then_some(self.pause)
    }

    /// Ticks between two looks for news in a doze of PAUSEs, at most: what leaving one takes.
    pub(crate) fn look_every(&self) -> u64 {
        self.slice.saturating_mul(self.pause)
    }

    /// What a PAUSE takes, measured anew.
    pub(crate) fn recalibrated(&mut self, pause: u64) {
        *self = Self::new(pause, self.limits, self.means);
    }

    /// Other limits.
    pub(crate) fn limit(&mut self, limits: Limits) {
        *self = Self::new(self.pause, limits, self.means);
    }

    /// Waits `ticks` from `from`, the instant at which the caller last looked at the clock, or until `interrupted`
    /// answers true, or until `wakeup` is written; with `None` the time has to run out. Where no instruction tells of the store, a poller's word
    /// is looked at between two slices of PAUSEs: a load of a line that stays in this cpu's cache until somebody writes it.
    ///
    /// `interrupted` is asked before every wait, the first one included: what came before the doze is not slept through.
    /// It is not asked after the last slice of PAUSEs, because the pass that follows looks anyway. A doze takes no more
    /// than one slice longer than asked, unless the thread is preempted or the cpu oversleeps.
    #[inline]
    pub(crate) fn doze(
        &self,
        cpu: &impl Waits,
        from: Ticks,
        ticks: u64,
        wakeup: Option<Wakeup<'_>>,
        mut interrupted: impl FnMut() -> bool,
    ) -> Dozed {
        let ticks = ticks.min(self.limits.doze_max);
        let how = choose(ticks, &self.means, wakeup.is_some());
        if how == How::Pauses {
            let word = match &wakeup {
                Some(Wakeup::Peek(watch)) => Some(watch),
                // `interrupted` looks at the doorbell.
                Some(Wakeup::Doorbell(_)) | None => None,
            };
            return self.pauses(cpu, from, ticks, word, interrupted);
        }
        if interrupted() {
            return Dozed { until: from, ended: Ended::Interrupted, how };
        }
        let (ticks, woke) = match (how, wakeup) {
            (How::Monitored(by, depth), Some(Wakeup::Doorbell(watch))) => {
                (ticks, cpu.wait_on(by, depth, &watch, Span { from: from.0, ticks }))
            }
            (How::Monitored(by, depth), Some(Wakeup::Peek(watch))) => {
                let ticks = ticks.min(self.limits.unheard_max);
                (ticks, cpu.wait_on(by, depth, &watch, Span { from: from.0, ticks }))
            }
            (How::Monitored(by, depth) | How::Timed(by, depth), _) => {
                let ticks = ticks.min(self.limits.unheard_max);
                (ticks, cpu.wait(by, depth, Span { from: from.0, ticks }))
            }
            (How::Pauses, _) => (ticks, Woke::AtOnce), // went its way above
        };
        let until = cpu.now();
        let ended = match woke {
            _ if interrupted() => Ended::Interrupted,
            Woke::OsLimit => Ended::OsLimit,
            _ if until.since(from).saturating_add(self.pause) >= ticks => Ended::Deadline,
            _ => Ended::Early,
        };
        Dozed { until, ended, how }
    }

    /// Waits by PAUSEs, whatever the limits of dozes are, until `interrupted`. Returns when it ended. For lanes that have no pollers.
    pub(crate) fn rest(&self, cpu: &impl Waits, from: Ticks, ticks: u64, interrupted: impl FnMut() -> bool) -> Ticks {
        self.pauses(cpu, from, ticks, None, interrupted).until
    }

    /// A doze of PAUSEs.
    #[inline]
    fn pauses(
        &self,
        cpu: &impl Spin,
        from: Ticks,
        ticks: u64,
        word: Option<&Watch<'_>>,
        mut interrupted: impl FnMut() -> bool,
    ) -> Dozed {
        let how = How::Pauses;
        let mut until = from;
        let mut left = ticks;
        // What the pauses should take by calibration, against a clock that does not advance.
        let mut allowance = ticks.saturating_mul(PAUSES_EXCESS);
        loop {
            if interrupted() {
                return Dozed { until, ended: Ended::Interrupted, how };
            }
            let pauses = (left / self.pause).clamp(1, self.slice);
            for _ in 0..pauses {
                cpu.pause();
            }
            until = cpu.now();
            left = ticks.saturating_sub(until.since(from));
            allowance = allowance.saturating_sub(pauses * self.pause);
            // After the last slice, too: what came during it is late by no more than that, whatever the doze took.
            if word.is_some_and(|word| !word.is_quiet()) {
                return Dozed { until, ended: Ended::Early, how };
            }
            if left < self.pause || allowance == 0 {
                return Dozed { until, ended: Ended::Deadline, how };
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

    impl Waits for Cpu {
        fn wait(&self, _: Instruction, _: Depth, _: Span) -> Woke {
            unreachable!("this cpu has only PAUSE")
        }
        fn wait_on(&self, _: Instruction, _: Depth, _: &Watch<'_>, _: Span) -> Woke {
            unreachable!("this cpu has only PAUSE")
        }
    }

    const NEVER: fn() -> bool = || false;

    const NO_LIMITS: Limits = Limits { doze_max: u64::MAX, unheard_max: u64::MAX };

    fn with_pause(pause: u64) -> Waiter {
        Waiter::new(pause, NO_LIMITS, Means::PAUSE)
    }

    #[test]
    fn what_one_pause_does_is_told_apart() {
        let waiter = with_pause(42);
        for (ticks, want) in [(1, Some(42)), (42, Some(42)), (83, Some(42)), (84, None), (1_000, None)] {
            assert_eq!(waiter.one_pause(ticks), want, "{ticks}");
        }
    }

    #[test]
    fn a_doze_takes_what_was_asked_within_a_slice() {
        for calibrated in [1, 10, 42, 140] {
            let waiter = with_pause(calibrated);
            // What it really takes: as calibrated, longer (another kind of core), shorter.
            for pause in [calibrated, calibrated * 15, calibrated.div_ceil(3)] {
                for asked in [1, 42, 100, 1_000, 2_300, 9_200, 1_000_000] {
                    let cpu = Cpu { pause, reading: 13, ..Cpu::default() };
                    let dozed = waiter.doze(&cpu, Ticks(0), asked, None, NEVER);
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
        let waiter = with_pause(pause);
        for news_at in [0, 1, 335, 336, 5_000, 9_000] {
            let cpu = Cpu { pause, ..Cpu::default() };
            let dozed = waiter.doze(&cpu, Ticks(0), asked, None, || cpu.now.get() >= news_at);
            assert_eq!(dozed.ended, Ended::Interrupted);
            assert!(dozed.until.0 >= news_at && dozed.until.0 < news_at + SLICE_MAX * pause, "{news_at}: {dozed:?}");
        }
    }

    #[test]
    fn news_that_are_there_already_are_not_slept_through() {
        let cpu = Cpu { pause: 42, ..Cpu::default() };
        let dozed = with_pause(42).doze(&cpu, Ticks(7), 1_000, None, || true);
        assert_eq!(dozed, Dozed { until: Ticks(7), ended: Ended::Interrupted, how: How::Pauses });
        assert_eq!(cpu.pauses.get(), 0);
    }

    #[test]
    fn a_pollers_word_ends_a_doze_of_pauses_within_a_slice() {
        use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
        /// Writes the word at an instant.
        struct Producer<'a>(Cpu, u64, &'a AtomicU32);
        impl Spin for Producer<'_> {
            fn now(&self) -> Ticks {
                self.0.now()
            }
            fn pause(&self) {
                self.0.pause();
                self.2.store(u32::from(self.0.now.get() >= self.1), Relaxed);
            }
        }
        impl Waits for Producer<'_> {
            fn wait(&self, _: Instruction, _: Depth, _: Span) -> Woke {
                unreachable!("this cpu has only PAUSE")
            }
            fn wait_on(&self, _: Instruction, _: Depth, _: &Watch<'_>, _: Span) -> Woke {
                unreachable!("this cpu has only PAUSE")
            }
        }
        let (pause, asked) = (42, 10_000);
        let waiter = with_pause(pause);
        assert_eq!(waiter.look_every(), SLICE_MAX * pause);
        for written_at in [1, 336, 337, 5_000, 9_000, 9_990] {
            let word = AtomicU32::new(0);
            let cpu = Producer(Cpu { pause, ..Cpu::default() }, written_at, &word);
            let watch = Watch::while_equal(&word, 0);
            let dozed = waiter.doze(&cpu, Ticks(0), asked, Some(Wakeup::Peek(watch)), NEVER);
            assert_eq!((dozed.ended, dozed.how), (Ended::Early, How::Pauses), "{written_at}");
            let until = dozed.until.0;
            assert!(until >= written_at && until < written_at + waiter.look_every(), "{written_at}: {until}");
        }
        // The doorbell's word is for `interrupted` to look at.
        let word = AtomicU32::new(0);
        let cpu = Producer(Cpu { pause, ..Cpu::default() }, 1, &word);
        let dozed = waiter.doze(&cpu, Ticks(0), asked, Some(Wakeup::Doorbell(Watch::while_equal(&word, 0))), NEVER);
        assert_eq!(dozed.ended, Ended::Deadline);
    }

    #[test]
    fn slices_are_no_longer_than_news_may_lie() {
        for (pause, unseen_max, slice) in
            [(42, u64::MAX, 8), (42, 200, 4), (42, 41, 1), (42, 0, 1), (0, 0, 1), (140, 1_000, 7)]
        {
            let limits = Limits { unheard_max: unseen_max, ..NO_LIMITS };
            let waiter = Waiter::new(pause, limits, Means::PAUSE);
            assert_eq!(waiter.slice, slice, "PAUSE {pause}, {unseen_max}");
        }
    }

    #[test]
    fn a_doze_ends_without_time() {
        // Neither the clock nor PAUSE takes any.
        let cpu = Cpu::default();
        let dozed = with_pause(42).doze(&cpu, Ticks(0), 10_000, None, NEVER);
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
        impl Waits for Broken {
            fn wait(&self, _: Instruction, _: Depth, _: Span) -> Woke {
                Woke::Somehow
            }
            fn wait_on(&self, _: Instruction, _: Depth, _: &Watch<'_>, _: Span) -> Woke {
                Woke::Somehow
            }
        }
        let waiter = with_pause(42);
        let back = waiter.doze(
            &Broken(Cell::new(1 << 40), |now| now.saturating_sub(1_000)),
            Ticks(1 << 40),
            10_000,
            None,
            NEVER,
        );
        assert_eq!(back.ended, Ended::Deadline);
        let leap = waiter.doze(&Broken(Cell::new(0), |_| u64::MAX), Ticks(0), 10_000, None, NEVER);
        assert_eq!(leap, Dozed { until: Ticks(u64::MAX), ended: Ended::Deadline, how: How::Pauses });
    }

    #[test]
    fn a_doze_of_one_pause_is_one_pause() {
        for asked in [0, 1, 41, 42, 83] {
            let cpu = Cpu { pause: 42, reading: 13, ..Cpu::default() };
            with_pause(42).doze(&cpu, Ticks(0), asked, None, NEVER);
            assert_eq!(cpu.pauses.get(), 1, "{asked}");
        }
    }

    /// A cpu with wait instructions, in virtual time.
    struct Sleeper {
        now: Cell<u64>,
        /// Makes of the wait asked for the wait that it is.
        sleep: fn(u64) -> (u64, Woke),
        /// The word is written after so many ticks of a wait, if a monitor watches it.
        written_after: u64,
        asked: Cell<Option<(How, u64)>>,
    }

    impl Sleeper {
        fn new(sleep: fn(u64) -> (u64, Woke)) -> Self {
            Self { now: Cell::new(0), sleep, written_after: u64::MAX, asked: Cell::new(None) }
        }
        fn pass(&self, how: How, span: Span, at_most: u64) -> Woke {
            self.asked.set(Some((how, span.ticks)));
            let (took, woke) = (self.sleep)(span.left(self.now.get()));
            self.now.set(self.now.get() + took.min(at_most));
            if took > at_most { Woke::Somehow } else { woke }
        }
    }

    impl Spin for Sleeper {
        fn now(&self) -> Ticks {
            Ticks(self.now.get())
        }
        fn pause(&self) {
            self.now.set(self.now.get() + 42);
        }
    }

    impl Waits for Sleeper {
        fn wait(&self, by: Instruction, depth: Depth, span: Span) -> Woke {
            self.pass(How::Timed(by, depth), span, u64::MAX)
        }
        fn wait_on(&self, by: Instruction, depth: Depth, _: &Watch<'_>, span: Span) -> Woke {
            self.pass(How::Monitored(by, depth), span, self.written_after)
        }
    }

    fn waitpkg() -> Instruction {
        crate::arch::Capabilities::default().with_emulated_waitpkg().wait_instruction().expect("just put there")
    }

    fn all_means() -> Means {
        Means { instruction: Some(waitpkg()), monitors: true, shortest: 100, light_below: 400 }
    }

    const LIMITS: Limits = Limits { doze_max: 10_000, unheard_max: 4_000 };

    #[test]
    fn the_time_the_means_and_the_word_decide_how() {
        use Depth::{Deep, Light};
        let no_monitor = Means { monitors: false, ..all_means() };
        for (ticks, means, word, how) in [
            (99, all_means(), true, How::Pauses),
            (100, all_means(), true, How::Monitored(waitpkg(), Light)),
            (100, all_means(), false, How::Timed(waitpkg(), Light)),
            (400, all_means(), true, How::Monitored(waitpkg(), Deep)),
            (400, no_monitor, true, How::Timed(waitpkg(), Deep)),
            (u64::MAX, Means::PAUSE, true, How::Pauses),
            (u64::MAX - 1, Means::PAUSE, false, How::Pauses),
            (0, all_means(), true, How::Pauses),
        ] {
            assert_eq!(choose(ticks, &means, word), how, "{ticks} ticks, word {word}");
        }
    }

    #[test]
    fn no_wait_is_issued_beyond_the_limits() {
        static WORD: crate::sync::atomic::AtomicU32 = crate::sync::atomic::AtomicU32::new(0);
        let word = Watch::while_equal(&WORD, 0);
        let bell = Some(Wakeup::Doorbell(word));
        let peek = Some(Wakeup::Peek(word));
        for (wakeup, asked, issued, why) in [
            (bell, 2_000, 2_000, "as asked"),
            (bell, u64::MAX, LIMITS.doze_max, "the longest doze"),
            (peek, 9_000, LIMITS.unheard_max, "the doorbell is not heard"),
            (None, 9_000, LIMITS.unheard_max, "nor here"),
            (None, 300, 300, "as asked"),
        ] {
            let cpu = Sleeper::new(|left| (left, Woke::Somehow));
            let dozed = Waiter::new(42, LIMITS, all_means()).doze(&cpu, Ticks(0), asked, wakeup, NEVER);
            assert_eq!(cpu.asked.get().map(|(_, ticks)| ticks), Some(issued), "{why}");
            assert_eq!((dozed.until, dozed.ended), (Ticks(issued), Ended::Deadline), "{why}");
        }
        // The limit holds for PAUSEs too.
        let cpu = Cpu { pause: 42, ..Cpu::default() };
        let dozed = Waiter::new(42, LIMITS, Means::PAUSE).doze(&cpu, Ticks(0), u64::MAX, None, NEVER);
        assert!(dozed.until.0 <= LIMITS.doze_max, "{dozed:?}");
    }

    #[test]
    fn every_return_is_reported_as_what_it_is() {
        static WORD: crate::sync::atomic::AtomicU32 = crate::sync::atomic::AtomicU32::new(0);
        let bell = Some(Wakeup::Doorbell(Watch::while_equal(&WORD, 0)));
        type Sleep = fn(u64) -> (u64, Woke);
        for (sleep, rung_at, ended, until, why) in [
            ((|left| (left, Woke::Somehow)) as Sleep, u64::MAX, Ended::Deadline, 2_000, "as asked"),
            (|left| (left - 42, Woke::Somehow), u64::MAX, Ended::Deadline, 1_958, "a pause early"),
            (|_| (0, Woke::AtOnce), u64::MAX, Ended::Early, 0, "no wait at all"),
            (|_| (0, Woke::Somehow), u64::MAX, Ended::Early, 0, "an instruction that does nothing"),
            (|_| (700, Woke::Somehow), u64::MAX, Ended::Early, 700, "a spurious return"),
            (|_| (500, Woke::OsLimit), u64::MAX, Ended::OsLimit, 500, "the kernel's limit"),
            (|_| (500, Woke::OsLimit), 500, Ended::Interrupted, 500, "the limit, and the bell"),
            (|left| (left, Woke::Somehow), 700, Ended::Interrupted, 700, "the bell"),
            (|left| (left + 230_000, Woke::Somehow), u64::MAX, Ended::Deadline, 232_000, "overslept"),
        ] {
            let cpu = Sleeper { written_after: rung_at, ..Sleeper::new(sleep) };
            let waiter = Waiter::new(42, LIMITS, all_means());
            let dozed = waiter.doze(&cpu, Ticks(0), 2_000, bell, || cpu.now.get() >= rung_at);
            assert_eq!((dozed.ended, dozed.until.0), (ended, until), "{why}");
        }
    }

    #[test]
    fn no_instruction_is_issued_with_news_at_hand() {
        let cpu = Sleeper::new(|left| (left, Woke::Somehow));
        let dozed = Waiter::new(42, LIMITS, all_means()).doze(&cpu, Ticks(7), 2_000, None, || true);
        assert_eq!((dozed.ended, dozed.until, cpu.asked.get()), (Ended::Interrupted, Ticks(7), None));
    }

    #[test]
    fn time_that_was_lost_before_the_wait_is_not_waited_for_again() {
        // The lane was preempted between its look at the clock and the wait; or the counter jumped back by an hour.
        for (now, until) in [(1_500, 2_000), (5_000, 5_000), (0, 2_000)] {
            let cpu = Sleeper::new(|left| (left, Woke::Somehow));
            cpu.now.set(now);
            let dozed = Waiter::new(42, LIMITS, all_means()).doze(&cpu, Ticks(0), 2_000, None, NEVER);
            assert_eq!((dozed.ended, dozed.until.0), (Ended::Deadline, until), "{now}");
        }
        let cpu = Sleeper::new(|left| (left, Woke::Somehow));
        let dozed = Waiter::new(42, LIMITS, all_means()).doze(&cpu, Ticks(1 << 43), 2_000, None, NEVER);
        assert_eq!((dozed.ended, dozed.until.0), (Ended::Early, 2_000), "one wait at most");
    }
}
