//! What may be a poller: a closure, a type of one's own, and what must be built on its lane because it cannot be sent there.

mod common;
use common::{LIMIT, pairs, within};
use std::convert::Infallible;
use std::rc::Rc;
use std::thread::{self, ThreadId};
use twolane::{LaneInfo, PollCx, Poller, PollerError, PollerStats, Progress, Where, poll_fn};

/// Counts down, with one event a call, and remembers where it was called.
struct Countdown {
    left: u32,
    threads: Vec<ThreadId>,
}

impl Poller for Countdown {
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        assert_eq!(cx.lane().lane(), 0);
        self.threads.push(thread::current().id());
        match self.left {
            0 => Progress::Done,
            _ => {
                self.left -= 1;
                Progress::Busy(2)
            }
        }
    }
}

#[test]
fn a_closure_is_called_until_it_is_done() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let mut calls = 0;
        let poller = rt
            .spawn_poller(Where::Any, "counts", move |_: &mut PollCx<'_>| {
                calls += 1;
                if calls < 100 { Progress::Idle } else { Progress::Done }
            })
            .unwrap();
        assert_eq!((poller.name(), poller.lane()), ("counts", 0));
        common::until("it is done", || poller.is_finished());
        let PollerStats { calls, busy_calls, events, skipped, .. } = poller.stats();
        assert_eq!((calls, busy_calls, events, skipped), (100, 0, 0, 0));
        assert!(poller.join().is_ok());
        common::until("the lane has no poller", || rt.metrics().lanes[0].pollers == 0);
        assert_eq!(rt.metrics().live_pollers, 0);
    });
}

#[test]
fn a_type_of_ones_own_comes_back_as_it_ended() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let poller = rt.spawn_poller(Where::Any, "countdown", Countdown { left: 3, threads: Vec::new() }).unwrap();
        common::until("it is done", || poller.is_finished());
        let stats = poller.stats();
        assert_eq!((stats.calls, stats.busy_calls, stats.events), (4, 3, 6));
        let ended = poller.join().unwrap();
        assert_eq!(ended.left, 0);
        assert!(ended.threads.iter().all(|&thread| thread == ended.threads[0] && thread != thread::current().id()));
        let lane = &rt.metrics().lanes[0];
        assert_eq!((lane.events, lane.busy_passes), (6, 3));
    });
}

#[test]
fn a_dropped_handle_leaves_the_poller_running() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (tell, hear) = std::sync::mpsc::channel();
        drop(rt.spawn_poller(Where::Any, "on its own", move |_: &mut PollCx<'_>| match tell.send(()) {
            Ok(()) => Progress::Idle,
            Err(_) => Progress::Done,
        }));
        for _ in 0..100 {
            hear.recv_timeout(LIMIT).unwrap();
        }
        drop(hear);
        common::until("it is done", || rt.metrics().live_pollers == 0);
    });
}

#[test]
fn what_cannot_be_sent_is_built_called_and_dropped_on_its_lane() {
    struct NotSend(Rc<ThreadId>, u32);
    impl NotSend {
        fn check(&self) {
            assert_eq!(*self.0, thread::current().id());
        }
    }
    impl Poller for NotSend {
        fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
            self.check();
            self.1 += 1;
            if self.1 < 10 { Progress::Busy(1) } else { Progress::Done }
        }
    }
    impl Drop for NotSend {
        fn drop(&mut self) {
            self.check(); // a panic in here would reach the handle
        }
    }
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let make = |info: &LaneInfo| {
            assert_eq!(info.lane(), 0);
            Ok::<_, Infallible>(NotSend(Rc::new(thread::current().id()), 0))
        };
        let poller = rt.spawn_poller_with(Where::Lane(0), "not send", make).unwrap();
        poller.join().unwrap();
    });
}

#[test]
fn a_closure_with_an_rc_is_a_poller_too() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let make = |_: &LaneInfo| {
            let calls = Rc::new(std::cell::Cell::new(0));
            Ok::<_, Infallible>(poll_fn(move |_| {
                calls.set(calls.get() + 1);
                if calls.get() < 5 { Progress::Idle } else { Progress::Done }
            }))
        };
        rt.spawn_poller_with(Where::Any, "rc", make).unwrap().join().unwrap();
    });
}

#[test]
fn what_cannot_be_built_tells_the_handle_why() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        type Never = fn(&mut PollCx<'_>) -> Progress;
        let failed = rt.spawn_poller_with(Where::Any, "no queue", |_| Err::<Never, _>("queue 7 is taken")).unwrap();
        let error = failed.join().unwrap_err();
        assert!(matches!(&error, PollerError::Init(why) if why.to_string() == "queue 7 is taken"), "{error}");
        assert_eq!(error.to_string(), "the poller could not be built on its lane: queue 7 is taken");

        let io = || std::io::Error::from(std::io::ErrorKind::NotFound);
        let failed = rt.spawn_poller_with(Where::Any, "no file", move |_| Err::<Never, _>(io())).unwrap();
        assert!(matches!(failed.join(), Err(PollerError::Init(why)) if why.is::<std::io::Error>()));

        let panicked = rt.spawn_poller_with(Where::Any, "bomb", |_| -> Result<Never, Infallible> { panic!("no") });
        assert!(
            matches!(panicked.unwrap().join(), Err(PollerError::Panicked(payload)) if common::message(&*payload) == "no")
        );
        assert_eq!(rt.metrics().live_pollers, 0);
        assert!(rt.spawn_poller(Where::Any, "next", common::quiet()).is_ok(), "the lane lives");
    });
}
