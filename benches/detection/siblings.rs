//! `sibling_windows_seen`, `sibling_recovered`, `sibling_echo_loss_percent`: where two cpus were seen to share a core, what does the neighbour of a waiting lane
//! get back, and what does the echo lose?
//!
//! **Method.** Between two windows of the contention probe (`topology::probe`), a slot of six cells of 5 ms, each the first in its turn. *Neighbour*: independent
//! multiplications on the compute lane's cpu, counted, while the poll lane's cpu (1) is idle, (2) polls tight by hand, (3) polls by hand with sixteen PAUSEs
//! after each empty call, (4) is a lane, preset `Balanced`, for which relief is always wanted; (2) to (4) have 20 000 events a second. *Echo*: (5) and (6) as
//! 2 and 4, but with a datagram to echo in every call, through the kernel's UDP: how many go through. Only slots count between two windows that saw sharing.
//!
//! **Reference.** Idle and tight, in the same slot. Beside the first figure stands what the PAUSEs by hand recover: as much as the instruction gives on this
//! cpu, whoever issues it.
//!
//! **Bounds.** The neighbour recovers 0.9 of what tight polling takes from it; the echo loses 0.5 percent against the loop by hand. Fewer than 30 windows
//! that saw sharing: unresolved, and so where the neighbour loses nothing by tight polling.
//!
//! **Noise.** Every other slot against the rest.

use std::net::UdpSocket;
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
/// PAUSEs by hand after an empty call: so many that nearly all of the time is PAUSE.
const PAUSES_BY_HAND: u32 = 16;
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
            .beside("windows_probed", windows as f64),
        figure("sibling_recovered", Bound::AtLeast(0.9), 1.0, |slots| recovered(slots, |slot| slot.neighbour_lane))
            .beside("recovered_by_hand", recovered(&seen, |slot| slot.neighbour_pauses))
            .beside("tight_to_idle", pace(&seen, |slot| slot.neighbour_tight))
            .beside("by_hand_to_idle", pace(&seen, |slot| slot.neighbour_pauses))
            .beside("lane_to_idle", pace(&seen, |slot| slot.neighbour_lane)),
        figure("sibling_echo_loss_percent", Bound::AtMost(0.5), 0.0, echo_loss_percent),
    ])
}

/// What was counted in one slot: the neighbour's rounds, and datagrams echoed a millisecond, by what the poll lane's cpu does.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    neighbour_idle: f64,
    neighbour_tight: f64,
    neighbour_pauses: f64,
    neighbour_lane: f64,
    echo_tight: f64,
    echo_lane: f64,
}

fn middle(slots: &[Slot], of: impl Fn(&Slot) -> f64) -> f64 {
    median(&slots.iter().map(of).collect::<Vec<f64>>())
}

/// The part that the neighbour gets back of what tight polling takes from it. NaN if that is nothing.
fn recovered(slots: &[Slot], rounds: fn(&Slot) -> f64) -> f64 {
    let (idle, tight) = (middle(slots, |slot| slot.neighbour_idle), middle(slots, |slot| slot.neighbour_tight));
    if idle > tight { (middle(slots, rounds) - tight) / (idle - tight) } else { f64::NAN }
}

/// The neighbour's pace against its pace beside an idle cpu.
fn pace(slots: &[Slot], rounds: fn(&Slot) -> f64) -> f64 {
    middle(slots, |slot| rounds(slot) / slot.neighbour_idle)
}

fn echo_loss_percent(slots: &[Slot]) -> f64 {
    middle(slots, |slot| (1.0 - slot.echo_lane / slot.echo_tight) * 100.0)
}

fn slot(lanes: &Lanes, seats: &Seats, turn: u64) -> Result<Slot, String> {
    let mut slot = Slot::default();
    // No cell is always the first after the probe.
    for cell in (0..6).map(|cell| (cell + turn) % 6) {
        let over = Arc::new(AtomicBool::new(false));
        let clocked = || Clocked::new(&over, turn);
        match cell {
            0 => slot.neighbour_idle = seats.compute.run(neighbour)?,
            1 => slot.neighbour_tight = beside_hand(seats, &over, clocked(), 0)?.0,
            2 => slot.neighbour_pauses = beside_hand(seats, &over, clocked(), PAUSES_BY_HAND)?.0,
            3 => slot.neighbour_lane = beside_lane(lanes, seats, &over, clocked())?.0,
            4 => slot.echo_tight = beside_hand(seats, &over, Datagrams::new(&over)?, 0)?.1,
            _ => slot.echo_lane = beside_lane(lanes, seats, &over, Datagrams::new(&over)?)?.1,
        }
    }
    Ok(slot)
}

/// The neighbour's rounds, and what the loop by hand did a millisecond.
fn beside_hand(seats: &Seats, over: &AtomicBool, mut work: impl Work, pauses: u32) -> Result<(f64, f64), String> {
    let polling = seats.poll.start(move || {
        loop {
            match work.call() {
                Progress::Done => return work.rate(),
                Progress::Idle => (0..pauses).for_each(|_| std::hint::spin_loop()),
                _ => {}
            }
        }
    });
    let rounds = seats.compute.run(neighbour);
    over.store(true, Relaxed);
    Ok((rounds?, polling.wait()?))
}

/// The same of a lane.
fn beside_lane(lanes: &Lanes, seats: &Seats, over: &AtomicBool, work: impl Work) -> Result<(f64, f64), String> {
    let poller = lanes.runtime.spawn_poller(Where::Any, "echo", Polled(work)).map_err(|error| error.to_string())?;
    let rounds = seats.compute.run(neighbour);
    over.store(true, Relaxed);
    let Polled(work) = poller.join().map_err(|error| error.to_string())?;
    Ok((rounds?, work.rate()))
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

/// What the poll lane's cpu does, by hand and on a lane alike.
trait Work: Send + 'static {
    fn call(&mut self) -> Progress;
    /// What it did a millisecond.
    fn rate(&self) -> f64;
}

struct Polled<W>(W);

impl<W: Work> Poller for Polled<W> {
    #[inline]
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        self.0.call()
    }
}

/// How long it has been going on, and how much was done.
#[derive(Default)]
struct Tally {
    began: u64,
    ended: u64,
    done: u64,
}

impl Tally {
    fn rate(&self) -> f64 {
        self.done as f64 / ticks::ns_between(self.began, self.ended) * 1e6
    }
}

/// Packets of a cache line that come by the clock.
struct Clocked {
    over: Arc<AtomicBool>,
    gaps: Gaps,
    next: u64,
    packet: [u64; 8],
    tally: Tally,
}

impl Clocked {
    fn new(over: &Arc<AtomicBool>, seed: u64) -> Self {
        Self {
            over: Arc::clone(over),
            gaps: Gaps::new(MEAN_GAP_NS, seed),
            next: 0,
            packet: [1; 8],
            tally: Tally::default(),
        }
    }
}

impl Work for Clocked {
    #[inline]
    fn call(&mut self) -> Progress {
        let now = ticks::now();
        if self.tally.began == 0 {
            self.tally.began = now;
            self.next = now + self.gaps.next();
        }
        if self.over.load(Relaxed) {
            self.tally.ended = now;
            return Progress::Done;
        }
        if now < self.next {
            return Progress::Idle;
        }
        self.next += self.gaps.next();
        // What an echo does to a packet: swap the addresses, copy the rest.
        let mut back = self.packet;
        back.swap(0, 1);
        self.packet = std::hint::black_box(back);
        self.tally.done += 1;
        Progress::Busy(1)
    }

    fn rate(&self) -> f64 {
        self.tally.rate()
    }
}

/// A datagram there and back in every call: both ends are here, so that nothing but this cpu decides how many go through.
struct Datagrams {
    over: Arc<AtomicBool>,
    client: UdpSocket,
    server: UdpSocket,
    tally: Tally,
}

impl Datagrams {
    fn new(over: &Arc<AtomicBool>) -> Result<Self, String> {
        let pair = || -> std::io::Result<(UdpSocket, UdpSocket)> {
            let (client, server) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
            client.connect(server.local_addr()?)?;
            server.connect(client.local_addr()?)?;
            for socket in [&client, &server] {
                socket.set_nonblocking(true)?;
            }
            Ok((client, server))
        };
        let (client, server) = pair().map_err(|error| format!("no pair of UDP sockets on 127.0.0.1: {error}"))?;
        Ok(Self { over: Arc::clone(over), client, server, tally: Tally::default() })
    }

    fn there_and_back(&self) -> std::io::Result<()> {
        let mut packet = [1; 64];
        self.client.send(&packet)?;
        self.server.recv(&mut packet)?;
        self.server.send(&packet)?;
        self.client.recv(&mut packet)?;
        Ok(())
    }
}

impl Work for Datagrams {
    fn call(&mut self) -> Progress {
        if self.tally.began == 0 {
            self.tally.began = ticks::now();
        }
        if self.over.load(Relaxed) {
            self.tally.ended = ticks::now();
            return Progress::Done;
        }
        // One that was lost on the way is not counted.
        self.tally.done += u64::from(self.there_and_back().is_ok());
        Progress::Busy(1)
    }

    fn rate(&self) -> f64 {
        self.tally.rate()
    }
}
