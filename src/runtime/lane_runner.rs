//! A lane on a thread that somebody else made.

use std::fmt;
use std::sync::Arc;

use crate::sched::deque::Own;
use crate::sched::shared::Shared;
use crate::sched::worker::Worker;

/// A poll lane that waits for a thread of yours; see [`Builder::own_threads`](crate::Builder::own_threads). Dropped, the lane never runs, and
/// pollers given to it end with the runtime.
///
/// # Example
/// ```
/// use twolane::{Progress, Runtime, Where};
///
/// let rt = Runtime::builder().placement(twolane::Placement::Unpinned).pairs(1).own_threads([0]).build()?;
/// let lane = rt.lane_runner(0).expect("lane 0 was asked for");
/// let thread = std::thread::spawn(move || lane.run()); // an lcore, say
/// let poller = rt.spawn_poller(Where::Lane(0), "once", |_: &mut twolane::PollCx<'_>| Progress::Done)?;
/// let _ = poller.join()?;
/// rt.shutdown(std::time::Duration::from_secs(1))?;
/// thread.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the lane runs only when `run` is called"]
pub struct LaneRunner {
    shared: Arc<Shared>,
    lane: usize,
    queue: Own,
}

impl LaneRunner {
    pub(super) fn new(shared: Arc<Shared>, lane: usize, queue: Own) -> Self {
        Self { shared, lane, queue }
    }

    /// The lane's number.
    #[must_use]
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Makes the calling thread the lane, until the runtime ends. The thread keeps its binding and its signal mask.
    ///
    /// # Panics
    /// The thread is a lane already.
    pub fn run(self) {
        assert!(
            crate::sched::current::with(|lane| lane.is_none()),
            "a thread that is a lane of a runtime cannot become another one"
        );
        let Self { shared, lane, queue } = self;
        if shared.exits.begins(lane) {
            live(shared, lane, queue);
        }
    }
}

/// The life of a lane on the calling thread.
pub(super) fn live(shared: Arc<Shared>, lane: usize, queue: Own) {
    let guard = AbortIfPanicking { lane };
    // What it submits to a device goes by a page of its own.
    crate::offload::flow::sit_on(lane);
    Worker::new(shared, lane, queue).run();
    std::mem::forget(guard);
}

/// User code's panics are contained where it is called. One that gets here is the runtime's own; the lane's tasks and pollers would wait for it for
/// ever, so the process ends while the cause can still be seen.
struct AbortIfPanicking {
    lane: usize,
}

impl Drop for AbortIfPanicking {
    fn drop(&mut self) {
        eprintln!(
            "twolane: lane {} panicked outside user code; this is a bug in twolane, and the process ends",
            self.lane
        );
        std::process::abort();
    }
}

impl fmt::Debug for LaneRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneRunner").field("lane", &self.lane).finish_non_exhaustive()
    }
}
