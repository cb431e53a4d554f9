//! A quiet peek spares the poller its calls, but not for longer than `peek_refresh`, unless it tells everything.
#![allow(unsafe_code)] // Peek::new

mod common;
use common::{LIMIT, pairs, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;
use twolane::{Peek, PollCx, Poller, Progress, WakeBy, Where};

/// Looks at the producer's word only when it is called.
struct Ring {
    produced: Arc<AtomicU64>,
    consumed: u64,
    complete: bool,
    /// Lets the lane park.
    armed: bool,
}

impl Poller for Ring {
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        let produced = self.produced.load(Acquire);
        let new = produced - std::mem::replace(&mut self.consumed, produced);
        match new {
            0 if cx.stopping() => Progress::Done,
            0 => Progress::Idle,
            new => Progress::Busy(new.try_into().unwrap()),
        }
    }

    fn peek(&self) -> Option<Peek<'_>> {
        let word: *const u8 = Arc::as_ptr(&self.produced).cast();
        // SAFETY: the word is atomic, and this poller holds it as long as it lives.
        let peek = unsafe { Peek::new(word, 64, u64::MAX, self.consumed) }.unwrap();
        Some(if self.complete { peek.complete() } else { peek })
    }

    fn wake_by(&self) -> WakeBy<'_> {
        if self.armed { WakeBy::Ring } else { WakeBy::Never }
    }
}

fn ring(complete: bool) -> (Arc<AtomicU64>, Ring) {
    let produced = Arc::new(AtomicU64::new(0));
    (Arc::clone(&produced), Ring { produced, consumed: 0, complete, armed: false })
}

#[test]
fn a_quiet_word_skips_the_call_and_a_changed_one_brings_it_at_once() {
    within(LIMIT, || {
        let rt = pairs(1).peek_refresh(Duration::from_secs(3600)).build().unwrap();
        let (produced, ring) = ring(false);
        let poller = rt.spawn_poller(Where::Any, "ring", ring).unwrap();
        common::until("it is skipped", || poller.stats().skipped > 1_000);
        let calls = poller.stats().calls;
        assert!(calls <= 3, "{calls} calls in spite of a quiet word"); // the adoption, a ring, the first pass
        for n in 1..=100 {
            produced.store(n * 3, Release);
            common::until("it is called", || poller.stats().events == n * 3);
        }
        let stats = poller.stats();
        assert_eq!(stats.busy_calls, 100);
        assert!(stats.calls <= calls + 100, "asked again after each call that found something: {stats:?}");
    });
}

#[test]
fn it_is_called_all_the_same_after_the_refresh() {
    within(LIMIT, || {
        let rt = pairs(1).peek_refresh(Duration::from_micros(100)).build().unwrap();
        let (_produced, ring) = ring(false);
        let poller = rt.spawn_poller(Where::Any, "ring", ring).unwrap();
        common::until("it is called again and again", || poller.stats().calls > 50);
        assert!(poller.stats().skipped > poller.stats().calls, "{:?}", poller.stats());
    });
}

#[test]
fn a_complete_word_needs_no_refresh() {
    within(LIMIT, || {
        let rt = pairs(1).peek_refresh(Duration::ZERO).build().unwrap();
        let (produced, ring) = ring(true);
        let poller = rt.spawn_poller(Where::Any, "ring", ring).unwrap();
        common::until("it is skipped", || poller.stats().skipped > 10_000);
        assert!(poller.stats().calls <= 3, "{:?}", poller.stats());
        produced.store(1, Release);
        common::until("it is called", || poller.stats().events == 1);
    });
}

#[test]
fn a_ring_and_a_stop_override_the_word() {
    within(LIMIT, || {
        let rt = pairs(1).build().unwrap();
        let (_produced, ring) = ring(true);
        let poller = rt.spawn_poller(Where::Any, "ring", ring).unwrap();
        common::until("it is skipped", || poller.stats().skipped > 100);
        let calls = poller.stats().calls;
        poller.ring();
        common::until("it is called for the ring", || poller.stats().calls > calls);
        poller.stop();
        assert!(poller.join().is_ok(), "it is called to hear of the stop");
    });
}

#[test]
fn what_came_before_the_park_is_not_slept_through() {
    within(LIMIT, || {
        let rt = pairs(1).park_after(Duration::from_micros(1)).build().unwrap();
        let (produced, mut ring) = ring(true);
        ring.armed = true;
        let poller = rt.spawn_poller(Where::Any, "ring", ring).unwrap();
        for n in 1..=2_000 {
            produced.fetch_add(1, Release);
            poller.ring();
            common::until("it is found", || poller.stats().events == n);
        }
    });
}
