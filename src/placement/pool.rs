//! Which cpus may carry a lane at all, and why each other one may not.
//!
//! The conditions, in this order: online, allowed, on the node, among the cpus asked for, not isolated, not reserved.
//! A cpu is left out for the first one it fails. What the shape of the pairs leaves over is none of this file's business.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{CpuFault, PlanError};
use super::ranges::Cpus;
use super::{Placement, Request};
use crate::topology::{Cpu, Topology};

/// The cpus that may carry lanes, and what became of the others.
#[derive(Debug)]
pub(super) struct Pool {
    /// May carry a lane. Never empty.
    pub(super) usable: BTreeSet<usize>,
    /// Left to the OS.
    pub(super) reserved: BTreeSet<usize>,
    /// Why each of the remaining cpus is out, the reserved ones included.
    pub(super) reasons: BTreeMap<usize, String>,
    /// What the user should know about the choice.
    pub(super) notes: Vec<String>,
}

impl Pool {
    /// Sorts the cpus of `topology` by what `request` wants of them.
    pub(super) fn gather(request: &Request, topology: &Topology) -> Result<Self, PlanError> {
        let named = named(request, topology)?;
        check_node(request, topology)?;

        // A mask of nothing but isolated cpus was made by somebody who wants them used.
        let only_isolated = topology.cpus.iter().filter(|cpu| cpu.allowed).all(|cpu| cpu.isolated);
        let mut pool =
            Self { usable: BTreeSet::new(), reserved: BTreeSet::new(), reasons: BTreeMap::new(), notes: Vec::new() };
        for cpu in &topology.cpus {
            if let Some(reason) = exclusion(cpu, request.node, named.as_ref(), only_isolated) {
                pool.reasons.insert(cpu.id, reason);
            } else {
                pool.usable.insert(cpu.id);
            }
        }
        if pool.usable.is_empty() {
            return Err(PlanError::NoCpu { why: conditions(request), allowed: topology.allowed() });
        }

        let outside: BTreeSet<usize> = pool.usable.iter().copied().filter(|id| !is_allowed(topology, *id)).collect();
        if !outside.is_empty() {
            pool.notes.push(format!(
                "{} named although isolated and outside the affinity mask: pinning is tried there, and fails if the cpuset \
                 forbids it",
                Cpus(&outside)
            ));
        }
        if matches!(request.placement, Placement::Pairs(_)) {
            check_left_over(request, topology, &pool.usable)?;
        } else {
            pool.reserve(request.reserve, topology)?;
        }
        Ok(pool)
    }

    /// Moves `count` cpus from `usable` to `reserved`.
    fn reserve(&mut self, count: usize, topology: &Topology) -> Result<(), PlanError> {
        if count >= self.usable.len() {
            return Err(PlanError::ReserveTooLarge {
                asked: count,
                from: self.usable.clone(),
                most: self.usable.len() - 1,
            });
        }
        self.reserved = lowest(&cores(&self.usable, topology), count);
        for id in &self.reserved {
            self.usable.remove(id);
            self.reasons.insert(*id, "reserved for the OS".to_owned());
        }
        Ok(())
    }
}

/// The `ids` by core, ascending by their lowest member.
pub(super) fn cores(ids: &BTreeSet<usize>, topology: &Topology) -> Vec<Vec<usize>> {
    let mut members: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for cpu in topology.cpus.iter().filter(|cpu| ids.contains(&cpu.id)) {
        members.entry(cpu.core).or_default().push(cpu.id);
    }
    let mut cores: Vec<Vec<usize>> = members.into_values().collect();
    cores.sort_unstable();
    cores
}

/// The first `count` cpus in whole cores; the last of them may have to break one.
///
/// A broken core is of no use for a pair, so a small core further up is taken before a large one is broken.
fn lowest(cores: &[Vec<usize>], count: usize) -> BTreeSet<usize> {
    let mut taken = BTreeSet::new();
    for core in cores {
        if core.len() <= count - taken.len() {
            taken.extend(core);
        }
    }
    let broken = cores.iter().flatten().filter(|id| !taken.contains(*id)).take(count - taken.len());
    let broken: Vec<usize> = broken.copied().collect();
    taken.extend(broken);
    taken
}

/// Cpus that the request names one by one, each checked: those of the explicit pairs, else those of `cpus`.
fn named(request: &Request, topology: &Topology) -> Result<Option<BTreeSet<usize>>, PlanError> {
    if let Some(ids) = &request.cpus {
        if ids.is_empty() {
            return Err(PlanError::EmptyList { knob: "cpus" });
        }
        for id in ids {
            check_cpu(*id, "cpus", topology)?;
        }
    }
    let Placement::Pairs(pairs) = &request.placement else { return Ok(request.cpus.clone()) };
    if pairs.is_empty() {
        return Err(PlanError::EmptyList { knob: "Placement::Pairs" });
    }
    let mut ids = BTreeSet::new();
    let mut twice = None;
    for id in pairs.iter().flat_map(|(poll, compute)| [*poll, *compute]) {
        let cpu = check_cpu(id, "Placement::Pairs", topology)?;
        check_inside(cpu, request)?;
        if !ids.insert(id) {
            twice = twice.or(Some(id));
        }
    }
    // Reported last, when all that the pairs name is known: the message lists what is free.
    match twice {
        Some(cpu) => Err(PlanError::Duplicate { cpu, free: &topology.allowed() - &ids }),
        None => Ok(Some(ids)),
    }
}

/// A named cpu must be there, online, and allowed or at least isolated: the kernel starts every process outside the
/// isolated cpus, and leaves it to the process to move there.
fn check_cpu<'t>(id: usize, knob: &'static str, topology: &'t Topology) -> Result<&'t Cpu, PlanError> {
    let fault = match topology.cpu(id) {
        None => CpuFault::NotPresent,
        Some(cpu) if !cpu.online => CpuFault::Offline,
        Some(cpu) if !cpu.allowed && !cpu.isolated => CpuFault::NotAllowed,
        Some(cpu) => return Ok(cpu),
    };
    Err(PlanError::Unusable { cpu: id, knob, fault, allowed: topology.allowed() })
}

/// A cpu of an explicit pair must not contradict `node` or `cpus`.
fn check_inside(cpu: &Cpu, request: &Request) -> Result<(), PlanError> {
    let one = || format!("cpu {} of `Placement::Pairs`", cpu.id);
    if let Some(node) = request.node.filter(|node| *node != cpu.node) {
        return Err(PlanError::Conflict {
            one: one(),
            other: format!("`node` {node} (the cpu is on node {})", cpu.node),
            remedy: "explicit pairs need no `node`: leave it out, or change the pair",
        });
    }
    if let Some(cpus) = request.cpus.as_ref().filter(|cpus| !cpus.contains(&cpu.id)) {
        return Err(PlanError::Conflict {
            one: one(),
            other: format!("`cpus`, which names {}", Cpus(cpus)),
            remedy: "explicit pairs need no `cpus`: leave it out, or change the pair",
        });
    }
    Ok(())
}

fn check_node(request: &Request, topology: &Topology) -> Result<(), PlanError> {
    let nodes: BTreeSet<usize> = topology.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.node).collect();
    match request.node {
        Some(node) if !nodes.contains(&node) => Err(PlanError::NoSuchNode { node, nodes }),
        _ => Ok(()),
    }
}

/// Explicit pairs take what they name; the reserve must fit into what they leave.
fn check_left_over(request: &Request, topology: &Topology, named: &BTreeSet<usize>) -> Result<(), PlanError> {
    let left = topology.allowed().difference(named).count();
    if request.reserve > left {
        return Err(PlanError::ReserveTooLarge { asked: request.reserve, from: topology.allowed(), most: left });
    }
    Ok(())
}

/// Why `cpu` may not carry a lane, reserve and shape aside.
fn exclusion(cpu: &Cpu, node: Option<usize>, named: Option<&BTreeSet<usize>>, only_isolated: bool) -> Option<String> {
    if !cpu.online {
        return Some("offline".to_owned());
    }
    if !cpu.allowed && !cpu.isolated {
        return Some("not in the affinity mask or cpuset".to_owned());
    }
    if let Some(node) = node.filter(|node| *node != cpu.node) {
        return Some(format!("not on node {node}"));
    }
    match named {
        Some(named) => (!named.contains(&cpu.id)).then(|| "not among the cpus asked for".to_owned()),
        None if cpu.isolated && !(cpu.allowed && only_isolated) => {
            Some("isolated from the scheduler: name it in `cpus` to use it".to_owned())
        }
        None => None,
    }
}

fn is_allowed(topology: &Topology, id: usize) -> bool {
    topology.cpu(id).is_some_and(|cpu| cpu.allowed)
}

/// The conditions of `request` in words, for the error that says that none is met.
fn conditions(request: &Request) -> String {
    let mut words = vec!["online, allowed, not isolated".to_owned()];
    if let Some(node) = request.node {
        words.push(format!("on node {node}"));
    }
    if let Some(cpus) = &request.cpus {
        // Named cpus are used even if isolated.
        "online, allowed".clone_into(&mut words[0]);
        words.push(format!("among {}", Cpus(cpus)));
    }
    format!("none is {}", words.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reserve_takes_whole_cores_and_breaks_one_only_if_it_must() {
        let pairs = vec![vec![0, 4], vec![1, 5], vec![2, 6], vec![3, 7]];
        let hybrid = vec![vec![0, 1], vec![2, 3], vec![4], vec![5]];
        let smt4 = vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]];
        for (name, cores, count, taken) in [
            ("none", &pairs, 0, &[][..]),
            ("a whole core rather than two halves", &pairs, 2, &[0, 4]),
            ("a half where there is no other way", &pairs, 1, &[0]),
            ("one core and a half", &pairs, 3, &[0, 1, 4]),
            ("a single-cpu core before a half", &hybrid, 1, &[4]),
            ("the lowest core first", &hybrid, 3, &[0, 1, 4]),
            ("part of a wide core", &smt4, 2, &[0, 1]),
            ("a wide core and part of the next", &smt4, 5, &[0, 1, 2, 3, 4]),
        ] {
            assert_eq!(lowest(cores, count), taken.iter().copied().collect(), "{name}");
        }
    }
}
