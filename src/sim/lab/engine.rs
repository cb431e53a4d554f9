//! Plays a policy against traffic.
//!
//! An event is seen by the first pass that *starts* at or after its arrival. A pass takes its cost, and the handling of what
//! it found. After a pass without events, the policy says how to rest. Time is whole nanoseconds and never waits for a real
//! clock.

use super::machine::{Machine, PARK_ENTRY_NS};
use super::traffic::{Dice, Traffic};
use std::fmt::Debug;

/// What a policy sees of a pass.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// The end of the pass.
    pub now: u64,
    /// What it took, in nanoseconds.
    pub took: u64,
    /// Events that it found.
    pub events: u32,
}

/// What to do after an empty pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// Poll again at once.
    None,
    /// So many PAUSEs in a row.
    Pause(u64),
    /// PAUSEs for so many nanoseconds, rounded down to whole ones, with a look at the clock every 32 of them.
    PauseFor(u64),
    /// TPAUSE for so many nanoseconds.
    Timed(u64),
    /// UMWAIT until an event is stored, for at most so many nanoseconds.
    Monitored(u64),
    /// `sched_yield`.
    Yield,
    /// Block in the kernel until an event comes.
    Park,
}

/// How a rest went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rested {
    /// When it ended.
    pub now: u64,
    /// What it took, costs included; for a park, the time asleep.
    pub took: u64,
    /// From the arrival to running again; a park only.
    pub wake: u64,
}

/// A way to wait.
pub trait Policy: Debug {
    /// What it is called in reports.
    fn name(&self) -> String;

    /// The pass found something.
    fn found(&mut self, pass: &Pass);

    /// The pass found nothing: what to do, and for how many empty passes in a row (at least 1) the answer stands. The
    /// second figure is only there to spare time: a policy that always says 1 is played just as well.
    fn empty(&mut self, pass: &Pass) -> (Rest, u64);

    /// A rest is over. Called once for the last of a row.
    fn rested(&mut self, _rest: Rest, _rested: &Rested) {}
}

/// How a policy did on one traffic.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// From each arrival to the start of the pass that saw it; ascending.
    delays: Vec<u64>,
    mean: f64,
    mean_after_handling: f64,
    relief: u64,
    idle: u64,
    parked: u64,
    total: u64,
    longest_wait: u64,
}

impl Outcome {
    /// From an arrival to the start of the pass that sees it, on average, in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.mean
    }

    /// As [`mean_ns`](Self::mean_ns), where an event that arrived while others were handled counts from the end of that:
    /// no way to wait has a say in it.
    pub fn mean_after_handling_ns(&self) -> f64 {
        self.mean_after_handling
    }

    /// The delay that a share `q` (0 to 1) of the events does not exceed.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let last = self.delays.len() - 1;
        self.delays[((self.delays.len() as f64 * q) as usize).min(last)]
    }

    /// The longest delay.
    pub fn max_ns(&self) -> u64 {
        self.delays[self.delays.len() - 1]
    }

    /// Events seen.
    pub fn events(&self) -> usize {
        self.delays.len()
    }

    /// The share of idle time (all but the passes that found something) that was spent waiting: PAUSE, TPAUSE, UMWAIT
    /// without the exit, and blocked time up to the arrival.
    pub fn duty(&self) -> f64 {
        self.relief as f64 / self.idle.max(1) as f64
    }

    /// The share of all time that the thread was not blocked: what `top` shows.
    pub fn cpu(&self) -> f64 {
        1.0 - self.parked as f64 / self.total.max(1) as f64
    }

    /// The longest wait that was made; a park counts by its wake, which is what it makes an event late by.
    pub fn longest_wait_ns(&self) -> u64 {
        self.longest_wait
    }
}

/// PAUSEs between two looks at the clock.
const SLICE: u64 = 32;

/// What one rest amounts to, as long as no event cuts it short.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    relief: u64,
    took: u64,
    wait: u64,
}

/// Plays `policy` against `traffic` on a lane whose pass takes `pass_ns`, and the handling of events beside.
pub fn run(policy: &mut dyn Policy, traffic: &Traffic, pass_ns: u64, machine: &Machine) -> Outcome {
    Lane::new(traffic.arrivals(), pass_ns, machine).run(policy)
}

struct Lane<'a> {
    arrivals: &'a [u64],
    next: usize,
    pass: u64,
    machine: &'a Machine,
    dice: Dice,
    now: u64,
    /// The end of the last pass that found something.
    handled: u64,
    outcome: Outcome,
    sum: u64,
    sum_after_handling: u64,
}

impl<'a> Lane<'a> {
    fn new(arrivals: &'a [u64], pass: u64, machine: &'a Machine) -> Self {
        Self {
            arrivals,
            next: 0,
            // A pass that takes no time would never get to the first arrival.
            pass: pass.max(1),
            machine,
            dice: Dice::new(arrivals.len() as u64),
            now: 0,
            handled: 0,
            outcome: Outcome {
                delays: Vec::with_capacity(arrivals.len()),
                mean: 0.0,
                mean_after_handling: 0.0,
                relief: 0,
                idle: 0,
                parked: 0,
                total: 0,
                longest_wait: 0,
            },
            sum: 0,
            sum_after_handling: 0,
        }
    }

    fn run(mut self, policy: &mut dyn Policy) -> Outcome {
        while self.next < self.arrivals.len() {
            if self.arrivals[self.next] <= self.now {
                let pass = self.busy_pass();
                policy.found(&pass);
            } else {
                self.idle_passes(policy);
            }
        }
        let mut outcome = self.outcome;
        let events = outcome.delays.len() as f64;
        outcome.mean = self.sum as f64 / events;
        outcome.mean_after_handling = self.sum_after_handling as f64 / events;
        outcome.total = self.now;
        outcome.delays.sort_unstable();
        outcome
    }

    fn busy_pass(&mut self) -> Pass {
        let start = self.now;
        let mut events = 0;
        while self.next < self.arrivals.len() && self.arrivals[self.next] <= start && events < self.machine.batch_max {
            let arrived = self.arrivals[self.next];
            self.outcome.delays.push(start - arrived);
            self.sum += start - arrived;
            self.sum_after_handling += start - arrived.max(self.handled).min(start);
            self.next += 1;
            events += 1;
        }
        let took = self.pass + events as u64 * self.machine.handling_ns;
        self.now += took;
        self.handled = self.now;
        Pass { now: self.now, took, events: events as u32 }
    }

    /// An empty pass and the rest after it, as often as the policy's answer stands and nothing arrives.
    fn idle_passes(&mut self, policy: &mut dyn Policy) {
        self.now += self.pass;
        self.outcome.idle += self.pass;
        let (rest, times) = policy.empty(&Pass { now: self.now, took: self.pass, events: 0 });
        let arrival = self.arrivals[self.next];
        match rest {
            Rest::Park => self.park(policy, arrival),
            Rest::Monitored(max) => self.monitored(policy, max, arrival),
            _ => {
                let spent = self.spent(rest);
                self.outcome.longest_wait = self.outcome.longest_wait.max(spent.wait);
                let cycle = self.pass + spent.took;
                // The pass before this rest is done: rest, and repeat pass and rest while the next pass would be empty and the
                // answer stands.
                let rest_end = self.now + spent.took;
                let more =
                    if arrival <= rest_end { 0 } else { (arrival - rest_end).div_ceil(cycle).min(times.max(1) - 1) };
                self.now = rest_end + more * cycle;
                self.outcome.idle += spent.took + more * cycle;
                self.outcome.relief += spent.relief * (more + 1);
                policy.rested(rest, &Rested { now: self.now, took: spent.took, wake: 0 });
            }
        }
    }

    fn spent(&self, rest: Rest) -> Spent {
        let machine = self.machine;
        match rest {
            Rest::None | Rest::Park | Rest::Monitored(_) => Spent::default(),
            Rest::Pause(count) => {
                let took = count * machine.pause_ns;
                Spent { relief: took, took, wait: took }
            }
            Rest::PauseFor(ns) => {
                let pauses = (ns / machine.pause_ns).max(1);
                let relief = pauses * machine.pause_ns;
                Spent {
                    relief,
                    took: relief + (pauses - 1) / SLICE * machine.look_ns,
                    wait: relief + (pauses - 1) / SLICE * machine.look_ns,
                }
            }
            Rest::Timed(ns) => {
                let waited = ns.next_multiple_of(machine.timed_quantum_ns.max(1));
                Spent { relief: waited, took: waited + machine.timed_exit_ns, wait: waited + machine.timed_exit_ns }
            }
            Rest::Yield => Spent { relief: 0, took: machine.yield_ns, wait: 0 },
        }
    }

    fn monitored(&mut self, policy: &mut dyn Policy, max: u64, arrival: u64) {
        let max = max.min(self.machine.monitored_max_ns);
        let waited = arrival.saturating_sub(self.now).min(max);
        // What came before the look that follows arming is not waited for.
        let took = if waited > 0 { waited + self.machine.timed_exit_ns } else { 0 };
        self.now += took;
        self.outcome.idle += took;
        self.outcome.relief += waited;
        self.outcome.longest_wait = self.outcome.longest_wait.max(took);
        policy.rested(Rest::Monitored(max), &Rested { now: self.now, took, wake: 0 });
    }

    fn park(&mut self, policy: &mut dyn Policy, arrival: u64) {
        self.now += PARK_ENTRY_NS;
        self.outcome.idle += PARK_ENTRY_NS;
        // The look before blocking finds what came meanwhile.
        let slept = arrival.saturating_sub(self.now);
        let wake = if slept > 0 { self.machine.park.wake_ns(slept, &mut self.dice) } else { 0 };
        self.now += slept + wake;
        self.outcome.idle += slept + wake;
        self.outcome.relief += slept;
        self.outcome.parked += slept;
        self.outcome.longest_wait = self.outcome.longest_wait.max(wake);
        policy.rested(Rest::Park, &Rested { now: self.now, took: slept, wake });
    }
}
