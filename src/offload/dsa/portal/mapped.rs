//! The way into a dedicated queue: MOVDIR64B to its mapped portal. Nothing tells whether a descriptor was taken.
//!
//! Credits (`queue`) keep the queue from overflowing, for the device drops what is too much. It drops everything when the queue is disabled, and that
//! shows by silence only: a deadline, then [`death`](Portal::death).

use super::direct::{By, Direct};
use super::page::Page;
use super::state::StateSource;
use super::{Death, Drained, NotDrained, Portal, Submitted};
use crate::arch::{self, Movdir64b};
use crate::offload::dsa::abi::Descriptor;

/// How 64 bytes are stored in one piece.
pub(crate) trait Store64: Copy + Send + Sync + std::fmt::Debug {
    /// # Safety
    /// `to` is 64-byte aligned and 64 bytes from there are mapped for writing; the caller answers for what the store sets in motion.
    unsafe fn store(self, to: *mut [u8; 64], from: &Descriptor);

    /// The same as a value, for those that store themselves.
    fn by(self) -> By;
}

impl Store64 for Movdir64b {
    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; 64], from: &Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.store(to, bytes(from)) }
    }

    fn by(self) -> By {
        By::Movdir64b(self)
    }
}

/// A descriptor as the instructions take it.
#[inline(always)]
pub(super) fn bytes(descriptor: &Descriptor) -> &[u8; 64] {
    // SAFETY: 64 bytes of plain data without padding (asserted in `abi`), of the same lifetime.
    unsafe { &*std::ptr::from_ref(descriptor).cast() }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Mapped<S> {
    page: Page,
    by: S,
    state: Box<dyn StateSource>,
}

impl<S: Store64> Mapped<S> {
    pub(super) fn new(page: Page, by: S, state: Box<dyn StateSource>) -> Self {
        Self { page, by, state }
    }
}

impl<S: Store64> Portal for Mapped<S> {
    #[inline]
    unsafe fn submit(&self, descriptor: &Descriptor) -> Submitted {
        if !self.page.is_here() {
            return Submitted::Dead(Death::Forked);
        }
        arch::store_fence();
        // SAFETY: a place in our mapped page; the descriptor's promises are the caller's.
        unsafe { self.by.store(self.page.place(descriptor), descriptor) };
        Submitted::Accepted
    }

    unsafe fn submit_many(&self, descriptors: &[Descriptor]) -> (usize, Submitted) {
        if !self.page.is_here() {
            return (0, Submitted::Dead(Death::Forked));
        }
        // One for all: nothing is written between the stores.
        arch::store_fence();
        for descriptor in descriptors {
            // SAFETY: as in `submit`.
            unsafe { self.by.store(self.page.place(descriptor), descriptor) };
        }
        (descriptors.len(), Submitted::Accepted)
    }

    fn direct(&self) -> Option<Direct> {
        Some(Direct::new(self.page.start(), self.by.by()))
    }

    fn death(&self) -> Option<Death> {
        if self.page.is_here() { self.state.death() } else { Some(Death::Forked) }
    }

    fn retire(&self) -> Result<Drained, NotDrained> {
        self.page.retire()
    }
}
