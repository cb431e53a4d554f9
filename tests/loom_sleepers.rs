//! Searchers, sleepers and lenders under loom: no task waits while a lane that would run it sleeps.
//!
//! The words and the doorbells are the real ones; the lanes here take the steps of `compute_lane.rs`, `poll_lane.rs` and `park.rs`, in their order and
//! under their names. Queues are cells with the weakest orderings that crossbeam-deque promises, and a batch is in no queue on its way, as there.
//!
//! The claim is put to the test by tasks that meet: each waits until all have started, so all lanes are needed at once, and a lane that sleeps beside a
//! task is a deadlock, which loom reports. Only when all have met are the lanes rung to end.
//!
//! Run with `.ci/loom`. Each model says its bound, how long it takes on two shared cpus, and the mutations that were tried and seen to break it.
#![cfg(twolane_loom)]

use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use twolane::model::sched::{Doorbell, ParkIn, Phase, Searching, Sleepers};

/// Two tasks are enough: one for a lane that is awake, one that needs another.
const TASKS: usize = 2;

/// A bit for each task, with orderings as weak as crossbeam-deque's.
struct Queue(AtomicUsize);

impl Queue {
    fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    fn push(&self, task: usize) {
        // Release: partner is the Acquire in `take`.
        self.0.fetch_or(1 << task, Release);
    }

    /// The first task; with `rest` the others go there, and on their way they are nowhere.
    fn take(&self, rest: Option<&Queue>) -> Option<usize> {
        let seen = self.0.load(Relaxed);
        if seen == 0 {
            return None;
        }
        let mine = if rest.is_some() { seen } else { seen & seen.wrapping_neg() };
        let mine = self.0.fetch_and(!mine, Acquire) & mine;
        let first = (mine != 0).then(|| mine.trailing_zeros() as usize)?;
        for task in first + 1..TASKS {
            if mine & 1 << task != 0 {
                rest.expect("only one was asked for").push(task);
            }
        }
        Some(first)
    }

    fn is_empty(&self) -> bool {
        self.0.load(Relaxed) == 0
    }
}

struct Pool {
    sleepers: Sleepers,
    bells: [Doorbell; 2],
    /// Without batches there is never anything in a deque, and nobody looks.
    deques: Vec<Queue>,
    injectors: Vec<Queue>,
    phase: Phase,
    /// Tasks that have started.
    started: Mutex<usize>,
    all_started: Condvar,
}

/// How much a lane takes at a time.
#[derive(Clone, Copy)]
enum Takes {
    One,
    /// All that is in a queue: one to run, the others into the lane's own deque.
    Batches,
}

impl Pool {
    /// Lanes 0 and 1 play; more, if there are, are always at work.
    fn new(domains: &[usize], takes: Takes) -> Arc<Self> {
        let deques = match takes {
            Takes::One => 0,
            Takes::Batches => 2,
        };
        Arc::new(Self {
            sleepers: Sleepers::new(domains),
            bells: [Doorbell::new(), Doorbell::new()],
            deques: (0..deques).map(|_| Queue::new()).collect(),
            injectors: (0..=*domains.iter().max().unwrap()).map(|_| Queue::new()).collect(),
            phase: Phase::running(),
            started: Mutex::new(0),
            all_started: Condvar::new(),
        })
    }

    /// *Push* and *Notify*, from outside.
    fn submit(&self, domain: usize, task: usize) {
        self.injectors[domain].push(task);
        self.notify(None);
    }

    fn notify(&self, near: Option<usize>) {
        if let Some(lane) = self.sleepers.notify(near) {
            _ = self.bells[lane].ring();
        }
    }

    fn work_waits(&self) -> bool {
        self.injectors.iter().chain(&self.deques).any(|queue| !queue.is_empty())
    }

    /// Waits for all tasks; the last ends the lanes.
    fn run(&self, _task: usize) {
        let mut started = self.started.lock().unwrap();
        *started += 1;
        if *started == TASKS {
            // What follows is the end of the model, not its subject.
            loom::skip_branch();
            self.all_started.notify_all();
            drop(started);
            self.phase.end();
            for bell in &self.bells {
                _ = bell.ring();
            }
            return;
        }
        while *started < TASKS {
            started = self.all_started.wait(started).unwrap();
        }
    }

    /// What is in the lane's own deque.
    fn pop(&self, lane: usize) -> Option<usize> {
        self.deques.get(lane)?.take(None)
    }

    /// `Worker::steal`.
    fn steal(&self, lane: usize) -> Option<usize> {
        let rest = self.deques.get(lane);
        let stolen = self.deques.get(1 - lane).and_then(|victim| victim.take(rest));
        stolen.or_else(|| self.injectors.iter().find_map(|injector| injector.take(rest)))
    }

    /// `Worker::notify_of_batch`.
    fn notify_of_batch(&self, lane: usize) {
        if self.deques.get(lane).is_some_and(|own| !own.is_empty()) {
            self.notify(Some(lane));
        }
    }

    /// `Worker::leave_search`.
    fn leave_search(&self, lane: usize, searching: Option<Searching>) {
        let Some(searching) = searching else { return };
        if self.sleepers.found(lane, searching) && self.work_waits() {
            self.notify(Some(lane));
        }
    }

    /// `Worker::run` with `compute_turn` and `park`, of a lane without pollers.
    fn compute_lane(&self, lane: usize) {
        let bell = &self.bells[lane];
        let mut searching = None;
        loop {
            let seen = bell.epoch();
            if self.phase.is_ending() {
                return;
            }
            if let Some(task) = self.pop(lane) {
                self.leave_search(lane, searching.take());
                self.run(task);
                continue;
            }
            searching = searching.or_else(|| self.sleepers.search(lane));
            if let Some(task) = self.steal(lane) {
                match searching.take() {
                    Some(it) => self.leave_search(lane, Some(it)),
                    None => self.notify_of_batch(lane),
                }
                self.run(task);
                continue;
            }
            let asleep = self.sleepers.sleep(lane, searching.take());
            bell.announce(ParkIn::Futex);
            if !self.work_waits() && bell.epoch() == seen {
                bell.block(seen);
            }
            bell.retract();
            searching = Some(self.sleepers.wake_up(lane, asleep));
        }
    }

    /// The same with `poll_turn` and `answer_call`, of a lane whose pollers all agreed to lend it while parked, and are quiet.
    fn lending_lane(&self, lane: usize) {
        let bell = &self.bells[lane];
        let mut called = false;
        loop {
            let seen = bell.epoch();
            if self.phase.is_ending() {
                return;
            }
            if called {
                if let Some(task) = self.pop(lane).or_else(|| self.steal(lane)) {
                    if self.work_waits() {
                        self.notify(Some(lane));
                    }
                    self.run(task);
                }
            }
            self.sleepers.lend(lane);
            bell.announce(ParkIn::Futex);
            if !self.work_waits() && bell.epoch() == seen {
                bell.block(seen);
            }
            bell.retract();
            called = self.sleepers.unlend(lane) || self.work_waits();
        }
    }
}

/// Two threads submit one task each while two lanes of one domain look for work or go to sleep.
///
/// Bound: 4 threads, 2 preemptions. 40 s.
/// Mutation of `sleepers.rs` seen to fail (deadlock): no *PostFence* in `notify`.
#[test]
fn two_submitters_two_lanes() {
    explore(2, || {
        let pool = Pool::new(&[0, 0], Takes::One);
        let submitter = play(&pool, |pool| pool.submit(0, 0));
        let lane = play(&pool, |pool| pool.compute_lane(0));
        let other = play(&pool, |pool| pool.compute_lane(1));
        pool.submit(0, 1);
        [submitter, lane, other].into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// One thread submits both tasks, so one wake is in flight for two, and the woken lane has to wake the other: one searcher, the other is refused.
///
/// Bound: 3 threads, 2 preemptions. 5 s.
/// Mutations of `sleepers.rs` seen to fail (deadlock): no *PostFence*; no *RecheckFence*; `found` never `Last`; no *SleepFence*, here and in the doorbell's
/// `announce`, either of which is enough for the other. In `notify_of_batch`: nothing, so that a batch which a refused searcher takes past the others stays unknown.
#[test]
fn the_woken_lane_wakes_the_next() {
    explore(2, || {
        let pool = Pool::new(&[0, 0], Takes::Batches);
        let lanes = [0, 1].map(|lane| play(&pool, move |pool| pool.compute_lane(lane)));
        pool.submit(0, 0);
        pool.submit(0, 1);
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
    });
}

/// The same in a domain of four, where both lanes may search at once, so that one that found a batch leaves the search to the other.
///
/// Bound: 3 threads, 2 preemptions. 5 s.
/// Mutations of `sleepers.rs` seen to fail (deadlock): Relaxed instead of Release in `found`, so that the last searcher does not see what the other
/// moved into its deque; no *RecheckFence*; no *PostFence*; `found` never `Last`.
#[test]
fn a_batch_is_seen_by_the_last_searcher() {
    explore(2, || {
        let pool = Pool::new(&[0; 4], Takes::Batches);
        let lanes = [0, 1].map(|lane| play(&pool, move |pool| pool.compute_lane(lane)));
        pool.submit(0, 0);
        pool.submit(0, 1);
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
    });
}

/// Lanes of two domains, both tasks in the injector of one.
///
/// Bound: 3 threads, 2 preemptions. 2 s.
/// Mutations of `sleepers.rs` seen to fail (deadlock): `notify` takes sleepers of the first domain only; no *PostFence*; no *RecheckFence*.
#[test]
fn a_domain_helps_the_other() {
    explore(2, || {
        let pool = Pool::new(&[0, 1], Takes::Batches);
        let lanes = [0, 1].map(|lane| play(&pool, move |pool| pool.compute_lane(lane)));
        pool.submit(1, 0);
        pool.submit(1, 1);
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
    });
}

/// A compute lane and a poll lane that lends itself while parked.
///
/// Bound: 3 threads, 2 preemptions. 2 s.
/// Mutations of `sleepers.rs` seen to fail (deadlock): `notify` without lenders; no *PostFence*; no *SleepFence* in `lend` and in the doorbell's `announce`,
/// either of which is enough for the other; here, no re-check of the queues.
#[test]
fn a_lender_is_called() {
    explore(2, || {
        let pool = Pool::new(&[0, 0], Takes::Batches);
        let compute = play(&pool, |pool| pool.compute_lane(0));
        let lends = play(&pool, |pool| pool.lending_lane(1));
        pool.submit(0, 0);
        pool.submit(0, 1);
        [compute, lends].into_iter().for_each(|lane| lane.join().unwrap());
    });
}

/// A lender that something else wakes between being chosen and being rung sees the task it was chosen for.
///
/// Bound: 2 threads, 4 preemptions. Instant.
/// Mutation of `sleepers.rs` seen to fail: Relaxed in `unlend`.
#[test]
fn a_called_lender_sees_the_task() {
    explore(4, || {
        let pool = Pool::new(&[0, 0], Takes::Batches);
        let submits = play(&pool, |pool| pool.injectors_push_and_choose());
        pool.sleepers.lend(1);
        if pool.sleepers.unlend(1) {
            assert!(pool.work_waits(), "called for a task that it does not see");
        }
        submits.join().unwrap();
    });
}

impl Pool {
    /// A submitter that is interrupted before it rings.
    fn injectors_push_and_choose(&self) {
        self.injectors[0].push(0);
        let _ = self.sleepers.notify(None);
    }
}

fn play(pool: &Arc<Pool>, part: impl FnOnce(&Pool) + 'static) -> thread::JoinHandle<()> {
    let pool = pool.clone();
    thread::spawn(move || part(&pool))
}

/// Explores `model` with at most `preemptions` involuntary switches.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
