//! The end of a flow, with operations in flight.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

use super::close;
use super::core::Core;
use super::state::Phase;

/// Between two looks while somebody else's device works: 50 us. Nothing waits for this but the end.
const NAP: Duration = Duration::from_micros(50);
/// How long a reaper that runs elsewhere may take to give up what is left, once it was told to: 1 s. It does so in its next pass.
const LAST_PASS: Duration = Duration::from_secs(1);

/// How the end went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Operations that were given up and may still run: what they refer to stays until the process ends.
    pub(crate) quarantined: usize,
    /// Tickets that are over and were not asked yet, or forgotten.
    pub(crate) unasked: usize,
    /// Operations that nobody gave up in time: the reaper's lane did not come back. They stay as quarantined ones do.
    pub(crate) unsettled: usize,
}

pub(super) fn run(core: &Arc<Core>, deadline: Instant) -> Report {
    core.close();
    if !core.is_here() {
        return Report::default(); // the parent's, all of it
    }
    for page in core.all_pages() {
        close::close(core, page);
    }
    wait(core, deadline);
    core.expired.store(true, Release);
    core.ring();
    if count(core).unsettled > 0 {
        wait(core, Instant::now() + LAST_PASS);
    }
    let report = count(core);
    core.retire_all();
    report
}

/// Waits until nothing is outstanding, and does the reaper's work if nobody else does.
fn wait(core: &Arc<Core>, deadline: Instant) {
    let began = Instant::now();
    loop {
        // Not held while sleeping: a reaper that ends meanwhile leaves what it knows here.
        if let Some(sweeper) = core.sweeper.lock().as_mut() {
            let now = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
            let _ = sweeper.sweep(core, now);
            sweeper.close_all(core);
            if core.expired.load(Acquire) {
                sweeper.look_now(core, now);
            }
        }
        if count(core).unsettled == 0 || Instant::now() >= deadline {
            return;
        }
        core.ring();
        std::thread::sleep(NAP);
    }
}

fn count(core: &Core) -> Report {
    let mut report = Report::default();
    for page in core.all_pages() {
        for slot in super::claims::numbers(page.claims.look().slots()) {
            match page.slot(slot).look().phase() {
                Phase::Live | Phase::Held => report.unsettled += 1,
                Phase::Quarantined => report.quarantined += 1,
                Phase::Settled | Phase::Unrun => report.unasked += 1,
            }
        }
    }
    report
}
