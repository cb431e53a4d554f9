//! The turn of a lane with pollers: one pass, then whatever wait the controller allows.

use super::current::Doing;
use super::kinds;
use super::lend::{self, Offer};
use super::worker::{Woken, Worker};
use crate::arch;
use crate::poll::{AnyPoller, PollCx, Progress, Sweep, Swept};
use crate::task::{Runnable, memory};
use crate::wait::clock::Ticks;
use crate::wait::controller::{Observation, Parked, Step};
use crate::wait::ledger::Kind as Time;
use crate::wait::tail_guard::{Request, TailGuard};
use crate::wait::waiter::{Ended, How, Wakeup};

/// How long a task that was handed off is left to a sibling that is awake before somebody is woken for it: 1 us. Its lines take 0.2 to 0.4 us to
/// change cpus on virtual machines; a wake takes tens of microseconds, so it is not missed.
pub(super) const WAKE_PATIENCE_NS: u64 = 1_000;
/// After a task that was not short had to be put back, offers are left alone for so long: each costs the pollers a queue's line. 1 ms.
const LEND_PAUSE_NS: u64 = 1_000_000;
/// A doze that took more than this many times what it may, and more than [`PREEMPTED_NS`], was not the runtime's choice.
const PREEMPTED_TIMES: u64 = 4;
/// See [`PREEMPTED_TIMES`]: 20 us.
const PREEMPTED_NS: u64 = 20_000;
/// Of so many waits of one PAUSE, one is timed. A PAUSE that became another is found out after 32 such in a row, some 0.5 ms. A timed one takes half as long again, so they are
/// to be well below one in a hundred: else the 99th percentile of a lane's latency would be theirs.
const PAUSES_A_TIMED_ONE: u32 = 256;
/// A shared lane looks at other lanes' queues every so many turns: each look costs a line a lane.
const SHARED_STEAL_TURNS: u32 = 16;

/// Wakes of a park that the metric averages over.
const WAKES_AVERAGED: u64 = 8;
/// Of so many times that a lane lets others have its cpu, one is a sleep.
const ASIDE_YIELDS: u32 = 16;
/// 1 ns: as short as the kernel lets a thread sleep, which is its timer slack (50 us if nobody set it) and a wake.
const ASIDE_SLEEP: std::time::Duration = std::time::Duration::from_nanos(1);

/// What a wait in user mode is for the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// An event that comes during it is late.
    Doze,
    /// An event ends it.
    Watch,
}

impl Worker {
    /// One pass of a poll lane and the wait after it.
    pub(super) fn poll_turn(&mut self) {
        // Not by a call: it would cost a tenth of an empty pass.
        let swept = self.pass_on_time(|lane, sweep| lane.pass_with(sweep, |poller, cx| poller.poll(cx)));
        self.after_pass(&swept);
    }

    /// The same, with a look at the clock around each call; or the same of a lane that has tasks as well.
    #[cold]
    #[inline(never)]
    pub(super) fn timed_turn(&mut self, shared: bool) {
        self.timed_at = self.stamp;
        let swept = self.pass_on_time(Self::timed_pass);
        if shared { self.task_after(&swept) } else { self.after_pass(&swept) }
    }

    /// What a poll lane does after a pass.
    #[inline(always)] // Its other caller is cold.
    fn after_pass(&mut self, swept: &Swept) {
        // Somebody was awake before the pass.
        if (swept.dormant || swept.ended) && self.pollers.nobody_awake() {
            return;
        }
        if std::mem::take(&mut self.called) {
            self.answer_call(swept);
        } else if swept.events == 0 && self.stamp >= self.lend_from && !self.tail_open() && self.shared.help_wanted() {
            self.lend_awake();
        }
        if self.tail_open() && swept.events == 0 {
            self.tell_tail();
        }
        self.wait_after(swept);
    }

    /// Whether the sibling was asked to rest, and the matter is not over.
    #[inline]
    fn tail_open(&self) -> bool {
        self.tail.as_ref().is_some_and(TailGuard::is_open)
    }

    /// Tells the tail guard of a pass while the sibling was asked to rest.
    #[cold]
    fn tell_tail(&mut self) {
        let resting = self.beside.iter().any(|sibling| sibling.rest.is_resting());
        let (now, took) = (self.stamp, self.stamp.since(self.cx.pass_start.get()));
        let Some(tail) = &mut self.tail else { return };
        if tail.passed(now, took, resting) == (Request::Ended { stale: true }) {
            self.beside.iter().for_each(|sibling| sibling.rest.take_back());
        }
    }

    /// A wait was late, and nothing but the core can be the reason: asks the sibling to rest, if that is allowed.
    #[cold]
    fn ask_for_rest(&mut self) {
        let (now, pass) = (self.stamp, self.controller.pass());
        let Some(tail) = &mut self.tail else { return };
        // Relaxed: a hint. A sibling without tasks takes nothing from this lane.
        let busy = self.beside.iter().any(|sibling| sibling.has_tasks.load(std::sync::atomic::Ordering::Relaxed));
        if busy && tail.missed(now, pass) {
            self.beside.iter().for_each(|sibling| sibling.rest.ask());
            self.own().counters.rests_asked.add(1);
        }
    }

    /// One pass and one task of a lane that has both.
    pub(super) fn shared_turn(&mut self) {
        let swept = self.pass_on_time(Self::pass);
        self.task_after(&swept);
    }

    #[inline(always)] // Its other caller is cold.
    fn task_after(&mut self, swept: &Swept) {
        self.pay_wake();
        let mut task = self.next_task();
        let injected = || !self.shared.injectors()[self.shared.sleepers.domain(self.lane)].is_empty();
        if task.is_none() && (self.searching.is_some() || self.tick % SHARED_STEAL_TURNS == 0 || injected()) {
            task = self.steal();
            if task.is_some() && self.searching.is_none() {
                self.share_the_rest();
            }
        }
        self.leave_search();
        match task {
            Some(task) => {
                self.run_task(task, Time::Task);
                self.rest();
            }
            None if self.pollers.nobody_awake() => {}
            None => self.wait_after(swept),
        }
    }

    /// A pass, with the deadlines that are due before it and what the last wait has to learn from it after it.
    #[inline(always)] // So is what it calls, in the turn of a poll lane.
    fn pass_on_time(&mut self, pass: impl FnOnce(&mut Self, Sweep) -> Swept) -> Swept {
        if self.deadlines.next().is_some_and(|next| next <= self.stamp) {
            self.hear_deadlines();
        }
        let sweep = std::mem::replace(&mut self.sweep, Sweep::Peeking);
        let swept = pass(self, sweep);
        if self.woken.is_some() || self.parked.is_some() {
            self.learn(&swept);
        }
        swept
    }

    /// One sweep over the pollers, booked and counted. For what it hands off a wake is owed; see [`pay_wake`](Self::pay_wake).
    pub(super) fn pass(&mut self, sweep: Sweep) -> Swept {
        self.pass_with(sweep, |poller, cx| poller.poll(cx))
    }

    /// A pass in which each call is timed.
    #[cold]
    #[inline(never)]
    fn timed_pass(&mut self, sweep: Sweep) -> Swept {
        let clock = self.clock;
        self.pass_with(sweep, move |poller, cx| {
            let began = clock.now();
            let progress = poller.poll(cx);
            poller.took(clock.rate().ns_from_ticks(clock.now().since(began)));
            progress
        })
    }

    #[inline(always)]
    fn pass_with(
        &mut self,
        sweep: Sweep,
        call: impl Fn(&mut dyn AnyPoller, &mut PollCx<'_>) -> Progress + Copy,
    ) -> Swept {
        let now = self.stamp;
        self.cx.pass_start.set(now);
        self.cx.doing.set(Doing::Pass);
        let rate = self.clock.rate();
        let swept = {
            let mut cx = PollCx::new(&*self.cx, &self.me.info);
            let deadlines = &mut self.deadlines;
            self.pollers.sweep(
                &mut cx,
                now,
                sweep,
                call,
                |delay| rate.ticks_from(delay),
                |at, id| deadlines.add(at, id),
            )
        };
        self.cx.doing.set(Doing::Lane);
        if self.wake_owed.is_some_and(|since| now.since(since) > self.wake_patience) {
            self.pay_wake();
        }
        self.owe_wake();
        let took = self.book(if swept.events > 0 { Time::Busy } else { Time::Empty });
        self.unquiet &= swept.events == 0;
        let counters = &self.own().counters;
        counters.passes.add(1);
        if swept.events > 0 {
            counters.busy_passes.add(1);
            counters.events.add(swept.events.into());
        }
        if took > self.max_added {
            self.late_pass(took);
        }
        self.untimed = false;
        if swept.ended {
            self.count_panics(swept.panics);
            self.pollers_changed();
        }
        swept
    }

    /// A pass took longer than anything may make events wait.
    #[cold]
    fn late_pass(&mut self, took: u64) {
        let counters = &self.own().counters;
        if self.untimed && took > self.clock.ticks_from_ns(PREEMPTED_NS) {
            // The stretch begins with a PAUSE that was not timed: whichever of both the cpu was taken from, the pollers did not choose it.
            counters.misses_preempted.add(1);
        } else if self.pollers.len() > 1 {
            counters.misses_slow_poller.add(1);
        }
    }

    #[inline]
    fn wait_after(&mut self, swept: &Swept) {
        let relief_wanted = swept.events == 0 && self.relief_wanted();
        let step = self.controller.observe(&Observation {
            now: self.stamp,
            pass_ticks: self.stamp.since(self.cx.pass_start.get()),
            events: swept.events,
            housekeeping: swept.housekeeping,
            relief_wanted,
            next_deadline: self.deadlines.next(),
            can_park: self.pollers.consents(),
            can_watch: self.can_watch(),
        });
        match step {
            Step::Again => {
                if swept.events == 0 {
                    let counters = &self.own().counters;
                    if relief_wanted { &counters.over_budget } else { &counters.relief_withheld }.add(1);
                }
            }
            Step::Doze { ticks } => match self.waiter.one_pause(ticks) {
                Some(pause) => self.pause_once(ticks, pause),
                None => self.doze(ticks, Wait::Doze),
            },
            Step::Watch { ticks } => self.doze(ticks, Wait::Watch),
            Step::Yield => self.step_aside(),
            Step::Park { until } => self.park(until),
        }
    }

    /// Whether a store of an event ends a wait: there is one poller, and its word is all there is to look at.
    #[inline]
    fn can_watch(&self) -> bool {
        self.waiter.monitors() && self.false_wakes.watching() && !self.unquiet && self.pollers.lone_peek().is_some()
    }

    /// Lets others have this cpu. `sched_yield` does that where they are ready and as important as this lane; every so often, and at once where
    /// they are less important, the lane sleeps as short as the kernel lets it.
    #[cold]
    fn step_aside(&mut self) {
        self.flush_before_wait();
        self.aside = self.aside.wrapping_add(1);
        if self.place.realtime || self.aside % ASIDE_YIELDS == 0 {
            std::thread::sleep(ASIDE_SLEEP);
        } else {
            std::thread::yield_now();
        }
        let took = self.book(Time::Empty);
        let counters = &self.own().counters;
        counters.steps_aside.add(1);
        if took > self.max_added {
            counters.misses_aside.add(1);
        }
    }

    /// A doze of one PAUSE, which takes `pause` ticks. Two looks at the clock, and what is made of them, would take as long again, and events wait for that: so only
    /// one in [`PAUSES_A_TIMED_ONE`] is timed, and the others end when a PAUSE should. What one takes beyond that is the next pass's.
    fn pause_once(&mut self, ticks: u64, pause: u64) {
        self.pauses = self.pauses.wrapping_add(1);
        if self.pauses % PAUSES_A_TIMED_ONE == 0 {
            return self.doze(ticks, Wait::Doze);
        }
        self.flush_before_wait();
        let unquiet = self.pollers.lone_peek().is_some_and(|peek| !peek.is_quiet());
        if unquiet && !std::mem::replace(&mut self.unquiet, true) {
            return; // as in `doze`
        }
        if self.me.doorbell.epoch() != self.seen {
            self.woken = Some(Woken { rung: true, watched: false });
        } else {
            arch::pause();
            self.ledger.add(Time::Doze, pause);
            self.stamp = self.stamp.after(pause);
            self.untimed = true;
        }
        self.controller.paused(ticks);
        self.own().counters.dozes.add(1);
    }

    /// Waits in user mode. The doorbell ends it, or the word of the only poller.
    pub(super) fn doze(&mut self, ticks: u64, wait: Wait) {
        self.flush_before_wait();
        let doorbell = &self.me.doorbell;
        let bell = Wakeup::Doorbell(doorbell.watch(self.seen));
        let wakeup = match self.pollers.lone_peek() {
            Some(peek) if peek.is_quiet() => peek.watch().map_or(bell, Wakeup::Peek),
            // Something came since the pass. Or the poller does not care for what the word shows, if it looked like that in
            // the last pass too.
            Some(_) if !std::mem::replace(&mut self.unquiet, true) => return,
            _ => bell,
        };
        // Asked only where it makes a difference.
        let watched = self.waiter.monitors() || matches!(wakeup, Wakeup::Peek(_));
        let wakeup = Some(wakeup).filter(|_| !watched || self.false_wakes.may_watch());
        let dozed = self.waiter.doze(&self.clock, self.stamp, ticks, wakeup, || doorbell.epoch() != self.seen);
        let took = dozed.until.since(self.stamp);
        self.ledger.add(Time::Doze, took);
        self.stamp = dozed.until;
        let monitored = matches!(dozed.how, How::Monitored(..));
        // A look at the poller's word after a slice of PAUSEs showed something.
        let cut = dozed.how == How::Pauses && dozed.ended == Ended::Early;
        match wait {
            Wait::Watch if monitored => self.controller.watched(took),
            // The event came since the look before.
            _ if cut => self.controller.watched(took),
            Wait::Watch | Wait::Doze => self.controller.dozed(ticks, took),
        }
        let rung = dozed.ended == Ended::Interrupted;
        let early = cut || monitored && matches!(dozed.ended, Ended::Early | Ended::Interrupted);
        self.woken = (rung || early).then_some(Woken { rung, watched: early });
        // Until the pass finds something: a word that shows what its poller does not care for cuts no second doze short.
        self.unquiet |= cut;
        let counters = &self.own().counters;
        counters.dozes.add(1);
        if cut {
            counters.cut_dozes.add(1);
        }
        if monitored {
            counters.monitored_dozes.add(1);
        }
        if dozed.how != How::Pauses {
            counters.instruction_dozes.add(1);
        }
        if dozed.ended == Ended::OsLimit {
            counters.os_limited_dozes.add(1);
        }
        if took > self.max_added {
            let preempted = took > PREEMPTED_TIMES * ticks && took > self.clock.ticks_from_ns(PREEMPTED_NS);
            if preempted { &counters.misses_preempted } else { &counters.misses_doze }.add(1);
            if !preempted && self.tail.is_some() {
                self.ask_for_rest();
            }
        }
    }

    /// Lets pollers flush what is worth batching only while busy.
    pub(super) fn flush_before_wait(&mut self) {
        let panics = self.cx.while_doing(Doing::Pass, || self.pollers.before_wait());
        if panics > 0 {
            self.count_panics(panics);
            self.pollers_changed();
        }
        self.owe_wake();
        self.pay_wake();
    }

    /// Notes that something was handed off, if it was.
    #[inline]
    pub(super) fn owe_wake(&mut self) {
        if self.cx.wake_after_pass.take() {
            self.wake_owed.get_or_insert(self.stamp);
            memory::prepare();
        }
    }

    /// *ChooseWake* for what earlier passes handed off and nobody has taken. A sibling that is awake takes it within [`WAKE_PATIENCE_NS`]; then
    /// nobody has to be woken, and the sleepers' word stays with the sibling, who is about to write it.
    pub(super) fn pay_wake(&mut self) {
        if self.wake_owed.take().is_some() && !(self.me.slot.is_empty() && self.cx.queue.is_empty()) {
            self.shared.notify(Some(self.lane));
        }
    }

    #[cold]
    pub(super) fn hear_deadlines(&mut self) {
        let now = self.stamp;
        while let Some(id) = self.deadlines.pop_due(now) {
            let deadlines = &mut self.deadlines;
            self.pollers.due(id, now, |at, id| deadlines.add(at, id));
        }
    }

    /// What the pass after a wait says about that wait.
    #[cold]
    fn learn(&mut self, swept: &Swept) {
        if let Some(woken) = self.woken.take() {
            let for_nothing = swept.events == 0 && !swept.housekeeping && !swept.ended;
            let verdict = woken.watched && self.false_wakes.ended_early(for_nothing);
            let counters = &self.own().counters;
            if woken.rung && for_nothing {
                counters.doze_false_wakes.add(1);
            }
            if verdict {
                counters.monitor_verdicts.add(1);
            }
        }
        if let Some(parked) = self.parked.take() {
            let fruitful = swept.events > 0 || parked.rung;
            if parked.slept > 0 && !fruitful {
                self.own().counters.fruitless_parks.add(1);
            }
            if let Some(wake) = parked.wake {
                let average = &self.own().counters.wake;
                average.set(match average.read() {
                    0 => wake,
                    known => known - known / WAKES_AVERAGED + wake / WAKES_AVERAGED,
                });
            }
            let (slept, wake_ticks) = (parked.slept, parked.wake);
            self.controller.parked(&Parked { now: self.stamp, slept, wake_ticks, fruitful });
        }
    }

    /// Every poller agreed to wait for whatever task comes while nothing comes for them: runs one if that is so, else passes the call on.
    #[cold]
    fn answer_call(&mut self, swept: &Swept) {
        if swept.events > 0 {
            return self.shared.notify(Some(self.lane));
        }
        if let Some(task) = self.any_task() {
            self.share_the_rest();
            self.lend(task);
        }
    }

    /// A task waits and every compute lane is at work: runs it if its kind is known to be short.
    #[cold]
    fn lend_awake(&mut self) {
        let Some(task) = self.any_task() else { return };
        if self.permits(&task) {
            self.share_the_rest();
            self.lend(task);
        } else {
            // To the end of the queue: those behind it may be short.
            self.cx.queue.push(task);
            self.lend_from = self.stamp.after(self.clock.ticks_from_ns(LEND_PAUSE_NS));
            self.share_the_rest();
        }
    }

    /// Any task that waits, first those of others: what is left of a batch of them comes into this lane's own queue, where its turn is later.
    pub(super) fn any_task(&mut self) -> Option<Runnable> {
        self.steal().or_else(|| self.next_task())
    }

    /// *Notify*, after this lane took tasks from a queue without being counted as searching: while they were in its hands no queue showed them,
    /// and a compute lane may have gone to sleep beside them.
    pub(super) fn share_the_rest(&self) {
        if self.shared.work_waits() {
            self.shared.notify(Some(self.lane));
        }
    }

    /// Whether this lane may run `task` now, with its pollers awake.
    fn permits(&self, task: &Runnable) -> bool {
        let tables = self.shared.lanes().iter().map(|lane| &lane.kinds);
        let since_pass = self.stamp.since(self.cx.pass_start.get());
        lend::permitted(Offer {
            kind_p99: kinds::p99(task.kind(), tables),
            bound_left: self.max_added.saturating_sub(since_pass),
        })
    }

    /// Runs one task on a lane with pollers.
    pub(super) fn lend(&mut self, task: Runnable) {
        self.pay_wake();
        let took = self.run_task(task, Time::Lent);
        self.rest();
        let counters = &self.own().counters;
        counters.lent_tasks.add(1);
        if took > self.max_added {
            counters.misses_lent.add(1);
        }
    }

    /// The instant `ticks` from the last look at the clock.
    pub(super) fn in_ticks(&self, ticks: u64) -> Ticks {
        self.stamp.after(ticks)
    }
}
