//! The pure parts of the driver that the flow calls: how an operation becomes a descriptor, and what a record says of it.

use crate::offload::dsa::abi::{CompletionRecord, Descriptor, Flags, GenCap, Opcode, Status};
use crate::offload::dsa::queue::Limits;
use crate::offload::{Failure, Operation, Pattern, Verdict};

/// What the caller means to do with the destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Intent {
    /// Read soon, by a cpu near.
    #[default]
    Soon,
    /// Not read soon.
    Cold,
}

/// Why the device cannot do it: the CPU does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unsuited;

/// Stand-in for copies and fills, until the driver's is here.
#[inline]
pub(crate) fn prepare(op: &Operation, limits: &Limits, intent: Intent, record: u64) -> Result<Descriptor, Unsuited> {
    let len = op.len();
    if len as u64 > limits.transfer_max || len == 0 {
        return Err(Unsuited);
    }
    let descriptor = match *op {
        Operation::Copy { src, dst, .. } if limits.operations.contains(Opcode::MEMMOVE) => {
            Descriptor::memmove(src.addr() as u64, dst.addr() as u64, len as u32)
        }
        Operation::Fill { pattern: Pattern::Eight(pattern), dst, .. }
            if limits.operations.contains(Opcode::MEMFILL) =>
        {
            Descriptor::fill(u64::from_le_bytes(pattern), dst.addr() as u64, len as u32)
        }
        _ => return Err(Unsuited),
    };
    let cache =
        if intent == Intent::Soon && limits.general.contains(GenCap::CACHE_CONTROL) { Flags::CC } else { Flags::NONE };
    Ok(descriptor.report_to(record).with_flags(Flags::RCR.union(cache)))
}

/// What a record says of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done(Verdict),
    Failed(Failure),
    /// A page was absent: touch it, and submit the rest.
    Resume {
        rest: Operation,
        touch: Option<usize>,
        write: bool,
    },
    /// Not (all) done, and not to be submitted again.
    OnCpu(Operation),
}

pub(crate) fn answer(op: &Operation, record: &CompletionRecord, queue: &str) -> Answer {
    match record.status() {
        Status::SUCCESS | Status::SUCCESS_PRED => Answer::Done(Verdict::Done),
        Status::PAGE_FAULT_NOBOF | Status::PAGE_FAULT_IR => {
            let done = record.completed as usize;
            let rest = match *op {
                Operation::Copy { src, dst, len } if record.result == CompletionRecord::FORWARD => {
                    Operation::Copy { src: src.wrapping_add(done), dst: dst.wrapping_add(done), len: len - done }
                }
                Operation::Copy { src, dst, len } => Operation::Copy { src, dst, len: len - done },
                other => return Answer::OnCpu(other),
            };
            Answer::Resume { rest, touch: Some(record.fault_address as usize), write: record.fault_was_write() }
        }
        status => {
            Answer::Failed(Failure::Device { queue: queue.into(), status: status.code(), meaning: status.meaning() })
        }
    }
}
