//! The machine code that the compiler made of the waits, read back and compared byte by byte with what the manuals say.
//! Nothing is executed: this cpu may have none of them.

use super::*;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction as Insn, Register};

// Each in a function of its own, so that its code is all there and alone.
#[inline(never)]
fn code_of_tpause(token: Waitpkg, depth: Depth, deadline: u64) -> bool {
    tpause(token, depth, deadline)
}
#[inline(never)]
fn code_of_umonitor(token: Waitpkg, address: *const u8) {
    umonitor(token, address);
}
#[inline(never)]
fn code_of_umwait(token: Waitpkg, depth: Depth, deadline: u64) -> bool {
    umwait(token, depth, deadline)
}
#[inline(never)]
fn code_of_monitorx(token: Mwaitx, address: *const u8) {
    monitorx(token, address);
}
#[inline(never)]
fn code_of_mwaitx(token: Mwaitx, ticks: NonZeroU32) {
    mwaitx(token, ticks);
}
#[inline(never)]
fn code_of_pause() {
    pause();
}

/// An instruction of a function, and its bytes.
type Line = (Insn, Vec<u8>);

/// The instructions from an entry point to the first return.
fn listing(entry: *const ()) -> Vec<Line> {
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

/// Where the only instruction with this code is.
fn only(lines: &[Line], code: Code) -> usize {
    let mut at = lines.iter().enumerate().filter(|(_, (insn, _))| insn.code() == code).map(|(n, _)| n);
    let (first, second) = (at.next(), at.next());
    assert_eq!(second, None, "one {code:?}");
    first.unwrap_or_else(|| panic!("no {code:?} in {lines:#?}"))
}

/// Prefix, REX.B if the register is one of the upper eight, opcode, and ModRM with /6.
fn golden(prefix: u8, register: Register) -> Vec<u8> {
    let number = register.number() as u8;
    let rex = (number >= 8).then_some(0x41);
    [prefix].into_iter().chain(rex).chain([0x0f, 0xae, 0xf0 | number & 7]).collect()
}

#[test]
fn tpause_is_66_0f_ae_and_umwait_f2_0f_ae_with_the_carry_read_at_once() {
    for (entry, code, prefix) in
        [(code_of_tpause as *const (), Code::Tpause_r32, 0x66), (code_of_umwait as *const (), Code::Umwait_r32, 0xf2)]
    {
        let lines = listing(entry);
        let at = only(&lines, code);
        let (insn, bytes) = &lines[at];
        let state = insn.op0_register();
        assert_eq!(*bytes, golden(prefix, state));
        assert!(![Register::EAX, Register::EDX].contains(&state), "the deadline is there");
        // SETC or SETB, the same thing.
        assert_eq!(lines[at + 1].0.code(), Code::Setb_rm8);
    }
}

#[test]
fn umonitor_is_f3_0f_ae() {
    let lines = listing(code_of_umonitor as *const ());
    let (insn, bytes) = &lines[only(&lines, Code::Umonitor_r64)];
    assert_eq!(*bytes, golden(0xf3, insn.op0_register()));
}

#[test]
fn monitorx_is_0f_01_fa_and_mwaitx_0f_01_fb_between_two_exchanges_of_rbx() {
    let lines = listing(code_of_monitorx as *const ());
    assert_eq!(lines[only(&lines, Code::Monitorxq)].1, [0x0f, 0x01, 0xfa]);
    let lines = listing(code_of_mwaitx as *const ());
    let at = only(&lines, Code::Mwaitx);
    assert_eq!(lines[at].1, [0x0f, 0x01, 0xfb]);
    let exchange = &lines[at - 1].0;
    let is_exchange = [Code::Xchg_rm64_r64, Code::Xchg_r64_RAX].contains(&exchange.code());
    let operands = [exchange.op0_register(), exchange.op1_register()];
    assert!(is_exchange && operands.contains(&Register::RBX), "{exchange:?}");
    // What the instruction reads is not what the count changes places with.
    assert!(!operands.iter().any(|r| [Register::RAX, Register::RCX].contains(r)), "{exchange:?}");
    assert_eq!(lines[at + 1].1, lines[at - 1].1, "RBX comes back");
}

#[test]
fn pause_is_f3_90() {
    let lines = listing(code_of_pause as *const ());
    assert_eq!(lines[only(&lines, Code::Pause)].1, [0xf3, 0x90]);
}
