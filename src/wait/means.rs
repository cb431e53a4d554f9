//! With what does a lane wait in user mode? What the user wants, what the cpu states, what the operating system allows, and
//! the report of what came of it.

use std::fmt;
use std::time::Duration;

use super::clock::{Rate, Source};
use crate::arch::{Capabilities, Depth, Instruction};

/// With what may a lane wait in user mode?
///
/// The instructions in question (TPAUSE and UMWAIT, MWAITX, WFE and WFET, WRS.STO) wait for a time or a store without any
/// work at all, which leaves more of the core to the sibling, and takes less power, than a row of PAUSEs. They are used
/// where the cpu states them *and* a short test at the start of the lane shows that they wait; what a lane uses, and why
/// not more, is in its [`WaitReport`].
///
/// Effect: `waits`, `instruction_dozes` and `dozing` of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum WaitWith {
    /// The best that there is, as deep as helps the sibling; on Intel C0.2, and C0.1 for waits that are so short that the
    /// slower wake would be a large part of them. The default.
    #[default]
    Auto,
    /// PAUSE and nothing else: the way out where a hypervisor or an emulator gets the others wrong.
    Pause,
    /// As `Auto`, but never deeper than C0.1: the faster wake, and no documented gain for the sibling.
    Light,
    /// As `Auto`, but always C0.2.
    Deep,
}

impl WaitWith {
    const NAMED: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("pause", Self::Pause), ("light", Self::Light), ("deep", Self::Deep)];

    /// The choice of this name, as `TWOLANE_WAIT` spells it; `None`: there is none.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(of, _)| *of == name).map(|(_, with)| *with)
    }

    /// Its name in `TWOLANE_WAIT`.
    #[must_use]
    pub fn name(self) -> &'static str {
        // Every choice is in the list.
        Self::NAMED.iter().find(|(_, with)| *with == self).map_or("auto", |(name, _)| name)
    }
}

/// With what a lane waits in user mode, as its own test at the start found; see [`WaitWith`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitReport {
    /// The instructions: "PAUSE", or those that take the longer waits ("TPAUSE and UMWAIT", "MWAITX", "WFET", ...).
    pub instructions: &'static str,
    /// Why waits are PAUSEs only; `None` if they are not.
    pub why_pause: Option<WhyNot>,
    /// Why no wait is ended by a store to the doorbell, but each has to run out; `None` if stores end waits.
    pub why_no_monitor: Option<WhyNot>,
    /// What such a wait takes beyond what was asked, at the median. 0 for PAUSE.
    pub overshoot: Duration,
    /// The longest wait that the operating system allows; `None` if it sets no limit, or does not say.
    pub os_limit: Option<Duration>,
    /// Whether the operating system allows C0.2; `None` where there is no such state, or nobody says.
    pub deep_allowed: Option<bool>,
}

/// Why a lane does without an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNot {
    /// The user wants PAUSE: [`WaitWith::Pause`].
    Unwanted,
    /// The cpu states no such instruction. Hypervisors often hide it; then it would trap.
    NotStated,
    /// The lane's clock is not the cpu's counter, in which the deadlines of these instructions are.
    OtherClock,
    /// The operating system ends waits before they are worth their while.
    OsLimit {
        /// The longest that it allows.
        limit: Duration,
    },
    /// Most waits of the test ended before half their time: a hypervisor or emulator makes the instruction do nothing.
    EndsEarly {
        /// How many did.
        early: u32,
        /// Of how many.
        of: u32,
    },
    /// Even the best wait of the test ended too late to be of use: the instruction traps, or its timer does not work.
    EndsLate {
        /// By how much.
        by: Duration,
    },
}

/// What a lane has to wait with, tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Means {
    /// What waits; `None`: PAUSE.
    pub(crate) instruction: Option<Instruction>,
    /// Its waits for a store work as well.
    pub(crate) monitors: bool,
    /// Shorter waits than this many ticks are PAUSEs.
    pub(crate) shortest: u64,
    /// Shorter waits than this many ticks are light ones.
    pub(crate) light_below: u64,
}

impl Means {
    /// PAUSE and nothing else.
    pub(crate) const PAUSE: Self = Self { instruction: None, monitors: false, shortest: u64::MAX, light_below: 0 };

    /// How deep to go for a wait of `ticks`.
    #[inline]
    pub(crate) fn depth(&self, ticks: u64) -> Depth {
        if ticks < self.light_below { Depth::Light } else { Depth::Deep }
    }
}

/// What is there before any test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The user's choice.
    pub(crate) with: WaitWith,
    /// What the cpu states.
    pub(crate) instruction: Option<Instruction>,
    /// The lane's clock is the counter in which the instruction's deadlines are.
    pub(crate) counter_clock: bool,
    /// What the operating system allows.
    pub(crate) os: OsLimit,
}

impl Offer {
    /// What this cpu has for a lane whose clock has this source.
    pub(crate) fn new(with: WaitWith, cpu: &Capabilities, clock: Source, os: OsLimit) -> Self {
        Self { with, instruction: cpu.wait_instruction(), counter_clock: clock == Source::Counter, os }
    }

    /// The instruction to test, or why none is.
    pub(crate) fn candidate(&self, rate: Rate) -> Result<Instruction, WhyNot> {
        let instruction = self.instruction.ok_or(WhyNot::NotStated)?;
        if self.with == WaitWith::Pause {
            return Err(WhyNot::Unwanted);
        }
        if !self.counter_clock {
            return Err(WhyNot::OtherClock);
        }
        match self.os.ticks {
            Some(ticks) if ticks < rate.ticks_from_ns(SHORTEST_NS) => {
                Err(WhyNot::OsLimit { limit: rate.duration(ticks) })
            }
            _ => Ok(instruction),
        }
    }
}

/// 100 ns: the steps in which these instructions count time are tens of nanoseconds, so that a shorter wait is a matter of
/// chance; a row of PAUSEs is not.
pub(crate) const SHORTEST_NS: u64 = 100;

/// What the operating system allows a wait of WAITPKG's (its register IA32_UMWAIT_CONTROL).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OsLimit {
    /// The longest wait, in ticks of the counter; `None`: no limit, or nobody says.
    pub(crate) ticks: Option<u64>,
    /// C0.2 is allowed; `None`: nobody says.
    pub(crate) deep: Option<bool>,
}

impl OsLimit {
    /// From the kernel's two files, where they are (it has them only with WAITPKG). What is not understood is not said: this is
    /// for reports and for the test's length, and a wait is short anyway.
    pub(crate) fn parse(max_time: Option<&str>, enable_c02: Option<&str>) -> Self {
        Self {
            ticks: max_time.and_then(|text| text.trim().parse().ok()).filter(|ticks| *ticks > 0),
            deep: enable_c02.and_then(|text| match text.trim() {
                "0" => Some(false),
                "1" => Some(true),
                _ => None,
            }),
        }
    }
}

impl fmt::Display for WhyNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unwanted => f.write_str("only PAUSE is wanted (wait_with, TWOLANE_WAIT)"),
            Self::NotStated => {
                f.write_str("the cpu, or the hypervisor in its stead, states no instruction to wait with")
            }
            Self::OtherClock => f.write_str("the lane's clock is not the cpu's counter, in which deadlines are"),
            Self::OsLimit { limit } => write!(
                f,
                "the kernel ends every wait after {limit:?} (see /sys/devices/system/cpu/umwait_control/max_time)"
            ),
            Self::EndsEarly { early, of } => write!(f, "{early} of {of} waits ended before half their time"),
            Self::EndsLate { by } => write!(f, "every wait ended too late, by {by:?} or more"),
        }
    }
}

impl fmt::Display for WaitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.instructions)?;
        if let Some(why) = &self.why_pause {
            return write!(f, ": {why}");
        }
        write!(f, ", {:?} later than asked", self.overshoot)?;
        if let Some(limit) = self.os_limit {
            write!(f, ", at most {limit:?} by the kernel's limit")?;
        }
        if self.deep_allowed == Some(false) {
            f.write_str(", C0.2 forbidden by the kernel")?;
        }
        match &self.why_no_monitor {
            Some(why) => write!(f, ", not ended by stores: {why}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_is_a_candidate_if_everybody_agrees() {
        let stated = Capabilities::default().with_emulated_waitpkg();
        let offer = |with, cpu: &Capabilities, clock, ticks| {
            let os = OsLimit { ticks, deep: None };
            Offer::new(with, cpu, clock, os).candidate(Rate::NANOSECONDS)
        };
        use Source::{Counter, Monotonic};
        for (with, ticks, ok, why) in [
            (WaitWith::Auto, None, true, "no limit"),
            (WaitWith::Light, Some(100_000), true, "the usual limit"),
            (WaitWith::Deep, Some(SHORTEST_NS), true, "the shortest useful limit"),
            (WaitWith::Auto, Some(SHORTEST_NS - 1), false, "a shorter one"),
            (WaitWith::Pause, None, false, "unwanted"),
        ] {
            assert_eq!(offer(with, &stated, Counter, ticks).is_ok(), ok, "{why}");
        }
        assert_eq!(offer(WaitWith::Auto, &stated, Monotonic, None), Err(WhyNot::OtherClock));
        assert_eq!(offer(WaitWith::Auto, &Capabilities::default(), Counter, None), Err(WhyNot::NotStated));
    }

    #[test]
    fn choices_have_names() {
        for with in [WaitWith::Auto, WaitWith::Pause, WaitWith::Light, WaitWith::Deep] {
            assert_eq!(WaitWith::named(with.name()), Some(with));
        }
        assert_eq!(WaitWith::named("PAUSE"), None);
    }

    #[test]
    fn the_kernels_files_are_read_as_they_are() {
        for (max_time, enable_c02, ticks, deep) in [
            (Some("100000\n"), Some("1\n"), Some(100_000), Some(true)),
            (Some("0\n"), Some("0\n"), None, Some(false)),
            (None, None, None, None),
            (Some("-4"), Some("2"), None, None),
            (Some(""), Some(""), None, None),
        ] {
            assert_eq!(OsLimit::parse(max_time, enable_c02), OsLimit { ticks, deep }, "{max_time:?} {enable_c02:?}");
        }
    }
}
