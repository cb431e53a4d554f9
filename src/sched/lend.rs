//! Whether a poll lane whose pollers are awake may run a task now. Pure.
//!
//! A parked lane is asked differently: its pollers opted in, or they did not (`Poller::lend_while_armed`).

/// A closure of a known kind takes at most this many times its 99th percentile, as far as the lane dares to assume.
const SAFETY_FACTOR: u64 = 2;

/// What a poll lane knows when a task is at hand. Times in one unit (ticks).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// 99th percentile of the run time of this kind of task, if known.
    pub kind_p99: Option<u64>,
    /// The smallest part of a poller's bound that is left.
    pub bound_left: u64,
}

/// Whether to run it: only if its kind is known to be short.
pub(crate) fn permitted(offer: Offer) -> bool {
    offer.kind_p99.is_some_and(|p99| p99.saturating_mul(SAFETY_FACTOR) <= offer.bound_left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_that_are_known_to_be_short() {
        for (kind_p99, bound_left, want) in [
            (None, 1_000_000, false),
            (Some(500), 1_000, true),
            (Some(501), 1_000, false),
            (Some(u64::MAX / 2 + 1), u64::MAX, true),
            (Some(u64::MAX), u64::MAX - 1, false),
        ] {
            assert_eq!(permitted(Offer { kind_p99, bound_left }), want, "{kind_p99:?} in {bound_left}");
        }
    }
}
