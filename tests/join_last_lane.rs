//! A compute lane may block while another one does not; the last gets an error at once, with what it wanted to wait for.

mod common;
use common::{Gate, LIMIT, Signal, keep_for_polling, one_compute_lane, pairs, within};
use twolane::BlockingJoinError;

#[test]
fn the_only_compute_lane_gets_the_handle_back_and_can_use_it() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let handle = rt.handle();
        let signal = Signal::default();
        let waits = signal.clone();
        let waiting = rt.spawn(async move {
            waits.await;
            5
        });
        common::until("the future waits", || signal.wakers().len() == 1);
        let outer = rt.spawn_compute(move || {
            assert!(handle.current_lane().is_some());
            let error = waiting.join().unwrap_err();
            assert!(error.is_would_deadlock() && !error.is_cancelled() && !error.is_panic());
            assert!(error.to_string().contains("await the handle, or join it elsewhere"), "{error}");
            match error {
                BlockingJoinError::WouldDeadlock(back) => back,
                other => panic!("{other}"),
            }
        });
        let back = outer.join().unwrap();
        signal.set();
        assert_eq!(back.join().unwrap(), 5, "the handle is as good as before");
    });
}

#[test]
fn block_on_gives_the_future_back_unpolled() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let handle = rt.handle();
        let outer = rt.spawn_compute(move || {
            let refused = handle.block_on(async { unreachable!("polled") as u8 }).unwrap_err();
            assert!(refused.to_string().contains("spawn the future instead"), "{refused}");
            drop(refused.into_inner());
            let refused = handle.block_on(std::future::ready(3)).unwrap_err();
            refused.into_inner().into_inner()
        });
        assert_eq!(outer.join().unwrap(), 3);
    });
}

#[test]
fn what_is_finished_needs_no_leave_to_block() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let done = rt.spawn_compute(|| 9);
        common::until("it is finished", || done.is_finished());
        assert_eq!(rt.spawn_compute(move || done.join().unwrap()).join().unwrap(), 9);
    });
}

#[test]
fn of_two_compute_lanes_one_waits_and_the_other_does_not() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        keep_for_polling(&rt, 0);
        keep_for_polling(&rt, 2);
        let (blocking, signal) = (Gate::default(), Signal::default());
        let (handle, tell, waits) = (rt.handle(), blocking.clone(), signal.clone());
        let first = rt.spawn_compute(move || {
            handle
                .block_on(async move {
                    tell.open();
                    waits.await;
                    "waited"
                })
                .unwrap()
        });
        blocking.wait();
        let handle = rt.handle();
        let second = rt.spawn_compute(move || handle.block_on(std::future::pending::<()>()).is_err());
        assert!(second.join().unwrap(), "the second and last compute lane must not block");
        signal.set();
        assert_eq!(first.join().unwrap(), "waited");
        // And the leave was given back.
        let handle = rt.handle();
        assert!(rt.spawn_compute(move || handle.block_on(std::future::ready(())).is_ok()).join().unwrap());
    });
}

#[test]
fn one_lane_that_blocks_twice_counts_once() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        keep_for_polling(&rt, 0);
        keep_for_polling(&rt, 2);
        let handle = rt.handle();
        let nested = rt.spawn_compute(move || {
            let inner = handle.clone();
            handle.block_on(async move { inner.block_on(std::future::ready(4)).ok() }).unwrap()
        });
        assert_eq!(nested.join().unwrap(), Some(4), "the other compute lane is free all the time");
    });
}
