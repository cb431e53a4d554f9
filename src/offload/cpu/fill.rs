//! Fills: a pattern of 8 or 16 bytes, its phase counted from the start.

use super::super::Pattern;
use super::Stores;
use super::copy::lines_within;
use crate::arch::memory::{LINE, Streaming};

/// Below this, streaming is not worth aligning for, in bytes.
const STREAMED_LEAST: usize = 16 * LINE;

/// Writes the pattern again and again.
///
/// # Safety
/// `dst` is writable for `len` bytes.
pub(super) unsafe fn fill(pattern: Pattern, dst: *mut u8, len: usize, stores: Stores) {
    let line = line_of(pattern, 0);
    if let (Stores::Streamed, Some(streaming), true) = (stores, Streaming::detect(), len >= STREAMED_LEAST) {
        let (head, body) = lines_within(dst.addr(), len);
        let tail = head + body;
        // SAFETY: head, body and tail are parts of the range; the body is whole lines.
        return unsafe {
            plain(&line, dst, head);
            streaming.fill(&line_of(pattern, head), dst.add(head), body);
            plain(&line_of(pattern, tail), dst.add(tail), len - tail);
        };
    }
    if line.iter().all(|byte| *byte == line[0]) {
        // SAFETY: as this function demands.
        return unsafe { dst.write_bytes(line[0], len) };
    }
    // SAFETY: as this function demands.
    unsafe { plain(&line, dst, len) };
}

/// A line's worth of the pattern, from its byte `phase` on. Both widths divide a line, so lines follow each other seamlessly.
fn line_of(pattern: Pattern, phase: usize) -> [u8; LINE] {
    match pattern.after(phase) {
        Pattern::Eight(bytes) => std::array::from_fn(|at| bytes[at % bytes.len()]),
        Pattern::Sixteen(bytes) => std::array::from_fn(|at| bytes[at % bytes.len()]),
    }
}

/// # Safety
/// `dst` is writable for `len` bytes.
unsafe fn plain(line: &[u8; LINE], dst: *mut u8, len: usize) {
    let lines = len / LINE * LINE;
    for at in (0..lines).step_by(LINE) {
        // SAFETY: `at` is a multiple of a line below the whole lines in `len`. An array of bytes has no alignment.
        unsafe { dst.add(at).cast::<[u8; LINE]>().write(*line) };
    }
    // SAFETY: what is left of `len` is less than a line.
    unsafe { std::ptr::copy_nonoverlapping(line.as_ptr(), dst.add(lines), len - lines) };
}
