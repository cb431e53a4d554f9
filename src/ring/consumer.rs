//! The end that pops.

#![allow(unsafe_code)] // takes from slots that it has seen filled

use std::fmt;

use super::error::PopError;
use super::slots::Seen;
use super::{Arc, Doorbell, Ring, leftovers};
use crate::sync::atomic::Ordering::*;

/// The end of a ring that pops. Dropping it drops what is in the ring, and lets producers see it as disconnected.
///
/// By itself it can be polled from any thread; [`into_poller`](Self::into_poller) gives it to a lane.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    /// The next position to take.
    head: usize,
}

impl<T> Consumer<T> {
    pub(super) fn new(ring: Arc<Ring<T>>) -> Self {
        Self { ring, head: 0 }
    }

    /// Takes the oldest item.
    ///
    /// # Errors
    /// [`PopError`]: nothing is there, for the moment or for ever.
    #[inline]
    pub fn pop(&mut self) -> Result<T, PopError> {
        if self.is_empty() {
            if !self.ring.is_closed() {
                return Err(PopError::Empty);
            }
            // What the last producer pushed may have come between the two looks; now it is seen.
            if self.is_empty() {
                return Err(PopError::Disconnected);
            }
        }
        // SAFETY: there is one consumer, it goes through the positions in order, and it has seen this one filled.
        let item = unsafe { self.ring.slots.take(self.head) };
        self.head = self.head.wrapping_add(1);
        Ok(item)
    }

    /// Takes up to `max` items, oldest first, to the end of `into`. Returns how many, at least 1 unless `max` is 0.
    ///
    /// # Errors
    /// [`PopError`]: nothing is there, for the moment or for ever.
    pub fn pop_batch(&mut self, into: &mut Vec<T>, max: usize) -> Result<usize, PopError> {
        let mut popped = 0;
        while popped < max {
            match self.pop() {
                Ok(item) => into.push(item),
                Err(error) if popped == 0 => return Err(error),
                Err(_) => break,
            }
            popped += 1;
        }
        Ok(popped)
    }

    /// Whether a pop would find nothing now.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.slots.look(self.head) != Seen::Filled
    }

    /// Whether the last producer is gone. There may still be items.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        self.ring.is_closed()
    }

    /// Slots in all.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.slots.len()
    }

    /// Makes `doorbell` the one that producers ring. Look at the ring after it.
    pub(super) fn hang(&self, doorbell: Doorbell) {
        self.ring.bells.hang(doorbell);
    }

    /// Asks producers to ring after their next push. To be called before each wait, and before the last look at the ring.
    #[inline]
    pub(super) fn expect(&self) {
        self.ring.bells.expect();
    }

    /// The word that shows whether the ring is empty, and how it reads as long as it is.
    #[cfg(not(twolane_loom))]
    pub(super) fn word(&self) -> (*const u8, usize) {
        (self.ring.slots.word(self.head), self.head)
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        // Release: partner is the Acquire load in `Ring::is_abandoned`.
        self.ring.abandoned.store(1, Release);
        leftovers::drop_all(std::iter::from_fn(|| self.pop().ok()));
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}
