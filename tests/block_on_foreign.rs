//! On threads that are no lanes `block_on` and `join` always wait, nest, and leave nothing behind.

mod common;
use common::{Gate, LIMIT, Signal, one_compute_lane, pairs, within};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

#[test]
fn a_future_may_borrow_and_is_driven_on_the_calling_thread() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (local, here) = (std::cell::Cell::new(1), thread::current().id());
        let driven = rt.block_on(async {
            local.set(local.get() + rt.spawn_compute(|| 1).await.unwrap());
            thread::current().id()
        });
        assert_eq!((driven.unwrap(), local.get()), (here, 2));
    });
}

#[test]
fn calls_nest() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let signal = Signal::default();
        let sets = signal.clone();
        let sum = rt.block_on(async {
            let inner = rt.block_on(async {
                let innermost = rt.spawn_compute(move || sets.set()).join();
                innermost.unwrap();
                1
            });
            signal.await;
            inner.unwrap() + 1
        });
        assert_eq!(sum.unwrap(), 2);
    });
}

#[test]
fn the_park_token_of_std_is_left_alone() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        thread::current().unpark(); // the token that somebody else relies on
        for _ in 0..100 {
            rt.block_on(rt.spawn_compute(|| ())).unwrap().unwrap();
        }
        let (tell, hear) = channel();
        let me = thread::current();
        // If the token is gone, the park below waits for this, and says so by its being late.
        let rescue = thread::spawn(move || {
            let late = hear.recv_timeout(Duration::from_secs(5)).is_err();
            me.unpark();
            late
        });
        thread::park();
        tell.send(()).unwrap();
        assert!(!rescue.join().unwrap(), "block_on took the token");
    });
}

#[test]
fn it_does_not_leave_a_park_token_either() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let signal = Signal::default();
        let (waits, sets) = (signal.clone(), signal.clone());
        let setter = thread::spawn(move || {
            common::until("block_on waits", || sets.wakers().len() == 1);
            let late = sets.wakers();
            sets.set();
            late
        });
        rt.block_on(waits).unwrap();
        // Wakes that come late find nobody, and wake nothing else.
        setter.join().unwrap().into_iter().for_each(std::task::Waker::wake);
        let parked = std::time::Instant::now();
        thread::park_timeout(Duration::from_millis(50));
        assert!(parked.elapsed() >= Duration::from_millis(45), "somebody left a token");
    });
}

#[test]
fn a_late_wake_does_not_end_the_next_call_early() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let first = Signal::default();
        let waits = first.clone();
        let sets = first.clone();
        let late = thread::spawn(move || {
            common::until("block_on waits", || sets.wakers().len() == 1);
            let wakers = sets.wakers();
            sets.set();
            wakers
        });
        rt.block_on(waits).unwrap();
        let late = late.join().unwrap();
        let (second, polls) = (Signal::default(), std::sync::atomic::AtomicU32::new(0));
        let (sets, waits) = (second.clone(), second.clone());
        let waker = thread::spawn(move || {
            common::until("the second call waits", || sets.wakers().len() == 1);
            late.iter().for_each(|waker| waker.wake_by_ref());
            sets.set();
        });
        let mut waits = std::pin::pin!(waits);
        rt.block_on(std::future::poll_fn(|cx| {
            polls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            waits.as_mut().poll(cx)
        }))
        .unwrap();
        waker.join().unwrap();
        assert_eq!(polls.into_inner(), 2, "one poll that waits, one that is ready");
    });
}

#[test]
fn many_threads_wait_for_one_lane() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let open = Gate::default();
        let sum: u64 = thread::scope(|scope| {
            let waiters: Vec<_> = (0..16)
                .map(|n| {
                    let (rt, open) = (rt.handle(), open.clone());
                    scope.spawn(move || {
                        open.wait();
                        rt.spawn_compute(move || n).join().unwrap()
                    })
                })
                .collect();
            open.open();
            waiters.into_iter().map(|waiter| waiter.join().unwrap()).sum()
        });
        assert_eq!(sum, 120);
    });
}
