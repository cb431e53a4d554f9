//! Building pollers on a lane, many or slow ones, holds up neither the others nor the tasks.

mod common;
use common::{Gate, LIMIT, PROMPT, pairs, parked, within};
use twolane::{PollCx, PollerError, Progress, Where};

type Never = fn(&mut PollCx<'_>) -> Progress;

#[test]
fn all_of_many_that_cannot_be_built_are_told() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (begun, end) = (Gate::default(), Gate::default());
        let (tell, wait) = (begun.clone(), end.clone());
        let first = rt.spawn_poller_with(Where::Any, "first", move |_| {
            tell.open();
            wait.wait();
            Err::<Never, _>("no")
        });
        begun.wait();
        // They queue behind the first, and none of them leaves a poller that would keep the lane awake.
        let more = (0..100).map(|_| rt.spawn_poller_with(Where::Any, "more", |_| Err::<Never, _>("no")));
        let all: Vec<_> = std::iter::once(first).chain(more).map(Result::unwrap).collect();
        end.open();
        for handle in all {
            assert!(matches!(handle.join(), Err(PollerError::Init(_))));
        }
    });
}

#[test]
fn all_of_many_are_adopted() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let handles: Vec<_> =
            (0..200).map(|_| rt.spawn_poller(Where::Any, "one of many", common::quiet()).unwrap()).collect();
        common::until("all are called", || handles.iter().all(|handle| handle.stats().calls > 0));
        let lanes = rt.metrics().lanes;
        assert_eq!((lanes[0].pollers, lanes[2].pollers), (100, 100));
        handles.iter().for_each(twolane::PollerHandle::stop);
        assert!(handles.into_iter().all(|handle| handle.join().is_ok()));
    });
}

#[test]
fn a_slow_one_does_not_keep_a_task_from_the_other_lane() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        // Both lanes sleep, so the poll lane wakes up as one that looks for tasks.
        parked(&rt, 0);
        parked(&rt, 1);
        let (begun, end) = (Gate::default(), Gate::default());
        let (tell, wait) = (begun.clone(), end.clone());
        let slow = rt.spawn_poller_with(Where::Lane(0), "slow to build", move |_| {
            tell.open();
            let in_time = wait.opens_within(PROMPT);
            Err::<Never, _>(if in_time { "in time" } else { "the task did not run" })
        });
        begun.wait();
        let ran = end.clone();
        let task = rt.spawn_compute(move || ran.open());
        let error = slow.unwrap().join().unwrap_err();
        assert!(error.to_string().ends_with("in time"), "{error}: it waited beside an idle lane");
        task.join().unwrap();
    });
}
