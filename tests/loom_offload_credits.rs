//! A queue's credits under loom: a dedicated queue is never given more than it holds, and an entry that is used again is free before it is.
//!
//! Run with `.ci/loom`. Each model says what it claims, its bound, how long it takes on two shared cpus, and the mutations that were tried and
//! seen to break it. The device is a thread: it reads an entry, and then writes the completion record.
#![cfg(twolane_loom)]
#![allow(unsafe_code)] // cells that loom watches

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::thread;
use twolane::model::offload::Credits;

/// A dedicated queue of one entry: what does not fit is lost without a word, which is an assertion here.
#[derive(Default)]
struct Queue {
    /// Descriptors in it.
    occupied: AtomicUsize,
    /// The entry: written by whoever submits, read by the device.
    entry: UnsafeCell<usize>,
}

// SAFETY: the entry is handed on by the credits under test; loom reports it if it is not.
unsafe impl Sync for Queue {}
// SAFETY: as above.
unsafe impl Send for Queue {}

impl Queue {
    fn submit(&self, descriptor: usize) {
        // Relaxed: counts; the entry itself tells of the order.
        let before = self.occupied.fetch_add(1, Relaxed);
        assert_eq!(before, 0, "the queue overflows");
        // SAFETY: what is under test.
        self.entry.with_mut(|entry| unsafe { *entry = descriptor });
    }

    /// The device takes the entry out, and is done with it.
    fn dispatch(&self) -> usize {
        // SAFETY: what is under test.
        let descriptor = self.entry.with(|entry| unsafe { *entry });
        self.occupied.fetch_sub(1, Relaxed); // Relaxed: as above
        descriptor
    }
}

/// Submits if there is a credit, waits for the device (a thread of its own, which writes the record last), and gives the credit back.
fn operation(credits: &Credits, queue: &Arc<Queue>, descriptor: usize) -> bool {
    if credits.take(1) == 0 {
        return false;
    }
    queue.submit(descriptor);
    let record = Arc::new(AtomicUsize::new(0));
    let device = {
        let (queue, record) = (queue.clone(), record.clone());
        thread::spawn(move || {
            assert_eq!(queue.dispatch(), descriptor, "the device reads what was submitted");
            // Release: as a device writes it, last. Partner: the Acquire below.
            record.store(1, Release);
        })
    };
    while record.load(Acquire) == 0 {
        thread::yield_now();
    }
    credits.give_back(1);
    device.join().unwrap();
    true
}

/// One credit for one entry: whoever has it finds the entry free, and what was there before was read.
///
/// Bound: 4 threads (2 submitters, a device each), 2 preemptions. 1 s.
/// Mutations of `credits.rs` seen to fail: Relaxed in `take`, or in `give_back` (the entry is written while the device reads it); `take` by a load and a store (the queue
/// overflows).
#[test]
fn a_dedicated_queue_never_overflows() {
    explore(2, || {
        let shared = (Arc::new(Credits::new(1)), Arc::new(Queue::default()));
        let other = {
            let (credits, queue) = shared.clone();
            thread::spawn(move || operation(&credits, &queue, 2))
        };
        let (credits, queue) = &shared;
        let mine = operation(credits, queue, 1);
        let theirs = other.join().unwrap();
        assert!(mine || theirs, "a credit that nobody has is had by whoever asks");
        assert_eq!(credits.taken(), 0);
    });
}

/// An operation that was given up keeps its credit, since its entry may still be taken: others find the queue smaller. What comes late gives it back, once.
///
/// Bound: 3 threads, 3 preemptions. 1 s.
/// Mutations seen to fail: those above; and, here, a credit given back when the operation is given up (another is given the entry that the device still reads).
#[test]
fn what_was_given_up_keeps_its_credit_until_it_is_answered() {
    explore(3, || {
        let shared = (Arc::new(Credits::new(1)), Arc::new(Queue::default()));
        let (credits, queue) = &shared;
        assert_eq!(credits.take(1), 1);
        queue.submit(1);
        // The device has it for longer than anybody waits: it is given up. Then its record comes after all.
        let late = {
            let (credits, queue) = shared.clone();
            thread::spawn(move || {
                assert_eq!(queue.dispatch(), 1, "nobody else was given its entry");
                credits.give_back(1);
            })
        };
        let other = {
            let (credits, queue) = shared.clone();
            thread::spawn(move || {
                let credit = credits.take(1);
                if credit == 1 {
                    queue.submit(2);
                    assert_eq!(queue.dispatch(), 2);
                    credits.give_back(1);
                }
                credit
            })
        };
        let _ = other.join().unwrap();
        late.join().unwrap();
        assert_eq!((credits.taken(), credits.take(9)), (0, 1));
    });
}

/// Several at once get what there is, together never more; what the queue did not accept is there again at once.
///
/// Bound: 3 threads, 3 preemptions. 7 s.
/// Mutation of `credits.rs` seen to fail: `take` by a load and a store.
#[test]
fn credits_are_dealt_out_once() {
    explore(3, || {
        let shared = Arc::new((Credits::new(3), AtomicUsize::new(0)));
        let work = |shared: &(Credits, AtomicUsize), wanted: u32| {
            let (credits, out) = shared;
            let taken = credits.take(wanted);
            assert!(taken <= wanted);
            let before = out.fetch_add(taken as usize, Relaxed); // Relaxed: a count
            assert!(before + taken as usize <= 3, "more than there are");
            out.fetch_sub(taken as usize, Relaxed);
            credits.give_back(taken);
        };
        let others = [2, 3].map(|wanted| {
            let shared = shared.clone();
            thread::spawn(move || work(&shared, wanted))
        });
        work(&shared, 2);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!((shared.0.taken(), shared.0.take(9)), (0, 3));
    });
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(model);
}
