//! A page's words under loom: slots taken and given back, the reaper's sleep, the backlog and those who close it, and those who wait for a slot.
//!
//! Run with `.ci/loom`. Each model says what it claims, its bound, how long it takes on two shared cpus, and the mutations that were tried and
//! seen to break it. A page has two slots here.
#![cfg(twolane_loom)]
#![allow(unsafe_code)] // cells that loom watches

use std::sync::Arc as StdArc;
use std::task::{Wake, Waker};

use loom::cell::UnsafeCell;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use twolane::model::offload::{Backlog, Claim, Claims, SLOTS, Waiters};

/// What a slot guards: memory that only its holder touches.
#[derive(Default)]
struct Guarded([UnsafeCell<usize>; SLOTS as usize]);

// SAFETY: handed on by the words under test; loom reports it if they do not.
unsafe impl Sync for Guarded {}
// SAFETY: as above.
unsafe impl Send for Guarded {}

impl Guarded {
    fn touch(&self, slots: u64) {
        let slot = slots.trailing_zeros() as usize;
        // SAFETY: what is under test.
        self.0[slot].with_mut(|cell| unsafe { *cell += 1 });
    }
}

/// Wakes a thread that waits for it, before or after.
#[derive(Default)]
struct Bell {
    rung: Mutex<bool>,
    changed: Condvar,
}

impl Bell {
    fn ring(&self) {
        *self.rung.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.rung.lock().unwrap();
        while !*rung {
            rung = self.changed.wait(rung).unwrap();
        }
        *rung = false;
    }
}

fn taken(claim: Claim) -> Option<(u64, bool)> {
    match claim {
        Claim::Taken { slots, rouse } => Some((slots, rouse)),
        Claim::Full | Claim::Retired => None,
    }
}

/// Nobody has a slot that another one has, and what its last holder did is seen.
///
/// Bound: 3 threads, 3 preemptions. 1 s.
/// Mutation of `claims.rs` seen to fail: Relaxed in `claim_by` (two holders at once).
#[test]
fn a_slot_has_one_holder() {
    explore(3, || {
        let page = Arc::new((Claims::new(), Guarded::default()));
        let work = |page: &(Claims, Guarded)| {
            if let Some((slots, _)) = taken(page.0.claim()) {
                page.1.touch(slots);
                let _ = page.0.release(slots);
            }
        };
        let others = [0, 1].map(|_| {
            let page = page.clone();
            thread::spawn(move || work(&page))
        });
        work(&page);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(page.0.look().slots(), 0);
    });
}

/// The last one to give back a slot of a retired page, or the one who retires it, is told that it is empty: one of them, and once everybody else is done.
///
/// Bound: 3 threads, 3 preemptions. 2 s.
/// Mutation of `claims.rs` seen to fail: Release alone in `release` (whoever is told does not see the others' use of the page).
#[test]
fn an_empty_page_is_told_of_once() {
    explore(3, || {
        let page = Arc::new((Claims::new(), Guarded::default()));
        let work = |page: &(Claims, Guarded)| {
            let Some((slots, _)) = taken(page.0.claim()) else { return 0 };
            page.1.touch(slots);
            usize::from(page.0.release(slots).emptied)
        };
        let others = [0, 1].map(|_| {
            let page = page.clone();
            thread::spawn(move || {
                let told = work(&page);
                if told == 1 {
                    // As the page's owner frees it: everybody's use of it comes before.
                    [1, 2].into_iter().for_each(|slots| page.1.touch(slots));
                }
                told
            })
        });
        let mut told = usize::from(page.0.retire());
        if told == 1 {
            [1, 2].into_iter().for_each(|slots| page.1.touch(slots));
        }
        told += others.map(|other| other.join().unwrap()).iter().sum::<usize>();
        assert_eq!(told, 1);
        assert_eq!(page.0.claim(), Claim::Retired);
    });
}

/// What is published by one who took a slot is looked at by the reaper, be it awake, asleep, or on its way there; a sleeping reaper is called once.
///
/// Bound: 3 threads, 3 preemptions. 3 s.
#[test]
fn the_reaper_does_not_sleep_beside_an_operation() {
    explore(3, || {
        let scene = Arc::new((Claims::new(), Bell::default(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let submitters = [0, 1].map(|_| {
            let scene = scene.clone();
            thread::spawn(move || {
                let (claims, bell, published, calls) = &*scene;
                let (_, rouse) = taken(claims.claim()).expect("two slots");
                published.fetch_add(1, Release);
                if rouse {
                    calls.fetch_add(1, Relaxed);
                    bell.ring();
                }
            })
        });
        let (claims, bell, published, calls) = &*scene;
        let mut sleeps = 0;
        // As `Sweeper::sweep`: asleep only when nothing is taken.
        while published.load(Acquire) < 2 {
            let look = claims.look();
            if look.slots() == 0 && claims.fall_asleep(look) {
                sleeps += 1;
                bell.wait();
            } else {
                thread::yield_now();
            }
        }
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        assert!(calls.load(Relaxed) <= sleeps, "called when it sleeps");
    });
}

/// As above for an operation that is submitted again in a slot that is held: the reaper, which sleeps beside slots whose operations are over, is called.
///
/// Bound: 2 threads, 4 preemptions. Instant.
/// Mutations of `claims.rs` seen to fail (deadlock): `fall_asleep` sets the bit without comparing; `rouse` leaves no mark but clearing *DORMANT* (as
/// it was written first).
#[test]
fn the_reaper_is_called_for_a_resume() {
    explore(4, || {
        let scene = Arc::new((Claims::new(), Bell::default(), AtomicUsize::new(0)));
        let _held = taken(scene.0.claim());
        let holder = thread::spawn({
            let scene = scene.clone();
            move || {
                let (claims, bell, live) = &*scene;
                live.store(1, Release);
                if claims.rouse() {
                    bell.ring();
                }
            }
        });
        let (claims, bell, live) = &*scene;
        loop {
            let look = claims.look();
            if live.load(Acquire) == 1 {
                break;
            }
            if claims.fall_asleep(look) {
                bell.wait();
            }
        }
        holder.join().unwrap();
    });
}

/// As above for a slot that its holder gives back and takes again: it looks like the slot of an operation that is over.
///
/// Bound: 2 threads, 4 preemptions. Instant.
/// Mutation of `claims.rs` seen to fail (deadlock): a claim sets no *STIRRED*, as it was written first.
#[test]
fn the_reaper_is_called_for_a_slot_that_looks_as_before() {
    const OVER: usize = 0;
    const HELD: usize = 1;
    const LIVE: usize = 2;
    explore(4, || {
        let scene = Arc::new((Claims::new(), Bell::default(), AtomicUsize::new(OVER)));
        let (slots, _) = taken(scene.0.claim()).expect("a slot");
        let holder = thread::spawn({
            let scene = scene.clone();
            move || {
                let (claims, bell, state) = &*scene;
                state.store(HELD, Relaxed);
                let _ = claims.release(slots);
                let (again, rouse) = taken(claims.claim()).expect("the slot that was given back");
                assert_eq!(again, slots);
                state.store(LIVE, Release);
                if rouse {
                    bell.ring();
                }
            }
        });
        let (claims, bell, state) = &*scene;
        loop {
            let look = claims.look();
            match state.load(Acquire) {
                LIVE => break,
                OVER if claims.fall_asleep(look) => bell.wait(),
                _ => thread::yield_now(),
            }
        }
        holder.join().unwrap();
    });
}

/// Each operation that enters the backlog is submitted once, whoever closes it, and whoever submits it sees its descriptor; a queue that is full at
/// first loses none.
///
/// Bound: 3 threads, 3 preemptions. 2 s.
/// Mutations of `backlog.rs` seen to fail: Relaxed in `take`, Relaxed in `put_back` (a descriptor is read while it is written); a load and a store instead
/// of the swap (submitted twice).
#[test]
fn each_operation_of_a_backlog_is_submitted_once() {
    explore(3, || {
        let scene = Arc::new((
            Backlog::new(),
            Guarded::default(),
            [AtomicUsize::new(0), AtomicUsize::new(0)],
            AtomicUsize::new(1),
        ));
        type Scene = (Backlog, Guarded, [AtomicUsize; 2], AtomicUsize);
        fn close(scene: &Scene) {
            let (backlog, descriptors, submitted, full) = scene;
            let slots = backlog.take();
            if slots == 0 {
                return;
            }
            // The queue is full once.
            if full.swap(0, Relaxed) == 1 {
                return backlog.put_back(slots);
            }
            for (slot, count) in submitted.iter().enumerate() {
                if slots >> slot & 1 != 0 {
                    descriptors.touch(1 << slot);
                    count.fetch_add(1, Relaxed);
                }
            }
        }
        let submitters = [0, 1].map(|slot| {
            let scene = scene.clone();
            thread::spawn(move || {
                scene.1.touch(1 << slot);
                if scene.0.add(1 << slot) >= 2 {
                    close(&scene);
                }
            })
        });
        close(&scene);
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        close(&scene);
        close(&scene); // the first one may have found the queue full
        assert_eq!(scene.2.each_ref().map(|count| count.load(Relaxed)), [1, 1]);
    });
}

/// An operation whose future is dropped while it waits is submitted or withdrawn, not both and not neither.
///
/// Bound: 2 threads, 4 preemptions. Instant.
/// Mutation of `backlog.rs` seen to fail: a load and a store instead of the swap in `take`.
#[test]
fn a_drop_meets_a_closer() {
    explore(4, || {
        let scene = Arc::new((Backlog::new(), Guarded::default()));
        scene.1.touch(1);
        scene.0.add(1);
        let closer = thread::spawn({
            let scene = scene.clone();
            move || {
                let slots = scene.0.take();
                if slots != 0 {
                    scene.1.touch(1);
                }
                slots
            }
        });
        let withdrawn = scene.0.withdraw(1);
        if withdrawn {
            scene.1.touch(1);
        }
        assert_eq!(closer.join().unwrap() == 1, !withdrawn);
    });
}

/// A waker of a thread that blocks.
#[derive(Default)]
struct Parker(Bell);

impl Wake for Parker {
    fn wake(self: StdArc<Self>) {
        self.0.ring();
    }
}

/// As a future that waits for room does: takes a slot, or waits for one.
fn take_a_slot(claims: &Claims, waiters: &Waiters) -> u64 {
    let parker = StdArc::new(Parker::default());
    let waker = Waker::from(parker.clone());
    let mut again = false;
    loop {
        if let Some((slots, _)) = taken(claims.claim()) {
            return slots;
        }
        if waiters.register(claims, &waker, again).is_some() {
            parker.0.wait();
            again = true;
        }
    }
}

/// As `PageRef::release`.
fn release(claims: &Claims, waiters: &Waiters, slots: u64) {
    if claims.release(slots).waiters {
        if let Some(waker) = waiters.pass(claims) {
            waker.wake();
        }
    }
}

/// Of those who wait for a slot of a full page, nobody waits for ever while slots come back.
///
/// Bound: 3 threads, 3 preemptions. 1 s.
#[test]
fn nobody_waits_for_ever_for_a_slot() {
    explore(3, || {
        let page = Arc::new((Claims::new(), Waiters::new()));
        let all: Vec<_> = (0..SLOTS).map(|_| taken(page.0.claim()).unwrap().0).collect();
        let waiting = [0, 1].map(|_| {
            let page = page.clone();
            thread::spawn(move || {
                let slots = take_a_slot(&page.0, &page.1);
                release(&page.0, &page.1, slots);
            })
        });
        // One slot comes back, and has to serve both.
        release(&page.0, &page.1, all[0]);
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

/// One that was woken and goes away without a look passes the wake on.
///
/// Bound: 3 threads, 3 preemptions. 1 s.
/// Mutations seen to fail (deadlock): `expect_waiters` sets the bit without looking whether all slots are taken (`claims.rs`); `cancel` does not tell that
/// the wake had come (`waiters.rs`).
#[test]
fn a_wake_that_nobody_uses_is_passed_on() {
    explore(3, || {
        let page = Arc::new((Claims::new(), Waiters::new()));
        let all: Vec<_> = (0..SLOTS).map(|_| taken(page.0.claim()).unwrap().0).collect();
        let id = page.1.register(&page.0, Waker::noop(), false).expect("it is full");
        let waiting = thread::spawn({
            let page = page.clone();
            move || take_a_slot(&page.0, &page.1)
        });
        let leaver = thread::spawn({
            let page = page.clone();
            move || {
                // As the drop of `Room`.
                if page.1.cancel(&page.0, id) {
                    if let Some(waker) = page.1.pass(&page.0) {
                        waker.wake();
                    }
                }
            }
        });
        release(&page.0, &page.1, all[0]);
        leaver.join().unwrap();
        assert_eq!(waiting.join().unwrap(), all[0]);
    });
}

/// Explores `model` with at most `preemptions` involuntary switches.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
