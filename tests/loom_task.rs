//! Tasks under loom: every interleaving, up to a bound of preemptions, of those who run, wake, claim, abort, join and let go of a task.
//!
//! Run with `RUSTFLAGS="--cfg twolane_loom" cargo test --release --test loom_task`. Each model says what it claims, its bound, how long it takes
//! on two cores, and the mutations of `src/task` that were seen to make it fail. Panics are not caught under this cfg, so that a failure inside a
//! task ends the model; and loom itself reports every unordered access to a body, an output, a join waker or the links.
//! `CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true` adds the state word's own assertions.
#![cfg(twolane_loom)]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use twolane::JoinHandle;
use twolane::model::task::{Lane, claim, closure};

/// What was done before a wake is seen by a poll after it, however the wakes meet each other and the runner.
///
/// Bound 3, 2 to 7 s. Seen to fail: a wake of a queued task that writes nothing; *suspend* that overlooks `SCHEDULED`; transitions that
/// only acquire or only release.
#[test]
fn no_wake_is_lost() {
    explore(3, || {
        let lane = Lane::new(());
        let flags = flags();
        let (mut handle, waker) = idle_until(&lane, flags.clone());
        let threads = flags.map(|flag| {
            let waker = waker.clone();
            thread::spawn(move || {
                flag.store(1, Relaxed);
                waker.wake();
            })
        });
        drop(waker);
        lane.run();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lane.drain();
        ready(&mut handle).unwrap();
    });
}

/// An abort ends a future whether it is idle, queued or running, and its body is dropped once.
///
/// Bound 3, 0.1 s. Seen to fail: *abort* that leaves no mark on the queued and running; *suspend* that overlooks `ABORTED`.
#[test]
fn an_abort_is_heeded_at_any_moment() {
    explore(3, || {
        let lane = Lane::new(());
        let drops = Drops::new();
        let (mut handle, waker) = waiting(&lane, drops.probe());
        let wakes = thread::spawn(move || waker.wake());
        let runs = thread::spawn({
            let lane = lane.clone();
            move || lane.run()
        });
        handle.abort();
        wakes.join().unwrap();
        runs.join().unwrap();
        lane.drain();
        assert!(ready(&mut handle).unwrap_err().is_cancelled());
        assert_eq!(drops.count(), 1);
        assert!(lane.is_empty());
    });
}

/// Who joins while the task completes finds the output or is woken through the last waker given; no waker is read while it is replaced.
///
/// Bound 3, 0.1 s. Seen to fail: *publish* that overlooks `COMPLETE`; *retract* that leaves the slot with the completer; a Relaxed load
/// in front of the transitions.
#[test]
fn a_joiner_sees_the_end_or_is_woken() {
    explore(3, || {
        let (runnable, mut handle) = closure(|| 7);
        let runs = thread::spawn(move || runnable.run());
        let counts = [Count::new(), Count::new()];
        let seen = counts.iter().any(|count| match poll(&mut handle, &Waker::from(count.clone())) {
            Poll::Ready(output) => {
                assert_eq!(output.unwrap(), 7);
                true
            }
            Poll::Pending => false,
        });
        assert!(runs.join().unwrap());
        if !seen {
            assert_eq!(counts[1].wakes(), 1, "the last waker");
            assert_eq!(ready(&mut handle).unwrap(), 7);
        }
        drop(handle);
        assert!(counts.iter().all(|count| std::sync::Arc::strong_count(count) == 1), "no waker is left behind");
    });
}

/// An output that nobody takes is dropped once, by the runner or by the handle, and so is a join waker.
///
/// Bound 3, 0.1 s. Seen to fail: *complete* that leaves the output to a handle that is gone; *detach* that overlooks `COMPLETE`.
#[test]
fn an_output_without_taker_is_dropped_once() {
    for asked_before in [false, true] {
        explore(3, move || {
            let drops = Drops::new();
            let output = drops.probe();
            let (runnable, mut handle) = closure(move || output);
            let count = Count::new();
            if asked_before {
                assert!(poll(&mut handle, &Waker::from(count.clone())).is_pending());
            }
            let runs = thread::spawn(move || runnable.run());
            drop(handle);
            assert!(runs.join().unwrap());
            assert_eq!(drops.count(), 1);
            assert_eq!(std::sync::Arc::strong_count(&count), 1, "no waker is left behind");
        });
    }
}

/// Of two claimers and a lane, one runs the closure.
///
/// Bound 3, 0.2 s. Seen to fail: *claim* that does not set `CLAIMED`; *claim* that takes what is running.
#[test]
fn a_claim_and_a_run_exclude_each_other() {
    explore(3, || {
        let runs = Arc::new(AtomicUsize::new(0));
        let inside = runs.clone();
        let (runnable, handle) = closure(move || {
            inside.fetch_add(1, Relaxed);
        });
        let handle = Arc::new(handle);
        let lane = thread::spawn(move || runnable.run());
        let claims = thread::spawn({
            let handle = handle.clone();
            move || claim(&handle).map(|claimed| claimed.run()).is_some()
        });
        let claimed_here = claim(&handle).map(|claimed| claimed.run()).is_some();
        let claimed_there = claims.join().unwrap();
        let ran = lane.join().unwrap();
        assert_eq!([claimed_here, claimed_there, ran].map(u8::from).iter().sum::<u8>(), 1);
        assert_eq!(runs.load(Relaxed), 1);
        assert!(handle.is_finished());
    });
}

/// A future that is claimed, woken and popped at once has its body with one of them at a time, and misses no wake.
///
/// Bound 3, 5 s. Seen to fail: a second claim that is granted while the first one's runnable is still queued; *claim* that does not set
/// `CLAIMED`; and what makes `no_wake_is_lost` fail.
#[test]
fn a_claim_misses_no_wake() {
    explore(3, || {
        let lane = Lane::new(());
        let flags = flags();
        let (mut handle, waker) = idle_until(&lane, flags.clone());
        waker.wake_by_ref(); // in vain: queued, so that it can be claimed
        let wakes = thread::spawn(move || {
            flags.iter().for_each(|flag| flag.store(1, Relaxed));
            waker.wake();
        });
        let runs = thread::spawn({
            let lane = lane.clone();
            move || lane.run()
        });
        for _ in 0..2 {
            if let Some(claimed) = claim(&handle) {
                claimed.run();
            }
        }
        wakes.join().unwrap();
        runs.join().unwrap();
        lane.drain();
        ready(&mut handle).unwrap();
        assert!(lane.is_empty());
    });
}

/// Wakers, handle and runner may let go in any order: the allocation is freed once, after the last of them.
///
/// Bound 3, 0.1 s. Seen to fail: *release* that frees nothing; transitions that only acquire or only release.
#[test]
fn the_last_reference_frees() {
    explore(3, || {
        let frees = Drops::new();
        let lane = Lane::new(Arc::new(frees.probe()));
        let (sender, receiver) = mpsc::channel();
        let mut polls = 0;
        let handle = lane.spawn(poll_fn(move |cx| {
            polls += 1;
            if polls == 2 {
                return Poll::Ready(());
            }
            sender.send(cx.waker().clone()).unwrap();
            Poll::Pending
        }));
        assert!(lane.run());
        let waker: Waker = receiver.recv().unwrap();
        waker.wake_by_ref();
        let forgets = thread::spawn(move || drop(waker));
        let runs = thread::spawn({
            let lane = lane.clone();
            move || lane.run()
        });
        drop(handle);
        forgets.join().unwrap();
        assert!(runs.join().unwrap());
        drop(lane);
        assert_eq!(frees.count(), 1);
    });
}

/// A future that loses its last waker and its handle at once is scheduled once more, dropped by its lane, and freed.
///
/// Bound 3, 0.1 s. Seen to fail: *release* that frees an idle future; *detach* that gives up the last reference.
#[test]
fn a_forsaken_future_is_buried_once() {
    explore(3, || {
        let frees = Drops::new();
        let lane = Lane::new(Arc::new(frees.probe()));
        let drops = Drops::new();
        let (handle, waker) = waiting(&lane, drops.probe());
        let forgets = thread::spawn(move || drop(waker));
        drop(handle);
        forgets.join().unwrap();
        assert_eq!(drops.count(), 0, "not dropped by those who let go");
        assert_eq!(lane.drain(), 1);
        assert_eq!(drops.count(), 1);
        drop(lane);
        assert_eq!(frees.count(), 1);
    });
}

/// A shutdown that cancels all futures finds each of them alive, whether it waits or is about to end.
///
/// Bound 2, 0.1 s. Seen to fail: a future taken off the list outside the lock.
#[test]
fn a_shutdown_meets_completions() {
    explore(2, || {
        let frees = Drops::new();
        let lane = Lane::new(Arc::new(frees.probe()));
        drop(lane.spawn(async {}));
        let mut waits = lane.spawn(std::future::pending::<()>());
        let runs = thread::spawn({
            let lane = lane.clone();
            move || {
                lane.run();
                lane.run();
            }
        });
        lane.cancel_all();
        runs.join().unwrap();
        lane.drain();
        assert!(lane.is_empty());
        assert!(ready(&mut waits).unwrap_err().is_cancelled());
        drop((lane, waits));
        assert_eq!(frees.count(), 1);
    });
}

/// Explores `model` with at most `preemptions` involuntary switches.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}

/// Counts drops. A drop is a step of the model, but Relaxed: it orders nothing.
#[derive(Clone)]
struct Drops(Arc<AtomicUsize>);

/// Tells its counter when it is dropped.
struct Probe(Drops);

impl Drops {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn probe(&self) -> Probe {
        Probe(self.clone())
    }

    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Relaxed);
    }
}

/// A join waker that counts its wakes.
struct Count(AtomicUsize);

impl Count {
    fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self(AtomicUsize::new(0)))
    }

    fn wakes(&self) -> usize {
        self.0.load(Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn flags() -> [Arc<AtomicUsize>; 2] {
    [Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0))]
}

/// A future that is ready when all `flags` are set, and its waker; it was polled once and is idle.
fn idle_until(lane: &Lane<()>, flags: [Arc<AtomicUsize>; 2]) -> (JoinHandle<()>, Waker) {
    let (sender, receiver) = mpsc::channel();
    let mut sender = Some(sender);
    let handle = lane.spawn(poll_fn(move |cx| {
        if let Some(sender) = sender.take() {
            sender.send(cx.waker().clone()).unwrap();
        }
        // Relaxed: that the flags are seen is what the wakes have to see to.
        if flags.iter().all(|flag| flag.load(Relaxed) == 1) { Poll::Ready(()) } else { Poll::Pending }
    }));
    assert!(lane.run());
    (handle, receiver.recv().unwrap())
}

/// A future that is never ready and owns `probe`, and its waker; it was polled once and is idle.
fn waiting<K: Clone + Send + Sync + 'static>(lane: &Lane<K>, probe: Probe) -> (JoinHandle<()>, Waker) {
    let (sender, receiver) = mpsc::channel();
    let mut sender = Some(sender);
    let handle = lane.spawn(poll_fn(move |cx| {
        let _owned = &probe;
        if let Some(sender) = sender.take() {
            sender.send(cx.waker().clone()).unwrap();
        }
        Poll::Pending
    }));
    assert!(lane.run());
    (handle, receiver.recv().unwrap())
}

fn poll<T>(handle: &mut JoinHandle<T>, waker: &Waker) -> Poll<Result<T, twolane::JoinError>> {
    Pin::new(handle).poll(&mut Context::from_waker(waker))
}

/// The result of a task that has ended.
fn ready<T>(handle: &mut JoinHandle<T>) -> Result<T, twolane::JoinError> {
    match poll(handle, Waker::noop()) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task has not ended"),
    }
}
