//! A queue of a device model, memory for it to work on, and what a program does with both.
#![allow(dead_code, unsafe_code)] // each test uses a part; a portal is unsafe

use std::time::Duration;

use twolane::offload::dsa::abi::{CompletionRecord, CompletionSlot, Descriptor, Flags, Status, layout};
use twolane::sim::dsa::{
    AddressSpace, Device, DeviceConfig, Enqcmd, ModelPortal, PageState, Profile, QueueConfig, QueueMode,
};

pub const PAGE: usize = 4096;

/// Pages of memory that the device works on, page-aligned, present. Reached through pointers alone: the device writes it when it likes.
pub struct Memory {
    start: *mut u8,
    len: usize,
}

impl Memory {
    pub fn new(pages: usize) -> Self {
        let memory = Self::untouched(pages);
        (0..pages).for_each(|page| memory.put(page * PAGE, &[0]));
        memory
    }

    /// Pages that nobody touched yet, which are in no page table.
    pub fn untouched(pages: usize) -> Self {
        let len = pages * PAGE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, kind, -1, 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: the mapping that was just made. Huge pages would make neighbours present.
        unsafe { libc::madvise(start, len, libc::MADV_NOHUGEPAGE) };
        Self { start: start.cast(), len }
    }

    pub fn at(&self, offset: usize) -> u64 {
        assert!(offset <= self.len);
        self.start.addr() as u64 + offset as u64
    }

    pub fn ptr(&self, offset: usize) -> *const u8 {
        self.at(offset) as *const u8
    }

    pub fn put(&self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.len);
        // SAFETY: within the mapping; `bytes` is the caller's own memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), bytes.len()) };
    }

    pub fn bytes(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len);
        let mut bytes = vec![0; len];
        // SAFETY: within the mapping, and no descriptor is under way when a test looks.
        unsafe { std::ptr::copy_nonoverlapping(self.start.add(offset), bytes.as_mut_ptr(), len) };
        bytes
    }

    pub fn protect(&self, offset: usize, len: usize, protection: i32) {
        assert!(offset + len <= self.len);
        // SAFETY: within the mapping, to which there are no references.
        assert_eq!(unsafe { libc::mprotect(self.start.add(offset).cast(), len, protection) }, 0);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}

/// Numbers that look random, and are the same in each run.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// One queue of one device, opened.
pub struct Rig {
    pub device: Device,
    pub portal: ModelPortal,
    pub space: AddressSpace,
    slots: Box<[CompletionSlot]>,
}

pub fn shared() -> QueueConfig {
    QueueConfig::shared(32).block_on_fault(true)
}

impl Rig {
    /// A device of version 2, one shared queue.
    pub fn new(profile: Profile) -> Self {
        Self::with(DeviceConfig::v2().queue(shared()), profile)
    }

    pub fn with(config: DeviceConfig, profile: Profile) -> Self {
        let device = Device::new(config, profile).unwrap();
        let space = AddressSpace::new().unwrap();
        let portal = device.open(0, &space).unwrap();
        let slots = (0..SLOTS).map(|_| CompletionSlot::new()).collect();
        Self { device, portal, space, slots }
    }

    pub fn slot(&self, n: usize) -> &CompletionSlot {
        &self.slots[n]
    }

    /// The descriptor with a record asked for, in a slot that is cleared.
    pub fn asked(&self, n: usize, descriptor: Descriptor) -> Descriptor {
        self.slots[n].clear_all();
        descriptor.report_to(self.slots[n].address()).with_flags(Flags::RCR)
    }

    /// Hands a descriptor to the queue, in the way that its mode wants. Whether it was taken, as far as software can tell.
    pub fn submit(&self, descriptor: &Descriptor) -> bool {
        // SAFETY: tests use memory that outlives the device, or addresses that are not mapped.
        unsafe {
            match self.portal.mode() {
                QueueMode::Shared => self.portal.enqcmd(0, descriptor).unwrap() == Enqcmd::Accepted,
                QueueMode::Dedicated => {
                    self.portal.movdir64b(0, descriptor).unwrap();
                    true
                }
            }
        }
    }

    /// Runs one descriptor and returns its record.
    pub fn run(&self, descriptor: Descriptor) -> CompletionRecord {
        let descriptor = self.asked(0, descriptor);
        assert!(self.submit(&descriptor));
        self.device.run_until_idle();
        self.slots[0].record().unwrap_or_else(|| panic!("no record of {descriptor:?}"))
    }

    /// Runs one descriptor that has to succeed.
    pub fn succeed(&self, descriptor: Descriptor) -> CompletionRecord {
        let record = self.run(descriptor);
        assert_eq!(record.status(), Status::SUCCESS, "{descriptor:?}: {record:?}");
        record
    }

    pub fn absent(&self, memory: &Memory, offset: usize, len: usize) {
        self.space.set(memory.ptr(offset), len, PageState::Absent);
    }

    pub fn no_violations(&self) {
        assert_eq!(self.device.violations(), [], "no duty was broken");
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        // Slots go away with this: nothing may write them any more.
        self.device.halt();
    }
}

pub const SLOTS: usize = 128;

/// Follows the specification's rules for going on after a partial completion (8.3.4 and following): `None` where there is nothing to go on with.
pub fn resumed(descriptor: &Descriptor, record: &CompletionRecord) -> Option<Descriptor> {
    use twolane::offload::dsa::abi::Opcode;
    if !matches!(record.status(), Status::PAGE_FAULT_NOBOF | Status::PAGE_FAULT_IR) {
        return None;
    }
    let n = u64::from(record.completed);
    let ahead = |descriptor: Descriptor, field| descriptor.with(field, descriptor.value(field) + n);
    let size = descriptor.value(layout::TRANSFER_SIZE);
    let rest = descriptor.with(layout::TRANSFER_SIZE, size - n);
    let both = |descriptor| ahead(ahead(descriptor, layout::SOURCE), layout::DESTINATION);
    Some(match descriptor.opcode() {
        Opcode::MEMMOVE if record.result == CompletionRecord::BACKWARD => rest,
        Opcode::MEMMOVE | Opcode::COMPARE => both(rest),
        Opcode::MEMFILL => {
            let rotated = descriptor.value(layout::PATTERN).rotate_right(8 * (n % 8) as u32);
            ahead(rest, layout::DESTINATION).with(layout::PATTERN, rotated)
        }
        Opcode::COMPVAL => {
            let rotated = descriptor.value(layout::COMPARE_PATTERN).rotate_right(8 * (n % 8) as u32);
            ahead(rest, layout::SOURCE).with(layout::COMPARE_PATTERN, rotated)
        }
        Opcode::DUALCAST => ahead(both(rest), layout::DESTINATION_2),
        Opcode::CRCGEN | Opcode::COPY_CRC => {
            let seeded = if n == 0 { rest } else { rest.with(layout::CRC_SEED, record.crc()) };
            let moved = ahead(seeded, layout::SOURCE);
            if descriptor.opcode() == Opcode::COPY_CRC { ahead(moved, layout::DESTINATION) } else { moved }
        }
        Opcode::AP_DELTA => {
            let left = descriptor.value(layout::DELTA_SIZE) - n;
            ahead(*descriptor, layout::DELTA_APPLY).with(layout::DELTA_SIZE, left)
        }
        Opcode::CFLUSH => ahead(rest, layout::DESTINATION),
        _ => return None,
    })
}

pub fn wait_for(slot: &CompletionSlot) -> CompletionRecord {
    let until = std::time::Instant::now() + Duration::from_secs(300);
    loop {
        if let Some(record) = slot.record() {
            return record;
        }
        assert!(std::time::Instant::now() < until, "no record within minutes");
        std::thread::yield_now();
    }
}
