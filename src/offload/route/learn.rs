//! What operations really take, and when to try the other engine.
//!
//! Three things are learnt: what the cpu takes, by size, for each row ([`curve`](super::curve)); what a device takes, by size, for all rows; and what a submission and each operation
//! in it take from the core ([`Submission`]). The tables are written again where what they were made from has moved.

use super::bins::{OCTAVES, PARTS, bin_of, octave_of};
use super::curve::{Known, NODES};
use super::seen::{NEWS, OUTLIER};
use super::submission::Submission;
use super::{Costs, Group, INTENTS, Latency, Mode, Observation, QUEUES_MAX, Router, Took, row_of};
use crate::sync::atomic::Ordering::Relaxed;
use std::ops::{Range, RangeInclusive};

/// The part of all time that trials may take, as far as what they cost is known beforehand; what turns out dearer is saved for anew.
pub(super) const TRIAL_SHARE: f32 = 0.01;
/// The device is within reach where it is believed to take no more than so many times what the cpu takes; below, it is not even tried.
pub(super) const WITHIN_REACH: f32 = 8.0;

/// One operation in so many is timed until what is believed has proved right for [`CALM_AFTER`] of them, and again as soon as it proves wrong.
pub(super) const TIMED_EVERY: u32 = 16;
/// One in so many while what is believed proves right: two looks at the clock and some arithmetic for each.
const TIMED_EVERY_CALM: u32 = 64;
/// Timed operations.
const CALM_AFTER: u32 = 512;

/// What trials may cost from the start, in nanoseconds: some few of the sizes that matter.
const CREDIT_FIRST_NS: f32 = 20_000.0;
/// What is saved for trials at most, in nanoseconds: quiet hours do not buy an hour of trials.
const CREDIT_MAX_NS: f32 = 200_000.0;
/// Timed operations of an octave until the other engine is tried, the first time; twice as many each time until [`TRIAL_DOUBLINGS`].
const TRIAL_FIRST: u32 = 4;
const TRIAL_DOUBLINGS: u32 = 5;
/// None where the two are within an eighth of each other: such a trial costs an eighth of one operation in 64 (0.2 %), and a few percent of noise have turned the tables.
const TRIAL_DOUBLINGS_CLOSE: u32 = 0;
const CLOSE: f32 = 1.0 / 8.0;
/// Operations of a batch for which the price of trying one is reckoned: as many as batches mostly have.
const BATCH_USUAL: f32 = 8.0;

/// The weight of a sample in a queue's scale, which only tells queues apart.
const WEIGHT_QUEUE: f32 = 1.0 / 32.0;
/// A device that was over before anybody looked was faster than that by an unknown part. So much is assumed the first time, the second time in a row, and so on: who
/// looks in vain again and again is far off, and steps that stay small would not find that out within a day of operations that are timed now and then.
const EARLIER: [f32; 4] = [0.9, 0.8, 0.6, 0.4];
/// What is learnt goes into the table when it has moved by this part: a third of what a bin is wide.
const MOVED: f32 = 1.0 / 100.0;
/// Octaves above one that moved in which shares depend on it: the cpu's share of an operation is a sixteenth of it at least where it is worth anything.
const SHARES_REACH: usize = 4;
/// A share of so much of an operation, and more, tells what the cpu takes for the whole.
const SHARE_TELLS: usize = 32;
/// No operation takes less or more, in nanoseconds: a clock that stands still, leaps, or says nonsense teaches little.
const NS_RANGE: RangeInclusive<f32> = 1.0..=1e10;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Learner {
    costs: Costs,
    cpu: Vec<Known>,
    latency: Known,
    /// By octave: how many times in a row a device was over before anybody looked, and sooner than was believed.
    too_late: [u8; OCTAVES],
    core: Submission,
    /// By row: what its tables were made from.
    tabulated: Vec<Tabulated>,
    /// By row, mode and octave: timed operations since the other engine was tried.
    since_trial: Vec<[[u16; OCTAVES]; 3]>,
    /// Timed operations that were left to the cpu because their batch would not have paid, since one was tried.
    since_batch_trial: u32,
    /// What trials may cost now, in nanoseconds.
    credit: f32,
    /// Timed operations since what is believed proved wrong.
    calm: u32,
}

#[derive(Clone, Debug)]
struct Tabulated {
    cpu: [f32; NODES],
    latency: [f32; NODES],
    core: [f32; 2],
}

impl Tabulated {
    fn now(router: &Router, row: usize) -> Self {
        Self {
            cpu: std::array::from_fn(|node| router.rows[row].cpu.node(node)),
            latency: std::array::from_fn(|node| router.latency.node(node)),
            core: router.core(),
        }
    }
}

/// What is to be written again.
#[derive(Debug, PartialEq)]
struct Moved {
    /// Octaves in which the cpu's cost moved.
    cpu: Range<usize>,
    /// Octaves in which the cost of what is waited for moved.
    waited: Range<usize>,
}

impl Learner {
    pub(super) fn new(costs: Costs) -> Self {
        let rows = Group::COUNT * INTENTS;
        Self {
            costs,
            cpu: (0..rows).map(|_| Known::default()).collect(),
            latency: Known::default(),
            too_late: [0; OCTAVES],
            core: Submission::new(costs.submit_ns, costs.operation_ns),
            tabulated: Vec::new(),
            since_trial: vec![[[0; OCTAVES]; 3]; rows],
            since_batch_trial: 0,
            credit: CREDIT_FIRST_NS,
            calm: 0,
        }
    }

    /// The tables were made from what is believed now.
    pub(super) fn all_tabulated(&mut self, router: &Router) {
        self.tabulated = (0..router.rows.len()).map(|row| Tabulated::now(router, row)).collect();
    }

    pub(super) fn observe(&mut self, router: &Router, seen: &Observation) {
        let row = row_of(seen.kind, seen.intent);
        // As it was believed when it was chosen, or nearly.
        let tried = router.rows[row].modes[seen.mode as usize].is_device(bin_of(seen.len)) != seen.took.is_device();
        let (cost, off) = match seen.took {
            Took::Cpu { ns } => (plausible(ns), self.learn_cpu(router, row, seen.len, plausible(ns))),
            Took::Device { queue, ahead, core_ns, latency_ns } => {
                let latency = latency_ns.map_or(Latency::Unknown, Latency::Was);
                self.learn_device(router, seen, queue, ahead, core_ns, latency, 0)
            }
            Took::Shared { queue, ahead, core_ns, latency, cpu_len, cpu_ns } => {
                let cpu_len = cpu_len.min(seen.len);
                let cpu_off = cpu_len > 0 && self.learn_cpu(router, row, cpu_len, plausible(cpu_ns));
                let (cost, off) = self.learn_device(router, seen, queue, ahead, core_ns, latency, cpu_len);
                (cost, off || cpu_off)
            }
            Took::Batch { together, core_ns } => {
                self.core.follow(together, plausible(core_ns));
                router.set_core(self.core.submit_ns(), self.core.operation_ns());
                (plausible(core_ns) / together.max(1) as f32, self.core.is_off())
            }
        };
        self.set_timed(router, off);
        self.tabulate(router, row);
        self.settle(router, row, seen, cost, tried);
    }

    /// Whether it was off.
    fn learn_cpu(&mut self, router: &Router, row: usize, len: usize, ns: f32) -> bool {
        let (costs, group) = (self.costs, Group::ALL[row / INTENTS]);
        let believed = router.rows[row].cpu.ns(len);
        self.cpu[row].follow(&router.rows[row].cpu, |len| costs.cpu_ns(group, len), len, ns);
        is_off(ns, believed)
    }

    /// What it cost, in the mode's terms, and whether that was off.
    #[allow(clippy::too_many_arguments)] // the parts of one observation
    fn learn_device(
        &mut self,
        router: &Router,
        seen: &Observation,
        queue: usize,
        ahead: u32,
        core_ns: f32,
        latency: Latency,
        cpu_len: usize,
    ) -> (f32, bool) {
        let core_ns = plausible(core_ns);
        let believed = self.core.submit_ns() + self.core.operation_ns();
        // In a batch, a share of the core's time says nothing of which part of it was spent once.
        if seen.mode != Mode::Batched {
            self.core.follow(1, core_ns);
            router.set_core(self.core.submit_ns(), self.core.operation_ns());
        }
        let mut off = is_off(core_ns, believed);
        let Some(seen_ns) = latency.ns() else { return (core_ns, off) };
        let seen_ns = plausible(seen_ns);
        let rest = seen.len - cpu_len;
        // What it waited for others is not its own.
        let own = (seen_ns - ahead as f32 * self.costs.occupancy_ns).max(seen_ns / OUTLIER);
        let scale = &router.queue_scale[queue.min(QUEUES_MAX - 1)];
        let (usual, scale_now) = (router.latency.ns(rest), super::float(scale));
        let too_late = &mut self.too_late[octave_of(rest)];
        let sample = match latency {
            Latency::AtMost(_) if usual > own * EARLIER[0] => {
                let before = usize::from(*too_late).min(EARLIER.len() - 1);
                *too_late = too_late.saturating_add(1);
                Some(own * EARLIER[before])
            }
            _ => {
                *too_late = 0;
                matches!(latency, Latency::Was(_)).then_some(own)
            }
        };
        if let Some(sample) = sample {
            let relative = (sample / usual).clamp(scale_now / OUTLIER, scale_now * OUTLIER);
            scale.store((scale_now + WEIGHT_QUEUE * (relative - scale_now)).to_bits(), Relaxed);
            let costs = self.costs;
            self.latency.follow(&router.latency, |len| costs.latency_ns(len), rest, sample);
            off |= is_off(sample, usual);
        }
        (if seen.mode == Mode::Waited { core_ns + seen_ns } else { core_ns }, off)
    }

    /// Fewer are timed while all is as it is believed to be.
    fn set_timed(&mut self, router: &Router, off: bool) {
        // A preemption is no news; many would be, and then it is as well to look more often.
        self.calm = if off { self.calm.saturating_sub(CALM_AFTER / 8) } else { (self.calm + 1).min(2 * CALM_AFTER) };
        let every = self.timed_every();
        router.timed_below.store(u32::MAX / every, Relaxed);
    }

    fn timed_every(&self) -> u32 {
        if self.calm >= CALM_AFTER { TIMED_EVERY_CALM } else { TIMED_EVERY }
    }

    /// Writes the row's tables again where what they were made from has moved.
    fn tabulate(&mut self, router: &Router, row: usize) {
        let now = Tabulated::now(router, row);
        let then = &mut self.tabulated[row];
        let moved = moved(then, &now, router.shares.is_some());
        // Alone, in a batch.
        let sums = |[submit, operation]: [f32; 2]| [submit + operation, operation];
        let (core_now, core_then) = (sums(now.core), sums(then.core));
        let whole = 0..OCTAVES;
        let alone = has_moved(core_now[0], core_then[0]);
        let batched = has_moved(core_now[1], core_then[1]);
        for (mode, all, octaves) in [
            (Mode::Waited, alone, moved.waited),
            (Mode::Overlapped, alone, moved.cpu.clone()),
            (Mode::Batched, batched, moved.cpu),
        ] {
            let octaves = if all { whole.clone() } else { octaves };
            if !octaves.is_empty() {
                router.tabulate(row, mode, octaves.start * PARTS..octaves.end * PARTS);
            }
        }
        for node in 0..NODES {
            for (then, now) in [(&mut then.cpu[node], now.cpu[node]), (&mut then.latency[node], now.latency[node])] {
                if has_moved(now, *then) {
                    *then = now;
                }
            }
        }
        if alone || batched {
            then.core = now.core;
        }
    }

    /// Books the cost, and orders a trial if one is due and can be paid.
    fn settle(&mut self, router: &Router, row: usize, seen: &Observation, cost: f32, tried: bool) {
        let (mode, octave) = (seen.mode, octave_of(seen.len));
        let (cpu, device) = (router.cpu_ns(row, seen.len), router.device_ns(row, mode, seen.len));
        let by_device = seen.took.is_device();
        // In a batch, what the core took for the whole of it is shared.
        let believed = match seen.took {
            Took::Batch { together, .. } => device + self.core.submit_ns() / together.max(1) as f32,
            _ if by_device => device,
            _ => cpu,
        };
        // Left to the cpu, although it is worth a place in a batch: there were too few.
        let batch_too_small = tried && mode == Mode::Batched && !by_device && cpu > device;
        if tried && !batch_too_small {
            // It was paid for as it was believed to be; what it took beyond that is paid now, but for a preemption: that would have come to the other engine as well,
            // and paid for, one in the very first trial would put the next off by thousands of operations.
            self.credit -= (cost.min(believed * OUTLIER) - believed).clamp(0.0, CREDIT_MAX_NS);
            self.since_trial[row][mode as usize][octave] = 0;
            return;
        }
        // A preemption saves nothing up.
        let cost = cost.min(believed * NEWS);
        self.credit = (self.credit + cost * self.timed_every() as f32 * TRIAL_SHARE).min(CREDIT_MAX_NS);
        if batch_too_small {
            return self.settle_batch(router);
        }
        if seen.took.is_shared_by_both(seen.len) {
            return;
        }
        let (other_samples, extra) = match mode {
            _ if by_device => (self.cpu[row].samples(octave), cpu - device),
            Mode::Waited => (self.latency.samples(octave), device - cpu),
            Mode::Overlapped => (self.core.samples(), device - cpu),
            // All that are asked for together are to go.
            Mode::Batched => (self.core.samples(), self.core.submit_ns() + BATCH_USUAL * (device - cpu).max(0.0)),
        };
        let extra = extra.max(0.0);
        let doublings = if extra < cost * CLOSE { TRIAL_DOUBLINGS_CLOSE } else { TRIAL_DOUBLINGS };
        let due = TRIAL_FIRST << u32::from(other_samples).min(doublings);
        // As with sizes that are small: what is dearer by far is not tried.
        let together = if mode == Mode::Batched && !by_device { BATCH_USUAL } else { 1.0 };
        let beyond = believed * (WITHIN_REACH - 1.0) * together;
        let since = &mut self.since_trial[row][mode as usize][octave];
        *since = since.saturating_add(1);
        if u32::from(*since) >= due && extra <= self.credit && extra <= beyond {
            self.credit -= extra;
            *since = 0;
            router.rows[row].modes[mode as usize].trial.fetch_or(1 << octave, Relaxed);
        }
    }

    /// Whether the next batch is to go although it is believed to be too small: it costs a submission at most.
    fn settle_batch(&mut self, router: &Router) {
        let due = TRIAL_FIRST << u32::from(self.core.samples()).min(TRIAL_DOUBLINGS);
        self.since_batch_trial = self.since_batch_trial.saturating_add(1);
        if self.since_batch_trial >= due && self.core.submit_ns() <= self.credit {
            self.credit -= self.core.submit_ns();
            self.since_batch_trial = 0;
            router.batch_trial.store(1, Relaxed);
        }
    }
}

impl Took {
    fn is_device(&self) -> bool {
        !matches!(self, Self::Cpu { .. })
    }

    /// Both engines had a part of it that is worth mentioning, the device most of it: each share is a trial of the cpu. One of the whole would teach little more, and cost
    /// many times as much. But if most of it is the cpu's, the whole may well be, and what that takes is not to be had from its parts.
    fn is_shared_by_both(&self, len: usize) -> bool {
        matches!(self, Self::Shared { cpu_len, .. } if (len / SHARE_TELLS..=len / 2).contains(cpu_len))
    }
}

/// `NaN` becomes the least.
fn plausible(ns: f32) -> f32 {
    ns.max(*NS_RANGE.start()).min(*NS_RANGE.end())
}

fn is_off(seen: f32, believed: f32) -> bool {
    !(1.0 / NEWS..=NEWS).contains(&(seen / believed))
}

fn has_moved(now: f32, then: f32) -> bool {
    (now / then - 1.0).abs() > MOVED
}

/// Octaves whose costs moved: those beside a value that did, and where shares are made those that a share of may lie there.
fn moved(then: &Tabulated, now: &Tabulated, shares: bool) -> Moved {
    let beside = |nodes: [(&[f32; NODES], &[f32; NODES]); 2], reach: usize| {
        let moved = |node: &usize| nodes.iter().any(|(then, now)| has_moved(now[*node], then[*node]));
        match ((0..NODES).find(moved), (0..NODES).rev().find(moved)) {
            (Some(first), Some(last)) => first.saturating_sub(1)..(last + 1 + reach).min(OCTAVES),
            _ => 0..0,
        }
    };
    let (cpu, latency) = ((&then.cpu, &now.cpu), (&then.latency, &now.latency));
    Moved { cpu: beside([cpu, cpu], 0), waited: beside([cpu, latency], if shares { SHARES_REACH } else { 0 }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_a_trial_if_it_is_large_enough() {
        let shared = |cpu_len| {
            let (core_ns, latency, cpu_ns) = (400.0, Latency::Unknown, 100.0);
            Took::Shared { queue: 0, ahead: 0, core_ns, latency, cpu_len, cpu_ns }
        };
        for (took, tells) in [
            (shared(0), false),
            (shared((1 << 20) / SHARE_TELLS - 1), false),
            (shared((1 << 20) / SHARE_TELLS), true),
            (shared(1 << 19), true),
            (shared((1 << 19) + 1), false),
            (shared(1 << 20), false),
            (Took::Cpu { ns: 1.0 }, false),
            (Took::Batch { together: 2, core_ns: 1.0 }, false),
        ] {
            assert_eq!(took.is_shared_by_both(1 << 20), tells, "{took:?}");
        }
    }

    #[test]
    fn what_moved_is_written_again_and_no_more() {
        let then = Tabulated { cpu: [100.0; NODES], latency: [1_000.0; NODES], core: [400.0, 60.0] };
        // Values of the cpu and of latency that moved, and by how much; with shares; octaves of the cpu's, octaves of what is waited for.
        type Case = (&'static [usize], &'static [usize], f32, bool, Range<usize>, Range<usize>);
        let cases: [Case; 8] = [
            (&[], &[], 2.0, false, 0..0, 0..0),
            (&[5], &[], 1.009, false, 0..0, 0..0),
            (&[5], &[], 1.02, false, 4..6, 4..6),
            (&[5], &[], 0.98, true, 4..6, 4..10),
            (&[], &[7], 1.5, false, 0..0, 6..8),
            (&[], &[7], 1.5, true, 0..0, 6..12),
            (&[0, 3], &[9], 1.5, false, 0..4, 0..10),
            (&[NODES - 1], &[0], 1.5, true, OCTAVES - 1..OCTAVES, 0..OCTAVES),
        ];
        for (cpu, latency, by, shares, want_cpu, want_waited) in cases {
            let mut now = then.clone();
            cpu.iter().for_each(|node| now.cpu[*node] *= by);
            latency.iter().for_each(|node| now.latency[*node] *= by);
            let want = Moved { cpu: want_cpu, waited: want_waited };
            assert_eq!(moved(&then, &now, shares), want, "{cpu:?} {latency:?} by {by}, shares: {shares}");
        }
    }
}
