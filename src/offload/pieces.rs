//! What is larger than an engine takes at once, one piece after the other.

use super::cpu::{cut, source_block};
use super::{Operation, Verdict};

/// An operation of which a first piece is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    now: Operation,
    rest: Operation,
    /// Bytes of the source that pieces before have dealt with; of no meaning for a copy from the end.
    done: usize,
}

impl Pieces {
    /// Pieces are of about `budget` bytes at most.
    #[inline]
    pub(super) fn new(operation: &Operation, budget: usize) -> Self {
        let (now, rest) = first(operation, budget);
        Self { now, rest, done: 0 }
    }

    /// The piece that is under way.
    #[inline]
    pub(super) fn now(&self) -> &Operation {
        &self.now
    }

    /// The piece came to this. `Some`: so did the whole; `None`: the next one is under way.
    #[inline]
    pub(super) fn done(&mut self, verdict: Verdict, budget: usize) -> Option<Verdict> {
        let whole = joined(&self.now, &mut self.rest, self.done, verdict);
        if whole.is_none() {
            self.done += self.now.len();
            (self.now, self.rest) = first(&self.rest, budget);
        }
        whole
    }
}

#[inline]
fn first(operation: &Operation, budget: usize) -> (Operation, Operation) {
    if operation.len() <= budget { (*operation, Operation::Nop) } else { cut(operation, budget) }
}

/// The verdict of the whole, if it follows from that of a piece; `done`: bytes of the source before the piece. `None`: go on with `rest`.
#[inline]
pub(super) fn joined(piece: &Operation, rest: &mut Operation, done: usize, verdict: Verdict) -> Option<Verdict> {
    let over = rest.len() == 0;
    match verdict {
        Verdict::Differ { at } => Some(Verdict::Differ { at: done + at }),
        Verdict::DifMismatch { block, fault } => {
            Some(Verdict::DifMismatch { block: done / source_block(piece) + block, fault })
        }
        Verdict::Crc(crc) => {
            if let Operation::Crc { seed, .. } | Operation::CopyCrc { seed, .. } = rest {
                *seed = crc;
            }
            over.then_some(verdict)
        }
        Verdict::DeltaOverflow | Verdict::DeltaMalformed { .. } => Some(verdict),
        Verdict::Done | Verdict::Equal | Verdict::Delta { .. } => over.then_some(verdict),
    }
}
