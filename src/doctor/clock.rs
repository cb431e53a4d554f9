//! Whether the time can be read from the cpu's own counter, in a few nanoseconds.

use super::finding::{About, Finding, Topic};
use super::processor::Family;
use super::seen::Seen;
use crate::wait::clock::KERNEL_COUNTER_SOURCES;

const ABOUT: About = About(Topic::Clock);

const CURRENT: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
const AVAILABLE: &str = "sys/devices/system/clocksource/clocksource0/available_clocksource";

/// What there is to say about the clock.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let mut findings: Vec<Finding> = counter(seen).into_iter().collect();
    findings.push(source(seen));
    findings
}

/// What it costs when the counter is no clock.
const SLOW: &str = "Lanes read the time before and after each pass. They take it from CLOCK_MONOTONIC instead, which \
                    costs three times as much, or a system call where the kernel has no faster way.";

fn counter(seen: &Seen) -> Option<Finding> {
    match (seen.processor.family, seen.processor.invariant_counter?) {
        (Family::Arm, true) => Some(ABOUT.ok("clock.invariant", "The cpu's counter runs at one rate.").unseen()),
        (_, true) => Some(ABOUT.ok("clock.invariant", "The TSC is invariant: it runs at one rate.")),
        (_, false) => {
            let finding = ABOUT.warning("clock.not-invariant", "The cpu does not call its TSC invariant.").why(SLOW);
            Some(match seen.hypervisor() {
                Some(_) => finding.mend("qemu-system-x86_64 ... -cpu host,+invtsc,migratable=no"),
                None => finding,
            })
        }
    }
}

fn source(seen: &Seen) -> Finding {
    let Some(current) = seen.tree.text(CURRENT) else {
        return ABOUT.info("clock.unknown", format!("/{CURRENT} cannot be read.")).why(SLOW);
    };
    if KERNEL_COUNTER_SOURCES.contains(&current.as_str()) {
        return ABOUT.ok("clock.source", format!("The kernel keeps time by the cpu's counter ({current})."));
    }
    let available = seen.tree.text(AVAILABLE).unwrap_or_default();
    let better = available.split_whitespace().find(|name| KERNEL_COUNTER_SOURCES.contains(name));
    let finding = ABOUT.warning("clock.slow-source", format!("The kernel keeps time by {current}.")).why(SLOW);
    match better {
        Some(better) => finding.mend(format!("echo {better} > /{CURRENT}")),
        None => finding.mend("dmesg | grep -i 'tsc.*unstable'"),
    }
}
