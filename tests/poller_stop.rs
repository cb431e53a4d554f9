//! Stopping asks: the poller is called until it says that nothing is left to finish.

mod common;
use common::{Gate, LIMIT, SOON, pairs, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use twolane::{PollCx, PollerError, Progress, Where, poll_fn};

#[test]
fn idle_ends_a_poller_that_was_asked_to() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let poller = rt.spawn_poller(Where::Any, "idles", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        common::until("it is called", || poller.stats().calls > 100);
        assert!(!poller.is_finished(), "idle alone ends nothing");
        poller.stop();
        assert!(poller.join().is_ok());
    });
}

#[test]
fn housekeeping_keeps_it_until_what_is_outstanding_has_come() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (outstanding, stopping_calls) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicU32::new(0)));
        let (waits, counts) = (Arc::clone(&outstanding), Arc::clone(&stopping_calls));
        let poller = rt
            .spawn_poller(Where::Any, "finishes", move |cx: &mut PollCx<'_>| {
                if cx.stopping() {
                    counts.fetch_add(1, SeqCst);
                }
                if waits.load(SeqCst) { Progress::Busy(0) } else { Progress::Idle }
            })
            .unwrap();
        poller.stop();
        common::until("it is called while it stops", || stopping_calls.load(SeqCst) > 100);
        assert!(!poller.is_finished());
        assert_eq!(poller.stats().events, 0, "housekeeping is no event");
        outstanding.store(false, SeqCst);
        assert!(poller.join().is_ok());
    });
}

#[test]
fn events_keep_it_and_done_ends_it_at_once() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let mut left = 50;
        let poller = rt
            .spawn_poller(Where::Any, "drains", move |cx: &mut PollCx<'_>| {
                if !cx.stopping() {
                    return Progress::Idle;
                }
                left -= 1;
                if left == 0 { Progress::Done } else { Progress::Busy(1) }
            })
            .unwrap();
        poller.stop();
        poller.stop(); // once more asks the same
        common::until("it is done", || poller.is_finished());
        assert_eq!(poller.stats().events, 49);
        assert!(poller.join().is_ok());
    });
}

#[test]
fn a_stop_reaches_a_parked_lane_and_no_other_poller() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let stopped = rt.spawn_poller(Where::Any, "stopped", common::quiet()).unwrap();
        let other = rt.spawn_poller(Where::Any, "other", common::quiet()).unwrap();
        common::parked(&rt, 0);
        stopped.stop();
        assert!(stopped.join().is_ok());
        assert!(!other.is_finished());
        common::until("one is left", || rt.metrics().lanes[0].pollers == 1);
    });
}

#[test]
fn the_shutdown_asks_all_of_them() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let handles: Vec<_> = (0..6)
            .map(|_| {
                let mut saw = false;
                let poller = poll_fn(move |cx| {
                    let first = cx.stopping() && !std::mem::replace(&mut saw, cx.stopping());
                    if first { Progress::Busy(1) } else { Progress::Idle }
                });
                rt.spawn_poller(Where::Any, "asked", poller.ring()).unwrap()
            })
            .collect();
        rt.shutdown(SOON).unwrap();
        for handle in handles {
            assert_eq!(handle.stats().events, 1, "it saw that it should end, and was called again");
            assert!(handle.join().is_ok());
        }
    });
}

#[test]
fn one_that_does_not_end_is_dropped_at_the_deadline() {
    within(LIMIT, || {
        common::undisturbed(|| {
            let rt = pairs(1).build().unwrap();
            let poller = rt.spawn_poller(Where::Any, "endless", |_: &mut PollCx<'_>| Progress::Busy(0)).unwrap();
            common::until("it is called", || poller.stats().calls > 0);
            let report = rt.shutdown(std::time::Duration::from_millis(20)).unwrap_err();
            if !report.stuck.is_empty() {
                return None; // no cpu after the deadline
            }
            assert_eq!(report.dropped_pollers, ["endless"]);
            let error = poller.join().map(|_| ()).unwrap_err();
            assert!(error.to_string().contains("the runtime ended before the poller did"), "{error}");
            Some(())
        });
    });
}

#[test]
fn one_that_the_lane_had_not_taken_yet_is_named_as_well() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (begun, handle) = (Gate::default(), rt.handle());
        let tell = begun.clone();
        let slow = rt.spawn_poller_with(Where::Any, "slow to build", move |_| {
            tell.open();
            // A lane may spawn until the deadline.
            common::until("the deadline", || handle.try_spawn_compute(|| ()).is_err());
            Err::<fn(&mut PollCx<'_>) -> Progress, _>("too late")
        });
        begun.wait();
        let behind = rt.spawn_poller(Where::Any, "behind it", common::quiet()).unwrap();
        let report = rt.shutdown(std::time::Duration::from_millis(20)).unwrap_err();
        // If the lane took its time after the deadline, it was left behind.
        assert!(report.dropped_pollers == ["behind it"] || report.stuck.len() == 1, "{report}");
        assert!(matches!(behind.join(), Err(PollerError::Shutdown)));
        assert!(matches!(slow.unwrap().join(), Err(PollerError::Init(_))));
    });
}
