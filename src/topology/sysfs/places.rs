//! Where cpus sit: packages and NUMA nodes, by the numbers the kernel gives them.

use std::collections::{BTreeMap, BTreeSet};

use super::files::Files;
use super::groups::Accounts;
use super::presence::CPU;

/// The package (socket) of each online cpu.
pub(super) fn packages(files: &mut Files<'_>, online: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
    let mut packages = BTreeMap::new();
    for &cpu in online {
        let number = files.number(format!("{CPU}/cpu{cpu}/topology/physical_package_id"));
        // -1 is the kernel's "unknown".
        let package = number.and_then(|number| usize::try_from(number).ok()).unwrap_or_else(|| {
            files.note("packages", format!("Nothing says in which package cpu {cpu} is; it counts as package 0."));
            0
        });
        packages.insert(cpu, package);
    }
    packages
}

/// The NUMA node of each online cpu that a node names. A kernel without NUMA names none.
pub(super) fn nodes(files: &mut Files<'_>, online: &BTreeSet<usize>) -> BTreeMap<usize, usize> {
    let mut numbers: Vec<usize> = files
        .names(NODE)
        .unwrap_or_default()
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    let mut texts = Accounts::default();
    let mut nodes = BTreeMap::new();
    for &node in &numbers {
        // A node without cpus (memory only) has an empty list.
        let Some(cpus) = texts.read(files, &format!("{NODE}/node{node}"), "cpulist", "cpumap") else { continue };
        for cpu in cpus.iter().filter(|cpu| online.contains(cpu)) {
            if let Some(earlier) = nodes.get(&cpu) {
                files
                    .note("nodes", format!("Cpu {cpu} is listed in nodes {earlier} and {node}; the first one counts."));
            } else {
                nodes.insert(cpu, node);
            }
        }
    }
    if !numbers.is_empty() {
        for cpu in online.iter().filter(|cpu| !nodes.contains_key(cpu)) {
            files.note("nodeless", format!("No node lists cpu {cpu}; it counts as node 0."));
        }
    }
    nodes
}

const NODE: &str = "sys/devices/system/node";
