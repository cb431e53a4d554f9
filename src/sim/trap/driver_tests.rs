//! The driver's own portals against the device model, by the very instructions: a queue is opened from an empty file as from its device node, tried
//! out, and submitted to by ENQCMD and MOVDIR64B, which trap.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::{Trap, TrappedPortal};
use crate::offload::dsa::abi::{CompletionSlot, Descriptor, Flags, OpCap, Opcode, Status};
use crate::offload::dsa::discover::{Explicit, Mode};
use crate::offload::dsa::open::{Wants, open};
use crate::offload::dsa::portal::Submitted;
use crate::offload::dsa::queue::{Condition, Queue};
use crate::sim::dsa::{AddressSpace, Device, DeviceConfig, Driven, Faults, Profile, QueueConfig};

/// A queue of the driver's, and the model behind it, which a thread drives. Fields in the order in which they go.
#[allow(dead_code)] // some are held for what they keep alive
pub(crate) struct Opened {
    pub(crate) name: &'static str,
    pub(crate) queue: Queue,
    pub(crate) node: TrappedPortal,
    pub(crate) driven: Driven,
    pub(crate) device: Device,
    pub(crate) directory: tempfile::TempDir,
}

/// One of each way in: suites that run over portals run over these.
pub(crate) fn portals(profile: &Profile) -> Vec<Opened> {
    vec![
        opened("MOVDIR64B", QueueConfig::dedicated(16), Mode::Dedicated, profile),
        opened("ENQCMD", QueueConfig::shared(16).threshold(8), Mode::Shared, profile),
    ]
}

fn opened(name: &'static str, config: QueueConfig, mode: Mode, profile: &Profile) -> Opened {
    let trap = Trap::install().unwrap();
    let device = Device::new(DeviceConfig::v1().queue(config), profile.clone()).unwrap();
    let driven = device.spawn().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wq0.0");
    let node = trap.node(device.open(0, &AddressSpace::new().unwrap()).unwrap(), &path).unwrap();
    let operations = OpCap::of(&[Opcode::NOOP, Opcode::BATCH, Opcode::MEMMOVE, Opcode::MEMFILL, Opcode::CRCGEN]);
    let described = Explicit::new(path, mode).size(16).operations(operations).max_batch_size(32).queue().unwrap();
    let queue = open(&described, trap.instructions(), Wants::default()).unwrap();
    Opened { name, queue, node, driven, device, directory }
}

/// Submits until it is taken, and waits for the record.
///
/// # Safety
/// The descriptor's memory is the caller's until this returns.
unsafe fn run(queue: &Queue, slot: &CompletionSlot, descriptor: Descriptor) -> Status {
    let until = Instant::now() + Duration::from_secs(60);
    slot.clear_all();
    let descriptor = descriptor.report_to(slot.address()).with_flags(Flags::RCR);
    loop {
        // SAFETY: the caller's promise; the slot is cleared and this call's alone.
        match unsafe { queue.submit(&descriptor) } {
            Submitted::Accepted => break,
            Submitted::Full => std::thread::yield_now(),
            dead @ Submitted::Dead(_) => panic!("{dead:?}"),
        }
        assert!(Instant::now() < until, "full for a minute");
    }
    loop {
        if let Some(record) = slot.record() {
            queue.answered(1);
            return record.status();
        }
        assert!(Instant::now() < until, "no record within a minute");
        std::thread::yield_now();
    }
}

#[test]
fn a_queue_is_opened_and_tried_out_through_the_traps() {
    for opened in portals(&Profile::strict(1)) {
        let Opened { name, queue, device, .. } = &opened;
        assert_eq!(queue.limits().batch_max, 32, "{name}: the batch of two no-ops went through");
        assert_eq!(queue.health().condition(), Condition::Up);
        let counters = device.counters();
        assert_eq!((counters.accepted, counters.batches, counters.children), (2, 1, 2), "{name}");
        assert_eq!(device.violations(), [], "{name}");
    }
}

#[test]
fn eight_threads_copy_through_the_traps_and_every_byte_is_there() {
    const THREADS: usize = 8;
    const EACH: usize = 60;
    const MOST: usize = 20_000;
    // What a busy device does to correct software, but for faults, which are the flow's to resume.
    let mut faults = Faults::none();
    (faults.retry, faults.late_dispatch) = (0.2, 0.2);
    for opened in portals(&Profile::strict(7).faults(faults).residency(false)) {
        let (queue, done) = (&opened.queue, AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let done = &done;
                scope.spawn(move || {
                    let slot = CompletionSlot::new();
                    for n in 0..EACH {
                        let size = 1 + (thread * 7_919 + n * 104_729) % MOST;
                        let source: Vec<u8> = (0..size).map(|at| (at * 31 + n * 7 + thread) as u8).collect();
                        let mut target = vec![0_u8; size + 2];
                        let (from, to) = (source.as_ptr().addr() as u64, target[1..].as_mut_ptr().addr() as u64);
                        // SAFETY: both buffers outlive the call, which waits for the record.
                        let status = unsafe { run(queue, &slot, Descriptor::memmove(from, to, size as u32)) };
                        assert_eq!(status, Status::SUCCESS);
                        assert!(target[1..=size] == source[..], "{size} bytes of thread {thread}");
                        assert_eq!((target[0], target[size + 1]), (0, 0), "nothing beyond");
                        done.fetch_add(1, Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.load(Relaxed), THREADS * EACH);
        let counters = opened.device.counters();
        assert_eq!(counters.with_opcode(Opcode::MEMMOVE), (THREADS * EACH) as u64, "{}", opened.name);
        assert_eq!((counters.dropped, counters.lost), (0, 0), "{}", opened.name);
        assert_eq!(opened.queue.credits().taken(), 0);
        assert_eq!(opened.device.violations(), [], "{}", opened.name);
    }
}

#[test]
fn a_queue_that_is_retired_takes_late_stores_for_memory() {
    for opened in portals(&Profile::strict(3)) {
        let accepted = opened.device.counters().accepted;
        let _ = opened.queue.retire().unwrap();
        // SAFETY: a no-op without a record names no memory.
        let _ = unsafe { opened.queue.submit(&Descriptor::noop()) };
        assert_eq!(opened.device.counters().accepted, accepted, "{}: the device is out of reach", opened.name);
    }
}

#[test]
fn a_queue_that_is_disabled_is_found_dead_or_silent() {
    let dead = opened("ENQCMD", QueueConfig::shared(16), Mode::Shared, &Profile::strict(5));
    dead.device.disable_queue(0);
    for _ in 0..40 {
        // SAFETY: as above.
        assert_eq!(unsafe { dead.queue.submit(&Descriptor::noop()) }, Submitted::Full, "it never says which");
    }
    let silent = opened("MOVDIR64B", QueueConfig::dedicated(16), Mode::Dedicated, &Profile::strict(5));
    silent.device.halt();
    // SAFETY: as above.
    assert_eq!(unsafe { silent.queue.submit(&Descriptor::noop()) }, Submitted::Accepted);
    assert_eq!(silent.device.counters().dropped, 1);
}
