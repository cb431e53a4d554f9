//! Which buffers may not overlap, and which have to lie alike (SPEC 5.4, 8.3).

use crate::offload::dsa::abi::dif::DifFlags;
use crate::offload::dsa::abi::{Field, GenCap, Opcode, Status, layout, limits};

use super::super::violations::Rule;
use super::{Case, Refusal, refuse};

/// A buffer: where it starts, and its size. Ends beyond the address space are no concern of this check.
type Buffer = (&'static str, u64, u64);

/// 0x16.
pub(super) fn buffers(case: &Case<'_>) -> Option<Refusal> {
    let value = |field: Field| case.descriptor.value(field);
    let size = value(layout::TRANSFER_SIZE);
    let source: Buffer = ("source", value(layout::SOURCE), size);
    let destination = |size| -> Buffer { ("destination", value(layout::DESTINATION), size) };
    let pairs: Vec<(Buffer, Buffer)> = match case.opcode() {
        Opcode::MEMMOVE if !case.device.gencap.contains(GenCap::OVERLAPPING_COPY) => vec![(source, destination(size))],
        Opcode::COPY_CRC => vec![(source, destination(size))],
        Opcode::DUALCAST => {
            let second: Buffer = ("second destination", value(layout::DESTINATION_2), size);
            vec![(source, destination(size)), (source, second), (destination(size), second)]
        }
        Opcode::CR_DELTA => {
            let record: Buffer = ("delta record", value(layout::DELTA_CREATE), value(layout::DELTA_MAX));
            let second: Buffer = ("second source", value(layout::SOURCE_2), size);
            vec![(source, record), (second, record)]
        }
        Opcode::AP_DELTA => {
            let record: Buffer = ("delta record", value(layout::DELTA_APPLY), value(layout::DELTA_SIZE));
            vec![(record, destination(size))]
        }
        Opcode::DIF_INS | Opcode::DIF_STRP | Opcode::DIF_UPDT | Opcode::DIX_GEN => {
            vec![(source, destination(dif_destination(case, size)))]
        }
        _ => return None,
    };
    let ((one, ..), (other, ..)) = pairs.into_iter().find(|(one, other)| overlap(*one, *other))?;
    refuse(Status::OVERLAP_BUFFERS, Rule::Refused, format!("{}: {one} and {other} overlap", case.opcode()))
}

/// Bytes that an operation on protected blocks writes.
fn dif_destination(case: &Case<'_>, size: u64) -> u64 {
    let block = DifFlags(case.descriptor.value(layout::DIF_FLAGS) as u8).block();
    let (data, protected) = (u64::from(block.bytes()), u64::from(block.protected_bytes()));
    match case.opcode() {
        Opcode::DIF_INS => size / data * protected,
        Opcode::DIF_STRP => size / protected * data,
        Opcode::DIX_GEN => size / data * (protected - data),
        _ => size,
    }
}

fn overlap((_, one, one_size): Buffer, (_, other, other_size): Buffer) -> bool {
    let end = |start: u64, size: u64| u128::from(start) + u128::from(size);
    u128::from(one) < end(other, other_size) && u128::from(other) < end(one, one_size)
}

/// 0x17.
pub(super) fn dualcast_pages(case: &Case<'_>) -> Option<Refusal> {
    if case.opcode() != Opcode::DUALCAST {
        return None;
    }
    let [one, two] = [layout::DESTINATION, layout::DESTINATION_2].map(|field| case.descriptor.value(field));
    if (one ^ two) & limits::DUALCAST_MASK == 0 {
        return None;
    }
    refuse(Status::DCAST_ERR, Rule::Refused, format!("destinations {one:#x} and {two:#x} differ in bits 11:0"))
}
