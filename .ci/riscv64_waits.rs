//! Runs the RISC-V file of `arch` without a standard library; see `.ci/cross`. The exit status is 0, or the number of the
//! case that failed.
#![no_std]
#![no_main]
#![allow(dead_code, unused_imports)]

extern crate core as std;
extern crate self as libc;

pub use core::ffi::c_long;

/// What `arch` takes of libc.
///
/// # Safety
/// - As the system call asks.
pub unsafe fn syscall<T>(number: c_long, a: *mut T, b: usize, c: usize, d: usize, e: u32) -> c_long {
    let result: isize;
    // SAFETY: the caller's.
    unsafe {
        core::arch::asm!("ecall", in("a7") number, inout("a0") a as usize => result, in("a1") b, in("a2") c, in("a3") d,
            in("a4") e as usize);
    }
    result as c_long
}

#[path = "../src/arch"]
mod arch {
    /// A token like those of the library, which anybody here may make.
    macro_rules! tokens {
        ($($name:ident),*) => { $(#[derive(Clone, Copy, Debug, PartialEq, Eq)] pub struct $name(pub ());)* };
    }
    tokens!(Waitpkg, Mwaitx, Wfxt, EventStream, Zawrs);
    impl EventStream {
        pub const PERIOD_NS: u64 = 100_000;
    }
    pub struct StatedRate {
        pub hz: u64,
        pub source: &'static str,
    }
    #[derive(Default)]
    pub struct Capabilities {
        pub invariant_tsc: bool,
        pub stated_rate: Option<StatedRate>,
        pub zawrs: Option<Zawrs>,
        pub others: (),
    }

    #[path = "riscv64.rs"]
    pub mod native;
    pub mod wait;
    pub(crate) use native::ticks;
    pub(crate) use wait::{Depth, Instruction, Span, Watch, Woke};
}

use arch::{Depth, Instruction, Span, Watch, Woke, Zawrs, native, ticks};
use core::sync::atomic::AtomicU64;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    exit(99)
}

fn exit(status: usize) -> ! {
    // SAFETY: ends the process.
    unsafe { core::arch::asm!("ecall", in("a7") 93, in("a0") status, options(noreturn)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn _start() -> ! {
    const LONG: u64 = 1_000_000;
    let word = AtomicU64::new(0x9234_5678_9abc_def0);
    let base: *const u8 = (&raw const word).cast();
    let by = Instruction::Wrs(Zawrs(()));
    let cases = [
        // Offset, width, mask, value, and whether the word looks like that.
        (0, 8, 0xff, 0xf0, true),
        (1, 8, 0xff, 0xde, true),
        (3, 8, 0xff, 0x9a, true),
        (3, 8, 0xff, 0x9b, false),
        (7, 8, 0xf0, 0x90, true),
        (2, 16, 0xffff, 0x9abc, true),
        (6, 16, 0xffff, 0x9234, true),
        (6, 16, 0xffff, 0x9235, false),
        (4, 32, 0xffff_ffff, 0x9234_5678, true),
        (4, 32, 0xffff_ffff, 0x1234_5678, false),
        (0, 64, u64::MAX, 0x9234_5678_9abc_def0, true),
        (0, 64, u64::MAX, 0, false),
    ];
    for (n, (offset, width, mask, value, quiet)) in cases.into_iter().enumerate() {
        // SAFETY: all offsets are aligned to their widths and lie within `word`.
        let Some(watch) = (unsafe { Watch::at(base.wrapping_add(offset), width, mask, value) }) else { exit(n + 1) };
        let from = ticks();
        let woke = native::wait_on(by, Depth::Deep, &watch, Span { from, ticks: LONG });
        let waited = ticks() - from >= LONG;
        if (woke == Woke::Somehow) != quiet || (quiet && !waited) {
            exit(n + 1);
        }
    }
    if native::wait(by, Depth::Deep, Span { from: ticks(), ticks: LONG }) != Woke::Somehow {
        exit(50);
    }
    native::pause();
    // Asks the kernel, and must not die of it.
    let _ = native::capabilities();
    exit(0)
}
