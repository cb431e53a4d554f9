//! The end of a runtime under loom: lanes hear of it, and what comes too late is cancelled by somebody.
//!
//! Run with `.ci/loom`. Each model says what it claims, its bound, how long it takes on two shared cpus, and the mutations that were tried and
//! seen to break it.
#![cfg(twolane_loom)]

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;
use twolane::model::sched::{Doorbell, Eventfd, ParkIn, Phase, Sleepers, Wake};

/// A runtime with one lane and one injector, in which there is room for one task.
struct Scene {
    phase: Phase,
    sleepers: Sleepers,
    bell: Doorbell,
    eventfd: Eventfd,
    injector: AtomicUsize,
    cancelled: AtomicUsize,
}

impl Scene {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            phase: Phase::running(),
            sleepers: Sleepers::new(&[0]),
            bell: Doorbell::new(),
            eventfd: Eventfd::new(),
            injector: AtomicUsize::new(0),
            cancelled: AtomicUsize::new(0),
        })
    }

    fn ring(&self) {
        if let Wake::Eventfd = self.bell.ring() {
            self.eventfd.write();
        }
    }

    /// `Shared::inject`.
    fn inject(&self) {
        self.injector.store(1, Release);
        if self.sleepers.notify(None).is_some() {
            self.ring();
        }
        if self.phase.is_ending() {
            self.cancel_queued();
        }
    }

    /// `Shared::cancel_queued`.
    fn cancel_queued(&self) {
        if self.injector.load(Relaxed) == 1 && self.injector.swap(0, Acquire) == 1 {
            self.cancelled.fetch_add(1, Relaxed);
        }
    }

    /// The last step of `shutdown::shutdown`.
    fn end(&self) {
        self.phase.end();
        self.ring();
    }

    /// A lane that has nothing to do: `Worker::run`, `park`, `end`. Returns the tasks that it ran.
    fn lane(&self, place: ParkIn) -> usize {
        let mut ran = 0;
        let mut searching = None;
        loop {
            let seen = self.bell.epoch();
            if self.phase.is_ending() {
                self.cancel_queued();
                return ran;
            }
            searching = searching.or_else(|| self.sleepers.search(0));
            if self.injector.load(Relaxed) == 1 && self.injector.swap(0, Acquire) == 1 {
                if let Some(searching) = searching.take() {
                    _ = self.sleepers.found(0, searching);
                }
                ran += 1;
                continue;
            }
            let asleep = self.sleepers.sleep(0, searching.take());
            self.bell.announce(place);
            if self.injector.load(Relaxed) == 0 && self.bell.epoch() == seen {
                match place {
                    ParkIn::Futex => self.bell.block(seen),
                    ParkIn::Epoll => self.eventfd.wait(),
                }
            }
            self.bell.retract();
            searching = Some(self.sleepers.wake_up(0, asleep));
        }
    }
}

/// A lane that goes to park while the phase changes and its doorbell is rung leaves its loop.
///
/// Bound: 2 threads, 4 preemptions. Instant.
/// Mutations of `doorbell.rs` seen to fail (deadlock): no *PostFence*; no *SleepFence*.
#[test]
fn a_lane_that_parks_hears_of_the_end() {
    for place in [ParkIn::Futex, ParkIn::Epoll] {
        explore(4, move || {
            let scene = Scene::new();
            let ends = thread::spawn({
                let scene = scene.clone();
                move || scene.end()
            });
            scene.lane(place);
            ends.join().unwrap();
        });
    }
}

/// A wake from a foreign thread that meets the end of a runtime whose lanes have gone: its task is cancelled, by the waker or by the thread that ends it.
///
/// Bound: 2 threads, 4 preemptions. Instant.
/// Mutations seen to fail (left in the queue): no *EndFence* in `phase.rs`; no *PostFence* in `sleepers.rs`; here, no look at the phase.
#[test]
fn a_late_task_is_cancelled_by_somebody() {
    explore(4, || {
        let scene = Scene::new();
        let wakes = thread::spawn({
            let scene = scene.clone();
            move || scene.inject()
        });
        // Without the rings, whose fence would do as well.
        scene.phase.end();
        scene.cancel_queued();
        wakes.join().unwrap();
        assert_eq!(scene.cancelled.load(Relaxed), 1);
    });
}

/// The same with the lane: the task is run or cancelled, once, and the lane ends.
///
/// Bound: 3 threads, 2 preemptions. 1 s.
/// Mutations seen to fail: no *PostFence* in `sleepers.rs` (left in the queue); no *SleepFence* in `doorbell.rs` (deadlock).
#[test]
fn a_task_meets_the_end() {
    explore(2, || {
        let scene = Scene::new();
        let wakes = thread::spawn({
            let scene = scene.clone();
            move || scene.inject()
        });
        let lane = thread::spawn({
            let scene = scene.clone();
            move || scene.lane(ParkIn::Futex)
        });
        scene.end();
        let ran = lane.join().unwrap();
        scene.cancel_queued();
        wakes.join().unwrap();
        assert_eq!(ran + scene.cancelled.load(Relaxed), 1, "{ran} run");
    });
}

/// Explores `model` with at most `preemptions` involuntary switches.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
