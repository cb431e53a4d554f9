//! Which cpus share their last-level cache.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::files::Files;
use super::groups::Accounts;
use super::presence::CPU;
use crate::topology::cpulist::CpuList;

/// For each online cpu the smallest cpu of its last-level-cache domain.
///
/// The list of one cpu speaks for all that it names, so most cpus' files are never opened. Where a cpu has no cache to
/// tell of, its cluster stands in, and where it has none of those either, its package.
pub(super) fn read(
    files: &mut Files<'_>,
    online: &BTreeSet<usize>,
    packages: &BTreeMap<usize, usize>,
) -> BTreeMap<usize, usize> {
    let mut texts = Accounts::default();
    let mut domains: BTreeMap<usize, usize> = BTreeMap::new();
    for &cpu in online {
        if domains.contains_key(&cpu) {
            continue;
        }
        let domain: BTreeSet<usize> = match last_level(files, &mut texts, cpu) {
            Some(shared) => shared.iter().collect(),
            None => stand_in(files, &mut texts, cpu, packages),
        };
        let free = |member: &usize| online.contains(member) && !domains.contains_key(member);
        let taken = domain.iter().any(|member| domains.contains_key(member));
        if taken || !domain.contains(&cpu) {
            files.note(
                "caches",
                format!("The cache lists around cpu {cpu} contradict each other; the first one counts."),
            );
        }
        // Cpus are visited upwards and smaller ones are placed already, so this one is the smallest of its domain.
        let members: Vec<usize> = domain.iter().copied().filter(free).collect();
        domains.extend(members.into_iter().map(|member| (member, cpu)));
        domains.insert(cpu, cpu);
    }
    domains
}

/// Who shares the highest cache of `cpu` that holds data.
fn last_level(files: &mut Files<'_>, texts: &mut Accounts, cpu: usize) -> Option<Rc<CpuList>> {
    let cache = format!("{CPU}/cpu{cpu}/cache");
    let mut levels: Vec<(i64, String)> = Vec::new();
    for name in files.names(&cache)?.iter().filter(|name| name.starts_with("index")) {
        let index = format!("{cache}/{name}");
        let holds_data = files.text(format!("{index}/type")).is_some_and(|kind| kind.trim() != "Instruction");
        if let (true, Some(level)) = (holds_data, files.number(format!("{index}/level"))) {
            levels.push((level, index));
        }
    }
    levels.sort();
    levels.iter().rev().find_map(|(_, index)| texts.read(files, index, "shared_cpu_list", "shared_cpu_map"))
}

/// The cluster of `cpu` if it has company there, else its package.
fn stand_in(
    files: &mut Files<'_>,
    texts: &mut Accounts,
    cpu: usize,
    packages: &BTreeMap<usize, usize>,
) -> BTreeSet<usize> {
    let topology = format!("{CPU}/cpu{cpu}/topology");
    let cluster = texts.read(files, &topology, "cluster_cpus_list", "cluster_cpus");
    if let Some(cluster) = cluster.filter(|cluster| cluster.contains(cpu) && cluster.len() > 1) {
        files.note("cacheless", format!("Cpu {cpu} tells of no cache; its cluster {cluster} counts as one domain."));
        return cluster.iter().collect();
    }
    let package = packages.get(&cpu);
    files.note("cacheless", format!("Cpu {cpu} tells of no cache; its package counts as one domain."));
    packages.iter().filter(|(_, other)| Some(*other) == package).map(|(&cpu, _)| cpu).collect()
}
