//! When do events arrive? Generated from a seed, or read from a file.

use std::fmt;
use std::path::{Path, PathBuf};

/// A named list of arrival times in nanoseconds, in order.
#[derive(Clone, Debug)]
pub struct Traffic {
    name: String,
    arrivals: Vec<u64>,
}

/// 1 s in nanoseconds.
const NS_PER_S: f64 = 1e9;

impl Traffic {
    /// `count` events, `per_second` on average, independent of each other.
    pub fn poisson(per_second: u64, count: usize, seed: u64) -> Self {
        let gap = NS_PER_S / per_second as f64;
        Self::from_gaps(&format!("poisson {}", si(per_second)), count, seed, |dice| dice.exponential(gap))
    }

    /// Bursts of 32 events on average (the size is geometric), 500 ns apart within, 1 ms between bursts.
    pub fn bursts(count: usize, seed: u64) -> Self {
        const BETWEEN: f64 = 1e6;
        const WITHIN: f64 = 500.0;
        const ENDS: f64 = 1.0 / 32.0;
        Self::from_gaps("bursts of 32", count, seed, |dice| {
            let mean = if dice.unit() < ENDS { BETWEEN } else { WITHIN };
            dice.exponential(mean)
        })
    }

    /// An event every 100 us, each up to 5 us late.
    pub fn periodic(count: usize, seed: u64) -> Self {
        const PERIOD: f64 = 100_000.0;
        const JITTER: f64 = 5_000.0;
        let mut dice = Dice::new(seed);
        let arrivals = (1..=count).map(|i| (i as f64 * PERIOD + dice.unit() * JITTER) as u64).collect();
        Self { name: "periodic 100 us".into(), arrivals }
    }

    /// An event every 60 us to the nanosecond. 60 us is a multiple of every usual pass cost, so that a lane that polls
    /// without any wait may happen to look at the very instant of each arrival: a lucky baseline.
    pub fn phase_locked(count: usize, seed: u64) -> Self {
        const PERIOD: u64 = 60_000;
        // The seed moves the phase, which is all there is to vary.
        let phase = Dice::new(seed).unit() * PERIOD as f64;
        let arrivals = (1..=count as u64).map(|i| i * PERIOD + phase as u64).collect();
        Self { name: "phase-locked 60 us".into(), arrivals }
    }

    /// Gaps of 2 us and more, Pareto with exponent 1.3, up to 50 ms.
    pub fn pareto(count: usize, seed: u64) -> Self {
        const SHORTEST: f64 = 2_000.0;
        const LONGEST: f64 = 5e7;
        const EXPONENT: f64 = 1.3;
        Self::from_gaps("pareto 1.3", count, seed, |dice| (SHORTEST / dice.unit().powf(1.0 / EXPONENT)).min(LONGEST))
    }

    /// Poisson traffic of 200 k/s for 1 ms on average, then nothing for 4 ms on average, in turn.
    pub fn on_off(count: usize, seed: u64) -> Self {
        const GAP: f64 = 5_000.0;
        const ON: f64 = 1e6;
        const OFF: f64 = 4e6;
        let mut on_left = 0.0;
        Self::from_gaps("on/off 200 k/s", count, seed, move |dice| {
            let mut gap = dice.exponential(GAP);
            let mut waited = 0.0;
            while gap > on_left {
                gap -= on_left;
                waited += on_left + dice.exponential(OFF);
                on_left = dice.exponential(ON);
            }
            on_left -= gap;
            waited + gap
        })
    }

    /// A recorded trace: one arrival time in nanoseconds per line, ascending. Empty lines and lines that start with `#` are
    /// skipped. Times count from the first.
    ///
    /// # Errors
    ///
    /// [`TrafficError`] names the file and the line.
    pub fn replay(path: &Path) -> Result<Self, TrafficError> {
        let at = |line, what: String| TrafficError { path: path.to_path_buf(), line, what };
        let text = std::fs::read_to_string(path).map_err(|error| at(0, error.to_string()))?;
        let mut arrivals: Vec<u64> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let time: u64 =
                line.parse().map_err(|_| at(number + 1, format!("`{line}` is no whole number of nanoseconds")))?;
            if arrivals.last().is_some_and(|last| time < *last) {
                return Err(at(number + 1, format!("{time} is earlier than the line before; sort the file")));
            }
            arrivals.push(time);
        }
        let Some(first) = arrivals.first().copied() else {
            return Err(at(0, "no arrival in it".into()));
        };
        // A microsecond of idle time before the first, so that a lane can be idle when it comes.
        const LEAD: u64 = 1_000;
        arrivals.iter_mut().for_each(|time| *time = *time - first + LEAD);
        let stem = path.file_stem().map_or_else(|| "replay".into(), |stem| stem.to_string_lossy().into_owned());
        Ok(Self { name: stem, arrivals })
    }

    /// Traffic of one's own.
    ///
    /// # Panics
    ///
    /// If `arrivals` is empty or not in order.
    pub fn new(name: &str, arrivals: Vec<u64>) -> Self {
        assert!(!arrivals.is_empty() && arrivals.is_sorted(), "{name}: arrivals have to be there, and in order");
        Self { name: name.into(), arrivals }
    }

    fn from_gaps(name: &str, count: usize, seed: u64, mut gap: impl FnMut(&mut Dice) -> f64) -> Self {
        let mut dice = Dice::new(seed);
        let mut at = 0.0;
        let arrivals = (0..count)
            .map(|_| {
                at += gap(&mut dice);
                at as u64
            })
            .collect();
        Self { name: name.into(), arrivals }
    }

    /// What it is called in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The arrival times, in nanoseconds, ascending.
    pub fn arrivals(&self) -> &[u64] {
        &self.arrivals
    }
}

fn si(n: u64) -> String {
    match n {
        n if n >= 1_000_000 && n % 1_000_000 == 0 => format!("{} M/s", n / 1_000_000),
        n if n >= 1_000 && n % 1_000 == 0 => format!("{} k/s", n / 1_000),
        n => format!("{n}/s"),
    }
}

/// Why a recorded trace cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficError {
    path: PathBuf,
    /// 0 if it is about the whole file.
    line: usize,
    what: String,
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.what)
    }
}

impl std::error::Error for TrafficError {}

/// xorshift64*: small, and the same on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        // Never 0, which would stay 0; and neighbouring seeds end far apart.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Even in (0, 1).
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }

    /// Standard normal.
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}
