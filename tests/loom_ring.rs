//! The rings under loom: items go over once and in order, no lane sleeps beside one, both ends hear of the other's end.
//!
//! Run with `.ci/loom`. Each model says what it claims, its bound, how long it takes on two shared cpus, and the mutations that were tried and
//! seen to break it. A lost ring leaves the lane blocked for ever, which loom reports as a deadlock.
#![cfg(twolane_loom)]

use std::collections::VecDeque;

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use twolane::model::ring::model::Doorbell;
use twolane::model::ring::{Consumer, PopError, PushError, mpsc, spsc};

/// One producer, a ring that is shorter than what goes through it.
///
/// Bound: 2 threads, 3 preemptions, two laps. 1 s.
/// Mutations of `slots.rs` seen to fail (loom: concurrent accesses to an item): Relaxed in `put`, in `take`, in `look`. Of `consumer.rs`, `mod.rs` (an item is
/// missing): no second look in `pop`; Relaxed in `is_closed`. Not seen by loom: Relaxed in `producer_ends`, see there.
#[test]
fn one_producers_items_arrive_once_and_in_order() {
    const ITEMS: usize = 4;
    explore(3, || {
        let (mut producer, mut consumer) = spsc(2).unwrap();
        let pushing = thread::spawn(move || {
            for n in 0..ITEMS {
                let mut item = Box::new(n);
                while let Err(refused) = producer.push(item) {
                    let PushError::Full(back) = refused else { panic!("the consumer is there") };
                    item = back;
                    thread::yield_now();
                }
            }
        });
        assert_eq!(pop_all(&mut consumer), (0..ITEMS).map(Box::new).collect::<Vec<_>>());
        pushing.join().unwrap();
    });
}

/// Two producers that race for places, one of them for two at once, in a ring that is too short for all of it, while the consumer takes what it sees.
///
/// Bound: 3 threads, 2 preemptions. 5 s.
/// Mutations of `producer.rs` seen to fail: a load and a store instead of the exchange in `claim` (concurrent accesses); `claim` looks at the first place
/// instead of the last.
#[test]
fn several_producers_items_arrive_once_and_in_each_ones_order() {
    explore(2, || {
        let (producer, mut consumer) = mpsc(2).unwrap();
        let other = producer.clone();
        let batch = thread::spawn(move || {
            let mut items: VecDeque<_> = [10, 11].map(Box::new).into();
            other.push_batch(&mut items).unwrap();
            items
        });
        let single = thread::spawn(move || producer.push(Box::new(20)).err().map(PushError::into_inner));
        let mut all = Vec::new();
        all.extend(consumer.pop());
        let refused = (batch.join().unwrap(), single.join().unwrap());
        all.extend(pop_all(&mut consumer));
        assert!(all.len() >= 2, "there was room for two");
        all.extend(refused.0);
        let tens: Vec<_> = all.iter().map(|item| **item).filter(|item| *item < 20).collect();
        assert_eq!(tens, [10, 11]);
        all.extend(refused.1);
        all.sort();
        assert_eq!(all, [10, 11, 20].map(Box::new));
    });
}

/// A lane that parks whenever the ring is empty, and a producer that pushes and goes.
///
/// Bound: 2 threads, 3 preemptions. 1 s.
/// Mutations of `bells.rs` seen to fail (deadlock): `closed` does not ring; no *CloseFence*.
#[test]
fn no_lane_sleeps_beside_the_items_of_one_producer() {
    explore(3, || {
        let (mut producer, consumer) = spsc(4).unwrap();
        let lane = Doorbell::new();
        let pushing = thread::spawn(move || {
            producer.push(0).unwrap();
            producer.push(1).unwrap();
        });
        assert_eq!(run_lane(&lane, consumer), [0, 1]);
        pushing.join().unwrap();
    });
}

/// Two producers, of which one may leave the ring of the lane to the other.
///
/// Bound: 3 threads, 2 preemptions. 3 s.
/// Mutations of `bells.rs` seen to fail (deadlock): no *PushFence*; `expect` sets nothing; the flag is taken and nobody rings; Relaxed in the swap of `answer`;
/// and in `consumer.rs`, a pop that finds nothing takes the flag back.
#[test]
fn no_lane_sleeps_beside_the_items_of_several_producers() {
    explore(2, || {
        let (producer, consumer) = mpsc(2).unwrap();
        let lane = Doorbell::new();
        let other = producer.clone();
        let pushing = [(0, producer), (1, other)].map(|(item, producer)| {
            thread::spawn(move || {
                producer.push(item).unwrap();
                producer // whose end must not do the ring's work
            })
        });
        let mut consumer = consumer;
        consumer.come_to(&lane);
        let mut items = Vec::new();
        while items.len() < 2 {
            turn(&lane, &mut consumer, &mut items);
        }
        items.sort();
        assert_eq!(items, [0, 1]);
        for pushing in pushing {
            drop(pushing.join().unwrap());
        }
    });
}

/// The last producer goes while the lane comes and parks.
///
/// Bound: 2 threads, 3 preemptions. Instant.
/// Mutations of `bells.rs` seen to fail (deadlock): `closed` does not ring; no *CloseFence*.
#[test]
fn the_end_is_found_by_a_lane_that_comes() {
    explore(3, || {
        let (producer, consumer) = spsc::<Box<usize>>(2).unwrap();
        let lane = Doorbell::new();
        let going = thread::spawn(move || drop(producer));
        assert!(run_lane(&lane, consumer).is_empty());
        going.join().unwrap();
    });
}

/// The last producer goes while a lane comes that never parks, and looks again only when it is rung: an empty ring shows it nothing.
///
/// Bound: 2 threads, 3 preemptions. Instant.
/// Mutations of `bells.rs` seen to fail (it waits for ever): no *HangFence*; no *CloseFence*.
#[test]
fn the_end_is_found_by_a_lane_that_comes_and_does_not_park() {
    explore(3, || {
        let (producer, mut consumer) = spsc::<Box<usize>>(2).unwrap();
        let lane = Doorbell::new();
        let going = thread::spawn(move || drop(producer));
        let mut seen = lane.epoch();
        consumer.come_to(&lane);
        while consumer.pop() != Err(PopError::Disconnected) {
            while lane.epoch() == seen {
                thread::yield_now(); // for ever, if nobody rings
            }
            seen = lane.epoch();
        }
        going.join().unwrap();
    });
}

/// The consumer has moved from one lane, which expected a push, to another.
///
/// Bound: 3 threads, 2 preemptions. 3 s.
/// Mutations of `bells.rs` seen to fail (deadlock): the flag is not cleared in `hang`; no *HangFence*; no *PushFence*. Not seen by loom, to which a `Box` is no
/// cell: Relaxed in the load of `newest`, which would let its reader meet a doorbell that is not written yet.
#[test]
fn the_lane_that_is_rung_is_the_one_that_the_consumer_is_on() {
    explore(2, || {
        let (producer, mut consumer) = mpsc(2).unwrap();
        let (before, now) = (Doorbell::new(), Doorbell::new());
        consumer.come_to(&before);
        consumer.before_wait();
        let other = producer.clone();
        let pushing = [(0, producer), (1, other)].map(|(item, producer)| {
            thread::spawn(move || {
                producer.push(item).unwrap();
                producer
            })
        });
        consumer.come_to(&now);
        let mut items = Vec::new();
        while items.len() < 2 {
            turn(&now, &mut consumer, &mut items);
        }
        items.sort();
        assert_eq!(items, [0, 1]);
        for pushing in pushing {
            drop(pushing.join().unwrap());
        }
    });
}

/// The consumer goes while an item comes: it is given back, or dropped, once.
///
/// Bound: 2 threads, 3 preemptions. Instant.
/// Mutations of `slots.rs` seen to fail: what is left is not dropped with the slots; Relaxed in `put`, in `look`.
#[test]
fn what_nobody_takes_is_dropped_once() {
    struct Item(Arc<AtomicUsize>);
    impl Drop for Item {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    explore(3, || {
        let drops = Arc::new(AtomicUsize::new(0));
        let (mut producer, mut consumer) = spsc(2).unwrap();
        let item = || Item(drops.clone());
        let (first, second, third) = (item(), item(), item());
        assert!(producer.push(first).is_ok());
        let pushing = thread::spawn(move || {
            let refused = producer.push(second).is_err();
            refused.then(|| assert!(matches!(producer.push(third), Err(PushError::Disconnected(_)))));
        });
        assert!(consumer.pop().is_ok());
        drop(consumer);
        pushing.join().unwrap();
        assert_eq!(drops.load(Relaxed), 3);
    });
}

/// Pops until the producers are gone, by looking again and again.
fn pop_all<T>(consumer: &mut Consumer<T>) -> Vec<T> {
    let mut all = Vec::new();
    loop {
        match consumer.pop() {
            Ok(item) => all.push(item),
            Err(PopError::Empty) => thread::yield_now(),
            Err(PopError::Disconnected) => return all,
        }
    }
}

/// A lane's life with the ring as its only poller, until the producers are gone.
fn run_lane<T>(lane: &Doorbell, mut consumer: Consumer<T>) -> Vec<T> {
    let mut all = Vec::new();
    consumer.come_to(lane);
    while turn(lane, &mut consumer, &mut all) {}
    all
}

/// A pass, and a park if it found nothing. `false`: the end.
fn turn<T>(lane: &Doorbell, consumer: &mut Consumer<T>, all: &mut Vec<T>) -> bool {
    let seen = lane.epoch();
    match consumer.pop() {
        Ok(item) => all.push(item),
        Err(PopError::Disconnected) => return false,
        Err(PopError::Empty) => {
            let mut end = false;
            consumer.before_wait();
            lane.park(seen, || match consumer.pop() {
                Ok(item) => {
                    all.push(item);
                    true
                }
                Err(PopError::Disconnected) => {
                    end = true;
                    true
                }
                Err(PopError::Empty) => false,
            });
            return !end;
        }
    }
    true
}

/// Explores `model` with at most `preemptions` involuntary switches.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
