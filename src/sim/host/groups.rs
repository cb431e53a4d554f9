//! Writes control groups: where the process is, what is mounted, and what limits it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::tree::{file, list};
use super::{GroupVersion, invalid};

/// The groups of a described machine.
#[derive(Clone, Debug)]
pub(super) struct Groups {
    version: Option<GroupVersion>,
    own: String,
    pub only_own: bool,
    pub cpusets: BTreeMap<String, String>,
    /// Quota and period, in microseconds.
    pub quotas: BTreeMap<String, (u64, u64)>,
}

impl Groups {
    pub(super) fn new(version: GroupVersion, own: String) -> Self {
        Self { version: Some(version), own, ..Self::unset() }
    }

    /// Limits without a version: an error later, when the tree is written.
    pub(super) fn unset() -> Self {
        Self { version: None, own: "/".into(), only_own: false, cpusets: BTreeMap::new(), quotas: BTreeMap::new() }
    }
}

/// Writes them under `root`. Every cpuset that nobody restricts has all of `online`.
pub(super) fn write(root: &Path, groups: Option<&Groups>, online: &BTreeSet<usize>) -> io::Result<()> {
    let Some(groups) = groups else { return Ok(()) };
    let Some(version) = groups.version else {
        return Err(invalid("a limit of a control group needs `groups` first"));
    };
    for path in groups.cpusets.keys().chain(groups.quotas.keys()).chain([&groups.own]) {
        let odd = |step: Component<'_>| !matches!(step, Component::RootDir | Component::Normal(_));
        if !path.starts_with('/') || Path::new(path).components().any(odd) {
            // A step upwards would leave the tree.
            return Err(invalid(format!("{path:?} is no control group: wanted an absolute path without `..`")));
        }
    }
    let mounted = if groups.only_own { groups.own.as_str() } else { "/" };
    let hierarchies: &[(&str, &str)] = match version {
        GroupVersion::V1 => &[("cpu", "/sys/fs/cgroup/cpu"), ("cpuset", "/sys/fs/cgroup/cpuset")],
        GroupVersion::V2 => &[("", "/sys/fs/cgroup")],
    };

    let (mut cgroup, mut mountinfo, mut mounts) = (String::new(), String::new(), String::new());
    for (number, (controller, point)) in hierarchies.iter().enumerate() {
        let (kind, options, id) = match version {
            GroupVersion::V1 => ("cgroup", format!("rw,{controller}"), number + 1),
            GroupVersion::V2 => ("cgroup2", "rw".to_owned(), 0),
        };
        cgroup += &format!("{id}:{controller}:{}\n", groups.own);
        mountinfo += &format!("{} 20 0:{} {mounted} {point} rw - {kind} {kind} {options}\n", 30 + number, 40 + number);
        mounts += &format!("{kind} {point} {kind} {options} 0 0\n");
    }
    let own_dir = root.join("proc/self");
    file(&own_dir, "cgroup", cgroup.trim_end())?;
    file(&own_dir, "mountinfo", mountinfo.trim_end())?;
    file(&root.join("proc"), "mounts", mounts.trim_end())?;

    for path in visible(groups, mounted) {
        let inner = inside(&path, mounted);
        let cpus = groups.cpusets.get(&path).cloned().unwrap_or_else(|| list(online));
        let quota = groups.quotas.get(&path);
        let top = inner.as_os_str().is_empty() && !groups.only_own;
        match version {
            GroupVersion::V1 => {
                let dir = root.join("sys/fs/cgroup/cpuset").join(&inner);
                file(&dir, "cpuset.cpus", &cpus)?;
                file(&dir, "cpuset.effective_cpus", &cpus)?;
                file(&dir, "cpuset.mems", "0")?;
                let (quota, period) = match quota {
                    Some((quota, period)) => (quota.to_string(), *period),
                    None => ("-1".to_owned(), PERIOD_US),
                };
                let dir = root.join("sys/fs/cgroup/cpu").join(&inner);
                file(&dir, "cpu.cfs_quota_us", &quota)?;
                file(&dir, "cpu.cfs_period_us", &period.to_string())?;
            }
            GroupVersion::V2 => {
                let dir = root.join("sys/fs/cgroup").join(&inner);
                file(&dir, "cgroup.controllers", "cpuset cpu")?;
                file(&dir, "cpuset.cpus.effective", &cpus)?;
                match quota {
                    Some((quota, period)) => file(&dir, "cpu.max", &format!("{quota} {period}"))?,
                    // The root group of version 2 has no quota at all.
                    None if top => {}
                    None => file(&dir, "cpu.max", &format!("max {PERIOD_US}"))?,
                }
            }
        }
    }
    Ok(())
}

/// The kernel's default period.
const PERIOD_US: u64 = 100_000;

/// The process's group and all above it, and whatever the description limits, as far as the mount shows them.
fn visible(groups: &Groups, mounted: &str) -> BTreeSet<String> {
    let named = groups.cpusets.keys().chain(groups.quotas.keys()).chain([&groups.own]);
    named
        .flat_map(|path| Path::new(path).ancestors())
        .filter(|path| path.starts_with(mounted))
        .map(|path| path.display().to_string())
        .collect()
}

/// The part of `path` below the mount.
fn inside(path: &str, mounted: &str) -> PathBuf {
    Path::new(path).strip_prefix(mounted).unwrap_or(Path::new("")).to_owned()
}
