//! The slots of a ring: items with stamps, and who may touch an item when.
//!
//! Positions count from 0 and go on for ever, wrapping at the end of `usize`; position `p` lies in slot `p % slots`. The stamp of a slot says whose it
//! is, for one position at a time:
//!
//! ```text
//!  p          free: the producer that took position p may write           (1) put:  -> p + 1
//!  p + 1      filled: the consumer may read                               (2) take: -> p + slots, free for the next lap
//! ```
//!
//! Edge 1 belongs to the producer that owns position `p`, edge 2 to the consumer, so each stamp has one writer at a time.

#![allow(unsafe_code)] // items in cells; the stamps say whose they are

use std::mem::MaybeUninit;

use super::leftovers;
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicUsize, Ordering::*};

/// See the module's documentation.
pub(super) struct Slots<T> {
    slots: Box<[Slot<T>]>,
}

struct Slot<T> {
    stamp: AtomicUsize,
    item: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: an item is touched by one thread at a time (the stamps say which), and moves between threads, which `T: Send` allows. No `&T` is handed out.
unsafe impl<T: Send> Sync for Slots<T> {}
// SAFETY: as above; whoever drops the slots drops the items.
unsafe impl<T: Send> Send for Slots<T> {}

/// What a slot is, seen from a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// Whoever owns the position may put an item.
    Free,
    /// The item of this position is there.
    Filled,
    /// It holds the item of an earlier lap: the ring is full.
    Behind,
    /// It has gone on to a later lap: the position that was asked for is history.
    Ahead,
}

impl<T> Slots<T> {
    /// What one slot takes of memory.
    pub(super) const SLOT_BYTES: usize = size_of::<Slot<T>>();

    /// `slots`: a power of two, 2 or more.
    pub(super) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two() && slots >= super::SLOTS_MIN);
        let slot = |position| Slot { stamp: AtomicUsize::new(position), item: UnsafeCell::new(MaybeUninit::uninit()) };
        Self { slots: (0..slots).map(slot).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// What the slot of this position is. What the one who made it so did before is seen.
    #[inline]
    pub(super) fn look(&self, position: usize) -> Seen {
        // Acquire: partners are the Release stores in `put` (the item is there) and `take` (the consumer is done with the one before).
        seen(self.slot(position).stamp.load(Acquire), position)
    }

    /// Edge 1.
    ///
    /// # Safety
    /// - The caller alone owns `position`: nobody else puts there.
    /// - It has seen the slot [`Seen::Free`], or a later one of the same claim.
    #[inline]
    pub(super) unsafe fn put(&self, position: usize, item: T) {
        let slot = self.slot(position);
        // SAFETY: the stamp is `position`, so the consumer is done with the slot and will not look into it before the store below; the caller owns it.
        slot.item.with_mut(|place| unsafe { (*place).write(item) });
        // Release: publishes the item. Partner: the Acquire load in `look`.
        slot.stamp.store(position.wrapping_add(1), Release);
    }

    /// Edge 2.
    ///
    /// # Safety
    /// - The caller is the consumer, and takes each position once, in order.
    /// - It has seen the slot [`Seen::Filled`].
    #[inline]
    pub(super) unsafe fn take(&self, position: usize) -> T {
        let slot = self.slot(position);
        // SAFETY: the stamp is `position + 1`: the item was written before it, and nobody else touches the slot before the store below.
        let item = slot.item.with_mut(|place| unsafe { (*place).assume_init_read() });
        // Release: hands the slot back, read. Partner: the Acquire load in `look`.
        slot.stamp.store(position.wrapping_add(self.len()), Release);
        item
    }

    /// The word that reads `position` until the item of that position is there.
    #[cfg(not(twolane_loom))]
    pub(super) fn word(&self, position: usize) -> *const u8 {
        (&raw const self.slot(position).stamp).cast()
    }

    #[inline]
    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position & (self.slots.len() - 1)]
    }
}

/// What a stamp says about a position.
fn seen(stamp: usize, position: usize) -> Seen {
    match stamp.wrapping_sub(position) as isize {
        0 => Seen::Free,
        1 => Seen::Filled,
        ..0 => Seen::Behind,
        _ => Seen::Ahead,
    }
}

impl<T> Drop for Slots<T> {
    fn drop(&mut self) {
        if !std::mem::needs_drop::<T>() {
            return;
        }
        let mask = self.slots.len() - 1;
        let filled = |(at, slot): (usize, &Slot<T>)| {
            // Relaxed: nobody else is left.
            let stamp = slot.stamp.load(Relaxed);
            // Positions of slot `at` are `at` modulo the length; a filled slot's stamp is one more.
            (stamp.wrapping_sub(1) & mask == at).then(|| {
                // SAFETY: filled, so an item was written and not taken; we have the slots to ourselves, and visit each once.
                slot.item.with_mut(|place| unsafe { (*place).assume_init_read() })
            })
        };
        leftovers::drop_all(self.slots.iter().enumerate().filter_map(filled));
    }
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_says_what_the_slot_is_also_where_positions_wrap() {
        const SLOTS: usize = 8;
        for position in [0, 1, 7, 8, 1_000, usize::MAX - 8, usize::MAX - 7, usize::MAX - 1, usize::MAX] {
            let at = |offset: isize| position.wrapping_add_signed(offset);
            for (stamp, what) in [
                (at(0), Seen::Free),
                (at(1), Seen::Filled),
                (at(1 - SLOTS as isize), Seen::Behind), // filled a lap ago
                (at(SLOTS as isize), Seen::Ahead),      // taken
                (at(SLOTS as isize + 1), Seen::Ahead),  // and filled again
            ] {
                assert_eq!(seen(stamp, position), what, "stamp {stamp}, position {position}");
            }
        }
    }

    #[test]
    fn a_free_slot_and_a_filled_one_never_look_alike_when_dropped() {
        for slots in [2_usize, 4, 64] {
            for position in (0..3 * slots).chain(usize::MAX - slots..=usize::MAX) {
                let (at, mask) = (position & (slots - 1), slots - 1);
                let filled = |stamp: usize| stamp.wrapping_sub(1) & mask == at;
                assert!(!filled(position) && filled(position.wrapping_add(1)), "{slots} slots, position {position}");
                assert!(!filled(position.wrapping_add(slots)), "{slots} slots, position {position}");
            }
        }
    }
}
