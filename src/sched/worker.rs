//! The thread of a lane: what it owns, which of its roles it plays now, and what it does when its doorbell rang.
//!
//! The roles' turns are in files of their own: `poll_lane` (a pass, then a wait), `compute_lane` (a task, or the search for one), and
//! `park` (the one way to block). A turn ends soon, so that the loop here sees rings, adoptions and the end of the runtime.

use std::rc::Rc;
use std::sync::Arc;

use super::current::{self, Doing, Entered, LaneCx};
use super::deque::Own;
use super::doorbell::Epoch;
use super::inbox::DRAIN_MAX;
use super::linger::{Linger, WAKE_COST_NS};
use super::phase::Phase;
use super::poll_lane::WAKE_PATIENCE_NS;
use super::shared::{Lane, Shared};
use super::sleepers::{Left, Searching};
use super::steal;
use super::timers::Deadlines;
use crate::metrics::Guard;
use crate::placement::{LanePlan, Role, Sharing};
use crate::poll::{Bounds, PollerId, PollerSet, Sweep, Unbuilt};
use crate::task::{Contained, contain};
use crate::topology::thread;
use crate::wait::clock::{Clock, Ticks, thread_cpu_ns};
use crate::wait::controller::{Controller, Guards};
use crate::wait::false_wakes::FalseWakes;
use crate::wait::ledger::{Kind as Time, Ledger, WINDOW_NS};
use crate::wait::surroundings::{Crowd, Place};
use crate::wait::tail_guard::TailGuard;
use crate::wait::waiter::{Limits, Waiter};
use crate::wait::{pause, selftest};

/// Everything that only the lane's own thread touches.
pub(crate) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: usize,
    /// What others see of this lane.
    pub(super) me: Arc<Lane>,
    /// The part of it that code below the loop can reach.
    pub(super) cx: Rc<LaneCx>,
    entered: Entered,
    pub(super) pollers: PollerSet,
    pub(super) deadlines: Deadlines<PollerId>,
    pub(super) controller: Controller,
    pub(super) waiter: Waiter,
    pub(super) ledger: Ledger,
    pub(super) linger: Linger,
    /// Whom to steal from, nearest first.
    pub(super) victims: Box<[usize]>,
    /// The other lanes of the pair: relief is for them.
    pub(super) siblings: Box<[usize]>,
    /// What others see of those: looked at after every pass, and all the time while there is no task.
    pub(super) beside: Box<[Arc<Lane>]>,
    pub(super) clock: Clock,
    /// The last look at the clock: where the stretch of time that is not booked yet began.
    pub(super) stamp: Ticks,
    /// When calls were timed last.
    pub(super) timed_at: Ticks,
    /// The doorbell's epoch up to which everything was looked at.
    pub(super) seen: Epoch,
    /// Set while the lane is counted as searching.
    pub(super) searching: Option<Searching>,
    /// When the lane ran out of tasks.
    pub(super) out_of_tasks: Option<Ticks>,
    /// Tasks run, for fairness among the queues.
    pub(super) tick: u32,
    /// What the next pass calls: everybody after a ring or a park.
    pub(super) sweep: Sweep,
    /// Adoptions were left for after the next pass.
    pub(super) inbox_left: bool,
    /// What ended the last doze early; the next pass tells whether for something.
    pub(super) woken: Option<Woken>,
    /// Where the sibling is known to share the core: when it should rest.
    pub(super) tail: Option<TailGuard>,
    /// Whether monitors end dozes for something.
    pub(super) false_wakes: FalseWakes,
    /// What about this lane's place makes spinning useless, whatever the crowd.
    pub(super) place: Guards,
    crowd: Crowd,
    /// Times in a row that the lane let others have the cpu.
    pub(super) aside: u32,
    /// The cpu that PAUSE was measured on, where the lane may be moved; and when that was.
    measured_on: usize,
    measured_at: Ticks,
    /// Since when there are tasks that a pass handed off and for which nobody was woken.
    pub(super) wake_owed: Option<Ticks>,
    /// How long that may last while the lane is awake, in ticks.
    pub(super) wake_patience: u64,
    /// The peek of the only poller showed something before the last doze, and no event was found since.
    pub(super) unquiet: bool,
    /// How long the last park lasted, until the pass after it tells what it was good for.
    pub(super) parked: Option<ParkedFor>,
    /// As a parked lender it was called for a task, or saw one: the pass after the park decides.
    pub(super) called: bool,
    /// No lending before then: the last task on offer was not short.
    pub(super) lend_from: Ticks,
    /// Waits of one PAUSE so far.
    pub(super) pauses: u32,
    /// The last of them ended when it should have, for all anybody knows: the stretch that is not booked yet began with it.
    pub(super) untimed: bool,
    /// `max_added` in ticks.
    pub(super) max_added: u64,
}

/// A park that the controller has not heard of.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParkedFor {
    pub slept: u64,
    pub rung: bool,
    /// From the ring, or the deadline, to running again, where that is known.
    pub wake: Option<u64>,
}

/// What ended a doze early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Woken {
    /// The doorbell.
    pub rung: bool,
    /// A monitor, for whatever reason, or a look at the word of the only poller.
    pub watched: bool,
}

/// PAUSE is measured anew at most once in so long: 100 ms. A measurement takes 5 to 50 us, of which pollers have nothing.
const RECALIBRATE_NS: u64 = 100_000_000;

/// What a lane does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Playing {
    /// It has pollers, and another lane for the tasks.
    Poll,
    /// It has no pollers, or dormant ones only.
    Compute,
    /// It has pollers and tasks.
    Shared,
}

impl Worker {
    /// Becomes the lane: call on its thread, pinned and with signals blocked. Calibrates the wait instructions on the cpu it is on.
    pub(crate) fn new(shared: Arc<Shared>, lane: usize, queue: Own) -> Self {
        let clock = shared.clock;
        let cx = Rc::new(LaneCx::new(Arc::clone(&shared), lane, queue));
        let entered = current::enter(Rc::clone(&cx));
        let plans: Vec<LanePlan> = shared.lanes().iter().map(|lane| lane.info.plan.clone()).collect();
        let victims: Box<[usize]> = steal::victims(lane, &plans).into();
        let siblings: Box<[usize]> =
            victims.iter().copied().filter(|&other| plans[other].pair == plans[lane].pair).collect();
        let beside = siblings.iter().map(|&sibling| Arc::clone(&shared.lanes()[sibling])).collect();
        let settings = &shared.settings;
        let ticks = |duration| clock.rate().ticks_from(duration);
        let pause = pause::calibrate(&clock);
        let (means, report) = selftest::run(&clock, clock.rate(), &shared.offer);
        let waiter = {
            let (doze_max, unheard_max) = (ticks(settings.wait.max_added), ticks(settings.wait.inbox_max));
            Waiter::new(pause, Limits { doze_max, unheard_max }, means)
        };
        let exit = report.overshoot;
        // The lane starts once, so nothing is there yet.
        let _ = shared.lane(lane).waits.set(report);
        let mut controller = Controller::new(&settings.wait, clock.rate(), pause);
        if means.monitors {
            controller.exit_takes(ticks(exit));
        }
        let here = |plan: &&LanePlan| plan.cpu.is_some() && plan.cpu == plans[lane].cpu;
        let place = Place {
            quota: settings.quota,
            cpus: settings.cpus,
            lanes: plans.len(),
            lanes_here: plans.iter().filter(here).count(),
            realtime: thread::is_realtime(),
        }
        .guards();
        controller.guard(place);
        let counters = &shared.lane(lane).counters;
        counters.guards.set(Guard::bits(place));
        counters.mean_bound.set(ticks(settings.wait.mean_added));
        counters.max_bound.set(ticks(settings.wait.max_added));
        let info = &shared.lane(lane).info;
        let tail = info.sharing == Sharing::Seen && info.plan.role == Role::Poll;
        Self {
            lane,
            me: Arc::clone(&shared.lanes()[lane]),
            entered,
            pollers: PollerSet::new(ticks(settings.peek_refresh)),
            deadlines: Deadlines::new(),
            controller,
            waiter,
            ledger: Ledger::new(clock.now(), clock.ticks_from_ns(thread_cpu_ns()), clock.ticks_from_ns(WINDOW_NS)),
            linger: Linger::new(clock.ticks_from_ns(WAKE_COST_NS), ticks(settings.linger_max)),
            victims,
            siblings,
            beside,
            clock,
            stamp: clock.now(),
            timed_at: Ticks::default(),
            seen: shared.lane(lane).doorbell.epoch(),
            searching: None,
            out_of_tasks: None,
            tick: 0,
            sweep: Sweep::Full,
            inbox_left: true, // whatever came before the first look at the epoch
            woken: None,
            tail: tail.then(|| TailGuard::new(clock.rate())),
            false_wakes: FalseWakes::default(),
            place,
            crowd: Crowd::default(),
            aside: 0,
            measured_on: rustix::thread::sched_getcpu(),
            measured_at: clock.now(),
            wake_owed: None,
            wake_patience: clock.ticks_from_ns(WAKE_PATIENCE_NS),
            unquiet: false,
            parked: None,
            called: false,
            lend_from: Ticks::default(),
            pauses: 0,
            untimed: false,
            max_added: ticks(settings.wait.max_added),
            cx,
            shared,
        }
    }

    /// The life of the lane.
    pub(crate) fn run(mut self) {
        let start = self.shared.settings.on_lane_start.clone();
        self.hook(start);
        while self.attend() {
            match self.playing() {
                Playing::Poll => self.poll_turn(),
                Playing::Compute => self.compute_turn(),
                Playing::Shared => self.shared_turn(),
            }
            if self.ledger.due(self.stamp) {
                self.window_over();
            }
        }
        self.end();
    }

    #[inline]
    fn playing(&self) -> Playing {
        if self.pollers.nobody_awake() {
            Playing::Compute
        } else if self.own().info.plan.role == Role::Poll {
            Playing::Poll
        } else {
            Playing::Shared
        }
    }

    #[inline]
    pub(super) fn own(&self) -> &Lane {
        &self.me
    }

    /// Looks at what rang, if something did. `false`: the runtime ends.
    #[inline]
    fn attend(&mut self) -> bool {
        let epoch = self.own().doorbell.epoch();
        if epoch == self.seen && !self.inbox_left { true } else { self.heed(epoch) }
    }

    #[cold]
    fn heed(&mut self, epoch: Epoch) -> bool {
        self.seen = epoch;
        self.sweep = Sweep::Full;
        let phase = self.shared.phase.now();
        if phase == Phase::Ending {
            return false;
        }
        if !self.own().inbox.is_empty() {
            // Building a poller is user code and may take long. Nobody is woken for a task while somebody is counted as searching.
            self.leave_search();
        }
        let mut adopted = false;
        for _ in 0..DRAIN_MAX {
            let Some(adoption) = self.me.inbox.pop() else { break };
            adopted = true;
            let lane = &self.me;
            // For the report of a shutdown that finds the lane in there.
            *lane.poller_names.lock() = (Arc::default(), vec![adoption.name().into()]);
            if self.pollers.is_empty() {
                self.controller.begin();
            }
            let panicked = self.cx.while_doing(Doing::Pass, || match adoption.build(&lane.info) {
                Ok(poller) => self.pollers.adopt(poller, &lane.bell),
                Err(unbuilt) => unbuilt == Unbuilt::Panicked,
            });
            self.count_panics(u32::from(panicked));
        }
        self.inbox_left = !self.own().inbox.is_empty();
        self.pollers.hear_stops(phase >= Phase::Draining);
        let roused = self.pollers.rouse();
        if roused {
            // Called here, and not by the turn of a poll lane, for which a compute lane would have to end its search: mostly the ring was not for them.
            let _ = self.pass(Sweep::Full);
        }
        if adopted || roused {
            // Not for a mere ring: there may be as many of them as events.
            self.pollers_changed();
        }
        true
    }

    /// Tells everybody whom it concerns which pollers there are now.
    pub(super) fn pollers_changed(&mut self) {
        self.cx.has_pollers.set(!self.pollers.is_empty());
        let lane = self.own();
        lane.counters.pollers.set(self.pollers.len() as u64);
        let (wait, rate) = (&self.shared.settings.wait, self.clock.rate());
        let bounds = self.pollers.bounds(Bounds::of_runtime(wait));
        let (mean, max) = (rate.ticks_from(bounds.mean_added()), rate.ticks_from(bounds.max_added()));
        lane.counters.mean_bound.set(mean);
        lane.counters.max_bound.set(max);
        let unheard_max = rate.ticks_from(wait.inbox_max).min(max);
        self.max_added = max;
        self.controller.rebound(mean, max);
        self.waiter.limit(Limits { doze_max: max, unheard_max });
        self.tell_exit();
        let lane = self.own();
        *lane.poller_names.lock() = (self.pollers.at(), self.pollers.names().map(Into::into).collect());
        if self.playing() == Playing::Poll {
            // Poll lanes are in neither count.
            self.leave_search();
            self.rest();
        }
        // What was handed off while pollers came and went: there may be no pass after this one that would tell.
        self.owe_wake();
        self.pay_wake();
    }

    /// *EndSearch*: gives up being counted as searching, and looks once more if that left nobody.
    pub(super) fn leave_search(&mut self) {
        let Some(searching) = self.searching.take() else { return };
        if self.shared.sleepers.found(self.lane, searching) == Left::Last && self.shared.work_waits() {
            self.shared.notify(Some(self.lane));
        }
    }

    /// Whether relief would be somebody's gain: a sibling that may share the core has tasks.
    #[inline]
    pub(super) fn relief_wanted(&self) -> bool {
        let may_share = self.own().info.sharing != Sharing::Denied;
        // Relaxed: a hint; the sibling may have begun or ended a moment ago.
        let busy = || {
            use std::sync::atomic::Ordering::Relaxed;
            self.beside.iter().any(|sibling| sibling.has_tasks.load(Relaxed))
        };
        self.shared.settings.wait.relief.wanted(may_share, busy)
    }

    /// Looks at the clock and books the stretch since the last look. Returns its length.
    #[inline]
    pub(super) fn book(&mut self, time: Time) -> u64 {
        let now = self.clock.now();
        let took = now.since(self.stamp);
        self.ledger.add(time, took);
        self.stamp = now;
        took
    }

    pub(super) fn cpu_ticks(&self) -> u64 {
        self.clock.ticks_from_ns(thread_cpu_ns())
    }

    /// A window of the ledger is over, or a park: settles it, and has the calls of the next pass timed.
    #[cold]
    fn window_over(&mut self) {
        // After a park nothing comes before the pollers, least of all a system call.
        if self.parked.is_none() {
            self.settle();
        }
        match self.playing() {
            Playing::Poll => self.timed_turn(false),
            Playing::Shared => self.timed_turn(true),
            Playing::Compute => {}
        }
    }

    #[cold]
    fn settle(&mut self) {
        let cpu = self.cpu_ticks();
        self.ledger.settle(self.stamp, cpu, &self.me.times);
        self.report_budget();
        self.survey();
    }

    /// Publishes what the controller knows of its budget.
    fn report_budget(&self) {
        let counters = &self.me.counters;
        counters.charged.set(self.controller.charged());
        counters.balance.set(self.controller.balance() as u64);
    }

    /// Now and then: whether others want this cpu, and whether what was measured when the lane started still holds.
    fn survey(&mut self) {
        if self.pollers.is_empty() {
            return;
        }
        let now_ns = self.clock.rate().ns_from_ticks(self.stamp.0);
        if self.crowd.due(now_ns) {
            let crowded = self.crowd.look(now_ns, thread::involuntary_switches());
            let guards = Guards { crowded, ..self.place };
            self.controller.guard(guards);
            self.me.counters.guards.set(Guard::bits(guards));
        }
        let moved = !self.me.info.pinned && rustix::thread::sched_getcpu() != self.measured_on;
        let due = self.stamp.since(self.measured_at) >= self.clock.ticks_from_ns(RECALIBRATE_NS)
            || self.stamp < self.measured_at;
        if due && (moved || self.controller.suspicion().is_some()) {
            self.recalibrate();
        }
    }

    /// Without a monitor, a watched word is looked at every slice of PAUSEs. (What leaving a monitored wait takes was measured at the start.)
    fn tell_exit(&mut self) {
        if !self.waiter.monitors() {
            self.controller.exit_takes(self.waiter.look_every());
        }
    }

    /// Measures PAUSE anew. The time is booked as work of the lane's own.
    #[cold]
    fn recalibrate(&mut self) {
        let pause = pause::calibrate(&self.clock);
        self.controller.recalibrated(pause);
        self.waiter.recalibrated(pause);
        self.tell_exit();
        self.me.counters.recalibrations.add(1);
        self.measured_on = rustix::thread::sched_getcpu();
        self.book(Time::Empty);
        self.measured_at = self.stamp;
    }

    pub(super) fn count_panics(&self, panics: u32) {
        if panics > 0 {
            self.own().counters.panics.add(panics.into());
        }
    }

    fn hook(&mut self, hook: Option<super::settings::LaneHook>) {
        let Some(hook) = hook else { return };
        let info = &self.me.info;
        let called = self.cx.while_doing(Doing::Hook, || contain(|| hook(info)));
        self.count_panics(u32::from(called == Contained::Panicked));
    }

    /// Cancels until nothing is queued: dropping a task may wake another one, which comes to this lane's own deque, and after this
    /// nobody looks there.
    fn cancel_queued(&self) {
        loop {
            self.shared.cancel_queued();
            let Some(task) = self.cx.queue.pop() else { break };
            self.shared.cancel(task);
        }
    }

    /// Drops what is left, on this thread, and says so.
    fn end(mut self) {
        let lane = self.lane;
        let waiting = self.own().inbox.close();
        let left = self.pollers.names().chain(waiting.iter().map(|adoption| adoption.name()));
        self.shared.exits.pollers_dropped(left.map(Into::into).collect());
        let dropped = waiting.into_iter().map(|adoption| u32::from(contain(|| drop(adoption)) == Contained::Panicked));
        let panics = self.cx.while_doing(Doing::Pass, || dropped.sum());
        self.count_panics(panics);
        let panics = self.cx.while_doing(Doing::Pass, || self.pollers.drop_all());
        self.count_panics(panics);
        let stop = self.shared.settings.on_lane_stop.clone();
        self.hook(stop);
        self.pollers_changed();
        self.cancel_queued();
        self.settle();
        let Self { shared, entered, cx, .. } = self;
        drop(entered);
        drop(cx);
        shared.exits.ended(lane);
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("lane", &self.lane).field("pollers", &self.pollers).finish_non_exhaustive()
    }
}
