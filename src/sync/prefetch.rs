//! A hint that lines of memory will be written soon. Does nothing that a program can see.
//!
//! PREFETCHW brings a line with the right to write it; a plain prefetch brings it shared, and the locked instruction that follows waits a second
//! time for the other cpu to give it up. The compiler's intrinsic for the former quietly emits the latter unless the whole program is built for cpus that have
//! it, so the instruction is written here, and used once [`by`] was told that the cpu has it.

use std::ptr::NonNull;

#[cfg(not(all(target_arch = "x86_64", not(twolane_loom))))]
pub(crate) use none::*;
#[cfg(all(target_arch = "x86_64", not(twolane_loom)))]
pub(crate) use x86::{by, prefetch};

#[cfg(all(target_arch = "x86_64", not(twolane_loom)))]
mod x86 {
    use super::NonNull;
    use crate::arch::Prefetchw;
    use std::arch::asm;
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// Lines of all x86 cpus that run Linux.
    const LINE: usize = 64;

    static WITH_THE_RIGHT_TO_WRITE: AtomicBool = AtomicBool::new(false);

    /// Uses PREFETCHW from now on. All cpus of a machine have it or none.
    pub(crate) fn by(_: Prefetchw) {
        // Relaxed: the two hints differ in time only.
        WITH_THE_RIGHT_TO_WRITE.store(true, Relaxed);
    }

    /// Asks for the two lines from `address` on, to be written. A task's header and a small closure lie in them.
    #[inline]
    pub(crate) fn prefetch(address: NonNull<u8>) {
        let line = address.as_ptr().cast_const().cast::<i8>();
        // Relaxed: see `by`.
        if WITH_THE_RIGHT_TO_WRITE.load(Relaxed) {
            // SAFETY: `by` was called, so the cpu has the instruction. It changes nothing that a program can see, no flags, and faults at no address.
            unsafe {
                asm!("prefetchw [{0}]", "prefetchw [{0} + {1}]", in(reg) line, const LINE, options(nostack, preserves_flags));
            }
        } else {
            // SAFETY: a prefetch reads and writes nothing and faults at no address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(line);
                _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(LINE));
            }
        }
    }
}

/// Elsewhere a hint is nothing: it may be ignored.
#[cfg(not(all(target_arch = "x86_64", not(twolane_loom))))]
mod none {
    use super::NonNull;

    #[cfg(not(twolane_loom))]
    pub(crate) fn by(_: crate::arch::Prefetchw) {}

    #[inline]
    pub(crate) fn prefetch(_: NonNull<u8>) {}
}
