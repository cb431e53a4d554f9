//! Which clock answers which question, always in nanoseconds.
//!
//! The schedule and the end-to-end time of a datagram are read from the monotonic clock, whose zero is the same in the
//! client's process and in ours. Residence needs the real-time clock, because that is what the kernel stamps arrivals
//! with. Work is charged to the cpu time of the thread that did it.

use std::time::Duration;

use nix::errno::Errno;
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

/// Nanoseconds in a second, for rates.
pub const NS_PER_S: u64 = 1_000_000_000;

/// Now, on the clock of schedules.
pub fn monotonic_ns() -> u64 {
    now_ns(ClockId::CLOCK_MONOTONIC)
}

/// Now, on the clock of the kernel's receive stamps.
pub fn realtime_ns() -> u64 {
    now_ns(ClockId::CLOCK_REALTIME)
}

/// The cpu time that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    now_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// The cpu time that all threads of this process have used.
pub fn process_cpu_ns() -> u64 {
    now_ns(ClockId::CLOCK_PROCESS_CPUTIME_ID)
}

/// Blocks until the monotonic clock reads `at_ns`. Never spins; a signal does not cut it short.
pub fn sleep_until(at_ns: u64) {
    let at = TimeSpec::from_duration(Duration::from_nanos(at_ns));
    while clock_nanosleep(ClockId::CLOCK_MONOTONIC, ClockNanosleepFlags::TIMER_ABSTIME, &at) == Err(Errno::EINTR) {}
}

/// The reading of a stamp that the kernel handed out.
pub fn stamp_ns(stamp: &TimeSpec) -> u64 {
    u64::try_from(stamp.num_nanoseconds()).unwrap_or(0)
}

/// All four clocks exist on every Linux that runs this library; 0 would show as absurd figures, not as a crash.
fn now_ns(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |now| stamp_ns(&now))
}
