//! Where two lanes are known to share a core, a poll lane whose waits are late asks its sibling to rest: rarely, and nowhere else.
//!
//! The sharing is injected: two cpus of this machine are declared siblings of one core. So passes do not become shorter while the sibling
//! rests, and what is seen here is that requests are carried out, rationed, and given up. The waits are late because a trap carries them out.
#![cfg(all(feature = "sim", target_arch = "x86_64"))]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use twolane::sim::trap::{Behaviour, Family, Scene, Trap};
use twolane::topology::{Smt, Topology};
use twolane::{Builder, Handle, LaneMetrics, Placement, PollCx, Progress, Relief, Role, Runtime, Sharing, Where};

/// How long a runtime is watched. Its first waits decide: later ones are given up, since they are late.
const PATIENCE: Duration = Duration::from_secs(1);
/// Runtimes that are tried: in some the first waits are taken for preempted ones, where the host takes the cpu in a trap.
const TRIES: u32 = 30;

/// This machine, as if its first two cpus were one core; `None` if it has just one.
fn paired() -> Option<Topology> {
    let mut topology = Topology::read().unwrap();
    let allowed: Vec<usize> = topology.allowed().into_iter().take(2).collect();
    let [first, second] = allowed[..] else { return None };
    let core = topology.cpu(first)?.core;
    topology.cpus.iter_mut().filter(|cpu| cpu.id == second).for_each(|cpu| cpu.core = core);
    topology.smt = Smt::Visible;
    Some(topology)
}

/// A cpu whose waits end some 15 us late, by what a trap takes.
fn late_waits() -> (Trap, Scene) {
    let trap = Trap::install().unwrap();
    (trap, trap.scene(Behaviour::by_the_manual()))
}

fn builder(topology: Topology, trap: Trap) -> Builder {
    Runtime::builder()
        .emulate_waits(trap, Family::Waitpkg)
        .topology(topology)
        .placement(Placement::Siblings)
        .pairs(1)
        .relief(Relief::Always)
        .max_added(Duration::from_nanos(300))
        .mean_added(Duration::from_nanos(150))
        .env_overrides(false)
}

/// Tasks of some microseconds, one after the other, until it is over.
fn keep_busy(handle: &Handle, over: &Arc<AtomicBool>) {
    let (next, over) = (handle.clone(), Arc::clone(over));
    drop(handle.spawn_compute(move || {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(5) {
            std::hint::spin_loop();
        }
        if !over.load(Relaxed) {
            keep_busy(&next, &over);
        }
    }));
}

/// The metrics of the poll and of the compute lane after a time of late waits, and how long that was.
fn run(rt: &Runtime, enough: impl Fn(&LaneMetrics, &LaneMetrics) -> bool) -> (LaneMetrics, LaneMetrics, Duration) {
    let over = Arc::new(AtomicBool::new(false));
    keep_busy(&rt.handle(), &over);
    let poller = rt.spawn_poller(Where::Lane(0), "quiet", |_: &mut PollCx<'_>| Progress::Idle).unwrap();
    let begin = Instant::now();
    let (poll, compute) = loop {
        let lanes = rt.metrics().lanes;
        let of = |role| lanes.iter().find(|lane| lane.info.plan.role == role).unwrap().clone();
        let (poll, compute) = (of(Role::Poll), of(Role::Compute));
        if enough(&poll, &compute) || begin.elapsed() > PATIENCE {
            break (poll, compute);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let lasted = begin.elapsed();
    over.store(true, Relaxed);
    poller.stop();
    poller.join().map(drop).unwrap();
    (poll, compute, lasted)
}

#[test]
fn a_sibling_that_shares_the_core_rests_and_not_for_more_than_its_share() {
    let Some(topology) = paired() else { return };
    let (trap, _scene) = late_waits();
    for _ in 0..TRIES {
        let Ok(rt) = builder(topology.clone(), trap).build() else { return }; // the cpus are not ours to bind to
        let (poll, compute, lasted) = run(&rt, |_, compute| compute.rests > 0);
        assert_eq!(poll.info.sharing, Sharing::Seen);
        // 25 in any 10 ms; one more for the open span at either end.
        let spans = lasted.as_millis() as u64 / 10 + 2;
        assert!(poll.rests_asked <= 25 * spans, "{} in {lasted:?}", poll.rests_asked);
        assert!(poll.rests_asked >= compute.rests, "{poll:?} {compute:?}");
        assert_eq!((poll.rests, compute.rests_asked), (0, 0));
        if compute.rests > 0 {
            return;
        }
    }
    panic!("{TRIES} runtimes with late waits, and no sibling rested");
}

#[test]
fn nobody_rests_where_sharing_is_not_seen() {
    let mut topology = Topology::read().unwrap();
    topology.smt = Smt::Unknown;
    let (trap, _scene) = late_waits();
    let Ok(rt) = builder(topology, trap).placement(Placement::Unpinned).build() else { return };
    let (poll, compute, _) = run(&rt, |poll, _| poll.misses.doze > 0);
    assert_ne!(poll.info.sharing, Sharing::Seen);
    assert_eq!((poll.rests_asked, compute.rests), (0, 0), "{poll:?} {compute:?}");
}
