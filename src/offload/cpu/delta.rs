//! Delta records: what to write where, to make one range from another. An entry is an offset in units of 8 bytes (16 bits, little-endian) and the
//! unit that belongs there.

use super::super::Verdict;
use super::check::{DELTA_ENTRY, DELTA_UNIT};

/// Units that are looked at together.
const SKIP: usize = 8 * DELTA_UNIT;

/// Writes how to make `modified` from `original`.
///
/// # Safety
/// Both are readable for `len` bytes, `record` is writable for `record_max` bytes and overlaps neither; `len` is a multiple of 8 within what offsets
/// can say.
pub(super) unsafe fn create(
    original: *const u8,
    modified: *const u8,
    len: usize,
    record: *mut u8,
    record_max: usize,
) -> Verdict {
    // SAFETY: as this function demands.
    let (original, modified) =
        unsafe { (std::slice::from_raw_parts(original, len), std::slice::from_raw_parts(modified, len)) };
    let mut filled = 0;
    for (skip, (old, new)) in original.chunks(SKIP).zip(modified.chunks(SKIP)).enumerate() {
        if old == new {
            continue;
        }
        let units = old.chunks_exact(DELTA_UNIT).zip(new.chunks_exact(DELTA_UNIT)).enumerate();
        for (unit, (_, new)) in units.filter(|(_, (old, new))| old != new) {
            if record_max - filled < DELTA_ENTRY {
                return Verdict::DeltaOverflow;
            }
            // Below 2^16: the caller keeps `len` within 2^16 units.
            let offset = ((skip * SKIP / DELTA_UNIT + unit) as u16).to_le_bytes();
            // SAFETY: an entry's bytes are left of `record_max`, and both sources of it have exactly the bytes that are copied.
            unsafe {
                let entry = record.add(filled);
                std::ptr::copy_nonoverlapping(offset.as_ptr(), entry, offset.len());
                std::ptr::copy_nonoverlapping(new.as_ptr(), entry.add(offset.len()), DELTA_UNIT);
            }
            filled += DELTA_ENTRY;
        }
    }
    Verdict::Delta { len: filled }
}

/// Applies a record's entries in order, up to the first whose offset does not increase or lies outside of `dst`.
///
/// # Safety
/// `record` is readable for `record_len` bytes, a multiple of an entry's; `dst` is writable for `len` bytes, a multiple of 8; they do not overlap.
pub(super) unsafe fn apply(record: *const u8, record_len: usize, dst: *mut u8, len: usize) -> Verdict {
    // SAFETY: as this function demands.
    let record = unsafe { std::slice::from_raw_parts(record, record_len) };
    let mut above = None;
    for (number, entry) in record.chunks_exact(DELTA_ENTRY).enumerate() {
        let (offset, unit) = entry.split_at(2);
        let offset = u16::from_le_bytes([offset[0], offset[1]]);
        let at = usize::from(offset) * DELTA_UNIT;
        if above.is_some_and(|before| offset <= before) || at >= len {
            return Verdict::DeltaMalformed { applied: number * DELTA_ENTRY };
        }
        // SAFETY: `at` and `len` are multiples of a unit and `at` is below `len`, so a unit lies within.
        unsafe { std::ptr::copy_nonoverlapping(unit.as_ptr(), dst.add(at), DELTA_UNIT) };
        above = Some(offset);
    }
    Verdict::Done
}
