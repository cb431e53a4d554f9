//! What other people's programs rely on, in the profile that is for them.
#![cfg(feature = "sim")]

mod dsa_model;

use dsa_model::{Memory, PAGE, Rig};
use twolane::offload::dsa::abi::{Descriptor, Flags, GenCap, Status, layout};
use twolane::sim::dsa::{DeviceConfig, Profile, QueueConfig};

fn rig() -> Rig {
    Rig::with(DeviceConfig::v1().queue(QueueConfig::dedicated(32)), Profile::compat())
}

/// DML's flag of the name FENCE is CRAV: its fences never reach a device, and its sequences rely on order.
#[test]
fn children_run_in_order_without_a_fence() {
    let rig = rig();
    let memory = Memory::new(64);
    for _ in 0..20 {
        memory.put(4 * PAGE, &vec![0; 60 * PAGE]);
        // A long fill, then copies of its last bytes along a chain.
        let mut children = vec![Descriptor::fill(0x0505_0505_0505_0505, memory.at(4 * PAGE), 32 * PAGE as u32)];
        let last = |n: usize| memory.at(36 * PAGE - 8 + n * PAGE);
        (0..7).for_each(|n| children.push(Descriptor::memmove(last(n), last(n + 1), 8)));
        for (n, child) in children.iter().enumerate() {
            memory.put(64 * n, &rig.asked(n + 1, *child).to_bytes());
        }
        rig.succeed(Descriptor::batch(memory.at(0), 8));
        assert_eq!(memory.bytes(43 * PAGE - 8, 8), [5; 8]);
    }
}

/// The specification decides where it is clear, for everybody.
#[test]
fn real_violations_have_their_statuses() {
    let rig = rig();
    let memory = Memory::new(4);
    let copy = Descriptor::memmove(memory.at(0), memory.at(PAGE), 64);
    assert_eq!(rig.run(copy.with_flags(Flags::FENCE)).status(), Status::INVALID_FLAGS);
    assert_eq!(rig.run(Descriptor::batch(memory.at(0), 1)).status(), Status::DESC_CNT_ERANGE);
    assert_eq!(rig.run(copy.with(layout::TRANSFER_SIZE, (2 << 20) + 1)).status(), Status::XFER_ERANGE);
    assert_eq!(rig.run(Descriptor::memmove(64, memory.at(0), 64)).status(), Status::PAGE_FAULT_NOBOF);
}

#[test]
fn cache_control_is_there() {
    let rig = rig();
    assert!(rig.device.config().gencap.contains(GenCap::CACHE_CONTROL));
    let memory = Memory::new(2);
    rig.succeed(Descriptor::memmove(memory.at(0), memory.at(PAGE), 64).with_flags(Flags::CC));
}

/// DPDK lays a child's record over its descriptor, whose first byte is 0 until then, and reads 0 as done.
#[test]
fn records_may_lie_on_the_descriptors_themselves() {
    let rig = rig();
    let memory = Memory::new(8);
    for round in 0..10_u64 {
        for n in 0..8 {
            let child = Descriptor::fill(round + 1, memory.at(4 * PAGE + 8 * n), 8).report_to(memory.at(64 * n));
            memory.put(64 * n, &child.to_bytes());
        }
        rig.succeed(Descriptor::batch(memory.at(0), 8));
        assert!((0..8).all(|n| memory.bytes(64 * n, 1) == [0]), "untouched: no record was asked for");
        assert_eq!(memory.bytes(4 * PAGE + 56, 8), (round + 1).to_le_bytes());
    }
}

#[test]
fn records_are_reused_uncleared_and_lie_32_bytes_apart() {
    let rig = rig();
    let memory = Memory::new(2);
    for round in 0..3 {
        for n in 0..4 {
            let record = memory.at(32 * n);
            assert!(rig.submit(&Descriptor::noop().report_to(record).with_flags(Flags::RCR)), "round {round}");
        }
        rig.device.run_until_idle();
        for n in 0..4 {
            // Nothing but the status: unused fields hold no garbage.
            assert_eq!(memory.bytes(32 * n, 32)[..], [&[1][..], &[0; 31]].concat());
        }
    }
    rig.no_violations();
}

/// DPDK counts what completed from the batch's record, whatever its status.
#[test]
fn a_failed_batch_tells_how_many_it_went_through() {
    let rig = rig();
    let memory = Memory::new(4);
    memory.put(0, &Descriptor::fill(1, memory.at(PAGE), 8).to_bytes());
    memory.put(64, &Descriptor::fill(1, 64, 8).report_to(rig.slot(5).address()).to_bytes());
    memory.put(128, &Descriptor::fill(1, memory.at(PAGE + 8), 8).to_bytes());
    let record = rig.run(Descriptor::batch(memory.at(0), 3));
    assert_eq!((record.status_byte, record.completed), (Status::BATCH_FAIL.code(), 3));
    assert_eq!(rig.slot(5).record().unwrap().status_byte, 0x83);
    assert_eq!(memory.bytes(PAGE, 16), [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn nothing_goes_wrong_unless_asked() {
    let rig = Rig::with(DeviceConfig::v1().queue(QueueConfig::shared(4)), Profile::compat());
    let memory = Memory::untouched(64);
    for n in 0..4 {
        assert!(rig.submit(&rig.asked(n, Descriptor::fill(1, memory.at(16 * n * PAGE), 16 * PAGE as u32))));
    }
    rig.device.run_until_idle();
    assert_eq!(rig.device.counters().with_status(Status::SUCCESS), 4);
}
