//! The machine itself: cpus, cores, caches, what lies beneath the kernel, and whether siblings can be seen.

use std::collections::BTreeSet;

use super::finding::{About, Finding, Topic};
use super::seen::Seen;
use super::words::{capital, counted};
use crate::topology::{CoreKind, Cpu, Smt, Topology, TopologyError};

const ABOUT: About = About(Topic::Machine);

/// What there is to say about the machine.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let machine = match &seen.topology {
        Ok(machine) => machine,
        Err(error) => return vec![unreadable(error)],
    };
    let mut findings = vec![cpus(seen, machine)];
    findings.extend(hypervisor(seen));
    findings.push(siblings(seen, machine));
    findings.extend(machine.notes.iter().map(|note| ABOUT.info("machine.note", note.clone())));
    findings
}

fn unreadable(error: &TopologyError) -> Finding {
    let mut what = capital(&error.to_string());
    // Some end with a question.
    if !what.ends_with('?') {
        what.push('.');
    }
    let finding = ABOUT.error("machine.unreadable", what);
    let finding = finding.why("No lane can be placed.");
    match error {
        TopologyError::Unreadable { .. } => finding.mend("mount -t sysfs sysfs /sys"),
        TopologyError::NoCpu { .. } => {
            finding.mend("taskset -c LIST SERVICE").mend("or: cpuset.cpus of the control group")
        }
    }
}

fn cpus(seen: &Seen, machine: &Topology) -> Finding {
    let count = |key: fn(&Cpu) -> usize| online(machine).map(key).collect::<BTreeSet<_>>().len();
    let kinds = |kind| online(machine).filter(|cpu| cpu.kind == kind).count();
    let mut what = format!(
        "{} on {}, {}, {}",
        counted(online(machine).count(), "cpu online", "cpus online"),
        counted(count(|cpu| cpu.core), "core", "cores"),
        counted(count(|cpu| cpu.llc), "last-level cache", "last-level caches"),
        counted(count(|cpu| cpu.node), "NUMA node", "NUMA nodes"),
    );
    let hybrid = kinds(CoreKind::Efficiency) > 0;
    if hybrid {
        what += &format!(
            "; {} of performance cores, {} of efficiency cores",
            kinds(CoreKind::Performance),
            kinds(CoreKind::Efficiency)
        );
    }
    let finding = ABOUT.ok("machine.cpus", what + ".").why(seen.processor.brand.clone());
    if hybrid || count(|cpu| cpu.node) > 1 { finding.unseen() } else { finding }
}

fn hypervisor(seen: &Seen) -> Option<Finding> {
    let name = seen.hypervisor()?;
    let finding = ABOUT.info("machine.hypervisor", format!("A hypervisor is beneath ({name})."));
    Some(finding.why(
        "The host may stop a lane at any moment, for as long as it likes: bounds on latency hold between such stops. \
         Waking a parked lane costs tens of microseconds here. Ask for pinned (dedicated) virtual cpus.",
    ))
}

fn siblings(seen: &Seen, machine: &Topology) -> Finding {
    let control = seen.tree.text("sys/devices/system/cpu/smt/control").unwrap_or_default();
    match machine.smt {
        Smt::Visible => {
            let pairs = online(machine).filter(|cpu| cpu.id != cpu.core).map(|cpu| cpu.core).collect::<BTreeSet<_>>();
            let what = format!("SMT siblings are visible on {}.", counted(pairs.len(), "core", "cores"));
            ABOUT.ok("siblings.visible", what).why("Pairs of lanes are placed on siblings.").unseen()
        }
        Smt::Absent if matches!(control.as_str(), "off" | "forceoff") => {
            let off = ABOUT.info("siblings.off", "SMT is switched off.").why(
                "The two lanes of a pair get a core each. A poll lane then takes nothing from its neighbour but the \
                 shared cache, and waits only to save power.",
            );
            if control == "off" {
                off.mend("echo on > /sys/devices/system/cpu/smt/control")
            } else {
                off.mend("switch SMT on in the firmware, and take `nosmt` off the kernel's command line")
            }
        }
        Smt::Absent => ABOUT
            .info("siblings.absent", "The cores have no SMT siblings.")
            .why("The two lanes of a pair get a core each."),
        Smt::Unknown if seen.hypervisor().is_some() => hidden(machine),
        Smt::Unknown => ABOUT.info("siblings.unknown", "Nothing says whether cores have siblings.").why(
            "Pairs are made of cpus of one cache domain, and poll lanes wait with manners in case they share a core.",
        ),
    }
}

/// A hypervisor shows no siblings: there may be some all the same.
fn hidden(machine: &Topology) -> Finding {
    let cpus = online(machine).count();
    let cores = cpus.div_ceil(2);
    ABOUT
        .warning("siblings.hidden", "The hypervisor shows no SMT siblings, and may hide them.")
        .why(
            "Which cpus share a core cannot be known: a pair may be spread over two cores, or two poll lanes may meet on \
             one. Poll lanes wait with manners in case they share a core. `twolane doctor --probe` measures whether they \
             do. To have siblings shown, the virtual machine must be defined with two threads a core, its virtual cpus \
             pinned to the host's siblings.",
        )
        .mend(format!("qemu-system-x86_64 ... -smp {},sockets=1,cores={cores},threads=2", 2 * cores))
        .mend(format!("or: <topology sockets='1' dies='1' cores='{cores}' threads='2'/> with <vcpupin> (virsh edit)"))
        .mend("or: \"smt\": true in Firecracker's machine-config")
        .mend(format!("or: aws ec2 run-instances ... --cpu-options CoreCount={cores},ThreadsPerCore=2"))
}

fn online(machine: &Topology) -> impl Iterator<Item = &Cpu> {
    machine.cpus.iter().filter(|cpu| cpu.online)
}
