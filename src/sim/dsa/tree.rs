//! Writes what Linux shows of DSA devices, in `/sys/bus/dsa`, `/sys/bus/pci` and `/dev/dsa`, whole or broken.
//!
//! For [`find`](crate::offload::dsa::discover::find), for `twolane doctor`, and for programs of others: names, formats and links are the
//! kernel's (`Documentation/ABI/stable/sysfs-driver-dma-idxd`), so that `accel-config list` reads a tree that is mounted over `/sys/bus/dsa`.
//! Nodes are empty files: they can be opened and mapped, and every access to such a mapping is a SIGBUS.
//!
//! ```
//! use twolane::offload::dsa::discover::{find, Places};
//! use twolane::sim::dsa::tree::{Device, DsaTree, Queue};
//!
//! let dir = tempfile::tempdir()?;
//! let tree = DsaTree::new().device(Device::v1(0).queue(Queue::shared(16)).queue(Queue::dedicated(32).label("mine")));
//! let written = tree.write(dir.path())?;
//! assert_eq!(find(&written.places()).queues.len(), 2);
//!
//! written.set("dsa0/wq0.1/state", "disabled")?;
//! assert_eq!(find(&written.places()).skipped.len(), 1);
//! # Ok::<(), std::io::Error>(())
//! ```

mod write;

use std::io;
use std::path::{Path, PathBuf};

use crate::offload::dsa::abi::{GenCap, OpCap, Opcode, Version};
use crate::offload::dsa::discover::{Mode, Places};
use crate::sim::host::WrittenHost;

/// Devices of a machine.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct DsaTree {
    devices: Vec<Device>,
    analytics: Vec<u32>,
    kernel: Kernel,
}

/// What the kernel knows to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// Without `driver_name`, `op_config` and what came with them; bit maps as four words of 64 bits.
    Linux5,
    /// From 6.7 on.
    #[default]
    Linux6,
}

impl DsaTree {
    /// A machine without devices, on which the driver is loaded.
    pub fn new() -> Self {
        Self::default()
    }

    /// With another device. Its number is its name: no two of them may have the same.
    pub fn device(mut self, device: Device) -> Self {
        self.devices.push(device);
        self
    }

    /// With an analytics accelerator (IAA) on the same bus, `iax` and this number. They have odd numbers on real machines.
    pub fn analytics(mut self, number: u32) -> Self {
        self.analytics.push(number);
        self
    }

    /// As another kernel tells it.
    pub fn kernel(mut self, kernel: Kernel) -> Self {
        self.kernel = kernel;
        self
    }

    /// Writes `sys` and `dev` under `root`, beside what is there: a tree of [`host`](crate::sim::host), for example.
    ///
    /// # Errors
    /// What the file system said; that two devices have one number; that a device has more queues than it has room for.
    pub fn write(&self, root: &Path) -> io::Result<WrittenTree> {
        write::write(self, root)?;
        Ok(WrittenTree { files: WrittenHost::at(root), places: Places::under(root) })
    }
}

/// A device, configured and enabled.
#[derive(Clone, Debug)]
#[must_use]
pub struct Device {
    number: u32,
    version: Version,
    capabilities: GenCap,
    operations: OpCap,
    state: &'static str,
    pasid_enabled: bool,
    numa_node: i32,
    command_status: u32,
    engines: u32,
    queues: Vec<Queue>,
}

/// What a 4th-generation Xeon tells of itself (github.com/intel/idxd-config, issue 40).
const GENCAP_V1: GenCap = GenCap(0x40_915f_0107);

const OPERATIONS_V1: OpCap = OpCap::of(&[
    Opcode::NOOP,
    Opcode::BATCH,
    Opcode::DRAIN,
    Opcode::MEMMOVE,
    Opcode::MEMFILL,
    Opcode::COMPARE,
    Opcode::COMPVAL,
    Opcode::CR_DELTA,
    Opcode::AP_DELTA,
    Opcode::DUALCAST,
    Opcode::CRCGEN,
    Opcode::COPY_CRC,
    Opcode::DIF_CHECK,
    Opcode::DIF_INS,
    Opcode::DIF_STRP,
    Opcode::DIF_UPDT,
    Opcode::CFLUSH,
]);

/// Everything that version 2.0 offers within an address space; of no real device. The event log has entries of 64 bytes.
const GENCAP_V2: GenCap = GENCAP_V1
    .union(GenCap::COMMAND_CAP)
    .union(GenCap::DRAIN_READBACK)
    .union(GenCap::FETCH_STRIDE)
    .union(GenCap::FILL_16)
    .union(GenCap::CRC_64)
    .union(GenCap::FAULT_INFO)
    .union(GenCap(1 << 13))
    .union(GenCap::BATCH_CONTINUATION);

impl Device {
    /// Entries that the queues of a device share.
    pub const ENTRIES: u32 = 128;
    /// Queues that a device has, configured or not.
    pub const QUEUES: usize = 8;

    /// A device of a 4th- or 5th-generation Xeon: `dsa` and this number. Real numbers are even.
    pub fn v1(number: u32) -> Self {
        Self {
            number,
            version: Version::V1_0,
            capabilities: GENCAP_V1,
            operations: OPERATIONS_V1,
            state: "enabled",
            pasid_enabled: true,
            numa_node: 0,
            command_status: 0,
            engines: 4,
            queues: Vec::new(),
        }
    }

    /// A device with everything that version 2.0 offers within an address space.
    pub fn v2(number: u32) -> Self {
        let operations = OPERATIONS_V1.with(Opcode::TRANSL_FETCH).with(Opcode::DIX_GEN);
        Self { version: Version::V2_0, capabilities: GENCAP_V2, operations, ..Self::v1(number) }
    }

    /// With another queue: the first one is 0.
    pub fn queue(mut self, queue: Queue) -> Self {
        self.queues.push(queue);
        self
    }

    /// As a kernel tells it that refuses batches through write(2): without bit 1 of `op_cap` and `op_config`.
    pub fn without_batches(self) -> Self {
        let operations = self.operations.without(Opcode::BATCH);
        self.operations(operations)
    }

    /// With other operations.
    pub fn operations(mut self, operations: OpCap) -> Self {
        self.operations = operations;
        self
    }

    /// With other capabilities.
    pub fn capabilities(mut self, capabilities: GenCap) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// In another state: `disabled`, `halted`.
    pub fn state(mut self, state: &'static str) -> Self {
        self.state = state;
        self
    }

    /// On a kernel whose IOMMU is not in scalable mode.
    pub fn without_pasid(mut self) -> Self {
        self.pasid_enabled = false;
        self
    }

    /// On another NUMA node; -1 is not known.
    pub fn numa_node(mut self, node: i32) -> Self {
        self.numa_node = node;
        self
    }

    /// With what the last command came to, as in `linux/idxd.h`.
    pub fn command_status(mut self, code: u32) -> Self {
        self.command_status = code;
        self
    }

    /// With this many engines, all in group 0.
    pub fn engines(mut self, engines: u32) -> Self {
        self.engines = engines;
        self
    }
}

/// A queue, configured and enabled for user space, in group 0.
#[derive(Clone, Debug)]
#[must_use]
pub struct Queue {
    mode: Mode,
    size: u32,
    threshold: u32,
    label: String,
    state: &'static str,
    kind: &'static str,
    driver: &'static str,
    max_transfer_size: u64,
    max_batch_size: u32,
    block_on_fault: bool,
    ats_disable: bool,
    operations: Option<OpCap>,
    clients: u32,
    node_mode: Option<u32>,
}

impl Queue {
    fn new(mode: Mode, size: u32) -> Self {
        Self {
            mode,
            size,
            threshold: if mode == Mode::Shared { size } else { 0 },
            label: "twolane".into(),
            state: "enabled",
            kind: "user",
            driver: "user",
            max_transfer_size: 2 << 20,
            max_batch_size: 32,
            block_on_fault: false,
            ats_disable: false,
            operations: None,
            clients: 0,
            node_mode: Some(0o600),
        }
    }

    /// A dedicated queue of this many entries.
    pub fn dedicated(size: u32) -> Self {
        Self::new(Mode::Dedicated, size)
    }

    /// A shared queue of this many entries, all of which anybody may fill.
    pub fn shared(size: u32) -> Self {
        Self::new(Mode::Shared, size)
    }

    /// With another threshold.
    pub fn threshold(mut self, entries: u32) -> Self {
        self.threshold = entries;
        self
    }

    /// With another name of its administrator's.
    pub fn label(mut self, label: &str) -> Self {
        self.label = label.into();
        self
    }

    /// Not enabled. It has no node then.
    pub fn disabled(mut self) -> Self {
        self.state = "disabled";
        self
    }

    /// The kernel's own.
    pub fn for_kernel(mut self) -> Self {
        (self.kind, self.driver) = ("kernel", "dmaengine");
        self
    }

    /// With another largest transfer, in bytes.
    pub fn max_transfer_size(mut self, bytes: u64) -> Self {
        self.max_transfer_size = bytes;
        self
    }

    /// With another largest batch, in descriptors.
    pub fn max_batch_size(mut self, descriptors: u32) -> Self {
        self.max_batch_size = descriptors;
        self
    }

    /// Whose descriptors may block on a fault.
    pub fn block_on_fault(mut self) -> Self {
        self.block_on_fault = true;
        self
    }

    /// Without address translation service: failed writes are not told.
    pub fn ats_disabled(mut self) -> Self {
        self.ats_disable = true;
        self
    }

    /// Configured for these operations. Version 2.0 has a file for it (`op_config`).
    pub fn operations(mut self, operations: OpCap) -> Self {
        self.operations = Some(operations);
        self
    }

    /// That this many have open.
    pub fn clients(mut self, clients: u32) -> Self {
        self.clients = clients;
        self
    }

    /// With other permission bits on its node. The kernel's default is `0o600`.
    pub fn node_mode(mut self, mode: u32) -> Self {
        self.node_mode = Some(mode);
        self
    }

    /// Without a node.
    pub fn without_node(mut self) -> Self {
        self.node_mode = None;
        self
    }
}

/// A tree on disk: to be read, and to be broken.
#[derive(Clone, Debug)]
pub struct WrittenTree {
    files: WrittenHost,
    places: Places,
}

impl WrittenTree {
    /// Where the tree is, as [`find`](crate::offload::dsa::discover::find) takes it.
    #[must_use]
    pub fn places(&self) -> Places {
        self.places.clone()
    }

    /// All of its files, with paths from the root on: `sys/bus/dsa/devices/dsa0/wq0.0/state`, `dev/dsa/wq0.0`.
    #[must_use]
    pub fn files(&self) -> &WrittenHost {
        &self.files
    }

    /// The path of an attribute, `dsa0/wq0.0/state` for example, from the root on.
    #[must_use]
    pub fn attribute(&self, attribute: &str) -> String {
        format!("sys/bus/dsa/devices/{attribute}")
    }

    /// The node of a queue.
    #[must_use]
    pub fn node(&self, queue: &str) -> PathBuf {
        self.places.nodes.join(queue)
    }

    /// Gives an attribute another text, with a newline as the kernel's.
    ///
    /// # Errors
    /// As [`WrittenHost::replace`]: the attribute must be there.
    pub fn set(&self, attribute: &str, text: &str) -> io::Result<()> {
        self.set_raw(attribute, format!("{text}\n").as_bytes())
    }

    /// Gives an attribute another content, byte for byte.
    ///
    /// # Errors
    /// As [`set`](Self::set).
    pub fn set_raw(&self, attribute: &str, content: &[u8]) -> io::Result<()> {
        self.files.replace(&self.attribute(attribute), content)
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// As [`WrittenHost::remove`].
    pub fn remove(&self, attribute: &str) -> io::Result<()> {
        self.files.remove(&self.attribute(attribute))
    }

    /// Makes an attribute unreadable, for root as well.
    ///
    /// # Errors
    /// As [`WrittenHost::make_unreadable`].
    pub fn make_unreadable(&self, attribute: &str) -> io::Result<()> {
        self.files.make_unreadable(&self.attribute(attribute))
    }
}
