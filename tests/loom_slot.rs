//! The hand-off slot under loom, with real tasks: a task that a pass leaves there is run once, and not beside a lane that sleeps.
//!
//! Run with `.ci/loom`. Each model says what it claims, its bound, how long it takes on two shared cpus, and the mutations that were tried and
//! seen to break it.
#![cfg(twolane_loom)]

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use twolane::model::sched::{Doorbell, ParkIn, Sleepers, Slot};

/// Of two thieves and an owner that fills the slot twice, each task is taken and run once; what nobody took is cancelled with the slot.
///
/// Bound: 3 threads, 3 preemptions. Instant.
/// Mutations of `slot.rs` seen to fail: a load and a store instead of the swap (taken twice); Relaxed in `fill`, Relaxed in `take` (loom: concurrent
/// accesses to the task).
#[test]
fn a_task_in_the_slot_is_taken_once() {
    explore(3, || {
        let slot = Arc::new(Slot::new());
        let runs = [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))];
        let thieves = [0, 1].map(|_| {
            let slot = slot.clone();
            thread::spawn(move || slot.take().is_some_and(|task| task.run()))
        });
        let mut filled = 0;
        let mut handles = Vec::new();
        for runs in &runs {
            // As `LaneCx::push`: only an empty slot is filled.
            if slot.is_empty() {
                let runs = runs.clone();
                handles.push(slot.fill(move || _ = runs.fetch_add(1, Relaxed)));
                filled += 1;
            }
        }
        let stolen = thieves.map(|thief| usize::from(thief.join().unwrap())).iter().sum::<usize>();
        let ran: usize = runs.iter().map(|runs| runs.load(Relaxed)).sum();
        assert_eq!(ran, stolen, "what was taken has run");
        drop(slot);
        assert!(handles.iter().all(|handle| handle.is_finished()), "run or cancelled");
        assert!(stolen <= filled);
    });
}

/// A pass fills the slot and notifies when it is over, while the sibling searches, goes to sleep, or wakes for something else.
///
/// Bound: 2 threads, 3 preemptions. Instant.
/// Mutations of `sleepers.rs` seen to fail (deadlock): no *PostFence*; no *SleepFence*, here and in the doorbell's `announce`.
#[test]
fn no_lane_sleeps_beside_a_full_slot() {
    explore(3, || {
        let scene = Arc::new((Slot::new(), Sleepers::new(&[0, 0]), Doorbell::new()));
        let sibling = thread::spawn({
            let scene = scene.clone();
            move || {
                let (slot, sleepers, bell) = &*scene;
                let mut searching = None;
                loop {
                    let seen = bell.epoch();
                    searching = searching.or_else(|| sleepers.search(1));
                    if let Some(task) = slot.take() {
                        if let Some(searching) = searching {
                            _ = sleepers.found(1, searching);
                        }
                        return task.run();
                    }
                    let asleep = sleepers.sleep(1, searching.take());
                    bell.announce(ParkIn::Futex);
                    if slot.is_empty() && bell.epoch() == seen {
                        bell.block(seen);
                    }
                    bell.retract();
                    searching = Some(sleepers.wake_up(1, asleep));
                }
            }
        });
        let (slot, sleepers, bell) = &*scene;
        let handle = slot.fill(|| {});
        // *ChooseWake*, after the pass.
        if sleepers.notify(Some(0)).is_some() {
            _ = bell.ring();
        }
        assert!(sibling.join().unwrap());
        assert!(handle.is_finished());
    });
}

/// Explores `model` with at most `preemptions` involuntary switches.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
