//! The shapes: which groups of lanes the usable cpus can form under each policy, best first.
//!
//! A *group* is what one pair index stands for: a poll lane with one compute lane (or more, where asked for), or one shared
//! lane. This file says what could be had; how much of it is taken is decided in `quantity`.

use std::collections::{BTreeMap, BTreeSet};

use super::error::PlanError;
use super::pool::{Pool, cores};
use super::ranges::Cpus;
use super::{Placement, Request, Role};
use crate::topology::{CoreKind, Cpu, Smt, Topology};

/// The lanes of one pair index: the poll lane and its compute lanes, or a shared lane alone. `None` is an unpinned lane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub(super) lanes: Vec<(Role, Option<usize>)>,
}

impl Group {
    fn new(poll: usize, compute: impl IntoIterator<Item = usize>) -> Self {
        let compute = compute.into_iter().map(|cpu| (Role::Compute, Some(cpu)));
        Self { lanes: std::iter::once((Role::Poll, Some(poll))).chain(compute).collect() }
    }

    fn shared(cpu: usize) -> Self {
        Self { lanes: vec![(Role::Shared, Some(cpu))] }
    }

    fn unpinned() -> Self {
        Self { lanes: vec![(Role::Poll, None), (Role::Compute, None)] }
    }

    pub(super) fn compute_lanes(&self) -> usize {
        self.lanes.iter().filter(|(role, _)| *role == Role::Compute).count()
    }
}

/// All groups that fit, and what does not fit into any.
#[derive(Debug)]
pub(super) struct Offer {
    /// Best first. Never empty.
    pub(super) groups: Vec<Group>,
    /// How many of them to take where nobody asked for a number; at least 1.
    pub(super) by_default: usize,
    /// What a group is called: "pairs" or "shared lanes".
    pub(super) what: &'static str,
    /// What one group takes, as a clause: "a pair takes two siblings of one core".
    pub(super) rule: &'static str,
    /// Why usable cpus are in no group.
    pub(super) leftovers: BTreeMap<usize, String>,
    /// What the user should know about the choice.
    pub(super) notes: Vec<String>,
}

impl Offer {
    /// The groups that `request.placement` allows on the cpus of `pool`.
    pub(super) fn make(request: &Request, topology: &Topology, pool: &Pool) -> Result<Self, PlanError> {
        let offer = match &request.placement {
            Placement::Auto => siblings(request, topology, pool)
                .or_else(|| neighbours(topology, pool))
                .unwrap_or_else(|| shared(topology, pool)),
            Placement::Siblings => siblings(request, topology, pool)
                .ok_or_else(|| PlanError::NoSiblings { why: why_no_siblings(topology, pool) })?,
            Placement::WholeCores => whole_cores(request, topology, pool)
                .ok_or_else(|| PlanError::NoWholeCores { usable: pool.usable.clone() })?,
            Placement::Shared => shared(topology, pool),
            Placement::Unpinned => unpinned(pool),
            Placement::Pairs(pairs) => explicit(pairs, topology)?,
        };
        offer.check_compute_per_core(request.compute_per_core)
    }

    fn new(groups: Vec<Group>, what: &'static str, rule: &'static str) -> Self {
        Self { by_default: groups.len(), groups, what, rule, leftovers: BTreeMap::new(), notes: Vec::new() }
    }

    /// Refuses a number of compute lanes that no core carries.
    fn check_compute_per_core(self, asked: usize) -> Result<Self, PlanError> {
        let most = self.groups.iter().map(Group::compute_lanes).max().unwrap_or(0);
        if asked > 1 && asked > most { Err(PlanError::ComputePerCore { asked, most }) } else { Ok(self) }
    }
}

/// One group on every core that has two usable cpus: the lowest polls, the next ones compute.
fn siblings(request: &Request, topology: &Topology, pool: &Pool) -> Option<Offer> {
    let (wide, narrow): (Vec<_>, Vec<_>) = ranked_cores(topology, pool).into_iter().partition(|core| core.len() > 1);
    let groups: Vec<Group> = wide
        .iter()
        .map(|core| Group::new(core[0].id, core[1..].iter().take(request.compute_per_core).map(|cpu| cpu.id)))
        .collect();
    if groups.is_empty() {
        return None;
    }
    let mut offer = Offer::new(groups, "pairs", "a pair takes two siblings of one core, and a core carries one pair");
    for cpu in narrow.iter().map(|core| core[0]) {
        let reason = if topology.siblings(cpu.id).len() > 1 {
            "its siblings are reserved or may not be used"
        } else if cpu.kind == CoreKind::Efficiency {
            "efficiency core without a sibling: name it in `Placement::Pairs`, or give only such cores in `cpus`"
        } else {
            "its core has no second cpu online"
        };
        offer.leftovers.insert(cpu.id, reason.to_owned());
    }
    Some(offer)
}

/// Pairs of two cpus of one cache domain. Asked for where no core has two usable cpus.
fn neighbours(topology: &Topology, pool: &Pool) -> Option<Offer> {
    let singles: Vec<&Cpu> = ranked_cores(topology, pool).into_iter().map(|core| core[0]).collect();
    let Paired { pairs, leftovers, notes } = pair_up(&singles, topology);
    let groups: Vec<Group> = pairs.iter().map(|(poll, compute)| Group::new(poll.id, [compute.id])).collect();
    (!groups.is_empty()).then(|| Offer {
        leftovers,
        notes,
        ..Offer::new(groups, "pairs", "a pair takes two cpus of one kind in one cache domain")
    })
}

/// Pairs of two cores of one cache domain: one polls with one cpu, the other computes; all other siblings stay empty.
fn whole_cores(request: &Request, topology: &Topology, pool: &Pool) -> Option<Offer> {
    // What the OS does on a reserved sibling would be felt on the core.
    let (disturbed, free): (Vec<_>, Vec<_>) = ranked_cores(topology, pool)
        .into_iter()
        .partition(|core| topology.siblings(core[0].id).iter().any(|cpu| pool.reserved.contains(&cpu.id)));
    let members: BTreeMap<usize, Vec<&Cpu>> = free.into_iter().map(|core| (core[0].id, core)).collect();
    let firsts: Vec<&Cpu> = ranked(members.values().map(|core| core[0]).collect());

    let Paired { pairs, leftovers, notes } = pair_up(&firsts, topology);
    let groups: Vec<Group> = pairs
        .iter()
        .map(|(poll, compute)| {
            let lanes = members[&compute.id].iter().take(request.compute_per_core).map(|cpu| cpu.id);
            Group::new(poll.id, lanes)
        })
        .collect();
    if groups.is_empty() {
        return None;
    }
    let mut offer = Offer {
        leftovers,
        notes,
        ..Offer::new(groups, "pairs", "a pair takes two whole cores of one kind in one cache domain")
    };
    // Whole cores are left over whole.
    for (first, core) in &members {
        if let Some(reason) = offer.leftovers.get(first).cloned() {
            offer.leftovers.extend(core.iter().map(|cpu| (cpu.id, reason.clone())));
        }
    }
    let reason = "shares its core with a cpu reserved for the OS";
    offer.leftovers.extend(disturbed.iter().flatten().map(|cpu| (cpu.id, reason.to_owned())));
    if topology.smt == Smt::Unknown {
        offer.notes.push("the machine may hide siblings: that the cores are whole cannot be promised".to_owned());
    }
    Some(offer)
}

/// A shared lane on every usable cpu.
fn shared(topology: &Topology, pool: &Pool) -> Offer {
    let cpus = ranked(topology.cpus.iter().filter(|cpu| pool.usable.contains(&cpu.id)).collect());
    let groups = cpus.iter().map(|cpu| Group::shared(cpu.id)).collect();
    Offer::new(groups, "shared lanes", "a shared lane takes one cpu")
}

/// Up to one unpinned pair a usable cpu; by default no more lanes than cpus.
fn unpinned(pool: &Pool) -> Offer {
    let reason = "lanes are not pinned: the OS places them";
    let note = "lanes are not pinned: the reserve lowers their number, and keeps them off no cpu";
    Offer {
        notes: if pool.reserved.is_empty() { Vec::new() } else { vec![note.to_owned()] },
        by_default: (pool.usable.len() / 2).max(1),
        leftovers: pool.usable.iter().map(|id| (*id, reason.to_owned())).collect(),
        ..Offer::new(
            vec![Group::unpinned(); pool.usable.len()],
            "pairs",
            "an unpinned pair is two threads, and there is at most one pair a cpu",
        )
    }
}

/// The pairs as given. Presence and uniqueness of their cpus were checked with the pool.
fn explicit(pairs: &[(usize, usize)], topology: &Topology) -> Result<Offer, PlanError> {
    let mut notes = Vec::new();
    let mut computing: BTreeMap<usize, usize> = BTreeMap::new();
    for (poll_id, compute_id) in pairs {
        let (Some(poll), Some(compute)) = (topology.cpu(*poll_id), topology.cpu(*compute_id)) else { continue };
        if poll.kind != compute.kind {
            return Err(PlanError::MixedKinds { poll: poll.id, compute: compute.id });
        }
        if poll.llc != compute.llc {
            notes.push(format!(
                "cpus {poll_id} and {compute_id} share no last-level cache: hand-offs between them are slow"
            ));
        }
        if let Some(other) = computing.insert(compute.core, compute.id) {
            notes.push(format!("cpus {other} and {compute_id} both compute on one core, as the explicit pairs ask"));
        }
    }
    let groups = pairs.iter().map(|(poll, compute)| Group::new(*poll, [*compute])).collect();
    Ok(Offer { notes, ..Offer::new(groups, "pairs", "explicit pairs are taken as given") })
}

/// Cpus two by two, and what is left.
struct Paired<'t> {
    pairs: Vec<(&'t Cpu, &'t Cpu)>,
    leftovers: BTreeMap<usize, String>,
    notes: Vec<String>,
}

/// Pairs neighbours of one kind and one cache domain. `cpus` are ranked, one a core.
///
/// Efficiency cores form pairs only where no faster core does: what a poller is asked to bound is known for one kind.
fn pair_up<'t>(cpus: &[&'t Cpu], topology: &Topology) -> Paired<'t> {
    let (slow, fast): (Vec<&Cpu>, Vec<&Cpu>) = cpus.iter().partition(|cpu| cpu.kind == CoreKind::Efficiency);
    let mut paired = pair_in_domains(&fast, topology);
    if paired.pairs.is_empty() {
        let Paired { pairs, leftovers, notes } = pair_in_domains(&slow, topology);
        paired.pairs = pairs;
        paired.leftovers.extend(leftovers);
        paired.notes = notes;
    } else {
        let reason = "efficiency core: name it in `Placement::Pairs`, or give only such cores in `cpus`";
        paired.leftovers.extend(slow.iter().map(|cpu| (cpu.id, reason.to_owned())));
    }
    paired
}

/// Pairs neighbours of one cache domain; under a hypervisor that gives every cpu a cache of its own, of one node.
///
/// Such guests (a socket for every virtual cpu is a common default) say nothing about the machine below, and one shared
/// lane on many cpus would be a poor guess.
fn pair_in_domains<'t>(cpus: &[&'t Cpu], topology: &Topology) -> Paired<'t> {
    let domains: BTreeSet<usize> = cpus.iter().map(|cpu| cpu.llc).collect();
    let made_up = topology.hypervisor && cpus.len() > 1 && domains.len() == cpus.len();
    let domain = |cpu: &Cpu| if made_up { (cpu.node, 0) } else { (cpu.node, cpu.llc) };

    let mut paired = Paired { pairs: Vec::new(), leftovers: BTreeMap::new(), notes: Vec::new() };
    for chunk in cpus.chunk_by(|a, b| a.kind == b.kind && domain(a) == domain(b)) {
        let mut twos = chunk.chunks_exact(2);
        paired.pairs.extend(twos.by_ref().map(|two| (two[0], two[1])));
        let reason =
            format!("no second cpu of its kind is left in its {}", if made_up { "node" } else { "cache domain" });
        paired.leftovers.extend(twos.remainder().iter().map(|cpu| (cpu.id, reason.clone())));
    }
    if made_up && !paired.pairs.is_empty() {
        let why = "the hypervisor shows a cache of its own for every cpu: pairs are made within a NUMA node instead";
        paired.notes.push(why.to_owned());
    }
    paired
}

/// The usable cpus by core; cores in the order in which pairs should fill the machine.
fn ranked_cores<'t>(topology: &'t Topology, pool: &Pool) -> Vec<Vec<&'t Cpu>> {
    let mut cores: Vec<Vec<&Cpu>> = cores(&pool.usable, topology)
        .into_iter()
        .map(|ids| ids.into_iter().filter_map(|id| topology.cpu(id)).collect())
        .collect();
    cores.sort_by_key(|core| rank(core[0]));
    cores
}

fn ranked(mut cpus: Vec<&Cpu>) -> Vec<&Cpu> {
    cpus.sort_by_key(|cpu| rank(cpu));
    cpus
}

/// Fast cores first (the order of [`CoreKind`]), then one node and one cache domain after the other, so that a few pairs stay together.
fn rank(cpu: &Cpu) -> (CoreKind, usize, usize, usize) {
    (cpu.kind, cpu.node, cpu.llc, cpu.id)
}

/// What to tell somebody who insists on siblings.
fn why_no_siblings(topology: &Topology, pool: &Pool) -> String {
    match topology.smt {
        Smt::Visible => format!(
            "{} may carry lanes, and no two of them are on one core: widen the affinity mask or `cpus` to whole cores, lower \
             `reserve`, or use `Placement::Auto`",
            Cpus(&pool.usable)
        ),
        Smt::Absent if !topology.hypervisor => {
            "SMT is off or not supported: switch it on (firmware, or /sys/devices/system/cpu/smt/control), or use \
             `Placement::Auto`"
                .to_owned()
        }
        _ => {
            "the machine shows none, and a hypervisor may hide them: have it pass the topology through, name pairs in \
              `Placement::Pairs`, or use `Placement::Auto`"
                .to_owned()
        }
    }
}
