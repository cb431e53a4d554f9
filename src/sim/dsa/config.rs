//! What device is it? Its capabilities, queues, groups and engines, and the kernel in front of it.

use std::fmt;

use crate::offload::dsa::abi::{GenCap, OpCap, Opcode, Version, limits};

/// A device to build. Start from [`v1`](DeviceConfig::v1) or [`v2`](DeviceConfig::v2) and change what matters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceConfig {
    /// The version of the specification.
    pub version: Version,
    /// General capabilities.
    pub gencap: GenCap,
    /// The operations that it has.
    pub opcap: OpCap,
    /// Engines a group, 1 to 4 each. A queue belongs to one group.
    pub groups: Vec<u32>,
    /// The work queues.
    pub queues: Vec<QueueConfig>,
    /// The kernel that stands between `write(2)` and the device.
    pub kernel: KernelProfile,
}

/// A work queue.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct QueueConfig {
    /// Who may submit, and how.
    pub mode: QueueMode,
    /// Entries.
    pub size: u32,
    /// Shared queues: from this occupancy on, user submissions are told to retry.
    pub threshold: u32,
    /// The largest transfer, in bytes.
    pub max_transfer: u64,
    /// The largest batch, in descriptors.
    pub max_batch: u32,
    /// Whether descriptors may block on faults.
    pub block_on_fault: bool,
    /// Whether the queue makes no page requests at all, not even for records and lists. Linux's user queues do make them.
    pub prs_disable: bool,
    /// Whether the queue uses no address translation service.
    pub ats_disable: bool,
    /// The operations that the queue takes, on devices where that can be configured.
    pub op_config: Option<OpCap>,
    /// The group, by number.
    pub group: usize,
}

/// Who may submit to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueMode {
    /// One client, MOVDIR64B, no answer.
    Dedicated,
    /// Many clients, ENQCMD, which answers.
    Shared,
}

/// What the kernel's driver does about `open`, `mmap` and `write(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelProfile {
    /// `write(2)` is there at all.
    pub has_write: bool,
    /// Batches through `write(2)`: refused on every device that is not safe for users, or on version 1 devices only.
    pub refuses_batch: RefusesBatch,
    /// Whether the caller has CAP_SYS_RAWIO (or the kernel does not ask for it): without, `mmap` is refused.
    pub may_map: bool,
    /// A caller in another address space than the opener's (a forked child) is refused.
    pub checks_mm: bool,
    /// How often ENQCMDS is tried for one descriptor.
    pub enqcmds_retries: u32,
}

/// Which devices get no batches through `write(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RefusesBatch {
    /// Those of version 1 (Linux 6.16 and later).
    Version1,
    /// All (Linux 6.10 to 6.15, and the stable branches with the same fix).
    Always,
}

impl KernelProfile {
    /// Linux before 6.10 (and stable before May 2024): everybody maps, nobody writes.
    pub const BEFORE_6_10: Self = Self {
        has_write: false,
        refuses_batch: RefusesBatch::Always,
        may_map: true,
        checks_mm: false,
        enqcmds_retries: ENQCMDS_RETRIES,
    };
    /// Linux 6.12, without CAP_SYS_RAWIO: `write(2)` alone, and no batches through it.
    pub const V6_12: Self = Self {
        has_write: true,
        refuses_batch: RefusesBatch::Always,
        may_map: false,
        checks_mm: true,
        enqcmds_retries: ENQCMDS_RETRIES,
    };
    /// Linux 6.16, without CAP_SYS_RAWIO: version 1 devices get no batches through `write(2)`.
    pub const V6_16: Self = Self { refuses_batch: RefusesBatch::Version1, ..Self::V6_12 };

    /// The caller has CAP_SYS_RAWIO.
    #[must_use]
    pub const fn privileged(self) -> Self {
        Self { may_map: true, ..self }
    }
}

/// The driver's default for `enqcmds_retries` (Linux, `IDXD_ENQCMDS_RETRIES`).
const ENQCMDS_RETRIES: u32 = 32;

impl QueueConfig {
    /// A shared queue of so many entries, all of them for users; limits as the kernel's defaults, largest batch 32.
    pub fn shared(size: u32) -> Self {
        Self {
            mode: QueueMode::Shared,
            size,
            threshold: size,
            max_transfer: limits::DEFAULT_MAX_TRANSFER,
            max_batch: limits::DEFAULT_MAX_BATCH,
            block_on_fault: false,
            prs_disable: false,
            ats_disable: false,
            op_config: None,
            group: 0,
        }
    }

    /// A dedicated queue of so many entries.
    pub fn dedicated(size: u32) -> Self {
        Self { mode: QueueMode::Dedicated, threshold: 0, ..Self::shared(size) }
    }

    /// Shared queues: tells users to retry from this occupancy on.
    #[must_use]
    pub fn threshold(mut self, entries: u32) -> Self {
        self.threshold = entries;
        self
    }

    /// The largest transfer, in bytes.
    #[must_use]
    pub fn max_transfer(mut self, bytes: u64) -> Self {
        self.max_transfer = bytes;
        self
    }

    /// The largest batch, in descriptors.
    #[must_use]
    pub fn max_batch(mut self, descriptors: u32) -> Self {
        self.max_batch = descriptors;
        self
    }

    /// Whether descriptors may block on faults.
    #[must_use]
    pub fn block_on_fault(mut self, on: bool) -> Self {
        self.block_on_fault = on;
        self
    }

    /// Whether the queue makes no page requests at all.
    #[must_use]
    pub fn prs_disable(mut self, on: bool) -> Self {
        self.prs_disable = on;
        self
    }

    /// Which operations the queue takes.
    #[must_use]
    pub fn op_config(mut self, operations: OpCap) -> Self {
        self.op_config = Some(operations);
        self
    }

    /// The group that it belongs to.
    #[must_use]
    pub fn group(mut self, group: usize) -> Self {
        self.group = group;
        self
    }
}

/// What DSA 1.0 has (specification table 8-2).
pub(crate) const OPERATIONS_1_0: OpCap = OpCap::of(&[
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

/// What Sapphire Rapids says of itself (github.com/intel/idxd-config, issue 40).
const GENCAP_1_0: GenCap = GenCap(0x40_915f_0107);

impl DeviceConfig {
    /// A device as in 4th and 5th generation Xeons: all operations of 1.0, one group of four engines, no queue yet. Linux 6.12, privileged.
    pub fn v1() -> Self {
        Self {
            version: Version::V1_0,
            gencap: GENCAP_1_0,
            opcap: OPERATIONS_1_0,
            groups: vec![ENGINES_MAX],
            queues: Vec::new(),
            kernel: KernelProfile::V6_12.privileged(),
        }
    }

    /// A device of version 2: event log, translation fetch with stride, 16-byte fill, 64-bit CRC, DIX, fault operand, drain with readback, batches that continue.
    pub fn v2() -> Self {
        /// Bits 14:13: an event log of 64-byte entries.
        const EVENT_LOG: GenCap = GenCap(1 << 13);
        let more = [
            GenCap::FETCH_STRIDE,
            GenCap::DRAIN_READBACK,
            GenCap::FILL_16,
            GenCap::CRC_64,
            GenCap::FAULT_INFO,
            GenCap::BATCH_CONTINUATION,
            EVENT_LOG,
        ];
        Self {
            version: Version::V2_0,
            gencap: more.into_iter().fold(GENCAP_1_0, GenCap::union),
            opcap: OPERATIONS_1_0.with(Opcode::TRANSL_FETCH).with(Opcode::DIX_GEN),
            ..Self::v1()
        }
    }

    /// Adds a work queue. The first is number 0.
    #[must_use]
    pub fn queue(mut self, queue: QueueConfig) -> Self {
        self.queues.push(queue);
        self
    }

    /// Replaces the groups: how many engines each has.
    #[must_use]
    pub fn groups(mut self, engines: &[u32]) -> Self {
        self.groups = engines.to_vec();
        self
    }

    /// Replaces the general capabilities.
    #[must_use]
    pub fn gencap(mut self, capabilities: GenCap) -> Self {
        self.gencap = capabilities;
        self
    }

    /// Replaces the operations that the device has.
    #[must_use]
    pub fn opcap(mut self, operations: OpCap) -> Self {
        self.opcap = operations;
        self
    }

    /// Replaces the kernel.
    #[must_use]
    pub fn kernel(mut self, kernel: KernelProfile) -> Self {
        self.kernel = kernel;
        self
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let wrong = |what: String, want: &'static str| Err(ConfigError { what, want });
        if self.queues.is_empty() {
            return wrong("no work queue".into(), "at least one: DeviceConfig::queue");
        }
        if let Some(engines) = self.groups.iter().find(|engines| !(1..=ENGINES_MAX).contains(*engines)) {
            return wrong(format!("a group of {engines} engines"), "1 to 4");
        }
        for (number, queue) in self.queues.iter().enumerate() {
            let QueueConfig { mode, size, threshold, max_transfer, max_batch, group, .. } = queue;
            let at = |what: String| format!("queue {number}: {what}");
            if !(1..=QUEUE_SIZE_MAX).contains(size) {
                return wrong(at(format!("size {size}")), "1 to 128 entries");
            }
            if *mode == QueueMode::Shared && !(1..=*size).contains(threshold) {
                return wrong(at(format!("threshold {threshold}")), "1 to the queue's size");
            }
            let transfers = 1..=self.gencap.max_transfer_size();
            if !transfers.contains(max_transfer) {
                return wrong(at(format!("largest transfer {max_transfer}")), "1 to what GENCAP bits 20:16 say");
            }
            if !(1..=self.gencap.max_batch_size()).contains(max_batch) {
                return wrong(at(format!("largest batch {max_batch}")), "1 to what GENCAP bits 24:21 say");
            }
            if *group >= self.groups.len() {
                return wrong(at(format!("group {group}")), "a group of the device: DeviceConfig::groups");
            }
            if queue.block_on_fault && !self.gencap.contains(GenCap::BLOCK_ON_FAULT) {
                return wrong(at("block on fault".into()), "off: GENCAP bit 0 is 0");
            }
        }
        Ok(())
    }
}

/// Engines of a device, and of a group, at most.
const ENGINES_MAX: u32 = 4;
/// Entries of all queues of a device together, as 4th generation Xeons have them; what one queue can have at most.
const QUEUE_SIZE_MAX: u32 = 128;

/// A device that cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    what: String,
    want: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a DSA model with {}: it takes {}", self.what, self.want)
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_cannot_be_is_refused_with_the_value() {
        let one = || DeviceConfig::v1().queue(QueueConfig::shared(16));
        let with = |queue| DeviceConfig::v1().queue(queue);
        let cases = [
            (one(), Ok(())),
            (DeviceConfig::v2().queue(QueueConfig::dedicated(128)), Ok(())),
            (DeviceConfig::v1(), Err("no work queue")),
            (one().groups(&[5]), Err("a group of 5 engines")),
            (one().groups(&[0]), Err("a group of 0 engines")),
            (one().groups(&[]), Err("queue 0: group 0")),
            (with(QueueConfig::shared(129)), Err("queue 0: size 129")),
            (with(QueueConfig::shared(8).threshold(9)), Err("queue 0: threshold 9")),
            (with(QueueConfig::shared(8).max_transfer(0)), Err("queue 0: largest transfer 0")),
            (with(QueueConfig::shared(8).max_transfer(1 << 32)), Err("queue 0: largest transfer 4294967296")),
            (with(QueueConfig::shared(8).max_batch(2048)), Err("queue 0: largest batch 2048")),
            (
                with(QueueConfig::shared(8).block_on_fault(true)).gencap(GenCap(0x91 << 16)),
                Err("queue 0: largest transfer 2097152"),
            ),
        ];
        for (config, want) in cases {
            let got = config.check().map_err(|error| error.what);
            assert_eq!(got, want.map_err(String::from));
        }
    }
}
