//! How much latency may waiting still add? The account behind `mean_added`.
//!
//! Every event earns the mean; every event that came during a wait, or while those were handled, is charged what that
//! wait cost it. What is saved up stays below 64 events' worth. While nothing is left, nobody waits.
//!
//! The account also turns the *scale* of the waits (see `gaps`): longer while nearly all that may be saved is saved, shorter
//! while less is, so that in the long run the budget is used and not missed. It is a proportional and integral
//! controller of the balance that acts on the logarithm of the scale, critically damped.

/// What may be saved up, in events' worth of the mean.
pub(super) const SAVED_EVENTS_MAX: i64 = 64;
/// The level that the scale steers for, in events' worth of the mean. Nearly all that may be saved: bursts charge and earn
/// in lumps, and a scale that grew while the account is half full would spend what the next lump needs.
/// No nearer to the limit, where what is earned would be lost as often as saved.
const LEVEL: f32 = 58.0;
/// How far from the level the balance still makes a difference.
const DISTANCE_MAX: f32 = 32.0;
/// An empty account halves the scale, a full one doubles it: that much at once, per event's worth.
const PROPORTIONAL: f32 = std::f32::consts::LN_2 / DISTANCE_MAX;
/// What a difference of an event's worth adds for each event. A quarter of the square: critically damped, with a time
/// constant of some 90 events.
const INTEGRAL: f32 = PROPORTIONAL * PROPORTIONAL / 4.0;
/// The first busy periods count for more, because the scale starts as a guess.
const EAGER: f32 = 16.0;
/// A busy period counts for so many events at most when it moves the scale.
const EVENTS_WEIGHT_MAX: f32 = 32.0;

/// The account of one lane, in ticks.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    mean: i64,
    balance: i64,
    /// All that was charged.
    charged: u64,
    integral: f32,
    settled: f32,
}

impl Budget {
    /// An account for events that may be late by `mean` on average. Starts with half of what may be saved up.
    pub(super) fn new(mean: u64) -> Self {
        const MEAN_MAX: i64 = i64::MAX / (4 * SAVED_EVENTS_MAX);
        let mean = i64::try_from(mean).unwrap_or(MEAN_MAX).min(MEAN_MAX);
        Self {
            mean,
            balance: mean * SAVED_EVENTS_MAX / 2,
            charged: 0,
            integral: (mean as f32).max(1.0).sqrt(),
            settled: 0.0,
        }
    }

    /// Ticks in hand; negative while in debt.
    #[inline(always)]
    pub(super) fn balance(&self) -> i64 {
        self.balance
    }

    /// All that was charged so far.
    pub(super) fn charged(&self) -> u64 {
        self.charged
    }

    /// See the module.
    pub(super) fn scale(&self) -> f32 {
        self.integral * (1.0 + 0.5 * PROPORTIONAL * self.level()).powi(2)
    }

    fn level(&self) -> f32 {
        (self.balance as f32 / (self.mean as f32).max(1.0) - LEVEL).clamp(-DISTANCE_MAX, DISTANCE_MAX)
    }

    /// A busy period of `events` is over, charged `charge` in all. `bound`: something else than the budget kept the wait
    /// short, so an unspent budget says nothing.
    pub(super) fn settle(&mut self, events: u32, charge: u64, bound: bool) {
        self.charged = self.charged.saturating_add(charge);
        let charge = i64::try_from(charge).unwrap_or(i64::MAX);
        let net = self.mean.saturating_mul(i64::from(events)).saturating_sub(charge);
        self.balance = self.balance.saturating_add(net).min(self.mean * SAVED_EVENTS_MAX);
        let level = self.level();
        // Nobody waits while in debt, so a smaller scale would not pay it back sooner, only be missing later.
        let idle_debt = charge == 0 && self.balance <= 0;
        if idle_debt || (bound && level > 0.0) {
            return;
        }
        let eager = 1.0 + EAGER / (1.0 + self.settled * 0.25);
        self.settled += 1.0;
        let weight = (events as f32).min(EVENTS_WEIGHT_MAX);
        let change = (weight * INTEGRAL * eager * level).clamp(-0.25, 0.25);
        // From waits of nothing at all to waits of seconds, whatever the traffic.
        self.integral = (self.integral * (1.0 + change)).clamp(1e-4, 1e8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // I3: as long as nobody is charged while in debt, what is charged exceeds what was earned by at most what may be saved
    // and the last charge, whatever the charges are.
    #[test]
    fn charges_stay_within_what_was_earned_and_saved() {
        for mean in [0, 1, 500, 1 << 40] {
            let mut budget = Budget::new(mean);
            let (mut earned, mut charged, mut last, mut dice) = (0_u128, 0_u128, 0_u128, 1_u64);
            for _ in 0..100_000 {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let events = (dice >> 60) as u32 + 1;
                let charge = if budget.balance() > 0 { (dice >> 33) % (200 * mean + 1) } else { 0 };
                budget.settle(events, charge, dice & 1 == 0);
                earned += u128::from(events) * u128::from(mean);
                charged += u128::from(charge);
                last = last.max(charge.into());
                let granted = earned + SAVED_EVENTS_MAX as u128 * u128::from(mean) + last;
                assert!(charged <= granted, "{charged} of {granted}");
            }
            assert!(budget.scale().is_finite() && budget.scale() > 0.0);
        }
    }

    #[test]
    fn the_scale_finds_the_budget() {
        const MEAN: u64 = 500;
        for (cost_at_one, events) in [(1.0, 1), (50.0, 1), (5_000.0, 4)] {
            let mut budget = Budget::new(MEAN);
            let (mut charged, mut counted) = (0, 0);
            for round in 0..20_000 {
                // Each event is charged in proportion to the scale, as where events are independent.
                let charge = (budget.scale() * cost_at_one) as u64 * u64::from(events);
                budget.settle(events, charge, false);
                if round >= 10_000 {
                    (charged, counted) = (charged + charge, counted + u64::from(events));
                }
            }
            let spent = charged as f64 / counted as f64;
            assert!((spent / MEAN as f64 - 1.0).abs() < 0.05, "{spent} of {MEAN}");
        }
    }
}
