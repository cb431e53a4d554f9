//! The way into a shared queue: ENQCMD to its mapped portal, which answers whether it was taken.
//!
//! "Not taken" means a full queue, and just as well a disabled one, one of the other mode, or a halted device; the instruction never says which, and
//! never turns into an error. So tries are bounded, and after a run of submissions that all found it "full" the queue's `state` is read again.

use std::sync::atomic::{AtomicU32, Ordering::*};

use super::mapped::bytes;
use super::page::Page;
use super::state::StateSource;
use super::{Death, Drained, NotDrained, Portal, Submitted};
use crate::arch::{self, Enqcmd};
use crate::offload::dsa::abi::Descriptor;

/// Tries of one submission, a PAUSE between them. One costs about 600 cycles (published, not measured here), eight about as much as copying 4 KiB:
/// beyond that the CPU would have done the work.
const TRIES_MAX: u32 = 8;
/// Submissions that in a row found the queue full, after which `state` is read again (some microseconds, so once in tens of microseconds).
const FULL_RUN: u32 = 16;

/// How a device is asked to take 64 bytes.
pub(crate) trait Enqueue: Copy + Send + Sync + std::fmt::Debug {
    /// `false`: not taken.
    ///
    /// # Safety
    /// As [`Enqcmd::enqueue`].
    unsafe fn enqueue(self, to: *mut [u8; 64], from: &Descriptor) -> bool;
}

impl Enqueue for Enqcmd {
    #[inline(always)]
    unsafe fn enqueue(self, to: *mut [u8; 64], from: &Descriptor) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(to, bytes(from)) }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Enqueued<E> {
    page: Page,
    by: E,
    state: Box<dyn StateSource>,
    /// Submissions in a row that found it full.
    full_run: AtomicU32,
}

impl<E: Enqueue> Enqueued<E> {
    pub(super) fn new(page: Page, by: E, state: Box<dyn StateSource>) -> Self {
        Self { page, by, state, full_run: AtomicU32::new(0) }
    }

    /// One descriptor, after the fence.
    #[inline]
    fn enqueue(&self, descriptor: &Descriptor) -> Submitted {
        debug_assert_eq!(bytes(descriptor)[..4], [0; 4], "ENQCMD takes no descriptor with a PASID of its own");
        for _ in 0..TRIES_MAX {
            // SAFETY: a place in our mapped page, in the process that opened the queue, a descriptor whose first word is zero; what it names is
            // the promise of `submit`'s caller.
            if unsafe { self.by.enqueue(self.page.place(descriptor), descriptor) } {
                // Relaxed, here and below: a count that decides when to read `state`; a lost step costs a try.
                if self.full_run.load(Relaxed) != 0 {
                    self.full_run.store(0, Relaxed);
                }
                return Submitted::Accepted;
            }
            arch::pause();
        }
        self.found_full()
    }

    #[cold]
    fn found_full(&self) -> Submitted {
        if self.full_run.fetch_add(1, Relaxed) + 1 < FULL_RUN {
            return Submitted::Full;
        }
        self.full_run.store(0, Relaxed);
        self.state.death().map_or(Submitted::Full, Submitted::Dead)
    }
}

impl<E: Enqueue> Portal for Enqueued<E> {
    #[inline]
    unsafe fn submit(&self, descriptor: &Descriptor) -> Submitted {
        if !self.page.is_here() {
            return Submitted::Dead(Death::Forked);
        }
        arch::store_fence();
        self.enqueue(descriptor)
    }

    unsafe fn submit_many(&self, descriptors: &[Descriptor]) -> (usize, Submitted) {
        if !self.page.is_here() {
            return (0, Submitted::Dead(Death::Forked));
        }
        // One for all: nothing that the device reads is written between them.
        arch::store_fence();
        for (accepted, descriptor) in descriptors.iter().enumerate() {
            match self.enqueue(descriptor) {
                Submitted::Accepted => {}
                stopped => return (accepted, stopped),
            }
        }
        (descriptors.len(), Submitted::Accepted)
    }

    fn death(&self) -> Option<Death> {
        if self.page.is_here() { self.state.death() } else { Some(Death::Forked) }
    }

    fn retire(&self) -> Result<Drained, NotDrained> {
        self.page.retire()
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_device::{AnyState, page};
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Says no so many times, then yes for ever; counts what it was asked.
    #[derive(Clone, Copy, Debug)]
    struct Refuses(&'static (AtomicUsize, AtomicUsize));

    impl Enqueue for Refuses {
        unsafe fn enqueue(self, to: *mut [u8; 64], _: &Descriptor) -> bool {
            assert_eq!(to.addr() % 64, 0);
            self.0.1.fetch_add(1, Relaxed);
            self.0.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_err()
        }
    }

    fn portal(refusals: usize, state: AnyState) -> (Enqueued<Refuses>, Refuses) {
        let by = Refuses(Box::leak(Box::new((AtomicUsize::new(refusals), AtomicUsize::new(0)))));
        (Enqueued::new(page(), by, Box::new(state)), by)
    }

    fn submit(portal: &impl Portal) -> Submitted {
        // SAFETY: a no-op without a completion record names no memory.
        unsafe { portal.submit(&Descriptor::noop()) }
    }

    #[test]
    fn a_queue_that_is_full_for_a_moment_is_tried_again() {
        let (portal, by) = portal(TRIES_MAX as usize - 1, AnyState::default());
        assert_eq!(submit(&portal), Submitted::Accepted);
        assert_eq!(by.0.1.load(Relaxed), TRIES_MAX as usize);
    }

    #[test]
    fn tries_are_bounded_and_full_is_not_dead() {
        let state = AnyState::default();
        let (portal, by) = portal(usize::MAX, state.clone());
        for _ in 0..10 * FULL_RUN {
            assert_eq!(submit(&portal), Submitted::Full);
        }
        assert_eq!(state.looks(), 10, "once a run");
        assert_eq!(by.0.1.load(Relaxed), (10 * FULL_RUN * TRIES_MAX) as usize);
    }

    #[test]
    fn a_queue_that_says_full_for_ever_is_looked_at() {
        let state = AnyState::default();
        let (portal, _) = portal(usize::MAX, state.clone());
        state.set(Some(Death::Disabled));
        for n in 1..FULL_RUN {
            assert_eq!(submit(&portal), Submitted::Full, "{n}");
        }
        assert_eq!(submit(&portal), Submitted::Dead(Death::Disabled));
        assert_eq!(state.looks(), 1);
        assert_eq!(portal.death(), Some(Death::Disabled));
    }

    #[test]
    fn one_success_ends_a_run() {
        let state = AnyState::default();
        let (portal, by) = portal((FULL_RUN - 1) as usize * TRIES_MAX as usize, state.clone());
        for _ in 1..FULL_RUN {
            assert_eq!(submit(&portal), Submitted::Full);
        }
        assert_eq!(submit(&portal), Submitted::Accepted);
        by.0.0.store(usize::MAX, Relaxed);
        for _ in 1..FULL_RUN {
            assert_eq!(submit(&portal), Submitted::Full);
        }
        assert_eq!(state.looks(), 0);
    }

    #[test]
    fn many_stop_at_the_first_that_is_not_taken() {
        let (portal, by) = portal(0, AnyState::default());
        let three = [Descriptor::noop(); 3];
        // SAFETY: no-ops name no memory.
        assert_eq!(unsafe { portal.submit_many(&three) }, (3, Submitted::Accepted));
        by.0.0.store(usize::MAX, Relaxed);
        // SAFETY: as above.
        assert_eq!(unsafe { portal.submit_many(&three) }, (0, Submitted::Full));
    }
}
