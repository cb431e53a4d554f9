//! A future: polled, idle, woken, polled again.

use super::*;

#[test]
fn a_future_is_polled_when_woken_and_dropped_when_ready() {
    let lane = Lane::new();
    let (mut handle, waiter) = lane.spawn_waiter();
    assert_eq!(lane.run(), Some(Ran::Pending));
    assert_eq!(lane.run(), None, "an idle future is in no queue");
    assert_eq!(lane.trace().take(), ["poll"]);

    Waiter::finish(&waiter);
    assert_eq!(lane.run(), Some(Ran::Finished));
    assert_eq!(lane.trace().take(), ["schedule", "poll", "drop"]);
    assert_eq!(ready(&mut handle).unwrap(), 7);
    drop((handle, waiter));
    lane.assert_alone();
}

#[test]
fn wakes_are_coalesced() {
    let lane = Lane::new();
    let (handle, waiter) = lane.spawn_waiter();
    let _ = lane.run();
    let waker = Waiter::waker(&waiter);
    waker.wake_by_ref();
    waker.wake_by_ref();
    let second = waker.clone();
    second.wake();
    waker.wake();
    assert_eq!(lane.run(), Some(Ran::Pending));
    assert_eq!(lane.run(), None);
    assert_eq!(lane.trace().take(), ["poll", "schedule", "poll"]);
    lane.shut_down(handle, waiter);
}

#[test]
fn a_future_that_wakes_itself_is_requeued_by_its_runner_once() {
    let lane = Lane::new();
    let mut polls = 0;
    let mut handle = lane.spawn(poll_fn(move |cx| {
        polls += 1;
        cx.waker().wake_by_ref();
        cx.waker().wake_by_ref();
        if polls == 2 { Poll::Ready(polls) } else { Poll::Pending }
    }));
    assert_eq!(lane.run(), Some(Ran::Pending));
    assert_eq!(lane.trace().take(), ["reschedule"]);
    assert_eq!(lane.run(), Some(Ran::Finished));
    assert_eq!(lane.trace().take(), [""; 0], "a wake during the last poll is nothing");
    assert_eq!(ready(&mut handle).unwrap(), 2);
    drop(handle);
    lane.assert_alone();
}

#[test]
fn a_detached_future_that_yields_is_polled_to_its_end() {
    let lane = Lane::new();
    let mut polls = 0;
    let handle = lane.spawn(poll_fn(move |cx| {
        polls += 1;
        // No waker is kept: only that it was woken keeps it from being given up.
        cx.waker().wake_by_ref();
        if polls == 3 { Poll::Ready(()) } else { Poll::Pending }
    }));
    drop(handle);
    assert_eq!(lane.run(), Some(Ran::Pending));
    assert_eq!(lane.run(), Some(Ran::Pending));
    assert_eq!(lane.run(), Some(Ran::Finished));
    lane.assert_alone();
}

#[test]
fn a_waker_may_outlive_everything_and_does_nothing_then() {
    let lane = Lane::new();
    let (handle, waiter) = lane.spawn_waiter();
    let _ = lane.run();
    let late = Waiter::waker(&waiter);
    late.wake_by_ref();
    waiter.lock().unwrap().ready = true;
    assert_eq!(lane.run(), Some(Ran::Finished));
    drop(handle);
    lane.trace().take();
    late.wake_by_ref();
    let later = late.clone();
    late.wake();
    drop((later, waiter));
    assert_eq!(lane.trace().take(), [""; 0]);
    lane.assert_alone();
}

#[test]
fn wakers_of_one_task_know_each_other() {
    let lane = Lane::new();
    let (one, first) = lane.spawn_waiter();
    let (two, second) = lane.spawn_waiter();
    let _ = (lane.run(), lane.run());
    {
        let (first, second) = (Waiter::waker(&first), Waiter::waker(&second));
        assert!(first.will_wake(&first.clone()));
        assert!(!first.will_wake(&second));
    }
    lane.shut_down((one, two), (first, second));
}

#[test]
fn a_detached_future_that_nobody_can_wake_is_dropped_by_a_lane() {
    let lane = Lane::new();
    let (handle, waiter) = lane.spawn_waiter();
    let _ = lane.run();
    drop(handle);
    assert_eq!(lane.trace().take(), ["poll"]);
    drop(Waiter::waker(&waiter)); // the last reference of an idle future
    assert_eq!(lane.trace().take(), ["schedule"], "it goes to a lane instead of being dropped here");
    assert_eq!(lane.run(), Some(Ran::Cancelled));
    assert_eq!(lane.trace().take(), ["drop"]);
    drop(waiter);
    lane.assert_alone();
}

#[test]
fn a_future_that_nobody_can_wake_is_dropped_when_its_handle_goes() {
    let lane = Lane::new();
    let handle = lane.spawn(std::future::pending::<()>());
    assert_eq!(lane.run(), Some(Ran::Pending));
    drop(handle);
    assert_eq!(lane.trace().take(), ["schedule"]);
    assert_eq!(lane.run(), Some(Ran::Cancelled));
    lane.assert_alone();
}

#[test]
fn a_detached_future_that_keeps_no_waker_ends_with_its_poll() {
    let lane = Lane::new();
    drop(lane.spawn(std::future::pending::<()>()));
    assert_eq!(lane.run(), Some(Ran::Cancelled));
    lane.assert_alone();
}

#[test]
fn wakes_work_in_the_last_destructors_of_a_thread() {
    thread_local! {
        static LAST: std::cell::RefCell<Option<OnDrop>> = const { std::cell::RefCell::new(None) };
    }
    struct OnDrop(Waker);
    impl Drop for OnDrop {
        fn drop(&mut self) {
            self.0.wake_by_ref();
        }
    }
    let lane = Lane::new();
    let (handle, waiter) = lane.spawn_waiter();
    let _ = lane.run();
    let waker = Waiter::waker(&waiter);
    std::thread::spawn(move || LAST.set(Some(OnDrop(waker)))).join().unwrap();
    assert_eq!(lane.trace().take(), ["poll", "schedule"]);
    assert_eq!(lane.run(), Some(Ran::Pending));
    lane.shut_down(handle, waiter);
}

#[test]
fn a_scheduler_after_shutdown_may_drop_what_it_is_given() {
    #[derive(Clone)]
    struct Gone(Arc<Registry>);
    impl Schedule for Gone {
        fn schedule(&self, runnable: Runnable) {
            drop(runnable);
        }
        fn registry(&self) -> &Registry {
            &self.0
        }
    }
    let gone = Gone(Arc::new(Registry::new(1)));
    let (sender, receiver) = std::sync::mpsc::channel();
    let future = poll_fn(move |cx| {
        sender.send(cx.waker().clone()).unwrap();
        Poll::<()>::Pending
    });
    let (runnable, mut handle) = super::super::future(future, gone.clone()).ok().unwrap();
    assert_eq!(runnable.run(), Ran::Pending);
    receiver.recv().unwrap().wake();
    assert_cancelled(&mut handle);
    assert_eq!((gone.0.len(), Arc::strong_count(&gone.0)), (0, 1));
}
