//! How long tasks of each kind take: what a poll lane must know before it lends itself.
//!
//! A kind is a task type, named by the address of its [`Kind`]. Every lane keeps a table of its own, written without synchronisation and
//! readable by all; whoever wants to know sums over the lanes.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};

use crate::task::Kind;

/// Kinds that a lane remembers. A service has tens of task types; those that find no room are never called short.
const KINDS_MAX: usize = 64;
/// Power-of-two classes of run time; class `n` holds times below 2^n ticks. The last takes all that is longer (2^27 ticks: 50 ms at
/// 2.5 GHz), and a kind that long is never short.
const CLASSES: usize = 28;
/// Samples before the 99th percentile means anything.
const SAMPLES_MIN: u64 = 64;

#[derive(Debug)]
struct Row {
    kind: AtomicUsize,
    classes: [AtomicU32; CLASSES],
}

/// One lane's table.
#[derive(Debug)]
pub(crate) struct Kinds {
    rows: Box<[Row]>,
}

impl Kinds {
    pub(crate) fn new() -> Self {
        let row = |_| Row { kind: AtomicUsize::new(0), classes: [const { AtomicU32::new(0) }; CLASSES] };
        Self { rows: (0..KINDS_MAX).map(row).collect() }
    }

    /// A task of `kind` ran for `ticks`. Only the table's own lane calls it.
    #[inline]
    pub(crate) fn record(&self, kind: &'static Kind, ticks: u64) {
        let key = address(kind);
        let class = ((u64::BITS - ticks.leading_zeros()) as usize).min(CLASSES - 1);
        for row in self.probe(key) {
            // Relaxed throughout: statistics with one writer; a reader that sees a key early counts zeros.
            match row.kind.load(Relaxed) {
                0 => row.kind.store(key, Relaxed),
                other if other != key => continue,
                _ => {}
            }
            let count = &row.classes[class];
            count.store(count.load(Relaxed).saturating_add(1), Relaxed);
            return;
        }
    }

    fn row(&self, key: usize) -> Option<&Row> {
        // Relaxed: see `record`.
        self.probe(key).find(|row| row.kind.load(Relaxed) == key)
    }

    /// Rows in the order in which `key` looks for its own.
    fn probe(&self, key: usize) -> impl Iterator<Item = &Row> {
        // Addresses of statics are multiples of 8 or 16: the low bits say nothing.
        let start = (key >> 4) % KINDS_MAX;
        self.rows[start..].iter().chain(&self.rows[..start])
    }
}

/// Upper bound, in ticks, of the 99th percentile of the run time of `kind` over all tables; `None` if too little is known, or it is long.
pub(crate) fn p99<'a>(kind: &'static Kind, tables: impl Iterator<Item = &'a Kinds>) -> Option<u64> {
    let key = address(kind);
    let mut classes = [0_u64; CLASSES];
    for row in tables.filter_map(|table| table.row(key)) {
        for (sum, count) in classes.iter_mut().zip(&row.classes) {
            *sum += u64::from(count.load(Relaxed));
        }
    }
    p99_of(&classes)
}

fn p99_of(classes: &[u64; CLASSES]) -> Option<u64> {
    let total: u64 = classes.iter().sum();
    if total < SAMPLES_MIN {
        return None;
    }
    // Run times are wall times, and a preempted run says nothing about its kind: one is forgiven however few there are.
    let allowed_above = (total / 100).max(1);
    let mut above = 0;
    for (class, count) in classes.iter().enumerate().rev() {
        above += count;
        if above > allowed_above {
            return (class < CLASSES - 1).then(|| 1 << class);
        }
    }
    None
}

fn address(kind: &'static Kind) -> usize {
    std::ptr::from_ref(kind).addr()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(pairs: &[(usize, u64)]) -> [u64; CLASSES] {
        let mut classes = [0; CLASSES];
        for &(class, count) in pairs {
            classes[class] = count;
        }
        classes
    }

    #[test]
    fn the_percentile_is_an_upper_bound_and_needs_samples() {
        assert_eq!(p99_of(&classes(&[(10, 63)])), None, "too few");
        assert_eq!(p99_of(&classes(&[(10, 64)])), Some(1 << 10));
        assert_eq!(p99_of(&classes(&[(10, 63), (20, 1)])), Some(1 << 10), "one may have been preempted");
        assert_eq!(p99_of(&classes(&[(10, 62), (20, 2)])), Some(1 << 20));
        assert_eq!(p99_of(&classes(&[(10, 990), (20, 10)])), Some(1 << 10), "one in a hundred may be longer");
        assert_eq!(p99_of(&classes(&[(10, 990), (20, 11)])), Some(1 << 20));
        assert_eq!(p99_of(&classes(&[(CLASSES - 1, 64)])), None, "long without bound");
    }
}
