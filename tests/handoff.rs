//! What a poller hands off reaches the compute lane of its pair, and costs at most one wake a pass.

mod common;
use common::{Gate, LIMIT, Signal, keep_for_polling, pairs, parked, within};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use twolane::{Handle, PollCx, PollerHandle, Progress, RejectedBecause, Where, poll_fn};

/// A poller that does `work` once each time the returned function is called.
fn on_demand(
    rt: &Handle,
    mut work: impl FnMut(&mut PollCx<'_>) + Send + 'static,
) -> (PollerHandle<impl Send>, impl Fn()) {
    let asked = Arc::new(AtomicU32::new(0));
    let look = Arc::clone(&asked);
    let poller = poll_fn(move |cx| {
        let times = look.swap(0, SeqCst);
        (0..times).for_each(|_| work(cx));
        if times > 0 { Progress::Busy(times) } else { Progress::Idle }
    });
    let poller = rt.spawn_poller(Where::Lane(0), "on demand", poller.ring()).unwrap();
    common::until("it is adopted", || poller.stats().calls > 0);
    let rings = rt.spawn_poller(Where::Lane(0), "rings", common::quiet()).unwrap();
    let ask = move || {
        asked.fetch_add(1, SeqCst);
        rings.ring();
    };
    (poller, ask)
}

#[test]
fn closures_and_futures_run_on_the_sibling() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (tell, hear) = channel();
        let handle = rt.handle();
        let mut next = 0;
        let (_poller, ask) = on_demand(&rt, move |cx| {
            for _ in 0..10 {
                let (tell, handle, n) = (tell.clone(), handle.clone(), next);
                next += 1;
                match n % 2 {
                    0 => drop(cx.spawn_compute(move || tell.send((n, handle.current_lane())).unwrap())),
                    _ => drop(cx.spawn(async move { tell.send((n, handle.current_lane())).unwrap() })),
                }
            }
        });
        for round in 0..20 {
            ask();
            let mut came: Vec<_> = (0..10).map(|_| hear.recv_timeout(LIMIT).unwrap()).collect();
            came.sort();
            assert_eq!(came, (round * 10..(round + 1) * 10).map(|n| (n, Some(1))).collect::<Vec<_>>());
        }
        assert_eq!(rt.metrics().lanes[0].hand_offs, 200);
    });
}

#[test]
fn the_output_comes_back_to_the_poller_through_the_handle() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let mut pending: Option<twolane::JoinHandle<u64>> = None;
        let poller = rt
            .spawn_poller(Where::Any, "waits", move |cx: &mut PollCx<'_>| {
                let handle = pending.get_or_insert_with(|| cx.spawn_compute(|| 6 * 7));
                if !handle.is_finished() {
                    return Progress::Idle;
                }
                // A finished task is no wait, so this is allowed here.
                assert_eq!(pending.take().unwrap().join().unwrap(), 42);
                Progress::Done
            })
            .unwrap();
        assert!(poller.join().is_ok());
    });
}

#[test]
fn a_pass_wakes_at_most_once_however_much_it_hands_off() {
    within(LIMIT, || {
        let rt = pairs(1).linger_max(std::time::Duration::ZERO).build().unwrap();
        let done = Arc::new(AtomicU64::new(0));
        let counts = Arc::clone(&done);
        let wakes_within = Arc::new(Mutex::new(Vec::new()));
        let (log, handle) = (Arc::clone(&wakes_within), rt.handle());
        let (_poller, ask) = on_demand(&rt, move |cx| {
            let before = handle.metrics().lanes[1].wakes;
            for n in 0..30 {
                let counts = Arc::clone(&counts);
                let work = move || {
                    counts.fetch_add(1, SeqCst);
                };
                match n % 3 {
                    0 => drop(cx.spawn_compute(work)),
                    1 => drop(handle.spawn_compute(work)), // a `Handle` inside a pass is the same thing
                    _ => drop(handle.spawn(async move { work() })),
                }
            }
            log.lock().unwrap().push(handle.metrics().lanes[1].wakes - before);
        });
        for round in 1..=20 {
            parked(&rt, 1);
            let before = rt.metrics().lanes[1].wakes;
            ask();
            common::until("all have run", || done.load(SeqCst) == round * 30);
            // Counted by the waker after its system call, so perhaps a moment later.
            common::until("the wake is counted", || rt.metrics().lanes[1].wakes > before);
            assert_eq!(rt.metrics().lanes[1].wakes - before, 1, "one lane slept, one wake");
        }
        assert!(wakes_within.lock().unwrap().iter().all(|&wakes| wakes == 0), "a wake from inside a pass");
    });
}

#[test]
fn a_waker_used_inside_a_pass_hands_its_future_off() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let wakers: Arc<Mutex<Vec<Waker>>> = Arc::default();
        let take = Arc::clone(&wakers);
        let (_poller, ask) = on_demand(&rt, move |_| take.lock().unwrap().drain(..).for_each(Waker::wake));
        for _ in 0..50 {
            let signal = Signal::default();
            let waits = signal.clone();
            let task = rt.spawn(async move {
                waits.await;
                9
            });
            common::until("it waits", || signal.wakers().len() == 1);
            parked(&rt, 1);
            let late = signal.wakers();
            wakers.lock().unwrap().extend(late);
            // Ready, but told by nobody else than the poller.
            signal.set_silently();
            ask();
            assert_eq!(task.join().unwrap(), 9);
        }
    });
}

#[test]
fn two_pairs_steal_from_each_other_when_the_sibling_is_at_work() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        keep_for_polling(&rt, 2);
        let (tell, hear) = channel();
        let handle = rt.handle();
        let (_poller, ask) = on_demand(&rt, move |cx| {
            let (tell, handle) = (tell.clone(), handle.clone());
            drop(cx.spawn_compute(move || {
                let end = Gate::default();
                tell.send((handle.current_lane().unwrap(), end.clone())).unwrap();
                end.wait();
            }));
        });
        ask();
        let first = hear.recv_timeout(LIMIT).unwrap();
        ask();
        let second = hear.recv_timeout(LIMIT).unwrap();
        assert!(
            first.0 != second.0 && [1, 3].contains(&first.0) && [1, 3].contains(&second.0),
            "{} {}",
            first.0,
            second.0
        );
        first.1.open();
        second.1.open();
    });
}

#[test]
fn a_full_backlog_gives_the_work_back_to_the_poller() {
    const MAX: usize = 3;
    within(LIMIT, || {
        let rt = pairs(1).backlog_max(MAX).build().unwrap();
        keep_for_polling(&rt, 0);
        let end = common::occupy(&rt);
        let (tell, hear) = channel();
        let (_poller, ask) = on_demand(&rt, move |cx| {
            let refused = (0..10).filter_map(|n| cx.try_spawn_compute(move || n).err());
            let refused: Vec<_> = refused.map(|refused| (refused.because(), refused.into_inner()())).collect();
            tell.send(refused).unwrap();
        });
        ask();
        let refused = hear.recv_timeout(LIMIT).unwrap();
        assert!(refused.iter().all(|(because, _)| *because == RejectedBecause::Full { backlog_max: MAX }));
        let numbers: Vec<i32> = refused.iter().map(|(_, n)| *n).collect();
        // The hand-off slot is not counted: it is a place at the sibling.
        assert!(numbers == [3, 4, 5, 6, 7, 8, 9] || numbers == [4, 5, 6, 7, 8, 9], "{numbers:?}");
        end.open();
    });
}
