//! Pollers that come and go by the hundred, of every kind, while tasks run: each is adopted, stops when asked, and comes back to its handle.
#![cfg(not(twolane_loom))]

mod stress_common;

use std::thread;
use std::time::Duration;

use stress_common::{Random, Watchdog, builder, scaled};
use twolane::{LaneInfo, PollCx, PollFn, PollerError, Progress, Where, poll_fn};

const THREADS: usize = 2;

type Closure = fn(&mut PollCx<'_>) -> Progress;

fn idle() -> PollFn<Closure> {
    poll_fn(|cx| {
        // Hands something off now and then, also while it ends.
        drop(cx.spawn_compute(|| {}));
        Progress::Idle
    })
}

#[test]
fn all_come_and_go() {
    let rt = builder().park_after(Duration::from_micros(50)).build().unwrap();
    let watchdog = Watchdog::new(rt.handle());
    let storm = |me: usize| {
        let mut random = Random::new(me);
        for _ in 0..scaled(1_500) {
            // More than a lane adopts between two passes.
            let some = random.below(20);
            let pollers: Vec<_> = (0..some)
                .map(|_| match random.below(3) {
                    0 => rt.spawn_poller(Where::Any, "never", idle()),
                    1 => rt.spawn_poller(Where::Any, "ring", idle().ring()),
                    _ => rt.spawn_poller(Where::Any, "lends", idle().ring().lend_while_armed(true)),
                })
                .collect();
            // Never built, by a closure that hands work off.
            let handle = rt.handle();
            let failed = rt.spawn_poller_with(Where::Any, "fails", move |_: &LaneInfo| {
                drop(handle.spawn_compute(|| {}));
                Err::<PollFn<Closure>, _>("no")
            });
            random.gap();
            let task = rt.spawn_compute(|| {});
            for poller in &pollers {
                poller.as_ref().unwrap().stop();
            }
            for poller in pollers {
                drop(watchdog.watch(me, || poller.unwrap().join()).unwrap());
            }
            assert!(matches!(watchdog.watch(me, || failed.unwrap().join()), Err(PollerError::Init(_))));
            watchdog.join(me, task);
        }
    };
    thread::scope(|scope| {
        for me in 1..THREADS {
            scope.spawn(move || storm(me));
        }
        storm(0);
    });
    rt.shutdown(Duration::from_secs(5)).unwrap();
}
