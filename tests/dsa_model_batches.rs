//! Batches and drains, against the whole device.
#![cfg(feature = "sim")]

mod dsa_model;

use std::collections::BTreeSet;

use dsa_model::{Memory, PAGE, Rig};
use twolane::offload::dsa::abi::{CompletionRecord, Descriptor, Flags, GenCap, Opcode, Status, layout};
use twolane::sim::dsa::{DeviceConfig, End, Faults, PageState, Profile, QueueConfig, Rule};

/// Where lists go: the first two pages of the memory.
fn put_list(memory: &Memory, at: usize, children: &[Descriptor]) -> Descriptor {
    for (n, child) in children.iter().enumerate() {
        memory.put(at + 64 * n, &child.to_bytes());
    }
    Descriptor::batch(memory.at(at), children.len() as u32)
}

/// Child n fills a byte of page 4 with n + 1 and reports to slot n + 1.
fn fills(rig: &Rig, memory: &Memory, count: usize) -> Vec<Descriptor> {
    let fill = |n: usize| Descriptor::fill(n as u64 + 1, memory.at(4 * PAGE + n), 1);
    (0..count).map(|n| rig.asked(n + 1, fill(n))).collect()
}

fn bad(rig: &Rig, n: usize) -> Descriptor {
    rig.asked(n + 1, Descriptor::new(Opcode(0x7f)))
}

fn statuses(rig: &Rig, count: usize) -> Vec<Option<Status>> {
    (1..=count).map(|n| rig.slot(n).record().map(|record| record.status())).collect()
}

#[test]
fn a_batch_does_its_children_and_counts_them() {
    for profile in [Profile::strict(1), Profile::compat()] {
        let rig = Rig::new(profile);
        let memory = Memory::new(8);
        for count in [2, 3, 17, 32] {
            let children = fills(&rig, &memory, count);
            let record = rig.succeed(put_list(&memory, 0, &children));
            assert_eq!((record.completed, record.result), (count as u32, 0));
            assert!(statuses(&rig, count).iter().all(|status| *status == Some(Status::SUCCESS)));
            let want: Vec<u8> = (1..=count as u8).collect();
            assert_eq!(memory.bytes(4 * PAGE, count), want);
        }
        assert_eq!((rig.device.counters().batches, rig.device.counters().children), (4, 54));
        rig.no_violations();
    }
}

#[test]
fn children_without_rcr_leave_their_records_alone_on_success() {
    let rig = Rig::new(Profile::compat());
    let memory = Memory::new(8);
    rig.slot(1).clear_all();
    rig.slot(2).clear_all();
    let quiet = Descriptor::fill(7, memory.at(4 * PAGE), 1).report_to(rig.slot(1).address());
    let failing = Descriptor::new(Opcode(0x7f)).report_to(rig.slot(2).address());
    let record = rig.run(put_list(&memory, 0, &[quiet, failing]));
    assert_eq!((record.status(), record.completed), (Status::BATCH_FAIL, 2));
    assert_eq!(rig.slot(1).record(), None);
    assert_eq!(rig.slot(2).record().unwrap().status(), Status::BAD_OPCODE);
}

#[test]
fn a_failing_child_without_a_fence_stops_nobody() {
    for seed in 0..20 {
        let rig = Rig::new(Profile::strict(seed));
        let memory = Memory::new(8);
        let mut children = fills(&rig, &memory, 6);
        children[2] = bad(&rig, 2);
        let record = rig.run(put_list(&memory, 0, &children));
        assert_eq!((record.status(), record.completed, record.result), (Status::BATCH_FAIL, 6, 1));
        assert_eq!(memory.bytes(4 * PAGE, 6), [1, 2, 0, 4, 5, 6]);
    }
}

#[test]
fn a_fence_after_anything_but_success_gives_up_the_rest() {
    let memory = Memory::new(8);
    for seed in 0..20 {
        let rig = Rig::new(Profile::strict(seed));
        // A result that was not expected counts, and so does a partial completion.
        let unexpected = rig.asked(2, Descriptor::compare(memory.at(0), memory.at(0), 1, 1)).with_flags(Flags::CR);
        rig.absent(&memory, 6 * PAGE, 1);
        let faulting = rig.asked(2, Descriptor::fill(9, memory.at(6 * PAGE), 1));
        for (failing, status) in [(unexpected, Status::SUCCESS_PRED), (faulting, Status::PAGE_FAULT_NOBOF)] {
            memory.put(4 * PAGE, &[0; 8]);
            let mut children = fills(&rig, &memory, 6);
            children[1] = failing;
            rig.slot(2).clear_all();
            children[3] = children[3].with_flags(Flags::FENCE);
            let record = rig.run(put_list(&memory, 0, &children));
            assert_eq!((record.status(), record.completed), (Status::BATCH_FAIL, 3));
            assert_eq!(statuses(&rig, 6)[1], Some(status));
            assert_eq!(statuses(&rig, 6)[3..], [None; 3], "no record, no data");
            assert_eq!(memory.bytes(4 * PAGE, 6), [1, 0, 3, 0, 0, 0]);
        }
        assert_eq!(rig.device.counters().lost, 0, "the batch's record tells of those");
        rig.no_violations();
    }
}

#[test]
fn a_fence_orders_a_flag_behind_its_data() {
    for seed in 0..50 {
        let rig = Rig::new(Profile::strict(seed).trace(64));
        let memory = Memory::new(16);
        let data = rig.asked(1, Descriptor::fill(0x0707_0707_0707_0707, memory.at(4 * PAGE), 4 * PAGE as u32));
        let copy = rig
            .asked(2, Descriptor::memmove(memory.at(8 * PAGE - 8), memory.at(12 * PAGE), 8))
            .with_flags(Flags::FENCE);
        rig.succeed(put_list(&memory, 0, &[data, copy]));
        assert_eq!(memory.bytes(12 * PAGE, 8), [7; 8]);
        let ends: Vec<_> = rig.device.trace().into_iter().map(|entry| entry.child).collect();
        assert_eq!(ends, [Some(0), Some(1), None], "records, and the batch's last");
    }
}

#[test]
fn children_end_in_any_order_when_strict_and_in_theirs_when_compat() {
    let orders = |profile: fn(u64) -> Profile| {
        let order = |seed| {
            let rig = Rig::new(profile(seed).trace(64));
            let memory = Memory::new(8);
            rig.succeed(put_list(&memory, 0, &fills(&rig, &memory, 4)));
            let ends = rig.device.trace().into_iter().filter_map(|entry| entry.child);
            ends.collect::<Vec<usize>>()
        };
        (0..60).map(order).collect::<BTreeSet<_>>()
    };
    assert!(orders(Profile::strict).len() > 15);
    assert_eq!(orders(|seed| Profile::compat().seed(seed)), BTreeSet::from([vec![0, 1, 2, 3]]));
}

#[test]
fn batches_and_drains_have_no_place_in_a_batch() {
    let rig = Rig::new(Profile::strict(1));
    let memory = Memory::new(8);
    let children = [rig.asked(1, Descriptor::batch(memory.at(0), 2)), rig.asked(2, Descriptor::drain())];
    let record = rig.run(put_list(&memory, 0, &children));
    assert_eq!((record.status(), record.completed), (Status::BATCH_FAIL, 2));
    assert_eq!(statuses(&rig, 2), [Some(Status::BAD_OPCODE); 2]);
}

#[test]
fn a_list_that_ends_in_a_bad_page_is_done_up_to_there() {
    for seed in 0..10 {
        let rig = Rig::new(Profile::strict(seed));
        let memory = Memory::new(8);
        rig.space.set(memory.ptr(PAGE), 1, PageState::Bad);
        let children = fills(&rig, &memory, 8);
        // Five descriptors fit before the page.
        let batch = put_list(&memory, PAGE - 5 * 64, &children);
        let record = rig.run(batch);
        assert_eq!((record.status(), record.completed), (Status::BATCH_PAGE_FAULT, 5));
        assert!(!record.fault_was_write());
        assert_eq!(record.fault_address & !0xfff, memory.at(PAGE));
        assert_eq!(memory.bytes(4 * PAGE, 8), [1, 2, 3, 4, 5, 0, 0, 0]);
        // As the specification says: list and count go on.
        rig.space.clear();
        (5..8).for_each(|n| rig.slot(n + 1).clear_all());
        let rest = Descriptor::batch(batch.value(layout::LIST) + 64 * 5, 3);
        rig.succeed(rest);
        assert_eq!(memory.bytes(4 * PAGE, 8), [1, 2, 3, 4, 5, 6, 7, 8]);
        // Nothing at all, if it begins there. An absent page is served: lists always block on faults.
        rig.space.set(memory.ptr(PAGE), 1, PageState::Bad);
        let children = fills(&rig, &memory, 2);
        let record = rig.run(put_list(&memory, PAGE, &children));
        assert_eq!((record.status(), record.completed), (Status::BATCH_PAGE_FAULT, 0));
        rig.space.set(memory.ptr(PAGE), 1, PageState::Fillable);
        (0..2).for_each(|n| rig.slot(n + 1).clear_all());
        rig.succeed(Descriptor::batch(memory.at(PAGE), 2));
    }
}

#[test]
fn without_page_requests_an_absent_list_faults() {
    let config = DeviceConfig::v2().queue(QueueConfig::shared(8).prs_disable(true));
    let rig = Rig::with(config, Profile::strict(1));
    let memory = Memory::new(8);
    rig.space.set(memory.ptr(0), 1, PageState::Fillable);
    let children = fills(&rig, &memory, 2);
    let record = rig.run(put_list(&memory, 0, &children));
    assert_eq!((record.status(), record.completed), (Status::BATCH_PAGE_FAULT, 0));
}

#[test]
fn a_batch_that_goes_on_knows_of_the_error_before() {
    let rig = Rig::new(Profile::strict(1));
    let memory = Memory::new(8);
    let mut children = fills(&rig, &memory, 3);
    children[2] = children[2].with_flags(Flags::FENCE);
    let record = rig.run(put_list(&memory, 0, &children).with_flags(Flags::BATCH_ERROR));
    assert_eq!((record.status(), record.completed, record.result), (Status::BATCH_FAIL, 2, 1));
}

#[test]
fn a_batch_of_one_needs_its_capability() {
    let memory = Memory::new(8);
    let rig = Rig::new(Profile::strict(1));
    let children = fills(&rig, &memory, 1);
    assert_eq!(rig.run(put_list(&memory, 0, &children)).status(), Status::DESC_CNT_ERANGE);
    let config = DeviceConfig::v2();
    let with = config.gencap.union(GenCap::BATCH_1);
    let rig = Rig::with(config.gencap(with).queue(QueueConfig::shared(8)), Profile::strict(1));
    let children = fills(&rig, &memory, 1);
    assert_eq!(rig.succeed(put_list(&memory, 0, &children)).completed, 1);
}

#[test]
fn a_batch_is_one_entry_of_its_queue() {
    let rig = Rig::with(DeviceConfig::v1().queue(QueueConfig::dedicated(2)), Profile::strict(1));
    let memory = Memory::new(8);
    let children = fills(&rig, &memory, 8);
    let batch = put_list(&memory, 0, &children);
    rig.submit(&rig.asked(0, batch));
    rig.submit(&rig.asked(20, Descriptor::noop()));
    assert_eq!(rig.device.occupancy(0), 2);
    rig.device.run_until_idle();
    assert_eq!(rig.device.counters().dropped, 0);
    rig.no_violations();
}

#[test]
fn a_batch_that_vanishes_loses_the_children_that_nobody_heard_of() {
    let mut lost = BTreeSet::new();
    for seed in 0..40 {
        let rig = Rig::new(Profile::strict(seed));
        let memory = Memory::new(8);
        let children = fills(&rig, &memory, 8);
        assert!(rig.submit(&rig.asked(0, put_list(&memory, 0, &children))));
        (0..seed).for_each(|_| {
            rig.device.step();
        });
        rig.device.halt();
        let reported = statuses(&rig, 8).iter().flatten().count() as u64;
        if rig.slot(0).record().is_none() {
            assert_eq!(rig.device.counters().lost, 8 - reported, "seed {seed}");
        }
        lost.insert(rig.device.counters().lost);
    }
    assert!(lost.len() > 4, "{lost:?}");
}

/// Whatever order the strict device chooses, a drain's record comes after those of everything before it.
#[test]
fn a_drain_ends_after_what_came_before_it() {
    for seed in 0..60 {
        let config = DeviceConfig::v1().queue(QueueConfig::shared(32)).queue(QueueConfig::shared(32));
        let rig = Rig::with(config, Profile::strict(seed).trace(128));
        let memory = Memory::new(16);
        let children = fills(&rig, &memory, 4);
        let batch = put_list(&memory, 0, &children);
        let copy = Descriptor::memmove(memory.at(8 * PAGE), memory.at(12 * PAGE), 2 * PAGE as u32);
        assert!(rig.submit(&rig.asked(10, copy)));
        assert!(rig.submit(&rig.asked(11, batch)));
        assert!(rig.submit(&rig.asked(12, Descriptor::drain())));
        assert!(rig.submit(&rig.asked(13, copy)));
        rig.device.run_until_idle();
        let order: Vec<Opcode> = rig.device.trace().iter().map(|entry| entry.descriptor.opcode()).collect();
        let drain = order.iter().position(|opcode| *opcode == Opcode::DRAIN).unwrap();
        assert!(order[..drain].contains(&Opcode::MEMMOVE) && order[..drain].contains(&Opcode::BATCH), "{order:?}");
        rig.no_violations();
    }
}

#[test]
fn a_drain_waits_for_its_own_address_space_only() {
    let mut overtook = 0;
    for seed in 0..60 {
        let rig = Rig::new(Profile::strict(seed).trace(8));
        let memory = Memory::new(64);
        let other = twolane::sim::dsa::AddressSpace::new().unwrap();
        let neighbour = rig.device.open(0, &other).unwrap();
        let long = rig.asked(1, Descriptor::fill(1, memory.at(0), 64 * PAGE as u32));
        submit(&neighbour, &long);
        assert!(rig.submit(&rig.asked(2, Descriptor::drain())));
        rig.device.run_until_idle();
        overtook += usize::from(rig.device.trace()[0].descriptor.opcode() == Opcode::DRAIN);
    }
    assert!(overtook > 30, "{overtook}");
}

#[allow(unsafe_code)]
fn submit(portal: &twolane::sim::dsa::ModelPortal, descriptor: &Descriptor) {
    // SAFETY: memory and record outlive the device.
    let answer = unsafe { portal.enqcmd(0, descriptor) };
    assert_eq!(answer, Ok(twolane::sim::dsa::Enqcmd::Accepted));
}

#[test]
fn a_readback_that_faults_is_told() {
    let rig = Rig::new(Profile::strict(1));
    let memory = Memory::new(2);
    let drain = |address| Descriptor::drain().with_flags(Flags::READBACK1_VALID).with(layout::READBACK_1, address);
    rig.succeed(drain(memory.at(0)));
    rig.space.set(memory.ptr(PAGE), 1, PageState::Bad);
    let record = rig.run(drain(memory.at(PAGE)));
    assert_eq!((record.status(), record.fault_was_write()), (Status::PFAULT_RDBA, false));
    assert_eq!(rig.run(drain(8)).status(), Status::PFAULT_RDBA, "nothing is mapped there");
}

#[test]
fn injected_list_faults_strike() {
    let mut faults = Faults::none();
    faults.list_fault = 0.5;
    let rig = Rig::new(Profile::strict(1).faults(faults));
    let memory = Memory::new(8);
    let mut seen = BTreeSet::new();
    for _ in 0..50 {
        let children = fills(&rig, &memory, 3);
        let CompletionRecord { status_byte, completed, .. } = rig.run(put_list(&memory, PAGE - 64, &children));
        seen.insert((Status::of(status_byte), completed));
    }
    let want = [(Status::SUCCESS, 3), (Status::BATCH_PAGE_FAULT, 0), (Status::BATCH_PAGE_FAULT, 1)];
    assert_eq!(seen, BTreeSet::from(want));
}

#[test]
fn the_trace_has_every_descriptor_once() {
    let rig = Rig::new(Profile::strict(1).trace(4));
    let memory = Memory::new(8);
    let children = fills(&rig, &memory, 6);
    rig.succeed(put_list(&memory, 0, &children));
    let trace = rig.device.trace();
    assert_eq!(trace.len(), 4, "the last ones");
    let last = trace.last().unwrap();
    assert_eq!((last.child, last.descriptor.opcode(), last.pasid), (None, Opcode::BATCH, rig.space.pasid()));
    assert!(matches!(last.end, End::Reported(record) if record.status() == Status::SUCCESS));
    assert!(rig.device.trace().is_empty());
}

#[test]
fn children_that_are_refused_are_violations_of_their_own() {
    let rig = Rig::new(Profile::strict(1));
    let memory = Memory::new(8);
    let mut children = fills(&rig, &memory, 2);
    children[1] = children[1].with(layout::TRANSFER_SIZE, 0);
    rig.run(put_list(&memory, 0, &children));
    let violations = rig.device.violations();
    assert_eq!((violations.len(), violations[0].rule, violations[0].descriptor), (1, Rule::Refused, Some(children[1])));
}
