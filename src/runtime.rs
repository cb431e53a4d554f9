//! A running set of lanes, and the ways to give them work.

mod handle;
mod lane_runner;
mod offload;
#[allow(unsafe_code)] // pthread_sigmask
mod signals;
mod start;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use handle::{Handle, Where};
pub use lane_runner::LaneRunner;

use crate::arch::Capabilities;
use crate::builder::{Builder, Config};
use crate::error::Error;
use crate::placement::Plan;
use crate::sched::shutdown::{self, ShutdownReport};

/// Lanes that run, from [`Builder::build`] until it is shut down or dropped.
///
/// Work is given to it through the methods of [`Handle`], to which it dereferences; clone [`handle`](Self::handle) for other threads. There is no
/// global runtime: several may live side by side, and beside tokio and rayon, on cpus of their own or on the same.
///
/// # Threads of your own
/// A thread that your code spawns on a lane inherits the lane's binding to one cpu and its blocked signals, as threads do on Linux: set
/// both before you let it work, or spawn it elsewhere. io_uring's helper threads are the same, unless they are bound (`IORING_REGISTER_IOWQ_AFF`).
///
/// # Fork
/// In a child made by fork(2) no lane runs. Submitting there fails with [`RejectedBecause::Forked`](crate::RejectedBecause::Forked), and
/// dropping the runtime does nothing; the child may build one of its own. A task or poller that had not ended at the fork never ends in the child: there its
/// handle resolves to an error at once, a cancelled [`JoinError`](crate::JoinError) or [`PollerError::Shutdown`](crate::PollerError::Shutdown).
/// That holds for fork(2), not for vfork(2) or a bare clone(2).
///
/// # Example
/// ```
/// use twolane::{Progress, Runtime, Where};
///
/// let rt = Runtime::builder().build()?;
/// let mut polls = 0;
/// let counter = rt.spawn_poller(Where::Any, "counter", move |_: &mut twolane::PollCx<'_>| {
///     polls += 1;
///     if polls < 1_000 { Progress::Idle } else { Progress::Done }
/// })?;
/// let sum = rt.spawn_compute(|| (1..=100_u64).sum::<u64>());
/// assert_eq!(sum.join()?, 5_050);
/// counter.join()?;
/// rt.shutdown(std::time::Duration::from_secs(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping a runtime ends it"]
pub struct Runtime {
    handle: Handle,
    plan: Plan,
    threads: Vec<Option<std::thread::JoinHandle<()>>>,
    runners: Mutex<Vec<LaneRunner>>,
    drop_deadline: Duration,
    is_down: bool,
    /// Calls the poller that watches devices; kept for as long as anybody may want to.
    _reaper: offload::Bell,
}

/// Starts what was configured.
pub(crate) fn start(config: Config) -> Result<Runtime, Error> {
    let cpu = (config.believe)(Capabilities::detect());
    let queues = offload::queues(&config.offload, &cpu)?;
    let started = start::start(&config)?;
    let center = Arc::new(offload::center(&config.offload, queues, &cpu, &started.shared));
    let handle = Handle::new(started.shared, config.overrides.into(), Arc::clone(&center));
    let reaper = offload::spawn_reaper(&handle, &center);
    offload::spawn_reopening(&handle, &center);
    let mut runtime = Runtime {
        handle,
        plan: config.plan,
        threads: started.threads,
        runners: Mutex::new(started.runners),
        drop_deadline: config.drop_deadline,
        is_down: false,
        _reaper: offload::Bell::default(),
    };
    // On an error, the runtime ends as if it had been dropped.
    runtime._reaper = reaper?;
    Ok(runtime)
}

impl Runtime {
    /// A builder with every knob at its default.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// A handle for other threads. It does not keep the runtime alive.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Which lane was planned for which cpu. Whether each is bound to it is in the lanes' [`info`](crate::LaneMetrics::info).
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Takes a lane that was asked for with [`Builder::own_threads`], to run it on a thread of yours. `None`: it was not asked for, or is taken.
    #[must_use]
    pub fn lane_runner(&self, lane: usize) -> Option<LaneRunner> {
        let mut runners = self.runners.lock();
        let at = runners.iter().position(|runner| runner.lane() == lane)?;
        Some(runners.swap_remove(at))
    }

    /// Ends the runtime: refuses work from outside, asks pollers to end, runs what is queued, drops futures that merely wait, joins the lanes.
    ///
    /// Pollers see [`PollCx::stopping`](crate::PollCx::stopping) and end with `Done` or `Idle`. Tasks that run may spawn more until everything
    /// is at rest. At the deadline what is left is dropped on its lane, and its handles are told. Returns at most 50 ms after it.
    ///
    /// # Errors
    /// [`ShutdownReport`]: what was still live at the deadline. Lanes that are stuck in user code are named and left behind; everything else has
    /// ended all the same.
    pub fn shutdown(mut self, deadline: Duration) -> Result<(), ShutdownReport> {
        self.end(deadline)
    }

    fn end(&mut self, deadline: Duration) -> Result<(), ShutdownReport> {
        if std::mem::replace(&mut self.is_down, true) {
            return Ok(());
        }
        let now = Instant::now();
        // A deadline beyond the clock's range means: however long it takes. A century is as good.
        let deadline = now.checked_add(deadline).unwrap_or(now + Duration::from_secs(100 * 365 * 24 * 3600));
        let ended = shutdown::shutdown(self.handle.shared(), std::mem::take(&mut self.threads), deadline);
        offload::shutdown(self.handle.center(), deadline);
        ended
    }
}

impl Drop for Runtime {
    /// Shuts down with [`Builder::drop_deadline`]. Dropped on one of its own lanes, it tells the lanes to end and waits for none.
    fn drop(&mut self) {
        let deadline = self.drop_deadline;
        // What is stuck was left behind; there is nobody to tell.
        let _ = self.end(deadline);
    }
}

impl Deref for Runtime {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.handle
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("lanes", &self.plan.lanes.len()).finish_non_exhaustive()
    }
}

const _: fn() = || {
    fn is_send_and_sync<T: Send + Sync>() {}
    is_send_and_sync::<Runtime>();
    is_send_and_sync::<Handle>();
};
