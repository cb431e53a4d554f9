//! Tasks that spawn tasks, as closures and futures, until there are thousands: all run, and none is left behind when the lanes come to rest.
#![cfg(not(twolane_loom))]

mod stress_common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

use stress_common::{Watchdog, builder, scaled};
use twolane::Handle;

/// Two children a task, so many generations.
const GENERATIONS: u32 = 10;

fn spawn(handle: Handle, count: Arc<AtomicUsize>, generations: u32) {
    count.fetch_add(1, Release);
    if generations == 0 {
        return;
    }
    let (again, counts) = (handle.clone(), count.clone());
    drop(handle.spawn_compute(move || spawn(again, counts, generations - 1)));
    let again = handle.clone();
    drop(handle.spawn(async move { spawn(again, count, generations - 1) }));
}

#[test]
fn every_descendant_runs() {
    let rt = builder().build().unwrap();
    let watchdog = Watchdog::new(rt.handle());
    for _ in 0..scaled(100) {
        let count = Arc::new(AtomicUsize::new(0));
        let (handle, counts) = (rt.handle(), count.clone());
        watchdog.join(0, rt.spawn_compute(move || spawn(handle, counts, GENERATIONS)));
        watchdog.until(0, || count.load(Acquire) == (2 << GENERATIONS) - 1);
    }
}

/// The shutdown waits for what tasks spawn.
#[test]
fn a_shutdown_lets_the_storm_pass() {
    for _ in 0..scaled(50) {
        let rt = builder().build().unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let (handle, counts) = (rt.handle(), count.clone());
        drop(rt.spawn_compute(move || spawn(handle, counts, GENERATIONS)));
        rt.shutdown(std::time::Duration::from_secs(20)).unwrap();
        assert_eq!(count.load(Acquire), (2 << GENERATIONS) - 1);
    }
}
