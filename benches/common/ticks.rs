//! A clock that two threads can stamp with at the price of one instruction.
//!
//! On x86-64 it is the time-stamp counter, set against `Instant` once; elsewhere `Instant` itself. References and library are
//! stamped by the same clock, so what a reading costs is in both and cancels.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The instant now, in ticks.
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
#[inline(always)]
pub fn now() -> u64 {
    // SAFETY: every x86-64 cpu has RDTSC.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The instant now, in ticks.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn now() -> u64 {
    start().elapsed().as_nanos() as u64
}

/// Nanoseconds that make a tick.
pub fn ns_per_tick() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        // 20 ms: a reading is good to some 50 ns, so the rate to some parts in a million.
        const LENGTH: Duration = Duration::from_millis(20);
        let (began, from) = (Instant::now(), now());
        std::thread::sleep(LENGTH);
        let (ticks, took) = (now() - from, began.elapsed());
        took.as_nanos() as f64 / ticks as f64
    })
}

/// Ticks that make so many nanoseconds.
pub fn from_ns(ns: f64) -> u64 {
    (ns / ns_per_tick()) as u64
}

/// Nanoseconds from one stamp to a later one; 0 if the counters of two cpus disagree by more than what lies between.
pub fn ns_between(earlier: u64, later: u64) -> f64 {
    later.saturating_sub(earlier) as f64 * ns_per_tick()
}

#[cfg(not(target_arch = "x86_64"))]
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}
