//! How long to wait after this pass, and how? A pure function of what the lane saw. The laboratory (`sim::lab`) runs this very code.
//!
//! The rule for a doze: what a pass after a wait loses should equal, at the price of latency, what the wait is expected to
//! cost in latency. For events that come independently of each other that is a constant wait; within a burst it is none; in
//! a lull it grows; and shortly before events are due it stops short. So the lane learns how soon events come after so much
//! idle time, and how many of them a wait makes late together ([`gaps`]); the price is whatever makes `mean_added` come true
//! ([`budget`]). From there a wait is cut down by the tightest of
//!
//! - the wait that spends the wanted share of idle time in relief (`duty_percent`), since more is worth little;
//! - `max_added`, and the next deadline;
//! - what is left of the budget, for each of the events that would be late together;
//! - four passes and a PAUSE for the first wait after an event.
//!
//! What waits were seen to take beyond what was asked is taken off. Less than a PAUSE is carried over to the next wait.
//! With none of the budget left, or if relief is not wanted, there is no wait at all; with a budget of nothing from the start, one
//! PAUSE after each empty pass, uncharged.
//!
//! Charged is what was chosen. An interrupt that falls into a wait, or a hypervisor that takes the cpu for milliseconds, makes
//! many events late, but nobody waited for that: charged, one such accident would be a debt of minutes, and it did keep real lanes
//! from waiting at all. Waits that are late one after the other are another matter, and charged in full.
//!
//! Where a store ends the wait (a *watch*), an event is late by no more than leaving the wait takes: watches replace dozes
//! that would be longer than that.
//!
//! Parking: after `park_after` without an event, where the lane may; later if as a rule events come before a wake would have
//! paid for itself; and sooner where events are known to be seldom, so that a lane with a thousand events a second does not poll
//! for a fifth of its time. A sooner park that turns out to have been a short one puts the next off, for twice as many events each time. Within the bound ([`Park::WithinBound`]), a wake is charged like any wait, and a park is chosen
//! where it is cheaper than what dozing would lose. What wakes cost is learnt by how long the lane slept. A park that ends
//! at once and brings nothing doubles the idle time before the next, up to [`FRUITLESS_IDLE_MAX_NS`], so that an fd that is
//! always ready, or a wait that a hypervisor makes a no-op, costs a few attempts a second; an event, or a park that was
//! worth its wake, resets it. Time decides, never a count of passes: waits that return at once still lead to a park.
//!
//! [`Guards`] say where spinning cannot help: with a quota, the lane parks soon; where others need this cpu to bring the
//! event, it parks at once, or yields.
//!
//! What holds for every sequence of inputs (I2 to I9 of the tests below), including clocks that jump: a doze is never longer
//! than `max_added`, nor than the time to the next deadline; there is none while the budget is overdrawn (a PAUSE if there is no budget); it is
//! four passes and a PAUSE at most right after an event; what is charged exceeds what was granted by at most 64 events'
//! worth and the last busy period; nothing wraps around.

mod budget;
mod gaps;

use self::budget::Budget;
use self::gaps::{Costs, Gaps, Plan};
use super::clock::{Rate, Ticks};
use super::policy::{Charge, Park, Settings};

/// What the lane saw in one pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation {
    /// The end of the pass.
    pub(crate) now: Ticks,
    /// What the pass took.
    pub(crate) pass_ticks: u64,
    /// Arrivals that waited for this pass; 0 makes it an empty pass.
    pub(crate) events: u32,
    /// A poller did work of its own for which nobody waited: no event, but no measure of an empty pass either.
    pub(crate) housekeeping: bool,
    /// Somebody gains from a wait now.
    pub(crate) relief_wanted: bool,
    /// When a timer of the lane is due, if one is armed.
    pub(crate) next_deadline: Option<Ticks>,
    /// All pollers can be woken, and agree to park.
    pub(crate) can_park: bool,
    /// The store that brings an event ends a wait: every poller's line is watched.
    pub(crate) can_watch: bool,
}

/// What the lane is to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Step {
    /// The next pass, at once.
    Again,
    /// Wait in user mode for so many ticks (never 0), and report with [`Controller::dozed`].
    Doze {
        /// How long.
        ticks: u64,
    },
    /// As `Doze`, until a store to a watched line ends it.
    Watch {
        /// How long at most.
        ticks: u64,
    },
    /// Let others have the cpu, because they need it to bring the event.
    Yield,
    /// Block until woken, or until the instant given, and report with [`Controller::parked`].
    Park {
        /// The next deadline.
        until: Option<Ticks>,
    },
}

/// How an attempt to park went. To be told after the first pass that follows, and before that pass is observed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parked {
    /// The instant now.
    pub(crate) now: Ticks,
    /// Ticks for which the lane was blocked; 0 if a poller refused, or news came first.
    pub(crate) slept: u64,
    /// From the ring (or the deadline) to the lane running again, where it is known.
    pub(crate) wake_ticks: Option<u64>,
    /// The wake was for something: an event, a message to the lane, a timer.
    pub(crate) fruitful: bool,
}

/// Reasons for which a spinning lane gains nothing, or keeps from running what it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Guards {
    /// The process has a quota of cpu time (or was throttled): what a lane spins away is missing later.
    pub(crate) quota: bool,
    /// More lanes than cpus.
    pub(crate) oversubscribed: bool,
    /// The process may use one cpu.
    pub(crate) single_cpu: bool,
    /// Whoever brings the events runs on this lane's cpu.
    pub(crate) shared_cpu: bool,
    /// The kernel takes the cpu away for others more often than on a cpu that the lane has to itself.
    pub(crate) crowded: bool,
    /// The lane has a real-time priority above that of whoever brings the events.
    pub(crate) realtime: bool,
}

impl Guards {
    /// Others need this very cpu.
    fn must_step_aside(self) -> bool {
        self.oversubscribed || self.single_cpu || self.shared_cpu || self.realtime
    }
}

/// What was measured when the lane started may no longer be so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// The clock went backwards, or leapt: a virtual machine was moved, or the cpu's counter is behind another's.
    ClockJumped,
    /// Waits take more than twice what was asked, again and again: PAUSE is another here. The lane may have been moved to
    /// another kind of core.
    PauseChanged,
}

/// The state of one lane's waiting.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    bounds: Bounds,
    /// Average cost of an empty pass, times [`AVERAGE_OVER`]; 0 while none was seen.
    pass: u64,
    /// Average of what dozes took beyond what was asked, times [`AVERAGE_OVER`].
    overshoot: u64,
    /// The same for watches that a store ended: what leaving one takes.
    exit: u64,
    /// The last event, or the first pass. `None` before it.
    idle_since: Option<Ticks>,
    /// The pass before this one.
    seen_at: Ticks,
    /// Dozes in a row that took more than twice what was asked.
    slow_dozes: u32,
    /// Dozes in a row that took more than usual.
    late_dozes: u32,
    /// When the lane last doubted that every wait would take too long.
    doubted: Ticks,
    suspicion: Option<Suspicion>,
    /// A park lies between the last pass and this one.
    asleep: bool,
    guards: Guards,
    /// The wait before the pass that is observed.
    last: Last,
    /// What holds for a while of idle time.
    segment: Segment,
    /// The busy period that is not yet settled.
    busy: Busy,
    budget: Budget,
    gaps: Gaps,
    plan: Plan,
    planned: Planned,
    /// What the last wait fell short of what was wanted: less than a PAUSE.
    carry: u64,
    dice: u32,
    /// Parking is considered from here on.
    park_from: Ticks,
    /// Idle time that is wanted before the next park.
    park_idle: u64,
    /// What a wake costs: rises at once, falls slowly.
    wake: u64,
    wake_known: bool,
    /// What a wake costs on average, by the octave of the sleep.
    wakes: [f32; 32],
    sooner: Sooner,
}

/// The last empty pass and the wait after it: what the wait took, what it may cost an event, whether something else than the budget
/// kept it short, and whether it was cut off by a preemption.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    pass: u64,
    took: u64,
    charge: u64,
    bound: bool,
    excused: bool,
}

/// Parks before `park_after`, where events are seldom.
#[derive(Clone, Copy, Debug, Default)]
struct Sooner {
    /// The park that was asked for last is one.
    asked: bool,
    /// None for so many busy periods.
    put_off: u32,
    /// How many the next short one puts off; 0: one.
    penalty: u32,
}

/// Events since the last empty pass, and the idle time and the wait that went before them.
#[derive(Clone, Copy, Debug, Default)]
struct Busy {
    events: u32,
    /// Events, each counted by how much of the wait it was made late by; times 2^[`FADE_FRACTION`].
    late: u64,
    fade: u64,
    /// Events of the pass before, and what it took beyond an empty one.
    batch: u32,
    beyond: u64,
    /// The wait before the first event, or an empty pass if that takes longer.
    span: u64,
    idle: u64,
    charge: u64,
    bound: bool,
    /// The lane did not run for a while before them: they say nothing about the traffic, nor about waits.
    excused: bool,
}

/// A stretch of idle time for which the plan says the same, so that most passes cost a few additions. All zero is the one
/// that is over.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    /// Idle time at which it ends.
    until: u64,
    /// The cycle, and the one of the next bin, into which no cycle reaches further than that.
    cycle: u64,
    next_cycle: u64,
    /// Where the next bin starts.
    edge: u64,
    /// What a cycle has beside the wait.
    lost: u64,
    /// The longest wait; 0 if the budget is overdrawn.
    most: u64,
    overshoot: u64,
    /// Watch instead.
    watch: bool,
}

/// When the plan was made.
#[derive(Clone, Copy, Debug, Default)]
struct Planned {
    scale: f32,
    settled: u32,
}

/// The settings in ticks.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    park: Park,
    charge: Charge,
    mean: u64,
    max_added: u64,
    park_after: u64,
    /// The wait for a pass of one tick, with [`KAPPA_FRACTION`] fractional bits.
    kappa: u64,
    pause: u64,
    preempted_min: u64,
    /// [`LOOK_NS`].
    look: u64,
    /// [`DOUBT_NS`].
    doubt: u64,
    /// [`OVERSHOOT_TIMES`], as `Controller::overshoot` has it.
    overshoot_most: u64,
    fruitless_idle_max: u64,
    park_entry: u64,
    /// Two passes further apart than this, without a park between them, are not to be explained.
    leap: u64,
}

/// Averages move by an eighth of the difference at each sample. A power of two: the hot path shifts.
const AVERAGE_OVER: u64 = 8;
/// Bits behind the point of `Bounds::kappa`.
const KAPPA_FRACTION: u32 = 8;
/// Bits behind the point of `Busy::late`.
const FADE_FRACTION: u32 = 8;
/// Events that came while others were handled are taken to be late by less and less: a third less with each pass.
const FADE_PART: u64 = 3;
/// The first wait after an event is at most so many passes and a PAUSE.
const FIRST_PASSES: u64 = 4;
/// A pass that takes more than this many average ones counts as this many. One that was preempted would otherwise make
/// waits long for a while; a pass that really became dearer is learnt within a few passes all the same.
const PASS_OUTLIER: u64 = 8;
/// A doze that takes more than so many times what was asked and is usually added is late...
const LATE_TIMES: u64 = 2;
/// ... and so many in a row, without one on time between them, are no accident: interrupts and preemptions hit one doze in hundreds.
const LATE_DOZES: u32 = 2;
/// What waits usually take beyond what was asked is known up to so many times `max_added`. From once that on nobody waits; what is above would only have to
/// be forgotten before somebody tries again.
const OVERSHOOT_TIMES: u64 = 2;
/// 10 ms: while every wait is taken to last beyond `max_added`, nothing tells when that is over: two waits in a row that were preempted look like it. So an eighth of what
/// is known is forgotten each time, and after some 50 ms a wait is tried. Where they really take 43 us beyond what was asked, some ten to a hundred waits a second are such trials.
const DOUBT_NS: u64 = 10_000_000;
/// A doze that took more than this many times what was asked, and more than [`PREEMPTED_MIN_NS`], was preempted:
/// nothing to learn.
const PREEMPTED_TIMES: u64 = 4;
/// 20 us: no wait in user mode overshoots by as much of its own.
const PREEMPTED_MIN_NS: u64 = 20_000;
/// 100 us: what a wake is taken to cost until one was measured. Virtual machines show 26 to 85 us at the median.
const WAKE_UNKNOWN_NS: u64 = 100_000;
/// 100 ms: the longest idle time that a run of fruitless parks demands: ten attempts a second, each of some
/// microseconds.
const FRUITLESS_IDLE_MAX_NS: u64 = 100_000_000;
/// 1 s: no pass and no doze takes so long, unless the machine stood still.
const LEAP_NS: u64 = 1_000_000_000;
/// 40 ns: what a lane does around a wait, two looks at the clock among it, 20 ns where it was measured. A single PAUSE takes as long: without this, each
/// of them looks slow.
const LOOK_NS: u64 = 40;
/// A doze is slow if it takes more than so many times what was asked, and [`LOOK_NS`]...
const SLOW_TIMES: u64 = 2;
/// ... and so many slow ones in a row are no accident.
const SLOW_DOZES: u32 = 32;
/// With a quota, or on a crowded cpu, a lane spins for this part of what a wake costs.
const QUOTA_WAKE_PART: u64 = 4;
/// A plan may put a park off until so many times `park_after`, no longer.
const PUT_OFF_TIMES: u64 = 8;
/// A sooner park of less than so many wakes was too soon.
const SHORT_WAKES: u64 = 2;
/// Sooner parks are put off for so many busy periods at most.
const PUT_OFF_MAX: u32 = 256;
/// Events are seldom if so many times `park_after` is to be expected: most of the idle time would be parked anyway.
const SELDOM_TIMES: u64 = 2;
/// A segment ends after so many ticks even within its bin, for the sake of averages that move.
const SEGMENT_MAX: u64 = 1 << 16;
/// 100 ns: what leaving a watched wait takes, until it is known.
const EXIT_GUESS_NS: u64 = 100;
/// 2 us: what going to sleep takes (arming, a full pass, a system call).
const PARK_ENTRY_NS: u64 = 2_000;
/// 50 us: what a wake costs on average, until it is known.
const WAKE_GUESS_NS: u64 = 50_000;
/// The plan is made anew after so many busy periods...
const PLAN_AFTER: u32 = 32;
/// ... or when the scale moved by this factor.
const PLAN_SCALE: f32 = 1.08;

impl Controller {
    /// A controller for a lane whose clock ticks at `rate`, and on whose cpu one PAUSE takes `pause_ticks`.
    pub(crate) fn new(settings: &Settings, rate: Rate, pause_ticks: u64) -> Self {
        let park_after = rate.ticks_from(settings.park_after);
        let duty = u64::from(settings.duty_percent);
        let bounds = Bounds {
            park: settings.park,
            charge: settings.charge,
            mean: rate.ticks_from(settings.mean_added),
            max_added: rate.ticks_from(settings.max_added),
            park_after,
            // duty = wait / (wait + pass), solved for the wait.
            kappa: if duty < 100 { (duty << KAPPA_FRACTION) / (100 - duty) } else { u64::MAX },
            pause: pause_ticks.max(1),
            preempted_min: rate.ticks_from_ns(PREEMPTED_MIN_NS),
            look: rate.ticks_from_ns(LOOK_NS),
            doubt: rate.ticks_from_ns(DOUBT_NS),
            overshoot_most: overshoot_most(rate.ticks_from(settings.max_added)),
            fruitless_idle_max: rate.ticks_from_ns(FRUITLESS_IDLE_MAX_NS).max(park_after),
            park_entry: rate.ticks_from_ns(PARK_ENTRY_NS),
            leap: rate.ticks_from_ns(LEAP_NS),
        };
        Self {
            bounds,
            pass: 0,
            overshoot: 0,
            exit: rate.ticks_from_ns(EXIT_GUESS_NS) * AVERAGE_OVER,
            idle_since: None,
            seen_at: Ticks(0),
            slow_dozes: 0,
            late_dozes: 0,
            doubted: Ticks(0),
            suspicion: None,
            asleep: false,
            guards: Guards::default(),
            last: Last::default(),
            segment: Segment::default(),
            busy: Busy::default(),
            budget: Budget::new(bounds.mean),
            gaps: Gaps::new(),
            plan: Plan::new(),
            planned: Planned::default(),
            carry: 0,
            dice: 0x9E37_79B9,
            park_from: Ticks(0),
            park_idle: park_after,
            wake: rate.ticks_from_ns(WAKE_UNKNOWN_NS),
            wake_known: false,
            wakes: [rate.ticks_from_ns(WAKE_GUESS_NS) as f32; 32],
            sooner: Sooner::default(),
        }
    }

    /// Decides the next step. A few nanoseconds for an empty pass; some hundred for the first one after every 32nd busy
    /// period, when the plan is made anew.
    #[inline(always)] // So that what the lane knows anyway is not stored and read back.
    pub(crate) fn observe(&mut self, seen: &Observation) -> Step {
        self.watch_clock(seen.now);
        if seen.events > 0 {
            self.found(seen);
            return Step::Again;
        }
        let first = self.busy.events > 0;
        if first {
            self.settle(seen);
        }
        let idle = self.idle_for(seen);
        self.learn_pass(seen);
        self.last = Last { pass: seen.pass_ticks, ..Last::default() };
        if seen.can_park && self.wants_park(seen, idle) {
            self.sooner.asked = idle < self.bounds.park_after;
            return Step::Park { until: seen.next_deadline };
        }
        if self.guards.must_step_aside() {
            self.last.bound = true;
            return Step::Yield;
        }
        if !seen.relief_wanted {
            // What is not spent now says nothing about the scale.
            self.last.bound = true;
            return Step::Again;
        }
        self.wait(seen, idle, first)
    }

    /// What keeps spinning from helping has changed.
    pub(crate) fn guard(&mut self, guards: Guards) {
        if self.guards == guards {
            return;
        }
        self.guards = guards;
        self.park_idle = self.park_after();
        self.park_from = self.idle_since.map_or(Ticks(0), |since| since.after(self.park_idle));
    }

    /// What should be measured anew, if anything; asking clears it. To be asked now and then.
    pub(crate) fn suspicion(&mut self) -> Option<Suspicion> {
        self.suspicion.take()
    }

    /// What one PAUSE takes, measured anew: after a [`Suspicion`], or on another cpu. What was learnt of waits is dropped.
    pub(crate) fn recalibrated(&mut self, pause_ticks: u64) {
        self.bounds.pause = pause_ticks.max(1);
        (self.overshoot, self.slow_dozes, self.late_dozes, self.carry) = (0, 0, 0, 0);
        self.segment = Segment::default();
    }

    /// What leaving a watched wait takes, as measured.
    pub(crate) fn exit_takes(&mut self, ticks: u64) {
        self.exit = ticks.saturating_mul(AVERAGE_OVER);
    }

    /// Other bounds, within the ranges of [`Settings`]; what was learnt of the traffic stays.
    pub(crate) fn rebound(&mut self, mean: u64, max_added: u64) {
        if (mean, max_added) == (self.bounds.mean, self.bounds.max_added) {
            return;
        }
        (self.bounds.mean, self.bounds.max_added) = (mean, max_added);
        self.bounds.overshoot_most = overshoot_most(max_added);
        self.budget = Budget::new(mean);
        self.planned = Planned::default();
        (self.segment, self.last, self.carry) = (Segment::default(), Last::default(), 0);
    }

    /// Pollers came to a lane that had none: no idle time went before, and no wait.
    pub(crate) fn begin(&mut self) {
        (self.idle_since, self.last, self.busy) = (None, Last::default(), Busy::default());
        (self.segment, self.carry) = (Segment::default(), 0);
    }

    /// All that was charged since the start, in ticks; events earn, and are charged, one by one.
    pub(crate) fn charged(&self) -> u64 {
        self.budget.charged()
    }

    /// What may be spent now, in ticks; negative while in debt.
    pub(crate) fn balance(&self) -> i64 {
        self.budget.balance()
    }

    /// What an empty pass takes on average, in ticks.
    pub(crate) fn pass(&self) -> u64 {
        self.pass / AVERAGE_OVER
    }

    /// Learns from a doze that `took` so long where `asked` was wanted. One that news cut short teaches nothing.
    #[inline]
    pub(crate) fn dozed(&mut self, asked: u64, took: u64) {
        // What an interrupt or a preemption adds to a wait now and then is nobody's choice: hardly learnt, and not charged. What is
        // added to one wait after the other (a limit of the operating system, an emulator) is both.
        let usual = asked.saturating_add(self.overshoot / AVERAGE_OVER).saturating_mul(LATE_TIMES);
        self.late_dozes = if took > usual { self.late_dozes.saturating_add(1) } else { 0 };
        let chosen = if self.late_dozes < LATE_DOZES { took.min(usual) } else { took };
        if took >= asked {
            self.overshoot = averaged(self.overshoot, chosen - asked).min(self.bounds.overshoot_most);
        } else {
            // Whole PAUSEs fall short by less than one. By more, news cut the doze short.
            self.carry = if asked - took < self.bounds.pause { asked - took } else { 0 };
        }
        let beyond = took - chosen;
        let slow = took > asked.saturating_mul(SLOW_TIMES).saturating_add(self.bounds.look)
            && took <= self.bounds.preempted_min.max(asked.saturating_mul(PREEMPTED_TIMES));
        self.slow_dozes = if slow { self.slow_dozes + 1 } else { 0 };
        if self.slow_dozes >= SLOW_DOZES {
            self.slow_dozes = 0;
            self.suspicion = Some(Suspicion::PauseChanged);
        }
        self.last.excused = beyond > self.bounds.preempted_min;
        self.last.took = took;
        self.last.charge = match self.bounds.charge {
            Charge::Expected => chosen / 2,
            Charge::Strict => chosen,
        };
    }

    /// A doze that was one PAUSE, which nobody timed: taken to be as long as a PAUSE is known to be, charged so, and nothing is learnt from it. Now and then
    /// one has to be timed, and told by [`dozed`](Self::dozed): by those it is found out if PAUSE is another here.
    #[inline]
    pub(crate) fn paused(&mut self, asked: u64) {
        let took = self.bounds.pause;
        if let Some(short) = asked.checked_sub(took) {
            self.carry = short.min(took - 1);
        }
        self.last.took = took;
        self.last.charge = match self.bounds.charge {
            Charge::Expected => took / 2,
            Charge::Strict => took,
        };
    }

    /// Learns from a watch that `took` so long.
    #[inline]
    pub(crate) fn watched(&mut self, took: u64) {
        self.last.took = took;
        let exit = self.exit / AVERAGE_OVER;
        self.last.charge = match self.bounds.charge {
            Charge::Expected => exit.saturating_sub(self.pass / AVERAGE_OVER / 2).min(took),
            Charge::Strict => exit.min(took),
        };
    }

    /// Learns from an attempt to park.
    pub(crate) fn parked(&mut self, park: &Parked) {
        self.asleep = true;
        if let Some(wake) = park.wake_ticks {
            // Rises at once and falls by an eighth: nearer to the worst wake than to the usual one.
            let octave = (park.slept.max(1).ilog2() as usize).min(31);
            if !self.wake_known {
                self.wakes = [wake as f32; 32];
            }
            // Longer sleeps end no sooner, and shorter ones no later, than this one, as far as is known.
            let known = &mut self.wakes[octave];
            *known += (wake as f32 - *known) / AVERAGE_OVER as f32;
            self.wake = match self.wake {
                known if self.wake_known && wake < known => known - (known - wake) / AVERAGE_OVER,
                _ => wake,
            };
            self.wake_known = true;
            if self.bounds.park == Park::WithinBound {
                self.last = Last { took: park.slept, charge: wake, ..Last::default() };
            }
        }
        if std::mem::take(&mut self.sooner.asked) && park.slept > 0 {
            self.sooner.learn(park.slept < self.wake.saturating_mul(SHORT_WAKES));
        }
        // A sleep that was longer than the wake it cost was worth it, whatever it brought.
        self.park_idle = if park.fruitful || park.slept > self.wake {
            self.park_after()
        } else {
            self.park_idle.max(1).saturating_mul(2).min(self.bounds.fruitless_idle_max)
        };
        self.park_from = park.now.after(self.park_idle);
    }

    #[inline(never)] // Keeps the registers that it needs out of the way of empty passes.
    fn found(&mut self, seen: &Observation) {
        let late_part = if self.busy.events == 0 {
            let start = seen.now.0.saturating_sub(seen.pass_ticks);
            let idle = self.idle_since.map_or(0, |since| start.saturating_sub(since.0));
            // The event came at some instant of the wait, or of the empty pass before it: any is as likely.
            let span = (self.last.took + self.pass / AVERAGE_OVER).min(idle);
            self.dice ^= self.dice << 13;
            self.dice ^= self.dice >> 17;
            self.dice ^= self.dice << 5;
            let part = ((u128::from(span) * u128::from(self.dice)) >> 32) as u64;
            self.busy.idle = idle - part;
            self.busy.charge = self.last.charge;
            self.busy.bound = self.last.bound;
            let outlier = self.pass.saturating_mul(PASS_OUTLIER) / AVERAGE_OVER;
            let pass_preempted = self.last.pass > self.bounds.preempted_min.max(outlier);
            self.busy.excused = self.last.excused || pass_preempted;
            self.busy.fade = 1 << FADE_FRACTION;
            self.busy.span = self.last.took.max(self.pass / AVERAGE_OVER);
            self.busy.fade
        } else {
            self.late_part(seen.events)
        };
        self.busy.batch = seen.events;
        self.busy.beyond = seen.pass_ticks.saturating_sub(self.pass / AVERAGE_OVER);
        self.busy.late = self.busy.late.saturating_add(late_part * u64::from(seen.events));
        if self.bounds.charge == Charge::Expected {
            self.busy.fade -= self.busy.fade / FADE_PART;
        }
        self.last = Last::default();
        self.busy.events = self.busy.events.saturating_add(seen.events);
        self.restart(seen.now);
    }

    /// How much of the wait made the events of a later pass of the busy period late, times 2^[`FADE_FRACTION`].
    ///
    /// What the pass before did not find came after that had begun, and is late by no more than that took, however long the wait
    /// was. Only a poller that takes so many events a call leaves some behind, and takes as many again in the next: then they count as
    /// late by the wait, a third less with each pass. Among several pollers, one that leaves some behind may go unnoticed for the
    /// pass in which another finds less than before; strict accounting knows no such guess.
    fn late_part(&self, events: u32) -> u64 {
        let Busy { fade, batch, beyond, span, .. } = self.busy;
        if self.bounds.charge == Charge::Strict || events >= batch {
            return fade;
        }
        fade.min(beyond.saturating_mul(1 << FADE_FRACTION) / span.max(1))
    }

    /// The busy period is over: accounts for it, and learns from it.
    #[inline(never)]
    fn settle(&mut self, seen: &Observation) {
        let Busy { events, late, idle, charge, bound, excused, .. } = std::mem::take(&mut self.busy);
        self.sooner.put_off = self.sooner.put_off.saturating_sub(1);
        if excused {
            // The wait that was chosen made one event late, if any.
            return self.budget.settle(1, charge, true);
        }
        self.gaps.record(idle, late as f32 / (1 << FADE_FRACTION) as f32, events);
        self.budget.settle(events, charge.saturating_mul(late) >> FADE_FRACTION, bound);
        self.planned.settled += 1;
        let moved = self.budget.scale() / self.planned.scale;
        if self.planned.settled >= PLAN_AFTER || !(1.0 / PLAN_SCALE..PLAN_SCALE).contains(&moved) {
            self.plan_anew(seen);
        }
    }

    #[cold]
    #[inline(never)]
    fn plan_anew(&mut self, seen: &Observation) {
        // Where nothing but the overshoot keeps the lane from waiting, no wait would tell that it is over; see also `doubt`.
        self.overshoot -= self.overshoot / AVERAGE_OVER;
        self.planned = Planned { scale: self.budget.scale(), settled: 0 };
        if self.bounds.mean == 0 && self.bounds.park == Park::Never {
            // Nothing is asked of it, and a lane that may add no latency has no time to spare.
            return;
        }
        let pass = self.pass / AVERAGE_OVER;
        let loss = pass + self.overshoot / AVERAGE_OVER;
        let costs = Costs {
            loss: loss.max(1) as f32,
            cycle_max: self.bounds.max_added.saturating_add(pass) as f32,
            cycle_min: (pass + self.bounds.pause) as f32,
            wakes: (self.bounds.park != Park::Never && seen.can_park).then_some(&self.wakes),
            park_entry: self.bounds.park_entry as f32,
            seldom: self.bounds.park_after.saturating_mul(SELDOM_TIMES) as f32,
            store_exit: seen.can_watch.then_some((self.exit / AVERAGE_OVER) as f32),
        };
        self.gaps.plan(self.planned.scale, &costs, &mut self.plan);
    }

    /// Idle time starts anew, and with it everything that grows with it.
    fn restart(&mut self, now: Ticks) {
        self.idle_since = Some(now);
        self.park_idle = self.park_after();
        self.park_from = now.after(self.park_idle);
        self.segment = Segment::default();
    }

    /// Idle time before a park, as the guards have it.
    fn park_after(&self) -> u64 {
        let guarded = match self.guards {
            guards if guards.must_step_aside() => 0,
            Guards { quota: true, .. } | Guards { crowded: true, .. } => self.wake / QUOTA_WAKE_PART,
            _ => u64::MAX,
        };
        let seldom = if self.sooner.put_off == 0 && self.bounds.park == Park::WhenArmed {
            self.plan.seldom_from.max(self.bounds.park_entry)
        } else {
            u64::MAX
        };
        self.bounds.park_after.min(guarded).min(seldom)
    }

    #[inline(always)]
    fn watch_clock(&mut self, now: Ticks) {
        // Backwards, or a leap that no wait explains.
        if now.0.wrapping_sub(self.seen_at.0) > self.bounds.leap {
            self.clock_jumped();
        }
        (self.seen_at, self.asleep) = (now, false);
    }

    #[cold]
    #[inline(never)]
    fn clock_jumped(&mut self) {
        if self.seen_at != Ticks(0) && !self.asleep {
            self.suspicion = Some(Suspicion::ClockJumped);
        }
    }

    /// Idle time so far. Starts it with the first pass, and anew where the clock jumped back behind it.
    #[inline(always)]
    fn idle_for(&mut self, seen: &Observation) -> u64 {
        match self.idle_since {
            Some(since) if since <= seen.now => seen.now.since(since),
            _ => {
                self.restart(seen.now);
                0
            }
        }
    }

    #[inline(always)]
    fn learn_pass(&mut self, seen: &Observation) {
        if self.pass == 0 {
            self.first_pass(seen);
        } else if !seen.housekeeping {
            self.pass = averaged(self.pass, seen.pass_ticks.min(self.pass.saturating_mul(PASS_OUTLIER) / AVERAGE_OVER));
        }
    }

    #[cold]
    #[inline(never)]
    fn first_pass(&mut self, seen: &Observation) {
        // Whatever the first pass was, it is the best guess there is.
        self.pass = seen.pass_ticks.saturating_mul(AVERAGE_OVER);
        self.plan_anew(seen);
    }

    #[inline]
    fn wants_park(&mut self, seen: &Observation, idle: u64) -> bool {
        // Never further away than what is wanted, unless the clock jumped back.
        if self.park_from.since(seen.now) > self.park_idle {
            self.park_from = seen.now.after(self.park_idle);
        }
        if seen.now < self.park_from {
            return false;
        }
        let allowed = match self.bounds.park {
            Park::Never => false,
            Park::WhenArmed => {
                self.guards.must_step_aside()
                    || idle >= self.plan.worth_from.min(self.bounds.park_after.saturating_mul(PUT_OFF_TIMES))
            }
            Park::WithinBound => {
                self.wake <= self.bounds.max_added
                    && (self.guards.must_step_aside() || (idle >= self.plan.park_from && self.budget.balance() > 0))
            }
        };
        // A timer that is due before the wake would pay for itself is waited for awake.
        allowed && seen.next_deadline.is_none_or(|deadline| deadline.since(seen.now) > self.wake)
    }

    #[inline(always)]
    fn wait(&mut self, seen: &Observation, idle: u64, first: bool) -> Step {
        if idle >= self.segment.until {
            self.enter_segment(seen, idle);
        }
        let segment = &self.segment;
        // The hard bounds: not even a PAUSE goes beyond them.
        let to_deadline = seen.next_deadline.map_or(u64::MAX, |deadline| deadline.since(seen.now));
        let (pause, max_added) = (self.bounds.pause, self.bounds.max_added);
        if segment.most == 0 || max_added.min(to_deadline) < pause {
            // What is not spent now says nothing about the scale.
            self.last.bound = true;
            let only_pause = self.bounds.mean == 0 && self.bounds.charge == Charge::Expected;
            let fits = segment.overshoot.saturating_add(pause) <= max_added.min(to_deadline);
            return if only_pause && fits { Step::Doze { ticks: pause } } else { Step::Again };
        }
        if segment.watch && seen.can_watch && !first {
            return Step::Watch { ticks: max_added.min(to_deadline) };
        }
        let cycle = segment.cycle.min(segment.edge.saturating_sub(idle).saturating_add(segment.next_cycle));
        let wanted = cycle.saturating_sub(segment.lost);
        let mut most = segment.most.min(to_deadline.saturating_sub(segment.overshoot));
        if first {
            most = most.min((self.pass / AVERAGE_OVER).saturating_mul(FIRST_PASSES).saturating_add(pause));
        }
        let ticks = wanted.saturating_add(self.carry).min(most.max(pause));
        if ticks < pause {
            self.carry = ticks;
            return Step::Again;
        }
        self.carry = 0;
        self.last.bound = wanted > most;
        Step::Doze { ticks }
    }

    /// Looks up what the plan says from `idle` on.
    #[inline(never)]
    fn enter_segment(&mut self, seen: &Observation, idle: u64) {
        self.doubt(seen.now);
        let (pass, overshoot) = (self.pass / AVERAGE_OVER, self.overshoot / AVERAGE_OVER);
        let planned = self.plan.at(idle);
        let balance = u64::try_from(self.budget.balance()).unwrap_or(0);
        let spendable = match self.bounds.charge {
            Charge::Expected => planned.share_of(balance.saturating_mul(2)),
            Charge::Strict => planned.share_of(balance),
        };
        let duty_most = pass.saturating_mul(self.bounds.kappa) >> KAPPA_FRACTION;
        // One PAUSE, if the budget grants no more; none that it does not grant in strict accounting.
        let floor = match self.bounds.charge {
            Charge::Expected => self.bounds.pause,
            Charge::Strict => 0,
        };
        let most = self
            .bounds
            .max_added
            .min(spendable)
            .saturating_sub(overshoot)
            .min(duty_most.max(self.bounds.pause))
            .max(floor);
        let short = self.bounds.charge == Charge::Strict && most < self.bounds.pause;
        let late = self.is_too_late();
        self.segment = Segment {
            until: planned.edge.min(idle.saturating_add(SEGMENT_MAX)),
            cycle: planned.cycle,
            next_cycle: planned.next_cycle,
            edge: planned.edge,
            lost: pass.saturating_add(overshoot),
            most: if balance == 0 || short || late { 0 } else { most },
            overshoot,
            watch: seen.can_watch && planned.cycle > self.exit / AVERAGE_OVER,
        };
    }

    /// Even a PAUSE would last beyond `max_added`, as waits go here.
    fn is_too_late(&self) -> bool {
        (self.overshoot / AVERAGE_OVER).saturating_add(self.bounds.pause) > self.bounds.max_added
    }

    /// Forgets a part of what keeps the lane from waiting at all; see [`DOUBT_NS`].
    fn doubt(&mut self, now: Ticks) {
        // The clock may have jumped back.
        let due = now < self.doubted || now.since(self.doubted) >= self.bounds.doubt;
        if due {
            self.doubted = now;
            if self.is_too_late() {
                self.overshoot -= self.overshoot / AVERAGE_OVER;
            }
        }
    }
}

impl Sooner {
    /// A sooner park lasted too short for its wake, or did not.
    fn learn(&mut self, short: bool) {
        if short {
            self.penalty = (self.penalty * 2).clamp(1, PUT_OFF_MAX);
            self.put_off = self.penalty;
        } else {
            self.penalty /= 2;
        }
    }
}

/// See [`OVERSHOOT_TIMES`].
fn overshoot_most(max_added: u64) -> u64 {
    max_added.saturating_mul(OVERSHOOT_TIMES * AVERAGE_OVER)
}

/// The next value of a moving average, kept times [`AVERAGE_OVER`].
#[inline]
fn averaged(average: u64, sample: u64) -> u64 {
    (average - average / AVERAGE_OVER).saturating_add(sample)
}

#[cfg(test)]
mod tests;
