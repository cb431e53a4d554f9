//! Short texts for what was read of a machine.

use std::collections::BTreeMap;

use twolane::topology::{Cpu, CpuList, Topology};

/// The cpus that have `key` in common, as lists between bars, for the online ones: `0-1 | 2-3`.
pub fn shared<K: Ord>(topology: &Topology, key: impl Fn(&Cpu) -> K) -> String {
    let mut groups: BTreeMap<K, Vec<usize>> = BTreeMap::new();
    for cpu in topology.cpus.iter().filter(|cpu| cpu.online) {
        groups.entry(key(cpu)).or_default().push(cpu.id);
    }
    let lists: Vec<String> = groups.into_values().map(list).collect();
    lists.join(" | ")
}

/// The cpus of which `is` holds, as a list.
pub fn those(topology: &Topology, is: impl Fn(&Cpu) -> bool) -> String {
    list(topology.cpus.iter().filter(|cpu| is(cpu)).map(|cpu| cpu.id))
}

fn list(cpus: impl IntoIterator<Item = usize>) -> String {
    cpus.into_iter().collect::<CpuList>().to_string()
}
