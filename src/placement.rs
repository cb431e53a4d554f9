//! Which lane runs on which cpu: a pure function from [`Placement`] and [`Topology`](crate::topology::Topology) to [`Plan`].

use std::collections::BTreeSet;
use std::fmt;

/// The policy that places lanes on cpus. See the variants for what each promises.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Placement {
    /// Pairs of SMT siblings where siblings are visible and allowed; else pairs of two cpus of one cache domain; else one
    /// shared lane. The default.
    #[default]
    Auto,
    /// Only pairs of SMT siblings. No visible pair is an error.
    Siblings,
    /// A whole core for each role: poll on one core, compute on another of the same cache domain, siblings left empty.
    WholeCores,
    /// One thread per cpu that alternates a pass over its pollers with one task. Bounds are best effort.
    Shared,
    /// Lanes are threads that the OS places. Nothing is pinned.
    Unpinned,
    /// Exactly these pairs: (cpu of the poll lane, cpu of the compute lane).
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

/// What is known about two lanes of a pair sharing a physical core.
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
    /// The other lane of the pair, if there is one.
    pub partner: Option<usize>,
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Plan {
    /// All lanes, ascending by [`LanePlan::lane`].
    pub lanes: Vec<LanePlan>,
    /// For each pair, by index: whether its lanes share a core.
    pub sharing: Vec<Sharing>,
    /// Every cpu of the machine without a lane, and why.
    pub left_out: Vec<LeftOut>,
    /// What the user should know: a quota below the number of lanes, an override taken from the environment, …
    pub notes: Vec<String>,
}

/// What [`plan`] is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Request {
    pub placement: Placement,
    /// How many pairs (or shared lanes); `None`: as many as fit.
    pub pairs: Option<usize>,
    /// Cpus to leave to the OS and its interrupts: the first N allowed ones (whole cores are preferred).
    pub reserve: usize,
    /// Only cpus of this NUMA node.
    pub node: Option<usize>,
    /// Only these cpus; may name isolated ones.
    pub cpus: Option<BTreeSet<usize>>,
    /// More compute lanes than one a core, where asked for.
    pub compute_per_core: usize,
}

impl fmt::Display for Plan {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
