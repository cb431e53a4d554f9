//! What does a completion record mean for an operation: a verdict, something left to do, or a failure? Pure.
//!
//! The record is a snapshot, taken when its status was not zero. It was made outside of this process: counts are compared with the operation's
//! size, fields without a meaning are not looked at, and the status byte is masked.
//!
//! | status | class |
//! |---|---|
//! | 01 (02) | done: [`Outcome::Done`]; a comparison with a pattern that differs gets its exact offset from the CPU |
//! | 03 | a page was absent: [`Outcome::Resume`], at most [`RESUMES_MAX`] times, then [`Outcome::Finish`] |
//! | 04 | a page was refused: [`Outcome::Finish`], after [`faults`](super::faults) has looked whether the CPU may access it |
//! | 07 08 09 | the answer of a delta or of protection information: done |
//! | 10 to 1e | the device refused the descriptor, and did nothing: [`Outcome::Refused`], the CPU does all of it |
//! | 20 to 22, others | the device failed, or says what the operation cannot end with: [`Outcome::Failed`] |
//!
//! What remains of an operation has another start, so that an offset in its verdict is another one: [`Rest::lift`] makes it that of the whole.

use crate::offload::dsa::abi::dif::{DifStatus, Tags};
use crate::offload::dsa::abi::{CompletionRecord, Status, limits};
use crate::offload::{Dif, DifFault, DifTags, DifWrite, Operation, Verdict};

/// How often a fault is answered by submitting what remains. A fault costs the device tens of microseconds (published: 56 and 85 in the worst
/// buckets), so an operation over many absent pages is faster on the CPU.
pub(crate) const RESUMES_MAX: u32 = 2;

/// An operation, or what remains of one, and what lies before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rest {
    pub(crate) operation: Operation,
    /// What an offset in the verdict is to be raised by: bytes of the source (comparisons), bytes of the delta record (its application), blocks (DIF).
    pub(crate) before: usize,
    /// How often it was resumed.
    pub(crate) resumes: u32,
}

impl Rest {
    /// All of it.
    pub(crate) fn whole(operation: Operation) -> Self {
        Self { operation, before: 0, resumes: 0 }
    }

    /// The whole's verdict, from the rest's.
    pub(crate) fn lift(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Differ { at } => Verdict::Differ { at: self.before + at },
            Verdict::DeltaMalformed { applied } => Verdict::DeltaMalformed { applied: self.before + applied },
            Verdict::DifMismatch { block, fault } => Verdict::DifMismatch { block: self.before + block, fault },
            other => other,
        }
    }

    fn after(&self, operation: Operation, skipped: usize) -> Self {
        Self { operation, before: self.before + skipped, ..*self }
    }
}

/// An access that the device could not make. The task touches the page before anything else is done (see [`faults`](super::faults)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Within the page; its lower 12 bits may be zero.
    pub(crate) address: usize,
    pub(crate) write: bool,
}

/// See the module's documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an operation that is left in part is left for ever"]
pub(crate) enum Outcome {
    /// It is over. Durability: what was resumed in between is written back by the CPU, since a device reads back after a full success only.
    Done(Verdict),
    /// Touch the page, and submit the rest. `Rest::resumes` is raised already.
    Resume { rest: Rest, fault: Fault },
    /// Touch the page if one is told, and do the rest on the CPU ([`Rest::lift`] its verdict).
    Finish { rest: Rest, fault: Option<Fault> },
    /// The device refused it untouched, with this status: the CPU does the rest. A defect of ours or of the queue's description, worth counting.
    Refused { rest: Rest, status: Status },
    /// Nothing is known of what was written.
    Failed(Status),
    /// The record is still zero.
    Pending,
}

/// Judges a record. `rest` is what the descriptor was made of.
pub(crate) fn outcome(rest: &Rest, record: &CompletionRecord) -> Outcome {
    let status = record.status();
    match status {
        Status::NONE => Outcome::Pending,
        // 0x02 is told on request only (check-result), and is a success.
        Status::SUCCESS | Status::SUCCESS_PRED => done(rest, record),
        Status::PAGE_FAULT_NOBOF | Status::PAGE_FAULT_IR => partial(rest, record),
        Status::DR_OFFSET_NOINC | Status::DR_OFFSET_ERANGE => match rest.operation {
            Operation::ApplyDelta { record_len, .. } if record.completed as usize <= record_len => {
                let applied = record.completed as usize;
                Outcome::Done(rest.lift(Verdict::DeltaMalformed { applied }))
            }
            _ => Outcome::Failed(status),
        },
        Status::DIF_ERR => mismatch(rest, record),
        Status::BAD_OPCODE
        | Status::INVALID_FLAGS
        | Status::NOZERO_RESERVE
        | Status::XFER_ERANGE
        | Status::DESC_CNT_ERANGE
        | Status::DR_ERANGE
        | Status::OVERLAP_BUFFERS
        | Status::DCAST_ERR
        | Status::DESCLIST_ALIGN
        | Status::INT_HANDLE_INVAL
        | Status::ADDR_ALIGN
        | Status::TRAFFIC_CLASS_CONF => Outcome::Refused { rest: *rest, status },
        _ => Outcome::Failed(status),
    }
}

fn done(rest: &Rest, record: &CompletionRecord) -> Outcome {
    let completed = record.completed as usize;
    let verdict = match rest.operation {
        Operation::Compare { len, .. } => match record.result {
            CompletionRecord::EQUAL => Verdict::Equal,
            CompletionRecord::DIFFERENT if completed < len => Verdict::Differ { at: completed },
            _ => return Outcome::Failed(record.status()),
        },
        Operation::ComparePattern { len, .. } => match record.result {
            CompletionRecord::EQUAL => Verdict::Equal,
            // A lower bound: the CPU looks on from there.
            CompletionRecord::DIFFERENT if completed < len => {
                return Outcome::Finish { rest: skip(rest, completed, record).unwrap_or(*rest), fault: None };
            }
            _ => return Outcome::Failed(record.status()),
        },
        // One of 32 bits is in the lower half.
        Operation::Crc { .. } | Operation::CopyCrc { .. } => Verdict::Crc(record.crc() as u32),
        Operation::CreateDelta { record_max, .. } => match record.result {
            CompletionRecord::EQUAL => Verdict::Delta { len: 0 },
            CompletionRecord::DIFFERENT if record.delta_record_size() as usize <= record_max => {
                Verdict::Delta { len: record.delta_record_size() as usize }
            }
            CompletionRecord::DELTA_OVERFLOW => Verdict::DeltaOverflow,
            _ => return Outcome::Failed(record.status()),
        },
        _ => Verdict::Done,
    };
    Outcome::Done(rest.lift(verdict))
}

fn mismatch(rest: &Rest, record: &CompletionRecord) -> Outcome {
    let (Operation::DifCheck { dif, len, .. }
    | Operation::DifStrip { dif, len, .. }
    | Operation::DifUpdate { check: dif, len, .. }) = rest.operation
    else {
        return Outcome::Failed(record.status());
    };
    let completed = record.completed as usize;
    let status = record.dif_status();
    let fault = DifFault {
        guard: status.contains(DifStatus::GUARD),
        application: status.contains(DifStatus::APPLICATION),
        reference: status.contains(DifStatus::REFERENCE),
        all_ones: status.contains(DifStatus::ALL_F),
    };
    if completed >= len || completed % dif.block.with_tuple() != 0 || fault == DifFault::default() {
        return Outcome::Failed(record.status());
    }
    let block = completed / dif.block.with_tuple();
    Outcome::Done(rest.lift(Verdict::DifMismatch { block, fault }))
}

/// A page fault, of whichever kind.
fn partial(rest: &Rest, record: &CompletionRecord) -> Outcome {
    let completed = record.completed as usize;
    if rest.operation == Operation::Nop || completed > rest.operation.len() {
        return Outcome::Failed(record.status());
    }
    // Truncation cannot be: usize has 64 bits wherever there is such a device.
    let fault = Fault { address: record.fault_address as usize, write: record.fault_was_write() };
    let refused = record.status() == Status::PAGE_FAULT_IR;
    match skip(rest, completed, record) {
        // Nothing was left but what comes after the data (a readback).
        Some(left) if left.operation.len() == 0 => Outcome::Finish { rest: left, fault: None },
        Some(left) if !refused && rest.resumes < RESUMES_MAX => {
            Outcome::Resume { rest: Rest { resumes: rest.resumes + 1, ..left }, fault }
        }
        Some(left) => Outcome::Finish { rest: left, fault: Some(fault) },
        // No part can be told that is done: all of it again. Every operation that comes here leaves its sources as they were.
        None => Outcome::Finish { rest: *rest, fault: Some(fault) },
    }
}

/// What remains after `n` bytes (of what the operation counts). `None` if it cannot be continued there.
fn skip(rest: &Rest, n: usize, record: &CompletionRecord) -> Option<Rest> {
    Some(match rest.operation {
        // From the back, what remains begins where all of it did. The direction is told anew by each record, for a part that was done.
        Operation::Copy { src, dst, len } if n > 0 && record.result == CompletionRecord::BACKWARD => {
            rest.after(Operation::Copy { src, dst, len: len - n }, 0)
        }
        Operation::Copy { src, dst, len } => {
            rest.after(Operation::Copy { src: src.wrapping_add(n), dst: dst.wrapping_add(n), len: len - n }, n)
        }
        Operation::Fill { pattern, dst, len } => {
            rest.after(Operation::Fill { pattern: pattern.after(n), dst: dst.wrapping_add(n), len: len - n }, n)
        }
        Operation::Compare { left, right, len } => {
            rest.after(Operation::Compare { left: left.wrapping_add(n), right: right.wrapping_add(n), len: len - n }, n)
        }
        Operation::ComparePattern { src, pattern, len } => {
            // The lowest byte comes first in memory, so the rest's pattern starts with a higher one.
            let pattern = pattern.rotate_right(8 * (n % 8) as u32);
            rest.after(Operation::ComparePattern { src: src.wrapping_add(n), pattern, len: len - n }, n)
        }
        Operation::Crc { src, len, seed } => {
            rest.after(Operation::Crc { src: src.wrapping_add(n), len: len - n, seed: next_seed(seed, n, record) }, n)
        }
        Operation::CopyCrc { src, dst, len, seed } => {
            let (src, dst, seed) = (src.wrapping_add(n), dst.wrapping_add(n), next_seed(seed, n, record));
            rest.after(Operation::CopyCrc { src, dst, len: len - n, seed }, n)
        }
        Operation::Dualcast { src, dst, dst2, len } => {
            let (src, dst, dst2) = (src.wrapping_add(n), dst.wrapping_add(n), dst2.wrapping_add(n));
            rest.after(Operation::Dualcast { src, dst, dst2, len: len - n }, n)
        }
        // A second record's offsets would count from its own start: all of it again, on the CPU.
        Operation::CreateDelta { .. } => return None,
        // What is counted is the delta record, in whole entries; destination and size stay.
        Operation::ApplyDelta { .. } if n % limits::DELTA_ENTRY_BYTES as usize != 0 => return None,
        Operation::ApplyDelta { record, record_len, dst, len } => {
            let (record, record_len) = (record.wrapping_add(n), record_len - n);
            rest.after(Operation::ApplyDelta { record, record_len, dst, len }, n)
        }
        Operation::DifCheck { src, len, dif } => {
            let blocks = whole(n, dif.block.with_tuple())?;
            let dif = continued(dif, n, record.dif_source_tags());
            rest.after(Operation::DifCheck { src: src.wrapping_add(n), len: len - n, dif }, blocks)
        }
        Operation::DifInsert { src, dst, len, dif } => {
            let blocks = whole(n, dif.block.bytes())?;
            let (src, dst) = (src.wrapping_add(n), dst.wrapping_add(blocks * dif.block.with_tuple()));
            let dif = continued(dif, n, record.dif_destination_tags());
            rest.after(Operation::DifInsert { src, dst, len: len - n, dif }, blocks)
        }
        Operation::DifStrip { src, dst, len, dif } => {
            let blocks = whole(n, dif.block.with_tuple())?;
            let (src, dst) = (src.wrapping_add(n), dst.wrapping_add(blocks * dif.block.bytes()));
            let dif = continued(dif, n, record.dif_source_tags());
            rest.after(Operation::DifStrip { src, dst, len: len - n, dif }, blocks)
        }
        Operation::DifUpdate { src, dst, len, check, write } => {
            let blocks = whole(n, check.block.with_tuple())?;
            let check = continued(check, n, record.dif_source_tags());
            let tags = advanced(write.tags, n, record.dif_destination_tags());
            let (src, dst) = (src.wrapping_add(n), dst.wrapping_add(n));
            let write = DifWrite { tags, ..write };
            rest.after(Operation::DifUpdate { src, dst, len: len - n, check, write }, blocks)
        }
        Operation::Flush { dst, len } => rest.after(Operation::Flush { dst: dst.wrapping_add(n), len: len - n }, n),
        Operation::Nop => return None,
    })
}

/// The record's CRC means nothing if no byte was done.
fn next_seed(seed: u32, n: usize, record: &CompletionRecord) -> u32 {
    if n == 0 { seed } else { record.crc() as u32 }
}

/// So many bytes are how many blocks? `None`: no whole number.
fn whole(n: usize, block: usize) -> Option<usize> {
    (n % block == 0).then_some(n / block)
}

fn continued(dif: Dif, n: usize, next: Tags) -> Dif {
    Dif { tags: advanced(dif.tags, n, next), ..dif }
}

/// The tags of the next block are the record's, once a block was done; the mask is the caller's.
fn advanced(tags: DifTags, n: usize, next: Tags) -> DifTags {
    match n {
        0 => tags,
        _ => DifTags { reference: next.reference, application: next.application, ..tags },
    }
}

/// What the record of a batch says about its descriptors, where there are no slots: the flow, which knows what is missing, asks `flow::batches`. For tests that drive a queue
/// directly.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "descriptors without a record of their own must be submitted again, or waited for"]
pub(crate) enum BatchOutcome {
    /// All were carried out: each has its own record.
    Done,
    /// The first `ran` were carried out, well or not, and each has its own record. The others never were: after a fence that a failure before it
    /// closed, or because the list could not be read further (touch `fault`). Submit them again.
    Stopped { ran: u32, fault: Option<Fault> },
    /// None was carried out: the device refused the batch.
    Refused(Status),
    /// Nothing is known of descriptors without a record.
    Failed(Status),
    /// The record is still zero.
    Pending,
}

/// Judges the record of a batch of `count` descriptors.
#[cfg(test)]
pub(crate) fn batch_outcome(count: u32, record: &CompletionRecord) -> BatchOutcome {
    let status = record.status();
    match status {
        Status::NONE => BatchOutcome::Pending,
        Status::SUCCESS => BatchOutcome::Done,
        // "At least one did not end with success": which, is told by the records, and it may be none.
        Status::BATCH_FAIL if record.completed == count => BatchOutcome::Done,
        Status::BATCH_FAIL if record.completed < count => BatchOutcome::Stopped { ran: record.completed, fault: None },
        Status::BATCH_PAGE_FAULT if record.completed < count => {
            let fault = Fault { address: record.fault_address as usize, write: false };
            BatchOutcome::Stopped { ran: record.completed, fault: Some(fault) }
        }
        Status::BAD_OPCODE
        | Status::INVALID_FLAGS
        | Status::NOZERO_RESERVE
        | Status::DESC_CNT_ERANGE
        | Status::DESCLIST_ALIGN
        | Status::INT_HANDLE_INVAL
        | Status::TRAFFIC_CLASS_CONF => BatchOutcome::Refused(status),
        _ => BatchOutcome::Failed(status),
    }
}

/// Where a descriptor of a batch stands, once the batch's record is there.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Child {
    /// Its own record has the word.
    Answered,
    /// It was not carried out, and will not be.
    NeverRan,
    /// It may have been carried out, and its record may still come: nothing of it is to be touched.
    Unknown,
}

/// Judges descriptor `index` of a batch; `answered`: its own record is there.
///
/// Records of descriptors are written before the batch's, so that one that is missing then was not carried out or is lost (its page was refused, or
/// the kernel is to write it later).
#[cfg(test)]
pub(crate) fn child(batch: BatchOutcome, index: u32, answered: bool) -> Child {
    match batch {
        _ if answered => Child::Answered,
        BatchOutcome::Stopped { ran, .. } if index >= ran => Child::NeverRan,
        BatchOutcome::Refused(_) => Child::NeverRan,
        _ => Child::Unknown,
    }
}

#[cfg(test)]
#[path = "outcome_tests.rs"]
pub(crate) mod tests;
