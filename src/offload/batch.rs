//! When does a batch close? A pure decision.
//!
//! One batch costs a portal write, a fetch of its list and a record of its own; each operation in it saves a portal write. Waiting for more saves more
//! and delays those that wait. So a batch closes when any of these is reached: a count, a number of bytes (a large operation keeps an engine busy
//! for longer than a portal write takes, so nothing is saved), an age; and whoever is about to wait, or asks, closes it at once.

use std::time::Duration;

/// When a batch closes. Every limit is one that must not be exceeded; 0 or 1 for `count` closes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Batching {
    /// Operations, [`COUNT`](Self::COUNT) by default; never more than a list has room for.
    pub(crate) count: u32,
    /// Bytes, [`BYTES`](Self::BYTES) by default.
    pub(crate) bytes: u64,
    /// How long the first may wait, [`AGE`](Self::AGE) by default; never longer than a lane may add to the latency of what waits for it.
    pub(crate) age: Duration,
}

impl Batching {
    /// DSA's gain from batching is mostly had at 4 to 8, and the first waits for the last.
    pub(crate) const COUNT: u32 = 8;
    /// 64 KiB: 2 us of a device that moves 30 GB/s, beside which a portal write (0.2 us) no longer shows.
    pub(crate) const BYTES: u64 = 64 << 10;
    /// 1 us: what a 4 KiB copy takes a device; a batch that waits for longer than what it saves is a loss.
    pub(crate) const AGE: Duration = Duration::from_micros(1);
}

impl Default for Batching {
    fn default() -> Self {
        Self { count: Self::COUNT, bytes: Self::BYTES, age: Self::AGE }
    }
}

/// What a backlog looks like to the decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) count: u32,
    pub(crate) bytes: u64,
}

impl Batching {
    /// Whether what waits is enough.
    #[inline]
    #[must_use]
    pub(crate) fn is_full(&self, waiting: Waiting) -> bool {
        waiting.count >= self.count || waiting.bytes >= self.bytes
    }

    /// How much longer what has waited for so long may wait; `None`: it has waited long enough.
    #[must_use]
    pub(crate) fn left(&self, waited: Duration) -> Option<Duration> {
        self.age.checked_sub(waited).filter(|left| !left.is_zero())
    }
}

/// How so many operations go out: as batches of at most `batch_max`, or alone.
///
/// `batch_max`: what the queue takes and a list has room for; below 2 there are no batches. A remainder of one goes alone.
pub(crate) fn split(count: usize, batch_max: usize) -> impl Iterator<Item = usize> {
    let mut left = count;
    std::iter::from_fn(move || {
        let part = if batch_max < 2 { left.min(1) } else { left.min(batch_max) };
        left -= part;
        (part > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_closes_at_the_first_limit() {
        let batching = Batching { count: 4, bytes: 1000, age: Duration::from_micros(2) };
        for (count, bytes, full) in [(0, 0, false), (3, 999, false), (4, 0, true), (1, 1000, true), (5, 2000, true)] {
            assert_eq!(batching.is_full(Waiting { count, bytes }), full, "{count} operations, {bytes} bytes");
        }
        let ns = Duration::from_nanos;
        for (waited, left) in [(0, Some(2000)), (1999, Some(1)), (2000, None), (5000, None)] {
            assert_eq!(batching.left(ns(waited)), left.map(ns), "{waited} ns");
        }
        let at_once = Batching { age: Duration::ZERO, ..batching };
        assert_eq!(at_once.left(Duration::ZERO), None);
    }

    #[test]
    fn what_does_not_fit_is_split() {
        for (count, batch_max, want) in [
            (0, 8, vec![]),
            (1, 8, vec![1]),
            (2, 2, vec![2]),
            (3, 2, vec![2, 1]),
            (9, 8, vec![8, 1]),
            (17, 8, vec![8, 8, 1]),
            (3, 0, vec![1, 1, 1]),
            (2, 1, vec![1, 1]),
        ] {
            assert_eq!(split(count, batch_max).collect::<Vec<_>>(), want, "{count} by {batch_max}");
        }
    }
}
