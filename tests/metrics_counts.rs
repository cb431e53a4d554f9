//! Counters only grow, agree with what was done, and can be read all the time without harm.

mod common;
use common::{LIMIT, SOON, keep_for_polling, pairs, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use twolane::{Handle, LaneMetrics, PollCx, Progress, Where};

/// Everything that must never fall, in one list.
fn growing(lane: &LaneMetrics) -> Vec<(&'static str, u64)> {
    let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
    vec![
        ("busy", ns(lane.busy)),
        ("empty", ns(lane.empty)),
        ("dozing", ns(lane.dozing)),
        ("preempted", ns(lane.preempted)),
        ("tasks_time", ns(lane.tasks_time)),
        ("passes", lane.passes),
        ("busy_passes", lane.busy_passes),
        ("events", lane.events),
        ("dozes", lane.dozes),
        ("doze_false_wakes", lane.doze_false_wakes),
        ("parks", lane.parks),
        ("park_refusals", lane.park_refusals),
        ("fruitless_parks", lane.fruitless_parks),
        ("misses.doze", lane.misses.doze),
        ("misses.lent", lane.misses.lent),
        ("misses.preempted", lane.misses.preempted),
        ("misses.slow_poller", lane.misses.slow_poller),
        ("relief_withheld", lane.relief_withheld),
        ("tasks", lane.tasks),
        ("lent_tasks", lane.lent_tasks),
        ("hand_offs", lane.hand_offs),
        ("steals", lane.steals),
        ("lingers", lane.lingers),
        ("panics", lane.panics),
        ("wakes", lane.wakes),
    ]
}

fn consistent(rt: &Handle, submitted: u64) {
    let metrics = rt.metrics();
    for lane in &metrics.lanes {
        assert!(lane.busy_passes <= lane.passes, "{lane:#?}");
        assert!(lane.lent_tasks <= lane.tasks, "{lane:#?}");
        assert!(lane.tasks_time <= lane.busy + Duration::from_millis(5), "{lane:#?}"); // published one after the other
        assert!((0.0..=1.0).contains(&lane.duty()), "{lane:#?}");
    }
    assert!(metrics.injected as u64 <= submitted && metrics.lanes.len() == 4, "{metrics:#?}");
}

#[test]
fn they_only_grow_and_a_tight_loop_of_readers_harms_nobody() {
    const TASKS: u64 = 20_000;
    within(3 * LIMIT, || {
        let rt = pairs(2).build().unwrap();
        keep_for_polling(&rt, 0);
        let mut calls = 0_u32;
        let hands_off = rt
            .spawn_poller(Where::Lane(2), "hands off", move |cx: &mut PollCx<'_>| {
                calls += 1;
                if calls % 50 == 0 {
                    drop(cx.spawn_compute(|| std::hint::black_box(1)));
                    return Progress::Busy(1);
                }
                Progress::Idle
            })
            .unwrap();
        let done = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let (rt, done) = (rt.handle(), Arc::clone(&done));
                std::thread::spawn(move || {
                    let mut last: Vec<_> = rt.metrics().lanes.iter().map(growing).collect();
                    let (mut reads, mut age) = (0_u64, Duration::ZERO);
                    while !done.load(SeqCst) || reads < 100 {
                        let metrics = rt.metrics();
                        let now: Vec<_> = metrics.lanes.iter().map(growing).collect();
                        for (lane, (before, after)) in last.iter().zip(&now).enumerate() {
                            for (before, after) in before.iter().zip(after) {
                                assert!(
                                    before.1 <= after.1,
                                    "lane {lane}: {} fell from {} to {}",
                                    before.0,
                                    before.1,
                                    after.1
                                );
                            }
                        }
                        assert!(metrics.age >= age);
                        consistent(&rt, TASKS);
                        (last, age, reads) = (now, metrics.age, reads + 1);
                    }
                })
            })
            .collect();
        let tasks: Vec<_> = (0..TASKS / 2).map(|n| (rt.spawn_compute(move || n), rt.spawn(async move { n }))).collect();
        for (n, (closure, future)) in (0..).zip(tasks) {
            assert_eq!((closure.join().unwrap(), future.join().unwrap()), (n, n));
        }
        done.store(true, SeqCst);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        hands_off.stop();
        drop(hands_off.join());
        let handle = rt.handle();
        rt.shutdown(SOON).unwrap();
        // At the end all is counted: each submission ran once.
        let lanes = handle.metrics().lanes;
        let sum = |of: fn(&LaneMetrics) -> u64| lanes.iter().map(of).sum::<u64>();
        assert_eq!(sum(|lane| lane.tasks), TASKS + sum(|lane| lane.hand_offs), "{lanes:#?}");
        assert_eq!((sum(|lane| lane.panics), sum(|lane| lane.pollers)), (0, 0));
        assert_eq!(sum(|lane| lane.events), sum(|lane| lane.hand_offs));
    });
}

#[test]
fn they_count_what_was_done() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        keep_for_polling(&rt, 0);
        let age = rt.metrics().age;
        for _ in 0..10 {
            rt.spawn_compute(|| ()).join().unwrap();
        }
        // The lane counts a task after it has told the handle.
        common::until("all are counted", || rt.metrics().lanes[1].tasks == 10);
        assert_eq!(rt.metrics().lanes[0].tasks, 0);
        let signal = common::Signal::default();
        let waits = rt.spawn(signal.clone());
        common::until("it waits", || signal.wakers().len() == 1);
        assert_eq!((rt.metrics().live_futures, rt.metrics().live_pollers), (1, 1));
        common::until("its poll is counted", || rt.metrics().lanes[1].tasks == 11);
        signal.set();
        waits.join().unwrap();
        common::until("so is its second poll", || rt.metrics().lanes[1].tasks == 12);
        assert_eq!(rt.metrics().live_futures, 0);
        assert!(rt.metrics().age > age);
        let end = common::occupy(&rt);
        let queued: Vec<_> = (0..7).map(|_| rt.spawn_compute(|| ())).collect();
        assert_eq!(rt.metrics().injected, 7);
        end.open();
        queued.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(rt.metrics().injected, 0);
        let lane = &rt.metrics().lanes[1];
        assert!(lane.parks > 0 && lane.parked > Duration::ZERO && lane.wakes > 0, "{lane:#?}");
    });
}

#[test]
fn misses_name_their_cause() {
    within(LIMIT, || {
        let rt = pairs(1).max_added(Duration::from_micros(50)).build().unwrap();
        let slow = rt.spawn_poller(Where::Lane(0), "slow", |_: &mut PollCx<'_>| {
            std::thread::sleep(Duration::from_millis(1)); // stands for work
            Progress::Idle
        });
        let slow = slow.unwrap();
        common::until("it is called", || slow.stats().calls > 20);
        assert_eq!(rt.metrics().lanes[0].misses.slow_poller, 0, "alone it delays nobody but itself");
        keep_for_polling(&rt, 0);
        common::until("a neighbour suffers", || rt.metrics().lanes[0].misses.slow_poller > 10);
        assert_eq!(rt.metrics().lanes[0].misses.lent, 0);
    });
}
