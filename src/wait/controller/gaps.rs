//! How soon does an event come, after so much idle time? Learnt as a histogram, and turned into a plan of waits.
//!
//! Idle time is cut into bins, four to an octave. For each bin, the histogram keeps how many stretches of idle time ended
//! there and how many events were then late together. What is due per tick of idle time in a bin (its *hazard*, in events)
//! follows from that and from how many stretches lasted that long.
//!
//! The plan is an economic lot size. A cycle of a wait and the pass after it, `cycle` ticks in all, loses `loss` ticks (the
//! pass, and leaving the wait) whatever its length, and delays the events that come meanwhile by half of it on average.
//! With a price on latency, the loss per tick `loss / cycle` and the latency per tick `price * hazard * cycle / 2` are
//! cheapest together at
//!
//! ```text
//! cycle = sqrt(2 * loss / price) / sqrt(hazard) = scale / sqrt(hazard)
//! ```
//!
//! So where events come independently of each other all waits are equal; within a burst there are none; in a lull they
//! grow; and before a time at which events are known to come they stop short. The scale is the one number that the budget
//! turns (see `budget`); the shape over idle time is learnt.
//!
//! How much of what is saved up a wait may spend follows from the same counts: the events that it makes late together, and
//! whether those that follow earn a debt back before the next wait of this kind.

/// Bins: four an octave, from [`FIRST_OCTAVE`] up; the last one has no end.
pub(super) const BINS: usize = 128;
/// Idle times below 2^4 ticks are one bin.
const FIRST_OCTAVE: u32 = 4;
const BINS_PER_OCTAVE_LOG2: u32 = 2;
/// When so many stretches were counted, all counts are halved: what was seen long ago fades. Enough for some tens of lulls
/// with a hundred stretches between two of them: with fewer, how many events end a lull is mostly chance.
const MEMORY: f32 = 8_192.0;
/// More events at once are a backlog (the lane was elsewhere), not a burst that waits have to be short for: its square would
/// outweigh all that was seen for minutes. As many as the budget saves up for.
const EVENTS_MAX: f32 = 64.0;
/// An imagined stretch that ends evenly over the logarithm of idle time: what to expect where nothing was seen yet.
const PRIOR: f32 = 1.0;
/// Waits beyond 2^31 ticks are all the same.
const CYCLE_MAX: f32 = 2_147_483_648.0;

/// The bin that an idle time falls into.
#[inline(always)]
pub(super) fn bin_of(idle: u64) -> usize {
    let idle = idle.max(1 << FIRST_OCTAVE);
    let octave = 63 - idle.leading_zeros();
    let part = (idle >> (octave - BINS_PER_OCTAVE_LOG2)) & ((1 << BINS_PER_OCTAVE_LOG2) - 1);
    ((((octave - FIRST_OCTAVE) << BINS_PER_OCTAVE_LOG2) as usize) + part as usize).min(BINS - 1)
}

/// Where a bin starts.
#[inline(always)]
pub(super) const fn edge(bin: usize) -> u64 {
    if bin == 0 {
        return 0;
    }
    let octave = (bin >> BINS_PER_OCTAVE_LOG2) as u32 + FIRST_OCTAVE;
    let part = (bin & ((1 << BINS_PER_OCTAVE_LOG2) - 1)) as u64;
    ((1 << BINS_PER_OCTAVE_LOG2) + part) << (octave - BINS_PER_OCTAVE_LOG2)
}

/// What was seen.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    /// Stretches of idle time that ended in a bin.
    ends: [f32; BINS],
    /// Events that were late when they did.
    events: [f32; BINS],
    /// The squares of these numbers.
    squares: [f32; BINS],
    stretches: f32,
    all_events: f32,
    /// Events of all busy periods, late or not, [`EVENTS_MAX`] of each at most.
    came: f32,
}

/// What a way to wait costs, for the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs<'a> {
    /// Ticks that a cycle loses: the empty pass and leaving the wait.
    pub(super) loss: f32,
    /// The longest cycle that is allowed.
    pub(super) cycle_max: f32,
    /// A wait of no more than this is none.
    pub(super) cycle_min: f32,
    /// A wake from a park after so many ticks asleep, by octave, if parks are part of the budget.
    pub(super) wakes: Option<&'a [f32; 32]>,
    /// Going to sleep.
    pub(super) park_entry: f32,
    /// Events are seldom where at least so much more idle time is to be expected, and [`SELDOM_WAKES`] wakes.
    pub(super) seldom: f32,
    /// A wait that a store ends is left so late.
    pub(super) store_exit: Option<f32>,
}

/// What to do at each idle time.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// The cycle that starts with a bin, in ticks. One more than bins, so that there is always a next one.
    cycles: [u32; BINS + 1],
    /// One over the events that are late together if one comes in a bin, with [`SHARE_FRACTION`] fractional bits.
    shares: [u32; BINS],
    /// From this idle time on, a park is cheaper than what else would come, its wake being charged.
    pub(super) park_from: u64,
    /// From this idle time on, more idle time is to be expected than a wake costs.
    pub(super) worth_from: u64,
    /// From this idle time on, so much more is to be expected that to stay awake for the next event is a waste; see
    /// [`Costs::seldom`].
    pub(super) seldom_from: u64,
}

impl Plan {
    pub(super) fn new() -> Self {
        Self {
            cycles: [0; BINS + 1],
            shares: [1 << SHARE_FRACTION; BINS],
            park_from: u64::MAX,
            worth_from: 0,
            seldom_from: u64::MAX,
        }
    }

    /// What it says of an idle time.
    pub(super) fn at(&self, idle: u64) -> Planned {
        let bin = bin_of(idle);
        Planned {
            cycle: self.cycles[bin].into(),
            next_cycle: self.cycles[bin + 1].into(),
            edge: if bin + 1 < BINS { edge(bin + 1) } else { u64::MAX },
            share: self.shares[bin],
        }
    }
}

/// What a plan says of a bin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    /// The cycle that starts in it.
    pub(super) cycle: u64,
    /// The one that starts with the next bin: no cycle reaches further into that.
    pub(super) next_cycle: u64,
    /// Where the next bin starts.
    pub(super) edge: u64,
    share: u32,
}

impl Planned {
    /// What a balance allows for each of the events that would be late together.
    pub(super) fn share_of(&self, balance: u64) -> u64 {
        // A share is below 2^SHARE_FRACTION, so this fits.
        (balance.min(BALANCE_MAX) * u64::from(self.share)) >> SHARE_FRACTION
    }
}

/// A wake that takes less than this part of the idle time before it is cheaper than to stay awake all that time, for all but the event.
const SELDOM_WAKES: f32 = 8.0;
/// ... if as many stretches of idle time say so.
const SELDOM_STRETCHES: f32 = 4.0;

/// Bits behind the point of `Plan::shares`.
const SHARE_FRACTION: u32 = 12;
/// Balances beyond it allow every wait.
const BALANCE_MAX: u64 = 1 << 48;
/// A wait may spend about half of the balance. Lumps differ: a wait for all of it would often overdraw the account, and then the
/// lane polls without any wait until it has earned enough.
const SPEND_PART: f32 = 0.55;
/// ... but more where the events that follow earn a debt back before the next such wait, so that it costs nothing.
const SPEND_PART_REPAID: f32 = 0.8;
/// Debts are earned back if more events than the account holds come between two visits to an idle time: not at all with so many...
const REPAY_FROM: f32 = 64.0;
/// ... and nearly always with so many more.
const REPAY_WITHIN: f32 = 96.0;
/// Bins of an octave.
const BINS_PER_OCTAVE: usize = 1 << BINS_PER_OCTAVE_LOG2;
const OCTAVES: usize = BINS / BINS_PER_OCTAVE;
/// What an octave's counts count for in the one below it.
const REACH: f32 = 0.885;
/// What is known of shorter idle times counts as much as so many events.
const PRIOR_TOGETHER: f32 = 2.0;

impl Gaps {
    pub(super) fn new() -> Self {
        Self {
            ends: [0.0; BINS],
            events: [0.0; BINS],
            squares: [0.0; BINS],
            stretches: 0.0,
            all_events: 0.0,
            came: 0.0,
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.stretches == 0.0
    }

    /// A stretch of idle time ended after `idle` ticks, with so many events that were late; `came` in all before the next one.
    pub(super) fn record(&mut self, idle: u64, events: f32, came: u32) {
        let events = events.min(EVENTS_MAX);
        self.came += (came as f32).min(EVENTS_MAX);
        let bin = bin_of(idle);
        self.ends[bin] += 1.0;
        self.events[bin] += events;
        self.squares[bin] += events * events;
        self.stretches += 1.0;
        self.all_events += events;
        if self.stretches >= MEMORY {
            for count in self.ends.iter_mut().chain(&mut self.events).chain(&mut self.squares) {
                *count *= 0.5;
            }
            self.stretches *= 0.5;
            self.all_events *= 0.5;
            self.came *= 0.5;
        }
    }

    /// Makes the plan anew. Some hundred nanoseconds: not for every pass.
    pub(super) fn plan(&self, scale: f32, costs: &Costs<'_>, plan: &mut Plan) {
        // Stretches that lasted into each bin, the imagined one included.
        let mut lasting = [0.0_f32; BINS + 1];
        for bin in (0..BINS).rev() {
            lasting[bin] = lasting[bin + 1] + self.ends[bin];
        }
        let events_each = if self.stretches > 0.0 { self.all_events / self.stretches } else { 1.0 };
        let mut exposures = [0.0_f32; BINS];
        for bin in 0..BINS {
            exposures[bin] = WIDTHS[bin] * 0.5 * (lasting[bin] + lasting[bin + 1]);
        }
        let mut hazards = [0.0_f32; BINS];
        for bin in 0..BINS {
            let (before, after) = (bin.saturating_sub(1), (bin + 1).min(BINS - 1));
            let events = 0.25 * (self.events[before] + self.events[after]) + 0.5 * self.events[bin];
            let exposure = 0.25 * (exposures[before] + exposures[after]) + 0.5 * exposures[bin];
            hazards[bin] = (events + PRIOR * events_each) / (exposure + PRIOR * AGES[bin]);
        }
        let mut cycles = [0.0_f32; BINS + 1];
        for bin in 0..BINS {
            cycles[bin] = (scale / hazards[bin].sqrt()).min(costs.cycle_max);
        }
        cycles[BINS] = cycles[BINS - 1];
        for bin in (0..BINS).rev() {
            cycles[bin] = cycles[bin].min(WIDTHS[bin] + cycles[bin + 1]);
            plan.cycles[bin] = cycles[bin].min(CYCLE_MAX) as u32;
        }
        plan.cycles[BINS] = plan.cycles[BINS - 1];
        self.share(&lasting, events_each, plan);
        (plan.park_from, plan.worth_from, plan.seldom_from) = match costs.wakes {
            Some(wakes) => self.parks(scale, costs, wakes, &lasting, &hazards, &cycles),
            None => (u64::MAX, 0, u64::MAX),
        };
    }

    /// What a wait may spend of the balance, for each of the events that would be late together.
    ///
    /// Lulls are few, and hardly two end in the same bin: one alone tells by chance how many events end a lull, and a wait that is too
    /// long by chance overdraws the account for the whole of the next lull. So what ended longer lulls counts as well; and where
    /// nothing lasted so long, what is known of shorter ones.
    fn share(&self, lasting: &[f32; BINS + 1], events_each: f32, plan: &mut Plan) {
        let mut above = [(0.0_f32, 0.0_f32); OCTAVES];
        let (mut events, mut squares) = (0.0, 0.0);
        for octave in (0..OCTAVES).rev() {
            let bins = octave * BINS_PER_OCTAVE..(octave + 1) * BINS_PER_OCTAVE;
            events = events * REACH + self.events[bins.clone()].iter().sum::<f32>();
            squares = squares * REACH + self.squares[bins].iter().sum::<f32>();
            above[octave] = (events, squares);
        }
        // Events that an event is late together with, itself included: the mean weighted by itself.
        let mut together = events_each;
        for (octave, (events, squares)) in above.into_iter().enumerate() {
            together = (squares + PRIOR_TOGETHER * together) / (events + PRIOR_TOGETHER);
            let first = octave * BINS_PER_OCTAVE;
            let visit = (self.came + 1.0) / (lasting[first] + 1.0);
            let repaid = ((visit - REPAY_FROM) * (1.0 / REPAY_WITHIN)).clamp(0.0, 1.0);
            let part = SPEND_PART + (SPEND_PART_REPAID - SPEND_PART) * repaid;
            let share = (part * (1 << SHARE_FRACTION) as f32 / together) as u32;
            plan.shares[first..first + BINS_PER_OCTAVE].fill(share);
        }
    }

    /// The first idle time at which a park costs less than the waits that would otherwise come, latency at its price; and the
    /// first from which on more idle time is to come than a wake costs, as far as is known; and the first at which events are seldom.
    fn parks(
        &self,
        scale: f32,
        costs: &Costs<'_>,
        wakes: &[f32; 32],
        lasting: &[f32; BINS + 1],
        hazards: &[f32; BINS],
        cycles: &[f32; BINS + 1],
    ) -> (u64, u64, u64) {
        // What ends in a bin nobody has got to yet: a fifth of what gets there, as if evenly over the logarithm.
        const IMAGINED: f32 = 0.01;
        const IMAGINED_STAYS: f32 = 0.8;
        let price = 2.0 * costs.loss / (scale * scale);
        let (mut loss_to_go, mut idle_to_go, mut events_to_go) = (0.0_f32, 0.0_f32, 0.0_f32);
        let (mut park_from, mut worth_from, mut seldom_from) = (u64::MAX, 0, u64::MAX);
        for bin in (0..BINS).rev() {
            let lasted = lasting[bin] + IMAGINED;
            let stays = (lasting[bin + 1] + IMAGINED * IMAGINED_STAYS) / lasted;
            let idle = WIDTHS[bin] * 0.5 * (1.0 + stays);
            let cycle = cycles[bin].max(1.0);
            // Where the cycle is too short for a wait, all time is lost; with a watch, only leaving it is.
            let mut rate = if cycle <= costs.cycle_min {
                1.0
            } else {
                costs.loss / cycle + price * hazards[bin] * (cycle - costs.loss).max(0.0) * 0.5
            };
            if let Some(exit) = costs.store_exit {
                rate = rate.min(price * hazards[bin] * exit + costs.loss / costs.cycle_max);
            }
            loss_to_go = rate.min(1.0) * idle + stays * loss_to_go;
            idle_to_go = idle + stays * idle_to_go;
            events_to_go = (self.events[bin] + stays * lasted * events_to_go) / lasted;
            let octave = (idle_to_go.max(1.0) as u32).ilog2() as usize;
            let wake = wakes[octave.min(wakes.len() - 1)];
            if lasting[bin] >= SELDOM_STRETCHES && idle_to_go >= costs.seldom.max(SELDOM_WAKES * wake) {
                seldom_from = edge(bin);
            }
            if lasting[bin] > 0.0 {
                // The wake relieves nobody, nor does going to sleep.
                if costs.park_entry + wake + price * events_to_go.max(1.0) * wake < loss_to_go {
                    park_from = edge(bin);
                }
                if worth_from == 0 && idle_to_go < wake {
                    worth_from = edge(bin + 1);
                }
            }
        }
        (park_from, worth_from, seldom_from)
    }
}

/// Widths of the bins. The last one is as wide as an octave.
static WIDTHS: [f32; BINS] = {
    let mut widths = [0.0; BINS];
    let mut bin = 0;
    while bin < BINS {
        widths[bin] = (edge(bin + 1) - edge(bin)) as f32;
        bin += 1;
    }
    widths
};

/// The middles of the bins.
static AGES: [f32; BINS] = {
    let mut ages = [0.0; BINS];
    let mut bin = 0;
    while bin < BINS {
        ages[bin] = (edge(bin + 1) + edge(bin)) as f32 * 0.5;
        bin += 1;
    }
    ages
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_all_idle_times_in_order() {
        for bin in 0..BINS - 1 {
            let (start, end) = (edge(bin), edge(bin + 1));
            assert!(start < end, "{bin}");
            assert_eq!((bin_of(start), bin_of(end - 1)), (bin, bin), "{bin}: {start} to {end}");
        }
        assert_eq!((bin_of(0), bin_of(u64::MAX)), (0, BINS - 1));
    }

    fn costs() -> Costs<'static> {
        Costs {
            loss: 100.0,
            cycle_max: 1e6,
            cycle_min: 140.0,
            wakes: None,
            park_entry: 2e3,
            seldom: 4e5,
            store_exit: None,
        }
    }

    #[test]
    fn a_hazard_four_times_as_high_halves_the_cycle() {
        let cycle = |gap: u64| {
            let mut gaps = Gaps::new();
            for i in 0..2_000_u64 {
                // Exponential, by its quantiles.
                let unit = (i as f64 + 0.5) / 2_000.0;
                gaps.record((-unit.ln() * gap as f64) as u64, 1.0, 1);
            }
            let mut plan = Plan::new();
            gaps.plan(5.0, &costs(), &mut plan);
            plan.at(gap).cycle as f64
        };
        let ratio = cycle(40_000) / cycle(10_000);
        assert!((ratio - 2.0).abs() < 0.2, "{ratio}");
    }

    #[test]
    fn events_are_seldom_where_a_wake_is_a_small_part_of_the_idle_time() {
        let wakes = [50_000.0; 32];
        let seldom_from = |gaps: &[(u64, u32)]| {
            let mut seen = Gaps::new();
            for &(gap, times) in gaps {
                (0..times).for_each(|_| seen.record(gap, 1.0, 1));
            }
            let mut plan = Plan::new();
            seen.plan(5.0, &Costs { wakes: Some(&wakes), ..costs() }, &mut plan);
            plan.seldom_from
        };
        for (gaps, wanted, why) in [
            (&[(1_000_000, 100)][..], 0..=0, "an event every millisecond"),
            (&[(1_000_000, 3)], u64::MAX..=u64::MAX, "too few say so"),
            (&[(200_000, 100)], u64::MAX..=u64::MAX, "four wakes' worth"),
            (&[(500, 3_100), (1_000_000, 100)], 500..=2_000, "bursts: after what they leave between their events"),
            (&[(50_000, 1_000)], u64::MAX..=u64::MAX, "20 000 events a second"),
            (&[], u64::MAX..=u64::MAX, "nothing seen"),
        ] {
            let got = seldom_from(gaps);
            assert!(wanted.contains(&got), "{why}: {got}");
        }
    }

    #[test]
    fn a_lull_spends_by_what_ends_lulls_and_by_what_follows() {
        // Lulls ended by so many events at once, with short stretches between them that one late event ends, and `came` in all.
        let share_at = |idle: u64, lumps: &[(u64, f32)], short: u32, came: u32| {
            let mut gaps = Gaps::new();
            for &(lull, events) in lumps {
                gaps.record(lull, events, events as u32);
                (0..short).for_each(|_| gaps.record(1_000, 1.0, came));
            }
            let mut plan = Plan::new();
            gaps.plan(5.0, &costs(), &mut plan);
            f64::from(plan.at(idle).share) / f64::from(1 << SHARE_FRACTION)
        };
        let lulls = [(100_000, 4.0), (400_000, 4.0), (1_600_000, 4.0), (6_400_000, 4.0)];
        for (idle, lumps, short, came, wanted, why) in [
            (1_000, &lulls[..], 50, 1, 0.48..0.56, "one by one: lulls say little of short stretches"),
            (50_000, &lulls, 10, 1, 0.13..0.145, "four together, as lulls beyond say, though none ended so soon"),
            (200_000, &lulls, 10, 1, 0.13..0.145, "between two lulls that were seen"),
            (50_000_000, &lulls, 100, 1, 0.195..0.205, "nobody got so far: as below, and as seldom as can be"),
            (50_000, &lulls, 100, 1, 0.145..0.155, "a hundred events between two lulls earn some of a debt back"),
            (50_000, &lulls, 100, 2, 0.195..0.205, "two hundred earn all of it back"),
            (1_000, &[], 0, 0, 0.54..0.56, "nothing seen: an event at a time"),
        ] {
            let got = share_at(idle, lumps, short, came);
            assert!(wanted.contains(&got), "{why}: {got}");
        }
    }

    #[test]
    fn what_was_seen_long_ago_fades() {
        let mut gaps = Gaps::new();
        for _ in 0..3 * MEMORY as u32 {
            gaps.record(1_000, 1.0, 1);
        }
        assert!(gaps.stretches < MEMORY && gaps.ends[bin_of(1_000)] < MEMORY);
        for _ in 0..10 * MEMORY as u32 {
            gaps.record(1_000_000, 1.0, 1);
        }
        assert!(gaps.ends[bin_of(1_000)] < 0.01 * MEMORY, "{}", gaps.ends[bin_of(1_000)]);
    }
}
