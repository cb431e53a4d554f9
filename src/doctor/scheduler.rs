//! How long the kernel's scheduler lets a thread that shares a lane's cpu wait.

use super::finding::{About, Finding, Topic};
use super::seen::Seen;

const ABOUT: About = About(Topic::Scheduler);

/// What there is to say about the scheduler.
pub(super) fn findings(seen: &Seen) -> Vec<Finding> {
    [real_time_limit(seen), slice(seen)].into_iter().flatten().collect()
}

const RT_RUNTIME: &str = "proc/sys/kernel/sched_rt_runtime_us";
const RT_PERIOD: &str = "proc/sys/kernel/sched_rt_period_us";
/// Linux's defaults: a real-time thread runs 950 ms of each second.
const RT_RUNTIME_DEFAULT_US: i64 = 950_000;
const RT_PERIOD_DEFAULT_US: i64 = 1_000_000;

fn real_time_limit(seen: &Seen) -> Option<Finding> {
    let runtime = seen.tree.number(RT_RUNTIME)?;
    if runtime < 0 {
        return Some(
            ABOUT
                .info("scheduler.rt-unlimited", "Real-time threads may run without limit (sched_rt_runtime_us is -1).")
                .why(
                    "Lanes are ordinary threads and need no such thing. Should the service be given a real-time class, a \
                     lane that polls keeps the kernel's own threads off its cpu for ever.",
                )
                .mend(format!("sysctl kernel.sched_rt_runtime_us={RT_RUNTIME_DEFAULT_US}")),
        );
    }
    let period = seen.tree.number(RT_PERIOD).unwrap_or(RT_PERIOD_DEFAULT_US);
    Some(
        ABOUT
            .ok("scheduler.rt-limit", format!("Real-time threads may run {runtime} of each {period} us."))
            .why("A lane with a real-time class would be stopped for the rest. Lanes are ordinary threads by default."),
    )
}

/// Where kernels of different age keep it: the base slice (6.6 and newer), else the granularity of a wakeup. Only root
/// may read the former two.
const SLICES: [&str; 3] = [
    "sys/kernel/debug/sched/base_slice_ns",
    "sys/kernel/debug/sched/wakeup_granularity_ns",
    "proc/sys/kernel/sched_wakeup_granularity_ns",
];

/// Above this, a thread waits noticeably: 10 ms is the end of what servers use.
const SLICE_LONG_NS: i64 = 10_000_000;

const NS_PER_US: i64 = 1_000;

fn slice(seen: &Seen) -> Option<Finding> {
    let (path, ns) = SLICES.iter().find_map(|path| Some((path, seen.tree.number(path)?)))?;
    let what = format!("A thread that shares a busy lane's cpu may wait {} us for its turn (/{path}).", ns / NS_PER_US);
    if ns <= SLICE_LONG_NS {
        return Some(ABOUT.ok("scheduler.slice", what));
    }
    Some(
        ABOUT
            .info("scheduler.long-slice", what)
            .why(
                "That is long for a helper thread on which a poller depends. Leave such threads a cpu of their own \
                 (`reserve`), or shorten the slice.",
            )
            .mend(format!("echo 3000000 > /{path}")),
    )
}
