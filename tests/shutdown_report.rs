//! What does not end by the deadline is named, with its lane, and the shutdown does not wait for it any longer.

mod common;
use common::{Gate, LIMIT, SOON, occupy, one_compute_lane, pairs, within};
use std::time::{Duration, Instant};
use twolane::{Error, PollCx, PollerError, Progress, Runtime, ShutdownReport, StuckLane, Where};

const DEADLINE: Duration = Duration::from_millis(100);
/// What a loaded machine may take on top, and far below anything that waits for what is stuck.
const LATE: Duration = Duration::from_secs(2);

fn fails_on_time(rt: Runtime) -> ShutdownReport {
    let began = Instant::now();
    let report = rt.shutdown(DEADLINE).unwrap_err();
    let took = began.elapsed();
    assert!(took >= DEADLINE && took < DEADLINE + LATE, "{took:?}");
    report
}

/// What the report says of a lane. On a loaded machine others, that had no cpu after the deadline, may be named beside it.
fn stuck(report: &ShutdownReport, lane: usize) -> &StuckLane {
    report.stuck.iter().find(|stuck| stuck.lane == lane).unwrap_or_else(|| panic!("{report}"))
}

#[test]
fn a_closure_that_does_not_return() {
    within(LIMIT, || {
        fn never_ends(end: &Gate) {
            end.wait();
        }
        let rt = one_compute_lane();
        let (begun, end) = (Gate::default(), Gate::default());
        let (tell, wait) = (begun.clone(), end.clone());
        let task = rt.spawn_compute(move || {
            tell.open();
            never_ends(&wait);
            4
        });
        begun.wait();
        let report = fails_on_time(rt);
        let stuck = stuck(&report, 1);
        assert_eq!(stuck.cpu, None);
        assert!(stuck.doing.contains("a_closure_that_does_not_return"), "the type of the closure: {}", stuck.doing);
        assert!(report.dropped_pollers.is_empty() && report.cancelled_tasks == 0, "{report:?}");
        assert!(report.to_string().contains("lane 1 is stuck in a task of type"), "{report}");
        end.open();
        assert_eq!(task.join().unwrap(), 4, "it was left behind with all it needs");
    });
}

#[test]
fn a_poller_that_does_not_return() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (begun, end) = (Gate::default(), Gate::default());
        let (tell, wait) = (begun.clone(), end.clone());
        let _before = rt.spawn_poller(Where::Any, "innocent", common::quiet()).unwrap();
        let poller = rt.spawn_poller(Where::Any, "rx7", move |_: &mut PollCx<'_>| {
            tell.open();
            wait.wait();
            Progress::Done
        });
        begun.wait();
        let report = fails_on_time(rt);
        assert_eq!(stuck(&report, 0).doing, "poller `rx7`");
        end.open();
        assert!(poller.unwrap().join().is_ok());
    });
}

#[test]
fn a_poller_of_a_shared_lane_that_ran_a_task_before() {
    within(LIMIT, || {
        let rt = common::shared(1).build().unwrap();
        let (begun, end) = (Gate::default(), Gate::default());
        let (task_ran, tell, wait) = (Gate::default(), begun.clone(), end.clone());
        let ran = task_ran.clone();
        let _poller = rt.spawn_poller(Where::Any, "rx7", move |_: &mut PollCx<'_>| {
            if ran.is_open() {
                tell.open();
                wait.wait();
            }
            Progress::Idle
        });
        drop(rt.spawn_compute(move || task_ran.open()));
        begun.wait();
        let report = fails_on_time(rt);
        assert_eq!(report.stuck.len(), 1, "{report}");
        assert_eq!(report.stuck[0].doing, "poller `rx7`");
        end.open();
    });
}

#[test]
fn a_poller_that_is_being_built() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (begun, end) = (Gate::default(), Gate::default());
        let (tell, wait) = (begun.clone(), end.clone());
        let poller = rt.spawn_poller_with(Where::Any, "slow", move |_| {
            tell.open();
            wait.wait();
            Ok::<_, Error>(common::quiet())
        });
        begun.wait();
        let report = fails_on_time(rt);
        stuck(&report, 0);
        end.open();
        assert!(matches!(poller.unwrap().join(), Err(PollerError::Shutdown)));
    });
}

#[test]
fn pollers_that_refuse_to_end_and_tasks_behind_a_stuck_one() {
    within(LIMIT, || {
        common::undisturbed(|| {
            let rt = one_compute_lane();
            let endless: Vec<_> = ["rx0", "rx1"]
                .map(|name| rt.spawn_poller(Where::Any, name, |_: &mut PollCx<'_>| Progress::Busy(0)).unwrap())
                .into();
            common::until("they are adopted", || endless.iter().all(|poller| poller.stats().calls > 0));
            let end = occupy(&rt);
            let closures: Vec<_> = (0..5).map(|n| rt.spawn_compute(move || n)).collect();
            let futures: Vec<_> = (0..5).map(|n| rt.spawn(std::future::ready(n))).collect();
            let report = fails_on_time(rt);
            end.open();
            if report.stuck.len() == 2 {
                return None; // the poll lane had no cpu after the deadline, so it counts as stuck
            }
            assert_eq!(report.dropped_pollers, ["rx0", "rx1"]);
            assert_eq!(report.cancelled_tasks, 10, "each of them counted once");
            assert_eq!((report.stuck.len(), report.stuck[0].lane), (1, 1), "{report}");
            assert!(report.to_string().contains("dropped pollers: rx0, rx1; cancelled tasks: 10"), "{report}");
            for task in closures.into_iter().chain(futures) {
                assert!(task.join().unwrap_err().is_cancelled());
            }
            for poller in endless {
                assert!(matches!(poller.join(), Err(PollerError::Shutdown)));
            }
            Some(())
        });
    });
}

#[test]
fn tasks_that_spawn_each_other_for_ever() {
    within(LIMIT, || {
        fn again(rt: twolane::Handle) {
            let next = rt.clone();
            drop(rt.spawn_compute(move || again(next)));
        }
        let rt = pairs(1).build().unwrap();
        again(rt.handle());
        let yields = rt.spawn(std::future::poll_fn(|cx| {
            cx.waker().wake_by_ref();
            std::task::Poll::<()>::Pending
        }));
        let report = fails_on_time(rt);
        assert!(report.cancelled_tasks > 0, "{report}");
        assert!(yields.join().unwrap_err().is_cancelled());
    });
}

#[test]
fn what_ends_just_in_time_is_no_failure() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let end = occupy(&rt);
        let opener = std::thread::spawn(move || end.open());
        rt.shutdown(SOON).unwrap();
        opener.join().unwrap();
    });
}
