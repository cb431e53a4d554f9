//! What the process's control groups leave it: a set of cpus, and a share of their time.

use std::path::{Path, PathBuf};

use super::files::Files;
use crate::topology::Quota;
use crate::topology::cgroup::{
    Trail, Version, cgroup_from_cpuset, mountinfo_from_mounts, parse_cfs, parse_cpu_max, trails,
};
use crate::topology::cpulist::CpuList;

/// The limits found; `None` where there is none.
#[derive(Debug, Default)]
pub(super) struct Limits {
    pub cpuset: Option<Cpuset>,
    pub quota: Option<Quota>,
}

/// The cpus that a group may use, and the file that says so.
#[derive(Debug)]
pub(super) struct Cpuset {
    pub cpus: CpuList,
    pub source: PathBuf,
}

/// Reads both.
pub(super) fn read(files: &mut Files<'_>) -> Limits {
    // A kernel without control groups has no such file, and no limits.
    let Some(cgroup) = membership(files) else { return Limits::default() };
    let Some(mountinfo) = mounts(files) else {
        let place = files.place(MOUNTINFO);
        files.note("mountinfo", format!("{} is missing; limits of control groups are not seen.", place.display()));
        return Limits::default();
    };
    let cpuset = trails(&cgroup, &mountinfo, "cpuset").iter().find_map(|trail| cpuset(files, trail));
    let quota = trails(&cgroup, &mountinfo, "cpu").iter().filter_map(|trail| quota(files, trail)).min_by(tighter);
    Limits { cpuset, quota }
}

const MOUNTINFO: &str = "proc/self/mountinfo";

/// `/proc/self/cgroup`, or what stands in for it in older snapshots of machines.
fn membership(files: &mut Files<'_>) -> Option<String> {
    let stand_in = |path: String| cgroup_from_cpuset(&path);
    files.text("proc/self/cgroup").or_else(|| files.text("proc/self/cpuset").map(stand_in))
}

/// `/proc/self/mountinfo`, or what stands in for it in snapshots of machines.
fn mounts(files: &mut Files<'_>) -> Option<String> {
    files.text(MOUNTINFO).or_else(|| {
        let mounts = files.text("proc/mounts")?;
        let place = files.place(MOUNTINFO);
        let sentence =
            format!("{} is missing; taken instead: proc/mounts, as if all was mounted whole.", place.display());
        files.note("mounts", sentence);
        Some(mountinfo_from_mounts(&mounts))
    })
}

/// The set that is in force in the nearest group which has one.
fn cpuset(files: &mut Files<'_>, trail: &Trail) -> Option<Cpuset> {
    // A place that is guessed may be somebody else's. The affinity mask respects the right one anyway.
    if !trail.certain {
        return None;
    }
    let names: &[&str] = match trail.version {
        // The short names are those of mounts without prefixes.
        Version::V1 => &["cpuset.effective_cpus", "effective_cpus", "cpuset.cpus", "cpus"],
        Version::V2 => &["cpuset.cpus.effective"],
    };
    // An empty set is one that was never filled: the group above decides.
    trail.dirs.iter().flat_map(|dir| names.iter().map(move |name| dir.join(name))).find_map(|path| {
        let cpus = files.list(&path).filter(|cpus| !cpus.is_empty())?;
        Some(Cpuset { cpus, source: files.place(&path) })
    })
}

/// The tightest quota on the way up.
fn quota(files: &mut Files<'_>, trail: &Trail) -> Option<Quota> {
    let tightest = trail.dirs.iter().filter_map(|dir| quota_in(files, trail.version, dir)).min_by(tighter);
    if let (Some(quota), false) = (&tightest, trail.certain) {
        let source = quota.source.display();
        let sentence = format!("The process's own control group cannot be located; the quota in {source} is assumed.");
        files.note("namespace", sentence);
    }
    tightest
}

fn quota_in(files: &mut Files<'_>, version: Version, dir: &Path) -> Option<Quota> {
    let (path, parsed) = match version {
        Version::V1 => {
            let path = dir.join("cpu.cfs_quota_us");
            let quota = files.text(&path)?;
            let period = files.text(dir.join("cpu.cfs_period_us")).unwrap_or_default();
            (path, parse_cfs(&quota, &period))
        }
        Version::V2 => {
            let path = dir.join("cpu.max");
            let text = files.text(&path)?;
            (path, parse_cpu_max(&text))
        }
    };
    let cpus = files.understood(&path, parsed)??;
    Some(Quota { cpus, source: files.place(&path) })
}

fn tighter(a: &Quota, b: &Quota) -> std::cmp::Ordering {
    a.cpus.total_cmp(&b.cpus)
}
