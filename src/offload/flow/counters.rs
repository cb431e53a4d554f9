//! What went through, counted: one set of counters a page, so that lanes do not share a line; added up when somebody asks.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Size classes: below 4 KiB, then a factor of four each, the last from 1 MiB on.
pub(crate) const CLASSES: usize = 6;

/// The class of an operation of so many bytes.
#[inline]
pub(crate) fn class(bytes: usize) -> usize {
    // 4 KiB is bit 12; two bits a class.
    let log2 = (bytes | 1).ilog2() as usize;
    if log2 < 12 { 0 } else { ((log2 - 12) / 2 + 1).min(CLASSES - 1) }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of a page. Relaxed throughout: they stand for themselves, and a sum may lag.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            /// Operations that the device finished, by size class.
            pub(crate) device: [Counter; CLASSES],
            /// Operations that the CPU did because the device did not: see [`Settled::OnCpu`](super::Settled::OnCpu).
            pub(crate) cpu: [Counter; CLASSES],
            $($(#[$doc])* pub(crate) $name: Counter,)*
        }

        /// Sums over all pages.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(crate) struct Totals {
            pub(crate) device: [u64; CLASSES],
            pub(crate) cpu: [u64; CLASSES],
            $($(#[$doc])* pub(crate) $name: u64,)*
        }

        impl Totals {
            pub(crate) fn add(&mut self, counters: &Counters) {
                for at in 0..CLASSES {
                    self.device[at] += counters.device[at].read();
                    self.cpu[at] += counters.cpu[at].read();
                }
                $(self.$name += counters.$name.read();)*
            }
        }
    };
}

counters! {
    /// Descriptors submitted alone.
    singles,
    /// Batches submitted.
    batches,
    /// Operations in those batches.
    batched,
    /// Submissions that found the queue full; the operations went (back) to the backlog.
    full,
    /// Operations submitted again because they had not run.
    retries,
    /// Operations resumed after a fault.
    resumes,
    /// Operations whose ticket was dropped while the device had them.
    abandoned,
    /// Operations given up, which may still run; and no-ops likewise, by which a queue was asked whether it lives.
    quarantined,
    /// Operations given up whose record came after all.
    late,
    /// Pages that were retired and replaced.
    pages_replaced,
}

/// One counter.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// As [`add`](Self::add), by two instructions that are not one: threads that share the page may lose each other's additions. For the way of a
    /// submission.
    #[inline]
    pub(crate) fn add_roughly(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_four_from_4_kib_on() {
        for (bytes, want) in [
            (0, 0),
            (4095, 0),
            (4096, 1),
            (16_383, 1),
            (16_384, 2),
            (65_536, 3),
            (262_144, 4),
            (1_048_575, 4),
            (1 << 20, 5),
            (usize::MAX, 5),
        ] {
            assert_eq!(class(bytes), want, "{bytes}");
        }
    }
}
