//! Why a pair cannot be probed at all.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::topology::{CpuList, PinError};

/// Why a pair cannot be probed. A measurement that gives no answer is not an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum ProbeError {
    /// Both cpus are the same one.
    SameCpu {
        /// The cpu.
        cpu: usize,
    },
    /// The calling thread may not run there: the affinity mask or the cpuset leaves it out, or there is no such cpu.
    NotAllowed {
        /// The cpu.
        cpu: usize,
        /// Where it may run.
        allowed: CpuList,
    },
    /// The affinity mask could not be read. Seen in sandboxes.
    Mask(io::Error),
    /// A duration is out of range.
    Knob {
        /// The method.
        knob: &'static str,
        /// What it was given.
        value: Duration,
        /// The least it takes.
        least: Duration,
        /// The most it takes.
        most: Duration,
    },
    /// A thread could not be bound to its cpu. Seen when mask or cpuset change meanwhile.
    Pin(PinError),
    /// The kernel refused a thread (`RLIMIT_NPROC`, `pids.max`, memory).
    Thread(io::Error),
    /// A thread did not get to run on its cpu in time. Seen where a thread of real-time priority has the cpu, or a quota is
    /// used up.
    Starved {
        /// The cpu.
        cpu: usize,
        /// How long it was waited for.
        waited: Duration,
    },
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameCpu { cpu } => {
                write!(f, "cpu {cpu} is named twice: a probe takes two different cpus, and compares them")
            }
            Self::NotAllowed { cpu, allowed } => write!(
                f,
                "cpu {cpu} cannot be probed: this thread may run on {allowed}; name two of these, or widen the affinity \
                 mask (taskset -c) or the cpuset"
            ),
            Self::Mask(error) => write!(f, "the affinity mask of this thread cannot be read: {error}"),
            Self::Knob { knob, value, least, most } => {
                write!(f, "{knob} is {value:?}: it takes {least:?} to {most:?}")
            }
            Self::Pin(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "the kernel refused a thread to probe with: {error}"),
            Self::Starved { cpu, waited } => write!(
                f,
                "a thread on cpu {cpu} did not run within {waited:?}: something of higher priority has the cpu, or the \
                 quota of the control group is used up; probe when it is free"
            ),
        }
    }
}

impl std::error::Error for ProbeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Mask(error) | Self::Thread(error) => Some(error),
            Self::Pin(error) => Some(error),
            _ => None,
        }
    }
}
