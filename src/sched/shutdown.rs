//! The end of a runtime, in phases, within a deadline, and with a report of what did not come to an end.
//!
//! 1. *Draining*: work from outside is refused, hand-offs among the lanes are not; pollers see `stopping()`; what is queued runs; futures that
//!    merely wait are dropped, on lanes. Until there is no live poller and no runnable task, or the deadline.
//! 2. *Ending*: lanes drop what is left, run their stop hook and leave.
//! 3. Threads that have left are joined; those that are stuck in user code are named and left behind. They hold what they use, so that
//!    nothing they touch is gone when they come back.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::current;
use super::phase::Phase;
use super::shared::Shared;
use crate::task::contain;

/// How long lanes have after the deadline to drop what is left: a few passes and destructors, on a machine where a lane may have to wait for
/// its cpu (a throttled cgroup is out for up to a period, 100 ms; half of one is a compromise with whoever set the deadline). 50 ms. It is used
/// up only when something is stuck.
const ENDING_GRACE: Duration = Duration::from_millis(50);
/// Pollers and lanes that come to rest wake the shutdown; this is for what comes to rest in silence. 1 ms.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// What did not end by itself before the deadline of a shutdown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Lanes whose thread was still in user code and was left behind.
    pub stuck: Vec<StuckLane>,
    /// Names of pollers that were still live and were dropped on their lane.
    pub dropped_pollers: Vec<String>,
    /// Tasks that were still queued or waiting and were cancelled.
    pub cancelled_tasks: usize,
}

/// A lane that did not come back from user code.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StuckLane {
    /// The lane.
    pub lane: usize,
    /// The cpu it is bound to, if it is.
    pub cpu: Option<usize>,
    /// What it was doing: the type of the task, or the name of the poller.
    pub doing: String,
}

/// Ends the runtime by `deadline`. `threads[lane]` is `None` for lanes that run on a thread of the user's. Called once.
pub(crate) fn shutdown(
    shared: &Arc<Shared>,
    threads: Vec<Option<JoinHandle<()>>>,
    deadline: Instant,
) -> Result<(), ShutdownReport> {
    if shared.is_forked() {
        // The lanes are the parent's. Their handles refer to threads that this process does not have.
        threads.into_iter().for_each(std::mem::forget);
        return Ok(());
    }
    let here = current::with_lane_of(shared, |lane| lane.map(|lane| lane.lane));
    shared.phase.advance(Phase::Draining);
    shared.ring_all();
    // Nobody will adopt what waits for a lane that has no thread.
    let live = shared.exits.live(false);
    for lane in shared.lanes().iter().filter(|lane| !live.contains(&lane.info.lane())) {
        let waiting = lane.inbox.close();
        // What is dropped here is user code; its panic belongs to nobody.
        let _ = contain(|| drop(waiting));
    }
    // A lane that waits for itself would wait for ever: the others go on, and this one leaves when it returns to its loop.
    let drained = here.is_none() && drain(shared, deadline);

    let unfinished = shared.registry_ref().len();
    shared.registry_ref().close();
    // Before *Ending*: this queues the futures that wait, and lanes take them from there. Afterwards this thread would drop them itself.
    shared.registry_ref().cancel_all();
    shared.phase.advance(Phase::Ending);
    shared.exits.live(true);
    shared.ring_all();
    let left = match here {
        None => shared.exits.wait_all(deadline.max(Instant::now()) + ENDING_GRACE),
        Some(_) => Vec::new(),
    };
    shared.cancel_queued();
    for (lane, thread) in threads.into_iter().enumerate() {
        match thread {
            // Its loop is over; what remains are its thread locals. A panic there is the thread's own and was reported by the panic hook.
            Some(thread) if here.is_none() && !left.contains(&lane) => drop(thread.join()),
            thread => drop(thread),
        }
    }
    if drained && left.is_empty() || here.is_some() {
        return Ok(());
    }
    let (dropped_pollers, cancelled_closures) = shared.exits.take_dropped();
    let stuck = left.into_iter().map(|lane| stuck(shared, lane)).collect();
    let report = ShutdownReport { stuck, dropped_pollers, cancelled_tasks: unfinished + cancelled_closures };
    // Lanes may have been awake at the deadline and found nothing more to do: then nothing was cut short.
    if report.is_empty() { Ok(()) } else { Err(report) }
}

/// Waits until nothing is left to do. `false`: the deadline came first.
fn drain(shared: &Shared, deadline: Instant) -> bool {
    loop {
        shared.registry_ref().cancel_idle();
        if is_at_rest(shared) {
            return true;
        }
        let now = Instant::now();
        if now >= deadline {
            return false;
        }
        shared.exits.wait(deadline.min(now + LOOK_EVERY));
    }
}

/// Whether no poller lives, no future exists, and every lane sleeps beside empty queues. With work from outside refused, nothing can start again.
fn is_at_rest(shared: &Shared) -> bool {
    let asleep = || shared.sleepers.all_asleep(shared.exits.live(false));
    // Acquire: partner is the Release in `poller_ended`.
    shared.live_pollers.load(Acquire) == 0
        && shared.registry_ref().is_empty()
        && asleep()
        && !shared.work_waits()
        && asleep()
}

impl ShutdownReport {
    fn is_empty(&self) -> bool {
        self.stuck.is_empty() && self.dropped_pollers.is_empty() && self.cancelled_tasks == 0
    }
}

fn stuck(shared: &Shared, lane: usize) -> StuckLane {
    let it = shared.lane(lane);
    StuckLane { lane, cpu: it.info.cpu(), doing: it.doing() }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime did not come to rest before the deadline")?;
        for StuckLane { lane, cpu, doing } in &self.stuck {
            write!(f, "; lane {lane}")?;
            if let Some(cpu) = cpu {
                write!(f, " (cpu {cpu})")?;
            }
            write!(f, " is stuck in {doing} and was left behind")?;
        }
        if !self.dropped_pollers.is_empty() {
            write!(f, "; dropped pollers: {}", self.dropped_pollers.join(", "))?;
        }
        if self.cancelled_tasks > 0 {
            write!(f, "; cancelled tasks: {}", self.cancelled_tasks)?;
        }
        Ok(())
    }
}

impl std::error::Error for ShutdownReport {}
