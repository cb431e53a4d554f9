//! Ours beside every fixed policy, each with the constants that suit it best.

use std::io;

use super::ours::Ours;
use super::policy::{Family, Fixed};
use super::workload::{Cost, Sizes, Waits, Workload, run};
use super::world::World;

/// Copies before anything is judged.
pub const WARM_UP: usize = 6_000;
/// Copies that are judged, of ours; of the fixed policies too where sizes are drawn.
const JUDGED: usize = 1_536;
/// Copies of a fixed policy with one size: they are all alike.
const ALIKE: usize = 256;
/// Thresholds that are tried.
const FROM: [usize; 12] = {
    let mut from = [0; 12];
    let mut at = 0;
    while at < from.len() {
        from[at] = 128 << at;
        at += 1;
    }
    from
};
/// Batch sizes that are tried.
const BATCHES: [usize; 4] = [1, 4, 8, 32];
/// The cpu's shares that are tried.
const SHARES: [f64; 7] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6];

/// One workload in one world.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The world's seed; `None`: the usual one.
    pub seed: Option<u64>,
    /// What was asked.
    pub workload: Workload,
    /// Ours, after the warm-up.
    pub ours: Cost,
    /// Ours, with the time of choosing.
    pub charged: Cost,
    /// Each fixed policy with each of its constants.
    pub fixed: Vec<(Fixed, Cost)>,
}

impl Cell {
    /// The fixed policy that was best here.
    ///
    /// # Panics
    /// There is none: [`candidates`] has always some.
    pub fn best(&self) -> &(Fixed, Cost) {
        let best = self.fixed.iter().min_by(|(_, a), (_, b)| a.cost_ns.total_cmp(&b.cost_ns));
        best.expect("every workload has fixed policies")
    }

    /// Our throughput over the best fixed policy's.
    pub fn ratio(&self) -> f64 {
        self.best().1.cost_ns / self.ours.cost_ns
    }

    /// The same with the time of choosing, ours alone.
    pub fn charged_ratio(&self) -> f64 {
        self.best().1.cost_ns / self.charged.cost_ns
    }
}

/// The fixed policies that make a difference for a workload. One size needs no thresholds, what comes alone no batches.
pub fn candidates(workload: &Workload) -> Vec<Fixed> {
    let froms: &[usize] = if matches!(workload.sizes, Sizes::Only(_)) { &[0] } else { &FROM };
    let batches: &[usize] = if matches!(workload.waits, Waits::Groups(_) | Waits::Turns) { &BATCHES } else { &[1] };
    let mut all = vec![Fixed::CPU, Fixed::DEVICE, Fixed::dml(4, 32)];
    for &from in froms {
        all.extend(batches.iter().map(|batch| Fixed::by_hand(from, *batch)));
        all.extend(SHARES.iter().map(|share| Fixed::dto(from, *share)));
    }
    all
}

/// Plays all of them.
///
/// # Errors
/// As [`Seat::new`](super::Seat::new).
pub fn judge(seed: Option<u64>, workload: &Workload) -> io::Result<Cell> {
    let world = seed.map_or_else(World::default, World::drawn);
    // The sizes, and the noise of our clock, are drawn from seeds of their own: nothing of the world's can be guessed from them.
    let (draws, noise) = (seed.unwrap_or(0) + 1_000, seed.unwrap_or(0) + 2_000);
    let ours = run(&world, workload, &mut Ours::new(noise, world.queue), WARM_UP, JUDGED, draws)?;
    let charged = run(&world, workload, &mut Ours::new(noise, world.queue).charged(), WARM_UP, JUDGED, draws)?;
    // The very copies of ours that are judged, if they differ.
    let alike = matches!(workload.sizes, Sizes::Only(_));
    let fixed = candidates(workload).into_iter().map(|fixed| {
        let cost = match (alike, &fixed) {
            (true, fixed) => run(&world, workload, &mut fixed.clone(), 64, ALIKE, draws)?,
            (false, fixed) => run(&world, workload, &mut fixed.clone(), 0, JUDGED, draws)?,
        };
        Ok((fixed, cost))
    });
    Ok(Cell { seed, workload: *workload, ours, charged, fixed: fixed.collect::<io::Result<_>>()? })
}

/// A family's constants that are best over all cells (of equal workloads, in several worlds), and how far ours is ahead of it: the mean, over the cells, of its
/// cost over ours (geometric).
pub fn gain(cells: &[Cell], family: Family) -> Option<(Fixed, f64)> {
    let of_family =
        |cell: &Cell| cell.fixed.iter().filter(|(fixed, _)| fixed.family == family).cloned().collect::<Vec<_>>();
    let all = of_family(cells.first()?);
    let gain_over = |fixed: &Fixed| {
        let logs = cells.iter().map(|cell| {
            let cost = cell.fixed.iter().find(|(other, _)| other == fixed).map_or(f64::NAN, |(_, cost)| cost.cost_ns);
            (cost / cell.ours.cost_ns).ln()
        });
        (logs.sum::<f64>() / cells.len() as f64).exp()
    };
    all.into_iter()
        .map(|(fixed, _)| (gain_over(&fixed), fixed))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(gain, fixed)| (fixed, gain))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(cost_ns: f64) -> Cost {
        Cost { cost_ns, rate: 1.0, by_device: 0.0 }
    }

    fn cell(ours: f64, fixed: &[(Fixed, f64)]) -> Cell {
        let workload = Workload { sizes: Sizes::Only(1), waits: Waits::Each };
        let fixed = fixed.iter().map(|(fixed, ns)| (fixed.clone(), cost(*ns))).collect();
        Cell { seed: None, workload, ours: cost(ours), charged: cost(ours * 2.0), fixed }
    }

    #[test]
    fn the_best_constants_are_those_for_all_worlds_together() {
        let (low, high) = (Fixed::by_hand(1, 1), Fixed::by_hand(2, 1));
        // Each is best in one world; ours is as good as both.
        let cells = [
            cell(100.0, &[(low.clone(), 100.0), (high.clone(), 400.0), (Fixed::CPU, 900.0)]),
            cell(100.0, &[(low.clone(), 200.0), (high, 100.0), (Fixed::CPU, 900.0)]),
        ];
        assert_eq!(cells[0].ratio(), 1.0);
        assert_eq!(cells[0].charged_ratio(), 0.5);
        let (fixed, gain_over) = gain(&cells, Family::ByHand).unwrap();
        assert_eq!(fixed, low);
        assert!((gain_over - 2_f64.sqrt()).abs() < 1e-9);
        assert!((gain(&cells, Family::Cpu).unwrap().1 - 9.0).abs() < 1e-9);
        assert_eq!(gain(&cells, Family::Dto), None);
    }

    #[test]
    fn every_workload_has_the_policies_that_matter_to_it() {
        let one = candidates(&Workload { sizes: Sizes::Only(4096), waits: Waits::Each });
        let mix = candidates(&Workload { sizes: Sizes::Values, waits: Waits::Turns });
        for family in Family::ALL {
            for some in [&one, &mix] {
                assert!(some.iter().any(|fixed| fixed.family == family), "{family}");
            }
        }
        assert!(mix.contains(&Fixed::by_hand(4096, 4)) && mix.contains(&Fixed::dto(16 << 10, 0.2)));
        assert_eq!(one.len(), 3 + 1 + SHARES.len());
    }
}
