//! From rounds to the answer of a window, and from windows to the verdict on a pair. Pure.

use super::median::{self, Interval, SAMPLES_MIN};

/// The whole interval below this: shared. Two threads that both want all units of a core get half of them each; a core with
/// units to spare leaves them more, and what it leaves below this is room for that.
const SHARED_MAX: f64 = 0.75;

/// The whole interval above this: separate. What a core's clock loses when its neighbour wakes is less than the rest.
const SEPARATE_MIN: f64 = 0.85;

/// Beside work, a separate cpu keeps at least this part of its best pace alone. Less, while the idle slots are as slow: then
/// they were not idle, and their comparison says nothing.
const BEST_PART_MIN: f64 = 0.8;

/// The part of the windows that must have a clear answer for the pair to have one.
const CLEAR_PART_MIN: f64 = 0.5;

/// Windows of the rarer answer from which on the pair floats, however many the others are: one may be chance.
const FLOATING_WINDOWS_MIN: usize = 2;

/// ... or this part of the clear ones, where there are few.
const FLOATING_PART_MIN: f64 = 0.25;

/// Windows that saw sharing, the least to say of them what PAUSEs give back. A window has one figure of each, so that five have a median that no single one makes.
const GIVEN_BACK_WINDOWS_MIN: usize = 5;

/// What a tight spin takes of the pace alone, the least of which a part can be told: below, the noise of a window is as large.
const TAKEN_MIN: f64 = 0.03;

/// Do two cpus share a core?
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Verdict {
    /// They did, in the windows that have an answer.
    Shared {
        /// Pace of the first cpu beside a busy second one, against its pace beside an idle one.
        ratio: f64,
    },
    /// They did not.
    Separate {
        /// As above; about 1.
        ratio: f64,
    },
    /// At times they did, and at times not: virtual cpus that float over the threads of the host.
    Floating {
        /// Windows that saw them share a core.
        shared_windows: usize,
        /// Windows that have an answer.
        windows: usize,
    },
    /// The measurement gives no answer.
    Unclear {
        /// What most windows suffered from.
        why: Doubt,
    },
}

impl Verdict {
    /// In one lower-case word: `shared`, `separate`, `floating`, `unclear`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Shared { .. } => "shared",
            Self::Separate { .. } => "separate",
            Self::Floating { .. } => "floating",
            Self::Unclear { .. } => "unclear",
        }
    }
}

/// The answer of one window.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Seen {
    /// The two cpus shared a core.
    Shared,
    /// They did not.
    Separate,
    /// Nobody can say.
    Unclear(Doubt),
}

impl Seen {
    /// In one lower-case word: `shared`, `separate`, `unclear`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Separate => "separate",
            Self::Unclear(_) => "unclear",
        }
    }

    /// What may be said of the time between two windows: what both of them saw, and nothing if they differ.
    ///
    /// ```
    /// use twolane::topology::probe::{Doubt, Seen};
    ///
    /// assert_eq!(Seen::Shared.and(Seen::Shared), Seen::Shared);
    /// assert_eq!(Seen::Shared.and(Seen::Separate), Seen::Unclear(Doubt::Changed));
    /// ```
    #[must_use]
    pub fn and(self, after: Self) -> Self {
        match (self, after) {
            (Self::Unclear(_), _) => self,
            (_, Self::Unclear(_)) => after,
            _ if self == after => self,
            _ => Self::Unclear(Doubt::Changed),
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Doubt {
    /// Too few rounds were left alone: something else runs on these cpus, or the hypervisor stops them.
    TooFew {
        /// Rounds that count.
        rounds: usize,
        /// Rounds that it takes.
        wanted: usize,
    },
    /// The interval of the ratio is neither on this side nor on that: noise, or a change in the middle.
    Between {
        /// Lower bound.
        low: f64,
        /// Upper bound.
        high: f64,
    },
    /// The first cpu was slow in every slot, the idle ones included: somebody else was on its core.
    SlowThroughout {
        /// Its pace beside work, against its best pace alone.
        part: f64,
    },
    /// The window before says one thing, the window after another.
    Changed,
    /// The threads did not get to run in time.
    Starved,
}

/// A ratio of paces with its 99 % bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ratio {
    /// Lower bound of the median.
    pub low: f64,
    /// Median over the rounds.
    pub median: f64,
    /// Upper bound of the median.
    pub high: f64,
}

/// What a spin takes from the other cpu of a core, and what PAUSEs in it give back, in the windows that saw sharing.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GivenBack {
    /// Pace of the first cpu beside a tight spin, against its pace beside idleness; the median window.
    pub spin: f64,
    /// The same beside a spin with a PAUSE after each look.
    pub pauses: f64,
    /// What PAUSEs give back of what the tight spin takes: 1 all of it, 0 nothing, below 0 they take more.
    pub part: f64,
}

/// One slot of each kind, a spin of one sort or the other: nanoseconds that a step took on the first cpu, `None` where the slot was disturbed or left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Round {
    pub idle: Option<f64>,
    pub spin: Option<f64>,
    pub pauses: Option<f64>,
    pub work: Option<f64>,
}

/// What a window's rounds say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Judgement {
    pub seen: Seen,
    pub ratio: Option<Ratio>,
    pub spin: Option<f64>,
    pub pauses: Option<f64>,
    pub rounds: usize,
    pub dropped: usize,
}

/// Judges a window. `best_ns` is the least that a step ever took beside an idle cpu.
pub(super) fn window(rounds: &[Round], best_ns: f64) -> Judgement {
    let against_idle = |other: fn(&Round) -> Option<f64>| -> Vec<f64> {
        rounds.iter().filter_map(|round| Some(round.idle? / other(round)?)).collect()
    };
    let mut ratios = against_idle(|round| round.work);
    let counted = ratios.len();
    let spin = median::median(&mut against_idle(|round| round.spin));
    let pauses = median::median(&mut against_idle(|round| round.pauses));
    let interval = median::interval(&mut ratios);
    let beside_work = median::median(&mut rounds.iter().filter_map(|round| round.work).collect::<Vec<f64>>());
    let seen = match interval {
        None => Seen::Unclear(Doubt::TooFew { rounds: counted, wanted: SAMPLES_MIN }),
        Some(Interval { high, .. }) if high <= SHARED_MAX => Seen::Shared,
        Some(Interval { low, .. }) if low >= SEPARATE_MIN => {
            let part = beside_work.map_or(0.0, |work_ns| best_ns / work_ns);
            if part >= BEST_PART_MIN { Seen::Separate } else { Seen::Unclear(Doubt::SlowThroughout { part }) }
        }
        Some(Interval { low, high, .. }) => Seen::Unclear(Doubt::Between { low, high }),
    };
    let ratio = interval.map(|Interval { low, median, high }| Ratio { low, median, high });
    Judgement { seen, ratio, spin, pauses, rounds: counted, dropped: rounds.len() - counted }
}

/// What PAUSEs give back of what a tight spin takes from the first cpu, by the paces beside either, a window each that saw sharing. `None` where there are too few
/// of either, or a tight spin takes next to nothing, which leaves nothing to give back.
pub(super) fn given_back(beside_spin: &mut [f64], beside_pauses: &mut [f64]) -> Option<GivenBack> {
    if beside_spin.len().min(beside_pauses.len()) < GIVEN_BACK_WINDOWS_MIN {
        return None;
    }
    let (spin, pauses) = (median::median(beside_spin)?, median::median(beside_pauses)?);
    (1.0 - spin >= TAKEN_MIN).then(|| GivenBack { spin, pauses, part: (pauses - spin) / (1.0 - spin) })
}

/// Judges a pair by its windows, each with the median of its ratio.
pub(super) fn verdict(windows: &[(Seen, Option<f64>)]) -> Verdict {
    let of = |wanted: Seen| -> Vec<f64> {
        windows.iter().filter(|(seen, _)| *seen == wanted).filter_map(|(_, ratio)| *ratio).collect()
    };
    let (mut shared, mut separate) = (of(Seen::Shared), of(Seen::Separate));
    let clear = shared.len() + separate.len();
    let rarer = shared.len().min(separate.len());
    if clear == 0 || (clear as f64) < CLEAR_PART_MIN * windows.len() as f64 {
        return Verdict::Unclear { why: commonest(windows) };
    }
    if rarer >= FLOATING_WINDOWS_MIN || (rarer > 0 && rarer as f64 >= FLOATING_PART_MIN * clear as f64) {
        return Verdict::Floating { shared_windows: shared.len(), windows: clear };
    }
    // One of the two has more than the other, so there is a median.
    if shared.len() > separate.len() {
        Verdict::Shared { ratio: median::median(&mut shared).unwrap_or(f64::NAN) }
    } else {
        Verdict::Separate { ratio: median::median(&mut separate).unwrap_or(f64::NAN) }
    }
}

/// The doubt that most windows have, as the last of them words it. Without any window, the threads did not run.
fn commonest(windows: &[(Seen, Option<f64>)]) -> Doubt {
    let doubts: Vec<Doubt> = windows
        .iter()
        .filter_map(|(seen, _)| match seen {
            Seen::Unclear(doubt) => Some(*doubt),
            _ => None,
        })
        .collect();
    let alike = |doubt: &Doubt| {
        let kind = std::mem::discriminant(doubt);
        doubts.iter().filter(|other| std::mem::discriminant(*other) == kind).count()
    };
    doubts.iter().max_by_key(|doubt| alike(doubt)).copied().unwrap_or(Doubt::Starved)
}

#[cfg(test)]
mod tests;
