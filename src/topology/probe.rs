//! Do two cpus share a core? Measured, for machines that do not say.
//!
//! Virtual machines often show every virtual cpu as a core of its own, whatever lies beneath; some let virtual cpus float
//! over the threads of the host, so that two of them share a core at one time and not at another. A [`Probe`] finds out by
//! contention. A thread on the first cpu does the same arithmetic over and over, in slots of 0.3 ms; meanwhile a thread on
//! the second cpu, in random order, (a) is idle, (b) spins on a word, tight or with PAUSEs, or (c) does that arithmetic too. Beside (c) the
//! first one gets about half done if they share the units of a core, and as much as ever if they do not.
//!
//! ```no_run
//! use twolane::topology::probe::{Probe, Verdict};
//!
//! let report = Probe::of(0, 1).run()?;
//! match report.verdict {
//!     Verdict::Shared { ratio } => println!("one core: beside work, {ratio:.2} of the pace alone"),
//!     Verdict::Floating { shared_windows, windows } => println!("one core in {shared_windows} of {windows} windows"),
//!     other => println!("{other}"),
//! }
//! # Ok::<(), twolane::topology::probe::ProbeError>(())
//! ```
//!
//! A benchmark that is about siblings asks before and after each of its slots, and counts the slots between two windows
//! that saw sharing; that is what a [`Prober`] is for.
//!
//! # What it costs
//! Two threads, bound to the two cpus, that keep the first busy throughout and the second for two thirds of the time: 2 s
//! unless [`Probe::total`] says otherwise, and never more than it says. Nothing of the caller's changes. Whatever else runs
//! on these cpus is slowed down, and spoils the measurement: probe before a service starts.
//!
//! # What it cannot tell
//! - It is not the hardware's word. It says how two cpus behaved while it looked: a hypervisor may move them the moment
//!   after, and moves shorter than a window show as *unclear* or not at all.
//! - Only what competes for the units that do integer arithmetic is seen. Cpus that share a cache, but no core, are separate.
//! - Two virtual cpus that take turns on one thread of the host do not slow each other down, they stop each other. Stops
//!   are left out (below), so this ends as *unclear*.
//! - Work of others that stays on a cpu all the time makes the idle slots anything but idle. Where the first cpu is slower
//!   than its best in every slot alike, the answer is *unclear*.
//! - Two cpus that are seen to share a core may be one thread each of it, or more than two threads may share it.
//!
//! # How it decides
//! A slot counts if neither thread was interrupted: no involuntary switch, and at most a tenth of the slot lost in steps
//! that took more than twice their median. That sees the hypervisor's stops where they happen, where the steal column of
//! `/proc/stat` counts in hundredths of a second; a report has that column too. Its pace is the median of its steps, so
//! timer ticks and short interrupts do not count. A round is one slot of each kind, and its ratio is (c) against the (a) of the same
//! round, so that frequency and whatever else drifts hits both. A window goes by the confidence interval (99 % on either
//! side, from ranks, without any assumption on the distribution) of the median ratio of its rounds: shared, if all of it is
//! below 0.75; separate, if all of it is above 0.85 and (c) is no slower than 0.8 of the best pace that the first cpu ever
//! showed alone. The bounds leave room for what one core's clock loses when another one wakes.
//!
//! Seen at work on virtual machines of two cpus that show no siblings (AMD EPYC of family 25). There both answers came up,
//! the pair floating between them for tens to hundreds of milliseconds: 1.00 beside work and 1.00 beside a tight spin on
//! separate cores, 0.50 and 0.67 on a shared one. Two cpus that a machine *shows* as siblings were never probed by us.
//!
//! # What to do with it
//! Lanes wait with manners wherever sharing is not denied, so most users do nothing. Whoever pins virtual cpus on the host
//! and measures once can tell the builder: [`Builder::sharing`](crate::Builder::sharing).

mod duo;
mod error;
mod judge;
mod median;
mod pace;
mod print;
mod steal;
#[allow(unsafe_code)] // One system call that the safe wrappers lack.
mod switches;
mod work;

use std::time::{Duration, Instant};

pub use duo::Prober;
pub use error::ProbeError;
pub use judge::{Doubt, GivenBack, Ratio, Seen, Verdict};

/// Windows that saw sharing from which on a figure about siblings may be quoted; below, it is unresolved. Thirty: the median
/// of so many has a confidence interval that leaves out the outer thirds.
pub const SIBLING_WINDOWS_MIN: usize = 30;

/// What to probe, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a probe does nothing until it is run"]
pub struct Probe {
    first: usize,
    second: usize,
    total: Duration,
    window: Duration,
}

impl Probe {
    /// Two cpus, by the OS's numbers; 2 s in windows of 50 ms.
    pub fn of(first: usize, second: usize) -> Self {
        Self { first, second, total: TOTAL, window: WINDOW }
    }

    /// How long it may take in all, threads started and ended. Longer finds rarer changes. Default 2 s; 50 ms to 60 s.
    pub fn total(mut self, total: Duration) -> Self {
        self.total = total;
        self
    }

    /// How long each window is, of which each gets an answer of its own. Shorter ones see faster changes and are more often
    /// unclear. Default 50 ms; 10 ms to 1 s, and no longer than the whole.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window;
        self
    }

    /// Measures. Returns after [`total`](Self::total) at the latest (give or take what the OS needs to run the caller).
    ///
    /// # Errors
    /// [`ProbeError`]: the same cpu twice, a cpu outside the calling thread's mask, a knob out of range, or no threads to be
    /// had. A measurement without an answer is none: that is [`Verdict::Unclear`].
    pub fn run(self) -> Result<Report, ProbeError> {
        let began = Instant::now();
        within("total", self.total, TOTAL_MIN, TOTAL_MAX)?;
        within("window", self.window, WINDOW_MIN, WINDOW_MAX.min(self.total))?;
        let end = began + self.total - END_MAX;
        let steal = steal::Steal::read([self.first, self.second]);
        let mut prober = Prober::start_by(self.first, self.second, end.min(began + START_MAX))?;
        let mut windows = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left < WINDOW_MIN + LATE_MAX {
                break;
            }
            windows.push(prober.window(self.window.min(left - LATE_MAX))?);
        }
        drop(prober);
        let seen: Vec<(Seen, Option<f64>)> =
            windows.iter().map(|window| (window.seen, window.ratio.map(|ratio| ratio.median))).collect();
        let steal_percent = steal.and_then(|before| Some(steal::Steal::read([self.first, self.second])?.since(before)));
        Ok(Report {
            cpus: [self.first, self.second],
            verdict: judge::verdict(&seen),
            windows,
            steal_percent,
            took: began.elapsed(),
        })
    }
}

/// What a [`Probe`] found. Prints as some lines of text.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// The cpu that was timed, and the one that was busy or not.
    pub cpus: [usize; 2],
    /// The answer.
    pub verdict: Verdict,
    /// The evidence, in order of time. Where the answer changed is where neighbours differ.
    pub windows: Vec<Window>,
    /// Time that the hypervisor took from the two cpus meanwhile, in percent, as `/proc/stat` counts it; `None` where it
    /// does not.
    pub steal_percent: Option<f64>,
    /// How long it took.
    pub took: Duration,
}

impl Report {
    /// How many windows were seen to be shared, separate, and neither.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let count = |is: fn(&Seen) -> bool| self.windows.iter().filter(|window| is(&window.seen)).count();
        Counts {
            shared: count(|seen| *seen == Seen::Shared),
            separate: count(|seen| *seen == Seen::Separate),
            unclear: count(|seen| matches!(seen, Seen::Unclear(_))),
        }
    }

    /// What a tight spin takes from the first cpu, and what PAUSEs give back: what a lane's manners are worth here to a neighbour that
    /// wants all integer units of its core. Of five windows that saw sharing, at least; `None` if there are fewer, or there is nothing to give back.
    ///
    /// How much a PAUSE gives back is the processor's affair, and other neighbours lose and regain other parts. One that waits for memory most of the time loses little.
    #[must_use]
    pub fn given_back(&self) -> Option<GivenBack> {
        let paces = |of: fn(&Window) -> Option<f64>| -> Vec<f64> {
            self.windows.iter().filter(|window| window.seen == Seen::Shared).filter_map(of).collect()
        };
        judge::given_back(&mut paces(|window| window.spin), &mut paces(|window| window.pauses))
    }

    /// When the answer changed: each first window whose clear answer is not that of the last clear one before.
    #[must_use]
    pub fn changes(&self) -> Vec<&Window> {
        let mut last = None;
        let changed = |window: &&Window| {
            let before = last.replace(window.seen);
            before.is_some_and(|before| before != window.seen)
        };
        self.windows.iter().filter(|window| !matches!(window.seen, Seen::Unclear(_))).filter(changed).collect()
    }
}

/// Windows by their answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The two cpus shared a core.
    pub shared: usize,
    /// They did not.
    pub separate: usize,
    /// Nobody can say.
    pub unclear: usize,
}

/// A stretch of time with an answer of its own, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Window {
    /// The answer.
    pub seen: Seen,
    /// When it began, from the prober's start.
    pub at: Duration,
    /// How long it took.
    pub took: Duration,
    /// Pace beside work against pace beside idleness; `None` if too few rounds were left alone.
    pub ratio: Option<Ratio>,
    /// Pace beside a tight spin against pace beside idleness, the median; `None` if there is none. Part of the evidence, not
    /// of the decision: how much a spin without PAUSE takes from its sibling depends on the processor.
    pub spin: Option<f64>,
    /// The same beside a spin with a PAUSE after each look.
    pub pauses: Option<f64>,
    /// Rounds that count.
    pub rounds: usize,
    /// Rounds with a slot that was disturbed.
    pub dropped: usize,
}

/// Checks a knob.
fn within(knob: &'static str, value: Duration, least: Duration, most: Duration) -> Result<(), ProbeError> {
    if (least..=most).contains(&value) { Ok(()) } else { Err(ProbeError::Knob { knob, value, least, most }) }
}

/// What a probe takes unless told otherwise: forty windows, enough to see two cpus that share a core a tenth of the time.
const TOTAL: Duration = Duration::from_secs(2);
/// Start, one window and the end.
const TOTAL_MIN: Duration = Duration::from_millis(50);
/// A minute of two busy cpus is more than anybody asks for by intention.
const TOTAL_MAX: Duration = Duration::from_secs(60);
/// About forty rounds.
const WINDOW: Duration = Duration::from_millis(50);
/// Nine rounds, two more than the least that an interval can be had of.
const WINDOW_MIN: Duration = Duration::from_millis(10);
/// Whatever floats, floats faster.
const WINDOW_MAX: Duration = Duration::from_secs(1);
/// For both threads to run on their cpus: some hundred microseconds, unless others are in the way.
const START_MAX: Duration = Duration::from_millis(500);
/// How much later than a window its answer may come: as long as a busy scheduler keeps a thread waiting now and then.
const LATE_MAX: Duration = Duration::from_millis(5);
/// For both threads to end. Each looks for the word after every step, of some 20 us.
const END_MAX: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn window(seen: Seen) -> Window {
        Window { seen, at: Duration::ZERO, took: WINDOW, ratio: None, spin: None, pauses: None, rounds: 0, dropped: 0 }
    }

    #[test]
    fn changes_are_where_clear_answers_differ() {
        let unclear = Seen::Unclear(Doubt::Starved);
        let answers = [Seen::Shared, unclear, Seen::Shared, Seen::Separate, unclear, Seen::Shared, Seen::Shared];
        let mut windows: Vec<Window> = answers.into_iter().map(window).collect();
        for (at, window) in windows.iter_mut().enumerate() {
            window.at = WINDOW * at as u32;
        }
        let report = Report {
            cpus: [0, 1],
            verdict: Verdict::Floating { shared_windows: 4, windows: 5 },
            windows,
            steal_percent: None,
            took: TOTAL,
        };
        let at: Vec<Duration> = report.changes().iter().map(|window| window.at).collect();
        assert_eq!(at, [3 * WINDOW, 5 * WINDOW]);
        assert_eq!(report.counts(), Counts { shared: 4, separate: 1, unclear: 2 });
    }

    #[test]
    fn knobs_out_of_range_are_refused_by_name() {
        let ms = Duration::from_millis;
        let table = [
            (Probe::of(0, 1).total(ms(49)), "total"),
            (Probe::of(0, 1).total(Duration::from_secs(61)), "total"),
            (Probe::of(0, 1).window(ms(9)), "window"),
            (Probe::of(0, 1).total(ms(100)).window(ms(101)), "window"),
            (Probe::of(0, 1).window(Duration::MAX), "window"),
        ];
        for (probe, knob) in table {
            let refused = probe.run();
            assert!(matches!(&refused, Err(ProbeError::Knob { knob: named, .. }) if *named == knob), "{refused:?}");
        }
    }
}
