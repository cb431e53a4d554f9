//! What can be wrong with a request for lanes: the value, the knob it came from, and the way out.

use std::collections::BTreeSet;
use std::fmt;

use super::ranges::{Cpus, Ranges};

/// Why no [`Plan`](super::Plan) can be made of what was asked for.
///
/// Every message names the value, the knob of the builder that it came from, and what to do about it. Nothing is ever
/// clamped instead.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// A count that must be at least 1 is 0.
    Zero {
        /// The knob.
        knob: &'static str,
    },
    /// A list of cpus or pairs is empty.
    EmptyList {
        /// The knob.
        knob: &'static str,
    },
    /// Two knobs contradict each other.
    Conflict {
        /// One of them, with its value.
        one: String,
        /// The other, with its value.
        other: String,
        /// Which of them to change, and how.
        remedy: &'static str,
    },
    /// A cpu was named that cannot carry a lane.
    Unusable {
        /// The cpu.
        cpu: usize,
        /// The knob that names it.
        knob: &'static str,
        /// What is wrong with it.
        fault: CpuFault,
        /// The cpus that this process may use.
        allowed: BTreeSet<usize>,
    },
    /// A cpu stands in the explicit pairs more than once.
    Duplicate {
        /// The cpu.
        cpu: usize,
        /// The cpus that this process may use and that no pair names.
        free: BTreeSet<usize>,
    },
    /// An explicit pair joins a performance core with an efficiency core, whose passes and tasks run at different speeds.
    MixedKinds {
        /// Cpu of the poll lane.
        poll: usize,
        /// Cpu of the compute lane.
        compute: usize,
    },
    /// The machine has no such NUMA node.
    NoSuchNode {
        /// The node asked for.
        node: usize,
        /// The nodes there are.
        nodes: BTreeSet<usize>,
    },
    /// After all conditions no cpu is left.
    NoCpu {
        /// The conditions that ruled the last ones out.
        why: String,
        /// The cpus that this process may use.
        allowed: BTreeSet<usize>,
    },
    /// The reserve leaves no cpu for lanes.
    ReserveTooLarge {
        /// Cpus to leave to the OS.
        asked: usize,
        /// The cpus it is taken from, or that explicit pairs leave over for it.
        from: BTreeSet<usize>,
        /// How large it may be.
        most: usize,
    },
    /// `Placement::Siblings` on cpus that show no pair of siblings.
    NoSiblings {
        /// What hides or removes them, and the way out.
        why: String,
    },
    /// `Placement::WholeCores` where no cache domain has two free cores of one kind.
    NoWholeCores {
        /// The cpus that may carry lanes.
        usable: BTreeSet<usize>,
    },
    /// More pairs (or shared lanes) than fit.
    TooMany {
        /// The number asked for.
        asked: usize,
        /// The number that fits.
        fit: usize,
        /// What is counted: "pairs" or "shared lanes".
        what: &'static str,
        /// Which cpus there are, and what one pair takes of them.
        why: String,
    },
    /// More compute lanes a core than any core of the plan can carry.
    ComputePerCore {
        /// The number asked for.
        asked: usize,
        /// The number that the best core can carry.
        most: usize,
    },
}

/// What is wrong with a cpu that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CpuFault {
    /// The machine has no cpu of this number.
    NotPresent,
    /// The OS has it offline.
    Offline,
    /// The affinity mask or cpuset of this process leaves it out.
    NotAllowed,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { knob } => write!(f, "`{knob}` is 0: give at least 1, or leave it out for the default"),
            Self::EmptyList { knob } => write!(f, "`{knob}` names nothing: name at least one, or leave it out"),
            Self::Conflict { one, other, remedy } => write!(f, "{one} contradicts {other}: {remedy}"),
            Self::Unusable { cpu, knob, fault, allowed } => {
                let (what, remedy) = match fault {
                    CpuFault::NotPresent => ("this machine does not have", "name one of those"),
                    CpuFault::Offline => {
                        ("is offline", "name one of those, or write 1 to the `online` file of the cpu in /sys")
                    }
                    CpuFault::NotAllowed => (
                        "the affinity mask or cpuset of this process leaves out",
                        "name one of those, or widen the mask (taskset, CPUAffinity=, cpuset.cpus)",
                    ),
                };
                write!(f, "`{knob}` names cpu {cpu}, which {what}; allowed are {}: {remedy}", Cpus(allowed))
            }
            Self::Duplicate { cpu, free } => write!(
                f,
                "`Placement::Pairs` names cpu {cpu} twice: a cpu carries one lane; allowed and free are {}; for both roles \
                 on one cpu use `Placement::Shared`",
                Cpus(free)
            ),
            Self::MixedKinds { poll, compute } => write!(
                f,
                "`Placement::Pairs` joins cpu {poll} and cpu {compute}, a performance core and an efficiency core: take \
                 both from one kind"
            ),
            Self::NoSuchNode { node, nodes } => {
                write!(f, "`node` is {node}, but the machine has NUMA nodes {}: name one of those", Ranges(nodes))
            }
            Self::NoCpu { why, allowed } => write!(
                f,
                "no cpu is left for lanes: {why}; allowed are {}: loosen `node` or `cpus`, or widen the affinity mask",
                Cpus(allowed)
            ),
            Self::ReserveTooLarge { asked, from, most } => write!(
                f,
                "`reserve` is {asked}, but lanes and reserve share {}: reserve at most {most}, or widen the affinity mask \
                 or `cpus`",
                Cpus(from)
            ),
            Self::NoSiblings { why } => write!(f, "`Placement::Siblings` finds no pair of SMT siblings: {why}"),
            Self::NoWholeCores { usable } => write!(
                f,
                "`Placement::WholeCores` needs two cores of one kind in one cache domain, and {} do not hold them: widen \
                 the affinity mask, lower `reserve`, or use `Placement::Auto`",
                Cpus(usable)
            ),
            Self::TooMany { asked, fit, what, why } => {
                write!(f, "`pairs` asks for {asked} {what}, but {fit} fit: {why}")
            }
            Self::ComputePerCore { asked, most } => write!(
                f,
                "`compute_per_core` is {asked}, but the best core that may be used carries {most} beside its poll lane: \
                 give at most {most}"
            ),
        }
    }
}

impl std::error::Error for PlanError {}
