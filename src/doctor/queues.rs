//! Work queues of data-streaming accelerators (Intel DSA): which there are, and what keeps this process from using them.
//!
//! What there is, why it cannot be used and what to type comes from `offload::dsa::discover`, as it does in the errors of a runtime that was to
//! use DSA. Here it is made into findings.

use super::finding::{About, Finding, Severity, Topic};
use super::seen::Seen;
use crate::offload::dsa::discover::identity::{Identity, Permission};
use crate::offload::dsa::discover::survey::{DeviceSeen, QueueSeen, Survey, survey};
use crate::offload::dsa::discover::{Beside, Places, Why, advice};

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

/// What lies under the two places, seen with the eyes of this process or, of another machine, of the one whose status lies in its tree.
pub(super) fn read(places: &Places, identity: Option<&Identity>, live: bool) -> Survey {
    let permission = if live { Permission::AskKernel } else { Permission::Of(identity.cloned()) };
    survey(places, &permission)
}

/// All queues, for the report.
pub(super) fn all(survey: Survey) -> Vec<WorkQueue> {
    let queues = survey.devices.into_iter().flat_map(|device| device.queues);
    queues
        .map(|QueueSeen { name, device, label, state, mode, kind, driver, size, node, .. }| {
            let node = node.map(|node| WorkQueueNode {
                mode: node.owner.mode,
                uid: node.owner.uid,
                gid: node.owner.gid,
                open_to_us: node.open_to_us,
            });
            WorkQueue { name, device, label, state, mode, kind, driver, size, node }
        })
        .collect()
}

/// What there is to say about devices and queues.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let mut findings = instructions(seen);
    let devices = &seen.survey.devices;
    if devices.is_empty() {
        findings.push(no_device(seen));
        return findings;
    }
    for device in devices {
        findings.push(device_finding(seen, device));
        let configured = device.queues.iter().filter(|queue| queue.verdict != Err(Why::Unconfigured));
        findings.extend(configured.map(|queue| queue_finding(seen, queue)));
    }
    if devices.iter().flat_map(|device| &device.queues).any(|queue| queue.verdict.is_ok()) {
        findings.extend(raw_io(seen.identity.as_ref()));
    }
    findings
}

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

fn no_device(seen: &Seen) -> Finding {
    let on_the_bus = seen.tree.names(PCI).into_iter().find(|name| {
        let text = |file: &str| seen.tree.text(format!("{PCI}/{name}/{file}")).unwrap_or_default();
        text("vendor") == INTEL && DSA_DEVICES.contains(&text("device").as_str())
    });
    let nodes = &seen.survey.undescribed;
    if on_the_bus.is_none() && !nodes.is_empty() {
        return ABOUT
            .warning(
                "queues.undescribed",
                format!("There are device nodes ({}), but nothing describes them.", nodes.join(", ")),
            )
            .why("Without /sys/bus/dsa nobody can tell which queues take what. Containers must be given it.")
            .mend_all(Why::Undescribed.remedy(Beside { device: "dsa0", queue: None }))
            .unseen();
    }
    let finding = match on_the_bus {
        Some(address) => ABOUT
            .info("queues.no-driver", format!("There is a DSA device (PCI {address}), but no driver for it is loaded."))
            .why("Without the driver idxd there are no work queues.")
            .unseen(),
        None => ABOUT.info("queues.none", "There is no DSA device, and so no work queue.").why(
            "Intel's Xeons have them from the 4th generation on; a virtual machine sees one only if it is passed \
             through, with a scalable IOMMU. Where there is one, these steps lead to a queue.",
        ),
    };
    let iommu = seen.command_line.value("intel_iommu").unwrap_or_default();
    finding.mend_all(advice::first_steps(iommu.split(',').any(|word| word == "sm_on")))
}

fn device_finding(seen: &Seen, device: &DeviceSeen) -> Finding {
    let name = &device.name;
    let Some(why) = &device.why else {
        let node = device.numa_node.map_or("unknown".to_owned(), |node| node.to_string());
        return ABOUT.ok("queues.device", format!("{name} is enabled (NUMA node {node}).")).unseen();
    };
    obstacle(seen, name, why, Beside { device: name, queue: None })
}

fn queue_finding(seen: &Seen, queue: &QueueSeen) -> Finding {
    let QueueSeen { name, device, .. } = queue;
    let path = format!("{device}/{name}");
    let instructions = seen.processor.instructions;
    let is = format!("{path} ({} {}, {})", word(&queue.mode), word(&queue.kind), word(&queue.state));
    match &queue.verdict {
        Ok(_) if queue.mode == "shared" && !instructions.enqcmd => ABOUT
            .info("queues.no-enqcmd", format!("{is} is shared, and the cpu does not state ENQCMD."))
            .why("Only write(2) on the node can submit to it, on kernels from 6.10 on. A dedicated queue needs no ENQCMD.")
            .mend_all(advice::reconfigure(&path, "--mode=dedicated"))
            .unseen(),
        Ok(_) if queue.mode == "dedicated" && !instructions.movdir64b => ABOUT
            .info("queues.no-movdir64b", format!("{is} is dedicated, and the cpu does not state MOVDIR64B."))
            .why("Only write(2) on the node can submit to it, on kernels from 6.10 on. Does a hypervisor hide the instruction?")
            .unseen(),
        Ok(_) => ABOUT.ok("queues.usable", format!("{is} can be used by this process.")).unseen(),
        Err(why) => obstacle(seen, &is, why, Beside { device, queue: Some(name) }),
    }
}

/// What is said of a device or queue that cannot be used. `subject` is how it is called.
fn obstacle(seen: &Seen, subject: &str, why: &Why, beside: Beside<'_>) -> Finding {
    let why = on_the_machine(seen, why);
    let (id, severity, means) = told(&why);
    let finding = match severity {
        Severity::Warning => ABOUT.warning(id, format!("{subject} cannot be used: {why}.")),
        _ => ABOUT.info(id, format!("{subject} cannot be used: {why}.")),
    };
    finding.why(means).mend_all(why.remedy(beside)).unseen()
}

/// The finding's name, how grave it is, and what it means.
fn told(why: &Why) -> (&'static str, Severity, &'static str) {
    use Severity::{Info, Warning};
    match why {
        Why::NotOpened { .. } => ("queues.not-opened", Warning, "It looked usable, and did not answer a no-op."),
        Why::DeviceHalted => (
            "queues.device-halted",
            Warning,
            "The device met a fault that it could not survive. Whatever was in flight is lost.",
        ),
        Why::NoPasid => ("queues.no-pasid", Warning, "Queues for user space need the IOMMU in scalable mode."),
        Why::DeviceNotEnabled { .. } => {
            ("queues.device-disabled", Info, "It must be configured and enabled before it has queues.")
        }
        Why::NoQueue | Why::Unconfigured => (
            "queues.unconfigured",
            Info,
            "Its queues are described beside it in /sys/bus/dsa/devices, if the driver has set it up.",
        ),
        Why::NotForUsers { .. } => {
            ("queues.not-for-users", Info, "A queue is the kernel's or user space's, as its type and driver say.")
        }
        Why::NotEnabled { .. } => {
            ("queues.not-enabled", Info, "If enabling fails, the file cmd_status of its device has the reason.")
        }
        Why::HidesFaults => (
            "queues.hides-faults",
            Warning,
            "A copy may be reported as done although a page of it could not be written.",
        ),
        Why::NoNode { .. } => (
            "queues.no-node",
            Warning,
            "In a container the node must be handed in. Elsewhere the queue's driver may not be bound.",
        ),
        Why::NotPermitted { .. } => {
            ("queues.not-permitted", Warning, "The node belongs to root alone until somebody says otherwise.")
        }
        Why::NoSize | Why::NoThreshold | Why::NoTransfer => {
            ("queues.misconfigured", Warning, "It is enabled, but takes nothing as it is configured.")
        }
        Why::Undescribed => ("queues.undescribed", Warning, "Nobody can tell what it takes."),
        Why::Missing { .. } | Why::Unreadable { .. } | Why::Nonsense { .. } => {
            ("queues.unreadable", Warning, "Without it nobody can tell what the device would do.")
        }
        Why::Analytics => ("queues.analytics", Info, "It is on the same bus, and of another kind."),
    }
}

/// With the node's path as it reads on the machine itself: what a remedy names.
fn on_the_machine(seen: &Seen, why: &Why) -> Why {
    let mut why = why.clone();
    if let Why::NoNode { node } | Why::NotPermitted { node, .. } = &mut why {
        *node = seen.tree.on_the_machine(node);
    }
    why
}

/// Whether this process may map portals, as far as that is known.
fn raw_io(identity: Option<&Identity>) -> Option<Finding> {
    let finding = if identity?.may_map_portals() {
        ABOUT.ok("queues.raw-io", "This process may map portals (CAP_SYS_RAWIO).")
    } else {
        ABOUT
            .info(
                "queues.raw-io",
                "This process may not map portals where the kernel protects them (no CAP_SYS_RAWIO).",
            )
            .why(advice::WITHOUT_RAW_IO)
            .mend_all(advice::GRANT_RAW_IO)
    };
    Some(finding.unseen())
}

fn word(text: &str) -> &str {
    if text.is_empty() { "?" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(capabilities: &str) -> Identity {
        Identity::parse(&format!("Uid:\t7\t7\t7\t7\nGid:\t7\t7\t7\t7\nCapEff:\t{capabilities}\n")).unwrap()
    }

    #[test]
    fn who_may_map_portals_is_told() {
        let with = raw_io(Some(&identity("20000"))).unwrap();
        assert_eq!((with.severity, with.remedy.len()), (Severity::Ok, 0));
        let without = raw_io(Some(&identity("0"))).unwrap();
        assert!(without.why.contains("write(2)") && without.why.contains("refuse batches"));
        assert!(without.remedy[0].contains("cap_sys_rawio"));
        assert_eq!(raw_io(None), None);
    }
}
