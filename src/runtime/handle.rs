//! The ways to give work to the lanes, from any thread.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, Rejected, RejectedBecause};
use crate::metrics::{Guard, LaneMetrics, Metrics, Misses, Withheld};
use crate::offload::{Center, Copies};
use crate::placement::{LaneInfo, Role, Sharing};
use crate::poll::{Adoption, Doorbell, Poller, PollerHandle, adoption};
use crate::sched::current;
use crate::sched::join::{self, WouldDeadlock};
use crate::sched::phase::Phase;
use crate::sched::shared::{Lane, Shared};
use crate::task::{JoinHandle, closure, future};
use crate::wait::Relief;
use crate::wait::clock::Rate;

/// On which lane a poller shall live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Where {
    /// On the poll lane with the fewest pollers that no task blocks at the moment.
    #[default]
    Any,
    /// On the poll lane of this pair.
    Pair(usize),
    /// On this lane, which must be a poll lane or a shared one.
    Lane(usize),
}

/// A way to a runtime's lanes, for any thread. Does not keep the runtime alive: after its end, work is refused.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
    overrides: Arc<[String]>,
    center: Arc<Center>,
}

/// Ticks that may be negative.
fn signed_ns(rate: Rate, ticks: i64) -> i64 {
    let ns = i64::try_from(rate.ns_from_ticks(ticks.unsigned_abs())).unwrap_or(i64::MAX);
    if ticks < 0 { -ns } else { ns }
}

impl Handle {
    pub(super) fn new(shared: Arc<Shared>, overrides: Arc<[String]>, center: Arc<Center>) -> Self {
        Self { shared, overrides, center }
    }

    pub(super) fn center(&self) -> &Center {
        &self.center
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Gives a poller to a lane, which calls it until it is done. Returns at once; the lane adopts it between two passes, or between two tasks:
    /// a lane without pollers works as a compute lane until then, and a task that is on it is not interrupted.
    ///
    /// Closures `FnMut(&mut PollCx<'_>) -> Progress` are pollers; [`poll_fn`](crate::poll_fn) tells the lane more about one. The name is for
    /// reports.
    ///
    /// # Errors
    /// [`Error::NoSuchLane`], [`Error::NotForPollers`]: `place` names no lane for pollers. [`Error::Shutdown`], [`Error::Forked`].
    pub fn spawn_poller<P>(&self, place: Where, name: &str, poller: P) -> Result<PollerHandle<P>, Error>
    where
        P: Poller + Send + 'static,
    {
        self.adopt(place, name, move |_| Ok::<P, Infallible>(poller), |poller| poller)
    }

    /// Builds a poller on the thread of its lane, for what must not move between threads or should first be touched there (a DPDK queue, an
    /// io_uring, memory of the lane's node).
    ///
    /// The handle's `join` tells when `make` failed. The poller is dropped on its lane.
    ///
    /// # Errors
    /// As [`spawn_poller`](Self::spawn_poller).
    pub fn spawn_poller_with<P, E>(
        &self,
        place: Where,
        name: &str,
        make: impl FnOnce(&LaneInfo) -> Result<P, E> + Send + 'static,
    ) -> Result<PollerHandle<()>, Error>
    where
        P: Poller + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
    {
        self.adopt(place, name, make, drop)
    }

    fn adopt<P, E, R>(
        &self,
        place: Where,
        name: &str,
        make: impl FnOnce(&LaneInfo) -> Result<P, E> + Send + 'static,
        leave: fn(P) -> R,
    ) -> Result<PollerHandle<R>, Error>
    where
        P: Poller + 'static,
        E: Into<Box<dyn StdError + Send + Sync>>,
        R: Send + 'static,
    {
        if self.shared.is_forked() {
            return Err(Error::Forked);
        }
        let lane = self.lane_for(place)?;
        // Counted first, so that a shutdown that begins now waits for it; whoever resolves the handle counts it down.
        self.shared.poller_begins(lane);
        let (adoption, handle) = adoption(name, lane, self.shared.clone(), make, leave);
        self.hand_over(lane, adoption)?;
        Ok(handle)
    }

    fn hand_over(&self, lane: usize, adoption: Adoption) -> Result<(), Error> {
        let refused = match self.shared.phase.now() {
            Phase::Running => self.shared.lane(lane).inbox.push(adoption).err(),
            _ => Some(adoption),
        };
        match refused {
            Some(adoption) => {
                drop(adoption);
                Err(Error::Shutdown)
            }
            None => {
                self.shared.ring(lane);
                Ok(())
            }
        }
    }

    fn lane_for(&self, place: Where) -> Result<usize, Error> {
        let lanes = self.shared.lanes();
        let takes_pollers = |lane: &&Arc<Lane>| lane.info.plan.role != Role::Compute;
        match place {
            Where::Any => {
                // Relaxed: a hint; two pollers that come at once may land on one lane.
                let load = |lane: &Lane| (lane.blocked.load(Relaxed), lane.assigned.load(Relaxed));
                let fewest = lanes.iter().filter(takes_pollers).min_by_key(|lane| load(lane));
                fewest.map(|lane| lane.info.lane()).ok_or_else(|| no_such_lane("lane for pollers".into(), lanes))
            }
            Where::Pair(pair) => lanes
                .iter()
                .filter(takes_pollers)
                .find(|lane| lane.info.plan.pair == pair)
                .map(|lane| lane.info.lane())
                .ok_or_else(|| no_such_lane(format!("pair {pair}"), lanes)),
            Where::Lane(lane) => match lanes.get(lane) {
                None => Err(no_such_lane(format!("lane {lane}"), lanes)),
                Some(found) if !takes_pollers(&found) => Err(Error::NotForPollers { lane, role: found.info.plan.role }),
                Some(_) => Ok(lane),
            },
        }
    }

    /// Gives a closure to the compute lanes, to run once.
    ///
    /// Dropping the handle lets it run unobserved. If the runtime does not take it (it ends, or its backlog is full), the handle is born
    /// cancelled; [`try_spawn_compute`](Self::try_spawn_compute) gives the closure back instead.
    ///
    /// # Cost
    /// One allocation; a system call if a lane has to be woken and none is on its way up.
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
    /// [`Rejected`], with the closure in it.
    pub fn try_spawn_compute<F, T>(&self, work: F) -> Result<JoinHandle<T>, Rejected<F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        if let Err(because) = self.accepts() {
            return Err(Rejected::new(because, work));
        }
        let (task, handle) = closure(work);
        self.shared.submit(task);
        Ok(handle)
    }

    /// Gives a future to the compute lanes. Dropping the handle lets it run unobserved; see [`spawn_compute`](Self::spawn_compute).
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
    /// [`Rejected`], with the future in it.
    pub fn try_spawn<F>(&self, work: F) -> Result<JoinHandle<F::Output>, Rejected<F>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if let Err(because) = self.accepts() {
            return Err(Rejected::new(because, work));
        }
        match future(work, self.shared.clone() as crate::task::Scheduler) {
            Ok((task, handle)) => {
                self.shared.submit(task);
                Ok(handle)
            }
            Err(work) => Err(Rejected::new(RejectedBecause::Shutdown, work)),
        }
    }

    /// Drives a future on the calling thread until it is ready, blocking between its polls.
    ///
    /// The future stays on this thread and may borrow from it; what it spawns runs on the lanes. May be nested, and called inside tokio's and
    /// rayon's threads; a waker that is used after the call does nothing.
    ///
    /// # Errors
    /// [`WouldDeadlock`] with the future, unpolled: called in a poller or a hook, or on the last compute lane that is not already waiting.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, WouldDeadlock<F>> {
        join::block_on(future)
    }

    /// Bulk operations on memory: copies, fills, comparisons, checksums, by a device or by the CPU.
    #[must_use]
    pub fn copies(&self) -> Copies {
        Copies::new(Arc::clone(&self.center))
    }

    /// What wakes a lane, by its number: for producers that write to memory which the lane's pollers look at.
    ///
    /// Inside a closure given to [`spawn_poller_with`](Self::spawn_poller_with), the number is `info.lane()`.
    ///
    /// # Errors
    /// [`Error::NoSuchLane`].
    pub fn doorbell(&self, lane: usize) -> Result<Doorbell, Error> {
        match self.shared.lanes().len() {
            lanes if lane < lanes => Ok(self.shared.doorbell(lane)),
            _ => Err(no_such_lane(format!("lane {lane}"), self.shared.lanes())),
        }
    }

    /// What the lanes did so far. Costs the lanes nothing.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let shared = &self.shared;
        let now = shared.clock.now();
        Metrics {
            lanes: shared.lanes().iter().map(|lane| self.lane_metrics(lane)).collect(),
            clock: shared.clock.to_string(),
            age: shared.since_start(now),
            injected: shared.injectors().iter().map(|injector| injector.len()).sum(),
            live_futures: shared.registry_ref().len(),
            live_pollers: shared.live_pollers.load(Relaxed),
            copies: self.center.counts(),
            overrides: self.overrides.to_vec(),
        }
    }

    /// Why `lane` gives no relief at this moment.
    fn withheld(&self, lane: &Lane) -> Option<Withheld> {
        let wait = &self.shared.settings.wait;
        let beside =
            |other: &Lane| other.info.plan.pair == lane.info.plan.pair && other.info.lane() != lane.info.lane();
        // Relaxed: a report of a moment.
        let busy = || self.shared.lanes().iter().any(|other| beside(other) && other.has_tasks.load(Relaxed));
        match wait.relief {
            Relief::Off => Some(Withheld::Off),
            Relief::Auto if lane.info.sharing == Sharing::Denied => Some(Withheld::NotShared),
            Relief::Auto if !busy() => Some(Withheld::SiblingIdle),
            _ if lane.counters.pollers.read() > 0 && (lane.counters.balance.read() as i64) < 0 => {
                Some(Withheld::OverBudget)
            }
            _ => None,
        }
    }

    fn lane_metrics(&self, lane: &Lane) -> LaneMetrics {
        let clock = self.shared.clock;
        let split = lane.times.read(clock.now());
        let tasks = split.task.saturating_add(split.lent);
        let counters = &lane.counters;
        LaneMetrics {
            info: lane.info.clone(),
            busy: clock.duration(split.busy.saturating_add(tasks)),
            empty: clock.duration(split.empty),
            dozing: clock.duration(split.doze),
            parked: clock.duration(split.parked),
            preempted: clock.duration(split.preempted),
            tasks_time: clock.duration(tasks),
            passes: counters.passes.read(),
            busy_passes: counters.busy_passes.read(),
            events: counters.events.read(),
            pollers: counters.pollers.read(),
            dozes: counters.dozes.read(),
            instruction_dozes: counters.instruction_dozes.read(),
            os_limited_dozes: counters.os_limited_dozes.read(),
            waits: lane.waits.get().cloned(),
            doze_false_wakes: counters.doze_false_wakes.read(),
            cut_dozes: counters.cut_dozes.read(),
            monitored_dozes: counters.monitored_dozes.read(),
            monitor_verdicts: counters.monitor_verdicts.read(),
            steps_aside: counters.steps_aside.read(),
            rests: counters.rests.read(),
            rests_asked: counters.rests_asked.read(),
            recalibrations: counters.recalibrations.read(),
            mean_added: clock.duration(counters.mean_bound.read()),
            max_added: clock.duration(counters.max_bound.read()),
            added: clock.duration(counters.charged.read()),
            budget_ns: signed_ns(clock.rate(), counters.balance.read() as i64),
            over_budget: counters.over_budget.read(),
            withheld: self.withheld(lane),
            guards: Guard::of(counters.guards.read()),
            wake: Some(counters.wake.read()).filter(|&ticks| ticks > 0).map(|ticks| clock.duration(ticks)),
            parks: counters.parks.read(),
            park_refusals: counters.park_refusals.read(),
            fruitless_parks: counters.fruitless_parks.read(),
            misses: Misses {
                doze: counters.misses_doze.read(),
                lent: counters.misses_lent.read(),
                preempted: counters.misses_preempted.read(),
                slow_poller: counters.misses_slow_poller.read(),
                aside: counters.misses_aside.read(),
            },
            relief_withheld: counters.relief_withheld.read(),
            tasks: counters.tasks.read(),
            lent_tasks: counters.lent_tasks.read(),
            hand_offs: counters.hand_offs.read(),
            steals: counters.steals.read(),
            lingers: counters.lingers.read(),
            panics: counters.panics.read(),
            wakes: counters.wakes.read(),
        }
    }

    /// The lane that the calling thread is, if it is one of this runtime's.
    #[must_use]
    pub fn current_lane(&self) -> Option<usize> {
        current::with_lane_of(&self.shared, |lane| lane.map(|lane| lane.lane))
    }

    fn accepts(&self) -> Result<(), RejectedBecause> {
        current::with_lane_of(&self.shared, |lane| self.shared.accepts(lane))
    }
}

fn no_such_lane(asked: String, lanes: &[Arc<Lane>]) -> Error {
    let pairs = lanes.iter().map(|lane| lane.info.plan.pair + 1).max().unwrap_or(0);
    Error::NoSuchLane { asked, there_are: format!("{} lanes in {pairs} pairs, numbered from 0", lanes.len()) }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("lanes", &self.shared.lanes().len()).finish_non_exhaustive()
    }
}
