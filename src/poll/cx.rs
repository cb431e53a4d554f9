//! What a poller can do during a call: hand work to the sibling, read the time, hear that it should end.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::time::Duration;

use super::Doorbell;
use crate::placement::LaneInfo;
use crate::task::{JoinHandle, Runnable, Scheduler, closure, future};
use crate::{Rejected, RejectedBecause};

/// How a pass reaches the scheduler that runs it. Implemented by the lane.
pub(crate) trait Ports {
    /// Takes a task for the sibling. At most one wake a pass, after all pollers ran.
    fn hand_off(&self, task: Runnable);
    /// Whether a new task would be taken.
    fn accepts(&self) -> Result<(), RejectedBecause>;
    /// What a future is bound to.
    fn scheduler(&self) -> Scheduler;
    /// Time since the runtime was built, at the beginning of this pass.
    fn now(&self) -> Duration;
    /// What wakes this lane.
    fn doorbell(&self) -> Doorbell;
}

/// The context of one call of a poller. It lends nothing past the call and stays on the lane.
pub struct PollCx<'a> {
    pub(super) ports: &'a dyn Ports,
    pub(super) info: &'a LaneInfo,
    pub(super) stopping: bool,
    pub(super) call_after: Option<Duration>,
    pub(super) not_send: PhantomData<*const ()>,
}

impl<'a> PollCx<'a> {
    pub(crate) fn new(ports: &'a dyn Ports, info: &'a LaneInfo) -> Self {
        Self { ports, info, stopping: false, call_after: None, not_send: PhantomData }
    }

    /// Hands a closure to the compute lane of this pair; other lanes may steal it.
    ///
    /// The sibling looks here first. If no compute lane that is awake takes it within about a microsecond, one is woken, between two
    /// passes: at most one system call, however many closures were handed off. Refused (runtime shutting down, backlog full), the handle is born cancelled;
    /// [`try_spawn_compute`](Self::try_spawn_compute) gives the closure back instead.
    ///
    /// Tasks start in the order in which they were handed off or not, as it comes; where order matters, make one task of it.
    ///
    /// # Cost
    /// One allocation, no lock.
    pub fn spawn_compute<F, T>(&self, work: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.try_spawn_compute(work).unwrap_or_else(|_| JoinHandle::cancelled())
    }

    /// As [`spawn_compute`](Self::spawn_compute).
    ///
    /// # Errors
    /// [`Rejected`] with the closure: the runtime has ended, or the lane's backlog is full.
    pub fn try_spawn_compute<F, T>(&self, work: F) -> Result<JoinHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if let Err(because) = self.ports.accepts() {
            return Err(Rejected::new(because, work));
        }
        let (task, handle) = closure(work);
        self.ports.hand_off(task);
        Ok(handle)
    }

    /// Hands a future to the compute lanes; see [`spawn_compute`](Self::spawn_compute).
    pub fn spawn<F>(&self, work: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.try_spawn(work).unwrap_or_else(|_| JoinHandle::cancelled())
    }

    /// As [`spawn`](Self::spawn).
    ///
    /// # Errors
    /// [`Rejected`] with the future: the runtime has ended, or the lane's backlog is full.
    pub fn try_spawn<F>(&self, work: F) -> Result<JoinHandle<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if let Err(because) = self.ports.accepts() {
            return Err(Rejected::new(because, work));
        }
        match future(work, self.ports.scheduler()) {
            Ok((task, handle)) => {
                self.ports.hand_off(task);
                Ok(handle)
            }
            Err(work) => Err(Rejected::new(RejectedBecause::Shutdown, work)),
        }
    }

    /// Time since the runtime was built, read once at the beginning of the pass: all pollers of a pass see the same.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.ports.now()
    }

    /// Whether the poller should end: [`PollerHandle::stop`](super::PollerHandle::stop) was called, or the runtime shuts down.
    ///
    /// From then on it is called until it returns [`Progress::Done`](super::Progress::Done) or [`Progress::Idle`](super::Progress::Idle)
    /// (nothing left to finish). A poller that waits for something outstanding returns `Busy(0)` meanwhile.
    #[must_use]
    pub fn stopping(&self) -> bool {
        self.stopping
    }

    /// Asks to be called again after `delay` at the latest, even if the lane dozes or parks and nothing arrives. Holds for one call; the
    /// earliest of several requests in one call counts.
    pub fn call_after(&mut self, delay: Duration) {
        self.call_after = Some(self.call_after.map_or(delay, |earlier| earlier.min(delay)));
    }

    /// What wakes this lane, to give to whoever gives the poller work.
    #[must_use]
    pub fn doorbell(&self) -> Doorbell {
        self.ports.doorbell()
    }

    /// The lane that runs this pass.
    #[must_use]
    pub fn lane(&self) -> &LaneInfo {
        self.info
    }
}

impl fmt::Debug for PollCx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollCx")
            .field("lane", &self.info.lane())
            .field("stopping", &self.stopping)
            .finish_non_exhaustive()
    }
}
