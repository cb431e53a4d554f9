//! User code panics everywhere it can; the runner sees a value each time.

use super::*;
use crate::task;

#[test]
fn a_panic_of_a_closure_is_its_result() {
    let (runnable, mut handle) = task::closure(|| panic!("a test wants this panic"));
    assert_eq!(runnable.run(), Ran::Panicked);
    let result: Result<(), _> = ready(&mut handle);
    let error = result.unwrap_err();
    assert!(error.is_panic() && error.to_string().ends_with("panicked: a test wants this panic"));
    assert_eq!(error.into_panic().downcast_ref::<&str>(), Some(&"a test wants this panic"));
}

#[test]
fn a_panic_of_a_future_is_its_result_and_the_future_is_dropped() {
    let lane = Lane::new();
    let probe = lane.trace().probe("drop");
    let mut handle = lane.spawn(poll_fn(move |_| -> Poll<()> {
        probe.0.add("poll");
        panic!("a test wants this panic")
    }));
    assert_eq!(lane.run(), Some(Ran::Panicked));
    assert_eq!(lane.trace().take(), ["poll", "drop"]);
    assert!(ready(&mut handle).unwrap_err().is_panic());
    drop(handle);
    lane.assert_alone();
}

#[test]
fn a_panic_in_the_drop_of_a_finished_future_leaves_its_output_alone() {
    let lane = Lane::new();
    let bomb = lane.trace().bomb("bomb");
    let mut handle = lane.spawn(poll_fn(move |_| {
        let _ = &bomb;
        Poll::Ready(1)
    }));
    assert_eq!(lane.run(), Some(Ran::Panicked));
    assert_eq!(lane.trace().take(), ["bomb"]);
    assert_eq!(ready(&mut handle).unwrap(), 1);
    drop(handle);
    lane.assert_alone();
}

#[test]
fn a_panic_after_a_panic_is_contained_too() {
    let lane = Lane::new();
    let bomb = lane.trace().bomb("bomb");
    let mut handle = lane.spawn(poll_fn(move |_| -> Poll<()> {
        let _ = &bomb;
        panic!("the first one (a test wants this panic)")
    }));
    assert_eq!(lane.run(), Some(Ran::Panicked));
    assert!(ready(&mut handle).unwrap_err().to_string().contains("the first one"));
    drop(handle);
    lane.assert_alone();
}

#[test]
fn a_panic_in_the_drop_of_a_cancelled_future_leaves_it_cancelled() {
    let lane = Lane::new();
    let bomb = lane.trace().bomb("bomb");
    let mut handle = lane.spawn(poll_fn(move |_| {
        let _ = &bomb;
        Poll::<()>::Pending
    }));
    assert_eq!(lane.run(), Some(Ran::Pending));
    handle.abort();
    assert_eq!(lane.run(), Some(Ran::Panicked));
    assert_cancelled(&mut handle);
    drop(handle);
    lane.assert_alone();
}

#[test]
fn a_panic_in_the_drop_of_an_unrun_closure_is_contained() {
    let trace = Trace::default();
    let bomb = trace.bomb("bomb");
    let (runnable, mut handle) = task::closure(move || drop(bomb));
    assert_eq!(runnable.cancel(), Ran::Panicked);
    assert_cancelled(&mut handle);
    assert_eq!(trace.take(), ["bomb"]);
}

#[test]
fn a_panic_in_the_drop_of_an_output_is_contained_on_the_lane_and_at_the_handle() {
    let trace = Trace::default();
    let (one, two) = (trace.bomb("at the lane"), trace.bomb("at the handle"));

    let (runnable, handle) = task::closure(move || one);
    drop(handle);
    assert_eq!(runnable.run(), Ran::Panicked);

    let (runnable, handle) = task::closure(move || two);
    assert_eq!(runnable.run(), Ran::Finished);
    drop(handle);

    assert_eq!(trace.take(), ["at the lane", "at the handle"]);
}

#[test]
fn a_payload_that_panics_as_it_is_dropped_is_contained() {
    let trace = Trace::default();
    let bomb = trace.bomb("payload");
    let (runnable, handle) = task::closure(move || std::panic::panic_any(bomb));
    drop(handle);
    assert_eq!(runnable.run(), Ran::Panicked);
    assert_eq!(trace.take(), ["payload"]);

    /// Throws a bomb when it is dropped.
    struct Launcher(Trace);
    impl Drop for Launcher {
        fn drop(&mut self) {
            std::panic::panic_any(self.0.bomb("launched"));
        }
    }
    let launcher = Launcher(trace.clone());
    let (runnable, mut handle) = task::closure(move || drop(launcher));
    assert_eq!(runnable.cancel(), Ran::Panicked);
    assert_cancelled(&mut handle);
    assert_eq!(trace.take(), ["launched"]);
}

/// Panics when it is woken.
struct Rude;

impl Wake for Rude {
    fn wake(self: Arc<Self>) {
        panic!("the waker (a test wants this panic)");
    }
}

#[test]
fn a_join_waker_that_panics_harms_neither_the_runner_nor_the_output() {
    let (runnable, mut handle) = task::closure(|| 1);
    assert!(handle.poll_join(&Arc::new(Rude).into()).is_pending());
    assert_eq!(runnable.run(), Ran::Finished);
    assert_eq!(ready(&mut handle).unwrap(), 1);
}

/// Panics when its last waker is dropped.
struct Clingy(Bomb);

impl Wake for Clingy {
    fn wake(self: Arc<Self>) {
        let _ = &self.0;
    }
}

#[test]
fn a_join_waker_that_panics_as_it_is_dropped_is_contained() {
    let trace = Trace::default();
    for story in ["woken", "replaced", "dropped with the handle"] {
        let (runnable, mut handle) = task::closure(|| 1);
        {
            let waker: Waker = Arc::new(Clingy(trace.bomb(story))).into();
            assert!(handle.poll_join(&waker).is_pending());
        }
        match story {
            "woken" => assert_eq!(runnable.run(), Ran::Finished),
            "replaced" => assert!(poll(&mut handle).is_pending()),
            _ => drop(handle),
        }
        assert_eq!(trace.take(), [story]);
    }
}
