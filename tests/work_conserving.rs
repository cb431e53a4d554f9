//! No task waits beside an idle cpu: whoever may run it does, however long the compute lane is at work.

mod common;
use common::{Gate, LIMIT, PROMPT, occupy, pairs, parked, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use twolane::{Handle, PollCx, Progress, Runtime, Where, poll_fn};

/// Submits a closure and fails if it does not start while all else stays as it is.
fn starts_promptly(rt: &Handle) {
    let ran = Gate::default();
    let tell = ran.clone();
    drop(rt.spawn_compute(move || tell.open()));
    assert!(ran.opens_within(PROMPT), "a task waited beside an idle lane: {:#?}", rt.metrics());
}

#[test]
fn a_poll_lane_without_pollers_is_a_compute_lane() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        for _ in 0..20 {
            let end = occupy(&rt);
            starts_promptly(&rt);
            end.open();
        }
    });
}

#[test]
fn both_lanes_of_both_pairs_work_at_once() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let busy: Vec<Gate> = (0..3).map(|_| occupy(&rt)).collect(); // each returns only once it has begun
        starts_promptly(&rt);
        busy.iter().for_each(Gate::open);
    });
}

#[test]
fn a_burst_spreads_over_all_lanes() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        for _ in 0..50 {
            // All four must run at the same time for any of them to end.
            let barrier = Arc::new(std::sync::Barrier::new(4));
            let tasks: Vec<_> = (0..4)
                .map(|_| {
                    let barrier = Arc::clone(&barrier);
                    rt.spawn_compute(move || barrier.wait())
                })
                .collect();
            for task in tasks {
                task.join().unwrap();
            }
        }
    });
}

#[test]
fn a_task_that_blocks_lets_others_have_what_it_spawned() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let handle = rt.handle();
        let outer = rt.spawn_compute(move || {
            let ran = Gate::default();
            let tell = ran.clone();
            drop(handle.spawn_compute(move || tell.open()));
            ran.opens_within(PROMPT) // a wait that the runtime knows nothing of
        });
        assert!(outer.join().unwrap());
    });
}

/// Occupies the compute lane: the poll lane may take the closure, too, if its pollers lend it.
fn occupy_lane_1(rt: &Handle) -> Gate {
    loop {
        let (tell, hear) = std::sync::mpsc::channel();
        let end = Gate::default();
        let (handle, wait) = (rt.clone(), end.clone());
        drop(rt.spawn_compute(move || {
            tell.send(handle.current_lane()).unwrap();
            wait.wait();
        }));
        if hear.recv_timeout(LIMIT).unwrap() == Some(1) {
            return end;
        }
        end.open();
    }
}

fn lenders() -> Runtime {
    let rt = pairs(1).build().unwrap();
    for name in ["one", "two"] {
        let quiet = poll_fn(|_| Progress::Idle).ring().lend_while_armed(true);
        let _ = rt.spawn_poller(Where::Lane(0), name, quiet).unwrap();
    }
    common::until("both are adopted", || rt.metrics().lanes[0].pollers == 2);
    rt
}

#[test]
fn a_parked_lane_whose_pollers_all_opted_in_takes_any_task() {
    within(LIMIT, || {
        let rt = lenders();
        let end = occupy_lane_1(&rt);
        for _ in 0..20 {
            parked(&rt, 0);
            starts_promptly(&rt);
        }
        end.open();
    });
}

#[test]
fn it_takes_what_its_own_poller_handed_off_too() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (ask, ran) = (Arc::new(AtomicBool::new(false)), Gate::default());
        let (asked, tell) = (Arc::clone(&ask), ran.clone());
        let poller = poll_fn(move |cx| {
            if asked.swap(false, SeqCst) {
                let tell = tell.clone();
                drop(cx.spawn_compute(move || tell.open()));
                return Progress::Busy(1);
            }
            Progress::Idle
        });
        let poller = rt.spawn_poller(Where::Lane(0), "hands off", poller.ring().lend_while_armed(true)).unwrap();
        common::until("it is adopted", || poller.stats().calls > 0);
        let end = occupy_lane_1(&rt);
        parked(&rt, 0);
        ask.store(true, SeqCst);
        poller.ring();
        assert!(ran.opens_within(PROMPT), "its sibling is at work, and it is idle: {:#?}", rt.metrics());
        end.open();
    });
}

#[test]
fn one_poller_that_did_not_opt_in_is_not_delayed() {
    within(LIMIT, || {
        let rt = lenders();
        let strict = common::keep_for_polling(&rt, 0);
        let end = occupy(&rt);
        let long = rt.spawn_compute(|| std::thread::sleep(Duration::from_millis(300))); // the time that it would cost
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            let (calls, began) = (strict.stats().calls, Instant::now());
            strict.ring();
            common::until("it is called", || strict.stats().calls > calls);
            slowest = slowest.max(began.elapsed());
        }
        assert!(!long.is_finished() && rt.metrics().lanes[0].lent_tasks == 0, "it was lent");
        assert!(slowest < Duration::from_millis(250), "{slowest:?}");
        end.open();
        long.join().unwrap();
    });
}

#[test]
fn an_awake_poll_lane_takes_no_task_that_may_be_long() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let poller = rt.spawn_poller(Where::Lane(0), "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        common::until("it is adopted", || poller.stats().calls > 0);
        let end = occupy(&rt);
        let task = rt.spawn_compute(|| ());
        let calls = poller.stats().calls;
        common::until("many passes went by", || poller.stats().calls > calls + 10_000);
        assert!(!task.is_finished(), "nothing is known of its kind");
        end.open();
        task.join().unwrap();
    });
}

#[test]
fn long_tasks_do_not_come_between_two_calls_of_an_awake_poller() {
    const TASK: Duration = Duration::from_millis(400);
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let slowest = Arc::new(std::sync::Mutex::new(Duration::ZERO));
        let (gap, mut last) = (Arc::clone(&slowest), None::<Instant>);
        let poller = rt
            .spawn_poller(Where::Lane(0), "io", move |_: &mut PollCx<'_>| {
                let now = Instant::now();
                if let Some(last) = last.replace(now) {
                    let mut slowest = gap.lock().unwrap();
                    *slowest = slowest.max(now - last);
                }
                Progress::Idle
            })
            .unwrap();
        common::until("it is adopted", || poller.stats().calls > 0);
        let tasks: Vec<_> = (0..5)
            .map(|_| {
                rt.spawn_compute(|| {
                    let began = Instant::now();
                    while began.elapsed() < TASK {
                        std::hint::spin_loop();
                    }
                })
            })
            .collect();
        tasks.into_iter().for_each(|task| task.join().unwrap());
        let slowest = *slowest.lock().unwrap();
        assert!(slowest < TASK / 2, "a gap of {slowest:?}: what the kernel takes is far less");
        assert_eq!(rt.metrics().lanes[0].tasks, 0);
    });
}

#[test]
fn shared_lanes_that_poll_take_each_others_tasks() {
    within(LIMIT, || {
        let rt = common::shared(2).build().unwrap();
        let pollers: Vec<_> = (0..2)
            .map(|lane| rt.spawn_poller(Where::Lane(lane), "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap())
            .collect();
        common::until("they are adopted", || pollers.iter().all(|poller| poller.stats().calls > 0));
        for _ in 0..20 {
            let handle = rt.handle();
            let outer = rt.spawn_compute(move || {
                let ran = Gate::default();
                let tell = ran.clone();
                drop(handle.spawn_compute(move || tell.open()));
                ran.opens_within(PROMPT) // the other lane has to take it from this one's queue
            });
            assert!(outer.join().unwrap());
        }
    });
}

#[test]
fn a_kind_that_is_known_to_be_short_is_lent_by_an_awake_poll_lane() {
    within(LIMIT, || {
        let rt = pairs(1).max_added(Duration::from_millis(10)).build().unwrap();
        let poller = rt.spawn_poller(Where::Lane(0), "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        common::until("it is adopted", || poller.stats().calls > 0);
        let short = || rt.spawn_compute(|| std::hint::black_box(7));
        // Many, of which few wake this thread: on a loaded machine a task that does is counted with what the kernel then runs in between.
        let known: Vec<_> = (0..5_000).map(|_| short()).collect();
        known.into_iter().for_each(|task| _ = task.join().unwrap());
        let end = occupy(&rt);
        for _ in 0..20 {
            let task = short();
            common::until("it ran beside the pollers", || task.is_finished());
        }
        let lane = &rt.metrics().lanes[0];
        assert!(lane.lent_tasks >= 20, "{lane:?}");
        end.open();
    });
}

#[test]
fn a_long_task_on_offer_does_not_hide_the_short_ones_behind_it() {
    within(LIMIT, || {
        let rt = pairs(1).max_added(Duration::from_millis(10)).build().unwrap();
        let poller = rt.spawn_poller(Where::Lane(0), "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        common::until("it is adopted", || poller.stats().calls > 0);
        let short = || rt.spawn_compute(|| std::hint::black_box(7));
        // Many, of which few wake this thread: on a loaded machine a task that does is counted with what the kernel then runs in between.
        let known: Vec<_> = (0..5_000).map(|_| short()).collect();
        known.into_iter().for_each(|task| _ = task.join().unwrap());
        let end = occupy(&rt);
        let unknown = rt.spawn_compute(|| std::hint::black_box(8));
        let shorts: Vec<_> = (0..20).map(|_| short()).collect();
        common::until("the short ones ran", || shorts.iter().all(twolane::JoinHandle::is_finished));
        assert!(!unknown.is_finished());
        end.open();
        unknown.join().unwrap();
    });
}

#[test]
fn a_task_put_back_is_not_forgotten_when_the_compute_lane_has_gone_to_sleep() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let poller = rt.spawn_poller(Where::Lane(0), "awake", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
        common::until("it is adopted", || poller.stats().calls > 0);
        for n in 0..3_000_u32 {
            // Ends at about the moment at which the poll lane looks at the second one.
            let first = rt.spawn_compute(move || (0..n % 97 * 100).for_each(|n| _ = std::hint::black_box(n)));
            let second = Gate::default();
            let tell = second.clone();
            drop(rt.spawn_compute(move || tell.open()));
            assert!(second.opens_within(PROMPT), "round {n}: a task waits beside a sleeping lane");
            first.join().unwrap();
        }
    });
}
