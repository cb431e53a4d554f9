//! The driver's decisions against the device model: descriptors that it accepts, records that it writes, faults that it has. What `prepare` makes, the
//! model checks by the specification; what `outcome` makes of the answers must give the data and the verdict of the CPU engine.

use std::sync::atomic::{AtomicU32, Ordering::*};
use std::thread;
use std::time::{Duration, Instant};

use super::abi::{CompletionSlot, Descriptor, Flags, Status};
use super::outcome::tests::{Draws, MEMORY_WORDS, draw};
use super::outcome::{BatchOutcome, Child, Outcome, Rest, batch_outcome, child, outcome};
use super::portal::Submitted;
use super::prepare::{Manner, Prepared, Unsuited, opcode, prepare};
use super::queue::Queue;
use super::{chain, faults};
use crate::offload::cpu::{self, Stores};
use crate::offload::{Failure, Intent, Operation, Verdict};
use crate::sim::dsa::driver::{By, ModelWay};
use crate::sim::dsa::{AddressSpace, Device, DeviceConfig, Faults, KernelProfile, Profile, QueueConfig};

/// A device with one queue, and that queue as the driver opens it.
struct Bench {
    device: Device,
    queue: Queue,
}

fn bench(config: DeviceConfig, queue: QueueConfig, by: By, profile: Profile) -> Bench {
    let device = Device::new(config.kernel(KernelProfile::V6_12).queue(queue), profile).unwrap();
    let way = ModelWay::new(device.open(0, &AddressSpace::new().unwrap()).unwrap(), by);
    let limits = way.limits();
    Bench { device, queue: Queue::new("wq0.0", None, limits, Box::new(way)) }
}

impl Bench {
    /// Submits until it is accepted; the device works meanwhile.
    ///
    /// # Safety
    /// As `Portal::submit`.
    unsafe fn submit(&self, descriptor: &Descriptor) {
        loop {
            // SAFETY: the caller's promise.
            match unsafe { self.queue.submit(descriptor) } {
                Submitted::Accepted => return,
                Submitted::Full => self.device.run_until_idle(),
                Submitted::Dead(death) => panic!("{death}"),
            }
        }
    }

    /// What a task does with one operation, to its end.
    ///
    /// # Safety
    /// The operation's memory is valid and nobody else's.
    unsafe fn carry_out(&self, operation: Operation, manner: Manner) -> Result<Verdict, Failure> {
        // SAFETY: the caller's promise.
        let by_cpu = |rest: &Rest| unsafe { cpu::perform(&rest.operation, Stores::Plain) }.map(|v| rest.lift(v));
        let slot = CompletionSlot::new();
        let mut rest = Rest::whole(operation);
        loop {
            let prepared = prepare(&rest.operation, manner, self.queue.limits(), slot.address());
            let Prepared { descriptor, .. } = prepared.expect("everything that is drawn suits this queue");
            slot.clear_all();
            // SAFETY: the caller's memory; the record was zeroed, and both outlive the run.
            unsafe { self.submit(&descriptor) };
            self.device.run_until_idle();
            let record = slot.record().expect("everything is answered here");
            self.queue.answered(1);
            match outcome(&rest, &record) {
                Outcome::Done(verdict) => return Ok(verdict),
                Outcome::Resume { rest: left, fault } => {
                    faults::bring_in(&left.operation, fault)?;
                    rest = left;
                }
                Outcome::Finish { rest, fault } => {
                    fault.map_or(Ok(()), |fault| faults::bring_in(&rest.operation, fault))?;
                    return by_cpu(&rest);
                }
                other => panic!("{other:?} of {descriptor:?}"),
            }
        }
    }
}

/// Draws operations and compares the device's answers with the CPU's.
fn compare(rounds: usize, seed: u64, bench: &Bench) {
    let mut draws = Draws(seed);
    for round in 0..rounds {
        let mut memory = vec![0; MEMORY_WORDS];
        let operation = draw(round, &mut draws, &mut memory);
        let start = memory.clone();
        // SAFETY: everything lies in `memory`, here and below.
        let expected = (unsafe { cpu::perform(&operation, Stores::Plain) }, memory.clone());
        memory.copy_from_slice(&start);
        let intent = [Intent::Soon, Intent::Cold, Intent::Durable][draws.below(3)];
        let manner = Manner { intent, block_on_fault: draws.below(4) == 0 };
        // SAFETY: as above.
        let verdict = unsafe { bench.carry_out(operation, manner) };
        assert_eq!(verdict, expected.0, "seed {seed:#x}, round {round}: {operation:?}");
        // What lies behind a wrong block is not defined, and a device may stop a delta earlier.
        if !matches!(verdict, Ok(Verdict::DifMismatch { .. } | Verdict::DeltaOverflow)) {
            assert!(memory == expected.1, "seed {seed:#x}, round {round}: the data of {operation:?}");
        }
    }
    assert_eq!(bench.device.violations(), []);
    assert_eq!(bench.queue.credits().taken(), 0);
}

#[test]
fn every_operation_gives_the_cpus_data_and_verdict() {
    for (seed, config) in [(1, DeviceConfig::v1()), (2, DeviceConfig::v2())] {
        let queue = QueueConfig::shared(8).block_on_fault(true);
        compare(300, seed, &bench(config, queue, By::Instruction, Profile::strict(seed)));
    }
    let dedicated = bench(DeviceConfig::v1(), QueueConfig::dedicated(4), By::Write, Profile::strict(3));
    compare(150, 3, &dedicated);
}

#[test]
fn faults_of_every_kind_change_neither_data_nor_verdict() {
    for seed in 10..14 {
        let faults = [Faults::weather(), Faults::storm()][seed as usize % 2];
        let faults = Faults { page_refused: 0.01, ..faults };
        let profile = Profile::strict(seed).faults(faults);
        compare(300, seed, &bench(DeviceConfig::v1(), QueueConfig::shared(8), By::Instruction, profile));
    }
}

#[test]
fn memory_that_is_nobodys_is_an_error_and_no_hang() {
    let bench = bench(DeviceConfig::v1(), QueueConfig::shared(8), By::Instruction, Profile::strict(5));
    let mut words = vec![0_u64; 1024];
    // The first page of the address space is never mapped.
    let (nowhere, here) = (64 as *mut u8, words.as_mut_ptr().cast::<u8>());
    for (operation, write) in [
        (Operation::Copy { src: nowhere, dst: here, len: 100 }, false),
        (Operation::Copy { src: here, dst: nowhere, len: 100 }, true),
    ] {
        // SAFETY: the operation is refused before the CPU would touch it: that is the point.
        let found = unsafe { bench.carry_out(operation, Manner::default()) };
        let Err(Failure::BadAddress { address, write: wrote }) = found else { panic!("{found:?}") };
        assert_eq!((address / 4096, wrote), (0, write));
    }
    assert_eq!(bench.device.violations(), []);
}

#[test]
fn batches_are_sorted_out_child_by_child() {
    let faults = Faults { list_fault: 0.1, ..Faults::weather() };
    let profile = Profile::strict(21).faults(faults);
    let bench = bench(DeviceConfig::v1(), QueueConfig::shared(8), By::Instruction, profile);
    let mut draws = Draws(0x1234_5678_9abc);
    let mut stopped = 0;
    for round in 0..60 {
        let mut memories = vec![vec![0; MEMORY_WORDS]; 8];
        let operations: Vec<Operation> =
            memories.iter_mut().enumerate().map(|(n, memory)| draw(8 * round + n, &mut draws, memory)).collect();
        let before = memories.clone();
        // SAFETY: each operation's memory is its own, here and below.
        let expected: Vec<_> =
            operations.iter().map(|op| unsafe { cpu::perform(op, Stores::Plain) }.unwrap()).collect();
        let after = memories.clone();
        memories.iter_mut().zip(&before).for_each(|(memory, before)| memory.copy_from_slice(before));

        let slots: Vec<CompletionSlot> = (0..8).map(|_| CompletionSlot::new()).collect();
        // Half of the rounds with a fence in the middle.
        let fenced = round % 2 == 0;
        let list: Vec<Descriptor> = operations
            .iter()
            .zip(&slots)
            .enumerate()
            .map(|(n, (operation, slot))| {
                let limits = bench.queue.limits();
                let descriptor = prepare(operation, Manner::default(), limits, slot.address()).unwrap().descriptor;
                if fenced && n == 4 { descriptor.with_flags(Flags::FENCE) } else { descriptor }
            })
            .collect();
        let slot = CompletionSlot::new();
        let batch = Descriptor::batch(list.as_ptr().addr() as u64, 8).report_to(slot.address()).with_flags(Flags::RCR);
        // SAFETY: list, records and memory outlive the run; all are fresh.
        unsafe { bench.submit(&batch) };
        bench.device.run_until_idle();
        bench.queue.answered(1);
        let judged = batch_outcome(8, &slot.record().unwrap());
        stopped += u32::from(matches!(judged, BatchOutcome::Stopped { .. }));
        for (n, operation) in operations.iter().enumerate() {
            let record = slots[n].record();
            let rest = match child(judged, n as u32, record.is_some()) {
                Child::NeverRan => Ok(Rest::whole(*operation)),
                Child::Unknown => panic!("nothing is lost here"),
                Child::Answered => match outcome(&Rest::whole(*operation), &record.unwrap()) {
                    Outcome::Done(verdict) => Err(verdict),
                    Outcome::Resume { rest, .. } | Outcome::Finish { rest, .. } => Ok(rest),
                    other => panic!("{other:?} of {operation:?}"),
                },
            };
            // SAFETY: as above.
            let verdict = rest.map_or_else(
                |verdict| verdict,
                |rest| rest.lift(unsafe { bench.carry_out(rest.operation, Manner::default()) }.unwrap()),
            );
            assert_eq!(verdict, expected[n], "round {round}: {operation:?}");
            if !matches!(verdict, Verdict::DifMismatch { .. } | Verdict::DeltaOverflow) {
                assert!(memories[n] == after[n], "round {round}: the data of {operation:?}");
            }
        }
    }
    assert_eq!(bench.device.violations(), []);
    assert!(stopped > 5, "fences closed and lists faulted: {stopped}");
}

#[test]
fn a_chain_in_one_batch_keeps_its_order() {
    use chain::Needs::{Nothing, Order};
    // Each copies the word before it one further: out of order, a word is lost.
    let needs: Vec<chain::Needs> = [Nothing].into_iter().chain([Order; 15]).collect();
    for seed in 0..20 {
        let bench = bench(DeviceConfig::v1(), QueueConfig::shared(8), By::Instruction, Profile::strict(seed));
        let mut words: Vec<u64> = (0..17).collect();
        let at = |words: &mut Vec<u64>, n: usize| words.as_mut_ptr().wrapping_add(n).cast::<u8>();
        let slots: Vec<CompletionSlot> = (0..17).map(|_| CompletionSlot::new()).collect();
        for wave in chain::waves(&needs, 2, bench.queue.limits().batch_max) {
            let list: Vec<Descriptor> = wave
                .range
                .clone()
                .map(|n| {
                    let (src, dst) = (at(&mut words, n), at(&mut words, n + 1));
                    let copy = Operation::Copy { src, dst, len: 8 };
                    let limits = bench.queue.limits();
                    let made = prepare(&copy, Manner::default(), limits, slots[n].address()).unwrap().descriptor;
                    if wave.is_fenced(&needs, n) { made.with_flags(Flags::FENCE) } else { made }
                })
                .collect();
            assert!(wave.batch);
            let batch = Descriptor::batch(list.as_ptr().addr() as u64, list.len() as u32);
            let batch = batch.report_to(slots[16].address()).with_flags(Flags::RCR);
            // SAFETY: everything outlives the run.
            unsafe { bench.submit(&batch) };
            bench.device.run_until_idle();
            assert_eq!(slots[16].record().unwrap().status(), Status::SUCCESS);
        }
        assert_eq!(words, [0; 17], "seed {seed}");
        assert_eq!(bench.device.violations(), []);
    }
}

#[test]
fn what_prepare_refuses_the_device_refuses_too() {
    // Each of these is kept from the device; submitted all the same, it is refused there. So no gate is there for nothing.
    let bench =
        bench(DeviceConfig::v1(), QueueConfig::shared(8).max_transfer(4096), By::Instruction, Profile::strict(7));
    let mut words = vec![0_u64; 4096];
    let base = words.as_mut_ptr().cast::<u8>();
    let at = |n: usize| base.wrapping_add(n);
    let limits = bench.queue.limits();
    let generous = super::queue::Limits {
        transfer_max: u64::MAX,
        general: super::abi::GenCap(u64::MAX),
        operations: super::abi::OpCap([u64::MAX; 4]),
        ..limits.clone()
    };
    let slot = CompletionSlot::new();
    for (operation, why, status) in [
        (Operation::Copy { src: at(0), dst: at(8192), len: 4097 }, Unsuited::Long { most: 4096 }, Status::XFER_ERANGE),
        (
            Operation::Fill { pattern: crate::offload::Pattern::Sixteen([1; 16]), dst: at(0), len: 64 },
            Unsuited::Pattern,
            Status::INVALID_FLAGS,
        ),
    ] {
        assert_eq!(prepare(&operation, Manner::default(), limits, slot.address()).unwrap_err(), why);
        let cold = Manner { intent: Intent::Cold, ..Manner::default() };
        let descriptor = prepare(&operation, cold, &generous, slot.address()).unwrap().descriptor;
        slot.clear_all();
        // SAFETY: all in `words`, which outlives the run.
        unsafe { bench.submit(&descriptor) };
        bench.device.run_until_idle();
        bench.queue.answered(1);
        let record = slot.record().unwrap();
        assert_eq!(record.status(), status, "{:?}", opcode(operation.kind()));
        let rest = Rest::whole(operation);
        assert_eq!(outcome(&rest, &record), Outcome::Refused { rest, status });
    }
}

#[test]
fn eight_threads_never_overflow_a_dedicated_queue() {
    let bench = bench(DeviceConfig::v1(), QueueConfig::dedicated(4), By::Instruction, Profile::strict(8));
    let driven = bench.device.spawn().unwrap();
    let (done, full) = (AtomicU32::new(0), AtomicU32::new(0));
    // Far more than it takes: a tenth of a second here.
    let deadline = Instant::now() + Duration::from_secs(20);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let slot = CompletionSlot::new();
                    let descriptor = Descriptor::noop().report_to(slot.address()).with_flags(Flags::RCR);
                    // SAFETY: the record outlives the answer, which is waited for.
                    while unsafe { bench.queue.submit(&descriptor) } == Submitted::Full {
                        full.fetch_add(1, Relaxed);
                        assert!(Instant::now() < deadline, "credits were lost");
                        thread::yield_now();
                    }
                    while slot.record().is_none() {
                        assert!(Instant::now() < deadline, "a descriptor was dropped");
                        thread::yield_now();
                    }
                    bench.queue.answered(1);
                    done.fetch_add(1, Relaxed);
                }
            });
        }
    });
    drop(driven);
    assert_eq!(done.load(Relaxed), 1600);
    assert!(full.load(Relaxed) > 0, "there was back-pressure");
    assert_eq!((bench.device.violations(), bench.queue.credits().taken()), (vec![], 0));
    assert!(!bench.device.error().valid(), "{:?}", bench.device.error());
}
