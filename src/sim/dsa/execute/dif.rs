//! Protection information: checked, inserted, stripped, updated, or written apart from the data (DIX), a block at a time.
//!
//! What the flags of source and destination mean is in sections 8.3.17 to 8.3.21; how an application tag's mask acts on what is *written* is
//! our reading (bits that it ignores are written as zero, as Intel's DML does it) and was never compared with a device.

use crate::offload::dsa::abi::dif::{DestinationFlags, DifFlags, DifStatus, SourceFlags, TUPLE_BYTES, Tags};
use crate::offload::dsa::abi::{Descriptor, FaultOperand, Opcode, Status, layout};

use super::super::crc;
use super::{Access, Advance, Execute, Outcome, PageFault, SoFar, Specific, size};

const TUPLE: usize = TUPLE_BYTES as usize;

/// All five operations: what is read, what is checked, what is written.
pub(super) struct Blocks {
    opcode: Opcode,
    source: u64,
    destination: u64,
    size: u64,
    block: usize,
    flags: DifFlags,
    check: SourceFlags,
    write: DestinationFlags,
    expected: Tags,
    inserted: Tags,
    /// Bytes of the source that are done with: whole blocks.
    done: u64,
    written: u64,
}

/// A block's protection information.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuple {
    guard: u16,
    application: u16,
    reference: u32,
}

impl Tuple {
    fn of(bytes: &[u8]) -> Self {
        let at = |n: usize| u16::from_be_bytes([bytes[n], bytes[n + 1]]);
        Self { guard: at(0), application: at(2), reference: u32::from(at(4)) << 16 | u32::from(at(6)) }
    }

    fn bytes(self) -> [u8; TUPLE] {
        let mut bytes = [0; TUPLE];
        bytes[..2].copy_from_slice(&self.guard.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.application.to_be_bytes());
        bytes[4..].copy_from_slice(&self.reference.to_be_bytes());
        bytes
    }
}

impl Blocks {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        let value = |field| descriptor.value(field);
        let flags = DifFlags(value(layout::DIF_FLAGS) as u8);
        let opcode = descriptor.opcode();
        let reads = reads_protected(opcode);
        let writes = matches!(opcode, Opcode::DIF_INS | Opcode::DIX_GEN | Opcode::DIF_UPDT);
        let tags = |there: bool, reference, mask, application| {
            if !there {
                return Tags::default();
            }
            Tags {
                reference: value(reference) as u32,
                application_mask: value(mask) as u16,
                application: value(application) as u16,
            }
        };
        Self {
            opcode,
            source: value(layout::SOURCE),
            destination: if opcode == Opcode::DIF_CHECK { 0 } else { value(layout::DESTINATION) },
            size: size(descriptor),
            block: flags.block().bytes() as usize,
            flags,
            check: SourceFlags(if reads { value(layout::DIF_SOURCE_FLAGS) as u8 } else { 0 }),
            write: DestinationFlags(if writes { value(layout::DIF_DESTINATION_FLAGS) as u8 } else { 0 }),
            expected: tags(reads, layout::DIF_SOURCE_REF, layout::DIF_SOURCE_APP_MASK, layout::DIF_SOURCE_APP),
            inserted: tags(
                writes,
                layout::DIF_DESTINATION_REF,
                layout::DIF_DESTINATION_APP_MASK,
                layout::DIF_DESTINATION_APP,
            ),
            done: 0,
            written: 0,
        }
    }

    fn guard(&self, data: &[u8]) -> u16 {
        let seed = if self.flags.contains(DifFlags::INVERT_CRC_SEED) { u16::MAX } else { 0 };
        let guard = crc::guard(data, seed);
        if self.flags.contains(DifFlags::INVERT_CRC_RESULT) { !guard } else { guard }
    }

    /// What is wrong with a block: 0 for nothing.
    fn verdict(&self, data: &[u8], tuple: Tuple) -> u8 {
        let check = self.check;
        let all_f = tuple.bytes() == [0xff; TUPLE];
        if all_f && check.contains(SourceFlags::ALL_F_ERROR) {
            return DifStatus::ALL_F.0;
        }
        let application_f = tuple.application == u16::MAX;
        let unchecked = all_f && check.contains(SourceFlags::ALL_F)
            || application_f && check.contains(SourceFlags::APPLICATION_F)
            || application_f && tuple.reference == u32::MAX && check.contains(SourceFlags::APPLICATION_AND_REFERENCE_F);
        if unchecked {
            return 0;
        }
        let Tags { reference, application_mask, application } = self.expected;
        let guard = !check.contains(SourceFlags::NO_GUARD_CHECK) && tuple.guard != self.guard(data);
        let tag = (tuple.application ^ application) & !application_mask != 0;
        let counted = !check.contains(SourceFlags::NO_REFERENCE_CHECK) && tuple.reference != reference;
        let bit = |wrong: bool, bit: DifStatus| if wrong { bit.0 } else { 0 };
        bit(guard, DifStatus::GUARD) | bit(tag, DifStatus::APPLICATION) | bit(counted, DifStatus::REFERENCE)
    }

    /// The tuple that goes to the destination; `from` is the source's, where it has one.
    fn tuple(&self, data: &[u8], from: Option<Tuple>) -> Tuple {
        let passed = |bit| if self.write.contains(bit) { from } else { None };
        let Tags { reference, application_mask, application } = self.inserted;
        Tuple {
            guard: passed(DestinationFlags::PASS_GUARD).map_or_else(|| self.guard(data), |from| from.guard),
            application: passed(DestinationFlags::PASS_APPLICATION)
                .map_or(application & !application_mask, |from| from.application),
            reference: passed(DestinationFlags::PASS_REFERENCE).map_or(reference, |from| from.reference),
        }
    }

    fn next_block(&mut self, read: usize, written: usize) {
        self.done += read as u64;
        self.written += written as u64;
        let (check, write) = (self.check, self.write);
        step(
            &mut self.expected,
            check.contains(SourceFlags::FIXED_REFERENCE),
            check.contains(SourceFlags::INCREMENTING_APPLICATION),
        );
        step(
            &mut self.inserted,
            write.contains(DestinationFlags::FIXED_REFERENCE),
            write.contains(DestinationFlags::INCREMENTING_APPLICATION),
        );
    }

    /// The tags of the next block, where a record has room for them.
    fn tags(&self) -> Specific {
        let put = |specific: Specific, at: usize, tags: Tags| {
            specific
                .with(at, &tags.reference.to_le_bytes())
                .with(at + 4, &tags.application_mask.to_le_bytes())
                .with(at + 6, &tags.application.to_le_bytes())
        };
        let none = Specific::default();
        match self.opcode {
            Opcode::DIF_CHECK | Opcode::DIF_STRP => put(none, 0, self.expected),
            Opcode::DIF_UPDT => put(put(none, 0, self.expected), 8, self.inserted),
            _ => put(none, 8, self.inserted),
        }
    }

    fn result(&self) -> Option<u8> {
        reads_protected(self.opcode).then_some(0)
    }
}

fn reads_protected(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::DIF_CHECK | Opcode::DIF_STRP | Opcode::DIF_UPDT)
}

fn step(tags: &mut Tags, fixed_reference: bool, incrementing_application: bool) {
    if !fixed_reference {
        tags.reference = tags.reference.wrapping_add(1);
    }
    if incrementing_application {
        tags.application = tags.application.wrapping_add(1);
    }
}

impl Execute for Blocks {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        let read = if reads_protected(self.opcode) { self.block + TUPLE } else { self.block };
        if self.done + read as u64 > self.size {
            // What is left is no whole block.
            let outcome = Outcome { result: self.result(), specific: self.tags(), ..Outcome::success() };
            return Ok(Advance::Done(outcome));
        }
        let mut bytes = vec![0; read];
        access.read(FaultOperand::First, self.source.wrapping_add(self.done), &mut bytes)?;
        let (data, tuple) = bytes.split_at(self.block);
        let from = reads_protected(self.opcode).then(|| Tuple::of(tuple));
        if let Some(wrong) = from.map(|from| self.verdict(data, from)).filter(|wrong| *wrong != 0) {
            let outcome = Outcome { completed: self.done as u32, result: Some(wrong), ..Outcome::of(Status::DIF_ERR) };
            return Ok(Advance::Done(Outcome { specific: self.tags(), ..outcome }));
        }
        let to = match self.opcode {
            Opcode::DIF_CHECK => Vec::new(),
            Opcode::DIF_STRP => data.to_vec(),
            Opcode::DIX_GEN => self.tuple(data, from).bytes().to_vec(),
            _ => [data, &self.tuple(data, from).bytes()].concat(),
        };
        if !to.is_empty() {
            access.write_unit(FaultOperand::Destination, self.destination.wrapping_add(self.written), &to)?;
        }
        self.next_block(read, to.len());
        Ok(Advance::More)
    }

    fn so_far(&self) -> SoFar {
        SoFar { completed: self.done as u32, result: self.result(), specific: self.tags() }
    }
}
