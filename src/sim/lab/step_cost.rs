//! What does one decision cost? The controller alone, over what it saw in a run, without a clock to read.

use super::engine::{Pass, Policy, Rest, Rested, run};
use super::machine::Machine;
use super::ours::Ours;
use super::traffic::Traffic;
use crate::wait::clock::Ticks;
use crate::wait::controller::Observation;
use std::hint::black_box;
use std::time::Instant;

/// A pass as the policy was told of it, and the doze after it; small, so that reading it back costs little.
#[derive(Clone, Copy, Debug)]
struct Seen {
    now: u64,
    pass: u32,
    events: u32,
    asked: u32,
    took: u32,
}

/// Notes what the policy is told.
#[derive(Debug)]
struct Recorder {
    ours: Ours,
    seen: Vec<Seen>,
}

impl Recorder {
    fn note(&mut self, pass: &Pass) {
        // Passes and waits of a test run are far below 4 s.
        self.seen.push(Seen { now: pass.now, pass: pass.took as u32, events: pass.events, asked: 0, took: 0 });
    }
}

impl Policy for Recorder {
    fn name(&self) -> String {
        self.ours.name()
    }
    fn found(&mut self, pass: &Pass) {
        self.note(pass);
        self.ours.found(pass);
    }
    fn empty(&mut self, pass: &Pass) -> (Rest, u64) {
        self.note(pass);
        self.ours.empty(pass)
    }
    fn rested(&mut self, rest: Rest, rested: &Rested) {
        if let (Some(last), Rest::PauseFor(asked)) = (self.seen.last_mut(), rest) {
            (last.asked, last.took) = (asked as u32, rested.took as u32);
        }
        self.ours.rested(rest, rested);
    }
}

/// Nanoseconds of real time for one pass's decision and what is learnt from the wait, with `Etiquette::Balanced`, on average
/// over a run against `traffic`; the least of `repeats` replays, since whatever else the machine does only adds. Reading the
/// recording is taken off.
pub fn controller_ns(traffic: &Traffic, pass_ns: u64, machine: &Machine, repeats: u32) -> f64 {
    let mut recorder = Recorder { ours: Ours::balanced(machine), seen: Vec::new() };
    let _ = run(&mut recorder, traffic, pass_ns, machine);
    let seen = recorder.seen;
    let least = |replay: &dyn Fn() -> f64| (0..repeats.max(1)).map(|_| replay()).fold(f64::INFINITY, f64::min);
    let all = least(&|| {
        let mut controller = Ours::balanced(machine).into_controller();
        per_pass(&seen, |observation, pass| {
            let _ = black_box(controller.observe(observation));
            if pass.took > 0 {
                controller.dozed(pass.asked.into(), pass.took.into());
            }
        })
    });
    // What it takes to read the recording.
    let reading = least(&|| {
        per_pass(&seen, |_, pass| {
            black_box(pass);
        })
    });
    all - reading
}

fn per_pass(seen: &[Seen], mut tell: impl FnMut(&Observation, &Seen)) -> f64 {
    let began = Instant::now();
    for pass in seen {
        tell(&observation(pass), pass);
    }
    began.elapsed().as_nanos() as f64 / seen.len() as f64
}

fn observation(pass: &Seen) -> Observation {
    Observation {
        now: Ticks(pass.now),
        pass_ticks: pass.pass.into(),
        events: pass.events,
        housekeeping: false,
        relief_wanted: true,
        next_deadline: None,
        can_park: false,
        can_watch: false,
    }
}
