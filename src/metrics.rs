//! What a runtime counts, and a snapshot of it for people and exporters.
//!
//! Counters of a lane are written by that lane alone, with plain stores, and read by anybody: a snapshot is cheap, disturbs no lane, and
//! may mix values that are a pass apart.

use crate::offload::CopyCounts;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::Duration;

use crate::placement::LaneInfo;
use crate::wait::WaitReport;
use crate::wait::controller::Guards;

/// A counter with one writer.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Adds; only the owner may call it.
    #[inline]
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: a statistic with one writer, so that no locked instruction is needed.
        self.0.store(self.0.load(Relaxed).wrapping_add(by), Relaxed);
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        // Relaxed: as above.
        self.0.store(value, Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        // Relaxed: a reader accepts any recent value.
        self.0.load(Relaxed)
    }
}

/// A counter that any thread adds to, seldom.
#[derive(Debug, Default)]
pub(crate) struct SharedCount(AtomicU64);

impl SharedCount {
    pub(crate) fn add(&self, by: u64) {
        // Relaxed: a statistic.
        self.0.fetch_add(by, Relaxed);
    }

    pub(crate) fn read(&self) -> u64 {
        // Relaxed: a statistic.
        self.0.load(Relaxed)
    }
}

/// What a lane counts.
#[derive(Debug, Default)]
pub(crate) struct LaneCounters {
    pub passes: Count,
    pub busy_passes: Count,
    pub events: Count,
    pub pollers: Count,
    pub dozes: Count,
    pub instruction_dozes: Count,
    pub os_limited_dozes: Count,
    pub doze_false_wakes: Count,
    pub cut_dozes: Count,
    pub monitored_dozes: Count,
    pub monitor_verdicts: Count,
    pub steps_aside: Count,
    pub rests: Count,
    pub rests_asked: Count,
    pub recalibrations: Count,
    /// Ticks.
    pub charged: Count,
    /// Ticks; as a signed number.
    pub balance: Count,
    pub over_budget: Count,
    /// Ticks.
    pub mean_bound: Count,
    pub max_bound: Count,
    /// Bits of `Guards`.
    pub guards: Count,
    /// The last wake from a park, on average over eight, in ticks; 0 if none was measured.
    pub wake: Count,
    pub parks: Count,
    pub park_refusals: Count,
    pub fruitless_parks: Count,
    pub misses_doze: Count,
    pub misses_lent: Count,
    pub misses_preempted: Count,
    pub misses_aside: Count,
    pub misses_slow_poller: Count,
    pub relief_withheld: Count,
    pub tasks: Count,
    pub lent_tasks: Count,
    pub hand_offs: Count,
    pub steals: Count,
    pub lingers: Count,
    pub panics: Count,
    /// System calls made to wake this lane. Written by whoever wakes it.
    pub wakes: SharedCount,
}

/// A snapshot of a runtime; see [`Handle::metrics`](crate::Handle::metrics).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Metrics {
    /// One entry a lane, by lane number.
    pub lanes: Vec<LaneMetrics>,
    /// Time since the runtime was built.
    pub age: Duration,
    /// What the lanes read the time from: "the cpu's counter at 2300 MHz", or "CLOCK_MONOTONIC" where that counter is no clock.
    pub clock: String,
    /// Tasks that wait in the injectors, submitted from outside the lanes.
    pub injected: usize,
    /// Futures that have not ended.
    pub live_futures: usize,
    /// Pollers that have not ended.
    pub live_pollers: usize,
    /// Copies and their kin, by engine and size.
    pub copies: CopyCounts,
    /// Environment variables that overrode the builder, as `NAME=value`.
    pub overrides: Vec<String>,
}

/// What one lane did since the runtime was built.
///
/// `busy + empty + dozing` is the cpu time of the lane's thread, as its own CLOCK_THREAD_CPUTIME_ID tells it; `parked` and `preempted` are
/// wall time in which it used none. A stretch is booked when it ends: a task that runs for a second shows nothing for a second. Time that a task
/// spends blocked in the kernel (a lock, a file) is wall time without cpu time, and shows as `preempted`.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaneMetrics {
    /// The lane.
    pub info: LaneInfo,
    /// Cpu time in passes that found something, and in tasks.
    pub busy: Duration,
    /// Cpu time in passes that found nothing, in searching for tasks, and in the kernel's part of parking.
    pub empty: Duration,
    /// Cpu time spent waiting in user mode: the sibling had the core.
    pub dozing: Duration,
    /// Wall time blocked in the kernel.
    pub parked: Duration,
    /// Wall time in which the lane could run but the kernel, or a hypervisor, ran somebody else.
    pub preempted: Duration,
    /// The part of `busy` that went to tasks.
    pub tasks_time: Duration,
    /// Sweeps over the lane's pollers.
    pub passes: u64,
    /// Passes that found something.
    pub busy_passes: u64,
    /// Arrivals that pollers reported.
    pub events: u64,
    /// Pollers on the lane now.
    pub pollers: u64,
    /// Waits in user mode.
    pub dozes: u64,
    /// Those of them that were one instruction (TPAUSE, UMWAIT, MWAITX, ...) instead of PAUSEs.
    pub instruction_dozes: u64,
    /// Those of them that the operating system's limit ended.
    pub os_limited_dozes: u64,
    /// With what the lane waits in user mode; `None` until it has started.
    pub waits: Option<WaitReport>,
    /// Dozes ended by the doorbell for nothing: no poller and no inbox had anything.
    pub doze_false_wakes: u64,
    /// Dozes of PAUSEs that ended because the word of the only poller awake (its [`Peek`](crate::Peek)) was written: it is looked at every eight
    /// PAUSEs.
    pub cut_dozes: u64,
    /// Waits in which an instruction watched a word for a store.
    pub monitored_dozes: u64,
    /// Times that more than half of the early ends of waits that watched a word, either way, were for nothing, so that the lane waited for the time
    /// alone for a while.
    pub monitor_verdicts: u64,
    /// Times that the lane let others have its cpu instead of waiting in user mode.
    pub steps_aside: u64,
    /// Times that this lane, between two tasks, left the core to its poll lane for 20 us, because that was late and is known to share the core.
    /// At most 5 % of any 10 ms.
    pub rests: u64,
    /// Times that this lane asked its sibling to.
    pub rests_asked: u64,
    /// Times that PAUSE was measured anew, after waits that were late again and again, a jump of the clock, or a move to another cpu.
    pub recalibrations: u64,
    /// The bounds in force: the tightest of the lane's pollers, and the runtime's for those that state none. Zero until the lane has started.
    pub mean_added: Duration,
    /// As `mean_added`, for the longest wait.
    pub max_added: Duration,
    /// Latency that events were charged with for the lane's waits: `added / events` is what the budget `mean_added` bounds. The last
    /// millisecond may be missing.
    pub added: Duration,
    /// What waiting may still add, in nanoseconds; negative while in debt: then the lane polls without waiting until events have earned it
    /// back. At most 64 times `mean_added`.
    pub budget_ns: i64,
    /// Empty passes after which the budget, or a bound, allowed no wait although relief was wanted.
    pub over_budget: u64,
    /// Why relief is not given now, if it is not.
    pub withheld: Option<Withheld>,
    /// Reasons for which this lane spins less than it was told to; empty where spinning is of use.
    pub guards: Vec<Guard>,
    /// From the ring, or the deadline, to the parked lane running again: the average of the last wakes that could be measured. A wake by
    /// a descriptor is not: nobody says when it became readable.
    pub wake: Option<Duration>,
    /// Times blocked in the kernel, one that lasts included.
    pub parks: u64,
    /// Times that a poller refused to be armed, or that something came while the lane armed.
    pub park_refusals: u64,
    /// Parks after which no poller found anything. Where they grow by some ten a second while the lane hardly parks, a poller leaves its descriptor readable.
    pub fruitless_parks: u64,
    /// Gaps longer than `max_added`, by cause.
    pub misses: Misses,
    /// Empty passes after which no relief was given because the sibling had nothing to do or the knob is off.
    pub relief_withheld: u64,
    /// Tasks run: polls of futures and closures.
    pub tasks: u64,
    /// Those of them that ran while the lane had pollers.
    pub lent_tasks: u64,
    /// Tasks that pollers handed to the sibling through their [`PollCx`](crate::PollCx).
    pub hand_offs: u64,
    /// Tasks taken from other lanes' queues.
    pub steals: u64,
    /// Times that the lane stayed awake for the next hand-off.
    pub lingers: u64,
    /// Panics of user code that were contained here.
    pub panics: u64,
    /// System calls that others made to wake this lane.
    pub wakes: u64,
}

/// Why a lane gives no relief now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Withheld {
    /// [`Relief::Off`](crate::Relief::Off).
    Off,
    /// The lanes of the pair are known not to share a core.
    NotShared,
    /// The sibling has nothing to do.
    SiblingIdle,
    /// Waits have added all the latency that they may; see [`LaneMetrics::budget_ns`].
    OverBudget,
}

/// Why spinning is of no use on a lane, or keeps others from bringing what it waits for. It parks sooner then; where it may not park, and others
/// need this very cpu, it lets them have it between two passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Guard {
    /// The control group's quota is less than the lanes would use.
    Quota,
    /// More lanes than cpus.
    Oversubscribed,
    /// The process may use one cpu.
    SingleCpu,
    /// Another lane is bound to the same cpu.
    SharedCpu,
    /// The kernel takes the cpu away for others more than 50 times a second.
    Crowded,
    /// The lane has a real-time priority on such a cpu: whoever has none waits until it blocks.
    Realtime,
}

impl Guard {
    const ALL: [Guard; 6] =
        [Guard::Quota, Guard::Oversubscribed, Guard::SingleCpu, Guard::SharedCpu, Guard::Crowded, Guard::Realtime];

    /// The guards of a word of bits in the order of `ALL`.
    pub(crate) fn of(bits: u64) -> Vec<Guard> {
        Self::ALL.into_iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, guard)| guard).collect()
    }

    /// The bits of what holds.
    pub(crate) fn bits(guards: Guards) -> u64 {
        let Guards { quota, oversubscribed, single_cpu, shared_cpu, crowded, realtime } = guards;
        let all = [quota, oversubscribed, single_cpu, shared_cpu, crowded, realtime];
        all.into_iter().enumerate().map(|(bit, holds)| u64::from(holds) << bit).sum()
    }
}

/// Gaps between two calls of a poller that were longer than `max_added` because of the runtime, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misses {
    /// A doze that ended late.
    pub doze: u64,
    /// A task that the lane ran.
    pub lent: u64,
    /// The kernel or the hypervisor took the cpu away.
    pub preempted: u64,
    /// The pass itself took so long: a slow fellow poller.
    pub slow_poller: u64,
    /// The lane let others have its cpu, because they need that one; see [`LaneMetrics::guards`].
    pub aside: u64,
}

impl LaneMetrics {
    /// The share of idle time in which the sibling had the core: dozing / (dozing + empty). 0 if there was no idle time.
    #[must_use]
    pub fn duty(&self) -> f64 {
        let idle = (self.dozing + self.empty).as_secs_f64();
        if idle > 0.0 { self.dozing.as_secs_f64() / idle } else { 0.0 }
    }
}
