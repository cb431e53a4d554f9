//! Runtimes live side by side, inside each other's tasks, and serve each other, each within its own lanes.

mod common;
use common::{LIMIT, SOON, Signal, one_compute_lane, os, pairs, within};
use twolane::{Handle, PollCx, Progress, Where};

#[test]
fn two_side_by_side_know_their_own_lanes() {
    within(LIMIT, || {
        let (one, two) = (pairs(1).build().unwrap(), pairs(2).build().unwrap());
        let (first, second) = (one.handle(), two.handle());
        let seen = one.spawn_compute(move || (first.current_lane().is_some(), second.current_lane())).join().unwrap();
        assert_eq!(seen, (true, None), "a lane of one is a stranger to the other");
        let (first, second) = (one.handle(), two.handle());
        let through = one.spawn(async move {
            let answer = second.spawn(async move { first.spawn_compute(|| 3).await.unwrap() + 1 });
            answer.await.unwrap() + 1
        });
        assert_eq!(one.block_on(through).unwrap().unwrap(), 5);
        one.shutdown(SOON).unwrap();
        assert_eq!(two.spawn_compute(|| 1).join().unwrap(), 1, "the other one lives on");
    });
}

#[test]
fn a_runtime_lives_and_dies_inside_a_task_of_another() {
    within(LIMIT, || {
        let outer = one_compute_lane();
        let task = outer.spawn_compute(|| {
            let inner = pairs(1).thread_name("inner").build().unwrap();
            // On the last compute lane of the outer one: a wait is refused, but shutting down is not waiting for a task.
            let queued: Vec<_> = (0..100).map(|n| inner.spawn_compute(move || n)).collect();
            let poller = inner.spawn_poller(Where::Any, "inner", |cx: &mut PollCx<'_>| match cx.stopping() {
                true => Progress::Done,
                false => Progress::Busy(1),
            });
            inner.shutdown(SOON).unwrap();
            assert!(poller.unwrap().join().is_ok());
            queued.into_iter().map(|task| task.join().unwrap()).sum::<u32>()
        });
        assert_eq!(task.join().unwrap(), 4_950);
        common::until("its lanes are gone", || os::named("inner-").is_empty());
    });
}

#[test]
fn a_poller_of_one_hands_work_to_the_other() {
    within(LIMIT, || {
        let (one, two) = (pairs(1).build().unwrap(), pairs(1).build().unwrap());
        let (there, mut pending) = (two.handle(), None::<twolane::JoinHandle<bool>>);
        let poller = one
            .spawn_poller(Where::Any, "sends away", move |_: &mut PollCx<'_>| {
                let on = there.clone();
                let task = pending.get_or_insert_with(|| there.spawn_compute(move || on.current_lane().is_some()));
                if !task.is_finished() {
                    return Progress::Idle;
                }
                assert!(pending.take().unwrap().join().unwrap(), "it ran on a lane of the other");
                Progress::Done
            })
            .unwrap();
        assert!(poller.join().is_ok());
    });
}

#[test]
fn wakes_cross_from_one_to_the_other() {
    within(LIMIT, || {
        let (one, two) = (pairs(1).build().unwrap(), pairs(1).build().unwrap());
        for _ in 0..500 {
            let signal = Signal::default();
            let waits = one.spawn(signal.clone());
            let sets = two.spawn_compute(move || signal.set());
            sets.join().unwrap();
            waits.join().unwrap();
        }
    });
}

#[test]
fn joins_across_runtimes_do_not_hang() {
    within(LIMIT, || {
        fn bounce(here: Handle, there: Handle, left: u32) -> u32 {
            if left == 0 {
                return 0;
            }
            let (next_here, next_there) = (there.clone(), here.clone());
            let task = there.spawn_compute(move || bounce(next_here, next_there, left - 1));
            // Each waits for the other's lane as long as another lane of its own is left; else it is told, and lets go.
            task.join().map_or(1_000, |depth| depth + 1)
        }
        for pair in 1..=2 {
            let (one, two) = (pairs(pair).build().unwrap(), pairs(pair).build().unwrap());
            for _ in 0..50 {
                let (here, there) = (one.handle(), two.handle());
                assert!(one.spawn_compute(move || bounce(here, there, 10)).join().unwrap() > 0);
            }
        }
    });
}

#[test]
fn many_come_and_go() {
    within(3 * LIMIT, || {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(|| {
                    for n in 0..20 {
                        let rt = pairs(1).build().unwrap();
                        assert_eq!(rt.spawn_compute(move || n).join().unwrap(), n);
                        if n % 2 == 0 { rt.shutdown(SOON).unwrap() } else { drop(rt) }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
