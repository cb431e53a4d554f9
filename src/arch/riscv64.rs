//! RISC-V: the PAUSE hint, the time counter, WRS.STO, and the kernel's word (hwprobe) for what the cpu has.

use super::wait::Word;
use super::{Capabilities, Depth, Instruction, Span, StatedRate, Watch, Woke, Zawrs};
use core::arch::asm;
use core::sync::atomic::AtomicU32;

/// PAUSE of Zihintpause: a fence that orders nothing, so cpus without it do nothing.
#[inline(always)]
pub(crate) fn pause() {
    // SAFETY: a hint in the encoding space of FENCE, valid on every cpu; no memory, no registers.
    unsafe { asm!(".4byte 0x0100000f", options(nomem, nostack, preserves_flags)) };
}

/// The `time` register: 1 to 100 ns a tick.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let count;
    // SAFETY: reads a register that Linux opens to user mode (its vDSO reads the same one).
    unsafe { asm!("rdtime {}", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}

/// Waits for the span, on a line that nobody writes.
#[inline]
pub(crate) fn wait(by: Instruction, depth: Depth, span: Span) -> Woke {
    #[repr(align(128))]
    struct QuietLine(AtomicU32);
    static QUIET_LINE: QuietLine = QuietLine(AtomicU32::new(0));
    wait_on(by, depth, &Watch::while_equal(&QUIET_LINE.0, 0), span)
}

/// Waits for a store to the line of `watch`, or for the span: reserve, compare, WRS.STO, as often as fit. WRS.STO rather
/// than WRS.NTO, which a hypervisor may take as an offer of the cpu.
#[inline]
pub(crate) fn wait_on(by: Instruction, _: Depth, watch: &Watch<'_>, span: Span) -> Woke {
    let Instruction::Wrs(_) = by else {
        // Tokens of other architectures are not made on this one.
        pause();
        return Woke::Somehow;
    };
    let (word, mask, value) = watch.parts();
    /// Waits once; 1 if the word was quiet.
    macro_rules! reserve_compare_wait {
        ($load:literal, $address:expr, $mask:expr, $value:expr) => {{
            let waited: u64;
            // SAFETY: the watch keeps the word readable, and the aligned word around it is on the same page; the token
            // says that the cpu has WRS.STO (by its encoding: older assemblers do not know it). One block: a store of the
            // compiler's in between could end the reservation.
            unsafe {
                asm!(
                    "li {waited}, 0", concat!($load, " {seen}, ({address})"),
                    "and {seen}, {seen}, {mask}", "bne {seen}, {value}, 2f",
                    "li {waited}, 1", ".4byte 0x01d00073", "2:",
                    address = in(reg) $address, mask = in(reg) $mask, value = in(reg) $value,
                    seen = out(reg) _, waited = out(reg) waited, options(nostack),
                );
            }
            waited
        }};
    }
    // A reservation covers an aligned word of 4 or 8 bytes: narrower ones are watched within theirs. LR.W extends the
    // sign, so mask and value stay below bit 32 and the mask takes the rest away.
    let within = |address: usize, bytes: usize| (address & !3, ((address & 3) & !(bytes - 1)) * 8);
    let quiet = || {
        let (address, shift) = match word {
            Word::U64(word) => return reserve_compare_wait!("lr.d", word, mask, value),
            Word::U32(word) => (word.addr(), 0),
            Word::U16(word) => within(word.addr(), 2),
            Word::U8(word) => within(word.addr(), 1),
        };
        reserve_compare_wait!("lr.w", watch.address().with_addr(address), mask << shift, value << shift)
    };
    let mut woke = Woke::AtOnce;
    while span.left(ticks()) > 0 && quiet() != 0 {
        woke = Woke::Somehow;
    }
    woke
}

pub(crate) fn capabilities() -> Capabilities {
    /// Keys of hwprobe, and the bit of Zawrs in the first one's value.
    const EXTENSIONS: i64 = 4;
    const TIME_HZ: i64 = 8;
    const ZAWRS: u64 = 1 << 48;
    let [extensions, hz] = hwprobe([EXTENSIONS, TIME_HZ]);
    Capabilities {
        // The architecture demands one rate at all times.
        invariant_tsc: true,
        stated_rate: hz.filter(|hz| *hz > 0).map(|hz| StatedRate { hz, source: "hwprobe" }),
        zawrs: extensions.is_some_and(|bits| bits & ZAWRS != 0).then_some(Zawrs(())),
        ..Capabilities::default()
    }
}

/// What all cpus have in common, by key; `None` for a key that the kernel does not know, and on kernels without the call.
fn hwprobe<const N: usize>(keys: [i64; N]) -> [Option<u64>; N] {
    /// The system call's number, the same on every kernel that has it.
    const SYS_RISCV_HWPROBE: libc::c_long = 258;
    #[repr(C)]
    struct Pair {
        key: i64,
        value: u64,
    }
    let mut pairs = keys.map(|key| Pair { key, value: 0 });
    // SAFETY: the kernel fills the values of the pairs given, and sets unknown keys to -1; no set of cpus means all.
    let failed = unsafe { libc::syscall(SYS_RISCV_HWPROBE, pairs.as_mut_ptr(), N, 0_usize, 0_usize, 0_u32) } != 0;
    pairs.map(|pair| Some(pair.value).filter(|_| !failed && pair.key >= 0))
}
