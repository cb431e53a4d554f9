//! A work queue that can be used: everything that a submitter must know of it.

use std::fmt;
use std::path::PathBuf;

use super::super::abi::{GenCap, OpCap, Opcode, Version};
use super::Share;

/// How descriptors get into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// One process has it, and counts what it has submitted: the device drops what is too much.
    Dedicated,
    /// Many processes have it, and the device refuses what is too much.
    Shared,
}

impl Mode {
    /// As sysfs has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dedicated => "dedicated",
            Self::Shared => "shared",
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        [Self::Dedicated, Self::Shared].into_iter().find(|mode| mode.name() == text)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A work queue that this process can use, as it was when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkQueue {
    /// `wq0.1`: queue 1 of device 0.
    pub name: String,
    /// `dsa0`.
    pub device: String,
    /// What its administrator calls it; may be empty.
    pub label: String,
    /// What to open.
    pub node: PathBuf,
    /// Its directory in sysfs; `None` of a queue that was described by hand.
    pub sysfs: Option<PathBuf>,
    /// How descriptors get in.
    pub mode: Mode,
    /// Entries that it has.
    pub size: u32,
    /// Of a shared queue: entries from which on it refuses those who are not privileged.
    pub threshold: Option<u32>,
    /// The largest transfer, in bytes.
    pub max_transfer_size: u64,
    /// The largest batch, in descriptors, where there are batches: see [`batch_max`](Self::batch_max).
    pub max_batch_size: u32,
    /// Whether descriptors may block on a fault.
    pub block_on_fault: bool,
    /// Whether the device may have absent pages served (`prs_disable` is not 1).
    pub page_requests: bool,
    /// Operations that it takes from this process.
    pub operations: OpCap,
    /// The device's general capabilities.
    pub capabilities: GenCap,
    /// The device's version.
    pub version: Version,
    /// The device's NUMA node, where that is known.
    pub numa_node: Option<u32>,
    /// Engines of its group, where that is known.
    pub engines: Option<u32>,
    /// Who else has it open, where that is known.
    pub clients: Option<u32>,
    /// Entries that were taken, where the device tells.
    pub occupancy: Option<u32>,
    /// How often the kernel tries a shared queue that is full before write(2) gives up, where that is known.
    pub write_retries: Option<u32>,
}

impl WorkQueue {
    /// How many descriptors it holds for those who are not privileged. A batch is one.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match self.mode {
            Mode::Dedicated => self.size,
            Mode::Shared => self.threshold.map_or(self.size, |threshold| threshold.min(self.size)),
        }
    }

    /// Whether it takes an operation.
    #[must_use]
    pub const fn takes(&self, opcode: Opcode) -> bool {
        self.operations.contains(opcode)
    }

    /// The largest batch, in descriptors; 0 where it takes none from this process. The smallest is
    /// [`batch_min`](Self::batch_min).
    #[must_use]
    pub const fn batch_max(&self) -> u32 {
        if self.takes(Opcode::BATCH) && self.max_batch_size >= self.batch_min() { self.max_batch_size } else { 0 }
    }

    /// The smallest batch that is legal, in descriptors.
    #[must_use]
    pub const fn batch_min(&self) -> u32 {
        if self.capabilities.contains(GenCap::BATCH_1) { 1 } else { super::super::abi::limits::BATCH_MIN }
    }

    /// Whether it is on a node, or may be: where either is not known, it may.
    #[must_use]
    pub fn is_near(&self, node: Option<u32>) -> bool {
        node.is_none() || self.numa_node.is_none() || self.numa_node == node
    }
}

/// `dsa0/wq0.1 (dedicated, 32 entries, NUMA node 0)`
impl fmt::Display for WorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { device, name, mode, .. } = self;
        write!(f, "{device}/{name} ({mode}, {} entries", self.depth())?;
        match self.numa_node {
            Some(node) => write!(f, ", NUMA node {node})"),
            None => f.write_str(")"),
        }
    }
}

impl Share {
    /// The queue that it is a share of.
    #[must_use]
    pub fn of<'a>(&self, queues: &'a [WorkQueue]) -> Option<&'a WorkQueue> {
        queues.get(self.queue)
    }
}
