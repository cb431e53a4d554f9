//! Lines written back to memory.
//!
//! On other architectures than x86-64 nothing happens: their user-mode instructions differ from cpu to cpu, and no device of ours is there to see
//! the difference. Memory that must survive a power cut needs its own library there.

use crate::arch::memory::LineFlush;

/// Writes the range's lines back and takes them out of all caches.
///
/// # Safety
/// The range is readable for `len` bytes.
pub(super) unsafe fn give_up(dst: *mut u8, len: usize) {
    if let Some(flush) = LineFlush::detect() {
        // SAFETY: as this function demands.
        unsafe { flush.give_up(dst, len) };
    }
}

/// Writes the range's lines back; they may stay in the caches. For copies whose destination is to be durable.
///
/// # Safety
/// The range is readable for `len` bytes.
pub(crate) unsafe fn write_back(dst: *const u8, len: usize) {
    if let Some(flush) = LineFlush::detect() {
        // SAFETY: as this function demands.
        unsafe { flush.write_back(dst, len) };
    }
}
