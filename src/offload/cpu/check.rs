//! What no engine does: sizes, alignments and overlaps that an operation does not have. Pure.

use super::super::operation::DifBlock;
use super::super::{Failure, Operation};

/// Bytes that a delta record can speak of: its offsets have 16 bits and count units of 8 bytes.
pub(crate) const DELTA_SPAN: usize = 0x8_0000;
/// What sizes and addresses of deltas are multiples of, in bytes.
pub(crate) const DELTA_UNIT: usize = 8;
/// An entry of a delta record, in bytes: an offset and a unit.
pub(crate) const DELTA_ENTRY: usize = 2 + DELTA_UNIT;
/// The smallest delta record that an engine begins to write, in bytes (the device's limit: eight entries).
pub(crate) const DELTA_RECORD_LEAST: usize = 8 * DELTA_ENTRY;

/// `Ok` if an engine may begin.
///
/// # Errors
/// [`Failure::Refused`], with the value that is wrong and what would be right.
#[inline]
pub(crate) fn check(operation: &Operation) -> Result<(), Failure> {
    match *operation {
        // The one that must cost nothing. Its ranges may overlap; that they end within the address space is its caller's promise.
        Operation::Nop | Operation::Copy { .. } => Ok(()),
        _ => check_others(operation),
    }
}

fn check_others(operation: &Operation) -> Result<(), Failure> {
    match *operation {
        Operation::Nop
        | Operation::Copy { .. }
        | Operation::Fill { .. }
        | Operation::Compare { .. }
        | Operation::ComparePattern { .. }
        | Operation::Crc { .. }
        | Operation::Flush { .. } => Ok(()),
        Operation::CopyCrc { src, dst, len, .. } => apart([("source", src, len), ("destination", dst, len)]),
        Operation::Dualcast { src, dst, dst2, len } => {
            apart([("source", src, len), ("first destination", dst, len), ("second destination", dst2, len)])
        }
        Operation::CreateDelta { original, modified, len, record, record_max } => {
            delta_span(len)?;
            aligned("original", original, len)?;
            aligned("modified", modified, len)?;
            if len > 0 && record_max < DELTA_RECORD_LEAST {
                return refuse(format!(
                    "a delta record of at most {record_max} bytes is too small: give it {DELTA_RECORD_LEAST} at least"
                ));
            }
            // The sources are only read, so they may overlap; neither may be written.
            apart([("original", original, len), ("delta record", record, record_max)])?;
            apart([("modified", modified, len), ("delta record", record, record_max)])
        }
        Operation::ApplyDelta { record, record_len, dst, len } => {
            delta_span(len)?;
            aligned("destination", dst, len)?;
            if record_len % DELTA_ENTRY != 0 {
                return refuse(format!(
                    "a delta record of {record_len} bytes is not whole: its entries have {DELTA_ENTRY} bytes"
                ));
            }
            apart([("delta record", record, record_len), ("destination", dst, len)])
        }
        Operation::DifCheck { len, dif, .. } => blocks(len, dif.block.with_tuple()),
        Operation::DifInsert { src, dst, len, dif } => {
            let block = dif.block.bytes();
            blocks(len, block)?;
            let written = stretched(len, block, dif.block.with_tuple())?;
            apart([("source", src, len), ("destination", dst, written)])
        }
        Operation::DifStrip { src, dst, len, dif } => {
            blocks(len, dif.block.with_tuple())?;
            let written = len / dif.block.with_tuple() * dif.block.bytes();
            apart([("source", src, len), ("destination", dst, written)])
        }
        Operation::DifUpdate { src, dst, len, check, .. } => {
            blocks(len, check.block.with_tuple())?;
            apart([("source", src, len), ("destination", dst, len)])
        }
    }
}

impl DifBlock {
    /// Bytes of a block and of the protection information behind it.
    pub(crate) const fn with_tuple(self) -> usize {
        self.bytes() + Self::TUPLE.get() as usize
    }
}

fn delta_span(len: usize) -> Result<(), Failure> {
    if len > DELTA_SPAN {
        return refuse(format!(
            "a delta over {len} bytes: a record spans {DELTA_SPAN} bytes at most, make one for each such part"
        ));
    }
    if len % DELTA_UNIT != 0 {
        return refuse(format!("a delta over {len} bytes: the size must be a multiple of {DELTA_UNIT}"));
    }
    Ok(())
}

/// Where nothing is, nothing need be aligned: an empty buffer's address may be anything.
fn aligned(which: &str, address: *const u8, len: usize) -> Result<(), Failure> {
    match address.addr() % DELTA_UNIT {
        _ if len == 0 => Ok(()),
        0 => Ok(()),
        _ => refuse(format!("the {which} of a delta is at {address:p}: it must be aligned to {DELTA_UNIT} bytes")),
    }
}

fn blocks(len: usize, block: usize) -> Result<(), Failure> {
    match len % block {
        0 => Ok(()),
        rest => refuse(format!("{len} bytes are no whole blocks: {rest} are left over from blocks of {block}")),
    }
}

/// Bytes that `len` bytes in blocks of `from` become in blocks of `to`.
fn stretched(len: usize, from: usize, to: usize) -> Result<usize, Failure> {
    (len / from).checked_mul(to).ok_or_else(|| Failure::Refused {
        what: format!("{len} bytes in blocks of {from} have no room in the address space as blocks of {to}"),
    })
}

/// No two of the ranges share a byte. An empty range shares none.
fn apart<const N: usize>(ranges: [(&str, *const u8, usize); N]) -> Result<(), Failure> {
    for (at, &(name, start, len)) in ranges.iter().enumerate() {
        for &(other_name, other, other_len) in &ranges[at + 1..] {
            if overlap(start.addr(), len, other.addr(), other_len) {
                return refuse(format!(
                    "{name} ({start:p}, {len} bytes) and {other_name} ({other:p}, {other_len} bytes) overlap: only a copy may"
                ));
            }
        }
    }
    Ok(())
}

/// Whether two ranges share a byte.
#[inline]
pub(crate) fn overlap(a: usize, a_len: usize, b: usize, b_len: usize) -> bool {
    // Distances wrap instead of sums: no range of memory is as long as half the address space, so none is mistaken.
    a_len > 0 && b_len > 0 && (b.wrapping_sub(a) < a_len || a.wrapping_sub(b) < b_len)
}

#[cold]
fn refuse(what: String) -> Result<(), Failure> {
    Err(Failure::Refused { what })
}

#[cfg(test)]
mod tests {
    use super::super::super::operation::{Dif, DifEscape, DifTags, DifWrite};
    use super::*;
    use std::ptr::without_provenance as at;
    use std::ptr::without_provenance_mut as to;

    #[test]
    fn ranges_overlap_if_they_share_a_byte() {
        for (a, a_len, b, b_len, shared) in [
            (100, 10, 110, 10, false),
            (100, 10, 109, 10, true),
            (110, 10, 100, 10, false),
            (109, 10, 100, 10, true),
            (100, 10, 100, 10, true),
            (100, 10, 104, 2, true),
            (104, 2, 100, 10, true),
            (100, 0, 100, 10, false),
            (100, 10, 105, 0, false),
            (usize::MAX - 9, 10, 0, 10, false),
            (0, 10, usize::MAX, 1, false),
        ] {
            assert_eq!(overlap(a, a_len, b, b_len), shared, "{a} {a_len} {b} {b_len}");
        }
    }

    const TAGS: DifTags = DifTags {
        reference: 0,
        reference_fixed: false,
        application: 0,
        application_mask: 0,
        application_increments: false,
    };
    const DIF: Dif = Dif {
        block: DifBlock::B512,
        tags: TAGS,
        invert_seed: false,
        invert_result: false,
        check_guard: true,
        check_reference: true,
        escape: DifEscape::Never,
    };
    const WRITE: DifWrite = DifWrite { tags: TAGS, keep_guard: false, keep_application: false, keep_reference: false };

    #[test]
    fn what_no_engine_does_is_refused_with_the_value() {
        const A: usize = 0x1_0000;
        const B: usize = 0x9_0000;
        let create = |original, modified, len, record, record_max| Operation::CreateDelta {
            original: at(original),
            modified: at(modified),
            len,
            record: to(record),
            record_max,
        };
        let apply = |record_len, dst, len| Operation::ApplyDelta { record: at(A), record_len, dst: to(dst), len };
        let copy_crc = |src, dst, len| Operation::CopyCrc { src: at(src), dst: to(dst), len, seed: 0 };
        let dualcast = |src, dst, dst2| Operation::Dualcast { src: at(src), dst: to(dst), dst2: to(dst2), len: 0x100 };
        let insert = |dst, len| Operation::DifInsert { src: at(A), dst: to(dst), len, dif: DIF };
        let strip = |dst, len| Operation::DifStrip { src: at(A), dst: to(dst), len, dif: DIF };
        let update = |dst, len| Operation::DifUpdate { src: at(A), dst: to(dst), len, check: DIF, write: WRITE };
        for (operation, says) in [
            (Operation::Copy { src: at(A), dst: to(A + 1), len: 100 }, None),
            (copy_crc(A, A + 100, 100), None),
            (copy_crc(A, A + 99, 100), Some("overlap")),
            (copy_crc(A, A, 0), None),
            (dualcast(A, B, B + 0x100), None),
            (dualcast(A, A + 0xff, B), Some("source (0x10000, 256 bytes) and first destination")),
            (dualcast(A, B, A - 0xff), Some("source (0x10000, 256 bytes) and second destination")),
            (dualcast(A, B, B), Some("first destination (0x90000, 256 bytes) and second destination")),
            (create(A, A, 64, B, 80), None),
            (create(A, B, 0, B, 0), None),
            (create(A, A + DELTA_SPAN, DELTA_SPAN, A - 80, 80), None),
            (create(A, A, DELTA_SPAN + 8, 0x100_0000, 80), Some("524296 bytes: a record spans 524288")),
            (create(A, A, 63, B, 80), Some("63 bytes: the size must be a multiple of 8")),
            (create(A + 4, A, 64, B, 80), Some("original of a delta is at 0x10004")),
            (create(A, A + 1, 64, B, 80), Some("modified of a delta is at 0x10001")),
            (create(A, A, 64, B, 79), Some("at most 79 bytes is too small: give it 80")),
            (create(A, B, 64, A + 63, 80), Some("original")),
            (create(B, A, 64, A + 63, 80), Some("modified")),
            (apply(20, B, 64), None),
            (apply(0, B, 64), None),
            (apply(25, B, 64), Some("25 bytes is not whole")),
            (apply(20, B + 1, 64), Some("destination of a delta is at 0x90001")),
            (apply(20, A + 16, 64), Some("overlap")),
            (Operation::DifCheck { src: at(A), len: 1040, dif: DIF }, None),
            (Operation::DifCheck { src: at(A), len: 1024, dif: DIF }, Some("504 are left over from blocks of 520")),
            (insert(B, 1024), None),
            (insert(B, 1040), Some("16 are left over from blocks of 512")),
            (insert(A - 1040, 1024), None),
            (insert(A - 1039, 1024), Some("overlap")),
            (strip(B, 1040), None),
            (strip(A - 1024, 1040), None),
            (strip(A - 1023, 1040), Some("overlap")),
            (strip(B, 1), Some("1 are left over")),
            (update(B, 520), None),
            (update(A + 519, 520), Some("overlap")),
            (update(B, 512), Some("512 are left over")),
        ] {
            match (check(&operation), says) {
                (Ok(()), None) => {}
                (Err(Failure::Refused { what }), Some(says)) => assert!(what.contains(says), "{operation:?}: {what}"),
                (answer, says) => panic!("{operation:?}: {answer:?}, expected {says:?}"),
            }
        }
    }
}
