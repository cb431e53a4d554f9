//! What must hold of every plan, on machines and requests drawn from a fixed sequence.

use std::collections::{BTreeMap, BTreeSet};

use super::machines::Machine;
use super::{Placement, Plan, Request, Role, plan};
use crate::topology::{CoreKind, Topology};

/// How many machines are drawn; about half a second unoptimized.
const DRAWS: u64 = 5_000;

#[test]
fn every_plan_keeps_the_rules() {
    let mut planned = BTreeMap::<&str, usize>::new();
    for seed in 0..DRAWS {
        let mut dice = Dice(seed);
        let topology = draw_machine(&mut dice);
        let request = draw_request(&mut dice, &topology);
        let outcome = plan(&request, &topology);
        assert_eq!(outcome, plan(&request, &topology), "seed {seed}: two answers to one question");
        match outcome {
            Ok(plan) => {
                check(&plan, &request, &topology).unwrap_or_else(|broken| {
                    panic!("seed {seed}: {broken}\n{plan}\n{request:?}\n{topology:#?}");
                });
                *planned.entry(name(&request.placement)).or_default() += 1;
            }
            Err(error) => assert!(!error.to_string().is_empty(), "seed {seed}"),
        }
    }
    // Errors alone would keep every rule.
    for (placement, plans) in &planned {
        assert!(*plans > 100, "{placement} was planned only {plans} times");
    }
    assert_eq!(planned.len(), 6, "{planned:?}");
}

/// The first rule that `plan` breaks.
fn check(plan: &Plan, request: &Request, topology: &Topology) -> Result<(), String> {
    let explicit = matches!(request.placement, Placement::Pairs(_));
    let cpu = |id: usize| topology.cpu(id).ok_or(format!("cpu {id} does not exist"));
    let mut seen = BTreeSet::new();
    let mut computing = BTreeMap::<usize, usize>::new();

    for (at, lane) in plan.lanes.iter().enumerate() {
        if lane.lane != at || lane.pair >= plan.sharing.len() {
            return Err(format!("lane {at} is misnumbered"));
        }
        match lane.partner.map(|partner| &plan.lanes[partner]) {
            None if lane.role != Role::Shared => return Err(format!("lane {at} has no partner")),
            Some(partner) if partner.pair != lane.pair || partner.role == lane.role => {
                return Err(format!("lane {at} has a stranger for a partner"));
            }
            _ => {}
        }
        let Some(id) = lane.cpu else { continue };
        let place = cpu(id)?;
        let named = explicit || request.cpus.is_some();
        if !(place.online && (place.allowed || (named && place.isolated))) {
            return Err(format!("lane {at} is where the process may not run"));
        }
        if request.node.is_some_and(|node| node != place.node) {
            return Err(format!("lane {at} is off the node"));
        }
        if request.cpus.as_ref().is_some_and(|cpus| !cpus.contains(&id)) {
            return Err(format!("lane {at} is off the cpus asked for"));
        }
        if !seen.insert(id) {
            return Err(format!("cpu {id} carries two lanes"));
        }
        if lane.role == Role::Compute {
            *computing.entry(place.core).or_default() += 1;
        }
        if let Some(partner) = lane.partner.and_then(|partner| plan.lanes[partner].cpu) {
            if cpu(partner)?.kind != place.kind {
                return Err(format!("pair {} mixes P and E", lane.pair));
            }
        }
    }
    if !explicit && computing.values().any(|lanes| *lanes > request.compute_per_core) {
        return Err("a core computes more than asked for".to_owned());
    }

    let unpinned = request.placement == Placement::Unpinned;
    for left in &plan.left_out {
        if !seen.insert(left.cpu) {
            return Err(format!("cpu {} is in the plan twice", left.cpu));
        }
        if left.reason.is_empty() {
            return Err(format!("cpu {} is left out for no reason", left.cpu));
        }
    }
    let present: BTreeSet<usize> = topology.cpus.iter().map(|cpu| cpu.id).collect();
    if seen != present {
        return Err("a cpu is in neither list".to_owned());
    }
    if plan.lanes.is_empty() || request.pairs.is_some_and(|pairs| plan.sharing.len() != pairs) {
        return Err(format!("{} pairs planned", plan.sharing.len()));
    }
    let idle = plan.left_out.iter().filter(|left| topology.cpu(left.cpu).is_some_and(|cpu| cpu.allowed)).count();
    if !unpinned && idle < request.reserve && request.cpus.is_none() && request.node.is_none() {
        return Err("the reserve was eaten into".to_owned());
    }
    Ok(())
}

/// SplitMix64: small, and any seed will do.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn one_in(&mut self, sides: usize) -> bool {
        self.below(sides) == 0
    }

    /// Each of `ids` with a chance of one in `sides`.
    fn some_of(&mut self, ids: impl IntoIterator<Item = usize>, sides: usize) -> Vec<usize> {
        ids.into_iter().filter(|_| self.one_in(sides)).collect()
    }
}

fn draw_machine(dice: &mut Dice) -> Topology {
    let threads = [1, 2, 2, 4, 8][dice.below(5)];
    let cores = 1 + dice.below(8);
    let mut machine = match dice.below(4) {
        0 => Machine::apart(cores, threads),
        1 => Machine::hybrid(cores, 1 + dice.below(6)),
        // Holes: every number three times as large, plus something.
        2 => {
            let first = dice.below(5);
            let numbers = |core| (0..threads).map(|thread| first + 3 * (core * threads + thread)).collect();
            Machine::new(&(0..cores).map(numbers).collect::<Vec<Vec<usize>>>())
        }
        _ => Machine::adjacent(cores, threads),
    };
    let ids: Vec<usize> = machine.clone().build().cpus.iter().map(|cpu| cpu.id).collect();
    let by_core = machine.clone().build();
    let core_of = |id: usize| by_core.cpu(id).map_or(id, |cpu| cpu.core);
    if dice.one_in(2) {
        // A second node, made of whole cores.
        let far: Vec<usize> = ids.iter().copied().filter(|id| core_of(*id) % 4 >= 2).collect();
        if !far.is_empty() {
            machine = machine.node(1, far);
        }
    }
    if dice.one_in(5) {
        machine = machine.each(ids.iter().copied(), |cpu| cpu.llc = cpu.core);
    }
    if dice.one_in(5) {
        machine = machine.each(ids.iter().copied(), |cpu| {
            cpu.kind = match cpu.core % 3 {
                0 => CoreKind::Efficiency,
                1 => CoreKind::Performance,
                // What the machine says nothing of is not mixed with what it knows, either.
                _ => CoreKind::Uniform,
            };
        });
    }
    if dice.one_in(3) {
        let isolated = dice.some_of(ids.iter().copied(), 3);
        machine = machine.isolated(isolated);
    }
    if dice.one_in(3) {
        let mask: Vec<usize> = ids.iter().copied().filter(|_| !dice.one_in(3)).collect();
        machine = machine.mask(mask);
    }
    if dice.one_in(3) {
        let offline = dice.some_of(ids.iter().copied(), 6);
        machine = machine.offline(offline);
    }
    if dice.one_in(4) {
        machine = machine.quota(dice.below(40) as f64 / 4.0);
    }
    if dice.one_in(3) { machine.guest().build() } else { machine.build() }
}

fn draw_request(dice: &mut Dice, topology: &Topology) -> Request {
    let ids: Vec<usize> = topology.cpus.iter().map(|cpu| cpu.id).collect();
    let usable: Vec<usize> = topology.cpus.iter().filter(|cpu| cpu.allowed || cpu.isolated).map(|cpu| cpu.id).collect();
    let placement = match dice.below(6) {
        0 => Placement::Siblings,
        1 => Placement::WholeCores,
        2 => Placement::Shared,
        3 => Placement::Unpinned,
        // Mostly cpus that may be named, each once; now and then any numbers.
        4 if dice.one_in(4) => Placement::Pairs((0..2).map(|_| (dice.below(20), dice.below(20))).collect()),
        4 => {
            let order = if dice.one_in(2) { usable.clone() } else { usable.iter().rev().copied().collect() };
            Placement::Pairs(order.chunks_exact(2).take(1 + dice.below(3)).map(|two| (two[0], two[1])).collect())
        }
        _ => Placement::Auto,
    };
    let plain = matches!(placement, Placement::Unpinned | Placement::Pairs(_));
    Request {
        pairs: dice.one_in(4).then(|| dice.below(5)),
        reserve: if dice.one_in(3) { dice.below(5) } else { 0 },
        node: (!plain && dice.one_in(5)).then(|| dice.below(3)),
        cpus: (!plain && dice.one_in(4))
            .then(|| if dice.one_in(5) { ids.clone() } else { usable.clone() })
            .map(|from| from.into_iter().filter(|_| !dice.one_in(3)).collect()),
        compute_per_core: if dice.one_in(6) { dice.below(4) } else { 1 },
        placement,
    }
}

fn name(placement: &Placement) -> &'static str {
    match placement {
        Placement::Auto => "Auto",
        Placement::Siblings => "Siblings",
        Placement::WholeCores => "WholeCores",
        Placement::Shared => "Shared",
        Placement::Unpinned => "Unpinned",
        Placement::Pairs(_) => "Pairs",
    }
}
