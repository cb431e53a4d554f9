//! What is prepared and not submitted: one word a page, in which a slot is a bit. The bits are the backlog; there is no other queue.
//!
//! Whoever empties the word owns the slots whose bits were in it, until they are submitted or put back: several may try to close a batch, and one of
//! them gets each operation.

use crate::sync::atomic::{AtomicU64, Ordering::*};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Backlog {
    slots: AtomicU64,
    /// What a batch of all of them would be: how many (above bit 48), and their bytes. An estimate: threads that share a page may lose each
    /// other's additions. What a batch's closing misses because of that, its age makes up for.
    tally: AtomicU64,
}

const COUNT_SHIFT: u32 = 48;
const BYTES: u64 = (1 << COUNT_SHIFT) - 1;

/// How much waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) count: u32,
    pub(crate) bytes: u64,
}

impl Backlog {
    pub(crate) fn new() -> Self {
        Self { slots: AtomicU64::new(0), tally: AtomicU64::new(0) }
    }

    /// Adds slots, by their bits, whose descriptors are written. Returns how much waits now.
    #[inline]
    pub(crate) fn add(&self, slots: u64, count: u32, bytes: u64) -> Tally {
        // Relaxed: an estimate; see the field.
        let tally = self.tally.load(Relaxed).wrapping_add(u64::from(count) << COUNT_SHIFT).wrapping_add(bytes & BYTES);
        self.tally.store(tally, Relaxed);
        self.put_back(slots);
        Tally { count: (tally >> COUNT_SHIFT) as u32, bytes: tally & BYTES }
    }

    /// Puts back what was taken and could not be submitted. It is not tallied: whoever tries next is not a full batch.
    #[inline]
    pub(crate) fn put_back(&self, slots: u64) {
        // An addition, since the bits are not set: their slots are the caller's.
        // Release: the descriptors, for whoever takes the bits. Partner: the Acquire in `take`.
        let before = self.slots.fetch_add(slots, Release);
        debug_assert!(before & slots == 0, "a slot was put into the backlog twice");
    }

    /// Takes all that waits, as bits: the caller now owns these slots' submission.
    #[inline]
    pub(crate) fn take(&self) -> u64 {
        // Relaxed: saves the exchange where there is nothing; what is added meanwhile is for whoever comes next.
        if self.slots.load(Relaxed) == 0 {
            return 0;
        }
        self.tally.store(0, Relaxed); // Relaxed: an estimate.
        // Acquire: partner is the Release in `put_back`.
        self.slots.swap(0, Acquire)
    }

    /// Takes one slot out. `false`: somebody else is about to submit it, or has.
    #[must_use]
    pub(crate) fn withdraw(&self, slot: u64) -> bool {
        // Acquire: as in `take`; the caller is the one who wrote the descriptor, but a closer may have put it back.
        self.slots.fetch_and(!slot, Acquire) & slot != 0
    }

    /// Whether what waits was put back: nobody waits for more of it, only for room. A hint.
    #[inline]
    pub(crate) fn is_put_back(&self) -> bool {
        // Relaxed: an estimate. Wrong, it costs a batch, or the time that a batch may take.
        self.tally.load(Relaxed) >> COUNT_SHIFT == 0
    }

    /// What waits, as bits. A hint.
    #[inline]
    pub(crate) fn peek(&self) -> u64 {
        // Relaxed: a hint.
        self.slots.load(Relaxed)
    }
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_taken_once() {
        let backlog = Backlog::new();
        assert_eq!(backlog.take(), 0);
        assert_eq!(backlog.add(0b1, 1, 4096), Tally { count: 1, bytes: 4096 });
        assert_eq!(backlog.add(0b110, 2, 100), Tally { count: 3, bytes: 4196 });
        assert!(backlog.withdraw(0b10) && !backlog.withdraw(0b10));
        assert_eq!(backlog.take(), 0b101);
        assert!(!backlog.withdraw(0b1));
        backlog.put_back(0b100);
        assert!(backlog.is_put_back(), "it waits for room");
        assert_eq!((backlog.peek(), backlog.take(), backlog.take()), (0b100, 0b100, 0));
        assert_eq!(backlog.add(0b1, 1, 7), Tally { count: 1, bytes: 7 }, "the tally starts anew with each batch");
        assert!(!backlog.is_put_back(), "it waits for others");
    }
}
