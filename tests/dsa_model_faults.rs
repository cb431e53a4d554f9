//! Faults: exactly what is done before one, what the record says, and what it takes to go on.
#![cfg(feature = "sim")]

mod dsa_model;

use dsa_model::{Dice, Memory, PAGE, Rig, resumed, shared};
use twolane::offload::dsa::abi::dif::{DestinationFlags, DifFlags, SourceFlags, Tags};
use twolane::offload::dsa::abi::{CompletionRecord, Descriptor, FaultOperand, Flags, Status, SwErrorCode};
use twolane::sim::dsa::{DeviceConfig, Faults, PageState, Profile, QueueConfig};

/// The fault address, with bits 11:0 as the device likes.
fn is_at(record: &CompletionRecord, address: u64) -> bool {
    [address, address & !0xfff].contains(&record.fault_address)
}

#[test]
fn a_move_stops_at_the_page_and_not_a_byte_beyond() {
    for seed in 0..50 {
        let rig = Rig::new(Profile::strict(seed));
        let memory = Memory::new(16);
        let source = Dice::new(seed).bytes(4 * PAGE);
        memory.put(100, &source);
        // The destination starts 300 bytes into its page, so its second page begins 3796 bytes on.
        let to = 8 * PAGE + 300;
        rig.absent(&memory, 9 * PAGE, 1);
        let descriptor = Descriptor::memmove(memory.at(100), memory.at(to), 4 * PAGE as u32);
        let record = rig.run(descriptor);
        assert_eq!(record.status(), Status::PAGE_FAULT_NOBOF);
        assert!(record.fault_was_write() && record.fault_operand() == FaultOperand::Destination);
        let done = record.completed as usize;
        if record.result == CompletionRecord::BACKWARD {
            assert_eq!(done, 4 * PAGE + to - 10 * PAGE);
            assert_eq!(memory.bytes(to + 4 * PAGE - done, done), source[4 * PAGE - done..]);
            assert_eq!(memory.bytes(to, 4 * PAGE - done), vec![0; 4 * PAGE - done]);
        } else {
            assert_eq!(done, PAGE - 300);
            assert!(is_at(&record, memory.at(9 * PAGE)), "{record:?}");
            assert_eq!(memory.bytes(to, done), source[..done]);
            assert_eq!(memory.bytes(to + done, 4 * PAGE - done), vec![0; 4 * PAGE - done]);
        }
        // It was reported, so software has touched it.
        rig.succeed(resumed(&descriptor, &record).unwrap());
        assert_eq!(memory.bytes(to, 4 * PAGE), source);
    }
}

#[test]
fn an_overlapping_move_is_resumed_with_the_same_addresses_when_it_went_backward() {
    let mut dice = Dice::new(2);
    for page in 0..6 {
        let rig = Rig::new(Profile::strict(page as u64));
        let memory = Memory::new(8);
        let content = dice.bytes(8 * PAGE);
        memory.put(0, &content);
        rig.absent(&memory, page * PAGE, 1);
        let mut descriptor = Descriptor::memmove(memory.at(10), memory.at(1500), 5 * PAGE as u32);
        let mut record = rig.run(descriptor);
        assert_eq!((record.status(), record.result), (Status::PAGE_FAULT_NOBOF, CompletionRecord::BACKWARD));
        while let Some(rest) = resumed(&descriptor, &record) {
            descriptor = rest;
            record = rig.run(descriptor);
        }
        let mut want = content;
        want.copy_within(10..10 + 5 * PAGE, 1500);
        assert_eq!(memory.bytes(0, 8 * PAGE), want);
    }
}

/// For each operation: the fault that a page of each of its operands gives.
#[test]
fn the_operand_and_the_direction_are_told() {
    let (dif, source_flags, tags) =
        (DifFlags(0), SourceFlags::NO_GUARD_CHECK | SourceFlags::NO_REFERENCE_CHECK, Tags::default());
    let tags = Tags { application_mask: 0xffff, ..tags };
    let memory = Memory::new(8);
    let (a, b, c) = (memory.at(0), memory.at(2 * PAGE), memory.at(4 * PAGE));
    memory.put(2 * PAGE, &[1]);
    use FaultOperand::*;
    let rows = [
        (Descriptor::memmove(a, b, 64), vec![(0, First, false), (2, Destination, true)]),
        (Descriptor::fill(1, b, 64), vec![(2, Destination, true)]),
        (Descriptor::compare(a, b, 64, 0), vec![(0, First, false), (2, Second, false)]),
        (Descriptor::compare_pattern(a, 0, 64, 0), vec![(0, First, false)]),
        (
            Descriptor::create_delta(a, b, 64, c, 80, 0),
            vec![(0, First, false), (2, Second, false), (4, Destination, true)],
        ),
        (Descriptor::apply_delta(a, 10, b, 64), vec![(0, First, false), (2, Destination, true)]),
        (Descriptor::dualcast(a, b, c, 64), vec![(0, First, false), (2, Destination, true), (4, Destination2, true)]),
        (Descriptor::crc(a, 64, 0).with_seed_from(b), vec![(0, First, false), (2, Second, false)]),
        (Descriptor::copy_crc(a, b, 64, 0), vec![(0, First, false), (2, Destination, true)]),
        (Descriptor::dif_check(a, 520, dif, source_flags, tags), vec![(0, First, false)]),
        (
            Descriptor::dif_insert(a, b, 512, dif, DestinationFlags(0), tags),
            vec![(0, First, false), (2, Destination, true)],
        ),
        (Descriptor::dif_strip(a, b, 520, dif, source_flags, tags), vec![(0, First, false), (2, Destination, true)]),
        (
            Descriptor::dif_update(a, b, 520, dif, (source_flags, tags), (DestinationFlags(0), tags)),
            vec![(0, First, false), (2, Destination, true)],
        ),
        (Descriptor::cache_flush(b, 64), vec![(2, Destination, false)]),
        (Descriptor::translation_fetch(a, 64), vec![(0, First, false)]),
    ];
    for (seed, (descriptor, faults)) in rows.into_iter().enumerate() {
        for (page, operand, write) in faults {
            for (state, status) in [
                (PageState::Absent, Status::PAGE_FAULT_NOBOF),
                (PageState::Fillable, Status::PAGE_FAULT_NOBOF),
                (PageState::Bad, Status::PAGE_FAULT_IR),
            ] {
                let rig = Rig::new(Profile::strict(seed as u64));
                rig.space.set(memory.ptr(page * PAGE), PAGE, state);
                let before = memory.bytes(0, 8 * PAGE);
                let record = rig.run(descriptor);
                assert_eq!(record.status(), status, "{descriptor:?}");
                assert_eq!((record.fault_operand(), record.fault_was_write()), (operand, write), "{descriptor:?}");
                assert_eq!(record.completed, 0, "{descriptor:?}");
                assert!(record.fault_address & !0xfff == memory.at(page * PAGE), "{descriptor:?}");
                assert_eq!(memory.bytes(0, 8 * PAGE), before, "nothing was written");
            }
            // Block on fault: served, unless the page is refused.
            for (state, status) in [
                (PageState::Fillable, None),
                (PageState::Absent, Some(Status::PAGE_FAULT_IR)),
                (PageState::Bad, Some(Status::PAGE_FAULT_IR)),
            ] {
                let rig = Rig::new(Profile::strict(seed as u64));
                rig.space.set(memory.ptr(page * PAGE), PAGE, state);
                let record = rig.run(descriptor.with_flags(Flags::BOF));
                let fault = Some(record.status()).filter(|status| status.is_fault());
                assert_eq!(fault, status, "{descriptor:?} {state:?}");
                assert_eq!(
                    rig.device.counters().page_requests,
                    u64::from(status.is_none()),
                    "{descriptor:?} {state:?}"
                );
            }
        }
    }
}

#[test]
fn a_page_that_may_only_be_read_faults_for_writes_alone() {
    let rig = Rig::new(Profile::strict(1));
    let memory = Memory::new(4);
    rig.space.set(memory.ptr(0), PAGE, PageState::ReadOnly);
    rig.succeed(Descriptor::memmove(memory.at(0), memory.at(PAGE), 100));
    let record = rig.run(Descriptor::memmove(memory.at(PAGE), memory.at(0), 100));
    assert_eq!((record.status(), record.fault_was_write()), (Status::PAGE_FAULT_NOBOF, true));
    let again = rig.run(Descriptor::memmove(memory.at(PAGE), memory.at(0), 100));
    assert_eq!(again.status(), Status::PAGE_FAULT_NOBOF, "no touch cures it");
}

#[test]
fn memory_that_is_not_there_is_a_fault_and_no_signal() {
    let closed = Memory::new(1);
    closed.protect(0, PAGE, libc::PROT_NONE);
    for profile in [Profile::strict(1), Profile::compat()] {
        let rig = Rig::new(profile);
        let memory = Memory::new(4);
        for wild in [closed.at(0), 0, 64, 0x7fff_ffff_f000, 0xffff_8000_0000_0000, u64::MAX - 31] {
            for (descriptor, write) in [
                (Descriptor::memmove(wild, memory.at(0), 32), false),
                (Descriptor::memmove(memory.at(0), wild, 32), true),
                (Descriptor::fill(1, wild, 32), true),
                (Descriptor::dif_check(wild, 520, DifFlags(0), SourceFlags(0), Tags::default()), false),
            ] {
                let record = rig.run(descriptor);
                assert_eq!((record.status(), record.completed), (Status::PAGE_FAULT_NOBOF, 0), "{descriptor:?}");
                assert_eq!(record.fault_was_write(), write);
                let record = rig.run(descriptor.with_flags(Flags::BOF));
                assert_eq!(record.status(), Status::PAGE_FAULT_IR, "{descriptor:?}");
            }
        }
        memory.protect(PAGE, PAGE, libc::PROT_READ);
        let record = rig.run(Descriptor::memmove(memory.at(0), memory.at(PAGE - 10), 100));
        assert!(record.fault_was_write());
        memory.protect(PAGE, PAGE, libc::PROT_NONE);
        let record = rig.run(Descriptor::memmove(memory.at(PAGE), memory.at(0), 100));
        assert_eq!((record.status(), record.fault_was_write()), (Status::PAGE_FAULT_NOBOF, false));
    }
}

/// As for a device: what is not in the page tables is absent, until the cpu touches it.
#[test]
fn fresh_memory_faults_until_it_is_touched() {
    let memory = Memory::untouched(4);
    let source = Memory::new(1);
    let copy = |n: usize| Descriptor::memmove(source.at(0), memory.at(n * PAGE), 100);
    let strict = Rig::new(Profile::strict(1));
    assert_eq!(strict.run(copy(0)).status_byte & 0xbf, 0x83);
    assert_eq!(strict.run(copy(0)).status(), Status::PAGE_FAULT_NOBOF, "nobody touched it");
    memory.put(0, &[0]);
    strict.succeed(copy(0));
    strict.succeed(copy(1).with_flags(Flags::BOF));
    Rig::new(Profile::compat()).succeed(copy(2));
    Rig::new(Profile::strict(1).residency(false)).succeed(copy(3));
}

#[test]
fn a_crc_over_nothing_is_garbage_and_over_something_a_seed() {
    let mut differs = 0;
    for seed in 0..20 {
        let rig = Rig::new(Profile::strict(seed));
        let memory = Memory::new(3);
        memory.put(PAGE - 9, b"123456789");
        rig.absent(&memory, 0, 1);
        let record = rig.run(Descriptor::crc(memory.at(PAGE - 9), 9, 0));
        assert_eq!(record.completed, 0);
        differs += usize::from(record.crc() != 0);
        rig.absent(&memory, PAGE, 1);
        memory.put(PAGE, b"more");
        let descriptor = Descriptor::crc(memory.at(PAGE - 9), 13, 0);
        let record = rig.run(descriptor);
        assert_eq!((record.completed, record.crc()), (9, 0xE306_9283));
    }
    assert!(differs > 15, "{differs}");
}

#[test]
fn a_difference_before_the_fault_is_the_answer() {
    let rig = Rig::new(Profile::strict(1).reorder(false));
    let memory = Memory::new(8);
    memory.put(4 * PAGE + 77, &[1]);
    rig.absent(&memory, PAGE, 1);
    let compare = Descriptor::compare(memory.at(0), memory.at(4 * PAGE), 2 * PAGE as u32, 0);
    let record = rig.succeed(compare);
    assert_eq!((record.result, record.completed), (CompletionRecord::DIFFERENT, 77));
    memory.put(4 * PAGE + 77, &[0]);
    let record = rig.run(compare);
    assert_eq!((record.status(), record.completed), (Status::PAGE_FAULT_NOBOF, PAGE as u32));
}

/// Whole blocks for protected blocks, whole entries for deltas.
#[test]
fn deltas_and_blocks_stop_between_units() {
    let rig = Rig::new(Profile::strict(4));
    let memory = Memory::new(24);
    let (dif, tags) = (DifFlags(0), Tags { reference: 5, application_mask: 0, application: 6 });
    // 4096 bytes are seven blocks of 520 and a part of the eighth.
    rig.succeed(Descriptor::dif_insert(memory.at(0), memory.at(8 * PAGE), 16 * 512, dif, DestinationFlags(0), tags));
    rig.absent(&memory, 9 * PAGE, 1);
    let record = rig.run(Descriptor::dif_check(memory.at(8 * PAGE), 16 * 520, dif, SourceFlags(0), tags));
    assert_eq!((record.status(), record.completed), (Status::PAGE_FAULT_NOBOF, 7 * 520));
    assert_eq!(record.dif_source_tags(), Tags { reference: 12, ..tags });
    rig.absent(&memory, 9 * PAGE, 1);
    let record =
        rig.run(Descriptor::dif_strip(memory.at(8 * PAGE), memory.at(16 * PAGE), 16 * 520, dif, SourceFlags(0), tags));
    assert_eq!((record.completed, record.dif_source_tags().reference), (7 * 520, 12));
    // Inserting: the source is counted, the destination's page is what faults.
    rig.absent(&memory, 9 * PAGE, 1);
    let record =
        rig.run(Descriptor::dif_insert(memory.at(0), memory.at(8 * PAGE), 16 * 512, dif, DestinationFlags(0), tags));
    assert_eq!((record.completed, record.dif_destination_tags().reference), (7 * 512, 12));

    // A delta record of 80 bytes that begins 45 bytes before its page's end: four entries fit.
    memory.put(0, &[0; 128]);
    memory.put(PAGE, &[1; 128]);
    rig.absent(&memory, 3 * PAGE, 1);
    let record =
        rig.run(Descriptor::create_delta(memory.at(0), memory.at(PAGE), 128, memory.at(3 * PAGE - 45), 160, 0));
    assert_eq!((record.status(), record.result), (Status::PAGE_FAULT_NOBOF, 1));
    assert_eq!((record.completed, record.delta_record_size()), (32, 40));
    rig.absent(&memory, 3 * PAGE, 1);
    let record = rig.run(Descriptor::apply_delta(memory.at(3 * PAGE - 45), 80, memory.at(PAGE), 128));
    assert_eq!((record.status(), record.completed), (Status::PAGE_FAULT_NOBOF, 40));
}

#[test]
fn a_page_that_is_absent_again_and_again_is_so_as_often_as_told() {
    let rig = Rig::new(Profile::strict(5));
    let memory = Memory::new(2);
    rig.space.set_absent_times(memory.ptr(PAGE), 1, 3);
    let descriptor = Descriptor::fill(1, memory.at(PAGE), 8);
    let faults = (0..10).take_while(|_| rig.run(descriptor).status() != Status::SUCCESS).count();
    assert_eq!(faults, 3);
}

#[test]
fn a_record_in_a_bad_page_never_comes_and_the_error_register_tells() {
    for (state, prs, config, comes) in [
        (PageState::Fillable, true, DeviceConfig::v1(), true),
        (PageState::Fillable, false, DeviceConfig::v1(), false),
        (PageState::Fillable, false, DeviceConfig::v2(), true), // the event log: the kernel writes it
        (PageState::Absent, true, DeviceConfig::v1(), false),
        (PageState::ReadOnly, true, DeviceConfig::v2(), false),
        (PageState::Bad, true, DeviceConfig::v2(), false),
    ] {
        let rig = Rig::with(config.queue(QueueConfig::shared(8).prs_disable(!prs)), Profile::strict(1));
        let memory = Memory::new(2);
        rig.space.set(memory.ptr(0), 1, state);
        let descriptor = Descriptor::fill(7, memory.at(PAGE), 8).report_to(memory.at(64)).with_flags(Flags::RCR);
        assert!(rig.submit(&descriptor));
        rig.device.run_until_idle();
        assert_eq!(memory.bytes(PAGE, 1), [7], "the operation is carried out");
        assert_eq!(memory.bytes(64, 1) != [0], comes, "{state:?} {prs}");
        assert_eq!(rig.device.counters().lost, u64::from(!comes));
        let error = rig.device.error();
        assert_eq!(error.valid(), !comes);
        if !comes {
            assert_eq!((error.code(), error.queue()), (SwErrorCode(Status::CRA_XLAT.code()), Some(0)));
            assert_eq!(error.fault_address(), memory.at(64));
        }
    }
}

#[test]
fn injected_faults_are_all_seen_and_are_the_same_for_a_seed() {
    let run = |seed| {
        let rig = Rig::new(Profile::strict(seed).faults(Faults::everything()));
        let memory = Memory::new(8);
        let mut seen = Vec::new();
        for n in 0..3000 {
            let descriptor = rig.asked(0, Descriptor::memmove(memory.at(0), memory.at(4 * PAGE), 3 * PAGE as u32));
            while !rig.submit(&descriptor) {}
            rig.device.run_until_idle();
            // Nothing else may be told apart here: addresses differ from run to run.
            seen.push((n, rig.slot(0).record().map(|record| (record.status(), record.completed))));
        }
        let counters = rig.device.counters();
        assert_eq!(seen.iter().filter(|(_, record)| record.is_none()).count() as u64, counters.lost);
        assert!(counters.retries > 100 && counters.lost > 0, "{counters:?}");
        for status in [Status::SUCCESS, Status::PAGE_FAULT_NOBOF, Status::PAGE_FAULT_IR, Status::HW_ERR1] {
            assert!(counters.with_status(status) > 0, "{status:?}");
        }
        seen
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn without_faults_nothing_faults() {
    let rig = Rig::with(DeviceConfig::v1().queue(shared()), Profile::strict(1));
    let memory = Memory::new(8);
    for _ in 0..500 {
        rig.succeed(Descriptor::memmove(memory.at(0), memory.at(4 * PAGE), 4 * PAGE as u32));
    }
    assert_eq!(rig.device.counters().retries, 0);
    assert!(!rig.device.error().valid());
}

/// In compat, where an operation goes on by large pieces, what is really missing still stops it at the very page.
#[test]
fn large_pieces_stop_at_the_very_page_too() {
    let rig = Rig::new(Profile::compat());
    let memory = Memory::new(64);
    let source = Dice::new(3).bytes(24 * PAGE);
    let (from, to, two) = (memory.at(5), memory.at(32 * PAGE + 9), memory.at(16 * PAGE + 9));
    for (missing, protection) in [(9, libc::PROT_READ), (1, libc::PROT_NONE), (20, libc::PROT_NONE)] {
        memory.put(0, &source);
        memory.put(32 * PAGE, &vec![0; 32 * PAGE]);
        memory.protect((32 + missing) * PAGE, PAGE, protection);
        let done = missing * PAGE - 9;
        let stopped = |record: CompletionRecord| {
            assert_eq!((record.status(), record.completed as usize), (Status::PAGE_FAULT_NOBOF, done));
            assert!(record.fault_was_write() && record.fault_address == memory.at((32 + missing) * PAGE));
            memory.protect((32 + missing) * PAGE, PAGE, libc::PROT_READ | libc::PROT_WRITE);
            let (got, beyond) = (memory.bytes(32 * PAGE + 9, done), memory.bytes((32 + missing) * PAGE, 4 * PAGE));
            assert_eq!(beyond, vec![0; 4 * PAGE]);
            memory.protect((32 + missing) * PAGE, PAGE, protection);
            got
        };
        let size = 24 * PAGE as u32 - 5;
        assert_eq!(stopped(rig.run(Descriptor::memmove(from, to, size))), source[5..5 + done]);
        assert_eq!(stopped(rig.run(Descriptor::copy_crc(from, to, size, 0))), source[5..5 + done]);
        assert_eq!(stopped(rig.run(Descriptor::fill(0x0101_0101_0101_0101, to, size))), vec![1; done]);
        // Of a dualcast neither destination is ahead of the other.
        memory.put(16 * PAGE, &vec![0; 16 * PAGE]);
        if missing < 15 {
            memory.protect((32 + missing) * PAGE, PAGE, libc::PROT_READ);
            let record = rig.run(Descriptor::dualcast(from, two, to, 14 * PAGE as u32));
            assert_eq!(record.completed as usize, done);
            assert_eq!(memory.bytes(16 * PAGE + 9 + done, PAGE), vec![0; PAGE]);
        }
        memory.protect((32 + missing) * PAGE, PAGE, libc::PROT_READ | libc::PROT_WRITE);
    }
}
