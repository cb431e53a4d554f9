//! `sibling_windows_seen`, `sibling_recovered`, `sibling_echo_loss_percent`: where two cpus were seen to share a core, what does the neighbour of a waiting lane
//! get back, and what does the echo lose?
//!
//! **Method.** Between two windows of the contention probe (`topology::probe`), a slot of five cells of 5 ms, each the first in its turn. *Neighbour*: independent
//! multiplications on the compute lane's cpu, counted, while the poll lane's cpu (1) is idle, (2) polls tight by hand, (3) is a lane, preset `Balanced`, for
//! which relief is always wanted; (2) and (3) have 20 000 events a second. *Echo*: (4) and (5) as 2 and 3, with an event in every call:
//! how many go through. Only slots count between two windows that saw sharing.
//!
//! **Reference.** Idle and tight, in the same slot.
//!
//! **Bounds.** The neighbour recovers 0.9 of what tight polling takes from it; the echo loses 0.5 percent against the loop by hand. Fewer than 30 windows
//! that saw sharing: unresolved, and so where the neighbour loses nothing by tight polling.
//!
//! **Noise.** Every other slot against the rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use twolane::topology::probe::{Prober, SIBLING_WINDOWS_MIN, Seen};
use twolane::{Etiquette, PollCx, Poller, Progress, Relief, Where};

use super::detect::Seats;
use super::events::MEAN_GAP_NS;
use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::stats::median;
use crate::common::ticks;
use crate::common::work::Gaps;

/// A window of the probe before and after each slot.
const WINDOW: Duration = Duration::from_millis(10);
/// One cell.
const CELL: Duration = Duration::from_millis(5);
/// Slots that saw sharing which are enough.
const ENOUGH: usize = 2 * SIBLING_WINDOWS_MIN;
/// Time after which it is given up where no slot saw sharing: cpus that do not share will not begin to.
const PATIENCE: Duration = Duration::from_secs(10);
/// The same where some did. Virtual cpus that float share a core for a few in a hundred slots of 45 ms: two minutes bring the thirty.
const PATIENCE_FLOATING: Duration = Duration::from_secs(120);

pub fn figures(machine: &Machine) -> Result<Vec<Figure>, String> {
    let lanes = Lanes::start(builder().etiquette(Etiquette::Balanced).relief(Relief::Always))?;
    let seats = Seats::on(machine)?;
    let mut prober = Prober::start(machine.compute, machine.poll).map_err(|error| error.to_string())?;
    let (mut seen, mut windows) = (Vec::new(), 0);
    let began = Instant::now();
    while seen.len() < ENOUGH && began.elapsed() < if seen.is_empty() { PATIENCE } else { PATIENCE_FLOATING } {
        let measured = prober.around(WINDOW, || slot(&lanes, &seats, windows)).map_err(|error| error.to_string())?;
        windows += 1;
        if let (slot, Seen::Shared) = measured {
            seen.push(slot?);
        }
    }
    let resolved = seen.len() >= SIBLING_WINDOWS_MIN;
    let figure = |name, bound, neutral, of: fn(&[Slot]) -> f64| {
        let halves = [0, 1].map(|odd| of(&seen.iter().copied().skip(odd).step_by(2).collect::<Vec<Slot>>()));
        let value = if resolved { of(&seen) } else { f64::NAN };
        let noise = resolved.then_some(Noise { aa: neutral + halves[1] - halves[0], neutral });
        Figure { name, value, bound, noise, clean: Some(seen.len()), beside: Vec::new() }
    };
    Ok(vec![
        Figure::exact("sibling_windows_seen", seen.len() as f64, Bound::AtLeast(0.0))
            .beside("windows_probed", windows as f64)
            .beside("neighbour_tight_to_idle", pace(&seen, |slot| slot.neighbour_tight / slot.neighbour_idle))
            .beside("neighbour_lane_to_idle", pace(&seen, |slot| slot.neighbour_lane / slot.neighbour_idle)),
        figure("sibling_recovered", Bound::AtLeast(0.9), 1.0, recovered),
        figure("sibling_echo_loss_percent", Bound::AtMost(0.5), 0.0, echo_loss_percent),
    ])
}

/// What was counted in one slot: the neighbour's rounds, and events echoed, by what the poll lane's cpu does.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    neighbour_idle: f64,
    neighbour_tight: f64,
    neighbour_lane: f64,
    echo_tight: f64,
    echo_lane: f64,
}

/// The part that the neighbour gets back of what tight polling takes from it. NaN if that is nothing.
fn recovered(slots: &[Slot]) -> f64 {
    let of = |what: fn(&Slot) -> f64| median(&slots.iter().map(what).collect::<Vec<f64>>());
    let (idle, tight, lane) = (of(|s| s.neighbour_idle), of(|s| s.neighbour_tight), of(|s| s.neighbour_lane));
    if idle > tight { (lane - tight) / (idle - tight) } else { f64::NAN }
}

/// The neighbour's pace against its pace beside an idle cpu, in the middle slot.
fn pace(slots: &[Slot], of: fn(&Slot) -> f64) -> f64 {
    median(&slots.iter().map(of).collect::<Vec<f64>>())
}

fn echo_loss_percent(slots: &[Slot]) -> f64 {
    median(&slots.iter().map(|slot| (1.0 - slot.echo_lane / slot.echo_tight) * 100.0).collect::<Vec<f64>>())
}

fn slot(lanes: &Lanes, seats: &Seats, turn: u64) -> Result<Slot, String> {
    let mut slot = Slot::default();
    // No cell is always the first after the probe.
    for cell in (0..5).map(|cell| (cell + turn) % 5) {
        match cell {
            0 => slot.neighbour_idle = seats.compute.run(neighbour)?,
            1 => slot.neighbour_tight = beside_hand(seats, MEAN_GAP_NS, turn)?.0,
            2 => slot.neighbour_lane = beside_lane(lanes, seats, MEAN_GAP_NS, turn)?.0,
            3 => slot.echo_tight = beside_hand(seats, 0.0, turn)?.1,
            _ => slot.echo_lane = beside_lane(lanes, seats, 0.0, turn)?.1,
        }
    }
    Ok(slot)
}

/// The neighbour's rounds and the echoes of a loop by hand.
fn beside_hand(seats: &Seats, gap_ns: f64, seed: u64) -> Result<(f64, f64), String> {
    let over = Arc::new(AtomicBool::new(false));
    let mut echo = Echo::new(&over, gap_ns, seed);
    let polling = seats.poll.start(move || {
        while echo.call() != Progress::Done {}
        echo.rate()
    });
    let rounds = seats.compute.run(neighbour);
    over.store(true, Relaxed);
    Ok((rounds?, polling.wait()?))
}

/// The same of a lane.
fn beside_lane(lanes: &Lanes, seats: &Seats, gap_ns: f64, seed: u64) -> Result<(f64, f64), String> {
    let over = Arc::new(AtomicBool::new(false));
    let echo = Echo::new(&over, gap_ns, seed);
    let poller = lanes.runtime.spawn_poller(Where::Any, "echo", echo).map_err(|error| error.to_string())?;
    let rounds = seats.compute.run(neighbour);
    over.store(true, Relaxed);
    let echo = poller.join().map_err(|error| error.to_string())?;
    Ok((rounds?, echo.rate()))
}

/// Rounds in a cell: several chains of multiplications that do not wait for each other, so that the core's units are what they share.
fn neighbour() -> f64 {
    let end = ticks::now() + ticks::from_ns(CELL.as_nanos() as f64);
    let mut chains = [1_u64, 2, 3, 4, 5, 6];
    let mut rounds = 0_u64;
    while ticks::now() < end {
        for _ in 0..64 {
            for chain in &mut chains {
                *chain = chain.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            }
            std::hint::black_box(&mut chains);
        }
        rounds += 1;
    }
    rounds as f64
}

/// Echoes packets of a cache line that come by the clock.
struct Echo {
    over: Arc<AtomicBool>,
    gaps: Gaps,
    every_call: bool,
    next: u64,
    began: u64,
    ended: u64,
    echoed: u64,
    packet: [u64; 8],
}

impl Echo {
    /// `gap_ns` 0: one in every call.
    fn new(over: &Arc<AtomicBool>, gap_ns: f64, seed: u64) -> Self {
        let gaps = Gaps::new(gap_ns, seed);
        let over = Arc::clone(over);
        Self { over, gaps, every_call: gap_ns == 0.0, next: 0, began: 0, ended: 0, echoed: 0, packet: [1; 8] }
    }

    #[inline]
    fn call(&mut self) -> Progress {
        let now = ticks::now();
        if self.began == 0 {
            self.began = now;
            self.next = now + self.gaps.next();
        }
        if self.over.load(Relaxed) {
            self.ended = now;
            return Progress::Done;
        }
        if !self.every_call && now < self.next {
            return Progress::Idle;
        }
        self.next += self.gaps.next();
        // What an echo does to a packet: swap the addresses, copy the rest.
        let mut back = self.packet;
        back.swap(0, 1);
        self.packet = std::hint::black_box(back);
        self.echoed += 1;
        Progress::Busy(1)
    }

    /// Echoes a microsecond.
    fn rate(&self) -> f64 {
        self.echoed as f64 / ticks::ns_between(self.began, self.ended) * 1e3
    }
}

impl Poller for Echo {
    #[inline]
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        self.call()
    }
}
