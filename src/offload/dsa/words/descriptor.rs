//! What does a descriptor ask for?

use std::fmt;

use crate::offload::dsa::abi::dif::{DestinationFlags, DifFlags, SourceFlags};
use crate::offload::dsa::abi::{Descriptor, Field, Flags, Layout, Opcode, layout};

/// A descriptor in one line: operation, its fields, flags, where it reports to.
#[must_use = "it is words, to be printed"]
pub fn describe(descriptor: &Descriptor) -> DescriptorInWords {
    DescriptorInWords(*descriptor)
}

/// See [`describe`].
#[derive(Clone, Copy, Debug)]
pub struct DescriptorInWords(Descriptor);

impl fmt::Display for DescriptorInWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(descriptor) = self;
        let (opcode, flags) = (descriptor.opcode(), descriptor.flags());
        write!(f, "{opcode}")?;
        match Layout::of(opcode) {
            Some(layout) => {
                for (n, field) in layout.fields(flags).enumerate() {
                    f.write_str(if n == 0 { ": " } else { ", " })?;
                    write_field(f, field, descriptor.value(field))?;
                }
            }
            None => write_bytes(f, descriptor)?,
        }
        if !flags.is_empty() {
            write!(f, "; flags ")?;
            write_flags(f, opcode, flags)?;
        }
        match descriptor.completion_address() {
            Some(address) => write!(f, "; completion record {address:#x}"),
            None => f.write_str("; no completion record"),
        }
    }
}

fn write_field(f: &mut fmt::Formatter<'_>, field: Field, value: u64) -> fmt::Result {
    /// What is counted; everything else is an address or a pattern.
    const COUNTS: [Field; 7] = [
        layout::TRANSFER_SIZE,
        layout::COUNT,
        layout::DELTA_MAX,
        layout::DELTA_SIZE,
        layout::REGION_SIZE,
        layout::STRIDE,
        layout::EXPECTED_RESULT,
    ];
    let name = field.name();
    // Fields of one byte, in the last two cases: truncation drops nothing.
    if field == layout::DIF_FLAGS {
        let flags = DifFlags(value as u8);
        write!(f, "blocks of {}", flags.block().bytes())?;
        let others = DifFlags(value as u8 & !0b11);
        if others.0 == 0 { Ok(()) } else { write!(f, " {others:?}") }
    } else if field == layout::DIF_SOURCE_FLAGS {
        write!(f, "{name} {:?}", SourceFlags(value as u8))
    } else if field == layout::DIF_DESTINATION_FLAGS {
        write!(f, "{name} {:?}", DestinationFlags(value as u8))
    } else if COUNTS.contains(&field) {
        write!(f, "{name} {value}")
    } else {
        write!(f, "{name} {value:#x}")
    }
}

/// The words behind the flags that are not zero: nobody knows what they mean.
fn write_bytes(f: &mut fmt::Formatter<'_>, descriptor: &Descriptor) -> fmt::Result {
    let mut before = ": ";
    for (n, bytes) in descriptor.to_bytes().chunks_exact(8).enumerate().skip(2) {
        let word = bytes.iter().rev().fold(0_u64, |word, byte| word << 8 | u64::from(*byte));
        if word != 0 {
            write!(f, "{before}byte {} {word:#x}", 8 * n)?;
            before = ", ";
        }
    }
    Ok(())
}

/// Flags by name, those among them whose meaning is the operation's.
pub(crate) fn write_flags(f: &mut fmt::Formatter<'_>, opcode: Opcode, flags: Flags) -> fmt::Result {
    let own = names_of(opcode).iter().filter(|(flag, _)| flags.contains(*flag));
    let (mut rest, mut named) = (flags, Vec::new());
    for (flag, name) in own {
        rest = rest.without(*flag);
        named.push(*name);
    }
    if !rest.is_empty() || named.is_empty() {
        write!(f, "{rest}{}", if named.is_empty() { "" } else { "|" })?;
    }
    f.write_str(&named.join("|"))
}

/// Bits 23:16, by operation.
fn names_of(opcode: Opcode) -> &'static [(Flags, &'static str)] {
    match opcode {
        Opcode::BATCH => &[(Flags::BATCH_ERROR, "BATCH_ERROR")],
        Opcode::DRAIN => &[
            (Flags::READBACK1_VALID, "READBACK1_VALID"),
            (Flags::READBACK2_VALID, "READBACK2_VALID"),
            (Flags::SUPPRESS_TC_A, "SUPPRESS_TC_A"),
            (Flags::SUPPRESS_TC_B, "SUPPRESS_TC_B"),
        ],
        Opcode::MEMFILL => &[(Flags::FILL_16, "FILL_16")],
        Opcode::TRANSL_FETCH => &[(Flags::STRIDE_VALID, "STRIDE_VALID")],
        Opcode::CRCGEN | Opcode::COPY_CRC => &[
            (Flags::READ_SEED, "READ_SEED"),
            (Flags::BYPASS_CRC_INV_REF, "BYPASS_CRC_INV_REF"),
            (Flags::BYPASS_DATA_REF, "BYPASS_DATA_REF"),
            (Flags::CRC_64, "CRC_64"),
        ],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::dif::BlockSize;

    #[test]
    fn operations_are_told_with_the_specifications_names() {
        let reported = |descriptor: Descriptor| descriptor.report_to(0x40).with_flags(Flags::RCR);
        let unknown = Descriptor::new(Opcode(0x7f)).with(layout::DESTINATION, 0x99);
        let insert = Descriptor::new(Opcode::DIF_INS)
            .with(layout::TRANSFER_SIZE, 4_096)
            .with(layout::DIF_FLAGS, u64::from((DifFlags::of(BlockSize::B4096) | DifFlags::INVERT_CRC_SEED).0));
        for (descriptor, words) in [
            (Descriptor::noop(), "NOOP; no completion record"),
            (reported(Descriptor::noop()), "NOOP; flags CRAV|RCR; completion record 0x40"),
            (Descriptor::batch(0x1000, 7), "BATCH: descriptor list 0x1000, descriptor count 7; no completion record"),
            (
                Descriptor::fill_16(1, 0x2000, 64),
                "MEMFILL: pattern 0x1, destination 0x2000, transfer size 64, upper half of the pattern 0x0; flags FILL_16; no completion record",
            ),
            (
                reported(Descriptor::crc(0x10, 5, 0xffff)).with_flags(Flags::CRC_64 | Flags::BYPASS_DATA_REF),
                "CRCGEN: source 0x10, transfer size 5, crc seed 0xffff; flags CRAV|RCR|BYPASS_DATA_REF|CRC_64; completion record 0x40",
            ),
            (unknown, "opcode 0x7f: byte 24 0x99; no completion record"),
            (unknown.with_flags(Flags::FILL_16), "opcode 0x7f: byte 24 0x99; flags 0x40000; no completion record"),
            (
                insert,
                "DIF_INS: source 0x0, destination 0x0, transfer size 4096, destination dif flags DestinationFlags(), blocks of 4096 \
                 DifFlags(INVERT_CRC_SEED), destination reference tag seed 0x0, destination application tag mask 0x0, \
                 destination application tag seed 0x0; no completion record",
            ),
        ] {
            assert_eq!(describe(&descriptor).to_string(), words);
        }
    }

    /// Any bytes at all are one line.
    #[test]
    fn no_descriptor_is_beyond_words() {
        let mut dice = 0x5eed_u64;
        for n in 0..20_000_u32 {
            let mut bytes = [0; 64];
            for byte in &mut bytes {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (dice >> 56) as u8;
            }
            bytes[7] = n as u8;
            let words = describe(&Descriptor::from_bytes(&bytes)).to_string();
            assert!(!words.is_empty() && !words.contains('\n'), "{bytes:02x?}");
        }
    }
}
