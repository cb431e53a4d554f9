//! Closures and futures that are submitted run once, on a lane, and give their output to the handle.

mod common;
use common::{LIMIT, pairs, until, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use twolane::Handle;

#[test]
fn a_closure_gives_its_output_to_the_handle() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        assert_eq!(rt.spawn_compute(|| 40 + 2).join().unwrap(), 42);
        let text = String::from("moved in and out");
        assert_eq!(rt.spawn_compute(move || text + "!").join().unwrap(), "moved in and out!");
    });
}

#[test]
fn work_runs_on_a_lane_and_not_on_the_caller() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let handle = rt.handle();
        assert_eq!(rt.current_lane(), None, "this thread is no lane");
        assert!(rt.spawn_compute(move || handle.current_lane()).join().unwrap().is_some());
        let handle = rt.handle();
        assert!(rt.block_on(rt.spawn(async move { handle.current_lane() })).unwrap().unwrap().is_some());
    });
}

#[test]
fn a_future_awaits_others_and_its_handle_is_a_future() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let handle = rt.handle();
        let sum = rt.spawn(async move {
            let left = handle.spawn(async { 1 });
            let right = handle.spawn_compute(|| 2);
            left.await.unwrap() + right.await.unwrap()
        });
        assert_eq!(rt.block_on(sum).unwrap().unwrap(), 3);
    });
}

#[test]
fn tasks_spawn_tasks_without_end_of_depth() {
    fn tree(handle: &Handle, depth: u32, leaves: &Arc<AtomicUsize>) {
        if depth == 0 {
            leaves.fetch_add(1, SeqCst);
            return;
        }
        for _ in 0..2 {
            let (next, leaves) = (handle.clone(), Arc::clone(leaves));
            drop(handle.spawn_compute(move || tree(&next, depth - 1, &leaves)));
        }
    }
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let leaves = Arc::new(AtomicUsize::new(0));
        tree(&rt, 10, &leaves);
        until("every leaf of the tree has run", || leaves.load(SeqCst) == 1 << 10);
    });
}

#[test]
fn every_one_of_many_submissions_from_many_threads_runs_once() {
    const THREADS: usize = 8;
    const EACH: usize = 2_000;
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let runs: Arc<Vec<AtomicUsize>> = Arc::new((0..THREADS * EACH).map(|_| AtomicUsize::new(0)).collect());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (rt, runs) = (rt.handle(), Arc::clone(&runs));
                scope.spawn(move || {
                    let handles: Vec<_> = (0..EACH)
                        .map(|n| {
                            let (runs, n) = (Arc::clone(&runs), thread * EACH + n);
                            rt.spawn_compute(move || runs[n].fetch_add(1, SeqCst))
                        })
                        .collect();
                    for handle in handles {
                        assert_eq!(handle.join().unwrap(), 0, "it had run before");
                    }
                });
            }
        });
        assert!(runs.iter().all(|runs| runs.load(SeqCst) == 1));
    });
}

#[test]
fn a_panic_comes_out_of_the_handle_and_the_lane_lives() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let error = rt.spawn_compute(|| -> u8 { panic!("seven {}", 7) }).join().unwrap_err();
        assert!(error.is_panic() && !error.is_cancelled(), "{error}");
        assert!(error.to_string().contains("seven 7"), "{error}");
        let error = rt.block_on(rt.spawn(async { std::panic::panic_any(7_u8) })).unwrap().unwrap_err();
        assert_eq!(error.into_panic().downcast_ref(), Some(&7_u8));
        drop(rt.spawn_compute(|| panic!("nobody hears this one")));
        until("all three are counted", || rt.metrics().lanes.iter().map(|lane| lane.panics).sum::<u64>() == 3);
        assert_eq!(rt.spawn_compute(|| 1).join().unwrap(), 1);
    });
}
