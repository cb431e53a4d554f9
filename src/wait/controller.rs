//! How long to wait after this pass, and how? A pure function of what the lane saw.
//!
//! The rule for a doze: a wait of `kappa` times what an empty pass takes spends the wanted share of idle time in
//! relief, whatever the pass costs. From there it is cut down by whichever bound is the tightest:
//!
//! - a quarter of the idle time so far, so that a wait delays an event by a fraction of its own gap, and bursts are
//!   left alone;
//! - twice `mean_added`, since an event at a random instant of a wait is delayed by half of it;
//! - `max_added` less what the pass takes;
//! - the next deadline.
//!
//! The last three count what waits were seen to take beyond what was asked. What is left below one PAUSE becomes one
//! PAUSE, if the hard bounds (the last two) allow it. If relief is not wanted, no wait at all.
//!
//! Parking: after `park_after` without an event, where the lane may. A park that ends at once and brings nothing
//! doubles the idle time before the next, up to [`FRUITLESS_IDLE_MAX_NS`], so that an fd that is always ready, or a
//! wait that a hypervisor makes a no-op, costs a few attempts a second; an event, or a park that was worth its wake,
//! resets it. Time decides, never a count of passes: waits that return at once still lead to a park.
//!
//! What holds for every sequence of inputs (I2, I4 to I9 of the tests below), including clocks that jump: a doze is
//! never longer than `max_added`, nor than the time to the next deadline, nor than twice `mean_added` or one PAUSE; it
//! is one PAUSE or a quarter of the pass right after an event; nothing wraps around.

use super::clock::{Rate, Ticks};
use super::policy::{Park, Settings};

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

/// The state of one lane's waiting.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    bounds: Bounds,
    /// Average cost of an empty pass, times [`AVERAGE_OVER`]; 0 while none was seen.
    pass: u64,
    /// Average of what dozes took beyond what was asked, times [`AVERAGE_OVER`].
    overshoot: u64,
    /// The last event, or the first pass. `None` before it.
    idle_since: Option<Ticks>,
    /// Parking is considered from here on.
    park_from: Ticks,
    /// Idle time that is wanted before the next park.
    park_idle: u64,
    /// What a wake costs: rises at once, falls slowly.
    wake: u64,
}

/// The settings in ticks.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    park: Park,
    /// Twice the mean.
    twice_mean: u64,
    max_added: u64,
    park_after: u64,
    /// The wait for a pass of one tick, with [`KAPPA_FRACTION`] fractional bits.
    kappa: u64,
    pause: u64,
    preempted_min: u64,
    fruitless_idle_max: u64,
}

/// Averages move by an eighth of the difference at each sample. A power of two: the hot path shifts.
const AVERAGE_OVER: u64 = 8;
const KAPPA_FRACTION: u32 = 8;
/// A wait is at most this part of the idle time so far.
const IDLE_PART: u64 = 4;
/// A pass that takes more than this many average ones counts as this many. One that was preempted would otherwise make
/// waits long for a while; a pass that really became dearer is learnt within a few passes all the same.
const PASS_OUTLIER: u64 = 8;
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

impl Controller {
    /// A controller for a lane whose clock ticks at `rate`, and on whose cpu one PAUSE takes `pause_ticks`.
    pub(crate) fn new(settings: &Settings, rate: Rate, pause_ticks: u64) -> Self {
        let park_after = rate.ticks_from(settings.park_after);
        // Presets stay below 100, at which no wait would do.
        let duty = u64::from(settings.duty_percent.min(99));
        let bounds = Bounds {
            park: settings.park,
            twice_mean: rate.ticks_from(settings.mean_added).saturating_mul(2),
            max_added: rate.ticks_from(settings.max_added),
            park_after,
            // duty = wait / (wait + pass), solved for the wait.
            kappa: (duty << KAPPA_FRACTION) / (100 - duty),
            pause: pause_ticks.max(1),
            preempted_min: rate.ticks_from_ns(PREEMPTED_MIN_NS),
            fruitless_idle_max: rate.ticks_from_ns(FRUITLESS_IDLE_MAX_NS).max(park_after),
        };
        Self {
            bounds,
            pass: 0,
            overshoot: 0,
            idle_since: None,
            park_from: Ticks(0),
            park_idle: park_after,
            wake: rate.ticks_from_ns(WAKE_UNKNOWN_NS),
        }
    }

    /// Decides the next step. After an event, or without relief and parking, it costs a few nanoseconds and no
    /// division.
    #[inline]
    pub(crate) fn observe(&mut self, seen: &Observation) -> Step {
        if seen.events > 0 {
            self.restart(seen.now);
            return Step::Again;
        }
        let idle = self.idle_for(seen);
        self.learn_pass(seen);
        if seen.can_park && self.wants_park(seen) {
            return Step::Park { until: seen.next_deadline };
        }
        if !seen.relief_wanted {
            return Step::Again;
        }
        match self.wait(seen, idle) {
            0 => Step::Again,
            ticks => Step::Doze { ticks },
        }
    }

    /// Learns from a doze that `took` so long where `asked` was wanted. One that news cut short teaches nothing.
    #[inline]
    pub(crate) fn dozed(&mut self, asked: u64, took: u64) {
        let preempted = took > asked.saturating_mul(PREEMPTED_TIMES) && took > self.bounds.preempted_min;
        if took >= asked && !preempted {
            self.overshoot = averaged(self.overshoot, took - asked);
        }
    }

    /// Learns from an attempt to park.
    pub(crate) fn parked(&mut self, park: &Parked) {
        if let Some(wake) = park.wake_ticks {
            // Rises at once and falls by an eighth: nearer to the worst wake than to the usual one.
            self.wake = if wake > self.wake { wake } else { self.wake - (self.wake - wake) / AVERAGE_OVER };
        }
        // A sleep that was longer than the wake it cost was worth it, whatever it brought.
        self.park_idle = if park.fruitful || park.slept > self.wake {
            self.bounds.park_after
        } else {
            self.park_idle.saturating_mul(2).min(self.bounds.fruitless_idle_max)
        };
        self.park_from = park.now.after(self.park_idle);
    }

    /// Idle time starts anew, and with it everything that grows with it.
    fn restart(&mut self, now: Ticks) {
        self.idle_since = Some(now);
        self.park_idle = self.bounds.park_after;
        self.park_from = now.after(self.park_idle);
    }

    /// Idle time so far. Starts it with the first pass, and anew where the clock jumped back behind it.
    fn idle_for(&mut self, seen: &Observation) -> u64 {
        match self.idle_since {
            Some(since) if since <= seen.now => seen.now.since(since),
            _ => {
                self.restart(seen.now);
                0
            }
        }
    }

    fn learn_pass(&mut self, seen: &Observation) {
        if self.pass == 0 {
            // Whatever the first pass was, it is the best guess there is.
            self.pass = seen.pass_ticks.saturating_mul(AVERAGE_OVER);
        } else if !seen.housekeeping {
            self.pass = averaged(self.pass, seen.pass_ticks.min(self.pass.saturating_mul(PASS_OUTLIER) / AVERAGE_OVER));
        }
    }

    fn wants_park(&mut self, seen: &Observation) -> bool {
        // Never further away than what is wanted, unless the clock jumped back.
        if self.park_from.since(seen.now) > self.park_idle {
            self.park_from = seen.now.after(self.park_idle);
        }
        let allowed = match self.bounds.park {
            Park::Never => false,
            Park::WhenArmed => true,
            Park::WithinBound => self.wake <= self.bounds.max_added,
        };
        // A timer that is due before the wake would pay for itself is waited for awake.
        let worth_it = seen.next_deadline.is_none_or(|deadline| deadline.since(seen.now) > self.wake);
        allowed && worth_it && seen.now >= self.park_from
    }

    /// Ticks to doze; 0 for none.
    fn wait(&self, seen: &Observation, idle: u64) -> u64 {
        let bounds = &self.bounds;
        let (pass, overshoot) = (self.pass / AVERAGE_OVER, self.overshoot / AVERAGE_OVER);
        // The hard bounds: not even a PAUSE goes beyond them.
        let to_deadline = seen.next_deadline.map_or(u64::MAX, |deadline| deadline.since(seen.now));
        let hard = bounds.max_added.min(to_deadline);
        if hard < bounds.pause {
            return 0;
        }
        let wanted = pass.saturating_mul(bounds.kappa) >> KAPPA_FRACTION;
        wanted
            .min(idle / IDLE_PART)
            .min(bounds.twice_mean.saturating_sub(overshoot))
            .min(bounds.max_added.saturating_sub(pass).saturating_sub(overshoot))
            .min(to_deadline.saturating_sub(overshoot))
            .max(bounds.pause)
    }
}

/// The next value of a moving average, kept times [`AVERAGE_OVER`].
#[inline]
fn averaged(average: u64, sample: u64) -> u64 {
    (average - average / AVERAGE_OVER).saturating_add(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::policy::Etiquette;
    use std::time::Duration;

    // A tick is a nanosecond throughout.
    const PAUSE: u64 = 18;
    const US: u64 = 1_000;
    const MS: u64 = 1_000_000;

    fn settings(mean: u64, max: u64) -> Settings {
        Settings {
            mean_added: Duration::from_nanos(mean),
            max_added: Duration::from_nanos(max),
            ..Settings::from_preset(Etiquette::Balanced)
        }
    }

    fn controller(settings: &Settings) -> Controller {
        Controller::new(settings, Rate::NANOSECONDS, PAUSE)
    }

    fn empty(now: u64, pass_ticks: u64) -> Observation {
        Observation {
            now: Ticks(now),
            pass_ticks,
            events: 0,
            housekeeping: false,
            relief_wanted: true,
            next_deadline: None,
            can_park: false,
        }
    }

    /// The controller after a long idle time of passes of `pass_ticks`, and the instant reached.
    fn settled(settings: &Settings, pass_ticks: u64) -> (Controller, u64) {
        let mut lane = controller(settings);
        let mut now = 0;
        for _ in 0..1_000 {
            now += pass_ticks;
            let _ = lane.observe(&empty(now, pass_ticks));
            now += 100;
        }
        (lane, now)
    }

    /// xorshift64*: small, and the same on every machine.
    struct Dice(u64);

    impl Dice {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 >> 12;
            self.0 ^= self.0 << 25;
            self.0 ^= self.0 >> 27;
            self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
        }
        fn below(&mut self, n: u64) -> u64 {
            self.next() % n
        }
        fn one_in(&mut self, n: u64) -> bool {
            self.below(n) == 0
        }
        /// A number of random magnitude.
        fn any(&mut self) -> u64 {
            let shift = self.below(64);
            self.next() >> shift
        }
        /// Exponentially distributed.
        fn gap(&mut self, mean: u64) -> u64 {
            let unit = ((self.next() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
            (-unit.ln() * mean as f64) as u64
        }
        fn settings(&mut self) -> Settings {
            let max = self.below(20 * US);
            let park = [Park::Never, Park::WhenArmed, Park::WithinBound][self.below(3) as usize];
            let park_after = Duration::from_nanos(US + self.below(MS));
            Settings { park, park_after, ..settings(self.below(max + 1), max) }
        }
    }

    #[test]
    fn the_wait_is_the_tightest_bound() {
        let balanced = || settings(500, 4 * US);
        let in_ns = |n| Some(Ticks(n));
        for (settings, pass, deadline_in, wanted, why) in [
            (balanced(), 40, None, Step::Doze { ticks: 40 * 88 / 12 }, "kappa passes"),
            (balanced(), 170, None, Step::Doze { ticks: 1_000 }, "twice the mean"),
            (balanced(), 3_500, None, Step::Doze { ticks: 500 }, "the maximum less the pass"),
            (balanced(), 9_000, None, Step::Doze { ticks: PAUSE }, "a pass beyond the maximum leaves one PAUSE"),
            (balanced(), 1, None, Step::Doze { ticks: PAUSE }, "less than a PAUSE is one"),
            (balanced(), 170, in_ns(300), Step::Doze { ticks: 300 }, "the deadline"),
            (balanced(), 170, in_ns(PAUSE), Step::Doze { ticks: PAUSE }, "the deadline, one PAUSE away"),
            (balanced(), 170, in_ns(PAUSE - 1), Step::Again, "the deadline, less than a PAUSE away"),
            (balanced(), 170, in_ns(0), Step::Again, "a timer is due"),
            (super::tests::settings(0, 4 * US), 170, None, Step::Doze { ticks: PAUSE }, "no mean: one PAUSE"),
            (super::tests::settings(0, PAUSE - 1), 170, None, Step::Again, "no room for a PAUSE"),
            (super::tests::settings(0, 0), 170, None, Step::Again, "no room at all"),
        ] {
            let (mut lane, now) = settled(&settings, pass);
            let now = now + pass;
            let next_deadline = deadline_in.map(|Ticks(n)| Ticks(now + n));
            let step = lane.observe(&Observation { next_deadline, ..empty(now, pass) });
            match (step, wanted) {
                // The average of a constant is off by the rounding.
                (Step::Doze { ticks: got }, Step::Doze { ticks: wanted }) => {
                    assert!(got.abs_diff(wanted) <= 8, "{why}: {got}")
                }
                _ => assert_eq!(step, wanted, "{why}"),
            }
        }
    }

    #[test]
    fn presets_mean_what_their_table_says() {
        let wait = |etiquette, pass| {
            let (mut lane, now) = settled(&Settings::from_preset(etiquette), pass);
            match lane.observe(&empty(now + pass, pass)) {
                Step::Doze { ticks } => ticks,
                _ => 0,
            }
        };
        for (etiquette, pass, duty) in [
            (Etiquette::Balanced, 40, 0.88),
            (Etiquette::Balanced, 170, 0.85),
            (Etiquette::Balanced, 2_000, 0.33),
            (Etiquette::Polite, 40, 0.95),
            (Etiquette::Polite, 2_000, 0.83),
        ] {
            let waited = wait(etiquette, pass);
            let got = waited as f64 / (waited + pass) as f64;
            assert!((got - duty).abs() < 0.01, "{etiquette:?}, {pass}: {got}");
        }
        for pass in [1, 40, 170, 2_000, 100_000] {
            assert_eq!(wait(Etiquette::Latency, pass), PAUSE);
        }
    }

    // I2 (bounded by the maximum and the deadline), I5 (by the mean), I6 (nothing without relief), I9 (no jump of the
    // clock, no absurd figure breaks anything; overflow panics in tests).
    #[test]
    fn bounds_hold_for_every_sequence() {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
        for _ in 0..2_000 {
            let settings = dice.settings();
            let pause = dice.any().max(1) % (2 * US) + 1;
            let mut lane = Controller::new(&settings, Rate::NANOSECONDS, pause);
            let mut now = dice.any();
            for _ in 0..200 {
                // Time mostly advances by a bit, and now and then jumps anywhere.
                now = if dice.one_in(20) { dice.any() } else { now.saturating_add(dice.below(2 * US)) };
                let seen = Observation {
                    now: Ticks(now),
                    pass_ticks: if dice.one_in(20) { dice.any() } else { dice.below(US) },
                    events: if dice.one_in(8) { dice.any() as u32 } else { 0 },
                    housekeeping: dice.one_in(5),
                    relief_wanted: !dice.one_in(4),
                    next_deadline: dice.one_in(3).then(|| Ticks(now.saturating_add(dice.below(6 * US)))),
                    can_park: dice.one_in(2),
                };
                let to_deadline = seen.next_deadline.map_or(u64::MAX, |deadline| deadline.since(seen.now));
                match lane.observe(&seen) {
                    Step::Again => {}
                    Step::Doze { ticks } => {
                        let (mean, max) = (settings.mean_added.as_nanos() as u64, settings.max_added.as_nanos() as u64);
                        assert!(seen.events == 0 && seen.relief_wanted, "I6: {seen:?}");
                        assert!(
                            ticks > 0 && ticks <= max && ticks <= to_deadline,
                            "I2: {ticks} for {settings:?}, {seen:?}"
                        );
                        assert!(ticks <= (2 * mean).max(pause), "I5: {ticks} for {settings:?}");
                        let took = match dice.below(4) {
                            0 => 0,
                            1 => dice.any(),
                            _ => ticks + dice.below(100),
                        };
                        lane.dozed(ticks, took);
                        now = now.saturating_add(took);
                    }
                    Step::Park { until } => {
                        assert!(seen.events == 0 && seen.can_park && settings.park != Park::Never, "{seen:?}");
                        assert_eq!(until, seen.next_deadline);
                        let slept = dice.any();
                        now = now.saturating_add(slept);
                        lane.parked(&Parked {
                            now: Ticks(now),
                            slept,
                            wake_ticks: dice.one_in(2).then(|| dice.any()),
                            fruitful: dice.one_in(2),
                        });
                    }
                }
            }
        }
    }

    // I4: the first wait after an event is a PAUSE or a quarter of the pass, however long the waits were before.
    #[test]
    fn an_event_resets_the_ramp() {
        for pass in [20, 150, 2_000] {
            let (mut lane, now) = settled(&settings(5 * US, 25 * US), pass);
            let hit = Observation { events: 1, ..empty(now, pass) };
            assert_eq!(lane.observe(&hit), Step::Again);
            let first = lane.observe(&empty(now + pass, pass));
            assert_eq!(first, Step::Doze { ticks: (pass / IDLE_PART).max(PAUSE) });
        }
    }

    #[test]
    fn housekeeping_earns_nothing_and_resets_nothing() {
        let pass = 150;
        let (mut lane, mut now) = settled(&settings(500, 4 * US), pass);
        for _ in 0..50 {
            now += 300;
            // Long passes, of which none is a measure of an empty one.
            let step = lane.observe(&Observation { housekeeping: true, ..empty(now, 100 * US) });
            assert!(matches!(step, Step::Doze { ticks } if ticks.abs_diff(1_000) < 8), "{step:?}");
        }
    }

    #[test]
    fn a_preempted_pass_hardly_moves_the_average() {
        let (mut lane, now) = settled(&settings(500, 4 * US), 40);
        let _ = lane.observe(&empty(now + 10 * MS, 10 * MS));
        assert!(lane.pass / AVERAGE_OVER <= 2 * 40, "{}", lane.pass / AVERAGE_OVER);
        // A pass that really became dearer is learnt.
        for i in 0..40 {
            let _ = lane.observe(&empty(now + 20 * MS + i * US, 600));
        }
        assert!((lane.pass / AVERAGE_OVER).abs_diff(600) < 20, "{}", lane.pass / AVERAGE_OVER);
    }

    #[test]
    fn overshoot_is_taken_off_and_preemption_is_not_learnt() {
        let (mut lane, now) = settled(&settings(500, 4 * US), 170);
        let wait = |lane: &mut Controller| match lane.observe(&empty(now + 170, 170)) {
            Step::Doze { ticks } => ticks,
            other => panic!("{other:?}"),
        };
        for _ in 0..100 {
            lane.dozed(900, 1_000);
        }
        assert!(wait(&mut lane).abs_diff(900) <= 8, "waits of which 100 ns too many leave 900 of 1000");
        lane.dozed(900, 5 * MS);
        assert!(wait(&mut lane).abs_diff(900) <= 8, "a preemption changes nothing");
        for _ in 0..100 {
            lane.dozed(900, 200);
        }
        assert!(wait(&mut lane).abs_diff(900) <= 8, "nor do waits that news cut short");
    }

    /// Runs empty passes of 150 ns until the controller parks; the idle time that it took, or `None` past `limit`.
    fn idle_until_park(lane: &mut Controller, now: &mut u64, limit: u64, doze: impl Fn(u64) -> u64) -> Option<u64> {
        let start = *now;
        while *now - start < limit {
            *now += 150;
            match lane.observe(&Observation { can_park: true, ..empty(*now, 150) }) {
                Step::Park { .. } => return Some(*now - start),
                Step::Doze { ticks } => {
                    let took = doze(ticks);
                    *now += took;
                    lane.dozed(ticks, took);
                }
                Step::Again => {}
            }
        }
        None
    }

    // I8: also where every doze returns at once.
    #[test]
    fn parks_by_time() {
        for (doze, why) in [((|asked| asked) as fn(u64) -> u64, "punctual"), (|_| 0, "instant"), (|_| 100 * US, "late")]
        {
            let mut lane = controller(&settings(500, 4 * US));
            let mut now = 0;
            let idle = idle_until_park(&mut lane, &mut now, 10 * MS, doze).expect(why);
            assert!((200 * US..310 * US).contains(&idle), "{why}: {idle}");
        }
    }

    #[test]
    fn a_jump_back_of_the_clock_does_not_put_parking_off() {
        let mut lane = controller(&settings(500, 4 * US));
        let mut now = 1_000_000 * MS;
        assert!(idle_until_park(&mut lane, &mut now, MS, |asked| asked).is_some());
        let mut now = 5;
        assert!(idle_until_park(&mut lane, &mut now, MS, |asked| asked).is_some(), "behind the last event");
        let parked = Parked { now: Ticks(1_000 * MS), slept: 999 * MS, wake_ticks: None, fruitful: false };
        lane.parked(&parked);
        assert!(idle_until_park(&mut lane, &mut now, MS, |asked| asked).is_some(), "behind the last park");
    }

    #[test]
    fn whether_to_park_at_all() {
        let parks = |park, max: u64, wakes: &[u64], next_deadline: Option<u64>| {
            let mut lane = controller(&Settings { park, ..settings(500, max) });
            for wake in wakes {
                lane.parked(&Parked { now: Ticks(0), slept: MS, wake_ticks: Some(*wake), fruitful: true });
            }
            let _ = lane.observe(&empty(0, 150));
            let seen = Observation { can_park: true, next_deadline: next_deadline.map(Ticks), ..empty(MS, 150) };
            matches!(lane.observe(&seen), Step::Park { .. })
        };
        assert!(!parks(Park::Never, 4 * US, &[], None));
        assert!(parks(Park::WhenArmed, 4 * US, &[], None), "no bound on the wake");
        assert!(!parks(Park::WithinBound, 4 * US, &[], None), "a wake that nobody measured is no cheap one");
        assert!(parks(Park::WithinBound, 200 * US, &[], None));
        assert!(parks(Park::WithinBound, 40 * US, &[30 * US; 40], None), "learnt to be cheap");
        assert!(!parks(Park::WithinBound, 40 * US, &[30 * US; 4], None), "but not at once");
        assert!(!parks(Park::WithinBound, 200 * US, &[300 * US], None), "one dear wake is enough");
        // A timer: due before the wake, due later.
        assert!(!parks(Park::WhenArmed, 4 * US, &[], Some(MS + 99 * US)));
        assert!(parks(Park::WhenArmed, 4 * US, &[], Some(MS + 101 * US)));
    }

    #[test]
    fn fruitless_parks_back_off_and_progress_resets_them() {
        let mut lane = controller(&settings(500, 4 * US));
        let mut now = 0;
        let mut idle_times = Vec::new();
        for _ in 0..12 {
            idle_times.push(idle_until_park(&mut lane, &mut now, 1_000 * MS, |asked| asked).unwrap());
            lane.parked(&Parked { now: Ticks(now), slept: 0, wake_ticks: None, fruitful: false });
        }
        for pair in idle_times.windows(2) {
            let wanted = (2 * pair[0]).min(FRUITLESS_IDLE_MAX_NS);
            assert!(pair[1].abs_diff(wanted) < 5 * US, "{idle_times:?}");
        }
        assert!(idle_times[11].abs_diff(FRUITLESS_IDLE_MAX_NS) < 5 * US);

        now += 150;
        let _ = lane.observe(&Observation { events: 1, ..empty(now, 150) });
        let again = idle_until_park(&mut lane, &mut now, MS, |asked| asked);
        assert!(again.is_some_and(|idle| idle < 205 * US), "an event resets it: {again:?}");

        for _ in 0..3 {
            lane.parked(&Parked { now: Ticks(now), slept: 0, wake_ticks: None, fruitful: false });
        }
        now += 1_000 * MS;
        lane.parked(&Parked { now: Ticks(now), slept: 1_000 * MS, wake_ticks: None, fruitful: false });
        let again = idle_until_park(&mut lane, &mut now, MS, |asked| asked);
        assert!(again.is_some_and(|idle| idle < 205 * US), "so does a long sleep: {again:?}");
    }

    /// How a lane fared against Poisson traffic in virtual time.
    struct Outcome {
        /// From an arrival to the start of the pass that finds it.
        mean: f64,
        worst: u64,
        /// Share of idle time spent dozing; and spent in PAUSE, where looking at the clock meanwhile is taken for no
        /// relief at all.
        duty: f64,
        pause_duty: f64,
    }

    /// What one look at the clock takes, and what an event takes to handle.
    const LOOK: u64 = 11;
    const EVENT: u64 = 400;
    const MEAN_GAP: u64 = 50 * US;

    fn run(settings: &Settings, relief_wanted: bool, pass: u64) -> Outcome {
        const EVENTS: u64 = 2_000;
        let mut dice = Dice(42);
        let mut lane = controller(settings);
        let (mut now, mut arrival) = (0, dice.gap(MEAN_GAP));
        let (mut dozing, mut pausing, mut awake, mut late, mut worst, mut found) = (0, 0, 0, 0, 0, 0);
        while found < EVENTS {
            let start = now;
            let mut events = 0;
            while arrival <= start {
                (late, worst) = (late + (start - arrival), worst.max(start - arrival));
                events += 1;
                arrival += dice.gap(MEAN_GAP);
            }
            found += events;
            let pass_ticks = pass + events * EVENT;
            now += pass_ticks;
            if events == 0 {
                awake += pass;
            }
            let seen = Observation { events: events as u32, relief_wanted, ..empty(now, pass_ticks) };
            if let Step::Doze { ticks } = lane.observe(&seen) {
                // As the waiter does it: whole pauses, and a look at the clock for each slice of eight.
                let pauses = (ticks / PAUSE).max(1);
                let looks = pauses.div_ceil(8) * LOOK;
                let took = (pauses * PAUSE + looks).min(ticks.max(PAUSE + LOOK));
                lane.dozed(ticks, took);
                now += took;
                dozing += took;
                pausing += took - looks;
            }
        }
        let of_idle = |part: u64| part as f64 / (dozing + awake) as f64;
        Outcome { mean: late as f64 / found as f64, worst, duty: of_idle(dozing), pause_duty: of_idle(pausing) }
    }

    // The runtime's own part of a pass is taken to be 20 ns.
    #[test]
    fn balanced_reaches_its_duty_within_its_budget() {
        let balanced = Settings::from_preset(Etiquette::Balanced);
        for (poll, duty_min, pause_duty_min) in [(150, 0.80, 0.70), (20, 0.83, 0.80)] {
            let pass = poll + 20;
            let (got, tight) = (run(&balanced, true, pass), run(&balanced, false, pass));
            assert!(got.duty >= duty_min, "poll of {poll} ns: duty {}", got.duty);
            assert!(got.pause_duty >= pause_duty_min, "poll of {poll} ns: duty {} in PAUSE", got.pause_duty);
            assert_eq!(tight.duty, 0.0);
            let added = got.mean - tight.mean;
            assert!(added <= 500.0, "poll of {poll} ns: {added} ns on average");
            // What arrives while others are handled waits for these as well.
            assert!(got.worst <= tight.worst + 4 * US, "poll of {poll} ns: {} ns at worst", got.worst);
        }
    }

    // I7: a larger budget never lowers the duty.
    #[test]
    fn more_budget_is_more_relief() {
        const NOISE: f64 = 0.01;
        for pass in [40, 170, 2_000] {
            let tight = run(&settings(0, 25 * US), false, pass);
            let mut last = 0.0;
            for mean in [0, 125, 500, 2_000] {
                let got = run(&settings(mean, 25 * US), true, pass);
                assert!(got.duty >= last - NOISE, "pass {pass}, mean {mean}: {} after {last}", got.duty);
                let added = got.mean - tight.mean;
                // Three standard errors of 2000 samples that are spread evenly over a pass and a wait.
                let noise = (pass + 2 * mean) as f64 / 50.0;
                assert!(added <= mean.max(PAUSE) as f64 + noise, "pass {pass}, mean {mean}: {added}");
                last = got.duty;
            }
        }
    }
}
