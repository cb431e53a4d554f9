//! x86-64: the two stores of 64 bytes that submit to a device, and the fence before them.
//!
//! Both read their source like ordinary loads, so what this thread stored *there* is seen without a fence. They are not ordered behind older stores
//! to *other* memory, though, and a device reads other memory (a record that was zeroed, a list, a source that was written with non-temporal
//! stores): [`store_fence`] goes before each of them, or before a run of them between which nothing else was written.
//!
//! None of the blocks says `nomem`: to the compiler each may read and write all memory, so no store moves past it.

use core::arch::asm;

use super::{Enqcmd, Movdir64b};

/// SFENCE: all older stores of this thread, non-temporal ones too, are visible before any younger one.
#[inline(always)]
pub(crate) fn store_fence() {
    // SAFETY: orders, and does nothing else; every x86-64 cpu has it.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}

impl Movdir64b {
    /// Stores 64 bytes in one piece, past the caches. Nothing tells what became of them.
    ///
    /// # Safety
    /// - `to` is 64-byte aligned, and 64 bytes from there are mapped for writing, of memory that nobody takes for Rust's.
    /// - What the store sets in motion there is the caller's to answer for.
    #[inline(always)]
    pub(crate) unsafe fn store(self, to: *mut [u8; 64], from: &[u8; 64]) {
        // SAFETY: the token says that the cpu has it; the caller answers for the address, which it faults on like a store; flags are kept.
        unsafe {
            asm!("movdir64b {to}, [{from}]", to = in(reg) to, from = in(reg) from, options(nostack, preserves_flags))
        };
    }
}

impl Enqcmd {
    /// Asks the device behind `to` to take 64 bytes. `true`: it has them. `false`: it has not, for now or for ever; the instruction does not tell
    /// which (a full or disabled queue, a dedicated one, a halted device, memory that is no device).
    ///
    /// # Safety
    /// - `to` is 64-byte aligned, and 64 bytes from there are mapped for writing, of memory that nobody takes for Rust's.
    /// - This process has opened a queue, which binds its memory to the device (else #GP, a SIGSEGV).
    /// - The first four bytes of `from` are zero: the cpu puts the process's id there (else #GP).
    /// - What the device does with it is the caller's to answer for.
    #[inline(always)]
    pub(crate) unsafe fn enqueue(self, to: *mut [u8; 64], from: &[u8; 64]) -> bool {
        let retry: u8;
        // SAFETY: the token says that the cpu has it; the caller answers for what it faults on. The zero flag is the answer, and is read at once.
        unsafe {
            asm!("enqcmd {to}, [{from}]", "setz {retry}", to = in(reg) to, from = in(reg) from,
                retry = out(reg_byte) retry, options(nostack));
        }
        retry == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Capabilities;
    use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Register};

    // Each in a function of its own, so that its code is all there and alone.
    #[inline(never)]
    unsafe fn code_of_movdir64b(token: Movdir64b, to: *mut [u8; 64], from: &[u8; 64]) {
        // SAFETY: the caller's promise.
        unsafe { token.store(to, from) };
    }
    #[inline(never)]
    unsafe fn code_of_enqcmd(token: Enqcmd, to: *mut [u8; 64], from: &[u8; 64]) -> bool {
        // SAFETY: the caller's promise.
        unsafe { token.enqueue(to, from) }
    }
    #[inline(never)]
    fn code_of_store_fence() {
        store_fence();
    }

    /// The instructions from an entry point to the first return, with their bytes.
    fn listing(entry: *const ()) -> Vec<(Instruction, Vec<u8>)> {
        /// More than any of the functions has, and less than what follows them in the text of the test binary.
        const BYTES: usize = 2_048;
        // SAFETY: the test binary's text, of which kilobytes follow every function of this file; it is not written.
        let bytes = unsafe { std::slice::from_raw_parts(entry.cast::<u8>(), BYTES) };
        let mut decoder = Decoder::with_ip(64, bytes, entry.addr() as u64, DecoderOptions::NONE);
        let mut lines = Vec::new();
        while decoder.can_decode() {
            let at = decoder.position();
            let insn = decoder.decode();
            lines.push((insn, bytes[at..decoder.position()].to_vec()));
            if insn.code() == Code::Retnq {
                break;
            }
        }
        lines
    }

    /// Prefix, REX where the registers want one, and 0f 38 f8; then ModRM (and SIB) with the destination's register in the middle.
    fn check(lines: &[(Instruction, Vec<u8>)], code: Code, prefix: u8) -> usize {
        let at = lines.iter().position(|(insn, _)| insn.code() == code).unwrap_or_else(|| panic!("no {code:?}"));
        let (insn, bytes) = &lines[at];
        assert_eq!(bytes[0], prefix, "{bytes:02x?}");
        let rest = if bytes[1] & 0xf0 == 0x40 { &bytes[2..] } else { &bytes[1..] };
        assert_eq!(rest[..3], [0x0f, 0x38, 0xf8], "{bytes:02x?}");
        assert_eq!(rest[3] >> 3 & 7, (insn.op0_register().number() & 7) as u8, "the destination is the register");
        assert_ne!(insn.memory_base(), Register::None, "the source is the memory");
        at
    }

    #[test]
    fn movdir64b_is_66_0f_38_f8() {
        check(&listing(code_of_movdir64b as *const ()), Code::Movdir64b_r64_m512, 0x66);
    }

    #[test]
    fn enqcmd_is_f2_0f_38_f8_with_the_zero_flag_read_at_once() {
        let lines = listing(code_of_enqcmd as *const ());
        let at = check(&lines, Code::Enqcmd_r64_m512, 0xf2);
        assert_eq!(lines[at + 1].0.code(), Code::Sete_rm8);
    }

    #[test]
    fn the_fence_is_0f_ae_f8() {
        assert!(listing(code_of_store_fence as *const ()).iter().any(|(_, bytes)| *bytes == [0x0f, 0xae, 0xf8]));
    }

    #[test]
    fn movdir64b_moves_64_bytes_where_the_cpu_has_it() {
        #[repr(align(64))]
        struct Line([u8; 64]);
        let Some(token) = Capabilities::detect().movdir64b else { return };
        let mut to = Line([0; 64]);
        let from: Vec<u8> = (1..=65).collect();
        // An odd source: it needs no alignment.
        let source: &[u8; 64] = from[1..].try_into().unwrap();
        // SAFETY: 64 bytes of this test's, aligned by their type.
        unsafe { token.store(&raw mut to.0, source) };
        store_fence();
        assert_eq!(to.0[..], from[1..]);
    }
}
