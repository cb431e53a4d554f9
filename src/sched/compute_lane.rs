//! The turn of a lane without pollers: one task, or the search for one.
//!
//! Order of looking: the sibling's hand-off and the lane's own deque in turn, the injector and the sibling's deque every [`FAIRNESS_TICKS`] tasks; when these are
//! empty, as a searcher: the sibling's deque, the injector of the own cache domain, other lanes by distance, other injectors. Then the lane
//! lingers, if hand-offs come fast, and sleeps.

use std::sync::atomic::Ordering::*;

use super::current::Doing;
use super::sleepers::Searching;
use super::worker::Worker;
use crate::task::{Ran, Runnable};
use crate::wait::clock::Spin;
use crate::wait::ledger::Kind as Time;
use crate::wait::tail_guard::REST_NS;

/// Tasks between two looks at the injector and the siblings' deques while the own deque has work: what waits there waits for at most so many
/// tasks. Odd, so that the looks take turns.
const FAIRNESS_TICKS: u32 = 61;
/// Looks at the near queues between two looks at the clock, and at the far queues, while lingering.
const LINGER_LOOKS: u32 = 16;

impl Worker {
    pub(super) fn compute_turn(&mut self) {
        if self.me.rest.take() {
            self.rest_for_sibling();
        }
        if let Some(task) = self.next_task() {
            self.leave_search();
            self.run_task(task, Time::Task);
            return;
        }
        // *StartSearch*, unless whoever woke us has counted us already.
        let searching = self.searching.take().or_else(|| self.shared.sleepers.search(self.lane));
        if let Some(task) = self.steal() {
            return self.found(searching, task);
        }
        self.rest();
        self.out_of_tasks.get_or_insert(self.stamp);
        let searching = match searching {
            Some(searching) => match self.linger(searching) {
                Ok((searching, task)) => return self.found(Some(searching), task),
                Err(searching) => Some(searching),
            },
            None => None,
        };
        self.searching = searching;
        self.park(None);
    }

    /// Leaves the core to the poll lane for a moment; its tail guard bounds how often. A ring ends it.
    #[cold]
    fn rest_for_sibling(&mut self) {
        let lane = &self.me;
        lane.rest.begin();
        let began = self.clock.now();
        let ticks = self.clock.ticks_from_ns(REST_NS);
        // The time since the last look was the task's.
        self.ledger.add(Time::Empty, began.since(self.stamp));
        let rested = self.waiter.rest(&self.clock, began, ticks, || lane.doorbell.epoch() != self.seen);
        lane.rest.end();
        lane.counters.rests.add(1);
        self.ledger.add(Time::Doze, rested.since(began));
        self.stamp = rested;
    }

    /// *EndSearch* with work in hand: the next is woken before the work begins, if there is more.
    fn found(&mut self, searching: Option<Searching>, task: Runnable) {
        if searching.is_some() {
            self.searching = searching;
            self.leave_search();
        } else {
            self.share_the_rest();
        }
        self.run_task(task, Time::Task);
    }

    /// The next task from where this lane looks without searching.
    pub(super) fn next_task(&mut self) -> Option<Runnable> {
        self.tick = self.tick.wrapping_add(1);
        if self.tick % FAIRNESS_TICKS == 0 {
            if let Some(task) = self.look_around() {
                return Some(task);
            }
        }
        // In turn, so that neither a stream of hand-offs nor tasks that spawn tasks starve the others.
        if self.tick % 2 == 0 {
            self.hand_off().or_else(|| self.cx.queue.pop())
        } else {
            self.cx.queue.pop().or_else(|| self.hand_off())
        }
    }

    /// What waits elsewhere nearby while the own deque has work: injector and siblings' deques, in turn. One task and no batch: it is run at once,
    /// so nothing is on its way past those who look.
    fn look_around(&mut self) -> Option<Runnable> {
        let shared = &*self.shared;
        let injected = || shared.injectors()[shared.sleepers.domain(self.lane)].steal_one();
        let handed_off = || self.beside.iter().find_map(|sibling| sibling.stealer.steal_one());
        if self.tick % 2 == 0 { injected().or_else(handed_off) } else { handed_off().or_else(injected) }
    }

    /// What the sibling, or this lane itself when it last ran a pass, left in a slot.
    fn hand_off(&self) -> Option<Runnable> {
        self.beside.iter().find_map(|sibling| sibling.slot.take()).or_else(|| self.me.slot.take())
    }

    /// Looks everywhere, nearest first.
    pub(super) fn steal(&mut self) -> Option<Runnable> {
        let shared = &*self.shared;
        let near = self.siblings.len();
        let from = |&victim: &usize| {
            let victim = shared.lane(victim);
            victim.slot.take().or_else(|| victim.stealer.steal_into(&self.cx.queue))
        };
        let stolen = self.victims[..near].iter().find_map(from);
        let home = shared.sleepers.domain(self.lane);
        let injected = |domain: usize| shared.injectors()[domain].steal_into(&self.cx.queue);
        let task = stolen
            .or_else(|| injected(home))
            .or_else(|| self.victims[near..].iter().find_map(from))
            .or_else(|| (0..shared.injectors().len()).filter(|&domain| domain != home).find_map(injected));
        if let Some(task) = &task {
            // Its lines come from another cpu while this one does its bookkeeping.
            task.prefetch();
            self.own().counters.steals.add(1);
        }
        task
    }

    /// Stays awake for a while, as a searcher, if work came fast lately. The waits between looks are the sibling's.
    fn linger(&mut self, searching: Searching) -> Result<(Searching, Runnable), Searching> {
        let allowance = self.linger.allowance();
        if allowance == 0 {
            return Err(searching);
        }
        self.own().counters.lingers.add(1);
        let end = self.in_ticks(allowance);
        loop {
            for _ in 0..LINGER_LOOKS {
                self.clock.pause();
                if self.near_work() {
                    if let Some(task) = self.steal() {
                        self.book(Time::Doze);
                        return Ok((searching, task));
                    }
                }
            }
            self.book(Time::Doze);
            if let Some(task) = self.steal() {
                return Ok((searching, task));
            }
            // A ring is for this lane in person: adoptions, or the end.
            if self.stamp >= end || self.own().doorbell.epoch() != self.seen {
                return Err(searching);
            }
        }
    }

    /// Whether the sibling handed something off, or something waits in the injector of this cache domain.
    fn near_work(&self) -> bool {
        self.beside.iter().any(|sibling| !sibling.slot.is_empty() || !sibling.stealer.is_empty())
            || !self.shared.injectors()[self.shared.sleepers.domain(self.lane)].is_empty()
    }

    /// Runs one task and books its time. Returns how long it took, in ticks.
    pub(super) fn run_task(&mut self, task: Runnable, time: Time) -> u64 {
        let kind = task.kind();
        if let Some(since) = self.out_of_tasks.take() {
            self.linger.work_came(self.stamp.since(since));
        }
        self.cx.doing.set(Doing::Task);
        let lane = &self.me;
        let ran = task.run_telling(|| {
            // Relaxed: a hint for the sibling's controller and for reports. Loaded first, to leave the line with its readers.
            if !lane.has_tasks.load(Relaxed) {
                lane.has_tasks.store(true, Relaxed);
            }
            lane.running.store(std::ptr::from_ref(kind).cast_mut(), Relaxed);
        });
        self.cx.doing.set(Doing::Lane);
        let took = self.book(time);
        let lane = self.own();
        lane.counters.tasks.add(1);
        match ran {
            Ran::Finished | Ran::Pending => lane.kinds.record(kind, took),
            Ran::Panicked => lane.counters.panics.add(1),
            // Not run at all: claimed elsewhere, or aborted before.
            Ran::Stale | Ran::Cancelled => {}
        }
        took
    }

    /// Says that this lane has nothing to run.
    pub(super) fn rest(&self) {
        let lane = self.own();
        // Relaxed: hints, see `run_task`.
        if lane.has_tasks.load(Relaxed) {
            lane.has_tasks.store(false, Relaxed);
            lane.running.store(std::ptr::null_mut(), Relaxed);
        }
    }
}
