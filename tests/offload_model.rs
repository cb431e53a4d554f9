//! A runtime whose copies go to the device model: what is asked for comes back right, whoever carries it out, in fair weather and foul.
#![cfg(feature = "sim")]
#![allow(unsafe_code)] // buffers of the tests' own

mod common;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use common::pairs;
use twolane::offload::{Engine, Failed, Failure, ReadBuffer, WriteBuffer};
use twolane::sim::dsa::{Device, DeviceConfig, Faults, Profile, QueueConfig};
use twolane::{Builder, LaneRunner, Placement, Runtime};

/// What operations get that are expected to be answered: on a machine that does other things, too, the model's thread may not run for seconds.
const PATIENT: Duration = Duration::from_secs(60);

fn device(profile: Profile) -> Device {
    Device::new(DeviceConfig::v1().queue(QueueConfig::shared(16)), profile).expect("a device of the 4th generation")
}

fn runtime(device: &Device) -> Runtime {
    let builder = Runtime::builder().placement(Placement::Unpinned).copy_timeout(PATIENT);
    builder.model_device(device).build().expect("the model's queues are free")
}

/// Bytes of which no two neighbourhoods look alike.
fn bytes(len: usize) -> Vec<u8> {
    (0..len as u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect()
}

#[test]
fn a_copy_goes_to_the_device_and_comes_back() {
    let device = device(Profile::strict(1));
    let _driven = device.spawn();
    let rt = runtime(&device);
    for len in [1, 63, 64, 4_095, 100_000, 5 << 20] {
        let src = bytes(len);
        let copying = rt.copies().on(Engine::Device).copy(src.clone(), vec![0; len]);
        let (_, dst) = rt.block_on(copying).unwrap().unwrap();
        assert!(dst == src, "{len}");
    }
    assert!(device.counters().accepted >= 8, "the last one in pieces of 2 MiB: {:?}", device.counters());
    assert_eq!(device.violations(), []);
    rt.shutdown(common::SOON).unwrap();
}

#[test]
fn in_foul_weather_the_contents_are_right_all_the_same() {
    let device = device(Profile::strict(7).faults(Faults::weather()));
    let _driven = device.spawn();
    let rt = runtime(&device);
    let mut quarantined = 0;
    for round in 0..200_usize {
        let len = 1 + round * 997 % 60_000;
        let src = bytes(len);
        match rt.block_on(rt.copies().on(Engine::Device).copy(src.clone(), vec![0; len])).unwrap() {
            Ok((_, dst)) => assert!(dst == src, "{len}"),
            Err(failed) => {
                assert!(matches!(failed.failure, Failure::Quarantined { .. } | Failure::Device { .. }), "{failed:?}");
                quarantined += u32::from(failed.buffers.is_none());
            }
        }
    }
    println!("{quarantined} were quarantined");
    assert_eq!(device.violations(), []);
}

#[test]
fn many_go_in_batches() {
    let device = device(Profile::strict(3));
    let _driven = device.spawn();
    let rt = runtime(&device);
    let copies = rt.copies().on(Engine::Device);
    let mut copying = Vec::new();
    copies.copy_many((0..40).map(|n| (bytes(10_000 + n), vec![0; 11_000])), &mut copying);
    for copy in copying {
        let (src, dst) = rt.block_on(copy).unwrap().unwrap();
        assert!(dst[..src.len()] == src);
    }
    let counts = copies.counts();
    assert_eq!((counts.batches, counts.batched), (5, 40), "{counts:?}");
    assert_eq!((device.counters().batches, device.violations()), (5, vec![]));
}

#[test]
fn all_as_one_future_go_in_batches_and_come_back_in_their_vec() {
    let device = device(Profile::strict(3));
    let _driven = device.spawn();
    let rt = runtime(&device);
    let copies = rt.copies().on(Engine::Device);
    // The first copy of a page wakes the reaper, the long way.
    rt.block_on(copies.copy(bytes(10), vec![0; 10])).unwrap().unwrap();
    let before = copies.counts();
    let pairs: Vec<_> = (0..8).map(|n| (bytes(10_000 + n), vec![0; 11_000])).collect();
    let place = pairs.as_ptr();
    let pairs = rt.block_on(copies.copy_all(pairs)).unwrap().unwrap();
    assert_eq!(pairs.as_ptr(), place, "the very Vec");
    let pairs: Vec<_> = pairs.into_iter().chain((0..27).map(|n| (bytes(10_000 + n), vec![0; 11_000]))).collect();
    let pairs = rt.block_on(copies.copy_all(pairs)).unwrap().unwrap();
    for (src, dst) in pairs {
        assert!(dst[..src.len()] == src);
    }
    let counts = copies.counts();
    // Eight, and 35 in batches of eight at most.
    assert_eq!((counts.batches - before.batches, counts.batched - before.batched), (6, 43), "{counts:?}");
    assert_eq!(device.violations(), []);
}

/// A buffer that says when it goes.
struct Told(Vec<u8>, Arc<AtomicUsize>);

impl Drop for Told {
    fn drop(&mut self) {
        self.1.fetch_add(1, Relaxed);
    }
}

// SAFETY: as of the vector, which is on the heap, and which nobody else has.
unsafe impl ReadBuffer for Told {
    fn readable(&self) -> (*const u8, usize) {
        (self.0.as_ptr(), self.0.len())
    }
}
// SAFETY: as above.
unsafe impl WriteBuffer for Told {
    fn writable(&mut self) -> (*mut u8, usize) {
        (self.0.as_mut_ptr(), self.0.len())
    }
}

#[test]
fn all_that_are_dropped_stay_until_the_last_of_them_is_over() {
    for polled in [false, true] {
        let device = device(Profile::strict(4));
        let rt = runtime(&device);
        let copies = rt.copies().on(Engine::Device);
        let gone = Arc::new(AtomicUsize::new(0));
        let told = |len| Told(bytes(len), Arc::clone(&gone));
        let mut copying = copies.copy_all((0..11).map(|_| (told(5000), told(5000))).collect());
        if polled {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(std::pin::Pin::new(&mut copying).poll(&mut cx).is_pending());
        }
        drop(copying);
        assert!(gone.load(Relaxed) < 22, "the device has most of them");
        let _driven = device.spawn();
        common::until("the device has answered", || gone.load(Relaxed) == 22);
        // Never asked for again, and forgotten: leaked, and nothing else.
        std::mem::forget(copies.copy_all((0..3).map(|_| (told(5000), told(5000))).collect()));
        let (src, dst) = rt.block_on(copies.copy(bytes(9), vec![0; 9])).unwrap().unwrap();
        assert_eq!(src, dst);
        assert_eq!((gone.load(Relaxed), device.violations()), (22, vec![]));
    }
}

#[test]
fn all_of_which_a_device_loses_some() {
    let mut lossy = Faults::none();
    lossy.never = 0.2;
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..20 {
        let device = device(Profile::strict(seed));
        device.set_faults(lossy);
        let _driven = device.spawn();
        let rt = pairs(1).model_device(&device).copy_timeout(Duration::from_millis(20)).build().unwrap();
        let gone = Arc::new(AtomicUsize::new(0));
        let all = (0..8).map(|n| (Told(bytes(3000 + n), Arc::clone(&gone)), Told(vec![0; 4000], Arc::clone(&gone))));
        match rt.block_on(rt.copies().on(Engine::Device).copy_all(all.collect())).unwrap() {
            Ok(pairs) => assert!(pairs.iter().all(|(src, dst)| dst.0[..src.0.len()] == src.0)),
            Err(failed) => {
                assert_eq!(failed.each.len(), 8);
                for one in &failed.each {
                    match one {
                        Ok((src, dst)) => assert!(dst.0[..src.0.len()] == src.0),
                        Err(Failed { failure: Failure::Quarantined { .. }, buffers: None }) => lost += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
                drop(failed);
            }
        }
        kept += 16 - gone.load(Relaxed);
        assert_eq!(device.violations(), []);
    }
    // What is answered late after all goes then: on a machine that does other things, too.
    assert!(
        lost > 0 && kept > 0 && kept <= 2 * lost,
        "what a device may still write stays, and nothing else: {kept} for {lost}"
    );
}

#[test]
fn a_future_that_is_dropped_leaves_its_buffers_to_the_device() {
    let device = device(Profile::strict(4));
    let rt = runtime(&device);
    let copies = rt.copies().on(Engine::Device);
    for _ in 0..10 {
        drop(copies.copy(bytes(50_000), vec![0; 50_000]));
        std::mem::forget(copies.copy(bytes(50_000), vec![0; 50_000]));
    }
    // Only now does the device come to them.
    let _driven = device.spawn();
    let (src, dst) = rt.block_on(copies.copy(bytes(9), vec![0; 9])).unwrap().unwrap();
    assert_eq!(src, dst);
    // The queue took 16 of the 20; what had not gone out was taken back, unless the reaper was about to try it again.
    let abandoned = copies.counts().abandoned;
    assert!((8..=10).contains(&abandoned), "{abandoned}");
    assert_eq!(device.violations(), []);
}

/// A runtime whose reaper has no lane yet, so that nobody looks at a batch's age: what is gathered closes by count and bytes alone.
fn without_reaper(device: &Device, builder: Builder) -> (Runtime, LaneRunner) {
    let rt = builder
        .own_threads([0])
        .model_device(device)
        .copy_timeout(PATIENT)
        .build()
        .expect("the model's queues are free");
    let lane = rt.lane_runner(0).expect("a poll lane of the test's own");
    (rt, lane)
}

/// What batches and single descriptors the device was given while nobody looked, from so many copies gathered of so many bytes each.
fn gathered(builder: Builder, copies: usize, len: usize) -> (u64, u64, u64) {
    let device = device(Profile::strict(5));
    let (rt, lane) = without_reaper(&device, builder);
    let gathering = rt.copies().on(Engine::Device).gathered(true);
    let copying: Vec<_> = (0..copies).map(|_| gathering.copy(bytes(len), vec![0; len])).collect();
    let before = gathering.counts();
    std::thread::scope(|scope| {
        scope.spawn(move || lane.run());
        let _driven = device.spawn();
        for copy in copying {
            let (src, dst) = rt.block_on(copy).unwrap().unwrap();
            assert!(src == dst);
        }
        let after = gathering.counts();
        assert_eq!(
            after.singles + after.batched,
            copies as u64,
            "what waited goes when the lane looks at its age: {after:?}"
        );
        rt.shutdown(common::SOON).unwrap();
    });
    assert_eq!(device.violations(), []);
    (before.batches, before.batched, before.singles)
}

#[test]
fn gathered_copies_wait_for_each_other() {
    assert_eq!(gathered(pairs(1), 8, 5_000), (1, 8, 0), "by count");
    assert_eq!(gathered(pairs(1), 7, 5_000), (0, 0, 0), "one is missing");
    assert_eq!(gathered(pairs(1), 19, 100), (2, 16, 0), "three wait for more");
}

#[test]
fn the_builder_says_when_a_batch_closes() {
    assert_eq!(gathered(pairs(1).batch_count(3), 7, 5_000), (2, 6, 0));
    assert_eq!(gathered(pairs(1).batch_count(16), 17, 100), (1, 16, 0));
    assert_eq!(gathered(pairs(1).batch_count(1), 3, 100), (0, 0, 3), "no batches");
    assert_eq!(gathered(pairs(1).batch_bytes(10_000), 5, 5_000), (2, 4, 0), "by bytes");
    assert_eq!(gathered(pairs(1).batch_bytes(1), 2, 5_000), (0, 0, 2), "each is enough");
    let device = device(Profile::strict(6));
    let (rt, _lane) = without_reaper(&device, pairs(1).batch_count(4));
    let mut many = Vec::new();
    rt.copies().on(Engine::Device).copy_many((0..9).map(|_| (bytes(100), vec![0; 100])), &mut many);
    let counts = rt.copies().counts();
    assert_eq!((counts.batches, counts.batched, counts.singles), (2, 8, 1), "at once as well: {counts:?}");
    device.run_until_idle();
}

#[test]
fn limits_that_make_no_sense_are_errors() {
    let us = Duration::from_micros;
    for (builder, says) in [
        (pairs(1).batch_count(0), "batch_count is 0: it takes 1 (no batches) to 16"),
        (pairs(1).batch_count(17), "batch_count is 17"),
        (pairs(1).batch_bytes(0), "batch_bytes is 0: it takes 1 byte to 1 GiB"),
        (pairs(1).batch_bytes((1 << 30) + 1), "1 GiB"),
        (pairs(1).neighbour_cache((64 << 30) + 1), "neighbour_cache is 68719476737: it takes 0"),
        (pairs(1).max_added(us(3)).batch_age(us(4)), "batch_age is 4µs: it takes 0 to max_added"),
        (pairs(1).max_added(us(3)).batch_age(us(3)).copy_timeout(us(1)), "copy_timeout is 1µs"),
    ] {
        let error = builder.plan().map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    assert!(pairs(1).max_added(us(3)).batch_age(us(3)).plan().is_ok(), "all of what a lane may add");
    assert!(pairs(1).max_added(Duration::ZERO).plan().is_ok(), "the default follows");
}
