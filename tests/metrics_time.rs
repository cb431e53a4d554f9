//! `busy + empty + dozing` is the cpu time of the lane's thread as its own clock tells it, to within 2 %, whatever the lane does.

mod common;
use common::{LIMIT, keep_for_polling, os, pairs, parked, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};
use twolane::{LaneMetrics, PollCx, Progress, Relief, Runtime, Where, poll_fn};

/// Long enough for 2 % to be more than the grain of the clocks and the window in which the metrics are settled.
const RUN: Duration = Duration::from_millis(1_500);

fn on_cpu(lane: &LaneMetrics) -> Duration {
    lane.busy + lane.empty + lane.dozing
}

/// Runs something for a while and compares the two clocks' differences for each of its lanes.
fn agree(what: &str, name: &str, rt: &Runtime, run: impl FnOnce(&Runtime)) {
    let look = || {
        // Both clocks at one moment, as far as that goes: the thread's own clock is read before and after.
        let tids: Vec<i32> = threads(name).into_iter().map(|(_, tid)| tid).collect();
        let before: Vec<Duration> = tids.iter().map(|&tid| os::cpu_time(tid)).collect();
        let metrics = rt.metrics().lanes;
        let after: Vec<Duration> = tids.iter().map(|&tid| os::cpu_time(tid)).collect();
        let middle: Vec<Duration> = before.iter().zip(after).map(|(&before, after)| (before + after) / 2).collect();
        (metrics, middle)
    };
    let (metrics, clocks) = look();
    let began = Instant::now();
    run(rt);
    let compare = || {
        let (metrics_now, clocks_now) = look();
        let wall = began.elapsed();
        let compare = |lane: usize| {
            let (from, to) = (&metrics[lane], &metrics_now[lane]);
            let ours = on_cpu(to) - on_cpu(from);
            let kernels = clocks_now[lane] - clocks[lane];
            // A lane that parks nearly all the time has used too little to speak of per cent: there 2 % of 50 ms.
            let allowed = kernels.max(Duration::from_millis(50)) / 50;
            if ours.abs_diff(kernels) > allowed {
                return Err(format!(
                    "lane {lane}: metrics {ours:?}, clock {kernels:?}, wall {wall:?}\nfrom {from:#?}\nto {to:#?}"
                ));
            }
            let all = ours + (to.parked - from.parked) + (to.preempted - from.preempted);
            if all.abs_diff(wall) > wall / 20 {
                return Err(format!("lane {lane}: all times add up to {all:?} of {wall:?}"));
            }
            Ok(())
        };
        (0..metrics.len()).try_for_each(compare)
    };
    // A lane that is kept from its cpu has not booked the time yet when somebody looks; what is wrong stays wrong.
    let late = Instant::now() + LIMIT / 4;
    while let Err(why) = compare() {
        assert!(Instant::now() < late, "{what}, {why}");
        thread::sleep(Duration::from_millis(5)); // paces the looks, orders nothing
    }
}

/// Lane number and thread of each lane, by lane.
fn threads(name: &str) -> Vec<(usize, i32)> {
    let mut threads: Vec<(usize, i32)> = os::named(name)
        .into_iter()
        .map(|thread| (thread.name.rsplit(['p', 'c', 's']).next().unwrap().parse().unwrap(), thread.tid))
        .collect();
    threads.sort();
    threads
}

fn spin(time: Duration) {
    let began = Instant::now();
    while began.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn while_it_polls() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("t1").relief(Relief::Off).build().unwrap();
        let _poller = rt.spawn_poller(Where::Any, "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        thread::sleep(Duration::from_millis(50));
        agree("polling", "t1-", &rt, |_| thread::sleep(RUN));
        let lane = &rt.metrics().lanes[0];
        assert!(lane.empty > lane.busy + lane.dozing, "{lane:#?}");
    });
}

#[test]
fn while_it_dozes() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("t2").relief(Relief::Always).build().unwrap();
        let _poller = rt.spawn_poller(Where::Any, "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        thread::sleep(Duration::from_millis(50));
        agree("dozing", "t2-", &rt, |_| thread::sleep(RUN));
        let lane = &rt.metrics().lanes[0];
        // How many is the controller's affair, and that of those who take the cpu from this test: there was something to book.
        assert!(lane.dozing > Duration::ZERO && lane.dozes > 0, "{lane:#?}");
    });
}

#[test]
fn while_it_finds_events_and_runs_tasks() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("t3").build().unwrap();
        let mut calls = 0_u64;
        let _poller = rt.spawn_poller(Where::Any, "busy at times", move |_: &mut PollCx<'_>| {
            calls += 1;
            if calls % 10 == 0 {
                spin(Duration::from_micros(20));
                return Progress::Busy(1);
            }
            Progress::Idle
        });
        thread::sleep(Duration::from_millis(50));
        agree("events and tasks", "t3-", &rt, |rt| {
            let began = Instant::now();
            while began.elapsed() < RUN {
                rt.spawn_compute(|| spin(Duration::from_micros(300))).join().unwrap();
            }
        });
        let lanes = rt.metrics().lanes;
        assert!(lanes[0].busy > Duration::ZERO && lanes[0].tasks_time.is_zero(), "{:#?}", lanes[0]);
        assert!(lanes[1].tasks_time > Duration::ZERO && lanes[1].busy >= lanes[1].tasks_time, "{:#?}", lanes[1]);
    });
}

#[test]
fn while_it_parks_and_is_woken_all_the_time() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("t4").park_after(Duration::from_micros(1)).build().unwrap();
        let mail = Arc::new(AtomicBool::new(false));
        let look = Arc::clone(&mail);
        let poller = poll_fn(move |_| if look.swap(false, AcqRel) { Progress::Busy(1) } else { Progress::Idle });
        let poller = rt.spawn_poller(Where::Any, "rung", poller.ring()).unwrap();
        thread::sleep(Duration::from_millis(50));
        agree("parks", "t4-", &rt, |rt| {
            let began = Instant::now();
            while began.elapsed() < RUN {
                mail.store(true, Release);
                poller.ring();
                rt.spawn_compute(|| spin(Duration::from_micros(30))).join().unwrap();
                thread::sleep(Duration::from_micros(200)); // lets them park
            }
        });
        assert!(rt.metrics().lanes.iter().all(|lane| lane.parks > 0), "{:#?}", rt.metrics());
    });
}

#[test]
fn while_it_is_parked_for_good() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("t5").build().unwrap();
        let _poller = keep_for_polling(&rt, 0);
        parked(&rt, 0);
        parked(&rt, 1);
        agree("parked", "t5-", &rt, |_| thread::sleep(RUN / 3));
        let before = rt.metrics().lanes;
        thread::sleep(Duration::from_millis(100));
        for (lane, before) in rt.metrics().lanes.iter().zip(before) {
            assert!(lane.parked - before.parked >= Duration::from_millis(95), "an open park counts: {lane:#?}");
            assert_eq!(on_cpu(lane), on_cpu(&before));
        }
    });
}

#[test]
fn while_it_does_all_of_that_on_a_shared_lane() {
    within(LIMIT, || {
        let rt = common::shared(1).thread_name("t6").build().unwrap();
        let poller = rt.spawn_poller(Where::Any, "quiet", common::quiet()).unwrap();
        thread::sleep(Duration::from_millis(50));
        agree("shared", "t6-", &rt, |rt| {
            let began = Instant::now();
            while began.elapsed() < RUN {
                poller.ring();
                rt.spawn_compute(|| spin(Duration::from_micros(200))).join().unwrap();
                thread::sleep(Duration::from_micros(400)); // lets it doze and park
            }
        });
    });
}

#[test]
fn while_a_task_sleeps() {
    within(LIMIT, || {
        let rt = pairs(1).thread_name("t7").build().unwrap();
        let _poller = keep_for_polling(&rt, 0);
        agree("a task that blocks", "t7-", &rt, |rt| {
            for _ in 0..10 {
                rt.spawn_compute(|| thread::sleep(Duration::from_millis(100))).join().unwrap(); // blocks in the kernel
            }
            parked(rt, 1); // a task is booked when it has ended
        });
    });
}
