//! A queue described by hand, where sysfs does not: in containers that get a device node and nothing else.

use std::fmt;
use std::path::PathBuf;

use super::super::abi::{GenCap, OpCap, Opcode, Version, limits};
use super::{Mode, WorkQueue};

/// What an operator knows of a queue. Everything but node and mode has a cautious default.
///
/// Wrong values are not found out here: too large a size makes a dedicated queue drop descriptors, too large a transfer is refused by the
/// device, operations that it lacks are refused as well. Values are in sysfs on the host, in the files of the fields' names.
///
/// ```
/// use twolane::offload::dsa::discover::{Explicit, Mode};
///
/// let queue = Explicit::new("/dev/dsa/wq0.0", Mode::Dedicated).size(32).queue().unwrap();
/// assert_eq!(queue.depth(), 32);
/// assert!(Explicit::new("wq0.0", Mode::Shared).queue().is_err(), "a path that depends on the working directory");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Explicit {
    node: PathBuf,
    mode: Mode,
    size: u32,
    max_transfer_size: u64,
    max_batch_size: u32,
    block_on_fault: bool,
    operations: OpCap,
    capabilities: GenCap,
    version: Version,
    numa_node: Option<u32>,
}

/// Operations of version 1.0 that every device known to us has: without batches, which may be refused, and delta records, which some lack.
const CAUTIOUS: OpCap = OpCap::of(&[
    Opcode::NOOP,
    Opcode::DRAIN,
    Opcode::MEMMOVE,
    Opcode::MEMFILL,
    Opcode::COMPARE,
    Opcode::COMPVAL,
    Opcode::DUALCAST,
    Opcode::CRCGEN,
    Opcode::COPY_CRC,
    Opcode::CFLUSH,
]);

impl Explicit {
    /// Entries that a queue is taken to have.
    pub const SIZE: u32 = 16;

    /// A queue with the driver's defaults: 16 entries, transfers of 2 MiB, no batches, no capability beyond the specification's least.
    pub fn new(node: impl Into<PathBuf>, mode: Mode) -> Self {
        Self {
            node: node.into(),
            mode,
            size: Self::SIZE,
            max_transfer_size: limits::DEFAULT_MAX_TRANSFER,
            max_batch_size: 0,
            block_on_fault: false,
            operations: CAUTIOUS,
            capabilities: GenCap(0).with_max_transfer_size(1 << 31).with_max_batch_size(1 << 10),
            version: Version::V1_0,
            numa_node: None,
        }
    }

    /// Entries; of a shared queue its threshold. At least 1. Default: [`SIZE`](Self::SIZE).
    pub fn size(mut self, entries: u32) -> Self {
        self.size = entries;
        self
    }

    /// The largest transfer, in bytes. At least 1. Default: 2 MiB.
    pub fn max_transfer_size(mut self, bytes: u64) -> Self {
        self.max_transfer_size = bytes;
        self
    }

    /// The largest batch, in descriptors; adds [`Opcode::BATCH`] to the operations if it is not 0. Default: 0, no batches.
    pub fn max_batch_size(mut self, descriptors: u32) -> Self {
        self.max_batch_size = descriptors;
        self
    }

    /// Whether descriptors may block on a fault. Default: no.
    pub fn block_on_fault(mut self, allowed: bool) -> Self {
        self.block_on_fault = allowed;
        self
    }

    /// Operations that it takes (`op_config`, `op_cap`). Default: those of version 1.0 without batches, delta records and DIF.
    pub fn operations(mut self, operations: OpCap) -> Self {
        self.operations = operations;
        self
    }

    /// The device's capabilities (`gen_cap`). Default: none, so that overlapping copies and cache control are not used.
    pub fn capabilities(mut self, capabilities: GenCap) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// The device's version. Default: 1.0.
    pub fn version(mut self, version: Version) -> Self {
        self.version = version;
        self
    }

    /// The device's NUMA node. Default: not known, which is near to all.
    pub fn numa_node(mut self, node: u32) -> Self {
        self.numa_node = Some(node);
        self
    }

    /// The queue, as [`find`](super::find) would have described it. The node is not looked at.
    ///
    /// # Errors
    /// [`ExplicitError`] if a value is out of range, or the node's path is not absolute.
    pub fn queue(self) -> Result<WorkQueue, ExplicitError> {
        let refuse = |field, value: String, want| Err(ExplicitError { node: self.node.clone(), field, value, want });
        if !self.node.is_absolute() {
            return refuse("node", self.node.display().to_string(), "an absolute path");
        }
        let Some(name) = self.node.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            return refuse("node", self.node.display().to_string(), "the path of a device node");
        };
        if self.size == 0 {
            return refuse("size", "0".into(), "at least 1 entry");
        }
        let transfer_max = self.capabilities.max_transfer_size();
        if self.max_transfer_size == 0 || self.max_transfer_size > transfer_max {
            let want = "at least 1 byte, and no more than the device's capabilities allow";
            return refuse("max_transfer_size", self.max_transfer_size.to_string(), want);
        }
        if self.max_batch_size > self.capabilities.max_batch_size() {
            let want = "no more than the device's capabilities allow";
            return refuse("max_batch_size", self.max_batch_size.to_string(), want);
        }
        let batches = self.max_batch_size > 0;
        Ok(WorkQueue {
            name,
            device: String::new(),
            label: String::new(),
            node: self.node,
            sysfs: None,
            mode: self.mode,
            size: self.size,
            threshold: None,
            max_transfer_size: self.max_transfer_size,
            max_batch_size: self.max_batch_size,
            block_on_fault: self.block_on_fault,
            page_requests: true,
            operations: if batches { self.operations.with(Opcode::BATCH) } else { self.operations },
            capabilities: self.capabilities,
            version: self.version,
            numa_node: self.numa_node,
            engines: None,
            clients: None,
            occupancy: None,
            write_retries: None,
        })
    }
}

/// A queue was described wrongly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExplicitError {
    /// The queue's node.
    pub node: PathBuf,
    /// The method of [`Explicit`].
    pub field: &'static str,
    /// What it was given.
    pub value: String,
    /// What it takes.
    pub want: &'static str,
}

impl fmt::Display for ExplicitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, field, value, want } = self;
        write!(f, "work queue {}: {field} is {value}: it takes {want}", node.display())
    }
}

impl std::error::Error for ExplicitError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_cautious() {
        let queue = Explicit::new("/dev/dsa/wq3.1", Mode::Shared).queue().unwrap();
        assert_eq!((queue.name.as_str(), queue.depth(), queue.batch_max()), ("wq3.1", 16, 0));
        assert_eq!((queue.max_transfer_size, queue.block_on_fault), (2 << 20, false));
        assert!(queue.takes(Opcode::MEMMOVE) && !queue.takes(Opcode::CR_DELTA) && !queue.takes(Opcode::BATCH));
        assert!(queue.is_near(Some(7)));
        let batches = Explicit::new("/dev/dsa/wq3.1", Mode::Shared).max_batch_size(8).queue().unwrap();
        assert_eq!(batches.batch_max(), 8);
    }

    #[test]
    fn wrong_values_are_named() {
        let queue = || Explicit::new("/dev/dsa/wq0.0", Mode::Dedicated);
        for (explicit, field, value) in [
            (queue().size(0), "size", "0"),
            (queue().max_transfer_size(0), "max_transfer_size", "0"),
            (queue().max_transfer_size(1 << 32), "max_transfer_size", "4294967296"),
            (queue().max_batch_size(2_000), "max_batch_size", "2000"),
            (Explicit::new("wq0.0", Mode::Shared), "node", "wq0.0"),
            (Explicit::new("/", Mode::Shared), "node", "/"),
        ] {
            let error = explicit.queue().unwrap_err();
            assert_eq!((error.field, error.value.as_str()), (field, value));
            assert!(error.to_string().contains(field), "{error}");
        }
    }
}
