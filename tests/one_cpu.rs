//! On a single cpu everything works, on one shared lane or on an unpinned pair.

mod common;
use common::{LIMIT, SOON, child, is_child, os, within};
use std::time::Duration;
use twolane::{Handle, Placement, PollCx, Progress, Role, Runtime, Where};

/// Keeps this process, and the lanes that it will have, on the first cpu that it may use. Returns that cpu.
fn confine() -> usize {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let cpu = (0..rustix::thread::CpuSet::MAX_CPU).find(|&cpu| allowed.is_set(cpu)).unwrap();
    let mut one = rustix::thread::CpuSet::new();
    one.set(cpu);
    rustix::thread::sched_setaffinity(None, &one).unwrap();
    cpu
}

fn pollers_and_tasks_work(rt: &Handle) {
    let mut polls = 0_u64;
    let poller = rt
        .spawn_poller(Where::Any, "awake", move |cx: &mut PollCx<'_>| {
            polls += 1;
            if polls % 100 == 0 {
                drop(cx.spawn_compute(|| std::hint::black_box(1)));
            }
            Progress::Idle
        })
        .unwrap();
    let quiet = rt.spawn_poller(Where::Any, "quiet", common::quiet()).unwrap();
    for n in 0..200 {
        assert_eq!(rt.spawn_compute(move || n).join().unwrap(), n);
        assert_eq!(rt.block_on(rt.spawn(async move { n })).unwrap().unwrap(), n);
    }
    let inner = rt.clone();
    let nested = rt.spawn_compute(move || inner.spawn_compute(|| 5).join().unwrap());
    assert_eq!(nested.join().unwrap(), 5);
    common::until("both are called", || poller.stats().calls > 1_000 && quiet.stats().calls > 0);
    poller.stop();
    assert!(poller.join().is_ok());
    // Now the lane can park, and both kinds of work wake it.
    for _ in 0..20 {
        let calls = quiet.stats().calls;
        quiet.ring();
        common::until("it is called", || quiet.stats().calls > calls);
        rt.spawn_compute(|| ()).join().unwrap();
    }
}

#[test]
fn auto_is_a_shared_lane_there() {
    if !is_child() {
        return child("auto_is_a_shared_lane_there", &[]);
    }
    within(LIMIT, || {
        let cpu = confine();
        let rt = Runtime::builder().build().unwrap();
        let [lane] = &rt.plan().lanes[..] else { panic!("{}", rt.plan()) };
        assert_eq!((lane.role, lane.cpu), (Role::Shared, Some(cpu)));
        let threads = os::lanes();
        assert_eq!(threads.len(), 1);
        assert_eq!((&*threads[0].name, &*threads[0].allowed), ("twolane-s0", &*cpu.to_string()));
        pollers_and_tasks_work(&rt);
        rt.shutdown(SOON).unwrap();
    });
}

#[test]
fn the_only_shared_lane_does_not_wait_for_itself() {
    if !is_child() {
        return child("the_only_shared_lane_does_not_wait_for_itself", &[]);
    }
    within(LIMIT, || {
        confine();
        let rt = Runtime::builder().build().unwrap();
        let handle = rt.handle();
        let refused = rt.spawn_compute(move || handle.block_on(std::future::pending::<()>()).is_err());
        assert!(refused.join().unwrap());
        let handle = rt.handle();
        let refused = rt.spawn_compute(move || {
            let poller = handle.spawn_poller(Where::Any, "own", common::quiet()).unwrap();
            poller.stop();
            matches!(poller.join(), Err(twolane::PollerError::WouldDeadlock(_)))
        });
        assert!(refused.join().unwrap());
    });
}

#[test]
fn an_unpinned_pair_shares_it() {
    if !is_child() {
        return child("an_unpinned_pair_shares_it", &[]);
    }
    within(LIMIT, || {
        confine();
        let rt = Runtime::builder().placement(Placement::Unpinned).build().unwrap();
        assert_eq!(rt.plan().lanes.len(), 2, "{}", rt.plan());
        pollers_and_tasks_work(&rt);
        rt.shutdown(SOON).unwrap();
    });
}

#[test]
fn placements_that_need_two_say_so() {
    if !is_child() {
        return child("placements_that_need_two_say_so", &[]);
    }
    let cpu = confine();
    for placement in [Placement::Siblings, Placement::WholeCores] {
        let error = Runtime::builder().placement(placement.clone()).build().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("Placement::"), "{placement:?}: {error}");
    }
    let other = if cpu == 0 { 1 } else { 0 };
    let outside = Runtime::builder().placement(Placement::Pairs(vec![(cpu, other)])).build();
    let text = outside.map(|_| ()).unwrap_err().to_string();
    assert!(text.contains(&format!("cpu {other}")) && text.contains(&format!("cpu {cpu}")), "{text}");
}

#[test]
fn long_tasks_and_an_awake_poller_take_turns() {
    if !is_child() {
        return child("long_tasks_and_an_awake_poller_take_turns", &[]);
    }
    within(LIMIT, || {
        confine();
        let rt = Runtime::builder().build().unwrap();
        let poller = rt.spawn_poller(Where::Any, "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        for _ in 0..20 {
            let calls = poller.stats().calls;
            let task = rt.spawn_compute(|| std::thread::sleep(Duration::from_millis(2))); // stands for work
            task.join().unwrap();
            common::until("a pass follows each task", || poller.stats().calls > calls);
        }
    });
}
