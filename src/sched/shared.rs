//! What the lanes of one runtime share, and every way in which work gets in.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::*};
use std::time::Duration;

use crossbeam_utils::CachePadded;
use once_cell::sync::OnceCell;
use parking_lot::Mutex;

use super::blocking::Blocking;
use super::current::{self, LaneCx};
use super::deque::{Injector, Stealer};
use super::doorbell::{Doorbell, Wake};
use super::exits::Exits;
use super::inbox::Inbox;
use super::kinds::Kinds;
use super::phase::{Phase, PhaseCell};
use super::settings::LaneSettings;
use super::sleepers::{Notify, Sleepers};
use super::slot::Slot;
use crate::RejectedBecause;
use crate::metrics::LaneCounters;
use crate::placement::{LaneInfo, Role};
use crate::poll::{self, fds};
use crate::sync::fork;
use crate::task::{Kind, Ran, Registry, Runnable, Schedule};
use crate::wait::WaitReport;
use crate::wait::clock::{Clock, Ticks};
use crate::wait::ledger::Totals;
use crate::wait::means::Offer;

/// The part of a lane that other threads see.
#[derive(Debug)]
pub(crate) struct Lane {
    pub info: LaneInfo,
    pub doorbell: Doorbell,
    /// The hand-off slot, on lines of its own: the sibling looks at it all the time.
    pub slot: CachePadded<Slot>,
    /// The thieves' end of its deque.
    pub stealer: Stealer,
    /// Whether it has tasks to run: its sibling's relief depends on it. Written only when that changes.
    pub has_tasks: CachePadded<AtomicBool>,
    /// Whether a task blocks it: pollers that are given to it wait. Written by the lane.
    pub blocked: AtomicBool,
    /// What it runs now, for the report of a shutdown that did not end: null, or a [`Kind`].
    pub running: AtomicPtr<Kind>,
    /// Which poller is being called (an index), and the pollers' names, for the same report.
    pub poller_names: Mutex<(Arc<AtomicUsize>, Vec<String>)>,
    pub inbox: Inbox,
    /// Pollers that were assigned to this lane and have not ended.
    pub assigned: AtomicUsize,
    /// Made when the first poller with a descriptor comes.
    pub bell: OnceCell<OwnedFd>,
    pub counters: LaneCounters,
    pub times: Totals,
    pub kinds: Kinds,
    /// What a poll lane that shares its core asks of this lane; see [`Rest`].
    pub rest: CachePadded<Rest>,
    /// With what it waits, once it has started.
    pub waits: OnceCell<WaitReport>,
}

/// The words between a poll lane and the compute lane that should rest for it (`wait::tail_guard`).
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// Set by the poll lane, taken by the compute lane at its next task boundary, or taken back.
    wanted: AtomicBool,
    /// Set by the compute lane while it rests.
    resting: AtomicBool,
}

impl Rest {
    /// Asks for one rest.
    pub(super) fn ask(&self) {
        // Relaxed, as all of these: hints, by which nothing else is published; a rest that comes a moment late or not at all is none.
        self.wanted.store(true, Relaxed);
    }

    pub(super) fn take_back(&self) {
        self.wanted.store(false, Relaxed);
    }

    /// Whether a rest is wanted; the answer obliges to [`begin`](Self::begin) it.
    #[inline]
    pub(super) fn take(&self) -> bool {
        self.wanted.load(Relaxed) && self.wanted.swap(false, Relaxed)
    }

    pub(super) fn begin(&self) {
        self.resting.store(true, Relaxed);
    }

    pub(super) fn end(&self) {
        self.resting.store(false, Relaxed);
    }

    pub(super) fn is_resting(&self) -> bool {
        self.resting.load(Relaxed)
    }
}

/// What the lanes share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Each in an allocation of its own: a lane keeps hold of its own and its siblings', and finds them without a table.
    lanes: Box<[Arc<Lane>]>,
    pub sleepers: Sleepers,
    injectors: Box<[CachePadded<Injector>]>,
    registry: Registry,
    pub phase: PhaseCell,
    /// Somebody pushed a task and found every lane at work: a poll lane that is awake and quiet may take it.
    help_wanted: CachePadded<AtomicBool>,
    /// Pollers that were accepted and have not ended.
    pub live_pollers: AtomicUsize,
    pub blocking: Blocking,
    pub exits: Exits,
    pub settings: LaneSettings,
    pub clock: Clock,
    /// What there is to wait with, for each lane to try.
    pub offer: Offer,
    started: Ticks,
    fork: fork::Generation,
}

/// Whether a lane will look for the task before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coming {
    Somebody,
    /// Every lane is at work.
    Nobody,
}

impl Shared {
    /// `stealers[lane]` belongs to the deque that the lane's own thread will hold.
    pub(crate) fn new(
        infos: Vec<LaneInfo>,
        stealers: Vec<Stealer>,
        settings: LaneSettings,
        clock: Clock,
        offer: Offer,
    ) -> Self {
        let domains: Vec<usize> = infos.iter().map(|info| info.plan.llc).collect();
        let sleepers = Sleepers::new(&domains);
        let may_block = infos.iter().filter(|info| info.plan.role != Role::Poll).count();
        let lane = |(info, stealer): (LaneInfo, Stealer)| Lane {
            info,
            doorbell: Doorbell::new(),
            slot: CachePadded::new(Slot::new()),
            stealer,
            has_tasks: CachePadded::new(AtomicBool::new(false)),
            blocked: AtomicBool::new(false),
            running: AtomicPtr::new(std::ptr::null_mut()),
            poller_names: Mutex::new((Arc::default(), Vec::new())),
            inbox: Inbox::new(),
            assigned: AtomicUsize::new(0),
            bell: OnceCell::new(),
            counters: LaneCounters::default(),
            times: Totals::new(),
            kinds: Kinds::new(),
            rest: CachePadded::new(Rest::default()),
            waits: OnceCell::new(),
        };
        Self {
            injectors: (0..sleepers.domains()).map(|_| CachePadded::new(Injector::new())).collect(),
            registry: Registry::new(infos.len()),
            exits: Exits::new(infos.len()),
            lanes: infos.into_iter().zip(stealers).map(lane).map(Arc::new).collect(),
            sleepers,
            phase: PhaseCell::new(),
            help_wanted: CachePadded::new(AtomicBool::new(false)),
            live_pollers: AtomicUsize::new(0),
            blocking: Blocking::new(may_block),
            settings,
            clock,
            offer,
            started: clock.now(),
            fork: fork::generation(),
        }
    }

    pub(crate) fn lanes(&self) -> &[Arc<Lane>] {
        &self.lanes
    }

    #[inline]
    pub(crate) fn lane(&self, lane: usize) -> &Lane {
        &self.lanes[lane]
    }

    pub(crate) fn injectors(&self) -> &[CachePadded<Injector>] {
        &self.injectors
    }

    pub(crate) fn registry_ref(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn since_start(&self, at: Ticks) -> Duration {
        self.clock.duration(at.since(self.started))
    }

    /// Whether a task from `from` (a lane, or outside) would be taken now.
    pub(crate) fn accepts(&self, from: Option<&LaneCx>) -> Result<(), RejectedBecause> {
        if self.is_forked() {
            return Err(RejectedBecause::Forked);
        }
        // The lanes finish what they have begun, and that may need more tasks.
        let open_until = if from.is_some() { Phase::Draining } else { Phase::Running };
        if self.phase.now() > open_until {
            return Err(RejectedBecause::Shutdown);
        }
        let backlog_max = self.settings.backlog_max;
        if backlog_max == usize::MAX {
            return Ok(()); // the queues' lengths cost a line each
        }
        let waiting = match from {
            Some(lane) => lane.queue.len(),
            None => self.injectors[self.home_domain()].len(),
        };
        if waiting >= backlog_max { Err(RejectedBecause::Full { backlog_max }) } else { Ok(()) }
    }

    /// Counts a poller that `lane` will adopt; see `poller_ended`.
    pub(crate) fn poller_begins(&self, lane: usize) {
        // Relaxed: whoever looks at the number for a decision rang, or was rung, after the adoption was pushed.
        self.live_pollers.fetch_add(1, Relaxed);
        self.lane(lane).assigned.fetch_add(1, Relaxed);
    }

    /// Whether this is a copy that fork(2) made: no lane runs in the child.
    pub(crate) fn is_forked(&self) -> bool {
        self.fork != fork::generation()
    }

    /// *Push* and *Notify*, from any thread.
    pub(crate) fn submit(&self, task: Runnable) {
        let outside = current::with_lane_of(self, |lane| match lane {
            Some(lane) => {
                lane.push(task);
                None
            }
            None => Some(task),
        });
        if let Some(task) = outside {
            self.inject(task);
        }
    }

    fn inject(&self, task: Runnable) {
        self.injectors[self.home_domain()].push(task);
        self.notify(None);
        // After PostFence in `notify`. Pairs with EndFence in `PhaseCell::advance`: either the thread that ends the runtime sees the
        // task when it empties the queues afterwards, or we see that it has begun, and empty them ourselves.
        if self.phase.now() == Phase::Ending {
            self.cancel_queued();
        }
    }

    /// The injector that a thread outside the lanes pushes to: always the same, different ones for different threads.
    fn home_domain(&self) -> usize {
        thread_local!(static HOME: u8 = const { 0 });
        match self.injectors.len() {
            1 => 0,
            // Thread locals of different threads are at least a page apart.
            domains => HOME.try_with(|home| std::ptr::from_ref(home).addr() >> 12).unwrap_or(0) % domains,
        }
    }

    /// Wakes one lane for a task that was pushed, if one has to be woken. `near`: the lane that pushed it.
    pub(crate) fn notify(&self, near: Option<usize>) {
        if self.wake_for_task(near) == Coming::Nobody {
            self.ask_help();
        }
    }

    /// *ChooseWake* by a lender that saw a task and was not called: whether it is left to it. A compute lane that searches, or that is woken here,
    /// comes for the task; for a poll lane, which may be needed at any moment, it is the last resort.
    pub(crate) fn nobody_comes(&self, lane: usize) -> bool {
        self.wake_for_task(Some(lane)) == Coming::Nobody
    }

    fn wake_for_task(&self, near: Option<usize>) -> Coming {
        match self.sleepers.notify(near) {
            Notify::SearcherFinds => Coming::Somebody,
            Notify::Sleeper(lane) | Notify::Lender(lane) => {
                self.ring(lane);
                Coming::Somebody
            }
            Notify::AllBusy => Coming::Nobody,
        }
    }

    /// Asks poll lanes that are awake and quiet to look at the queues.
    pub(crate) fn ask_help(&self) {
        // Relaxed: a hint for lanes that look at it every idle pass. Loaded first, to keep the line shared.
        if !self.help_wanted.load(Relaxed) {
            self.help_wanted.store(true, Relaxed);
        }
    }

    /// Whether somebody asked for help since the last call that answered `true`.
    #[inline]
    pub(crate) fn help_wanted(&self) -> bool {
        // Relaxed: a hint, see `notify`.
        self.help_wanted.load(Relaxed) && self.help_wanted.swap(false, Relaxed)
    }

    /// Makes a lane look at everything again, whatever it does.
    pub(crate) fn ring(&self, lane: usize) {
        let lane = self.lane(lane);
        lane.carry_out(lane.doorbell.ring(|| lane.doorbell.note_ring(self.clock.now().0)));
    }

    /// What users ring a lane by.
    pub(crate) fn doorbell(&self, lane: usize) -> poll::Doorbell {
        poll::Doorbell::new(lane, self.lanes[lane].clone())
    }

    pub(crate) fn ring_all(&self) {
        (0..self.lanes.len()).for_each(|lane| self.ring(lane));
    }

    /// Whether a task waits in any queue, as far as one look can tell.
    pub(crate) fn work_waits(&self) -> bool {
        self.injectors.iter().any(|injector| !injector.is_empty())
            || self.lanes.iter().any(|lane| !lane.slot.is_empty() || !lane.stealer.is_empty())
    }

    /// Takes every task out of every queue and cancels it. For the end.
    pub(crate) fn cancel_queued(&self) {
        for injector in &self.injectors {
            while let Some(task) = injector.steal_one() {
                self.cancel(task);
            }
        }
        for lane in &self.lanes {
            while let Some(task) = lane.slot.take().or_else(|| lane.stealer.steal_one()) {
                self.cancel(task);
            }
        }
    }

    /// Cancels a task that was queued when the runtime ended.
    pub(super) fn cancel(&self, task: Runnable) {
        let once = task.kind().once;
        // Panics of what is dropped are contained in the task; whoever joins it hears of the cancellation.
        let ran = task.cancel();
        // Futures are counted by the registry, whether they were queued or waited.
        if once && ran != Ran::Stale {
            self.exits.closure_cancelled();
        }
    }
}

impl Lane {
    /// Makes the system call that a ring has become, if it has.
    fn carry_out(&self, wake: Wake) {
        match wake {
            Wake::NotNeeded => return,
            Wake::Futex => {}
            // A lane announces a park in epoll only after it has made its bell.
            Wake::Eventfd => self.bell.get().into_iter().for_each(fds::ring),
        }
        self.counters.wakes.add(1);
    }

    /// What it does now, as far as another thread can tell.
    pub(crate) fn doing(&self) -> String {
        // Relaxed: a hint for people.
        let running = self.running.load(Relaxed);
        // SAFETY: the pointer was made from a `&'static Kind` in `run_task`, or it is null.
        if let Some(kind) = unsafe { running.as_ref() } {
            return format!("a task of type {}", (kind.type_name)());
        }
        let names = self.poller_names.lock();
        match names.1.get(names.0.load(Relaxed)) {
            Some(name) => format!("poller `{name}`"),
            None => "its own work".into(),
        }
    }
}

impl Schedule for Shared {
    fn schedule(&self, task: Runnable) {
        self.submit(task);
    }

    fn registry(&self) -> &Registry {
        &self.registry
    }
}

impl poll::Rung for Lane {
    fn ring(&self) {
        // Whoever holds a doorbell has no clock: this wake is not measured.
        self.carry_out(self.doorbell.ring(|| ()));
    }

    fn ring_if_parked(&self) {
        self.carry_out(self.doorbell.ring_if_parked());
    }
}

impl poll::Bell for Shared {
    fn doorbell(&self, lane: usize) -> poll::Doorbell {
        Shared::doorbell(self, lane)
    }

    fn may_block(&self, lane: usize, wait: &mut dyn FnMut()) -> bool {
        // A lane that blocks calls no pollers, so a task on it cannot wait for one of them.
        if current::with_lane_of(self, |here| here.is_some_and(|here| here.lane == lane)) {
            return false;
        }
        match super::blocking::permit() {
            Some(_permit) => {
                wait();
                true
            }
            None => false,
        }
    }

    fn is_forked(&self) -> bool {
        Shared::is_forked(self)
    }

    fn poller_ended(&self, lane: usize) {
        // Relaxed: a hint for the next assignment.
        self.lane(lane).assigned.fetch_sub(1, Relaxed);
        // Release: what the poller did is seen by the shutdown that sees it gone. Partner: the Acquire load in `shutdown`.
        self.live_pollers.fetch_sub(1, Release);
        self.exits.nudge();
    }
}
