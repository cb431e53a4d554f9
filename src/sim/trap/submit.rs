//! What does an instruction do that moves 64 bytes? Pure functions of its operands, the registers and what is mapped at its destination;
//! `handler` carries it out. (SDM: MOVDIR64B, ENQCMD, ENQCMDS.)

use super::Fault;
use super::decode::{Base, Decoded, How, Store};
use super::execute::{ARITHMETIC, Registers, is_canonical};
use crate::offload::dsa::abi::limits::DESCRIPTOR_BYTES;

/// The operands' addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Addresses {
    pub(super) to: u64,
    pub(super) from: u64,
}

/// Where the operands are. `at`: the instruction's address; `segment_base`: of the FS or GS that is in force, else 0.
pub(super) fn addresses(
    decoded: &Decoded,
    store: &Store,
    registers: &Registers,
    at: u64,
    segment_base: u64,
) -> Addresses {
    let Store { to, from } = store;
    let start = match from.base {
        Base::None => 0,
        Base::Register(number) => registers.full(number),
        Base::Next => at.wrapping_add(u64::from(decoded.length)),
    };
    let index = from.index.map_or(0, |(number, scale)| registers.full(number).wrapping_mul(u64::from(scale)));
    let effective = start.wrapping_add(index).wrapping_add_signed(i64::from(from.displacement));
    let within = if decoded.address_32 { u64::from(u32::MAX) } else { u64::MAX };
    // The destination is in ES, whose base is 0; the prefix is the source's.
    Addresses { to: registers.full(*to) & within, from: segment_base.wrapping_add(effective & within) }
}

/// What the cpu finds wrong before it reads anything.
pub(super) fn check(how: How, addresses: Addresses) -> Result<(), Fault> {
    let Addresses { to, from } = addresses;
    let good = how != How::Enqcmds // which is the kernel's
        && to % DESCRIPTOR_BYTES as u64 == 0
        && is_canonical(to)
        && is_canonical(from)
        && is_canonical(from.wrapping_add(DESCRIPTOR_BYTES as u64 - 1));
    if good { Ok(()) } else { Err(Fault::GeneralProtection) }
}

/// What is at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<P> {
    Portal(P),
    /// Memory that can be written.
    Memory,
    /// Nothing that can be written.
    Nothing,
    /// Nobody can say.
    Unknown,
}

/// What is to be done with the 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed<P> {
    /// The queue is asked to take them, and its answer goes into the zero flag.
    Ask(P),
    /// The queue gets them, and does not answer.
    Post(P),
    /// They are stored to memory.
    Store,
    /// Memory does not take them: the zero flag is set.
    Refuse,
    Fault(Fault),
    /// It is not carried out here.
    NotOurs,
}

/// Decides, for 64 bytes that were read from the source.
pub(super) fn decide<P>(how: How, place: Place<P>, to: u64, bytes: &[u8; DESCRIPTOR_BYTES]) -> Deed<P> {
    // The cpu puts the PASID there itself.
    let first_word = bytes[..4] != [0; 4];
    match (how, place) {
        (How::Enqcmds, _) => Deed::Fault(Fault::GeneralProtection),
        (How::Enqcmd, _) if first_word => Deed::Fault(Fault::GeneralProtection),
        (_, Place::Unknown) => Deed::NotOurs,
        (_, Place::Nothing) => Deed::Fault(Fault::Page(to)),
        (How::Enqcmd, Place::Portal(portal)) => Deed::Ask(portal),
        (How::Enqcmd, Place::Memory) => Deed::Refuse,
        (How::Movdir64b, Place::Portal(portal)) => Deed::Post(portal),
        (How::Movdir64b, Place::Memory) => Deed::Store,
    }
}

const ZF: u64 = 1 << 6;

/// The flags after ENQCMD: ZF is its answer, the other arithmetic ones are clear. MOVDIR64B leaves flags alone.
pub(super) fn flags_after(flags: u64, retry: bool) -> u64 {
    flags & !ARITHMETIC | if retry { ZF } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::super::decode::{Memory, Op, decode};
    use super::*;

    fn registers(set: &[(usize, u64)]) -> Registers {
        let mut registers = Registers::default();
        set.iter().for_each(|&(number, value)| registers.general[number] = value);
        registers
    }

    #[test]
    fn operands_are_where_the_encoding_says() {
        let registers =
            registers(&[(0, 0x1_0000_1000), (1, 3), (5, 0x500), (7, 0x7000), (12, 0xc000), (13, 0xd000), (15, 0xf000)]);
        const AT: u64 = 0x40_0000;
        for (bytes, base, to, from, what) in [
            (&[0xf2, 0x0f, 0x38, 0xf8, 0x07][..], 0, 0x1_0000_1000, 0x7000, "enqcmd rax, [rdi]"),
            (&[0x66, 0x0f, 0x38, 0xf8, 0x7f, 0xf0], 0, 0x7000, 0x6ff0, "movdir64b rdi, [rdi - 16]"),
            (&[0x66, 0x0f, 0x38, 0xf8, 0x7c, 0x8d, 0x10], 0, 0x7000, 0x51c, "movdir64b rdi, [rbp + 4 * rcx + 16]"),
            (&[0x66, 0x45, 0x0f, 0x38, 0xf8, 0x3c, 0x24], 0, 0xf000, 0xc000, "movdir64b r15, [r12]"),
            (&[0x66, 0x45, 0x0f, 0x38, 0xf8, 0x7d, 0x01], 0, 0xf000, 0xd001, "movdir64b r15, [r13 + 1]"),
            (&[0x66, 0x0f, 0x38, 0xf8, 0x3d, 0x10, 0, 0, 0], 0, 0x7000, AT + 9 + 0x10, "movdir64b rdi, [rip + 16]"),
            (
                &[0x66, 0x0f, 0x38, 0xf8, 0x3c, 0x25, 0xff, 0xff, 0xff, 0x7f],
                0,
                0x7000,
                0x7fff_ffff,
                "movdir64b rdi, [2^31 - 1]",
            ),
            (&[0x67, 0xf2, 0x0f, 0x38, 0xf8, 0x00], 0, 0x1000, 0x1000, "enqcmd eax, [eax]"),
            (&[0x64, 0xf2, 0x0f, 0x38, 0xf8, 0x47, 0x08], 0xa000, 0x1_0000_1000, 0x1_1008, "enqcmd rax, fs:[rdi + 8]"),
        ] {
            let decoded = decode(|n| bytes.get(n).copied()).unwrap();
            let Op::Submit(_, store) = decoded.op else { panic!("{what}: {decoded:?}") };
            assert_eq!(addresses(&decoded, &store, &registers, AT, base), Addresses { to, from }, "{what}");
        }
    }

    #[test]
    fn addresses_wrap_as_the_cpu_wraps_them() {
        let store = Store { to: 0, from: Memory { base: Base::Register(0), index: None, displacement: -1 } };
        let wide = Decoded { op: Op::Submit(How::Enqcmd, store), length: 5, address_32: false, segment: None };
        let zero = Registers::default();
        assert_eq!(addresses(&wide, &store, &zero, 0, 0).from, u64::MAX);
        assert_eq!(addresses(&Decoded { address_32: true, ..wide }, &store, &zero, 0, 0x100).from, 0x1_0000_00ff);
    }

    #[test]
    fn what_the_cpu_refuses_before_it_reads() {
        for (how, to, from, good) in [
            (How::Enqcmd, 0x1000, 0x1001, true),
            (How::Enqcmd, 0x1fc0, 0, true),
            (How::Enqcmd, 0x1020, 0, false),
            (How::Movdir64b, 0x1001, 0, false),
            (How::Movdir64b, 1 << 47, 0, false),
            (How::Movdir64b, 0x1000, 1 << 63, false),
            (How::Movdir64b, 0x1000, (1 << 47) - 64, true),
            (How::Movdir64b, 0x1000, (1 << 47) - 63, false),
            (How::Enqcmds, 0x1000, 0, false),
        ] {
            let expected = if good { Ok(()) } else { Err(Fault::GeneralProtection) };
            assert_eq!(check(how, Addresses { to, from }), expected, "{how:?} {to:#x} {from:#x}");
        }
    }

    #[test]
    fn what_becomes_of_64_bytes() {
        const TO: u64 = 0x1040;
        let (zero, mut marked) = ([0; 64], [0; 64]);
        marked[3] = 0x80;
        let (gp, page) = (Deed::Fault(Fault::GeneralProtection), Deed::Fault(Fault::Page(TO)));
        for (how, place, bytes, deed) in [
            (How::Enqcmd, Place::Portal(5), &zero, Deed::Ask(5)),
            (How::Enqcmd, Place::Portal(5), &marked, gp),
            (How::Enqcmd, Place::Memory, &zero, Deed::Refuse),
            (How::Enqcmd, Place::Nothing, &zero, page),
            (How::Enqcmd, Place::Unknown, &zero, Deed::NotOurs),
            (How::Enqcmds, Place::Portal(5), &zero, gp),
            (How::Movdir64b, Place::Portal(5), &marked, Deed::Post(5)),
            (How::Movdir64b, Place::Memory, &marked, Deed::Store),
            (How::Movdir64b, Place::Nothing, &zero, page),
            (How::Movdir64b, Place::Unknown, &zero, Deed::NotOurs),
        ] {
            assert_eq!(decide(how, place, TO, bytes), deed, "{how:?} {place:?}");
        }
    }

    #[test]
    fn the_zero_flag_is_the_answer_and_the_others_are_clear() {
        const OTHERS: u64 = 0x202; // interrupts on, and the bit that is always set
        assert_eq!(flags_after(OTHERS | 0x8d5, false), OTHERS);
        assert_eq!(flags_after(OTHERS | 0x895, true), OTHERS | ZF);
    }
}
