//! A panic in any method of a poller removes that poller and nothing else: its handle has the payload, the lane and its neighbours live.

mod common;
use common::{LIMIT, SOON, pairs, parked, within};
use twolane::{Peek, PollCx, Poller, PollerError, Progress, WakeBy, Where, poll_fn};

#[derive(Clone, Copy, Debug, PartialEq)]
enum In {
    Poll,
    WakeBy,
    Peek,
    BeforeWait,
    Arm,
    Disarm,
    Drop,
    DropAfterPanic,
}

/// Panics in one of its methods.
struct Bomb(In);

impl Bomb {
    fn here(&self, place: In) {
        if self.0 == place {
            panic!("in {place:?}");
        }
    }
}

impl Poller for Bomb {
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        self.here(In::Poll);
        match self.0 {
            In::DropAfterPanic => panic!("the first one"),
            In::Drop => Progress::Done,
            _ => Progress::Idle,
        }
    }
    fn wake_by(&self) -> WakeBy<'_> {
        self.here(In::WakeBy);
        WakeBy::Ring
    }
    fn peek(&self) -> Option<Peek<'_>> {
        self.here(In::Peek);
        None
    }
    fn before_wait(&mut self) {
        self.here(In::BeforeWait);
    }
    fn arm(&mut self) -> bool {
        self.here(In::Arm);
        true
    }
    fn disarm(&mut self) {
        self.here(In::Disarm);
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.here(In::Drop);
        self.here(In::DropAfterPanic);
    }
}

#[test]
fn whichever_method_it_is() {
    for place in [In::Poll, In::WakeBy, In::Peek, In::BeforeWait, In::Arm, In::Disarm, In::Drop, In::DropAfterPanic] {
        within(LIMIT, move || {
            let rt = pairs(1).build().unwrap();
            let make = |place| move |_: &_| Ok::<_, std::convert::Infallible>(Bomb(place));
            let before = common::keep_for_polling(&rt, 0);
            let bomb = rt.spawn_poller_with(Where::Any, "bomb", make(place)).unwrap();
            let after = common::keep_for_polling(&rt, 0);
            // One that is disarmed needs something that ends its park.
            common::until("it panics", || {
                before.ring();
                bomb.is_finished()
            });
            match bomb.join() {
                Err(PollerError::Panicked(payload)) if place == In::DropAfterPanic => {
                    assert_eq!(common::message(&*payload), "the first one", "it is what went wrong first");
                }
                Err(PollerError::Panicked(payload)) => {
                    assert_eq!(common::message(&*payload), format!("in {place:?}"));
                }
                other => panic!("{place:?}: {other:?}"),
            }
            common::until("it is counted, once", || rt.metrics().lanes[0].panics == 1);
            // The neighbours on both sides are called, and the lane parks.
            for neighbour in [&before, &after] {
                let calls = neighbour.stats().calls;
                neighbour.ring();
                common::until("the neighbour is called", || neighbour.stats().calls > calls);
            }
            parked(&rt, 0);
            assert_eq!((rt.metrics().lanes[0].pollers, rt.metrics().live_pollers), (2, 2), "{place:?}");
            assert_eq!(rt.spawn_compute(|| 1).join().unwrap(), 1);
            before.stop();
            after.stop();
            assert!(before.join().is_ok() && after.join().is_ok());
            rt.shutdown(SOON).unwrap();
        });
    }
}

#[test]
fn many_at_once() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let bombs: Vec<_> = (0..20_u32)
            .map(|n| rt.spawn_poller(Where::Any, "bomb", poll_fn(move |_| std::panic::panic_any(n))).unwrap())
            .collect();
        for (n, bomb) in (0..).zip(bombs) {
            let Err(PollerError::Panicked(payload)) = bomb.join() else { panic!("bomb {n}") };
            assert_eq!(payload.downcast_ref::<u32>(), Some(&n));
        }
        common::until("all are counted", || rt.metrics().lanes[0].panics == 20);
    });
}

#[test]
fn a_payload_that_panics_when_it_is_dropped_is_the_joiners() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            if !std::thread::panicking() {
                panic!("payload");
            }
        }
    }
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let thrower = rt.spawn_poller(Where::Any, "thrower", poll_fn(|_| std::panic::panic_any(Payload))).unwrap();
        // Nobody will take the payload: it is dropped on the lane, which lives, or here, if it was thrown already.
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(thrower)));
        let thrower = rt.spawn_poller(Where::Any, "thrower", poll_fn(|_| std::panic::panic_any(Payload))).unwrap();
        let Err(PollerError::Panicked(payload)) = thrower.join() else { panic!("it threw") };
        std::mem::forget(payload);
        let _poller = common::keep_for_polling(&rt, 0);
        rt.shutdown(SOON).unwrap();
    });
}
