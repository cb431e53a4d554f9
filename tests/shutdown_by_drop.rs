//! Dropping a runtime is a shutdown with `drop_deadline`; on one of its own lanes it waits for nobody, least of all for itself.

mod common;
use common::{Gate, LIMIT, occupy, os, pairs, within};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use twolane::{PollCx, Progress, Where};

#[test]
fn it_runs_what_is_queued() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let tasks: Vec<_> = (0..100).map(|n| rt.spawn_compute(move || n)).collect();
        drop(rt);
        assert!(tasks.iter().all(twolane::JoinHandle::is_finished));
        assert_eq!(tasks.into_iter().map(|task| task.join().unwrap()).sum::<u32>(), 4_950);
    });
}

#[test]
fn it_waits_for_the_drop_deadline_and_no_longer() {
    within(LIMIT, || {
        let deadline = Duration::from_millis(80);
        let rt = pairs(1).drop_deadline(deadline).build().unwrap();
        let end = occupy(&rt);
        let began = Instant::now();
        drop(rt);
        let took = began.elapsed();
        end.open();
        assert!(took >= deadline && took < deadline + Duration::from_secs(2), "{took:?}");
    });
}

#[test]
fn inside_a_closure_of_its_own() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("closure").build().unwrap();
        let handle = rt.handle();
        let (give, take) = channel();
        let task = rt.spawn_compute(move || {
            let rt: twolane::Runtime = take.recv_timeout(LIMIT).unwrap();
            drop(rt);
            // Still here, and nothing is taken any more.
            handle.try_spawn_compute(|| ()).is_err()
        });
        give.send(rt).unwrap();
        assert!(task.join().unwrap());
        common::until("all lanes leave", || os::named("closure-").is_empty());
    });
}

#[test]
fn inside_a_future_of_its_own_and_of_another() {
    within(LIMIT, || {
        let (one, two) = (pairs(1).thread_name("one").build().unwrap(), pairs(1).thread_name("two").build().unwrap());
        let (handle_one, handle_two) = (one.handle(), two.handle());
        let (give_one, take_one) = channel();
        let (give_two, take_two) = channel();
        // Each drops the other.
        let in_one = handle_one.spawn(async move { drop::<twolane::Runtime>(take_two.recv_timeout(LIMIT).unwrap()) });
        give_two.send(two).unwrap();
        in_one.join().unwrap();
        assert!(handle_two.try_spawn_compute(|| ()).is_err());
        let own = handle_one.spawn(async move { drop::<twolane::Runtime>(take_one.recv_timeout(LIMIT).unwrap()) });
        give_one.send(one).unwrap();
        // It is running when its runtime ends, so it may finish or be counted out.
        if let Err(error) = own.join() {
            assert!(error.is_cancelled(), "{error}");
        }
        common::until("all lanes leave", || os::named("one-").is_empty() && os::named("two-").is_empty());
    });
}

#[test]
fn inside_a_poller_of_its_own() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("poller").build().unwrap();
        let (give, take) = channel::<twolane::Runtime>();
        let dropped = Gate::default();
        let tell = dropped.clone();
        let poller = rt
            .spawn_poller(Where::Any, "drops its runtime", move |_: &mut PollCx<'_>| {
                let Ok(rt) = take.try_recv() else { return Progress::Idle };
                drop(rt);
                tell.open();
                Progress::Done
            })
            .unwrap();
        let other = rt.spawn_poller(Where::Any, "its neighbour", common::quiet()).unwrap();
        give.send(rt).unwrap();
        dropped.wait();
        assert!(poller.join().is_ok());
        let _ = other.join(); // it may have seen the end, or was dropped by it; either way it is over
        common::until("all lanes leave", || os::named("poller-").is_empty());
    });
}
