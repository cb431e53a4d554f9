//! In a child made by fork(2) no lane runs: work is refused at once, nothing hangs, and the child may build a runtime of its own.
#![allow(unsafe_code)] // fork

mod common;
use common::{LIMIT, SOON, child, is_child, pairs, within};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, fork};
use std::time::{Duration, Instant};
use twolane::{Error, Handle, PollerError, RejectedBecause, Runtime, Where};

/// Forks, runs `in_child` there, and checks here that it ended well in time.
fn forked(in_child: impl FnOnce()) {
    // SAFETY: the process is single-purpose: its other threads are lanes at rest and a test harness that waits, and hold no lock that the
    // child needs (the allocator of glibc sees to itself).
    match unsafe { fork() }.unwrap() {
        ForkResult::Child => {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(in_child));
            // No destructors of the harness in the child.
            // SAFETY: ends the process, and nothing else.
            unsafe { libc::_exit(if outcome.is_ok() { 0 } else { 1 }) };
        }
        ForkResult::Parent { child } => {
            let deadline = Instant::now() + LIMIT;
            loop {
                match waitpid(child, Some(nix::sys::wait::WaitPidFlag::WNOHANG)).unwrap() {
                    WaitStatus::StillAlive if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                    WaitStatus::StillAlive => {
                        nix::sys::signal::kill(child, nix::sys::signal::SIGKILL).unwrap();
                        panic!("the child hangs");
                    }
                    status => break assert_eq!(status, WaitStatus::Exited(child, 0)),
                }
            }
        }
    }
}

/// A runtime that has done some of everything, at rest.
fn at_rest() -> Runtime {
    let rt = pairs(1).build().unwrap();
    rt.spawn_compute(|| ()).join().unwrap();
    common::keep_for_polling(&rt, 0);
    common::parked(&rt, 0);
    common::parked(&rt, 1);
    rt
}

fn everything_is_refused(rt: &Handle) {
    let refused = rt.try_spawn_compute(|| 1).unwrap_err();
    assert_eq!(refused.because(), RejectedBecause::Forked);
    assert_eq!(refused.to_string(), "the work was not taken: this process was forked from the one that runs the lanes");
    assert_eq!(refused.into_inner()(), 1);
    assert_eq!(rt.try_spawn(std::future::ready(1)).unwrap_err().because(), RejectedBecause::Forked);
    assert!(rt.spawn_compute(|| 1).join().unwrap_err().is_cancelled());
    let error = rt.spawn_poller(Where::Any, "late", common::quiet()).map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Forked), "{error}");
    assert!(error.to_string().contains("build a runtime of its own"), "{error}");
}

#[test]
fn the_childs_work_is_refused_and_the_parents_goes_on() {
    if !is_child() {
        return child("the_childs_work_is_refused_and_the_parents_goes_on", &[]);
    }
    let rt = at_rest();
    forked(|| everything_is_refused(&rt));
    assert_eq!(rt.spawn_compute(|| 7).join().unwrap(), 7);
    assert_eq!(rt.metrics().lanes[0].panics, 0);
    rt.shutdown(SOON).unwrap();
}

#[test]
fn dropping_and_shutting_down_in_the_child_do_nothing() {
    if !is_child() {
        return child("dropping_and_shutting_down_in_the_child_do_nothing", &[]);
    }
    let mut rt = Some(at_rest());
    forked(|| drop(rt.take()));
    let mut rt = Some(rt.unwrap());
    forked(|| rt.take().unwrap().shutdown(SOON).unwrap());
    let rt = rt.unwrap();
    assert_eq!(rt.spawn_compute(|| 7).join().unwrap(), 7, "the parent's lanes are as they were");
    rt.shutdown(SOON).unwrap();
}

#[test]
fn the_child_builds_its_own_and_forks_again() {
    if !is_child() {
        return child("the_child_builds_its_own_and_forks_again", &[]);
    }
    let rt = at_rest();
    forked(|| {
        let own = at_rest();
        assert_eq!(own.spawn_compute(|| 8).join().unwrap(), 8);
        everything_is_refused(&rt);
        forked(|| {
            everything_is_refused(&own);
            let own = at_rest();
            own.shutdown(SOON).unwrap();
        });
        assert_eq!(own.spawn_compute(|| 9).join().unwrap(), 9);
        own.shutdown(SOON).unwrap();
    });
    rt.shutdown(SOON).unwrap();
}

#[test]
fn handles_from_before_the_fork_may_be_dropped_and_rung() {
    if !is_child() {
        return child("handles_from_before_the_fork_may_be_dropped_and_rung", &[]);
    }
    within(LIMIT, || {
        let rt = at_rest();
        let poller = common::keep_for_polling(&rt, 0);
        let task = rt.spawn(std::future::pending::<()>());
        let done = rt.spawn_compute(|| 5);
        common::until("it is done", || done.is_finished());
        forked(move || {
            poller.ring();
            poller.stop();
            task.abort();
            drop((poller, task));
            assert_eq!(done.join().unwrap(), 5, "what was finished before the fork can be had");
        });
        rt.shutdown(SOON).unwrap();
    });
}

fn seen<T>(handle: twolane::JoinHandle<T>) -> (bool, String) {
    let error = handle.join().map(|_| ()).unwrap_err();
    (error.is_cancelled(), error.to_string())
}

/// Whatever state the parent's task was in: its end is not waited for where no lane could bring it about.
#[test]
fn what_had_not_ended_before_the_fork_is_an_error_at_once() {
    if !is_child() {
        return child("what_had_not_ended_before_the_fork_is_an_error_at_once", &[]);
    }
    within(LIMIT, || {
        let rt = at_rest();
        let poller = common::keep_for_polling(&rt, 0);
        let waits = rt.spawn(std::future::pending::<()>());
        let aborted = rt.spawn(std::future::pending::<()>());
        let awaited = rt.spawn(std::future::pending::<()>()).abort_on_drop();
        let (release, hold) = std::sync::mpsc::channel::<()>();
        let runs = rt.spawn_compute(move || hold.recv().is_err());
        // Most likely queued; a lane that takes it does not end it either.
        let (release_next, hold_next) = std::sync::mpsc::channel::<()>();
        let queued = rt.spawn_compute(move || hold_next.recv().is_err());
        forked(|| {
            assert!(!runs.is_finished() && !poller.is_finished());
            aborted.abort();
            for (cancelled, says) in [seen(runs), seen(queued), seen(waits), seen(aborted)] {
                assert!(cancelled && says.contains("forked"), "{says}");
            }
            let own = at_rest();
            let error = own.block_on(awaited).unwrap().unwrap_err();
            assert!(error.is_cancelled(), "{error}");
            poller.stop();
            let error = poller.join().map(|_| ()).unwrap_err();
            assert!(matches!(error, PollerError::Shutdown) && error.to_string().contains("forked"), "{error}");
            own.shutdown(SOON).unwrap();
        });
        drop((release, release_next));
        rt.shutdown(SOON).unwrap();
    });
}
