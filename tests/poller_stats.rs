//! A poller's handle tells what the poller did, and from a sample how long its calls take.

mod common;
use common::{LIMIT, pairs, shared, within};
use std::time::Duration;
use twolane::{PollCx, Poller, PollerHandle, PollerStats, Progress, WakeBy, Where};

const NAP: Duration = Duration::from_millis(2);

/// Sleeps in each call, which no poller should.
fn slow(cx: &mut PollCx<'_>) -> Progress {
    std::thread::sleep(NAP);
    if cx.stopping() { Progress::Done } else { Progress::Idle }
}

fn until<R>(handle: &PollerHandle<R>, what: &str, holds: impl Fn(&PollerStats) -> bool) -> PollerStats {
    let mut last = handle.stats();
    common::until(what, || {
        last = handle.stats();
        holds(&last)
    });
    last
}

#[test]
fn counts_add_up_and_times_are_a_samples() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let mut turn = 0_u32;
        let every_third = move |cx: &mut PollCx<'_>| {
            turn += 1;
            match turn % 3 {
                _ if cx.stopping() => Progress::Done,
                0 => Progress::Busy(2),
                1 => Progress::Busy(0),
                _ => Progress::Idle,
            }
        };
        let handle = rt.spawn_poller(Where::Any, "every third", every_third).unwrap();
        let stats = until(&handle, "calls are timed", |stats| stats.timed_calls > 10);
        assert!(stats.timed_calls <= stats.calls, "{stats:?}");
        assert!(stats.p99_call <= stats.longest_call && stats.mean_call <= stats.longest_call, "{stats:?}");
        handle.stop();
        common::until("it ends", || handle.is_finished());
        let stats = handle.stats();
        assert_eq!(stats.events, 2 * stats.busy_calls, "{stats:?}");
        assert_eq!(stats.busy_calls, (stats.calls - 1) / 3, "all but the last one: {stats:?}");
        assert_eq!(stats.idle_calls(), stats.calls - stats.busy_calls, "{stats:?}");
        assert_eq!(stats.skipped, 0, "it has no peek: {stats:?}");
    });
}

#[test]
fn the_slow_one_of_two_is_told() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let quick = rt.spawn_poller(Where::Lane(0), "quick", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        let slow = rt.spawn_poller(Where::Lane(0), "slow", slow).unwrap();
        let stats = until(&slow, "it is timed", |stats| stats.timed_calls > 10);
        assert!(stats.mean_call >= NAP && stats.p99_call >= NAP && stats.longest_call >= NAP, "{stats:?}");
        assert!(stats.time_in_calls() >= NAP * 10, "{stats:?}");
        until(&quick, "its fellow as well", |stats| stats.timed_calls > 10);
        let misses = rt.metrics().lanes[0].misses.slow_poller;
        assert!(misses > 0, "passes of 2 ms are no surprise to the lane");
    });
}

/// Lets the lane park.
struct Rung;

impl Poller for Rung {
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        Progress::Idle
    }
    fn wake_by(&self) -> WakeBy<'_> {
        WakeBy::Ring
    }
}

#[test]
fn lanes_that_park_a_lot_and_lanes_with_tasks_time_calls_too() {
    within(LIMIT, || {
        let rt = pairs(1).park_after(Duration::from_micros(1)).build().unwrap();
        let handle = rt.spawn_poller(Where::Any, "rung", Rung).unwrap();
        until(&handle, "calls after parks are timed", |stats| {
            handle.ring();
            stats.timed_calls > 10
        });
        let rt = shared(1).build().unwrap();
        let handle = rt.spawn_poller(Where::Any, "shared", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        until(&handle, "calls on a shared lane are timed", |stats| stats.timed_calls > 10);
    });
}
