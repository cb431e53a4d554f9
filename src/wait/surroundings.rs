//! What around a lane makes its spinning useless, or harmful? A pure function of where the lane is and of what the kernel counts.
//!
//! What does not change is known when the lanes start ([`Place`]): a quota of cpu time, cpus, lanes. How often the kernel takes the cpu
//! away for somebody else is looked at now and then ([`Crowd`]).

use super::controller::Guards;

/// Where the lane is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Place {
    /// Cpus' worth of time that the control group grants.
    pub(crate) quota: Option<f64>,
    /// Cpus that the process may use.
    pub(crate) cpus: usize,
    /// Lanes of this runtime.
    pub(crate) lanes: usize,
    /// Those of them that are bound to this lane's cpu; itself included.
    pub(crate) lanes_here: usize,
    /// The lane's thread has a real-time priority.
    pub(crate) realtime: bool,
}

impl Place {
    /// What follows from it alone.
    ///
    /// A real-time priority starves others only where they have no other cpu. That a quota is too small is judged by the lanes alone: what
    /// the rest of the process uses is not known.
    pub(crate) fn guards(&self) -> Guards {
        let single_cpu = self.cpus == 1;
        let oversubscribed = self.lanes > self.cpus;
        let shared_cpu = self.lanes_here > 1;
        Guards {
            quota: self.quota.is_some_and(|cpus| cpus < self.lanes as f64),
            oversubscribed,
            single_cpu,
            shared_cpu,
            crowded: false,
            realtime: self.realtime && (single_cpu || oversubscribed || shared_cpu),
        }
    }
}

/// Whether others want this lane's cpu, by its involuntary switches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Crowd {
    /// Nanoseconds and switches at the last look.
    last: Option<(u64, u64)>,
    crowded: bool,
}

/// 500 ms: between two looks.
pub(crate) const LOOK_EVERY_NS: u64 = 500_000_000;
/// So many involuntary switches a second are a crowd: the kernel's own threads make some, a competing thread one each time slice of some milliseconds.
const CROWDED_PER_S: u64 = 50;
/// So few are none any more. A lane that parks more is switched less, so between the two nothing changes.
const ALONE_PER_S: u64 = 10;

impl Crowd {
    /// Whether a look is due.
    #[inline]
    pub(crate) fn due(&self, now_ns: u64) -> bool {
        self.last.is_none_or(|(then, _)| now_ns.wrapping_sub(then) >= LOOK_EVERY_NS)
    }

    /// A look: the involuntary switches of the thread so far. Returns whether it is crowded here.
    pub(crate) fn look(&mut self, now_ns: u64, switches: u64) -> bool {
        if let Some((then, before)) = self.last {
            // A clock that jumped makes one wrong figure, and then it is right again.
            let elapsed = now_ns.saturating_sub(then).max(1);
            let per_s = u128::from(switches.saturating_sub(before)) * 1_000_000_000 / u128::from(elapsed);
            self.crowded = match per_s {
                rate if rate >= CROWDED_PER_S.into() => true,
                rate if rate <= ALONE_PER_S.into() => false,
                _ => self.crowded,
            };
        }
        self.last = Some((now_ns, switches));
        self.crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_what_they_forbid() {
        let none = Guards::default();
        let alone = Place { quota: None, cpus: 8, lanes: 2, lanes_here: 1, realtime: false };
        for (place, wanted, why) in [
            (alone, none, "a cpu a lane"),
            (Place { realtime: true, ..alone }, none, "real-time, and cpus for others"),
            (Place { quota: Some(2.0), ..alone }, none, "a quota that the lanes fit in"),
            (Place { quota: Some(1.5), ..alone }, Guards { quota: true, ..none }, "a quota below the lanes"),
            (Place { cpus: 1, lanes: 1, ..alone }, Guards { single_cpu: true, ..none }, "one cpu"),
            (Place { cpus: 2, lanes: 3, ..alone }, Guards { oversubscribed: true, ..none }, "more lanes than cpus"),
            (Place { lanes_here: 2, ..alone }, Guards { shared_cpu: true, ..none }, "two lanes on a cpu"),
            (
                Place { cpus: 1, lanes: 1, realtime: true, ..alone },
                Guards { single_cpu: true, realtime: true, ..none },
                "real-time on the only cpu",
            ),
        ] {
            assert_eq!(place.guards(), wanted, "{why}");
        }
    }

    #[test]
    fn a_crowd_is_seen_and_forgotten_with_hysteresis() {
        const S: u64 = 1_000_000_000;
        let mut crowd = Crowd::default();
        assert!(crowd.due(0));
        let mut switches = 1_000;
        for (second, more, wanted, why) in [
            (0, 0, false, "the first look tells nothing"),
            (1, 49, false, "not yet"),
            (2, 50, true, "a crowd"),
            (3, 11, true, "still one"),
            (4, 10, false, "gone"),
            (5, 49, false, "not again"),
        ] {
            switches += more;
            assert_eq!(crowd.look(second * S, switches), wanted, "{why}");
            assert!(!crowd.due(second * S + LOOK_EVERY_NS - 1) && crowd.due(second * S + LOOK_EVERY_NS));
        }
        // Backwards, in both.
        let _ = crowd.look(3, 0);
        assert!(!crowd.look(S, 1));
    }
}
