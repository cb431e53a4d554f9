//! The router in worlds whose costs it is not told: what it learns, what it loses while it learns, and what it never does.

use super::*;
use crate::offload::cpu::calibrate::streamed_from;
use std::ops::Range;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn router() -> Router {
    Router::new(Costs::STARTING, streamed_from(None, &[]))
}

fn ask(len: usize, mode: Mode) -> Ask {
    Ask { kind: Kind::Copy, len, intent: Intent::Soon, mode, crowded: false, bound_ns: 0, turn: 1 }
}

const IDLE: QueueView = QueueView { fit: true, outstanding: 0, depth: 32, remote: false };

fn is_device(choice: Choice) -> bool {
    matches!(choice.by, Engine::Device { .. })
}

/// What becomes of copies that are asked for together, of which all are worth a place.
fn batch(router: &Router, lens: &[usize]) -> BatchGoes {
    let mut gain = BatchGain::default();
    lens.iter().for_each(|len| gain.add(router, Kind::Copy, Intent::Soon, *len));
    router.batch_goes(gain)
}

fn queue(choice: Choice) -> Option<usize> {
    match choice.by {
        Engine::Device { queue, .. } => Some(queue),
        Engine::Cpu { .. } => None,
    }
}

#[test]
fn the_first_thresholds_are_the_proposed_ones() {
    let router = router();
    // In a batch: from there on it is worth a place in one that goes anyway.
    for (mode, from) in [(Mode::Waited, 16 * KIB), (Mode::Overlapped, 4 * KIB), (Mode::Batched, 440)] {
        for len in [1, from / 8, from / 2, from * 7 / 10] {
            assert!(!is_device(router.decide(&ask(len, mode), &[IDLE])), "{mode:?} {len}");
        }
        for len in [from * 13 / 10, 2 * from, 16 * MIB, usize::MAX / 4] {
            assert!(is_device(router.decide(&ask(len, mode), &[IDLE])), "{mode:?} {len}");
        }
    }
    // Eight of 1 KiB go together, and eight of half of it do not.
    assert_eq!(batch(&router, &[KIB; 8]), BatchGoes::AsItPays);
    assert_eq!(batch(&router, &[KIB / 2; 8]), BatchGoes::Not);
    assert!(router.is_small(Kind::Copy, Intent::Soon, Mode::Waited, KIB - 1));
    assert!(!router.is_small(Kind::Copy, Intent::Soon, Mode::Waited, 16 * KIB));
}

#[test]
fn a_batch_goes_if_all_of_it_saves_what_it_is_submitted_for() {
    // At first: a submission 410 ns, an operation of it 60; the cpu 10 and 0.115 a byte.
    let router = router();
    for (lens, want) in [
        (&[][..], BatchGoes::Not),
        (&[KIB], BatchGoes::Not),
        (&[KIB; 6], BatchGoes::Not),           // 6 times 68
        (&[KIB; 7], BatchGoes::AsItPays),      // 7 times 68
        (&[4 * KIB], BatchGoes::AsItPays),     // pays alone
        (&[4 * KIB, 64], BatchGoes::AsItPays), // and takes along what does not
        (&[64, 4 * KIB], BatchGoes::AsItPays), // whichever comes first
        (&[2 * KIB; 2], BatchGoes::Not),       // twice 186
        (&[2 * KIB, 2 * KIB, KIB], BatchGoes::AsItPays),
        (&[64; 100], BatchGoes::Not), // each is dearer than the cpu's
    ] {
        assert_eq!(batch(&router, lens), want, "{lens:?}");
    }
    // Once, when it is due.
    router.batch_trial.store(1, Relaxed);
    assert_eq!(batch(&router, &[KIB; 7]), BatchGoes::AsItPays, "no trial is needed");
    assert_eq!([KIB; 2].map(|len| batch(&router, &[len])), [BatchGoes::AsATrial, BatchGoes::Not]);
}

#[test]
fn what_never_goes_is_tried_and_found_out() {
    // Groups of four that cost the cpu 100 ns each; together they would take 25 ns each, and are believed to take 160.
    let router = router();
    let observe = |took| {
        router.observe(&Observation { kind: Kind::Copy, len: 783, intent: Intent::Soon, mode: Mode::Batched, took });
    };
    let goes = |_: &u32| {
        let goes = batch(&router, &[783; 4]);
        observe(if goes.goes() { Took::Batch { together: 4, core_ns: 100.0 } } else { Took::Cpu { ns: 100.0 } });
        goes == BatchGoes::AsItPays
    };
    let first = (0..200).find(goes).expect("never found out");
    assert!((TRIAL_AT_LEAST..60).contains(&first), "{first}");
    assert!((0..50).all(|turn| goes(&turn)), "forgotten again");
}

/// Nobody is tried before so many were timed.
const TRIAL_AT_LEAST: u32 = 4;

#[test]
fn a_share_that_was_too_large_becomes_smaller() {
    let router = router().sharing();
    let share = || router.share(Kind::Copy, Intent::Soon, 64 * KIB);
    let before = share();
    assert!((8 * KIB..32 * KIB).contains(&before), "{before}");
    let observe = |latency| {
        let (core_ns, cpu_len) = (470.0, share());
        let cpu_ns = Costs::STARTING.cpu_ns(Group::Copy, cpu_len);
        let took = Took::Shared { queue: 0, ahead: 0, core_ns, latency, cpu_len, cpu_ns };
        router.observe(&Observation {
            kind: Kind::Copy,
            len: 64 * KIB,
            intent: Intent::Soon,
            mode: Mode::Waited,
            took,
        });
    };
    // The device was over whenever somebody looked, and is twice as fast as believed.
    let rest = |len: usize| 0.5 * Costs::STARTING.latency_ns(len);
    for _ in 0..60 {
        let (cpu_ns, rest_ns) = (Costs::STARTING.cpu_ns(Group::Copy, share()), rest(64 * KIB - share()));
        observe(if rest_ns < cpu_ns { Latency::AtMost(cpu_ns) } else { Latency::Was(rest_ns) });
    }
    let (cpu_ns, rest_ns) = (Costs::STARTING.cpu_ns(Group::Copy, share()), rest(64 * KIB - share()));
    assert!((0.85..1.02).contains(&(cpu_ns / rest_ns)), "{before}, then {}: {cpu_ns} {rest_ns}", share());
}

/// A preemption in the very first time makes a device look four times as slow, and the cpu's share as large: it is found out within a dozen samples or so, not some hundred.
#[test]
fn a_share_that_is_far_too_large_is_found_out_soon() {
    let router = router().sharing();
    let len = 64 * KIB;
    let observe = |took| {
        router.observe(&Observation { kind: Kind::Copy, len, intent: Intent::Soon, mode: Mode::Waited, took });
    };
    let observe = |latency| {
        let cpu_len = router.share(Kind::Copy, Intent::Soon, len);
        let cpu_ns = Costs::STARTING.cpu_ns(Group::Copy, cpu_len);
        observe(Took::Shared { queue: 0, ahead: 0, core_ns: 470.0, latency, cpu_len, cpu_ns });
    };
    observe(Latency::Was(50_000.0));
    let after = router.share(Kind::Copy, Intent::Soon, len);
    let mut samples = 0;
    let share = loop {
        let share = router.share(Kind::Copy, Intent::Soon, len);
        let (cpu_ns, rest_ns) = (Costs::STARTING.cpu_ns(Group::Copy, share), Costs::STARTING.latency_ns(len - share));
        if cpu_ns < 1.1 * rest_ns || samples == 100 {
            break share;
        }
        observe(Latency::AtMost(cpu_ns));
        samples += 1;
    };
    assert!(samples > 1 && samples <= 20, "{after} bytes at first; {share} after {samples}");
}

#[test]
fn a_preemption_in_a_trial_does_not_put_the_next_one_off() {
    let router = router();
    let observe = |took| {
        router.observe(&Observation { kind: Kind::Copy, len: KIB, intent: Intent::Soon, mode: Mode::Overlapped, took });
    };
    // Copies of 1 KiB, which take the cpu 500 ns here, and are believed to be the cpu's; until a trial is due.
    let until_trial = || {
        (1..).find(|_| {
            observe(Took::Cpu { ns: 500.0 });
            is_device(router.decide(&ask(KIB, Mode::Overlapped), &[IDLE]))
        })
    };
    assert!(until_trial().is_some());
    observe(Took::Device { queue: 0, ahead: 0, core_ns: 50_000.0, latency_ns: None });
    let wait = until_trial().unwrap();
    assert!(wait <= 32, "{wait} timed copies until the next trial");
}

#[test]
fn a_dedicated_queue_is_within_reach_of_smaller_copies() {
    let small = |costs, len| Router::new(costs, 8 * MIB).is_small(Kind::Copy, Intent::Soon, Mode::Overlapped, len);
    for (len, shared, dedicated) in [(32, true, true), (128, true, false), (255, true, false), (KIB, false, false)] {
        assert_eq!((small(Costs::STARTING, len), small(Costs::DEDICATED, len)), (shared, dedicated), "{len}");
    }
}

#[test]
fn timing_follows_no_period_and_becomes_rare() {
    let router = router();
    let timed = |turns: Range<u32>, step: u32| {
        let one =
            |turn: &u32| router.decide(&Ask { turn: turn * step, ..ask(64 * KIB, Mode::Overlapped) }, &[IDLE]).timed;
        turns.filter(one).count()
    };
    // Whoever asks in turns of two, three, eight or sixteen sizes: each of them is timed.
    for step in [1, 2, 3, 8, 16] {
        assert!((50..76).contains(&timed(0..1_000, step)), "{step}: {}", timed(0..1_000, step));
    }
    for _ in 0..600 {
        let took = Took::Device { queue: 0, ahead: 0, core_ns: 470.0, latency_ns: None };
        let (kind, len, intent, mode) = (Kind::Copy, 64 * KIB, Intent::Soon, Mode::Overlapped);
        router.observe(&Observation { kind, len, intent, mode, took });
    }
    assert!((10..22).contains(&timed(0..1_000, 1)), "{}", timed(0..1_000, 1));
}

#[test]
fn queues_are_chosen_by_what_they_hold_and_where_they_are() {
    let router = router();
    let busy = |outstanding| QueueView { outstanding, ..IDLE };
    let remote = QueueView { remote: true, ..IDLE };
    let unfit = QueueView { fit: false, ..IDLE };
    let shallow = QueueView { depth: 4, outstanding: 4, ..IDLE };
    for (queues, overlapped, waited) in [
        (&[][..], None, None),
        (&[IDLE], Some(0), Some(0)),
        (&[unfit], None, None),
        (&[shallow], None, None),
        (&[busy(31)], Some(0), None), // waiting for 31 others takes longer than to copy
        (&[busy(32)], None, None),
        (&[busy(2), IDLE], Some(1), Some(1)),
        (&[unfit, busy(5)], Some(1), Some(1)),
        (&[remote, busy(1)], Some(1), Some(1)),
        (&[remote, busy(9)], Some(0), Some(0)),
        (&[shallow, unfit, remote, busy(4)], Some(2), Some(2)),
    ] {
        let chosen = |mode, len| queue(router.decide(&ask(len, mode), queues));
        assert_eq!(chosen(Mode::Overlapped, 32 * KIB), overlapped, "{queues:?}");
        assert_eq!(chosen(Mode::Waited, 32 * KIB), waited, "{queues:?}");
    }
}

#[test]
fn the_cpu_streams_what_is_large_and_stops_in_time() {
    let router = Router::new(Costs::STARTING, 8 * MIB);
    let by = |ask: Ask| router.decide(&ask, &[]).by;
    let cpu = |stores, slice| Engine::Cpu { stores, slice };
    assert_eq!(by(ask(8 * MIB - 1, Mode::Waited)), cpu(Stores::Plain, None));
    assert_eq!(by(ask(8 * MIB, Mode::Waited)), cpu(Stores::Streamed, None));
    assert_eq!(by(Ask { crowded: true, ..ask(4 * MIB, Mode::Waited) }), cpu(Stores::Streamed, None));
    // 10 us at 0.115 ns a byte.
    let Engine::Cpu { slice: Some(slice), .. } = by(Ask { bound_ns: 10_000, ..ask(4 * MIB, Mode::Waited) }) else {
        panic!("a copy of 500 us within 10 us")
    };
    assert!((80_000..90_000).contains(&slice), "{slice}");
    assert_eq!(by(Ask { bound_ns: 10_000, ..ask(64 * KIB, Mode::Waited) }), cpu(Stores::Plain, None));
    // However short the bound, a piece is worth its call.
    assert_eq!(by(Ask { bound_ns: 1, ..ask(64 * KIB, Mode::Waited) }), cpu(Stores::Plain, Some(4 * KIB)));
    assert_eq!(by(Ask { bound_ns: 1, ..ask(KIB, Mode::Waited) }), cpu(Stores::Plain, None));
}

#[test]
fn what_is_read_soon_goes_to_the_cache_if_it_has_room_there() {
    let router = Router::new(Costs::STARTING, 8 * MIB);
    let hint = |intent, len| match router.decide(&Ask { intent, ..ask(len, Mode::Overlapped) }, &[IDLE]).by {
        Engine::Device { to_cache, .. } => to_cache,
        Engine::Cpu { .. } => panic!("{len} bytes are the device's"),
    };
    assert!(hint(Intent::Soon, 64 * KIB));
    assert!(!hint(Intent::Soon, 2 * MIB));
    assert!(!hint(Intent::Cold, 64 * KIB) && !hint(Intent::Durable, 64 * KIB));
}

#[test]
fn a_neighbour_whose_data_would_go_moves_the_threshold() {
    assert!(!crowds(MIB, 0, 2 * MIB) && !crowds(MIB, MIB, 4 * MIB) && crowds(MIB, MIB, 2 * MIB));
    assert!(crowds(usize::MAX, 1, usize::MAX));
    let router = router();
    let crowded = |len| router.decide(&Ask { crowded: true, ..ask(len, Mode::Waited) }, &[IDLE]);
    assert!(is_device(crowded(13 * KIB)) && !is_device(crowded(8 * KIB)));
}

/// Costs that the router does not see, apart from what it is told of single operations.
#[derive(Clone, Copy)]
struct World {
    cpu_fixed: f64,
    cpu_near: f64,
    cpu_far: f64,
    core_single: f64,
    core_batched: f64,
    latency: f64,
    latency_byte: f64,
}

impl World {
    /// Every parameter within 50 % of what `dsa.md` makes likely.
    fn drawn(dice: &mut Dice) -> Self {
        let mut around = |usual: f64| usual * (0.5 + dice.unit());
        Self {
            cpu_fixed: around(25.0),
            cpu_near: around(1.0 / 3.0),
            cpu_far: around(0.1),
            core_single: around(270.0),
            core_batched: around(80.0),
            latency: around(1_100.0),
            latency_byte: around(1.0 / 30.0),
        }
    }

    /// A copy that is in no cache: dear until the prefetchers have caught up.
    fn cpu(&self, len: usize) -> f64 {
        let near = len.min(16 * KIB);
        self.cpu_fixed + near as f64 * self.cpu_near + (len - near) as f64 * self.cpu_far
    }

    /// What one takes in a batch of [`TOGETHER`].
    fn core(&self, mode: Mode) -> f64 {
        if mode == Mode::Batched { self.core_batched } else { self.core_single }
    }

    fn latency(&self, len: usize) -> f64 {
        self.latency + len as f64 * self.latency_byte
    }

    fn device(&self, mode: Mode, len: usize) -> f64 {
        self.core(mode) + if mode == Mode::Waited { self.latency(len) } else { 0.0 }
    }

    fn best(&self, mode: Mode, len: usize) -> f64 {
        self.cpu(len).min(self.device(mode, len))
    }
}

/// Operations of a batch, all of one size.
const TOGETHER: u32 = 8;

/// Routes one operation, lets it take what it takes, and tells the router if it asked.
fn run(router: &Router, world: &World, dice: &mut Dice, turn: u32, len: usize, mode: Mode) -> f64 {
    let mut choice = router.decide(&Ask { turn, ..ask(len, mode) }, &[IDLE]);
    // The others of a batch are as this one is, so it stands for all of them.
    if let (Mode::Batched, Engine::Device { together: false, .. }) = (mode, choice.by) {
        match batch(router, &[len; TOGETHER as usize]) {
            BatchGoes::AsItPays => {}
            BatchGoes::AsATrial => choice.timed = true,
            BatchGoes::Not => choice.by = Engine::Cpu { stores: Stores::Plain, slice: None },
        }
    }
    // A tenth of noise either way, and now and then the kernel takes the cpu; the latter is told, but nobody's fault.
    let noise = 0.9 + 0.2 * dice.unit();
    let told = if dice.below(500) == 0 { 50_000.0 } else { 0.0 };
    let (took, cost) = if is_device(choice) {
        let (core, latency) = (world.core(mode) * noise, world.latency(len) * noise);
        let latency_ns = Some((latency + told) as f32);
        let took = match mode {
            Mode::Batched => Took::Batch { together: TOGETHER, core_ns: core as f32 * TOGETHER as f32 },
            _ => Took::Device { queue: 0, ahead: 0, core_ns: core as f32, latency_ns },
        };
        (took, world.device(mode, len))
    } else {
        let cost = world.cpu(len);
        (Took::Cpu { ns: (cost * noise + told) as f32 }, cost)
    };
    if choice.timed {
        router.observe(&Observation { kind: Kind::Copy, len, intent: Intent::Soon, mode, took });
    }
    cost
}

/// Each size in each mode in each world: a second or two in all, unoptimized.
const WORLDS: u64 = 3;
const WARM_UP: u32 = 8_000;
const JUDGED: u32 = 4_000;

#[test]
fn at_any_size_it_is_within_a_few_percent_of_the_better_engine() {
    let mut worst = (1.0, String::new());
    for seed in 0..WORLDS {
        let mut dice = Dice(seed);
        let world = World::drawn(&mut dice);
        for mode in Mode::ALL {
            for octave in [4, 8, 9, 10, 12, 13, 16, 24] {
                let len = (1 << octave) + dice.below(1 << octave);
                let router = router();
                for turn in 0..WARM_UP {
                    run(&router, &world, &mut dice, turn, len, mode);
                }
                let ours: f64 = (0..JUDGED).map(|turn| run(&router, &world, &mut dice, turn, len, mode)).sum();
                let ratio = world.best(mode, len) * f64::from(JUDGED) / ours;
                if ratio < worst.0 {
                    worst = (ratio, format!("world {seed}, {mode:?}, {len} bytes"));
                }
            }
        }
    }
    assert!(worst.0 > 0.96, "{worst:?}");
}

#[test]
fn over_a_mix_of_sizes_no_fixed_policy_is_better() {
    type Fixed = (&'static str, fn(Mode, usize) -> bool);
    const POLICIES: [Fixed; 5] = [
        ("always the cpu", |_, _| false),
        ("always the device", |_, _| true),
        ("DTO: from 16 KiB", |_, len| len >= 16 * KIB),
        ("DTO: from 64 KiB", |_, len| len >= 64 * KIB),
        ("the first thresholds", |mode, len| len >= [16 * KIB, 4 * KIB, KIB][mode as usize]),
    ];
    for seed in 0..WORLDS {
        let mut dice = Dice(seed ^ 0x5eed);
        let world = World::drawn(&mut dice);
        let router = router();
        let (mut ours, mut fixed, mut best) = (0.0, [0.0; POLICIES.len()], 0.0);
        for turn in 0..WARM_UP + 4 * JUDGED {
            let mode = Mode::ALL[dice.below(3)];
            let octave = 6 + dice.below(14);
            let len = (1 << octave) + dice.below(1 << octave);
            let cost = run(&router, &world, &mut dice, turn, len, mode);
            if turn < WARM_UP {
                continue;
            }
            ours += cost;
            best += world.best(mode, len);
            for (sum, (_, policy)) in fixed.iter_mut().zip(POLICIES) {
                *sum += if policy(mode, len) { world.device(mode, len) } else { world.cpu(len) };
            }
        }
        assert!(best / ours > 0.96, "seed {seed}: {}", best / ours);
        for (sum, (name, _)) in fixed.iter().zip(POLICIES) {
            assert!(*sum > ours * 0.99, "seed {seed}: {name} is ahead: {}", sum / ours);
        }
    }
}

#[test]
fn it_follows_costs_that_change_by_2() {
    type Change = (&'static str, fn(&mut World));
    let changes: [Change; 4] = [
        ("the cpu is twice as slow", |world| {
            world.cpu_near *= 2.0;
            world.cpu_far *= 2.0;
        }),
        ("the cpu is twice as fast", |world| {
            world.cpu_near /= 2.0;
            world.cpu_far /= 2.0;
        }),
        ("the device is twice as slow", |world| {
            world.latency *= 2.0;
            world.latency_byte *= 2.0;
            world.core_single *= 2.0;
            world.core_batched *= 2.0;
        }),
        ("the device is twice as fast", |world| {
            world.latency /= 2.0;
            world.latency_byte /= 2.0;
            world.core_single /= 2.0;
            world.core_batched /= 2.0;
        }),
    ];
    for (name, change) in changes {
        for mode in Mode::ALL {
            for octave in [9, 11, 13] {
                let len = 3 << (octave - 1);
                let mut dice = Dice(octave);
                let mut world = World::drawn(&mut dice);
                let router = router();
                let mut judge = |world: &World, turns: u32| -> f64 {
                    let ours: f64 = (0..turns).map(|turn| run(&router, world, &mut dice, turn, len, mode)).sum();
                    world.best(mode, len) * f64::from(turns) / ours
                };
                judge(&world, WARM_UP);
                change(&mut world);
                // It does not know yet, and loses no more than what it held for better has become dearer.
                let meanwhile = judge(&world, WARM_UP);
                assert!(meanwhile > 0.45, "{name}, {mode:?}, {len}: {meanwhile} meanwhile");
                let after = judge(&world, JUDGED);
                assert!(after > 0.96, "{name}, {mode:?}, {len}: {after}");
            }
        }
    }
}

#[test]
fn trials_cost_what_they_may_and_no_more() {
    // The device is ten times as dear as the cpu: near enough to be tried, and every trial is a loss.
    let mut dice = Dice(1);
    let world = World { latency: 20_000.0, core_single: 3_000.0, ..World::drawn(&mut dice) };
    let router = router();
    let len = 8 * KIB;
    let (mut trials, mut ours) = (0, 0.0);
    const TURNS: u32 = 100_000;
    for turn in 0..TURNS {
        let cost = run(&router, &world, &mut dice, turn, len, Mode::Waited);
        trials += u32::from(cost > world.cpu(len));
        ours += cost;
    }
    let lost = ours / (world.cpu(len) * f64::from(TURNS)) - 1.0;
    assert!(trials > 3, "{trials}");
    assert!(lost < 1.5 * f64::from(learn::TRIAL_SHARE), "{trials} trials cost {lost}");
}

#[test]
fn whatever_it_learnt_a_queue_that_is_not_fit_is_never_chosen() {
    let mut dice = Dice(9);
    let router = router().sharing();
    for turn in 0..4_000 {
        let queues: Vec<QueueView> = (0..dice.below(5))
            .map(|_| QueueView {
                fit: dice.below(2) == 0,
                outstanding: dice.below(40) as u32,
                depth: dice.below(40) as u32,
                remote: dice.below(2) == 0,
            })
            .collect();
        let kind = Kind::ALL[dice.below(Kind::ALL.len())];
        let (intent, mode) = ([Intent::Soon, Intent::Cold, Intent::Durable][dice.below(3)], Mode::ALL[dice.below(3)]);
        let octave = dice.below(48);
        let len = dice.below(1 << octave);
        let crowded = dice.below(2) == 0;
        let bound_ns = dice.below(1 << 20) as u32;
        let choice = router.decide(&Ask { kind, len, intent, mode, crowded, bound_ns, turn }, &queues);
        // Nonsense is learnt, too: a clock that stood still, or leapt.
        let ns = [0.0, 1e-9, 5.0, 1e3, 1e9, f32::MAX, f32::NAN, f32::INFINITY][dice.below(8)];
        let took = match choice.by {
            Engine::Device { queue, .. } => {
                let view = queues[queue];
                assert!(view.fit && view.outstanding < view.depth && view.outstanding < DEPTH_USEFUL, "{view:?}");
                let latency_ns = (dice.below(3) > 0).then_some(ns);
                let (ahead, cpu_len) = (dice.below(40) as u32, dice.below(2 * len + 1));
                let latency = [Latency::Unknown, Latency::Was(ns), Latency::AtMost(ns)][dice.below(3)];
                match dice.below(3) {
                    0 => Took::Device { queue, ahead, core_ns: ns, latency_ns },
                    1 => Took::Shared { queue, ahead, core_ns: ns, latency, cpu_len, cpu_ns: 1e6 - ns },
                    _ => Took::Batch { together: ahead, core_ns: ns },
                }
            }
            Engine::Cpu { slice, .. } => {
                assert!(slice.is_none_or(|slice| slice < len && SLICE.contains(&slice)), "{slice:?} of {len}");
                Took::Cpu { ns }
            }
        };
        router.observe(&Observation { kind, len, intent, mode, took });
    }
    let is_a_cost = |ns: f32| ns.is_finite() && ns > 0.0;
    for curve in router.rows.iter().map(|row| &row.cpu).chain([&router.latency]) {
        assert!((0..curve::NODES).all(|node| is_a_cost(curve.node(node))), "{curve:?}");
    }
    assert!(router.queue_scale.iter().chain(&router.core_ns).all(|ns| is_a_cost(float(ns))));
    for len in (0..40).map(|octave| 3 << octave) {
        assert!(router.share(Kind::Copy, Intent::Soon, len) <= len, "{len}");
    }
}

/// A fixed sequence (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
