//! Random operations on devices that do everything that devices may do: whatever is answered is right, nothing is lost, and what is given up is what the device lost.
//!
//! 10^4 operations; `TWOLANE_SOAK` says how many instead, and `TWOLANE_SOAK_SEED` which (a failure prints its own).
#![cfg(feature = "sim")]
#![allow(unsafe_code)] // mappings of the tests' own

mod offload_common;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use offload_common::{LIMIT, bytes, reference};
use twolane::offload::{
    Copies, CopyCounts, DeltaOutcome, Dif, DifBlock, DifEscape, DifTags, DifWrite, Engine, Failed, Failure, Intent,
};
use twolane::sim::dsa::{Device, DeviceConfig, DeviceState, End, Faults, Profile, QueueConfig, QueueState};
use twolane::{Placement, Runtime};

/// Operations on one device and one runtime; then both are new. Few enough that queues which died are not missed for long.
const ROUND: u64 = 500;
/// Ends that a failure tells of: those of a round and more.
const TRACED: usize = 4 * ROUND as usize;
/// Operations in flight.
const DEPTH: usize = 24;
/// Much longer than the model takes on a busy machine, and short enough to be waited for often.
const TIMEOUT: Duration = Duration::from_millis(150);

/// How operations ended.
#[derive(Debug, Default)]
struct Ends {
    right: AtomicU64,
    refused: AtomicU64,
    quarantined: AtomicU64,
    device_failed: AtomicU64,
    dropped: AtomicU64,
}

/// Of all rounds.
#[derive(Debug, Default)]
struct Sums {
    lost: u64,
    late: u64,
    quarantined: u64,
    by_device: u64,
    finished_by_cpu: u64,
    resumes: u64,
    retries: u64,
    batches: u64,
    abandoned: u64,
    strikes: u64,
}

#[test]
fn whatever_is_answered_is_right_and_what_is_given_up_was_lost() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let total: u64 = number("TWOLANE_SOAK").unwrap_or(10_000);
    let first: u64 = number("TWOLANE_SOAK_SEED").unwrap_or(1);
    let (ends, mut sums) = (Ends::default(), Sums::default());
    let ends: &'static Ends = Box::leak(Box::new(ends));
    let began = Instant::now();
    watch(ends);
    let mut done = 0;
    let mut seed = first;
    while done < total {
        let count = ROUND.min(total - done);
        round(seed, count, ends, &mut sums);
        done += count;
        seed += 1;
        if done % 50_000 < ROUND {
            println!("{done} operations in {:?}: {ends:?} {sums:?}", began.elapsed());
        }
    }
    println!("{done} operations in {:?}: {ends:?} {sums:?}", began.elapsed());
    // Relaxed, here and below: counts, read by the thread that made them.
    let answered = [&ends.right, &ends.refused, &ends.quarantined, &ends.device_failed, &ends.dropped];
    assert_eq!(answered.iter().map(|count| count.load(Relaxed)).sum::<u64>(), total, "nothing is lost: {ends:?}");
    // A soak in which nothing went wrong would show nothing.
    if total >= 10_000 {
        assert!(ends.right.load(Relaxed) > 0 && sums.by_device > 0 && sums.lost > 0 && sums.strikes > 0, "{sums:?}");
        assert!(sums.resumes > 0 && sums.retries > 0 && sums.batches > 0 && sums.abandoned > 0, "{sums:?}");
        // Where answers came too late, the machine was too slow to say anything of how many there should be: queues were given up that were well.
        if sums.late == 0 {
            assert!(ends.right.load(Relaxed) > total / 2 && sums.by_device > total / 10, "{ends:?} {sums:?}");
        }
    }
}

/// Ends the process if no operation ends for too long: a hang would end nothing.
fn watch(ends: &'static Ends) {
    let sum = move || {
        [&ends.right, &ends.refused, &ends.quarantined, &ends.device_failed, &ends.dropped].map(|n| n.load(Relaxed))
    };
    std::thread::spawn(move || {
        let (mut last, mut since) = (sum(), Instant::now());
        loop {
            std::thread::sleep(Duration::from_secs(1)); // paces the looks, orders nothing
            let now = sum();
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > LIMIT {
                eprintln!("this hangs: no operation ended within {LIMIT:?}: {ends:?}");
                std::process::abort();
            }
        }
    });
}

fn round(seed: u64, count: u64, ends: &'static Ends, sums: &mut Sums) {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let device =
        Device::new(config(&mut dice), Profile::strict(seed).faults(Faults::everything()).trace(TRACED)).unwrap();
    let driven = device.spawn().unwrap();
    // Without the environment, in which this test's own variables would be taken for misspelt knobs.
    let builder = Runtime::builder().env_overrides(false).placement(Placement::Unpinned).copy_timeout(TIMEOUT);
    let rt = builder.model_device(&device).build().unwrap();
    let mut flying = InFlight::new();
    let mut left = count;
    while left > 0 || !flying.is_empty() {
        if left > 0 {
            left -= start(&mut dice, &rt, left, ends, &mut flying);
        }
        while flying.len() > if left > 0 { dice.below(DEPTH) } else { 0 } {
            let at = dice.below(flying.len());
            let (count, one) = flying.remove(at).expect("it is within");
            if dice.one_in(10) {
                drop(one);
                ends.dropped.fetch_add(count, Relaxed);
            } else if dice.one_in(4) {
                rt.spawn(one).join().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            } else {
                rt.block_on(one).unwrap();
            }
        }
        sums.strikes += u64::from(strike(&mut dice, &device));
    }
    // What the device took and will never answer is exactly what is given up.
    let quarantined = settle(&rt, &device, seed);
    let counts = rt.copies().counts();
    sums.lost += quarantined;
    sums.late += counts.late;
    sums.quarantined += counts.quarantined;
    sums.by_device += counts.device.iter().sum::<u64>();
    sums.finished_by_cpu += counts.finished_by_cpu.iter().sum::<u64>();
    sums.resumes += counts.resumes;
    sums.retries += counts.retries;
    sums.batches += counts.batches;
    sums.abandoned += counts.abandoned;
    rt.shutdown(Duration::from_secs(20)).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    assert_eq!(device.violations(), [], "seed {seed}");
    drop(driven);
}

/// Waits until all that was lost is given up, and nothing else is. Returns how much.
fn settle(rt: &Runtime, device: &Device, seed: u64) -> u64 {
    let deadline = Instant::now() + LIMIT;
    loop {
        let (counts, lost): (CopyCounts, u64) = (rt.copies().counts(), device.counters().lost);
        if counts.quarantined - counts.late == lost {
            return lost;
        }
        if Instant::now() >= deadline {
            let ends: Vec<_> = device.trace().into_iter().filter(|entry| matches!(entry.end, End::Lost(_))).collect();
            let violations = device.violations();
            panic!(
                "seed {seed}: the device lost {lost}, and {counts:?}; violations: {violations:?}; of its last descriptors it lost {ends:?}"
            );
        }
        std::thread::sleep(Duration::from_millis(1)); // paces the looks, orders nothing
    }
}

/// A device with one to three queues.
fn config(dice: &mut Dice) -> DeviceConfig {
    let base = if dice.one_in(3) { DeviceConfig::v2() } else { DeviceConfig::v1() };
    (0..=dice.below(3)).fold(base, |config, _| {
        let size = 2 + dice.below(30) as u32;
        let queue = if dice.one_in(2) { QueueConfig::dedicated(size) } else { QueueConfig::shared(size) };
        config.queue(queue.max_transfer(1 << (12 + dice.below(8))))
    })
}

/// Now and then something happens to the whole device or a queue of it.
fn strike(dice: &mut Dice, device: &Device) -> bool {
    let queue = dice.below(device.config().queues.len());
    if device.state() != DeviceState::Enabled || device.queue_state(queue) != QueueState::Enabled {
        if dice.one_in(20) {
            device.enable();
            device.enable_queue(queue);
        }
        return false;
    }
    match dice.below(2000) {
        0 => device.disable_queue(queue),
        1 => device.drain_queue(queue),
        2 => device.halt(),
        3 => device.reset(),
        _ => return false,
    }
    true
}

type Flying = Pin<Box<dyn Future<Output = ()> + Send>>;
/// What flies, and how many operations it is.
type InFlight = VecDeque<(u64, Flying)>;

/// Counts the end of an operation, and says that what came of it is right.
fn judge<T, B>(ends: &Ends, result: Result<T, Failed<B>>, right: impl FnOnce(T)) {
    let count = match result {
        Ok(output) => {
            right(output);
            &ends.right
        }
        Err(Failed { failure, buffers }) => match failure {
            Failure::Quarantined { .. } => {
                assert!(buffers.is_none());
                &ends.quarantined
            }
            // The device has gone away, or has not the operation: the buffers are back.
            Failure::Refused { what } => {
                assert!(buffers.is_some());
                assert!(what.contains("twolane doctor"), "{what}");
                &ends.refused
            }
            Failure::Device { .. } => {
                assert!(buffers.is_some());
                &ends.device_failed
            }
            other => panic!("{other}"),
        },
    };
    count.fetch_add(1, Relaxed);
}

/// Starts one operation, or some together. Returns how many.
fn start(dice: &mut Dice, rt: &Runtime, left: u64, ends: &'static Ends, flying: &mut InFlight) -> u64 {
    let engine = if dice.one_in(4) { Engine::Auto } else { Engine::Device };
    let intent = [Intent::Soon, Intent::Cold, Intent::Durable][dice.below(3)];
    let copies = rt.copies().on(engine).intent(intent).gathered(dice.one_in(3));
    if dice.one_in(8) {
        let count = (1 + dice.below(12) as u64).min(left);
        let pairs: Vec<_> = (0..count).map(|_| dice.bytes(8000)).map(|src| (src.clone(), vec![0; src.len()])).collect();
        let wanted: Vec<_> = pairs.iter().map(|(src, _)| src.clone()).collect();
        if dice.one_in(2) {
            let copying = copies.copy_all(pairs);
            let all = Box::pin(async move {
                let each = match copying.await {
                    Ok(pairs) => pairs.into_iter().map(Ok).collect(),
                    Err(failed) => failed.each,
                };
                assert_eq!(each.len(), wanted.len());
                for (one, wanted) in each.into_iter().zip(wanted) {
                    judge(ends, one, |(src, dst)| assert!(src == wanted && dst == wanted, "one of all"));
                }
            });
            flying.push_back((count, all));
            return count;
        }
        let mut copying = Vec::new();
        copies.copy_many(pairs, &mut copying);
        for (copying, wanted) in copying.into_iter().zip(wanted) {
            let one = Box::pin(async move {
                judge(ends, copying.await, |(src, dst)| assert!(src == wanted && dst == wanted, "one of many"));
            });
            flying.push_back((1, one));
        }
        return count;
    }
    flying.push_back((1, one(dice, &copies, ends)));
    1
}

/// One operation with what should come of it.
fn one(dice: &mut Dice, copies: &Copies, ends: &'static Ends) -> Flying {
    match dice.below(14) {
        0 | 1 => {
            let src = dice.bytes(200_000);
            let asked = copies.copy(src.clone(), vec![0; src.len() + 5]);
            Box::pin(async move {
                judge(ends, asked.await, |(same, dst)| {
                    assert!(same == src && dst[..src.len()] == src && dst[src.len()..] == [0; 5], "copy");
                });
            })
        }
        2 => {
            let (len, pattern) = (dice.len(50_000), (dice.next() | 1).to_le_bytes());
            let asked = copies.fill(vec![0; len], pattern);
            Box::pin(async move {
                judge(ends, asked.await, |dst| assert!(dst == reference::filled(&pattern, len), "fill"));
            })
        }
        3 | 4 => {
            let left = dice.bytes(50_000);
            let mut right = left.clone();
            let differs = (!left.is_empty() && dice.one_in(2)).then(|| dice.below(left.len()));
            if let Some(at) = differs {
                right[at] ^= 0x80;
            }
            let asked = copies.compare(left, right);
            Box::pin(async move { judge(ends, asked.await, |(.., at)| assert_eq!(at, differs, "compare")) })
        }
        5 => {
            let pattern = dice.next().to_le_bytes();
            let mut src = reference::filled(&pattern, dice.len(20_000));
            let differs = (!src.is_empty() && dice.one_in(2)).then(|| dice.below(src.len()));
            if let Some(at) = differs {
                src[at] ^= 1;
            }
            let asked = copies.compare_pattern(src, pattern);
            Box::pin(async move { judge(ends, asked.await, |(_, at)| assert_eq!(at, differs, "compare pattern")) })
        }
        6 => {
            let (src, seed) = (dice.bytes(10_000), dice.next() as u32);
            let crc = reference::crc32c(&src, seed);
            let asked = copies.crc32c(src, seed);
            Box::pin(async move { judge(ends, asked.await, |(_, found)| assert_eq!(found, crc, "crc")) })
        }
        7 => {
            let (src, seed) = (dice.bytes(10_000), dice.next() as u32);
            let crc = reference::crc32c(&src, seed);
            let asked = copies.copy_crc32c(src.clone(), vec![0; src.len()], seed);
            Box::pin(async move {
                judge(ends, asked.await, |(_, dst, found)| assert!(dst == src && found == crc, "copy and crc"));
            })
        }
        8 => {
            let src = dice.bytes(20_000);
            let asked = copies.dualcast(src.clone(), vec![0; src.len()], vec![0; src.len()]);
            Box::pin(async move {
                judge(ends, asked.await, |(_, one, two)| assert!(one == src && two == src, "dualcast"));
            })
        }
        9 => {
            let original = bytes(8 * dice.below(2000), dice.next());
            let mut modified = original.clone();
            for _ in 0..dice.below(20).min(original.len()) {
                let at = dice.below(original.len());
                modified[at] ^= 1;
            }
            let right = reference::delta(&original, &modified);
            let asked = copies.create_delta(original, modified, vec![0; 400]);
            Box::pin(async move {
                judge(ends, asked.await, |(.., record, outcome)| match outcome {
                    DeltaOutcome::Record { len } => assert!(record[..len] == right, "delta"),
                    DeltaOutcome::Overflow => panic!("20 entries of 10 bytes have room in 400"),
                });
            })
        }
        10 => {
            let original = bytes(8 * (1 + dice.below(2000)), dice.next());
            let mut modified = original.clone();
            for _ in 0..dice.below(20) {
                let at = dice.below(original.len());
                modified[at] ^= 1;
            }
            let asked = copies.apply_delta(reference::delta(&original, &modified), original);
            Box::pin(async move {
                judge(ends, asked.await, |(_, dst, outcome)| assert!(dst == modified && outcome.is_ok(), "apply"));
            })
        }
        11 => {
            let data = bytes(512 * dice.below(20), dice.next());
            let right = reference::protected(&data, 512, 7, 3);
            let asked = copies.dif_insert(data, vec![0; right.len()], dif());
            Box::pin(async move { judge(ends, asked.await, |(_, dst)| assert!(dst == right, "insert")) })
        }
        12 => {
            let data = bytes(512 * dice.below(20), dice.next());
            let mut src = reference::protected(&data, 512, 7, 3);
            let bad = (!data.is_empty() && dice.one_in(3)).then(|| dice.below(data.len() / 512));
            if let Some(block) = bad {
                src[block * 520 + 9] ^= 4;
            }
            if dice.one_in(2) {
                let asked = copies.dif_check(src, dif());
                return Box::pin(async move {
                    judge(ends, asked.await, |(_, verdict)| {
                        assert_eq!(verdict.err().map(|mismatch| mismatch.block), bad, "check");
                    });
                });
            }
            let asked = copies.dif_strip(src, vec![0; data.len()], dif());
            Box::pin(async move {
                judge(ends, asked.await, |(_, dst, verdict)| {
                    assert_eq!(verdict.err().map(|mismatch| mismatch.block), bad, "strip");
                    assert!(bad.is_some() || dst == data, "strip");
                });
            })
        }
        _ => {
            let data = bytes(512 * dice.below(20), dice.next());
            if dice.one_in(4) {
                let asked = copies.flush(data.clone());
                return Box::pin(async move { judge(ends, asked.await, |dst| assert!(dst == data, "flush")) });
            }
            let src = reference::protected(&data, 512, 7, 3);
            let room = vec![0; src.len()];
            let tags = DifTags { reference: 9, application: 1, ..dif().tags };
            let write = DifWrite { tags, keep_guard: false, keep_application: false, keep_reference: false };
            let right = reference::protected(&data, 512, 1, 9);
            let asked = copies.dif_update(src, room, dif(), write);
            Box::pin(async move {
                judge(ends, asked.await, |(_, dst, verdict)| assert!(dst == right && verdict.is_ok(), "update"));
            })
        }
    }
}

fn dif() -> Dif {
    let tags = DifTags {
        reference: 3,
        reference_fixed: false,
        application: 7,
        application_mask: 0,
        application_increments: false,
    };
    Dif {
        block: DifBlock::B512,
        tags,
        invert_seed: false,
        invert_result: false,
        check_guard: true,
        check_reference: true,
        escape: DifEscape::Never,
    }
}

/// Numbers from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() >> 33) as usize % end
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Mostly small, and up to `most`.
    fn len(&mut self, most: usize) -> usize {
        let bits = self.below(usize::BITS as usize - most.leading_zeros() as usize);
        self.below((2 << bits).min(most + 1))
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        bytes(self.len(most), self.next())
    }
}
