//! What do the 32 bytes say? From an outcome to a completion record (SPEC 8.2).

use crate::offload::dsa::abi::{CompletionRecord, FaultOperand, Flags, GenCap, Status};
use crate::sim::lab::Dice;

use super::execute::{Outcome, PageFault, Specific};
use super::memory::page_of;
use super::profile::Freedoms;

/// The record of an outcome. Fields that the specification leaves without a meaning are zero, or garbage where the profile says so.
pub(crate) fn encode(outcome: &Outcome, gencap: GenCap, freedoms: &Freedoms, dice: &mut Dice) -> CompletionRecord {
    let mut noise = || if freedoms.garbage { dice.next() } else { 0 };
    let fault = outcome.fault.filter(|_| outcome.status.is_fault());
    let with_info = fault.filter(|_| gencap.contains(GenCap::FAULT_INFO));
    // Bits 6 and 7 of the status: 6 is unused, 7 means something after a fault only.
    let unused_bits = if fault.is_some() { 0x40 } else { 0xc0 };
    let specific = filled(outcome.specific, [noise(), noise()]);
    let masked = freedoms.masked_address && noise() & 1 == 1;
    CompletionRecord {
        status_byte: status_byte(outcome.status, fault) | noise() as u8 & unused_bits,
        result: outcome.result.unwrap_or_else(|| noise() as u8),
        fault_info: with_info.map_or_else(|| noise() as u8, |fault| (fault.operand as u8) << 1),
        unused: noise() as u8,
        completed: outcome.completed,
        fault_address: match fault {
            Some(fault) if masked => page_of(fault.address),
            Some(fault) => fault.address,
            None => noise(),
        },
        specific,
    }
}

fn status_byte(status: Status, fault: Option<PageFault>) -> u8 {
    let write = fault.is_some_and(|fault| fault.write);
    if write { status.code() | Status::WRITE_FAULT } else { status.code() }
}

/// The bytes that mean something, among those that do not.
fn filled(specific: Specific, noise: [u64; 2]) -> [u64; 2] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&noise[0].to_le_bytes());
    bytes[8..].copy_from_slice(&noise[1].to_le_bytes());
    for (n, byte) in bytes.iter_mut().enumerate() {
        if specific.meant >> n & 1 == 1 {
            *byte = specific.bytes[n];
        }
    }
    let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    [word(0), word(8)]
}

/// What a refused descriptor comes to: nothing is done, and the flags at fault are told (SPEC 5.4, 8.2.3).
pub(crate) fn refused(status: Status, flags: Flags) -> Outcome {
    let outcome = Outcome::of(status);
    if status != Status::INVALID_FLAGS {
        return outcome;
    }
    Outcome { specific: Specific::default().with(0, &flags.bits().to_le_bytes()[..3]), ..outcome }
}

/// A list that could not be read (SPEC 8.3.2): 0x06, and how many descriptors were.
pub(crate) fn list_fault(address: u64, refused: bool, processed: u32) -> Outcome {
    let fault = PageFault { address, write: false, refused, operand: FaultOperand::First };
    Outcome { fault: Some(fault), completed: processed, ..Outcome::of(Status::BATCH_PAGE_FAULT) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::dsa::Profile;

    fn fault(write: bool) -> Outcome {
        let fault = PageFault { address: 0x1234_5678, write, refused: false, operand: FaultOperand::Destination };
        Outcome { fault: Some(fault), completed: 77, result: Some(1), ..Outcome::of(Status::PAGE_FAULT_NOBOF) }
    }

    #[test]
    fn a_plain_device_writes_zeros_where_nothing_is_meant() {
        let (freedoms, mut dice) = (Profile::compat().freedoms, Dice::new(1));
        let record = encode(&Outcome::success(), GenCap(0), &freedoms, &mut dice);
        assert_eq!(record.to_bytes()[1..], [0; 31]);
        assert_eq!(record.status_byte, 1);
        let record = encode(&fault(true), GenCap::FAULT_INFO, &freedoms, &mut dice);
        assert_eq!((record.status_byte, record.result, record.completed), (0x83, 1, 77));
        assert_eq!((record.fault_address, record.fault_operand()), (0x1234_5678, FaultOperand::Destination));
        let refused = refused(Status::INVALID_FLAGS, Flags::FENCE | Flags::CRC_64);
        assert_eq!(encode(&refused, GenCap(0), &freedoms, &mut dice).invalid_flags(), Flags::FENCE | Flags::CRC_64);
    }

    /// What means something is right in a thousand records; what does not takes many values.
    #[test]
    fn garbage_is_where_nothing_is_meant_and_nowhere_else() {
        let (freedoms, mut dice) = (Profile::strict(1).freedoms, Dice::new(2));
        let mut seen = [[false; 256]; 32];
        for _ in 0..1000 {
            let outcome = Outcome { specific: Specific::default().with(4, &[9]), ..Outcome::success() };
            let record = encode(&outcome, GenCap(0), &freedoms, &mut dice);
            assert_eq!((record.status(), record.completed), (Status::SUCCESS, 0));
            record.to_bytes().iter().enumerate().for_each(|(n, byte)| seen[n][usize::from(*byte)] = true);
            let record = encode(&fault(true), GenCap::FAULT_INFO, &freedoms, &mut dice);
            assert!(record.fault_was_write() && record.result == 1 && record.completed == 77);
            assert!([0x1234_5678, 0x1234_5000].contains(&record.fault_address));
            assert_eq!(record.fault_operand(), FaultOperand::Destination);
            assert!(!encode(&fault(false), GenCap(0), &freedoms, &mut dice).fault_was_write());
        }
        let values = |n: usize| seen[n].iter().filter(|seen| **seen).count();
        assert_eq!([values(0), values(4), values(5), values(6), values(7), values(20)], [4, 1, 1, 1, 1, 1]);
        for n in (1..4).chain(8..20).chain(21..32) {
            assert!(values(n) > 200, "byte {n}: {} values", values(n));
        }
    }
}
