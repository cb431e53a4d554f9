//! `balanced_mean_added_ns`, `balanced_duty_150ns`, `balanced_duty_20ns`, `balanced_unexplained_misses`: what does the preset `Balanced` add to detection,
//! and what does it leave to the sibling for that, in the same slots?
//!
//! **Method.** As `latency_p99_extra_ns`, with a poller whose calls take 150 ns or 20 ns, two looks at the clock included. Mean added: median over the slots of
//! each one's mean from stamp to detection, less that of the reference; the worse of the two pollers. Duty: the share of idle time that lies between two
//! calls, less what the runtime itself takes there (the least gap of a runtime that never waits); or what the lane's metrics claim, if that is less.
//!
//! **Reference.** A loop by hand around the same calls, that never waits.
//!
//! **Bounds.** 500 ns, the preset's `mean_added`; 0.6 and 0.8 of idle time. A lane that never waits adds nothing and has a duty of 0; one that always waits as
//! long as it may has the duty, and adds microseconds.
//!
//! **Misses.** No event may be seen later than a call, the reference's median and `max_added` (4 us), but for misses that the lane counted (a doze that took too
//! long, a preemption) and for what the machine does to the reference as well: interrupts and the hypervisor hit both. What is left is
//! `balanced_unexplained_misses`, over all slots, disturbed ones too, since the lane's counters cannot leave them out. Late events count by the gap in which
//! they came, as the lane counts: a cpu that was away for a millisecond made one gap too long, however many events came in it. Its bound is what
//! A and A' differ by in this.
//!
//! **Noise.** Of the mean, A against A'. The reference has no duty, so of the duties it is every other slot against the rest.
//!
//! **Beside.** The same for each poller; late gaps of both sides; misses by cause; cpu time of the poll lane.

use std::time::Duration;

use twolane::{Etiquette, Relief, Role, Sharing};

use super::detect::{Seats, Seen, by_hand, on_lane};
use super::latency::poll_cpu_ns;
use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::slots::{Cell, SLOTS, interleave};
use crate::common::stats::{best, median};
use crate::common::witness::Witness;
use crate::common::work::steps_for;

/// The preset's `max_added`.
const MAX_ADDED: Duration = Duration::from_micros(4);
/// Slots of the runtime that never waits.
const CONTROL_SLOTS: u64 = 5;
/// Passes that a late event may have waited for beside its wait: the one that it just missed, and the one that finds it.
const CALLS_AROUND: f64 = 2.0;

pub fn figures(machine: &Machine) -> Result<Vec<Figure>, String> {
    let dear = measure(machine, 150.0)?;
    let cheap = measure(machine, 20.0)?;
    let worse = if dear.added() >= cheap.added() { &dear } else { &cheap };
    let mean = Figure {
        name: "balanced_mean_added_ns",
        value: worse.added(),
        bound: Bound::AtMost(500.0),
        noise: Some(Noise { aa: worse.aa, neutral: 0.0 }),
        clean: Some(dear.clean.min(cheap.clean)),
        beside: vec![
            ("added_150ns", dear.added()),
            ("added_20ns", cheap.added()),
            ("lane_mean_150ns", dear.ours),
            ("lane_mean_20ns", cheap.ours),
            ("bare_mean_150ns", dear.bare),
            ("bare_mean_20ns", cheap.bare),
        ],
    };
    let unexplained = Figure {
        name: "balanced_unexplained_misses",
        value: (dear.unexplained() + cheap.unexplained()).max(0.0),
        bound: Bound::AtMost(dear.late.apart() + cheap.late.apart()),
        noise: None,
        clean: Some(dear.clean.min(cheap.clean)),
        beside: vec![
            ("late_gaps", dear.late.ours + cheap.late.ours),
            ("late_gaps_by_hand", dear.late.by_hand() + cheap.late.by_hand()),
            ("misses_doze", dear.misses.doze + cheap.misses.doze),
            ("misses_preempted", dear.misses.preempted + cheap.misses.preempted),
            ("misses_lent", dear.misses.lent + cheap.misses.lent),
        ],
    };
    Ok(vec![
        mean,
        dear.duty_figure("balanced_duty_150ns", 0.6),
        cheap.duty_figure("balanced_duty_20ns", 0.8),
        unexplained,
    ])
}

/// One poller's run.
struct Measured {
    /// Means from stamp to detection, in nanoseconds.
    ours: f64,
    bare: f64,
    aa: f64,
    /// A slot each.
    duties: Vec<f64>,
    claimed: f64,
    call_ns: f64,
    gap_ns: f64,
    own_ns: f64,
    cpu_percent: f64,
    late: Late,
    misses: Counted,
    clean: usize,
}

/// Gaps whose events came later than they may, over all slots, disturbed ones too, as the lane's own counters are.
#[derive(Default)]
struct Late {
    ours: f64,
    a: f64,
    a_again: f64,
}

impl Late {
    fn by_hand(&self) -> f64 {
        (self.a + self.a_again) / 2.0
    }

    fn apart(&self) -> f64 {
        (self.a - self.a_again).abs()
    }
}

/// Misses as the lane counted them, over all slots.
#[derive(Default)]
struct Counted {
    doze: f64,
    preempted: f64,
    lent: f64,
}

impl Measured {
    fn added(&self) -> f64 {
        self.ours - self.bare
    }

    fn unexplained(&self) -> f64 {
        let Counted { doze, preempted, lent } = self.misses;
        self.late.ours - self.late.by_hand() - doze - preempted - lent
    }

    fn duty_figure(&self, name: &'static str, at_least: f64) -> Figure {
        let half = |odd: usize| median(&self.duties.iter().copied().skip(odd).step_by(2).collect::<Vec<f64>>());
        let seen = median(&self.duties);
        Figure {
            name,
            value: seen.min(self.claimed),
            bound: Bound::AtLeast(at_least),
            noise: Some(Noise { aa: half(1) - half(0), neutral: 0.0 }),
            clean: Some(self.clean),
            beside: vec![
                ("duty_seen_by_poller", seen),
                ("duty_of_metrics", self.claimed),
                ("call_ns", self.call_ns),
                ("gap_ns", self.gap_ns),
                ("own_work_ns", self.own_ns),
                ("poll_lane_cpu_percent", self.cpu_percent),
            ],
        }
    }
}

fn measure(machine: &Machine, call_ns: f64) -> Result<Measured, String> {
    let lanes = Lanes::start(builder().etiquette(Etiquette::Balanced))?;
    if lanes.sharing() == Sharing::Denied {
        return Err("the two lanes are known not to share a core here, so the lane rightly gives no relief".into());
    }
    let seats = Seats::on(machine)?;
    let steps = seats.poll.run(move || steps_for(call_ns))?;
    let own_ns = own_work_ns(steps)?;
    let witness = Witness::new(machine.cpus(), lanes.thread_ids().into_iter().chain(seats.ids()));
    let (mut seen_ours, mut seen_a, mut seen_a_again) = (Vec::new(), Vec::new(), Vec::new());
    let mut misses = Counted::default();
    let (mut claimed, mut cpu) = (Vec::new(), Vec::new());
    let mut seed = 0;
    let slots = interleave(SLOTS, &witness, |cell| {
        seed += 1;
        if cell != Cell::Ours {
            let seen = by_hand(&seats, steps, true, seed)?;
            let mean = seen.late_mean_ns();
            if cell == Cell::A { &mut seen_a } else { &mut seen_a_again }.push(seen);
            return Ok(Some(mean));
        }
        let (before, used, began) = (lanes.metrics(Role::Poll)?, poll_cpu_ns(&lanes)?, std::time::Instant::now());
        let seen = on_lane(&lanes, steps, true, seed)?;
        cpu.push((poll_cpu_ns(&lanes)? - used) as f64 / began.elapsed().as_nanos() as f64 * 100.0);
        let after = lanes.metrics(Role::Poll)?;
        let (dozing, empty) = (after.dozing - before.dozing, after.empty - before.empty);
        claimed.push(dozing.as_secs_f64() / (dozing + empty).as_secs_f64());
        misses.doze += (after.misses.doze - before.misses.doze) as f64;
        misses.preempted += (after.misses.preempted - before.misses.preempted) as f64;
        misses.lent += (after.misses.lent - before.misses.lent) as f64;
        let mean = seen.late_mean_ns();
        seen_ours.push(seen);
        Ok(Some(mean))
    })?;
    let bare = median(&slots.references());
    let of_ours = |what: fn(&Seen) -> f64| median(&seen_ours.iter().map(what).collect::<Vec<f64>>());
    let call = of_ours(Seen::call_mean_ns);
    // What the events of both sides may take: they are compared with one bound.
    let latest = bare + CALLS_AROUND * call + own_ns + MAX_ADDED.as_nanos() as f64;
    let late = |slots: &[Seen]| slots.iter().map(|seen| seen.late_gaps(latest)).sum::<usize>() as f64;
    Ok(Measured {
        ours: median(&slots.ours),
        bare,
        aa: median(&slots.a_again) - median(&slots.a),
        duties: seen_ours.iter().map(|seen| seen.duty(own_ns)).collect(),
        claimed: median(&claimed),
        call_ns: call,
        gap_ns: of_ours(Seen::gap_mean_ns),
        own_ns,
        cpu_percent: median(&cpu),
        late: Late { ours: late(&seen_ours), a: late(&seen_a), a_again: late(&seen_a_again) },
        misses,
        clean: slots.clean(),
    })
}

/// What the runtime itself takes between two calls: the least of some slots that never wait.
fn own_work_ns(steps: u32) -> Result<f64, String> {
    let control = Lanes::start(builder().etiquette(Etiquette::Balanced).relief(Relief::Off))?;
    let gaps = (0..CONTROL_SLOTS).map(|seed| Ok(on_lane(&control, steps, true, seed)?.gap_mean_ns()));
    Ok(best(&gaps.collect::<Result<Vec<f64>, String>>()?))
}
