//! Where did a lane's time go? Sums by kind that agree with the kernel's own account of the thread.
//!
//! A lane knows what it did between two looks at the clock, but not whether it ran: a doze of 1 us that lasted 2 ms was
//! preempted. So stretches of wall time are gathered for a *window* of about a millisecond, and then set against what
//! CLOCK_THREAD_CPUTIME_ID grew by. Wall time beyond cpu time was `preempted` (or stolen by a hypervisor that says so),
//! and is taken out of the window's kinds in proportion. Cpu time beyond wall time is the kernel's side of a park
//! (arming, blocking, waking) and what nobody stamped; it is booked as `empty`, and taken out of `parked` as far as
//! there is some. So busy + empty + doze + task + lent *is* the thread's cpu time, on noisy machines too, up to the
//! window that is open.
//!
//! The owner adds to plain integers; each window's end publishes into [`Totals`], which anybody may read.

use super::clock::Ticks;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a stretch of a lane's time was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Kind {
    /// Passes that found something.
    Busy,
    /// Passes that found nothing, and the kernel's side of parking.
    Empty,
    /// Waiting in user mode.
    Doze,
    /// Running tasks, on a lane that is there for them.
    Task,
    /// Running tasks on a poll lane that lent itself.
    Lent,
    /// Blocked in the kernel.
    Park,
}

/// Kinds that use the cpu: all before [`Kind::Park`].
const ON_CPU: usize = Kind::Park as usize;
const KINDS: usize = ON_CPU + 1;

/// The owner's side. All figures are ticks of the lane's clock; `cpu` is the thread's cpu time, in the same ticks, from
/// any zero.
#[derive(Debug)]
pub(crate) struct Ledger {
    /// This window's stretches, as stamped.
    window: [u64; KINDS],
    opened: Ticks,
    cpu_at_open: u64,
    /// How long a window is.
    length: u64,
    /// All parks that ended.
    parked: u64,
    park_began: Option<Ticks>,
}

/// How long a window should be, in nanoseconds: 1 ms. Reading the cpu clock costs some hundred nanoseconds, and a
/// window in which a preemption fell is no longer told apart by kind, so neither much shorter nor much longer.
pub(crate) const WINDOW_NS: u64 = 1_000_000;

impl Ledger {
    /// An empty account, to be kept by the thread whose cpu time `cpu` is. `window`: [`WINDOW_NS`] in ticks.
    pub(crate) fn new(now: Ticks, cpu: u64, window: u64) -> Self {
        Self { window: [0; KINDS], opened: now, cpu_at_open: cpu, length: window, parked: 0, park_began: None }
    }

    /// Books a stretch. An addition: fit for every pass.
    #[inline(always)]
    pub(crate) fn add(&mut self, kind: Kind, ticks: u64) {
        let sum = &mut self.window[kind as usize];
        *sum = sum.saturating_add(ticks);
    }

    /// Whether the window has lasted long enough to be settled. True as well after the clock jumped back.
    #[inline(always)]
    pub(crate) fn due(&self, now: Ticks) -> bool {
        now < self.opened || now.since(self.opened) >= self.length
    }

    /// The window is over now, however short it was.
    pub(crate) fn hasten(&mut self) {
        self.opened = Ticks(u64::MAX);
    }

    /// Closes the window: reconciles it with the cpu time so far, publishes it, and opens the next.
    pub(crate) fn settle(&mut self, now: Ticks, cpu: u64, totals: &Totals) {
        let grown = cpu.saturating_sub(self.cpu_at_open);
        let (window, preempted) = reconcile(self.window, grown);
        self.parked = self.parked.saturating_add(window[Kind::Park as usize]);
        totals.publish(&window, preempted, self.parked);
        (self.window, self.opened, self.cpu_at_open) = ([0; KINDS], now, cpu);
    }

    /// The lane is about to block. Settles, so that readers see a lane that sleeps for hours up to date.
    pub(crate) fn park_begins(&mut self, now: Ticks, cpu: u64, totals: &Totals) {
        self.settle(now, cpu, totals);
        self.park_began = Some(now);
        // Relaxed: a statistic, written by this thread only.
        totals.parked.store(parked_since(self.parked, now), Relaxed);
    }

    /// The lane runs again. The park is settled with what comes after it, so that the way to the pollers is free of a system call; readers see
    /// at once that it is over. Nothing happens if none began.
    pub(crate) fn park_ends(&mut self, now: Ticks, totals: &Totals) {
        if let Some(began) = self.park_began.take() {
            self.add(Kind::Park, now.since(began));
            // Relaxed: a statistic, written by this thread only.
            totals.parked.store(self.parked.saturating_add(self.window[Kind::Park as usize]), Relaxed);
        }
    }
}

/// Makes the kinds that use the cpu sum up to the cpu time used. Returns the window as it is booked, and what was
/// preempted.
fn reconcile(mut window: [u64; KINDS], cpu: u64) -> ([u64; KINDS], u64) {
    let stamped: u128 = window[..ON_CPU].iter().copied().map(u128::from).sum();
    if stamped > u128::from(cpu) {
        for ticks in &mut window[..ON_CPU] {
            // Not above `ticks`, since cpu < stamped; so the cast keeps all of it.
            *ticks = (u128::from(*ticks) * u128::from(cpu) / stamped) as u64;
        }
        // What rounding lost: less than a tick a kind.
        let scaled: u64 = window[..ON_CPU].iter().sum();
        window[Kind::Empty as usize] += cpu - scaled;
        return (window, u64::try_from(stamped - u128::from(cpu)).unwrap_or(u64::MAX));
    }
    // Fits: it is at most `cpu`.
    let unstamped = cpu - stamped as u64;
    window[Kind::Empty as usize] += unstamped;
    let parked = &mut window[Kind::Park as usize];
    *parked = parked.saturating_sub(unstamped);
    (window, 0)
}

/// The published side: sums since the lane started. One thread writes, any thread reads.
///
/// On lines of its own, so that readers cost the lane a miss a window and nothing in between.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Totals {
    on_cpu: [AtomicU64; ON_CPU],
    preempted: AtomicU64,
    /// The sum of all parks that ended; while a park lasts, [`PARKED_NOW`] and that sum less the instant at which it
    /// began. So one word tells a reader all about a park that lasts, and cannot be seen half changed.
    parked: AtomicU64,
}

/// Set while a park lasts. The other 63 bits count modulo 2^63.
const PARKED_NOW: u64 = 1 << 63;
const PARKED_SUM: u64 = PARKED_NOW - 1;

impl Totals {
    /// All zero.
    pub(crate) fn new() -> Self {
        Self {
            on_cpu: std::array::from_fn(|_| AtomicU64::new(0)),
            preempted: AtomicU64::new(0),
            parked: AtomicU64::new(0),
        }
    }

    /// The sums as of `now`, which the reader takes from the lane's clock.
    ///
    /// Each sum is right by itself and only grows, but for the few microseconds of a park that move to `empty` when it
    /// ends. Sums that are read while the lane publishes may be of two windows in a row, and the window that is open is
    /// in none of them: all in all, they lag by two windows at most. A park that lasts is counted up to `now`.
    pub(crate) fn read(&self, now: Ticks) -> Split {
        // Relaxed, here and below: each word is a statistic of its own, and nothing else is read on the strength of it.
        let sum = |kind: Kind| self.on_cpu[kind as usize].load(Relaxed);
        Split {
            busy: sum(Kind::Busy),
            empty: sum(Kind::Empty),
            doze: sum(Kind::Doze),
            task: sum(Kind::Task),
            lent: sum(Kind::Lent),
            parked: parked_at(self.parked.load(Relaxed), now),
            preempted: self.preempted.load(Relaxed),
        }
    }

    /// Adds a settled window. For the owner only: it reads, adds and writes, since nobody else writes.
    fn publish(&self, window: &[u64; KINDS], preempted: u64, parked: u64) {
        let grow = |sum: &AtomicU64, ticks| {
            // Relaxed: a statistic, of which this thread is the only writer, so it cannot change between the two.
            sum.store(sum.load(Relaxed).saturating_add(ticks), Relaxed);
        };
        for (sum, ticks) in self.on_cpu.iter().zip(window) {
            grow(sum, *ticks);
        }
        grow(&self.preempted, preempted);
        // Relaxed: as above. One store ends the park that lasted and adds it to the sum.
        self.parked.store(parked, Relaxed);
    }
}

/// The word that stands for `sum` and a park that began at `began`.
fn parked_since(sum: u64, began: Ticks) -> u64 {
    PARKED_NOW | (sum.wrapping_sub(began.0) & PARKED_SUM)
}

/// What the word means at `now`.
fn parked_at(word: u64, now: Ticks) -> u64 {
    if word & PARKED_NOW == 0 {
        return word;
    }
    let sum = word.wrapping_add(now.0) & PARKED_SUM;
    // A reader whose clock is behind the lane's sees a park that begins in the future. Below zero, that is 0.
    if sum > PARKED_SUM / 2 { 0 } else { sum }
}

/// A lane's time by kind, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) busy: u64,
    pub(crate) empty: u64,
    pub(crate) doze: u64,
    pub(crate) task: u64,
    pub(crate) lent: u64,
    pub(crate) parked: u64,
    pub(crate) preempted: u64,
}

impl Split {
    /// What the lane's thread used of its cpu.
    #[cfg(test)]
    pub(crate) fn on_cpu(&self) -> u64 {
        [self.busy, self.empty, self.doze, self.task, self.lent].iter().fold(0, |sum, ticks| sum.saturating_add(*ticks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::clock::{Clock, thread_cpu_ns};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_window_is_made_to_agree_with_the_cpu_clock() {
        // (busy, empty, doze, task, lent, park), cpu, as booked, preempted
        for (window, cpu, booked, preempted, why) in [
            ([100, 200, 300, 0, 0, 0], 600, [100, 200, 300, 0, 0, 0], 0, "all is well"),
            ([100, 200, 300, 0, 0, 0], 300, [50, 100, 150, 0, 0, 0], 300, "half of it was preempted"),
            ([100, 200, 300, 0, 0, 0], 0, [0; 6], 600, "it never ran"),
            ([1, 1, 1, 1, 1, 0], 3, [0, 3, 0, 0, 0, 0], 2, "what rounding loses is empty"),
            ([0, 0, 0, 0, 0, 900], 40, [0, 40, 0, 0, 0, 860], 0, "the kernel's side of a park"),
            ([0, 0, 0, 0, 0, 30], 40, [0, 40, 0, 0, 0, 0], 0, "a park that was all kernel"),
            ([10, 0, 0, 0, 0, 0], 25, [10, 15, 0, 0, 0, 0], 0, "what nobody stamped"),
            ([0; 6], 0, [0; 6], 0, "nothing"),
            ([u64::MAX, u64::MAX, 0, 0, 0, 0], 7, [3, 4, 0, 0, 0, 0], u64::MAX, "absurd stamps"),
            ([0, 0, 0, 0, 0, 1], u64::MAX, [0, u64::MAX, 0, 0, 0, 0], 0, "an absurd cpu clock"),
        ] {
            assert_eq!(reconcile(window, cpu), (booked, preempted), "{why}");
            let on_cpu: u64 = booked[..ON_CPU].iter().sum();
            assert_eq!(on_cpu, cpu, "{why}: it agrees by construction");
        }
    }

    #[test]
    fn windows_add_up() {
        let totals = Totals::new();
        let mut ledger = Ledger::new(Ticks(1_000), 70, 100);
        assert!(!ledger.due(Ticks(1_099)) && ledger.due(Ticks(1_100)));
        assert!(ledger.due(Ticks(5)), "a clock that jumped back must not put settling off");

        ledger.add(Kind::Busy, 40);
        ledger.add(Kind::Doze, 60);
        assert_eq!(totals.read(Ticks(1_100)), Split::default(), "the open window is not seen");
        ledger.settle(Ticks(1_100), 170, &totals);
        assert_eq!(totals.read(Ticks(1_100)), Split { busy: 40, doze: 60, ..Split::default() });

        // The next 100 ticks: half of them preempted.
        ledger.add(Kind::Busy, 20);
        ledger.add(Kind::Lent, 80);
        ledger.settle(Ticks(1_200), 220, &totals);
        let split = totals.read(Ticks(1_200));
        assert_eq!(split, Split { busy: 50, doze: 60, lent: 40, preempted: 50, ..Split::default() });
        assert_eq!(split.on_cpu(), 220 - 70);
        assert!(!ledger.due(Ticks(1_299)));
    }

    #[test]
    fn a_window_can_be_over_early_and_the_next_one_is_whole() {
        let (mut ledger, totals) = (Ledger::new(Ticks(0), 0, MS), Totals::new());
        assert!(!ledger.due(Ticks(MS - 1)) && ledger.due(Ticks(MS)));
        ledger.hasten();
        assert!(ledger.due(Ticks(1)));
        ledger.add(Kind::Empty, 10);
        ledger.settle(Ticks(10), 10, &totals);
        assert!(!ledger.due(Ticks(MS + 9)) && ledger.due(Ticks(MS + 10)));
        assert_eq!(totals.read(Ticks(10)).empty, 10, "nothing is lost by it");
    }

    #[test]
    fn a_park_is_seen_while_it_lasts() {
        let totals = Totals::new();
        let mut ledger = Ledger::new(Ticks(1_000), 0, 100);
        ledger.add(Kind::Empty, 10);
        ledger.park_begins(Ticks(1_010), 10, &totals);
        assert_eq!(totals.read(Ticks(1_010)), Split { empty: 10, ..Split::default() }, "settled before the park");
        assert_eq!(totals.read(Ticks(5_010)).parked, 4_000);
        assert_eq!(totals.read(Ticks(1_000)).parked, 0, "a reader whose clock is behind");

        ledger.park_ends(Ticks(9_010), &totals);
        assert_eq!(totals.read(Ticks(9_999)).parked, 8_000, "over at once, settled later");
        // A pass of 20 ticks; and it took 30 ticks of the kernel to block and to wake.
        ledger.add(Kind::Empty, 20);
        ledger.park_begins(Ticks(9_030), 60, &totals);
        assert_eq!(totals.read(Ticks(9_030)), Split { empty: 60, parked: 7_970, ..Split::default() });
        assert_eq!(totals.read(Ticks(9_530)).parked, 7_970 + 500, "on top of the parks before");
        ledger.park_ends(Ticks(9_530), &totals);
        ledger.park_ends(Ticks(99_999), &totals);
        assert_eq!(totals.read(Ticks(99_999)).parked, 7_970 + 500, "a park ends once");
    }

    #[test]
    fn the_word_of_parked_time_survives_large_instants() {
        for began in [0, 1, u64::MAX / 2, u64::MAX / 2 + 1, u64::MAX - 10] {
            for sum in [0, 1, 1 << 40] {
                assert_eq!(
                    parked_at(parked_since(sum, Ticks(began)), Ticks(began.wrapping_add(7))),
                    sum + 7,
                    "{began}"
                );
            }
        }
    }

    #[test]
    fn busy_loops_agree_with_the_real_cpu_clock() {
        let clock = Clock::monotonic();
        let totals = Totals::new();
        let cpu_at_start = thread_cpu_ns();
        let mut ledger = Ledger::new(clock.now(), cpu_at_start, WINDOW_NS);
        let (start, mut last, mut cpu) = (clock.now(), clock.now(), cpu_at_start);
        for pass in 0_u64.. {
            let now = clock.now();
            ledger.add(if pass % 3 == 0 { Kind::Busy } else { Kind::Doze }, now.since(last));
            last = now;
            if ledger.due(now) {
                cpu = thread_cpu_ns();
                ledger.settle(now, cpu, &totals);
            }
            if now.since(start) > 30 * MS {
                break;
            }
        }
        let split = totals.read(last);
        assert_eq!(split.on_cpu(), cpu - cpu_at_start);
        assert!(split.busy > 0 && split.doze > split.busy, "{split:?}");
    }
}
