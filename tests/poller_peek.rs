//! A quiet peek spares the poller its calls, but not for longer than `peek_refresh`, unless it tells everything; and while there is one poller, its
//! word ends dozes.
#![allow(unsafe_code)] // Peek::new

mod common;
use common::{LIMIT, pairs, within};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;
use twolane::{Handle, LaneMetrics, Peek, PollCx, Poller, Progress, Relief, Runtime, WaitWith, WakeBy, Where};

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

/// Long dozes, by PAUSE on every machine: looking at the word is the only way to end them early.
fn dozes_of(max: Duration) -> Runtime {
    let builder = pairs(1).relief(Relief::Always).wait_with(WaitWith::Pause);
    builder.max_added(max).mean_added(max).peek_refresh(Duration::from_secs(3600)).build().unwrap()
}

fn lane(rt: &Handle, number: usize) -> LaneMetrics {
    rt.metrics().lanes.swap_remove(number)
}

#[test]
fn what_a_producer_writes_ends_a_doze() {
    within(LIMIT, || {
        let rt = dozes_of(Duration::from_millis(10));
        let (produced, ring) = ring(true);
        let poller = rt.spawn_poller(Where::Any, "ring", ring).unwrap();
        // However short the dozes are at first, they grow while nothing comes.
        let mut sent = 0;
        common::until("a doze is cut short", || {
            sent += 1;
            produced.store(sent, Release);
            common::until("it is called", || poller.stats().events == sent);
            std::thread::sleep(Duration::from_millis(2));
            lane(&rt, poller.lane()).cut_dozes > 0
        });
        let lane = lane(&rt, poller.lane());
        assert!(lane.cut_dozes <= lane.dozes && lane.cut_dozes <= sent, "{lane:?}");
        assert_eq!(
            (lane.doze_false_wakes, lane.monitored_dozes),
            (0, 0),
            "nobody rang, and nothing monitored: {lane:?}"
        );
    });
}

/// Shows a word for which it does not care.
struct Careless(Arc<AtomicU64>);

impl Poller for Careless {
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        if cx.stopping() { Progress::Done } else { Progress::Idle }
    }

    fn peek(&self) -> Option<Peek<'_>> {
        // SAFETY: the word is atomic, and this poller holds it as long as it lives.
        unsafe { Peek::new(Arc::as_ptr(&self.0).cast(), 64, 1, 0) }.ok()
    }
}

#[test]
fn a_word_that_means_nothing_costs_no_dozes() {
    within(LIMIT, || {
        let rt = dozes_of(Duration::from_micros(200));
        let word = Arc::new(AtomicU64::new(0));
        let poller = rt.spawn_poller(Where::Any, "careless", Careless(Arc::clone(&word))).unwrap();
        common::until("it dozes", || lane(&rt, poller.lane()).dozes > 100);
        // Changed once and for all: the lane dozes as if there were no word.
        word.store(1, Relaxed);
        let before = lane(&rt, poller.lane());
        common::until("it dozes on", || lane(&rt, poller.lane()).dozes > before.dozes + 100);
        let after = lane(&rt, poller.lane());
        assert!(after.cut_dozes <= before.cut_dozes + 1, "{before:?} {after:?}");
    });
}
