//! What this process may use of the machine, and the lanes that the default placement makes of it.

use std::collections::BTreeSet;
use std::path::Path;

use super::finding::{About, Finding, Topic};
use super::seen::Seen;
use super::words::{counted, cpus};
use crate::placement::{self, Plan, Request, Role};
use crate::topology::{CpuList, Topology};

const ABOUT: About = About(Topic::Process);

/// What there is to say about mask, cpuset, quota, scheduling class and the plan.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    let Some(machine) = seen.machine() else { return Vec::new() };
    let plan = placement::plan(&Request::default(), machine);
    let mut findings = vec![allowed(machine)];
    findings.extend(split_cores(machine));
    findings.extend(one_cpu(machine));
    match plan {
        Ok(plan) => {
            findings.push(planned(&plan));
            findings.extend(every_cpu(machine, &plan));
            findings.extend(quota(seen, machine, &plan));
        }
        Err(error) => findings.push(ABOUT.error("lanes.none", format!("The default placement fails: {error}."))),
    }
    findings.extend(throttled(seen, machine));
    findings.extend(real_time(seen));
    findings
}

fn allowed(machine: &Topology) -> Finding {
    let (online, allowed) = (online(machine), machine.allowed());
    let kept_out: BTreeSet<usize> =
        machine.cpus.iter().filter(|cpu| cpu.online && !cpu.allowed && !cpu.isolated).map(|cpu| cpu.id).collect();
    if kept_out.is_empty() {
        return ABOUT.ok("process.cpus", format!("This process may use {}.", cpus(&allowed)));
    }
    ABOUT
        .info("process.cpus", format!("This process may use {} of {}.", cpus(&allowed), cpus(&online)))
        .why("Its affinity mask or cpuset leaves the others out; lanes are never placed there.")
        .mend(format!("taskset -c {} SERVICE", CpuList::from(online)))
        .mend("or: AllowedCPUs= and CPUAffinity= (systemd), --cpuset-cpus (docker), cpuset.cpus (control group)")
}

/// A mask that keeps one sibling of a core.
fn split_cores(machine: &Topology) -> Option<Finding> {
    let allowed = machine.allowed();
    let split: BTreeSet<usize> = allowed
        .iter()
        .copied()
        .filter(|&id| machine.siblings(id).iter().any(|sibling| !sibling.allowed && !sibling.isolated))
        .collect();
    if split.is_empty() {
        return None;
    }
    let whole: BTreeSet<usize> =
        split.iter().flat_map(|&id| machine.siblings(id)).map(|cpu| cpu.id).chain(allowed).collect();
    Some(
        ABOUT
            .warning("process.split-cores", format!("The mask has {} without all siblings.", cpus(&split)))
            .why(
                "Somebody else may run on the missing siblings: a lane there shares its core with strangers, and no pair \
                 of siblings can be made of it.",
            )
            .mend(format!("taskset -c {} SERVICE", CpuList::from(whole)))
            .mend("or: cpuset.cpus of the control group, in whole cores (kubelet: full-pcpus-only=true)")
            .unseen(),
    )
}

fn one_cpu(machine: &Topology) -> Option<Finding> {
    if machine.allowed().len() > 1 {
        return None;
    }
    let finding = ABOUT.warning("process.one-cpu", "There is one cpu for everything.").why(
        "Polling and tasks alternate on one thread, and other threads only run when it parks or is preempted. Bounds on \
         latency are best effort.",
    );
    let online = online(machine);
    Some(if online.len() > 1 { finding.mend(format!("taskset -c {} SERVICE", CpuList::from(online))) } else { finding })
}

fn planned(plan: &Plan) -> Finding {
    let pairs = plan.sharing.len();
    let shared = plan.lanes.iter().all(|lane| lane.role == Role::Shared);
    let lanes = counted(plan.lanes.len(), "lane", "lanes");
    let what = match shared {
        true => format!("The default placement makes {lanes}, each for polling and tasks in turn."),
        false => format!("The default placement makes {lanes}, in {}.", counted(pairs, "pair", "pairs")),
    };
    ABOUT.ok("lanes.planned", what).why("`twolane plan` shows which lane gets which cpu.")
}

/// Lanes on every cpu that the process has.
fn every_cpu(machine: &Topology, plan: &Plan) -> Option<Finding> {
    let allowed = machine.allowed();
    let busy: BTreeSet<usize> = plan.lanes.iter().filter_map(|lane| lane.cpu).collect();
    if allowed.len() < 2 || !allowed.is_subset(&busy) {
        return None;
    }
    let finding = ABOUT.info("lanes.every-cpu", "Lanes take every cpu that this process may use.").why(
        "Interrupts, the kernel's threads and the service's own other threads must preempt lanes. A poll lane that \
         never parks makes them wait for a turn.",
    );
    let core = allowed.first().map_or(1, |&id| machine.siblings(id).len());
    let rest = allowed.len() - core.min(allowed.len());
    Some(if rest >= 2 {
        finding.mend(format!("TWOLANE_RESERVE={core}")).mend(format!("or: Builder::reserve({core})"))
    } else {
        finding
    })
}

/// A quota against the lanes that it must carry.
fn quota(seen: &Seen, machine: &Topology, plan: &Plan) -> Option<Finding> {
    let Some(quota) = &machine.quota else {
        return Some(ABOUT.ok("quota.none", "No control group limits this process's cpu time."));
    };
    let lanes = plan.lanes.len();
    let file = seen.tree.on_the_machine(&quota.source);
    let says = format!("({})", file.display());
    if lanes as f64 > quota.cpus {
        let finding = ABOUT.warning(
            "quota.below-lanes",
            format!("The control group allows {} cpus' time for {lanes} lanes {says}.", quota.cpus),
        );
        return Some(
            finding
                .why(
                    "Waiting in user mode counts as cpu time. When the quota is used up, the kernel stops all lanes until the \
                     next period, usually for tens of milliseconds.",
                )
                .mend(raise(seen, &file, lanes))
                .mend(format!("or: docker update --cpus={lanes} CONTAINER"))
                .mend(format!("or: resources.limits.cpu: \"{lanes}\" (Kubernetes)"))
                .mend(format!("or: systemctl set-property UNIT CPUQuota={}%", PERCENT_A_CPU * lanes)),
        );
    }
    let without = placement::plan(&Request::default(), &Topology { quota: None, ..machine.clone() });
    let unlimited = without.map_or(lanes, |plan| plan.lanes.len());
    if lanes < unlimited {
        let what =
            format!("The control group's quota of {} cpus allows {lanes} lanes of {unlimited} {says}.", quota.cpus);
        return Some(
            ABOUT
                .info("quota.fewer-lanes", what)
                .why("The default placement makes no more lanes than the quota carries.")
                .mend(raise(seen, &file, unlimited)),
        );
    }
    Some(ABOUT.ok("quota.enough", format!("The control group allows {} cpus' time {says}.", quota.cpus)))
}

/// systemd counts in percent of one cpu.
const PERCENT_A_CPU: usize = 100;

/// The kernel's own default, for a file that does not say.
const PERIOD_US: i64 = 100_000;

/// The command that gives the group the time of `cpus` cpus.
fn raise(seen: &Seen, file: &Path, cpus: usize) -> String {
    let cpus = i64::try_from(cpus).unwrap_or(i64::MAX);
    let version_1 = file.ends_with("cpu.cfs_quota_us");
    let period = if version_1 {
        seen.tree.number(file.with_file_name("cpu.cfs_period_us"))
    } else {
        seen.tree.text(file).and_then(|text| text.split_whitespace().nth(1)?.parse().ok())
    };
    let period = period.unwrap_or(PERIOD_US);
    let quota = period.saturating_mul(cpus);
    let text = if version_1 { quota.to_string() } else { format!("{quota} {period}") };
    format!("echo '{text}' > {}", file.display())
}

/// Whether the group was stopped for using up its quota, ever.
fn throttled(seen: &Seen, machine: &Topology) -> Option<Finding> {
    let quota = machine.quota.as_ref()?;
    let file = seen.tree.on_the_machine(&quota.source).with_file_name("cpu.stat");
    let stat = seen.tree.text(&file)?;
    let value = |name: &str| -> Option<u64> {
        stat.lines().filter_map(|line| line.split_once(' ')).find(|(key, _)| *key == name)?.1.trim().parse().ok()
    };
    let (times, periods) = (value("nr_throttled")?, value("nr_periods").unwrap_or(0));
    if times == 0 {
        return Some(ABOUT.ok("quota.never-throttled", "The control group was never stopped for its quota."));
    }
    Some(
        ABOUT
            .warning(
                "quota.throttled",
                format!("The control group was stopped in {times} of {periods} periods ({}).", file.display()),
            )
            .why(
                "Each time, all its threads stood still until the next period. This is a sum since the group was made: \
                 if it grows while the service runs, raise the quota or plan fewer lanes.",
            )
            .mend(format!("watch -d grep throttled {}", file.display()))
            .mend("TWOLANE_PAIRS=1"),
    )
}

/// Whether lanes would inherit a real-time class.
fn real_time(seen: &Seen) -> Option<Finding> {
    let stat = seen.tree.text("proc/self/stat")?;
    // The name in parentheses may hold anything; numbers follow the last one.
    let policy: i64 = stat.rsplit_once(')')?.1.split_whitespace().nth(POLICY_AFTER_NAME)?.parse().ok()?;
    if ![SCHED_FIFO, SCHED_RR].contains(&policy) {
        return None;
    }
    Some(
        ABOUT
            .warning("process.real-time", "This process has a real-time scheduling class, which its lanes inherit.")
            .why(
                "A real-time thread that polls keeps everything else off its cpu, the kernel's own threads included, and \
                 whatever it waits for may be among them.",
            )
            .mend("chrt --other 0 SERVICE")
            .mend("or: CPUSchedulingPolicy=other (systemd)"),
    )
}

/// `policy` is field 41 of proc(5)'s stat, and the first after the name is field 3.
const POLICY_AFTER_NAME: usize = 41 - 3;
const SCHED_FIFO: i64 = libc::SCHED_FIFO as i64;
const SCHED_RR: i64 = libc::SCHED_RR as i64;

fn online(machine: &Topology) -> BTreeSet<usize> {
    machine.cpus.iter().filter(|cpu| cpu.online).map(|cpu| cpu.id).collect()
}
