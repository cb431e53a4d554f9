//! `latency_p99_extra_ns`: how much later than the tightest loop does a lane with the preset `Latency` see an event?
//!
//! **Method.** A slot is 800 events at random instants, 20 000 a second. The producer is a task of the compute lane, so relief is wanted and each empty pass
//! is followed by one PAUSE. The poller looks at one word and does nothing else. Figure: the 99th percentile of each slot, of those the lower quartile over 60
//! slots, less that of the reference. The lower quartile, since interrupts and the hypervisor only ever add, to both sides, and a slot of 40 ms meets
//! some; what the lane itself adds is in every slot.
//!
//! **Reference.** A loop by hand around the same look, without PAUSE, on the same cpu; the same producer on a bare thread.
//!
//! **Bound.** One pass and one PAUSE, as measured in the same run: what an event that comes right after a look has to wait for the next. A lane that never
//! waits stays below by a PAUSE; one that dozes does not.
//!
//! **Beside.** Pass, PAUSE, both sides' medians and 99th percentiles, and the cpu time of the poll lane in its slots.

use twolane::{Etiquette, Role};

use super::detect::{Seats, by_hand, on_lane};
use crate::common::cpu::thread_cpu_ns;
use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::slots::{Cell, SLOTS, interleave};
use crate::common::stats::{best, median, quantile};
use crate::common::ticks;
use crate::common::witness::Witness;

/// A lower quartile that rests on as many slots as other figures' medians.
const QUARTERS: usize = 3;

pub fn figures(machine: &Machine) -> Result<Vec<Figure>, String> {
    let lanes = Lanes::start(builder().etiquette(Etiquette::Latency))?;
    let seats = Seats::on(machine)?;
    let witness = Witness::new(machine.cpus(), lanes.thread_ids().into_iter().chain(seats.ids()));
    let pause = seats.poll.run(pause_ns)?;
    let (mut passes, mut ours_p50, mut bare_p50, mut cpu) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut seed = 0;
    let slots = interleave(SLOTS * QUARTERS, &witness, |cell| {
        seed += 1;
        let seen = match cell {
            Cell::Ours => {
                let (before, used) = (lanes.metrics(Role::Poll)?, poll_cpu_ns(&lanes)?);
                let began = std::time::Instant::now();
                let seen = on_lane(&lanes, 0, false, seed)?;
                cpu.push((poll_cpu_ns(&lanes)? - used) as f64 / began.elapsed().as_nanos() as f64 * 100.0);
                let after = lanes.metrics(Role::Poll)?;
                let empty = (after.passes - before.passes) - (after.busy_passes - before.busy_passes);
                passes.push((after.empty - before.empty).as_nanos() as f64 / empty as f64);
                ours_p50.push(median(&seen.late_ns));
                seen
            }
            Cell::A | Cell::AAgain => {
                let seen = by_hand(&seats, 0, false, seed)?;
                bare_p50.push(median(&seen.late_ns));
                seen
            }
        };
        Ok(Some(quantile(&seen.late_ns, 0.99)))
    })?;
    let (pass, bare) = (median(&passes), undisturbed(&slots.references()));
    Ok(vec![Figure {
        name: "latency_p99_extra_ns",
        value: undisturbed(&slots.ours) - bare,
        bound: Bound::AtMost((pass + pause).round()),
        noise: Some(Noise { aa: undisturbed(&slots.a_again) - undisturbed(&slots.a), neutral: 0.0 }),
        clean: Some(slots.clean()),
        beside: vec![
            ("pass_ns", pass),
            ("pause_ns", pause),
            ("lane_p50_ns", median(&ours_p50)),
            ("bare_p50_ns", median(&bare_p50)),
            ("lane_p99_ns", undisturbed(&slots.ours)),
            ("bare_p99_ns", bare),
            ("poll_lane_cpu_percent", median(&cpu)),
        ],
    }])
}

/// The lower quartile.
fn undisturbed(slots: &[f64]) -> f64 {
    quantile(slots, 0.25)
}

/// Cpu time of the poll lane's thread.
pub fn poll_cpu_ns(lanes: &Lanes) -> Result<u64, String> {
    lanes.thread_of(Role::Poll).ok_or_else(|| "no lane polls".to_owned()).and_then(thread_cpu_ns)
}

/// What one PAUSE takes on the calling thread's cpu.
fn pause_ns() -> f64 {
    const MANY: u32 = 1_000;
    let once = |_| {
        let began = ticks::now();
        (0..MANY).for_each(|_| std::hint::spin_loop());
        ticks::ns_between(began, ticks::now()) / f64::from(MANY)
    };
    best(&(0..20).map(once).collect::<Vec<f64>>())
}
