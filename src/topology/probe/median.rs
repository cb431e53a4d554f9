//! The median of some samples, and the interval in which the true one lies. Pure.
//!
//! The interval comes from ranks: of n samples, each is below the true median with probability one half, so the number below
//! it is binomial whatever the distribution looks like. Outliers, skew and two humps do it no harm.

/// Probability, on either side, that the true median lies outside the interval.
const TAIL_MAX: f64 = 0.01;

/// The least samples that have an interval: with fewer, even all of them on one side are not rare enough (1/64 > 0.01).
pub(super) const SAMPLES_MIN: usize = 7;

/// The median, between its bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Interval {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

/// The interval of the median; `None` with fewer than [`SAMPLES_MIN`] samples. Sorts the samples.
pub(super) fn interval(samples: &mut [f64]) -> Option<Interval> {
    let out = cut(samples.len())?;
    let median = median(samples)?;
    Some(Interval { low: samples[out], median, high: samples[samples.len() - 1 - out] })
}

/// The middle one, or the mean of the two middle ones; `None` of none. Sorts the samples.
pub(super) fn median(samples: &mut [f64]) -> Option<f64> {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(samples[middle]),
        _ => Some((samples[middle - 1] + samples[middle]) / 2.0),
    }
}

/// How many of the smallest (and of the largest) of so many samples lie outside the interval: the most for which the chance
/// that no more than these are below the true median stays within [`TAIL_MAX`]. `None`: not even the smallest is within.
fn cut(samples: usize) -> Option<usize> {
    // Terms of the binomial distribution with p = 1/2, from 0 up. Beyond a thousand samples the first ones vanish in an f64,
    // which makes the tail a trifle too small at worst; windows have a few hundred.
    let mut term = 0.5_f64.powi(i32::try_from(samples).unwrap_or(i32::MAX));
    let mut tail = 0.0;
    let mut fits = None;
    for below in 0..samples / 2 {
        tail += term;
        if tail > TAIL_MAX {
            break;
        }
        fits = Some(below);
        term *= (samples - below) as f64 / (below + 1) as f64;
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cut_is_that_of_the_tables() {
        // From tables of the sign test, one-sided at 0.01: so many may differ. One sample: nothing is rare enough.
        let table = [
            (0, None),
            (1, None),
            (6, None),
            (7, Some(0)),
            (10, Some(0)),
            (11, Some(1)),
            (20, Some(4)),
            (30, Some(8)),
            (50, Some(16)),
        ];
        for (samples, want) in table {
            assert_eq!(cut(samples), want, "{samples} samples");
        }
        assert_eq!(cut(SAMPLES_MIN - 1), None);
        assert!(cut(SAMPLES_MIN).is_some());
        assert!(cut(1_000).is_some_and(|out| (450..500).contains(&out)));
    }

    #[test]
    fn medians() {
        let table: [(&[f64], Option<f64>); 4] =
            [(&[], None), (&[3.0], Some(3.0)), (&[9.0, 1.0, 2.0], Some(2.0)), (&[4.0, 1.0, 2.0, 9.0], Some(3.0))];
        for (samples, want) in table {
            assert_eq!(median(&mut samples.to_vec()), want, "{samples:?}");
        }
    }

    #[test]
    fn the_interval_holds_the_middle_and_leaves_outliers_out() {
        let mut samples: Vec<f64> = (0..20).map(|at| f64::from(at % 5) * 0.01 + 0.5).collect();
        samples[3] = 1_000.0;
        samples[11] = -1_000.0;
        let found = interval(&mut samples).unwrap();
        assert!(found.low >= 0.5 && found.high <= 0.55 && found.low <= found.median && found.median <= found.high);
        assert_eq!(interval(&mut [1.0; SAMPLES_MIN - 1]), None);
        assert_eq!(interval(&mut [1.0; SAMPLES_MIN]), Some(Interval { low: 1.0, median: 1.0, high: 1.0 }));
    }

    /// The promise itself, on samples of a known median: the interval misses it about as rarely as it says.
    #[test]
    fn the_interval_misses_the_true_median_rarely() {
        const TRIALS: u32 = 4_000;
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as f64 / u64::MAX as f64
        };
        let mut missed = 0;
        for _ in 0..TRIALS {
            // Skewed: the square of a uniform number has its median at 1/4.
            let mut samples: Vec<f64> = (0..25).map(|_| uniform().powi(2)).collect();
            let found = interval(&mut samples).unwrap();
            missed += u32::from(found.low > 0.25 || found.high < 0.25);
        }
        let part = f64::from(missed) / f64::from(TRIALS);
        assert!(part < 2.0 * TAIL_MAX + 0.005, "{part} of the intervals miss");
        assert!(part > 0.2 * TAIL_MAX, "an interval that never misses is wider than it need be: {part}");
    }
}
