//! Hooks are called once a lane, on its thread, with what it is; their panics are contained and counted.

mod common;
use common::{LIMIT, SOON, pairs, within};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};
use twolane::{LaneInfo, Role};

type Seen = Arc<Mutex<Vec<(usize, Role, usize, ThreadId)>>>;

fn record(seen: &Seen) -> impl Fn(&LaneInfo) + Send + Sync + use<> {
    let seen = Arc::clone(seen);
    move |info| {
        let name = thread::current().name().unwrap_or_default().to_owned();
        assert!(name.ends_with(&info.lane().to_string()), "{name}");
        seen.lock().unwrap().push((info.lane(), info.plan.role, info.plan.pair, thread::current().id()));
    }
}

fn sorted(seen: &Seen) -> Vec<(usize, Role, usize, ThreadId)> {
    let mut seen = seen.lock().unwrap().clone();
    seen.sort_by_key(|it| it.0);
    seen
}

#[test]
fn every_lane_is_announced_on_its_own_thread_at_both_ends() {
    within(LIMIT, || {
        let (started, stopped) = (Seen::default(), Seen::default());
        let rt = pairs(2).on_lane_start(record(&started)).on_lane_stop(record(&stopped)).build().unwrap();
        common::until("all have started", || started.lock().unwrap().len() == 4);
        let lanes: Vec<_> = sorted(&started).into_iter().map(|(lane, role, pair, _)| (lane, role, pair)).collect();
        use Role::{Compute, Poll};
        assert_eq!(lanes, [(0, Poll, 0), (1, Compute, 0), (2, Poll, 1), (3, Compute, 1)]);
        let on_lane = rt.spawn_compute(|| thread::current().id()).join().unwrap();
        assert!(sorted(&started).iter().any(|it| it.3 == on_lane));
        assert!(stopped.lock().unwrap().is_empty());
        rt.shutdown(SOON).unwrap();
        assert_eq!(sorted(&stopped), sorted(&started), "the same threads");
    });
}

#[test]
fn the_start_hook_comes_before_any_work_and_the_stop_hook_after_it() {
    thread_local!(static READY: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    within(LIMIT, || {
        let rt = pairs(2)
            .on_lane_start(|_| READY.set(true))
            .on_lane_stop(|_| assert!(READY.replace(false), "called twice, or on another thread"))
            .build()
            .unwrap();
        let work: Vec<_> = (0..1_000).map(|_| rt.spawn_compute(|| READY.get())).collect();
        assert!(work.into_iter().all(|task| task.join().unwrap()));
        let poller = rt.spawn_poller_with(twolane::Where::Any, "ready", |_| {
            assert!(READY.get());
            Ok::<_, twolane::Error>(common::quiet())
        });
        let poller = poller.unwrap();
        common::until("it is adopted", || poller.stats().calls > 0);
        let handle = rt.handle();
        rt.shutdown(SOON).unwrap();
        assert!(handle.metrics().lanes.iter().all(|lane| lane.panics == 0));
    });
}

#[test]
fn a_hook_that_panics_harms_nobody() {
    within(LIMIT, || {
        let rt = pairs(1)
            .on_lane_start(|info| panic!("start of {}", info.lane()))
            .on_lane_stop(|info| panic!("stop of {}", info.lane()))
            .build()
            .unwrap();
        common::until("both are counted", || rt.metrics().lanes.iter().all(|lane| lane.panics == 1));
        assert_eq!(rt.spawn_compute(|| 1).join().unwrap(), 1);
        let handle = rt.handle();
        rt.shutdown(SOON).unwrap();
        assert!(handle.metrics().lanes.iter().all(|lane| lane.panics == 2));
    });
}

#[test]
fn a_hook_may_submit_work() {
    within(LIMIT, || {
        // A hook has no handle of its own runtime before it is built, so this is one that is built already.
        let other = pairs(1).build().unwrap();
        let (handle, ran) = (other.handle(), Arc::new(common::Gate::default()));
        let tell = Arc::clone(&ran);
        let rt = pairs(1)
            .on_lane_stop(move |_| {
                let tell = Arc::clone(&tell);
                drop(handle.spawn_compute(move || tell.open()));
            })
            .build()
            .unwrap();
        rt.shutdown(SOON).unwrap();
        ran.wait();
    });
}
