//! This crate's router and batcher, as runtimes use them, in the model's time.

use std::collections::VecDeque;

use super::policy::Policy;
use super::seat::{Seat, Ticket};
use super::workload::Waits;
use crate::offload::Intent;
use crate::offload::bench::{
    Ask, BatchGain, BatchGoes, Costs, Engine, Kind, Latency, Mode, Observation, QueueView, Router, Took, split,
};
use crate::sim::dsa::QueueMode;
use crate::sim::lab::Dice;

/// Descriptors of a batch at most: what a list of the flow has room for.
const LIST_LEN: usize = 16;
/// What the queue takes, as the flow's credits have it.
const DEPTH: u32 = 32;
/// From here on the cpu streams; in the model it costs the same.
const STREAMED_FROM: usize = 8 << 20;
/// Times that are read are off by so much either way.
const NOISE: f64 = 0.05;
/// One reading in so many has a preemption in it.
const PREEMPTED_EVERY: u64 = 500;
const PREEMPTION_NS: f64 = 50_000.0;
/// What choosing costs: 4 instructions for what is small, 45 for what is not (`cargo bench --bench offload`), at two a nanosecond on a bad day; and
/// two looks at the clock, a lock and the arithmetic for one that is timed (a guess).
const SMALL_NS: f64 = 2.0;
const DECIDE_NS: f64 = 22.0;
const TIMED_NS: f64 = 100.0;

/// Router and batcher. It sees what it would see in a runtime: sizes, what is outstanding, and of one copy in sixteen the time it took, with noise, and now
/// and then with a preemption in it.
#[derive(Debug)]
pub struct Ours {
    router: Router,
    dice: Dice,
    turn: u32,
    /// What is with the device, in the order in which it is reaped.
    sent: VecDeque<Sent>,
    charged: bool,
}

#[derive(Debug)]
struct Sent {
    /// The whole copy; of a batch, the first.
    len: usize,
    mode: Mode,
    ahead: u32,
    timed: bool,
    share: Option<Share>,
}

/// What the cpu did of a copy.
#[derive(Clone, Copy, Debug)]
struct Share {
    len: usize,
    ns: f64,
    /// The device had done the rest by then.
    late: bool,
}

impl Ours {
    /// A router that has seen nothing but what kind of queue it has, as in a runtime; `seed` is for the noise.
    pub fn new(seed: u64, queue: QueueMode) -> Self {
        let costs = match queue {
            QueueMode::Shared => Costs::STARTING,
            QueueMode::Dedicated => Costs::DEDICATED,
        };
        let router = Router::new(costs, STREAMED_FROM).sharing();
        Self { router, dice: Dice::new(seed), turn: 0, sent: VecDeque::new(), charged: false }
    }

    /// The same with the time that choosing and timing take. The fixed policies pay nothing for theirs.
    #[must_use]
    pub fn charged(mut self) -> Self {
        self.charged = true;
        self
    }

    fn charge(&self, seat: &mut Seat, ns: f64) {
        if self.charged {
            seat.work(ns);
        }
    }

    /// As a clock would have it.
    fn read(&mut self, ns: f64) -> f32 {
        let preempted = if self.dice.next() % PREEMPTED_EVERY == 0 { PREEMPTION_NS } else { 0.0 };
        (ns * (1.0 - NOISE + 2.0 * NOISE * self.dice.unit()) + preempted) as f32
    }

    fn observe(&mut self, len: usize, mode: Mode, took: Took) {
        self.router.observe(&Observation { kind: Kind::Copy, len, intent: Intent::Soon, mode, took });
    }

    fn copy(&mut self, seat: &mut Seat, len: usize, mode: Mode, timed: bool) {
        let ns = seat.copy(len);
        if timed {
            self.charge(seat, TIMED_NS);
            let ns = self.read(ns);
            self.observe(len, mode, Took::Cpu { ns });
        }
    }

    /// What the device is to have of a group, and whether it is timed; the rest is done.
    fn route(&mut self, seat: &mut Seat, lens: &[usize], mode: Mode, in_flight: u32) -> Vec<(usize, bool)> {
        let (mut device, mut cpu) = (Vec::new(), Vec::new());
        let (mut all_together, mut gain) = (false, BatchGain::default());
        for &len in lens {
            if self.router.is_small(Kind::Copy, Intent::Soon, mode, len) {
                self.charge(seat, SMALL_NS);
                seat.copy(len);
                continue;
            }
            self.charge(seat, DECIDE_NS);
            self.turn = self.turn.wrapping_add(1);
            let ask =
                Ask { kind: Kind::Copy, len, intent: Intent::Soon, mode, crowded: false, bound_ns: 0, turn: self.turn };
            let view = QueueView { fit: true, outstanding: in_flight, depth: DEPTH, remote: false };
            let choice = self.router.decide(&ask, &[view]);
            match choice.by {
                Engine::Cpu { .. } => cpu.push((len, choice.timed)),
                Engine::Device { together, .. } => {
                    all_together |= together;
                    gain.add(&self.router, Kind::Copy, Intent::Soon, len);
                    device.push((len, choice.timed));
                }
            }
        }
        if all_together {
            device.extend(cpu.drain(..).map(|(len, _)| (len, false)));
        } else if mode == Mode::Batched && !device.is_empty() {
            match self.router.batch_goes(gain) {
                BatchGoes::AsItPays => {}
                BatchGoes::AsATrial => device.iter_mut().for_each(|(_, timed)| *timed = true),
                BatchGoes::Not => cpu.append(&mut device),
            }
        }
        cpu.into_iter().for_each(|(len, timed)| self.copy(seat, len, mode, timed));
        device
    }

    /// The cpu's share of a copy that is waited for, while the device does the rest.
    fn submit(&mut self, seat: &mut Seat, lens: &[usize], mode: Mode) -> (Ticket, Option<Share>) {
        let share = if mode == Mode::Waited { self.router.share(Kind::Copy, Intent::Soon, lens[0]) } else { 0 };
        if share == 0 {
            return (seat.submit(lens), None);
        }
        let ticket = seat.submit(&[lens[0] - share]);
        let ns = seat.copy(share);
        let late = seat.is_done(&ticket);
        (ticket, Some(Share { len: share, ns, late }))
    }
}

impl Policy for Ours {
    fn carry_out(&mut self, seat: &mut Seat, lens: &[usize], waits: Waits, in_flight: u32) -> Vec<Ticket> {
        let mode = match waits {
            Waits::Each => Mode::Waited,
            _ if lens.len() > 1 => Mode::Batched,
            _ => Mode::Overlapped,
        };
        let device = self.route(seat, lens, mode, in_flight);
        let mut rest = &device[..];
        let mut tickets = Vec::new();
        for count in split(device.len(), LIST_LEN) {
            let (part, after) = rest.split_at(count);
            rest = after;
            let timed = part.iter().any(|(_, timed)| *timed);
            let lens: Vec<usize> = part.iter().map(|(len, _)| *len).collect();
            let (ticket, share) = self.submit(seat, &lens, mode);
            self.sent.push_back(Sent { len: lens[0], mode, ahead: in_flight, timed, share });
            tickets.push(ticket);
        }
        tickets
    }

    fn reaped(&mut self, copies: u32, core_ns: f64, latency_ns: f64) {
        let Some(Sent { len, mode, ahead, timed, share }) = self.sent.pop_front() else { return };
        if !timed {
            return;
        }
        let core_ns = self.read(core_ns);
        let took = match share {
            _ if mode == Mode::Batched => Took::Batch { together: copies, core_ns },
            None => {
                let latency_ns = (mode == Mode::Waited).then(|| self.read(latency_ns));
                Took::Device { queue: 0, ahead, core_ns, latency_ns }
            }
            Some(Share { len: cpu_len, ns, late }) => {
                let latency = self.read(latency_ns);
                let latency = if late { Latency::AtMost(latency) } else { Latency::Was(latency) };
                let cpu_ns = self.read(ns);
                Took::Shared { queue: 0, ahead, core_ns, latency, cpu_len, cpu_ns }
            }
        };
        self.observe(len, mode, took);
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy::Fixed;
    use super::super::workload::{Sizes, Workload, run};
    use super::super::world::World;
    use super::*;

    /// Worlds that the starting costs do not fit, found out by timing alone.
    #[test]
    fn it_finds_the_better_engine() {
        let mut slow = World::default();
        slow.timing.latency_ns = 20_000.0;
        let mut fast = World::default();
        fast.timing.latency_ns = 300.0;
        for (world, len, device) in [(slow, 4096, false), (fast, 4096, true)] {
            let workload = Workload { sizes: Sizes::Only(len), waits: Waits::Each };
            let ours = run(&world, &workload, &mut Ours::new(3, world.queue), 4_000, 1_000, 1).unwrap();
            assert_eq!(ours.by_device > 0.9, device, "{ours:?}");
        }
    }

    #[test]
    fn choosing_costs_where_it_is_charged() {
        let workload = Workload { sizes: Sizes::Only(1024), waits: Waits::Window };
        let cost = |mut ours: Ours| run(&World::default(), &workload, &mut ours, 2_000, 500, 1).unwrap().cost_ns;
        let (free, charged) = (cost(Ours::new(1, QueueMode::Shared)), cost(Ours::new(1, QueueMode::Shared).charged()));
        assert!((DECIDE_NS..DECIDE_NS + TIMED_NS).contains(&(charged - free)), "{free} {charged}");
    }

    #[test]
    fn a_large_copy_that_is_waited_for_is_shared() {
        let workload = Workload { sizes: Sizes::Only(1 << 20), waits: Waits::Each };
        let world = World::default();
        let ours = run(&world, &workload, &mut Ours::new(1, world.queue), 1_000, 200, 1).unwrap();
        let whole = run(&world, &workload, &mut Fixed::DEVICE.clone(), 0, 200, 1).unwrap();
        assert!(ours.cost_ns < 0.85 * whole.cost_ns, "{ours:?} {whole:?}");
    }
}
