//! The ends that push: one that owns the next position, and one that shares it with its clones.

#![allow(unsafe_code)] // puts into slots that it owns

use std::collections::VecDeque;
use std::fmt;

use super::error::{Disconnected, PushError};
use super::slots::Seen;
use super::{Arc, Ring};
use crate::sync::atomic::Ordering::*;

/// The only end of [`spsc`](super::spsc) that pushes. Dropping it lets the consumer see the ring as disconnected once it is empty.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    /// The next position to put.
    tail: usize,
}

impl<T> Producer<T> {
    pub(super) fn new(ring: Arc<Ring<T>>) -> Self {
        Self { ring, tail: 0 }
    }

    /// Pushes one item, and rings the consumer's lane if it waits.
    ///
    /// # Errors
    /// [`PushError`], with the item in it. An item that is pushed while the consumer is being dropped may be taken and dropped with the ring.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), PushError<T>> {
        if self.ring.is_abandoned() {
            return Err(PushError::Disconnected(item));
        }
        if self.ring.slots.look(self.tail) != Seen::Free {
            return Err(PushError::Full(item));
        }
        self.put(item);
        self.ring.bells.pushed();
        Ok(())
    }

    /// Pushes items from the front as long as they fit, and rings the consumer's lane at most once. What does not fit stays in `items`. Returns how many
    /// were taken.
    ///
    /// # Errors
    /// [`Disconnected`]; nothing was taken.
    pub fn push_batch(&mut self, items: &mut VecDeque<T>) -> Result<usize, Disconnected> {
        if self.ring.is_abandoned() {
            return Err(Disconnected);
        }
        let mut pushed = 0;
        while self.ring.slots.look(self.tail) == Seen::Free {
            let Some(item) = items.pop_front() else { break };
            self.put(item);
            pushed += 1;
        }
        if pushed > 0 {
            self.ring.bells.pushed();
        }
        Ok(pushed)
    }

    /// The caller has seen the slot of `tail` free.
    #[inline]
    fn put(&mut self, item: T) {
        // SAFETY: this is the only producer (it is not `Clone`, and a ring with one has no `SharedProducer`) and its positions only grow; the slot was
        // seen free.
        unsafe { self.ring.slots.put(self.tail, item) };
        self.tail = self.tail.wrapping_add(1);
    }

    /// Whether a push would find room now. Only a push takes it away.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.ring.slots.look(self.tail) == Seen::Free
    }

    /// Whether the consumer is gone.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Slots in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.slots.len()
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.ring.producer_ends();
    }
}

/// One of the ends of [`mpsc`](super::mpsc) that push; clone it, or share it by reference. When the last one is dropped, the consumer sees the ring as
/// disconnected once it is empty.
pub struct SharedProducer<T> {
    ring: Arc<Ring<T>>,
}

impl<T> SharedProducer<T> {
    pub(super) fn new(ring: Arc<Ring<T>>) -> Self {
        Self { ring }
    }

    /// Pushes one item, and rings the consumer's lane if it waits. Takes another turn only where another producer got the place, so some
    /// producer always goes on.
    ///
    /// # Errors
    /// [`PushError`], with the item in it. An item that is pushed while the consumer is being dropped may be taken and dropped with the ring.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), PushError<T>> {
        if self.ring.is_abandoned() {
            return Err(PushError::Disconnected(item));
        }
        match self.claim(1) {
            Some(claim) => {
                // SAFETY: claimed by `claim`, so nobody else puts there, and seen free by it.
                unsafe { self.ring.slots.put(claim.from, item) };
                self.ring.bells.pushed();
                Ok(())
            }
            None => Err(PushError::Full(item)),
        }
    }

    /// Pushes items from the front as long as they fit, and rings the consumer's lane at most once. What does not fit stays in `items`. Returns how many
    /// were taken. Items of other producers may come between them.
    ///
    /// # Errors
    /// [`Disconnected`]; nothing was taken.
    pub fn push_batch(&self, items: &mut VecDeque<T>) -> Result<usize, Disconnected> {
        if self.ring.is_abandoned() {
            return Err(Disconnected);
        }
        let mut pushed = 0;
        while !items.is_empty() {
            let Some(claim) = self.claim(items.len()) else { break };
            // The claim is not longer than `items`, and no code of the user's runs before all of it is put.
            for (nth, item) in items.drain(..claim.places).enumerate() {
                // SAFETY: claimed by `claim`, so nobody else puts there; the last place was seen free, and with it all before.
                unsafe { self.ring.slots.put(claim.from.wrapping_add(nth), item) };
            }
            pushed += claim.places;
        }
        if pushed > 0 {
            self.ring.bells.pushed();
        }
        Ok(pushed)
    }

    /// Takes between 1 and `wanted` places; `None` if the ring is full. Whoever claims puts, or the consumer waits there for ever.
    #[inline]
    fn claim(&self, wanted: usize) -> Option<Claim> {
        let slots = &self.ring.slots;
        // Relaxed, here and below: the stamps say whether a place is free, and the exchange who gets it; nothing is read through `tail`.
        let mut from = self.ring.tail.load(Relaxed);
        loop {
            let mut places = wanted.min(slots.len());
            // The consumer frees places in order, so if one is free, all before it are. Halving finds at least half of what is free.
            let mut last = slots.look(from.wrapping_add(places - 1));
            while last != Seen::Free && places > 1 {
                places /= 2;
                last = slots.look(from.wrapping_add(places - 1));
            }
            match last {
                Seen::Free => {
                    let taken = self.ring.tail.compare_exchange(from, from.wrapping_add(places), Relaxed, Relaxed);
                    match taken {
                        Ok(_) => return Some(Claim { from, places }),
                        Err(now) => from = now,
                    }
                }
                Seen::Behind => return None,
                // Somebody else took the place and has put: what made the stamp so came after the new `tail`.
                Seen::Filled | Seen::Ahead => from = self.ring.tail.load(Relaxed),
            }
        }
    }

    /// Whether the consumer is gone.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Slots in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.slots.len()
    }
}

/// Places that are the claimer's to fill.
#[must_use = "the consumer waits for what is put there"]
struct Claim {
    from: usize,
    places: usize,
}

impl<T> Clone for SharedProducer<T> {
    fn clone(&self) -> Self {
        self.ring.producer_begins();
        Self { ring: Arc::clone(&self.ring) }
    }
}

impl<T> Drop for SharedProducer<T> {
    fn drop(&mut self) {
        self.ring.producer_ends();
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SharedProducer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedProducer").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}
