//! AArch64: ISB as the pause, the generic timer's virtual counter, and no cpu identification yet.

use super::{Capabilities, StatedRate};

/// ISB, which takes about as long as PAUSE does on x86 (YIELD does nothing on nearly all cores).
#[inline(always)]
pub(crate) fn pause() {
    std::hint::spin_loop();
}

/// CNTVCT_EL0: one tick is 1 ns on recent server parts and 40 ns on older ones, so a pause may last less than a tick.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    let count;
    // SAFETY: reads a register that Linux opens to user mode (its vDSO reads the same one); no memory, no flags.
    unsafe { core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
    count
}

pub(crate) fn capabilities() -> Capabilities {
    Capabilities {
        // The architecture demands one rate at all times.
        invariant_tsc: true,
        stated_rate: Some(StatedRate { hz: counter_hz(), source: "CNTFRQ_EL0" }).filter(|rate| rate.hz > 0),
        ..Capabilities::default()
    }
}

fn counter_hz() -> u64 {
    let hz;
    // SAFETY: as in `ticks`: opened to user mode together with the counter; no memory, no flags.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    hz
}
