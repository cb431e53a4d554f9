//! Which rates to sweep when nobody says: up to near saturation, which a short probe finds.

use std::time::Duration;

use crate::cells::{Cell, Seats};
use crate::client::Report;
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

/// A rate is beyond capacity when less than this part of it comes back, or when it takes longer than it should by as much.
/// A time slice of the neighbour's, where the client shares its cpu, is within that.
const KEPT_UP: f64 = 0.9;

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
        let outcome = Step::of(&client);
        best = best.max(outcome.per_second);
        if !outcome.kept_up {
            break;
        }
    }
    Ok(best)
}

/// What one step of the probe says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    /// Datagrams that came back a second.
    per_second: u64,
    /// The rate is not beyond capacity.
    kept_up: bool,
}

impl Step {
    /// A queue hides overload for a while, so time counts as well as loss: until all was sent, and until all was back.
    fn of(client: &Report) -> Self {
        let took_ns = client.window_ns.max(client.took_ns).max(client.drained_ns).max(1);
        let per_second = u128::from(client.echoed) * u128::from(NS_PER_S) / u128::from(took_ns);
        let on_time = client.window_ns as f64 >= KEPT_UP * took_ns as f64;
        let complete = client.echoed as f64 >= KEPT_UP * client.offered as f64;
        Self { per_second: u64::try_from(per_second).unwrap_or(u64::MAX), kept_up: on_time && complete }
    }
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
    use crate::figures;

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

    #[test]
    fn a_step_is_beyond_capacity_by_loss_or_by_time() {
        let step = |echoed, took_ms: u64, drained_ms: u64| {
            let ms = NS_PER_S / 1_000;
            Step::of(&Report {
                offered: 1_000,
                sent: 1_000,
                echoed,
                duplicates: 0,
                strays: 0,
                send_errors: 0,
                window_ns: 100 * ms,
                took_ns: took_ms * ms,
                drained_ns: drained_ms * ms,
                cpu_ns: 0,
                end_to_end: figures::latency_histogram(),
                late: figures::latency_histogram(),
            })
        };
        let table = [
            ("all back in time", step(1_000, 100, 101), 9_900, true),
            ("a tenth is lost, just", step(899, 100, 100), 8_990, false),
            ("the client could not send so fast", step(1_000, 200, 200), 5_000, false),
            ("the server's queue was long", step(1_000, 100, 400), 2_500, false),
            ("nothing came back", step(0, 100, 0), 0, false),
        ];
        for (what, got, per_second, kept_up) in table {
            assert_eq!(got, Step { per_second, kept_up }, "{what}");
        }
    }
}
