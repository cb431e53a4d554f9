//! Corners in which a task or an adoption could be left beside a lane that sleeps, each once, made certain by tasks that wait for each other.
#![cfg(not(twolane_loom))]

mod stress_common;

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use stress_common::{Watchdog, builder};
use twolane::{LaneInfo, PollCx, PollFn, PollerError, Progress, Runtime, Where, poll_fn};

type Closure = fn(&mut PollCx<'_>) -> Progress;

/// Longer than any wake, and short enough to see a failure.
const LONG: Duration = Duration::from_secs(2);

/// Returns when all lanes are parked.
fn asleep(rt: &Runtime) {
    let watchdog = Watchdog::new(rt.handle());
    watchdog.until(0, || rt.metrics().lanes.iter().all(|lane| !lane.parked.is_zero()));
}

/// A lane that was asleep builds a poller, which takes as long as it likes: nobody takes it for a searcher meanwhile.
#[test]
fn a_task_beside_a_lane_that_builds_a_poller() {
    let rt = builder().pairs(1).build().unwrap();
    asleep(&rt);
    let (building, builds) = mpsc::channel();
    let (ran, hears) = mpsc::channel();
    let poller = rt.spawn_poller_with(Where::Any, "slow to build", move |_: &LaneInfo| {
        building.send(()).unwrap();
        match hears.recv_timeout(LONG) {
            Ok(()) => Ok(poll_fn(|_| Progress::Done)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err("the task did not run"),
        }
    });
    builds.recv().unwrap();
    let task = rt.spawn_compute(move || ran.send(()).unwrap());
    poller.unwrap().join().unwrap();
    task.join().unwrap();
}

/// More adoptions at once than a lane takes between two turns, none of which leaves a poller: the last of them is not slept over.
#[test]
fn adoptions_beyond_those_of_one_turn() {
    const MANY: usize = 100;
    let rt = builder().pairs(1).build().unwrap();
    let (go, goes) = mpsc::channel();
    let mut goes = Some(goes);
    let watchdog = Watchdog::new(rt.handle());
    let handles: Vec<_> = (0..MANY)
        .map(|_| {
            let goes = goes.take();
            rt.spawn_poller_with(Where::Any, "fails", move |_: &LaneInfo| {
                // The first waits until all are there.
                goes.into_iter().for_each(|goes| goes.recv().unwrap());
                Err::<PollFn<Closure>, _>("no")
            })
            .unwrap()
        })
        .collect();
    go.send(()).unwrap();
    for handle in handles {
        assert!(matches!(watchdog.watch(0, || handle.join()), Err(PollerError::Init(_))));
    }
}

/// The compute lane waits for what a poller hands off, so nobody but the poller's own lane can run it, and the poller agreed to that.
#[test]
fn a_hand_off_that_only_the_lending_lane_can_run() {
    let rt = builder().pairs(1).build().unwrap();
    asleep(&rt); // so that the task that waits goes to the compute lane
    let (ran, hears) = mpsc::channel();
    let (go, goes) = mpsc::channel();
    let poller = poll_fn(move |cx: &mut PollCx<'_>| match goes.try_recv() {
        Ok(()) => {
            let ran = ran.clone();
            drop(cx.spawn_compute(move || _ = ran.send(())));
            Progress::Busy(1)
        }
        Err(_) => Progress::Idle,
    });
    let poller = rt.spawn_poller(Where::Any, "hands off", poller.ring().lend_while_armed(true)).unwrap();
    Watchdog::new(rt.handle()).until(0, || poller.stats().calls > 0);
    let (started, starts) = mpsc::channel();
    let waits = rt.spawn_compute(move || {
        started.send(()).unwrap();
        hears.recv_timeout(LONG)
    });
    starts.recv().unwrap();
    go.send(()).unwrap();
    poller.ring();
    assert_eq!(waits.join().unwrap(), Ok(()), "the lane that lends did not run it");
    poller.stop();
    drop(poller.join());
}
