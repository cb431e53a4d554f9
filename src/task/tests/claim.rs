//! A handle runs its task itself instead of waiting for a lane.

use super::*;
use crate::task;

#[test]
fn a_queued_closure_runs_inline_and_its_runnable_is_stale() {
    let (runnable, mut handle) = task::closure(|| 9);
    assert_eq!(handle.claim().expect("it is queued").run(), Ran::Finished);
    assert_eq!(ready(&mut handle).unwrap(), 9);
    drop(handle);
    assert_eq!(runnable.run(), Ran::Stale);
}

#[test]
fn a_stale_runnable_may_be_popped_while_the_claimer_runs() {
    let (runnable, mut handle) = task::closure(|| 9);
    let claimed = handle.claim().unwrap();
    assert!(handle.claim().is_none(), "one claim at a time");
    assert_eq!(runnable.run(), Ran::Stale);
    assert!(poll(&mut handle).is_pending());
    assert_eq!(claimed.run(), Ran::Finished);
    assert_eq!(ready(&mut handle).unwrap(), 9);
}

#[test]
fn a_claim_that_is_dropped_cancels() {
    let (runnable, mut handle) = task::closure(|| 9);
    drop(handle.claim());
    assert_cancelled(&mut handle);
    drop(runnable);
}

#[test]
fn an_abort_between_claim_and_run_is_heeded() {
    let (runnable, mut handle) = task::closure(|| 9);
    let claimed = handle.claim().unwrap();
    handle.abort();
    assert_eq!(claimed.run(), Ran::Cancelled);
    assert_cancelled(&mut handle);
    assert_eq!(runnable.run(), Ran::Stale);
}

#[test]
fn what_was_aborted_may_still_be_claimed_and_is_dropped() {
    let (runnable, mut handle) = task::closure(|| 9);
    handle.abort();
    assert_eq!(handle.claim().unwrap().run(), Ran::Cancelled);
    assert_cancelled(&mut handle);
    assert_eq!(runnable.cancel(), Ran::Stale);
}

#[test]
fn what_ran_or_runs_or_waits_cannot_be_claimed() {
    let lane = Lane::new();
    let (handle, waiter) = lane.spawn_waiter();
    let _ = lane.run();
    assert!(handle.claim().is_none(), "it waits");
    Waiter::finish(&waiter);
    let _ = lane.run();
    assert!(handle.claim().is_none(), "it is complete");
}

#[test]
fn a_claimed_future_that_waits_is_woken_into_the_queue_beside_its_stale_runnable() {
    let lane = Lane::new();
    let (mut handle, waiter) = lane.spawn_waiter();
    assert_eq!(handle.claim().unwrap().run(), Ran::Pending);
    Waiter::finish(&waiter);
    assert!(handle.claim().is_none(), "not before the stale runnable is gone");
    assert_eq!(lane.run(), Some(Ran::Stale));
    assert_eq!(lane.run(), Some(Ran::Finished));
    assert_eq!(lane.trace().take(), ["poll", "schedule", "poll", "drop"]);
    assert_eq!(ready(&mut handle).unwrap(), 7);
    drop((handle, waiter));
    lane.assert_alone();
}

#[test]
fn a_second_claim_is_granted_once_the_queue_has_noticed_the_first() {
    let lane = Lane::new();
    let (mut handle, waiter) = lane.spawn_waiter();
    assert_eq!(handle.claim().unwrap().run(), Ran::Pending);
    assert_eq!(lane.run(), Some(Ran::Stale));
    Waiter::finish(&waiter);
    assert_eq!(handle.claim().unwrap().run(), Ran::Finished);
    assert_eq!(ready(&mut handle).unwrap(), 7);
    assert_eq!(lane.run(), Some(Ran::Stale));
    drop((handle, waiter));
    lane.assert_alone();
}

#[test]
fn a_stale_runnable_that_is_the_last_to_know_a_future_sends_it_to_a_lane() {
    let lane = Lane::new();
    let handle = lane.spawn(std::future::pending::<()>());
    assert_eq!(handle.claim().unwrap().run(), Ran::Pending);
    drop(handle);
    assert_eq!(lane.run(), Some(Ran::Stale));
    assert_eq!(lane.trace().take(), ["schedule"]);
    assert_eq!(lane.run(), Some(Ran::Cancelled));
    lane.assert_alone();
}
