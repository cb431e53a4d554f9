//! A poller that says it is dormant is not called until its lane is rung, and a lane with nothing but dormant pollers is a compute lane.

mod common;
use common::{Gate, LIMIT, PROMPT, SOON, occupy, pairs, parked, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use twolane::{PollCx, Poller, PollerHandle, Progress, Runtime, WakeBy, Where};

/// Counts its calls, and takes what is in the mailbox. It is no help for parking but by being dormant.
#[derive(Clone, Default)]
struct Mailbox {
    mail: Arc<AtomicU32>,
    taken: Arc<AtomicU32>,
    calls: Arc<AtomicU64>,
}

impl Poller for Mailbox {
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        self.calls.fetch_add(1, SeqCst);
        match self.mail.swap(0, SeqCst) {
            0 => Progress::Dormant,
            n => {
                self.taken.fetch_add(n, SeqCst);
                Progress::Busy(n)
            }
        }
    }

    fn wake_by(&self) -> WakeBy<'_> {
        WakeBy::Ring
    }
}

fn start() -> (Runtime, Mailbox, PollerHandle<Mailbox>) {
    let rt = pairs(1).build().unwrap();
    let mailbox = Mailbox::default();
    let poller = rt.spawn_poller(Where::Any, "mailbox", mailbox.clone()).unwrap();
    common::until("it is called", || mailbox.calls.load(SeqCst) > 0);
    (rt, mailbox, poller)
}

#[test]
fn it_is_called_once_a_ring_and_its_lane_parks() {
    within(LIMIT, || {
        let (rt, mailbox, poller) = start();
        for n in 1..=20 {
            parked(&rt, poller.lane());
            let calls = mailbox.calls.load(SeqCst);
            mailbox.mail.store(1, SeqCst);
            poller.ring();
            common::until("the ring was heard", || mailbox.taken.load(SeqCst) == n);
            parked(&rt, poller.lane());
            let called = mailbox.calls.load(SeqCst) - calls;
            // Once that found it, once that did not; and a stray ring or two, of the lanes' own.
            assert!(called <= 5, "{called} calls for one ring");
        }
    });
}

#[test]
fn no_ring_is_lost_on_its_way_to_sleep() {
    within(LIMIT, || {
        let (_rt, mailbox, poller) = start();
        for n in 1..=20_000 {
            mailbox.mail.fetch_add(1, SeqCst);
            poller.ring();
            if n % 3 == 0 {
                common::until("it was taken", || mailbox.taken.load(SeqCst) == n);
            }
        }
    });
}

#[test]
fn its_lane_runs_tasks() {
    within(LIMIT, || {
        let (rt, mailbox, poller) = start();
        for n in 1..=20 {
            // One lane is at work, and does not come back; the other one has the poller, or has it waiting.
            let end = occupy(&rt);
            let ran = Gate::default();
            let tell = ran.clone();
            drop(rt.spawn_compute(move || tell.open()));
            assert!(ran.opens_within(PROMPT), "a task waited beside a lane with a dormant poller: {:#?}", rt.metrics());
            end.open();
            mailbox.mail.store(1, SeqCst);
            poller.ring();
            common::until("and the poller is called all the same", || mailbox.taken.load(SeqCst) == n);
        }
    });
}

#[test]
fn a_stop_and_a_shutdown_end_it() {
    within(LIMIT, || {
        let (rt, _, poller) = start();
        parked(&rt, poller.lane());
        poller.stop();
        poller.join().unwrap();
        let second = rt.spawn_poller(Where::Any, "second", Mailbox::default()).unwrap();
        let report = rt.shutdown(SOON);
        assert!(report.is_ok(), "{report:?}");
        second.join().unwrap();
    });
}
