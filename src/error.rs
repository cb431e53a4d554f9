//! What can go wrong between a builder and a running lane, and why work is refused.

use std::fmt;
use std::io;

use crate::offload::dsa::discover::NoWorkQueue;
use crate::placement::{PlanError, Role};
use crate::topology::{PinError, TopologyError};
use crate::wait::SettingsError;

/// Why a runtime could not be built or did not take a poller. The message says what was found, where, and what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The machine could not be read. Seen in sandboxes without `/sys`; `Placement::Unpinned` needs the least of it.
    Topology(TopologyError),
    /// The placement asked for does not fit the machine, or what this process may use of it.
    Plan(PlanError),
    /// A bound on waiting is out of range.
    Wait(SettingsError),
    /// Another knob of the builder is out of range.
    Knob {
        /// The builder's method.
        knob: &'static str,
        /// What it was given.
        value: String,
        /// What it takes.
        want: &'static str,
    },
    /// An environment variable `TWOLANE_*` has a value, or a name, that means nothing.
    Environment {
        /// The variable.
        name: String,
        /// Its value.
        value: String,
        /// What it takes.
        want: String,
    },
    /// A lane could not be bound to its cpu. Seen when the affinity mask or cpuset changes while the runtime starts, and for isolated cpus
    /// outside the process's cpuset. `Builder::allow_unpinned` runs it unbound.
    Pin {
        /// The lane.
        lane: usize,
        /// What the kernel said.
        source: PinError,
    },
    /// The kernel refused a thread (`RLIMIT_NPROC`, `pids.max`, memory).
    Thread {
        /// The lane it was for.
        lane: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// `Where` names a pair or lane that does not exist.
    NoSuchLane {
        /// What was asked for, as "pair 3" or "lane 7".
        asked: String,
        /// How many there are, as "2 pairs" or "4 lanes".
        there_are: String,
    },
    /// `Where::Lane` names a lane that is planned for tasks.
    NotForPollers {
        /// The lane.
        lane: usize,
        /// What it is for.
        role: Role,
    },
    /// DSA was demanded, and there is no work queue that this process can use. The message names every device and queue that was found, why
    /// it cannot be used, and what to type. Without the demand the CPU does the copying.
    NoWorkQueue(Box<NoWorkQueue>),
    /// The runtime has been shut down.
    Shutdown,
    /// The process is a child that fork(2) made of the one with the lanes. Build a runtime of its own.
    Forked,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topology(error) => write!(f, "{error}"),
            Self::Plan(error) => write!(f, "{error}"),
            Self::Wait(error) => write!(f, "{error}"),
            Self::Knob { knob, value, want } => write!(f, "{knob} is {value}: it takes {want}"),
            Self::Environment { name, value, want } => {
                write!(f, "environment variable {}={}: {want}", name.escape_debug(), value.escape_debug())
            }
            Self::Pin { lane, source } => {
                write!(f, "lane {lane}: {source}; choose other cpus, or run it unbound with `allow_unpinned(true)`")
            }
            Self::Thread { lane, source } => {
                write!(
                    f,
                    "lane {lane}: no thread ({source}); raise RLIMIT_NPROC or the cgroup's pids.max, or ask for fewer pairs"
                )
            }
            Self::NoSuchLane { asked, there_are } => write!(f, "there is no {asked}: the runtime has {there_are}"),
            Self::NotForPollers { lane, role } => {
                write!(
                    f,
                    "lane {lane} is planned for {role:?} and takes no pollers: use `Where::Pair` or a poll lane (see `Runtime::plan`)"
                )
            }
            Self::NoWorkQueue(none) => write!(f, "{none}"),
            Self::Shutdown => f.write_str("the runtime has been shut down"),
            Self::Forked => {
                f.write_str("this process was forked from the one that runs the lanes: build a runtime of its own")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Topology(error) => Some(error),
            Self::Plan(error) => Some(error),
            Self::Wait(error) => Some(error),
            Self::Pin { source, .. } => Some(source),
            Self::Thread { source, .. } => Some(source),
            Self::NoWorkQueue(none) => Some(&**none),
            _ => None,
        }
    }
}

impl From<TopologyError> for Error {
    fn from(error: TopologyError) -> Self {
        Self::Topology(error)
    }
}

impl From<NoWorkQueue> for Error {
    fn from(none: NoWorkQueue) -> Self {
        Self::NoWorkQueue(Box::new(none))
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Self {
        Self::Plan(error)
    }
}

impl From<SettingsError> for Error {
    fn from(error: SettingsError) -> Self {
        Self::Wait(error)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Thread { source, .. } => source.kind(),
            Error::Shutdown | Error::Forked => io::ErrorKind::BrokenPipe,
            Error::NoWorkQueue(_) => io::ErrorKind::NotFound,
            Error::Topology(_) | Error::Pin { .. } => io::ErrorKind::Other,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

/// Work that was not taken, with the reason.
pub struct Rejected<F> {
    because: RejectedBecause,
    work: F,
}

/// Why work was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RejectedBecause {
    /// As many tasks wait already as [`Builder::backlog_max`](crate::Builder::backlog_max) allows. Try again, or do it yourself.
    Full {
        /// The bound.
        backlog_max: usize,
    },
    /// The runtime ends.
    Shutdown,
    /// The process was forked; the lanes are the parent's.
    Forked,
}

impl<F> Rejected<F> {
    pub(crate) fn new(because: RejectedBecause, work: F) -> Self {
        Self { because, work }
    }

    /// Why.
    #[must_use]
    pub fn because(&self) -> RejectedBecause {
        self.because
    }

    /// The closure or future, as it was given.
    pub fn into_inner(self) -> F {
        self.work
    }
}

impl fmt::Display for RejectedBecause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { backlog_max } => write!(f, "{backlog_max} tasks wait already (`backlog_max`)"),
            Self::Shutdown => f.write_str("the runtime is being shut down"),
            Self::Forked => f.write_str("this process was forked from the one that runs the lanes"),
        }
    }
}

impl<F> fmt::Display for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the work was not taken: {}", self.because)
    }
}

impl<F> fmt::Debug for Rejected<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejected").field("because", &self.because).finish_non_exhaustive()
    }
}

impl<F> std::error::Error for Rejected<F> {}
