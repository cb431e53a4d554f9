//! Which rates to sweep when nobody says: up to near saturation, which a short probe finds.

use std::time::Duration;

use crate::cells::{Cell, Seats};
use crate::clock::NS_PER_S;
use crate::progress::Progress;
use crate::sweep::{self, SlotError};

/// Rates every default sweep has, as long as they are below saturation.
const RATES: [u64; 5] = [0, 1_000, 5_000, 20_000, 50_000];

/// The last rate, as a part of capacity: near the knee of the latency curve, and still short of collapse.
const NEAR_SATURATION: f64 = 0.8;

/// Where the probe starts; it doubles from there.
const PROBE_FIRST: u64 = 25_000;

/// Doublings at most: 25 thousand to 3.2 million datagrams a second.
const PROBE_STEPS_MAX: usize = 8;

/// Length of one step: thousands of datagrams even at the first.
pub const PROBE_SLOT: Duration = Duration::from_millis(150);

/// A rate is beyond capacity when less than this part of it comes back, or sending takes longer than it should by as much.
const KEPT_UP: f64 = 0.95;

/// Finds how many datagrams a second client and server together can turn around, with the neighbour at work: the best
/// that any step got back. The server spins meanwhile.
///
/// # Errors
/// [`SlotError`] of the step that failed.
pub fn probe(seats: &Seats, progress: &mut Progress) -> Result<u64, SlotError> {
    let mut best = 0;
    for rate in (0..PROBE_STEPS_MAX).map(|step| PROBE_FIRST << step) {
        progress.slot("probing for saturation", &format!("{rate}/s"));
        let slot = sweep::run_slot(Cell::Tight, rate, PROBE_SLOT, seats)?;
        let Some(client) = slot.client else { break };
        let echoed = u128::from(client.echoed) * u128::from(NS_PER_S) / u128::from(client.took_ns.max(1));
        best = best.max(u64::try_from(echoed).unwrap_or(u64::MAX));
        let on_time = client.window_ns as f64 >= KEPT_UP * client.took_ns as f64;
        if !on_time || (client.echoed as f64) < KEPT_UP * client.offered as f64 {
            break;
        }
    }
    Ok(best)
}

/// The default rates for a machine of that capacity, ascending.
pub fn default_rates(capacity: u64) -> Vec<u64> {
    /// The last rate is rounded to this, so that it reads well.
    const ROUND_TO: u64 = 1_000;
    let top = (capacity as f64 * NEAR_SATURATION) as u64 / ROUND_TO * ROUND_TO;
    RATES.into_iter().filter(|&rate| rate == 0 || rate < top).chain((top > 0).then_some(top)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_ascend_and_end_near_saturation() {
        let table: [(u64, &[u64]); 5] = [
            (0, &[0]),
            (1_000, &[0]),
            (20_000, &[0, 1_000, 5_000, 16_000]),
            (62_500, &[0, 1_000, 5_000, 20_000, 50_000]),
            (200_999, &[0, 1_000, 5_000, 20_000, 50_000, 160_000]),
        ];
        for (capacity, want) in table {
            assert_eq!(default_rates(capacity), want, "capacity {capacity}");
        }
    }
}
