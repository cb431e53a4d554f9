//! Lanes whose cpu has wait instructions, well-behaved or not: they wait by them, hear the doorbell, and make progress and
//! park in time whatever the instructions do.
#![cfg(all(feature = "sim", target_arch = "x86_64"))]
#![allow(unsafe_code)] // a peek's word, and the counter

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use twolane::sim::trap::{Behaviour, Family, Scene, Trap};
use twolane::{
    Builder, Etiquette, LaneMetrics, Park, Peek, Placement, PollCx, Poller, Progress, Relief, Runtime, WaitWith,
    WakeBy, Where, WhyNot,
};

/// The instructions that come to the traps: some cpus execute MWAITX though CPUID hides it.
fn families() -> impl Iterator<Item = Family> {
    let trap = Trap::install().unwrap();
    [Family::Waitpkg, Family::Mwaitx].into_iter().filter(move |family| trap.carries_out(*family))
}

/// Waits are a multiple of what a pass takes, and a trap takes 15 us: with dear passes most waits are waits.
const MAX_ADDED: Duration = Duration::from_millis(2);
const PASS: Duration = Duration::from_micros(50);

/// A dear pass.
fn take_time() {
    let begin = Instant::now();
    while begin.elapsed() < PASS {
        std::hint::spin_loop();
    }
}

fn scene(behaviour: Behaviour) -> (Trap, Scene) {
    let trap = Trap::install().unwrap();
    (trap, trap.scene(behaviour))
}

fn builder(trap: Trap, family: Family) -> Builder {
    Runtime::builder()
        .placement(Placement::Unpinned)
        .pairs(1)
        .relief(Relief::Always)
        .park(Park::Never)
        .max_added(MAX_ADDED)
        .mean_added(MAX_ADDED / 2)
        // Pollers are called although their peeks are quiet: the pass stays dear.
        .peek_refresh(Duration::ZERO)
        .emulate_waits(trap, family)
        .env_overrides(false)
}

/// Has a poller that never finds anything, until the lane's metrics are as wanted.
fn idle_until(rt: &Runtime, wanted: impl Fn(&LaneMetrics) -> bool) -> LaneMetrics {
    let idler = |_: &mut PollCx<'_>| {
        take_time();
        Progress::Idle
    };
    let poller = rt.spawn_poller(Where::Lane(0), "idle", idler).unwrap();
    let begin = Instant::now();
    let lane = loop {
        let lane = rt.metrics().lanes.swap_remove(0);
        if wanted(&lane) {
            break lane;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{lane:?}");
        std::thread::yield_now();
    };
    poller.stop();
    let _ = poller.join().unwrap();
    lane
}

/// A runtime whose poll lane found the instructions good: on a busy machine a test at the start may be preempted again and
/// again, and then it is as it should be that the lane does without. `None`: the lane's clock is not the counter, and there is
/// nothing to see.
fn build(builder: &Builder) -> Option<Runtime> {
    let begin = Instant::now();
    loop {
        let rt = builder.clone().build().unwrap();
        await_start(&rt);
        let waits = rt.metrics().lanes[0].waits.clone().unwrap();
        match (&waits.why_pause, &waits.why_no_monitor) {
            (None, None) => return Some(rt),
            (Some(WhyNot::OtherClock), _) => return None,
            _ => assert!(begin.elapsed() < Duration::from_secs(60), "{waits}"),
        }
        rt.shutdown(Duration::from_secs(5)).unwrap();
    }
}

/// Returns when every lane has tested what it waits with.
fn await_start(rt: &Runtime) {
    while rt.metrics().lanes.iter().any(|lane| lane.waits.is_none()) {
        std::thread::yield_now();
    }
}

/// Ticks of the counter in `time`, measured, and a tenth more.
fn ticks_in(time: Duration) -> u64 {
    // SAFETY: every x86-64 cpu has it.
    let (begin, from) = (Instant::now(), unsafe { std::arch::x86_64::_rdtsc() });
    std::thread::sleep(Duration::from_millis(20));
    // SAFETY: as above.
    let ticks = unsafe { std::arch::x86_64::_rdtsc() } - from;
    (ticks as f64 * time.as_secs_f64() / begin.elapsed().as_secs_f64() * 1.1) as u64
}

#[test]
fn a_quiet_lane_waits_by_instruction_and_never_for_longer_than_it_may() {
    for family in families() {
        let (trap, scene) = scene(Behaviour::by_the_manual());
        let Some(rt) = build(&builder(trap, family)) else { return };
        let rested = |lane: &LaneMetrics| lane.instruction_dozes > 20 && scene.counts().by_deadline > 60;
        idle_until(&rt, rested);
        let counts = scene.counts();
        assert_eq!((counts.endless, counts.faults, counts.passed_on), (0, 0, 0), "{counts:?}");
        assert!(counts.longest_asked <= ticks_in(MAX_ADDED), "{counts:?}");
        match family {
            Family::Waitpkg => assert!(counts.umwait > 0 && counts.monitorx == 0, "{counts:?}"),
            _ => assert!(counts.mwaitx > 0 && counts.umonitor == 0, "{counts:?}"),
        }
        rt.shutdown(Duration::from_secs(5)).unwrap();
    }
}

#[test]
fn pause_is_all_there_is_where_it_is_all_that_is_wanted() {
    let (trap, scene) = scene(Behaviour::by_the_manual());
    let rt = builder(trap, Family::Waitpkg).wait_with(WaitWith::Pause).build().unwrap();
    let lane = idle_until(&rt, |lane| lane.dozes > 0);
    assert!(lane.dozes > 0 && lane.instruction_dozes == 0, "{lane:?}");
    assert_eq!(lane.waits.unwrap().why_pause, Some(WhyNot::Unwanted));
    assert_eq!(scene.counts(), Default::default());
}

#[test]
fn depth_is_as_wanted() {
    for (with, light) in [(WaitWith::Light, true), (WaitWith::Deep, false)] {
        let (trap, scene) = scene(Behaviour::by_the_manual());
        let Some(rt) = build(&builder(trap, Family::Waitpkg).wait_with(with)) else { return };
        let before = scene.counts();
        idle_until(&rt, |_| scene.counts().umwait > before.umwait);
        let counts = scene.counts();
        let (waits, lights) = (counts.umwait - before.umwait, counts.light - before.light);
        assert_eq!(lights, if light { waits } else { 0 }, "{with:?}, of {waits}");
    }
}

/// A poller whose word another thread writes, and rings or not.
struct Listener {
    word: Arc<AtomicU32>,
    seen: u32,
    peeks: bool,
    heard: Arc<AtomicU64>,
}

impl Poller for Listener {
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        take_time();
        let now = self.word.load(Acquire);
        if now == self.seen {
            return Progress::Idle;
        }
        let events = now.wrapping_sub(self.seen);
        self.seen = now;
        self.heard.fetch_add(events.into(), Release);
        Progress::Busy(events)
    }

    fn peek(&self) -> Option<Peek<'_>> {
        // SAFETY: the word is in an `Arc` that the poller holds, and only ever written by atomic stores.
        self.peeks
            .then(|| unsafe { Peek::new(self.word.as_ptr().cast(), 32, u32::MAX.into(), self.seen.into()) }.unwrap())
    }

    fn wake_by(&self) -> WakeBy<'_> {
        WakeBy::Ring
    }
}

/// Writes the word so many times, each after the last was heard and the lane has gone to rest.
fn converse(rt: &Runtime, peeks: bool, ring: bool, rounds: u32) {
    let (word, heard) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    let listener = Listener { word: Arc::clone(&word), seen: 0, peeks, heard: Arc::clone(&heard) };
    let poller = rt.spawn_poller(Where::Lane(0), "listener", listener).unwrap();
    let dozes = || rt.metrics().lanes[0].dozes;
    for n in 1..=rounds {
        let (begin, from) = (Instant::now(), dozes());
        while dozes() < from + 4 {
            assert!(begin.elapsed() < Duration::from_secs(30), "round {n}: the lane does not rest");
            std::thread::yield_now();
        }
        word.store(n, Release);
        if ring {
            poller.ring();
        }
        let begin = Instant::now();
        while heard.load(Acquire) < n.into() {
            assert!(begin.elapsed() < Duration::from_secs(30), "round {n} was not heard");
            std::thread::yield_now();
        }
    }
    poller.stop();
    let _ = poller.join().unwrap();
}

#[test]
fn the_doorbell_and_a_pollers_own_word_end_waits() {
    for family in families() {
        for (peeks, ring) in [(false, true), (true, false)] {
            let (trap, scene) = scene(Behaviour::by_the_manual());
            // A wait for a poller's word does not hear the doorbell, so it lasts 20 us by this preset, and 4 us by the usual one:
            // less than the traps take.
            let Some(rt) = build(&builder(trap, family).etiquette(Etiquette::Polite)) else { return };
            scene.turn(Behaviour::by_the_manual().grace(ticks_in(Duration::from_micros(200))));
            // Until one of the stores comes while the lane waits, whatever the machine does meanwhile.
            let begin = Instant::now();
            while scene.counts().by_store == 0 {
                assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", scene.counts());
                converse(&rt, peeks, ring, 20);
            }
            rt.shutdown(Duration::from_secs(5)).unwrap();
        }
    }
}

#[test]
fn nothing_depends_on_what_the_instructions_do() {
    let late = ticks_in(Duration::from_micros(100));
    for family in families() {
        for (behaviour, what) in [
            (Behaviour::by_the_manual().instant(), "instant"),
            (Behaviour::by_the_manual().deaf(), "the monitor never fires"),
            (Behaviour::by_the_manual().overshoot(late), "late by 100 us"),
            (Behaviour::by_the_manual().spurious_every(2), "spurious"),
            (Behaviour::by_the_manual().os_limit(5_000), "limited"),
        ] {
            let (trap, scene) = scene(Behaviour::by_the_manual());
            // Tested by the manual; then the cpu changes.
            let Some(rt) = build(&builder(trap, family)) else { return };
            scene.turn(behaviour);
            converse(&rt, true, true, 50);
            converse(&rt, false, false, 50);
            let limited = what == "limited" && family == Family::Waitpkg;
            let lane = idle_until(&rt, |lane| lane.passes > 300 && (lane.os_limited_dozes > 0) == limited);
            assert!(lane.events >= 100, "{what}: {lane:?}");
            rt.shutdown(Duration::from_secs(5)).unwrap();
        }
    }
}

#[test]
fn a_lane_parks_by_time_although_its_waits_take_none() {
    for family in families() {
        let (trap, scene) = scene(Behaviour::by_the_manual());
        let builder = builder(trap, family).park(Park::WhenArmed).park_after(Duration::from_millis(5));
        let Some(rt) = build(&builder) else { return };
        scene.turn(Behaviour::by_the_manual().instant());
        let listener = Listener { word: Arc::default(), seen: 0, peeks: false, heard: Arc::default() };
        let poller = rt.spawn_poller(Where::Lane(0), "parker", listener).unwrap();
        let begin = Instant::now();
        while rt.metrics().lanes[0].parked == Duration::ZERO {
            assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", rt.metrics().lanes[0]);
            std::thread::yield_now();
        }
        poller.stop();
        let _ = poller.join().unwrap();
        rt.shutdown(Duration::from_secs(5)).unwrap();
    }
}

#[test]
fn an_instruction_that_does_nothing_is_found_out_at_the_start() {
    let (trap, scene) = scene(Behaviour::by_the_manual().instant());
    let rt = builder(trap, Family::Waitpkg).build().unwrap();
    let lane = idle_until(&rt, |lane| lane.dozes > 0);
    let waits = lane.waits.clone().unwrap();
    assert_eq!(waits.instructions, "PAUSE");
    if waits.why_pause == Some(WhyNot::OtherClock) {
        return;
    }
    // Not all eight: one that is preempted looks long.
    assert!(matches!(waits.why_pause, Some(WhyNot::EndsEarly { early: 5.., of: 8 })), "{waits}");
    assert!(lane.dozes > 0 && lane.instruction_dozes == 0, "{lane:?}");
    // Each lane tried one kind of wait, eight times, and in doubt eight times more.
    assert!(scene.counts().tpause <= 16 * rt.metrics().lanes.len() as u64, "{:?}", scene.counts());
}

#[test]
fn shutdown_ends_a_wait() {
    let (trap, _scene) = scene(Behaviour::by_the_manual().deaf());
    let rt = builder(trap, Family::Mwaitx).build().unwrap();
    let listener = Listener { word: Arc::default(), seen: 0, peeks: true, heard: Arc::default() };
    let poller = rt.spawn_poller(Where::Lane(0), "listener", listener).unwrap();
    rt.shutdown(Duration::from_secs(5)).unwrap();
    let _ = poller.join().unwrap();
}
