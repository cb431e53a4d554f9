//! Copies of borrowed memory: whoever asks waits, by itself, and nothing of them is left behind, not even when the device has died.
#![cfg(feature = "sim")]
#![allow(unsafe_code)] // mappings of the tests' own

mod common;
mod offload_common;

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use common::{pairs, within};
use offload_common::backend::TRANSFER_MAX;
use offload_common::{Backend, LIMIT, PATIENT, bytes, reference};
use twolane::offload::{Engine, Failure, Intent};
use twolane::sim::dsa::{Device, DeviceConfig, Faults, Profile, QueueConfig};
use twolane::{Progress, Runtime, Where};

const SIZES: [usize; 8] = [0, 1, 63, 64, 4095, TRANSFER_MAX, TRANSFER_MAX + 1, 3 * TRANSFER_MAX + 5];

#[test]
fn every_backend_does_them() {
    within(LIMIT, || {
        for backend in [
            Backend::Cpu,
            Backend::CpuHere,
            Backend::Shared,
            Backend::Dedicated,
            Backend::SharedInWeather,
            Backend::Storm,
            Backend::NoBatch,
            Backend::ThreeQueues,
            Backend::Version2,
            Backend::Enqcmd,
            Backend::Movdir64bInWeather,
            Backend::ThreeNodes,
            Backend::Hardware,
        ] {
            let Some(rig) = backend.rig(77) else { continue };
            for intent in [Intent::Soon, Intent::Durable] {
                let copies = rig.copies().intent(intent);
                for len in SIZES {
                    let (src, mut dst) = (bytes(len, len as u64), vec![9; len + 3]);
                    copies.copy_blocking(&src, &mut dst).unwrap();
                    assert!(dst[..len] == src && dst[len..] == [9; 3], "{backend:?} {len}");
                    copies.fill_blocking(&mut dst, *b"12345678").unwrap();
                    assert!(dst == reference::filled(b"12345678", len + 3), "{backend:?} {len}");
                    assert_eq!(
                        copies.crc32c_blocking(&src, 7).unwrap(),
                        reference::crc32c(&src, 7),
                        "{backend:?} {len}"
                    );
                    let mut other = src.clone();
                    assert_eq!(copies.compare_blocking(&src, &other).unwrap(), None);
                    if let Some(last) = other.last_mut() {
                        *last ^= 1;
                        assert_eq!(copies.compare_blocking(&src, &other).unwrap(), Some(len - 1), "{backend:?}");
                    }
                }
            }
            rig.nothing_was_violated();
            let counts = rig.rt.copies().counts();
            assert_eq!((counts.quarantined, counts.closed, counts.closing), (0, 0, 0), "{counts:?}");
        }
    });
}

#[test]
fn what_has_no_room_is_refused() {
    let rt = pairs(1).build().unwrap();
    let refused = rt.copies().copy_blocking(&[1; 100], &mut [0; 99]).unwrap_err();
    assert!(refused.to_string().contains("99"), "{refused}");
    let refused = rt.copies().compare_blocking(&[1; 3], &[1; 4]).unwrap_err();
    assert!(refused.to_string().contains("3 with 4"), "{refused}");
    let refused = rt.copies().on(Engine::Device).copy_blocking(&[1; 3], &mut [0; 4]).unwrap_err();
    assert!(refused.to_string().contains("twolane doctor"), "{refused}");
}

fn device(queue: QueueConfig, seed: u64, faults: Faults) -> Device {
    Device::new(DeviceConfig::v1().queue(queue), Profile::strict(seed).faults(faults)).unwrap()
}

#[test]
fn a_task_may_and_a_poller_may_not() {
    within(LIMIT, || {
        let device = device(QueueConfig::shared(8), 1, Faults::none());
        let _driven = device.spawn().unwrap();
        let rt = pairs(1).copy_timeout(PATIENT).model_device(&device).build().unwrap();
        let copies = rt.copies().on(Engine::Device);
        let in_task = copies.clone();
        let copied = rt.spawn_compute(move || {
            let mut dst = [0; 5000];
            in_task.copy_blocking(&[3; 5000], &mut dst).map(|()| dst == [3; 5000])
        });
        assert_eq!(copied.join().unwrap(), Ok(true));
        let (tell, told) = mpsc::channel();
        let poller = move |_: &mut twolane::PollCx<'_>| {
            let mut dst = [0; 16];
            tell.send((copies.copy_blocking(&[3; 16], &mut dst), dst)).unwrap();
            Progress::Done
        };
        let _poller = rt.spawn_poller(Where::Any, "impatient", poller).unwrap().join().unwrap();
        let (refused, dst) = told.recv().unwrap();
        let Err(Failure::Refused { what }) = refused else { panic!("{refused:?}") };
        assert!(what.contains("use the future"), "{what}");
        assert_eq!(dst, [0; 16]);
    });
}

/// A runtime whose operations are given up after 50 ms.
fn impatient(device: &Device) -> Runtime {
    pairs(1).copy_timeout(Duration::from_millis(50)).model_device(device).build().unwrap()
}

#[test]
fn a_dead_queue_is_closed_before_the_cpu_does_it() {
    within(LIMIT, || {
        for (queue, halts) in [(QueueConfig::shared(8), false), (QueueConfig::dedicated(8), true)] {
            let device = device(queue, 2, Faults::none());
            // It is not drained before the device has died, however late that is.
            device.keep_open(true);
            let rt = impatient(&device);
            let copies = rt.copies().on(Engine::Device);
            let (src, over) = (bytes(9000, 1), Arc::new(AtomicBool::new(false)));
            std::thread::scope(|scope| {
                let done = Arc::clone(&over);
                let (copies, src) = (&copies, &src);
                scope.spawn(move || {
                    let mut dst = vec![0; 9000];
                    copies.copy_blocking(src, &mut dst).unwrap();
                    assert!(dst == *src);
                    done.store(true, SeqCst);
                });
                common::until("it is with the device", || device.occupancy(0) == 1);
                if halts {
                    device.halt()
                } else {
                    device.disable_queue(0)
                }
                device.keep_open(false);
                common::until("the caller is back", || over.load(SeqCst));
            });
            let counts = rt.copies().counts();
            assert_eq!((counts.closed, counts.closing), (1, 0), "{counts:?}");
            assert_eq!(device.violations(), []);
            // The device forgot it: it cannot write any more, whatever happens to it.
            device.enable();
            device.run_until_idle();
            assert_eq!(device.counters().bytes_written, 0);
        }
    });
}

/// The device is merely late: by when the memory is the caller's again, the kernel has made it finish.
#[test]
fn a_late_device_is_drained_before_the_memory_is_given_back() {
    within(LIMIT, || {
        let device = device(QueueConfig::shared(8), 3, Faults::none());
        let rt = impatient(&device);
        let copies = rt.copies().on(Engine::Device);
        let (src, mut dst) = (bytes(9000, 4), vec![1; 9000]);
        // Nobody drives the device until the closing of the queue does.
        copies.copy_blocking(&src, &mut dst).unwrap();
        assert!(dst == src);
        assert_eq!(device.counters().bytes_written, 9000, "before the CPU did it");
        let counts = copies.counts();
        assert_eq!((counts.closed, counts.closing), (1, 0), "{counts:?}");
        assert_eq!((device.counters().lost, device.violations()), (0, vec![]));
        // Nothing is opened in its place here: it did not answer, and sysfs never said why.
        copies.copy_blocking(&src, &mut dst).unwrap_err();
    });
}

/// As long as a child of the process has the queue open, closing it drains nothing: what is borrowed is not given back, but waited for.
#[test]
fn what_is_not_known_to_be_drained_is_waited_for() {
    within(LIMIT, || {
        for (answers, queue) in [(true, QueueConfig::shared(8)), (false, QueueConfig::dedicated(8))] {
            let device = device(queue, 5, Faults::none());
            device.keep_open(true);
            let rt = impatient(&device);
            let copies = rt.copies().on(Engine::Device);
            let (src, over) = (bytes(9000, 6), Arc::new(AtomicBool::new(false)));
            std::thread::scope(|scope| {
                let (copies, src, done) = (&copies, &src, Arc::clone(&over));
                scope.spawn(move || {
                    let mut dst = vec![1; 9000];
                    copies.copy_blocking(src, &mut dst).unwrap();
                    assert!(dst == *src);
                    done.store(true, SeqCst);
                });
                common::until("it was closed in vain, again and again", || copies.counts().not_drained >= 3);
                let counts = copies.counts();
                assert_eq!((counts.closed, counts.closing, over.load(SeqCst)), (0, 1, false), "{counts:?}");
                if answers {
                    // Late, but it is the device's own answer.
                    device.run_until_idle();
                } else {
                    device.keep_open(false);
                }
                common::until("the caller is back", || over.load(SeqCst));
            });
            let counts = copies.counts();
            assert_eq!((counts.closed, counts.closing), (u64::from(!answers), 0), "{counts:?}");
            assert_eq!(device.counters().bytes_written, 9000, "before the memory was given back");
            assert_eq!(device.violations(), []);
        }
    });
}

#[test]
fn a_full_queue_makes_wait() {
    within(LIMIT, || {
        let device = device(QueueConfig::dedicated(2), 4, Faults::weather());
        let rt = pairs(1).copy_timeout(PATIENT).model_device(&device).build().unwrap();
        let copies = rt.copies().on(Engine::Device);
        let _driven = device.spawn().unwrap();
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let copies = &copies;
                scope.spawn(move || {
                    for n in 0..30 {
                        let (src, mut dst) = (bytes(300 + n, thread), vec![0; 400]);
                        copies.copy_blocking(&src, &mut dst).unwrap();
                        assert!(dst[..src.len()] == src);
                    }
                });
            }
        });
        assert_eq!((device.counters().dropped, device.violations()), (0, vec![]));
        assert_eq!(copies.counts().closed, 0);
    });
}
