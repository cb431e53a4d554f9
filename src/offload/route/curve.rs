//! What does something cost at a size? Values at powers of two, and straight lines between them.
//!
//! Straight lines, because costs have that shape: so much before the first byte, so much for each, and a knee where caches or prefetchers begin or end. A curve starts as what
//! is believed and follows what is seen: a sample moves the two values beside it. Values beside which nothing was seen yet keep to what is believed, times what the
//! nearest that is known came to.

use super::bins::{OCTAVES, octave_of};
use super::seen::Seen;
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Values: both ends of each octave.
pub(super) const NODES: usize = OCTAVES + 1;
/// A value is known as soon as a sample had this part of it. In the middle of an octave, both have a half.
const NEAR: f32 = 0.3;

/// Written by one (under the learner's lock), read by all.
#[derive(Debug)]
pub(super) struct Curve([AtomicU32; NODES]);

/// A point of a curve: the cost in nanoseconds, and how much a byte more costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) ns: f32,
    pub(super) byte_ns: f32,
}

/// The size at which a value stands.
#[inline(always)]
pub(super) fn node_len(node: usize) -> f32 {
    // A power of two is its exponent: no conversion.
    f32::from_bits((127 + 4 + node as u32) << 23)
}

/// A size as a float: from a signed number that is one instruction. There are no sizes beyond.
#[inline(always)]
fn float_of(len: usize) -> f32 {
    len as i64 as f32
}

impl Curve {
    /// From what is believed.
    pub(super) fn new(believed: impl Fn(usize) -> f32) -> Self {
        Self(std::array::from_fn(|node| AtomicU32::new(believed(16 << node).to_bits())))
    }

    /// The value at a power of two.
    #[inline]
    pub(super) fn node(&self, node: usize) -> f32 {
        // Relaxed: words that stand alone, and an old one is as good an answer as a new one.
        f32::from_bits(self.0[node].load(Relaxed))
    }

    fn set_node(&self, node: usize, ns: f32) {
        self.0[node].store(ns.to_bits(), Relaxed);
    }

    /// Sizes below the first value cost as much as that; above the last, the last line goes on.
    #[inline]
    pub(super) fn at(&self, len: usize) -> Point {
        let octave = octave_of(len);
        let (from, to) = (self.node(octave), self.node(octave + 1));
        let start = node_len(octave);
        // An octave is as wide as its first size is large.
        let byte_ns = (to - from) / start;
        let beyond = (float_of(len) - start).max(0.0);
        // Beyond the last value, a line that falls would end below nothing.
        Point { ns: (from + beyond * byte_ns).max(from.min(to)), byte_ns }
    }

    /// In nanoseconds.
    #[inline]
    pub(super) fn ns(&self, len: usize) -> f32 {
        self.at(len).ns
    }
}

/// How much is known of a curve. Only the learner has it.
#[derive(Debug)]
pub(super) struct Known {
    octaves: [Seen; OCTAVES],
    nodes: [bool; NODES],
}

impl Default for Known {
    fn default() -> Self {
        Self { octaves: [Seen::default(); OCTAVES], nodes: [false; NODES] }
    }
}

impl Known {
    /// Samples of an octave.
    pub(super) fn samples(&self, octave: usize) -> u16 {
        self.octaves[octave].samples()
    }

    /// Moves the curve by a sample.
    pub(super) fn follow(&mut self, curve: &Curve, believed: impl Fn(usize) -> f32, len: usize, ns: f32) {
        let octave = octave_of(len);
        let was = curve.ns(len);
        let moved = self.octaves[octave].follow(was, ns) - was;
        let start = node_len(octave);
        let right = ((float_of(len) - start) / start).clamp(0.0, 1.0);
        let (left, whole) = (1.0 - right, right * right + (1.0 - right) * (1.0 - right));
        for (node, part) in [(octave, left), (octave + 1, right)] {
            let value = curve.node(node);
            // However far off a sample is: a cost stays one.
            curve.set_node(node, (value + moved * part / whole).max(value / 2.0));
        }
        for (node, part) in [(octave, left), (octave + 1, right)] {
            self.nodes[node] |= part >= NEAR;
        }
        self.spread(curve, believed);
    }

    /// Values that nothing is known of keep to the nearest that something is known of, the one of the smaller size if there are two.
    fn spread(&self, curve: &Curve, believed: impl Fn(usize) -> f32) {
        let mut before = None;
        let mut after = (0..NODES).find(|node| self.nodes[*node]);
        for node in 0..NODES {
            if self.nodes[node] {
                before = Some(node);
                after = (node + 1..NODES).find(|node| self.nodes[*node]);
                continue;
            }
            let nearest = match (before, after) {
                (Some(before), Some(after)) if node - before <= after - node => before,
                (Some(before), None) => before,
                (_, Some(after)) => after,
                (None, None) => return,
            };
            curve.set_node(node, believed(16 << node) * curve.node(nearest) / believed(16 << nearest));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn believed(len: usize) -> f32 {
        10.0 + 0.1 * len as f32
    }

    #[test]
    fn between_values_there_are_straight_lines() {
        assert!((0..NODES).all(|node| node_len(node) == (16_u64 << node) as f32));
        let curve = Curve::new(believed);
        for len in [16, 17, 31, 32, 1_000, 4_096, 100_000, 1 << 30] {
            assert!((curve.ns(len) / believed(len) - 1.0).abs() < 1e-4, "{len}: {}", curve.ns(len));
            assert!((curve.at(len).byte_ns / 0.1 - 1.0).abs() < 1e-3, "{len}");
        }
        assert_eq!(curve.ns(0), curve.ns(16), "as small as it is told apart");
        let falling = Curve::new(|len| 1e9 / len as f32);
        assert!([0, 100, 1 << 38, 1 << 50, isize::MAX as usize].into_iter().all(|len| falling.ns(len) > 0.0));
        assert!(curve.ns(usize::MAX) > 0.0 && curve.ns(isize::MAX as usize).is_finite());
    }

    #[test]
    fn one_size_is_found_out_and_the_others_keep_its_proportion() {
        for len in [1 << 12, 3 << 11, (1 << 12) + 100, (2 << 12) - 1] {
            let (curve, mut known) = (Curve::new(believed), Known::default());
            for _ in 0..40 {
                known.follow(&curve, believed, len, 3.0 * believed(len));
            }
            assert!((curve.ns(len) / (3.0 * believed(len)) - 1.0).abs() < 0.02, "{len}: {}", curve.ns(len));
            for other in [64, 1 << 20] {
                assert!(
                    (2.2..4.0).contains(&(curve.ns(other) / believed(other))),
                    "{len}: {other}: {}",
                    curve.ns(other)
                );
            }
        }
    }

    #[test]
    fn what_was_never_seen_takes_after_its_nearest_neighbour() {
        let curve = Curve::new(|_| 1.0);
        let mut known = Known::default();
        known.spread(&curve, |_| 1.0);
        assert!((0..NODES).all(|node| curve.node(node) == 1.0), "nothing is known: nothing moves");
        for (node, ns) in [(4, 4.0), (9, 9.0)] {
            curve.set_node(node, ns);
            known.nodes[node] = true;
        }
        known.spread(&curve, |_| 1.0);
        let value = |node: usize| curve.node(node);
        assert_eq!([0, 4, 6, 7, 9, NODES - 1].map(value), [4.0, 4.0, 4.0, 9.0, 9.0, 9.0]);
    }

    #[test]
    fn a_mix_of_sizes_finds_a_knee() {
        let real = |len: usize| 25.0 + len.min(16 << 10) as f32 / 3.0 + len.saturating_sub(16 << 10) as f32 / 10.0;
        let (curve, mut known) = (Curve::new(believed), Known::default());
        // 64 B to 1 MiB, evenly in octaves, in an order that repeats nothing soon.
        for turn in 0..700_u32 {
            let len =
                (64.0 * 16_384_f64.powf(f64::from(turn.wrapping_mul(2_654_435_769)) / f64::from(u32::MAX))) as usize;
            known.follow(&curve, believed, len, real(len));
        }
        for len in [100, 700, 5_000, 12_000, 20_000, 30_000, 50_000, 300_000] {
            assert!((curve.ns(len) / real(len) - 1.0).abs() < 0.03, "{len}: {} not {}", curve.ns(len), real(len));
        }
    }
}
