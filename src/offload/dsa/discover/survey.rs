//! Reads what the kernel describes: every device, every queue, with what was made of it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::files::{Attributes, names};
use super::identity::{Owner, Permission};
use super::judge::{self, DeviceFacts, DeviceRead, Node, QueueRead};
use super::skipped::{Beside, Skipped, Why};
use super::{Found, Mode, Places, WorkQueue, parse};
use crate::offload::dsa::abi::{GenCap, Version};
use crate::offload::dsa::discover::CommandStatus;

/// Everything under the two places.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    places: Places,
    /// By number.
    pub(crate) devices: Vec<DeviceSeen>,
    /// Analytics accelerators on the same bus.
    analytics: Vec<String>,
    /// Nodes of queues that nothing describes.
    pub(crate) undescribed: Vec<String>,
}

/// A device as the kernel describes it.
#[derive(Clone, Debug)]
pub(crate) struct DeviceSeen {
    /// `dsa0`.
    pub(crate) name: String,
    /// Where it is known.
    pub(crate) numa_node: Option<u32>,
    /// What keeps all of its queues from being used.
    pub(crate) why: Option<Why>,
    /// By number.
    pub(crate) queues: Vec<QueueSeen>,
}

/// A queue as the kernel describes it, with the verdict. Texts are the kernel's own; empty where it says nothing.
#[derive(Clone, Debug)]
pub(crate) struct QueueSeen {
    pub(crate) name: String,
    pub(crate) device: String,
    pub(crate) label: String,
    pub(crate) state: String,
    pub(crate) mode: String,
    pub(crate) kind: String,
    pub(crate) driver: String,
    pub(crate) size: Option<u32>,
    pub(crate) node: Option<Node>,
    /// As if its device were usable.
    pub(crate) verdict: Result<WorkQueue, Why>,
}

impl Survey {
    /// What can be used, and what cannot.
    pub(super) fn found(self) -> Found {
        let Self { places, devices, analytics, undescribed } = self;
        let mut found = Found::default();
        let skip = |path: PathBuf, why: Why, device: &str, queue: Option<&str>| {
            let remedy = why.remedy(Beside { device, queue });
            Skipped { path, why, remedy }
        };
        for DeviceSeen { name, why, queues, .. } in devices {
            let dir = places.sysfs.join(&name);
            if let Some(why) = why {
                found.skipped.push(skip(dir, why, &name, None));
                continue;
            }
            for QueueSeen { name: queue, verdict, .. } in queues {
                match verdict {
                    Ok(usable) => found.queues.push(usable),
                    Err(Why::Unconfigured) => {}
                    Err(why) => found.skipped.push(skip(dir.join(&queue), why, &name, Some(&queue))),
                }
            }
        }
        for name in analytics {
            found.skipped.push(skip(places.sysfs.join(&name), Why::Analytics, &name, None));
        }
        for name in undescribed {
            found.skipped.push(skip(places.nodes.join(&name), Why::Undescribed, "dsa0", Some(&name)));
        }
        found
    }
}

/// Looks at everything; opens no device.
pub(crate) fn survey(places: &Places, permission: &Permission) -> Survey {
    let bus = Attributes::of(places.sysfs.clone());
    let devices: Vec<DeviceSeen> =
        bus.numbered("dsa").into_iter().map(|number| device(places, number, permission)).collect();
    let analytics: Vec<String> = bus.numbered("iax").into_iter().map(|number| format!("iax{number}")).collect();
    let described = |name: &String| {
        let queues = devices.iter().flat_map(|device| &device.queues);
        queues.map(|queue| &queue.name).any(|described| described == name) || places.sysfs.join(name).exists()
    };
    let nodes = names(&places.nodes).into_iter().filter(|name| is_queue(name));
    let undescribed = nodes.filter(|name| !described(name)).collect();
    Survey { places: places.clone(), devices, analytics, undescribed }
}

/// `wq0.1`
fn is_queue(name: &str) -> bool {
    let numbers = name.strip_prefix("wq").and_then(|numbers| numbers.split_once('.'));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    numbers.is_some_and(|(device, queue)| number(device) && number(queue))
}

fn device(places: &Places, number: u32, permission: &Permission) -> DeviceSeen {
    let name = format!("dsa{number}");
    let attributes = Attributes::of(places.sysfs.join(&name));
    let read = DeviceRead {
        state: attributes.text("state"),
        command: attributes.value("cmd_status", parse::hex32).ok().flatten().map(CommandStatus),
        pasid_enabled: attributes.value("pasid_enabled", parse::flag),
        version: attributes.value("version", parse::hex32).map(|version| version.map(Version)),
        capabilities: attributes.needed("gen_cap", parse::hex).map(GenCap),
        operations: attributes.needed("op_cap", parse::operations),
        // -1 where it is not known; what means nothing is not known either: it is a hint.
        numa_node: attributes.value("numa_node", parse::number).ok().flatten(),
    };
    let numa_node = read.numa_node;
    let cdev_major: Option<u32> = attributes.value("cdev_major", parse::number).ok().flatten();
    let queue_numbers = attributes.numbered(&format!("wq{number}."));
    let facts = judge::device(read);
    let queues: Vec<QueueSeen> = queue_numbers
        .into_iter()
        .map(|queue| self::queue(places, &name, number, queue, cdev_major, &facts, permission))
        .collect();
    let configured = queues.iter().any(|queue| queue.verdict != Err(Why::Unconfigured));
    let why = facts.err().or_else(|| (!configured).then_some(Why::NoQueue));
    DeviceSeen { name, numa_node, why, queues }
}

fn queue(
    places: &Places,
    device: &str,
    number: u32,
    queue: u32,
    cdev_major: Option<u32>,
    facts: &Result<DeviceFacts, Why>,
    permission: &Permission,
) -> QueueSeen {
    let name = format!("wq{number}.{queue}");
    let attributes = Attributes::of(places.sysfs.join(device).join(&name));
    let node_path = node_path(places, &name, cdev_major, &attributes);
    let node = node(&node_path, permission);
    let group: Option<i64> = attributes.value("group_id", parse::number).ok().flatten();
    let read = QueueRead {
        name: name.clone(),
        device: device.to_owned(),
        label: attributes.word("name"),
        sysfs: attributes.dir().to_owned(),
        state: attributes.text("state"),
        kind: attributes.text("type"),
        driver: attributes.text("driver_name"),
        mode: attributes.needed("mode", Mode::parse),
        size: attributes.needed("size", parse::number),
        threshold: attributes.value("threshold", parse::number),
        max_transfer_size: attributes.value("max_transfer_size", parse::number),
        max_batch_size: attributes.value("max_batch_size", parse::number),
        block_on_fault: attributes.value("block_on_fault", parse::flag),
        prs_disable: attributes.value("prs_disable", parse::flag),
        ats_disable: attributes.value("ats_disable", parse::flag),
        op_config: attributes.value("op_config", parse::operations),
        // Hints.
        engines: group.and_then(|group| engines(&places.sysfs.join(device), number, group)),
        clients: attributes.value("clients", parse::number).ok().flatten(),
        occupancy: attributes.value("occupancy", parse::number).ok().flatten(),
        write_retries: attributes.value("enqcmds_retries", parse::number).ok().flatten(),
    };
    QueueSeen {
        name,
        device: device.to_owned(),
        label: read.label.clone(),
        state: attributes.word("state"),
        mode: attributes.word("mode"),
        kind: attributes.word("type"),
        driver: attributes.word("driver_name"),
        size: read.size.clone().ok(),
        node,
        verdict: judge::queue(read, facts, node_path, node),
    }
}

/// The node by its name, or by its number where it has no name: udev may be at work, or name it otherwise.
fn node_path(places: &Places, name: &str, major: Option<u32>, queue: &Attributes) -> PathBuf {
    let named = places.nodes.join(name);
    let minor: Option<u32> = queue.value("cdev_minor", parse::number).ok().flatten();
    let (Some(major), Some(minor), false) = (major, minor, named.exists()) else { return named };
    let numbered = places.nodes.parent().map(|dev| dev.join("char").join(format!("{major}:{minor}")));
    numbered.filter(|path| path.exists()).unwrap_or(named)
}

fn node(path: &Path, permission: &Permission) -> Option<Node> {
    let data = fs::metadata(path).ok().filter(|data| !data.is_dir())?;
    let owner = Owner { mode: data.mode() & PERMISSION_BITS, uid: data.uid(), gid: data.gid() };
    Some(Node { owner, open_to_us: permission.may_use(path, owner) })
}

const PERMISSION_BITS: u32 = 0o777;

/// How many engines serve a group.
fn engines(device: &Path, number: u32, group: i64) -> Option<u32> {
    if group < 0 {
        return None;
    }
    let prefix = format!("engine{number}.");
    let engines = Attributes::of(device.to_owned()).numbered(&prefix);
    let of_group = engines.into_iter().filter(|engine| {
        let attributes = Attributes::of(device.join(format!("{prefix}{engine}")));
        attributes.value("group_id", parse::number) == Ok(Some(group))
    });
    u32::try_from(of_group.count()).ok().filter(|count| *count > 0)
}
