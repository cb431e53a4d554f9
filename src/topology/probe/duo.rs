//! The two threads of a probe: one that is timed, and a companion that is idle, spins or works beside it.
//!
//! The companion obeys one word, an *order*: a turn's number and a job. It answers with the turn's number in another word
//! once it is at it, and looks for the next order after every step. The timed thread gives the orders, so that between an
//! order's answer and the end of a slot nobody but these two threads has a part in it. Neither waits without a bound: the
//! timed thread gives up with its window, and a companion that hears nothing for [`ACTIVE_MAX`] parks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::judge::{self, Doubt, Judgement, Round, Seen};
use super::pace::Pace;
use super::switches::involuntary;
use super::work::Work;
use super::{END_MAX, LATE_MAX, ProbeError, START_MAX, WINDOW_MAX, WINDOW_MIN, Window, within};
use crate::arch;
use crate::topology::pin;

/// Two threads on two cpus, ready to say for a stretch of time whether these share a core.
///
/// For benchmarks whose figures only mean something on siblings: probe right before and right after each slot, and keep the
/// slots that lie between two windows that saw sharing. Between windows both threads are parked. Dropping it ends them.
///
/// ```no_run
/// use std::time::Duration;
/// use twolane::topology::probe::{Prober, SIBLING_WINDOWS_MIN, Seen};
///
/// let mut prober = Prober::start(0, 1)?;
/// let mut gains = Vec::new();
/// for _ in 0..100 {
///     let (gain, seen) = prober.around(Duration::from_millis(10), || 0.0 /* a slot of some 30 ms */)?;
///     if seen == Seen::Shared {
///         gains.push(gain);
///     }
/// }
/// println!("figure sibling_windows_seen {}", gains.len());
/// if gains.len() < SIBLING_WINDOWS_MIN {
///     println!("unresolved");
/// }
/// # Ok::<(), twolane::topology::probe::ProbeError>(())
/// ```
#[derive(Debug)]
pub struct Prober {
    asks: Option<SyncSender<Ask>>,
    answers: Receiver<Answer>,
    asked: u64,
    began: Instant,
    threads: [Option<JoinHandle<()>>; 2],
}

/// A window wanted of the timed thread.
#[derive(Clone, Copy, Debug)]
struct Ask {
    number: u64,
    end: Instant,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
struct Answer {
    number: u64,
    judged: Judgement,
}

impl Prober {
    /// Starts the two threads, and binds them. Takes about a millisecond, at most half a second.
    ///
    /// # Errors
    /// [`ProbeError`]: the same cpu twice, a cpu outside the calling thread's mask, no threads to be had, or one that did
    /// not get to run.
    pub fn start(first: usize, second: usize) -> Result<Self, ProbeError> {
        Self::start_by(first, second, Instant::now() + START_MAX)
    }

    /// As [`start`](Self::start), by an instant.
    pub(super) fn start_by(first: usize, second: usize, end: Instant) -> Result<Self, ProbeError> {
        if first == second {
            return Err(ProbeError::SameCpu { cpu: first });
        }
        let allowed = pin::current_mask().map_err(ProbeError::Mask)?;
        if let Some(&cpu) = [first, second].iter().find(|cpu| !allowed.contains(cpu)) {
            return Err(ProbeError::NotAllowed { cpu, allowed: allowed.into() });
        }
        let began = Instant::now();
        let orders = Arc::new(Orders::default());
        let (ask, asks) = sync_channel(1);
        let (answer, answers) = sync_channel(1);

        let theirs = Arc::clone(&orders);
        let companion = spawn("probe-beside", second, move || beside(&theirs))?;
        // Where the thread cannot be had, or not on its cpu, this goes with what it should have run, and the companion ends.
        let guard = Quit { orders, companion: companion.handle.thread().clone() };
        let timed = spawn("probe-timed", first, move || timed(guard, &asks, &answer))?;

        // From here on, whatever goes wrong drops the prober, which ends both threads.
        let bound = [(first, timed.bound), (second, companion.bound)];
        let threads = [Some(timed.handle), Some(companion.handle)];
        let prober = Self { asks: Some(ask), answers, asked: 0, began, threads };
        for (cpu, bound) in bound {
            match bound.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bound) => bound.map_err(ProbeError::Pin)?,
                // A thread that is gone without a word cannot be: it sends before anything that could fail.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(ProbeError::Starved { cpu, waited: began.elapsed() });
                }
            }
        }
        Ok(prober)
    }

    /// Looks for that long, 10 ms to 1 s, and says what it saw. Returns by then, 5 ms later at most if the threads are kept
    /// from running (give or take what the OS needs to run the caller), with [`Doubt::Starved`] if they were not let at all.
    ///
    /// # Errors
    /// [`ProbeError::Knob`] for a length out of range.
    pub fn window(&mut self, length: Duration) -> Result<Window, ProbeError> {
        within("window", length, WINDOW_MIN, WINDOW_MAX)?;
        let start = Instant::now();
        let end = start + length;
        self.asked += 1;
        let ask = Ask { number: self.asked, end: end - ANSWER_MAX };
        // A full channel holds a window that the thread did not come to: it is as starved as then.
        let asked = self.asks.as_ref().is_some_and(|asks| asks.try_send(ask).is_ok());
        let judged = if asked { self.answer(end + LATE_MAX) } else { None };
        let judged = judged.unwrap_or_else(|| {
            std::thread::sleep(end.saturating_duration_since(Instant::now()));
            Judgement {
                seen: Seen::Unclear(Doubt::Starved),
                ratio: None,
                spin: None,
                pauses: None,
                rounds: 0,
                dropped: 0,
            }
        });
        let Judgement { seen, ratio, spin, pauses, rounds, dropped } = judged;
        Ok(Window { seen, at: start - self.began, took: start.elapsed(), ratio, spin, pauses, rounds, dropped })
    }

    /// Runs `slot` between two windows of that length, and says what both of them saw: [`Seen::Shared`] if the cpus shared a
    /// core before it and after it. What happened meanwhile nobody knows; the shorter the slot, the better the guess.
    ///
    /// # Errors
    /// As [`window`](Self::window), before `slot` is run.
    pub fn around<R>(&mut self, length: Duration, slot: impl FnOnce() -> R) -> Result<(R, Seen), ProbeError> {
        let before = self.window(length)?;
        let result = slot();
        let after = self.window(length)?;
        Ok((result, before.seen.and(after.seen)))
    }

    /// Waits for the answer to the last question; earlier ones that came too late are thrown away.
    fn answer(&self, end: Instant) -> Option<Judgement> {
        loop {
            let answer = self.answers.recv_timeout(end.saturating_duration_since(Instant::now())).ok()?;
            if answer.number == self.asked {
                return Some(answer.judged);
            }
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        // The timed thread ends when nobody can ask, and ends the companion (`Quit`). One that is kept from running ends
        // when it runs: waiting for it longer would be a wait without a bound.
        self.asks = None;
        let end = Instant::now() + END_MAX;
        let mut running: Vec<JoinHandle<()>> = self.threads.iter_mut().filter_map(Option::take).collect();
        while !running.is_empty() && Instant::now() < end {
            std::thread::sleep(END_POLL);
            running.retain(|thread| !thread.is_finished());
        }
    }
}

/// The word by which the companion is told what to do, the words by which it answers, each on lines of their own.
#[derive(Debug, Default)]
struct Orders {
    order: Lined<AtomicU64>,
    answer: Lined<Reply>,
}

#[derive(Debug, Default)]
struct Reply {
    /// The turn whose job the companion is at.
    turn: AtomicU64,
    /// Whether its last job of spinning or working went undisturbed.
    clean: AtomicBool,
}

type Lined<T> = crossbeam_utils::CachePadded<T>;

/// What the companion does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Job {
    Idle,
    Spin,
    /// Spins with a PAUSE after each look.
    Pause,
    Work,
    Quit,
}

impl Job {
    /// Bits of an order that name a job.
    const BITS: u32 = 3;
    const ALL: [Self; 5] = [Self::Idle, Self::Spin, Self::Pause, Self::Work, Self::Quit];
}

impl Orders {
    /// Gives the next order, and wakes the companion if it is parked. Returns the turn's number.
    fn give(&self, job: Job, companion: &Thread) -> u64 {
        // Relaxed: one thread gives orders at a time; the last word, `Quit`, is given when the timed thread is gone or was
        // never there.
        let turn = (self.order.load(Ordering::Relaxed) >> Job::BITS) + 1;
        // Relaxed: the word is all that is handed over. A companion about to park sees it, because `unpark` comes after.
        self.order.store(turn << Job::BITS | job as u64, Ordering::Relaxed);
        companion.unpark();
        turn
    }

    /// The order as it stands: the turn's number, and the job.
    fn taken(&self) -> (u64, Job) {
        // Relaxed: see `give`.
        let order = self.order.load(Ordering::Relaxed);
        let job = order & ((1 << Job::BITS) - 1);
        // Nobody gives an order that is none.
        (order >> Job::BITS, Job::ALL.get(job as usize).copied().unwrap_or(Job::Quit))
    }

    /// Whether the order has not changed. One load: the loop around it is the tight spin that is measured.
    fn stands(&self, turn: u64) -> bool {
        // Relaxed: whoever sees that it changed reads it again, in `taken`.
        self.order.load(Ordering::Relaxed) >> Job::BITS == turn
    }
}

/// A thread bound to a cpu, or about to be.
struct Spawned {
    handle: JoinHandle<()>,
    bound: Receiver<Result<(), pin::PinError>>,
}

fn spawn(name: &str, cpu: usize, body: impl FnOnce() + Send + 'static) -> Result<Spawned, ProbeError> {
    let (tell, bound) = sync_channel(1);
    let run = move || {
        let pinned = pin::pin_current(cpu);
        let is_pinned = pinned.is_ok();
        // A prober that gave up does not listen any more.
        let _ = tell.send(pinned);
        if is_pinned {
            body();
        }
    };
    let handle = Builder::new().name(name.to_owned()).spawn(run).map_err(ProbeError::Thread)?;
    Ok(Spawned { handle, bound })
}

/// The companion: obeys until told to quit.
fn beside(orders: &Orders) {
    let mut work = Work::new();
    let mut steps = Vec::with_capacity(STEPS_CAPACITY);
    let turns = calibrate(&mut work);
    let mut done = 0;
    loop {
        let (turn, job) = orders.taken();
        if turn == done {
            std::thread::park();
            continue;
        }
        done = turn;
        if job == Job::Quit {
            return;
        }
        // Release: publishes `clean` of the job before. Partner: the Acquire in `Timed::order`.
        orders.answer.turn.store(turn, Ordering::Release);
        let before = involuntary();
        let undisturbed = match job {
            Job::Spin => spin(orders, turn, LOADS, || ()),
            Job::Pause => spin(orders, turn, PAUSES, arch::pause),
            Job::Work => {
                steps.clear();
                let end = Instant::now() + ACTIVE_MAX;
                step_while(&mut work, turns, &mut steps, |now| orders.stands(turn) && now < end);
                Pace::of(&mut steps).clean
            }
            Job::Idle | Job::Quit => continue,
        };
        // Relaxed: published by the answer to the next order.
        orders.answer.clean.store(undisturbed && involuntary() == before, Ordering::Relaxed);
    }
}

/// Looks at the word again and again, as hand-written poll loops do, with nothing or a PAUSE between two looks; at the clock after so many of them.
/// Returns whether it was let.
#[inline]
fn spin(orders: &Orders, turn: u64, looks: u32, between: impl Fn()) -> bool {
    let end = Instant::now() + ACTIVE_MAX;
    while Instant::now() < end {
        for _ in 0..looks {
            if !orders.stands(turn) {
                return true;
            }
            between();
        }
    }
    false
}

/// The thread that is timed: answers until nobody can ask.
fn timed(companion: Quit, asks: &Receiver<Ask>, answers: &SyncSender<Answer>) {
    let mut work = Work::new();
    let turns = calibrate(&mut work);
    let mut timed = Timed {
        companion,
        work,
        turns,
        steps: Vec::with_capacity(STEPS_CAPACITY),
        best_ns: f64::INFINITY,
        order: Shuffle::default(),
    };
    while let Ok(ask) = asks.recv() {
        let rounds = timed.rounds(ask.end);
        let judged = judge::window(&rounds, timed.best_ns);
        // `send` would wait for ever if an answer lay there that nobody wants: then this one comes too late as well, and the
        // next question finds room.
        if answers.try_send(Answer { number: ask.number, judged }).is_err() {
            continue;
        }
    }
}

/// What the timed thread works with.
struct Timed {
    companion: Quit,
    work: Work,
    turns: u32,
    steps: Vec<u64>,
    /// The least that a step took beside an idle cpu, so far.
    best_ns: f64,
    order: Shuffle,
}

impl Timed {
    /// Rounds until no other fits before `end`, or the companion does not answer.
    fn rounds(&mut self, end: Instant) -> Vec<Round> {
        let mut rounds = Vec::new();
        while Instant::now() + ROUND < end {
            let mut round = Round::default();
            for job in self.order.next() {
                let Some(step_ns) = self.slot(job, end) else { continue };
                match job {
                    Job::Idle => {
                        self.best_ns = self.best_ns.min(step_ns);
                        round.idle = Some(step_ns);
                    }
                    Job::Spin => round.spin = Some(step_ns),
                    Job::Pause => round.pauses = Some(step_ns),
                    Job::Work | Job::Quit => round.work = Some(step_ns),
                }
            }
            rounds.push(round);
        }
        rounds
    }

    /// One slot beside that job: what a step took, unless the slot was disturbed. Leaves the companion idle.
    fn slot(&mut self, job: Job, end: Instant) -> Option<f64> {
        self.give(job, end)?;
        let before = involuntary();
        self.steps.clear();
        let slot_end = Instant::now() + SLOT;
        if slot_end > end {
            return self.give(Job::Idle, end).and(None);
        }
        step_while(&mut self.work, self.turns, &mut self.steps, |now| now < slot_end);
        let undisturbed = involuntary() == before;
        let pace = Pace::of(&mut self.steps);
        // Also when it was idle: so that what is read next is its word on the job that just ended.
        self.give(Job::Idle, end)?;
        // Relaxed: published by the answer that `give` waited for.
        let beside = job == Job::Idle || self.companion.orders.answer.clean.load(Ordering::Relaxed);
        (undisturbed && pace.clean && beside).then_some(pace.step_ns)
    }

    /// Gives an order, and waits until the companion is at it; `None` if that takes too long.
    fn give(&self, job: Job, end: Instant) -> Option<()> {
        let Quit { orders, companion } = &self.companion;
        let turn = orders.give(job, companion);
        let end = end.min(Instant::now() + ANSWERED_MAX);
        // Acquire: whatever the companion wrote before it answered. Partner: the Release in `beside`.
        while orders.answer.turn.load(Ordering::Acquire) != turn {
            if Instant::now() >= end {
                return None;
            }
            std::hint::spin_loop();
        }
        Some(())
    }
}

/// Does steps while `go_on`, and notes what each took.
fn step_while(work: &mut Work, turns: u32, steps_ns: &mut Vec<u64>, go_on: impl Fn(Instant) -> bool) {
    let mut last = Instant::now();
    while go_on(last) && steps_ns.len() < STEPS_CAPACITY {
        work.turn(turns);
        let now = Instant::now();
        steps_ns.push(u64::try_from((now - last).as_nanos()).unwrap_or(u64::MAX));
        last = now;
    }
}

/// Turns that make a step of about [`STEP`] on the cpu that runs the calling thread.
fn calibrate(work: &mut Work) -> u32 {
    /// Turns of a trial, a few microseconds, and trials: the fastest is the one that nobody disturbed.
    const TURNS: u32 = 1_000;
    const TRIALS: u32 = 20;
    let trial = |_| {
        let began = Instant::now();
        work.turn(TURNS);
        began.elapsed()
    };
    let fastest = (0..TRIALS).map(trial).min().unwrap_or_default();
    let turns = STEP.as_nanos() * u128::from(TURNS) / fastest.as_nanos().max(1);
    u32::try_from(turns).unwrap_or(u32::MAX).clamp(1, TURNS * TRIALS)
}

/// Whoever has it has the companion's ear; when it goes, the companion does.
#[derive(Debug)]
struct Quit {
    orders: Arc<Orders>,
    companion: Thread,
}

impl Drop for Quit {
    fn drop(&mut self) {
        self.orders.give(Job::Quit, &self.companion);
    }
}

/// The order of a round's slots: one of twelve, by a generator with a fixed start. Random enough not to keep step with anything
/// periodic. A round has a tight spin or one with PAUSEs: neither decides anything, so half of the rounds each do, and rounds stay short.
#[derive(Debug)]
struct Shuffle(u64);

impl Default for Shuffle {
    fn default() -> Self {
        Self(0x2545_F491_4F6C_DD1D)
    }
}

impl Shuffle {
    fn next(&mut self) -> [Job; 3] {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let spin = if self.0 >> 41 & 1 == 1 { Job::Spin } else { Job::Pause };
        let mut jobs = [Job::Idle, spin, Job::Work];
        jobs.rotate_left((self.0 >> 8) as usize % 3);
        if self.0 >> 40 & 1 == 1 {
            jobs.swap(1, 2);
        }
        jobs
    }
}

/// A slot: some twenty steps, and short enough for nine rounds in the shortest window.
const SLOT: Duration = Duration::from_micros(300);
/// A step: long against a look at the clock (some 30 ns), short against a slot.
const STEP: Duration = Duration::from_micros(15);
/// Steps of a slot or a job that are noted: those of [`ACTIVE_MAX`], and half as many again.
const STEPS_CAPACITY: usize = 2_000;
/// Looks of a tight spin between two at the clock, some tens of microseconds: few enough to end in time, and so many that what is
/// measured is the spin.
const LOADS: u32 = 50_000;
/// The same of a spin with PAUSEs, of which each takes 10 to 100 ns.
const PAUSES: u32 = 500;
/// The longest that the companion spins or works without another word. A slot takes a seventieth.
const ACTIVE_MAX: Duration = Duration::from_millis(20);
/// How long an answer is waited for. A wake takes 20 to 100 us here; a slot whose companion comes later is given up.
const ANSWERED_MAX: Duration = Duration::from_millis(5);
/// A round: its slots, and a wake for each.
const ROUND: Duration = Duration::from_micros(3 * (SLOT.as_micros() as u64 + 50));
/// From the last slot to the caller: judging, and a wake that takes its time.
const ANSWER_MAX: Duration = Duration::from_millis(1);
/// Between two looks at whether the threads have ended.
const END_POLL: Duration = Duration::from_micros(200);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn orders_carry_turn_and_job() {
        let orders = Orders::default();
        let me = std::thread::current();
        for (given, job) in Job::ALL.into_iter().enumerate() {
            assert!(orders.stands(given as u64));
            let turn = orders.give(job, &me);
            assert_eq!((turn, orders.taken()), (given as u64 + 1, (turn, job)));
        }
        std::thread::park(); // takes the token that `give` left for this thread
    }

    #[test]
    fn every_order_of_slots_comes_up() {
        let mut shuffle = Shuffle::default();
        let seen: BTreeSet<String> = (0..200).map(|_| format!("{:?}", shuffle.next())).collect();
        assert_eq!(seen.len(), 12, "{seen:?}");
    }

    #[test]
    fn a_step_is_about_as_long_as_wanted() {
        let mut work = Work::new();
        let turns = calibrate(&mut work);
        let mut steps = Vec::new();
        let end = Instant::now() + Duration::from_millis(20);
        step_while(&mut work, turns, &mut steps, |now| now < end);
        // Three times as long or short: the machine may be busy, or have been.
        let pace = Pace::of(&mut steps).step_ns / STEP.as_nanos() as f64;
        assert!((0.3..3.0).contains(&pace), "{pace} of the length wanted");
    }

    /// Nanoseconds on a cpu of this process's thread of that name; `None` where the kernel does not count, or it is gone.
    fn cpu_ns(name: &str) -> Option<u64> {
        let tasks = std::fs::read_dir("/proc/self/task").ok()?.filter_map(Result::ok).map(|task| task.path());
        let named = |path: &std::path::PathBuf| {
            std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        };
        let stat = std::fs::read_to_string(tasks.into_iter().find(named)?.join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse().ok()
    }

    /// It works and spins when told to, rests when told to, and rests as well when nobody tells it anything for long.
    #[test]
    fn the_companion_does_what_its_orders_say() {
        const NAME: &str = "companion-test";
        const REST: Duration = Duration::from_millis(100);
        let orders = Arc::new(Orders::default());
        let theirs = Arc::clone(&orders);
        let thread = Builder::new().name(NAME.to_owned()).spawn(move || beside(&theirs)).unwrap();
        let quit = Quit { orders: Arc::clone(&orders), companion: thread.thread().clone() };
        let give = |job| {
            let turn = orders.give(job, &quit.companion);
            let late = Instant::now() + Duration::from_secs(10);
            while orders.answer.turn.load(Ordering::Acquire) != turn {
                assert!(Instant::now() < late, "no answer to {job:?}");
                std::thread::yield_now();
            }
        };
        give(Job::Idle);
        if let Some(mut before) = cpu_ns(NAME) {
            let mut spent_in = |stretch: &mut dyn FnMut()| {
                stretch();
                let now = cpu_ns(NAME).unwrap();
                Duration::from_nanos(now - std::mem::replace(&mut before, now))
            };
            for job in [Job::Work, Job::Spin, Job::Pause] {
                // Left alone with its job, it ends by itself. Of ten times 20 ms, a very busy machine lets it have a twentieth.
                let spent: Vec<Duration> = (0..10)
                    .map(|_| {
                        spent_in(&mut || {
                            give(job);
                            std::thread::sleep(REST);
                        })
                    })
                    .collect();
                assert!(spent.iter().sum::<Duration>() > ACTIVE_MAX / 2, "{job:?}: {spent:?}");
                assert!(spent.iter().all(|spent| *spent < ACTIVE_MAX * 3 / 2), "{job:?}: {spent:?}");
                // Told to rest, it drops its job within a step, and then it rests. The best of ten: this thread may be kept
                // from its cpu between a reading and an order.
                let (mut dropped, mut rested) = (Duration::MAX, Duration::MAX);
                for _ in 0..10 {
                    give(job);
                    spent_in(&mut || ());
                    dropped = dropped.min(spent_in(&mut || give(Job::Idle)));
                    rested = rested.min(spent_in(&mut || std::thread::sleep(REST / 4)));
                }
                assert!(dropped < ACTIVE_MAX / 10, "{job:?}: {dropped:?} until it was dropped");
                assert!(rested < ACTIVE_MAX / 20, "{job:?}: {rested:?} where it was told to rest");
            }
        }
        drop(quit);
        thread.join().unwrap();
    }
}
