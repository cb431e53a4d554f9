//! Middle, tail and best of some samples.

/// The middle sample. NaN of none, so that a figure without samples can keep no bound.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// The sample below which this part of all samples lies (nearest rank).
pub fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// The smallest sample: what the code takes when nothing disturbs it.
pub fn best(samples: &[f64]) -> f64 {
    samples.iter().copied().min_by(f64::total_cmp).unwrap_or(f64::NAN)
}
