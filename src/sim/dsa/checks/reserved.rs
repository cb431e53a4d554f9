//! Which bytes have to be zero (SPEC 5.4: every field without a meaning is reserved).

use crate::offload::dsa::abi::dif::{DestinationFlags, DifFlags};
use crate::offload::dsa::abi::{Field, Opcode, Status, layout};

use super::super::violations::Rule;
use super::{Case, Refusal, refuse};

pub(super) fn bytes(case: &Case<'_>) -> Option<Refusal> {
    let opcode = case.opcode();
    let stray = case.descriptor.stray_bytes()?;
    if stray != 0 {
        let places: Vec<String> = (0..64).filter(|byte| stray >> byte & 1 == 1).map(|byte| byte.to_string()).collect();
        return refuse(
            Status::NOZERO_RESERVE,
            Rule::StrayByte,
            format!("{opcode}: byte {} not zero", places.join(", ")),
        );
    }
    let (field, bits) = bits_of_dif(case)?;
    let what = format!("{opcode}: reserved bits {bits:#04x} of its {} are set", field.name());
    refuse(Status::NOZERO_RESERVE, Rule::StrayByte, what)
}

/// Reserved bits within the bytes of flags that DIF operations have (8.3.17).
fn bits_of_dif(case: &Case<'_>) -> Option<(Field, u8)> {
    let writes = matches!(case.opcode(), Opcode::DIF_INS | Opcode::DIF_UPDT | Opcode::DIX_GEN);
    let passes = DestinationFlags::PASS_REFERENCE | DestinationFlags::PASS_GUARD | DestinationFlags::PASS_APPLICATION;
    // Without a source there is nothing to pass on.
    let no_source = if case.opcode() == Opcode::DIF_UPDT { 0 } else { passes.0 };
    let is_dif = writes || matches!(case.opcode(), Opcode::DIF_CHECK | Opcode::DIF_STRP);
    let rows = [
        (is_dif, layout::DIF_FLAGS, DifFlags::RESERVED),
        (writes, layout::DIF_DESTINATION_FLAGS, DestinationFlags::RESERVED | no_source),
    ];
    rows.into_iter().find_map(|(applies, field, reserved)| {
        let bits = case.descriptor.value(field) as u8 & reserved;
        (applies && bits != 0).then_some((field, bits))
    })
}
