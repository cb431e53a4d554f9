//! Each mistake that a driver can make and a device would not tell of: the strict model tells, and a driver that makes none hears nothing.
#![cfg(feature = "sim")]

mod dsa_model;

use dsa_model::{Memory, PAGE, Rig, shared};
use twolane::offload::dsa::abi::{Descriptor, Flags, layout};
use twolane::sim::dsa::{DeviceConfig, Profile, QueueConfig, Rule};

fn rig() -> Rig {
    Rig::new(Profile::strict(1))
}

fn rules(rig: &Rig) -> Vec<Rule> {
    rig.device.violations().iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_correct_program_hears_nothing() {
    let rig = rig();
    let memory = Memory::new(8);
    for round in 0..50 {
        for n in 0..8 {
            memory.put(64 * n, &rig.asked(n, Descriptor::fill(round, memory.at(4 * PAGE + 8 * n), 8)).to_bytes());
        }
        assert!(rig.submit(&rig.asked(8, Descriptor::batch(memory.at(0), 8))));
        assert!(rig.submit(&rig.asked(9, Descriptor::memmove(memory.at(PAGE), memory.at(2 * PAGE), 100))));
        rig.device.run_until_idle();
    }
    rig.no_violations();
    assert_eq!(rig.device.counters().violations, 0);
}

#[test]
fn one_record_for_two_operations() {
    let rig = rig();
    assert!(rig.submit(&rig.asked(0, Descriptor::noop())));
    assert!(rig.submit(&rig.asked(0, Descriptor::noop())));
    assert_eq!(rules(&rig), [Rule::RecordReused]);
    rig.device.run_until_idle();
    // When both are done it may be used again.
    assert!(rig.submit(&rig.asked(0, Descriptor::noop())));
    assert_eq!(rules(&rig), [Rule::RecordReused]);
}

#[test]
fn one_record_for_a_child_and_another_operation() {
    let rig = rig();
    let memory = Memory::new(1);
    (0..2).for_each(|n| memory.put(64 * n, &rig.asked(n, Descriptor::noop()).to_bytes()));
    assert!(rig.submit(&rig.asked(2, Descriptor::batch(memory.at(0), 2))));
    assert!(rig.submit(&rig.asked(1, Descriptor::noop())));
    assert_eq!(rules(&rig), [Rule::RecordReused]);
    // Two children with one record, likewise.
    memory.put(PAGE - 128, &rig.asked(5, Descriptor::noop()).to_bytes());
    memory.put(PAGE - 64, &rig.asked(5, Descriptor::noop()).to_bytes());
    assert!(rig.submit(&rig.asked(6, Descriptor::batch(memory.at(PAGE - 128), 2))));
    assert_eq!(rules(&rig), [Rule::RecordReused; 2]);
}

/// What was lost may still be written: its record is never free again, until the queue is closed.
#[test]
fn the_record_of_an_operation_that_vanished() {
    let rig = rig();
    assert!(rig.submit(&rig.asked(0, Descriptor::noop())));
    rig.device.disable_queue(0);
    rig.device.enable_queue(0);
    let portal = rig.device.open(0, &rig.space).unwrap();
    submit(&portal, &rig.asked(0, Descriptor::noop()));
    assert_eq!(rules(&rig), [Rule::RecordReused]);
}

#[test]
fn closing_the_queue_gives_lost_records_back() {
    let rig = rig();
    let first = rig.device.open(0, &rig.space).unwrap();
    submit(&first, &rig.asked(0, Descriptor::noop()));
    rig.device.disable_queue(0);
    rig.device.enable_queue(0);
    first.close(std::time::Duration::from_secs(60)).unwrap();
    let second = rig.device.open(0, &rig.space).unwrap();
    submit(&second, &rig.asked(0, Descriptor::noop()));
    rig.no_violations();
}

#[allow(unsafe_code)]
fn submit(portal: &twolane::sim::dsa::ModelPortal, descriptor: &Descriptor) {
    // SAFETY: no-ops whose records outlive the device.
    let answer = unsafe { portal.enqcmd(0, descriptor) };
    assert_eq!(answer, Ok(twolane::sim::dsa::Enqcmd::Accepted));
}

#[test]
fn a_record_that_was_not_cleared() {
    let rig = rig();
    let descriptor = rig.asked(0, Descriptor::noop());
    rig.run(descriptor);
    assert!(rig.submit(&descriptor));
    assert_eq!(rules(&rig), [Rule::RecordNotCleared]);
    let rig = Rig::new(Profile::compat());
    let descriptor = rig.asked(0, Descriptor::noop());
    rig.run(descriptor);
    assert!(rig.submit(&descriptor));
    rig.no_violations();
}

#[test]
fn a_record_whose_page_went_away() {
    let rig = rig();
    let memory = Memory::new(1);
    assert!(rig.submit(&Descriptor::noop().report_to(memory.at(64)).with_flags(Flags::RCR)));
    memory.protect(0, PAGE, libc::PROT_READ);
    rig.device.run_until_idle();
    assert_eq!(rules(&rig), [Rule::RecordLost]);
    assert_eq!(rig.device.counters().lost, 1);
    memory.protect(0, PAGE, libc::PROT_NONE);
    assert!(rig.submit(&Descriptor::noop().report_to(memory.at(128)).with_flags(Flags::RCR)));
    assert_eq!(rules(&rig), [Rule::RecordLost; 2], "known when it is submitted");
    assert!(rig.submit(&Descriptor::noop().report_to(rig.slot(0).address() + 4)));
    rig.device.run_until_idle();
    assert!(
        rules(&rig)[2..].iter().all(|rule| *rule == Rule::RecordLost) && rules(&rig).len() >= 4,
        "{:?}",
        rules(&rig)
    );
}

#[test]
fn a_list_that_is_changed_before_its_batch_is_done() {
    for steps in [0, 3] {
        let rig = rig();
        let memory = Memory::new(1);
        (0..4).for_each(|n| memory.put(64 * n, &rig.asked(n, Descriptor::noop()).to_bytes()));
        assert!(rig.submit(&rig.asked(4, Descriptor::batch(memory.at(0), 4))));
        (0..steps).for_each(|_| assert!(rig.device.step()));
        memory.put(64 * 2 + 16, &[1]);
        rig.device.run_until_idle();
        assert!(rules(&rig).contains(&Rule::ListChanged), "after {steps} steps: {:?}", rules(&rig));
        let told = rig.device.violations().into_iter().find(|violation| violation.rule == Rule::ListChanged).unwrap();
        assert!(told.to_string().contains("byte 16 of descriptor 2"), "{told}");
    }
}

#[test]
fn a_list_that_is_unmapped_before_its_batch_is_done() {
    let rig = rig();
    let memory = Memory::new(1);
    (0..4).for_each(|n| memory.put(64 * n, &rig.asked(n, Descriptor::noop()).to_bytes()));
    assert!(rig.submit(&rig.asked(4, Descriptor::batch(memory.at(0), 4))));
    assert!(rig.device.step());
    memory.protect(0, PAGE, libc::PROT_NONE);
    rig.device.run_until_idle();
    assert!(rules(&rig).contains(&Rule::ListLost), "{:?}", rules(&rig));
    memory.protect(0, PAGE, libc::PROT_READ);
}

#[test]
fn stray_bytes_and_flags() {
    let memory = Memory::new(2);
    let good = Descriptor::memmove(memory.at(0), memory.at(PAGE), 64);
    let mut stray = good.to_bytes();
    stray[50] = 1;
    let compare = Descriptor::compare(memory.at(0), memory.at(PAGE), 64, 0);
    for (descriptor, asked, rule) in [
        (Descriptor::from_bytes(&stray), true, Rule::StrayByte),
        (good.with_flags(Flags::FENCE), true, Rule::ReservedFlag),
        (compare, false, Rule::MissingFlag),
        (good.with(layout::TRANSFER_SIZE, 1 << 30), true, Rule::Refused),
    ] {
        let rig = rig();
        rig.slot(0).clear_all();
        let plain = descriptor.report_to(rig.slot(0).address());
        assert!(rig.submit(&if asked { plain.with_flags(Flags::RCR) } else { plain }));
        rig.device.run_until_idle();
        assert_eq!(rules(&rig), [rule], "{descriptor:?}");
        let text = rig.device.violations()[0].to_string();
        assert!(text.contains("specification") && text.contains("Descriptor"), "{text}");
    }
}

#[test]
fn protected_blocks_that_are_not_whole() {
    use twolane::offload::dsa::abi::dif::{DestinationFlags, DifFlags, Tags};
    let rig = rig();
    let memory = Memory::new(8);
    let insert = |bytes| {
        let (from, to) = (memory.at(0), memory.at(4 * PAGE));
        Descriptor::dif_insert(from, to, bytes, DifFlags(0), DestinationFlags(0), Tags::default())
    };
    rig.succeed(insert(1024));
    rig.no_violations();
    rig.run(insert(1025));
    assert_eq!(rules(&rig), [Rule::PartialBlock]);
}

#[test]
fn no_more_is_kept_than_one_can_read() {
    let rig = Rig::with(DeviceConfig::v2().queue(QueueConfig::dedicated(1)), Profile::strict(1));
    (0..400).for_each(|_| assert!(rig.submit(&rig.asked(0, Descriptor::noop()))));
    assert_eq!(rig.device.violations().len(), 256);
    assert_eq!(rig.device.counters().violations, 399);
}

#[test]
fn nobody_is_watched_unless_asked() {
    let watching = |profile: Profile| {
        let rig = Rig::with(DeviceConfig::v2().queue(shared()), profile);
        (0..2).for_each(|_| assert!(rig.submit(&rig.asked(0, Descriptor::noop()))));
        rig.device.run_until_idle();
        rules(&rig).len()
    };
    assert_eq!(watching(Profile::compat()), 0);
    assert_eq!(watching(Profile::compat().watch(true)), 1);
    assert_eq!(watching(Profile::strict(1).watch(false)), 0);
}
