//! How many more descriptors a work queue may be given: a count that never lets the device overflow.
//!
//! A dedicated queue drops what does not fit without telling the submitter, so each descriptor takes a credit before it is submitted, and the
//! credit comes back when its completion record was seen. A device frees the entry earlier (at dispatch), never later. A batch is one
//! descriptor and one credit; N singles are N. An operation that was never answered keeps its credit, since its entry may still be taken.

use crate::sync::atomic::{AtomicU32, Ordering::*};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Credits {
    left: AtomicU32,
    /// What there was to begin with.
    all: u32,
}

impl Credits {
    pub(crate) fn new(all: u32) -> Self {
        Self { left: AtomicU32::new(all), all }
    }

    /// Takes as many as there are, up to `wanted`. What is not used for an accepted descriptor is given back at once.
    #[inline]
    #[must_use = "credits that are lost make the queue smaller for ever"]
    pub(crate) fn take(&self, wanted: u32) -> u32 {
        // Relaxed: the exchange below decides; this is where it starts.
        let mut left = self.left.load(Relaxed);
        loop {
            let taken = wanted.min(left);
            if taken == 0 {
                return 0;
            }
            // Acquire: whoever gave these back had seen the completion records; the entries are free before ours are submitted. Partner: the
            // Release in `give_back`. Lock-free: a failure means that another thread took or gave.
            match self.left.compare_exchange_weak(left, left - taken, Acquire, Relaxed) {
                Ok(_) => return taken,
                Err(now) => left = now,
            }
        }
    }

    /// Gives back what [`take`](Self::take) gave: the records were seen, or nothing was accepted.
    #[inline]
    pub(crate) fn give_back(&self, count: u32) {
        // Release: see `take`.
        let before = self.left.fetch_add(count, Release);
        debug_assert!(before + count <= self.all, "a credit was given back twice");
    }

    /// Takes one. `false`: there is none.
    #[inline(always)]
    #[must_use = "credits that are lost make the queue smaller for ever"]
    pub(crate) fn take_one(&self) -> bool {
        // Relaxed: as in `take`.
        let mut left = self.left.load(Relaxed);
        while left != 0 {
            // Acquire: as in `take`.
            match self.left.compare_exchange_weak(left, left - 1, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => left = now,
            }
        }
        false
    }

    /// How many are out now. Stale when it returns; good for choosing a queue and for reports.
    #[inline]
    pub(crate) fn taken(&self) -> u32 {
        // Relaxed: an estimate.
        self.all - self.left.load(Relaxed).min(self.all)
    }

    /// How many there are.
    #[inline]
    pub(crate) fn all(&self) -> u32 {
        self.all
    }
}
