//! The memory of a page that the device reads and writes: records, descriptors, and the lists of batches.
//!
//! Mapped once, and unmapped only when nothing can be outstanding in it ([`Page`](super::page::Page) sees to that: a page that is left with an operation
//! outstanding stays for the life of the process). A record whose page is absent or gone is a hang, since the device has nowhere to say so (SPEC
//! 3.13.3), so the records are written to before they are used, and locked where the process may. Locking does not keep the kernel from migrating the page;
//! the device then asks for it anew, which user queues may.
//!
//! Children of a fork do not get the mapping (`MADV_DONTFORK`): the device would go on writing to the parent's page, and copy-on-write would
//! have moved one of the two elsewhere.

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::offload::dsa::abi::{CompletionSlot, Descriptor};

/// Children of one batch at most: a list is 1 KiB. Beyond 16 descriptors a batch gains little (its fetch is paid for) and finishes late.
pub(crate) const LIST_LEN: usize = 16;
/// Records a page of memory: one a line, so that a monitored record is not woken by its neighbour's, and all of them under one translation of
/// the device.
pub(crate) const RECORDS: usize = 64;

const RECORD_BYTES: usize = RECORDS * size_of::<CompletionSlot>();
const DESCRIPTOR_BYTES: usize = RECORDS * size_of::<Descriptor>();
const LIST_BYTES: usize = LIST_LEN * size_of::<Descriptor>();
const ALL_BYTES: usize = RECORD_BYTES + DESCRIPTOR_BYTES + RECORDS * LIST_BYTES;

const _: () = assert!(RECORD_BYTES == 4096, "the records are one page, for the device's translations and for mlock");

/// Where a slot is in the arrays of its page, all of which have a line a slot: the offset of that line, in bytes. A way to name a slot that needs no
/// shift at each use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line(u32);

/// Bytes of a line.
const LINE: u32 = 64;
const _: () = assert!(size_of::<CompletionSlot>() == LINE as usize && size_of::<Descriptor>() == LINE as usize);

impl Line {
    /// The bits of a word that a line takes; it is 0 in all others.
    pub(crate) const BITS: u32 = (RECORDS as u32 - 1) * LINE;

    /// Of a slot's number, which is below [`RECORDS`].
    #[inline(always)]
    pub(crate) const fn of(slot: u32) -> Self {
        debug_assert!(slot < RECORDS as u32);
        Self(slot * LINE)
    }
    /// Of a word that has it among other things.
    #[inline(always)]
    pub(crate) const fn of_bits(word: u32) -> Self {
        Self(word & Self::BITS)
    }
    #[inline(always)]
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }
    #[inline(always)]
    pub(crate) const fn slot(self) -> u32 {
        self.0 / LINE
    }
    /// The one after it; after the last there is none.
    #[inline(always)]
    pub(crate) const fn next(self) -> Self {
        debug_assert!(self.slot() + 1 < RECORDS as u32);
        Self(self.0 + LINE)
    }
    #[inline(always)]
    pub(crate) const fn offset(self) -> usize {
        self.0 as usize
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Memory(NonNull<u8>);

// SAFETY: plain memory behind an address; who may touch which part when is said by the slots' states.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps it, keeps it from children, touches records and descriptors, and locks the records if the process may lock memory.
    pub(crate) fn map() -> io::Result<Self> {
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at an address that the kernel chooses.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), ALL_BYTES, prot, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let memory = Self(NonNull::new(at.cast()).expect("a mapping of the kernel's choice is not at 0"));
        // SAFETY: our own mapping.
        if unsafe { libc::madvise(at, ALL_BYTES, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error()); // and unmapped, as `memory` is dropped
        }
        // Refused without the right to lock (RLIMIT_MEMLOCK): then the page is merely warm.
        // SAFETY: our own mapping.
        let _ = unsafe { libc::mlock(at, RECORD_BYTES) };
        // SAFETY: our own mapping, which nobody else knows. Writes, so that the pages are there and ours.
        unsafe { memory.0.as_ptr().write_bytes(0, RECORD_BYTES + DESCRIPTOR_BYTES) };
        Ok(memory)
    }

    /// The record of a slot.
    #[inline]
    pub(crate) fn record(&self, slot: u32) -> &CompletionSlot {
        debug_assert!((slot as usize) < RECORDS);
        // SAFETY: within the mapping, which lives as long as `self`; aligned, since the mapping is to 4096; zeros or what a device wrote, of which
        // every bit pattern is an atomic's.
        unsafe { self.0.cast::<CompletionSlot>().add(slot as usize).as_ref() }
    }

    /// As [`record`](Self::record).
    #[inline(always)]
    pub(crate) fn record_at(&self, line: Line) -> &CompletionSlot {
        self.records().at(line)
    }

    /// All of them, for whoever goes through several.
    #[inline(always)]
    pub(crate) fn records(&self) -> Records<'_> {
        Records(self.0, PhantomData)
    }

    /// Zeroes the record of a slot whose holder the caller is, all of its 32 bytes, in four stores. The reaper may be looking at the status of the life
    /// before.
    #[inline]
    pub(crate) fn clear_record(&self, slot: u32) {
        Self::clear(self.record(slot));
    }

    /// As [`clear_record`](Self::clear_record), of a record that was found before.
    #[inline(always)]
    pub(crate) fn clear(record: &CompletionSlot) {
        let words = std::ptr::from_ref(record).cast::<[AtomicU64; 4]>();
        // SAFETY: the record is 32 bytes of atomics, aligned to 64, of which every bit pattern is valid; they live as long as `self`. Others access them
        // atomically, in parts; x86, Arm and RISC-V order such accesses as those of the parts.
        for word in unsafe { &*words } {
            // Relaxed: published with the state, and by the submission's fence.
            word.store(0, Ordering::Relaxed);
        }
    }

    /// As [`clear`](Self::clear), of as much of it as matters to a plain copy or a batch, in one store: the status, and what is beside it. The device writes the rest whenever
    /// it is read, with a fault, and the result of neither means anything.
    #[inline(always)]
    pub(crate) fn clear_status(record: &CompletionSlot) {
        let words = std::ptr::from_ref(record).cast::<AtomicU64>();
        // SAFETY: as in `clear`; the first of its words.
        // Relaxed: as there.
        unsafe { &*words }.store(0, Ordering::Relaxed);
    }

    /// The descriptor of a slot. Whoever dereferences it is the slot's holder, or has its bit from the backlog.
    #[inline]
    pub(crate) fn descriptor(&self, slot: u32) -> *mut Descriptor {
        debug_assert!((slot as usize) < RECORDS);
        // SAFETY: within the mapping.
        unsafe { self.0.add(RECORD_BYTES).cast::<Descriptor>().add(slot as usize).as_ptr() }
    }

    /// The list of a slot that is a batch: [`LIST_LEN`] descriptors. Whoever dereferences it is closing that batch. To write it, see
    /// [`Page::list_anew`](super::page::Page::list_anew).
    #[inline]
    pub(crate) fn list(&self, slot: u32) -> *mut Descriptor {
        debug_assert!((slot as usize) < RECORDS);
        // SAFETY: within the mapping.
        unsafe {
            let lists = self.0.add(RECORD_BYTES + DESCRIPTOR_BYTES);
            lists.add(slot as usize * LIST_BYTES).cast::<Descriptor>().as_ptr()
        }
    }
}

/// The records of a page, by address: which a compiler need not load again after each store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Records<'a>(NonNull<u8>, PhantomData<&'a Memory>);

impl<'a> Records<'a> {
    #[inline(always)]
    pub(crate) fn at(self, line: Line) -> &'a CompletionSlot {
        // SAFETY: as in `Memory::record`, of the memory that this is borrowed from; a line's offset is within the records, which are lines.
        unsafe { self.0.add(line.offset()).cast::<CompletionSlot>().as_ref() }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: our own mapping; whoever drops the page has seen that nothing is outstanding in it. In the child of a fork there is no such
        // mapping, and the call may say so.
        unsafe { libc::munmap(self.0.as_ptr().cast(), ALL_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_where_a_device_wants_it() {
        let memory = Memory::map().unwrap();
        let base = memory.record(0).address();
        assert_eq!(base % 4096, 0);
        for slot in [0, 1, 63] {
            assert_eq!(memory.record(slot).address(), base + u64::from(slot) * 64);
            assert_eq!(memory.record(slot).status_byte(), 0);
            assert_eq!((memory.descriptor(slot).addr() % 64, memory.list(slot).addr() % 64), (0, 0));
        }
        let end = memory.list(63).wrapping_add(LIST_LEN).addr() as u64;
        assert_eq!(end, base + ALL_BYTES as u64);
    }
}
