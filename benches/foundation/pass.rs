//! `pass_overhead_1_ns`, `pass_overhead_8_ns`: what does a pass of the lane cost beyond calling its pollers?
//!
//! **Method.** A slot is 10^6 passes over 1 or 8 pollers that each read one word and find nothing. Relief is off and no timer
//! is armed, so that the lane does nothing but pass. The last poller counts, and looks at the clock at the first and the last
//! pass that count. Figure: best slot of the lane less best slot of the reference, in nanoseconds a pass.
//!
//! **Reference.** [`poll_loop`](crate::reference::poll_loop): a bare loop over the same pollers, boxed as the lane boxes them.
//!
//! **Bound.** 25 ns for one poller, 60 ns for eight. A loop that does nothing for its pollers (no clock, no doorbell, no
//! statistics, no containment of panics) gets 0; a lane that reads a clock each pass pays some 10 ns for that alone.
//!
//! **Beside.** Instructions a pass, of lane and reference, if valgrind is installed: they do not depend on the machine's mood.
//! By hand: `valgrind --tool=callgrind <the bench> --count lane 8 20000`, again with 40000, and a twenty-thousandth of the
//! difference.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use twolane::{PollCx, Poller, PollerHandle, Progress, Relief, Where};

use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::seat::Seat;
use crate::common::slots::{Cell, SLOTS, interleave};
use crate::common::stats::best;
use crate::common::witness::Witness;
use crate::reference::poll_loop::{self, Look};

const PASSES: u64 = 1_000_000;
/// Passes before the clock is looked at: the caches and the branch predictor know the loop by then.
const WARM_UP: u64 = 20_000;

pub fn overhead_of_1(machine: &Machine) -> Result<Figure, String> {
    overhead(machine, 1, "pass_overhead_1_ns", Bound::AtMost(25.0))
}

pub fn overhead_of_8(machine: &Machine) -> Result<Figure, String> {
    overhead(machine, 8, "pass_overhead_8_ns", Bound::AtMost(60.0))
}

fn overhead(machine: &Machine, pollers: usize, name: &'static str, bound: Bound) -> Result<Figure, String> {
    let lanes = Lanes::start(builder().relief(Relief::Off))?;
    let seat = Seat::on(machine.poll)?;
    let witness = Witness::new([machine.poll], lanes.thread_ids().into_iter().chain([seat.id()]));
    let slots = interleave(SLOTS, &witness, |cell| {
        let took = match cell {
            Cell::Ours => on_lane(&lanes, pollers, WARM_UP, PASSES)?,
            Cell::A | Cell::AAgain => bare(&seat, pollers, WARM_UP, PASSES)?,
        };
        Ok(Some(took.as_nanos() as f64 / PASSES as f64))
    })?;
    let reference = best(&slots.a);
    let figure = Figure {
        name,
        value: best(&slots.ours) - best(&slots.references()),
        bound,
        noise: Some(Noise { aa: best(&slots.a_again) - reference, neutral: 0.0 }),
        clean: Some(slots.clean()),
        beside: vec![("lane_pass_ns", best(&slots.ours)), ("bare_pass_ns", best(&slots.references()))],
    };
    Ok(match (instructions("lane", pollers), instructions("bare", pollers)) {
        (Some(lane), Some(bare)) => {
            figure.beside("lane_pass_instructions", lane).beside("bare_pass_instructions", bare)
        }
        _ => figure,
    })
}

/// Finds nothing, until it is over.
struct Quiet {
    over: Arc<AtomicBool>,
}

/// The last poller: as quiet as the others, and ends it.
struct Counting {
    quiet: Quiet,
    calls: u64,
    warm_up: u64,
    passes: u64,
    began: Option<Instant>,
    took: Duration,
}

impl Look for Quiet {
    #[inline]
    fn look(&mut self) -> Progress {
        if self.over.load(Relaxed) { Progress::Done } else { Progress::Idle }
    }
}

impl Look for Counting {
    #[inline]
    fn look(&mut self) -> Progress {
        if self.calls == self.warm_up {
            self.began = Some(Instant::now());
        }
        if self.calls == self.warm_up + self.passes {
            self.took = self.began.map_or(Duration::MAX, |began| began.elapsed());
            self.quiet.over.store(true, Relaxed);
        }
        self.calls += 1;
        self.quiet.look()
    }
}

impl Counting {
    fn new(over: &Arc<AtomicBool>, warm_up: u64, passes: u64) -> Self {
        let quiet = Quiet { over: Arc::clone(over) };
        Self { quiet, calls: 0, warm_up, passes, began: None, took: Duration::MAX }
    }
}

/// A poller of the reference on a lane.
struct OnLane<L>(L);

impl<L: Look> Poller for OnLane<L> {
    #[inline]
    fn poll(&mut self, _: &mut PollCx<'_>) -> Progress {
        self.0.look()
    }
}

fn on_lane(lanes: &Lanes, pollers: usize, warm_up: u64, passes: u64) -> Result<Duration, String> {
    let over = Arc::new(AtomicBool::new(false));
    let spawn_quiet = |_| {
        let quiet = OnLane(Quiet { over: Arc::clone(&over) });
        lanes.runtime.spawn_poller(Where::Any, "quiet", quiet).map_err(|error| error.to_string())
    };
    let quiet: Vec<PollerHandle<_>> = (1..pollers).map(spawn_quiet).collect::<Result<_, _>>()?;
    // Adopted in this order, so that all are there when the last one counts.
    let counting = OnLane(Counting::new(&over, warm_up, passes));
    let counting = lanes.runtime.spawn_poller(Where::Any, "counting", counting).map_err(|error| error.to_string())?;
    let took = counting.join().map_err(|error| error.to_string())?.0.took;
    for poller in quiet {
        poller.join().map_err(|error| error.to_string())?;
    }
    Ok(took)
}

fn bare(seat: &Seat, pollers: usize, warm_up: u64, passes: u64) -> Result<Duration, String> {
    seat.run(move || bare_here(pollers, warm_up, passes))
}

fn bare_here(pollers: usize, warm_up: u64, passes: u64) -> Duration {
    let over = Arc::new(AtomicBool::new(false));
    let took = Arc::new(std::sync::OnceLock::new());
    /// Hands out what the last poller measured, when the loop is over.
    struct Telling(Counting, Arc<std::sync::OnceLock<Duration>>);
    impl Look for Telling {
        #[inline]
        fn look(&mut self) -> Progress {
            self.0.look()
        }
    }
    impl Drop for Telling {
        fn drop(&mut self) {
            let _ = self.1.set(self.0.took); // set once: this is dropped once
        }
    }
    let mut all: Vec<Box<dyn Look + Send>> = Vec::new();
    all.extend((1..pollers).map(|_| Box::new(Quiet { over: Arc::clone(&over) }) as Box<dyn Look + Send>));
    all.push(Box::new(Telling(Counting::new(&over, warm_up, passes), Arc::clone(&took))));
    std::hint::black_box(poll_loop::run(&mut all));
    drop(all);
    took.get().copied().unwrap_or(Duration::MAX)
}

/// `--count`: passes and nothing else, so that instructions can be counted from outside.
pub fn count(side: &str, pollers: &str, passes: &str) -> Result<(), String> {
    let number = |text: &str| text.parse::<u64>().map_err(|_| format!("--count: `{text}` is no number"));
    let (pollers, passes) = (number(pollers)? as usize, number(passes)?);
    match side {
        "bare" => {
            bare_here(pollers, 0, passes);
            Ok(())
        }
        "lane" => on_lane(&Lanes::start(builder().relief(Relief::Off))?, pollers, 0, passes).map(drop),
        other => Err(format!("--count: `{other}` is neither `bare` nor `lane`")),
    }
}

/// Instructions a pass, by valgrind's count: what more passes cost more. `None` without valgrind.
fn instructions(side: &str, pollers: usize) -> Option<f64> {
    const FEW: u64 = 20_000;
    /// Large beside what start and end take more or less from run to run.
    const MANY: u64 = 200_000;
    let counted = |passes: u64| {
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(std::env::current_exe().ok()?)
            .args(["--count", side, &pollers.to_string(), &passes.to_string()])
            .output()
            .ok()?;
        let report = String::from_utf8_lossy(&run.stderr).into_owned();
        let line = report.lines().find(|line| line.contains("Collected :"))?.to_owned();
        line.split_whitespace().last()?.parse::<u64>().ok()
    };
    let (few, many) = (counted(FEW)?, counted(MANY)?);
    Some(many.saturating_sub(few) as f64 / (MANY - FEW) as f64)
}
