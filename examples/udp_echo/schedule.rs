//! When each datagram of an open-loop client is due.
//!
//! Due times depend on the start and the rate alone, never on what came back: a server that stalls is charged for every
//! datagram that was due meanwhile. Arithmetic only, in integers, so that a million datagrams do not drift.

use std::time::Duration;

use crate::clock::NS_PER_S;

/// Due times of datagrams 0, 1, 2, … at a constant rate; the first ones are a warm-up that no figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    start_ns: u64,
    rate: u64,
    /// Index of the first datagram that counts.
    pub warm: u64,
    /// How many datagrams there are, warm-up included.
    pub total: u64,
}

impl Schedule {
    /// A schedule of `rate` datagrams a second (at least 1) from `start_ns`. At least one datagram counts.
    pub fn new(start_ns: u64, rate: u64, warm: Duration, measure: Duration) -> Self {
        let rate = rate.max(1);
        let count = |span: Duration| {
            let exact = span.as_nanos() * u128::from(rate) / u128::from(NS_PER_S);
            u64::try_from(exact).unwrap_or(u64::MAX / 4)
        };
        let warm = count(warm);
        Self { start_ns, rate, warm, total: warm + count(measure).max(1) }
    }

    /// When datagram `index` is due.
    pub fn due_at(&self, index: u64) -> u64 {
        let offset = u128::from(index) * u128::from(NS_PER_S) / u128::from(self.rate);
        self.start_ns.saturating_add(u64::try_from(offset).unwrap_or(u64::MAX))
    }

    /// How many datagrams are due at `now_ns`, those sent before included.
    pub fn due_by(&self, now_ns: u64) -> u64 {
        let Some(elapsed) = now_ns.checked_sub(self.start_ns) else { return 0 };
        let due = ((u128::from(elapsed) + 1) * u128::from(self.rate)).div_ceil(u128::from(NS_PER_S));
        u64::try_from(due).unwrap_or(u64::MAX).min(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_datagram_is_due_from_its_time_on_and_not_before() {
        for rate in [1, 3, 7, 1_000, 30_000, 999_983, 2_000_000_000] {
            let schedule = Schedule::new(1_000, rate, Duration::ZERO, 1_000 * MS);
            for index in [0, 1, 2, 10, 999].into_iter().filter(|&index| index < schedule.total) {
                let due = schedule.due_at(index);
                assert!(schedule.due_by(due) > index, "rate {rate}, datagram {index}");
                assert!(schedule.due_by(due - 1) <= index, "rate {rate}, datagram {index}");
            }
        }
    }

    #[test]
    fn no_more_is_due_than_there_is() {
        let schedule = Schedule::new(0, 1_000, 10 * MS, 90 * MS);
        assert_eq!((schedule.warm, schedule.total), (10, 100));
        assert_eq!(schedule.due_by(u64::MAX), 100);
    }

    #[test]
    fn a_window_shorter_than_a_gap_still_offers_one() {
        assert_eq!(Schedule::new(0, 1, MS, MS).total, 1);
        assert_eq!(
            Schedule::new(0, 0, MS, MS).total,
            1,
            "rate 0 is served as rate 1; the sweep starts no client for it"
        );
    }
}
