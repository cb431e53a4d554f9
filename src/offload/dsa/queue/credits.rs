//! How many more descriptors a work queue may be given: a count that never lets the device overflow.
//!
//! A dedicated queue drops what does not fit without telling the submitter, so each descriptor takes a credit before it is submitted, and the
//! credit comes back when its completion record was seen. A device frees the entry earlier (at dispatch), never later. A batch is one
//! descriptor and one credit; N singles are N. An operation that was never answered keeps its credit, since its entry may still be taken.

use crate::sync::atomic::{AtomicI32, Ordering::*};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Credits {
    /// Below 0 for the moment in which somebody finds out that there is none ([`take_one`](Self::take_one)).
    left: AtomicI32,
    /// What there was to begin with.
    all: u32,
}

impl Credits {
    /// More than `i32::MAX` are as many.
    pub(crate) fn new(all: u32) -> Self {
        let left = i32::try_from(all).unwrap_or(i32::MAX);
        Self { left: AtomicI32::new(left), all: left as u32 }
    }

    /// Takes as many as there are, up to `wanted`. What is not used for an accepted descriptor is given back at once.
    #[inline]
    #[must_use = "credits that are lost make the queue smaller for ever"]
    pub(crate) fn take(&self, wanted: u32) -> u32 {
        // Relaxed: the exchange below decides; this is where it starts.
        let mut left = self.left.load(Relaxed);
        loop {
            // Not negative, so the cast says the same.
            let taken = wanted.min(left.max(0) as u32);
            if taken == 0 {
                return 0;
            }
            // Acquire: whoever gave these back had seen the completion records; the entries are free before ours are submitted. Partner: the
            // Release in `give_back`. Lock-free: a failure means that another thread took or gave.
            match self.left.compare_exchange_weak(left, left - taken as i32, Acquire, Relaxed) {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    /// Takes one. `false`: there is none, or there was none a moment ago: of several that ask at once while there is none, one may be told so although one comes
    /// back meanwhile. One instruction that cannot fail, where [`take`](Self::take) has a loop.
    #[inline(always)]
    #[must_use = "credits that are lost make the queue smaller for ever"]
    pub(crate) fn take_one(&self) -> bool {
        // Acquire: as in `take`. Of those that find at least one left there are no more than there are credits: each found another number. Wrapping would take
        // 2^31 threads at this very place.
        if self.left.fetch_sub(1, Acquire) < 1 {
            self.take_none();
            return false;
        }
        true
    }

    #[cold]
    fn take_none(&self) {
        // Relaxed: nothing was seen or used that somebody has to see.
        self.left.fetch_add(1, Relaxed);
    }

    /// Gives back what [`take`](Self::take) gave: the records were seen, or nothing was accepted.
    #[inline]
    pub(crate) fn give_back(&self, count: u32) {
        // Release: see `take`.
        let before = self.left.fetch_add(count as i32, Release);
        debug_assert!(before + count as i32 <= self.all as i32, "a credit was given back twice");
    }

    /// How many are out now. Stale when it returns; good for choosing a queue and for reports.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        // Relaxed: an estimate.
        self.all - (self.left.load(Relaxed).max(0) as u32).min(self.all)
    }

    /// How many there are.
    #[inline]
    pub(crate) fn all(&self) -> u32 {
        self.all
    }
}
