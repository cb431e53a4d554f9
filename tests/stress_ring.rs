//! Rings on real threads, with lanes that park as soon as they can: everything arrives, once, in each producer's order.

mod common;
use common::{LIMIT, pairs, within};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use twolane::ring::{PopError, PushError, mpsc, spsc};
use twolane::{PollCx, Where};

const ITEMS: u64 = 200_000;
/// Of items that meet a lane which may be parked: each may cost a wake.
const WAKING_ITEMS: u64 = 5_000;
const PRODUCERS: u64 = 3;

#[test]
fn one_producer_and_a_thread() {
    within(LIMIT, || {
        let (mut producer, mut consumer) = spsc(8).unwrap();
        let pushing = thread::spawn(move || {
            let mut batch = VecDeque::new();
            let mut n = 0;
            while n < ITEMS || !batch.is_empty() {
                while n < ITEMS && batch.len() as u64 <= n % 7 {
                    batch.push_back(Box::new(n));
                    n += 1;
                }
                if producer.push_batch(&mut batch).unwrap() == 0 {
                    thread::yield_now();
                }
            }
        });
        let mut next = 0;
        loop {
            match consumer.pop() {
                Ok(item) => {
                    assert_eq!(*item, next);
                    next += 1;
                }
                Err(PopError::Empty) => thread::yield_now(),
                Err(PopError::Disconnected) => break,
            }
        }
        assert_eq!(next, ITEMS);
        pushing.join().unwrap();
    });
}

#[test]
fn several_producers_and_a_lane_that_parks_as_soon_as_it_can() {
    within(LIMIT, || {
        let rt = pairs(1).park_after(Duration::from_micros(1)).build().unwrap();
        let (producer, consumer) = mpsc(8).unwrap();
        let next = Arc::new(Mutex::new([0; PRODUCERS as usize]));
        let seen = Arc::clone(&next);
        let poller = consumer.into_poller(move |(who, n): (usize, u64), _: &mut PollCx<'_>| {
            let next = &mut seen.lock().unwrap()[who];
            assert_eq!(n, *next, "producer {who}");
            *next += 1;
        });
        let poller = rt.spawn_poller(Where::Any, "ring", poller).unwrap();
        let pushing: Vec<_> = (0..PRODUCERS as usize)
            .map(|who| {
                let producer = producer.clone();
                thread::spawn(move || {
                    for n in 0..WAKING_ITEMS {
                        while let Err(refused) = producer.push((who, n)) {
                            assert!(matches!(refused, PushError::Full(_)));
                            thread::yield_now();
                        }
                        if n % 64 == 0 {
                            thread::sleep(Duration::from_micros(50)); // lets the lane park now and then
                        }
                    }
                })
            })
            .collect();
        drop(producer);
        pushing.into_iter().for_each(|pushing| pushing.join().unwrap());
        assert!(poller.join().is_ok(), "it ends by itself when all producers are gone");
        assert_eq!(*next.lock().unwrap(), [WAKING_ITEMS; PRODUCERS as usize]);
        assert!(rt.metrics().lanes[0].parks > 10, "it did park");
    });
}

/// Every item waits for its answer, so a single lost ring hangs it.
#[test]
fn two_lanes_play_ping_pong_through_rings() {
    const ROUNDS: u64 = 3_000;
    within(LIMIT, || {
        let rt = pairs(2).park_after(Duration::from_micros(1)).build().unwrap();
        let (mut serve, to_left) = spsc(2).unwrap();
        let (mut to_right_end, to_right) = spsc(2).unwrap();
        let (mut back, home) = spsc(2).unwrap();
        let left = to_left.into_poller(move |n: u64, _: &mut PollCx<'_>| to_right_end.push(n).unwrap());
        let right = to_right.into_poller(move |n: u64, _: &mut PollCx<'_>| back.push(n + 1).unwrap());
        let left = rt.spawn_poller(Where::Lane(0), "left", left).unwrap();
        let _right = rt.spawn_poller(Where::Lane(2), "right", right).unwrap();
        let mut home = home;
        for n in 0..ROUNDS {
            serve.push(n).unwrap();
            let answer = loop {
                match home.pop() {
                    Ok(answer) => break answer,
                    Err(PopError::Empty) => thread::yield_now(), // `within` is the limit
                    Err(error) => panic!("{error}"),
                }
            };
            assert_eq!(answer, n + 1);
        }
        assert!(left.stats().events >= ROUNDS);
    });
}
