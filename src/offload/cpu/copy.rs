//! Copies: through the caches by `memcpy`, round them by streamed stores; one source to two destinations.

use super::Stores;
use super::check::overlap;
use crate::arch::memory::{LINE, Streaming};

/// Below this, streaming is not worth aligning for, in bytes: the lines at both ends are stored plainly anyway.
const STREAMED_LEAST: usize = 16 * LINE;

/// A dualcast goes in pieces of so many bytes: small enough that the source is still in the first-level cache (32 KiB and up) for the second
/// destination.
pub(super) const PIECE: usize = 8 << 10;

/// Copies `len` bytes; the ranges may overlap. Streamed stores need ranges apart, and are plain ones otherwise.
///
/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, or `len` is 0.
#[inline]
pub(crate) unsafe fn copy(src: *const u8, dst: *mut u8, len: usize, stores: Stores) {
    match stores {
        // SAFETY: as this function demands.
        Stores::Plain => unsafe { std::ptr::copy(src, dst, len) },
        // SAFETY: as above.
        Stores::Streamed => unsafe { copy_streamed(src, dst, len) },
    }
}

/// # Safety
/// As [`copy`].
unsafe fn copy_streamed(src: *const u8, dst: *mut u8, len: usize) {
    let streaming = match Streaming::detect() {
        Some(streaming) if len >= STREAMED_LEAST && !overlap(src.addr(), len, dst.addr(), len) => streaming,
        // SAFETY: as this function demands.
        _ => return unsafe { std::ptr::copy(src, dst, len) },
    };
    let (head, body) = lines_within(dst.addr(), len);
    let tail = head + body;
    // SAFETY: head, body and tail are parts of the ranges, which are apart; the body is whole lines of the destination.
    unsafe {
        std::ptr::copy_nonoverlapping(src, dst, head);
        streaming.copy(src.add(head), dst.add(head), body);
        std::ptr::copy_nonoverlapping(src.add(tail), dst.add(tail), len - tail);
    }
}

/// Copies one source to two destinations, reading it from memory once.
///
/// # Safety
/// `src` is readable, `dst` and `dst2` are writable for `len` bytes; no two of them overlap.
pub(super) unsafe fn dualcast(src: *const u8, dst: *mut u8, dst2: *mut u8, len: usize, stores: Stores) {
    for from in (0..len).step_by(PIECE) {
        let piece = PIECE.min(len - from);
        // SAFETY: a part of each range.
        unsafe {
            copy(src.add(from), dst.add(from), piece, stores);
            copy(src.add(from), dst2.add(from), piece, stores);
        }
    }
}

/// Bytes before the first whole line of a range, and bytes in whole lines.
pub(super) fn lines_within(address: usize, len: usize) -> (usize, usize) {
    let head = (address.wrapping_neg() % LINE).min(len);
    (head, (len - head) / LINE * LINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_a_head_and_whole_lines() {
        for (address, len, split) in [
            (0, 0, (0, 0)),
            (0, 63, (0, 0)),
            (0, 64, (0, 64)),
            (0, 130, (0, 128)),
            (1, 62, (62, 0)),
            (1, 63, (63, 0)),
            (1, 126, (63, 0)),
            (1, 127, (63, 64)),
            (63, 65, (1, 64)),
        ] {
            assert_eq!(lines_within(address, len), split, "{address} {len}");
        }
    }
}
