//! Whether a device, and a queue, can be used, from what was read of them. Pure.

use std::path::PathBuf;

use super::command::CommandStatus;
use super::identity::Owner;
use super::queue::{Mode, WorkQueue};
use super::skipped::Why;
use crate::offload::dsa::abi::{GenCap, OpCap, Version, limits};

/// A file that may be missing.
type Read<T> = Result<Option<T>, Why>;

/// What was read of a device.
#[derive(Clone, Debug)]
pub(super) struct DeviceRead {
    pub(super) state: Read<String>,
    pub(super) command: Option<CommandStatus>,
    pub(super) pasid_enabled: Read<bool>,
    pub(super) version: Read<Version>,
    pub(super) capabilities: Result<GenCap, Why>,
    pub(super) operations: Result<OpCap, Why>,
    pub(super) numa_node: Option<u32>,
}

/// What its queues must know of a device that can be used.
#[derive(Clone, Debug)]
pub(super) struct DeviceFacts {
    version: Version,
    capabilities: GenCap,
    operations: OpCap,
    numa_node: Option<u32>,
    command: Option<CommandStatus>,
}

/// What was read of a queue.
#[derive(Clone, Debug)]
pub(super) struct QueueRead {
    pub(super) name: String,
    pub(super) device: String,
    pub(super) label: String,
    pub(super) sysfs: PathBuf,
    pub(super) state: Read<String>,
    pub(super) kind: Read<String>,
    pub(super) driver: Read<String>,
    pub(super) mode: Result<Mode, Why>,
    pub(super) size: Result<u32, Why>,
    pub(super) threshold: Read<u32>,
    pub(super) max_transfer_size: Read<u64>,
    pub(super) max_batch_size: Read<u32>,
    pub(super) block_on_fault: Read<bool>,
    pub(super) prs_disable: Read<bool>,
    pub(super) ats_disable: Read<bool>,
    pub(super) op_config: Read<OpCap>,
    pub(super) engines: Option<u32>,
    pub(super) clients: Option<u32>,
    pub(super) occupancy: Option<u32>,
    pub(super) write_retries: Option<u32>,
}

/// A device node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Whose it is.
    pub(crate) owner: Owner,
    /// Whether this process may open it; `None` where that is not known.
    pub(crate) open_to_us: Option<bool>,
}

/// A device. The gravest obstacle first.
pub(super) fn device(read: DeviceRead) -> Result<DeviceFacts, Why> {
    let DeviceRead { state, command, pasid_enabled, version, capabilities, operations, numa_node } = read;
    let state = state?.ok_or(Why::Missing { file: "state" })?;
    if state == "halted" {
        return Err(Why::DeviceHalted);
    }
    if pasid_enabled? == Some(false) {
        return Err(Why::NoPasid);
    }
    if state != "enabled" {
        return Err(Why::DeviceNotEnabled { state, command });
    }
    Ok(DeviceFacts {
        version: version?.unwrap_or(Version::V1_0),
        capabilities: capabilities?,
        operations: operations?,
        numa_node,
        command,
    })
}

/// A queue of a device. What somebody must decide comes first (whose it is), then what must be switched on, then what is missing. A queue of
/// a device that cannot be used is judged as far as that goes.
pub(super) fn queue(
    read: QueueRead,
    device: &Result<DeviceFacts, Why>,
    path: PathBuf,
    node: Option<Node>,
) -> Result<WorkQueue, Why> {
    let kind = read.kind?.ok_or(Why::Missing { file: "type" })?;
    if kind == "none" && read.state == Ok(Some("disabled".into())) {
        return Err(Why::Unconfigured);
    }
    // Kernels before 6.7 have no driver_name.
    let driver = read.driver?.unwrap_or_default();
    if kind != "user" || !matches!(driver.as_str(), "" | "user") {
        return Err(Why::NotForUsers { kind, driver });
    }
    let state = read.state?.ok_or(Why::Missing { file: "state" })?;
    if state != "enabled" {
        let command = device.as_ref().ok().and_then(|device| device.command);
        return Err(Why::NotEnabled { state, command });
    }
    let mode = read.mode?;
    let size = read.size?;
    if size == 0 {
        return Err(Why::NoSize);
    }
    // Dedicated queues have none, whatever the file says.
    let threshold = if mode == Mode::Shared { read.threshold? } else { None };
    if threshold == Some(0) {
        return Err(Why::NoThreshold);
    }
    if read.ats_disable? == Some(true) {
        return Err(Why::HidesFaults);
    }
    let max_transfer_size = read.max_transfer_size?.unwrap_or(limits::DEFAULT_MAX_TRANSFER);
    if max_transfer_size == 0 {
        return Err(Why::NoTransfer);
    }
    let max_batch_size = read.max_batch_size?.unwrap_or(limits::DEFAULT_MAX_BATCH);
    let block_on_fault = read.block_on_fault? == Some(true);
    let page_requests = read.prs_disable? != Some(true);
    let op_config = read.op_config?;
    let node = node.ok_or(Why::NoNode { node: path.clone() })?;
    if node.open_to_us == Some(false) {
        let Owner { mode, uid, gid } = node.owner;
        return Err(Why::NotPermitted { node: path, mode, uid, gid });
    }
    let device = device.as_ref().map_err(Clone::clone)?;
    Ok(WorkQueue {
        name: read.name,
        device: read.device,
        label: read.label,
        node: path,
        sysfs: Some(read.sysfs),
        mode,
        size,
        threshold,
        max_transfer_size: max_transfer_size.min(device.capabilities.max_transfer_size()),
        max_batch_size: max_batch_size.min(device.capabilities.max_batch_size()),
        block_on_fault: block_on_fault && device.capabilities.contains(GenCap::BLOCK_ON_FAULT),
        page_requests,
        // The queue's map is the device's where it was not configured; bit by bit both must allow.
        operations: op_config.map_or(device.operations, |config| config.intersection(&device.operations)),
        capabilities: device.capabilities,
        version: device.version,
        numa_node: device.numa_node,
        engines: read.engines,
        clients: read.clients,
        occupancy: read.occupancy,
        write_retries: read.write_retries,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::Opcode;

    fn good_device() -> DeviceRead {
        DeviceRead {
            state: Ok(Some("enabled".into())),
            command: Some(CommandStatus(0)),
            pasid_enabled: Ok(Some(true)),
            version: Ok(Some(Version::V2_0)),
            capabilities: Ok(GenCap(0x40_915f_0107)),
            operations: Ok(OpCap::of(&[Opcode::BATCH, Opcode::MEMMOVE, Opcode::CRCGEN])),
            numa_node: Some(1),
        }
    }

    fn good_queue() -> QueueRead {
        let text = |text: &str| Ok(Some(text.to_owned()));
        QueueRead {
            name: "wq1.0".into(),
            device: "dsa1".into(),
            label: "mine".into(),
            sysfs: "/s/dsa1/wq1.0".into(),
            state: text("enabled"),
            kind: text("user"),
            driver: text("user"),
            mode: Ok(Mode::Shared),
            size: Ok(32),
            threshold: Ok(Some(20)),
            max_transfer_size: Ok(Some(1 << 21)),
            max_batch_size: Ok(Some(32)),
            block_on_fault: Ok(Some(true)),
            prs_disable: Ok(Some(true)),
            ats_disable: Ok(Some(false)),
            op_config: Ok(Some(OpCap::of(&[Opcode::MEMMOVE, Opcode::COMPARE]))),
            engines: Some(2),
            clients: Some(0),
            occupancy: None,
            write_retries: None,
        }
    }

    const OPEN: Owner = Owner { mode: 0o660, uid: 0, gid: 9 };

    fn judged(queue_read: QueueRead, node: Option<Node>) -> Result<WorkQueue, Why> {
        let path = PathBuf::from("/d/wq1.0");
        queue(queue_read, &device(good_device()), path, node)
    }

    fn open() -> Option<Node> {
        Some(Node { owner: OPEN, open_to_us: Some(true) })
    }

    #[test]
    fn a_good_queue_is_described() {
        let queue = judged(good_queue(), open()).unwrap();
        assert_eq!((queue.depth(), queue.size, queue.numa_node, queue.engines), (20, 32, Some(1), Some(2)));
        assert!(queue.takes(Opcode::MEMMOVE) && !queue.takes(Opcode::COMPARE) && !queue.takes(Opcode::CRCGEN));
        assert_eq!((queue.batch_max(), queue.page_requests, queue.block_on_fault), (0, false, true));
    }

    #[test]
    fn what_a_kernel_does_not_tell_has_the_drivers_default() {
        let queue = QueueRead {
            driver: Ok(None),
            threshold: Ok(None),
            max_transfer_size: Ok(None),
            max_batch_size: Ok(None),
            block_on_fault: Ok(None),
            prs_disable: Ok(None),
            ats_disable: Ok(None),
            op_config: Ok(None),
            ..good_queue()
        };
        let queue = judged(queue, Some(Node { owner: OPEN, open_to_us: None })).unwrap();
        assert_eq!((queue.depth(), queue.max_transfer_size, queue.batch_max()), (32, 2 << 20, 32));
        assert!(queue.takes(Opcode::CRCGEN) && queue.page_requests && !queue.block_on_fault);
    }

    #[test]
    fn limits_of_the_device_are_limits_of_the_queue() {
        let queue = QueueRead {
            max_transfer_size: Ok(Some(u64::MAX)),
            max_batch_size: Ok(Some(u32::MAX)),
            op_config: Ok(None),
            ..good_queue()
        };
        let queue = judged(queue, open()).unwrap();
        assert_eq!((queue.max_transfer_size, queue.batch_max()), (1 << 31, 1024));
    }

    #[test]
    fn every_obstacle_of_a_queue_is_named() {
        let nonsense = |file| Why::Nonsense { file, text: "?".into() };
        type Change = fn(&mut QueueRead);
        let cases: [(Change, Why); 16] = [
            (|q| (q.kind, q.state) = (Ok(Some("none".into())), Ok(Some("disabled".into()))), Why::Unconfigured),
            (|q| q.kind = Ok(Some("kernel".into())), Why::NotForUsers { kind: "kernel".into(), driver: "user".into() }),
            (
                |q| q.driver = Ok(Some("dmaengine".into())),
                Why::NotForUsers { kind: "user".into(), driver: "dmaengine".into() },
            ),
            (|q| q.kind = Ok(None), Why::Missing { file: "type" }),
            (
                |q| q.state = Ok(Some("disabled".into())),
                Why::NotEnabled { state: "disabled".into(), command: Some(CommandStatus(0)) },
            ),
            (|q| q.state = Ok(None), Why::Missing { file: "state" }),
            (|q| q.mode = Err(Why::Missing { file: "mode" }), Why::Missing { file: "mode" }),
            (|q| q.size = Ok(0), Why::NoSize),
            (|q| q.threshold = Ok(Some(0)), Why::NoThreshold),
            (|q| q.ats_disable = Ok(Some(true)), Why::HidesFaults),
            (|q| q.max_transfer_size = Ok(Some(0)), Why::NoTransfer),
            (|q| q.op_config = Err(Why::Nonsense { file: "op_config", text: "?".into() }), nonsense("op_config")),
            (
                |q| q.max_batch_size = Err(Why::Nonsense { file: "max_batch_size", text: "?".into() }),
                nonsense("max_batch_size"),
            ),
            (|q| q.prs_disable = Err(Why::Nonsense { file: "prs_disable", text: "?".into() }), nonsense("prs_disable")),
            // The first of several.
            (
                |q| (q.state, q.size) = (Ok(Some("disabled".into())), Ok(0)),
                Why::NotEnabled { state: "disabled".into(), command: Some(CommandStatus(0)) },
            ),
            (
                |q| (q.kind, q.state) = (Ok(Some("kernel".into())), Ok(Some("disabled".into()))),
                Why::NotForUsers { kind: "kernel".into(), driver: "user".into() },
            ),
        ];
        for (change, why) in cases {
            let mut queue = good_queue();
            change(&mut queue);
            assert_eq!(judged(queue, open()), Err(why));
        }
        // A dedicated queue has no threshold.
        let dedicated = QueueRead { mode: Ok(Mode::Dedicated), threshold: Ok(Some(0)), ..good_queue() };
        assert_eq!(judged(dedicated, open()).unwrap().depth(), 32);

        let node = PathBuf::from("/d/wq1.0");
        assert_eq!(judged(good_queue(), None), Err(Why::NoNode { node: node.clone() }));
        let closed = Some(Node { owner: OPEN, open_to_us: Some(false) });
        assert_eq!(judged(good_queue(), closed), Err(Why::NotPermitted { node, mode: 0o660, uid: 0, gid: 9 }));
    }

    #[test]
    fn every_obstacle_of_a_device_is_named() {
        type Change = fn(&mut DeviceRead);
        let disabled = Why::DeviceNotEnabled { state: "disabled".into(), command: Some(CommandStatus(0)) };
        let cases: [(Change, Why); 7] = [
            (|d| d.state = Ok(Some("halted".into())), Why::DeviceHalted),
            (|d| d.state = Ok(Some("disabled".into())), disabled),
            (|d| d.state = Ok(None), Why::Missing { file: "state" }),
            (|d| d.pasid_enabled = Ok(Some(false)), Why::NoPasid),
            (|d| d.capabilities = Err(Why::Missing { file: "gen_cap" }), Why::Missing { file: "gen_cap" }),
            (|d| d.operations = Err(Why::Missing { file: "op_cap" }), Why::Missing { file: "op_cap" }),
            // The gravest of several.
            (|d| (d.state, d.pasid_enabled) = (Ok(Some("halted".into())), Ok(Some(false))), Why::DeviceHalted),
        ];
        for (change, why) in cases {
            let mut read = good_device();
            change(&mut read);
            assert_eq!(device(read).unwrap_err(), why);
        }
        let old = DeviceRead { pasid_enabled: Ok(None), version: Ok(None), ..good_device() };
        assert_eq!(device(old).unwrap().version, Version::V1_0);
    }
}
