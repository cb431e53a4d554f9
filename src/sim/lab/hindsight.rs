//! Ours against the best constant that one could have chosen after the fact.
//!
//! The candidates are 64 waits, evenly spaced in the logarithm from one PAUSE up, each started after 0, 8, 64 or 512 empty
//! passes of a row. All see the same traffic. The one that gives most away at a mean latency no higher than ours is what
//! ours is measured by; between two neighbours on the grid, the duty at exactly our mean is interpolated.

use super::engine::{Outcome, Rest, run};
use super::machine::Machine;
use super::peers::Constant;
use super::traffic::Traffic;

/// Waits on the grid.
pub const WAITS: usize = 64;
/// Empty passes before the first wait.
pub const STARTS: [u64; 4] = [0, 8, 64, 512];
/// The longest wait on the grid.
const LONGEST_NS: f64 = 100_000.0;

/// (mean latency, duty) of all candidates on one traffic, in four rows.
#[derive(Clone, Debug)]
pub struct Grid {
    rows: Vec<Vec<(f64, f64)>>,
}

impl Grid {
    /// Plays all candidates.
    pub fn new(traffic: &Traffic, pass_ns: u64, machine: &Machine) -> Self {
        let shortest = machine.pause_ns.max(1) as f64;
        let step = (LONGEST_NS / shortest).powf(1.0 / (WAITS - 1) as f64);
        let row = |after: &u64| {
            (0..WAITS as i32)
                .map(|i| {
                    let wait = (shortest * step.powi(i)) as u64;
                    let outcome = run(&mut Constant::new(Rest::PauseFor(wait), *after), traffic, pass_ns, machine);
                    (outcome.mean_ns(), outcome.duty())
                })
                .collect()
        };
        Self { rows: STARTS.iter().map(row).collect() }
    }

    /// The best duty at a mean latency of at most `mean_ns`; `None` if every candidate is later.
    pub fn best_duty(&self, mean_ns: f64) -> Option<f64> {
        let best_of = |row: &Vec<(f64, f64)>| {
            let fits = row.iter().filter(|(mean, _)| *mean <= mean_ns).map(|(_, duty)| *duty);
            let between = row.windows(2).filter(|pair| pair[0].0 <= mean_ns && mean_ns < pair[1].0).map(|pair| {
                let part = (mean_ns - pair[0].0) / (pair[1].0 - pair[0].0);
                pair[0].1 + part * (pair[1].1 - pair[0].1)
            });
            fits.chain(between).reduce(f64::max)
        };
        self.rows.iter().filter_map(best_of).reduce(f64::max)
    }

    /// Our duty over the best at our mean; `None` if no candidate is as early.
    pub fn ratio(&self, ours: &Outcome) -> Option<f64> {
        self.best_duty(ours.mean_ns()).map(|best| ours.duty() / best.max(f64::MIN_POSITIVE))
    }
}
