//! What does a submission cost the core, and each operation in it?
//!
//! So much for the portal write, however many go by it, and so much for each operation: its descriptor, its record, its task's wake. Batches of different sizes tell the two apart; where all
//! are of one size, their sum at that size is what is learnt, and the two keep to what was believed as near as that lets them.

use super::seen::Seen;

/// How far off what is believed at first may be, in parts of it; how far what was learnt may have drifted, in the long run.
const DOUBT_FIRST: f32 = 0.7;
/// Noise of a sample, in parts of it.
const NOISE: f32 = 0.1;
/// After a sample, older ones count for so much less.
const FORGET: f32 = 1.0 / 48.0;
/// Neither is less than this part of what was believed at first: samples of one size would be explained by one of the two alone.
const LEAST: f32 = 1.0 / 16.0;

/// Two costs in nanoseconds, and how well they are known: recursive least squares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Submission {
    submit_ns: f32,
    operation_ns: f32,
    /// Variances of the two, and their covariance.
    doubt: [f32; 3],
    first: [f32; 2],
    seen: Seen,
}

impl Submission {
    pub(super) fn new(submit_ns: f32, operation_ns: f32) -> Self {
        let doubt = doubt(submit_ns, operation_ns);
        Self { submit_ns, operation_ns, doubt, first: [submit_ns, operation_ns], seen: Seen::default() }
    }

    pub(super) fn submit_ns(&self) -> f32 {
        self.submit_ns
    }

    pub(super) fn operation_ns(&self) -> f32 {
        self.operation_ns
    }

    pub(super) fn samples(&self) -> u16 {
        self.seen.samples()
    }

    pub(super) fn is_off(&self) -> bool {
        self.seen.is_off()
    }

    /// `count` operations went together, and took the core so long in all.
    pub(super) fn follow(&mut self, count: u32, ns: f32) {
        let count = count.max(1) as f32;
        let believed = self.submit_ns + count * self.operation_ns;
        let (_, ns) = self.seen.weigh(believed, ns);
        if self.seen.samples() == 1 {
            // News: what was learnt is no better than a guess now.
            self.doubt = doubt(self.submit_ns, self.operation_ns);
        }
        let [submit, both, operation] = self.doubt;
        // How either goes with the sum.
        let (by_submit, by_operation) = (submit + count * both, both + count * operation);
        let noise = (NOISE * ns) * (NOISE * ns);
        let whole = by_submit + count * by_operation + noise;
        let off = ns - believed;
        let least = self.first.map(|first| first * LEAST);
        self.submit_ns = (self.submit_ns + off * by_submit / whole).max(least[0]);
        self.operation_ns = (self.operation_ns + off * by_operation / whole).max(least[1]);
        let doubt = [
            submit - by_submit * by_submit / whole,
            both - by_submit * by_operation / whole,
            operation - by_operation * by_operation / whole,
        ];
        self.doubt = drifted(doubt, self.submit_ns, self.operation_ns);
    }
}

fn doubt(submit_ns: f32, operation_ns: f32) -> [f32; 3] {
    let square = |ns: f32| (DOUBT_FIRST * ns) * (DOUBT_FIRST * ns);
    [square(submit_ns), 0.0, square(operation_ns)]
}

/// Doubt grows with time, and never beyond what it was at first: in a direction that samples say nothing of, it would grow for ever.
fn drifted([submit, both, operation]: [f32; 3], submit_ns: f32, operation_ns: f32) -> [f32; 3] {
    let [submit_most, _, operation_most] = doubt(submit_ns, operation_ns);
    let grow = 1.0 / (1.0 - FORGET);
    let (submit, both, operation) = (submit * grow, both * grow, operation * grow);
    // Scaled in rows and columns alike, or the three would be no doubt of anything.
    // Rounding may leave less than nothing.
    let shrink = |most: f32, doubt: f32| (most / doubt.max(most * f32::EPSILON)).sqrt().min(1.0);
    let (a, b) = (shrink(submit_most, submit), shrink(operation_most, operation));
    [submit.max(0.0) * a * a, both * a * b, operation.max(0.0) * b * b]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_different_sizes_tell_the_two_apart() {
        // What is believed; what it is; sizes of batches in turn; whether the two are found out, or their sum alone.
        type Case = ((f32, f32), (f32, f32), &'static [u32], bool);
        let cases: [Case; 6] = [
            ((400.0, 60.0), (100.0, 20.0), &[1, 8], true),
            ((400.0, 60.0), (400.0, 120.0), &[3, 5, 8, 2], true),
            ((400.0, 60.0), (50.0, 90.0), &[1, 2, 16], true),
            ((400.0, 60.0), (60.0, 20.0), &[1], false),
            ((400.0, 60.0), (60.0, 20.0), &[16], false),
            ((60.0, 20.0), (400.0, 60.0), &[16], false),
        ];
        for (believed, real, counts, apart) in cases {
            let mut line = Submission::new(believed.0, believed.1);
            for turn in 0..400 {
                let count = counts[turn % counts.len()];
                // Twentieths of noise either way, in a fixed order.
                let noise = 0.95 + 0.1 * ((turn * 7) % 11) as f32 / 10.0;
                line.follow(count, noise * (real.0 + count as f32 * real.1));
            }
            let near = |ns: f32, want: f32| (ns / want - 1.0).abs() < 0.08;
            for &count in counts {
                let (sum, want) =
                    (line.submit_ns() + count as f32 * line.operation_ns(), real.0 + count as f32 * real.1);
                assert!(near(sum, want), "{real:?} by {count}: {sum}, not {want}: {line:?}");
            }
            if apart {
                let off = (line.submit_ns() - real.0).abs() / real.0 + (line.operation_ns() - real.1).abs() / real.1;
                assert!(off < 0.25, "{real:?}: {line:?}");
            }
        }
    }

    #[test]
    fn an_accident_moves_little_and_news_is_followed() {
        let mut line = Submission::new(100.0, 20.0);
        (0..100).for_each(|turn| line.follow(1 + turn % 8, 100.0 + (1 + turn % 8) as f32 * 20.0));
        line.follow(4, 50_000.0);
        assert!(line.submit_ns() + line.operation_ns() < 150.0, "{line:?}");
        (0..40).for_each(|turn| line.follow(1 + turn % 8, 300.0 + (1 + turn % 8) as f32 * 60.0));
        assert!((280.0..320.0).contains(&line.submit_ns()) && (55.0..65.0).contains(&line.operation_ns()), "{line:?}");
    }

    #[test]
    fn a_small_change_is_followed_however_long_all_was_the_same() {
        let mut line = Submission::new(100.0, 20.0);
        let mut play = |turns: u32, submit: f32, operation: f32| {
            (0..turns).for_each(|turn| line.follow(1 + turn % 8, submit + (1 + turn % 8) as f32 * operation));
            line.submit_ns() / submit + line.operation_ns() / operation
        };
        assert!((play(5_000, 100.0, 20.0) - 2.0).abs() < 0.02);
        // Less than what is taken for news.
        assert!((play(200, 120.0, 24.0) - 2.0).abs() < 0.04);
    }

    #[test]
    fn nonsense_leaves_costs_that_are_costs() {
        let mut line = Submission::new(400.0, 60.0);
        for turn in 0..2_000_u32 {
            let ns = [1.0, 1e10, 3.0, 1e5][turn as usize % 4];
            line.follow([1, 1000, 0, 7][turn as usize / 3 % 4], ns);
            assert!(line.submit_ns().is_finite() && line.submit_ns() > 0.0, "{turn}: {line:?}");
            assert!(line.operation_ns().is_finite() && line.operation_ns() > 0.0, "{turn}: {line:?}");
        }
    }
}
