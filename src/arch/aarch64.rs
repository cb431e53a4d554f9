//! AArch64: ISB as the pause, the generic timer's virtual counter, WFE and WFET, and the kernel's word (HWCAP) for what
//! the cpu has.

use super::wait::Word;
use super::{Capabilities, Depth, EventStream, Instruction, Span, StatedRate, Watch, Wfxt, Woke};
use core::arch::asm;

/// ISB, which takes about as long as PAUSE does on x86 (YIELD does nothing on nearly all cores).
#[inline(always)]
pub(crate) fn pause() {
    // SAFETY: refetches the instructions that follow; no memory, no flags.
    unsafe { asm!("isb", options(nomem, nostack, preserves_flags)) };
}

/// CNTVCT_EL0: one tick is 1 ns on recent server parts and 40 ns on older ones, so a pause may last less than a tick.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let count;
    // SAFETY: reads a register that Linux opens to user mode (its vDSO reads the same one); no memory, no flags.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}

/// Waits for the span: WFET, or WFE and the kernel's stream of events.
#[inline]
pub(crate) fn wait(by: Instruction, _: Depth, span: Span) -> Woke {
    let now = ticks();
    let left = span.left(now);
    if left == 0 {
        return Woke::AtOnce;
    }
    match by {
        // SAFETY: the token says that the cpu has it. SEVL and WFE before it take an old event out of the register, which
        // would end the wait at once. (WFET by its encoding, with x1: older assemblers do not know it.)
        Instruction::Wfet(_) => unsafe {
            asm!("sevl", "wfe", ".inst 0xd5031001", in("x1") now.saturating_add(left), options(nostack, preserves_flags));
        },
        // SAFETY: every cpu has it, and the token says that an event comes.
        Instruction::Wfe(_) => unsafe { asm!("sevl", "wfe", "wfe", options(nostack, preserves_flags)) },
        // Tokens of other architectures are not made on this one.
        _ => pause(),
    }
    Woke::Somehow
}

/// Waits for a store to the line of `watch`, or for the span.
///
/// Load exclusive, compare and wait are one block of assembly: a store of the compiler's in between could clear the
/// exclusive monitor, and the wait would end at once; a compare before the load would miss a store.
#[inline]
pub(crate) fn wait_on(by: Instruction, _: Depth, watch: &Watch<'_>, span: Span) -> Woke {
    let now = ticks();
    let left = span.left(now);
    if left == 0 {
        return Woke::AtOnce;
    }
    let deadline = now.saturating_add(left);
    let (word, mask, value) = watch.parts();
    /// `$load` into a register of `$width`, compare, and `$wait`; 1 in `waited` if it came so far.
    macro_rules! arm_compare_wait {
        ($load:literal, $width:literal, $address:expr, $wait:literal) => {{
            let waited: u64;
            // SAFETY: the watch keeps the word aligned and readable; the token says that the cpu has the wait, or that an
            // event comes. SEVL and WFE take an old event out of the register first. CLREX gives the monitor back. The
            // compare changes the flags, and memory is not marked as untouched: what the caller reads stays behind.
            unsafe {
                asm!(
                    "sevl", "wfe", "mov {waited}, #0",
                    concat!($load, " {seen:", $width, "}, [{address}]"),
                    "and {seen}, {seen}, {mask}", "cmp {seen}, {value}", "b.ne 2f",
                    "mov {waited}, #1", $wait, "2:", "clrex",
                    address = in(reg) $address, mask = in(reg) mask, value = in(reg) value, in("x1") deadline,
                    seen = out(reg) _, waited = out(reg) waited, options(nostack),
                );
            }
            waited
        }};
    }
    macro_rules! by_width {
        ($wait:literal) => {
            match word {
                Word::U8(word) => arm_compare_wait!("ldxrb", "w", word, $wait),
                Word::U16(word) => arm_compare_wait!("ldxrh", "w", word, $wait),
                Word::U32(word) => arm_compare_wait!("ldxr", "w", word, $wait),
                Word::U64(word) => arm_compare_wait!("ldxr", "x", word, $wait),
            }
        };
    }
    let waited = match by {
        Instruction::Wfet(_) => by_width!(".inst 0xd5031001"),
        Instruction::Wfe(_) => by_width!("wfe"),
        // Tokens of other architectures are not made on this one.
        _ => {
            pause();
            1
        }
    };
    if waited == 0 { Woke::AtOnce } else { Woke::Somehow }
}

pub(crate) fn capabilities() -> Capabilities {
    /// Of AT_HWCAP: the timer's event stream is on.
    const EVTSTRM: u64 = 1 << 2;
    /// Of AT_HWCAP2: WFET and WFIT.
    const WFXT: u64 = 1 << 31;
    // SAFETY: reads the vector that the kernel handed to the process; unknown keys answer 0.
    let (first, second) = unsafe { (libc::getauxval(libc::AT_HWCAP), libc::getauxval(libc::AT_HWCAP2)) };
    Capabilities {
        // The architecture demands one rate at all times.
        invariant_tsc: true,
        stated_rate: Some(StatedRate { hz: counter_hz(), source: "CNTFRQ_EL0" }).filter(|rate| rate.hz > 0),
        wfxt: (second & WFXT != 0).then_some(Wfxt(())),
        event_stream: (first & EVTSTRM != 0).then_some(EventStream(())),
        ..Capabilities::default()
    }
}

fn counter_hz() -> u64 {
    let hz;
    // SAFETY: as in `ticks`: opened to user mode together with the counter; no memory, no flags.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::EventStream;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn arm_compare_and_wait_follow_each_other() {
        const SEVL: u32 = 0xd503_20bf;
        const WFE: u32 = 0xd503_205f;
        const WFET_X1: u32 = 0xd503_1001;
        const CLREX: u32 = 0xd503_3f5f;
        /// LDXRB, LDXRH, LDXR of 32 and of 64 bits, without their registers.
        const LDXR: [u32; 4] = [0x085f_7c00, 0x485f_7c00, 0x885f_7c00, 0xc85f_7c00];
        const REGISTERS: u32 = 0x3ff;
        /// More than the functions have, and less than the text behind them.
        const WORDS: usize = 2_048;
        let words = |entry: *const ()| {
            // SAFETY: the test binary's text, of which kilobytes follow every function of this file; it is not written.
            unsafe { std::slice::from_raw_parts(entry.cast::<u32>(), WORDS) }
        };
        let code = words(wait_on as *const ());
        for load in LDXR {
            let at =
                code.windows(10).find(|block| block[0] == SEVL && block[3] & !REGISTERS == load && block[8] == WFET_X1);
            let block = at.unwrap_or_else(|| panic!("no block with {load:#x}"));
            assert_eq!((block[1], block[9]), (WFE, CLREX));
        }
        assert!(words(wait as *const ()).windows(3).any(|block| block == [SEVL, WFE, WFET_X1]));
    }

    #[test]
    fn a_word_that_has_changed_is_not_waited_for_in_any_width() {
        // WFE is on every cpu, and is not reached here.
        let by = Instruction::Wfe(EventStream(()));
        let word = AtomicU64::new(0x1234_5678_9abc_def0);
        let base: *const u8 = (&raw const word).cast();
        for (offset, width, mask, value) in
            [(1, 8, 0xff, 0xdf), (2, 16, 0xffff, 0x9abd), (4, 32, u64::from(u32::MAX), 0), (0, 64, u64::MAX, 0)]
        {
            // SAFETY: all offsets are aligned to their widths and lie within `word`.
            let watch = unsafe { Watch::at(base.wrapping_add(offset), width, mask, value) }.unwrap();
            let span = Span { from: ticks(), ticks: u64::MAX / 2 };
            assert_eq!(wait_on(by, Depth::Deep, &watch, span), Woke::AtOnce, "{width} bits");
        }
    }

    #[test]
    fn a_word_that_is_quiet_is_waited_for_in_every_width() {
        // Where the wait ends by itself: WFET, WFE with the event stream, or WFE under an emulator that makes it a yield.
        let by = match (capabilities().wait_instruction(), std::env::var_os("WFE_ENDS")) {
            (Some(stated), _) => stated,
            (None, Some(_)) => Instruction::Wfe(EventStream(())),
            (None, None) => return,
        };
        println!("waits by {}", by.name());
        let word = AtomicU64::new(0x1234_5678_9abc_def0);
        let base: *const u8 = (&raw const word).cast();
        for (offset, width, mask, value) in [
            (1, 8, 0xff, 0xde),
            (2, 16, 0xfff0, 0x9ab0),
            (4, 32, u64::from(u32::MAX), 0x1234_5678),
            (0, 64, u64::MAX, 0x1234_5678_9abc_def0),
        ] {
            // SAFETY: as above.
            let watch = unsafe { Watch::at(base.wrapping_add(offset), width, mask, value) }.unwrap();
            let span = Span { from: ticks(), ticks: 1_000_000_000 };
            assert_eq!(wait_on(by, Depth::Deep, &watch, span), Woke::Somehow, "{width} bits");
        }
        assert_eq!(wait(by, Depth::Deep, Span { from: ticks(), ticks: 1_000_000_000 }), Woke::Somehow);
    }
}
