//! The planner's main line: check the request, gather cpus, shape them into groups, take as many as wanted, number the lanes.

use std::collections::{BTreeMap, BTreeSet};

use super::error::PlanError;
use super::offer::{Group, Offer};
use super::pool::Pool;
use super::quantity::Quantity;
use super::ranges::Cpus;
use super::{LanePlan, LeftOut, Placement, Plan, Request, Role, Sharing};
use crate::topology::{Smt, Topology};

/// Decides which lane runs on which cpu.
///
/// Pure: the same request and topology give the same plan. At worst quadratic in the number of
/// cpus, because siblings are looked up by a sweep over them; it runs once, when a runtime is built.
///
/// # Errors
/// [`PlanError`] for what cannot be had; nothing is clamped to something else.
pub(crate) fn plan(request: &Request, topology: &Topology) -> Result<Plan, PlanError> {
    check_knobs(request)?;
    let pool = Pool::gather(request, topology)?;
    let offer = Offer::make(request, topology, &pool)?;
    let quantity = Quantity::decide(request.pairs, &offer, &pool, topology.quota.as_ref())?;

    let groups = &offer.groups[..quantity.groups];
    let lanes = number_lanes(groups, topology);
    let sharing = groups.iter().map(|group| sharing(group, &lanes, topology)).collect();
    let left_out = left_out(&lanes, &pool, &offer, &quantity, topology);
    let notes =
        [pool.notes.clone(), offer.notes, quantity.notes, remarks(request, groups, &lanes, &pool, topology)].concat();
    Ok(Plan { lanes, sharing, left_out, notes })
}

/// Refuses zeros, and knobs that mean nothing under the policy chosen.
fn check_knobs(request: &Request) -> Result<(), PlanError> {
    if request.pairs == Some(0) {
        return Err(PlanError::Zero { knob: "pairs" });
    }
    if request.compute_per_core == 0 {
        return Err(PlanError::Zero { knob: "compute_per_core" });
    }
    let policy = match &request.placement {
        Placement::Shared => "`Placement::Shared`",
        Placement::Unpinned => "`Placement::Unpinned`",
        Placement::Pairs(_) => "`Placement::Pairs`",
        Placement::Auto | Placement::Siblings | Placement::WholeCores => return Ok(()),
    };
    let conflict = |one: String, remedy| Err(PlanError::Conflict { one, other: policy.to_owned(), remedy });
    if request.compute_per_core > 1 {
        let one = format!("`compute_per_core` {}", request.compute_per_core);
        return conflict(one, "leave it out, or use `Placement::Siblings` or `Placement::WholeCores`");
    }
    match &request.placement {
        Placement::Unpinned if request.cpus.is_some() => conflict(
            "`cpus`".to_owned(),
            "unpinned lanes run where the OS likes: leave it out, or pin with `Placement::Auto`",
        ),
        Placement::Unpinned if request.node.is_some() => conflict(
            "`node`".to_owned(),
            "unpinned lanes run where the OS likes: leave it out, or pin with `Placement::Auto`",
        ),
        Placement::Pairs(list) => match request.pairs.filter(|pairs| *pairs != list.len()) {
            Some(pairs) => Err(PlanError::Conflict {
                one: format!("`pairs` {pairs}"),
                other: format!("`Placement::Pairs` with {} of them", list.len()),
                remedy: "leave `pairs` out: the list says how many",
            }),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// Gives lanes their numbers, group by group, the poll lane first.
fn number_lanes(groups: &[Group], topology: &Topology) -> Vec<LanePlan> {
    let mut lanes = Vec::new();
    for (pair, group) in groups.iter().enumerate() {
        let first = lanes.len();
        for (at, (role, cpu)) in group.lanes.iter().enumerate() {
            let partner = match (group.lanes.len(), at) {
                (1, _) => None,
                (_, 0) => Some(first + 1),
                (_, _) => Some(first),
            };
            let place = cpu.and_then(|id| topology.cpu(id));
            let beside = cpu.map(|id| topology.siblings(id)).unwrap_or_default();
            lanes.push(LanePlan {
                lane: first + at,
                pair,
                role: *role,
                cpu: *cpu,
                partner,
                siblings: beside.iter().map(|other| other.id).filter(|id| Some(*id) != *cpu).collect(),
                llc: place.map_or(0, |cpu| cpu.llc),
                node: place.map_or(0, |cpu| cpu.node),
            });
        }
    }
    lanes
}

/// What is known about the lanes of `group` sharing a core: of its first two, or of a shared lane and any other lane.
fn sharing(group: &Group, lanes: &[LanePlan], topology: &Topology) -> Sharing {
    let on_one_core = match group.lanes[..] {
        [(Role::Shared, Some(cpu))] => lanes.iter().any(|lane| lane.cpu != Some(cpu) && lane.siblings.contains(&cpu)),
        [(_, Some(poll)), (_, Some(compute)), ..] => topology.siblings(poll).iter().any(|cpu| cpu.id == compute),
        // Lanes that move: where the machine shows siblings, they may meet on a core or not.
        _ if topology.smt == Smt::Visible => return Sharing::Unknown,
        _ => false,
    };
    match topology.smt {
        _ if on_one_core => Sharing::Seen,
        Smt::Visible => Sharing::Denied,
        Smt::Absent if !topology.hypervisor => Sharing::Denied,
        Smt::Absent | Smt::Unknown => Sharing::Unknown,
    }
}

/// Every cpu without a lane, with the reason of the step that dropped it.
fn left_out(lanes: &[LanePlan], pool: &Pool, offer: &Offer, quantity: &Quantity, topology: &Topology) -> Vec<LeftOut> {
    // The lane whose core each cpu shares, for cpus that stay empty for its sake. Of several lanes, the first.
    let mut beside: BTreeMap<usize, usize> = BTreeMap::new();
    for (lane, cpu) in lanes.iter().filter_map(|lane| Some((lane, lane.cpu?))) {
        for sibling in &lane.siblings {
            beside.entry(*sibling).or_insert(cpu);
        }
    }
    let busy: BTreeSet<usize> = lanes.iter().filter_map(|lane| lane.cpu).collect();
    let reason = |id: usize| {
        let dropped = pool.reasons.get(&id).cloned();
        dropped
            .or_else(|| beside.get(&id).map(|lane| left_empty(*lane)))
            .or_else(|| offer.leftovers.get(&id).cloned())
            .unwrap_or_else(|| quantity.reason.clone())
    };
    let idle = topology.cpus.iter().map(|cpu| cpu.id).filter(|id| !busy.contains(id));
    idle.map(|cpu| LeftOut { cpu, reason: reason(cpu) }).collect()
}

/// What can only be said of the lanes as chosen.
fn remarks(request: &Request, groups: &[Group], lanes: &[LanePlan], pool: &Pool, topology: &Topology) -> Vec<String> {
    let mut remarks = Vec::new();
    let asked = request.compute_per_core;
    if asked > 1 && groups.iter().any(|group| group.compute_lanes() < asked) {
        remarks.push(format!(
            "some cores carry fewer than the {asked} compute lanes asked for: not all their siblings may be used"
        ));
    }
    let siblings = lanes.iter().flat_map(|lane| &lane.siblings).copied();
    let strange: BTreeSet<usize> = siblings.filter(|id| topology.cpu(*id).is_some_and(|cpu| !cpu.allowed)).collect();
    if request.placement == Placement::WholeCores && !strange.is_empty() {
        remarks.push(format!(
            "others may run on {}, outside the affinity mask, and share cores with lanes",
            Cpus(&strange)
        ));
    }
    if request.placement == Placement::Unpinned && lanes.len() > pool.usable.len() {
        remarks.push(format!("{} unpinned lanes share {}: bounds are best effort", lanes.len(), Cpus(&pool.usable)));
    }
    remarks
}

/// Why a usable cpu stays empty for the sake of the lane on its core.
pub(super) fn left_empty(lane: usize) -> String {
    format!("sibling of cpu {lane}, left empty")
}
