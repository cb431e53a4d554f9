//! Work queues of data-streaming accelerators (Intel DSA): which there are, and what keeps this process from using them.
//!
//! Nothing is opened: opening a dedicated queue takes it. Whether a device node could be opened is told from its
//! permissions.

mod identity;
mod read;

use super::finding::{About, Finding, Topic};
use super::seen::Seen;

use read::NODES;
pub(super) use read::{Device, devices};

const ABOUT: About = About(Topic::WorkQueues);

/// A DSA work queue as the kernel describes it. Texts are the kernel's own; empty where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkQueue {
    /// `wq0.1`: queue 1 of device 0.
    pub name: String,
    /// `dsa0`.
    pub device: String,
    /// What its administrator calls it.
    pub label: String,
    /// `enabled`, `disabled`.
    pub state: String,
    /// `dedicated` or `shared`.
    pub mode: String,
    /// `user`, `kernel`, `none`.
    pub kind: String,
    /// `user`, `dmaengine`; kernels before 6.7 do not say.
    pub driver: String,
    /// How many descriptors it holds.
    pub size: Option<u32>,
    /// Its device node under `/dev/dsa`, if there is one.
    pub node: Option<WorkQueueNode>,
    /// The kernel does not report failed writes of this queue (`ats_disable` is 1).
    pub(super) hides_faults: bool,
}

/// The device node of a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WorkQueueNode {
    /// Permission bits, as of chmod(1).
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Whether they let this process read and write; `None` where its identity is not known.
    pub open_to_us: Option<bool>,
}

/// What there is to say about devices and queues.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let mut findings = instructions(seen);
    if seen.devices.is_empty() {
        findings.push(no_device(seen));
        return findings;
    }
    for device in &seen.devices {
        findings.push(device_finding(device));
        if device.queues.is_empty() {
            findings.push(no_queue(device));
        }
        let queues = device.queues.iter();
        findings.extend(queues.map(|queue| queue_finding(queue, seen.processor.instructions.enqcmd)));
    }
    findings
}

/// All this is for later versions; saying so spares the reader a search.
const NOT_USED_YET: &str = "This version of twolane submits nothing to work queues.";

fn instructions(seen: &Seen) -> Vec<Finding> {
    let instructions = seen.processor.instructions;
    let names =
        [(instructions.movdir64b, "MOVDIR64B (dedicated queues)"), (instructions.enqcmd, "ENQCMD (shared queues)")];
    let list = |wanted: bool| {
        let names: Vec<&str> = names.iter().filter(|(has, _)| *has == wanted).map(|(_, name)| *name).collect();
        names.join(" and ")
    };
    let what = match (list(true), list(false)) {
        (have, lack) if have.is_empty() => format!("The cpu does not state {lack}."),
        (have, lack) if lack.is_empty() => format!("The cpu states {have}."),
        (have, lack) => format!("The cpu states {have}, not {lack}."),
    };
    let finding = ABOUT.ok("queues.instructions", what);
    vec![if instructions.enqcmd { finding.unseen() } else { finding }]
}

/// The PCI identities of DSA: vendor Intel; 4th- to 6th-generation Xeons, Granite Rapids-D, Diamond Rapids.
const INTEL: &str = "0x8086";
const DSA_DEVICES: [&str; 3] = ["0x0b25", "0x11fb", "0x1212"];

const PCI: &str = "sys/bus/pci/devices";

/// How to get from a device to a queue that anybody may use. The sizes are an example, within every device's limits.
const CONFIGURE: [&str; 5] = [
    "accel-config config-engine dsa0/engine0.0 --group-id=0",
    "accel-config config-wq dsa0/wq0.0 --group-id=0 --mode=shared --type=user --driver-name=user --name=twolane \
     --wq-size=16 --threshold=15 --priority=10",
    "accel-config enable-device dsa0",
    "accel-config enable-wq dsa0/wq0.0",
    "chgrp GROUP /dev/dsa/wq0.0 && chmod g+rw /dev/dsa/wq0.0",
];

/// Device `dsa0` of the example, by its own name.
fn configure(device: &str) -> impl Iterator<Item = String> {
    let number = device.trim_start_matches("dsa").to_owned();
    CONFIGURE.iter().map(move |line| {
        let line = line.replace("dsa0", &format!("dsa{number}")).replace("wq0.0", &format!("wq{number}.0"));
        line.replace("engine0.0", &format!("engine{number}.0"))
    })
}

const SCALABLE_IOMMU: &str = "kernel command line: intel_iommu=on,sm_on (and VT-d switched on in the firmware)";

fn no_device(seen: &Seen) -> Finding {
    let on_the_bus = seen.tree.names(PCI).into_iter().find(|name| {
        let text = |file: &str| seen.tree.text(format!("{PCI}/{name}/{file}")).unwrap_or_default();
        text("vendor") == INTEL && DSA_DEVICES.contains(&text("device").as_str())
    });
    let nodes = seen.tree.names(NODES);
    if on_the_bus.is_none() && !nodes.is_empty() {
        return ABOUT
            .warning(
                "queues.undescribed",
                format!("There are device nodes ({}), but nothing describes them.", nodes.join(", ")),
            )
            .why("Without /sys/bus/dsa nobody can tell which queues take what. Containers must be given it.")
            .mend("docker run -v /sys/bus/dsa:/sys/bus/dsa:ro -v /sys/devices:/sys/devices:ro ...")
            .unseen();
    }
    let finding = match on_the_bus {
        Some(address) => ABOUT
            .info("queues.no-driver", format!("There is a DSA device (PCI {address}), but no driver for it is loaded."))
            .why(format!("Without the driver idxd there are no work queues. {NOT_USED_YET}"))
            .unseen(),
        None => ABOUT.info("queues.none", "There is no DSA device, and so no work queue.").why(format!(
            "Intel's Xeons have them from the 4th generation on; a virtual machine sees one only if it is passed \
             through, with a scalable IOMMU. Where there is one, these steps lead to a queue. {NOT_USED_YET}"
        )),
    };
    let iommu = seen.command_line.value("intel_iommu").unwrap_or_default();
    let finding = if iommu.split(',').any(|word| word == "sm_on") { finding } else { finding.mend(SCALABLE_IOMMU) };
    finding.mend("modprobe idxd").mend_all(CONFIGURE)
}

fn device_finding(device: &Device) -> Finding {
    let name = &device.name;
    let finding = if device.state == "halted" {
        ABOUT
            .warning("queues.device-halted", format!("{name} is halted."))
            .why("The device met a fault that it could not survive. Whatever was in flight is lost.")
            .mend(format!("dmesg | grep -i -e idxd -e DMAR; accel-config disable-device {name}"))
            .mend_all(configure(name))
    } else if device.pasid_enabled == Some(0) {
        ABOUT
            .warning("queues.no-pasid", format!("{name} cannot work on a process's memory (pasid_enabled is 0)."))
            .why("Queues for user space need the IOMMU in scalable mode.")
            .mend(SCALABLE_IOMMU)
    } else if device.state == "enabled" {
        let node = device.numa_node.filter(|node| *node >= 0).map_or("unknown".to_owned(), |node| node.to_string());
        ABOUT.ok("queues.device", format!("{name} is enabled (NUMA node {node}).")).why(NOT_USED_YET)
    } else {
        let state = if device.state.is_empty() { "in no known state" } else { &device.state };
        ABOUT
            .info("queues.device-disabled", format!("{name} is {state}."))
            .why(format!("It must be configured and enabled before it has queues. {NOT_USED_YET}"))
            .mend_all(configure(name))
    };
    finding.unseen()
}

fn no_queue(device: &Device) -> Finding {
    ABOUT
        .info("queues.unconfigured", format!("{} shows no work queue.", device.name))
        .why("Its queues are described beside it in /sys/bus/dsa/devices, if the driver has set it up.")
        .mend_all(configure(&device.name))
        .unseen()
}

fn queue_finding(queue: &WorkQueue, enqcmd: bool) -> Finding {
    let WorkQueue { name, device, .. } = queue;
    let path = format!("{device}/{name}");
    let is = format!("{path} ({} {}, {})", word(&queue.mode), word(&queue.kind), word(&queue.state));
    let node = format!("/dev/dsa/{name}");
    let finding = match obstacle(queue, enqcmd) {
        None => ABOUT.ok("queues.usable", format!("{is} can be used by this process.")).why(NOT_USED_YET),
        Some(Obstacle::NotForUsers) => ABOUT
            .info("queues.not-for-users", format!("{is} is not for user space."))
            .why("A queue is the kernel's or user space's, as its type and driver say.")
            .mend(format!("accel-config disable-wq {path}"))
            .mend(format!("accel-config config-wq {path} --type=user --driver-name=user --name=twolane"))
            .mend(format!("accel-config enable-wq {path}")),
        Some(Obstacle::NotEnabled) => ABOUT
            .info("queues.not-enabled", format!("{is} is not enabled."))
            .why(format!("If enabling fails, /sys/bus/dsa/devices/{device}/cmd_status has the reason."))
            .mend(format!("accel-config enable-wq {path}")),
        Some(Obstacle::HidesFaults) => ABOUT
            .warning("queues.hides-faults", format!("{is} does not report failed writes (ats_disable is 1)."))
            .why("A copy may be reported as done although a page of it could not be written.")
            .mend(format!("accel-config disable-wq {path}"))
            .mend(format!("echo 0 > /sys/bus/dsa/devices/{path}/ats_disable"))
            .mend(format!("accel-config enable-wq {path}")),
        Some(Obstacle::NoNode) => ABOUT
            .warning("queues.no-node", format!("{is} has no device node {node}."))
            .why("In a container the node must be handed in. Elsewhere the queue's driver may not be bound.")
            .mend(format!("docker run --device={node} ..."))
            .mend(format!("or: accel-config config-wq {path} --driver-name=user && accel-config enable-wq {path}")),
        Some(Obstacle::NotPermitted(at)) => ABOUT
            .warning(
                "queues.not-permitted",
                format!("{is}: {node} is closed to this process (mode {:03o}, uid {}, gid {}).", at.mode, at.uid, at.gid),
            )
            .why("The node belongs to root alone until somebody says otherwise.")
            .mend(format!("chgrp GROUP {node} && chmod g+rw {node}"))
            .mend("or: a udev rule: SUBSYSTEM==\"dsa\", KERNEL==\"wq*\", GROUP=\"GROUP\", MODE=\"0660\""),
        Some(Obstacle::NoEnqcmd) => ABOUT
            .info("queues.no-enqcmd", format!("{is} is shared, and the cpu does not state ENQCMD."))
            .why("Only write(2) on the node can submit to it, on kernels from 6.10 on. A dedicated queue needs no ENQCMD.")
            .mend(format!("accel-config disable-wq {path}"))
            .mend(format!("accel-config config-wq {path} --mode=dedicated"))
            .mend(format!("accel-config enable-wq {path}")),
    };
    finding.unseen()
}

/// The first thing that keeps this process from using a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    NotForUsers,
    NotEnabled,
    HidesFaults,
    NoNode,
    NotPermitted(WorkQueueNode),
    NoEnqcmd,
}

fn obstacle(queue: &WorkQueue, enqcmd: bool) -> Option<Obstacle> {
    if queue.kind != "user" || !matches!(queue.driver.as_str(), "" | "user") {
        return Some(Obstacle::NotForUsers);
    }
    if queue.state != "enabled" {
        return Some(Obstacle::NotEnabled);
    }
    if queue.hides_faults {
        return Some(Obstacle::HidesFaults);
    }
    let Some(node) = queue.node else { return Some(Obstacle::NoNode) };
    if node.open_to_us == Some(false) {
        return Some(Obstacle::NotPermitted(node));
    }
    (queue.mode == "shared" && !enqcmd).then_some(Obstacle::NoEnqcmd)
}

fn word(text: &str) -> &str {
    if text.is_empty() { "?" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: WorkQueueNode = WorkQueueNode { mode: 0o660, uid: 0, gid: 9, open_to_us: Some(true) };

    fn usable() -> WorkQueue {
        let text = str::to_owned;
        WorkQueue {
            name: text("wq1.0"),
            device: text("dsa1"),
            state: text("enabled"),
            mode: text("shared"),
            kind: text("user"),
            driver: text("user"),
            node: Some(OPEN),
            ..WorkQueue::default()
        }
    }

    #[test]
    fn the_first_obstacle_is_named() {
        let closed = WorkQueueNode { open_to_us: Some(false), ..OPEN };
        let unknown = WorkQueueNode { open_to_us: None, ..OPEN };
        type Change = fn(&mut WorkQueue);
        let cases: [(Change, bool, Option<Obstacle>); 11] = [
            (|_| {}, true, None),
            (|_| {}, false, Some(Obstacle::NoEnqcmd)),
            (|queue| queue.mode = "dedicated".into(), false, None),
            (|queue| queue.driver.clear(), true, None),
            (|queue| queue.driver = "dmaengine".into(), true, Some(Obstacle::NotForUsers)),
            (|queue| queue.kind = "kernel".into(), true, Some(Obstacle::NotForUsers)),
            (|queue| queue.state = "disabled".into(), true, Some(Obstacle::NotEnabled)),
            (|queue| queue.state.clear(), true, Some(Obstacle::NotEnabled)),
            (|queue| queue.hides_faults = true, true, Some(Obstacle::HidesFaults)),
            (|queue| queue.node = None, true, Some(Obstacle::NoNode)),
            (
                |queue| *queue = WorkQueue { state: "disabled".into(), node: None, ..queue.clone() },
                true,
                Some(Obstacle::NotEnabled),
            ),
        ];
        for (number, (change, enqcmd, wanted)) in cases.into_iter().enumerate() {
            let mut queue = usable();
            change(&mut queue);
            assert_eq!(obstacle(&queue, enqcmd), wanted, "case {number}");
        }
        for (node, wanted) in [(closed, Some(Obstacle::NotPermitted(closed))), (unknown, None)] {
            assert_eq!(obstacle(&WorkQueue { node: Some(node), ..usable() }, true), wanted);
        }
    }

    #[test]
    fn steps_name_the_device_that_is_there() {
        let steps: Vec<String> = configure("dsa4").collect();
        assert!(
            steps.iter().all(|step| step.contains('4') && !step.contains("dsa0") && !step.contains("wq0")),
            "{steps:?}"
        );
    }
}
