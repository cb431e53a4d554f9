//! What an operator should know about a machine before a service with lanes runs on it.
//!
//! [`examine`] reads a machine and returns findings: what is there, what it means for lanes, and what to type where
//! something can be mended. It changes nothing, opens no device and starts no thread; the program `twolane doctor`
//! (feature `cli`) prints what it returns.
//!
//! ```
//! use twolane::doctor::{self, Roots, Severity};
//!
//! let report = doctor::examine(&Roots::live());
//! println!("{report}");
//! assert!(report.worst() < Severity::Error, "a runtime can be built here");
//! ```
//!
//! Each topic has a file of its own: `machine` (cpus, cores, siblings), `process` (what this process may use, and the lanes
//! that come of it), `isolation`, `waits` (instructions and their limits), `clock`, `scheduler`, `queues` (DSA) and
//! `unseen` (what this code was never run on). They share what `seen` read once, under a root that the caller chooses.

mod clock;
mod finding;
mod isolation;
mod lane_waits;
mod machine;
mod print;
mod process;
mod processor;
mod queues;
mod scheduler;
mod seen;
mod tree;
mod unseen;
mod waits;
mod words;

use std::path::{Path, PathBuf};

use crate::offload::dsa::discover::Places;
use crate::topology::Topology;
use crate::wait::WaitWith;

pub use finding::{Finding, Severity, Topic};
pub use lane_waits::LaneWaits;
pub use processor::Instructions;
pub use queues::{WorkQueue, WorkQueueNode};

/// Which machine is examined: this one, or one whose files lie in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    root: PathBuf,
    live: bool,
    dsa: Places,
    wait_with: WaitWith,
}

impl Roots {
    /// This machine, as the calling thread may use it. Instructions are those that the cpu states.
    #[must_use]
    pub fn live() -> Self {
        Self { root: PathBuf::from("/"), live: true, dsa: Places::default(), wait_with: WaitWith::default() }
    }

    /// The machine whose `sys`, `proc` and `dev` lie under `root`: a snapshot of another one, or a host tree of the
    /// feature `sim`. The affinity mask is the one recorded there, and instructions are those in its `proc/cpuinfo`.
    #[must_use]
    pub fn under(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { dsa: Places::under(&root), root, live: false, wait_with: WaitWith::default() }
    }

    /// With work queues described elsewhere: what `TWOLANE_DSA_SYSFS` and `TWOLANE_DSA_DEV` are to a runtime.
    #[must_use]
    pub fn dsa(mut self, places: Places) -> Self {
        self.dsa = places;
        self
    }

    /// As lanes would be told to wait: by [`Builder::wait_with`](crate::Builder::wait_with), or by `TWOLANE_WAIT`. What they would make of it is tested on
    /// this machine only.
    #[must_use]
    pub fn wait_with(mut self, with: WaitWith) -> Self {
        self.wait_with = with;
        self
    }

    /// The directory above `sys` and `proc`; `/` for this machine.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Everything that [`examine`] found. Prints as text for a terminal of 80 columns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The directory above the files that were read.
    pub root: PathBuf,
    /// The machine; `None` if it could not be read, and then a finding says why.
    pub topology: Option<Topology>,
    /// Instructions that matter for waiting and for work queues.
    pub instructions: Instructions,
    /// With what lanes would wait, as their own test finds; `None` of a machine that is not this one.
    pub lane_waits: Option<LaneWaits>,
    /// DSA work queues, by name.
    pub work_queues: Vec<WorkQueue>,
    /// What is worth knowing, by topic, in a fixed order.
    pub findings: Vec<Finding>,
}

impl Report {
    /// The gravest severity among the findings.
    #[must_use]
    pub fn worst(&self) -> Severity {
        self.findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Ok)
    }

    /// The first finding with this [`id`](Finding::id). Of devices and queues there may be several.
    #[must_use]
    pub fn finding(&self, id: &str) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.id == id)
    }
}

/// Examines the machine under `roots`.
///
/// Much of it is true of the calling process only: its affinity mask, control group, user and scheduling class. Call it
/// (or run `twolane doctor`) where the service runs: in its container, as its user.
///
/// Never fails: what cannot be read is a finding. Takes about as long as [`Topology::read`], which is milliseconds on
/// small machines and well under a second on the largest; of this machine, some milliseconds more, mostly asleep, for a short test of the
/// instructions that wait.
#[must_use]
pub fn examine(roots: &Roots) -> Report {
    let seen = seen::Seen::read(roots);
    let findings = [
        machine::findings(&seen),
        process::findings(&seen),
        isolation::findings(&seen),
        waits::findings(&seen),
        clock::findings(&seen),
        scheduler::findings(&seen),
        queues::findings(&seen),
        unseen::findings(&seen),
    ]
    .concat();
    Report {
        root: roots.root.clone(),
        topology: seen.topology.ok(),
        instructions: seen.processor.instructions,
        lane_waits: seen.lane_waits,
        work_queues: queues::all(seen.survey),
        findings,
    }
}
