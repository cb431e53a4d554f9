//! What the controller promises for every sequence of inputs (I2 to I9, I11), and how it behaves on plain ones. A tick is a
//! nanosecond throughout. I1 (nothing is slept through) and I10 (no wake is lost) are promises of the waiter and of the
//! lanes' protocol, and tested there.

use super::*;
use crate::wait::policy::Etiquette;
use std::time::Duration;

const PAUSE: u64 = 18;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;

fn settings(mean: u64, max: u64) -> Settings {
    Settings {
        mean_added: Duration::from_nanos(mean),
        max_added: Duration::from_nanos(max),
        duty_percent: 100,
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
        can_watch: false,
    }
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
        Settings {
            park: [Park::Never, Park::WhenArmed, Park::WithinBound][self.below(3) as usize],
            charge: [Charge::Expected, Charge::Strict][self.below(2) as usize],
            park_after: Duration::from_nanos(US + self.below(MS)),
            duty_percent: self.below(101) as u32,
            ..settings(self.below(max + 1), max)
        }
    }
}

// I2 (bounded by the maximum and the deadline), I3 (charges within what was granted), I5 (nothing while overdrawn), I6
// (nothing without relief), I9 (no jump of the clock, no absurd figure breaks anything; overflow panics in tests).
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
                can_watch: dice.one_in(2),
            };
            let to_deadline = seen.next_deadline.map_or(u64::MAX, |deadline| deadline.since(seen.now));
            let max = settings.max_added.as_nanos() as u64;
            match lane.observe(&seen) {
                Step::Again | Step::Yield => {}
                step @ (Step::Doze { ticks } | Step::Watch { ticks }) => {
                    assert!(seen.events == 0 && seen.relief_wanted, "I6: {seen:?}");
                    assert!(
                        ticks > 0 && ticks <= max && ticks <= to_deadline,
                        "I2: {ticks} for {settings:?}, {seen:?}"
                    );
                    assert!(
                        lane.budget.balance() > 0 || (ticks == pause && settings.mean_added.is_zero()),
                        "I5: {ticks} for {settings:?}"
                    );
                    let took = match dice.below(4) {
                        0 => 0,
                        1 => dice.any(),
                        _ => ticks + dice.below(100),
                    };
                    if matches!(step, Step::Doze { .. }) {
                        lane.dozed(ticks, took)
                    } else {
                        lane.watched(took)
                    }
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

/// How a lane fared in virtual time.
#[derive(Debug)]
struct Outcome {
    /// From an arrival to the start of the pass that finds it.
    mean: f64,
    worst: u64,
    /// Share of idle time spent dozing.
    duty: f64,
    account: Account,
}

#[derive(Debug, Default)]
struct Account {
    events: u64,
    /// The largest delay beyond the wait that was issued and a pass.
    beyond_wait: u64,
}

/// What a doze really takes.
type Doze = fn(u64) -> u64;

const PUNCTUAL: Doze = |asked| (asked / PAUSE).max(1) * PAUSE;

/// Plays `count` events whose gaps `gap` draws; a gap may depend on the wait that was just issued.
fn play(
    lane: &mut Controller,
    count: u64,
    pass: u64,
    relief_wanted: bool,
    doze: Doze,
    mut gap: impl FnMut() -> u64,
) -> Outcome {
    let (mut now, mut arrival) = (0_u64, gap());
    let (mut dozing, mut awake, mut late, mut worst, mut account) = (0, 0, 0, 0, Account::default());
    let mut waited = 0;
    while account.events < count {
        let start = now;
        let mut events = 0;
        while arrival <= start {
            let delay = start - arrival;
            (late, worst) = (late + delay, worst.max(delay));
            account.beyond_wait = account.beyond_wait.max(delay.saturating_sub(waited + pass));
            events += 1;
            arrival += gap();
        }
        account.events += events;
        now += pass;
        if events == 0 {
            awake += pass;
        }
        waited = 0;
        let seen = Observation { events: events as u32, relief_wanted, ..empty(now, pass) };
        if let Step::Doze { ticks } = lane.observe(&seen) {
            waited = doze(ticks);
            lane.dozed(ticks, waited);
            now += waited;
            dozing += waited;
        }
    }
    let mean = late as f64 / account.events as f64;
    Outcome { mean, worst, duty: dozing as f64 / (dozing + awake) as f64, account }
}

// I3: in strict accounting the mean holds whatever the traffic does, here against an adversary as well, who sends an event
// one tick after each wait began.
#[test]
fn a_strict_mean_holds_against_an_adversary() {
    const EVENTS: u64 = 20_000;
    for (mean, pass) in [(20, 20), (100, 150), (500, 150), (5_000, 2_000)] {
        let strict = Settings { charge: Charge::Strict, ..settings(mean, 200 * US) };
        let mut lane = controller(&strict);
        let (mut now, mut late, mut found) = (0_u64, 0_u64, 0_u64);
        while found < EVENTS {
            now += pass;
            if let Step::Doze { ticks } = lane.observe(&empty(now, pass)) {
                let took = PUNCTUAL(ticks);
                lane.dozed(ticks, took);
                now += took + pass;
                late += took - 1;
                found += 1;
                let _ = lane.observe(&Observation { events: 1, ..empty(now, pass) });
            } else if lane.budget.balance() < PAUSE as i64 {
                // Nothing to gain while the lane saves up: the adversary sends an event that is seen at once.
                now += pass;
                found += 1;
                let _ = lane.observe(&Observation { events: 1, ..empty(now, pass) });
            }
        }
        let bound = (mean + pass) as f64 + 64.0 * mean as f64 / found as f64;
        let got = late as f64 / found as f64;
        assert!(got <= bound, "X {mean}, pass {pass}: {got} over {bound}");
        assert!(got >= 0.3 * mean as f64, "X {mean}, pass {pass}: {got}; the budget is hardly used");
    }
}

// I3 for plain traffic, and no event is later than the wait it fell into and a pass.
#[test]
fn an_event_is_late_by_its_wait_and_a_pass_at_most() {
    for charge in [Charge::Expected, Charge::Strict] {
        for (mean, pass) in [(50, 20), (500, 150), (500, 2_000)] {
            let settings = Settings { charge, ..settings(mean, 20 * US) };
            let mut dice = Dice(7);
            let got = play(&mut controller(&settings), 20_000, pass, true, PUNCTUAL, || dice.gap(20 * US));
            assert_eq!(got.account.beyond_wait, 0, "{got:?}");
            assert!(got.mean <= (mean + pass) as f64 * 1.02, "{charge:?}, X {mean}, pass {pass}: {got:?}");
        }
    }
}

// I4: the first wait after an event is four passes and a PAUSE at most, however long the waits were before.
#[test]
fn an_event_resets_the_wait() {
    for pass in [20, 150, 2_000] {
        let mut lane = controller(&settings(5 * US, 100 * US));
        let mut dice = Dice(3);
        let _ = play(&mut lane, 500, pass, true, PUNCTUAL, || dice.gap(MS));
        let now = MS * MS;
        for i in 0..1_000 {
            let _ = lane.observe(&empty(now + i * 10 * US, pass));
        }
        let now = now + 10_000 * US;
        let _ = lane.observe(&Observation { events: 1, ..empty(now, pass) });
        let Step::Doze { ticks } = lane.observe(&empty(now + pass, pass)) else { panic!("no doze") };
        assert!(ticks <= FIRST_PASSES * (pass + 1) + PAUSE, "pass {pass}: {ticks}");
    }
}

// I5: an overdrawn account means no wait, and it is earned back.
#[test]
fn an_overdrawn_budget_ends_all_waits_until_it_is_earned_back() {
    let mut lane = controller(&settings(500, 100 * US));
    let _ = lane.observe(&empty(150, 150));
    // Late again and again, so that it is charged.
    for _ in 0..LATE_DOZES {
        lane.dozed(1_000, 100 * US);
    }
    let _ = lane.observe(&Observation { events: 2_000, ..empty(900 * US, 150) });
    let mut now = 900 * US;
    for _ in 0..100 {
        now += 150;
        assert_eq!(lane.observe(&empty(now, 150)), Step::Again);
    }
    let mut dice = Dice(5);
    let mut events = 0;
    while lane.budget.balance() <= 0 {
        now += 150 + dice.gap(US);
        events += 1;
        let _ = lane.observe(&Observation { events: 1, ..empty(now, 150) });
        now += 150;
        let _ = lane.observe(&empty(now, 150));
    }
    assert!(events > 1_000, "{events}");
    let waits = (1..100).any(|i| matches!(lane.observe(&empty(now + i * 150, 150)), Step::Doze { .. }));
    assert!(waits, "and then it waits again");
}

// What an event of a later pass is charged: no more than the pass before it took, unless that may have left it behind.
#[test]
fn an_event_that_came_while_others_were_handled_is_charged_for_no_more_than_that() {
    const WAIT: u64 = 10 * US;
    const PASS: u64 = 150;
    // (events of a pass, what it takes) after one wait; the charge in halves of the wait.
    for (charge, passes, halves, why) in [
        (Charge::Expected, &[(4, 950)][..], 4.0, "one pass: half of the wait each"),
        (Charge::Expected, &[(4, 950), (1, 350)], 4.08, "what came meanwhile: 800 of 10 000"),
        (Charge::Expected, &[(4, 9_000), (1, 350)], 4.0 + 2.0 / 3.0, "handled for long: a third less, at most"),
        (Charge::Expected, &[(4, 950), (4, 950)], 4.0 + 8.0 / 3.0, "as many again: those of the wait, maybe"),
        (Charge::Expected, &[(4, 950), (4, 950), (1, 350)], 4.0 + 8.0 / 3.0 + 0.08, "and the rest of them"),
        (Charge::Strict, &[(4, 950), (1, 350)], 10.0, "strict: all of the wait for each"),
    ] {
        let mut lane = controller(&Settings { charge, ..settings(500, 100 * US) });
        let mut now = 0;
        for _ in 0..100 {
            now += PASS;
            let _ = lane.observe(&empty(now, PASS));
        }
        lane.dozed(WAIT, WAIT);
        now += WAIT;
        for &(events, took) in passes {
            now += took;
            let _ = lane.observe(&Observation { events, ..empty(now, took) });
        }
        let _ = lane.observe(&empty(now + PASS, PASS));
        let got = lane.charged() as f64 / (WAIT / 2) as f64;
        assert!((got - halves).abs() < 0.02 * halves, "{why}: {got} for {halves}");
    }
}

// I6: without relief there is no wait.
#[test]
fn no_relief_no_wait() {
    let mut dice = Dice(11);
    let got = play(&mut controller(&settings(500, 4 * US)), 2_000, 150, false, PUNCTUAL, || dice.gap(50 * US));
    assert_eq!(got.duty, 0.0);
}

// I7: a larger budget never lowers the duty.
#[test]
fn more_budget_is_more_relief() {
    const NOISE: f64 = 0.01;
    for pass in [40, 170, 2_000] {
        let mut last = 0.0;
        for mean in [0, 50, 125, 500, 2_000] {
            let mut dice = Dice(42);
            let got =
                play(&mut controller(&settings(mean, 25 * US)), 5_000, pass, true, PUNCTUAL, || dice.gap(50 * US));
            assert!(got.duty >= last - NOISE, "pass {pass}, mean {mean}: {} after {last}", got.duty);
            assert!(got.worst <= 25 * US + pass, "{got:?}");
            last = got.duty;
        }
    }
}

// The hard bounds come first: not even a PAUSE goes beyond them.
#[test]
fn a_wait_is_held_to_the_tightest_bound() {
    let balanced = || Settings { duty_percent: 88, ..settings(500, 4 * US) };
    let in_ns = |n| Some(Ticks(n));
    for (settings, pass, deadline_in, most, why) in [
        (balanced(), 40, None, 40 * 88 / 12, "the duty that is wanted"),
        (settings(500 * US, 4 * US), 9_000, None, 4 * US, "the maximum"),
        (balanced(), 170, in_ns(300), 300, "the deadline"),
        (balanced(), 170, in_ns(PAUSE), PAUSE, "the deadline, one PAUSE away"),
        (balanced(), 170, in_ns(PAUSE - 1), 0, "the deadline, less than a PAUSE away"),
        (balanced(), 170, in_ns(0), 0, "a timer is due"),
        (settings(0, 4 * US), 170, None, PAUSE, "no mean: one PAUSE"),
        (settings(0, PAUSE - 1), 170, None, 0, "no room for a PAUSE"),
        (settings(0, 0), 170, None, 0, "no room at all"),
        (settings(10, PAUSE - 1), 170, None, 0, "a budget without room"),
    ] {
        let mut lane = controller(&settings);
        let mut dice = Dice(5);
        let _ = play(&mut lane, 2_000, pass, true, PUNCTUAL, || dice.gap(50 * US));
        // Far into a lull, where nothing but the bound keeps a wait short.
        let mut now = MS * MS;
        let mut longest = 0;
        for _ in 0..1_000 {
            now += pass;
            let next_deadline = deadline_in.map(|Ticks(n)| Ticks(now + n));
            if let Step::Doze { ticks } = lane.observe(&Observation { next_deadline, ..empty(now, pass) }) {
                longest = longest.max(ticks);
                lane.dozed(ticks, ticks);
                now += ticks;
            }
        }
        // The average of a constant is off by the rounding.
        assert!(longest <= most + 8 && longest + 8 >= most, "{why}: {longest} for {most}");
    }
}

// What the table at `Etiquette` says, for 20 000 events a second at random instants.
#[test]
fn presets_mean_what_their_table_says() {
    let with = |etiquette, pass| {
        let mut dice = Dice(21);
        let settings = Settings::from_preset(etiquette);
        let tight = play(&mut controller(&settings), 20_000, pass, false, PUNCTUAL, || dice.gap(50 * US));
        let mut dice = Dice(21);
        let got = play(&mut controller(&settings), 20_000, pass, true, PUNCTUAL, || dice.gap(50 * US));
        assert_eq!(tight.duty, 0.0);
        (got.duty, got.mean - tight.mean, got.worst)
    };
    for (etiquette, pass, duty, mean_most, max) in [
        (Etiquette::Balanced, 40, 0.88, 400.0, 4 * US),
        (Etiquette::Balanced, 170, 0.83, 400.0, 4 * US),
        (Etiquette::Balanced, 2_000, 0.28, 400.0, 4 * US),
        (Etiquette::Polite, 40, 0.95, 5_000.0, 25 * US),
        (Etiquette::Polite, 170, 0.95, 5_000.0, 25 * US),
        (Etiquette::Polite, 2_000, 0.84, 5_000.0, 25 * US),
        (Etiquette::Latency, 40, 0.31, PAUSE as f64, US),
        (Etiquette::Latency, 2_000, 0.01, PAUSE as f64, US),
    ] {
        let (got, added, worst) = with(etiquette, pass);
        assert!((got - duty).abs() < 0.02, "{etiquette:?}, {pass}: duty {got}, added {added}");
        assert!(added <= mean_most * 1.1, "{etiquette:?}, {pass}: {added} ns added");
        assert!(worst <= max + pass, "{etiquette:?}, {pass}: {worst} at worst");
    }
}

// The promise of the rule: on events that come independently of each other, all waits are equal.
#[test]
fn independent_events_make_constant_waits() {
    let (mean, pass) = (500, 150);
    let mut dice = Dice(42);
    let mut lane = controller(&settings(mean, 25 * US));
    let _ = play(&mut lane, 20_000, pass, true, PUNCTUAL, || dice.gap(50 * US));
    let (mut least, mut most) = (u64::MAX, 0);
    for idle in [10 * US, 20 * US, 50 * US, 100 * US] {
        let cycle = lane.plan.at(idle).cycle;
        (least, most) = (least.min(cycle), most.max(cycle));
    }
    assert!(least > 800 && most < 1_600, "cycles from {least} to {most}; constant waits of 1000 spend this budget");
}

// ... and before a time at which events are known to come, waits stop short.
#[test]
fn waits_stop_short_of_what_is_due() {
    const PERIOD: u64 = 100 * US;
    let mut dice = Dice(42);
    let mut at = 0;
    let mut lane = controller(&settings(500, 50 * US));
    let _ = play(&mut lane, 5_000, 150, true, PUNCTUAL, || {
        let last = at;
        at = (last / PERIOD + 1) * PERIOD + dice.below(5 * US);
        at - last
    });
    let (quiet, due) = (lane.plan.at(40 * US).cycle, lane.plan.at(98 * US).cycle);
    assert!(quiet > 5 * due, "{quiet} in the lull, {due} when an event is due");
}

#[test]
fn housekeeping_earns_nothing_and_resets_nothing() {
    let mut lane = controller(&settings(500, 4 * US));
    let mut now = 0;
    for _ in 0..1_000 {
        now += 300;
        let _ = lane.observe(&empty(now, 150));
    }
    let before = (lane.pass, lane.budget.balance(), lane.idle_since);
    for _ in 0..50 {
        now += 300;
        // Long passes, of which none is a measure of an empty one.
        let _ = lane.observe(&Observation { housekeeping: true, ..empty(now, 100 * US) });
    }
    assert_eq!((lane.pass, lane.budget.balance(), lane.idle_since), before);
}

#[test]
fn a_preempted_pass_hardly_moves_the_average() {
    let mut lane = controller(&settings(500, 4 * US));
    for i in 0..100 {
        let _ = lane.observe(&empty(i * 100, 40));
    }
    let _ = lane.observe(&empty(10 * MS, 10 * MS));
    assert!(lane.pass / AVERAGE_OVER <= 2 * 40, "{}", lane.pass / AVERAGE_OVER);
    // A pass that really became dearer is learnt.
    for i in 0..40 {
        let _ = lane.observe(&empty(20 * MS + i * US, 600));
    }
    assert!((lane.pass / AVERAGE_OVER).abs_diff(600) < 20, "{}", lane.pass / AVERAGE_OVER);
}

/// Runs empty passes of 150 ns until the controller parks; the idle time that it took, or `None` past `limit`.
fn idle_until_park(lane: &mut Controller, now: &mut u64, limit: u64, doze: Doze) -> Option<u64> {
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
            Step::Watch { .. } | Step::Again | Step::Yield => {}
        }
    }
    None
}

// I8: also where every doze returns at once.
#[test]
fn parks_by_time() {
    for (doze, why) in [((|asked| asked) as Doze, "punctual"), (|_| 0, "instant"), (|_| 100 * US, "late")] {
        let mut lane = controller(&settings(500, 4 * US));
        let mut now = 0;
        let idle = idle_until_park(&mut lane, &mut now, 10 * MS, doze).expect(why);
        assert!((200 * US..310 * US).contains(&idle), "{why}: {idle}");
    }
}

// I8 again: a million waits that return at once are so many passes, and a park.
#[test]
fn a_million_instant_returns_still_make_progress() {
    let mut lane = controller(&Settings { park_after: Duration::from_millis(160), ..settings(500, 4 * US) });
    let mut now = 0;
    let idle = idle_until_park(&mut lane, &mut now, 1_000 * MS, |_| 0).expect("parks in the end");
    assert!(idle > 150 * MS && idle / 150 > 1_000_000, "{idle}");
}

// I11: no step lasts longer than `max_added`, but a park, which the doorbell ends.
#[test]
fn no_step_outlasts_the_maximum() {
    for max in [PAUSE, 100, US, 100 * US] {
        let mut lane = controller(&settings(max, max));
        let mut dice = Dice(9);
        let got = play(&mut lane, 2_000, 150, true, |asked| asked, || dice.gap(MS));
        assert!(got.worst <= max + 150, "{max}: {got:?}");
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
        let seen = Observation { can_park: true, ..empty(0, 150) };
        let _ = lane.observe(&seen);
        let seen = Observation { next_deadline: next_deadline.map(Ticks), ..Observation { now: Ticks(MS), ..seen } };
        matches!(lane.observe(&seen), Step::Park { .. })
    };
    assert!(!parks(Park::Never, 4 * US, &[], None));
    assert!(parks(Park::WhenArmed, 4 * US, &[], None), "no bound on the wake");
    assert!(!parks(Park::WithinBound, 4 * US, &[], None), "a wake that nobody measured is no cheap one");
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
        assert!(pair[1].abs_diff(wanted) < 10 * US, "{idle_times:?}");
    }
    now += 150;
    let _ = lane.observe(&Observation { events: 1, ..empty(now, 150) });
    let again = idle_until_park(&mut lane, &mut now, MS, |asked| asked);
    assert!(again.is_some_and(|idle| idle < 205 * US), "an event resets it: {again:?}");
}

// Where others need the cpu, or it is rationed, a lane parks soon or steps aside; where it may do neither, it yields.
#[test]
fn guards_end_spinning() {
    let none = Guards::default();
    for (guards, park, can_park, wanted, why) in [
        (none, Park::WhenArmed, true, None, "no guard: waits in user mode"),
        (Guards { single_cpu: true, ..none }, Park::WhenArmed, true, Some("park"), "a single cpu"),
        (Guards { oversubscribed: true, ..none }, Park::WhenArmed, true, Some("park"), "more lanes than cpus"),
        (Guards { realtime: true, ..none }, Park::WhenArmed, true, Some("park"), "a priority above the producer's"),
        (Guards { shared_cpu: true, ..none }, Park::WhenArmed, true, Some("park"), "the producer's cpu"),
        (Guards { shared_cpu: true, ..none }, Park::Never, true, Some("yield"), "may not park"),
        (Guards { shared_cpu: true, ..none }, Park::WhenArmed, false, Some("yield"), "cannot park"),
        (Guards { quota: true, ..none }, Park::WhenArmed, true, None, "a quota: not at once"),
        (Guards { crowded: true, ..none }, Park::WhenArmed, true, None, "a crowded cpu: not at once"),
    ] {
        let mut lane = controller(&Settings { park, ..settings(500, 4 * US) });
        lane.guard(guards);
        let _ = lane.observe(&Observation { events: 1, ..empty(US, 150) });
        let got = match lane.observe(&Observation { can_park, ..empty(2 * US, 150) }) {
            Step::Park { .. } => Some("park"),
            Step::Yield => Some("yield"),
            _ => None,
        };
        assert_eq!(got, wanted, "{why}");
    }
    for guards in [Guards { quota: true, ..none }, Guards { crowded: true, ..none }] {
        let mut lane = controller(&settings(500, 4 * US));
        lane.guard(guards);
        let idle = idle_until_park(&mut lane, &mut 0, MS, |asked| asked).unwrap();
        assert!(idle <= WAKE_UNKNOWN_NS / QUOTA_WAKE_PART + 10 * US, "{guards:?}: {idle}");
    }
}

/// What a lane makes of events whose gaps `gap` draws, with wakes of 50 us: the share of time that it is awake, and the share of events
/// that found it parked.
fn awake(lane: &mut Controller, count: u64, mut gap: impl FnMut() -> u64) -> (f64, f64) {
    const WAKE: u64 = 50 * US;
    let (mut now, mut arrival, mut asleep, mut woken, mut events) = (0_u64, gap(), 0_u64, 0_u64, 0_u64);
    while events < count {
        let mut found = 0;
        while arrival <= now {
            found += 1;
            arrival = arrival.max(now) + gap();
        }
        events += u64::from(found);
        now += 150;
        match lane.observe(&Observation { events: found, can_park: true, ..empty(now, 150) }) {
            Step::Park { .. } => {
                let slept = arrival.saturating_sub(now) + WAKE;
                asleep += slept - WAKE;
                woken += 1;
                now += slept;
                lane.parked(&Parked { now: Ticks(now), slept, wake_ticks: Some(WAKE), fruitful: true });
            }
            Step::Doze { ticks } => {
                now += ticks;
                lane.dozed(ticks, ticks);
            }
            _ => {}
        }
    }
    (1.0 - asleep as f64 / now as f64, woken as f64 / events as f64)
}

// A lane with seldom events parks at once after each; one with frequent ones does not give them its wake; and when the traffic
// changes from one to the other, few events pay for what was learnt before.
#[test]
fn seldom_events_are_parked_for_at_once() {
    let mut dice = Dice(77);
    let mut lane = controller(&settings(500, 4 * US));
    let _ = awake(&mut lane, 200, || dice.gap(MS));
    let (share, woken) = awake(&mut lane, 2_000, || dice.gap(MS));
    // 50 us of each millisecond are the wake itself.
    assert!(share < 0.12 && woken > 0.7, "1 kHz: awake {share}, woken {woken}");
    let (_, woken) = awake(&mut lane, 1_000, || dice.gap(50 * US));
    assert!(woken < 0.08, "after the change to 20 kHz: woken {woken}");
    let (_, woken) = awake(&mut lane, 5_000, || dice.gap(50 * US));
    assert!(woken < 0.03, "20 kHz: woken {woken}");
}

/// The faults that hardware and hypervisors commit: the mean holds, or the lane says what to measure anew.
mod faults {
    use super::*;

    /// What a lane with a 500 ns budget makes of dozes that go wrong.
    fn with(doze: Doze) -> (Outcome, Option<Suspicion>) {
        let mut dice = Dice(42);
        let mut lane = controller(&settings(500, 4 * US));
        let outcome = play(&mut lane, 20_000, 150, true, doze, || dice.gap(50 * US));
        (outcome, lane.suspicion())
    }

    #[test]
    fn a_waiter_that_returns_at_once() {
        let (got, _) = with(|_| 0);
        assert_eq!(got.duty, 0.0);
        assert!(got.mean <= 150.0, "{got:?}");
    }

    #[test]
    fn a_waiter_that_sleeps_to_the_limit_of_the_os() {
        let (got, suspicion) = with(|_| 43_478);
        // Each wait overdraws the account; the mean holds for all that.
        assert!(got.mean <= 1.1 * 650.0, "{got:?}");
        assert_eq!(suspicion, None, "a limit is no PAUSE that changed: it looks like preemption");
    }

    #[test]
    fn a_preemption_now_and_then_is_hardly_learnt_and_not_charged() {
        let mut lane = controller(&settings(500, 4 * US));
        let _ = lane.observe(&empty(150, 150));
        for _ in 0..100 {
            lane.dozed(900, 950);
        }
        let overshoot = lane.overshoot / AVERAGE_OVER;
        let balance = lane.budget.balance();
        lane.dozed(900, 4 * MS);
        assert!(lane.overshoot / AVERAGE_OVER < overshoot + 900, "{} after {overshoot}", lane.overshoot / AVERAGE_OVER);
        assert_eq!(lane.last.took, 4 * MS);
        // Eighty events piled up meanwhile. At half of the wait for each of them, this would be a debt of 320 000 events.
        let _ = lane.observe(&Observation { events: 80, ..empty(5 * MS, 150) });
        let _ = lane.observe(&empty(5 * MS + 150, 150));
        assert!(lane.budget.balance() > balance - 1_000, "{}", lane.budget.balance());
        // And they are no burst that later waits have to be short for.
        assert!(lane.gaps.is_empty());
    }

    /// How many dozes the lane asks for in a second without events, where `doze` says what each takes; and when it last did.
    fn without_events(lane: &mut Controller, from: u64, doze: Doze) -> (u64, u64) {
        let (mut now, mut dozes, mut last) = (from, 0, from);
        while now < from + 1_000 * MS {
            now += 150;
            if let Step::Doze { ticks } = lane.observe(&empty(now, 150)) {
                (dozes, last) = (dozes + 1, now);
                now += doze(ticks);
                lane.dozed(ticks, doze(ticks));
            }
        }
        (dozes, last - from)
    }

    // Two preemptions in a row look like waits that last too long; without events, nothing but time shows that they do not.
    #[test]
    fn preemptions_in_a_row_end_waiting_for_a_moment() {
        let mut lane = controller(&settings(500, 4 * US));
        let _ = lane.observe(&empty(150, 150));
        for _ in 0..10 {
            lane.dozed(900, 5 * MS);
        }
        let mut now = 100 * MS;
        let began = now;
        while !matches!(lane.observe(&empty(now, 150)), Step::Doze { .. }) {
            now += 150;
            assert!(now < began + 100 * MS, "no doze for {} ms", (now - began) / MS);
        }
        assert!(now > began + 5 * MS, "they count for something: {}", now - began);
        let (dozes, _) = without_events(&mut lane, now, |asked| asked + 50);
        assert!(dozes > 100_000, "{dozes} in a second after that");
    }

    // And where they do last too long, trying again is rare.
    #[test]
    fn waits_that_always_last_too_long_are_hardly_tried() {
        let mut lane = controller(&settings(500, 4 * US));
        let _ = lane.observe(&empty(150, 150));
        let (dozes, last) = without_events(&mut lane, 150, |_| 43_478);
        assert!((10..100).contains(&dozes) && last > 800 * MS, "{dozes}, the last one after {last}");
    }

    // The state of a lane of a virtual machine: now and then the hypervisor takes the cpu for milliseconds, and interrupts lengthen
    // waits and passes by tens of microseconds.
    #[test]
    fn a_host_that_steals_time_costs_hardly_any_relief() {
        let duty = |stolen_one_in: u64| {
            let (mut dice, mut host) = (Dice(42), Dice(43));
            let mut lane = controller(&settings(500, 4 * US));
            let (mut now, mut arrival) = (0_u64, dice.gap(50 * US));
            let (mut dozing, mut awake, mut found) = (0_u64, 0_u64, 0_u64);
            while found < 20_000 {
                let mut events = 0_u32;
                while arrival <= now {
                    events += 1;
                    arrival += dice.gap(50 * US);
                }
                found += u64::from(events);
                let mut pass = 150;
                if host.one_in(stolen_one_in) {
                    pass += host.gap(100 * US);
                }
                now += pass;
                awake += if events == 0 { 150 } else { 0 };
                if let Step::Doze { ticks } = lane.observe(&Observation { events, ..empty(now, pass) }) {
                    let mut took = PUNCTUAL(ticks);
                    dozing += took;
                    if host.one_in(stolen_one_in) {
                        took += if host.one_in(10) { 4 * MS } else { 15 * US };
                    }
                    lane.dozed(ticks, took);
                    now += took;
                }
            }
            dozing as f64 / (dozing + awake) as f64
        };
        let (alone, stolen_from) = (duty(u64::MAX), duty(2_000));
        assert!(stolen_from > alone - 0.05, "{stolen_from} instead of {alone}");
    }

    #[test]
    fn a_pause_that_takes_fifteen_times_as_long() {
        let (got, suspicion) = with(|asked| (asked / PAUSE).max(1) * PAUSE * 15);
        assert!(got.mean <= 1.1 * 650.0, "{got:?}");
        assert_eq!(suspicion, Some(Suspicion::PauseChanged));
    }

    #[test]
    fn a_new_pause_is_taken_over() {
        let mut lane = controller(&settings(500, 4 * US));
        let _ = lane.observe(&empty(150, 150));
        lane.dozed(900, 950);
        lane.recalibrated(15 * PAUSE);
        assert_eq!((lane.overshoot, lane.bounds.pause), (0, 15 * PAUSE));
        let mut dice = Dice(42);
        let got =
            play(&mut lane, 20_000, 150, true, |asked| (asked / PAUSE / 15).max(1) * PAUSE * 15, || dice.gap(50 * US));
        assert!(got.duty > 0.7 && got.mean <= 1.1 * 650.0, "{got:?}");
        assert_eq!(lane.suspicion(), None);
    }

    #[test]
    fn a_clock_that_jumps() {
        const S: u64 = 1_000 * MS;
        for jump in [-(S as i64) - 1, 2 * S as i64] {
            let mut lane = controller(&settings(500, 4 * US));
            let mut now = 10 * S;
            for _ in 0..100 {
                now += 300;
                let _ = lane.observe(&empty(now, 150));
            }
            assert_eq!(lane.suspicion(), None);
            now = now.saturating_add_signed(jump);
            let _ = lane.observe(&empty(now, 150));
            assert_eq!(lane.suspicion(), Some(Suspicion::ClockJumped), "{jump}");
            for _ in 0..100 {
                now += 300;
                let _ = lane.observe(&empty(now, 150));
            }
            assert_eq!(lane.suspicion(), None, "told once");
        }
    }

    #[test]
    fn a_park_is_no_jump_of_the_clock() {
        let mut lane = controller(&settings(500, 4 * US));
        let mut now = 0;
        assert!(idle_until_park(&mut lane, &mut now, MS, |asked| asked).is_some());
        now += 5_000 * MS;
        lane.parked(&Parked { now: Ticks(now), slept: 5_000 * MS, wake_ticks: None, fruitful: true });
        let _ = lane.observe(&empty(now, 150));
        assert_eq!(lane.suspicion(), None);
    }

    // A monitor ends no wait for the lane's own store, and no lane relies on that: what a lane stores itself (a hand-off, housekeeping) is no
    // event of a watch, which lasts to its deadline and is charged by what leaving it takes.
    #[test]
    fn an_own_store_that_fires_no_monitor() {
        let max = 4 * US;
        let mut lane = controller(&settings(500, max));
        lane.exit_takes(100);
        let mut now = 0;
        for _ in 0..1_000 {
            now += 150;
            let seen = Observation { can_watch: true, housekeeping: true, ..empty(now, 150) };
            if let Step::Watch { ticks } | Step::Doze { ticks } = lane.observe(&seen) {
                assert!(ticks <= max);
                now += ticks;
                lane.watched(ticks);
                assert!(lane.last.charge <= 100, "{:?}", lane.last);
            }
        }
        assert!(now > 1_000 * US, "it watched");
    }

    // A word that is no longer the one to watch (another poller came, the monitor was found out): the next wait is a doze, at once.
    #[test]
    fn a_watch_that_is_no_longer_possible() {
        let mut lane = controller(&settings(500, 4 * US));
        let mut now = 0;
        for turn in 0..2_000 {
            now += 150;
            let can_watch = turn % 3 == 0;
            match lane.observe(&Observation { can_watch, ..empty(now, 150) }) {
                Step::Watch { ticks } => {
                    assert!(can_watch, "turn {turn}");
                    lane.watched(ticks);
                    now += ticks;
                }
                Step::Doze { ticks } => {
                    lane.dozed(ticks, ticks);
                    now += ticks;
                }
                _ => {}
            }
        }
    }

    // A monitor that never fires: the watch ends by its deadline.
    #[test]
    fn a_monitor_that_never_fires() {
        let max = 4 * US;
        let mut lane = controller(&settings(500, max));
        let mut now = 0;
        let mut watched = 0;
        for _ in 0..20_000 {
            now += 150;
            match lane.observe(&Observation { can_watch: true, ..empty(now, 150) }) {
                Step::Watch { ticks } => {
                    assert!(ticks <= max);
                    watched += 1;
                    now += ticks;
                    lane.watched(ticks);
                }
                Step::Doze { ticks } => {
                    now += ticks;
                    lane.dozed(ticks, ticks);
                }
                _ => {}
            }
        }
        assert!(watched > 1_000, "{watched}");
    }
}
