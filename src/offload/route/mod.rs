//! Who carries an operation out: the calling cpu, or which work queue?
//!
//! Costs decide, in nanoseconds: [`Costs`] says what is assumed before anything was seen, [`Learner`] corrects it by what
//! operations really took, and the outcome is written down ahead of time, as one bit for each sixteenth of an octave of sizes ([`bins`]). A decision
//! therefore looks at a table and not at costs: [`Router::is_small`] is a load and a comparison, [`Router::decide`] some twenty instructions more.
//!
//! What is compared depends on who waits ([`Mode`]):
//!
//! | mode | cpu | device |
//! |---|---|---|
//! | waited | the operation's time | core time of submitting, and the time until it is done, and what is in the queue before it |
//! | overlapped | the operation's time | core time of submitting and reaping |
//! | batched | the operation's time | core time of one more operation in a batch that goes anyway |
//!
//! The core's time is so much for a submission and so much for each operation in it ([`submission`]). So a batch is decided as a whole: operations that are cheaper on the device
//! once a batch goes are candidates, and it goes if together they save more than its submission takes ([`Router::batch_goes`]). What is waited for may be divided between both
//! engines ([`shares`]).
//!
//! Three things are outside the table, because they change from call to call: a queue that is dead, full or busy; a neighbour on the core whose
//! data a copy would displace; and *trials*. Who never tries the other engine never learns that it has become the better one, so now and then an
//! operation goes the way that is believed to be worse, if it has been long, and if what that is believed to cost has been saved before: trials
//! take [`TRIAL_SHARE`](learn::TRIAL_SHARE) of the time at most.
//!
//! Nothing here measures, and nothing here waits: times come in by [`Router::observe`], for the operations whose [`Choice`] asks for it.

mod bins;
mod costs;
mod curve;
mod learn;
mod seen;
mod shares;
mod submission;
#[cfg(test)]
mod tests;

use super::cpu::Stores;
use super::{Intent, Kind};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use bins::{BINS, OCTAVES, PARTS, WORDS, bin_of};
use curve::Curve;
use learn::Learner;
use std::fmt;

pub use costs::{Costs, Group};

/// Queues that are told apart, by their place in the caller's list; more share the last place's costs.
pub(crate) const QUEUES_MAX: usize = 16;
/// More than so many outstanding in one queue bring a device no throughput (work queue depth near 32: the study, `dsa.md` section 7 row 7).
const DEPTH_USEFUL: u32 = 32;
/// Counts times this are spread evenly over all words, and without a period that a service's own might fall in with (2^32 over the golden ratio).
const SPREAD: u32 = 0x9e37_79b9;
/// Pieces of cpu work, in bytes: smaller ones cost more in calls than they save in delay, larger ones no longer show in the rate.
const SLICE: std::ops::RangeInclusive<usize> = (4 << 10)..=(1 << 20);

/// Whether the core has something else to do meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// Nothing: the operation's end is waited for.
    Waited,
    /// Something: only the core's own time counts.
    Overlapped,
    /// As `Overlapped`, and others are at hand for a batch that shares the submission: a choice of the device means that it is worth a place in one; whether that goes, says
    /// [`Router::batch_goes`].
    Batched,
}

impl Mode {
    const ALL: [Self; 3] = [Self::Waited, Self::Overlapped, Self::Batched];
}

/// What is asked. Everything that a decision depends on, apart from what was learnt.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// What kind of operation.
    pub kind: Kind,
    /// Bytes.
    pub len: usize,
    /// What its destination is for.
    pub intent: Intent,
    /// Who waits.
    pub mode: Mode,
    /// A copy of this size would displace what the neighbour needs: see [`crowds`].
    pub crowded: bool,
    /// How long the cpu may work on it in one go, in nanoseconds; 0: as long as it takes.
    pub bound_ns: u32,
    /// Counts the caller's operations; any count that goes on will do. Says which ones are timed.
    pub turn: u32,
}

/// What a queue looks like now.
#[derive(Clone, Copy, Debug)]
pub struct QueueView {
    /// It answers, and it has this operation and takes this size; a queue that does not is never chosen.
    pub fit: bool,
    /// Descriptors in it.
    pub outstanding: u32,
    /// Descriptors that it takes.
    pub depth: u32,
    /// Its device is on another NUMA node than the data, or than the caller if that is all that is known.
    pub remote: bool,
}

/// Who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Who carries it out.
    pub by: Engine,
    /// The caller is to say by [`Router::observe`] how long it took.
    pub timed: bool,
}

/// See [`Choice`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The calling cpu, or one that the caller asks for help.
    Cpu {
        /// How it stores.
        stores: Stores,
        /// Bytes of a piece, where the whole would take longer than the bound allows.
        slice: Option<usize>,
    },
    /// The queue at this place of the list.
    Device {
        /// The queue's place.
        queue: usize,
        /// The destination belongs into the cache, and has room there.
        to_cache: bool,
        /// A trial of [`Mode::Batched`]: what is asked for together with it is to go with it, or a batch of one would teach what a single one costs.
        together: bool,
    },
}

/// What operations save by going together, apart from what their submission takes. Begins with none, for each batch anew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct BatchGain {
    /// Less of the core's time than if the cpu did them.
    ns: f32,
    /// One of them is worth a submission of its own, so more need not be reckoned.
    one_pays_alone: bool,
}

impl BatchGain {
    /// One more, which [`decide`](Router::decide) found worth a place.
    #[inline]
    pub fn add(&mut self, router: &Router, kind: Kind, intent: Intent, len: usize) {
        self.one_pays_alone = self.one_pays_alone || router.pays_alone(kind, intent, len);
        if !self.one_pays_alone {
            self.ns += router.cpu_ns(row_of(kind, intent), len) - float(&router.core_ns[1]);
        }
    }
}

/// Whether a batch goes to the device: see [`Router::batch_goes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchGoes {
    /// It pays.
    AsItPays,
    /// Nobody knows whether it pays: it goes, and the caller is to say by [`Router::observe`] how long it took.
    AsATrial,
    /// Its operations are the cpu's.
    Not,
}

impl BatchGoes {
    /// To the device, for whatever reason.
    #[must_use]
    pub fn goes(self) -> bool {
        self != Self::Not
    }
}

/// What an operation took.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    /// As it was asked.
    pub kind: Kind,
    /// As it was asked.
    pub len: usize,
    /// As it was asked.
    pub intent: Intent,
    /// As it was asked.
    pub mode: Mode,
    /// Who did it, and how long that took.
    pub took: Took,
}

/// See [`Observation`]. Nanoseconds.
#[derive(Clone, Copy, Debug)]
pub enum Took {
    /// The cpu did it.
    Cpu {
        /// Only time in which it worked on it.
        ns: f32,
    },
    /// A device did it, alone. In [`Mode::Batched`] nothing is learnt of the core's time from this: see [`Batch`](Self::Batch).
    Device {
        /// The queue's place in the list that was given.
        queue: usize,
        /// What was in the queue when it was submitted.
        ahead: u32,
        /// The core's own time: preparing, submitting, and taking the answer.
        core_ns: f32,
        /// From its submission until the answer was seen. `None` where nobody looked in time to know.
        latency_ns: Option<f32>,
    },
    /// A device did most of it, and the cpu meanwhile its share: see [`Router::share`].
    Shared {
        /// As above.
        queue: usize,
        /// As above.
        ahead: u32,
        /// As above, without the cpu's share.
        core_ns: f32,
        /// From the submission of the device's part until its answer was seen.
        latency: Latency,
        /// Bytes of the cpu's share.
        cpu_len: usize,
        /// What the cpu took for them.
        cpu_ns: f32,
    },
    /// A device did it, as one of a batch.
    Batch {
        /// Operations of the batch.
        together: u32,
        /// The core's time for all of them.
        core_ns: f32,
    },
}

/// What is known of a time that only somebody who looks can know. Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// Nobody looked in time to know.
    Unknown,
    /// It was over just before somebody looked who waited for it.
    Was(f32),
    /// It was over when somebody looked first.
    AtMost(f32),
}

impl Latency {
    fn ns(self) -> Option<f32> {
        match self {
            Self::Unknown => None,
            Self::Was(ns) | Self::AtMost(ns) => Some(ns),
        }
    }
}

impl QueueView {
    /// It may be given one more, and that is of use.
    #[inline(always)]
    fn is_open(&self) -> bool {
        self.fit && self.outstanding < self.depth.min(DEPTH_USEFUL)
    }
}

/// Whether a copy of `len` bytes displaces what the neighbour in the same cache needs: its two ranges and the neighbour's data together do not fit.
pub fn crowds(len: usize, neighbour_needs: usize, cache: usize) -> bool {
    neighbour_needs > 0 && len > cache.saturating_sub(neighbour_needs) / 2
}

/// The table, and what it was made from. Shared by all lanes: decisions load, observations store, and one that meets another is dropped.
pub struct Router {
    costs: Costs,
    /// Copies and fills of so many bytes and more are streamed.
    streamed_from: usize,
    /// Copies that are waited for are shared between the device and the cpu: by row and bin, the cpu's part. See [`share`](Router::share). As are all below, bits of an `f32`.
    shares: Option<Box<[[AtomicU32; BINS]]>>,
    rows: [Row; Group::COUNT * INTENTS],
    /// The core's time for a submission, and for each operation of it.
    core_ns: [AtomicU32; 2],
    latency: Curve,
    queue_scale: [AtomicU32; QUEUES_MAX],
    /// A decision is timed if its turn, spread, is below this: no bits of a float.
    timed_below: AtomicU32,
    /// 1: the next batch goes, whether it is believed to pay or not.
    batch_trial: AtomicU32,
    learner: Mutex<Learner>,
}

/// What is known about operations of one group and intent.
struct Row {
    modes: [ModeRow; 3],
    cpu: Curve,
}

struct ModeRow {
    /// A bit a bin: the device has it.
    device: [AtomicU64; WORDS],
    /// Sizes below are the cpu's by far: nothing is timed, nothing tried.
    small: AtomicU32,
    /// A bit an octave: the next operation there goes the other way.
    trial: AtomicU64,
}

const INTENTS: usize = 3;

/// The row of each kind's group, for the first intent.
const FIRST_ROW: [u8; Kind::ALL.len()] = {
    let mut rows = [0; Kind::ALL.len()];
    let mut kind = 0;
    while kind < rows.len() {
        rows[kind] = (Group::of(Kind::ALL[kind]) as usize * INTENTS) as u8;
        kind += 1;
    }
    rows
};

#[inline(always)]
fn row_of(kind: Kind, intent: Intent) -> usize {
    usize::from(FIRST_ROW[kind as usize]) + intent as usize
}

impl Router {
    /// `costs` is what is believed at first. From `streamed_from` bytes on, copies and fills of the cpu are streamed.
    pub fn new(costs: Costs, streamed_from: usize) -> Self {
        let mode_row = |_| ModeRow { device: Default::default(), small: AtomicU32::new(0), trial: AtomicU64::new(0) };
        let row = |row| Row {
            modes: std::array::from_fn(mode_row),
            cpu: Curve::new(|len| costs.cpu_ns(Group::ALL[row / INTENTS], len)),
        };
        let mut router = Self {
            costs,
            streamed_from,
            shares: None,
            rows: std::array::from_fn(row),
            core_ns: [costs.submit_ns, costs.operation_ns].map(|ns| AtomicU32::new(ns.to_bits())),
            latency: Curve::new(|len| costs.latency_ns(len)),
            queue_scale: std::array::from_fn(|_| AtomicU32::new(1f32.to_bits())),
            timed_below: AtomicU32::new(u32::MAX / learn::TIMED_EVERY),
            batch_trial: AtomicU32::new(0),
            learner: Mutex::new(Learner::new(costs)),
        };
        router.tabulate_all();
        router
    }

    /// For callers that do a part of what they wait for themselves, while the device does the rest: [`share`](Self::share) says which part. A device is
    /// worth more to them, so the tables are others.
    #[must_use]
    pub fn sharing(mut self) -> Self {
        let none = |_| std::array::from_fn(|_| AtomicU32::new(0f32.to_bits()));
        self.shares = Some((0..self.rows.len()).map(none).collect());
        self.tabulate_all();
        self
    }

    fn tabulate_all(&mut self) {
        for row in 0..self.rows.len() {
            for mode in Mode::ALL {
                self.tabulate(row, mode, 0..BINS);
            }
        }
        self.learner.lock().all_tabulated(self);
    }

    /// How many of the first bytes of a device's operation the cpu is to do meanwhile, if it is waited for and can be divided: as many as it has done just before
    /// the device has done the rest. 0: none, because it would not pay, or the router is not [`sharing`](Self::sharing).
    ///
    /// What is timed is observed as [`Took::Shared`]: where the device was over first, that is known, and the next share is smaller.
    #[inline]
    pub fn share(&self, kind: Kind, intent: Intent, len: usize) -> usize {
        if len < shares::SHARED_FROM {
            return 0;
        }
        (len as f32 * self.part(row_of(kind, intent), bin_of(len))) as usize
    }

    /// The cpu's part of what is waited for.
    fn part(&self, row: usize, bin: usize) -> f32 {
        self.shares.as_ref().map_or(0.0, |shares| float(&shares[row][bin]))
    }

    /// Whether the table has an operation that nobody waits for go to a device all by itself. Then it goes in a batch, too, and so does whatever is worth a place beside it.
    #[inline(always)]
    pub fn pays_alone(&self, kind: Kind, intent: Intent, len: usize) -> bool {
        self.rows[row_of(kind, intent)].modes[Mode::Overlapped as usize].is_device(bin_of(len))
    }

    /// Whether a batch goes whose operations bring so much together: if that is more than its submission takes. Now and then it goes all the same, since what never goes
    /// is never known; so this is to be asked once for each batch.
    ///
    /// The decision is one for the whole of it. [`decide`](Self::decide) says which operations are worth a place in a batch that goes anyway; this, whether it goes.
    #[inline]
    pub fn batch_goes(&self, gain: BatchGain) -> BatchGoes {
        match self.batch_pays(gain) {
            true => BatchGoes::AsItPays,
            // The load first: nearly always there is none, and then the line stays shared.
            false if self.batch_trial.load(Relaxed) != 0 && self.batch_trial.swap(0, Relaxed) != 0 => {
                BatchGoes::AsATrial
            }
            false => BatchGoes::Not,
        }
    }

    /// Whether a batch goes by what is known; no trial is used up.
    #[inline]
    pub(crate) fn batch_pays(&self, gain: BatchGain) -> bool {
        gain.one_pays_alone || gain.ns > float(&self.core_ns[0])
    }

    /// Whether the cpu has it by far, so that asking further would cost more than it brings.
    #[inline(always)]
    pub fn is_small(&self, kind: Kind, intent: Intent, mode: Mode, len: usize) -> bool {
        // Relaxed, as everything here: words that stand alone, and an old one is as good an answer as a new one.
        len < self.rows[row_of(kind, intent)].modes[mode as usize].small.load(Relaxed) as usize
    }

    /// Whether [`decide`](Self::decide), asked about this queue alone, gives it to the device by the table, and no trial is due. `false`: ask it. Not of what is
    /// waited for, where more counts than the table.
    #[inline(always)]
    pub(crate) fn is_plainly_for(&self, queue: &QueueView, kind: Kind, intent: Intent, mode: Mode, len: usize) -> bool {
        debug_assert!(mode != Mode::Waited);
        let table = &self.rows[row_of(kind, intent)].modes[mode as usize];
        let bin = bin_of(len);
        let trial = table.trial.load(Relaxed) & 1 << (bin / PARTS) != 0;
        queue.is_open() && !queue.remote && table.is_device(bin) && !trial
    }

    /// Chooses. `queues` in the same order each time.
    #[inline]
    pub fn decide(&self, ask: &Ask, queues: &[QueueView]) -> Choice {
        let row = row_of(ask.kind, ask.intent);
        let table = &self.rows[row].modes[ask.mode as usize];
        if ask.len < table.small.load(Relaxed) as usize {
            return Choice { by: Engine::Cpu { stores: Stores::Plain, slice: None }, timed: false };
        }
        // Nearly always there is one queue, and it has room.
        let queue = match queues {
            [only] if only.is_open() => Some(0),
            [] | [_] => None,
            several => self.best_queue(ask.len, several),
        };
        let Some(queue) = queue else { return Choice { by: self.cpu(row, ask), timed: false } };
        let bin = bin_of(ask.len);
        let trial = table.is_trial(bin / PARTS);
        let mut device = table.is_device(bin) != trial;
        let view = &queues[queue];
        // What the table cannot know. A trial is a trial whatever it costs now; it was saved for.
        if !trial && (ask.crowded || view.remote || (view.outstanding > 0 && ask.mode == Mode::Waited)) {
            device = self.is_device_now(row, ask, queue, view);
        }
        let timed = trial || self.is_timed(ask.turn);
        if device {
            // What is larger than a share of the cache would throw itself out.
            let to_cache = ask.intent == Intent::Soon && ask.len < self.streamed_from / 4;
            let together = trial && ask.mode == Mode::Batched;
            Choice { by: Engine::Device { queue, to_cache, together }, timed }
        } else {
            Choice { by: self.cpu(row, ask), timed }
        }
    }

    /// Whether an operation that is decided in this [turn](Ask::turn) is timed.
    #[inline(always)]
    pub(crate) fn is_timed(&self, turn: u32) -> bool {
        turn.wrapping_mul(SPREAD) < self.timed_below.load(Relaxed)
    }

    /// By costs instead of the table.
    fn is_device_now(&self, row: usize, ask: &Ask, queue: usize, view: &QueueView) -> bool {
        let crowding = if ask.crowded { self.costs.crowding_ns(ask.len) } else { 0.0 };
        let before = if ask.mode == Mode::Waited { self.queueing_ns(queue, view) } else { 0.0 };
        let slower = if ask.mode == Mode::Waited {
            self.latency.ns(ask.len) * (float(&self.queue_scale[queue.min(QUEUES_MAX - 1)]) - 1.0)
        } else {
            0.0
        };
        self.device_ns(row, ask.mode, ask.len) + slower + before < self.cpu_ns(row, ask.len) + crowding
    }

    /// Learns from what an operation took. Not worth waiting for: if somebody else is learning, it is forgotten.
    pub fn observe(&self, observation: &Observation) {
        let Some(mut learner) = self.try_learner() else { return };
        learner.observe(self, observation);
    }

    #[cfg(not(twolane_loom))]
    fn try_learner(&self) -> Option<impl std::ops::DerefMut<Target = Learner>> {
        self.learner.try_lock()
    }

    /// Not inlined: a decision for the device, which is to be short, does not come by.
    #[inline(never)]
    fn cpu(&self, row: usize, ask: &Ask) -> Engine {
        let large = ask.len >= if ask.crowded { self.streamed_from / 2 } else { self.streamed_from };
        let stores = if large { Stores::Streamed } else { Stores::Plain };
        let slice = (ask.bound_ns > 0 && ask.len > *SLICE.start()).then(|| {
            let takes = self.cpu_ns(row, ask.len).max(1.0);
            let fits = ask.len as f32 * (ask.bound_ns as f32 / takes);
            // A float that is too large becomes the largest size.
            (fits as usize).clamp(*SLICE.start(), *SLICE.end())
        });
        Engine::Cpu { stores, slice: slice.filter(|slice| *slice < ask.len) }
    }

    /// The queue in which an operation would be done first, among those that are fit for it and not full.
    fn best_queue(&self, len: usize, queues: &[QueueView]) -> Option<usize> {
        let done =
            |(place, view): (usize, &QueueView)| (place, self.latency_ns(place, len) + self.queueing_ns(place, view));
        let open = queues.iter().enumerate().filter(|(_, view)| view.is_open()).map(done);
        open.min_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(place, _)| place)
    }

    fn cpu_ns(&self, row: usize, len: usize) -> f32 {
        self.rows[row].cpu.ns(len)
    }

    /// What is compared with [`cpu_ns`](Self::cpu_ns): see the module's table. The queue is an idle one, as they are usually chosen.
    fn device_ns(&self, row: usize, mode: Mode, len: usize) -> f32 {
        let [submit, operation] = self.core();
        match mode {
            Mode::Waited => {
                let part = if len < shares::SHARED_FROM { 0.0 } else { self.part(row, bin_of(len)) };
                submit + operation + shares::waited_ns(&self.rows[row].cpu, &self.latency, len, part)
            }
            Mode::Overlapped => submit + operation,
            Mode::Batched => operation,
        }
    }

    /// The core's time for a submission, and for each operation of it.
    fn core(&self) -> [f32; 2] {
        [float(&self.core_ns[0]), float(&self.core_ns[1])]
    }

    fn set_core(&self, submit_ns: f32, operation_ns: f32) {
        self.core_ns[0].store(submit_ns.to_bits(), Relaxed);
        self.core_ns[1].store(operation_ns.to_bits(), Relaxed);
    }

    /// Values of the curve are what was experienced, with whatever queue was chosen; a queue's own is relative to that.
    fn latency_ns(&self, queue: usize, len: usize) -> f32 {
        self.latency.ns(len) * float(&self.queue_scale[queue.min(QUEUES_MAX - 1)])
    }

    /// What is in the queue before, and the way to another node.
    fn queueing_ns(&self, queue: usize, view: &QueueView) -> f32 {
        let scale = float(&self.queue_scale[queue.min(QUEUES_MAX - 1)]);
        let way = if view.remote { self.costs.remote_ns } else { 0.0 };
        view.outstanding as f32 * self.costs.occupancy_ns * scale + way
    }

    /// The core's time that is believed for a submission and for each operation of it, and the CPU's for an operation, in nanoseconds.
    #[cfg(test)]
    pub(crate) fn believed(&self, kind: Kind, intent: Intent, len: usize) -> [f32; 3] {
        let [submission, operation] = self.core();
        [submission, operation, self.cpu_ns(row_of(kind, intent), len)]
    }

    /// Writes down who has which sizes, and which part of them.
    fn tabulate(&self, row: usize, mode: Mode, bins: std::ops::Range<usize>) {
        let table = &self.rows[row].modes[mode as usize];
        for bin in bins {
            let len = bins::middle(bin);
            if let (Mode::Waited, Some(shares)) = (mode, &self.shares) {
                let part = &shares[row][bin];
                let now = shares::part(&self.rows[row].cpu, &self.latency, len, float(part));
                part.store(now.to_bits(), Relaxed);
            }
            table.set_device(bin, self.device_ns(row, mode, len) < self.cpu_ns(row, len));
        }
        // The first octave in which the device is within reach.
        let near = (0..OCTAVES).find(|octave| {
            let (first, len) = (octave * PARTS, bins::edge((octave + 1) * PARTS));
            let reach = self.device_ns(row, mode, len) < self.cpu_ns(row, len) * learn::WITHIN_REACH;
            reach || (first..first + PARTS).any(|bin| table.is_device(bin))
        });
        let small = near.map_or(u32::MAX, |octave| u32::try_from(bins::edge(octave * PARTS)).unwrap_or(u32::MAX));
        table.small.store(small, Relaxed);
    }
}

impl ModeRow {
    #[inline(always)]
    fn is_device(&self, bin: usize) -> bool {
        self.device[bin / 64].load(Relaxed) >> (bin % 64) & 1 == 1
    }

    /// Only the learner writes, under its lock, so nothing is lost between load and store.
    fn set_device(&self, bin: usize, device: bool) {
        let word = &self.device[bin / 64];
        let bit = 1 << (bin % 64);
        let others = word.load(Relaxed) & !bit;
        word.store(if device { others | bit } else { others }, Relaxed);
    }

    /// Takes the trial of this octave, if one is due.
    #[inline(always)]
    fn is_trial(&self, octave: usize) -> bool {
        let bit = 1 << octave;
        // The load first: nearly always there is none, and then the line stays shared.
        self.trial.load(Relaxed) & bit != 0 && self.trial.fetch_and(!bit, Relaxed) & bit != 0
    }
}

fn float(bits: &AtomicU32) -> f32 {
    f32::from_bits(bits.load(Relaxed))
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Router")
            .field("costs", &self.costs)
            .field("streamed_from", &self.streamed_from)
            .finish_non_exhaustive()
    }
}
