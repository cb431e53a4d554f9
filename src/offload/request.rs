//! What user code asks for: buffers and an operation on them, and what the answer is made of.
//!
//! One type an operation, all of them the same to [`Offloading`](super::Offloading): the buffers go in, [`Operation`] says where they are, and they come
//! out with what was found out.

use super::buffer::{ReadBuffer, WriteBuffer};
use super::operation::{Dif, DifWrite, Operation, Pattern};
use super::verdict::{DifFault, Verdict};
use super::{Failure, check_room};

/// An operation with the buffers it works on. Sealed: made by the methods of [`Copies`](super::Copies).
pub trait Request: Sized + Send + 'static + sealed::Sealed {
    /// What the future answers with.
    type Output: Send;
    /// What comes back if there is no answer.
    type Buffers: Send;

    /// Where the buffers are and what is to be done to them.
    #[doc(hidden)]
    fn operation(&mut self) -> Result<sealed::Described, Failure>;
    /// Where it is from and where to, if it is a copy and there is room: what [`operation`](Self::operation) says, for the way that is to be short.
    #[doc(hidden)]
    #[inline(always)]
    fn copy(&mut self) -> Option<(*const u8, *mut u8, usize)> {
        None
    }
    /// The answer.
    #[doc(hidden)]
    fn answer(self, verdict: sealed::Answer) -> Self::Output;
    /// The buffers alone.
    #[doc(hidden)]
    fn into_buffers(self) -> Self::Buffers;
}

pub(super) mod sealed {
    /// Keeps the trait's implementations here.
    pub trait Sealed {}
    /// An operation, for this crate's eyes.
    #[derive(Clone, Copy, Debug)]
    pub struct Described(pub(in super::super) super::Operation);
    /// A verdict, for this crate's eyes.
    #[derive(Clone, Copy, Debug)]
    pub struct Answer(pub(in super::super) super::Verdict);
}
use sealed::{Answer, Described, Sealed};

/// Where a copy is from and where to, if there is room.
#[inline(always)]
pub(super) fn copy_of(src: &impl ReadBuffer, dst: &mut impl WriteBuffer) -> Option<(*const u8, *mut u8, usize)> {
    let ((src, len), (dst, room)) = (src.readable(), dst.writable());
    (room >= len).then_some((src, dst, len))
}

/// Declares a request: its buffers, its plain fields, its operation and its answer.
macro_rules! request {
    (
        $(#[$doc:meta])*
        $name:ident<$($generic:ident: $bound:ident),+> { $($buffer:ident: $type:ident),+ $(; $($field:ident: $field_type:ty),+)? }
        operation($this:ident) $operation:block
        $(copy($copy_this:ident) $copy:block)?
        answer($verdict:ident, $parts:ident) -> $output:ty $answer:block
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<$($generic),+> {
            $(pub(super) $buffer: $type,)+
            $($(pub(super) $field: $field_type,)+)?
        }

        impl<$($generic: $bound),+> Sealed for $name<$($generic),+> {}

        impl<$($generic: $bound),+> Request for $name<$($generic),+> {
            type Output = $output;
            type Buffers = ($($generic,)+);

            #[inline]
            fn operation(&mut self) -> Result<Described, Failure> {
                let $this = self;
                $operation.map(Described)
            }

            $(
                #[inline(always)]
                fn copy(&mut self) -> Option<(*const u8, *mut u8, usize)> {
                    let $copy_this = self;
                    $copy
                }
            )?

            #[inline]
            fn answer(self, Answer($verdict): Answer) -> $output {
                let $parts = self;
                $answer
            }

            fn into_buffers(self) -> Self::Buffers {
                ($(self.$buffer,)+)
            }
        }
    };
}

request! {
    /// See [`Copies::copy`](super::Copies::copy).
    Copying<S: ReadBuffer, D: WriteBuffer> { src: S, dst: D }
    operation(this) {
        let ((src, len), (dst, room)) = (this.src.readable(), this.dst.writable());
        check_room("destination", room, len).map(|()| Operation::Copy { src, dst, len })
    }
    copy(this) { copy_of(&this.src, &mut this.dst) }
    answer(_verdict, this) -> (S, D) { (this.src, this.dst) }
}

request! {
    /// See [`Copies::fill`](super::Copies::fill).
    Filling<D: WriteBuffer> { dst: D; pattern: Pattern }
    operation(this) {
        let (dst, len) = this.dst.writable();
        Ok(Operation::Fill { pattern: this.pattern, dst, len })
    }
    answer(_verdict, this) -> D { this.dst }
}

request! {
    /// See [`Copies::compare`](super::Copies::compare).
    Comparing<L: ReadBuffer, R: ReadBuffer> { left: L, right: R }
    operation(this) {
        let ((left, len), (right, right_len)) = (this.left.readable(), this.right.readable());
        if len == right_len {
            Ok(Operation::Compare { left, right, len })
        } else {
            Err(Failure::Refused {
                what: format!("a comparison of {len} with {right_len} bytes: give parts of one length, see `PartRef::part`"),
            })
        }
    }
    answer(verdict, this) -> (L, R, Option<usize>) { (this.left, this.right, difference(verdict)) }
}

request! {
    /// See [`Copies::compare_pattern`](super::Copies::compare_pattern).
    ComparingPattern<S: ReadBuffer> { src: S; pattern: u64 }
    operation(this) {
        let (src, len) = this.src.readable();
        Ok(Operation::ComparePattern { src, pattern: this.pattern, len })
    }
    answer(verdict, this) -> (S, Option<usize>) { (this.src, difference(verdict)) }
}

request! {
    /// See [`Copies::crc32c`](super::Copies::crc32c).
    Checksumming<S: ReadBuffer> { src: S; seed: u32 }
    operation(this) {
        let (src, len) = this.src.readable();
        Ok(Operation::Crc { src, len, seed: this.seed })
    }
    answer(verdict, this) -> (S, u32) { (this.src, checksum(verdict)) }
}

request! {
    /// See [`Copies::copy_crc32c`](super::Copies::copy_crc32c).
    CopyingChecksummed<S: ReadBuffer, D: WriteBuffer> { src: S, dst: D; seed: u32 }
    operation(this) {
        let ((src, len), (dst, room)) = (this.src.readable(), this.dst.writable());
        check_room("destination", room, len).map(|()| Operation::CopyCrc { src, dst, len, seed: this.seed })
    }
    answer(verdict, this) -> (S, D, u32) { (this.src, this.dst, checksum(verdict)) }
}

request! {
    /// See [`Copies::dualcast`](super::Copies::dualcast).
    Dualcasting<S: ReadBuffer, D: WriteBuffer, E: WriteBuffer> { src: S, dst: D, dst2: E }
    operation(this) {
        let ((src, len), (dst, room)) = (this.src.readable(), this.dst.writable());
        let (dst2, room2) = this.dst2.writable();
        check_room("first destination", room, len)
            .and_then(|()| check_room("second destination", room2, len))
            .map(|()| Operation::Dualcast { src, dst, dst2, len })
    }
    answer(_verdict, this) -> (S, D, E) { (this.src, this.dst, this.dst2) }
}

request! {
    /// See [`Copies::create_delta`](super::Copies::create_delta).
    CreatingDelta<O: ReadBuffer, M: ReadBuffer, R: WriteBuffer> { original: O, modified: M, record: R }
    operation(this) {
        let ((original, len), (modified, room)) = (this.original.readable(), this.modified.readable());
        let (record, record_max) = this.record.writable();
        check_room("modified", room, len)
            .map(|()| Operation::CreateDelta { original, modified, len, record, record_max })
    }
    answer(verdict, this) -> (O, M, R, DeltaOutcome) {
        let outcome = match verdict {
            Verdict::Delta { len } => DeltaOutcome::Record { len },
            _ => DeltaOutcome::Overflow,
        };
        (this.original, this.modified, this.record, outcome)
    }
}

request! {
    /// See [`Copies::apply_delta`](super::Copies::apply_delta).
    ApplyingDelta<R: ReadBuffer, D: WriteBuffer> { record: R, dst: D }
    operation(this) {
        let ((record, record_len), (dst, len)) = (this.record.readable(), this.dst.writable());
        Ok(Operation::ApplyDelta { record, record_len, dst, len })
    }
    answer(verdict, this) -> (R, D, Result<(), MalformedDelta>) {
        let outcome = match verdict {
            Verdict::DeltaMalformed { applied } => Err(MalformedDelta { applied }),
            _ => Ok(()),
        };
        (this.record, this.dst, outcome)
    }
}

request! {
    /// See [`Copies::dif_check`](super::Copies::dif_check).
    CheckingDif<S: ReadBuffer> { src: S; dif: Dif }
    operation(this) {
        let (src, len) = this.src.readable();
        Ok(Operation::DifCheck { src, len, dif: this.dif })
    }
    answer(verdict, this) -> (S, Result<(), DifMismatch>) { (this.src, protection(verdict)) }
}

request! {
    /// See [`Copies::dif_insert`](super::Copies::dif_insert).
    InsertingDif<S: ReadBuffer, D: WriteBuffer> { src: S, dst: D; dif: Dif }
    operation(this) {
        let ((src, len), (dst, room)) = (this.src.readable(), this.dst.writable());
        let block = this.dif.block.bytes();
        check_room("destination", room, (len / block).saturating_mul(this.dif.block.with_tuple()))
            .map(|()| Operation::DifInsert { src, dst, len, dif: this.dif })
    }
    answer(_verdict, this) -> (S, D) { (this.src, this.dst) }
}

request! {
    /// See [`Copies::dif_strip`](super::Copies::dif_strip).
    StrippingDif<S: ReadBuffer, D: WriteBuffer> { src: S, dst: D; dif: Dif }
    operation(this) {
        let ((src, len), (dst, room)) = (this.src.readable(), this.dst.writable());
        check_room("destination", room, len / this.dif.block.with_tuple() * this.dif.block.bytes())
            .map(|()| Operation::DifStrip { src, dst, len, dif: this.dif })
    }
    answer(verdict, this) -> (S, D, Result<(), DifMismatch>) { (this.src, this.dst, protection(verdict)) }
}

request! {
    /// See [`Copies::dif_update`](super::Copies::dif_update).
    UpdatingDif<S: ReadBuffer, D: WriteBuffer> { src: S, dst: D; check: Dif, write: DifWrite }
    operation(this) {
        let ((src, len), (dst, room)) = (this.src.readable(), this.dst.writable());
        check_room("destination", room, len)
            .map(|()| Operation::DifUpdate { src, dst, len, check: this.check, write: this.write })
    }
    answer(verdict, this) -> (S, D, Result<(), DifMismatch>) { (this.src, this.dst, protection(verdict)) }
}

request! {
    /// See [`Copies::flush`](super::Copies::flush).
    Flushing<D: WriteBuffer> { dst: D }
    operation(this) {
        let (dst, len) = this.dst.writable();
        Ok(Operation::Flush { dst, len })
    }
    answer(_verdict, this) -> D { this.dst }
}

/// What [`create_delta`](super::Copies::create_delta) came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeltaOutcome {
    /// The record is complete: its first `len` bytes, none if the buffers are equal.
    Record {
        /// Bytes, a multiple of 10.
        len: usize,
    },
    /// The differences do not fit; what is in the record is of no use.
    Overflow,
}

/// A delta record's offsets do not increase or lie outside of the destination; entries before the bad one are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedDelta {
    /// Bytes of the record that were applied.
    pub applied: usize,
}

impl std::fmt::Display for MalformedDelta {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let at = self.applied;
        write!(
            f,
            "the delta record is malformed at byte {at}: the offset there does not increase, or lies outside of the destination"
        )
    }
}

impl std::error::Error for MalformedDelta {}

/// A block is not what its protection information says; blocks before it are checked (and copied).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifMismatch {
    /// The block, counted from 0.
    pub block: usize,
    /// What did not match.
    pub fault: DifFault,
}

impl std::fmt::Display for DifMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {} is not what its protection information says: {:?}", self.block, self.fault)
    }
}

impl std::error::Error for DifMismatch {}

fn difference(verdict: Verdict) -> Option<usize> {
    match verdict {
        Verdict::Differ { at } => Some(at),
        _ => None,
    }
}

fn checksum(verdict: Verdict) -> u32 {
    match verdict {
        Verdict::Crc(crc) => crc,
        other => unreachable!("an engine answered {other:?} to a checksum"),
    }
}

fn protection(verdict: Verdict) -> Result<(), DifMismatch> {
    match verdict {
        Verdict::DifMismatch { block, fault } => Err(DifMismatch { block, fault }),
        _ => Ok(()),
    }
}
