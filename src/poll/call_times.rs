//! How long do a poller's calls take? A sample of them, so that the others cost nothing.
//!
//! About a thousand calls a second are timed: the first one in each of the lane's windows of a millisecond, and the one after a park. Which they are
//! does not depend on what they find, so that means and percentiles are those of all calls, empty ones included; what takes long once in an hour may well be
//! missed.
//!
//! One thread writes, the lane's; any thread reads.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Classes an octave, so that a percentile is too high by a quarter at most.
const CLASSES_PER_OCTAVE: u32 = 4;
const CLASSES_PER_OCTAVE_LOG2: u32 = 2;
/// 2^32 ns and more (4 s) are one class.
const OCTAVES: u32 = 32;
const CLASSES: usize = (OCTAVES * CLASSES_PER_OCTAVE) as usize;

#[derive(Debug)]
pub(crate) struct CallTimes {
    classes: [AtomicU32; CLASSES],
    ns: AtomicU64,
    longest_ns: AtomicU64,
}

/// What the sample says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sample {
    pub calls: u64,
    pub mean: Duration,
    pub p99: Duration,
    pub longest: Duration,
}

impl Default for CallTimes {
    fn default() -> Self {
        let classes = [const { AtomicU32::new(0) }; CLASSES];
        Self { classes, ns: AtomicU64::new(0), longest_ns: AtomicU64::new(0) }
    }
}

impl CallTimes {
    /// A call took so long. Only the lane calls it.
    pub(crate) fn record(&self, ns: u64) {
        // Relaxed throughout: statistics with one writer.
        let class = &self.classes[class_of(ns)];
        class.store(class.load(Relaxed).saturating_add(1), Relaxed);
        self.ns.store(self.ns.load(Relaxed).saturating_add(ns), Relaxed);
        if ns > self.longest_ns.load(Relaxed) {
            self.longest_ns.store(ns, Relaxed);
        }
    }

    /// May mix values that are a sample apart.
    pub(crate) fn read(&self) -> Sample {
        // Relaxed: statistics; a reader accepts any recent value.
        let counts: Vec<u64> = self.classes.iter().map(|class| class.load(Relaxed).into()).collect();
        let (ns, longest_ns) = (self.ns.load(Relaxed), self.longest_ns.load(Relaxed));
        let calls: u64 = counts.iter().sum();
        if calls == 0 {
            return Sample::default();
        }
        // The class in which the last of 99 in a hundred lies.
        let below = calls - calls / 100;
        let mut seen = 0;
        let class = counts.iter().position(|count| {
            seen += count;
            seen >= below
        });
        let p99_ns = class.map_or(longest_ns, |class| above(class).min(longest_ns));
        let of = Duration::from_nanos;
        Sample { calls, mean: of(ns / calls), p99: of(p99_ns), longest: of(longest_ns) }
    }
}

/// Times below 4 ns have a class each, later ones a quarter of an octave.
fn class_of(ns: u64) -> usize {
    if ns < u64::from(CLASSES_PER_OCTAVE) {
        return ns as usize;
    }
    let octave = ns.ilog2();
    let part = (ns >> (octave - CLASSES_PER_OCTAVE_LOG2)) as usize & (CLASSES_PER_OCTAVE as usize - 1);
    let class = ((octave - CLASSES_PER_OCTAVE_LOG2 + 1) << CLASSES_PER_OCTAVE_LOG2) as usize + part;
    class.min(CLASSES - 1)
}

/// The longest time of a class.
fn above(class: usize) -> u64 {
    if class == CLASSES - 1 {
        return u64::MAX;
    }
    let next = class as u64 + 1;
    let parts = u64::from(CLASSES_PER_OCTAVE);
    if next <= parts { next - 1 } else { ((parts + next % parts) << (next / parts - 1)) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_all_times_in_order_and_are_narrow() {
        assert_eq!((class_of(0), class_of(u64::MAX)), (0, CLASSES - 1));
        for class in 0..CLASSES - 1 {
            let last = above(class);
            assert_eq!((class_of(last), class_of(last + 1)), (class, class + 1), "{class}: up to {last}");
            assert!(class == 0 || last - above(class - 1) <= last / 4 + 1, "{class}: up to {last}");
        }
    }

    #[test]
    fn a_sample_is_told_as_it_is() {
        let times = CallTimes::default();
        assert_eq!(times.read(), Sample::default());
        (0..990).for_each(|_| times.record(100));
        (0..9).for_each(|_| times.record(2_000));
        times.record(70_000);
        let Sample { calls, mean, p99, longest } = times.read();
        assert_eq!((calls, longest), (1_000, Duration::from_micros(70)));
        assert_eq!(mean, Duration::from_nanos((990 * 100 + 9 * 2_000 + 70_000) / 1_000));
        assert!((100..125).contains(&p99.as_nanos()), "{p99:?}");
        (0..3).for_each(|_| times.record(2_000));
        let p99 = times.read().p99;
        assert!((2_000..2_500).contains(&p99.as_nanos()), "{p99:?}");
        // One call, however odd: it is the mean, the percentile and the longest.
        let times = CallTimes::default();
        times.record(u64::MAX);
        assert_eq!(times.read().p99, times.read().longest);
    }
}
