//! Work that the runtime does not take comes back from the `try_` forms; the plain forms hand out a handle that is cancelled already.

mod common;
use common::{LIMIT, SOON, occupy, one_compute_lane, pairs, within};
use twolane::{Error, PollCx, Progress, RejectedBecause, Where, poll_fn};

#[test]
fn after_the_shutdown_work_comes_back_as_it_was() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let handle = rt.handle();
        rt.shutdown(SOON).unwrap();

        let treasure = Box::new(7);
        let rejected = handle.try_spawn_compute(move || treasure).unwrap_err();
        assert_eq!(rejected.because(), RejectedBecause::Shutdown);
        assert_eq!(rejected.to_string(), "the work was not taken: the runtime is being shut down");
        assert_eq!(*rejected.into_inner()(), 7);

        let rejected = handle.try_spawn(std::future::ready(8)).unwrap_err();
        assert_eq!(rejected.because(), RejectedBecause::Shutdown);
        assert_eq!(rejected.into_inner().into_inner(), 8);

        let error = handle.spawn_poller(Where::Any, "late", common::quiet()).unwrap_err();
        assert!(matches!(error, Error::Shutdown), "{error:?}");
    });
}

#[test]
fn after_the_shutdown_handles_are_born_cancelled() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let handle = rt.handle();
        rt.shutdown(SOON).unwrap();
        let closure = handle.spawn_compute(|| unreachable!("refused") as u8);
        assert!(closure.is_finished());
        closure.abort();
        assert!(closure.join().unwrap_err().is_cancelled());
        let future = handle.spawn(async { unreachable!("refused") as u8 });
        assert!(handle.block_on(future).unwrap().unwrap_err().is_cancelled());
    });
}

#[test]
fn a_full_backlog_gives_work_back_until_there_is_room() {
    const MAX: usize = 4;
    within(LIMIT, || {
        let rt = {
            let rt = pairs(1).backlog_max(MAX).build().unwrap();
            // One that always has something: a quiet lane may take a task to see whether it is short, and make room in the queue.
            let busy = poll_fn(|cx: &mut PollCx<'_>| if cx.stopping() { Progress::Idle } else { Progress::Busy(1) });
            let busy = rt.spawn_poller(Where::Lane(0), "busy", busy).unwrap();
            common::until("the poller is adopted", || busy.stats().calls > 0);
            rt
        };
        let end = occupy(&rt);
        let queued: Vec<_> = (0..MAX).map(|n| rt.try_spawn_compute(move || n).unwrap()).collect();
        let rejected = rt.try_spawn_compute(|| 99).unwrap_err();
        assert_eq!(rejected.because(), RejectedBecause::Full { backlog_max: MAX });
        assert_eq!(rejected.to_string(), "the work was not taken: 4 tasks wait already (`backlog_max`)");
        let rejected = rt.try_spawn(std::future::ready(5)).unwrap_err();
        assert_eq!(rejected.because(), RejectedBecause::Full { backlog_max: MAX });
        assert!(rt.spawn_compute(|| 99).join().unwrap_err().is_cancelled(), "the plain form has no room either");
        assert_eq!(rt.metrics().injected, MAX);

        end.open();
        for (n, handle) in queued.into_iter().enumerate() {
            assert_eq!(handle.join().unwrap(), n);
        }
        assert_eq!(rt.try_spawn_compute(|| 99).unwrap().join().unwrap(), 99);
    });
}

#[test]
fn the_backlog_of_a_lane_is_bounded_for_tasks_that_spawn_too() {
    const MAX: usize = 4;
    within(LIMIT, || {
        let rt = pairs(1).backlog_max(MAX).build().unwrap();
        common::keep_for_polling(&rt, 0);
        let handle = rt.handle();
        let taken = rt.spawn_compute(move || (0..10).filter(|_| handle.try_spawn_compute(|| ()).is_ok()).count());
        assert_eq!(taken.join().unwrap(), MAX);
    });
}

#[test]
fn without_a_bound_nothing_is_refused() {
    within(LIMIT, || {
        let rt = one_compute_lane();
        let end = occupy(&rt);
        let handles: Vec<_> = (0..10_000).map(|n| rt.try_spawn_compute(move || n).unwrap()).collect();
        end.open();
        assert_eq!(handles.into_iter().map(|handle| handle.join().unwrap()).sum::<u64>(), 49_995_000);
    });
}
