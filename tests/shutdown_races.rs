//! Work that meets a shutdown half-way runs, or is refused, or is cancelled: nobody waits for it for ever, and destructors may do what they like.

mod common;
use common::{Gate, LIMIT, SOON, Signal, occupy, one_compute_lane, pairs, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use twolane::{Error, Handle, JoinHandle, PollCx, Progress, Where};

#[test]
fn submissions_from_outside_run_or_are_refused() {
    within(3 * LIMIT, || {
        for round in 0..30 {
            let rt = pairs(1).build().unwrap();
            let (ran, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let submitters: Vec<_> = (0..3)
                .map(|_| {
                    let (rt, ran, stop) = (rt.handle(), Arc::clone(&ran), Arc::clone(&stop));
                    thread::spawn(move || {
                        let mut handles = Vec::new();
                        while !stop.load(SeqCst) {
                            let counts = Arc::clone(&ran);
                            handles.push(rt.spawn_compute(move || {
                                counts.fetch_add(1, SeqCst);
                            }));
                            let counts = Arc::clone(&ran);
                            handles.push(rt.spawn(async move {
                                counts.fetch_add(1, SeqCst);
                            }));
                        }
                        handles
                    })
                })
                .collect();
            common::until("work flows", || ran.load(SeqCst) > 10 * (round + 1));
            let ended = rt.shutdown(SOON);
            stop.store(true, SeqCst);
            // Tasks accepted at the last moment may have been cut off, never lost: every handle resolves.
            let handles: Vec<JoinHandle<()>> = submitters.into_iter().flat_map(|it| it.join().unwrap()).collect();
            let outcomes: Vec<_> = handles.into_iter().map(JoinHandle::join).collect();
            let finished = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
            assert!(outcomes.iter().all(|outcome| outcome.as_ref().err().is_none_or(|error| error.is_cancelled())));
            assert_eq!(finished, ran.load(SeqCst));
            ended.unwrap();
        }
    });
}

#[test]
fn pollers_from_outside_are_adopted_or_refused() {
    within(3 * LIMIT, || {
        for _ in 0..30 {
            let rt = pairs(1).build().unwrap();
            let handle = rt.handle();
            let spawner = thread::spawn(move || {
                let mut handles = Vec::new();
                loop {
                    match handle.spawn_poller(Where::Any, "late", common::quiet()) {
                        Ok(poller) => handles.push(poller),
                        Err(Error::Shutdown) => return handles,
                        Err(error) => panic!("{error}"),
                    }
                    thread::yield_now();
                }
            });
            common::until("some are adopted", || rt.metrics().lanes[0].pollers > 3);
            rt.shutdown(SOON).unwrap();
            let handles = spawner.join().unwrap();
            handles.into_iter().for_each(|poller| drop(poller.join()));
        }
    });
}

/// Does something with the runtime as it is dropped.
struct OnDrop<F: FnMut()>(F);
impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A future that waits for ever, and does `what` when it is dropped.
fn waits_and(rt: &Handle, what: impl FnMut() + Send + 'static) -> JoinHandle<()> {
    let (signal, begun) = (Signal::default(), Gate::default());
    let (waits, tell) = (signal.clone(), begun.clone());
    let task = rt.spawn(async move {
        let _inside = (OnDrop(what), signal);
        tell.open();
        waits.await;
    });
    begun.wait();
    task
}

#[test]
fn a_future_that_spawns_as_it_is_dropped() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (handle, spawned) = (rt.handle(), Arc::new(std::sync::Mutex::new(Vec::new())));
        let list = Arc::clone(&spawned);
        let task = waits_and(&rt, move || {
            let mut list = list.lock().unwrap();
            list.push(handle.spawn_compute(|| 1));
            list.push(handle.spawn(async { 2 }));
        });
        rt.shutdown(SOON).unwrap();
        assert!(task.join().unwrap_err().is_cancelled());
        let spawned = std::mem::take(&mut *spawned.lock().unwrap());
        assert_eq!(spawned.len(), 2);
        for task in spawned {
            // On a lane, before the end: these are taken, and run unless they wait.
            assert!(task.is_finished());
            assert!(task.join().is_ok());
        }
    });
}

#[test]
fn futures_that_abort_and_wake_each_other_as_they_are_dropped() {
    within(LIMIT, || {
        for by_abort in [false, true] {
            let rt = pairs(2).build().unwrap();
            let signals: Vec<Signal> = (0..20).map(|_| Signal::default()).collect();
            let sleepers: Vec<_> = signals
                .iter()
                .map(|signal| {
                    let signal = signal.clone();
                    rt.spawn(signal)
                })
                .collect();
            common::until("all wait", || signals.iter().all(|signal| signal.wakers().len() == 1));
            let sleepers = Arc::new(sleepers);
            let more: Vec<_> = (0..20)
                .map(|n| {
                    let (sleepers, signals) = (Arc::clone(&sleepers), signals.clone());
                    waits_and(&rt, move || {
                        if by_abort {
                            sleepers[n].abort();
                            sleepers[(n + 7) % 20].abort();
                        } else {
                            signals[n].set();
                            signals[(n + 7) % 20].set();
                        }
                    })
                })
                .collect();
            rt.shutdown(SOON).unwrap();
            assert!(more.into_iter().all(|task| task.join().is_err_and(|error| error.is_cancelled())));
            assert!(sleepers.iter().all(JoinHandle::is_finished));
        }
    });
}

#[test]
fn a_future_that_joins_as_it_is_dropped_does_not_hang() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let handle = rt.handle();
        let task = waits_and(&rt, move || {
            // Either it runs right here, or another lane runs it, or this one is told that it must not wait.
            let _ = handle.spawn_compute(|| ()).join();
            let _ = handle.block_on(handle.spawn(async {}));
        });
        rt.shutdown(SOON).unwrap();
        assert!(task.join().unwrap_err().is_cancelled());
    });
}

#[test]
fn a_waker_that_calls_back_as_it_is_dropped() {
    use std::task::{Context, Wake, Waker};
    struct CallsBack(Handle);
    impl Wake for CallsBack {
        fn wake(self: Arc<Self>) {
            drop(self.0.spawn_compute(|| ()));
        }
    }
    impl Drop for CallsBack {
        fn drop(&mut self) {
            drop(self.0.spawn(async {}));
            drop(self.0.metrics());
        }
    }
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let signal = Signal::default();
        let mut task = rt.spawn(signal.clone());
        let waker = Waker::from(Arc::new(CallsBack(rt.handle())));
        assert!(std::pin::Pin::new(&mut task).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(waker);
        signal.set();
        rt.block_on(task).unwrap().unwrap();
        rt.shutdown(SOON).unwrap();
    });
}

#[test]
fn what_is_dropped_at_the_deadline_may_call_back_too() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        // Never a compute lane, not even while it drains.
        let stubborn = rt.spawn_poller(Where::Any, "stubborn", |_: &mut PollCx<'_>| Progress::Busy(0)).unwrap();
        common::until("it is adopted", || stubborn.stats().calls > 0);
        let end = occupy(&rt);
        let refused = Gate::default();
        let (tell, inside) = (refused.clone(), rt.handle());
        let captured = OnDrop(move || {
            assert!(inside.spawn_compute(|| ()).is_finished(), "it was taken by a runtime that has ended");
            assert!(inside.spawn_poller(Where::Any, "late", common::quiet()).is_err());
            tell.open();
        });
        let queued = rt.spawn_compute(move || drop(captured));
        rt.shutdown(Duration::from_millis(10)).unwrap_err();
        assert!(queued.join().unwrap_err().is_cancelled());
        refused.wait();
        end.open();
    });
}

#[test]
fn a_poller_that_panics_as_the_shutdown_drops_it() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            // Not `panic!`: printing a backtrace takes longer than lanes have after a deadline.
            std::panic::resume_unwind(Box::new("at the end"));
        }
    }
    impl twolane::Poller for Bomb {
        fn poll(&mut self, _: &mut twolane::PollCx<'_>) -> twolane::Progress {
            twolane::Progress::Busy(0)
        }
    }
    within(LIMIT, || {
        common::undisturbed(|| {
            let rt = pairs(1).build().unwrap();
            let kept = rt.spawn_poller(Where::Any, "kept", Bomb).unwrap();
            let detached = rt.spawn_poller(Where::Any, "detached", Bomb).unwrap();
            common::until("they are adopted", || kept.stats().calls > 0 && detached.stats().calls > 0);
            drop(detached);
            let report = rt.shutdown(Duration::from_millis(10)).unwrap_err();
            if !report.stuck.is_empty() {
                return None; // no cpu after the deadline
            }
            assert_eq!(report.dropped_pollers.len(), 2, "{report}");
            assert!(matches!(kept.join(), Err(twolane::PollerError::Panicked(_))));
            Some(())
        });
    });
}
