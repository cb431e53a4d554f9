//! What can happen to an operation on a device, each made to happen: absent and refused pages, overlap of nothing, full queues, queues that die, threads that end.
//! By calls into the model, and by the very instructions to nodes that trap.
#![cfg(feature = "sim")]
#![allow(unsafe_code)] // mappings of the tests' own

mod common;
mod offload_common;
use std::time::{Duration, Instant};

use offload_common::memory::{PAGE, Pages};
use offload_common::{Backend, LIMIT, Rig, bytes, end_of, ends, reference};
use twolane::offload::dsa::abi::{Opcode, Status};
use twolane::offload::{Engine, Failure};
use twolane::sim::dsa::{Device, DeviceConfig, Faults, PageState, Profile, QueueConfig};
use twolane::{LaneRunner, Runtime};

fn device(queue: QueueConfig, profile: Profile) -> Device {
    Device::new(DeviceConfig::v1().queue(queue), profile).expect("a device that there could be")
}

fn shared(seed: u64) -> Device {
    device(QueueConfig::shared(16), Profile::strict(seed))
}

/// Ways into a shared queue, and into a dedicated one.
#[cfg(target_arch = "x86_64")]
const WAYS: [(Backend, Backend); 2] = [(Backend::Shared, Backend::Dedicated), (Backend::Enqcmd, Backend::Movdir64b)];
#[cfg(not(target_arch = "x86_64"))]
const WAYS: [(Backend, Backend); 1] = [(Backend::Shared, Backend::Dedicated)];

/// A rig on a shared queue for each way into one.
fn rigs(seed: u64) -> impl Iterator<Item = Rig> {
    WAYS.into_iter().map(move |(way, _)| Rig::on(way, shared(seed)))
}

#[test]
fn an_absent_page_is_brought_in_wherever_it_is() {
    const PAGES: usize = 5;
    for rig in (0..4).flat_map(rigs) {
        for absent in 0..PAGES {
            for of_the_source in [false, true] {
                let len = PAGES * PAGE - 200;
                let contents = bytes(len, absent as u64);
                let (src, dst) = (Pages::with(PAGES, 100, &contents), Pages::with(PAGES, 0, &[1; PAGES * PAGE]));
                let page = if of_the_source { src.at(absent * PAGE) } else { dst.at(absent * PAGE) };
                rig.space().set(page, PAGE, PageState::Absent);
                let asked = rig.copies().copy(src.buffer(100, len), dst.buffer(50, len));
                let (_, dst) = end_of(&rig.rt, "a copy over an absent page", asked).unwrap();
                let dst = dst.into_inner();
                assert!(dst.read(50, len) == contents, "page {absent}, source: {of_the_source}");
                assert_eq!((dst.read(0, 50), dst.read(50 + len, 150)), (vec![1; 50], vec![1; 150]));
                rig.space().clear();
            }
        }
        let counts = rig.rt.copies().counts();
        assert!(counts.resumes >= 2 * PAGES as u64, "{counts:?}");
        rig.nothing_was_violated();
    }
}

#[test]
fn a_page_that_faults_for_ever_is_left_to_the_cpu() {
    for rig in rigs(5) {
        let contents = bytes(3 * PAGE, 5);
        let (src, dst) = (Pages::with(3, 0, &contents), Pages::new(3));
        rig.space().set_absent_times(dst.at(PAGE), PAGE, u32::MAX);
        let asked = rig.copies().copy(src.buffer(0, 3 * PAGE), dst.buffer(0, 3 * PAGE));
        let (_, dst) = end_of(&rig.rt, "a copy that faults for ever", asked).unwrap();
        assert!(dst.into_inner().read(0, 3 * PAGE) == contents);
        let counts = rig.rt.copies().counts();
        assert_eq!(counts.finished_by_cpu.iter().sum::<u64>(), 1, "{counts:?}");
        rig.nothing_was_violated();
    }
}

#[test]
fn a_page_that_the_device_is_refused_is_done_by_the_cpu_if_that_can() {
    for rig in rigs(6) {
        let contents = bytes(3 * PAGE, 6);
        let (src, dst) = (Pages::with(3, 0, &contents), Pages::with(3, 0, &[1; 3 * PAGE]));
        rig.space().set(dst.at(PAGE), PAGE, PageState::Bad);
        let asked = rig.copies().copy(src.buffer(0, 3 * PAGE), dst.buffer(0, 3 * PAGE));
        let (_, dst) = end_of(&rig.rt, "a copy to a refused page", asked).unwrap();
        assert!(dst.into_inner().read(0, 3 * PAGE) == contents);
        rig.nothing_was_violated();
    }
}

#[test]
fn memory_that_cannot_be_written_is_an_error_with_its_address_and_no_signal() {
    for rig in rigs(7) {
        let contents = bytes(3 * PAGE, 7);
        for protection in [libc::PROT_READ, libc::PROT_NONE] {
            let (src, dst) = (Pages::with(3, 0, &contents), Pages::with(3, 0, &[1; 3 * PAGE]));
            dst.protect(1, protection);
            let bad = dst.at(PAGE).addr();
            let asked = rig.copies().copy(src.buffer(0, 3 * PAGE), dst.buffer(0, 3 * PAGE));
            let failed = end_of(&rig.rt, "a copy to forbidden memory", asked).unwrap_err();
            assert_eq!(failed.failure, Failure::BadAddress { address: bad, write: true }, "protection {protection}");
            let (src, _) = failed.buffers.expect("the device is done with them");
            assert!(src.into_inner().read(0, 3 * PAGE) == contents);
        }
        let (src, dst) = (Pages::with(3, 0, &contents), Pages::new(3));
        src.protect(2, libc::PROT_NONE);
        let bad = src.at(2 * PAGE).addr();
        let asked = rig.copies().copy(src.buffer(0, 3 * PAGE), dst.buffer(0, 3 * PAGE));
        let failed = end_of(&rig.rt, "a copy of forbidden memory", asked).unwrap_err();
        assert_eq!(failed.failure, Failure::BadAddress { address: bad, write: false });
    }
}

#[test]
fn a_checksum_is_right_however_little_of_it_the_device_did() {
    for rig in (0..4).flat_map(rigs) {
        for absent in 0..3 {
            let contents = bytes(3 * PAGE - 10, absent as u64);
            let src = Pages::with(3, 10, &contents);
            rig.space().set(src.at(absent * PAGE), PAGE, PageState::Absent);
            let asked = rig.copies().crc32c(src.buffer(10, contents.len()), 0xabcd);
            let (_, crc) = end_of(&rig.rt, "a checksum over an absent page", asked).unwrap();
            assert_eq!(
                crc,
                reference::crc32c(&contents, 0xabcd),
                "page {absent}: the record of an empty part has none"
            );
            rig.space().clear();
        }
        rig.nothing_was_violated();
    }
}

#[test]
fn a_list_that_is_refused_loses_no_operation() {
    let mut faults = Faults::weather();
    faults.list_fault = 0.5;
    for rig in rigs(8) {
        // Not before the queue has shown that it takes batches.
        rig.device().set_faults(faults);
        for _ in 0..20 {
            let mut copying = Vec::new();
            rig.copies().copy_many((0..8).map(|n| (bytes(3000 + n, n as u64), vec![0; 4000])), &mut copying);
            for copying in copying {
                let (src, dst) = end_of(&rig.rt, "one of a batch", copying).unwrap();
                assert!(dst[..src.len()] == src);
            }
        }
        let ended = rig.device().counters();
        assert!(ended.with_status(Status::BATCH_PAGE_FAULT) > 0, "{ended:?}");
        assert!(rig.rt.copies().counts().retries > 0);
        rig.nothing_was_violated();
    }
}

#[test]
fn a_full_queue_makes_wait_and_loses_nothing() {
    for (shared, dedicated) in WAYS {
        for (way, queue) in [(shared, QueueConfig::shared(16).threshold(3)), (dedicated, QueueConfig::dedicated(3))] {
            let rig = Rig::stopped(way, device(queue, Profile::strict(9)));
            let copying: Vec<_> =
                (0..40).map(|n| rig.copies().copy(bytes(1000 + n, n as u64), vec![0; 1100])).collect();
            assert!(rig.rt.copies().counts().full > 0);
            let rig = rig.started();
            for copying in copying {
                let (src, dst) = end_of(&rig.rt, "a copy that waited for room", copying).unwrap();
                assert!(dst[..src.len()] == src);
            }
            assert_eq!(rig.device().counters().dropped, 0);
            rig.nothing_was_violated();
        }
    }
}

#[test]
fn eight_threads_never_overflow_a_dedicated_queue() {
    const FIRST: usize = 40;
    for (_, way) in WAYS {
        let rig = Rig::stopped(way, device(QueueConfig::dedicated(4), Profile::strict(10)));
        let before = rig.device().counters().with_opcode(Opcode::MEMMOVE);
        // The queue is full to begin with, however fast the device is later.
        let first: Vec<_> = (0..FIRST).map(|n| rig.copies().copy(bytes(500 + n, 99), vec![0; 600])).collect();
        assert!(rig.rt.copies().counts().full > 0, "the queue is not full");
        let rig = rig.started();
        ends("eight threads on a queue of four", || {
            std::thread::scope(|scope| {
                for thread in 0..8 {
                    let (rt, copies) = (&rig.rt, rig.copies());
                    scope.spawn(move || {
                        for n in 0..20 {
                            let asked: Vec<_> =
                                (0..4).map(|k| copies.copy(bytes(500 + n + k, thread), vec![0; 600])).collect();
                            for asked in asked {
                                let (src, dst) = rt.block_on(asked).expect("a foreign thread may wait").unwrap();
                                assert!(dst[..src.len()] == src);
                            }
                        }
                    });
                }
            });
        });
        for asked in first {
            let (src, dst) = end_of(&rig.rt, "a copy from before", asked).unwrap();
            assert!(dst[..src.len()] == src);
        }
        let counters = rig.device().counters();
        assert_eq!(counters.dropped, 0);
        rig.nothing_was_violated();
        // What found the queue full went in batches when there was room again.
        let copied = counters.with_opcode(Opcode::MEMMOVE) - before;
        assert_eq!(copied, (FIRST + 8 * 20 * 4) as u64, "{counters:?}");
    }
}

#[test]
fn threads_end_with_operations_in_flight() {
    for (way, _) in WAYS {
        let rig = Rig::stopped(way, device(QueueConfig::shared(64), Profile::strict(11)));
        let copying: Vec<_> = (0..8)
            .map(|n| {
                let copies = rig.copies();
                let started = std::thread::spawn(move || {
                    drop(copies.copy(bytes(700, n), vec![0; 700]));
                    copies.copy(bytes(5000, n), vec![0; 5000])
                });
                started.join().unwrap()
            })
            .collect();
        let rig = rig.started();
        for copying in copying {
            let (src, dst) = end_of(&rig.rt, "a copy of a thread that is gone", copying).unwrap();
            assert!(src == dst);
        }
        rig.nothing_was_violated();
    }
}

/// A runtime that gives up soon, on a stopped model, once its reaper's lane runs: before, nobody looks at the time.
fn impatient(device: &Device) -> (Runtime, LaneRunner) {
    let builder = common::pairs(1).own_threads([0]).copy_timeout(Duration::from_millis(50));
    let rt = builder.model_device(device).build().unwrap();
    let lane = rt.lane_runner(0).unwrap();
    (rt, lane)
}

#[test]
fn what_a_queue_took_with_it_is_quarantined_and_the_cpu_does_the_rest() {
    for queue in [QueueConfig::shared(16), QueueConfig::dedicated(16)] {
        for halted in [false, true] {
            let device = device(queue.clone(), Profile::strict(12));
            let (rt, lane) = impatient(&device);
            let copies = rt.copies().on(Engine::Device);
            let kept: Vec<_> = (0..3).map(|n| copies.copy(bytes(5000, n), vec![0; 5000])).collect();
            drop(copies.copy(bytes(5000, 9), vec![0; 5000]));
            if halted {
                device.halt()
            } else {
                device.disable_queue(0)
            }
            let _driven = device.spawn().unwrap();
            let lane = std::thread::spawn(move || lane.run());
            for copying in kept {
                let failed = end_of(&rt, "a copy whose queue is gone", copying).unwrap_err();
                assert!(matches!(failed.failure, Failure::Quarantined { .. }), "{failed}");
                assert!(failed.buffers.is_none(), "a device may write to them yet");
                assert!(failed.failure.to_string().contains("model wq0.0"), "{failed}");
            }
            // The dropped one is given up as well, when its time has come.
            let deadline = Instant::now() + LIMIT;
            while copies.counts().quarantined < 4 {
                assert!(Instant::now() < deadline, "{:?}", copies.counts());
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!((copies.counts().quarantined, device.counters().lost), (4, 4));
            // What is asked for now is done all the same, and who insists on the device hears why not.
            let asked = rt.copies().copy(bytes(90_000, 1), vec![0; 90_000]);
            let (src, dst) = end_of(&rt, "a copy without a queue", asked).unwrap();
            assert!(src == dst);
            let failed = end_of(&rt, "a refusal", copies.copy(vec![1; 9], vec![0; 9])).unwrap_err();
            assert!(failed.failure.to_string().contains("twolane doctor"), "{failed}");
            assert_eq!(failed.buffers, Some((vec![1; 9], vec![0; 9])));
            assert_eq!(device.violations(), []);
            rt.shutdown(common::SOON).unwrap();
            lane.join().unwrap();
        }
    }
}

#[test]
fn a_runtime_ends_with_operations_that_nobody_answers() {
    let device = shared(13);
    let (rt, lane) = impatient(&device);
    let copies = rt.copies().on(Engine::Device);
    let kept = copies.copy(bytes(5000, 1), vec![0; 5000]);
    drop(copies.copy(bytes(5000, 2), vec![0; 5000]));
    let lane = std::thread::spawn(move || lane.run());
    let began = Instant::now();
    let _ = rt.shutdown(Duration::from_secs(1));
    assert!(began.elapsed() < LIMIT);
    lane.join().unwrap();
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let std::task::Poll::Ready(Err(failed)) = std::pin::pin!(kept).as_mut().poll(&mut cx) else {
        panic!("a runtime that has ended answers everything")
    };
    assert!(matches!(failed.failure, Failure::Quarantined { .. }), "{failed}");
    // The device comes to it after all: the memory is still there.
    device.run_until_idle();
    assert_eq!(device.violations(), []);
}

#[test]
fn a_timeout_that_makes_no_sense_is_an_error() {
    for timeout in [Duration::ZERO, Duration::from_millis(9), Duration::from_secs(61)] {
        let error = Runtime::builder().copy_timeout(timeout).build().map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("10 ms to 60 s"), "{error}");
    }
}
