//! Aborting, in every state that a task can be in.

use super::*;
use crate::task;

#[test]
fn a_closure_that_was_aborted_in_the_queue_never_runs() {
    let (runnable, mut handle) = task::closure(|| panic!("must not run"));
    handle.abort();
    assert!(!handle.is_finished(), "not before a lane has dropped it");
    assert_eq!(runnable.run(), Ran::Cancelled);
    let _: () = match ready(&mut handle) {
        Err(error) => assert!(error.is_cancelled()),
        Ok(never) => never,
    };
}

#[test]
fn a_closure_that_was_aborted_and_detached_never_runs() {
    let trace = Trace::default();
    let captured = trace.probe("captured");
    let (runnable, handle) = task::closure(move || captured.0.add("ran"));
    drop(handle.abort_on_drop());
    assert_eq!(runnable.run(), Ran::Cancelled);
    assert_eq!(trace.take(), ["captured"]);
}

#[test]
fn an_idle_future_is_scheduled_and_dropped_by_its_lane() {
    let lane = Lane::new();
    let (mut handle, waiter) = lane.spawn_waiter();
    let _ = lane.run();
    handle.abort();
    handle.abort();
    assert_eq!(lane.trace().take(), ["poll", "schedule"]);
    assert!(poll(&mut handle).is_pending());
    assert_eq!(lane.run(), Some(Ran::Cancelled));
    assert_eq!(lane.trace().take(), ["drop"]);
    assert_cancelled(&mut handle);
    drop((handle, waiter));
    lane.assert_alone();
}

#[test]
fn a_queued_future_is_dropped_when_it_is_popped() {
    let lane = Lane::new();
    let (mut handle, waiter) = lane.spawn_waiter();
    handle.abort();
    assert_eq!(lane.run(), Some(Ran::Cancelled));
    assert_eq!(lane.trace().take(), ["drop"]);
    assert_cancelled(&mut handle);
    drop((handle, waiter));
    lane.assert_alone();
}

/// A future that calls `act` with its own handle at every poll.
fn spawn_with_handle(
    lane: &Lane,
    mut act: impl FnMut(&JoinHandle<u8>, &Waker) -> Poll<u8> + Send + 'static,
) -> Arc<Mutex<Option<JoinHandle<u8>>>> {
    let slot = Arc::new(Mutex::new(None));
    let (ours, probe) = (slot.clone(), lane.trace().probe("drop"));
    let handle = lane.spawn(poll_fn(move |cx| {
        probe.0.add("poll");
        act(ours.lock().unwrap().as_ref().unwrap(), cx.waker())
    }));
    *slot.lock().unwrap() = Some(handle);
    slot
}

#[test]
fn a_running_future_ends_after_its_poll() {
    let lane = Lane::new();
    let slot = spawn_with_handle(&lane, |handle, waker| {
        handle.abort();
        waker.wake_by_ref(); // does not save it
        Poll::Pending
    });
    assert_eq!(lane.run(), Some(Ran::Cancelled));
    assert_eq!(lane.trace().take(), ["poll", "drop"]);
    assert_cancelled(slot.lock().unwrap().as_mut().unwrap());
    drop(slot);
    lane.assert_alone();
}

#[test]
fn a_future_that_is_ready_in_spite_of_an_abort_gives_its_output() {
    let lane = Lane::new();
    let slot = spawn_with_handle(&lane, |handle, _| {
        handle.abort();
        Poll::Ready(5)
    });
    assert_eq!(lane.run(), Some(Ran::Finished));
    assert_eq!(ready(slot.lock().unwrap().as_mut().unwrap()).unwrap(), 5);
}

#[test]
fn an_abort_after_the_end_is_nothing() {
    let (runnable, mut handle) = task::closure(|| 1);
    assert_eq!(runnable.run(), Ran::Finished);
    handle.abort();
    assert_eq!(ready(&mut handle).unwrap(), 1);
    handle.abort();
    assert!(handle.is_finished());
}

#[test]
fn a_wrapper_aborts_as_it_is_dropped_unless_it_gave_its_handle_back() {
    let lane = Lane::new();
    let (handle, _waiter) = lane.spawn_waiter();
    let mut handle = handle.abort_on_drop().into_inner();
    assert_eq!(lane.run(), Some(Ran::Pending));
    handle = {
        let wrapper = handle.abort_on_drop();
        wrapper.abort(); // reaches through
        wrapper.into_inner()
    };
    assert_eq!(lane.run(), Some(Ran::Cancelled));
    assert_cancelled(&mut handle);
}

#[test]
fn a_cancelled_runnable_drops_unrun() {
    let lane = Lane::new();
    let (mut handle, waiter) = lane.spawn_waiter();
    assert_eq!(lane.pop().unwrap().cancel(), Ran::Cancelled);
    assert_eq!(lane.trace().take(), ["drop"]);
    assert_cancelled(&mut handle);
    drop((handle, waiter));
    lane.assert_alone();
}
