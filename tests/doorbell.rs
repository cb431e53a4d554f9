//! A doorbell wakes its lane from wherever it is held, and does nothing once the lane is gone.

mod common;
use common::{LIMIT, pairs, parked, within};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use twolane::{Doorbell, PollCx, Progress, Runtime, Where, poll_fn};

/// A poller that takes what is in its box, and a count of what it has taken.
fn mailbox(rt: &Runtime, lane: usize) -> (Arc<AtomicU32>, Arc<AtomicU32>, Doorbell) {
    let (mail, seen) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (look, tell) = (Arc::clone(&mail), Arc::clone(&seen));
    let poll = move |_: &mut PollCx<'_>| match look.swap(0, SeqCst) {
        0 => Progress::Idle,
        n => {
            tell.fetch_add(n, SeqCst);
            Progress::Busy(n)
        }
    };
    let poller = rt.spawn_poller(Where::Lane(lane), "mailbox", poll_fn(poll).ring()).unwrap();
    (mail, seen, poller.doorbell())
}

#[test]
fn both_ways_to_ring_wake_a_parked_lane_from_any_thread() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (mail, seen, doorbell) = mailbox(&rt, 0);
        let by_number = rt.doorbell(0).unwrap();
        assert!(doorbell.same_lane(&by_number) && doorbell.lane() == 0);
        let ways: [fn(&Doorbell); 2] = [Doorbell::ring, Doorbell::ring_if_parked];
        for n in 1..=20 {
            parked(&rt, 0);
            mail.store(1, SeqCst);
            let (doorbell, ring) = (doorbell.clone(), ways[n as usize % 2]);
            std::thread::spawn(move || ring(&doorbell)).join().unwrap();
            common::until("it is heard", || seen.load(SeqCst) == n);
        }
    });
}

/// The lane parks as often as it can, so rings meet it on its way in and out.
#[test]
fn ring_if_parked_loses_nothing_on_the_way_into_a_park() {
    within(LIMIT, || {
        let rt = pairs(1).park_after(Duration::from_micros(1)).build().unwrap();
        let (mail, seen, doorbell) = mailbox(&rt, 0);
        for n in 1..=5_000 {
            mail.store(1, SeqCst);
            doorbell.ring_if_parked();
            while seen.load(SeqCst) != n {
                std::thread::yield_now(); // `within` is the limit
            }
        }
    });
}

#[test]
fn ring_if_parked_leaves_a_lane_alone_that_is_awake() {
    within(LIMIT, || {
        let rt = pairs(1).park(twolane::Park::Never).build().unwrap();
        let (_mail, _seen, doorbell) = mailbox(&rt, 0);
        let wakes = rt.metrics().lanes[0].wakes;
        (0..1_000).for_each(|_| doorbell.ring_if_parked());
        assert_eq!(rt.metrics().lanes[0].wakes, wakes);
    });
}

#[test]
fn a_poller_can_give_its_lanes_doorbell_away() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let (tell, hear) = mpsc::channel();
        let mut calls = 0;
        let poller = poll_fn(move |cx: &mut PollCx<'_>| {
            calls += 1;
            let _ = tell.send((cx.doorbell(), calls));
            Progress::Idle
        });
        let _poller = rt.spawn_poller(Where::Lane(2), "giver", poller.ring()).unwrap();
        let (doorbell, _) = hear.recv().unwrap();
        assert!(doorbell.same_lane(&rt.doorbell(2).unwrap()) && !doorbell.same_lane(&rt.doorbell(0).unwrap()));
        parked(&rt, 2);
        let before = hear.try_iter().last().unwrap().1;
        doorbell.ring();
        assert!(hear.recv().unwrap().1 > before);
    });
}

#[test]
fn a_builder_on_its_lane_can_have_the_doorbell() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (handle, (tell, hear)) = (rt.handle(), mpsc::channel());
        let make = move |info: &twolane::LaneInfo| {
            tell.send(handle.doorbell(info.lane())?).unwrap();
            Ok::<_, twolane::Error>(|_: &mut PollCx<'_>| Progress::Done)
        };
        assert!(rt.spawn_poller_with(Where::Any, "built", make).unwrap().join().is_ok());
        assert_eq!(hear.recv().unwrap().lane(), 0);
    });
}

#[test]
fn there_is_no_doorbell_of_a_lane_that_is_not_there() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let error = rt.doorbell(7).unwrap_err().to_string();
        assert!(error.contains("lane 7") && error.contains("2 lanes"), "{error}");
    });
}

#[test]
fn a_late_ring_does_nothing_and_keeps_nothing_running() {
    within(LIMIT, || {
        for with_fd in [false, true] {
            let rt = pairs(1).build().unwrap();
            let (_write, read) = std::os::unix::net::UnixStream::pair().unwrap();
            let poller = poll_fn(|_: &mut PollCx<'_>| Progress::Idle);
            let poller = if with_fd { poller.fd(read).unwrap() } else { poller.ring() };
            let poller = rt.spawn_poller(Where::Any, "quiet", poller).unwrap();
            let doorbell = poller.doorbell();
            parked(&rt, 0);
            drop(rt); // ends in spite of the doorbell
            assert!(poller.is_finished());
            doorbell.ring();
            doorbell.ring_if_parked();
        }
    });
}
