//! Writes the files: one directory a device, queue, group and engine under `sys/devices`, and links to them on the bus.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use super::{Device, DsaTree, Kernel, Queue};
use crate::offload::dsa::abi::{EventLog, OpCap, Version};
use crate::offload::dsa::discover::Mode;

pub(super) fn write(tree: &DsaTree, root: &Path) -> io::Result<()> {
    let bus = root.join("sys/bus/dsa");
    fs::create_dir_all(bus.join("devices"))?;
    for driver in ["idxd", "dmaengine", "user"] {
        let dir = bus.join("drivers").join(driver);
        file(&dir, "bind", "")?;
        file(&dir, "unbind", "")?;
    }
    fs::create_dir_all(root.join("dev/dsa"))?;
    fs::create_dir_all(root.join("dev/char"))?;
    let mut minor = 0;
    for device in &tree.devices {
        if device.queues.len() > Device::QUEUES {
            return Err(invalid(format!(
                "dsa{} has {} queues, more than {}",
                device.number,
                device.queues.len(),
                Device::QUEUES
            )));
        }
        self::device(tree, device, root, &mut minor)?;
    }
    tree.analytics.iter().try_for_each(|number| analytics(*number, root))
}

/// What `/proc/devices` would say of `dsa`.
const CDEV_MAJOR: u32 = 235;
const GROUPS: u32 = 4;
const READ_BUFFERS: u32 = 96;

fn device(tree: &DsaTree, device: &Device, root: &Path, minor: &mut u32) -> io::Result<()> {
    let Device { number, version, capabilities, operations, .. } = device;
    let name = format!("dsa{number}");
    let pci_id = if *version == Version::V1_0 { "0x0b25" } else { "0x11fb" };
    let dir = on_the_bus(root, &name, *number, pci_id)?;
    let put = |attribute: &str, text: String| file(&dir, attribute, &text);
    let count = |queues: usize| u32::try_from(queues).unwrap_or(u32::MAX);
    let clients: u32 = device.queues.iter().map(|queue| queue.clients).sum();
    put("version", format!("{:#x}", version.0))?;
    put("state", device.state.into())?;
    put("gen_cap", format!("{:#x}", capabilities.0))?;
    put("op_cap", map(tree.kernel, *operations))?;
    put("pasid_enabled", u8::from(device.pasid_enabled).to_string())?;
    put("numa_node", device.numa_node.to_string())?;
    put("cdev_major", CDEV_MAJOR.to_string())?;
    put("max_transfer_size", capabilities.max_transfer_size().to_string())?;
    put("max_batch_size", capabilities.max_batch_size().to_string())?;
    put("max_work_queues", Device::QUEUES.to_string())?;
    put("max_work_queues_size", Device::ENTRIES.to_string())?;
    put("max_groups", GROUPS.to_string())?;
    put("max_engines", device.engines.to_string())?;
    put("max_read_buffers", READ_BUFFERS.to_string())?;
    put("read_buffer_limit", "0".into())?;
    put("ims_size", capabilities.ims_entries().to_string())?;
    put("configurable", "1".into())?;
    put("clients", clients.to_string())?;
    put("errors", map(tree.kernel, OpCap::NONE))?;
    put("cmd_status", if device.command_status == 0 { "0".into() } else { format!("{:#x}", device.command_status) })?;
    if capabilities.event_log() != EventLog::None {
        put("event_log_size", "64".into())?;
    }

    let queue_names: Vec<String> = (0..count(device.queues.len())).map(|queue| format!("wq{number}.{queue}")).collect();
    let engine_names: Vec<String> = (0..device.engines).map(|engine| format!("engine{number}.{engine}")).collect();
    for group in 0..GROUPS {
        let name = format!("group{number}.{group}");
        let members = |names: &[String]| if group == 0 { names.join(" ") } else { String::new() };
        let dir = part(root, &dir, &name)?;
        for (attribute, text) in [
            ("engines", members(&engine_names)),
            ("work_queues", members(&queue_names)),
            ("read_buffers_reserved", "0".into()),
            ("read_buffers_allowed", READ_BUFFERS.to_string()),
            ("use_read_buffer_limit", "0".into()),
            ("traffic_class_a", "1".into()),
            ("traffic_class_b", "1".into()),
        ] {
            file(&dir, attribute, &text)?;
        }
        if *version >= Version::V2_0 {
            file(&dir, "desc_progress_limit", "0")?;
            file(&dir, "batch_progress_limit", "0")?;
        }
    }
    for name in &engine_names {
        file(&part(root, &dir, name)?, "group_id", "0")?;
    }
    for queue in 0..Device::QUEUES {
        let name = format!("wq{number}.{queue}");
        let dir = part(root, &dir, &name)?;
        match device.queues.get(queue) {
            Some(queue) => {
                self::queue(tree.kernel, device, queue, *minor, &dir)?;
                node(queue, &name, *minor, root)?;
                *minor += 1;
            }
            None => self::queue(tree.kernel, device, &unconfigured(), *minor, &dir)?,
        }
    }
    Ok(())
}

/// A queue that nobody configured.
fn unconfigured() -> Queue {
    Queue { kind: "none", driver: "", label: String::new(), node_mode: None, ..Queue::dedicated(0).disabled() }
}

fn queue(kernel: Kernel, device: &Device, queue: &Queue, minor: u32, dir: &Path) -> io::Result<()> {
    let put = |attribute: &str, text: String| file(dir, attribute, &text);
    let flag = |on: bool| u8::from(on).to_string();
    let configured = queue.kind != "none";
    put("state", queue.state.into())?;
    put("type", queue.kind.into())?;
    put("mode", queue.mode.name().into())?;
    put("size", queue.size.to_string())?;
    put("threshold", queue.threshold.to_string())?;
    put("max_transfer_size", queue.max_transfer_size.to_string())?;
    put("max_batch_size", queue.max_batch_size.to_string())?;
    put("block_on_fault", flag(queue.block_on_fault))?;
    put("ats_disable", flag(queue.ats_disable))?;
    put("name", queue.label.clone())?;
    put("group_id", if configured { "0" } else { "-1" }.into())?;
    put("priority", if configured { "10" } else { "0" }.into())?;
    put("clients", queue.clients.to_string())?;
    put("occupancy", "0".into())?;
    // The kernel refuses to read it where there is no node: ENXIO. A file that is not there is the nearest thing.
    if has_node(queue) {
        put("cdev_minor", minor.to_string())?;
    }
    // Of dedicated queues it cannot be read: EOPNOTSUPP.
    if queue.mode == Mode::Shared {
        put("enqcmds_retries", "32".into())?;
    }
    if kernel == Kernel::Linux6 {
        put("driver_name", queue.driver.into())?;
        if device.version >= Version::V2_0 {
            put("prs_disable", "0".into())?;
            let operations = queue.operations.unwrap_or(device.operations);
            put("op_config", map(kernel, operations.intersection(&device.operations)))?;
        }
    }
    Ok(())
}

fn has_node(queue: &Queue) -> bool {
    queue.kind == "user" && queue.state == "enabled"
}

fn node(queue: &Queue, name: &str, minor: u32, root: &Path) -> io::Result<()> {
    let Some(mode) = queue.node_mode.filter(|_| has_node(queue)) else { return Ok(()) };
    let path = root.join("dev/dsa").join(name);
    fs::write(&path, "")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    symlink(format!("../dsa/{name}"), root.join(format!("dev/char/{CDEV_MAJOR}:{minor}")))
}

/// An accelerator of the other kind, which has fewer files and means other things by some: batches it has none of, which the kernel
/// prints as a size of 1 and accel-config, of older kernels, as -2. The numbers are nobody's: a reader that looks at them is wrong already.
fn analytics(number: u32, root: &Path) -> io::Result<()> {
    let dir = on_the_bus(root, &format!("iax{number}"), number, "0x0cfe")?;
    for (attribute, text) in [
        ("version", "0x100"),
        ("state", "enabled"),
        ("gen_cap", "0x71f10901f0105"),
        ("op_cap", "00000000,00000000,00000000,00000000,007f331c,00000000,00000000,00000d00"),
        ("pasid_enabled", "1"),
        ("numa_node", "0"),
        ("max_transfer_size", "2147483648"),
        ("max_batch_size", "-2"),
        ("max_work_queues", "1"),
    ] {
        file(&dir, attribute, text)?;
    }
    let queue = part(root, &dir, &format!("wq{number}.0"))?;
    for (attribute, text) in [
        ("state", "enabled"),
        ("type", "user"),
        ("mode", "shared"),
        ("size", "16"),
        ("threshold", "15"),
        ("max_batch_size", "-2"),
        ("driver_name", "user"),
    ] {
        file(&queue, attribute, text)?;
    }
    Ok(())
}

/// The directory of a device, linked from both buses. An error if it is there.
fn on_the_bus(root: &Path, name: &str, number: u32, pci_id: &str) -> io::Result<std::path::PathBuf> {
    // As on a machine with two devices a socket: buses 6a, 6f, 74 and so on.
    let address = format!("0000:{:02x}:01.0", (0x6a + 5 * number) & 0xff);
    let pci = format!("pci{}/{address}", &address[..7]);
    let function = root.join("sys/devices").join(&pci);
    let dir = function.join(name);
    if dir.exists() {
        return Err(invalid(format!("two devices are called {name}")));
    }
    file(&function, "vendor", "0x8086")?;
    file(&function, "device", pci_id)?;
    fs::create_dir_all(root.join("sys/bus/pci/devices"))?;
    symlink(format!("../../../devices/{pci}"), root.join("sys/bus/pci/devices").join(&address))?;
    fs::create_dir_all(&dir)?;
    symlink(format!("../../../devices/{pci}/{name}"), root.join("sys/bus/dsa/devices").join(name))?;
    Ok(dir)
}

/// The directory of a queue, group or engine: under its device, and linked from the bus beside it.
fn part(root: &Path, device: &Path, name: &str) -> io::Result<std::path::PathBuf> {
    let dir = device.join(name);
    fs::create_dir_all(&dir)?;
    let below_sys = dir.strip_prefix(root.join("sys")).map_err(|error| invalid(error.to_string()))?;
    symlink(Path::new("../../..").join(below_sys), root.join("sys/bus/dsa/devices").join(name))?;
    Ok(dir)
}

fn map(kernel: Kernel, set: OpCap) -> String {
    match kernel {
        Kernel::Linux6 => set.to_string(),
        Kernel::Linux5 => set.0.map(|word| format!("{word:#x}")).join(" "),
    }
}

fn file(dir: &Path, name: &str, content: &str) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    fs::write(dir.join(name), format!("{content}\n"))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}
