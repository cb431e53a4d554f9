//! A task that joins another one which is still queued runs it right there: with one compute lane, this is the only way to its output.

mod common;
use common::{LIMIT, one_compute_lane, within};
use std::thread;
use twolane::Handle;

#[test]
fn a_queued_closure_runs_inside_the_join() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let handle = rt.handle();
        let outer = rt.spawn_compute(move || {
            let inner = handle.spawn_compute(thread::current);
            inner.join().unwrap().id() == thread::current().id()
        });
        assert!(outer.join().unwrap(), "there is one compute lane, and the closure ran on another thread");
    });
}

#[test]
fn a_queued_future_that_does_not_wait_runs_inside_the_join() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let handle = rt.handle();
        let outer = rt.spawn(async move { handle.spawn(async { 7 }).join().unwrap() });
        assert_eq!(outer.join().unwrap(), 7);
    });
}

#[test]
fn joins_nest_as_deep_as_the_stack() {
    fn depth(rt: &Handle, left: u32) -> u32 {
        let next = rt.clone();
        if left == 0 { 0 } else { 1 + rt.spawn_compute(move || depth(&next, left - 1)).join().unwrap() }
    }
    within(LIMIT, || {
        let rt = one_compute_lane();
        let handle = rt.handle();
        assert_eq!(rt.spawn_compute(move || depth(&handle, 100)).join().unwrap(), 100);
    });
}

#[test]
fn a_panic_inside_is_the_inner_tasks_own() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let handle = rt.handle();
        let outer = rt.spawn_compute(move || handle.spawn_compute(|| panic!("inner")).join().unwrap_err().is_panic());
        assert!(outer.join().unwrap());
    });
}

#[test]
fn recursive_joins_on_all_lanes_end() {
    fn fibonacci(rt: &Handle, n: u32) -> u64 {
        if n < 2 {
            return n.into();
        }
        let other = rt.clone();
        let left = rt.spawn_compute(move || fibonacci(&other, n - 1));
        let right = fibonacci(rt, n - 2);
        // It may run elsewhere while this is the last lane that may wait: then it is done once more here.
        right + left.join().unwrap_or_else(|_| fibonacci(rt, n - 1))
    }
    within(LIMIT, || {
        for pairs in 1..=2 {
            let rt = common::pairs(pairs).build().unwrap();
            let handle = rt.handle();
            assert_eq!(rt.spawn_compute(move || fibonacci(&handle, 15)).join().unwrap(), 610, "{pairs} pairs");
        }
    });
}

#[test]
fn a_waiting_task_runs_what_it_waits_for_and_nothing_else() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let (handle, lock) = (rt.handle(), std::sync::Arc::new(std::sync::Mutex::new(0)));
        let outer = rt.spawn_compute(move || {
            let mut held = lock.lock().unwrap();
            // Whoever took one of these while it waits would wait for the lock that it holds itself.
            let others: Vec<_> = (0..10)
                .map(|_| {
                    let lock = std::sync::Arc::clone(&lock);
                    handle.spawn_compute(move || *lock.lock().unwrap() += 1)
                })
                .collect();
            *held += handle.spawn_compute(|| 5).join().unwrap();
            (others, std::sync::Arc::clone(&lock))
        });
        let (others, lock) = outer.join().unwrap();
        others.into_iter().for_each(|task| task.join().unwrap());
        assert_eq!(*lock.lock().unwrap(), 15);
    });
}
