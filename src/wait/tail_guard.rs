//! When should a compute lane stop for a moment, so that the poll lane on the same core catches up? Pure.
//!
//! Where two lanes share a core, what one runs slows the other down. If a poll lane's waits end late although nobody took its cpu, it may ask its
//! sibling to *rest*: at the next boundary between two tasks, for [`REST_NS`]. What that costs is bounded twice, by the length of a rest and by
//! [`RESTS`] of them in any [`SPAN_NS`], and it has to help: if passes do not become a tenth shorter while the sibling rests, the next
//! request waits twice as long as the one before.
//!
//! Never asked for: misses that the lane's own pollers, lent work, or preemption caused. A rest would not have helped.

use super::clock::{Rate, Ticks};

/// 20 us: one rest.
pub(crate) const REST_NS: u64 = 20_000;
/// 10 ms, of which rests take 5 % at most:
const SPAN_NS: u64 = 10_000_000;
/// so many of them.
const RESTS: usize = 25;
/// 1 ms: a request that no task boundary met in this time is dropped. The sibling runs a long task, and the moment is over.
const STALE_NS: u64 = 1_000_000;
/// Passes during a rest that make a verdict.
const PASSES_MIN: u64 = 4;
/// Rests help if they make passes shorter than this part of what they took.
const HELPS_TENTHS: u64 = 9;
/// 1 ms to 1 s: how long the next request waits after rests that did not help.
const BACK_OFF_MIN_NS: u64 = 1_000_000;
const BACK_OFF_MAX_NS: u64 = 1_000_000_000;

/// The state of one poll lane whose sharing is seen. All times in ticks.
#[derive(Clone, Debug)]
pub(crate) struct TailGuard {
    span: u64,
    stale: u64,
    back_off_min: u64,
    back_off_max: u64,
    /// When the last requests were made, the oldest at `next`.
    asked: [Option<Ticks>; RESTS],
    next: usize,
    back_off: u64,
    not_before: Option<Ticks>,
    open: Option<Open>,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    since: Ticks,
    /// What a pass took before it.
    before: u64,
    /// What passes took during the rest.
    passes: u64,
    took: u64,
    rested: bool,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// None is under way.
    None,
    /// One is; lending is off meanwhile.
    Open,
    /// It ended with this pass. If nobody rested, it is to be taken back.
    Ended {
        /// No boundary came in time.
        stale: bool,
    },
}

impl TailGuard {
    pub(crate) fn new(rate: Rate) -> Self {
        Self {
            span: rate.ticks_from_ns(SPAN_NS),
            stale: rate.ticks_from_ns(STALE_NS),
            back_off_min: rate.ticks_from_ns(BACK_OFF_MIN_NS),
            back_off_max: rate.ticks_from_ns(BACK_OFF_MAX_NS),
            asked: [None; RESTS],
            next: 0,
            back_off: 0,
            not_before: None,
            open: None,
        }
    }

    /// A wait ended too late for no known reason; a pass takes `pass` at present. Whether to ask the sibling for a rest now.
    pub(crate) fn missed(&mut self, now: Ticks, pass: u64) -> bool {
        if self.open.is_some()
            || self.not_before.is_some_and(|instant| now < instant && instant.since(now) <= self.back_off)
        {
            return false;
        }
        let oldest = self.asked[self.next];
        // Counted by the time of the request. A clock that jumped back makes the oldest one look recent: then it is too early, for a span at most.
        if oldest.is_some_and(|oldest| now.since(oldest) < self.span && oldest.since(now) < self.span) {
            return false;
        }
        self.asked[self.next] = Some(now);
        self.next = (self.next + 1) % RESTS;
        self.open = Some(Open { since: now, before: pass, passes: 0, took: 0, rested: false });
        true
    }

    /// Whether a request is under way: passes are to be told, and nothing is lent.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// An empty pass ended at `now` that took `took`; `resting`: the sibling rests.
    pub(crate) fn passed(&mut self, now: Ticks, took: u64, resting: bool) -> Request {
        let Some(open) = &mut self.open else { return Request::None };
        if resting {
            open.rested = true;
            open.passes += 1;
            open.took = open.took.saturating_add(took);
            return Request::Open;
        }
        let age = now.since(open.since);
        if !open.rested && age < self.stale && now >= open.since {
            return Request::Open;
        }
        let open = *open;
        self.open = None;
        if open.passes >= PASSES_MIN {
            let helped = u128::from(open.took) * 10 < u128::from(open.before) * u128::from(open.passes * HELPS_TENTHS);
            self.judge(now, helped);
        }
        Request::Ended { stale: !open.rested }
    }

    fn judge(&mut self, now: Ticks, helped: bool) {
        if helped {
            (self.back_off, self.not_before) = (0, None);
        } else {
            self.back_off = self.back_off.saturating_mul(2).clamp(self.back_off_min, self.back_off_max);
            self.not_before = Some(now.after(self.back_off));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    fn guard() -> TailGuard {
        TailGuard::new(Rate::NANOSECONDS)
    }

    /// A rest in which passes take `resting`, asked for at `at` where they took 100; the instant of its end, or `None` if it was refused.
    fn rest(guard: &mut TailGuard, at: u64, resting: u64) -> Option<u64> {
        if !guard.missed(Ticks(at), 100) {
            return None;
        }
        let mut now = at;
        while now < at + REST_NS {
            now += 1_000;
            assert_eq!(guard.passed(Ticks(now), resting, true), Request::Open);
        }
        assert_eq!(guard.passed(Ticks(now), 100, false), Request::Ended { stale: false });
        Some(now)
    }

    // At most 5 % of any 10 ms, however often waits are late.
    #[test]
    fn rests_are_rationed_in_every_span() {
        let mut guard = guard();
        let mut asked = Vec::new();
        let mut now = 0;
        while now < 100 * MS {
            if let Some(end) = rest(&mut guard, now, 50) {
                asked.push(now);
                now = end;
            }
            now += 5 * US;
        }
        for (first, &start) in asked.iter().enumerate() {
            let within = asked[first..].iter().take_while(|&&at| at < start + SPAN_NS).count() as u64;
            assert!(within * REST_NS * 20 <= SPAN_NS, "{within} rests from {start}");
        }
        assert!(asked.len() as u64 * REST_NS * 20 > 95 * MS, "{} rests are hardly what is allowed", asked.len());
    }

    #[test]
    fn rests_that_do_not_help_are_asked_for_ever_more_seldom() {
        for (resting, helps, why) in [
            (89, true, "a tenth shorter"),
            (90, false, "not quite"),
            (100, false, "no shorter"),
            (200, false, "longer"),
        ] {
            let mut guard = guard();
            let mut now = 0;
            let mut waits = Vec::new();
            for _ in 0..14 {
                let end = rest(&mut guard, now, resting).expect("nothing forbids it");
                now = end;
                while !guard.clone().missed(Ticks(now), 100) {
                    now += 10 * US;
                }
                waits.push(now - end);
                now = now.max(end + MS); // the ration is another matter
            }
            if helps {
                assert!(waits.iter().all(|&wait| wait == 0), "{why}: {waits:?}");
            } else {
                for (nth, &wait) in waits.iter().enumerate() {
                    let wanted = (BACK_OFF_MIN_NS << nth).min(BACK_OFF_MAX_NS);
                    assert!(wait.abs_diff(wanted) <= 10 * US, "{why}: the {nth}th waits {wait} instead of {wanted}");
                }
            }
        }
    }

    #[test]
    fn one_that_helps_ends_the_back_off() {
        let mut guard = guard();
        let end = rest(&mut guard, 0, 100).unwrap();
        let end = rest(&mut guard, end + 2 * MS, 50).unwrap();
        assert!(guard.missed(Ticks(end), 100));
    }

    #[test]
    fn a_request_that_meets_no_boundary_is_taken_back() {
        let mut guard = guard();
        assert!(guard.missed(Ticks(5), 100));
        assert!(!guard.missed(Ticks(6), 100), "one at a time");
        assert_eq!(guard.passed(Ticks(6 + US), 100, false), Request::Open);
        assert_eq!(guard.passed(Ticks(5 + STALE_NS), 100, false), Request::Ended { stale: true });
        assert_eq!(guard.passed(Ticks(6 + STALE_NS), 100, false), Request::None);
        assert!(guard.missed(Ticks(7 + STALE_NS), 100), "no verdict");
    }

    #[test]
    fn too_few_passes_are_no_verdict() {
        let mut guard = guard();
        assert!(guard.missed(Ticks(0), 100));
        for now in 1..PASSES_MIN {
            let _ = guard.passed(Ticks(now), 1_000, true);
        }
        assert_eq!(guard.passed(Ticks(9), 100, false), Request::Ended { stale: false });
        assert!(guard.missed(Ticks(10), 100));
    }

    #[test]
    fn clocks_that_jump_end_requests_and_bans() {
        let mut guard = guard();
        assert!(guard.missed(Ticks(1_000 * MS), 100));
        assert_eq!(guard.passed(Ticks(5), 100, false), Request::Ended { stale: true });
        let _ = rest(&mut guard, 10, 100);
        assert!(guard.missed(Ticks(0), 100) || guard.missed(Ticks(5_000 * MS), 100));
    }
}
