//! A slot's life under loom: the reaper, the task that waits, and the task that goes away meet in every order.
//!
//! Run with `.ci/loom`. Each model says what it claims, its bound, how long it takes on two shared cpus, and the mutations that were tried and
//! seen to break it. The record is a byte that a "device" writes; the sequences are those of `ticket.rs` and `reaper.rs`.
#![cfg(twolane_loom)]

use std::sync::Arc as StdArc;
use std::task::{Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU8, AtomicUsize};
use loom::thread;
use twolane::model::offload::{Claim, Claims, Over, Phase, Slot};

/// One slot of a page, its record, and what must be counted.
struct Scene {
    claims: Claims,
    slot: Slot,
    record: AtomicU8,
    /// Credits that were given back.
    credits: AtomicUsize,
    /// What was left with the ring and dropped by it.
    dropped: Arc<AtomicUsize>,
}

/// Counts its drops: stands for the buffers of a dropped future.
struct Buffers(Arc<AtomicUsize>);

impl Drop for Buffers {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// A waker that counts.
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: StdArc<Self>) {
        self.0.fetch_add(1, AcqRel);
    }
}

impl Count {
    fn new() -> (StdArc<Self>, Waker) {
        let count = StdArc::new(Self(AtomicUsize::new(0)));
        (count.clone(), count.into())
    }
    fn get(&self) -> usize {
        self.0.load(Acquire)
    }
}

impl Scene {
    /// A slot that is taken and published, its operation with the device.
    fn submitted(waker: Option<&Waker>) -> Arc<Self> {
        let scene = Self {
            claims: Claims::new(),
            slot: Slot::new(),
            record: AtomicU8::new(0),
            credits: AtomicUsize::new(0),
            dropped: Arc::new(AtomicUsize::new(0)),
        };
        assert_eq!(scene.claims.claim(), Claim::Taken { slots: 1, rouse: false });
        let _ = scene.slot.publish(waker);
        Arc::new(scene)
    }

    /// The device writes the record.
    fn complete(&self) {
        self.record.store(1, Release);
    }

    fn is_complete(&self) -> bool {
        self.record.load(Acquire) != 0
    }

    /// As `Watched::sweep`, once: looks at the record of a slot that is taken. `true`: it has nothing more to do with it.
    fn sweep(&self) -> bool {
        if self.claims.look().slots() & 1 == 0 {
            return true;
        }
        if !self.is_complete() {
            return false;
        }
        let seen = self.slot.look();
        if seen.phase() != Phase::Live {
            return seen.phase() != Phase::Held;
        }
        if !self.is_complete() {
            return false;
        }
        self.carry_out(self.slot.over(seen, Over::Settled), true);
        true
    }

    fn carry_out(&self, outcome: twolane::model::offload::Outcome, credit: bool) {
        if outcome.mine && credit {
            self.credits.fetch_add(1, Relaxed);
        }
        if outcome.gives_back {
            let _ = self.claims.release(1);
        }
        if let Some(waker) = outcome.waker {
            waker.wake();
        }
        drop(outcome.kept);
    }

    /// As `Ticket::leave`.
    fn leave(&self) {
        if let Some(credit) = self.slot.leave() {
            if credit {
                self.credits.fetch_add(1, Relaxed);
            }
            let _ = self.claims.release(1);
        }
    }

    /// As `Ticket::let_go`, for what was submitted.
    fn abandon(&self) {
        if self.is_complete() {
            return self.leave();
        }
        let buffers = Box::new(Buffers(self.dropped.clone()));
        if let Err(kept) = self.slot.abandon(buffers) {
            self.leave();
            drop(kept);
        }
    }

    /// When everybody is done: the slot is free, its credit came back once.
    fn assert_over(&self) {
        assert_eq!(self.claims.look().slots(), 0, "the slot was given back");
        assert_eq!(self.credits.load(Relaxed), 1, "and the credit, once");
    }
}

/// As `Ticket::poll`: whether it is over; if not, `waker` will be woken.
fn poll(scene: &Scene, waker: &Waker) -> bool {
    loop {
        if scene.is_complete() {
            scene.leave();
            return true;
        }
        match scene.slot.look().phase() {
            Phase::Live if scene.slot.register(waker) => return false,
            Phase::Live | Phase::Settled => {}
            other => unreachable!("{other:?}"),
        }
    }
}

/// A task that polls, with another waker the second time, finds the operation over or is woken by its last waker; the slot is free in the end, and the
/// credit came back once. The slot may live again at once, whoever gave it back.
///
/// Bound: 3 threads, 3 preemptions. Instant.
/// Mutations of `state.rs` seen to fail: Relaxed in `offer_waker` (the waker's cell is read while it is written); `leave` gives the slot back in spite of
/// TAKING (the reaper's own assertion).
#[test]
fn a_completion_meets_a_task_that_waits() {
    explore(3, || {
        let (early, first) = Count::new();
        let (late, second) = Count::new();
        let scene = Scene::submitted(Some(&first));
        let device = thread::spawn({
            let scene = scene.clone();
            move || scene.complete()
        });
        let task = thread::spawn({
            let scene = scene.clone();
            move || poll(&scene, &second)
        });
        let swept = scene.sweep();
        let over = task.join().unwrap();
        device.join().unwrap();
        // The reaper's next pass, if that one came too early.
        assert!(swept || scene.sweep());
        if !over {
            // The second waker took the place of the first one, or came too late for a wake that was on its way; then the poll saw the record.
            assert_eq!(late.get(), 1, "the last waker that was registered is woken");
            assert_eq!(early.get(), 0);
            scene.leave();
        }
        scene.assert_over();
        assert_eq!(scene.claims.claim(), Claim::Taken { slots: 1, rouse: false });
        let _ = scene.slot.publish(None);
    });
}

/// What a dropped future leaves is dropped once: by the ring after the record was written, or by whoever dropped the future, and the ring
/// has never touched it. The slot is given back once.
///
/// Bound: 3 threads, 3 preemptions. Instant.
/// Mutations of `state.rs` seen to fail: Relaxed in `abandon` (the keep cell is read while it is written); `leave` gives the slot back in spite of TAKING.
#[test]
fn a_completion_meets_a_drop() {
    explore(3, || {
        let (_, waker) = Count::new();
        let scene = Scene::submitted(Some(&waker));
        let device = thread::spawn({
            let scene = scene.clone();
            move || scene.complete()
        });
        let task = thread::spawn({
            let scene = scene.clone();
            move || scene.abandon()
        });
        let swept = scene.sweep();
        if !scene.is_complete() {
            assert_eq!(scene.dropped.load(Relaxed), 0, "the device may still write");
        }
        task.join().unwrap();
        device.join().unwrap();
        assert!(swept && scene.claims.look().slots() == 0 || scene.sweep());
        assert!(scene.dropped.load(Relaxed) <= 1);
        scene.assert_over();
    });
}

/// As above, when the operation is given up and the record comes late: what was left stays until it does.
///
/// Bound: 2 threads, 3 preemptions. Instant.
#[test]
fn a_deadline_meets_a_drop_and_a_late_record() {
    explore(3, || {
        let (_, waker) = Count::new();
        let scene = Scene::submitted(Some(&waker));
        let task = thread::spawn({
            let scene = scene.clone();
            move || {
                scene.abandon();
            }
        });
        let seen = scene.slot.look();
        let given_up = seen.phase() == Phase::Live && {
            let outcome = scene.slot.over(seen, Over::Quarantined);
            let mine = outcome.mine;
            scene.carry_out(outcome, false);
            mine
        };
        assert!(given_up, "only the reaper ends it: there is no record");
        task.join().unwrap();
        assert_eq!(scene.dropped.load(Relaxed), 0, "the device may still write");
        assert_eq!(scene.claims.look().slots(), 1, "and the slot is not to be used");
        scene.complete();
        let seen = scene.slot.look();
        assert_eq!(seen.phase(), Phase::Quarantined);
        scene.carry_out(scene.slot.late(seen, false), true);
        assert_eq!(scene.dropped.load(Relaxed), 1);
        scene.assert_over();
    });
}

/// A reaper that looked at a slot in one life does not end the next one: the holder gives the slot back, takes it again and publishes it while the
/// reaper stands between its look and its declaration.
///
/// Bound: 2 threads, 4 preemptions. Instant.
/// Mutations of `state.rs` seen to fail: `over` does not compare the life (the second life is ended without a record); Relaxed in `publish` (the waker's
/// cell is read while it is written).
#[test]
fn a_slow_reaper_meets_the_next_life() {
    explore(4, || {
        let scene = Scene::submitted(None);
        scene.complete();
        let (woken, waker) = Count::new();
        let task = thread::spawn({
            let scene = scene.clone();
            move || {
                scene.leave();
                assert_eq!(scene.claims.claim(), Claim::Taken { slots: 1, rouse: false });
                scene.record.store(0, Relaxed);
                let _ = scene.slot.publish(Some(&waker));
            }
        });
        let _ = scene.sweep();
        task.join().unwrap();
        assert_eq!(scene.slot.look().phase(), Phase::Live, "the second life has no record yet");
        assert_eq!(woken.get(), 0);
        scene.complete();
        assert!(scene.sweep());
        assert_eq!(woken.get(), 1);
        scene.leave();
        assert_eq!(scene.credits.load(Relaxed), 2);
    });
}

/// An operation that did not run is submitted again in its slot by the task, while the reaper that woke it may still hold the cell of the waker.
///
/// Bound: 2 threads, 4 preemptions. Instant.
/// Mutation of `state.rs` seen to fail: `reclaim` does not look at TAKING (the waker's cell is read while it is written).
#[test]
fn a_retry_meets_the_wake_that_told_of_it() {
    explore(4, || {
        let (woken, waker) = Count::new();
        let scene = Scene::submitted(Some(&waker));
        let task = thread::spawn({
            let scene = scene.clone();
            move || {
                // As `Ticket::poll` and `Ticket::retry`.
                match scene.slot.look().phase() {
                    Phase::Live => scene.slot.register(&waker) || scene.slot.look().phase() == Phase::Unrun,
                    Phase::Unrun => match scene.slot.reclaim() {
                        None => false,
                        Some(credit) => {
                            assert!(!credit);
                            let _ = scene.slot.publish(Some(&waker));
                            true
                        }
                    },
                    other => unreachable!("{other:?}"),
                };
            }
        });
        let seen = scene.slot.look();
        let outcome = scene.slot.over(seen, Over::Unrun);
        assert!(outcome.mine && !outcome.gives_back);
        scene.carry_out(outcome, false);
        task.join().unwrap();
        assert_eq!(woken.get(), 1, "told once of what did not run");
        if scene.slot.look().phase() == Phase::Unrun {
            assert_eq!(scene.slot.reclaim(), Some(false), "the cell is free when the wake has come");
            let _ = scene.slot.publish(None);
        }
        scene.complete();
        assert!(scene.sweep());
        scene.leave();
        scene.assert_over();
    });
}

/// Explores `model` with at most `preemptions` involuntary switches.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
