//! Which cpus there are, which of them run, and which the kernel keeps ordinary tasks off.

use std::collections::BTreeSet;

use super::files::Files;
use crate::topology::TopologyError;
use crate::topology::cpulist::{CPUS_MAX, CpuList};

/// The cpus of the machine.
#[derive(Debug)]
pub(super) struct Presence {
    /// All that are there, `online` among them.
    pub present: BTreeSet<usize>,
    /// Those that run. Never empty.
    pub online: BTreeSet<usize>,
    /// Those that `isolcpus` names.
    pub isolated: CpuList,
}

/// Reads the lists, or makes them up from the `cpuN` directories, or from the affinity mask.
///
/// # Errors
/// [`TopologyError::Unreadable`] where none of these says anything.
pub(super) fn read(files: &mut Files<'_>, affinity: Option<&BTreeSet<usize>>) -> Result<Presence, TopologyError> {
    let listed = |files: &mut Files<'_>, name: &str| {
        files.list(format!("{CPU}/{name}")).filter(|list| !list.is_empty()).map(CpuList::into_set)
    };
    let mut present = listed(files, "present");
    let mut online = listed(files, "online");
    let isolated = isolated(files);

    if present.is_none() || online.is_none() {
        let (there, running) = from_directories(files);
        if present.is_none() {
            present = guess(files, "present", "the cpuN directories", there);
        }
        if online.is_none() {
            online = guess(files, "online", "the cpuN directories", running);
        }
        if online.is_none() {
            online = guess(files, "online", "the affinity mask", affinity.cloned().unwrap_or_default());
        }
    }
    let Some(online) = online else {
        let path = files.place(CPU);
        let why = "no list of online cpus, no cpuN directory and no affinity mask; is /sys mounted?".to_owned();
        return Err(TopologyError::Unreadable { path, why });
    };
    let mut present = present.unwrap_or_default();
    if !online.is_subset(&present) {
        if !present.is_empty() {
            let extra: CpuList = online.difference(&present).copied().collect();
            files.note("present", format!("Cpus {extra} are online but not listed as present; they count."));
        }
        present.extend(&online);
    }
    Ok(Presence { present, online, isolated })
}

/// Where the kernel describes cpus.
pub(super) const CPU: &str = "sys/devices/system/cpu";

/// The cpus that `isolcpus` names.
pub(super) fn isolated(files: &mut Files<'_>) -> CpuList {
    files.list(format!("{CPU}/isolated")).unwrap_or_default()
}

fn guess(files: &mut Files<'_>, name: &str, from: &str, cpus: BTreeSet<usize>) -> Option<BTreeSet<usize>> {
    if cpus.is_empty() {
        return None;
    }
    let place = files.place(format!("{CPU}/{name}"));
    files.note(name, format!("{} is missing or says nothing; taken instead: {from}.", place.display()));
    Some(cpus)
}

/// All cpus that have a directory, and those of them that are not switched off there.
fn from_directories(files: &mut Files<'_>) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let names = files.names(CPU).unwrap_or_default();
    let there: BTreeSet<usize> = names
        .iter()
        .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
        .filter(|&cpu: &usize| cpu < CPUS_MAX)
        .collect();
    // Cpu 0 often has no such file as it cannot be switched off.
    let running =
        there.iter().copied().filter(|cpu| files.number(format!("{CPU}/cpu{cpu}/online")) != Some(0)).collect();
    (there, running)
}
