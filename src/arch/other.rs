//! Every other architecture: the standard library's hint, no counter, nothing stated.

use super::Capabilities;

/// Whatever the standard library emits for a spin loop.
#[inline(always)]
pub(crate) fn pause() {
    std::hint::spin_loop();
}

/// There is no counter: stands still, and [`capabilities`] does not call it invariant.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    0
}

pub(crate) fn capabilities() -> Capabilities {
    Capabilities::default()
}
