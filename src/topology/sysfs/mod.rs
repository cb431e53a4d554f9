//! Reads a [`Topology`] from `/sys` and `/proc` under a root that the caller chooses.
//!
//! Each file here answers one question about all cpus: who is there (`presence`), who shares a core (`cores`), who
//! shares a cache (`caches`), where they sit (`places`), what kind they are (`kinds`), what hides beneath (`machine`)
//! and what this process may use (`limits`). They all read through [`Files`], which never fails: what is missing or
//! odd becomes a note and an assumption. Only a machine of which nothing can be told is an error.

mod caches;
mod cores;
mod files;
mod groups;
mod kinds;
mod limits;
mod machine;
mod places;
mod presence;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use self::files::Files;
#[cfg(feature = "hwloc")]
pub(super) use self::kinds::by_measure as kinds_by_measure;
pub(super) use self::machine::decide_smt;
use super::cpulist::CpuList;
use super::{Cpu, Topology, TopologyError, pin};

/// Where to look, and what the calling thread may use.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    root: PathBuf,
    affinity: Affinity,
}

/// Where the affinity mask comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Affinity {
    /// The calling thread's, from the kernel.
    Calling,
    /// `Cpus_allowed_list` in `proc/self/status` under the root.
    Recorded,
}

impl Host {
    /// This machine, as the calling thread may use it.
    pub(crate) fn live() -> Self {
        Self { root: PathBuf::from("/"), affinity: Affinity::Calling }
    }

    /// The machine whose `sys` and `proc` lie under `root`.
    pub(crate) fn under(root: &Path) -> Self {
        Self { root: root.to_owned(), affinity: Affinity::Recorded }
    }
}

/// Reads the machine.
pub(crate) fn read(host: &Host) -> Result<Topology, TopologyError> {
    let mut files = Files::new(&host.root);
    let affinity = affinity(host.affinity, &mut files);
    let presence = presence::read(&mut files, affinity.as_ref())?;
    let online = &presence.online;

    let cores = cores::read(&mut files, online);
    let packages = places::packages(&mut files, online);
    let nodes = places::nodes(&mut files, online);
    let caches = caches::read(&mut files, online, &packages);
    let kinds = kinds::read(&mut files, online);
    let hypervisor = machine::hypervisor(&mut files);
    let limits = limits::read(&mut files);
    let allowed = allowed(online, affinity.as_ref(), limits.cpuset.as_ref())?;
    let siblings_seen = cores.iter().any(|(cpu, core)| cpu != core);

    let cpus = presence
        .present
        .iter()
        .map(|&id| Cpu {
            id,
            core: cores.get(&id).copied().unwrap_or(id),
            llc: caches.get(&id).copied().unwrap_or(id),
            node: nodes.get(&id).copied().unwrap_or(0),
            package: packages.get(&id).copied().unwrap_or(0),
            kind: kinds.get(&id).copied().unwrap_or(super::CoreKind::Uniform),
            online: online.contains(&id),
            isolated: presence.isolated.contains(id),
            allowed: allowed.contains(&id),
        })
        .collect();
    let smt = decide_smt(siblings_seen, hypervisor, machine::smt_control(&mut files).as_deref());
    Ok(Topology { cpus, smt, hypervisor, quota: limits.quota, notes: files.into_notes() })
}

/// What a reader of cpus and caches alone leaves out.
#[cfg(feature = "hwloc")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Besides {
    pub isolated: CpuList,
    pub hypervisor: bool,
    pub smt_control: Option<String>,
    pub quota: Option<super::Quota>,
    pub notes: Vec<String>,
}

/// Reads that.
#[cfg(feature = "hwloc")]
pub(crate) fn besides(host: &Host) -> Besides {
    let mut files = Files::new(&host.root);
    Besides {
        isolated: presence::isolated(&mut files),
        hypervisor: machine::hypervisor(&mut files),
        smt_control: machine::smt_control(&mut files),
        quota: limits::read(&mut files).quota,
        notes: files.into_notes(),
    }
}

/// The affinity mask, or `None` where nobody can tell; then every online cpu counts.
fn affinity(from: Affinity, files: &mut Files<'_>) -> Option<BTreeSet<usize>> {
    match from {
        Affinity::Calling => match pin::current_mask() {
            Ok(mask) => Some(mask),
            Err(error) => {
                files.note("affinity", format!("The affinity mask cannot be read ({error}); all online cpus count."));
                None
            }
        },
        Affinity::Recorded => {
            const STATUS: &str = "proc/self/status";
            let status = files.text(STATUS)?;
            let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
            let mask = files.understood(STATUS, list.parse::<CpuList>())?;
            (!mask.is_empty()).then(|| mask.into_set())
        }
    }
}

/// What is online and in the mask and in the cpuset.
fn allowed(
    online: &BTreeSet<usize>,
    affinity: Option<&BTreeSet<usize>>,
    cpuset: Option<&limits::Cpuset>,
) -> Result<BTreeSet<usize>, TopologyError> {
    let in_mask = |cpu: &usize| affinity.is_none_or(|mask| mask.contains(cpu));
    let in_set = |cpu: &usize| cpuset.is_none_or(|set| set.cpus.contains(*cpu));
    let allowed: BTreeSet<usize> = online.iter().copied().filter(|cpu| in_mask(cpu) && in_set(cpu)).collect();
    if !allowed.is_empty() {
        return Ok(allowed);
    }
    let list = |cpus: &BTreeSet<usize>| CpuList::from(cpus.clone()).to_string();
    let mut why = format!("online are {}", list(online));
    if let Some(mask) = affinity {
        why += &format!(", the affinity mask has {}", list(mask));
    }
    if let Some(set) = cpuset {
        why += &format!(", the cpuset {} has {}", set.source.display(), set.cpus);
    }
    Err(TopologyError::NoCpu { why: why + "; widen the mask (taskset) or the cpuset, or bring a cpu of theirs online" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_is_what_all_agree_on() {
        let set = |cpus: &[usize]| cpus.iter().copied().collect::<BTreeSet<_>>();
        let cpuset = |cpus: &[usize]| limits::Cpuset {
            cpus: cpus.iter().copied().collect(),
            source: PathBuf::from("/sys/fs/cgroup/cpuset.cpus.effective"),
        };
        let online = set(&[0, 1, 2, 3]);
        assert_eq!(allowed(&online, None, None), Ok(online.clone()));
        assert_eq!(allowed(&online, Some(&set(&[1, 2, 9])), None), Ok(set(&[1, 2])));
        assert_eq!(allowed(&online, Some(&set(&[1, 2, 9])), Some(&cpuset(&[2, 3]))), Ok(set(&[2])));
        let none = allowed(&online, Some(&set(&[1])), Some(&cpuset(&[2]))).unwrap_err().to_string();
        assert_eq!(
            none,
            "no cpu is left for this process: online are 0-3, the affinity mask has 1, the cpuset \
             /sys/fs/cgroup/cpuset.cpus.effective has 2; widen the mask (taskset) or the cpuset, or bring a cpu of \
             theirs online"
        );
    }

    #[test]
    fn this_machine_can_be_read() {
        let topology = read(&Host::live()).unwrap();
        assert_eq!(topology.allowed(), pin::current_mask().unwrap());
    }
}
