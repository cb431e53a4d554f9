//! What a service asks for, and what it gives.

use std::collections::VecDeque;
use std::io;

use super::policy::Policy;
use super::seat::{Seat, Ticket};
use super::world::World;
use crate::sim::lab::Dice;

/// Copies that a service has outstanding at most: what a queue is worth (work queue depth near 32).
const WINDOW: usize = 32;
/// The service's own work beside each copy, in nanoseconds, apart from what it does with the bytes.
const WORK_NS: f64 = 300.0;
/// What it does with the bytes: half as fast as the usual device moves them, in bytes a nanosecond. So the usual device is half busy, and a bad one saturated.
const WORK_RATE: f64 = 15.0;

/// The sizes that are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// One.
    Only(usize),
    /// From, to: every octave as likely as any other.
    Even(usize, usize),
    /// Packets: 64 to 1514 bytes, a third small, a third large, a third between.
    Packets,
    /// Values of a cache: 4 KiB in the middle, two octaves deviation (log-normal), 64 B to 2 MiB.
    Values,
    /// Nine in ten of 256 B to 2 KiB, one of 128 KiB to 2 MiB.
    FewLarge,
}

impl Sizes {
    fn draw(self, dice: &mut Dice) -> usize {
        let mut even = |from: usize, to: usize| (from as f64 * (to as f64 / from as f64).powf(dice.unit())) as usize;
        match self {
            Self::Only(len) => len,
            Self::Even(from, to) => even(from, to),
            Self::Packets => match dice.next() % 3 {
                0 => 64,
                1 => 1514,
                _ => 64 + (dice.unit() * 1450.0) as usize,
            },
            Self::Values => ((4096.0 * (2.0 * dice.normal()).exp2()) as usize).clamp(64, 2 << 20),
            Self::FewLarge => match dice.next() % 10 {
                0 => ((128 << 10) as f64 * 16_f64.powf(dice.unit())) as usize,
                _ => (256.0 * 8_f64.powf(dice.unit())) as usize,
            },
        }
    }
}

/// When somebody waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// For each copy, at once.
    Each,
    /// For none: there is other work, and 32 copies may be outstanding.
    Window,
    /// So many are asked for together, with work for as many; a group is waited for when the next one has been asked for.
    Groups(usize),
    /// A service of all kinds: turns of the three above, with groups of 8.
    Turns,
}

/// What a service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The sizes of its copies.
    pub sizes: Sizes,
    /// When it waits for them.
    pub waits: Waits,
}

/// What copies took from the service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// A copy: all time less the service's own work, in nanoseconds.
    pub cost_ns: f64,
    /// Bytes a nanosecond of that time.
    pub rate: f64,
    /// Part of the copies that a device had.
    pub by_device: f64,
}

/// Turns of one kind in [`Waits::Turns`], in groups.
const TURN_GROUPS: usize = 8;
const TURN_GROUP: usize = 8;

/// Plays `warm_up` and then `count` copies, about (whole groups), and returns what the latter took. Sizes are drawn from `seed`: equal ones for every policy.
///
/// # Errors
/// As [`Seat::new`].
pub fn run(
    world: &World,
    workload: &Workload,
    policy: &mut dyn Policy,
    warm_up: usize,
    count: usize,
    seed: u64,
) -> io::Result<Cost> {
    let mut service = Service {
        seat: Seat::new(world)?,
        dice: Dice::new(!seed),
        sizes: workload.sizes,
        outstanding: VecDeque::new(),
        asked: Asked::default(),
    };
    let mut group = 0;
    let mut warmed: Option<(Asked, f64)> = None;
    while service.asked.copies < warm_up + count {
        if warmed.is_none() && service.asked.copies >= warm_up {
            service.finish(policy);
            // What is judged is the same for all, whatever came before.
            service.dice = Dice::new(seed);
            group = 0;
            warmed = Some((service.asked, service.seat.now_ns()));
        }
        match workload.waits {
            Waits::Turns => match group / TURN_GROUPS % 3 {
                0 => (0..TURN_GROUP).for_each(|_| service.turn(policy, Waits::Each)),
                1 => (0..TURN_GROUP).for_each(|_| service.turn(policy, Waits::Window)),
                _ => service.turn(policy, Waits::Groups(TURN_GROUP)),
            },
            waits => service.turn(policy, waits),
        }
        group += 1;
    }
    service.finish(policy);
    let (before, began) = warmed.unwrap_or_default();
    let asked = service.asked;
    let copies = (asked.copies - before.copies) as f64;
    let spent = service.seat.now_ns() - began - (asked.work_ns - before.work_ns);
    Ok(Cost {
        cost_ns: spent / copies,
        rate: (asked.bytes - before.bytes) as f64 / spent,
        by_device: (asked.by_device - before.by_device) as f64 / copies,
    })
}

/// Sums since the beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    copies: usize,
    bytes: u64,
    by_device: u64,
    work_ns: f64,
}

struct Service {
    seat: Seat,
    dice: Dice,
    sizes: Sizes,
    /// By groups; in `Window` each copy is one.
    outstanding: VecDeque<Vec<Ticket>>,
    asked: Asked,
}

impl Service {
    fn turn(&mut self, policy: &mut dyn Policy, waits: Waits) {
        let (size, keeps) = match waits {
            Waits::Each | Waits::Turns => (1, 0),
            Waits::Window => (1, WINDOW - 1),
            Waits::Groups(size) => (size, 1),
        };
        let lens: Vec<usize> = (0..size).map(|_| self.sizes.draw(&mut self.dice)).collect();
        self.asked.copies += size;
        self.asked.bytes += lens.iter().map(|len| *len as u64).sum::<u64>();
        let in_flight = self.outstanding.iter().map(Vec::len).sum::<usize>();
        let tickets = policy.carry_out(&mut self.seat, &lens, waits, in_flight as u32);
        self.asked.by_device += tickets.iter().map(|ticket| u64::from(ticket.copies())).sum::<u64>();
        if !tickets.is_empty() {
            self.outstanding.push_back(tickets);
        }
        if waits != Waits::Each {
            let work: f64 = lens.iter().map(|len| WORK_NS + *len as f64 / WORK_RATE).sum();
            self.seat.work(work);
            self.asked.work_ns += work;
        }
        while self.outstanding.len() > keeps {
            self.reap_first(policy);
        }
        // What is over is reaped on the way, as a reaper does that looks at every pass.
        while self.outstanding.front().is_some_and(|group| group.iter().all(|ticket| self.seat.is_done(ticket))) {
            self.reap_first(policy);
        }
    }

    fn reap_first(&mut self, policy: &mut dyn Policy) {
        for ticket in self.outstanding.pop_front().into_iter().flatten() {
            let core_ns = ticket.core_ns();
            let copies = ticket.copies();
            let (reaping, latency_ns) = self.seat.wait(ticket);
            policy.reaped(copies, core_ns + reaping, latency_ns);
        }
    }

    fn finish(&mut self, policy: &mut dyn Policy) {
        while !self.outstanding.is_empty() {
            self.reap_first(policy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::policy::Fixed;
    use super::*;

    fn cost(fixed: &Fixed, sizes: Sizes, waits: Waits) -> Cost {
        run(&World::default(), &Workload { sizes, waits }, &mut fixed.clone(), 0, 320, 1).unwrap()
    }

    #[test]
    fn the_cpu_costs_the_same_however_it_is_asked() {
        let alone = World::default().cpu_ns(4096);
        for waits in [Waits::Each, Waits::Window, Waits::Groups(8), Waits::Turns] {
            let cost = cost(&Fixed::CPU, Sizes::Only(4096), waits);
            assert!((cost.cost_ns - alone).abs() < 1e-6, "{waits:?}: {cost:?}");
            assert_eq!(cost.by_device, 0.0);
        }
    }

    #[test]
    fn work_hides_what_a_device_takes() {
        let device = |waits| cost(&Fixed::DEVICE, Sizes::Only(16 << 10), waits);
        let (waited, overlapped) = (device(Waits::Each), device(Waits::Window));
        assert!(waited.cost_ns > 1_100.0 + 270.0 && waited.by_device == 1.0, "{waited:?}");
        assert!((300.0..330.0).contains(&overlapped.cost_ns), "submitting and reaping alone: {overlapped:?}");
    }

    #[test]
    fn sizes_stay_in_their_ranges() {
        let mut dice = Dice::new(1);
        for (sizes, range) in [
            (Sizes::Only(7), 7..=7),
            (Sizes::Even(64, 4096), 64..=4096),
            (Sizes::Packets, 64..=1514),
            (Sizes::Values, 64..=2 << 20),
            (Sizes::FewLarge, 256..=2 << 20),
        ] {
            assert!((0..5_000).all(|_| range.contains(&sizes.draw(&mut dice))), "{sizes:?}");
        }
    }
}
