//! Whoever serves pollers never blocks: `join` and `block_on` inside a poller, its drop, or a hook are errors at once.

mod common;
use common::{LIMIT, SOON, pairs, within};
use std::sync::mpsc::{Sender, channel};
use twolane::{BlockingJoinError, Handle, PollCx, PollerError, Progress, Where};

/// Tries every way to block and tells what came of it.
fn try_all(rt: &Handle, tell: &Sender<[bool; 3]>) {
    let join = rt.spawn_compute(|| ()).join();
    let poller = rt.spawn_poller(Where::Any, "other", common::quiet());
    let poller = match poller {
        Ok(poller) => matches!(poller.join(), Err(PollerError::WouldDeadlock(_))),
        Err(_) => true, // the runtime ends, and takes none
    };
    // A task may be refused by a runtime that ends: then there is nothing to wait for.
    let join = match join {
        Err(BlockingJoinError::WouldDeadlock(_)) => true,
        Err(error) => error.is_cancelled(),
        Ok(()) => false,
    };
    tell.send([join, poller, rt.block_on(std::future::ready(())).is_err()]).unwrap();
}

const ALL_REFUSED: [bool; 3] = [true; 3];

#[test]
fn inside_a_poller() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (tell, hear) = channel();
        let handle = rt.handle();
        let poller = rt
            .spawn_poller(Where::Any, "blocks", move |_: &mut PollCx<'_>| {
                try_all(&handle, &tell);
                Progress::Done
            })
            .unwrap();
        assert_eq!(hear.recv_timeout(LIMIT), Ok(ALL_REFUSED));
        assert!(poller.join().is_ok());
    });
}

#[test]
fn inside_a_pollers_drop_and_inside_its_making() {
    struct DropBlocks(Handle, Sender<[bool; 3]>);
    impl Drop for DropBlocks {
        fn drop(&mut self) {
            try_all(&self.0, &self.1);
        }
    }
    impl twolane::Poller for DropBlocks {
        fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
            Progress::Done
        }
    }
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (tell, hear) = channel();
        let handle = rt.handle();
        let poller = rt
            .spawn_poller_with(Where::Any, "blocks", move |_| {
                try_all(&handle, &tell);
                Ok::<_, std::convert::Infallible>(DropBlocks(handle, tell))
            })
            .unwrap();
        assert_eq!(hear.recv_timeout(LIMIT), Ok(ALL_REFUSED), "making");
        assert_eq!(hear.recv_timeout(LIMIT), Ok(ALL_REFUSED), "drop");
        poller.join().unwrap();
    });
}

#[test]
fn inside_the_drop_of_a_poller_that_the_shutdown_drops() {
    struct Stubborn(Handle, Sender<[bool; 3]>);
    impl Drop for Stubborn {
        fn drop(&mut self) {
            try_all(&self.0, &self.1);
        }
    }
    impl twolane::Poller for Stubborn {
        fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
            Progress::Busy(0)
        }
    }
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (tell, hear) = channel();
        let poller = rt.spawn_poller(Where::Any, "stubborn", Stubborn(rt.handle(), tell)).unwrap();
        let report = rt.shutdown(std::time::Duration::from_millis(20)).unwrap_err();
        // If the lane had no cpu after the deadline, it counts as stuck, and drops the poller a moment later.
        assert!(report.dropped_pollers == ["stubborn"] || report.stuck.len() == 1, "{report}");
        assert_eq!(hear.recv_timeout(LIMIT), Ok(ALL_REFUSED));
        assert!(matches!(poller.join(), Err(PollerError::Shutdown)));
    });
}

#[test]
fn inside_a_hook() {
    within(LIMIT, || {
        let (tell, hear) = channel();
        let (at_start, at_stop) = (tell.clone(), tell);
        // The hooks run before anybody outside can have a handle: one of another runtime does as well.
        let other = pairs(1).build().unwrap();
        let (one, two) = (other.handle(), other.handle());
        let rt = pairs(1)
            .on_lane_start(move |_| at_start.send(one.block_on(std::future::ready(())).is_err()).unwrap())
            .on_lane_stop(move |_| at_stop.send(two.spawn(std::future::pending::<()>()).join().is_err()).unwrap())
            .build()
            .unwrap();
        for _ in 0..2 {
            assert_eq!(hear.recv_timeout(LIMIT), Ok(true), "start");
        }
        rt.shutdown(SOON).unwrap();
        for _ in 0..2 {
            assert_eq!(hear.recv_timeout(LIMIT), Ok(true), "stop");
        }
    });
}

#[test]
fn a_task_does_not_wait_for_a_poller_of_its_own_lane() {
    within(LIMIT, || {
        // Lane 1 is kept busy, so the closure runs on lane 0, which has no pollers yet and may block.
        let rt = pairs(1).build().unwrap();
        let held: Vec<_> = (0..2).map(|_| common::Gate::default()).collect();
        let begun: Vec<_> = (0..2).map(|_| std::sync::mpsc::channel()).collect();
        for (gate, (tell, _)) in held.iter().zip(&begun) {
            let (gate, tell, rt2) = (gate.clone(), tell.clone(), rt.handle());
            drop(rt.spawn_compute(move || {
                tell.send(rt2.current_lane().unwrap()).unwrap();
                gate.wait();
                let poller = rt2.spawn_poller(Where::Lane(0), "own", common::quiet()).unwrap();
                poller.stop();
                let joined = poller.join();
                // On lane 1 the wait is refused too: it is the last compute lane.
                tell.send(usize::from(matches!(joined, Err(PollerError::WouldDeadlock(_))))).unwrap();
            }));
        }
        let lanes: Vec<usize> = begun.iter().map(|(_, hear)| hear.recv_timeout(LIMIT).unwrap()).collect();
        let on_poll_lane = lanes.iter().position(|&lane| lane == 0).expect("both lanes take closures");
        held[on_poll_lane].open();
        assert_eq!(
            begun[on_poll_lane].1.recv_timeout(common::PROMPT),
            Ok(1),
            "it waits for a poller that waits for it"
        );
        held[1 - on_poll_lane].open();
    });
}
