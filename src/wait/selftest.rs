//! Does a wait really wait? Asked on the lane's own cpu when the lane starts.
//!
//! What a cpu states is no more than that its wait instructions do not trap. Some hypervisors and emulators make them do
//! nothing, some end them at an interrupt, some trap after all; a lane would then spin, or be late, in the belief that it
//! is polite. So a few waits are timed, and what fails is left out, with the reason. Correctness does not depend on it.
//!
//! Not tested here is whether a *store* ends a monitored wait, which takes a second thread: it only ever decides how soon
//! a wait ends, never whether.

use super::clock::Rate;
use super::means::{Means, Offer, SHORTEST_NS, WaitReport, WaitWith, WhyNot};
use super::waiter::Waits;
use crate::arch::{Depth, Instruction, Span, Watch, Woke};
use crate::sync::atomic::AtomicU32;
use std::time::Duration;

/// Waits in a trial. An interrupt ends one early and a preemption late, and neither must decide.
const WAITS: usize = 8;
/// 2 us: far above the steps in which time counts, and below every limit of an operating system.
const WAIT_NS: u64 = 2_000;
/// 1 ms: the longest wait that is asked for in doubt.
const WAIT_MAX_NS: u64 = 1_000_000;
/// In doubt, so many times what the waits of the first trial took: half of it is still well above that.
const DOUBT_TIMES: u64 = 4;
/// 50 us: a wait that ends later even at its best is no use to any preset.
const LATE_MAX_NS: u64 = 50_000;
/// 1 us: longer waits are deep ones, whatever a wake takes: the sibling gains more than the event loses.
const LIGHT_BELOW_MAX_NS: u64 = 1_000;
/// A deep wait is wanted where its overshoot is at most this part of it.
const OVERSHOOT_PART: u64 = 4;

/// Tries what is on offer on the cpu of the calling thread. About 60 us where there is something to try, else nothing.
pub(crate) fn run(cpu: &impl Waits, rate: Rate, offer: &Offer) -> (Means, WaitReport) {
    let report = WaitReport {
        instructions: "PAUSE",
        why_pause: None,
        why_no_monitor: None,
        overshoot: Duration::ZERO,
        os_limit: offer.os.ticks.map(|ticks| rate.duration(ticks)),
        deep_allowed: offer.os.deep,
    };
    let tried = offer.candidate(rate).and_then(|instruction| try_out(cpu, rate, offer, instruction));
    match tried {
        Err(why) => (Means::PAUSE, WaitReport { why_pause: Some(why.clone()), why_no_monitor: Some(why), ..report }),
        Ok(tried) => {
            let means = Means {
                instruction: Some(tried.instruction),
                monitors: tried.monitor.is_ok(),
                shortest: rate.ticks_from_ns(SHORTEST_NS.max(tried.instruction.late_by_ns())),
                light_below: match offer.with {
                    WaitWith::Light => u64::MAX,
                    WaitWith::Deep => 0,
                    WaitWith::Auto | WaitWith::Pause => {
                        light_below(tried.light, tried.deep, rate.ticks_from_ns(LIGHT_BELOW_MAX_NS))
                    }
                },
            };
            let report = WaitReport {
                instructions: tried.instruction.name(),
                why_no_monitor: tried.monitor.err(),
                overshoot: rate.duration(if means.light_below == u64::MAX { tried.light } else { tried.deep }),
                ..report
            };
            (means, report)
        }
    }
}

/// An instruction that passed.
struct Tried {
    instruction: Instruction,
    /// What waits take beyond what is asked, in ticks.
    light: u64,
    deep: u64,
    /// The same of waits for a store, which may fail alone.
    monitor: Result<u64, WhyNot>,
}

fn try_out(cpu: &impl Waits, rate: Rate, offer: &Offer, instruction: Instruction) -> Result<Tried, WhyNot> {
    static QUIET: Quiet = Quiet(AtomicU32::new(0));
    let late_by = rate.ticks_from_ns(instruction.late_by_ns());
    let late_max = rate.ticks_from_ns(LATE_MAX_NS).saturating_add(late_by);
    let asked_max = rate.ticks_from_ns(WAIT_MAX_NS).min(offer.os.ticks.unwrap_or(u64::MAX));
    let try_wait = |wait: &dyn Fn(Span) -> Woke| {
        let asked = rate.ticks_from_ns(WAIT_NS).min(asked_max);
        let took = trial(cpu, asked, wait);
        match doubt(asked, took, late_by) {
            Some(longer) => {
                let asked = longer.min(asked_max);
                judge(asked, trial(cpu, asked, wait), late_max, rate)
            }
            None => judge(asked, took, late_max, rate),
        }
    };
    let timed = |depth| try_wait(&|span| cpu.wait(instruction, depth, span));
    let (deep, light) = (timed(Depth::Deep)?, timed(Depth::Light)?);
    let watch = Watch::while_equal(&QUIET.0, 0);
    let monitor = try_wait(&|span| cpu.wait_on(instruction, Depth::Deep, &watch, span));
    Ok(Tried { instruction, light, deep, monitor })
}

/// What to ask for in a second trial, if the first took so much longer than asked that the instruction's own cost, where it
/// traps, could pass for a wait: more than that, so that a wait which is none ends early.
fn doubt(asked: u64, mut took: [u64; WAITS], late_by: u64) -> Option<u64> {
    took.sort_unstable();
    let median = took[WAITS / 2];
    (median > asked.saturating_mul(2).saturating_add(late_by)).then(|| median.saturating_mul(DOUBT_TIMES))
}

/// A word that nobody writes, alone on its lines.
#[repr(align(128))]
struct Quiet(AtomicU32);

fn trial(cpu: &impl Waits, asked: u64, wait: impl Fn(Span) -> Woke) -> [u64; WAITS] {
    [(); WAITS].map(|()| {
        let start = cpu.now();
        // Whatever it says of how it ended: what counts is how long it took.
        let _ = wait(Span { from: start.0, ticks: asked });
        cpu.now().since(start)
    })
}

/// What waits that took so long, where `asked` was wanted, are worth: the median of what they took beyond it, or why they
/// are no use.
fn judge(asked: u64, mut took: [u64; WAITS], late_max: u64, rate: Rate) -> Result<u64, WhyNot> {
    took.sort_unstable();
    let early = took.iter().filter(|&&took| took < asked / 2).count();
    let waited = &took[early..];
    let [quickest, ..] = waited else { return Err(ends_early(early)) };
    if early > WAITS / 2 {
        return Err(ends_early(early));
    }
    let by = quickest.saturating_sub(asked);
    if by > late_max {
        return Err(WhyNot::EndsLate { by: rate.duration(by) });
    }
    Ok(waited[waited.len() / 2].saturating_sub(asked))
}

fn ends_early(early: usize) -> WhyNot {
    // No trial has more waits than fit.
    WhyNot::EndsEarly { early: early as u32, of: WAITS as u32 }
}

/// Below which length a wait had better be light: where the slower wake of a deep one is more than a part of it, if a light
/// one wakes faster at all.
fn light_below(light: u64, deep: u64, max: u64) -> u64 {
    if light < deep { deep.saturating_mul(OVERSHOOT_PART).min(max) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Capabilities;
    use crate::wait::clock::{Source, Spin, Ticks};
    use crate::wait::means::OsLimit;
    use std::cell::Cell;

    /// A cpu in virtual time: how long its waits take, given what is asked.
    struct Cpu {
        now: Cell<u64>,
        timed: fn(u64, Depth) -> u64,
        monitored: fn(u64) -> u64,
        waits: Cell<u32>,
    }

    impl Cpu {
        fn pass(&self, ticks: u64) -> Woke {
            self.waits.set(self.waits.get() + 1);
            self.now.set(self.now.get() + ticks);
            Woke::Somehow
        }
    }

    impl Spin for Cpu {
        fn now(&self) -> Ticks {
            Ticks(self.now.get())
        }
        fn pause(&self) {}
    }

    impl Waits for Cpu {
        fn wait(&self, _: Instruction, depth: Depth, span: Span) -> Woke {
            self.pass((self.timed)(span.ticks, depth))
        }
        fn wait_on(&self, _: Instruction, _: Depth, _: &Watch<'_>, span: Span) -> Woke {
            self.pass((self.monitored)(span.ticks))
        }
    }

    fn offer(with: WaitWith, ticks: Option<u64>) -> Offer {
        let cpu = Capabilities::default().with_emulated_waitpkg();
        Offer::new(with, &cpu, Source::Counter, OsLimit { ticks, deep: Some(true) })
    }

    fn tested(offer: &Offer, timed: fn(u64, Depth) -> u64, monitored: fn(u64) -> u64) -> (Means, WaitReport, u32) {
        let cpu = Cpu { now: Cell::new(5), timed, monitored, waits: Cell::new(0) };
        // A tick is a nanosecond.
        let (means, report) = run(&cpu, Rate::NANOSECONDS, offer);
        (means, report, cpu.waits.get())
    }

    #[test]
    fn what_waits_is_used_and_what_does_not_is_not() {
        type Timed = fn(u64, Depth) -> u64;
        let early = WhyNot::EndsEarly { early: 8, of: 8 };
        for (timed, monitored, pause, no_monitor, why) in [
            ((|t, _| t) as Timed, (|t| t) as fn(u64) -> u64, None, None, "as asked"),
            (|t, _| t + 15_000, |t| t + 15_000, None, None, "late, as under an emulator"),
            (|_, _| 0, |t| t, Some(early.clone()), Some(early.clone()), "a no-op"),
            (|_, _| 15_000, |_| 15_000, Some(early.clone()), Some(early.clone()), "a no-op that traps"),
            (|_, _| 30, |_| 30, Some(early.clone()), Some(early.clone()), "nearly one"),
            (|t, _| t, |_| 20, None, Some(early), "a monitor that fires at once"),
            (
                |t, _| t + 100_000,
                |t| t,
                Some(WhyNot::EndsLate { by: Duration::from_micros(100) }),
                Some(WhyNot::EndsLate { by: Duration::from_micros(100) }),
                "until the next interrupt",
            ),
        ] {
            let (means, report, _) = tested(&offer(WaitWith::Auto, None), timed, monitored);
            assert_eq!((&report.why_pause, &report.why_no_monitor), (&pause, &no_monitor), "{why}");
            assert_eq!((means.instruction.is_some(), means.monitors), (pause.is_none(), no_monitor.is_none()), "{why}");
            assert_eq!(report.instructions == "PAUSE", pause.is_some(), "{why}: {report}");
        }
    }

    #[test]
    fn what_is_not_on_offer_is_not_executed() {
        for (with, ticks) in [(WaitWith::Pause, None), (WaitWith::Auto, Some(10))] {
            let (means, report, waits) = tested(&offer(with, ticks), |t, _| t, |t| t);
            assert_eq!((means, waits), (Means::PAUSE, 0), "{report}");
        }
    }

    #[test]
    fn a_test_is_no_longer_than_the_kernel_lets_waits_be() {
        // A limit of 1 us: a wait of 2 us would look as if it ended early.
        let (means, report, _) = tested(&offer(WaitWith::Auto, Some(1_000)), |t, _| t.min(1_000), |t| t.min(1_000));
        assert!(means.instruction.is_some() && means.monitors, "{report}");
        assert_eq!(report.os_limit, Some(Duration::from_micros(1)));
    }

    #[test]
    fn a_cost_that_could_pass_for_a_wait_is_doubted() {
        for (took, late_by, longer, why) in [
            (2_000, 0, None, "as asked"),
            (4_000, 0, None, "slow"),
            (0, 0, None, "no wait at all is no doubt"),
            (17_000, 0, Some(68_000), "a trap, or a slow wake"),
            (102_000, 100_000, None, "late by construction"),
        ] {
            assert_eq!(doubt(2_000, [took; WAITS], late_by), longer, "{why}");
        }
    }

    #[test]
    fn single_waits_do_not_decide() {
        const LATE_MAX: u64 = 50_000;
        let judged = |took| judge(2_000, took, LATE_MAX, Rate::NANOSECONDS);
        assert_eq!(judged([2_000, 0, 2_030, 2_040, 9_000_000, 2_020, 3, 2_100]), Ok(40), "interrupts and a preemption");
        assert_eq!(judged([0, 0, 0, 0, 2_000, 2_000, 2_000, 2_000]), Ok(0), "half of them");
        assert!(matches!(judged([0, 0, 0, 0, 0, 2_000, 2_000, 2_000]), Err(WhyNot::EndsEarly { early: 5, of: 8 })));
        assert_eq!(judged([52_000; WAITS]), Ok(LATE_MAX), "just in time");
        assert!(matches!(judged([52_001; WAITS]), Err(WhyNot::EndsLate { .. })));
        assert_eq!(judged([1_000; WAITS]), Ok(0), "half the time is a wait");
    }

    #[test]
    fn short_waits_are_light_where_that_is_faster() {
        let depths = |with, timed| {
            let (means, ..) = tested(&offer(with, None), timed, |t| t);
            [150, 399, 400, 999, 1_000].map(|ticks| means.depth(ticks) == Depth::Deep)
        };
        let slow_deep = |t, depth| if depth == Depth::Deep { t + 100 } else { t + 10 };
        let slower_deep = |t, depth| if depth == Depth::Deep { t + 1_000 } else { t + 10 };
        assert_eq!(depths(WaitWith::Auto, slow_deep), [false, false, true, true, true]);
        assert_eq!(depths(WaitWith::Auto, slower_deep), [false, false, false, false, true]);
        assert_eq!(depths(WaitWith::Auto, |t, _| t + 100), [true; 5], "no gain from light");
        assert_eq!(depths(WaitWith::Light, |t, _| t), [false; 5]);
        assert_eq!(depths(WaitWith::Deep, slower_deep), [true; 5]);
    }
}
