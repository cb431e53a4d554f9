//! Pollers with bounds of their own: in force are the tightest of a lane, for as long as their poller is there. And what the metrics say of
//! why a lane does not wait.

use std::time::{Duration, Instant};

use twolane::{
    Bounds, Builder, Etiquette, Guard, LaneMetrics, Placement, PollCx, PollFn, PollerHandle, Progress, Relief, Runtime,
    Where, Withheld, poll_fn, topology::Topology,
};

const US: fn(u64) -> Duration = Duration::from_micros;

fn builder() -> Builder {
    Runtime::builder().placement(Placement::Unpinned).pairs(1).env_overrides(false)
}

fn quiet() -> PollFn<impl FnMut(&mut PollCx<'_>) -> Progress> {
    poll_fn(|_: &mut PollCx<'_>| Progress::Idle)
}

/// Waits for the metrics of the poll lane to be as wanted.
fn until(rt: &Runtime, why: &str, wanted: impl Fn(&LaneMetrics) -> bool) -> LaneMetrics {
    let begin = Instant::now();
    loop {
        let lane = rt.metrics().lanes.swap_remove(0);
        if wanted(&lane) {
            return lane;
        }
        assert!(begin.elapsed() < Duration::from_secs(30), "{why}: {lane:?}");
        std::thread::yield_now();
    }
}

fn end<R>(poller: PollerHandle<R>) {
    poller.stop();
    assert!(poller.join().is_ok());
}

/// Whether a duration that went through ticks is the one that was set.
fn is(got: Duration, wanted: Duration) -> bool {
    got.abs_diff(wanted) < Duration::from_nanos(20)
}

#[test]
fn the_tightest_bounds_of_a_lane_hold_while_their_poller_is_there() {
    let rt = builder().etiquette(Etiquette::Balanced).build().unwrap();
    let holds =
        |mean: Duration, max: Duration| move |lane: &LaneMetrics| is(lane.mean_added, mean) && is(lane.max_added, max);
    let of_preset = holds(Duration::from_nanos(400), US(4));
    until(&rt, "the preset's", of_preset);
    let patient =
        rt.spawn_poller(Where::Lane(0), "patient", quiet().bounds(Bounds::new(US(50), US(100)).unwrap())).unwrap();
    until(&rt, "looser ones, alone", holds(US(50), US(100)));
    let usual = rt.spawn_poller(Where::Lane(0), "usual", quiet()).unwrap();
    until(&rt, "beside a poller without", of_preset);
    let urgent = rt.spawn_poller(Where::Lane(0), "urgent", quiet().bounds(Bounds::new(US(0), US(1)).unwrap())).unwrap();
    until(&rt, "the tightest", holds(US(0), US(1)));
    end(urgent);
    until(&rt, "gone again", of_preset);
    end(usual);
    until(&rt, "alone again", holds(US(50), US(100)));
    end(patient);
    until(&rt, "none left", of_preset);
}

#[test]
fn waits_keep_to_a_pollers_own_maximum() {
    // Whatever the runtime allows, no doze of this poller's lane is counted as longer than it may be, but by preemption.
    let rt = builder()
        .relief(Relief::Always)
        .max_added(Duration::from_millis(5))
        .mean_added(Duration::from_millis(2))
        .build()
        .unwrap();
    let urgent = Bounds::new(US(2), US(20)).unwrap();
    let poller = rt.spawn_poller(Where::Lane(0), "urgent", quiet().bounds(urgent)).unwrap();
    let before = until(&rt, "waits", |lane| lane.dozes > 100);
    let after = until(&rt, "waits on", |lane| lane.dozes > before.dozes + 2_000);
    let mean = (after.dozing - before.dozing) / u32::try_from(after.dozes - before.dozes).unwrap();
    assert!(mean <= US(20), "dozes of {mean:?} on average: {after:?}");
    end(poller);
}

#[test]
fn the_metrics_say_why_relief_is_withheld() {
    for (relief, wanted) in
        [(Relief::Off, Some(Withheld::Off)), (Relief::Auto, Some(Withheld::SiblingIdle)), (Relief::Always, None)]
    {
        let rt = builder().relief(relief).build().unwrap();
        let poller = rt.spawn_poller(Where::Lane(0), "quiet", quiet()).unwrap();
        // A sibling that has just started has something to do for a moment.
        let lane = until(&rt, "says why", |lane| lane.passes > 1_000 && lane.withheld == wanted);
        match relief {
            Relief::Always => assert!(lane.dozes > 0 && lane.relief_withheld == 0, "{lane:?}"),
            Relief::Off => assert!(lane.dozes == 0 && lane.relief_withheld > 0, "{lane:?}"),
            _ => _ = until(&rt, "withholds", |now| now.relief_withheld > lane.relief_withheld),
        }
        end(poller);
    }
}

#[test]
fn a_quota_below_the_lanes_is_a_guard() {
    let mut topology = Topology::read().unwrap();
    topology.quota = None;
    let start = |topology: &Topology| builder().topology(topology.clone()).build().unwrap();
    let rt = start(&topology);
    let without = until(&rt, "starts", |lane| lane.waits.is_some()).guards;
    assert!(!without.contains(&Guard::Quota), "{without:?}");
    topology.quota = Some(twolane::topology::Quota { cpus: 1.5, source: "cpu.max".into() });
    // It is told a moment after what the lane waits with.
    let rt = start(&topology);
    until(&rt, "is guarded", |lane| lane.guards.contains(&Guard::Quota));
}

#[test]
fn latency_that_waits_add_is_accounted_for() {
    let rt = builder().relief(Relief::Always).build().unwrap();
    let mut next = Instant::now();
    let poller = poll_fn(move |_: &mut PollCx<'_>| {
        if Instant::now() < next {
            return Progress::Idle;
        }
        next = Instant::now() + US(20);
        Progress::Busy(1)
    });
    let poller = rt.spawn_poller(Where::Lane(0), "by the clock", poller).unwrap();
    let lane = until(&rt, "charges", |lane| lane.added > Duration::ZERO && lane.events > 200);
    // 64 events' worth may be saved up and spent at once.
    let granted = Duration::from_nanos(400) * u32::try_from(lane.events + 64).unwrap();
    assert!(lane.added <= granted + US(4) * 64, "{lane:?}");
    assert!(lane.budget_ns <= 64 * 400 + 20, "{lane:?}");
    end(poller);
}
