//! What wakes a thread that drives a device? A count that goes up with every submission, and a futex for those who wait for it.
//!
//! A driver reads the count, looks for work, and waits for the count to differ from what it read: what came after it looked is never slept through.
//! Ringing is async-signal-safe: atomics, and one system call if somebody sleeps.

use std::sync::atomic::{AtomicU32, Ordering::*, fence};
use std::time::Duration;

use crate::sync::Futex;

#[derive(Debug)]
pub(crate) struct Bell {
    count: Futex,
    sleepers: AtomicU32,
}

impl Bell {
    pub(crate) const fn new() -> Self {
        Self { count: Futex::new(0), sleepers: AtomicU32::new(0) }
    }

    /// To be read before one looks for work.
    pub(crate) fn count(&self) -> u32 {
        // Acquire: what was submitted before a ring that is counted here is seen by the look. Partner: the Release in `ring`.
        self.count.load(Acquire)
    }

    /// There is work.
    pub(crate) fn ring(&self) {
        self.count.fetch_add(1, Release); // see `count`
        // Partner: the fence in `wait`. Either this thread sees the sleeper, or the sleeper's call sees the new count and returns.
        fence(SeqCst);
        // Relaxed: ordered by the fence.
        if self.sleepers.load(Relaxed) > 0 {
            self.count.wake_one();
        }
    }

    /// Waits until the bell has rung since `heard` was read, or for a while. May return for no reason.
    pub(crate) fn wait(&self, heard: u32, most: Duration) {
        // Relaxed, here and below: ordered by the fence; a late decrement costs a system call.
        self.sleepers.fetch_add(1, Relaxed);
        fence(SeqCst); // see `ring`
        self.count.wait(heard, Some(most));
        self.sleepers.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_ring_after_the_look_is_not_slept_through() {
        let bell = Bell::new();
        let heard = bell.count();
        bell.ring();
        let begin = Instant::now();
        bell.wait(heard, Duration::from_secs(60));
        assert!(begin.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn every_ring_is_heard() {
        const RINGS: u32 = 2_000;
        let bell = Bell::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let until = Instant::now() + Duration::from_secs(60);
                let mut heard = 0;
                while heard < RINGS {
                    bell.wait(heard, Duration::from_secs(60));
                    heard = bell.count();
                    assert!(Instant::now() < until, "{heard}");
                }
            });
            (0..RINGS).for_each(|_| bell.ring());
        });
    }
}
