//! What twolane was never run on: said plainly, so that nobody has to find out by surprise.

use super::finding::{About, Finding, Topic};
use super::processor::Family;
use super::seen::Seen;
use crate::topology::{CoreKind, Cpu, Smt};

const ABOUT: About = About(Topic::Unseen);

/// One finding: the list, and which of it this machine has.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let here = here(seen);
    let finding = ABOUT
        .info("unseen", "twolane was developed and measured on virtual x86-64 machines of two cpus.")
        .why(format!(
            "Those show no SMT siblings, no WAITPKG, no MWAITX and no DSA. It was never seen running on SMT siblings, \
         WAITPKG, MWAITX, DSA, AArch64, hybrid cores or several NUMA nodes: what it does there rests on manuals, on \
         models, and on descriptions of such machines. {}",
            match here.as_slice() {
                [] => "This machine has none of these.".to_owned(),
                _ => format!("Of these, this machine has: {}. Measure before you rely on it.", here.join(", ")),
            }
        ));
    vec![finding.unseen()]
}

/// What this machine has of it.
fn here(seen: &Seen) -> Vec<&'static str> {
    let Some(machine) = seen.machine() else { return Vec::new() };
    let instructions = seen.processor.instructions;
    let different = |key: fn(&Cpu) -> usize| machine.cpus.iter().any(|cpu| key(cpu) != key(&machine.cpus[0]));
    [
        (machine.smt == Smt::Visible, "SMT siblings"),
        (instructions.waitpkg, "WAITPKG"),
        (instructions.mwaitx, "MWAITX"),
        (!seen.survey.devices.is_empty(), "DSA"),
        (seen.processor.family == Family::Arm, "AArch64"),
        (machine.cpus.iter().any(|cpu| cpu.kind != CoreKind::Uniform), "hybrid cores"),
        (different(|cpu| cpu.node), "several NUMA nodes"),
    ]
    .into_iter()
    .filter_map(|(has, name)| has.then_some(name))
    .collect()
}
