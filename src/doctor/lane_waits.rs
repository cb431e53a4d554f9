//! With what would a lane wait here, and why not with more? Asked of the very test that lanes run when they start.
//!
//! The test runs on the thread that examines, on the cpu that it happens to be on, and not in a runtime made for the purpose: it is the same code over
//! the same clock, starts no thread, cannot fail, and takes some microseconds beside whatever service the machine runs. What it does not show is a
//! difference between cpus: each lane tests its own, and `LaneMetrics::waits` says what it found.

use super::tree::Tree;
use crate::arch::Capabilities;
use crate::wait::clock::{Clock, KERNEL_COUNTER_SOURCES};
use crate::wait::means::{Offer, OsLimit};
use crate::wait::{WaitReport, WaitWith, selftest};

/// What came of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneWaits {
    /// What was wanted: [`Roots::wait_with`](super::Roots::wait_with).
    pub wanted: WaitWith,
    /// The cpu that it was tried on, as far as the kernel tells; the thread may have been moved since.
    pub cpu: usize,
    /// What a lane there would wait with, and why not with more.
    pub report: WaitReport,
}

/// A file that tells which counter the kernel reads the time from.
const CLOCKSOURCE: &str = "sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The kernel's limits on the waits of WAITPKG, which it has where the cpu has that.
pub(super) const MAX_TIME: &str = "sys/devices/system/cpu/umwait_control/max_time";
pub(super) const ENABLE_C02: &str = "sys/devices/system/cpu/umwait_control/enable_c02";

impl LaneWaits {
    /// Runs the test on the calling thread. Executes what the cpu states and nothing else. About 60 us, and once a process 4 ms (asleep) for the clock.
    pub(super) fn test(wanted: WaitWith, tree: &Tree) -> Self {
        let cpu = Capabilities::detect();
        let source = tree.text(CLOCKSOURCE).unwrap_or_default();
        let (clock, _) = Clock::best(&cpu, KERNEL_COUNTER_SOURCES.contains(&source.as_str()));
        let os = OsLimit::parse(tree.text(MAX_TIME).as_deref(), tree.text(ENABLE_C02).as_deref());
        let offer = Offer::new(wanted, &cpu, clock.source(), os);
        let (_, report) = selftest::run(&clock, clock.rate(), &offer);
        Self { wanted, cpu: rustix::thread::sched_getcpu(), report }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::WhyNot;
    use std::path::Path;

    #[test]
    fn it_says_what_lanes_of_this_process_say() {
        let tree = Tree::new(Path::new("/"));
        for wanted in [WaitWith::Auto, WaitWith::Pause] {
            let tested = LaneWaits::test(wanted, &tree);
            assert_eq!(tested.wanted, wanted);
            let stated = Capabilities::detect().wait_instruction().is_some();
            let why = tested.report.why_pause;
            match (stated, wanted) {
                (false, _) => assert_eq!(why, Some(WhyNot::NotStated)),
                (true, WaitWith::Pause) => assert_eq!(why, Some(WhyNot::Unwanted)),
                (true, _) => assert_ne!(why, Some(WhyNot::NotStated)),
            }
        }
    }
}
