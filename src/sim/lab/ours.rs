//! This crate's controller as a policy: the very code that lanes run, a tick being a nanosecond.

use super::engine::{Pass, Policy, Rest, Rested};
use super::machine::{Machine, Tools};
use super::traffic::Dice;
use crate::wait::Etiquette;
use crate::wait::clock::{Rate, Ticks};
use crate::wait::controller::{Controller, Observation, Parked, Step};
use crate::wait::policy::{Charge, Park, Settings};
use std::time::Duration;

/// What can be set.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    /// `mean_added`, nanoseconds.
    pub mean_added_ns: u64,
    /// `max_added`, nanoseconds.
    pub max_added_ns: u64,
    /// Charge all of a wait instead of half of it.
    pub strict: bool,
    /// Stop at this duty, percent; 100 for no stop.
    pub duty_percent: u32,
    /// The ways to wait that may be used.
    pub tools: Tools,
}

/// The controller of this crate.
#[derive(Debug)]
pub struct Ours {
    controller: Controller,
    knobs: Knobs,
    parked: Option<Parked>,
    timed_min_ns: u64,
}

/// TPAUSE is worth its exit, which relieves nobody, from waits of so many exits on; below it, PAUSE loses less.
const TIMED_MIN_EXITS: u64 = 16;

impl Ours {
    /// With these knobs, on this machine.
    pub fn new(knobs: Knobs, machine: &Machine) -> Self {
        let settings = Settings {
            mean_added: Duration::from_nanos(knobs.mean_added_ns),
            max_added: Duration::from_nanos(knobs.max_added_ns),
            charge: if knobs.strict { Charge::Strict } else { Charge::Expected },
            duty_percent: knobs.duty_percent,
            park: if knobs.tools.park { Park::WithinBound } else { Park::Never },
            park_after: Duration::from_micros(1),
            ..Settings::from_preset(Etiquette::Balanced)
        };
        let mut controller = Controller::new(&settings, Rate::NANOSECONDS, machine.pause_ns);
        if knobs.tools.park {
            measure_wakes(&mut controller, machine);
        }
        Self { controller, knobs, parked: None, timed_min_ns: machine.timed_exit_ns * TIMED_MIN_EXITS }
    }

    /// As `Etiquette::Balanced` has it, with PAUSE only and without parking.
    pub fn balanced(machine: &Machine) -> Self {
        Self::preset(Etiquette::Balanced, machine)
    }

    /// As a preset has it, with PAUSE only and without parking.
    pub fn preset(etiquette: Etiquette, machine: &Machine) -> Self {
        let preset = Settings::from_preset(etiquette);
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let knobs = Knobs {
            mean_added_ns: ns(preset.mean_added),
            max_added_ns: ns(preset.max_added),
            strict: false,
            duty_percent: preset.duty_percent,
            tools: Tools::default(),
        };
        Self::new(knobs, machine)
    }

    pub(super) fn into_controller(self) -> Controller {
        self.controller
    }

    fn observe(&mut self, pass: &Pass) -> Step {
        if let Some(parked) = self.parked.take() {
            let fruitful = pass.events > 0;
            self.controller.parked(&Parked { now: Ticks(pass.now), fruitful, ..parked });
        }
        self.controller.observe(&Observation {
            now: Ticks(pass.now),
            pass_ticks: pass.took,
            events: pass.events,
            housekeeping: false,
            relief_wanted: true,
            next_deadline: None,
            can_park: self.knobs.tools.park,
            can_watch: self.knobs.tools.monitored,
        })
    }
}

/// What a lane does when it starts: parks a few times for some microseconds, to know what a wake costs here.
fn measure_wakes(controller: &mut Controller, machine: &Machine) {
    let mut dice = Dice::new(7);
    for slept in [5_000, 50_000, 500_000, 5_000_000] {
        for _ in 0..8 {
            let wake = machine.park.wake_ns(slept, &mut dice);
            controller.parked(&Parked { now: Ticks(0), slept, wake_ticks: Some(wake), fruitful: true });
        }
    }
}

impl Policy for Ours {
    fn name(&self) -> String {
        format!("twolane {} ns", self.knobs.mean_added_ns)
    }

    fn found(&mut self, pass: &Pass) {
        let _ = self.observe(pass);
    }

    fn empty(&mut self, pass: &Pass) -> (Rest, u64) {
        let rest = match self.observe(pass) {
            Step::Again => Rest::None,
            Step::Yield => Rest::Yield,
            Step::Doze { ticks } if self.knobs.tools.timed && ticks >= self.timed_min_ns => Rest::Timed(ticks),
            Step::Doze { ticks } => Rest::PauseFor(ticks),
            Step::Watch { ticks } => Rest::Monitored(ticks),
            Step::Park { .. } => Rest::Park,
        };
        (rest, 1)
    }

    fn rested(&mut self, rest: Rest, rested: &Rested) {
        match rest {
            Rest::PauseFor(asked) | Rest::Timed(asked) => self.controller.dozed(asked, rested.took),
            Rest::Monitored(_) => self.controller.watched(rested.took),
            Rest::Park => {
                self.parked = Some(Parked {
                    now: Ticks(rested.now),
                    slept: rested.took,
                    wake_ticks: (rested.took > 0).then_some(rested.wake),
                    fruitful: false,
                });
            }
            _ => {}
        }
    }
}
