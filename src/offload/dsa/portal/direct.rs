//! The shortest way into a dedicated queue: its mapped page, for submitters that store to it themselves instead of calling a [`Portal`](super::Portal).
//!
//! A call through a trait object costs as many instructions as the store, and makes its caller put everything aside that it has in registers. Only a queue that
//! takes a descriptor by a single store has such a way; all others are asked by their portal.

use std::ptr::NonNull;

#[cfg(any(test, feature = "sim"))]
use super::null::Words;
use super::page::PAGE_BYTES;
use crate::arch::{self, Movdir64b};

/// A portal's page, and by which store. Good for as long as its portal is not dropped; once that is retired, what is stored comes to nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Direct {
    page: NonNull<u8>,
    by: By,
}

// SAFETY: an address. What is behind it is written by whole-descriptor stores only, which any thread may do.
unsafe impl Send for Direct {}
// SAFETY: as above.
unsafe impl Sync for Direct {}

/// A store of 64 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum By {
    Movdir64b(Movdir64b),
    /// To nowhere.
    #[cfg(any(test, feature = "sim"))]
    Words(Words),
}

impl Direct {
    /// `page` is [`PAGE_BYTES`] long, and stays mapped for writing until the portal is dropped.
    pub(super) fn new(page: NonNull<u8>, by: By) -> Self {
        Self { page, by }
    }

    /// Hands a descriptor to the device, which has it then. What the thread wrote before is visible to the device. `place`: an offset within the page; to the device
    /// all are the same, but a store to one that was stored to just now waits for that.
    ///
    /// # Safety
    /// - `place` is a multiple of 64, below [`PAGE_BYTES`].
    /// - As [`Portal::submit`](super::Portal::submit); and the portal is not dropped meanwhile, and the caller has seen that it runs in the process that opened it,
    ///   and has not forked since.
    #[inline(always)]
    pub(crate) unsafe fn submit(self, place: usize, words: impl Fn() -> [u64; 8]) {
        debug_assert!(place < PAGE_BYTES && place % size_of::<[u64; 8]>() == 0);
        arch::store_fence();
        // SAFETY: below the page's length, and aligned to 64, says the caller; the page is mapped (see `new`), since the caller is at home. What the store sets in
        // motion is the caller's promise.
        unsafe {
            let to = self.page.add(place).as_ptr();
            match self.by {
                // Made here, each: what is needed in memory in the one case is stored from registers in the other.
                By::Movdir64b(by) => {
                    let words = words();
                    by.store(to.cast(), &*words.as_ptr().cast::<[u8; 64]>());
                }
                #[cfg(any(test, feature = "sim"))]
                By::Words(by) => by.store_words(to.cast(), words()),
            }
        }
    }
}
