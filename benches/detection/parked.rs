//! `parked_cpu_percent`, `events_1khz_cpu_percent`: what does a lane take whose events are rare?
//!
//! **Method.** Preset `Balanced`; the only poller is on a ring. After 1 s of settling, the cpu time of the runtime's threads (the kernel's own account) is summed
//! over 5 s: once without events, once with an event each millisecond from a thread on the compute lane's cpu. In the first case an event must be answered
//! afterwards: a lane that is dead takes nothing, too. In the second all must arrive.
//!
//! **Reference.** None: blocked threads take nothing, so there is nothing to run twice.
//!
//! **Bounds.** 0.1 percent and 5 percent of one cpu. A lane that polls takes 100.
//!
//! **Beside.** From push to closure at the median and the 99th percentile, parks an event, and what a push costs that wakes a lane.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use twolane::ring::{Producer, spsc};
use twolane::{PollCx, PollerHandle, Role, Where};

use crate::common::cpu::{pin, thread_cpu_ns};
use crate::common::figure::{Bound, Figure};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::stats::{median, quantile};

const SETTLING: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(5);
const PERIOD: Duration = Duration::from_millis(1);
/// An answer that takes longer is none.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// More than there can be events on their way.
const SLOTS: usize = 1024;

pub fn without_events(_: &Machine) -> Result<Vec<Figure>, String> {
    let lanes = Lanes::start(builder())?;
    let Desk { mut events, seen, poller } = Desk::open(&lanes)?;
    std::thread::sleep(SETTLING);
    let (began, before) = (Instant::now(), used_ns(&lanes)?);
    std::thread::sleep(WATCHED);
    let percent = percent(used_ns(&lanes)? - before, began.elapsed());
    events.push(Instant::now()).map_err(|error| error.to_string())?;
    let answer = seen.recv_timeout(ANSWER_MAX).map_err(|_| "the lane does not answer: its cpu time means nothing")?;
    drop(events);
    poller.join().map(drop).map_err(|error| error.to_string())?;
    let figure = Figure::exact("parked_cpu_percent", percent, Bound::AtMost(0.1));
    Ok(vec![figure.beside("answer_us", answer.as_secs_f64() * 1e6)])
}

pub fn at_1_khz(machine: &Machine) -> Result<Vec<Figure>, String> {
    let lanes = Lanes::start(builder())?;
    let Desk { mut events, seen, poller } = Desk::open(&lanes)?;
    let _pinned = pin(machine.compute)?; // else this thread may wait for the very lane that it is to wake
    let mut due = Instant::now();
    let mut produce = |length: Duration| {
        let mut pushes = Vec::new();
        for _ in 0..length.as_nanos() / PERIOD.as_nanos() {
            due += PERIOD;
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let began = Instant::now();
            events.push(began).map_err(|error| error.to_string())?;
            pushes.push(began.elapsed().as_nanos() as f64);
        }
        Ok::<_, String>(pushes)
    };
    produce(SETTLING)?;
    let (began, before) = (Instant::now(), used_ns(&lanes)?);
    let (parks, earlier) = (lanes.metrics(Role::Poll)?.parks, seen.try_iter().count());
    let pushes = produce(WATCHED)?;
    let percent = percent(used_ns(&lanes)? - before, began.elapsed());
    let parks = lanes.metrics(Role::Poll)?.parks - parks;
    drop(events);
    poller.join().map(drop).map_err(|error| error.to_string())?;
    let late: Vec<f64> = seen.iter().map(|late| late.as_secs_f64() * 1e6).collect();
    let settling = (SETTLING.as_nanos() / PERIOD.as_nanos()) as usize;
    if earlier + late.len() != settling + pushes.len() {
        return Err(format!("{} events arrived of {}", earlier + late.len(), settling + pushes.len()));
    }
    Ok(vec![
        Figure::exact("events_1khz_cpu_percent", percent, Bound::AtMost(5.0))
            .beside("events", pushes.len() as f64)
            .beside("parks_an_event", parks as f64 / pushes.len() as f64)
            .beside("late_p50_us", median(&late))
            .beside("late_p99_us", quantile(&late, 0.99))
            .beside("push_p50_us", median(&pushes) / 1e3)
            .beside("push_p99_us", quantile(&pushes, 0.99) / 1e3),
    ])
}

/// A poller on a ring, and both ends of what goes through it.
struct Desk {
    events: Producer<Instant>,
    seen: Receiver<Duration>,
    poller: PollerHandle<()>,
}

impl Desk {
    fn open(lanes: &Lanes) -> Result<Self, String> {
        let (events, consumer) = spsc(SLOTS).map_err(|error| error.to_string())?;
        let (tell, seen) = channel();
        let poller = consumer.into_poller(move |pushed: Instant, _: &mut PollCx<'_>| {
            let _ = tell.send(pushed.elapsed()); // the figure may have been given up
        });
        let poller = lanes.runtime.spawn_poller_with(Where::Any, "desk", move |_| Ok::<_, String>(poller));
        Ok(Self { events, seen, poller: poller.map_err(|error| error.to_string())? })
    }
}

fn used_ns(lanes: &Lanes) -> Result<u64, String> {
    let used = lanes.thread_ids().into_iter().map(thread_cpu_ns).sum::<Result<u64, String>>()?;
    if used == 0 {
        return Err("the kernel keeps no account of the lanes' cpu time: they have worked, and it says 0".into());
    }
    Ok(used)
}

fn percent(used_ns: u64, of: Duration) -> f64 {
    used_ns as f64 / of.as_nanos() as f64 * 100.0
}
