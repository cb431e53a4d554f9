//! Why a device or queue is not used, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use super::advice;
use super::command::CommandStatus;

/// A device or queue that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Its directory in sysfs, or its node where nothing else is known of it.
    pub path: PathBuf,
    /// Why.
    pub why: Why,
    /// What to type, a line each, to be carried out in order; a line that begins with `or: ` is an alternative to the one before. Empty where
    /// nothing is to be mended.
    pub remedy: Vec<String>,
}

/// Why a device or queue is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It was opened or tried, and that failed.
    NotOpened {
        /// What was said, with what to do.
        error: String,
    },
    /// It is an analytics accelerator (IAA, `iax`), which is on the same bus and does not copy.
    Analytics,
    /// The device met a fault that it did not survive.
    DeviceHalted,
    /// The device is not enabled.
    DeviceNotEnabled {
        /// What it is instead.
        state: String,
        /// What the driver's last command came to.
        command: Option<CommandStatus>,
    },
    /// The device cannot work on a process's memory.
    NoPasid,
    /// No queue of the device is configured.
    NoQueue,
    /// Nobody configured the queue. Not told as long as another one of its device is configured.
    Unconfigured,
    /// The queue is the kernel's, a virtual machine's, or nobody's.
    NotForUsers {
        /// Its `type`.
        kind: String,
        /// Its `driver_name`.
        driver: String,
    },
    /// The queue is not enabled.
    NotEnabled {
        /// What it is instead.
        state: String,
        /// What the driver's last command came to.
        command: Option<CommandStatus>,
    },
    /// The queue has no entries.
    NoSize,
    /// The queue is shared and refuses everybody.
    NoThreshold,
    /// The device would not tell of writes that failed.
    HidesFaults,
    /// Its largest transfer is zero.
    NoTransfer,
    /// There is no device node.
    NoNode {
        /// Where it should be.
        node: PathBuf,
    },
    /// The device node is closed to this process.
    NotPermitted {
        /// The node.
        node: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// Its owner.
        uid: u32,
        /// Its group.
        gid: u32,
    },
    /// There is a device node, and nothing describes its queue.
    Undescribed,
    /// A file that every kernel has is not there.
    Missing {
        /// The file.
        file: &'static str,
    },
    /// A file cannot be read.
    Unreadable {
        /// The file.
        file: &'static str,
        /// What the kernel said.
        error: String,
    },
    /// A file means nothing.
    Nonsense {
        /// The file.
        file: &'static str,
        /// Its beginning.
        text: String,
    },
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = |f: &mut fmt::Formatter<'_>, what, state: &str, command: &Option<CommandStatus>| {
            let state = if state.is_empty() { "in no known state" } else { state };
            write!(f, "{what} is {state}")?;
            match command {
                Some(command) if !command.is_success() => write!(f, " (cmd_status {command})"),
                _ => Ok(()),
            }
        };
        match self {
            Self::NotOpened { error } => f.write_str(error),
            Self::Analytics => f.write_str("it is an analytics accelerator (IAA), which does not copy"),
            Self::DeviceHalted => f.write_str("the device is halted"),
            Self::DeviceNotEnabled { state: text, command } => state(f, "the device", text, command),
            Self::NoPasid => f.write_str("the device cannot work on a process's memory (pasid_enabled is 0)"),
            Self::NoQueue => f.write_str("no work queue of the device is configured"),
            Self::Unconfigured => f.write_str("the queue is not configured"),
            Self::NotForUsers { kind, driver } => {
                write!(f, "the queue is not for user space (type {kind:?}, driver_name {driver:?})")
            }
            Self::NotEnabled { state: text, command } => state(f, "the queue", text, command),
            Self::NoSize => f.write_str("the queue has no entries (size is 0)"),
            Self::NoThreshold => f.write_str("the queue is shared and refuses everybody (threshold is 0)"),
            Self::HidesFaults => f.write_str("failed writes would not be reported (ats_disable is 1)"),
            Self::NoTransfer => f.write_str("the queue moves nothing (max_transfer_size is 0)"),
            Self::NoNode { node } => write!(f, "there is no device node {}", node.display()),
            Self::NotPermitted { node, mode, uid, gid } => {
                write!(f, "{} is closed to this process (mode {mode:03o}, uid {uid}, gid {gid})", node.display())
            }
            Self::Undescribed => f.write_str("there is a device node, but nothing in sysfs describes it"),
            Self::Missing { file } => write!(f, "there is no file {file}, which tells what must be known"),
            Self::Unreadable { file, error } => write!(f, "{file} cannot be read: {error}"),
            Self::Nonsense { file, text } => write!(f, "{file} means nothing: {text:?}"),
        }
    }
}

/// What a remedy speaks of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside<'a> {
    /// `dsa0`.
    pub(crate) device: &'a str,
    /// `wq0.1`, unless the device as a whole is meant.
    pub(crate) queue: Option<&'a str>,
}

impl Why {
    /// What to type, as in [`Skipped::remedy`].
    #[must_use]
    pub(crate) fn remedy(&self, beside: Beside<'_>) -> Vec<String> {
        let Beside { device, queue } = beside;
        let path = queue.map_or(device.to_owned(), |queue| format!("{device}/{queue}"));
        let after = |command: &Option<CommandStatus>| {
            let line = command.and_then(CommandStatus::remedy);
            line.map(|line| line.replace("NAME", &path)).into_iter()
        };
        match self {
            // Its error says what to do.
            Self::Analytics | Self::NotOpened { .. } => Vec::new(),
            Self::DeviceHalted => {
                let first = format!("dmesg | grep -i -e idxd -e DMAR; accel-config disable-device {device}");
                std::iter::once(first).chain(advice::configure(device)).collect()
            }
            Self::DeviceNotEnabled { command, .. } => {
                let iommu = command.and_then(CommandStatus::remedy).filter(|line| !line.contains("NAME"));
                iommu.map(str::to_owned).into_iter().chain(advice::configure(device)).collect()
            }
            Self::NoQueue => advice::configure(device).collect(),
            Self::NoPasid => vec![advice::SCALABLE_IOMMU.to_owned()],
            Self::Unconfigured | Self::NotForUsers { .. } => {
                advice::reconfigure(&path, "--type=user --driver-name=user --name=twolane").into()
            }
            Self::NotEnabled { command, .. } => {
                after(command).chain([format!("accel-config enable-wq {path}")]).collect()
            }
            Self::NoSize => advice::reconfigure(&path, "--wq-size=16").into(),
            Self::NoThreshold => advice::reconfigure(&path, "--threshold=15").into(),
            Self::NoTransfer => advice::reconfigure(&path, "--max-transfer-size=2097152").into(),
            Self::HidesFaults => vec![
                format!("accel-config disable-wq {path}"),
                format!("echo 0 > /sys/bus/dsa/devices/{path}/ats_disable"),
                format!("accel-config enable-wq {path}"),
            ],
            Self::NoNode { node } => vec![
                format!("docker run --device={} ...", node.display()),
                format!("or: accel-config config-wq {path} --driver-name=user && accel-config enable-wq {path}"),
            ],
            Self::NotPermitted { node, .. } => advice::permit(&node.display().to_string()).into(),
            Self::Undescribed | Self::Missing { .. } | Self::Unreadable { .. } => vec![
                advice::SHOW_CONTAINER.to_owned(),
                "or: describe the queue by hand (`discover::Explicit`)".to_owned(),
            ],
            Self::Nonsense { .. } => vec!["describe the queue by hand (`discover::Explicit`)".to_owned()],
        }
    }
}

/// The path, why, and what to type.
impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)?;
        typed(f, &self.remedy)
    }
}

/// Why a runtime that was to use DSA has no queue: what there is, and what to type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NoWorkQueue {
    /// Where it was looked.
    pub places: super::Places,
    /// What was asked for, if queues were found and none of them has it: `CRCGEN`, `label "fast"`.
    pub wanted: Option<String>,
    /// Queues that were found and do not do, in words.
    pub found: Vec<String>,
    /// What cannot be used at all.
    pub skipped: Vec<Skipped>,
}

impl NoWorkQueue {
    /// From a search that came to nothing, or to queues without something that is `wanted`.
    #[must_use]
    pub fn after(places: super::Places, found: super::Found, wanted: Option<String>) -> Self {
        let queues = found.queues.iter().map(ToString::to_string).collect();
        Self { places, wanted, found: queues, skipped: found.skipped }
    }
}

impl fmt::Display for NoWorkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DSA was demanded, and no work queue can be used")?;
        if let Some(wanted) = &self.wanted {
            write!(f, ": none has {wanted}")?;
        }
        if self.found.is_empty() && self.skipped.is_empty() {
            write!(f, ": {} shows no device", self.places.sysfs.display())?;
            return typed(f, &advice::first_steps(false));
        }
        self.found.iter().try_for_each(|queue| write!(f, "\n{queue}: not what is wanted"))?;
        self.skipped.iter().try_for_each(|skipped| write!(f, "\n{skipped}"))
    }
}

impl std::error::Error for NoWorkQueue {}

fn typed(f: &mut fmt::Formatter<'_>, lines: &[String]) -> fmt::Result {
    lines.iter().try_for_each(|line| write!(f, "\n    > {line}"))
}
