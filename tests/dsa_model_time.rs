//! The device's time: latency and occupancy, ceilings, queues that fill up, and the clock.
#![cfg(feature = "sim")]

mod dsa_model;

use dsa_model::{Memory, PAGE, Rig, wait_for};
use twolane::offload::dsa::abi::{CompletionSlot, Descriptor, Status};
use twolane::sim::dsa::{DeviceConfig, Profile, QueueConfig, Timing};

fn timed() -> Profile {
    Profile::compat().timing(Timing::default()).without_data()
}

fn rig(depth: u32) -> Rig {
    Rig::with(DeviceConfig::v1().queue(QueueConfig::shared(depth)), timed())
}

/// Bytes per nanosecond of `count` copies, with at most `depth` in flight.
fn rate(rig: &Rig, bytes: u32, count: usize, depth: usize) -> f64 {
    let memory = Memory::new(1);
    let (mut submitted, mut completed) = (0, 0);
    let mut in_flight = vec![false; depth];
    while completed < count {
        for (n, flying) in in_flight.iter_mut().enumerate() {
            if *flying && rig.slot(n).record().is_some() {
                *flying = false;
                completed += 1;
            }
            if !*flying && submitted < count {
                let copy = Descriptor::memmove(memory.at(0), memory.at(0) + (1 << 30), bytes);
                if rig.submit(&rig.asked(n, copy)) {
                    *flying = true;
                    submitted += 1;
                }
            }
        }
        if let Some(due) = rig.device.next_due_ns() {
            rig.device.advance_to(due);
        }
    }
    (count as u64 * u64::from(bytes)) as f64 / rig.device.now_ns() as f64
}

#[test]
fn one_operation_takes_latency_and_transfer() {
    let rig = rig(32);
    let memory = Memory::new(1);
    let copy = rig.asked(0, Descriptor::memmove(memory.at(0), memory.at(0) + (1 << 30), 30_000));
    assert!(rig.submit(&copy));
    rig.device.advance_to(2_099);
    assert_eq!(rig.slot(0).record(), None);
    rig.device.advance_to(2_100);
    assert_eq!(rig.slot(0).record().unwrap().status(), Status::SUCCESS);
    assert_eq!(rig.device.now_ns(), 2_100);
    rig.device.advance_to(5);
    assert_eq!(rig.device.now_ns(), 2_100, "time does not run backward");
}

/// One at a time, four engines would do 0.9 GB/s.
#[test]
fn small_copies_go_through_pipelines() {
    let rate = rate(&rig(64), 256, 4_000, 64);
    assert!((5.0..=11.0).contains(&rate), "{rate} GB/s");
}

#[test]
fn depth_fills_the_device_and_the_ceiling_holds() {
    let rates: Vec<f64> = [1, 4, 16, 32].into_iter().map(|depth| rate(&rig(64), 4096, 2_000, depth)).collect();
    assert!(rates.is_sorted_by(|one, other| *one <= other * 1.02), "{rates:?}");
    assert!((2.8..=4.0).contains(&rates[0]), "one in flight: {rates:?}");
    assert!((26.0..=30.0).contains(&rates[3]), "32 in flight: {rates:?}");
    let large = rate(&rig(64), 2 << 20, 200, 32);
    assert!((29.0..=30.0).contains(&large), "{large}");
}

#[test]
fn a_batch_costs_a_fetch_and_goes_through_the_engines() {
    let rig = rig(32);
    let memory = Memory::new(1);
    for n in 0..8 {
        let copy = Descriptor::memmove(memory.at(0), memory.at(0) + (1 << 30), 1024);
        memory.put(64 * n, &rig.asked(n, copy).to_bytes());
    }
    assert!(rig.submit(&rig.asked(20, Descriptor::batch(memory.at(0), 8))));
    rig.device.run_until_idle();
    assert_eq!(rig.slot(20).record().unwrap().completed, 8);
    let timing = Timing::default();
    let at_least = timing.batch_fetch_ns + timing.latency_ns + timing.batch_end_ns;
    let took = rig.device.now_ns() as f64;
    assert!(took > at_least && took < at_least + 8.0 * 150.0, "{took}");
}

#[test]
fn a_full_queue_is_full_until_an_engine_is_free() {
    let rig = rig(4);
    let memory = Memory::new(1);
    let copy = |n| rig.asked(n, Descriptor::memmove(memory.at(0), memory.at(0) + (1 << 30), 1 << 20));
    let taken = (0..16).take_while(|n| rig.submit(&copy(*n))).count();
    assert_eq!(taken, 4);
    rig.device.advance_to(1);
    // Four engines have taken one each.
    let taken = (4..16).take_while(|n| rig.submit(&copy(*n))).count();
    assert_eq!(taken, 4);
    rig.device.advance_to(30_000);
    assert!(!rig.submit(&copy(20)));
    rig.device.advance_to(40_000);
    assert!(rig.submit(&copy(20)));
}

#[test]
fn data_is_moved_when_it_is_time() {
    let rig = Rig::with(DeviceConfig::v1().queue(QueueConfig::shared(8)), Profile::strict(3).timing(Timing::default()));
    let memory = Memory::new(16);
    memory.put(0, &[3; 4 * PAGE]);
    assert!(rig.submit(&rig.asked(0, Descriptor::memmove(memory.at(0), memory.at(8 * PAGE), 4 * PAGE as u32))));
    rig.device.advance_to(500);
    assert_eq!(memory.bytes(8 * PAGE, 1), [0]);
    rig.device.run_until_idle();
    assert_eq!(memory.bytes(8 * PAGE, 4 * PAGE), [3; 4 * PAGE]);
    assert!((1_600..=1_700).contains(&rig.device.now_ns()), "{}", rig.device.now_ns());
    rig.no_violations();
}

#[test]
fn a_driven_device_keeps_the_clocks_time() {
    let mut timing = Timing::default();
    timing.latency_ns = 5e6;
    let rig = Rig::with(DeviceConfig::v1().queue(QueueConfig::shared(8)), Profile::compat().timing(timing));
    let memory = Memory::new(2);
    let driven = rig.device.spawn().unwrap();
    let started = std::time::Instant::now();
    assert!(rig.submit(&rig.asked(0, Descriptor::memmove(memory.at(0), memory.at(PAGE), 64))));
    let slot: &CompletionSlot = rig.slot(0);
    wait_for(slot);
    assert!(started.elapsed().as_micros() >= 4_900, "{:?}", started.elapsed());
    drop(driven);
}

#[test]
fn what_takes_no_time_takes_none() {
    let rig = Rig::new(Profile::strict(1));
    rig.succeed(Descriptor::noop());
    assert_eq!(rig.device.now_ns(), 0);
}
