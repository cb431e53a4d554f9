//! How long a compute lane without work stays awake before it sleeps. Pure.
//!
//! Waking a sleeping lane costs the waker a system call of 15 us and more on a virtual machine, and the work waits twice that. While
//! hand-offs come faster than a wake, it is cheaper for everybody to stay awake; while they do not, lingering burns the core for nothing.

/// What waking a lane is taken to cost until it is measured on the machine: the lower end of what was seen on virtual machines (26 us
/// from wake to run after 5 us of idleness).
pub(crate) const WAKE_COST_NS: u64 = 30_000;
/// A longer gap says nothing more than this one: one night without work must not take a day of work to forget.
const GAP_MAX_IN_WAKES: u64 = 16;
/// Weight of a new gap in the average: 1/8.
const EWMA_SHIFT: u32 = 3;
/// A gap seen by a lane that slept contains the wake itself, so gaps up to two wakes count as faster than a wake.
const FAST_GAP_IN_WAKES: u64 = 2;

/// Remembers how fast work came lately. All times in one unit (the caller's ticks).
#[derive(Clone, Debug)]
pub(crate) struct Linger {
    gap: u64,
    wake_cost: u64,
    max: u64,
}

impl Linger {
    /// `max`: the user's bound; 0 turns lingering off.
    pub(crate) fn new(wake_cost: u64, max: u64) -> Self {
        // Begins undecided, at the edge of fast: a new lane lingers after its first quick hand-off, not before.
        Self { gap: FAST_GAP_IN_WAKES * wake_cost, wake_cost, max }
    }

    /// Work came `gap` after the lane ran out of it.
    pub(crate) fn work_came(&mut self, gap: u64) {
        let gap = gap.min(GAP_MAX_IN_WAKES * self.wake_cost);
        self.gap = self.gap - (self.gap >> EWMA_SHIFT) + (gap >> EWMA_SHIFT);
    }

    /// How long to stay awake now that there is nothing to do.
    pub(crate) fn allowance(&self) -> u64 {
        if self.gap < FAST_GAP_IN_WAKES * self.wake_cost { self.max.min(FAST_GAP_IN_WAKES * self.wake_cost) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lingers_while_work_comes_fast_and_forgets_a_night_within_twenty_hand_offs() {
        let mut linger = Linger::new(30_000, 50_000);
        assert_eq!(linger.allowance(), 0, "nothing is known yet");
        linger.work_came(2_000);
        assert_eq!(linger.allowance(), 50_000, "the user's bound");
        linger.work_came(u64::MAX);
        assert_eq!(linger.allowance(), 0, "one long gap ends it");
        let quick = (1..).find(|_| {
            linger.work_came(32_000); // slept: the wake is in it
            linger.allowance() > 0
        });
        assert!(quick.is_some_and(|n| n <= 20), "{quick:?}");
        assert_eq!(Linger::new(30_000, 0).allowance(), 0);
    }
}
