//! What may the user choose about waiting? Three presets, three switches, and bounds in time, all checked before a lane
//! starts.
//!
//! [`Settings::resolve`] turns a preset and what was overridden into one consistent set, or into a [`SettingsError`]
//! that names the knob; nothing is ever clamped in silence. The controller gets the result and holds no defaults of its
//! own.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// How much a lane may wait for the sake of its neighbours: the one choice to make before any single knob.
///
/// A lane learns when events come and waits accordingly: not within a burst, evenly while events come at random, longer in a lull,
/// and not into the time at which an event is due; at first only briefly after an event; never for more relief than is wanted
/// (*duty*, the share of idle time that is spent in relief), and never beyond the bounds of the preset. All of it holds while
/// relief is wanted at all; see [`Relief`].
///
/// | | `Latency` | `Balanced` | `Polite` |
/// |---|---|---|---|
/// | `mean_added`: latency that waiting adds on average, at most | 0: one PAUSE a pass | 400 ns | 5 us |
/// | `max_added`: latency that one wait or lent task adds, at most | 1 us | 4 us | 25 us |
/// | duty wanted while idle | one PAUSE a pass | 88 % | 95 % |
/// | `park` | [`Park::Never`] | [`Park::WhenArmed`] | [`Park::WhenArmed`] |
/// | `park_after`: idle time before parking, at most | 1 ms, if parking is switched on | 200 us | 50 us |
/// | `inbox_max`: how long a doze may leave a message to the lane unseen | 1 us | 4 us | 20 us |
///
/// Duty follows from the bounds, the traffic, and the cost of the empty pass. With 20 000 events a second at random instants,
/// `Balanced` reaches 88 % where a pass takes 40 ns (a poll of 20 ns and the runtime), 83 % with one of 170 ns, 28 % with one of
/// 2 us; `Polite` 95 %, 95 % and 84 %. So the way to be polite at no cost in latency is to make the empty poll cheap.
///
/// `mean_added` counts what waiting adds. Beside a loop by hand that never waits, a lane adds some tens of nanoseconds of its own: half of what it does
/// between two calls, and caches and predictors that a wait leaves colder. `Balanced` has its 400 ns so that the sum stays below half a
/// microsecond (`cargo bench --bench detection`).
///
/// The metrics `busy`, `empty`, `dozing` and `parked` of a lane show what a choice amounts to: duty is `dozing /
/// (dozing + empty)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Etiquette {
    /// Poll as fast as the cpu goes, with one PAUSE a pass for the neighbour. Never parks unless told to: an idle
    /// service uses a whole cpu.
    Latency,
    /// Most of the core for the neighbour, for half a microsecond of latency on average. Parks when idle. The default.
    #[default]
    Balanced,
    /// Nearly all of the core for the neighbour, for some microseconds of latency. Parks soon.
    Polite,
}

/// When does a lane wait in order to give the core to its sibling?
///
/// Effect: the metric `dozing` of a lane, and the throughput of its sibling. Parking is a choice of its own; see
/// [`Park`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Relief {
    /// While the paired compute lane has work, unless the two are known not to share a core: a wait for nobody's sake
    /// is a loss. Machines that hide their siblings count as sharing. The default.
    #[default]
    Auto,
    /// After every empty pass, for the sake of power, of strangers on the sibling, or of other virtual machines.
    Always,
    /// Never: an empty pass is followed by the next one at once.
    Off,
}

impl Relief {
    /// Whether relief is wanted now. `may_share`: the two lanes share a core, or may do so for all that is known.
    /// `sibling_busy`: the paired lane has something to run; asked only where it matters, since its line is another cpu's.
    #[inline]
    pub(crate) fn wanted(self, may_share: bool, sibling_busy: impl FnOnce() -> bool) -> bool {
        match self {
            Relief::Auto => may_share && sibling_busy(),
            Relief::Always => true,
            Relief::Off => false,
        }
    }
}

/// When may an idle lane block in the kernel, and so use no cpu time at all?
///
/// What it trades: the wake of a parked thread takes 5 to 100 us (in virtual machines tens at the median and hundreds
/// in the tail), paid by the first event after an idle stretch; a wake also costs its sender up to 25 us. `max_added`
/// does not bound it.
///
/// Effect: the metrics `parked`, `parks` and the histogram of wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Park {
    /// Never: dozing is all the manners there are. An idle lane uses a whole cpu, which quotas and other threads of the
    /// cpu feel.
    Never,
    /// When every poller of the lane can be woken (by an fd, or by ringing) and agrees, after `park_after` without an
    /// event. The default.
    #[default]
    WhenArmed,
    /// As `WhenArmed`, but only while the wake, as measured on this lane, fits within `max_added`. Until a wake was
    /// measured, it is taken to cost 100 us.
    WithinBound,
}

/// What an event that came during a wait is charged to the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Charge {
    /// Half of the wait: right if events come at any instant of it. The default.
    #[default]
    Expected,
    /// All of the wait: the mean holds whatever the traffic does.
    Strict,
}

/// How a lane waits, complete and checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// When to wait for the sibling's sake.
    pub(crate) relief: Relief,
    /// When to block.
    pub(crate) park: Park,
    /// Latency that waiting may add on average.
    pub(crate) mean_added: Duration,
    /// How `mean_added` is accounted for.
    pub(crate) charge: Charge,
    /// Longest part of a gap between two calls of a poller that the runtime may choose: a doze or lent work.
    pub(crate) max_added: Duration,
    /// Idle time before parking.
    pub(crate) park_after: Duration,
    /// How long a doze may leave the lane's doorbell unseen.
    pub(crate) inbox_max: Duration,
    /// Share of idle time to spend in relief, as far as the bounds allow; percent, below 100.
    pub(crate) duty_percent: u32,
}

/// What is set apart from the preset. `None` leaves it to the preset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Overrides {
    /// See [`Relief`]. `Auto` in every preset. Trades: cycles of the sibling against latency. Shown by `dozing`.
    pub(crate) relief: Option<Relief>,
    /// See [`Park`]. Trades: cpu time of an idle lane against the wake of its next event. Shown by `parked` and
    /// `parks`.
    pub(crate) park: Option<Park>,
    /// Latency that dozing adds to an event on average, at most, if events come at random instants of a wait. 0 to
    /// `max_added`; 0 means one PAUSE after each empty pass. `Balanced`: 400 ns. Trades: duty against the mean. Shown
    /// by `dozing` against `empty`.
    pub(crate) mean_added: Option<Duration>,
    /// Longest time that the runtime may put between two calls of a poller by its own choice, by a doze or by lent
    /// work. 0 to 10 ms; below one PAUSE (10 to 100 ns) there is no wait at all. `Balanced`: 4 us. Trades: duty of
    /// lanes with dear passes, and lending, against the tail. Shown by `misses`: the times that it was exceeded, by
    /// cause.
    pub(crate) max_added: Option<Duration>,
    /// Idle time before a lane parks, at most; where at least twice as much, and eight wakes' time, is to be expected by what the lane has
    /// learnt, it parks at once. 1 us to 60 s. `Balanced`: 200 us. Trades: cpu time against wakes, of which the
    /// first event after a longer gap pays one. Shown by `parks` and `parked`.
    pub(crate) park_after: Option<Duration>,
}

impl Settings {
    /// What a preset means; the numbers are those of the table at [`Etiquette`].
    pub(crate) fn from_preset(etiquette: Etiquette) -> Self {
        let us = Duration::from_micros;
        match etiquette {
            // Half the idle time is wanted only if the user grants a mean; with none, the wait is one PAUSE.
            Etiquette::Latency => Self {
                relief: Relief::Auto,
                park: Park::Never,
                mean_added: us(0),
                charge: Charge::Expected,
                max_added: us(1),
                park_after: us(1_000),
                inbox_max: us(1),
                duty_percent: 50,
            },
            // 88 %: waits of seven times the pass. Doubling the wait from there gains five points of duty for twice the
            // latency. 200 us: about twice what a park costs both sides in a virtual machine, and the longest gap that
            // a steady 5 k events a second leave. 400 ns: beyond a loop by hand, 30 ns in the mean were measured that are not waiting.
            Etiquette::Balanced => Self {
                relief: Relief::Auto,
                park: Park::WhenArmed,
                mean_added: Duration::from_nanos(400),
                charge: Charge::Expected,
                max_added: us(4),
                park_after: us(200),
                inbox_max: us(4),
                duty_percent: 88,
            },
            Etiquette::Polite => Self {
                relief: Relief::Auto,
                park: Park::WhenArmed,
                mean_added: us(5),
                charge: Charge::Expected,
                max_added: us(25),
                park_after: us(50),
                inbox_max: us(20),
                duty_percent: 95,
            },
        }
    }

    /// A preset with what was overridden, checked.
    ///
    /// A `max_added` below what the preset's other bounds need takes these down with it, since they are not the user's
    /// words: the mean to half of it, the inbox's share to all of it.
    ///
    /// # Errors
    ///
    /// As [`validate`](Self::validate).
    pub(crate) fn resolve(etiquette: Etiquette, overrides: &Overrides) -> Result<Self, SettingsError> {
        let preset = Self::from_preset(etiquette);
        let max_added = overrides.max_added.unwrap_or(preset.max_added);
        let settings = Self {
            relief: overrides.relief.unwrap_or(preset.relief),
            park: overrides.park.unwrap_or(preset.park),
            mean_added: overrides.mean_added.unwrap_or(preset.mean_added.min(max_added / 2)),
            max_added,
            park_after: overrides.park_after.unwrap_or(preset.park_after),
            inbox_max: preset.inbox_max.min(max_added),
            ..preset
        };
        settings.validate()?;
        Ok(settings)
    }

    /// Whether every knob is within its range and the knobs agree.
    ///
    /// # Errors
    ///
    /// [`SettingsError`] for the first knob that is not.
    pub(crate) fn validate(&self) -> Result<(), SettingsError> {
        check_bounds(self.mean_added, self.max_added)?;
        check(
            "park_after",
            self.park_after,
            PARK_AFTER_MIN..=PARK_AFTER_MAX,
            "to forbid parking, set park(Never); a wake costs more than the shortest of these",
        )
    }
}

/// Whether two bounds are within their ranges and agree.
///
/// # Errors
///
/// [`SettingsError`] for the first that is not.
pub(crate) fn check_bounds(mean_added: Duration, max_added: Duration) -> Result<(), SettingsError> {
    check(
        "max_added",
        max_added,
        Duration::ZERO..=MAX_ADDED_MAX,
        "a lane that may be late by more should park: set park(WhenArmed) and park_after",
    )?;
    check(
        "mean_added",
        mean_added,
        Duration::ZERO..=max_added,
        "no wait is longer than max_added, so raise max_added or lower mean_added",
    )
}

fn check(
    knob: &'static str,
    value: Duration,
    range: RangeInclusive<Duration>,
    remedy: &'static str,
) -> Result<(), SettingsError> {
    if range.contains(&value) { Ok(()) } else { Err(SettingsError { knob, value, range, remedy }) }
}

/// 10 ms: beyond it, a doze burns more cpu time than a wake would ever cost.
const MAX_ADDED_MAX: Duration = Duration::from_millis(10);
/// 1 us: below it, a lane would park between the events of one burst.
const PARK_AFTER_MIN: Duration = Duration::from_micros(1);
/// 60 s: more than that is never.
const PARK_AFTER_MAX: Duration = Duration::from_secs(60);

/// A bound that is out of its range, or at odds with another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingsError {
    knob: &'static str,
    value: Duration,
    range: RangeInclusive<Duration>,
    remedy: &'static str,
}

impl SettingsError {
    /// The knob, spelled as the builder's method.
    pub fn knob(&self) -> &'static str {
        self.knob
    }

    /// What it was set to.
    pub fn value(&self) -> Duration {
        self.value
    }

    /// What it can be set to, given the other knobs.
    pub fn range(&self) -> &RangeInclusive<Duration> {
        &self.range
    }
}

impl fmt::Display for SettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { knob, value, range, remedy } = self;
        write!(f, "{knob} is {value:?}, outside {:?} to {:?}: {remedy}", range.start(), range.end())
    }
}

impl std::error::Error for SettingsError {}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESETS: [Etiquette; 3] = [Etiquette::Latency, Etiquette::Balanced, Etiquette::Polite];

    fn ns(n: u64) -> Option<Duration> {
        Some(Duration::from_nanos(n))
    }

    #[test]
    fn presets_are_valid_and_grow_politer() {
        for pair in PRESETS.windows(2) {
            let (less, more) = (Settings::from_preset(pair[0]), Settings::from_preset(pair[1]));
            assert!(less.mean_added < more.mean_added && less.max_added < more.max_added);
            assert!(less.duty_percent < more.duty_percent && less.park_after > more.park_after);
        }
        for etiquette in PRESETS {
            let preset = Settings::from_preset(etiquette);
            assert_eq!(preset.validate(), Ok(()), "{etiquette:?}");
            assert_eq!(Settings::resolve(etiquette, &Overrides::default()), Ok(preset));
            assert!(preset.duty_percent < 100 && preset.inbox_max <= preset.max_added);
        }
    }

    #[test]
    fn an_override_changes_what_it_names() {
        let overrides = Overrides {
            relief: Some(Relief::Off),
            park: Some(Park::WithinBound),
            mean_added: ns(100),
            max_added: ns(9_000),
            park_after: ns(70_000),
        };
        let got = Settings::resolve(Etiquette::Polite, &overrides).unwrap();
        assert_eq!((got.relief, got.park), (Relief::Off, Park::WithinBound));
        assert_eq!((Some(got.mean_added), Some(got.max_added), Some(got.park_after)), (ns(100), ns(9_000), ns(70_000)));
        assert_eq!(got.duty_percent, Settings::from_preset(Etiquette::Polite).duty_percent);
    }

    #[test]
    fn a_smaller_maximum_takes_the_presets_mean_with_it_but_not_the_users() {
        let small = Overrides { max_added: ns(600), ..Overrides::default() };
        let got = Settings::resolve(Etiquette::Balanced, &small).unwrap();
        assert_eq!((Some(got.mean_added), Some(got.inbox_max)), (ns(300), ns(600)));

        let at_odds = Overrides { mean_added: ns(700), ..small };
        let error = Settings::resolve(Etiquette::Balanced, &at_odds).unwrap_err();
        assert_eq!(
            error.to_string(),
            "mean_added is 700ns, outside 0ns to 600ns: no wait is longer than max_added, so raise max_added or lower mean_added"
        );
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for (overrides, knob) in [
            (Overrides { max_added: ns(10_000_001), ..Overrides::default() }, "max_added"),
            (Overrides { max_added: Some(Duration::MAX), ..Overrides::default() }, "max_added"),
            (Overrides { mean_added: ns(4_001), ..Overrides::default() }, "mean_added"),
            (Overrides { park_after: ns(0), ..Overrides::default() }, "park_after"),
            (Overrides { park_after: ns(999), ..Overrides::default() }, "park_after"),
            (Overrides { park_after: Some(Duration::from_secs(61)), ..Overrides::default() }, "park_after"),
        ] {
            let error = Settings::resolve(Etiquette::Balanced, &overrides).unwrap_err();
            assert_eq!(error.knob(), knob);
            assert!(!error.range().contains(&error.value()), "{error}");
        }
        for max in [0, 1, 10_000_000] {
            let edge = Overrides { max_added: ns(max), ..Overrides::default() };
            assert!(Settings::resolve(Etiquette::Balanced, &edge).is_ok(), "max_added = {max} ns");
        }
    }

    #[test]
    fn relief_is_for_a_busy_sibling_that_may_share_the_core() {
        for (relief, may_share, busy, wanted) in [
            (Relief::Auto, true, true, true),
            (Relief::Auto, true, false, false),
            (Relief::Auto, false, true, false),
            (Relief::Always, false, false, true),
            (Relief::Off, true, true, false),
        ] {
            assert_eq!(relief.wanted(may_share, || busy), wanted, "{relief:?}, {may_share}, {busy}");
        }
    }
}
