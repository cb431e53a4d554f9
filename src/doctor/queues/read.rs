//! Reads devices and queues from `/sys/bus/dsa/devices`, and the nodes from `/dev/dsa`.
//!
//! Analytics accelerators (`iax`) are on the same bus and are left out. A file that is missing leaves its field empty:
//! kernels differ in what they describe.

use super::identity::Identity;
use super::{WorkQueue, WorkQueueNode};
use crate::doctor::tree::Tree;

const BUS: &str = "sys/bus/dsa/devices";
/// Where the device nodes are.
pub(super) const NODES: &str = "dev/dsa";

/// A DSA device with its queues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) struct Device {
    /// `dsa0`.
    pub name: String,
    /// `enabled`, `disabled`, `halted`; empty where the kernel says nothing.
    pub state: String,
    /// 1 where the device can work on a process's memory.
    pub pasid_enabled: Option<i64>,
    /// -1 where unknown.
    pub numa_node: Option<i64>,
    pub queues: Vec<WorkQueue>,
}

/// All devices, by number.
pub(in crate::doctor) fn devices(tree: &Tree) -> Vec<Device> {
    let identity = Identity::read(tree);
    let mut numbers: Vec<u32> =
        tree.names(BUS).iter().filter_map(|name| name.strip_prefix("dsa")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.into_iter().map(|number| device(tree, number, identity.as_ref())).collect()
}

fn device(tree: &Tree, number: u32, identity: Option<&Identity>) -> Device {
    let name = format!("dsa{number}");
    let dir = format!("{BUS}/{name}");
    let prefix = format!("wq{number}.");
    let mut queues: Vec<u32> =
        tree.names(&dir).iter().filter_map(|name| name.strip_prefix(&prefix)?.parse().ok()).collect();
    queues.sort_unstable();
    Device {
        state: tree.text(format!("{dir}/state")).unwrap_or_default(),
        pasid_enabled: tree.number(format!("{dir}/pasid_enabled")),
        numa_node: tree.number(format!("{dir}/numa_node")),
        queues: queues
            .into_iter()
            .map(|queue| self::queue(tree, &name, &format!("{prefix}{queue}"), identity))
            .collect(),
        name,
    }
}

fn queue(tree: &Tree, device: &str, name: &str, identity: Option<&Identity>) -> WorkQueue {
    let dir = format!("{BUS}/{device}/{name}");
    let text = |file: &str| tree.text(format!("{dir}/{file}")).unwrap_or_default();
    let node = tree.owner(format!("{NODES}/{name}")).map(|owner| WorkQueueNode {
        mode: owner.mode,
        uid: owner.uid,
        gid: owner.gid,
        open_to_us: identity.map(|who| who.may_use(owner)),
    });
    WorkQueue {
        name: name.to_owned(),
        device: device.to_owned(),
        label: text("name"),
        state: text("state"),
        mode: text("mode"),
        kind: text("type"),
        driver: text("driver_name"),
        size: text("size").parse().ok(),
        node,
        hides_faults: text("ats_disable") == "1",
    }
}
