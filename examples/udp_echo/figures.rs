//! From samples to figures: histograms that travel as text, quantiles with their conditions, medians with their spread.

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::clock::NS_PER_S;

/// The longest latency told apart, in nanoseconds; longer ones count as this long. Ten seconds: no slot lasts so long.
const LATENCY_MAX_NS: u64 = 10 * NS_PER_S;

/// Significant digits of a recorded latency: within 0.1 %, finer than anything here repeats.
const DIGITS: u8 = 3;

/// Samples from which on a p99.9 is printed: below that it is the word of fewer than ten samples.
pub const P999_SAMPLES_MIN: u64 = 10_000;

/// An empty histogram of latencies in nanoseconds.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS).unwrap_or_else(|_| unreachable!("the bounds are constants"))
}

/// The `quantile` (0 to 1) in microseconds; nothing without samples.
pub fn quantile_us(samples: &Histogram<u64>, quantile: f64) -> Option<f64> {
    (!samples.is_empty()).then(|| samples.value_at_quantile(quantile) as f64 / 1e3)
}

/// The p99.9 in microseconds, from [`P999_SAMPLES_MIN`] samples up.
pub fn p999_us(samples: &Histogram<u64>) -> Option<f64> {
    if samples.len() < P999_SAMPLES_MIN { None } else { quantile_us(samples, 0.999) }
}

/// All samples of several histograms in one.
pub fn merged<'h>(all: impl IntoIterator<Item = &'h Histogram<u64>>) -> Histogram<u64> {
    let mut sum = latency_histogram();
    for one in all {
        // Every histogram here has the same bounds, so an addition cannot be out of range.
        let _ = sum.add(one);
    }
    sum
}

/// A histogram as `[[nanoseconds, count], …]`.
pub fn to_json(samples: &Histogram<u64>) -> Value {
    samples.iter_recorded().map(|bucket| json!([bucket.value_iterated_to(), bucket.count_at_value()])).collect()
}

/// The reverse of [`to_json`]; nothing when it is not of that form.
pub fn from_json(value: &Value) -> Option<Histogram<u64>> {
    let mut samples = latency_histogram();
    for bucket in value.as_array()? {
        let (at, count) = (bucket.get(0)?.as_u64()?, bucket.get(1)?.as_u64()?);
        samples.saturating_record_n(at, count);
    }
    Some(samples)
}

/// Microseconds for people: three digits are more than repeats agree on.
pub fn micros(us: f64) -> String {
    if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

/// The median of some repeats, and how far they went apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle one, or the mean of the two middle ones.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Spread {
    /// Of some repeats, in any order; nothing without any.
    pub fn of(repeats: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = repeats.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Self { median, min, max })
    }

    /// Half the way from the smallest to the largest, as a part of the median.
    pub fn relative(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / 2.0 / self.median.abs() }
    }

    /// For machines.
    pub fn to_json(self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }
}

/// So much for one of `whole`; nothing where there is none.
pub fn ratio(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// A part of a whole in percent; nothing of nothing.
pub fn percent(part: f64, whole: f64) -> Option<f64> {
    ratio(part, whole).map(|ratio| ratio * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_their_spread() {
        let table: [(&[f64], Option<(f64, f64, f64)>); 4] = [
            (&[], None),
            (&[3.0], Some((3.0, 3.0, 3.0))),
            (&[9.0, 1.0, 2.0], Some((2.0, 1.0, 9.0))),
            (&[4.0, 1.0, 2.0, 9.0], Some((3.0, 1.0, 9.0))),
        ];
        for (repeats, want) in table {
            let got = Spread::of(repeats.iter().copied()).map(|spread| (spread.median, spread.min, spread.max));
            assert_eq!(got, want, "{repeats:?}");
        }
        assert_eq!(Spread { median: 10.0, min: 9.0, max: 12.0 }.relative(), 0.15);
        assert_eq!(Spread { median: 0.0, min: 0.0, max: 0.0 }.relative(), 0.0);
    }

    #[test]
    fn a_histogram_travels() {
        let mut samples = latency_histogram();
        for at in [1, 1, 250, 90_000, u64::MAX] {
            samples.saturating_record(at);
        }
        let back = from_json(&to_json(&samples)).expect("it was just written");
        assert_eq!(back.len(), 5);
        for quantile in [0.1, 0.5, 0.7, 1.0] {
            assert_eq!(back.value_at_quantile(quantile), samples.value_at_quantile(quantile));
        }
        assert!(from_json(&json!("nonsense")).is_none());
        assert!(from_json(&json!([[1]])).is_none());
    }

    #[test]
    fn quantiles_need_samples() {
        let mut samples = latency_histogram();
        assert_eq!(quantile_us(&samples, 0.5), None);
        samples.saturating_record_n(2_000, P999_SAMPLES_MIN - 1);
        assert!(quantile_us(&samples, 0.5).is_some());
        assert_eq!(p999_us(&samples), None, "one sample short");
        samples.saturating_record(2_000);
        assert!(p999_us(&samples).is_some());
    }
}
