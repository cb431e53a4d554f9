//! `balanced_duty_150ns`, `balanced_duty_20ns`: how much of its idle time does a busy-polling lane leave to the sibling?
//!
//! **Method.** A poller that takes 150 ns or 20 ns a call, with events at random instants, 20 000 a second; the compute lane is
//! always busy; preset `Balanced`. The poller itself measures, with its own clock, what lies between the end of a call that
//! found nothing and the start of the next: relief and the runtime's own work. What the runtime's own work takes is known from
//! the control. *Duty* is relief / idle time, where idle time is calls that found nothing and the gaps after them. A slot is 40
//! ms. Figure: median of the slots; or what the lane's own metrics claim, if that is less.
//!
//! **Control** (A and A'). The same with relief off: a runtime that never waits. It reads 0, and the bound is far from it.
//!
//! **Bound.** 0.6 of idle time for calls of 150 ns, 0.8 for 20 ns: with the preset's mean of 0.4 us, longer calls
//! leave less.
//!
//! **Beside.** Both measures of duty, the mean length of a wait, and events a second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use twolane::{Etiquette, Handle, PollCx, Poller, Progress, Relief, Role, Sharing, Where};

use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::slots::{Cell, SLOTS, interleave};
use crate::common::stats::{best, median};
use crate::common::ticks;
use crate::common::witness::Witness;
use crate::common::work::{Gaps, steps_for, work};

const EVENTS_PER_S: f64 = 20_000.0;
const SLOT_NS: f64 = 40e6;
/// Before anything is counted, the compute lane is at work and the lane knows what a pass takes.
const WARM_UP_NS: f64 = 5e6;
/// A gap longer than this was not chosen by the lane: it is left out, with its call.
const PREEMPTED_NS: f64 = 20_000.0;
/// What a closure of the compute lane takes.
const TASK: Duration = Duration::from_micros(200);

pub fn of_150_ns(machine: &Machine) -> Result<Figure, String> {
    duty(machine, "balanced_duty_150ns", 150.0, Bound::AtLeast(0.6))
}

pub fn of_20_ns(machine: &Machine) -> Result<Figure, String> {
    duty(machine, "balanced_duty_20ns", 20.0, Bound::AtLeast(0.8))
}

fn duty(machine: &Machine, name: &'static str, call_ns: f64, bound: Bound) -> Result<Figure, String> {
    let polite = Lanes::start(builder().etiquette(Etiquette::Balanced))?;
    let control = Lanes::start(builder().etiquette(Etiquette::Balanced).relief(Relief::Off))?;
    if polite.sharing() == Sharing::Denied {
        return Err("the two lanes are known not to share a core here, so the lane rightly gives no relief".into());
    }
    let witness = Witness::new(machine.cpus(), polite.thread_ids().into_iter().chain(control.thread_ids()));
    let steps = steps_for(call_ns);
    // What the runtime itself takes between two calls: the least of some runs that never wait.
    let runs = (0..SLOTS / 4).map(|_| slot(&control, steps)).collect::<Result<Vec<Option<Seen>>, String>>()?;
    let own = best(&runs.iter().flatten().map(Seen::gap_mean).collect::<Vec<f64>>());
    let (mut claimed, mut gaps, mut calls, mut rates) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let slots = interleave(SLOTS, &witness, |cell| {
        let lanes = if cell == Cell::Ours { &polite } else { &control };
        let before = lanes.metrics(Role::Poll)?;
        let Some(seen) = slot(lanes, steps)? else { return Ok(None) };
        let after = lanes.metrics(Role::Poll)?;
        if cell == Cell::Ours {
            let (dozing, empty) = (after.dozing - before.dozing, after.empty - before.empty);
            claimed.push(dozing.as_secs_f64() / (dozing + empty).as_secs_f64());
            gaps.push(seen.gap_mean());
            calls.push(seen.call_mean());
            rates.push(seen.events as f64 / (SLOT_NS / 1e9));
        }
        Ok(Some(seen.duty(own)))
    })?;
    let (measured, claimed) = (median(&slots.ours), median(&claimed));
    Ok(Figure {
        name,
        value: measured.min(claimed),
        bound,
        noise: Some(Noise { aa: median(&slots.a_again) - median(&slots.a), neutral: 0.0 }),
        clean: Some(slots.clean()),
        beside: vec![
            ("duty_seen_by_poller", measured),
            ("duty_of_metrics", claimed),
            ("duty_of_control", median(&slots.references())),
            ("call_ns", median(&calls)),
            ("gap_ns", median(&gaps)),
            ("own_work_ns", own),
            ("events_per_s", median(&rates)),
        ],
    })
}

/// What the poller saw of a slot, in ticks.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    calls: u64,
    in_calls: u64,
    in_gaps: u64,
    events: u64,
}

impl Seen {
    fn gap_mean(&self) -> f64 {
        self.in_gaps as f64 * ticks::ns_per_tick() / self.calls as f64
    }

    fn call_mean(&self) -> f64 {
        self.in_calls as f64 * ticks::ns_per_tick() / self.calls as f64
    }

    /// `own`: what the runtime itself takes of a gap, in nanoseconds.
    fn duty(&self, own: f64) -> f64 {
        (self.gap_mean() - own).max(0.0) / (self.gap_mean() + self.call_mean())
    }
}

/// A poller of a known cost, whose events come by the clock.
struct Costly {
    steps: u32,
    next_event: u64,
    gaps: Gaps,
    /// End of the last call, if that found nothing.
    idle_since: Option<u64>,
    call_began: u64,
    from: u64,
    until: u64,
    preempted: u64,
    over: Arc<AtomicBool>,
    seen: Seen,
}

impl Poller for Costly {
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        let began = ticks::now();
        if let Some(since) = self.idle_since.take() {
            let gap = began.saturating_sub(since);
            if since >= self.from && gap < self.preempted {
                self.seen.calls += 1;
                self.seen.in_calls += since - self.call_began;
                self.seen.in_gaps += gap;
            }
        }
        if began >= self.until {
            self.over.store(true, Relaxed);
            return Progress::Done;
        }
        work(self.steps);
        let ended = ticks::now();
        self.call_began = began;
        if ended < self.next_event {
            self.idle_since = Some(ended);
            return Progress::Idle;
        }
        let mut arrived = 0;
        while self.next_event <= ended {
            self.next_event += self.gaps.next();
            arrived += 1;
        }
        if began >= self.from {
            self.seen.events += u64::from(arrived);
        }
        Progress::Busy(arrived)
    }
}

/// `None`: the lane did not get its cpu.
fn slot(lanes: &Lanes, steps: u32) -> Result<Option<Seen>, String> {
    let over = Arc::new(AtomicBool::new(false));
    let tasks = Arc::new(AtomicU64::new(0));
    keep_busy(&lanes.runtime.handle(), &over, &tasks);
    let from = ticks::now() + ticks::from_ns(WARM_UP_NS);
    let costly = Costly {
        steps,
        next_event: ticks::now(),
        gaps: Gaps::new(1e9 / EVENTS_PER_S, 0),
        idle_since: None,
        call_began: 0,
        from,
        until: from + ticks::from_ns(SLOT_NS),
        preempted: ticks::from_ns(PREEMPTED_NS),
        over: Arc::clone(&over),
        seen: Seen::default(),
    };
    let poller = lanes.runtime.spawn_poller(Where::Any, "costly", costly).map_err(|error| error.to_string())?;
    let seen = poller.join().map_err(|error| error.to_string())?.seen;
    // The last closure counts itself out.
    while tasks.load(Relaxed) > 0 {
        std::thread::sleep(TASK);
    }
    Ok((seen.calls > 0).then_some(seen))
}

/// A closure on the compute lane that submits its own successor, until it is over.
fn keep_busy(handle: &Handle, over: &Arc<AtomicBool>, alive: &Arc<AtomicU64>) {
    alive.fetch_add(1, Relaxed);
    let (next, over, alive) = (handle.clone(), Arc::clone(over), Arc::clone(alive));
    drop(handle.spawn_compute(move || {
        let end = ticks::now() + ticks::from_ns(TASK.as_nanos() as f64);
        while ticks::now() < end {
            work(8);
        }
        if !over.load(Relaxed) {
            keep_busy(&next, &over, &alive);
        }
        alive.fetch_sub(1, Relaxed);
    }));
}
