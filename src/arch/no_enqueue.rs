//! Architectures without DSA: the names of `x86_enqueue`, of which none is ever called, since no token is made here.

use super::{Enqcmd, Movdir64b};

/// A store-store fence.
#[inline(always)]
pub(crate) fn store_fence() {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

impl Movdir64b {
    /// Never called.
    ///
    /// # Safety
    /// None.
    pub(crate) unsafe fn store(self, _: *mut [u8; 64], _: &[u8; 64]) {}
}

impl Enqcmd {
    /// Never called.
    ///
    /// # Safety
    /// None.
    pub(crate) unsafe fn enqueue(self, _: *mut [u8; 64], _: &[u8; 64]) -> bool {
        false
    }
}
