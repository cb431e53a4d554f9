//! Chains of operations that wait for each other, and lists of buffers: over everything that can carry them out, the same data and the same answers, whatever faults on the
//! way.
#![cfg(feature = "sim")]
#![allow(unsafe_code)] // mappings of the tests' own

mod common;
mod offload_common;

use std::time::Duration;

use offload_common::backend::TRANSFER_MAX;
use offload_common::memory::{PAGE, Pages};
use offload_common::{Backend, Rig, bytes, end_of, reference};
use twolane::offload::{Chain, Engine, Failure, Intent, Seed, StepId, Verdict};
use twolane::sim::dsa::{Device, DeviceConfig, Faults, Profile, QueueConfig};

const BACKENDS: [Backend; 11] = [
    Backend::Cpu,
    Backend::CpuHere,
    Backend::Shared,
    Backend::Dedicated,
    Backend::SharedInWeather,
    Backend::DedicatedInWeather,
    Backend::Storm,
    Backend::NoBatch,
    Backend::ThreeQueues,
    Backend::Version2,
    Backend::Hardware,
];

fn each_backend(mut test: impl FnMut(&Rig)) {
    for backend in BACKENDS {
        let Some(rig) = backend.rig(backend as u64 + 41) else { continue };
        test(&rig);
        rig.nothing_was_violated();
        let counts = rig.rt.copies().counts();
        assert_eq!(counts.quarantined, 0, "{backend:?}: {counts:?}");
    }
}

#[test]
fn each_stage_sees_what_the_one_before_has_done() {
    each_backend(|rig| {
        for len in [1, 63, 4096, 9000, TRANSFER_MAX, TRANSFER_MAX + 1, 2 * TRANSFER_MAX + 777] {
            let (head, body) = (bytes(100, 1), bytes(len, 2));
            let whole = [&head[..], &body].concat();
            let mut chain = Chain::new();
            let (head, body) = (chain.source(head), chain.source(body));
            let (frame, copy, again) = (
                chain.target(vec![0; 100 + len]),
                chain.target(vec![1; 100 + len]),
                chain.target(vec![2; 100 + len + 8]),
            );
            let front = chain.copy(head, frame.at(..100));
            let back = chain.copy(body, frame.at(100..));
            chain.then();
            let copied = chain.copy_crc32c(frame, copy, 5);
            chain.then();
            let same = chain.compare(copy, frame);
            let filled = chain.fill(again, *b"abcdefgh");
            chain.then();
            let over = chain.copy(copy.at(..), again);
            let goes_on = chain.crc32c(body, copied);
            chain.then();
            let differs = chain.compare(again.at(..100 + len), frame);
            let pattern = chain.compare_pattern(again.at(100 + len..), *b"abcdefgh");
            let done = end_of(&rig.rt, "a chain", rig.copies().run(chain)).unwrap();
            let crc = reference::crc32c(&whole, 5);
            for (step, verdict) in [
                (front, Verdict::Done),
                (back, Verdict::Done),
                (copied, Verdict::Crc(crc)),
                (same, Verdict::Equal),
                (filled, Verdict::Done),
                (over, Verdict::Done),
                (goes_on, Verdict::Crc(reference::crc32c(&whole[100..], crc))),
                (differs, Verdict::Equal),
            ] {
                assert_eq!(done.verdict(step), Ok(verdict), "{:?} {len}: {step:?}", rig.backend);
            }
            // The pattern's phase is that of the fill.
            let phase: Vec<u8> = reference::filled(b"abcdefgh", 108 + len)[100 + len..].to_vec();
            let first = phase.iter().zip(b"abcdefgh").position(|(is, want)| is != want);
            assert_eq!(done.verdict(pattern), Ok(first.map_or(Verdict::Equal, |at| Verdict::Differ { at })));
            assert_eq!(done.failure(), None);
            assert_eq!(done.verdicts().len(), 9);
            assert!(done.targets[0] == whole && done.targets[1] == whole && done.targets[2][..100 + len] == whole);
            assert!(done.sources[1] == whole[100..]);
        }
    });
}

/// Random chains beside an interpreter that does one after the other.
#[test]
fn random_chains_come_to_what_one_operation_after_the_other_comes_to() {
    each_backend(|rig| {
        let mut dice = Dice(rig.backend as u64 + 9);
        for round in 0..40 {
            let (mut chain, mut memory) = (Chain::new(), Vec::new());
            let source = bytes(5000, round);
            let src = chain.source(source.clone());
            let targets: Vec<_> = (0..3).map(|n| chain.target(vec![n; 5000])).collect();
            (0..3).for_each(|n| memory.push(vec![n; 5000]));
            let mut expected: Vec<(StepId, Verdict)> = Vec::new();
            for _ in 0..1 + dice.below(14) {
                let (to, len) = (dice.below(3), 1 + dice.below(2000));
                let (from, at) = (dice.below(5000 - len), dice.below(5000 - len));
                if dice.below(4) > 0 {
                    chain.then();
                }
                let step = match dice.below(6) {
                    0 => {
                        memory[to][at..at + len].copy_from_slice(&source[from..from + len]);
                        (chain.copy(src.at(from..from + len), targets[to].at(at..at + len)), Verdict::Done)
                    }
                    1 => {
                        let other = dice.below(3);
                        let moved = memory[other][from..from + len].to_vec();
                        memory[to][at..at + len].copy_from_slice(&moved);
                        (chain.copy(targets[other].at(from..from + len), targets[to].at(at..at + len)), Verdict::Done)
                    }
                    2 => {
                        memory[to][at..at + len].copy_from_slice(&reference::filled(b"TWOLANE!", len));
                        (chain.fill(targets[to].at(at..at + len), *b"TWOLANE!"), Verdict::Done)
                    }
                    3 => {
                        let differ =
                            memory[to][at..at + len].iter().zip(&source[from..from + len]).position(|(a, b)| a != b);
                        let verdict = differ.map_or(Verdict::Equal, |at| Verdict::Differ { at });
                        (chain.compare(targets[to].at(at..at + len), src.at(from..from + len)), verdict)
                    }
                    _ => {
                        let mut crcs = expected.iter().filter_map(|(step, verdict)| match verdict {
                            Verdict::Crc(crc) => Some((*step, *crc)),
                            _ => None,
                        });
                        let (seed, value) = match crcs.next_back() {
                            Some((step, crc)) if dice.below(2) == 0 => (Seed::Of(step), crc),
                            _ => (Seed::Value(77), 77),
                        };
                        let crc = reference::crc32c(&memory[to][at..at + len], value);
                        (chain.crc32c(targets[to].at(at..at + len), seed), Verdict::Crc(crc))
                    }
                };
                expected.push(step);
            }
            match end_of(&rig.rt, "a random chain", rig.copies().run(chain)) {
                Ok(done) => {
                    for (step, verdict) in expected {
                        assert_eq!(done.verdict(step), Ok(verdict), "{:?} round {round}: {step:?}", rig.backend);
                    }
                    assert!(done.targets == memory, "{:?} round {round}", rig.backend);
                }
                // Two of a stage met: nobody knows what would come of it, and nothing was done.
                Err(failed) => {
                    assert!(failed.failure.to_string().contains("neither waits for the other"), "{failed}");
                    assert_eq!(failed.buffers, Some((vec![source], vec![vec![0; 5000], vec![1; 5000], vec![2; 5000]])));
                }
            }
        }
    });
}

fn shared(seed: u64, faults: Faults) -> Device {
    let profile = Profile::strict(seed).faults(faults);
    Device::new(DeviceConfig::v1().queue(QueueConfig::shared(16)), profile).unwrap()
}

/// A row of copies, each from where the one before has put it.
fn row(len: usize, contents: &[u8]) -> Chain<Vec<u8>, Vec<u8>> {
    let mut chain = Chain::new();
    let src = chain.source(contents.to_vec());
    let targets: Vec<_> = (0..len).map(|_| chain.target(vec![0; contents.len()])).collect();
    chain.copy(src, targets[0]);
    for pair in targets.windows(2) {
        chain.then();
        chain.copy(pair[0], pair[1]);
    }
    chain
}

#[test]
fn stages_are_one_batch_with_fences_or_one_after_the_other() {
    for (backend, batches, batched, singles) in [(Backend::Shared, 1, 5, 0), (Backend::NoBatch, 0, 0, 5)] {
        let rig = backend.rig(3).unwrap();
        let contents = bytes(3000, 8);
        let done = end_of(&rig.rt, "a row", rig.copies().run(row(5, &contents))).unwrap();
        assert!(done.targets.iter().all(|target| *target == contents));
        let counts = rig.rt.copies().counts();
        assert_eq!((counts.batches, counts.batched, counts.singles), (batches, batched, singles), "{backend:?}");
        assert_eq!(rig.device().counters().batches, batches);
        rig.nothing_was_violated();
    }
}

/// A fault stops the batch at the next fence: the operation that faulted is resumed, and then what waited for it has its turn.
#[test]
fn what_waits_for_an_operation_that_faults_waits_for_its_end() {
    for seed in 0..6 {
        let rig = Rig::on(Backend::Shared, shared(seed, Faults::none()));
        let contents = bytes(3 * PAGE, seed);
        let mut chain = Chain::new();
        let src = chain.source(Pages::with(3, 0, &contents).buffer(0, 3 * PAGE));
        let (middle, end) = (Pages::with(3, 0, &[1; 3 * PAGE]), Pages::with(3, 0, &[2; 3 * PAGE]));
        // The first's destination, in the middle of it, and once more when it is resumed.
        rig.space().set_absent_times(middle.at(PAGE), PAGE, 2);
        let (middle, end) = (chain.target(middle.buffer(0, 3 * PAGE)), chain.target(end.buffer(0, 3 * PAGE)));
        chain.copy(src, middle);
        chain.then();
        chain.copy(middle, end);
        chain.then();
        let crc = chain.crc32c(end, 0);
        let done = end_of(&rig.rt, "a chain with a fault", rig.copies().run(chain)).unwrap();
        assert_eq!(done.verdict(crc), Ok(Verdict::Crc(reference::crc32c(&contents, 0))), "seed {seed}");
        let counts = rig.rt.copies().counts();
        assert!(counts.resumes > 0, "{counts:?}");
        rig.nothing_was_violated();
    }
}

#[test]
fn what_waits_for_an_operation_that_fails_is_not_done() {
    for backend in [Backend::Shared, Backend::NoBatch] {
        let rig = backend.rig(4).unwrap();
        let contents = bytes(PAGE, 5);
        let mut chain = Chain::new();
        let src = chain.source(Pages::with(1, 0, &contents).buffer(0, PAGE));
        let forbidden = Pages::new(1);
        forbidden.protect(0, libc::PROT_READ);
        let bad = forbidden.at(0).addr();
        let forbidden = chain.target(forbidden.buffer(0, PAGE));
        let (beside, behind) =
            (chain.target(Pages::new(1).buffer(0, PAGE)), chain.target(Pages::new(1).buffer(0, PAGE)));
        let fails = chain.copy(src, forbidden);
        let beside_it = chain.copy(src, beside);
        chain.then();
        let waits = chain.copy(forbidden, behind);
        chain.then();
        let waits_too = chain.fill(behind, [9; 8]);
        let mut done = end_of(&rig.rt, "a chain of which one fails", rig.copies().run(chain)).unwrap();
        assert_eq!(done.verdict(fails), Err(&Failure::BadAddress { address: bad, write: true }), "{backend:?}");
        assert_eq!(done.verdict(beside_it), Ok(Verdict::Done));
        for step in [waits, waits_too] {
            assert_eq!(done.verdict(step), Err(&Failure::NotDone { because: 0 }), "{backend:?}");
        }
        assert!(done.failure().is_some());
        assert!(done.targets.remove(2).into_inner().read(0, PAGE) == [0; PAGE], "not a byte");
        assert!(done.targets.remove(1).into_inner().read(0, PAGE) == contents);
        rig.nothing_was_violated();
    }
}

/// Lists that cannot be read, full queues and late answers: the order holds.
#[test]
fn in_foul_weather_the_order_holds() {
    let mut faults = Faults::weather();
    faults.list_fault = 0.5;
    let rig = Rig::on(Backend::Shared, shared(7, faults));
    for round in 0..60 {
        let contents = bytes(1 + 97 * round as usize, round);
        let done = end_of(&rig.rt, "a row", rig.copies().run(row(1 + round as usize % 24, &contents))).unwrap();
        assert!(done.targets.iter().all(|target| *target == contents), "round {round}");
    }
    rig.nothing_was_violated();
}

#[test]
fn what_a_queue_took_with_it_keeps_the_buffers() {
    let device = shared(8, Faults::none());
    let builder = common::pairs(1).own_threads([0]).copy_timeout(Duration::from_millis(50));
    let rt = builder.model_device(&device).build().unwrap();
    // Without its lane, nobody gives anything up before the queue is gone.
    let lane = rt.lane_runner(0).unwrap();
    let copies = rt.copies().on(Engine::Device);
    let contents = bytes(3000, 1);
    let kept = copies.run(row(4, &contents));
    drop(copies.run(row(4, &contents)));
    std::mem::forget(copies.run(row(4, &contents)));
    device.disable_queue(0);
    let lane = std::thread::spawn(move || lane.run());
    let failed = end_of(&rt, "a chain whose queue is gone", kept).unwrap_err();
    assert!(matches!(failed.failure, Failure::Quarantined { .. }) && failed.buffers.is_none(), "{failed}");
    let failed = end_of(&rt, "a refusal", copies.run(row(2, &contents))).unwrap_err();
    assert!(failed.failure.to_string().contains("twolane doctor") && failed.buffers.is_some(), "{failed}");
    let done = end_of(&rt, "a chain without a queue", rt.copies().run(row(9, &contents))).unwrap();
    assert!(done.targets.iter().all(|target| *target == contents));
    device.run_until_idle();
    assert_eq!(device.violations(), []);
    rt.shutdown(common::SOON).unwrap();
    lane.join().unwrap();
}

#[test]
fn dropped_on_the_way_the_device_has_the_buffers_until_it_has_answered() {
    let rig = Rig::stopped(Backend::Shared, shared(9, Faults::none()));
    let contents = bytes(3000, 2);
    for round in 0..6 {
        let mut chain = rig.copies().run(row(1 + round, &contents));
        if round % 2 == 0 {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(std::pin::Pin::new(&mut chain).poll(&mut cx).is_pending());
        }
        drop(chain);
    }
    let rig = rig.started();
    let done = end_of(&rig.rt, "a row after those", rig.copies().run(row(7, &contents))).unwrap();
    assert!(done.targets.iter().all(|target| *target == contents));
    rig.nothing_was_violated();
}

#[test]
fn a_chain_that_cannot_be_is_refused_with_its_buffers() {
    each_backend(|rig| {
        let mut chain = Chain::new();
        let (src, dst) = (chain.source(vec![1_u8; 64]), chain.target(vec![0_u8; 60]));
        chain.copy(src, dst);
        let failed = end_of(&rig.rt, "a refusal", rig.copies().run(chain)).unwrap_err();
        assert!(
            failed.failure.to_string().contains("operation 0 of the chain: its destination has 60 bytes"),
            "{failed}"
        );
        assert_eq!(failed.buffers, Some((vec![vec![1; 64]], vec![vec![0; 60]])));
        let empty = end_of(&rig.rt, "nothing", rig.copies().run(Chain::<Vec<u8>, Vec<u8>>::new())).unwrap();
        assert_eq!(empty.verdicts().len(), 0);
    });
}

#[test]
fn a_large_chain_is_done_by_the_cpu_in_slices() {
    for (engine, intent) in [(Engine::Cpu, Intent::Soon), (Engine::CpuHere, Intent::Durable)] {
        let rt = common::pairs(1).build().unwrap();
        let contents = bytes(1 << 20, 4);
        let mut chain = rt.copies().on(engine).intent(intent).run(row(3, &contents));
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut polls = 0;
        let done = loop {
            polls += 1;
            if let std::task::Poll::Ready(done) = std::pin::Pin::new(&mut chain).poll(&mut cx) {
                break done.unwrap();
            }
        };
        assert!(polls >= 3 * 8, "a slice of 128 KiB a poll: {polls}");
        assert!(done.targets.iter().all(|target| *target == contents));
    }
}

/// Cuts bytes into pieces at random, some of them empty.
fn cut(mut bytes: &[u8], dice: &mut Dice, most: usize) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (part, rest) = bytes.split_at(dice.below(most + 1).min(bytes.len()));
        parts.push(part.to_vec());
        bytes = rest;
    }
    parts
}

#[test]
fn lists_are_copied_whatever_their_cuts() {
    each_backend(|rig| {
        let mut dice = Dice(rig.backend as u64 + 77);
        for (len, source_max, target_max) in [
            (0, 1, 1),
            (1, 1, 1),
            (5000, 50, 5000),
            (5000, 5000, 50),
            (20_000, 700, 900),
            (3 * TRANSFER_MAX + 5, TRANSFER_MAX * 2, TRANSFER_MAX * 4),
        ] {
            let contents = bytes(len, len as u64);
            let sources = cut(&contents, &mut dice, source_max);
            let mut targets = cut(&vec![7; len + 9], &mut dice, target_max);
            targets.push(vec![8; 3]);
            let asked = rig.copies().copy_list(sources.clone(), targets);
            let (same, targets) = end_of(&rig.rt, "lists", asked).unwrap();
            let copied = targets.concat();
            assert!(same == sources && copied[..len] == contents, "{:?} {len}", rig.backend);
            assert_eq!(copied[len..], [[7; 9].as_slice(), &[8; 3]].concat(), "not a byte beyond");
        }
        let failed = end_of(&rig.rt, "no room", rig.copies().copy_list(vec![vec![1; 9]], vec![vec![0; 4], vec![0; 4]]));
        let failed = failed.unwrap_err();
        assert!(failed.failure.to_string().contains("has 8 bytes, and 9 are needed"), "{failed}");
        assert!(failed.buffers.is_some());
    });
}

#[test]
fn lists_go_in_batches() {
    let rig = Backend::Shared.rig(6).unwrap();
    let asked = rig.copies().copy_list((0..40).map(|n| vec![n; 100]).collect(), vec![vec![0; 4000]]);
    let (_, targets) = end_of(&rig.rt, "a list", asked).unwrap();
    assert!((0..40).all(|n| targets[0][n * 100..][..100] == [n as u8; 100]));
    let counts = rig.rt.copies().counts();
    assert!(counts.batches >= 1 && counts.singles + counts.batched == 40, "{counts:?}");
}

#[test]
fn a_list_that_cannot_be_written_is_an_error_with_the_buffers() {
    let rig = Backend::Shared.rig(7).unwrap();
    let forbidden = Pages::new(1);
    forbidden.protect(0, libc::PROT_READ);
    let bad = forbidden.at(0).addr();
    let targets = vec![Pages::new(1).buffer(0, PAGE), forbidden.buffer(0, PAGE)];
    let failed = end_of(&rig.rt, "a list", rig.copies().copy_list(vec![vec![1; 2 * PAGE]], targets)).unwrap_err();
    assert_eq!(failed.failure, Failure::BadAddress { address: bad, write: true });
    let (_, targets) = failed.buffers.unwrap();
    assert!(targets.into_iter().next().unwrap().into_inner().read(0, PAGE) == [1; PAGE]);
    rig.nothing_was_violated();
}

/// Numbers from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % end.max(1)
    }
}
