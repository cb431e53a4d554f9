//! Which cpus are siblings on one physical core.
//!
//! The kernel's own lists decide, never `core_id`, which repeats from package to package and lies on some firmware.

use std::collections::{BTreeMap, BTreeSet};

use super::files::Files;
use super::groups::{Accounts, partition};
use super::presence::CPU;
use crate::topology::cpulist::CpuList;

/// For each online cpu the smallest cpu of its core.
pub(super) fn read(files: &mut Files<'_>, online: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
    let mut texts = Accounts::default();
    let mut accounts = BTreeMap::new();
    for &cpu in online {
        let dir = format!("{CPU}/cpu{cpu}/topology");
        let account = texts
            .read(files, &dir, "core_cpus_list", "core_cpus")
            .or_else(|| texts.read(files, &dir, "thread_siblings_list", "thread_siblings"));
        match account {
            Some(account) => {
                accounts.insert(cpu, account);
            }
            None => files.note("cores", format!("Nothing says with whom cpu {cpu} shares a core; it counts as alone.")),
        }
    }
    let groups = partition(online, &accounts);
    if !groups.disputed.is_empty() {
        let disputed = CpuList::from(groups.disputed);
        files.note(
            "siblings",
            format!("The sibling lists of cpus {disputed} contradict each other; only cpus that agree share a core."),
        );
    }
    groups.leader
}
