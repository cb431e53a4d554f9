//! The doorbell under loom: rings that meet a lane on its way into, in, and out of a park.
//!
//! Run with `.ci/loom`. Each model says what it claims, its bound, how long it takes on two shared cpus, and the mutations that were tried and
//! seen to break it. A lost ring leaves the lane blocked for ever, which loom reports as a deadlock.
#![cfg(twolane_loom)]

use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::Relaxed;
use loom::thread;
use twolane::model::sched::{Doorbell, Eventfd, ParkIn, Wake};

/// A lane that parks until it has seen every flag, and what is rung.
struct Scene {
    bell: Doorbell,
    place: ParkIn,
    eventfd: Eventfd,
    /// The lane makes its eventfd before it first parks in epoll. Relaxed: whoever is told to write to it must see it.
    eventfd_made: AtomicUsize,
    /// What is published before a ring, Relaxed: to be seen is the ring's business.
    flags: [AtomicUsize; 2],
}

impl Scene {
    fn new(place: ParkIn) -> Arc<Self> {
        Arc::new(Self {
            bell: Doorbell::new(),
            place,
            eventfd: Eventfd::new(),
            eventfd_made: AtomicUsize::new(0),
            flags: [AtomicUsize::new(0), AtomicUsize::new(0)],
        })
    }

    /// As `Shared::ring`. Returns the number of system calls.
    fn ring(&self) -> usize {
        self.carry_out(self.bell.ring())
    }

    /// As `Rung::ring_if_parked`. Returns the number of system calls.
    fn ring_if_parked(&self) -> usize {
        self.carry_out(self.bell.ring_if_parked())
    }

    fn carry_out(&self, wake: Wake) -> usize {
        match wake {
            Wake::NotNeeded => return 0,
            Wake::Futex => {}
            Wake::Eventfd => {
                assert_eq!(self.eventfd_made.load(Relaxed), 1, "the ringer does not see the eventfd");
                self.eventfd.write();
            }
        }
        1
    }

    /// Looks at all of the flags, so that loom has no schedule in which one is left out, and counts those that are set.
    fn full_pass(&self) -> usize {
        self.flags.iter().map(|flag| flag.load(Relaxed)).sum()
    }

    /// As `Worker::attend` and `Worker::park`: look, announce, re-check the epoch, block, retract; with `looks_again`, a full pass between announcement and
    /// re-check, as lanes make it, which rings of the whole kind do not need. Returns the number of parks announced.
    fn lane(&self, looks_again: bool) -> usize {
        self.eventfd_made.store(1, Relaxed);
        let mut parks = 0;
        loop {
            let seen = self.bell.epoch();
            if self.full_pass() == self.flags.len() {
                return parks;
            }
            parks += 1;
            self.bell.announce(self.place);
            let found = looks_again && self.full_pass() == self.flags.len();
            if !found && self.bell.epoch() == seen {
                match self.place {
                    ParkIn::Futex => self.bell.block(seen),
                    ParkIn::Epoll => self.eventfd.wait(),
                }
            }
            self.bell.retract();
        }
    }
}

/// What was published before a ring is looked at by the lane, and of all that ring during one park at most one makes a system call, which
/// nobody makes without a park.
///
/// Bound: 3 threads, 3 preemptions. 6 s each.
/// Mutations of `doorbell.rs` seen to fail. Deadlock: RingEpoch or ReadEpoch Relaxed; no *PostFence*; no *SleepFence*; no *RingAgain* (futex: a ringer that
/// is late with its swap takes the next announcement, its wake finds nobody, and the other ringer leaves the wake to it); here, no re-check of the
/// epoch. Assertion on the eventfd (epoll): Relaxed in `announce` or in the swap of `take_wake`.
fn no_ring_is_lost(place: ParkIn) {
    explore(Some(3), move || {
        let scene = Scene::new(place);
        let ringers = [0, 1].map(|flag| {
            let scene = scene.clone();
            thread::spawn(move || {
                scene.flags[flag].store(1, Relaxed);
                scene.ring()
            })
        });
        let parks = scene.lane(false);
        let calls: usize = ringers.map(|ringer| ringer.join().unwrap()).iter().sum();
        assert!(calls <= parks, "{calls} system calls for {parks} parks");
    });
}

/// The same of rings that leave an awake lane alone: the full pass after the announcement finds what they leave unsaid. One ringer of that kind and one of the
/// other, or both of that kind.
///
/// Bound: 3 threads, 3 preemptions. 4 s in all.
/// Mutations seen to fail (deadlock): no *PostFence* in `ring_if_parked`; here, no full pass after the announcement.
fn no_ring_if_parked_is_lost(place: ParkIn, other: fn(&Scene) -> usize) {
    explore(Some(3), move || {
        let scene = Scene::new(place);
        let ringers = [(0, Scene::ring_if_parked as fn(&Scene) -> usize), (1, other)].map(|(flag, ring)| {
            let scene = scene.clone();
            thread::spawn(move || {
                scene.flags[flag].store(1, Relaxed);
                ring(&scene)
            })
        });
        let parks = scene.lane(true);
        let calls: usize = ringers.map(|ringer| ringer.join().unwrap()).iter().sum();
        assert!(calls <= parks, "{calls} system calls for {parks} parks");
    });
}

#[test]
fn no_ring_if_parked_is_lost_in_a_futex() {
    no_ring_if_parked_is_lost(ParkIn::Futex, Scene::ring_if_parked);
}

#[test]
fn no_ring_if_parked_is_lost_in_a_futex_beside_a_ring() {
    no_ring_if_parked_is_lost(ParkIn::Futex, Scene::ring);
}

#[test]
fn no_ring_if_parked_is_lost_in_epoll() {
    no_ring_if_parked_is_lost(ParkIn::Epoll, Scene::ring_if_parked);
}

#[test]
fn no_ring_is_lost_in_a_futex() {
    no_ring_is_lost(ParkIn::Futex);
}

#[test]
fn no_ring_is_lost_in_epoll() {
    no_ring_is_lost(ParkIn::Epoll);
}

/// A park that a descriptor ends loses no ring: not one that comes with it, and not one whose ringer took the wake and is late.
///
/// Bound: 3 threads, 4 preemptions. 1 s.
/// Mutations of `doorbell.rs` seen to fail: Relaxed in `announce` or in the swap of `take_wake` (the ringer does not see the eventfd).
#[test]
fn a_descriptor_and_a_ring_may_meet() {
    explore(Some(4), || {
        let scene = Scene::new(ParkIn::Epoll);
        let ringer = thread::spawn({
            let scene = scene.clone();
            move || {
                scene.flags[0].store(1, Relaxed);
                scene.ring();
            }
        });
        let kernel = thread::spawn({
            let scene = scene.clone();
            move || {
                scene.flags[1].store(1, Relaxed);
                scene.eventfd.write();
            }
        });
        scene.lane(false);
        ringer.join().unwrap();
        kernel.join().unwrap();
    });
}

/// Explores `model` with at most `preemptions` involuntary switches.
fn explore(preemptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}
