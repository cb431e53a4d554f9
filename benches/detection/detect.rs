//! Who looks for the events: a poller on a lane, or a loop by hand. Both take a call's work before each look, and stamp what they see alike.

use std::sync::Arc;

use twolane::{PollCx, Poller, Progress, Where};

use super::events::{EVENTS, Events, Look};
use crate::common::lanes::Lanes;
use crate::common::seat::Seat;
use crate::common::ticks;
use crate::common::work::work;

/// A gap between two calls that is longer was not chosen by the lane: it is left out of the duty, with its call.
const PREEMPTED_NS: f64 = 20_000.0;

/// What was seen of a slot.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// From stamp to detection, in nanoseconds, an event each.
    pub late_ns: Vec<f64>,
    /// The instants of detection, in ticks, an event each.
    found: Vec<u64>,
    /// Calls that found nothing and after which the lane came back soon.
    pub calls: u64,
    in_calls: u64,
    in_gaps: u64,
}

impl Seen {
    pub fn gap_mean_ns(&self) -> f64 {
        self.in_gaps as f64 * ticks::ns_per_tick() / self.calls as f64
    }

    pub fn call_mean_ns(&self) -> f64 {
        self.in_calls as f64 * ticks::ns_per_tick() / self.calls as f64
    }

    /// Gaps after which events had waited for longer than `latest_ns`: events that came in one gap count once.
    pub fn late_gaps(&self, latest_ns: f64) -> usize {
        let stamp = |n: usize| self.found[n] - ticks::from_ns(self.late_ns[n]);
        let late = |n: usize| self.late_ns[n] > latest_ns;
        let same_gap = |n: usize| n > 0 && late(n - 1) && stamp(n) <= self.found[n - 1];
        (0..self.late_ns.len()).filter(|&n| late(n) && !same_gap(n)).count()
    }

    pub fn late_mean_ns(&self) -> f64 {
        self.late_ns.iter().sum::<f64>() / self.late_ns.len() as f64
    }

    /// The share of idle time between two calls, less what the runtime itself takes there.
    pub fn duty(&self, own_ns: f64) -> f64 {
        (self.gap_mean_ns() - own_ns).max(0.0) / (self.gap_mean_ns() + self.call_mean_ns())
    }
}

/// The state of either.
struct Detector {
    events: Arc<Events>,
    next: usize,
    steps: u32,
    /// Whether calls are timed: two looks at the clock each.
    timed: bool,
    call_began: u64,
    idle_since: Option<u64>,
    preempted: u64,
    seen: Seen,
}

impl Detector {
    fn new(events: &Arc<Events>, steps: u32, timed: bool) -> Self {
        let (late_ns, found) = (Vec::with_capacity(EVENTS), Vec::with_capacity(EVENTS));
        let seen = Seen { late_ns, found, ..Seen::default() };
        let preempted = ticks::from_ns(PREEMPTED_NS);
        Self { events: Arc::clone(events), next: 0, steps, timed, call_began: 0, idle_since: None, preempted, seen }
    }

    #[inline]
    fn call(&mut self) -> Progress {
        if self.timed {
            let began = ticks::now();
            if let Some(since) = self.idle_since.take() {
                let gap = began.saturating_sub(since);
                if gap < self.preempted {
                    self.seen.calls += 1;
                    self.seen.in_calls += since - self.call_began;
                    self.seen.in_gaps += gap;
                }
            }
            self.call_began = began;
        }
        work(self.steps);
        let look = self.events.look(self.next);
        let ended = if self.timed || !matches!(look, Look::Nothing) { ticks::now() } else { 0 };
        match look {
            Look::Nothing => {
                self.idle_since = self.timed.then_some(ended);
                Progress::Idle
            }
            Look::Event(stamp) => {
                self.next += 1;
                self.seen.late_ns.push(ticks::ns_between(stamp, ended));
                self.seen.found.push(ended);
                Progress::Busy(1)
            }
            Look::End => Progress::Done,
        }
    }
}

impl Poller for Detector {
    #[inline]
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        self.call()
    }
}

/// A slot of the library: the poller on the poll lane, the producer a task on the compute lane, so that the poll lane's sibling has work.
pub fn on_lane(lanes: &Lanes, steps: u32, timed: bool, seed: u64) -> Result<Seen, String> {
    let events = Arc::new(Events::new());
    let detector = Detector::new(&events, steps, timed);
    let poller = lanes.runtime.spawn_poller(Where::Any, "detector", detector).map_err(|error| error.to_string())?;
    let producer = lanes.runtime.spawn_compute(move || events.produce(seed));
    producer.join().map_err(|error| error.to_string())?;
    Ok(poller.join().map_err(|error| error.to_string())?.seen)
}

/// A slot of the reference: the tightest loop there is around the same call, on the same cpus.
pub fn by_hand(seats: &Seats, steps: u32, timed: bool, seed: u64) -> Result<Seen, String> {
    let events = Arc::new(Events::new());
    let mut detector = Detector::new(&events, steps, timed);
    let looking = seats.poll.start(move || {
        while detector.call() != Progress::Done {}
        detector.seen
    });
    seats.compute.run(move || events.produce(seed))?;
    looking.wait()
}

/// The threads of the reference.
pub struct Seats {
    pub poll: Seat,
    pub compute: Seat,
}

impl Seats {
    pub fn on(machine: &crate::common::lanes::Machine) -> Result<Self, String> {
        Ok(Self { poll: Seat::on(machine.poll)?, compute: Seat::on(machine.compute)? })
    }

    pub fn ids(&self) -> [i32; 2] {
        [self.poll.id(), self.compute.id()]
    }
}
