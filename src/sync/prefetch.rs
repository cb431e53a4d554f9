//! A hint that lines of memory will be written soon. Does nothing that a program can see.

use std::ptr::NonNull;

/// Asks for the two lines from `address` on, to be written. A task's header and a small closure lie in them.
#[inline]
pub(crate) fn prefetch(address: NonNull<u8>) {
    #[cfg(all(target_arch = "x86_64", not(twolane_loom)))]
    {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        /// Lines of all x86 cpus that run Linux.
        const LINE: usize = 64;
        let line = address.as_ptr().cast_const().cast::<i8>();
        // SAFETY: a prefetch reads and writes nothing and faults at no address; cpus without PREFETCHW take it as a no-op.
        unsafe {
            _mm_prefetch::<_MM_HINT_ET0>(line);
            _mm_prefetch::<_MM_HINT_ET0>(line.wrapping_add(LINE));
        }
    }
    #[cfg(not(all(target_arch = "x86_64", not(twolane_loom))))]
    let _ = address;
}
