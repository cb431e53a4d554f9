//! Is this one of the eight instructions? Pure, and fit for a signal handler: no tables, no allocation, and no byte is
//! fetched that the cpu did not have to fetch itself before it found the instruction unknown.

/// One of the eight, as far as its execution needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    pub(super) op: Op,
    /// Bytes, prefixes included.
    pub(super) length: u8,
    /// An address-size prefix: addresses have 32 bits.
    pub(super) address_32: bool,
    /// An FS or GS prefix that is in force: the last of them.
    pub(super) segment: Option<Segment>,
}

/// A segment whose base counts in 64-bit mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Fs,
    Gs,
}

/// An operand in memory. Registers by number, as in [`Op`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory {
    pub(super) base: Base,
    /// With what it is multiplied: 1, 2, 4 or 8.
    pub(super) index: Option<(u8, u8)>,
    pub(super) displacement: i32,
}

/// Where an operand's address starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// At 0.
    None,
    /// At what a register holds.
    Register(u8),
    /// At the next instruction.
    Next,
}

/// The instructions, with the number of the operand's register (0 RAX, 1 RCX, 2 RDX, 3 RBX, ... 15 R15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Tpause { state: u8 },
    Umwait { state: u8 },
    Umonitor { address: u8 },
    Monitorx,
    Mwaitx,
    Submit(How, Store),
}

/// The instructions that move 64 bytes in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    Movdir64b,
    Enqcmd,
    /// The kernel's ENQCMD.
    Enqcmds,
}

/// 64 bytes on their way: from memory, to the address in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Store {
    pub(super) to: u8,
    pub(super) from: Memory,
}

/// The longest instruction that there is.
pub(super) const LENGTH_MAX: usize = 15;

/// Decodes in 64-bit mode. `fetch(n)` is the `n`th byte, asked for in order; `None` ends it.
pub(super) fn decode(mut fetch: impl FnMut(usize) -> Option<u8>) -> Option<Decoded> {
    let mut at = 0;
    let mut next = || {
        let byte = if at < LENGTH_MAX { fetch(at) } else { None };
        at += 1;
        byte
    };
    let mut prefixes = Prefixes::default();
    let mut byte = next()?;
    while prefixes.take(byte)? {
        byte = next()?;
    }
    if byte != 0x0f {
        return None;
    }
    let op = match next()? {
        0x01 if prefixes.mandatory().is_none() => match next()? {
            0xfa => Op::Monitorx,
            0xfb => Op::Mwaitx,
            _ => return None,
        },
        0xae => {
            let modrm = next()?;
            // Registers only, and /6.
            if modrm >> 3 != 0b11_110 {
                return None;
            }
            let register = (modrm & 7) | prefixes.rex_b();
            match prefixes.mandatory()? {
                0x66 => Op::Tpause { state: register },
                0xf2 => Op::Umwait { state: register },
                0xf3 => Op::Umonitor { address: register },
                _ => return None,
            }
        }
        0x38 => {
            if next()? != 0xf8 {
                return None;
            }
            let how = match prefixes.mandatory()? {
                0x66 => How::Movdir64b,
                0xf2 => How::Enqcmd,
                _ => How::Enqcmds,
            };
            Op::Submit(how, store(&mut next, &prefixes)?)
        }
        _ => return None,
    };
    // `at` never exceeds LENGTH_MAX here.
    Some(Decoded { op, length: at as u8, address_32: prefixes.address_32, segment: prefixes.segment })
}

/// ModRM and what follows it.
fn store(mut next: impl FnMut() -> Option<u8>, prefixes: &Prefixes) -> Option<Store> {
    let modrm = next()?;
    let (mode, rm) = (modrm >> 6, modrm & 7);
    // Both registers: another instruction.
    if mode == 3 {
        return None;
    }
    let to = (modrm >> 3 & 7) | prefixes.rex_r();
    let (mut base, mut index) = (Base::Register(rm | prefixes.rex_b()), None);
    if rm == 4 {
        let sib = next()?;
        let (scale, number, low) = (1 << (sib >> 6), (sib >> 3 & 7) | prefixes.rex_x(), sib & 7);
        // RSP is no index.
        index = (number != 4).then_some((number, scale));
        base = if low == 5 && mode == 0 { Base::None } else { Base::Register(low | prefixes.rex_b()) };
    } else if rm == 5 && mode == 0 {
        base = Base::Next;
    }
    let long = mode == 2 || !matches!(base, Base::Register(_));
    let displacement = if long {
        i32::from_le_bytes([next()?, next()?, next()?, next()?])
    } else if mode == 1 {
        i32::from(next()? as i8)
    } else {
        0
    };
    Some(Store { to, from: Memory { base, index, displacement } })
}

#[derive(Default)]
struct Prefixes {
    operand_size: bool,
    /// The last of F2 and F3.
    repeat: Option<u8>,
    address_32: bool,
    segment: Option<Segment>,
    rex: u8,
}

impl Prefixes {
    /// Whether `byte` is a prefix; `None` if no instruction of ours bears it.
    fn take(&mut self, byte: u8) -> Option<bool> {
        // Another prefix behind it makes REX void.
        let rex = std::mem::take(&mut self.rex);
        match byte {
            0x66 => self.operand_size = true,
            0xf2 | 0xf3 => self.repeat = Some(byte),
            0x67 => self.address_32 = true,
            0x64 => self.segment = Some(Segment::Fs),
            0x65 => self.segment = Some(Segment::Gs),
            // Of no effect in 64-bit mode; they do not take FS or GS back.
            0x26 | 0x2e | 0x36 | 0x3e => {}
            0x40..=0x4f => self.rex = byte,
            // LOCK makes all of them invalid.
            0xf0 => return None,
            _ => {
                self.rex = rex;
                return Some(false);
            }
        }
        Some(true)
    }

    /// The prefix that selects among instructions of one opcode: F2 and F3 go before 66.
    fn mandatory(&self) -> Option<u8> {
        self.repeat.or(self.operand_size.then_some(0x66))
    }

    /// REX.B as the high bit of a register's number.
    fn rex_b(&self) -> u8 {
        (self.rex & 1) << 3
    }

    /// REX.X, likewise.
    fn rex_x(&self) -> u8 {
        (self.rex & 2) << 2
    }

    /// REX.R, likewise.
    fn rex_r(&self) -> u8 {
        (self.rex & 4) << 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};

    fn ours(bytes: &[u8]) -> Option<Decoded> {
        decode(|at| bytes.get(at).copied())
    }

    /// The same from a decoder that knows the whole instruction set.
    fn theirs(bytes: &[u8]) -> Option<Decoded> {
        let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
        let mut insn = Instruction::default();
        decoder.decode_out(&mut insn);
        let op = match insn.code() {
            Code::Tpause_r32 | Code::Tpause_r64 => Op::Tpause { state: number(insn.op0_register()) },
            Code::Umwait_r32 | Code::Umwait_r64 => Op::Umwait { state: number(insn.op0_register()) },
            Code::Umonitor_r16 | Code::Umonitor_r32 | Code::Umonitor_r64 => {
                Op::Umonitor { address: number(insn.op0_register()) }
            }
            Code::Monitorxw | Code::Monitorxd | Code::Monitorxq => Op::Monitorx,
            Code::Mwaitx => Op::Mwaitx,
            Code::Movdir64b_r32_m512 | Code::Movdir64b_r64_m512 => Op::Submit(How::Movdir64b, store_of(&insn)),
            Code::Enqcmd_r32_m512 | Code::Enqcmd_r64_m512 => Op::Submit(How::Enqcmd, store_of(&insn)),
            Code::Enqcmds_r32_m512 | Code::Enqcmds_r64_m512 => Op::Submit(How::Enqcmds, store_of(&insn)),
            _ => return None,
        };
        let prefixes = &bytes[..insn.len()];
        // Not part of iced's operands: read off the prefixes, which end at the first 0F.
        let opcode = prefixes.iter().position(|&byte| byte == 0x0f).unwrap_or(0);
        let address_32 = prefixes[..opcode].contains(&0x67);
        let segment = prefixes[..opcode].iter().rev().find_map(|byte| match byte {
            0x64 => Some(Segment::Fs),
            0x65 => Some(Segment::Gs),
            _ => None,
        });
        Some(Decoded { op, length: insn.len() as u8, address_32, segment })
    }

    fn store_of(insn: &Instruction) -> Store {
        let absolute = insn.memory_displacement64();
        let (base, displacement) = match insn.memory_base() {
            Register::None => (Base::None, absolute),
            // iced has added the next instruction's address: the test's code starts at 0.
            Register::RIP | Register::EIP => (Base::Next, absolute.wrapping_sub(insn.next_ip())),
            register => (Base::Register(number(register)), absolute),
        };
        let index = match insn.memory_index() {
            Register::None => None,
            register => Some((number(register), insn.memory_index_scale() as u8)),
        };
        // Truncation is meant: it was extended from 32 bits, by sign or (for addresses of 32 bits) by zeros.
        Store { to: number(insn.op0_register()), from: Memory { base, index, displacement: displacement as i32 } }
    }

    fn number(register: Register) -> u8 {
        register.number() as u8
    }

    /// xorshift64*: small, and the same on every machine.
    struct Dice(u64);

    impl Dice {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 8
        }
        fn of<T: Copy>(&mut self, these: &[T]) -> T {
            these[(self.next() % these.len() as u64) as usize]
        }
    }

    #[test]
    fn agrees_with_a_whole_decoder_on_millions_of_byte_strings() {
        const STRINGS: u32 = 6_000_000;
        const PREFIXES: [u8; 17] =
            [0x66, 0x66, 0xf2, 0xf3, 0x67, 0x64, 0x65, 0x26, 0x2e, 0x36, 0x3e, 0x40, 0x41, 0x42, 0x44, 0x4f, 0xf0];
        let mut dice = Dice(0x5eed);
        let mut found = [0_u32; 8];
        for n in 0..STRINGS {
            let mut bytes = [0; 20];
            let mut at = 0;
            // Most strings begin as ours do, some with one byte wrong; every eighth is random from the start.
            if n % 8 != 0 {
                for _ in 0..dice.of(&[0, 0, 1, 1, 1, 2, 2, 3, 5, 12, 14]) {
                    bytes[at] = dice.of(&PREFIXES);
                    at += 1;
                }
                bytes[at] = 0x0f;
                bytes[at + 1] = dice.of(&[0xae, 0xae, 0x01, 0x00, 0x38, 0x38, 0x38]);
                bytes[at + 2] = match bytes[at + 1] {
                    0x38 => dice.of(&[0xf8, 0xf8, 0xf8, 0xf8, 0xf9, 0xf0]),
                    _ => dice.of(&[0xf0, 0xf1, 0xf7, 0xfa, 0xfb, 0xfa, 0xfb, 0x30, 0xb0, 0xe8]),
                };
                at += 3;
            }
            for byte in &mut bytes[at..] {
                *byte = dice.next() as u8;
            }
            let length = if n % 5 == 0 { (dice.next() % 20) as usize } else { 20 };
            let bytes = &bytes[..length];
            let (ours, theirs) = (ours(bytes), theirs(bytes));
            assert_eq!(ours, theirs, "{bytes:02x?}");
            if let Some(decoded) = ours {
                found[match decoded.op {
                    Op::Tpause { .. } => 0,
                    Op::Umwait { .. } => 1,
                    Op::Umonitor { .. } => 2,
                    Op::Monitorx => 3,
                    Op::Mwaitx => 4,
                    Op::Submit(How::Movdir64b, _) => 5,
                    Op::Submit(How::Enqcmd, _) => 6,
                    Op::Submit(How::Enqcmds, _) => 7,
                }] += 1;
            }
        }
        // Not all strings were nothing.
        assert!(found.iter().all(|&n| n > 10_000), "{found:?}");
    }

    #[test]
    fn fetches_no_byte_behind_the_one_that_decides() {
        for (bytes, fetched) in [
            (&[0x0f, 0x0b][..], 2),                           // UD2
            (&[0x66, 0x0f, 0xae, 0xf1], 4),                   // TPAUSE
            (&[0x0f, 0x01, 0xfb], 3),                         // MWAITX
            (&[0x48, 0x89, 0xc8], 2),                         // MOV
            (&[0x66, 0x0f, 0x01, 0xfa], 3),                   // nothing
            (&[0xf0, 0x66, 0x0f, 0xae, 0xf1], 1),             // LOCK
            (&[0xf2, 0x0f, 0x38, 0xf8, 0x07, 0x90], 5),       // ENQCMD rax, [rdi]
            (&[0xf2, 0x0f, 0x38, 0xf8, 0x47, 0x40, 0x90], 6), // ENQCMD rax, [rdi + 0x40]
            (&[0x66, 0x0f, 0x38, 0xf8, 0x04, 0x24, 0x90], 6), // MOVDIR64B rax, [rsp]
            (&[0x66, 0x0f, 0x38, 0xf9, 0x07], 4),             // MOVDIRI
            (&[0xf2, 0x0f, 0x38, 0xf8, 0xc7, 0x90], 5),       // URDMSR
        ] {
            let mut last = 0;
            let _ = decode(|at| {
                last = at + 1;
                bytes.get(at).copied()
            });
            assert_eq!(last, fetched, "{bytes:02x?}");
        }
    }
}
