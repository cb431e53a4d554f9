//! An operation in pieces, so that whoever does it can attend to something else in between.
//!
//! What a piece is, and what is left, is decided by [`cut`], which is pure; the verdicts of pieces are joined into the one of the whole.

use super::super::operation::{DifTags, DifWrite, Pattern};
use super::super::pieces::joined;
use super::super::{Dif, Failure, Operation, Verdict};
use super::check::{check, overlap};
use super::{Stores, perform_checked};
use crate::arch::memory::LINE;

/// An operation that is being carried out. It can be dropped between any two calls: what was done stays done, the rest is not done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    rest: Operation,
    stores: Stores,
    /// Bytes of the source that pieces before have dealt with; of no meaning for a copy from the end.
    done: usize,
}

impl Work {
    /// Nothing is done yet.
    ///
    /// # Errors
    /// As [`perform`](super::perform).
    pub(crate) fn new(operation: &Operation, stores: Stores) -> Result<Self, Failure> {
        check(operation)?;
        let stores = match *operation {
            // Pieces of ranges that overlap may be apart: streamed one by one they would be ordered, but some would go through the caches.
            Operation::Copy { src, dst, len } if overlap(src.addr(), len, dst.addr(), len) => Stores::Plain,
            _ => stores,
        };
        Ok(Self { rest: *operation, stores, done: 0 })
    }

    /// Does about `budget` bytes more; `Some` when that was the end. What is streamed is published by then, so that the next piece may be another
    /// thread's.
    ///
    /// At least a line is done, at least a block of DIF, and a delta wholly, since it has no parts (512 KiB at most, some 50 us).
    ///
    /// # Safety
    /// As [`perform`](super::perform), from the first call to the one that answers. After `Some`, it is not called again.
    pub(crate) unsafe fn advance(&mut self, budget: usize) -> Option<Verdict> {
        let (piece, mut rest) = cut(&self.rest, budget);
        // SAFETY: as this function demands; a piece of what was checked passes the same checks.
        let verdict = unsafe { perform_checked(&piece, self.stores) };
        let answer = joined(&piece, &mut rest, self.done, verdict);
        self.done += piece.len();
        self.rest = rest;
        answer
    }
}

/// A piece of about `budget` bytes, and the rest. The piece is to be done first: it is the last part of a copy whose destination overlaps the
/// source's end. Verdict and data of the whole are those of the two one after the other.
pub(crate) fn cut(operation: &Operation, budget: usize) -> (Operation, Operation) {
    let budget = budget.max(LINE);
    if operation.len() <= budget {
        return (*operation, Operation::Nop);
    }
    match *operation {
        Operation::Copy { src, dst, len } if overlaps_tail(src, dst, len) => {
            let keep = len - budget;
            let piece = Operation::Copy { src: src.wrapping_add(keep), dst: dst.wrapping_add(keep), len: budget };
            (piece, Operation::Copy { src, dst, len: keep })
        }
        Operation::Copy { src, dst, len } => {
            let n = to_line(dst, budget);
            let rest = Operation::Copy { src: src.wrapping_add(n), dst: dst.wrapping_add(n), len: len - n };
            (Operation::Copy { src, dst, len: n }, rest)
        }
        Operation::Fill { pattern, dst, len } => {
            let n = to_line(dst, budget);
            let rest = Operation::Fill { pattern: pattern.after(n), dst: dst.wrapping_add(n), len: len - n };
            (Operation::Fill { pattern, dst, len: n }, rest)
        }
        Operation::Compare { left, right, len } => {
            let (left_rest, right_rest) = (left.wrapping_add(budget), right.wrapping_add(budget));
            let rest = Operation::Compare { left: left_rest, right: right_rest, len: len - budget };
            (Operation::Compare { left, right, len: budget }, rest)
        }
        Operation::ComparePattern { src, pattern, len } => {
            // Whole lines, so that the pattern's phase stays.
            let n = budget / LINE * LINE;
            let rest = Operation::ComparePattern { src: src.wrapping_add(n), pattern, len: len - n };
            (Operation::ComparePattern { src, pattern, len: n }, rest)
        }
        // The seed of the rest is the first piece's answer.
        Operation::Crc { src, len, seed } => {
            let rest = Operation::Crc { src: src.wrapping_add(budget), len: len - budget, seed };
            (Operation::Crc { src, len: budget, seed }, rest)
        }
        Operation::CopyCrc { src, dst, len, seed } => {
            let n = to_line(dst, budget);
            let rest = Operation::CopyCrc { src: src.wrapping_add(n), dst: dst.wrapping_add(n), len: len - n, seed };
            (Operation::CopyCrc { src, dst, len: n, seed }, rest)
        }
        Operation::Dualcast { src, dst, dst2, len } => {
            let n = to_line(dst, budget);
            let rest = Operation::Dualcast {
                src: src.wrapping_add(n),
                dst: dst.wrapping_add(n),
                dst2: dst2.wrapping_add(n),
                len: len - n,
            };
            (Operation::Dualcast { src, dst, dst2, len: n }, rest)
        }
        Operation::DifCheck { src, len, dif } => {
            let (blocks, n) = whole_blocks(source_block(operation), budget);
            if n >= len {
                return (*operation, Operation::Nop);
            }
            let rest = Operation::DifCheck { src: src.wrapping_add(n), len: len - n, dif: dif.after(blocks) };
            (Operation::DifCheck { src, len: n, dif }, rest)
        }
        Operation::DifInsert { src, dst, len, dif } => {
            let (blocks, n) = whole_blocks(source_block(operation), budget);
            if n >= len {
                return (*operation, Operation::Nop);
            }
            let written = blocks * dif.block.with_tuple();
            let rest = Operation::DifInsert {
                src: src.wrapping_add(n),
                dst: dst.wrapping_add(written),
                len: len - n,
                dif: dif.after(blocks),
            };
            (Operation::DifInsert { src, dst, len: n, dif }, rest)
        }
        Operation::DifStrip { src, dst, len, dif } => {
            let (blocks, n) = whole_blocks(source_block(operation), budget);
            if n >= len {
                return (*operation, Operation::Nop);
            }
            let written = blocks * dif.block.bytes();
            let rest = Operation::DifStrip {
                src: src.wrapping_add(n),
                dst: dst.wrapping_add(written),
                len: len - n,
                dif: dif.after(blocks),
            };
            (Operation::DifStrip { src, dst, len: n, dif }, rest)
        }
        Operation::DifUpdate { src, dst, len, check, write } => {
            let (blocks, n) = whole_blocks(source_block(operation), budget);
            if n >= len {
                return (*operation, Operation::Nop);
            }
            let rest = Operation::DifUpdate {
                src: src.wrapping_add(n),
                dst: dst.wrapping_add(n),
                len: len - n,
                check: check.after(blocks),
                write: DifWrite { tags: write.tags.after(blocks), ..write },
            };
            (Operation::DifUpdate { src, dst, len: n, check, write }, rest)
        }
        Operation::Flush { dst, len } => {
            let n = to_line(dst, budget);
            (Operation::Flush { dst, len: n }, Operation::Flush { dst: dst.wrapping_add(n), len: len - n })
        }
        Operation::Nop | Operation::CreateDelta { .. } | Operation::ApplyDelta { .. } => (*operation, Operation::Nop),
    }
}

/// A copy to there, from the front, would overwrite what is still to be read.
fn overlaps_tail(src: *const u8, dst: *mut u8, len: usize) -> bool {
    let ahead = dst.addr().wrapping_sub(src.addr());
    ahead > 0 && ahead < len
}

/// As many bytes, or some fewer, as end at a line of the destination. `budget` is a line at least, so one byte at least is left of it.
fn to_line(dst: *const u8, budget: usize) -> usize {
    budget - dst.addr().wrapping_add(budget) % LINE
}

/// Blocks, one at least, and their bytes, that make about `budget` bytes.
fn whole_blocks(block: usize, budget: usize) -> (usize, usize) {
    let blocks = (budget / block).max(1);
    (blocks, blocks * block)
}

/// Bytes of the source that are one block of DIF.
pub(crate) fn source_block(operation: &Operation) -> usize {
    match operation {
        Operation::DifInsert { dif, .. } => dif.block.bytes(),
        Operation::DifCheck { dif, .. } | Operation::DifStrip { dif, .. } | Operation::DifUpdate { check: dif, .. } => {
            dif.block.with_tuple()
        }
        _ => LINE,
    }
}

impl Dif {
    /// For a run that begins so many blocks later.
    fn after(self, blocks: usize) -> Self {
        let tags: DifTags = self.tags.after(blocks);
        Self { tags, ..self }
    }
}

impl Pattern {
    /// For a fill that begins so many bytes later.
    pub(crate) fn after(self, bytes: usize) -> Self {
        match self {
            Self::Eight(mut pattern) => {
                pattern.rotate_left(bytes % 8);
                Self::Eight(pattern)
            }
            Self::Sixteen(mut pattern) => {
                pattern.rotate_left(bytes % 16);
                Self::Sixteen(pattern)
            }
        }
    }
}
