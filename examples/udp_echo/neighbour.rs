//! The neighbour: compute that keeps its lane busy, and counts how much of it gets done.
//!
//! The work is that of sysbench's cpu test, the usual co-runner in studies of SMT: an *event* tests every number up to
//! 10 000 for primality by trial division. It wants the core's dividers and branch units and next to no memory. Each
//! event is a `spawn_compute` task of its own, and submits the next one when it is done.
//!
//! The figure that matters is events per second of the *thread's own cpu time*: whoever shares the cpu with the
//! neighbour (the client does, on two cpus) takes wall time from it, but not that. What remains is what the core's other
//! lane takes or gives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use twolane::Handle;

use crate::clock;

/// The largest number an event tests, as sysbench has it by default.
const PRIME_MAX: u64 = 10_000;

/// Tasks in flight a compute lane: one that runs and one that waits, so that the lane never runs out while a task
/// submits its successor.
const TASKS_PER_LANE: usize = 2;

/// A running neighbour. Dropping it ends the work within one event a lane.
#[derive(Debug)]
pub struct Neighbour(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    events: AtomicU64,
    cpu_ns: AtomicU64,
    stop: AtomicBool,
}

/// Work done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Events finished.
    pub events: u64,
    /// Cpu time that the threads spent in them.
    pub cpu_ns: u64,
}

impl Neighbour {
    /// Starts it on a runtime with that many lanes that compute.
    pub fn start(handle: &Handle, compute_lanes: usize) -> Self {
        let shared = Arc::new(Shared::default());
        for _ in 0..compute_lanes.max(1) * TASKS_PER_LANE {
            submit(handle.clone(), Arc::clone(&shared));
        }
        Self(shared)
    }

    /// What was done so far; subtract two readings.
    pub fn work(&self) -> Work {
        // Relaxed: statistics. An event caught between its two counters is off by one event, in either direction.
        Work { events: self.0.events.load(Ordering::Relaxed), cpu_ns: self.0.cpu_ns.load(Ordering::Relaxed) }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        // Relaxed: nothing is published with it; a task that sees it late runs one event more.
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl Work {
    /// What was done since an `earlier` reading.
    pub fn since(self, earlier: Self) -> Self {
        Self { events: self.events.saturating_sub(earlier.events), cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns) }
    }
}

/// Submits one event. A runtime that shuts down refuses it, and that is the end of it.
fn submit(handle: Handle, shared: Arc<Shared>) {
    let next = handle.clone();
    drop(handle.spawn_compute(move || {
        // Relaxed: see `Drop for Neighbour`.
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let began = clock::thread_cpu_ns();
        std::hint::black_box(primes_up_to(std::hint::black_box(PRIME_MAX)));
        let spent = clock::thread_cpu_ns().saturating_sub(began);
        // Relaxed: statistics, see `Neighbour::work`.
        shared.cpu_ns.fetch_add(spent, Ordering::Relaxed);
        shared.events.fetch_add(1, Ordering::Relaxed);
        submit(next, shared);
    }));
}

/// How many primes there are from 3 to `max`, by trial division up to the square root.
fn primes_up_to(max: u64) -> u64 {
    (3..=max).filter(|&candidate| (2..=candidate.isqrt()).all(|divisor| candidate % divisor != 0)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_that_of_sysbench() {
        assert_eq!(primes_up_to(10), 3, "3, 5, 7");
        assert_eq!(primes_up_to(PRIME_MAX), 1228, "there are 1229 primes below 10000, and 2 is not tested");
    }

    #[test]
    fn readings_subtract() {
        let (early, late) = (Work { events: 2, cpu_ns: 100 }, Work { events: 5, cpu_ns: 400 });
        assert_eq!(late.since(early), Work { events: 3, cpu_ns: 300 });
    }
}
