//! Tables of made-up rounds and windows: what a machine might show, and what must be said of it.

use super::*;

/// A step alone, on the machines made up here.
const ALONE_NS: f64 = 15_000.0;

/// Noise from a generator with a fixed start, so that a table gives the same answer every time.
struct Noise(u64);

impl Noise {
    /// Between -1 and 1.
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 as f64 / u64::MAX as f64 * 2.0 - 1.0
    }
}

/// So many rounds in which work beside slows to `ratio` and a spin to `spin`, in every other round, or half of that where it has PAUSEs, each slot off by `noise` at most.
fn rounds(count: usize, ratio: f64, spin: f64, noise: f64) -> Vec<Round> {
    let mut source = Noise(0xD1B5_4A32_D192_ED03);
    let mut step = |ratio: f64| Some(ALONE_NS / ratio * (1.0 + noise * source.next()));
    let half_way = f64::midpoint(spin, 1.0);
    let mut round = |turn: usize| {
        let (spin, pauses) = if turn % 2 == 0 { (step(spin), None) } else { (None, step(half_way)) };
        Round { idle: step(1.0), spin, pauses, work: step(ratio) }
    };
    (0..count).map(&mut round).collect()
}

#[test]
fn what_a_window_sees() {
    let table: [(&str, Vec<Round>, &str); 14] = [
        ("siblings", rounds(40, 0.52, 0.8, 0.02), "shared"),
        ("siblings, noisy", rounds(40, 0.55, 0.8, 0.3), "shared"),
        ("siblings of a wide core", rounds(40, 0.66, 0.9, 0.05), "shared"),
        ("two cores", rounds(40, 1.0, 1.0, 0.01), "separate"),
        ("two cores, noisy", rounds(40, 1.0, 1.0, 0.15), "separate"),
        ("two cores, and a clock that drops", rounds(40, 0.9, 0.95, 0.02), "separate"),
        ("two cores, a first one that gets faster", rounds(40, 1.2, 1.0, 0.02), "separate"),
        ("neither", rounds(40, 0.8, 0.9, 0.02), "unclear"),
        ("near the bound, and noisy", rounds(40, 0.74, 0.9, 0.3), "unclear"),
        ("a change in the middle", [rounds(20, 0.5, 0.8, 0.02), rounds(20, 1.0, 1.0, 0.02)].concat(), "unclear"),
        ("a change near the end", [rounds(36, 0.5, 0.8, 0.02), rounds(4, 1.0, 1.0, 0.02)].concat(), "shared"),
        ("the fewest rounds", rounds(7, 0.5, 0.8, 0.02), "shared"),
        ("one fewer", rounds(6, 0.5, 0.8, 0.02), "unclear"),
        ("none", Vec::new(), "unclear"),
    ];
    for (what, rounds, want) in table {
        let judged = window(&rounds, ALONE_NS);
        assert_eq!(judged.seen.name(), want, "{what}: {judged:?}");
        assert_eq!(judged.rounds, rounds.len(), "{what}");
    }
}

#[test]
fn the_evidence_comes_with_the_answer() {
    let judged = window(&rounds(40, 0.5, 0.8, 0.02), ALONE_NS);
    let ratio = judged.ratio.unwrap();
    assert!(ratio.low <= ratio.median && ratio.median <= ratio.high && (ratio.median - 0.5).abs() < 0.01, "{ratio:?}");
    assert!(judged.spin.is_some_and(|spin| (spin - 0.8).abs() < 0.01), "{judged:?}");
    assert!(judged.pauses.is_some_and(|pauses| (pauses - 0.9).abs() < 0.01), "{judged:?}");
}

/// A slot that was stopped takes its round with it, and nothing else.
#[test]
fn disturbed_slots_are_left_out() {
    let mut disturbed = rounds(40, 0.5, 0.8, 0.02);
    for round in disturbed.iter_mut().step_by(2) {
        round.work = None;
    }
    disturbed[1].idle = None;
    disturbed[3].spin = None;
    let judged = window(&disturbed, ALONE_NS);
    assert_eq!((judged.seen, judged.rounds, judged.dropped), (Seen::Shared, 19, 21));

    // Steal in nearly every slot: no answer, rather than one from what happens to be left.
    for round in disturbed.iter_mut().skip(12) {
        round.idle = None;
    }
    let judged = window(&disturbed, ALONE_NS);
    assert_eq!(judged.seen, Seen::Unclear(Doubt::TooFew { rounds: 5, wanted: 7 }), "{judged:?}");
}

/// Somebody else on the core slows idle and busy slots alike. A ratio of 1 is then no sign of two cores.
#[test]
fn a_core_that_is_slow_throughout_says_nothing() {
    let slow: Vec<Round> = rounds(40, 1.0, 1.0, 0.02)
        .into_iter()
        .map(|round| Round { idle: round.idle.map(|ns| ns * 1.9), work: round.work.map(|ns| ns * 1.9), ..round })
        .collect();
    let judged = window(&slow, ALONE_NS);
    assert!(
        matches!(judged.seen, Seen::Unclear(Doubt::SlowThroughout { part }) if (part - 0.526).abs() < 0.02),
        "{judged:?}"
    );
    // Half as fast beside work is sharing whoever else is there: both slots of the round had him.
    let shared: Vec<Round> = rounds(40, 0.5, 0.8, 0.02);
    assert_eq!(window(&shared, ALONE_NS / 1.9).seen, Seen::Shared);
}

#[test]
fn what_windows_say_of_a_pair() {
    let shared = (Seen::Shared, Some(0.5));
    let separate = (Seen::Separate, Some(1.0));
    let unclear = (Seen::Unclear(Doubt::TooFew { rounds: 3, wanted: 7 }), None);
    let starved = (Seen::Unclear(Doubt::Starved), None);
    let many = |parts: &[(usize, (Seen, Option<f64>))]| -> Vec<(Seen, Option<f64>)> {
        parts.iter().flat_map(|&(count, window)| vec![window; count]).collect()
    };
    let why = |(seen, _): (Seen, Option<f64>)| match seen {
        Seen::Unclear(doubt) => Verdict::Unclear { why: doubt },
        _ => unreachable!("used with doubts only"),
    };
    let floating = |shared_windows, windows| Verdict::Floating { shared_windows, windows };
    let table = [
        ("all shared", many(&[(40, shared)]), Verdict::Shared { ratio: 0.5 }),
        ("all separate", many(&[(40, separate)]), Verdict::Separate { ratio: 1.0 }),
        ("one window is enough", many(&[(1, shared)]), Verdict::Shared { ratio: 0.5 }),
        (
            "one of many differs: chance",
            many(&[(20, separate), (1, shared), (19, separate)]),
            Verdict::Separate { ratio: 1.0 },
        ),
        ("two of many differ", many(&[(30, separate), (2, shared), (8, separate)]), floating(2, 40)),
        ("halves", many(&[(20, shared), (20, separate)]), floating(20, 40)),
        ("one of each", many(&[(1, shared), (1, separate)]), floating(1, 2)),
        ("one of four", many(&[(3, shared), (1, separate)]), floating(3, 4)),
        (
            "doubts in a minority do not count",
            many(&[(15, unclear), (20, shared), (5, starved)]),
            Verdict::Shared { ratio: 0.5 },
        ),
        ("doubts in a majority do", many(&[(19, shared), (15, unclear), (6, starved)]), why(unclear)),
        ("the commonest doubt is named", many(&[(4, unclear), (9, starved)]), why(starved)),
        ("nothing", Vec::new(), why(starved)),
    ];
    for (what, windows, want) in table {
        assert_eq!(verdict(&windows), want, "{what}");
    }
}

#[test]
fn between_two_windows_only_what_both_saw() {
    let (starved, changed) = (Seen::Unclear(Doubt::Starved), Seen::Unclear(Doubt::Changed));
    let table = [
        (Seen::Shared, Seen::Shared, Seen::Shared),
        (Seen::Separate, Seen::Separate, Seen::Separate),
        (Seen::Shared, Seen::Separate, changed),
        (Seen::Separate, Seen::Shared, changed),
        (starved, Seen::Shared, starved),
        (Seen::Shared, starved, starved),
    ];
    for (before, after, want) in table {
        assert_eq!(before.and(after), want, "{before:?}, {after:?}");
    }
}

#[test]
fn what_pauses_give_back() {
    let of = |spin: &[f64], pauses: &[f64]| given_back(&mut spin.to_vec(), &mut pauses.to_vec());
    let parts = [
        ("half", [0.6; 5], [0.8; 5], Some(0.5)),
        ("all", [0.84; 5], [1.0; 5], Some(1.0)),
        ("one window is off", [0.6, 0.6, 0.6, 0.6, 0.1], [0.8, 0.8, 0.8, 0.8, 3.0], Some(0.5)),
        ("nothing", [0.6; 5], [0.6; 5], Some(0.0)),
        ("they take more", [0.6; 5], [0.5; 5], Some(-0.25)),
        ("a spin takes nothing", [0.98; 5], [1.0; 5], None),
    ];
    for (what, spin, pauses, want) in parts {
        let got = of(&spin, &pauses).map(|given_back| given_back.part);
        assert!(got.is_some() == want.is_some(), "{what}: {got:?}");
        assert!(got.zip(want).is_none_or(|(got, want)| (got - want).abs() < 1e-9), "{what}: {got:?}");
    }
    assert_eq!(of(&[0.6; 4], &[0.8; 9]), None, "too few windows with a tight spin");
    assert_eq!(of(&[0.6; 9], &[0.8; 4]), None, "too few windows with PAUSEs");
}
