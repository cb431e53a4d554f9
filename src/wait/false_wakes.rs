//! Is a monitored wait worth its monitor? Not if most of what ends it early is nothing: the watched line is shared with data that others
//! write, or the hypervisor ends the waits. Pure.
//!
//! Then the lane waits for the time alone, for a while, and tries again.

/// What the early ends of monitored waits turned out to be.
#[derive(Clone, Debug, Default)]
pub(crate) struct FalseWakes {
    early: u32,
    for_nothing: u32,
    /// So many waits are still to be timed ones.
    timed: u32,
}

/// Early ends that make a verdict.
const VERDICT_AFTER: u32 = 64;
/// Waits without a monitor after a bad verdict: some milliseconds, in which a bad monitor costs nothing; trying it anew costs 64 short waits.
const TIMED_WAITS: u32 = 4_096;

impl FalseWakes {
    /// Whether the next wait may watch a word. To be asked once a wait.
    #[inline]
    pub(crate) fn may_watch(&mut self) -> bool {
        match self.timed {
            0 => true,
            _ => {
                self.timed -= 1;
                false
            }
        }
    }

    /// Whether waits watch at present.
    #[inline]
    pub(crate) fn watching(&self) -> bool {
        self.timed == 0
    }

    /// A monitored wait ended before its time; `for_nothing`: the pass after it found nothing. Returns whether that was the verdict
    /// against the monitor: more than half of the early ends were for nothing.
    pub(crate) fn ended_early(&mut self, for_nothing: bool) -> bool {
        self.early += 1;
        self.for_nothing += u32::from(for_nothing);
        if self.early < VERDICT_AFTER {
            return false;
        }
        let bad = 2 * self.for_nothing > self.early;
        *self = Self { timed: if bad { TIMED_WAITS } else { 0 }, ..Self::default() };
        bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_false_wakes_end_watching_for_a_while() {
        for (for_nothing, bad) in [(0, false), (32, false), (33, true), (64, true)] {
            let mut wakes = FalseWakes::default();
            let verdicts: Vec<bool> = (0..VERDICT_AFTER).map(|n| wakes.ended_early(n < for_nothing)).collect();
            assert_eq!(verdicts.iter().filter(|&&verdict| verdict).count(), usize::from(bad), "{for_nothing}");
            assert_eq!(verdicts.last(), Some(&bad), "{for_nothing} of {VERDICT_AFTER}");
            let timed = (0..2 * TIMED_WAITS).filter(|_| !wakes.may_watch()).count();
            assert_eq!(timed, if bad { TIMED_WAITS as usize } else { 0 });
            assert!(wakes.watching(), "then it is tried again");
            assert!(!wakes.ended_early(true), "from the start");
        }
    }
}
