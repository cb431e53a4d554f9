//! What the stress tests share: how much of everything, random gaps, and a watchdog that ends the process loudly when somebody waits too long.
//!
//! `STRESS_SCALE=10` (any whole number) does ten times as much.

#![allow(dead_code)] // each test uses a part

use std::process::abort;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use twolane::{Builder, Handle, JoinHandle, Runtime};

/// How long a wait may take: some 10 000 times what it should, so that only a lost wake or a starved machine gets there.
const PATIENCE: Duration = Duration::from_secs(1);
/// The watchdog's clock. It counts its own sleeps and not the time, so a machine that stands still does not count.
const TICK: Duration = Duration::from_millis(50);
/// Threads that may wait at once.
const WAITERS: usize = 8;

/// `count`, times the scale asked for.
pub fn scaled(count: usize) -> usize {
    let scale = std::env::var("STRESS_SCALE").map_or(1, |scale| scale.parse().expect("STRESS_SCALE is a whole number"));
    count * scale
}

/// Lanes of one pair, on no particular cpus: the machine is a small one, and what is tested is not speed.
pub fn builder() -> Builder {
    Runtime::builder().allow_unpinned(true).env_overrides(false)
}

/// Watches over the waits of the threads of a test.
#[derive(Clone)]
pub struct Watchdog(Arc<Waits>);

struct Waits {
    /// Per thread: the tick in which its wait began, or 0.
    since: [AtomicU64; WAITERS],
    ticks: AtomicU64,
}

impl Watchdog {
    /// Begins to watch, until the test ends. `handle` is for the report.
    pub fn new(handle: Handle) -> Self {
        let waits = Arc::new(Waits { since: [const { AtomicU64::new(0) }; WAITERS], ticks: AtomicU64::new(1) });
        let weak = Arc::downgrade(&waits);
        thread::spawn(move || {
            loop {
                thread::sleep(TICK);
                let Some(waits) = weak.upgrade() else { return };
                let now = waits.ticks.fetch_add(1, Relaxed);
                for (thread, since) in waits.since.iter().enumerate() {
                    let since = since.load(Relaxed);
                    if since != 0 && TICK * (now.saturating_sub(since) as u32) > PATIENCE {
                        eprintln!("thread {thread} has waited for more than {PATIENCE:?}: {:#?}", handle.metrics());
                        abort();
                    }
                }
            }
        });
        Self(waits)
    }

    /// Does `wait` on behalf of `thread`, which has to come back soon.
    pub fn watch<R>(&self, thread: usize, wait: impl FnOnce() -> R) -> R {
        self.0.since[thread].store(self.0.ticks.load(Relaxed), Relaxed);
        let result = wait();
        self.0.since[thread].store(0, Relaxed);
        result
    }

    /// Joins under watch.
    pub fn join<T>(&self, thread: usize, handle: JoinHandle<T>) -> T {
        self.watch(thread, || handle.join()).expect("it neither panics nor is cancelled")
    }

    /// Waits until `reached`, looking now and then.
    pub fn until(&self, thread: usize, mut reached: impl FnMut() -> bool) {
        self.watch(thread, || {
            while !reached() {
                thread::yield_now();
            }
        });
    }
}

/// Xorshift: random enough to meet all edges, and the same in each run.
pub struct Random(u64);

impl Random {
    pub fn new(seed: usize) -> Self {
        Self(0x9E37_79B9_7F4A_7C15 ^ (seed as u64 + 1))
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    /// Lets some time pass: mostly none, else as long as lanes linger, doze, or take to park.
    pub fn gap(&mut self) {
        match self.below(64) {
            0..32 => {}
            32..56 => {
                let end = Instant::now() + Duration::from_nanos(self.below(60_000));
                while Instant::now() < end {
                    std::hint::spin_loop();
                }
            }
            56..60 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(self.below(300))),
        }
    }
}
