//! Does the mean hold? The promise is `mean(detect - arrival) <= X + c + 64 X / N` for N events, with a budget of X and
//! passes that take c: in strict accounting whatever the traffic does, in expected accounting to one part in ten.
//!
//! The pass is all a lane does here: handling an event takes no time of its own, since what arrives while others are
//! handled waits for them under any policy.

use super::engine::{Outcome, run};
use super::machine::{Machine, Tools};
use super::ours::{Knobs, Ours};
use super::traffic::Traffic;

/// `max_added` for these runs: far beyond every budget, so that only the budget keeps the mean.
const MAX_ADDED_NS: u64 = 1_000_000;

/// The measured mean over the bound, for a budget of `mean_added_ns`; and the outcome.
pub fn ratio(traffic: &Traffic, pass_ns: u64, mean_added_ns: u64, strict: bool, machine: &Machine) -> (f64, Outcome) {
    let machine = Machine { handling_ns: 0, batch_max: usize::MAX, ..*machine };
    let knobs = Knobs {
        mean_added_ns,
        max_added_ns: MAX_ADDED_NS,
        strict,
        duty_percent: 100,
        tools: Tools { timed: true, ..Tools::default() },
    };
    let outcome = run(&mut Ours::new(knobs, &machine), traffic, pass_ns, &machine);
    let saved = 64.0 * mean_added_ns as f64 / outcome.events() as f64;
    (outcome.mean_ns() / (mean_added_ns as f64 + pass_ns as f64 + saved), outcome)
}
