//! `latency_p99_extra_ns`: how much later than the tightest loop does a lane with the preset `Latency` see an event?
//!
//! **Method.** A slot is 800 events at random instants, 20 000 a second. The producer is a task of the compute lane, so relief is wanted and each empty pass
//! is followed by one PAUSE. The poller looks at one word and does nothing else. Four slots that follow each other are a group: 3200 events a side, of
//! which 32 lie above the 99th percentile, so that it is not a matter of a few. Figure: ours less the reference's in the same group, at the median of
//! the quietest 20 of 60 groups: those in which the three percentiles are least in sum. In the same group, since what a line's way between the cpus takes
//! changes from second to second with the neighbours of the machine, for both sides alike; the quieter ones, since interrupts and the hypervisor only ever
//! add, to all three alike, and the sum prefers none of them.
//!
//! **Reference.** A loop by hand around the same look, without PAUSE, on the same cpu; the same producer on a bare thread.
//!
//! **Bound.** One pass and one PAUSE, as measured in the same run: what an event that comes right after a look has to wait for the next, but for
//! what the lane does around the PAUSE (`round_ns` is all that lies between two looks, by the lane's own account). Where a line takes as long as a round to
//! change cpus, its jitter hides most of that; where it takes a quarter of that, the whole round shows. A lane that never waits stays below by a PAUSE; one
//! that dozes does not.
//!
//! **Beside.** Pass, round, PAUSE, both sides' medians and 99th percentiles, and the cpu time of the poll lane in its slots.

use std::time::Duration;

use twolane::{Etiquette, Role};

use super::detect::{Seats, by_hand, on_lane};
use crate::common::cpu::thread_cpu_ns;
use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::slots::{Cell, interleave_within};
use crate::common::stats::{best, median, quantile};
use crate::common::ticks;
use crate::common::witness::Witness;

/// Slots whose events make one percentile.
const GROUP: usize = 4;
/// Groups: one of them takes half a second.
const GROUPS: usize = 60;
/// Those of them that count: the quietest third.
const QUIET_PART: usize = 3;
/// How long all of them may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub fn figures(machine: &Machine) -> Result<Vec<Figure>, String> {
    let lanes = Lanes::start(builder().etiquette(Etiquette::Latency))?;
    let seats = Seats::on(machine)?;
    let witness = Witness::new(machine.cpus(), lanes.thread_ids().into_iter().chain(seats.ids()));
    let pause = seats.poll.run(pause_ns)?;
    let (mut passes, mut rounds, mut ours_p50, mut bare_p50, mut cpu) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // A slot's figure is its place in here: what counts is made of several.
    let mut late: Vec<Vec<f64>> = Vec::new();
    let slots = interleave_within(PATIENCE, GROUPS * GROUP, &witness, |cell| {
        let seed = late.len() as u64 + 1;
        let seen = match cell {
            Cell::Ours => {
                let (before, used) = (lanes.metrics(Role::Poll)?, poll_cpu_ns(&lanes)?);
                let began = std::time::Instant::now();
                let seen = on_lane(&lanes, 0, false, seed)?;
                cpu.push((poll_cpu_ns(&lanes)? - used) as f64 / began.elapsed().as_nanos() as f64 * 100.0);
                let after = lanes.metrics(Role::Poll)?;
                let empty = (after.passes - before.passes) - (after.busy_passes - before.busy_passes);
                let (in_passes, in_dozes) = (after.empty - before.empty, after.dozing - before.dozing);
                passes.push(in_passes.as_nanos() as f64 / empty as f64);
                rounds.push((in_passes + in_dozes).as_nanos() as f64 / empty as f64);
                ours_p50.push(median(&seen.late_ns));
                seen
            }
            Cell::A | Cell::AAgain => {
                let seen = by_hand(&seats, 0, false, seed)?;
                bare_p50.push(median(&seen.late_ns));
                seen
            }
        };
        late.push(seen.late_ns);
        Ok(Some((late.len() - 1) as f64))
    })?;
    let p99s = |slots: &[f64]| -> Vec<f64> {
        let events =
            |group: &[f64]| group.iter().flat_map(|&slot| late[slot as usize].iter().copied()).collect::<Vec<f64>>();
        slots.chunks_exact(GROUP).map(|group| quantile(&events(group), 0.99)).collect()
    };
    let (a, ours, a_again) = (p99s(&slots.a), p99s(&slots.ours), p99s(&slots.a_again));
    let groups = slots.clean() / GROUP;
    let mut quiet: Vec<usize> = (0..groups).collect();
    quiet.sort_by(|&one, &other| {
        (a[one] + ours[one] + a_again[one]).total_cmp(&(a[other] + ours[other] + a_again[other]))
    });
    quiet.truncate(groups.div_ceil(QUIET_PART));
    let over_groups = |of: &dyn Fn(usize) -> f64| median(&quiet.iter().map(|&group| of(group)).collect::<Vec<f64>>());
    let (pass, round) = (median(&passes), median(&rounds));
    Ok(vec![Figure {
        name: "latency_p99_extra_ns",
        value: over_groups(&|group| ours[group] - (a[group] + a_again[group]) / 2.0),
        bound: Bound::AtMost((pass + pause).round()),
        noise: Some(Noise { aa: over_groups(&|group| a_again[group] - a[group]), neutral: 0.0 }),
        clean: Some(groups),
        beside: vec![
            ("pass_ns", pass),
            ("round_ns", round),
            ("pause_ns", pause),
            ("lane_p50_ns", median(&ours_p50)),
            ("bare_p50_ns", median(&bare_p50)),
            ("lane_p99_ns", over_groups(&|group| ours[group])),
            ("bare_p99_ns", over_groups(&|group| (a[group] + a_again[group]) / 2.0)),
            ("poll_lane_cpu_percent", median(&cpu)),
        ],
    }])
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
