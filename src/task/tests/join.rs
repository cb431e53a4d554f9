//! Waiting for a task: wakers come and go, the output is given once.

use std::pin::Pin;

use super::*;
use crate::task;

#[test]
fn the_last_waker_is_woken_and_the_earlier_ones_are_forgotten() {
    let (runnable, mut handle) = task::closure(|| ());
    let (first, first_waker) = Count::waker();
    let (second, second_waker) = Count::waker();
    assert!(handle.poll_join(&first_waker).is_pending());
    assert_eq!(Arc::strong_count(&first), 3, "ours, the waker's, the task's");
    assert!(handle.poll_join(&second_waker).is_pending());
    assert_eq!(Arc::strong_count(&first), 2, "the task's is dropped");
    assert_eq!(runnable.run(), Ran::Finished);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    assert_eq!(Arc::strong_count(&second), 2, "and the second one with the wake");
}

#[test]
fn the_same_waker_is_not_cloned_again() {
    let (runnable, mut handle) = task::closure(|| ());
    let clones = Arc::new(AtomicUsize::new(0));
    let waker = counting_clones(&clones);
    assert!(handle.poll_join(&waker).is_pending());
    assert!(handle.poll_join(&waker).is_pending());
    assert!(handle.poll_join(&waker).is_pending());
    assert_eq!(clones.load(SeqCst), 1);
    assert_eq!(runnable.run(), Ran::Finished);
    ready(&mut handle).unwrap();
}

/// A waker that counts its clones and wakes nobody.
fn counting_clones(clones: &Arc<AtomicUsize>) -> Waker {
    use std::task::{RawWaker, RawWakerVTable};
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the count outlives its wakers in the one test that uses them.
            unsafe { &*data.cast::<AtomicUsize>() }.fetch_add(1, SeqCst);
            RawWaker::new(data, &TABLE)
        },
        |_| {},
        |_| {},
        |_| {},
    );
    // SAFETY: the table's functions do what a waker's should, with data that lives on.
    unsafe { Waker::from_raw(RawWaker::new(Arc::as_ptr(clones).cast(), &TABLE)) }
}

#[test]
fn a_handle_that_goes_takes_its_waker_along() {
    let (runnable, mut handle) = task::closure(|| ());
    let (count, waker) = Count::waker();
    assert!(handle.poll_join(&waker).is_pending());
    drop(handle);
    assert_eq!(Arc::strong_count(&count), 2);
    assert_eq!(runnable.run(), Ran::Finished);
    assert_eq!(count.wakes(), 0);
}

#[test]
fn a_future_waits_for_another() {
    let lane = Lane::new();
    let (inner, waiter) = lane.spawn_waiter();
    let mut outer = lane.spawn(async move { inner.await.unwrap() + 1 });
    assert_eq!((lane.run(), lane.run()), (Some(Ran::Pending), Some(Ran::Pending)));
    Waiter::finish(&waiter);
    assert_eq!(lane.run(), Some(Ran::Finished));
    assert_eq!(lane.run(), Some(Ran::Finished));
    assert_eq!(lane.trace().take(), ["poll", "schedule", "poll", "drop", "schedule"]);
    assert_eq!(ready(&mut outer).unwrap(), 8);
    drop((outer, waiter));
    lane.assert_alone();
}

#[test]
fn futures_that_wait_for_each_other_in_a_circle_do_not_keep_each_other() {
    let lane = Lane::new();
    // Each waits for the handle in its slot, which is the other's; the handles are in the futures, so that only wakers refer to them.
    let (to_first, first_gets) = std::sync::mpsc::channel::<JoinHandle<()>>();
    let (to_second, second_gets) = std::sync::mpsc::channel::<JoinHandle<()>>();
    let wait_for = |gets: std::sync::mpsc::Receiver<JoinHandle<()>>| async move {
        let other = gets.recv().unwrap();
        drop(gets);
        let _ = other.await;
    };
    let first = lane.spawn(wait_for(first_gets));
    let second = lane.spawn(wait_for(second_gets));
    to_first.send(second).unwrap();
    to_second.send(first).unwrap();
    assert_eq!((lane.run(), lane.run()), (Some(Ran::Pending), Some(Ran::Pending)));
    lane.0.registry.close();
    lane.0.registry.cancel_all();
    while lane.run().is_some() {}
    lane.assert_alone();
}

#[test]
fn a_handle_born_cancelled_says_so_as_often_as_asked() {
    let mut handle = JoinHandle::<u8>::cancelled();
    assert!(handle.is_finished());
    handle.abort();
    assert!(handle.claim().is_none());
    assert_eq!(handle.type_name(), None);
    assert_cancelled(&mut handle);
    assert_cancelled(&mut handle);
}

#[test]
fn an_error_names_the_type_of_the_task() {
    let (runnable, mut handle) = task::closure(|| ());
    assert!(handle.type_name().unwrap().contains("an_error_names_the_type_of_the_task"));
    drop(runnable);
    let error = ready(&mut handle).unwrap_err().to_string();
    assert!(error.contains("an_error_names_the_type_of_the_task") && error.ends_with("was cancelled"), "{error}");
}

#[test]
#[should_panic(expected = "polled after it had given the output")]
fn a_second_output_is_not_to_be_had() {
    let (runnable, mut handle) = task::closure(|| ());
    assert_eq!(runnable.run(), Ran::Finished);
    ready(&mut handle).unwrap();
    let _ = poll(&mut handle);
}

#[test]
fn handles_go_between_threads_and_survive_unwinding() {
    fn check<T: Send + Sync + Unpin + std::panic::UnwindSafe + std::panic::RefUnwindSafe>() {}
    check::<JoinHandle<std::cell::Cell<u8>>>(); // `Send`, though not `Sync`
    check::<task::AbortOnDrop<u8>>();
    fn sync_error<E: std::error::Error + Send + Sync + 'static>() {}
    sync_error::<JoinError>();
}

#[test]
fn a_wrapper_is_a_future_too() {
    let (runnable, handle) = task::closure(|| 3);
    let mut wrapper = handle.abort_on_drop();
    assert_eq!(runnable.run(), Ran::Finished);
    match Pin::new(&mut wrapper).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(3)) => {}
        other => panic!("{other:?}"),
    }
}
