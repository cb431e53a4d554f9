//! How descriptors get in: by instruction and by `write(2)`, full queues, queues of the other mode, and queues that die.
#![cfg(feature = "sim")]
#![allow(unsafe_code)]

mod dsa_model;

use std::time::Duration;

use dsa_model::{Memory, PAGE, Rig, wait_for};
use twolane::offload::dsa::abi::{Descriptor, Flags, Opcode, Status, SwErrorCode, layout};
use twolane::sim::dsa::{
    AddressSpace, Device, DeviceConfig, DeviceState, Enqcmd, Faults, GeneralProtection, KernelProfile, Loss, Profile,
    QueueConfig, QueueState, Rule,
};

fn shared(size: u32) -> DeviceConfig {
    DeviceConfig::v1().queue(QueueConfig::shared(size))
}

fn dedicated(size: u32) -> DeviceConfig {
    DeviceConfig::v1().queue(QueueConfig::dedicated(size))
}

#[test]
fn a_shared_queue_says_retry_from_its_threshold_on() {
    let rig = Rig::with(DeviceConfig::v1().queue(QueueConfig::shared(16).threshold(3)), Profile::strict(1));
    let taken = (0..10).filter(|n| rig.submit(&rig.asked(*n, Descriptor::noop()))).count();
    assert_eq!((taken, rig.device.occupancy(0)), (3, 3));
    assert_eq!(rig.device.counters().retries, 7);
    // A slot is free when its descriptor is dispatched, which is before it completes.
    while rig.device.occupancy(0) == 3 {
        rig.device.step();
    }
    assert!(rig.submit(&rig.asked(10, Descriptor::noop())));
    rig.device.run_until_idle();
    assert_eq!(rig.device.counters().with_status(Status::SUCCESS), 4);
    rig.no_violations();
}

#[test]
fn a_dedicated_queue_drops_what_it_has_no_room_for_without_a_word() {
    let rig = Rig::with(dedicated(4), Profile::strict(1).trace(16));
    (0..7).for_each(|n| assert!(rig.submit(&rig.asked(n, Descriptor::noop()))));
    rig.device.run_until_idle();
    let completed = (0..7).filter(|n| rig.slot(*n).record().is_some()).count();
    assert_eq!((completed, rig.device.counters().dropped, rig.device.counters().lost), (4, 3, 3));
    assert_eq!(rig.device.error().code(), SwErrorCode::QUEUE_OVERFLOW);
    assert!(rig.device.error().overflow(), "more than one");
    assert!(rig.device.violations().iter().all(|violation| violation.rule == Rule::Overflow));
    assert_eq!(rig.device.violations().len(), 3);
    let lost = rig.device.trace().into_iter().filter(|entry| entry.end == twolane::sim::dsa::End::Lost(Loss::Overflow));
    assert_eq!(lost.count(), 3);
}

#[test]
fn the_wrong_instruction_gets_nowhere() {
    let rig = Rig::with(dedicated(4), Profile::strict(1));
    let descriptor = rig.asked(0, Descriptor::noop());
    // SAFETY: a no-op whose record outlives the device.
    let answers: Vec<_> = (0..50).map(|_| unsafe { rig.portal.enqcmd(64, &descriptor) }).collect();
    assert!(answers.iter().all(|answer| *answer == Ok(Enqcmd::Retry)));
    assert!(rig.device.violations().iter().all(|violation| violation.rule == Rule::WrongInstruction));

    let rig = Rig::with(shared(4), Profile::strict(1));
    let descriptor = rig.asked(0, Descriptor::noop());
    // SAFETY: as above.
    unsafe { rig.portal.movdir64b(64, &descriptor) }.unwrap();
    rig.device.run_until_idle();
    assert_eq!((rig.slot(0).record(), rig.device.counters().dropped), (None, 1));
    assert_eq!(rig.device.violations()[0].rule, Rule::WrongInstruction);
    assert!(!rig.device.error().valid(), "a posted write to a shared queue is no error of the device's");
}

#[test]
fn what_raises_an_exception_is_an_error() {
    let rig = Rig::with(shared(4), Profile::strict(1));
    let descriptor = rig.asked(0, Descriptor::noop());
    let dirty = descriptor.with(layout::TRUSTED, 5);
    // SAFETY: a no-op whose record outlives the device.
    unsafe {
        assert_eq!(rig.portal.enqcmd(32, &descriptor), Err(GeneralProtection::Misaligned { offset: 32 }));
        assert_eq!(rig.portal.movdir64b(8, &descriptor), Err(GeneralProtection::Misaligned { offset: 8 }));
        assert_eq!(rig.portal.enqcmd(0, &dirty), Err(GeneralProtection::FirstWord { value: 5 }));
    }
    // Any place in the page is the same queue, and MOVDIR64B's first word is ignored.
    let rig = Rig::with(dedicated(64), Profile::strict(1));
    for place in 0..64 {
        let descriptor = rig.asked(place, Descriptor::noop()).with(layout::TRUSTED, 0xffff_ffff);
        // SAFETY: as above.
        unsafe { rig.portal.movdir64b(64 * place, &descriptor) }.unwrap();
    }
    rig.device.run_until_idle();
    assert_eq!(rig.device.counters().with_status(Status::SUCCESS), 64);
}

#[test]
fn a_dedicated_queue_has_one_client_and_a_shared_one_many() {
    let device = Device::new(dedicated(4).queue(QueueConfig::shared(4)), Profile::strict(1)).unwrap();
    let space = AddressSpace::new().unwrap();
    let errno = |queue| device.open(queue, &space).unwrap_err().raw_os_error();
    let first = device.open(0, &space).unwrap();
    assert_eq!(errno(0), Some(libc::EBUSY));
    assert_eq!(errno(2), Some(libc::ENOENT));
    drop(first);
    device.open(0, &space).unwrap().close(Duration::from_secs(5)).unwrap();
    let _again = device.open(0, &space).unwrap();
    let _many = [device.open(1, &space).unwrap(), device.open(1, &space).unwrap()];
    device.disable_queue(0);
    assert_eq!(errno(0), Some(libc::ENXIO));
}

fn bytes(descriptors: &[Descriptor]) -> Vec<u8> {
    descriptors.iter().flat_map(|descriptor| descriptor.to_bytes()).collect()
}

#[test]
fn write_takes_whole_descriptors_up_to_the_first_that_fails() {
    let write = |rig: &Rig, descriptors: &[Descriptor], len: usize| {
        // SAFETY: no-ops, and batches that are refused; records outlive the device.
        unsafe { rig.portal.write(&bytes(descriptors)[..len]) }.map_err(|error| error.raw_os_error().unwrap())
    };
    let rig = Rig::with(shared(4), Profile::strict(1));
    let good = |n| rig.asked(n, Descriptor::noop());
    assert_eq!(write(&rig, &[good(0)], 63), Ok(0));
    assert_eq!(write(&rig, &[good(0), good(1)], 100), Ok(64), "the tail is left");
    assert_eq!(write(&rig, &[good(1), good(2), good(3), good(4), good(5)], 320), Ok(192), "the queue is full then");
    assert_eq!(write(&rig, &[good(4)], 64), Err(libc::EAGAIN));
    rig.device.run_until_idle();
    let misaligned = good(4).with(layout::COMPLETION_ADDRESS, rig.slot(4).address() + 16);
    assert_eq!(write(&rig, &[misaligned], 64), Err(libc::EINVAL));
    let unmeant = Descriptor::noop().with(layout::COMPLETION_ADDRESS, 16);
    assert_eq!(write(&rig, &[unmeant], 64), Err(libc::EINVAL), "looked at with or without CRAV");
    assert_eq!(write(&rig, &[good(4), misaligned], 128), Ok(64));
    rig.device.run_until_idle();
    assert_eq!(rig.device.counters().with_status(Status::SUCCESS), 5);
    // The kernel fills the first word in itself.
    assert_eq!(write(&rig, &[good(6).with(layout::TRUSTED, 0x8000_0123)], 64), Ok(64));
    rig.device.run_until_idle();
    assert_eq!(rig.slot(6).record().unwrap().status(), Status::SUCCESS);
}

#[test]
fn each_kernel_has_its_rules_for_write() {
    let cases = [
        (KernelProfile::BEFORE_6_10, DeviceConfig::v2(), Err(libc::EINVAL), Err(libc::EINVAL)),
        (KernelProfile::V6_12, DeviceConfig::v1(), Ok(64), Err(libc::EINVAL)),
        (KernelProfile::V6_12, DeviceConfig::v2(), Ok(64), Err(libc::EINVAL)),
        (KernelProfile::V6_16, DeviceConfig::v1(), Ok(64), Err(libc::EINVAL)),
        (KernelProfile::V6_16, DeviceConfig::v2(), Ok(64), Ok(64)),
    ];
    let memory = Memory::new(1);
    for (kernel, config, single, batch) in cases {
        let rig = Rig::with(config.kernel(kernel).queue(QueueConfig::shared(4)), Profile::strict(1));
        let write = |descriptor| {
            // SAFETY: no-ops, in a list that outlives the device.
            unsafe { rig.portal.write(&bytes(&[descriptor])) }.map_err(|error| error.raw_os_error().unwrap())
        };
        assert_eq!(write(rig.asked(0, Descriptor::noop())), single, "{kernel:?}");
        memory.put(0, &[0; 128]);
        assert_eq!(write(rig.asked(1, Descriptor::batch(memory.at(0), 2))), batch, "{kernel:?}");
        // SAFETY: nothing is stored to the page.
        let mapped = unsafe { rig.portal.map() }.map(drop).map_err(|error| error.raw_os_error().unwrap());
        assert_eq!(mapped, if kernel.may_map { Ok(()) } else { Err(libc::EPERM) });
        rig.device.run_until_idle();
    }
}

#[test]
fn write_to_a_queue_that_died_says_again_or_nothing() {
    let rig = Rig::with(shared(4), Profile::strict(1));
    rig.device.halt();
    let descriptor = rig.asked(0, Descriptor::noop());
    // SAFETY: a no-op whose record outlives the device.
    let error = unsafe { rig.portal.write(&descriptor.to_bytes()) }.unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    let rig = Rig::with(dedicated(4), Profile::strict(1));
    rig.device.halt();
    let descriptor = rig.asked(0, Descriptor::noop());
    // SAFETY: as above.
    assert_eq!(unsafe { rig.portal.write(&descriptor.to_bytes()) }.unwrap(), 64, "dropped, and counted as written");
    assert_eq!(rig.slot(0).record(), None);
}

#[test]
fn what_is_in_flight_when_the_device_stops_vanishes_half_done() {
    for stop in [Device::halt, Device::reset, |device: &Device| device.disable_queue(0)] {
        let rig = Rig::with(shared(16), Profile::strict(3));
        let memory = Memory::new(64);
        let fill = |n: usize| Descriptor::fill(u64::MAX, memory.at(0), 64 * PAGE as u32 - n as u32);
        (0..8).for_each(|n| assert!(rig.submit(&rig.asked(n, fill(n)))));
        (0..200).for_each(|_| assert!(rig.device.step()));
        stop(&rig.device);
        let written = memory.bytes(0, 64 * PAGE).iter().filter(|byte| **byte != 0).count();
        assert!(written > 0 && written < 64 * PAGE, "{written}");
        rig.device.run_until_idle();
        assert_eq!(rig.device.counters().lost, 8);
        assert!((0..8).all(|n| rig.slot(n).record().is_none()));
        assert!((0..100).all(|_| !rig.submit(&rig.asked(9, fill(9)))), "retry, for ever");

        // Enabled again, it is another queue: what was opened before stays dead.
        rig.device.enable();
        rig.device.enable_queue(0);
        assert_eq!((rig.device.state(), rig.device.queue_state(0)), (DeviceState::Enabled, QueueState::Enabled));
        assert!(!rig.submit(&rig.asked(9, fill(9))));
        let portal = rig.device.open(0, &rig.space).unwrap();
        // SAFETY: its record outlives the device, and memory does too.
        assert_eq!(unsafe { portal.enqcmd(0, &rig.asked(20, fill(0))) }, Ok(Enqcmd::Accepted));
        rig.device.run_until_idle();
        assert_eq!(rig.slot(20).record().unwrap().status(), Status::SUCCESS);
    }
}

#[test]
fn a_queue_that_drains_finishes_and_takes_nothing_more() {
    let rig = Rig::with(shared(16), Profile::strict(3));
    (0..5).for_each(|n| assert!(rig.submit(&rig.asked(n, Descriptor::noop()))));
    rig.device.drain_queue(0);
    assert_eq!(rig.device.queue_state(0), QueueState::Draining);
    assert!(!rig.submit(&rig.asked(5, Descriptor::noop())));
    rig.device.run_until_idle();
    assert_eq!(rig.device.queue_state(0), QueueState::Disabled);
    assert_eq!(rig.device.counters().with_status(Status::SUCCESS), 5);
    assert_eq!(rig.device.counters().lost, 0);
}

#[test]
fn closing_waits_for_what_is_in_flight() {
    let rig = Rig::with(shared(16), Profile::strict(3));
    let memory = Memory::new(8);
    let portal = rig.device.open(0, &rig.space).unwrap();
    let descriptor = rig.asked(1, Descriptor::fill(1, memory.at(0), 8 * PAGE as u32));
    // SAFETY: record and memory outlive the device.
    assert_eq!(unsafe { portal.enqcmd(0, &descriptor) }, Ok(Enqcmd::Accepted));
    portal.close(Duration::from_secs(60)).unwrap();
    assert_eq!(rig.slot(1).record().unwrap().status(), Status::SUCCESS);
}

#[test]
fn descriptors_that_are_never_carried_out_are_counted() {
    let faults = |never| {
        let mut faults = Faults::none();
        faults.never = never;
        faults
    };
    let rig = Rig::with(shared(32), Profile::strict(1).faults(faults(1.0)));
    let memory = Memory::new(1);
    memory.put(0, &[0; 256]);
    assert!(rig.submit(&rig.asked(0, Descriptor::batch(memory.at(0), 4))));
    assert!(rig.submit(&rig.asked(1, Descriptor::noop())));
    rig.device.run_until_idle();
    assert_eq!((rig.device.counters().lost, rig.device.counters().accepted), (5, 2));
    rig.device.set_faults(faults(0.0));
    rig.succeed(Descriptor::noop());
}

#[test]
fn threads_submit_while_a_thread_drives() {
    let rig = Rig::with(shared(8), Profile::strict(7));
    let memory = Memory::new(16);
    let driven = rig.device.spawn().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (rig, memory) = (Shared(&rig), Shared(&memory));
            scope.spawn(move || {
                let (rig, memory) = ({ rig }.0, { memory }.0);
                for round in 0..300 {
                    let fill = Descriptor::fill(round, memory.at(4 * thread * PAGE), 2 * PAGE as u32);
                    let descriptor = rig.asked(thread, fill);
                    while !rig.submit(&descriptor) {
                        std::thread::yield_now();
                    }
                    assert_eq!(wait_for(rig.slot(thread)).status(), Status::SUCCESS);
                    let last = memory.bytes(4 * thread * PAGE + 2 * PAGE - 8, 8);
                    assert_eq!(last, round.to_le_bytes());
                }
            });
        }
    });
    drop(driven);
    assert_eq!(rig.device.counters().with_opcode(Opcode::MEMFILL), 1200);
    rig.no_violations();
}

/// Threads use parts of their own.
struct Shared<'a, T>(&'a T);
// SAFETY: `Memory` and `Rig` are reached through pointers and locks; each thread has slots and pages of its own.
unsafe impl<T> Send for Shared<'_, T> {}
impl<T> Clone for Shared<'_, T> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

#[test]
fn a_refused_descriptor_writes_nothing_but_its_record() {
    let memory = Memory::new(4);
    let rig = Rig::with(shared(8), Profile::strict(1));
    let good = Descriptor::memmove(memory.at(0), memory.at(PAGE), 64);
    memory.put(0, &[5; 64]);
    for (bad, status) in [
        (good.with(layout::TRANSFER_SIZE, 0), Status::XFER_ERANGE),
        (good.with_flags(Flags::FENCE), Status::INVALID_FLAGS),
        (Descriptor::new(Opcode(0x99)), Status::BAD_OPCODE),
        (Descriptor::batch(memory.at(32), 2), Status::DESCLIST_ALIGN),
        (Descriptor::batch(memory.at(0), 1), Status::DESC_CNT_ERANGE),
    ] {
        let record = rig.run(bad);
        assert_eq!((record.status(), record.completed), (status, 0));
        assert_eq!(memory.bytes(PAGE, 64), [0; 64]);
        // Without RCR as well: errors are always told.
        rig.slot(1).clear_all();
        assert!(rig.submit(&bad.report_to(rig.slot(1).address())));
        rig.device.run_until_idle();
        assert_eq!(rig.slot(1).record().unwrap().status(), status);
        // Without a record: the error register.
        assert!(!rig.device.error().valid());
        assert!(rig.submit(&bad));
        rig.device.run_until_idle();
        assert_eq!(rig.device.error().code(), SwErrorCode(status.code()));
        rig.device.clear_error();
    }
    let record = rig.run(good.with_flags(Flags::FENCE | Flags::CR));
    assert_eq!(record.invalid_flags(), Flags::FENCE | Flags::CR);
    // A record that is misaligned never comes.
    let misaligned = rig.asked(0, Descriptor::noop()).with(layout::COMPLETION_ADDRESS, rig.slot(0).address() + 8);
    assert!(rig.submit(&misaligned));
    rig.device.run_until_idle();
    assert_eq!(rig.device.error().code(), SwErrorCode(Status::CRA_ALIGN.code()));
    assert_eq!(rig.device.counters().lost, 1);
}

#[test]
fn success_is_told_on_request_only() {
    let rig = Rig::with(shared(8), Profile::strict(1));
    let memory = Memory::new(1);
    rig.slot(0).clear_all();
    assert!(rig.submit(&Descriptor::fill(1, memory.at(0), 8).report_to(rig.slot(0).address())));
    rig.device.run_until_idle();
    assert_eq!((rig.slot(0).record(), memory.bytes(0, 1)), (None, vec![1]));
    assert_eq!(rig.device.counters().with_status(Status::SUCCESS), 1);
    assert_eq!(rig.device.counters().records, 0);
}

/// The device copies a descriptor as it is submitted.
#[test]
fn a_descriptor_may_be_changed_once_it_is_in() {
    let rig = Rig::with(shared(8), Profile::strict(1));
    let memory = Memory::new(1);
    let mut descriptor = rig.asked(0, Descriptor::fill(0x0101_0101_0101_0101, memory.at(0), 8));
    assert!(rig.submit(&descriptor));
    descriptor.set(layout::PATTERN, 0);
    rig.device.run_until_idle();
    assert_eq!(memory.bytes(0, 8), [1; 8]);
}
