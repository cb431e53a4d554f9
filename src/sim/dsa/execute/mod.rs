//! How does an operation advance, piece by piece, and what has it come to when it stops?
//!
//! Each operation is an [`Execute`]: it moves on by one piece at a time and reads and writes memory through [`Access`], which answers with a
//! [`PageFault`] where the device's translation does. A fault ends it with what [`Execute::so_far`] says; everything before the point that it
//! names is visibly written, and nothing beyond. In the same way a halt between two pieces leaves half of the work behind, as it does on hardware.

pub(super) mod access;
mod compare;
mod crc;
mod delta;
mod dif;
mod lines;
mod streams;

use crate::offload::dsa::abi::{Descriptor, Flags, Opcode, Status, layout};

use super::profile::Freedoms;
use crate::sim::lab::Dice;
pub(crate) use access::{Access, PageFault};

/// What an operation came to: what goes into its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: Status,
    /// The access that faulted, for statuses that are faults.
    pub(crate) fault: Option<PageFault>,
    /// Byte 1, where the operation gives it a meaning.
    pub(crate) result: Option<u8>,
    /// Bytes or descriptors completed.
    pub(crate) completed: u32,
    /// Bytes 16 to 31.
    pub(crate) specific: Specific,
}

/// The part of a record that belongs to the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Specific {
    pub(crate) bytes: [u8; 16],
    /// Which of them mean something, byte n as bit n.
    pub(crate) meant: u16,
}

impl Specific {
    /// With a field, `at` bytes from the record's byte 16.
    pub(crate) fn with(mut self, at: usize, field: &[u8]) -> Self {
        self.bytes[at..at + field.len()].copy_from_slice(field);
        self.meant |= (u16::MAX >> (16 - field.len())) << at;
        self
    }
}

impl Outcome {
    pub(crate) fn of(status: Status) -> Self {
        Self { status, fault: None, result: None, completed: 0, specific: Specific::default() }
    }

    /// Done to the end.
    pub(crate) fn success() -> Self {
        Self::of(Status::SUCCESS)
    }

    /// With a result byte, and the status that "check result" makes of it.
    pub(crate) fn with_result(self, result: u8, as_expected: bool) -> Self {
        let status = if as_expected { Status::SUCCESS } else { Status::SUCCESS_PRED };
        Self { status, result: Some(result), ..self }
    }
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SoFar {
    pub(crate) completed: u32,
    pub(crate) result: Option<u8>,
    pub(crate) specific: Specific,
}

pub(crate) enum Advance {
    More,
    Done(Outcome),
}

/// An operation under way.
pub(crate) trait Execute: Send {
    /// Moves on by one piece.
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault>;

    /// What the record says if it stops here.
    fn so_far(&self) -> SoFar;
}

/// What an operation comes to when an access faults.
pub(crate) fn partial(execute: &dyn Execute, fault: PageFault) -> Outcome {
    let SoFar { completed, result, specific } = execute.so_far();
    let status = if fault.refused { Status::PAGE_FAULT_IR } else { Status::PAGE_FAULT_NOBOF };
    Outcome { status, fault: Some(fault), result, completed, specific }
}

/// The operation of a descriptor that has passed every check. Batches and drains are none: they are the queue's business.
pub(crate) fn begin(descriptor: &Descriptor, freedoms: &Freedoms, data: bool, dice: &mut Dice) -> Box<dyn Execute> {
    let opcode = descriptor.opcode();
    if !data || opcode == Opcode::NOOP {
        return Box::new(Untouched::new(descriptor));
    }
    match opcode {
        Opcode::MEMMOVE => Box::new(streams::Move::new(descriptor, freedoms.direction && dice.next() & 1 == 1)),
        Opcode::MEMFILL => Box::new(streams::Fill::new(descriptor)),
        Opcode::DUALCAST => Box::new(streams::Dualcast::new(descriptor)),
        Opcode::COMPARE => Box::new(compare::Compare::new(descriptor)),
        Opcode::COMPVAL => Box::new(compare::ComparePattern::new(descriptor, freedoms.lower_bound)),
        Opcode::CR_DELTA => Box::new(delta::Create::new(descriptor)),
        Opcode::AP_DELTA => Box::new(delta::Apply::new(descriptor)),
        Opcode::CRCGEN | Opcode::COPY_CRC => Box::new(crc::Crc::new(descriptor)),
        Opcode::DIF_CHECK | Opcode::DIF_INS | Opcode::DIF_STRP | Opcode::DIF_UPDT | Opcode::DIX_GEN => {
            Box::new(dif::Blocks::new(descriptor))
        }
        Opcode::TRANSL_FETCH => Box::new(lines::Fetch::new(descriptor)),
        // The checks let nothing through that is not listed here; CFLUSH is what remains.
        _ => Box::new(lines::Flush::new(descriptor)),
    }
}

/// An operation that touches no memory: No-op, and all of them where a test wants time without data.
struct Untouched {
    outcome: Outcome,
}

impl Untouched {
    fn new(descriptor: &Descriptor) -> Self {
        let compares = matches!(descriptor.opcode(), Opcode::COMPARE | Opcode::COMPVAL);
        let result = match descriptor.opcode() {
            Opcode::COMPARE | Opcode::COMPVAL | Opcode::CR_DELTA => Some(0),
            Opcode::DIF_CHECK | Opcode::DIF_STRP | Opcode::DIF_UPDT => Some(0),
            _ => None,
        };
        let unexpected = compares && is_checked(descriptor) && descriptor.value(layout::EXPECTED_RESULT) & 1 == 1;
        let status = if unexpected { Status::SUCCESS_PRED } else { Status::SUCCESS };
        let specific = match descriptor.opcode() {
            Opcode::CR_DELTA => Specific::default().with(0, &0_u32.to_le_bytes()),
            Opcode::CRCGEN | Opcode::COPY_CRC => Specific::default().with(0, &0_u64.to_le_bytes()),
            _ => Specific::default(),
        };
        Self { outcome: Outcome { result, specific, ..Outcome::of(status) } }
    }
}

impl Execute for Untouched {
    fn advance(&mut self, _: &mut Access<'_>) -> Result<Advance, PageFault> {
        Ok(Advance::Done(self.outcome.clone()))
    }

    fn so_far(&self) -> SoFar {
        SoFar::default()
    }
}

/// Whether a result other than the expected one is to end with "done, and the result is not the expected one".
fn is_checked(descriptor: &Descriptor) -> bool {
    descriptor.flags().contains(Flags::CR)
}

fn size(descriptor: &Descriptor) -> u64 {
    descriptor.value(layout::TRANSFER_SIZE)
}
