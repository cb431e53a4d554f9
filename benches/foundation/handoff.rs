//! `handoff_extra_ns`: what does a closure from a poller to the compute lane take beyond what it takes by hand?
//!
//! **Method.** A poller hands off a closure that carries the instant at which it was sent; the closure compares it with the
//! instant at which it runs. At least 2 us (and up to 1 us more, at random) lie between two of them, so that none waits for
//! the one before; the compute lane stays awake meanwhile, as it does while hand-offs come fast (it is counted how often it
//! parked). The allocation is inside the time, on both sides. A slot is 1 000 of them after 300 that do not count; 100 slots
//! make 10^5. Figure: median of the slots' medians, lane less reference.
//!
//! **Reference.** [`mailbox`](crate::reference::mailbox): a boxed closure through one atomic pointer, between threads on
//! the same two cpus.
//!
//! **Bound.** 100 ns. A runtime that runs closures on the poller's own thread would get less than 0 here; slots in which the poll
//! lane ran any are dropped, so all that such a runtime gets is `unresolved`.
//!
//! **Beside.** The two times, the time of a bare flag (a word that one side writes and the other watches), the 99th
//! percentiles, and parks of the compute lane a slot.

use std::cell::Cell as Local;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

use twolane::{PollCx, Poller, Progress, Role, Where};

use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::seat::Seat;
use crate::common::slots::{Cell, SLOTS, interleave};
use crate::common::stats::{median, quantile};
use crate::common::ticks;
use crate::common::witness::Witness;
use crate::reference::mailbox::{Flag, Mailbox};

const SAMPLES: usize = 1_000;
/// Enough for the compute lane to learn that hand-offs come fast, after the pause of a slot.
const WARM_UP: usize = 300;
/// Slots for 10^5 samples: short ones, of some milliseconds, because two cpus have to be left alone at the same time.
const SLOTS_WANTED: usize = 100;
const GAP_MIN_NS: f64 = 2_000.0;
const GAP_JITTER_NS: f64 = 1_000.0;
/// A closure that takes longer to come was lost.
const LANDING_MAX: Duration = Duration::from_secs(2);

/// One-way times in ticks, by number of the closure. Written by the receiver, read after the last has come.
struct Log {
    took: [AtomicU32; WARM_UP + SAMPLES],
    landed: AtomicUsize,
}

static LOG: Log = Log { took: [const { AtomicU32::new(0) }; WARM_UP + SAMPLES], landed: AtomicUsize::new(0) };
/// In the place of a time: the closure ran on the thread that sent it.
const LENT: u32 = u32::MAX;

thread_local! {
    /// This thread runs the poller that sends.
    static SENDS: Local<bool> = const { Local::new(false) };
}
static MAILBOX: Mailbox = Mailbox::new();
static FLAG: Flag = Flag::new();

impl Log {
    #[inline]
    fn land(&self, number: usize, sent: u64) {
        let took = ticks::now().saturating_sub(sent);
        let took = if SENDS.get() { LENT } else { u32::try_from(took).unwrap_or(LENT - 1) };
        // Relaxed: published by the addition that follows.
        self.took[number].store(took, Relaxed);
        // Release: publishes the time. Partner: the Acquire load in `wait`. A locked instruction, because the poll lane may run some, too; it
        // comes after the time was taken.
        self.landed.fetch_add(1, Release);
    }

    fn clear(&self) {
        self.landed.store(0, Relaxed);
    }

    /// Whether the sender ran none of those that count itself.
    fn all_handed_off(&self) -> bool {
        self.took[WARM_UP..].iter().all(|took| took.load(Relaxed) != LENT)
    }

    /// The slot's times in nanoseconds, after the last has come.
    fn wait(&self) -> Result<Vec<f64>, String> {
        let began = Instant::now();
        while self.landed.load(Acquire) < WARM_UP + SAMPLES {
            if began.elapsed() > LANDING_MAX {
                let landed = self.landed.load(Acquire);
                return Err(format!("{landed} of {} closures ran: the others were lost", WARM_UP + SAMPLES));
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        let ns = |took: &AtomicU32| f64::from(took.load(Relaxed)) * ticks::ns_per_tick();
        Ok(self.took[WARM_UP..].iter().map(ns).collect())
    }
}

/// When the next is due: the same sequence of gaps on all sides.
struct Pace {
    next: u64,
    dice: u32,
    sent: usize,
}

impl Pace {
    fn new() -> Self {
        Self { next: ticks::now(), dice: 1, sent: 0 }
    }

    /// Number and stamp of the next, if it is due.
    #[inline]
    fn due(&mut self, gap: u64, jitter: u64) -> Option<usize> {
        let now = ticks::now();
        if now < self.next {
            return None;
        }
        self.dice = self.dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223); // Numerical Recipes' generator
        self.next = now + gap + ((u64::from(self.dice) * jitter) >> u32::BITS);
        self.sent += 1;
        Some(self.sent - 1)
    }
}

fn gap_ticks() -> (u64, u64) {
    (ticks::from_ns(GAP_MIN_NS), ticks::from_ns(GAP_JITTER_NS))
}

pub fn extra(machine: &Machine) -> Result<Figure, String> {
    let lanes = Lanes::start(builder())?;
    let (sender, receiver) = (Seat::on(machine.poll)?, Seat::on(machine.compute)?);
    let threads = lanes.thread_ids().into_iter().chain([sender.id(), receiver.id()]);
    let witness = Witness::new(machine.cpus(), threads);
    let (mut tails, mut reference_tails, mut parks) = (Vec::new(), Vec::new(), Vec::new());
    let slots = interleave(SLOTS_WANTED, &witness, |cell| {
        LOG.clear();
        let (times, tails) = match cell {
            Cell::Ours => {
                let before = lanes.metrics(Role::Compute)?.parks;
                let Some(times) = by_lanes(&lanes)? else { return Ok(None) };
                parks.push((lanes.metrics(Role::Compute)?.parks - before) as f64);
                (times, &mut tails)
            }
            Cell::A | Cell::AAgain => (by_mailbox(&sender, &receiver)?, &mut reference_tails),
        };
        tails.push(quantile(&times, 0.99));
        Ok(Some(median(&times)))
    })?;
    let flag: Vec<f64> =
        (0..SLOTS).map(|_| by_flag(&sender, &receiver).map(|times| median(&times))).collect::<Result<_, _>>()?;
    let (ours, reference) = (median(&slots.ours), median(&slots.references()));
    Ok(Figure {
        name: "handoff_extra_ns",
        value: ours - reference,
        bound: Bound::AtMost(100.0),
        noise: Some(Noise { aa: median(&slots.a_again) - median(&slots.a), neutral: 0.0 }),
        clean: Some(slots.clean()),
        beside: vec![
            ("lane_ns", ours),
            ("mailbox_ns", reference),
            ("flag_ns", median(&flag)),
            ("lane_p99_ns", median(&tails)),
            ("mailbox_p99_ns", median(&reference_tails)),
            ("compute_parks_a_slot", median(&parks)),
        ],
    })
}

struct Sender {
    pace: Pace,
    gap: u64,
    jitter: u64,
    patience: u64,
}

impl Poller for Sender {
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        if self.pace.sent == WARM_UP + SAMPLES {
            // Not before the last has landed: without pollers this lane would take it itself.
            // Acquire: as in `wait`.
            let landed = LOG.landed.load(Acquire) == WARM_UP + SAMPLES;
            // What is lost is named by `wait`.
            let lost = ticks::now() > self.pace.next + self.patience;
            return if landed || lost { Progress::Done } else { Progress::Idle };
        }
        SENDS.set(true);
        let Some(number) = self.pace.due(self.gap, self.jitter) else { return Progress::Idle };
        let sent = ticks::now();
        drop(cx.spawn_compute(move || LOG.land(number, sent)));
        Progress::Busy(1)
    }
}

/// `None`: some closures ran on the poll lane.
fn by_lanes(lanes: &Lanes) -> Result<Option<Vec<f64>>, String> {
    let (gap, jitter) = gap_ticks();
    let patience = ticks::from_ns(LANDING_MAX.as_nanos() as f64);
    let sender = Sender { pace: Pace::new(), gap, jitter, patience };
    let sender = lanes.runtime.spawn_poller(Where::Any, "sender", sender).map_err(|error| error.to_string())?;
    sender.join().map_err(|error| error.to_string())?;
    let times = LOG.wait()?;
    // The poll lane lends itself for short closures while the compute lane does not get its cpu.
    Ok(LOG.all_handed_off().then_some(times))
}

fn by_mailbox(sender: &Seat, receiver: &Seat) -> Result<Vec<f64>, String> {
    let over = Arc::new(AtomicBool::new(false));
    let serving = receiver.start({
        let over = Arc::clone(&over);
        move || MAILBOX.serve(&over)
    });
    sender.run(|| send_all(|number, sent| MAILBOX.send(move || LOG.land(number, sent))))?;
    let times = LOG.wait()?;
    over.store(true, Relaxed);
    serving.wait()?;
    Ok(times)
}

fn by_flag(sender: &Seat, receiver: &Seat) -> Result<Vec<f64>, String> {
    LOG.clear();
    let over = Arc::new(AtomicBool::new(false));
    let watching = receiver.start({
        let over = Arc::clone(&over);
        let mut number = 0;
        move || {
            FLAG.watch(&over, |sent| {
                LOG.land(number, sent);
                number = (number + 1).min(WARM_UP + SAMPLES - 1);
            });
        }
    });
    // Two stamps in a row that the watcher sees as one would make it wait for ever: it is told the end instead.
    sender.run(|| send_all(|_, sent| FLAG.raise(sent)))?;
    std::thread::sleep(Duration::from_millis(1));
    over.store(true, Relaxed);
    watching.wait()?;
    LOG.landed.store(WARM_UP + SAMPLES, Relaxed);
    LOG.wait()
}

/// The sender of a reference.
fn send_all(send: impl Fn(usize, u64)) {
    let (gap, jitter) = gap_ticks();
    let mut pace = Pace::new();
    while pace.sent < WARM_UP + SAMPLES {
        if let Some(number) = pace.due(gap, jitter) {
            send(number, ticks::now());
        }
    }
}
