//! What the machine looks like, and how much of it this process may use.
//!
//! A [`Topology`] is plain data: it can come from `/sys` and `/proc` (`sysfs`), from hwloc (`hwloc`, feature
//! `hwloc`) or from a test. Everything that decides (placement, the doctor) takes it by reference and asks
//! nothing of the machine itself.

mod cgroup;
mod cpulist;
#[cfg(feature = "hwloc")]
mod hwloc;
pub(crate) mod pin;
pub mod probe;
mod sysfs;
#[allow(unsafe_code)] // Two system calls that the safe wrappers lack.
pub(crate) mod thread;

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

#[cfg(any(feature = "hwloc", feature = "sim"))]
pub(crate) use cpulist::CPUS_MAX;
pub use cpulist::{CpuList, CpuListError};
#[cfg(feature = "hwloc")]
pub use hwloc::HwlocSource;
pub use pin::PinError;

/// What kind of core a cpu belongs to, on parts that mix them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum CoreKind {
    /// All cores of the machine are alike, or the machine does not say.
    Uniform,
    /// A performance core of a hybrid part (P core, "big").
    Performance,
    /// An efficiency core of a hybrid part (E core, "little").
    Efficiency,
}

/// One logical cpu, by the number the OS gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cpu {
    /// The OS number (`cpuN`). Numbers may have holes.
    pub id: usize,
    /// Physical core: the smallest cpu number of the core, so it is unique machine-wide whatever the firmware's `core_id` says.
    pub core: usize,
    /// Last-level-cache domain: the smallest cpu number that shares this cpu's last-level cache.
    pub llc: usize,
    /// NUMA node, by the OS number. 0 where the machine has none.
    pub node: usize,
    /// Physical package (socket), as the OS numbers it.
    pub package: usize,
    /// Performance or efficiency, on hybrid parts.
    pub kind: CoreKind,
    /// Whether the OS has the cpu online. An offline cpu is its own core and cache domain.
    pub online: bool,
    /// Whether the kernel was told to keep ordinary tasks off (`isolcpus`).
    pub isolated: bool,
    /// Whether this process may run here now: online, and inside affinity mask and cpuset.
    pub allowed: bool,
}

/// What is known about SMT on the whole machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Smt {
    /// At least one core shows more than one online cpu.
    Visible,
    /// The kernel says that SMT is off or not supported, and no hypervisor stands between.
    Absent,
    /// No siblings are shown, but a hypervisor may hide them, or the kernel does not say.
    Unknown,
}

/// How much cpu time the process's control groups allow.
#[derive(Clone, Debug, PartialEq)]
pub struct Quota {
    /// Cpus worth of time: quota divided by period. The smallest along the path to the root.
    pub cpus: f64,
    /// The file that says so.
    pub source: PathBuf,
}

/// Cpus, cores, caches and nodes of one machine, and the part of it that this process may use.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Topology {
    /// All cpus that the OS counts as present, ascending by [`Cpu::id`].
    pub cpus: Vec<Cpu>,
    /// What is known about SMT.
    pub smt: Smt,
    /// Whether the process runs under a hypervisor, as far as the machine tells.
    pub hypervisor: bool,
    /// The control groups' limit, if there is one.
    pub quota: Option<Quota>,
    /// What was odd while reading: a missing file and what was assumed instead. One sentence each.
    pub notes: Vec<String>,
}

impl Topology {
    /// The cpu with the OS number `id`.
    #[must_use]
    pub fn cpu(&self, id: usize) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|at| &self.cpus[at])
    }

    /// All online cpus of the core that `id` belongs to, itself included, ascending.
    #[must_use]
    pub fn siblings(&self, id: usize) -> Vec<&Cpu> {
        let Some(me) = self.cpu(id) else { return Vec::new() };
        self.cpus.iter().filter(|cpu| cpu.core == me.core && (cpu.online || cpu.id == id)).collect()
    }

    /// Numbers of the cpus that this process may use, ascending.
    #[must_use]
    pub fn allowed(&self) -> BTreeSet<usize> {
        self.cpus.iter().filter(|cpu| cpu.allowed).map(|cpu| cpu.id).collect()
    }

    /// Reads the machine that the calling thread runs on, from `/sys` and `/proc`.
    ///
    /// [`Cpu::allowed`] is what the calling *thread* may use: its affinity mask, which is its process's unless somebody
    /// narrowed it. Opens a few files a cpu: about a millisecond on small machines, well under a second on the largest.
    ///
    /// ```
    /// let topology = twolane::topology::Topology::read()?;
    /// assert!(!topology.allowed().is_empty());
    /// # Ok::<(), twolane::topology::TopologyError>(())
    /// ```
    ///
    /// # Errors
    /// [`TopologyError`] when `/sys` cannot be understood and the affinity mask cannot be read either, or when mask and
    /// cpuset leave no online cpu. Anything less is a sentence in [`Topology::notes`].
    pub fn read() -> Result<Self, TopologyError> {
        sysfs::read(&sysfs::Host::live())
    }

    /// Reads the machine whose `sys` and `proc` trees lie under `root`: a snapshot of another machine, or one that
    /// the host trees of the feature `sim` wrote.
    ///
    /// The affinity mask is the one recorded in `proc/self/status` there; without that file every online cpu is in it.
    ///
    /// # Errors
    /// As [`Topology::read`].
    pub fn read_from(root: &Path) -> Result<Self, TopologyError> {
        sysfs::read(&sysfs::Host::under(root))
    }
}

/// Why a machine could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// A file that must be there and make sense, was not or did not.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What was found or went wrong, and what was wanted.
        why: String,
    },
    /// The machine was read, but no cpu is left that the process may use.
    NoCpu {
        /// What ruled the last ones out.
        why: String,
    },
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, why } => write!(f, "cannot read the machine: {}: {why}", path.display()),
            Self::NoCpu { why } => write!(f, "no cpu is left for this process: {why}"),
        }
    }
}

impl std::error::Error for TopologyError {}
