//! `unpark_ratio_futex`, `unpark_ratio_epoll`: how much longer than a bare wake does it take to get a parked lane to its poller?
//!
//! **Method.** A thread on the other cpu rings a parked lane (`PollerHandle::ring`); the poller compares the instant of its call
//! with the instant before the ring. Wakes are 1 ms apart and go to reference, lane and reference in turn, all on the same cpu,
//! so the cpu has been idle for as long before each: `park_after` is at its least, so that the lane is blocked again at once. A
//! slot is 14 wakes of each; undisturbed slots make 2 000 of each and more. Figure: ratio of the medians.
//!
//! **Reference.** [`wakes`](crate::reference::wakes): a thread in a bare futex wait, or in `epoll_wait` with an eventfd; A and A' are
//! two of them, so that no thread's stack and descriptors are warmer than another's. The lane blocks on a futex if none of its pollers has a
//! descriptor, and in epoll otherwise.
//!
//! **Bound.** 1.2. A lane that never parks would get far less than 1, so a lane that was not parked is an error.
//!
//! **Beside.** The two medians and 99th percentiles.

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use twolane::{PollCx, PollFn, PollerHandle, Progress, Role, Where, poll_fn};

use crate::common::cpu;
use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::seat::Seat;
use crate::common::slots::SLOTS;
use crate::common::stats::{median, quantile};
use crate::common::witness::Witness;
use crate::reference::wakes::{EpollWaiter, FutexWaiter, Note, Waiter};

/// Wakes of each kind in a slot: 3 x 14 x 1 ms is less than 50 ms.
const WAKES: usize = 14;
/// Undisturbed slots for 2 000 wakes of each kind.
const SLOTS_WANTED: usize = 143;
/// Slots tried before the machine counts as too busy.
const SLOTS_MAX: usize = 300;
const IDLE_AGE: Duration = Duration::from_millis(1);
const PARK_AFTER: Duration = Duration::from_micros(1); // the least there is
/// A wake that takes longer was lost.
const LOST: Duration = Duration::from_secs(1);
const BOUND: Bound = Bound::AtMost(1.2);

pub fn ratio_futex(machine: &Machine) -> Result<Figure, String> {
    let references = [Arc::new(FutexWaiter::new()), Arc::new(FutexWaiter::new())];
    let poller = |note: Arc<Note>| Ok(poll_fn(move |_: &mut PollCx<'_>| answer(&note)).ring());
    ratio(machine, "unpark_ratio_futex", references, poller)
}

pub fn ratio_epoll(machine: &Machine) -> Result<Figure, String> {
    let references = [Arc::new(EpollWaiter::new()?), Arc::new(EpollWaiter::new()?)];
    let silent = UdpSocket::bind("127.0.0.1:0").map_err(|error| format!("bind 127.0.0.1:0: {error}"))?;
    let poller = |note: Arc<Note>| {
        poll_fn(move |_: &mut PollCx<'_>| answer(&note))
            .fd(&silent)
            .map_err(|error| format!("a second descriptor: {error}"))
    };
    ratio(machine, "unpark_ratio_epoll", references, poller)
}

fn answer(note: &Note) -> Progress {
    if note.arrived() { Progress::Busy(1) } else { Progress::Idle }
}

fn ratio<F, W: Waiter>(
    machine: &Machine,
    name: &'static str,
    references: [Arc<W>; 2],
    poller: impl Fn(Arc<Note>) -> Result<PollFn<F>, String>,
) -> Result<Figure, String>
where
    F: FnMut(&mut PollCx<'_>) -> Progress + Send + 'static,
{
    let lanes = Lanes::start(builder().park_after(PARK_AFTER))?;
    let seats = [Seat::on(machine.poll)?, Seat::on(machine.poll)?];
    let serve = |at: usize| {
        let waiter = Arc::clone(&references[at]);
        seats[at].start(move || waiter.serve())
    };
    let serving = [serve(0), serve(1)];
    let note = Arc::new(Note::new());
    let handle = lanes.runtime.spawn_poller(Where::Any, "woken", poller(Arc::clone(&note))?);
    let handle = handle.map_err(|error| error.to_string())?;
    let _pinned = cpu::pin(machine.compute)?;

    let measured = measure(machine, &lanes, &seats, &references, &handle, &note);

    references.iter().for_each(|waiter| waiter.end());
    serving.into_iter().try_for_each(|serving| serving.wait())?;
    handle.stop();
    handle.join().map(drop).map_err(|error| error.to_string())?;
    let Wakes { a, ours, a_again, slots } = measured?;
    let references = [&a[..], &a_again[..]].concat();
    Ok(Figure {
        name,
        value: median(&ours) / median(&references),
        bound: BOUND,
        noise: Some(Noise { aa: median(&a_again) / median(&a), neutral: 1.0 }),
        clean: Some(slots),
        beside: vec![
            ("wakes_of_each", ours.len() as f64),
            ("lane_us", median(&ours) / 1e3),
            ("bare_us", median(&references) / 1e3),
            ("lane_p99_us", quantile(&ours, 0.99) / 1e3),
            ("bare_p99_us", quantile(&references, 0.99) / 1e3),
        ],
    })
}

/// Times of undisturbed slots, in nanoseconds.
#[derive(Default)]
struct Wakes {
    a: Vec<f64>,
    ours: Vec<f64>,
    a_again: Vec<f64>,
    slots: usize,
}

fn measure<R: Send + 'static, W: Waiter>(
    machine: &Machine,
    lanes: &Lanes,
    seats: &[Seat],
    references: &[Arc<W>; 2],
    handle: &PollerHandle<R>,
    note: &Note,
) -> Result<Wakes, String> {
    let threads = lanes.thread_ids().into_iter().chain(seats.iter().map(Seat::id)).chain([cpu::thread_id()]);
    let witness = Witness::new(machine.cpus(), threads);
    let bare = |waiter: &W| one(waiter.note(), &|| waiter.wake());
    let ours = || one(note, &|| handle.ring());
    let mut wakes = Wakes::default();
    one(note, &|| handle.ring())?; // the first finds a lane that has just adopted a poller
    let parks = lanes.metrics(Role::Poll)?.parks;
    let mut rung = 0;
    for _ in 0..SLOTS_MAX {
        let (slot, clean) = witness.watch(|| {
            (0..WAKES)
                .map(|_| Ok((bare(&references[0])?, ours()?, bare(&references[1])?)))
                .collect::<Result<Vec<(f64, f64, f64)>, String>>()
        });
        let slot = slot?;
        rung += slot.len() as u64;
        if clean {
            wakes.a.extend(slot.iter().map(|wake| wake.0));
            wakes.ours.extend(slot.iter().map(|wake| wake.1));
            wakes.a_again.extend(slot.iter().map(|wake| wake.2));
            wakes.slots += 1;
        }
        if wakes.slots >= SLOTS_WANTED {
            break;
        }
    }
    let parked = lanes.metrics(Role::Poll)?.parks - parks;
    if rung > parked + SLOTS as u64 {
        return Err(format!("the lane parked {parked} times for {rung} rings: it was awake when it was rung"));
    }
    Ok(wakes)
}

/// Lets the cpu be idle for a while, wakes somebody, and says how long that took.
fn one(note: &Note, wake: &dyn Fn()) -> Result<f64, String> {
    std::thread::sleep(IDLE_AGE);
    note.send();
    wake();
    let began = std::time::Instant::now();
    loop {
        // Asleep meanwhile, as far as it goes: looking would take the line from the woken.
        std::thread::sleep(Duration::from_micros(100));
        match note.took_ns() {
            Some(took) => return Ok(took),
            None if began.elapsed() > LOST => return Err("a wake was lost".into()),
            None => {}
        }
    }
}
