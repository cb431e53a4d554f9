//! `task_allocations`, `task_header_bytes`: what does a task take beside its closure?
//!
//! **Method.** A counting allocator sees every allocation of the process. For each of 2 000 closures after warm-up: how many
//! allocations between the call of `spawn_compute` and the moment its result can be taken. Most closures show the task's own;
//! one in some sixty shows a block of the queue, too. Figure: the median; the blocks are printed apart, by what the mean is
//! above it. The header is what a task's allocation is larger than its closure, for a closure so large that nothing else
//! decides the size; for closures and for futures, whichever is larger.
//!
//! **Bound.** 1 allocation, 64 bytes. Running the closure inside `spawn_compute` would take none, so a median of 0 is an
//! error.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::common::figure::{Bound, Figure};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::stats::median;

const WARM_UP: usize = 500;
const TASKS: usize = 2_000;
/// Bytes that a closure carries, and no output has.
const PAYLOAD: usize = 4_096;

/// The system's allocator, with a count.
struct Counting {
    allocations: AtomicU64,
    /// The smallest allocation that could hold [`PAYLOAD`], since it was last reset.
    payload_bytes: AtomicUsize,
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { allocations: AtomicU64::new(0), payload_bytes: AtomicUsize::new(usize::MAX) };

// SAFETY: passes everything on to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocations.fetch_add(1, Relaxed);
        if layout.size() >= PAYLOAD {
            self.payload_bytes.fetch_min(layout.size(), Relaxed);
        }
        // SAFETY: the caller's obligations are the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligations are the same.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.allocations.fetch_add(1, Relaxed);
        // SAFETY: the caller's obligations are the same.
        unsafe { System.realloc(at, layout, size) }
    }
}

fn allocations_now() -> u64 {
    ALLOCATOR.allocations.load(Relaxed)
}

pub fn allocations(_: &Machine) -> Result<Figure, String> {
    let lanes = Lanes::start(builder())?;
    let closure = |number: u64| {
        let handle = lanes.runtime.spawn_compute(move || number);
        while !handle.is_finished() {
            std::thread::yield_now();
        }
        drop(handle);
    };
    let future = |number: u64| {
        let handle = lanes.runtime.spawn(async move { number });
        while !handle.is_finished() {
            std::thread::yield_now();
        }
        drop(handle);
    };
    let joined = |number: u64| drop(lanes.runtime.spawn_compute(move || number).join());
    let (closures, futures, joins) = (each(closure), each(future), each(joined));
    let typical = median(&closures);
    if typical == 0.0 {
        return Err("no allocation was seen: the closures did not become tasks, or nobody counts".into());
    }
    let mean = closures.iter().sum::<f64>() / closures.len() as f64;
    Ok(Figure::exact("task_allocations", typical, Bound::AtMost(1.0))
        .beside("queue_blocks_a_task", mean - typical)
        .beside("future_allocations", median(&futures))
        .beside("with_blocking_join", median(&joins)))
}

/// Allocations of each call, after warm-up.
fn each(one: impl Fn(u64)) -> Vec<f64> {
    let count = |number| {
        let before = allocations_now();
        one(number);
        (allocations_now() - before) as f64
    };
    (0..(WARM_UP + TASKS) as u64).map(count).skip(WARM_UP).collect()
}

pub fn header_bytes(_: &Machine) -> Result<Figure, String> {
    let lanes = Lanes::start(builder())?;
    let payload = [0_u8; PAYLOAD];
    let closure = beyond_payload(|| {
        let task = lanes.runtime.spawn_compute(move || {
            std::hint::black_box(&payload);
        });
        task.join().map_err(|error| error.to_string())
    })?;
    // The whole future is the payload: it is ready at once and has no states.
    struct Ready([u8; PAYLOAD]);
    impl Future for Ready {
        type Output = ();
        fn poll(self: std::pin::Pin<&mut Self>, _: &mut std::task::Context<'_>) -> std::task::Poll<()> {
            std::hint::black_box(&self.0);
            std::task::Poll::Ready(())
        }
    }
    let future = beyond_payload(|| lanes.runtime.spawn(Ready(payload)).join().map_err(|error| error.to_string()))?;
    Ok(Figure::exact("task_header_bytes", closure.max(future), Bound::AtMost(64.0))
        .beside("closure_header_bytes", closure)
        .beside("future_header_bytes", future))
}

/// What the allocation made by `spawn` is larger than its payload.
fn beyond_payload(spawn: impl FnOnce() -> Result<(), String>) -> Result<f64, String> {
    ALLOCATOR.payload_bytes.store(usize::MAX, Relaxed);
    spawn()?;
    match ALLOCATOR.payload_bytes.load(Relaxed) {
        usize::MAX => Err("no allocation was large enough for the payload".into()),
        bytes => Ok((bytes - PAYLOAD) as f64),
    }
}
