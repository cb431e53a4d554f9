//! Wakes from foreign threads at every wait level: a poll lane that dozes, is parked in a futex, is parked in epoll, and a future whose lane lingers, sleeps
//! or is at work. Each wake is answered before the next.
#![cfg(not(twolane_loom))]

mod stress_common;

use std::future::poll_fn as poll_future;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use stress_common::{Random, Watchdog, builder, scaled};
use twolane::{PollCx, PollerHandle, Progress, Runtime, Where, poll_fn};

const WAKES: usize = 3_000;

/// Asks and answers.
#[derive(Default)]
struct Counter {
    asked: AtomicUsize,
    answered: AtomicUsize,
}

impl Counter {
    /// What a poller does with it.
    fn poll(&self) -> Progress {
        // Relaxed, on purpose: that the question is seen is what the ring has to see to.
        let asked = self.asked.load(Relaxed);
        if self.answered.swap(asked, Release) == asked { Progress::Idle } else { Progress::Busy(1) }
    }
}

fn runtime() -> Runtime {
    builder().park_after(Duration::from_micros(100)).build().unwrap()
}

/// Two threads ask in turns and ring, and each waits for its answer.
fn ask<R: Send>(rt: &Runtime, counter: &Counter, handle: &PollerHandle<R>) {
    let watchdog = Watchdog::new(rt.handle());
    let ask = |me: usize| {
        let mut random = Random::new(me);
        for _ in 0..scaled(WAKES) / 2 {
            random.gap();
            let question = counter.asked.fetch_add(1, Relaxed) + 1;
            handle.ring();
            watchdog.until(me, || counter.answered.load(Acquire) >= question);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| ask(0));
        ask(1);
    });
}

#[test]
fn a_lane_that_never_parks() {
    let rt = runtime();
    let counter = Arc::new(Counter::default());
    let inside = counter.clone();
    let handle = rt.spawn_poller(Where::Any, "never", move |_: &mut PollCx<'_>| inside.poll()).unwrap();
    ask(&rt, &counter, &handle);
}

#[test]
fn a_lane_that_parks_in_a_futex() {
    let rt = runtime();
    let counter = Arc::new(Counter::default());
    let inside = counter.clone();
    let handle = rt.spawn_poller(Where::Any, "ring", poll_fn(move |_| inside.poll()).ring()).unwrap();
    ask(&rt, &counter, &handle);
}

/// Beside the rings, datagrams end parks.
#[test]
fn a_lane_that_parks_in_epoll() {
    let rt = runtime();
    let counter = Arc::new(Counter::default());
    let inside = counter.clone();
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    let (received, seen) = (Arc::new(AtomicUsize::new(0)), server.try_clone().unwrap());
    let counts = received.clone();
    let poller = poll_fn(move |_| {
        let mut busy = inside.poll();
        while seen.recv(&mut [0; 8]).is_ok() {
            counts.fetch_add(1, Release);
            busy = Progress::Busy(1);
        }
        busy
    });
    let handle = rt.spawn_poller(Where::Any, "fd", poller.fd(&server).unwrap()).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let watchdog = Watchdog::new(rt.handle());
            let mut random = Random::new(7);
            for sent in 1..=scaled(WAKES) / 4 {
                random.gap();
                client.send(&[0; 8]).unwrap();
                watchdog.until(0, || received.load(Acquire) >= sent);
            }
        });
        ask(&rt, &counter, &handle);
    });
}

/// One future for each of two threads, which wake it and wait for the answer while a third keeps the lanes busy now and then.
#[test]
fn futures_whose_lanes_linger_sleep_or_work() {
    let rt = runtime();
    let watchdog = Watchdog::new(rt.handle());
    let wake = |me: usize| {
        let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
        let counter = Arc::new(Counter::default());
        let end = scaled(WAKES) / 2;
        let future = rt.spawn({
            let (waker, counter) = (waker.clone(), counter.clone());
            poll_future(move |cx| {
                *waker.lock().unwrap() = Some(cx.waker().clone());
                counter.poll();
                if counter.answered.load(Relaxed) == end { Poll::Ready(()) } else { Poll::Pending }
            })
        });
        watchdog.until(me, || waker.lock().unwrap().is_some());
        let mut random = Random::new(me);
        for question in 1..=end {
            random.gap();
            counter.asked.store(question, Relaxed);
            let waker = waker.lock().unwrap().clone();
            waker.unwrap().wake();
            watchdog.until(me, || counter.answered.load(Acquire) >= question);
        }
        watchdog.join(me, future);
    };
    thread::scope(|scope| {
        scope.spawn(|| wake(0));
        scope.spawn(|| {
            let mut random = Random::new(2);
            for _ in 0..scaled(WAKES) / 20 {
                thread::sleep(Duration::from_micros(random.below(1_000)));
                drop(rt.spawn_compute(|| thread::sleep(Duration::from_micros(200))));
            }
        });
        wake(1);
    });
}
