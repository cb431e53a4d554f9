//! ENQCMD and MOVDIR64B as the traps carry them out: operands, flags, and what the queue behind the portal makes of them.
#![cfg(all(feature = "sim", target_arch = "x86_64"))]
#![allow(unsafe_code)] // instructions

mod trap_dsa;

use std::arch::asm;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use trap_dsa::{Faulting, PAGE, Trapped, enqcmd, faulting, map, movdir64b, no_op, portals, unmap};
use twolane::offload::dsa::abi::{CompletionSlot, Descriptor, Flags, Status, SwErrorCode};
use twolane::sim::dsa::{
    AddressSpace, Device, DeviceConfig, Faults, KernelProfile, Profile, QueueConfig, QueueMode, Rule,
};
use twolane::sim::trap::Trap;

const STRICT: fn() -> Profile = || Profile::strict(1);

/// CF, PF, AF, ZF, SF, OF; and the zero flag alone.
const ARITHMETIC: u64 = 0x8d5;
const ZF: u64 = 0x40;

fn shared(size: u32) -> QueueConfig {
    QueueConfig::shared(size)
}

#[test]
fn every_portal_takes_descriptors_at_every_place() {
    for trapped in portals(&STRICT()) {
        let slots: Vec<_> = (0..64).map(|_| CompletionSlot::new()).collect();
        for (place, slot) in slots.iter().enumerate() {
            // SAFETY: a no-op's record outlives its run.
            assert!(unsafe { trapped.submit(place, &no_op(slot)) }, "{}: place {place}", trapped.name);
            trapped.device.run_until_idle();
            assert_eq!(slot.record().map(|record| record.status()), Some(Status::SUCCESS), "{}", trapped.name);
        }
        assert_eq!(trapped.device.counters().accepted, 64);
        assert_eq!(trapped.device.violations(), []);
    }
}

#[test]
fn a_copy_is_made_from_a_descriptor_at_any_alignment() {
    for trapped in portals(&STRICT().residency(false)) {
        let (source, mut target, slot) = (vec![0xa5_u8; 10_000], vec![0_u8; 10_000], CompletionSlot::new());
        // Across the border of two pages, at an odd address.
        let mut room = vec![0_u8; 3 * PAGE];
        let odd = PAGE - room.as_ptr().addr() % PAGE + PAGE - 33;
        let (from, to) = (source.as_ptr().addr() as u64, target.as_mut_ptr().addr() as u64);
        let copy = Descriptor::memmove(from, to, 10_000).report_to(slot.address()).with_flags(Flags::RCR);
        room[odd..odd + 64].copy_from_slice(&copy.to_bytes());
        // SAFETY: a portal, and memory that outlives the run.
        unsafe {
            match trapped.mode() {
                QueueMode::Shared => assert!(!enqcmd(trapped.at, room[odd..].as_ptr())),
                QueueMode::Dedicated => movdir64b(trapped.at, room[odd..].as_ptr()),
            }
        }
        // The device has a copy: what becomes of the descriptor in memory is nothing to it.
        room.fill(0xff);
        trapped.device.run_until_idle();
        assert_eq!(slot.record().unwrap().status(), Status::SUCCESS, "{}", trapped.name);
        assert!(target == source, "{}", trapped.name);
    }
}

/// ENQCMD with all arithmetic flags set before; the flags after.
unsafe fn flags_of_enqcmd(to: *mut u8, from: *const u8) -> u64 {
    let flags: u64;
    // SAFETY: the caller's promise. (MOV, ADD and SAHF keep the stack as it is.)
    unsafe {
        asm!("mov ah, 0xff", "add al, 0x7f", "sahf", "enqcmd {to}, [{from}]", "pushfq", "pop {flags}",
            to = in(reg) to, from = in(reg) from, flags = out(reg) flags, out("eax") _);
    }
    flags & ARITHMETIC
}

#[test]
fn enqcmd_answers_in_the_zero_flag_and_clears_the_others() {
    let trapped = Trapped::page("", shared(2), &STRICT());
    let slots = [CompletionSlot::new(), CompletionSlot::new(), CompletionSlot::new()];
    let descriptors = slots.each_ref().map(|slot| no_op(slot).to_bytes());
    // SAFETY: a portal; records that outlive the run, here and below.
    let flags = |n: usize| unsafe { flags_of_enqcmd(trapped.at, descriptors[n].as_ptr()) };
    assert_eq!([0, 1, 2].map(flags), [0, 0, ZF], "two entries");
    assert_eq!(trapped.device.occupancy(0), 2);
    trapped.device.run_until_idle();
    assert_eq!(flags(2), 0);
    let counters = trapped.device.counters();
    assert_eq!((counters.accepted, counters.retries), (3, 1));
}

#[test]
fn movdir64b_leaves_flags_and_both_leave_registers() {
    let trapped = Trapped::page("", QueueConfig::dedicated(16), &STRICT());
    let slot = CompletionSlot::new();
    let descriptor = no_op(&slot).to_bytes();
    let (before, after): (u64, u64);
    // SAFETY: as above.
    unsafe {
        asm!("mov ah, 0xff", "add al, 0x7f", "sahf", "pushfq", "pop {before}", "movdir64b {to}, [{from}]", "pushfq", "pop {after}",
            to = in(reg) trapped.at, from = in(reg) descriptor.as_ptr(), before = out(reg) before, after = out(reg) after, out("eax") _);
    }
    assert_eq!(before & ARITHMETIC, after & ARITHMETIC);
    assert_ne!(after & ZF, 0, "they were set");
    let shared = Trapped::page("", shared(4), &STRICT());
    let (r8, r15, rcx, low): (u64, u64, u64, u64);
    // SAFETY: as above.
    unsafe {
        asm!("movq xmm7, r8", "enqcmd rsi, [rdi]", "movq {low}, xmm7", in("rsi") shared.at, in("rdi") descriptor.as_ptr(),
            low = out(reg) low, inout("r8") 1_u64 => r8, inout("r15") 3_u64 => r15, inout("rcx") 4_u64 => rcx, out("xmm7") _);
    }
    assert_eq!((r8, r15, rcx, low), (1, 3, 4, 1));
    // The record is this function's: let it come.
    [&trapped, &shared].iter().for_each(|trapped| trapped.device.run_until_idle());
    assert!(slot.record().is_some());
}

/// A descriptor at an address that code knows by its distance.
static BESIDE: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];

#[test]
fn every_kind_of_operand_is_read_where_it_lies() {
    let trapped = Trapped::page("", shared(8), &STRICT());
    let slots: [CompletionSlot; 5] = std::array::from_fn(|_| CompletionSlot::new());
    let bytes = slots.each_ref().map(|slot| no_op(slot).to_bytes());
    let at = |n: usize| bytes[n].as_ptr();
    for (word, bytes) in BESIDE.iter().zip(bytes[4].chunks_exact(8)) {
        word.store(u64::from_le_bytes(bytes.try_into().unwrap()), Relaxed);
    }
    let to = trapped.at;
    // SAFETY: a portal; the operands are bytes of this function's: by a base, by base and index, by the stack's pointer, in FS at the distance from
    // the thread's base (which is what FS:0 holds), and next to the code.
    unsafe {
        asm!("enqcmd r12, [r13]", in("r12") to, in("r13") at(0));
        asm!("enqcmd rax, [rsi + 8 * rcx + 0x80]", in("rax") to, in("rsi") at(1).wrapping_sub(0x40), in("rcx") -8_i64);
        asm!("sub rdi, rsp", "enqcmd rax, [rsp + rdi]", in("rax") to, inout("rdi") at(2) => _);
        asm!("mov rsi, fs:[0]", "sub rdi, rsi", "enqcmd rax, fs:[rdi]", in("rax") to, inout("rdi") at(3) => _, out("rsi") _);
        asm!("enqcmd rax, [rip + {beside}]", in("rax") to, beside = sym BESIDE);
    }
    trapped.device.run_until_idle();
    for (n, slot) in slots.iter().enumerate() {
        assert!(slot.record().is_some(), "operand {n}");
    }
}

#[test]
fn what_is_accepted_is_in_the_queue_before_anybody_drives() {
    for (size, threshold) in [(4, 4), (16, 3), (128, 128)] {
        let trapped = Trapped::page("", shared(size).threshold(threshold), &STRICT());
        let slots: Vec<_> = (0..=threshold).map(|_| CompletionSlot::new()).collect();
        // SAFETY: a portal, and records that outlive the run, here and below.
        let taken = slots.iter().filter(|slot| unsafe { trapped.submit(0, &no_op(slot)) }).count();
        assert_eq!(taken, threshold as usize, "of {} entries the threshold's", size);
        assert_eq!(trapped.device.occupancy(0), threshold as usize);
        trapped.device.run_until_idle();
        // SAFETY: as above.
        assert!(unsafe { trapped.submit(0, &no_op(&slots[threshold as usize])) }, "there is room again");
        trapped.device.run_until_idle();
        assert!(slots.iter().all(|slot| slot.record().is_some()));
    }
}

#[test]
fn a_dedicated_queue_drops_what_is_too_much_and_the_error_register_tells() {
    let trapped = Trapped::page("", QueueConfig::dedicated(4), &STRICT());
    let slots: [CompletionSlot; 5] = std::array::from_fn(|_| CompletionSlot::new());
    // SAFETY: as above.
    slots.iter().for_each(|slot| assert!(unsafe { trapped.submit(0, &no_op(slot)) }));
    trapped.device.run_until_idle();
    let answered = slots.iter().filter(|slot| slot.record().is_some()).count();
    assert_eq!((answered, trapped.device.counters().dropped), (4, 1));
    assert_eq!(trapped.device.error().code(), SwErrorCode::QUEUE_OVERFLOW);
    // And what is more than any queue could have.
    for _ in 0..200 {
        // SAFETY: no memory is named.
        unsafe { trapped.submit(0, &Descriptor::noop()) };
    }
    assert_eq!(trapped.device.counters().dropped, 1 + 200 - 4);
}

#[test]
fn the_wrong_instruction_gets_nowhere() {
    let (shared, dedicated) =
        (Trapped::page("", shared(4), &STRICT()), Trapped::page("", QueueConfig::dedicated(4), &STRICT()));
    let slot = CompletionSlot::new();
    let descriptor = no_op(&slot).to_bytes();
    for _ in 0..3 {
        // SAFETY: as above.
        unsafe {
            assert!(enqcmd(dedicated.at, descriptor.as_ptr()), "retry, for ever");
            movdir64b(shared.at, descriptor.as_ptr());
        }
    }
    [&shared, &dedicated].iter().for_each(|trapped| trapped.device.run_until_idle());
    assert!(slot.record().is_none());
    assert_eq!((dedicated.device.counters().retries, shared.device.counters().dropped), (3, 3));
    for trapped in [&shared, &dedicated] {
        assert!(trapped.device.violations().iter().all(|violation| violation.rule == Rule::WrongInstruction));
        assert!(!trapped.device.violations().is_empty());
    }
}

#[test]
fn a_disabled_queue_takes_nothing_from_that_moment_on() {
    let trapped = Trapped::page("", shared(8), &STRICT());
    let slots = [CompletionSlot::new(), CompletionSlot::new()];
    // SAFETY: as above.
    unsafe {
        assert!(trapped.submit(0, &no_op(&slots[0])));
        trapped.device.disable_queue(0);
        assert!(!trapped.submit(0, &no_op(&slots[1])));
        trapped.device.enable_queue(0);
        assert!(!trapped.submit(0, &no_op(&slots[1])), "the portal is of the queue's life before");
    }
    trapped.device.run_until_idle();
    assert!(slots.iter().all(|slot| slot.record().is_none()));
    let counters = trapped.device.counters();
    assert_eq!((counters.accepted, counters.lost, counters.retries), (1, 1, 2));
}

#[test]
fn other_tenants_are_faster_as_often_as_wanted() {
    let mut faults = Faults::none();
    faults.retry = 0.5;
    let trapped = Trapped::page("", shared(128), &STRICT().faults(faults));
    // SAFETY: no memory is named.
    let taken = (0..100).filter(|n| unsafe { trapped.submit(*n, &Descriptor::noop()) }).count();
    assert!((25..75).contains(&taken), "{taken} of 100");
    assert_eq!(trapped.device.counters().retries, 100 - taken as u64);
}

#[test]
fn ordinary_memory_takes_stores_and_refuses_enqcmd() {
    #[repr(align(64))]
    struct Line([u8; 64]);
    // There has to be a portal somewhere, or ENQCMD is not looked at on a cpu that has it.
    let _trapped = Trapped::page("", shared(4), &STRICT());
    let (mut line, mut bytes) = (Line([7; 64]), [0_u8; 65]);
    bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
    // SAFETY: 64 bytes each, of this function's.
    unsafe {
        movdir64b(line.0.as_mut_ptr(), bytes[1..].as_ptr());
        assert_eq!(line.0[..], bytes[1..]);
        assert!(enqcmd(line.0.as_mut_ptr(), [0_u8; 64].as_ptr()), "no queue is there");
        assert_eq!(line.0[..], bytes[1..]);
    }
}

#[test]
fn a_mapping_is_whatever_is_mapped_there_now() {
    let (one, other) = (Trapped::node("", shared(4), &STRICT()), Trapped::node("", shared(4), &STRICT()));
    let descriptor = Descriptor::noop().to_bytes();
    let page = map(&one.path(), std::ptr::null_mut());
    let accepted = || [&one, &other].map(|trapped| trapped.device.counters().accepted);
    // SAFETY: portals; no memory is named.
    unsafe {
        assert!(!enqcmd(page, descriptor.as_ptr()));
        assert_eq!(accepted(), [1, 0]);
        map(&other.path(), page);
        assert!(!enqcmd(page.add(64), descriptor.as_ptr()));
        assert_eq!(accepted(), [1, 1]);
        // As the driver does when it lets go of a queue.
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        assert_eq!(libc::mmap(page.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0), page.cast());
        assert!(enqcmd(page, descriptor.as_ptr()), "memory");
        movdir64b(page, [9_u8; 64].as_ptr());
        assert_eq!(page.read(), 9);
    }
    assert_eq!(accepted(), [1, 1]);
    unmap(page);
}

#[test]
fn what_cannot_be_a_node_says_why() {
    let trap = Trap::install().unwrap();
    let device = Device::new(DeviceConfig::v1().queue(shared(4)), STRICT()).unwrap();
    let space = AddressSpace::new().unwrap();
    let queue = || device.open(0, &space).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("wq0.0");
    let first = trap.node(queue(), &path).unwrap();
    let again = trap.node(queue(), &path).unwrap_err().to_string();
    assert!(again.contains("behind it already") && again.contains("wq0.0"), "{again}");
    drop(first);
    drop(trap.node(queue(), &path).unwrap());
    std::fs::write(&path, "somebody's").unwrap();
    let full = trap.node(queue(), &path).unwrap_err().to_string();
    assert!(full.contains("not an empty regular file"), "{full}");
    assert_eq!(std::fs::read(&path).unwrap(), b"somebody's");
    assert!(trap.node(queue(), directory.path()).is_err(), "a directory");
    let config = DeviceConfig::v1().queue(shared(4)).kernel(KernelProfile::V6_12);
    let refuses = Device::new(config, STRICT()).unwrap();
    let refused = trap.portal(refuses.open(0, &space).unwrap()).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
}

#[test]
fn descriptors_that_are_written_reach_the_same_queue() {
    let trapped = Trapped::node("", shared(4), &STRICT());
    let slots: [CompletionSlot; 3] = std::array::from_fn(|_| CompletionSlot::new());
    let bytes: Vec<u8> = slots.iter().flat_map(|slot| no_op(slot).to_bytes()).chain([0; 10]).collect();
    // SAFETY: records that outlive the run.
    assert_eq!(unsafe { trapped.portal.write(&bytes) }.unwrap(), 3 * 64);
    trapped.device.run_until_idle();
    assert!(slots.iter().all(|slot| slot.record().is_some()));
}

/// How the instructions arrive on cpus that have them.
#[test]
fn faults_of_cpus_that_know_the_instructions_are_taken_as_well() {
    let nowhere: *const u8 = std::ptr::null();
    let [shared_page, shared_node, dedicated_page, dedicated_node] = &portals(&STRICT());
    for (trapped, instruction, signal, code, at_address) in [
        // #GP tells no address: no PASID, as where a hypervisor hides the instruction.
        (shared_page, Faulting::Enqcmd, libc::SIGSEGV, 0x80, false),
        (shared_node, Faulting::Enqcmd, libc::SIGSEGV, 0x80, false),
        (shared_page, Faulting::Enqcmd, libc::SIGSEGV, 2, true),
        (shared_node, Faulting::Enqcmd, libc::SIGBUS, 2, true),
        (dedicated_page, Faulting::Movdir64b, libc::SIGSEGV, 2, true),
        (dedicated_node, Faulting::Movdir64b, libc::SIGBUS, 2, true),
    ] {
        let slot = CompletionSlot::new();
        let descriptor = no_op(&slot).to_bytes();
        let to = trapped.at.wrapping_add(128);
        // SAFETY: a portal; the record outlives the run.
        unsafe {
            faulting(instruction, to, descriptor.as_ptr(), signal, code, if at_address { to } else { nowhere });
        }
        trapped.device.run_until_idle();
        let answered = slot.record().is_some();
        assert!(answered, "{instruction:?} {signal} {code:#x}");
    }
    let accepted =
        [shared_page, shared_node, dedicated_page, dedicated_node].map(|trapped| trapped.device.counters().accepted);
    assert_eq!(accepted, [2, 2, 1, 1], "each once");
}
