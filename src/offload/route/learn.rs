//! What operations really take, and when to try the other engine.
//!
//! Each cost is what was believed at first times a *scale*, one an octave of sizes, that follows what is seen. An octave in which nothing was seen
//! yet takes the scale of the nearest one in which something was. A single outlier (a preemption, a page fault) moves a scale by little; two in a
//! row on the same side are taken for news, and what was learnt before counts for little from then on.

use super::bins::{BINS, OCTAVES, PARTS, bin_of, octave_of};
use super::{Costs, Group, Hold, INTENTS, Mode, Observation, QUEUES_MAX, Router, TIMED_EVERY, Took, row_of};
use crate::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::ops::{Range, RangeInclusive};

/// The part of all time that trials may take, as far as what they cost is known beforehand; what turns out dearer is saved for anew.
pub(super) const TRIAL_SHARE: f32 = 0.01;
/// Whoever has a size keeps it until the other is so much cheaper.
pub(super) const HYSTERESIS: f32 = 0.98;
/// The device is within reach where it is believed to take no more than so many times what the cpu takes; below, it is not even tried.
pub(super) const WITHIN_REACH: f32 = 8.0;

/// What trials may cost from the start, in nanoseconds: some few of the sizes that matter.
const CREDIT_FIRST_NS: f32 = 20_000.0;
/// What is saved for trials at most, in nanoseconds: quiet hours do not buy an hour of trials.
const CREDIT_MAX_NS: f32 = 200_000.0;
/// Timed operations of an octave until the other engine is tried, the first time; twice as many each time until [`TRIAL_DOUBLINGS`].
const TRIAL_FIRST: u32 = 4;
const TRIAL_DOUBLINGS: u32 = 5;
/// As many where the two are within an eighth of each other: a trial costs next to nothing there, and little has to change to turn the tables.
const TRIAL_DOUBLINGS_CLOSE: u32 = 2;
const CLOSE: f32 = 1.0 / 8.0;

/// The weight of a sample in the long run.
const WEIGHT_LEAST: f32 = 1.0 / 16.0;
/// The weight of a sample in a queue's scale, which only tells queues apart.
const WEIGHT_QUEUE: f32 = 1.0 / 32.0;
/// A sample counts as no more than so many times what was believed, or as no less than that part of it.
const OUTLIER: f32 = 4.0;
/// After so many samples, a single one that is off counts as no more than [`NEWS`].
const KNOWN: u16 = 4;
/// A sample that is off by more than this is news, if the one before was, too.
const NEWS: f32 = 1.3;
/// What is learnt goes into the table when it has moved by this part: a third of what a bin is wide.
const MOVED: f32 = 1.0 / 100.0;
/// No operation takes less or more, in nanoseconds: a clock that stands still, leaps, or says nonsense teaches little.
const NS_RANGE: RangeInclusive<f32> = 1.0..=1e10;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Learner {
    costs: Costs,
    cpu: Vec<[Seen; OCTAVES]>,
    latency: [Seen; OCTAVES],
    core: [Seen; 3],
    /// By row and mode: the core's time that the table was made with.
    tabulated: Vec<[f32; 3]>,
    /// By row and octave: the scales of cpu and latency that the table was made with.
    tabulated_scales: Vec<[(f32, f32); OCTAVES]>,
    /// By row, mode and octave: timed operations since the other engine was tried.
    since_trial: Vec<[[u16; OCTAVES]; 3]>,
    /// What trials may cost now, in nanoseconds.
    credit: f32,
}

/// How much is known of a cost.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    samples: u16,
    /// The last sample was off by more than [`NEWS`]: dearer (1), cheaper (-1).
    off: i8,
}

impl Seen {
    /// What is believed after a sample.
    fn follow(&mut self, believed: f32, sample: f32) -> f32 {
        let off = match sample / believed {
            ratio if ratio > NEWS => 1,
            ratio if ratio < 1.0 / NEWS => -1,
            _ => 0,
        };
        let was = std::mem::replace(&mut self.off, off);
        if off != 0 && off == was {
            self.samples = 0;
        }
        // A first one may be nobody's fault: it tells a direction and no size.
        let most = if off != 0 && off != was && self.samples >= KNOWN { NEWS } else { OUTLIER };
        // What was believed at first counts as one sample.
        let weight = (1.0 / (f32::from(self.samples) + 2.0)).max(WEIGHT_LEAST);
        self.samples = self.samples.saturating_add(1);
        believed + weight * (sample.clamp(believed / most, believed * most) - believed)
    }
}

impl Learner {
    pub(super) fn new(costs: Costs) -> Self {
        let rows = Group::COUNT * INTENTS;
        Self {
            costs,
            cpu: vec![[Seen::default(); OCTAVES]; rows],
            latency: [Seen::default(); OCTAVES],
            core: [Seen::default(); 3],
            tabulated: vec![Mode::ALL.map(|mode| costs.core_ns(mode)); rows],
            tabulated_scales: vec![[(1.0, 1.0); OCTAVES]; rows],
            since_trial: vec![[[0; OCTAVES]; 3]; rows],
            credit: CREDIT_FIRST_NS,
        }
    }

    pub(super) fn observe(&mut self, router: &Router, seen: &Observation) {
        let (row, octave) = (row_of(seen.kind, seen.intent), octave_of(seen.len));
        let tried = router.rows[row].modes[seen.mode as usize].is_device(bin_of(seen.len)) != seen.took.is_device();
        let Some(cost) = (match seen.took {
            Took::Cpu { ns } => Some(self.observe_cpu(router, row, seen, ns)),
            Took::Device { queue, ahead, core_ns, latency_ns } => {
                self.observe_device(router, row, seen, queue, ahead, core_ns, latency_ns)
            }
        }) else {
            return;
        };
        self.settle(router, row, octave, seen, cost, tried);
    }

    /// What it cost, in the mode's terms.
    fn observe_cpu(&mut self, router: &Router, row: usize, seen: &Observation, ns: f32) -> f32 {
        let octave = octave_of(seen.len);
        let ns = plausible(ns);
        let ratio = ns / self.costs.cpu_ns(Group::of(seen.kind), seen.len);
        let first = self.cpu[row][octave].samples == 0;
        follow(&mut self.cpu[row][octave], &router.rows[row].cpu_scale[octave], ratio);
        let bins = self.moved(router, row, octave, first);
        if bins.is_some() {
            spread(&self.cpu[row], &router.rows[row].cpu_scale);
        }
        if let Some(bins) = bins {
            Mode::ALL.into_iter().for_each(|mode| router.tabulate(row, mode, bins.clone(), Hold::Sides));
        }
        ns
    }

    /// The part of a row's table that is to be written again, if what it was made with has moved.
    fn moved(&mut self, router: &Router, row: usize, octave: usize, all: bool) -> Option<Range<usize>> {
        let scale = |bits: &AtomicU32| f32::from_bits(bits.load(Relaxed));
        let now = (scale(&router.rows[row].cpu_scale[octave]), scale(&router.latency_scale[octave]));
        let made_with = &mut self.tabulated_scales[row][octave];
        let moved = |now: f32, then: f32| (now / then - 1.0).abs() > MOVED;
        if all || moved(now.0, made_with.0) || moved(now.1, made_with.1) {
            *made_with = now;
            return Some(if all { 0..BINS } else { octave * PARTS..(octave + 1) * PARTS });
        }
        None
    }

    /// As `observe_cpu`; `None` if it cannot be told.
    #[allow(clippy::too_many_arguments)] // the parts of one observation
    fn observe_device(
        &mut self,
        router: &Router,
        row: usize,
        seen: &Observation,
        queue: usize,
        ahead: u32,
        core_ns: f32,
        latency_ns: Option<f32>,
    ) -> Option<f32> {
        let (octave, mode) = (octave_of(seen.len), seen.mode as usize);
        let core_ns = plausible(core_ns);
        let mut all_bins = false;
        let believed = f32::from_bits(router.core_ns[mode].load(Relaxed));
        let core = self.core[mode].follow(believed, core_ns);
        router.core_ns[mode].store(core.to_bits(), Relaxed);
        if (core / self.tabulated[row][mode] - 1.0).abs() > MOVED {
            self.tabulated[row][mode] = core;
            all_bins = true;
        }
        let latency_ns = latency_ns.map(plausible);
        if let Some(latency_ns) = latency_ns {
            // What it waited for others is not its own.
            let own = (latency_ns - ahead as f32 * self.costs.occupancy_ns).max(latency_ns / OUTLIER);
            let ratio = own / self.costs.latency_ns(seen.len);
            let scale = &router.queue_scale[queue.min(QUEUES_MAX - 1)];
            let relative = ratio / f32::from_bits(router.latency_scale[octave].load(Relaxed));
            let believed = f32::from_bits(scale.load(Relaxed));
            let relative = relative.clamp(believed / OUTLIER, believed * OUTLIER);
            scale.store((believed + WEIGHT_QUEUE * (relative - believed)).to_bits(), Relaxed);
            let first = self.latency[octave].samples == 0;
            follow(&mut self.latency[octave], &router.latency_scale[octave], ratio);
            all_bins |= first;
        }
        if let Some(bins) = self.moved(router, row, octave, all_bins) {
            spread(&self.latency, &router.latency_scale);
            // Latency counts in one mode only, the core's time in each mode for itself.
            let modes = Mode::ALL.into_iter().filter(|mode| *mode == seen.mode || *mode == Mode::Waited);
            modes.for_each(|mode| router.tabulate(row, mode, bins.clone(), Hold::Sides));
        }
        if seen.mode == Mode::Waited { latency_ns.map(|latency| core_ns + latency) } else { Some(core_ns) }
    }

    /// Books the cost, and orders a trial if one is due and can be paid.
    fn settle(&mut self, router: &Router, row: usize, octave: usize, seen: &Observation, cost: f32, tried: bool) {
        let mode = seen.mode;
        let (cpu, device) = (router.cpu_ns(row, seen.len), router.device_ns(row, mode, None, seen.len));
        let believed_own = if seen.took.is_device() { device } else { cpu };
        let since = &mut self.since_trial[row][mode as usize][octave];
        if tried {
            // It was paid for as it was believed to be; what it took beyond that is paid now.
            let believed = if seen.took.is_device() { device } else { cpu };
            self.credit -= (cost - believed).clamp(0.0, CREDIT_MAX_NS);
            *since = 0;
            return;
        }
        // A preemption saves nothing up.
        let cost = cost.min(believed_own * NEWS);
        self.credit = (self.credit + cost * TIMED_EVERY as f32 * TRIAL_SHARE).min(CREDIT_MAX_NS);
        *since = since.saturating_add(1);
        let (other_seen, extra) = if seen.took.is_device() {
            (self.cpu[row][octave], cpu - device)
        } else if mode == Mode::Waited {
            (self.latency[octave], device - cpu)
        } else {
            (self.core[mode as usize], device - cpu)
        };
        let extra = extra.max(0.0);
        let doublings = if extra < cost * CLOSE { TRIAL_DOUBLINGS_CLOSE } else { TRIAL_DOUBLINGS };
        let due = TRIAL_FIRST << u32::from(other_seen.samples).min(doublings);
        // As with sizes that are small: what is dearer by far is not tried.
        let beyond = believed_own * (WITHIN_REACH - 1.0);
        if u32::from(*since) >= due && extra <= self.credit && extra <= beyond {
            self.credit -= extra;
            *since = 0;
            router.rows[row].modes[mode as usize].trial.fetch_or(1 << octave, Relaxed);
        }
    }
}

impl Took {
    fn is_device(&self) -> bool {
        matches!(self, Self::Device { .. })
    }
}

/// `NaN` becomes the least.
fn plausible(ns: f32) -> f32 {
    ns.max(*NS_RANGE.start()).min(*NS_RANGE.end())
}

fn follow(seen: &mut Seen, scale: &AtomicU32, ratio: f32) {
    let believed = f32::from_bits(scale.load(Relaxed));
    scale.store(seen.follow(believed, ratio).to_bits(), Relaxed);
}

/// Gives octaves in which nothing was seen the scale of the nearest in which something was, the smaller one of two.
fn spread(seen: &[Seen; OCTAVES], scales: &[AtomicU32; OCTAVES]) {
    for octave in (0..OCTAVES).filter(|octave| seen[*octave].samples == 0) {
        let known = (0..OCTAVES).filter(|other| seen[*other].samples > 0);
        if let Some(nearest) = known.min_by_key(|other| other.abs_diff(octave)) {
            scales[octave].store(scales[nearest].load(Relaxed), Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_moves_little_and_news_moves_much() {
        let mut seen = Seen { samples: 100, off: 0 };
        let mut scale = 1.0;
        scale = seen.follow(scale, 1_000.0);
        assert!(scale < 1.2, "{scale}");
        for _ in 0..30 {
            scale = seen.follow(scale, 1.0);
        }
        assert!((0.99..1.05).contains(&scale), "{scale}");
        for _ in 0..6 {
            scale = seen.follow(scale, 2.0);
        }
        assert!((1.7..2.01).contains(&scale), "two in a row are news: {scale}");
    }

    #[test]
    fn what_was_never_seen_takes_after_its_nearest_neighbour() {
        let mut seen = [Seen::default(); OCTAVES];
        let scales: [AtomicU32; OCTAVES] = std::array::from_fn(|octave| AtomicU32::new((octave as f32).to_bits()));
        seen[4].samples = 1;
        seen[9].samples = 1;
        spread(&seen, &scales);
        let scale = |octave: usize| f32::from_bits(scales[octave].load(Relaxed));
        assert_eq!([0, 4, 6, 7, 9, OCTAVES - 1].map(scale), [4.0, 4.0, 4.0, 9.0, 9.0, 9.0]);
    }
}
