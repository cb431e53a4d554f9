//! Every other architecture: the standard library's hint, no counter, nothing stated.

use super::{Capabilities, Depth, Instruction, Span, Watch, Woke};

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

/// Never called: no token is made here.
pub(crate) fn wait(_: Instruction, _: Depth, _: Span) -> Woke {
    pause();
    Woke::Somehow
}

/// Never called: no token is made here.
pub(crate) fn wait_on(_: Instruction, _: Depth, _: &Watch<'_>, _: Span) -> Woke {
    pause();
    Woke::Somehow
}

pub(crate) fn capabilities() -> Capabilities {
    Capabilities::default()
}
