//! Cpus that the kernel was told to keep clear: of ordinary tasks (`isolcpus`), of the timer tick (`nohz_full`), of
//! deferred callbacks (`rcu_nocbs`).

use std::collections::BTreeSet;

use super::finding::{About, Finding, Topic};
use super::seen::Seen;
use super::words::{capital, cpus};
use crate::topology::{CpuList, Topology};

const ABOUT: About = About(Topic::Isolation);

/// What there is to say about isolation.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let Some(machine) = seen.machine() else { return Vec::new() };
    let isolated: BTreeSet<usize> = machine.cpus.iter().filter(|cpu| cpu.isolated).map(|cpu| cpu.id).collect();
    let tickless = tickless(seen, machine);
    if isolated.is_empty() {
        return std::iter::once(none()).chain(shared_tickless(&tickless)).collect();
    }
    let allowed = machine.allowed();
    let mut findings = vec![if allowed.is_subset(&isolated) { no_balance(&allowed) } else { unused(&isolated) }];
    findings.push(kept_clear(&isolated, &tickless, &callback_free(seen, machine, &tickless)));
    findings
}

fn none() -> Finding {
    ABOUT.ok("isolation.none", "No cpus are isolated.").why(
        "Other threads may run on lanes' cpus. Where that hurts, isolate cpus on the kernel's command line: isolcpus=LIST \
         nohz_full=LIST rcu_nocbs=LIST.",
    )
}

fn unused(isolated: &BTreeSet<usize>) -> Finding {
    let list = CpuList::from(isolated.clone());
    let what = if isolated.len() == 1 { "is isolated" } else { "are isolated" };
    ABOUT
        .info("isolation.unused", format!("{} {what}; the default placement leaves isolated cpus out.", capital(&cpus(isolated))))
        .why("The kernel starts no thread there by itself, which makes them the best place for lanes. They must be named.")
        .mend(format!("TWOLANE_CPUS={list}"))
        .mend(format!("or: Builder::cpus; try it with `twolane plan --cpus {list}`"))
}

fn no_balance(allowed: &BTreeSet<usize>) -> Finding {
    ABOUT
        .warning("isolation.no-balance", format!("This process may use isolated cpus only ({}).", cpus(allowed)))
        .why(
            "The kernel does not move threads between isolated cpus: all threads but the lanes, which are pinned, stay \
             where they were started, and pile up there. Give the process an ordinary cpu as well; lanes stay on isolated \
             ones if these are named.",
        )
        .mend(format!("TWOLANE_CPUS={} taskset -c ORDINARY,{0} SERVICE", CpuList::from(allowed.clone())))
}

/// Isolated cpus that still take ticks or callbacks.
fn kept_clear(isolated: &BTreeSet<usize>, tickless: &BTreeSet<usize>, callback_free: &BTreeSet<usize>) -> Finding {
    let ticking: BTreeSet<usize> = isolated.difference(tickless).copied().collect();
    let called: BTreeSet<usize> = isolated.difference(callback_free).copied().collect();
    if ticking.is_empty() && called.is_empty() {
        return ABOUT.ok("isolation.clear", "Isolated cpus are free of timer ticks and deferred callbacks.");
    }
    let (what, left) = if ticking.is_empty() {
        (format!("Deferred callbacks (RCU) run on isolated {}.", cpus(&called)), "callbacks")
    } else {
        (format!("The timer still ticks on isolated {}.", cpus(&ticking)), "ticks and callbacks")
    };
    let list = CpuList::from(isolated.clone());
    let finding = ABOUT.info("isolation.ticks", what);
    finding
        .why(format!("These {left} interrupt a lane for some microseconds, the tick 100 to 1000 times a second."))
        .mend(format!("kernel command line: isolcpus=managed_irq,domain,{list} nohz_full={list} rcu_nocbs={list}"))
}

fn shared_tickless(tickless: &BTreeSet<usize>) -> Option<Finding> {
    if tickless.is_empty() {
        return None;
    }
    let list = CpuList::from(tickless.clone());
    let finding = ABOUT.info(
        "isolation.not-isolated",
        format!("{} may run without ticks but are not isolated.", capital(&cpus(tickless))),
    );
    Some(
        finding
            .why("The tick stops only while one thread alone wants the cpu, and the kernel may still put others there.")
            .mend(format!("kernel command line: isolcpus=managed_irq,domain,{list} nohz_full={list} rcu_nocbs={list}")),
    )
}

/// The cpus whose tick may stop.
fn tickless(seen: &Seen, machine: &Topology) -> BTreeSet<usize> {
    let listed = seen.tree.cpus("sys/devices/system/cpu/nohz_full").map(CpuList::into_set);
    listed.unwrap_or_else(|| from_command_line(seen, machine, "nohz_full"))
}

/// The cpus whose callbacks run elsewhere; `nohz_full` brings that with it.
fn callback_free(seen: &Seen, machine: &Topology, tickless: &BTreeSet<usize>) -> BTreeSet<usize> {
    from_command_line(seen, machine, "rcu_nocbs").union(tickless).copied().collect()
}

fn from_command_line(seen: &Seen, machine: &Topology, name: &str) -> BTreeSet<usize> {
    match seen.command_line.value(name) {
        Some("all") => machine.cpus.iter().map(|cpu| cpu.id).collect(),
        Some(list) => list.parse().map(CpuList::into_set).unwrap_or_default(),
        None => BTreeSet::new(),
    }
}
