//! The three ways to wait that the sweep compares, and where everybody sits.
//!
//! The server, the neighbour and the client are the same in all cells; only the builder's knobs differ.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use twolane::placement::{Plan, Role, Sharing};
use twolane::topology::Topology;
use twolane::{Builder, Etiquette, Park, Placement, Relief, Runtime};

/// The shortest idle time before parking that the library takes: about one pass over a quiet socket.
const PARK_AT_ONCE: Duration = Duration::from_micros(1);

/// A way to wait on empty polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// Spin, the way hand-written poll loops do: no relief, never parked.
    Tight,
    /// The library's own manners, etiquette `Balanced` and every other knob at its default.
    Twolane,
    /// Block in the kernel as soon as a pass comes up empty, the way event loops do.
    Parked,
}

impl Cell {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 3] = [Self::Tight, Self::Twolane, Self::Parked];

    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tight => "tight",
            Self::Twolane => "twolane",
            Self::Parked => "parked",
        }
    }

    /// A runtime that waits this way.
    pub fn builder(self) -> Builder {
        let base = base();
        match self {
            Self::Tight => base.relief(Relief::Off).park(Park::Never),
            Self::Twolane => base,
            Self::Parked => base.relief(Relief::Off).park(Park::WhenArmed).park_after(PARK_AT_ONCE),
        }
    }
}

/// What all runtimes here have in common: one pair, no refusal to run where cpus cannot be pinned, and no heed to
/// `TWOLANE_*`, which could make all cells alike.
pub fn base() -> Builder {
    Runtime::builder()
        .placement(Placement::Auto)
        .pairs(1)
        .etiquette(Etiquette::Balanced)
        .allow_unpinned(true)
        .env_overrides(false)
}

/// Who sits where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seats {
    /// Index of the lane that polls.
    pub poll_lane: usize,
    /// How many lanes compute.
    pub compute_lanes: usize,
    /// One thread has both roles.
    pub one_lane: bool,
    /// What is known of the two lanes sharing a core.
    pub sharing: Sharing,
    /// The cpus of the two lanes, where each has one: that of the lane that polls, that of the first that computes.
    pub cpus: Option<(usize, usize)>,
    /// The client's cpu; the OS chooses if there is none.
    pub client_cpu: Option<usize>,
    /// The client has no cpu of its own.
    pub client_shares: bool,
}

impl Seats {
    /// Seats for a plan: the client gets a cpu away from the lanes' cores if there is one, else any that no lane uses,
    /// else the neighbour's.
    pub fn of(plan: &Plan, topology: &Topology) -> Self {
        let is_poll = |role| matches!(role, Role::Poll | Role::Shared);
        let poll = plan.lanes.iter().find(|lane| is_poll(lane.role));
        let compute: Vec<_> = plan.lanes.iter().filter(|lane| lane.role == Role::Compute).collect();
        let taken: BTreeSet<usize> = plan.lanes.iter().filter_map(|lane| lane.cpu).collect();
        let own = own_cpu(&topology.allowed(), &taken, |cpu| topology.cpu(cpu).map_or(cpu, |cpu| cpu.core));
        let beside = compute.first().copied().or(poll).and_then(|lane| lane.cpu);
        let pinned = !taken.is_empty();
        Self {
            poll_lane: poll.map_or(0, |lane| lane.lane),
            compute_lanes: compute.len().max(1),
            one_lane: compute.is_empty(),
            sharing: poll.and_then(|lane| plan.sharing.get(lane.pair)).copied().unwrap_or(Sharing::Unknown),
            cpus: poll.and_then(|lane| lane.cpu).zip(compute.first().and_then(|lane| lane.cpu)),
            client_cpu: if pinned { own.or(beside) } else { None },
            client_shares: own.is_none() || !pinned,
        }
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        let sharing = match self.sharing {
            Sharing::Seen => "seen",
            Sharing::Denied => "denied",
            _ => "unknown",
        };
        json!({
            "poll_lane": self.poll_lane, "compute_lanes": self.compute_lanes, "one_lane": self.one_lane,
            "sharing": sharing, "client_cpu": self.client_cpu, "client_shares": self.client_shares,
        })
    }
}

/// A cpu that no lane uses: on a core without lanes if there is one, else beside a lane.
fn own_cpu(allowed: &BTreeSet<usize>, taken: &BTreeSet<usize>, core_of: impl Fn(usize) -> usize) -> Option<usize> {
    let taken_cores: BTreeSet<usize> = taken.iter().map(|&cpu| core_of(cpu)).collect();
    let mut free = allowed.difference(taken).copied();
    free.clone().find(|&cpu| !taken_cores.contains(&core_of(cpu))).or_else(|| free.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_keeps_away_from_the_lanes_if_it_can() {
        let table: [(&str, &[usize], &[usize], Option<usize>); 5] = [
            ("a pair of siblings: the next core", &[0, 1, 2, 3], &[0, 1], Some(2)),
            ("two cores of two: a sibling is better than a lane's cpu", &[0, 1, 2, 3], &[0, 2], Some(1)),
            ("nothing is left", &[0, 1], &[0, 1], None),
            ("cpus out of reach are not free", &[2, 3], &[2, 3], None),
            ("nothing is pinned: any", &[4, 5], &[], Some(4)),
        ];
        for (what, allowed, taken, want) in table {
            let set = |cpus: &[usize]| cpus.iter().copied().collect();
            // Siblings have adjacent numbers.
            assert_eq!(own_cpu(&set(allowed), &set(taken), |cpu| cpu / 2), want, "{what}");
        }
    }
}
