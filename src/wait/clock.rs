//! What time is it, in a few nanoseconds? Ticks, and their scale.
//!
//! [`Clock`] reads the cpu's counter where that is known to be a clock: the cpu calls it invariant, the kernel (which
//! watches it all the time) still trusts it, and its rate was measured here against the kernel's raw clock. A rate that
//! the machine states is used if the measurement bears it out, because it is exact; a guest may well be told a rate
//! that is not its own. Where one of these fails, [`ClockError`] says which, and CLOCK_MONOTONIC serves instead, at
//! about three times the cost.
//!
//! Arithmetic on ticks saturates everywhere. A counter may jump (a migrated virtual machine, a cpu whose counter is
//! behind another's), and time that runs backwards has elapsed 0.

use crate::arch::{self, Capabilities, StatedRate};
use once_cell::sync::OnceCell;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::fmt;
use std::time::Duration;

/// An instant, as a count of ticks from an arbitrary zero. Only instants of the same [`Clock`] compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticks(pub(crate) u64);

impl Ticks {
    /// Ticks from `earlier` to here; 0 if `earlier` is later.
    #[inline(always)]
    pub(crate) fn since(self, earlier: Ticks) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The instant `ticks` from here, or the last one there is.
    #[inline(always)]
    pub(crate) fn after(self, ticks: u64) -> Ticks {
        Ticks(self.0.saturating_add(ticks))
    }
}

/// What a spinning wait needs of the cpu: a clock and a pause. A [`Clock`] is the real one.
pub(crate) trait Spin {
    /// The instant now.
    fn now(&self) -> Ticks;
    /// One PAUSE.
    fn pause(&self);
}

/// Names of the kernel's clock sources that are the cpu's own counter, or are computed from it: while it keeps time by one of
/// them, it trusts the counter.
pub(crate) const KERNEL_COUNTER_SOURCES: [&str; 5] =
    ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page", "arch_sys_counter", "riscv_clocksource"];

/// A clock that costs a few nanoseconds to read. Copies are the same clock; all clocks over the cpu's counter in a
/// process are the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    source: Source,
    rate: Rate,
}

/// Where ticks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The cpu's own counter (x86: the TSC).
    Counter,
    /// CLOCK_MONOTONIC; a tick is a nanosecond.
    Monotonic,
}

impl Clock {
    /// The clock over the cpu's counter. Its rate is measured once a process, which takes about 4 ms (asleep); later
    /// calls are cheap.
    ///
    /// `kernel_trusts_counter` is what the kernel's own choice of clock source tells; whoever reads `/sys` passes it
    /// in.
    ///
    /// # Errors
    ///
    /// [`ClockError`] says why the counter is no clock here; [`Clock::monotonic`] always is one. A failed measurement
    /// is not kept: the next call measures again.
    pub(crate) fn over_counter(cpu: &Capabilities, kernel_trusts_counter: bool) -> Result<Self, ClockError> {
        // One rate for the process, so that instants taken by different lanes compare and convert alike.
        static RATE: OnceCell<Rate> = OnceCell::new();
        if !cpu.invariant_tsc {
            return Err(ClockError::NotInvariant);
        }
        if !kernel_trusts_counter {
            return Err(ClockError::KernelDistrusts);
        }
        let rate = RATE.get_or_try_init(|| rate_from(&observe_counter(), cpu.stated_rate))?;
        Ok(Self { source: Source::Counter, rate: *rate })
    }

    /// The clock over CLOCK_MONOTONIC, which works everywhere.
    pub(crate) fn monotonic() -> Self {
        Self { source: Source::Monotonic, rate: Rate::NANOSECONDS }
    }

    /// The clock over the counter, else the one over CLOCK_MONOTONIC together with the reason.
    pub(crate) fn best(cpu: &Capabilities, kernel_trusts_counter: bool) -> (Self, Option<ClockError>) {
        match Self::over_counter(cpu, kernel_trusts_counter) {
            Ok(clock) => (clock, None),
            Err(reason) => (Self::monotonic(), Some(reason)),
        }
    }

    /// The instant now. RDTSC costs about 12 ns, CLOCK_MONOTONIC about three times as much.
    #[inline(always)]
    pub(crate) fn now(&self) -> Ticks {
        match self.source {
            Source::Counter => Ticks(arch::ticks()),
            Source::Monotonic => Ticks(ns_of(clock_gettime(ClockId::Monotonic))),
        }
    }

    /// Where the ticks come from, for reports.
    pub(crate) fn source(&self) -> Source {
        self.source
    }

    /// The scale of the ticks.
    pub(crate) fn rate(&self) -> Rate {
        self.rate
    }

    /// Ticks that make `ns` nanoseconds; saturates.
    pub(crate) fn ticks_from_ns(&self, ns: u64) -> u64 {
        self.rate.ticks_from_ns(ns)
    }

    /// A number of ticks as a [`Duration`].
    pub(crate) fn duration(&self, ticks: u64) -> Duration {
        self.rate.duration(ticks)
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.source() {
            Source::Counter => write!(f, "the cpu's counter at {} MHz", self.rate.hz() / 1_000_000),
            Source::Monotonic => f.write_str("CLOCK_MONOTONIC"),
        }
    }
}

impl Spin for Clock {
    #[inline(always)]
    fn now(&self) -> Ticks {
        Clock::now(self)
    }
    #[inline(always)]
    fn pause(&self) {
        arch::pause();
    }
}

/// The cpu time that the calling thread has used so far, in nanoseconds. A system call: some hundred nanoseconds.
pub(crate) fn thread_cpu_ns() -> u64 {
    ns_of(clock_gettime(ClockId::ThreadCPUTime))
}

fn ns_of(time: Timespec) -> u64 {
    // Neither clock is ever negative. 584 years fit.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let ns = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds.saturating_mul(NS_PER_S).saturating_add(ns)
}

/// The scale between ticks and nanoseconds. Pure; conversions are two multiplications and saturate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    hz: u64,
    /// Both factors have 32 fractional bits: an error below 10^-6 for every rate in [`HZ_PLAUSIBLE`], which is less
    /// than a crystal's.
    ns_per_tick: u64,
    ticks_per_ns: u64,
}

impl Rate {
    /// A tick is a nanosecond.
    pub(crate) const NANOSECONDS: Rate = Rate { hz: NS_PER_S, ns_per_tick: 1 << FRACTION, ticks_per_ns: 1 << FRACTION };

    /// The scale of a counter with `hz` ticks a second, if that is a rate that counters have.
    pub(crate) fn from_hz(hz: u64) -> Option<Self> {
        let ratio = |numerator: u64, denominator: u64| {
            let scaled = (u128::from(numerator) << FRACTION) / u128::from(denominator);
            u64::try_from(scaled).unwrap_or(u64::MAX)
        };
        HZ_PLAUSIBLE.contains(&hz).then(|| Self {
            hz,
            ns_per_tick: ratio(NS_PER_S, hz),
            ticks_per_ns: ratio(hz, NS_PER_S),
        })
    }

    /// Ticks a second.
    pub(crate) fn hz(&self) -> u64 {
        self.hz
    }

    /// Ticks that make `ns` nanoseconds; saturates.
    pub(crate) fn ticks_from_ns(&self, ns: u64) -> u64 {
        scale(ns, self.ticks_per_ns)
    }

    /// Nanoseconds that make `ticks` ticks; saturates.
    pub(crate) fn ns_from_ticks(&self, ticks: u64) -> u64 {
        scale(ticks, self.ns_per_tick)
    }

    /// Ticks that make `duration`; saturates.
    pub(crate) fn ticks_from(&self, duration: Duration) -> u64 {
        self.ticks_from_ns(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// A number of ticks as a [`Duration`].
    pub(crate) fn duration(&self, ticks: u64) -> Duration {
        Duration::from_nanos(self.ns_from_ticks(ticks))
    }
}

/// `value * factor`, where `factor` has [`FRACTION`] fractional bits; rounded to the nearest.
fn scale(value: u64, factor: u64) -> u64 {
    const HALF: u128 = 1 << (FRACTION - 1);
    u64::try_from((u128::from(value) * u128::from(factor) + HALF) >> FRACTION).unwrap_or(u64::MAX)
}

const FRACTION: u32 = 32;
const NS_PER_S: u64 = 1_000_000_000;
/// Rates that counters have: 1 MHz (old Arm parts) to 20 GHz. What lies outside is a misreading, and would overflow
/// [`Rate`]'s factors.
const HZ_PLAUSIBLE: std::ops::RangeInclusive<u64> = 1_000_000..=20_000_000_000;

/// Why the cpu's counter is no clock here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum ClockError {
    /// The cpu does not promise that its counter keeps one rate. Hypervisors withhold the promise from guests that may
    /// migrate.
    NotInvariant,
    /// The kernel does not use the counter as its own clock source: it found it unstable, or was told so at boot.
    KernelDistrusts,
    /// The counter did not advance with the kernel's raw clock.
    Stopped {
        /// Ticks between two readings.
        ticks: u64,
        /// Nanoseconds between them by CLOCK_MONOTONIC_RAW.
        ns: u64,
    },
    /// The measured rate is none that counters have.
    Implausible {
        /// Ticks a second, as measured.
        hz: u64,
    },
    /// Two measurements, one after the other, disagree.
    Unsteady {
        /// Ticks a second in the first.
        first_hz: u64,
        /// Ticks a second in the second.
        second_hz: u64,
    },
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInvariant => f.write_str("the cpu does not state that its counter keeps one rate"),
            Self::KernelDistrusts => f.write_str(
                "the kernel uses another clock source (see /sys/devices/system/clocksource/clocksource0/current_clocksource)",
            ),
            Self::Stopped { ticks, ns } => write!(f, "the cpu's counter advanced by {ticks} ticks within {ns} ns"),
            Self::Implausible { hz } => write!(
                f,
                "the cpu's counter was measured at {hz} ticks a second, outside {} to {}",
                HZ_PLAUSIBLE.start(),
                HZ_PLAUSIBLE.end()
            ),
            Self::Unsteady { first_hz, second_hz } => write!(
                f,
                "the cpu's counter was measured at {first_hz}, then at {second_hz} ticks a second"
            ),
        }
    }
}

impl std::error::Error for ClockError {}

/// The counter and the kernel's raw clock at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pair {
    ticks: u64,
    ns: u64,
}

/// Measurements further apart than this, in parts per million, disagree. Reading a pair is good to some 100 ns of 2 ms
/// (50 ppm), a stated rate of the wrong crystal is wrong by 4 percent, and a nominal frequency by up to 1 percent.
const DISAGREE_PPM: u64 = 1_000;

/// The rate behind three readings: the stated one if they bear it out, else the measured one, if they agree among
/// themselves.
fn rate_from(readings: &[Pair; 3], stated: Option<StatedRate>) -> Result<Rate, ClockError> {
    let [first, second, third] = readings;
    let (first_hz, second_hz) = (hz_between(first, second)?, hz_between(second, third)?);
    if disagree(first_hz, second_hz) {
        return Err(ClockError::Unsteady { first_hz, second_hz });
    }
    let measured = hz_between(first, third)?;
    let borne_out = stated.map(|rate| rate.hz).filter(|stated| !disagree(*stated, measured));
    Rate::from_hz(borne_out.unwrap_or(measured)).ok_or(ClockError::Implausible { hz: measured })
}

fn hz_between(from: &Pair, to: &Pair) -> Result<u64, ClockError> {
    let (ticks, ns) = (to.ticks.saturating_sub(from.ticks), to.ns.saturating_sub(from.ns));
    if ticks == 0 || ns == 0 {
        return Err(ClockError::Stopped { ticks, ns });
    }
    Ok(u64::try_from(u128::from(ticks) * u128::from(NS_PER_S) / u128::from(ns)).unwrap_or(u64::MAX))
}

fn disagree(a: u64, b: u64) -> bool {
    u128::from(a.abs_diff(b)) * 1_000_000 > u128::from(a.max(b)) * u128::from(DISAGREE_PPM)
}

/// Three readings, 2 ms apart, asleep meanwhile: calibration takes no cpu time from anybody.
fn observe_counter() -> [Pair; 3] {
    const APART: Duration = Duration::from_millis(2);
    let first = pair();
    std::thread::sleep(APART);
    let second = pair();
    std::thread::sleep(APART);
    [first, second, pair()]
}

/// Reads both clocks at one instant as nearly as can be: of some tries, the one whose readings of the counter lie
/// closest together, since an interrupt or a preemption between them only ever pulls them apart.
fn pair() -> Pair {
    const TRIES: u32 = 16;
    let once = || {
        let before = arch::ticks();
        let ns = ns_of(clock_gettime(ClockId::MonotonicRaw));
        let width = arch::ticks().saturating_sub(before);
        (width, Pair { ticks: before.saturating_add(width / 2), ns })
    };
    let mut best = once();
    for _ in 1..TRIES {
        let next = once();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GHZ: u64 = 1_000_000_000;

    fn readings(hz: [u64; 2]) -> [Pair; 3] {
        // 2 ms each, from a counter that does not start at 0.
        let step = |hz: u64| hz / 500;
        let (a, b) = (step(hz[0]), step(hz[1]));
        [
            Pair { ticks: 77, ns: 5 },
            Pair { ticks: 77 + a, ns: 5 + 2_000_000 },
            Pair { ticks: 77 + a + b, ns: 5 + 4_000_000 },
        ]
    }

    fn stated(hz: u64) -> Option<StatedRate> {
        Some(StatedRate { hz, source: "test" })
    }

    #[test]
    fn a_stated_rate_is_used_if_measured_to_be_true() {
        let hz = |measured: [u64; 2], stated| rate_from(&readings(measured), stated).map(|rate| rate.hz());
        // Nothing stated: measured.
        assert_eq!(hz([2_300_000_500, 2_300_000_500], None), Ok(2_300_000_500));
        // Stated, and borne out within the noise: the exact figure wins.
        assert_eq!(hz([2_300_400_000, 2_300_400_000], stated(2_300_000_000)), Ok(2_300_000_000));
        // The wrong crystal (24 MHz for 25 MHz): measured.
        assert_eq!(hz([2_500_000_000, 2_500_000_000], stated(2_400_000_000)), Ok(2_500_000_000));
        // Nonsense is stated: measured.
        assert_eq!(hz([2_500_000_000, 2_500_000_000], stated(1)), Ok(2_500_000_000));
        assert_eq!(hz([2_500_000_000, 2_500_000_000], stated(u64::MAX)), Ok(2_500_000_000));
    }

    #[test]
    fn inconsistent_counters_are_refused_with_what_was_seen() {
        assert_eq!(
            rate_from(&readings([2 * GHZ, 3 * GHZ]), stated(2 * GHZ)),
            Err(ClockError::Unsteady { first_hz: 2 * GHZ, second_hz: 3 * GHZ })
        );
        assert_eq!(rate_from(&readings([0, 0]), stated(GHZ)), Err(ClockError::Stopped { ticks: 0, ns: 2_000_000 }));
        assert_eq!(rate_from(&readings([1_000, 1_000]), None), Err(ClockError::Implausible { hz: 1_000 }));
        let backwards =
            [Pair { ticks: 900, ns: 0 }, Pair { ticks: 500, ns: 2_000_000 }, Pair { ticks: 1, ns: 4_000_000 }];
        assert_eq!(rate_from(&backwards, None), Err(ClockError::Stopped { ticks: 0, ns: 2_000_000 }));
        // A jump by a migration between two readings.
        let jump = [Pair { ticks: 0, ns: 0 }, Pair { ticks: u64::MAX, ns: 1 }, Pair { ticks: u64::MAX, ns: 2 }];
        assert!(rate_from(&jump, None).is_err());
    }

    #[test]
    fn a_counter_without_a_promise_is_not_measured() {
        let plain = Capabilities::default();
        assert_eq!(Clock::over_counter(&plain, true).unwrap_err(), ClockError::NotInvariant);
        let invariant = Capabilities { invariant_tsc: true, ..Capabilities::default() };
        assert_eq!(Clock::over_counter(&invariant, false).unwrap_err(), ClockError::KernelDistrusts);
        let (clock, reason) = Clock::best(&invariant, false);
        assert_eq!((clock.source(), reason), (Source::Monotonic, Some(ClockError::KernelDistrusts)));
    }

    #[test]
    fn conversions_are_inverse_and_saturate() {
        for hz in [1_000_000, 25_000_000, GHZ, 2_300_000_000, 5_000_000_000, 20 * GHZ] {
            let rate = Rate::from_hz(hz).unwrap();
            assert_eq!(rate.ticks_from_ns(NS_PER_S), hz, "a second of {hz}");
            for ns in [0, 1_000, 4_000, 1_000_000, 3_600 * NS_PER_S] {
                let tick = NS_PER_S.div_ceil(hz);
                let back = rate.ns_from_ticks(rate.ticks_from_ns(ns));
                assert!(back.abs_diff(ns) <= tick + ns / 10_000_000, "{hz}: {ns} came back as {back}");
            }
            assert_eq!(rate.ticks_from_ns(0), 0);
            // Whichever way stretches, saturates instead of wrapping.
            assert_eq!(rate.ticks_from_ns(u64::MAX).max(rate.ns_from_ticks(u64::MAX)), u64::MAX);
        }
        assert_eq!(Rate::from_hz(GHZ), Some(Rate::NANOSECONDS));
        assert_eq!(Rate::NANOSECONDS.ticks_from(Duration::MAX), u64::MAX);
        for hz in [0, 1, 999_999, 20 * GHZ + 1, u64::MAX] {
            assert_eq!(Rate::from_hz(hz), None);
        }
    }

    #[test]
    fn backwards_time_has_elapsed_0() {
        assert_eq!(Ticks(5).since(Ticks(9)), 0);
        assert_eq!(Ticks(9).since(Ticks(5)), 4);
        assert_eq!(Ticks(9).after(u64::MAX), Ticks(u64::MAX));
    }

    #[test]
    fn the_real_clock_keeps_pace_with_the_standard_one() {
        // Trust is asserted: a machine whose kernel distrusts the counter may fail to measure it, and then falls back.
        let (clock, reason) = Clock::best(&Capabilities::detect(), true);
        let (wall, start) = (std::time::Instant::now(), clock.now());
        std::thread::sleep(Duration::from_millis(20));
        let (ours, theirs) = (clock.duration(clock.now().since(start)), wall.elapsed());
        // The two are read one after the other, and a preemption may come between.
        let off = ours.abs_diff(theirs);
        assert!(off < theirs / 10, "{ours:?} against {theirs:?} by {:?} ({reason:?})", clock.source());
    }

    #[test]
    fn thread_cpu_time_grows_with_work() {
        let before = thread_cpu_ns();
        let mut sum = 0_u64;
        for i in 0..100_000 {
            sum = std::hint::black_box(sum ^ i);
        }
        assert!(thread_cpu_ns() > before);
    }
}
