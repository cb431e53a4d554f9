//! Whether a poll lane may run a task now. Pure.

/// A closure of a known kind takes at most this many times its 99th percentile, as far as the lane dares to assume.
const SAFETY_FACTOR: u64 = 2;

/// What a poll lane knows when a task is at hand. Times in one unit (ticks).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// Every poller of the lane opted in (`lend_while_armed`) and the lane is parked or about to.
    pub all_opted_in: bool,
    /// 99th percentile of the run time of this kind of task, if known.
    pub kind_p99: Option<u64>,
    /// The smallest part of a poller's bound that is left.
    pub bound_left: u64,
}

/// Whether to run it.
pub(crate) fn permitted(offer: Offer) -> bool {
    offer.all_opted_in || offer.kind_p99.is_some_and(|p99| p99.saturating_mul(SAFETY_FACTOR) <= offer.bound_left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_kinds_unless_every_poller_opted_in() {
        for (all_opted_in, kind_p99, bound_left, want) in [
            (false, None, 1_000_000, false),
            (false, Some(500), 1_000, true),
            (false, Some(501), 1_000, false),
            (false, Some(u64::MAX), u64::MAX, true),
            (true, None, 0, true),
        ] {
            assert_eq!(permitted(Offer { all_opted_in, kind_p99, bound_left }), want, "{kind_p99:?} in {bound_left}");
        }
    }
}
