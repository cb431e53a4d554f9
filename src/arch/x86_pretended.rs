//! The waits, executed on a pretended cpu.

use super::*;
use crate::sim::trap::{Behaviour, Counts, Family, Moment, Scene, Trap};
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// 10 ms and more, at up to 5 GHz: longer than traps and preemptions take.
const LONG: u64 = 50_000_000;
/// Half a second and more: as good as for ever.
const FOR_EVER: u64 = 2_500_000_000;

fn scene(behaviour: Behaviour) -> Scene {
    Trap::install().expect("nothing forbids a handler here").scene(behaviour)
}

/// The instructions that come to the traps: one family or both.
fn trapped() -> Vec<Instruction> {
    let (trap, cpu) = (Trap::install().unwrap(), Capabilities::default());
    let families =
        [(Family::Waitpkg, cpu.clone().with_emulated_waitpkg()), (Family::Mwaitx, cpu.with_emulated_mwaitx())];
    let trapped = families.into_iter().filter(|(family, _)| trap.carries_out(*family));
    trapped.map(|(_, cpu)| cpu.wait_instruction().unwrap()).collect()
}

fn is_waitpkg(by: &Instruction) -> bool {
    matches!(by, Instruction::Waitpkg(_))
}

fn span(ticks: u64) -> Span {
    Span { from: super::ticks(), ticks }
}

/// A word that lives for ever, alone on its lines.
fn word() -> &'static AtomicU32 {
    #[repr(align(128))]
    struct Alone(AtomicU32);
    &Box::leak(Box::new(Alone(AtomicU32::new(0)))).0
}

/// Waits carried out.
fn waits(counts: &Counts) -> u64 {
    counts.tpause + counts.umwait + counts.mwaitx
}

#[test]
fn a_wait_lasts_until_its_time_is_over() {
    let scene = scene(Behaviour::by_the_manual());
    for by in trapped() {
        for depth in [Depth::Deep, Depth::Light] {
            let (before, span) = (scene.counts(), span(LONG));
            assert_eq!(wait(by, depth, span), Woke::Somehow);
            assert!(super::ticks() >= span.from + LONG, "{by:?}");
            let counts = scene.counts();
            assert_eq!((waits(&counts) - waits(&before), counts.by_deadline - before.by_deadline), (1, 1));
        }
    }
    let counts = scene.counts();
    let waitpkg = trapped().iter().filter(|by| is_waitpkg(by)).count() as u64;
    let mwaitx = trapped().len() as u64 - waitpkg;
    let expected = (2 * waitpkg, 2 * mwaitx, 2 * mwaitx, 0);
    assert_eq!((counts.tpause, counts.monitorx, counts.mwaitx, counts.umwait), expected);
    assert_eq!((counts.light, counts.faults, counts.endless), (waitpkg, 0, 0));
    assert!(
        trapped().is_empty() || counts.longest_asked <= LONG,
        "what was asked is what is left, as a count or as a deadline: {counts:?}"
    );
    assert!(trapped().is_empty() || counts.longest_asked > LONG / 2, "{counts:?}");
}

#[test]
fn a_wait_that_is_over_is_not_begun() {
    let scene = scene(Behaviour::by_the_manual());
    let word = word();
    let over = Span { from: super::ticks() - 1_000, ticks: 1_000 };
    for by in trapped() {
        assert_eq!(wait(by, Depth::Deep, over), Woke::AtOnce);
        assert_eq!(wait_on(by, Depth::Deep, &Watch::while_equal(word, 0), over), Woke::AtOnce);
    }
    assert_eq!(waits(&scene.counts()), 0, "MWAITX with 0 would be for ever");
}

#[test]
fn the_limit_of_the_operating_system_is_told_from_the_deadline() {
    let scene = scene(Behaviour::by_the_manual().os_limit(LONG));
    let Some(waitpkg) = trapped().into_iter().find(is_waitpkg) else { return };
    let word = word();
    let watch = Watch::while_equal(word, 0);
    assert_eq!(wait(waitpkg, Depth::Deep, span(2 * LONG)), Woke::OsLimit);
    assert_eq!(wait(waitpkg, Depth::Deep, span(LONG / 2)), Woke::Somehow);
    assert_eq!(wait_on(waitpkg, Depth::Deep, &watch, span(2 * LONG)), Woke::OsLimit);
    assert_eq!(wait_on(waitpkg, Depth::Deep, &watch, span(LONG / 2)), Woke::Somehow);
    let counts = scene.counts();
    assert_eq!((counts.by_os_limit, counts.by_deadline), (2, 2));
}

#[test]
fn a_store_between_check_and_arm_is_not_slept_through() {
    let scene = scene(Behaviour::by_the_manual());
    for by in trapped() {
        for moment in [Moment::BeforeArm, Moment::AfterArm] {
            let word = word();
            let before = waits(&scene.counts());
            // The caller's own check.
            assert_eq!(word.load(Acquire), 0);
            scene.store_at(moment, word, 1);
            let woke = wait_on(by, Depth::Deep, &Watch::while_equal(word, 0), span(FOR_EVER));
            assert_eq!((woke, waits(&scene.counts()) - before), (Woke::AtOnce, 0), "{by:?} {moment:?}");
            assert_eq!(word.load(Acquire), 1);
        }
    }
}

#[test]
fn a_store_ends_a_wait() {
    let scene = scene(Behaviour::by_the_manual());
    for (n, by) in trapped().into_iter().enumerate() {
        let word = word();
        scene.store_at(Moment::InWait, word, 1);
        let from = super::ticks();
        assert_eq!(wait_on(by, Depth::Deep, &Watch::while_equal(word, 0), span(FOR_EVER)), Woke::Somehow);
        assert!(super::ticks() - from < FOR_EVER / 2, "{by:?}");
        assert_eq!(scene.counts().by_store, n as u64 + 1);
    }
}

#[test]
fn another_threads_store_ends_a_wait() {
    let scene = scene(Behaviour::by_the_manual());
    for by in trapped() {
        let word = word();
        let writer = std::thread::spawn(|| word.store(1, Release));
        let watch = Watch::while_equal(word, 0);
        // Whenever the store comes, before, while or between, it is seen without a wait that runs out.
        while word.load(Acquire) == 0 {
            let _ = wait_on(by, Depth::Deep, &watch, span(FOR_EVER));
        }
        writer.join().unwrap();
    }
    let counts = scene.counts();
    assert_eq!((counts.by_deadline, counts.faults), (0, 0), "{counts:?}");
}

#[test]
fn a_deaf_monitor_costs_the_time_asked_and_no_more() {
    let scene = scene(Behaviour::by_the_manual().deaf());
    for by in trapped() {
        let word = word();
        scene.store_at(Moment::InWait, word, 1);
        let span = span(LONG);
        assert_eq!(wait_on(by, Depth::Deep, &Watch::while_equal(word, 0), span), Woke::Somehow);
        assert!(super::ticks() >= span.from + LONG);
    }
    assert_eq!(scene.counts().by_deadline, trapped().len() as u64);
}

#[test]
fn registers_are_as_they_were() {
    let scene = scene(Behaviour::by_the_manual());
    let word = word();
    let watch = Watch::while_equal(word, 0);
    for by in trapped() {
        // More values than there are registers, alive across the waits.
        let values: [u64; 20] = std::array::from_fn(|n| black_box(0x0101_0101_0101_0101 * n as u64));
        let floats: [f64; 20] = std::array::from_fn(|n| black_box(n as f64 / 3.0));
        let _ = wait(by, Depth::Light, span(10));
        let _ = wait_on(by, Depth::Deep, &watch, span(10));
        for n in 0..20 {
            assert_eq!(values[n], 0x0101_0101_0101_0101 * n as u64);
            assert_eq!(floats[n], n as f64 / 3.0);
        }
    }
    assert_eq!(scene.counts().faults, 0, "no reserved bit was set");
}
