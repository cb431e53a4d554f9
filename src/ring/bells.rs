//! How a push reaches the lane that waits for it: a flag by which the lane asks to be rung, and the doorbell to ring.
//!
//! The steps, in the words of `sched/README.md`. **Lane**, before each wait: *Expect* (the flag is set), then, to park, *Announce*, *SleepFence*, a full
//! pass (which looks at the ring), *Block*. **Producer**, after its push: *PushFence*; if the flag is set, whoever takes it rings.
//!
//! Claim: no lane blocks beside an item. *PushFence* and *SleepFence* come one way or the other. *PushFence first*: the full pass sees the item.
//! *SleepFence first*: the producer sees the flag as the lane left it, or as a producer that took it left it. Whoever takes the flag rings the doorbell
//! afterwards, and protocol 1 ends the park or keeps the lane from it. The lane then expects again before its next wait; a producer that found the flag taken
//! read it before that, so its *PushFence* precedes the *SleepFence* that follows, and that full pass sees its item.
//!
//! The lane does not clear the flag when it wakes: that would race with its next wait, and the first push clears it at the price of one ring.
//! A push that meets a doze may miss the flag, since no fence lies between *Expect* and a doze; a doze is short and bounded, and its end is a pass.
//!
//! Checked by `tests/loom_ring.rs`.

#![allow(unsafe_code)] // doorbells behind an atomic pointer

use std::ptr;

use crossbeam_utils::CachePadded;

use super::Doorbell;
use crate::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*, fence};

/// See the module's documentation.
pub(super) struct Bells {
    /// Not 0: ring after the next push. On a line of its own: the lane writes it before waits, producers read it after pushes.
    expected: CachePadded<AtomicU32>,
    /// The doorbell to ring, before those of lanes on which the consumer was earlier.
    newest: AtomicPtr<Hung>,
}

/// A doorbell, for as long as the ring lives: a producer may hold on to one that was replaced a moment ago. There is one for each time that the
/// consumer changed lanes.
struct Hung {
    doorbell: Doorbell,
    before: *mut Hung,
}

impl Bells {
    pub(super) fn new() -> Self {
        Self { expected: CachePadded::new(AtomicU32::new(0)), newest: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Makes `doorbell` the one to ring. Called by the consumer, which looks at the ring and at its producers afterwards.
    pub(super) fn hang(&self, doorbell: Doorbell) {
        // Relaxed: only the consumer writes it.
        let before = self.newest.load(Relaxed);
        let hung = Box::into_raw(Box::new(Hung { doorbell, before }));
        // Release: publishes the doorbell. Partner: the Acquire load in `ring`.
        self.newest.store(hung, Release);
        // What an earlier lane expected must not be taken for this one's wish: only a flag set from now on brings the new doorbell along. Relaxed: a push
        // that finds it cleared precedes the *SleepFence* after the next `expect`. A swap: see there.
        let _ = self.expected.swap(0, Relaxed);
        fence(SeqCst); // HangFence: pairs with CloseFence in `closed`, and publishes the doorbell to whoever takes the flag.
    }

    /// *Expect*: the lane is going to wait.
    #[inline]
    pub(super) fn expect(&self) {
        // Relaxed: loaded to spare producers their copy of the line. If the flag was taken and this does not see it, its taker is about to ring.
        if self.expected.load(Relaxed) == 0 {
            // Relaxed: HangFence makes a release of it, for the doorbell that was hung before; partner: the Acquire swap in `answer`. Against pushes it is
            // ordered by SleepFence. A swap, since a store beside the producers' swaps has no place among them as loom sees it.
            let _ = self.expected.swap(1, Relaxed);
        }
    }

    /// After a push, or several: rings if the lane asked for it.
    #[inline]
    pub(super) fn pushed(&self) {
        fence(SeqCst); // PushFence: pairs with SleepFence in the lane's `Doorbell::announce`.
        // Relaxed: only the fences order it; its own value is decided by the swap.
        if self.expected.load(Relaxed) != 0 {
            self.answer();
        }
    }

    #[cold]
    fn answer(&self) {
        // Acquire: partner is the Release store in `expect`; so the doorbell that was hung before is there.
        if self.expected.swap(0, Acquire) != 0 {
            self.ring();
        }
    }

    /// The last producer is gone: the consumer must be called once more, whatever its peek says.
    pub(super) fn closed(&self) {
        // CloseFence: pairs with HangFence in `hang`. Either the doorbell is seen here, or its hanger sees that the producers are gone.
        fence(SeqCst);
        self.ring();
    }

    fn ring(&self) {
        // Acquire: partner is the Release store in `hang`.
        let newest = self.newest.load(Acquire);
        // SAFETY: null, or made by `hang` from a `Box` that is freed only when `self` is dropped.
        if let Some(hung) = unsafe { newest.as_ref() } {
            hung.doorbell.ring();
        }
    }
}

impl Drop for Bells {
    fn drop(&mut self) {
        // Relaxed: nobody else is left.
        let mut next = self.newest.load(Relaxed);
        while !next.is_null() {
            // SAFETY: made by `hang` from a `Box`, linked once, and nobody else is left to follow it.
            let hung = unsafe { Box::from_raw(next) };
            next = hung.before;
        }
    }
}
