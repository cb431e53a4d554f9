//! A ring given to a lane: items wake it from a park, a quiet ring costs no calls, and both ends hear of the other's end.

mod common;
use common::{LIMIT, message, pairs, parked, within};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use twolane::ring::{PopError, PushError, mpsc, spsc};
use twolane::{PollCx, PollerError, Progress, Where, poll_fn};

#[test]
fn an_item_wakes_a_parked_lane_every_time() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (mut producer, consumer) = spsc(8).unwrap();
        let seen = Arc::new(AtomicU64::new(0));
        let tell = Arc::clone(&seen);
        let poller = consumer.into_poller(move |item: u64, _: &mut PollCx<'_>| {
            assert_eq!(tell.swap(item, SeqCst) + 1, item, "in order");
        });
        let poller = rt.spawn_poller(Where::Any, "ring", poller).unwrap();
        for n in 1..=20 {
            parked(&rt, 0);
            producer.push(n).unwrap();
            common::until("it is seen", || seen.load(SeqCst) == n);
        }
        let lane = &rt.metrics().lanes[0];
        assert!(lane.parks >= 20 && lane.wakes >= 20, "{lane:?}");
        drop(producer);
        let (mut consumer, _each) = poller.join().unwrap().into_parts();
        assert_eq!(consumer.pop(), Err(PopError::Disconnected), "the poller was done because nothing can come");
    });
}

#[test]
fn it_wakes_a_lane_that_is_parked_on_a_descriptor() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (_write, read) = std::os::unix::net::UnixStream::pair().unwrap();
        let by_fd = poll_fn(|_: &mut PollCx<'_>| Progress::Idle).fd(read).unwrap();
        let _by_fd = rt.spawn_poller(Where::Any, "fd", by_fd).unwrap();
        let (producer, consumer) = mpsc(2).unwrap();
        let poller = rt.spawn_poller(Where::Any, "ring", consumer.into_poller(|_: u64, _| ())).unwrap();
        for n in 1..=5 {
            parked(&rt, 0);
            producer.clone().push(n).unwrap();
            common::until("it is seen", || poller.stats().events == n);
        }
    });
}

#[test]
fn a_quiet_ring_is_not_called_and_an_item_brings_the_call_at_once() {
    within(LIMIT, || {
        let rt = pairs(1).park(twolane::Park::Never).build().unwrap();
        let (mut producer, consumer) = spsc(8).unwrap();
        let poller = rt.spawn_poller(Where::Any, "ring", consumer.into_poller(|_: u64, _| ())).unwrap();
        common::until("it is skipped", || poller.stats().skipped > 10_000);
        let calls = poller.stats().calls;
        assert!(calls <= 3, "{calls} calls for nothing"); // the adoption, a ring, the first pass
        for n in 1..=100 {
            producer.push(n).unwrap();
            common::until("it is seen", || poller.stats().events == n);
        }
        let stats = poller.stats();
        // Each may be seen by its word first, and by its ring afterwards.
        assert!(stats.busy_calls == 100 && stats.calls <= calls + 200, "{stats:?}");
    });
}

#[test]
fn a_call_takes_no_more_than_it_may() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (mut producer, consumer) = spsc(64).unwrap();
        for n in 0..64 {
            producer.push(n).unwrap();
        }
        let poller = consumer.into_poller(|_: u64, _| ()).per_call(NonZeroU32::new(10).unwrap());
        drop(producer);
        let poller = rt.spawn_poller(Where::Any, "ring", poller).unwrap();
        common::until("all are taken", || poller.stats().events == 64);
        assert_eq!(poller.stats().busy_calls, 7);
        assert!(poller.join().is_ok());
    });
}

#[test]
fn a_stop_ends_it_although_producers_go_on() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (mut producer, consumer) = spsc(64).unwrap();
        let poller = rt.spawn_poller(Where::Any, "ring", consumer.into_poller(|_: u64, _| ())).unwrap();
        let pushing = std::thread::spawn(move || {
            loop {
                match producer.push(1) {
                    Err(PushError::Disconnected(_)) => return,
                    Err(PushError::Full(_)) => std::thread::yield_now(),
                    Ok(()) => {}
                }
            }
        });
        common::until("items flow", || poller.stats().events > 1_000);
        poller.stop();
        let left = poller.join().unwrap();
        assert!(!pushing.is_finished(), "the ring is whole as long as somebody has its end");
        drop(left);
        pushing.join().unwrap();
    });
}

#[test]
fn a_consumer_that_changes_lanes_is_woken_on_the_new_one() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let (producer, mut consumer) = mpsc(4).unwrap();
        let sum = Arc::new(Mutex::new(0));
        for lane in [0, 2, 0, 0] {
            let tell = Arc::clone(&sum);
            let poller = consumer.into_poller(move |n: u64, _: &mut PollCx<'_>| *tell.lock().unwrap() += n);
            let poller = rt.spawn_poller(Where::Lane(lane), "ring", poller).unwrap();
            parked(&rt, lane);
            let before = *sum.lock().unwrap();
            producer.push(1).unwrap();
            common::until("it is seen", || *sum.lock().unwrap() == before + 1);
            poller.stop();
            consumer = poller.join().unwrap().into_parts().0;
        }
    });
}

#[test]
fn a_stopped_ring_poller_can_be_given_to_the_same_lane_again() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (mut producer, consumer) = spsc(2).unwrap();
        let mut ring = consumer.into_poller(|_: u64, _: &mut PollCx<'_>| ());
        for n in 0..3 {
            let poller = rt.spawn_poller(Where::Lane(0), "ring", ring).unwrap();
            parked(&rt, 0);
            producer.push(n).unwrap();
            common::until("it is seen", || poller.stats().events == 1);
            poller.stop();
            ring = poller.join().unwrap();
        }
    });
}

#[test]
fn a_panic_of_the_closure_reaches_handle_and_producer() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (mut producer, consumer) = spsc(4).unwrap();
        let poller = consumer.into_poller(|n: u64, _: &mut PollCx<'_>| assert!(n != 2, "two"));
        let poller = rt.spawn_poller(Where::Any, "ring", poller).unwrap();
        producer.push(1).unwrap();
        producer.push(2).unwrap();
        let Err(PollerError::Panicked(payload)) = poller.join() else { panic!("it panicked") };
        assert!(message(&*payload).contains("two"));
        assert!(matches!(producer.push(3), Err(PushError::Disconnected(3))));
        assert!(producer.is_disconnected());
    });
}

#[test]
fn the_end_of_the_runtime_is_the_end_of_the_ring() {
    within(LIMIT, || {
        let (producer, consumer) = mpsc(4).unwrap();
        let rt = pairs(1).build().unwrap();
        let poller = rt.spawn_poller(Where::Any, "ring", consumer.into_poller(|_: u64, _| ())).unwrap();
        parked(&rt, 0);
        drop(rt);
        assert!(poller.is_finished());
        drop(poller);
        assert!(matches!(producer.push(1), Err(PushError::Disconnected(1))));
        drop(producer); // rings a lane that is gone
    });
}

#[test]
fn a_ring_between_two_pollers_of_one_lane_keeps_it_awake_until_it_is_empty() {
    const ITEMS: u64 = 500;
    within(LIMIT, || {
        let rt = pairs(1).park_after(Duration::from_micros(1)).build().unwrap();
        let (mut producer, consumer) = spsc(4).unwrap();
        // The consumer is called first in each pass, so it has been called when the other one pushes.
        let second = rt.spawn_poller(Where::Lane(0), "second", consumer.into_poller(|_: u64, _| ())).unwrap();
        let mut left = ITEMS;
        let first = poll_fn(move |cx: &mut PollCx<'_>| {
            cx.call_after(Duration::from_micros(50));
            if left > 0 && producer.push(left).is_ok() {
                left -= 1;
            }
            if left == 0 { Progress::Done } else { Progress::Idle }
        });
        let first = rt.spawn_poller(Where::Lane(0), "first", first.ring()).unwrap();
        assert!(first.join().is_ok());
        let done = second;
        common::until("all came through", || done.stats().events == ITEMS);
        assert!(done.join().is_ok());
    });
}
