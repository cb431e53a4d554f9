//! Closures from outside, each joined, with gaps that meet the lanes in every state on the way to sleep: none is left behind.
#![cfg(not(twolane_loom))]

mod stress_common;

use std::thread;

use stress_common::{Random, Watchdog, builder, scaled};

const SUBMITTERS: usize = 2;

#[test]
fn every_submission_is_run_soon() {
    let rt = builder().build().unwrap();
    let watchdog = Watchdog::new(rt.handle());
    let each = scaled(100_000) / SUBMITTERS;
    thread::scope(|scope| {
        for me in 0..SUBMITTERS {
            let (rt, watchdog) = (&rt, &watchdog);
            scope.spawn(move || {
                let mut random = Random::new(me);
                for number in 0..each {
                    random.gap();
                    let handle = rt.spawn_compute(move || number);
                    if random.below(4) == 0 {
                        random.gap();
                    }
                    assert_eq!(watchdog.join(me, handle), number);
                }
            });
        }
    });
    rt.shutdown(std::time::Duration::from_secs(5)).unwrap();
}
