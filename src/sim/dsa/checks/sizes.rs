//! Which sizes, counts and alignments are good (SPEC 5.4, 8.3).

use crate::offload::dsa::abi::dif::DifFlags;
use crate::offload::dsa::abi::{Descriptor, Field, Flags, GenCap, Opcode, Status, layout, limits};

use super::super::violations::Rule;
use super::{Case, Refusal, refuse};

/// 0x13.
pub(super) fn transfer(case: &Case<'_>) -> Option<Refusal> {
    let opcode = case.opcode();
    let wrong = |what: String| refuse(Status::XFER_ERANGE, Rule::Refused, format!("{opcode}: {what}"));
    if matches!(opcode, Opcode::NOOP | Opcode::BATCH | Opcode::DRAIN) {
        return None;
    }
    let size = case.descriptor.value(layout::TRANSFER_SIZE);
    if opcode == Opcode::TRANSL_FETCH {
        let end = u128::from(case.descriptor.value(layout::FETCH_ADDRESS)) + u128::from(size);
        return if size == 0 || end > 1 << 64 { wrong(format!("a region of {size} bytes")) } else { None };
    }
    let is_delta = matches!(opcode, Opcode::CR_DELTA | Opcode::AP_DELTA);
    let most = if is_delta { case.queue.max_transfer.min(limits::DELTA_TRANSFER_MAX) } else { case.queue.max_transfer };
    if (1..=most).contains(&size) { None } else { wrong(format!("transfer size {size}, not 1 to {most}")) }
}

/// 0x14 and 0x18.
pub(super) fn batch(case: &Case<'_>) -> Option<Refusal> {
    if case.opcode() != Opcode::BATCH {
        return None;
    }
    let (count, list) = (case.descriptor.value(layout::COUNT), case.descriptor.value(layout::LIST));
    let least = if case.device.gencap.contains(GenCap::BATCH_1) { 1 } else { u64::from(limits::BATCH_MIN) };
    let most = u64::from(case.queue.max_batch);
    if !(least..=most).contains(&count) {
        let what = format!("a batch of {count} descriptors, not {least} to {most}");
        return refuse(Status::DESC_CNT_ERANGE, Rule::Refused, what);
    }
    if list % limits::DESCRIPTOR_BYTES as u64 != 0 {
        let what = format!("a batch's list at {list:#x}, not aligned to 64 bytes");
        return refuse(Status::DESCLIST_ALIGN, Rule::Refused, what);
    }
    None
}

/// 0x15.
pub(super) fn delta(case: &Case<'_>) -> Option<Refusal> {
    let (field, least) = match case.opcode() {
        Opcode::CR_DELTA => (layout::DELTA_MAX, limits::DELTA_RECORD_MIN),
        Opcode::AP_DELTA => (layout::DELTA_SIZE, limits::DELTA_APPLY_MIN),
        _ => return None,
    };
    let (size, most) = (case.descriptor.value(field), case.queue.max_transfer);
    if (u64::from(least)..=most).contains(&size) {
        return None;
    }
    let what = format!("{}: {} {size}, not {least} to {most}", case.opcode(), field.name());
    refuse(Status::DR_ERANGE, Rule::Refused, what)
}

/// 0x1c.
pub(super) fn alignment(case: &Case<'_>) -> Option<Refusal> {
    let opcode = case.opcode();
    let flags = case.flags();
    let eight = |field| (field, limits::DELTA_ALIGN);
    let seed = if flags.contains(Flags::CRC_64) { 8 } else { 4 };
    let aligned: &[(Field, u64)] = &match opcode {
        Opcode::CR_DELTA => {
            vec![eight(layout::SOURCE_1), eight(layout::SOURCE_2), eight(layout::TRANSFER_SIZE)]
        }
        Opcode::AP_DELTA => vec![eight(layout::DESTINATION), eight(layout::TRANSFER_SIZE)],
        Opcode::CRCGEN | Opcode::COPY_CRC if flags.contains(Flags::READ_SEED) => {
            vec![(layout::CRC_SEED_ADDRESS, seed)]
        }
        Opcode::DIX_GEN => vec![eight(layout::DESTINATION)],
        Opcode::TRANSL_FETCH if flags.contains(Flags::STRIDE_VALID) => return stride(case),
        _ => return None,
    };
    let (field, to) = *aligned.iter().find(|(field, to)| case.descriptor.value(*field) % to != 0)?;
    let value = case.descriptor.value(field);
    let what = format!("{opcode}: {} {value:#x}, not a multiple of {to}", field.name());
    refuse(Status::ADDR_ALIGN, Rule::Refused, what)
}

fn stride(case: &Case<'_>) -> Option<Refusal> {
    let stride = case.descriptor.value(layout::STRIDE);
    if stride.is_power_of_two() && stride >= u64::from(limits::STRIDE_MIN) {
        return None;
    }
    refuse(Status::ADDR_ALIGN, Rule::Refused, format!("a stride of {stride}, not a power of two from 4096"))
}

/// Protection information belongs to whole blocks: a device does not refuse a part of one, and does not say what it does with it (8.3.17).
pub(crate) fn part_of_a_block(descriptor: &Descriptor) -> Option<String> {
    let block = DifFlags(descriptor.value(layout::DIF_FLAGS) as u8).block();
    let unit = match descriptor.opcode() {
        Opcode::DIF_CHECK | Opcode::DIF_STRP | Opcode::DIF_UPDT => block.protected_bytes(),
        Opcode::DIF_INS | Opcode::DIX_GEN => block.bytes(),
        _ => return None,
    };
    let size = descriptor.value(layout::TRANSFER_SIZE);
    (size % u64::from(unit) != 0).then(|| format!("transfer size {size}, not a multiple of {unit}"))
}
