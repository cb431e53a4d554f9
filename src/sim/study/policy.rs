//! Who carries a copy out? Policies with constants.

use std::fmt;

use super::seat::{Seat, Ticket};
use super::workload::Waits;

/// Decides, and has it done.
pub trait Policy {
    /// Carries out a group of copies that are asked for together (of one, mostly), or submits them. What is waited for ([`Waits::Each`]) may be left to the
    /// service to wait for. `in_flight`: what is submitted and not over, as far as anybody knows.
    fn carry_out(&mut self, seat: &mut Seat, lens: &[usize], waits: Waits, in_flight: u32) -> Vec<Ticket>;

    /// The next of what was submitted was reaped: so many copies, the core's time for all of them, and the time since the submission until that was seen.
    fn reaped(&mut self, copies: u32, core_ns: f64, latency_ns: f64) {
        let _ = (copies, core_ns, latency_ns);
    }
}

/// A policy with constants: sizes from a threshold on are the device's, groups of so many go as batches of so many.
#[derive(Clone, Debug, PartialEq)]
pub struct Fixed {
    /// Whose policy it is.
    pub family: Family,
    /// Bytes from which on the device has it.
    pub from: usize,
    /// Fewer go one by one.
    pub batch_min: usize,
    /// More go as several batches. 1: no batches.
    pub batch_max: usize,
    /// Part of each copy of the device's that the cpu does meanwhile.
    pub cpu_share: f64,
    /// It waits whether anybody needs it or not: what hides behind `memcpy` cannot do otherwise.
    pub waits: bool,
}

/// Whose policy a [`Fixed`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Always the cpu.
    Cpu,
    /// Always the device, one by one.
    Device,
    /// DTO: a `memcpy` that gives the device what is large enough, does a share itself, and waits.
    Dto,
    /// DML's hardware path: always the device, batches of four and more.
    Dml,
    /// A threshold and a batch size, with the answers taken later: what a service writes by hand.
    ByHand,
}

impl Family {
    /// All.
    pub const ALL: [Self; 5] = [Self::Cpu, Self::Device, Self::Dto, Self::Dml, Self::ByHand];
}

impl Fixed {
    /// Always the cpu.
    pub const CPU: Self = Self {
        family: Family::Cpu,
        from: usize::MAX,
        batch_min: usize::MAX,
        batch_max: 1,
        cpu_share: 0.0,
        waits: false,
    };
    /// Always the device, one by one.
    pub const DEVICE: Self = Self { family: Family::Device, from: 0, ..Self::CPU };

    /// Always the device; from four on (its minimum) as a batch.
    pub const fn dml(batch_min: usize, batch_max: usize) -> Self {
        Self { family: Family::Dml, batch_min, batch_max, ..Self::DEVICE }
    }

    /// DTO with its two knobs, `DTO_MIN_BYTES` and `DTO_CPU_SIZE_FRACTION`.
    pub const fn dto(from: usize, cpu_share: f64) -> Self {
        Self { family: Family::Dto, from, cpu_share, waits: true, ..Self::CPU }
    }

    /// As one would by hand.
    pub const fn by_hand(from: usize, batch_max: usize) -> Self {
        Self { family: Family::ByHand, from, batch_min: 2, batch_max, ..Self::CPU }
    }
}

impl Policy for Fixed {
    fn carry_out(&mut self, seat: &mut Seat, lens: &[usize], waits: Waits, _: u32) -> Vec<Ticket> {
        let (device, cpu): (Vec<usize>, Vec<usize>) = lens.iter().partition(|len| **len >= self.from);
        let mut tickets = Vec::new();
        let together = if device.len() >= self.batch_min { self.batch_max.max(1) } else { 1 };
        for part in device.chunks(together) {
            let shares: Vec<usize> = part.iter().map(|len| (*len as f64 * self.cpu_share) as usize).collect();
            let rests: Vec<usize> = part.iter().zip(&shares).map(|(len, share)| len - share).collect();
            let ticket = seat.submit(&rests);
            shares.iter().filter(|share| **share > 0).for_each(|share| {
                seat.copy(*share);
            });
            if self.waits && waits != Waits::Each {
                let _ = seat.wait(ticket);
            } else {
                tickets.push(ticket);
            }
        }
        cpu.iter().for_each(|len| {
            seat.copy(*len);
        });
        tickets
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cpu => "always cpu",
            Self::Device => "always device",
            Self::Dto => "DTO",
            Self::Dml => "DML",
            Self::ByHand => "threshold",
        })
    }
}

impl fmt::Display for Fixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.family {
            Family::Cpu | Family::Device => self.family.to_string(),
            Family::Dto => format!("DTO from {} cpu {:.0} %", self.from, 100.0 * self.cpu_share),
            Family::Dml => format!("DML batch {}..{}", self.batch_min, self.batch_max),
            Family::ByHand => format!("from {} batch {}", self.from, self.batch_max),
        };
        f.pad(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::World;
    use super::*;

    #[test]
    fn constants_decide_who_and_how_many_together() {
        // Policy, group, copies of each submission.
        for (fixed, lens, want) in [
            (Fixed::CPU, vec![1 << 20; 4], vec![]),
            (Fixed::DEVICE, vec![64; 3], vec![1, 1, 1]),
            (Fixed::dml(4, 32), vec![64; 3], vec![1, 1, 1]),
            (Fixed::dml(4, 32), vec![64; 5], vec![5]),
            (Fixed::by_hand(4096, 2), vec![4096, 4095, 5000, 6000], vec![2, 1]),
            (Fixed::dto(4096, 0.5), vec![4096, 4096], vec![]),
        ] {
            let mut seat = Seat::new(&World::default()).unwrap();
            let tickets = fixed.clone().carry_out(&mut seat, &lens, Waits::Groups(lens.len()), 0);
            assert_eq!(tickets.iter().map(Ticket::copies).collect::<Vec<_>>(), want, "{fixed}");
        }
    }

    #[test]
    fn a_share_of_the_cpus_shortens_a_large_copy() {
        let takes = |fixed: Fixed| {
            let mut seat = Seat::new(&World::default()).unwrap();
            fixed.clone().carry_out(&mut seat, &[1 << 20], Waits::Groups(1), 0);
            seat.now_ns()
        };
        let (whole, shared) = (takes(Fixed::dto(0, 0.0)), takes(Fixed::dto(0, 0.2)));
        assert!(shared < 0.9 * whole, "{shared} {whole}");
    }
}
