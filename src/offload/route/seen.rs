//! What is believed of a cost after one more sample.
//!
//! The mean of what was seen, in the end of the last sixteen or so. A single outlier (a preemption, a page fault) moves it by little; two in a row on the same side, or three
//! that are far off, are taken for news, and what was learnt before counts for little from then on.

/// The weight of a sample in the long run.
const WEIGHT_LEAST: f32 = 1.0 / 16.0;
/// What was believed before anything was seen counts as this part of a sample: it is a guess.
const BELIEF: f32 = 0.25;
/// A sample counts as no more than so many times what was believed, or as no less than that part of it.
pub(super) const OUTLIER: f32 = 4.0;
/// After so many samples, a single one that is off counts as no more than [`NEWS`].
const KNOWN: u16 = 4;
/// A sample that is off by more than this is news, if the one before was, too...
pub(super) const NEWS: f32 = 1.3;
/// ... and one that is off by more than [`OUTLIER`], if these many before were: preemptions come twice in a row now and then, and are as far off as hardly any news is.
const FAR_BEFORE: u8 = 2;

/// How much is known of a cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    samples: u16,
    /// The last sample was off by more than [`NEWS`]: dearer (1), cheaper (-1).
    off: i8,
    /// Samples in a row that were, on the same side.
    run: u8,
}

impl Seen {
    pub(super) fn samples(&self) -> u16 {
        self.samples
    }

    /// How far the belief goes to a sample (0 to 1), and the sample without what is taken for an accident. News begins anew.
    pub(super) fn weigh(&mut self, believed: f32, sample: f32) -> (f32, f32) {
        let off = match sample / believed {
            ratio if ratio > NEWS => 1,
            ratio if ratio < 1.0 / NEWS => -1,
            _ => 0,
        };
        let before = if off != 0 && off == self.off { self.run } else { 0 };
        (self.off, self.run) = (off, if off == 0 { 0 } else { before.saturating_add(1) });
        let far = !(1.0 / OUTLIER..=OUTLIER).contains(&(sample / believed));
        let is_news = before >= if far { FAR_BEFORE } else { 1 };
        if off != 0 && is_news && self.samples >= KNOWN {
            self.samples = 0;
        }
        // A first one may be nobody's fault: it tells a direction and no size.
        let most = if off != 0 && !is_news && self.samples >= KNOWN { NEWS } else { OUTLIER };
        let weight = (1.0 / (f32::from(self.samples) + 1.0 + BELIEF)).max(WEIGHT_LEAST);
        self.samples = self.samples.saturating_add(1);
        (weight, sample.clamp(believed / most, believed * most))
    }

    /// What is believed after a sample.
    pub(super) fn follow(&mut self, believed: f32, sample: f32) -> f32 {
        let (weight, sample) = self.weigh(believed, sample);
        believed + weight * (sample - believed)
    }

    /// Whether the last sample was far from what was believed.
    pub(super) fn is_off(&self) -> bool {
        self.off != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_moves_little_and_news_moves_much() {
        let mut seen = Seen { samples: 100, ..Seen::default() };
        let mut cost = 1.0;
        cost = seen.follow(cost, 1_000.0);
        cost = seen.follow(cost, 1_000.0);
        assert!(cost < 1.05, "two accidents: {cost}");
        for _ in 0..30 {
            cost = seen.follow(cost, 1.0);
        }
        assert!((0.99..1.01).contains(&cost), "{cost}");
        for _ in 0..6 {
            cost = seen.follow(cost, 2.0);
        }
        assert!((1.7..2.01).contains(&cost), "two in a row are news: {cost}");
    }

    #[test]
    fn a_guess_counts_for_little_beside_what_was_seen() {
        // What was believed, what is seen, after how many samples, what is believed then.
        for (believed, sample, samples, want) in
            [(100.0, 200.0, 1, 180.0), (100.0, 200.0, 4, 194.0), (100.0, 50.0, 4, 53.0), (100.0, 3_000.0, 1, 340.0)]
        {
            let mut seen = Seen::default();
            let after = (0..samples).fold(believed, |believed: f32, _| seen.follow(believed, sample));
            assert!((after / want - 1.0).abs() < 0.02, "{believed} {sample} {samples}: {after}, not {want}");
        }
    }
}
