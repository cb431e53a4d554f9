//! Descriptors that are stored to a real page, by this cpu's own MOVDIR64B where it has one, and that the device picks up.
#![cfg(feature = "sim")]
#![allow(unsafe_code)]

mod dsa_model;

use std::sync::atomic::{AtomicU64, Ordering};

use dsa_model::{Dice, Memory, PAGE, Rig, wait_for};
use twolane::offload::dsa::abi::{Descriptor, Status};
use twolane::sim::dsa::{DeviceConfig, Enqcmd, GeneralProtection, Profile, QueueConfig};

/// By MOVDIR64B, 64 bytes at once; on cpus without it by ordinary stores, the word that makes the descriptor valid last.
///
/// # Safety
/// `to` is a place of a mapped portal, and what the descriptor names is good for the device until it is done.
unsafe fn store(to: *mut u8, descriptor: &Descriptor) {
    #[cfg(target_arch = "x86_64")]
    if has_movdir64b() {
        // SAFETY: a place in a mapped page, 64-byte aligned; the source is 64 bytes. The fence orders what was prepared before it.
        unsafe {
            std::arch::asm!("sfence", "movdir64b {to}, [{from}]", to = in(reg) to, from = in(reg) descriptor, options(nostack));
        }
        return;
    }
    let words: Vec<u64> =
        descriptor.to_bytes().chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    for n in (0..8).rev() {
        // SAFETY: as above; words of a page that is reached through atomics on the other side as well.
        let word = unsafe { AtomicU64::from_ptr(to.cast::<u64>().add(n)) };
        // Release: publishes the other words, and what was prepared. Partner: the device's Acquire load of the first word.
        word.store(words[n], Ordering::Release);
    }
}

/// Leaf 7, ecx bit 28.
#[cfg(target_arch = "x86_64")]
fn has_movdir64b() -> bool {
    // Unsafe in older toolchains only.
    #[allow(unused_unsafe)]
    // SAFETY: CPUID is there on every x86-64 cpu.
    let leaf = unsafe { std::arch::x86_64::__cpuid_count(7, 0) };
    leaf.ecx >> 28 & 1 == 1
}

#[test]
fn a_thread_that_goes_round_loses_nothing() {
    const IN_FLIGHT: usize = 32;
    let config = DeviceConfig::v1().queue(QueueConfig::dedicated(IN_FLIGHT as u32));
    let rig = Rig::with(config, Profile::strict(5));
    let memory = Memory::new(2 * IN_FLIGHT);
    // SAFETY: what is stored there, below, names memory that outlives the device.
    let portal = unsafe { rig.portal.map() }.unwrap();
    let driven = rig.device.spawn().unwrap();
    let mut dice = Dice::new(5);
    let rounds = 20_000;
    let mut sources = vec![0_u64; IN_FLIGHT];
    for n in 0..rounds + IN_FLIGHT {
        let slot = n % IN_FLIGHT;
        if n >= IN_FLIGHT {
            assert_eq!(wait_for(rig.slot(slot)).status(), Status::SUCCESS, "descriptor {}", n - IN_FLIGHT);
            assert_eq!(memory.bytes((2 * slot + 1) * PAGE, 8), sources[slot].to_le_bytes());
        }
        if n < rounds {
            sources[slot] = dice.next();
            memory.put(2 * slot * PAGE, &sources[slot].to_le_bytes());
            let copy = Descriptor::memmove(memory.at(2 * slot * PAGE), memory.at((2 * slot + 1) * PAGE), 8);
            // SAFETY: memory and records outlive the device.
            unsafe { store(portal.address().add(64 * (n % 64)), &rig.asked(slot, copy)) };
        }
    }
    drop(driven);
    assert_eq!(rig.device.counters().with_status(Status::SUCCESS), rounds as u64);
    rig.no_violations();
}

#[test]
fn another_mapping_of_the_file_is_the_same_portal() {
    use std::os::fd::AsRawFd;
    let rig = Rig::with(DeviceConfig::v1().queue(QueueConfig::dedicated(4)), Profile::strict(6));
    // SAFETY: what is stored there, below, is a no-op whose record outlives the device.
    let portal = unsafe { rig.portal.map() }.unwrap();
    let descriptor = rig.asked(0, Descriptor::noop());
    // SAFETY: a new mapping; one store into it; unmapped afterwards.
    unsafe {
        let (len, write) = (PAGE, libc::PROT_WRITE);
        let at = libc::mmap(std::ptr::null_mut(), len, write, libc::MAP_SHARED, portal.file().as_raw_fd(), 0);
        assert_ne!(at, libc::MAP_FAILED);
        let to = at.cast::<u8>().add(64 * 63);
        store(to, &descriptor);
        rig.device.run_until_idle();
        libc::munmap(at, len);
    }
    assert_eq!(rig.slot(0).record().unwrap().status(), Status::SUCCESS);
    drop(portal);
    assert!(!rig.device.step(), "nobody looks any more");
}

/// A child has neither the mapping nor a PASID, and must not hang on the parent's lock.
#[test]
fn a_forked_child_is_turned_away() {
    let rig = Rig::with(DeviceConfig::v1().queue(QueueConfig::shared(4)), Profile::strict(7));
    let descriptor = rig.asked(0, Descriptor::noop());
    // SAFETY: the child calls what touches no lock, and leaves by _exit.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: nothing is accepted.
        let turned_away = unsafe {
            rig.portal.enqcmd(0, &descriptor) == Err(GeneralProtection::Forked)
                && rig.portal.movdir64b(0, &descriptor) == Err(GeneralProtection::Forked)
                && rig
                    .portal
                    .write(&descriptor.to_bytes())
                    .is_err_and(|error| error.raw_os_error() == Some(libc::EPERM))
        };
        // SAFETY: ends the child, and nothing of the parent's.
        unsafe { libc::_exit(if turned_away { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: the child that was made above.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    // SAFETY: a no-op whose record outlives the device.
    assert_eq!(unsafe { rig.portal.enqcmd(0, &descriptor) }, Ok(Enqcmd::Accepted));
}
