//! A shutdown runs what is queued and what that spawns, drops what merely waits, on lanes, and refuses what comes from outside.

mod common;
use common::{Gate, LIMIT, SOON, Signal, occupy, one_compute_lane, os, pairs, within};
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;
use twolane::{Handle, PollCx, Progress, RejectedBecause, Where};

#[test]
fn queued_work_runs_and_gives_its_output() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let end = occupy(&rt);
        let queued: Vec<_> = (0..1_000).map(|n| rt.spawn_compute(move || n)).collect();
        let ends = thread::spawn(move || rt.shutdown(SOON));
        end.open();
        ends.join().unwrap().unwrap();
        for (n, task) in queued.into_iter().enumerate() {
            assert!(task.is_finished());
            assert_eq!(task.join().unwrap(), n);
        }
    });
}

#[test]
fn tasks_may_spawn_while_it_drains_and_all_of_that_runs() {
    fn chain(rt: &Handle, left: usize, ran: &Arc<AtomicUsize>) {
        ran.fetch_add(1, SeqCst);
        if left > 0 {
            let (next, ran) = (rt.clone(), Arc::clone(ran));
            let spawned = match left % 2 {
                0 => rt.try_spawn_compute(move || chain(&next, left - 1, &ran)).is_ok(),
                _ => rt.try_spawn(async move { chain(&next, left - 1, &ran) }).is_ok(),
            };
            assert!(spawned, "{left} left");
        }
    }
    within(LIMIT, || {
        let rt = one_compute_lane();
        let end = occupy(&rt);
        let ran = Arc::new(AtomicUsize::new(0));
        let (handle, counts) = (rt.handle(), Arc::clone(&ran));
        drop(rt.spawn_compute(move || chain(&handle, 500, &counts)));
        let outside = rt.handle();
        let ends = thread::spawn(move || rt.shutdown(SOON));
        common::until("work from outside is refused", || {
            outside.try_spawn_compute(|| ()).is_err_and(|refused| refused.because() == RejectedBecause::Shutdown)
        });
        end.open();
        ends.join().unwrap().unwrap();
        assert_eq!(ran.load(SeqCst), 501);
    });
}

/// Tells where it is dropped.
struct Dropped(Handle, Sender<Option<usize>>);
impl Drop for Dropped {
    fn drop(&mut self) {
        self.1.send(self.0.current_lane()).unwrap();
    }
}

#[test]
fn futures_that_wait_are_dropped_on_a_lane_and_their_handles_are_told() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (tell, hear) = channel();
        let waits = Signal::default();
        let handles: Vec<_> = (0..20)
            .map(|_| {
                let (inside, waits) = (Dropped(rt.handle(), tell.clone()), waits.clone());
                rt.spawn(async move {
                    let _inside = inside;
                    waits.await;
                })
            })
            .collect();
        common::until("all wait", || waits.wakers().len() == 20);
        rt.shutdown(SOON).unwrap();
        for handle in handles {
            assert!(handle.join().unwrap_err().is_cancelled());
            assert!(hear.try_recv().unwrap().is_some(), "dropped by a thread that is no lane");
        }
        waits.set(); // late wakes are no-ops
    });
}

#[test]
fn a_future_that_is_woken_while_it_drains_may_finish_or_is_dropped() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let handle = rt.handle();
        let waits_for_another = rt.spawn(async move { handle.spawn_compute(|| 5).await.unwrap() + 1 });
        rt.shutdown(SOON).unwrap();
        match waits_for_another.join() {
            Ok(six) => assert_eq!(six, 6),
            Err(error) => assert!(error.is_cancelled()),
        }
    });
}

#[test]
fn pollers_see_it_and_may_hand_off_their_last_work() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let ran = Gate::default();
        let tell = ran.clone();
        let poller = rt
            .spawn_poller(Where::Any, "last words", move |cx: &mut PollCx<'_>| {
                if !cx.stopping() {
                    return Progress::Idle;
                }
                let tell = tell.clone();
                assert!(cx.try_spawn_compute(move || tell.open()).is_ok());
                Progress::Done
            })
            .unwrap();
        rt.shutdown(SOON).unwrap();
        assert!(ran.is_open(), "handed off before the end");
        assert!(poller.join().is_ok());
    });
}

#[test]
fn nothing_to_do_takes_no_time_and_no_deadline() {
    within(LIMIT, || {
        for _ in 0..20 {
            pairs(1).build().unwrap().shutdown(SOON).unwrap();
        }
        pairs(1).build().unwrap().shutdown(Duration::MAX).unwrap();
        // At a deadline that is over at once lanes may be on their way to sleep, or (on a loaded machine) not yet awake. An error names something.
        for _ in 0..20 {
            let rt = pairs(1).build().unwrap();
            rt.spawn_compute(|| ()).join().unwrap();
            if let Err(report) = rt.shutdown(Duration::ZERO) {
                assert!(!report.stuck.is_empty(), "{report}");
            }
        }
    });
}

#[test]
fn no_thread_is_left() {
    within(LIMIT, || {
        for round in 0..10 {
            let name = format!("left{round}");
            let rt = pairs(2).thread_name(&name).build().unwrap();
            assert_eq!(os::named(&name).len(), 4);
            drop(rt.spawn(pending::<()>()));
            let _ = common::keep_for_polling(&rt, 2);
            rt.spawn_compute(|| ()).join().unwrap();
            rt.shutdown(SOON).unwrap();
            // A thread that was joined leaves /proc a moment later.
            common::until("they are gone", || os::named(&name).is_empty());
        }
    });
}

#[test]
fn handles_of_an_ended_runtime_answer_everything() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (handle, poller) = (rt.handle(), common::keep_for_polling(&rt, 0));
        rt.shutdown(SOON).unwrap();
        let metrics = handle.metrics();
        assert_eq!((metrics.live_futures, metrics.live_pollers, metrics.injected), (0, 0, 0));
        poller.ring();
        poller.stop();
        assert!(poller.join().is_ok());
        assert_eq!(handle.block_on(std::future::ready(1)).unwrap(), 1);
        assert_eq!(handle.current_lane(), None);
    });
}
