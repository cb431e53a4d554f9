//! A runtime whose copies go to the device model: what is asked for comes back right, whoever carries it out, in fair weather and foul.
#![cfg(feature = "sim")]

use std::time::Duration;

use twolane::offload::{Engine, Failure};
use twolane::sim::dsa::{Device, DeviceConfig, Faults, Profile, QueueConfig};
use twolane::{Placement, Runtime};

fn device(profile: Profile) -> Device {
    Device::new(DeviceConfig::v1().queue(QueueConfig::shared(16)), profile).expect("a device of the 4th generation")
}

fn runtime(device: &Device) -> Runtime {
    Runtime::builder().placement(Placement::Unpinned).model_device(device).build().expect("the model's queues are free")
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
    rt.shutdown(Duration::from_secs(5)).unwrap();
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
    // The queue took 16 of the 20; what had not gone out was taken back.
    assert_eq!((copies.counts().abandoned, device.violations()), (8, vec![]));
}

#[test]
fn gathered_copies_wait_for_each_other() {
    let device = device(Profile::strict(5));
    let _driven = device.spawn();
    let rt = runtime(&device);
    let copies = rt.copies().on(Engine::Device).gathered(true);
    let copying: Vec<_> = (0..8).map(|_| copies.copy(bytes(5_000), vec![0; 5_000])).collect();
    for copy in copying {
        let (src, dst) = rt.block_on(copy).unwrap().unwrap();
        assert_eq!(src, dst);
    }
    let counts = copies.counts();
    assert!(counts.batches >= 1 && counts.singles + counts.batched == 8, "{counts:?}");
}
