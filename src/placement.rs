//! Which lane runs on which cpu: a pure function from [`Placement`] and [`Topology`](crate::topology::Topology) to [`Plan`].
//!
//! Nothing here touches the machine. The planner's steps have a file each: `pool` says which cpus may carry a lane, `offer`
//! which pairs they can form, `quantity` how many of them are taken, `planner` numbers the lanes and accounts for every
//! cpu without one, `table` prints the result. Pinning, and finding out whether it took, is the runtime's business.
//!
//! # Rules that hold for every plan
//! - The same request on the same topology gives the same plan.
//! - A cpu carries at most one lane, and every present cpu is either in [`Plan::lanes`] or in [`Plan::left_out`].
//! - A pair is never made of a performance and an efficiency core.
//! - A core carries at most one compute lane, unless `compute_per_core` or explicit pairs ask for more.
//! - Only allowed cpus carry lanes. The exception is an isolated cpu that was named in `cpus` or in
//!   [`Placement::Pairs`]: the kernel starts every process outside the isolated cpus, so going there is how they are used.
//! - Isolated cpus are left out otherwise, unless the affinity mask holds nothing else.
//!
//! # More than two siblings
//! On a core with four or eight siblings, a pair is still one poll lane and one compute lane; the others stay empty. With
//! `compute_per_core` above 1 the pair becomes a group under one pair index: further compute lanes, each with the poll lane
//! as its partner, while the poll lane's partner is the first of them.
//!
//! # Hybrid parts
//! Pairs prefer performance cores. Efficiency cores that have siblings of their own follow after them. Without siblings,
//! they are left out as soon as a faster kind forms pairs: a bound on a poller that holds on one kind and not on the other
//! would surprise, and the OS has use for them. They form pairs of their own where nothing else can, for instance where
//! `cpus` names only them, and wherever [`Placement::Pairs`] says so.

mod error;
mod lane_info;
mod offer;
mod planner;
mod pool;
mod quantity;
mod ranges;
mod table;
mod text;

#[cfg(test)]
mod machines;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod tables;

use std::collections::BTreeSet;

use crate::topology::probe::Verdict;

pub use error::{CpuFault, PlanError};
pub use lane_info::LaneInfo;
pub(crate) use planner::plan;
pub use text::PlacementError;

/// The policy that places lanes on cpus. See the variants for what each promises.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// Pairs of SMT siblings where siblings are visible and allowed; else pairs of two cpus of one cache domain; else a
    /// shared lane on each cpu. The default.
    ///
    /// All pairs of a plan are of one sort: where siblings form pairs, cpus without a usable sibling are left out. Under a
    /// hypervisor that shows a cache of its own for every cpu, pairs are made within a NUMA node instead.
    #[default]
    Auto,
    /// Only pairs of SMT siblings. No visible pair is an error.
    Siblings,
    /// A whole core for each role: poll on one core, compute on another of the same cache domain, siblings left empty.
    ///
    /// A core on which a cpu is reserved for the OS carries no lane. Siblings outside the affinity mask cannot be kept
    /// empty; the plan has a note about them.
    WholeCores,
    /// One thread per cpu that alternates a pass over its pollers with one task. Bounds are best effort.
    ///
    /// Takes siblings, too: two shared lanes may run on one core.
    Shared,
    /// Lanes are threads that the OS places. Nothing is pinned.
    ///
    /// By default as many pairs as leave each lane a cpu of its own; at most one pair a cpu.
    Unpinned,
    /// Exactly these pairs: (cpu of the poll lane, cpu of the compute lane).
    ///
    /// The cpus may be isolated ones. Naming a cpu twice, or one that is absent, offline or not allowed, is an error, and
    /// so is a pair of a performance and an efficiency core.
    Pairs(Vec<(usize, usize)>),
}

/// What a lane was planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Runs pollers; works as a compute lane while it has none.
    Poll,
    /// Runs tasks.
    Compute,
    /// One thread for both: a pass, then a task, in turn.
    Shared,
}

/// What is known about two lanes of a pair sharing a physical core. Of a shared lane, which has no partner: whether another
/// lane of the plan is on its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Sharing {
    /// The machine shows the two cpus as SMT siblings.
    Seen,
    /// The two cpus are on different cores, and nothing stands between that could hide the truth.
    Denied,
    /// The machine does not say, or a hypervisor may hide it.
    Unknown,
}

impl From<Verdict> for Sharing {
    /// A measurement that wavers, or has no answer, says nothing.
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Shared { .. } => Self::Seen,
            Verdict::Separate { .. } => Self::Denied,
            Verdict::Floating { .. } | Verdict::Unclear { .. } => Self::Unknown,
        }
    }
}

/// One lane of a [`Plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LanePlan {
    /// Index of the lane, dense from 0; what `Where::Lane` and the metrics use.
    pub lane: usize,
    /// Index of the pair it belongs to; what `Where::Pair` uses.
    pub pair: usize,
    /// What it is for.
    pub role: Role,
    /// The cpu it is pinned to; `None` when the OS places it.
    pub cpu: Option<usize>,
    /// The other lane of the pair, if there is one. Where a pair has several compute lanes, the poll lane is the partner of
    /// each, and the first of them is the poll lane's.
    pub partner: Option<usize>,
    /// The other online cpus of the core, with or without a lane, ascending. Empty where unpinned.
    pub siblings: Vec<usize>,
    /// Last-level-cache domain of the cpu ([`Cpu::llc`](crate::topology::Cpu::llc)), 0 where unpinned.
    pub llc: usize,
    /// NUMA node of the cpu, 0 where unpinned.
    pub node: usize,
}

/// Why a cpu has no lane.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The cpu.
    pub cpu: usize,
    /// One phrase, for people: "offline", "not in the affinity mask or cpuset", "reserved for the OS", …
    pub reason: String,
}

/// Lanes and cpus, decided but not yet carried out. Prints as a table.
///
/// On a machine with four cores and two siblings each, `pairs` 2 and `reserve` 2, it prints:
///
/// ```text
/// lane  pair  role     cpu  partner  siblings  sharing  cache  node
///    0     0  poll       2        3  3         seen         0     0
///    1     0  compute    3        2  2         seen         0     0
///    2     1  poll       4        5  5         seen         0     0
///    3     1  compute    5        4  4         seen         0     0
/// left out
///   cpus 0-1: reserved for the OS
///   cpus 6-7: beyond the number of pairs asked for (2)
/// ```
///
/// `partner` is the cpu of the other lane, `siblings` are the other cpus of the core, `cache` is the last-level-cache
/// domain by its lowest cpu. Notes follow last, where there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// All lanes, ascending by [`LanePlan::lane`].
    pub lanes: Vec<LanePlan>,
    /// For each pair, by index: whether its lanes share a core.
    pub sharing: Vec<Sharing>,
    /// Every cpu of the machine without a lane, and why. Ascending by cpu.
    pub left_out: Vec<LeftOut>,
    /// What the user should know: a quota below the number of lanes, an override taken from the environment, …
    pub notes: Vec<String>,
}

/// What [`plan`] is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub placement: Placement,
    /// How many pairs (or shared lanes); `None`: as many as fit, and as the cgroup quota carries. Not 0.
    pub pairs: Option<usize>,
    /// Cpus to leave to the OS and its interrupts: the lowest of those that `node` and `cpus` admit, in whole cores as far
    /// as the number allows. With explicit pairs: how many allowed cpus they must leave over.
    pub reserve: usize,
    /// Only cpus of this NUMA node.
    pub node: Option<usize>,
    /// Only these cpus; may name isolated ones.
    pub cpus: Option<BTreeSet<usize>>,
    /// Compute lanes a core may carry. Not 0.
    pub compute_per_core: usize,
}

impl Default for Request {
    fn default() -> Self {
        Self { placement: Placement::Auto, pairs: None, reserve: 0, node: None, cpus: None, compute_per_core: 1 }
    }
}
