//! What a device writes when it is done (SPEC 8.2): the 32 bytes, and the slot that they are written to.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::dif::{DifStatus, Tags};
use super::limits::{RECORD_BYTES, SLOT_BYTES};
use super::{Flags, Status};

/// A completion record: a copy of one, taken when its status was not zero any more.
///
/// Which fields mean something depends on operation and status; the others hold anything. The methods say when each does.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(C, align(32))]
pub struct CompletionRecord {
    /// The code in bits 5:0, and [`Status::WRITE_FAULT`]. Never zero once the device has written it.
    pub status_byte: u8,
    /// By operation: see the methods.
    pub result: u8,
    /// See [`fault_operand`](Self::fault_operand).
    pub fault_info: u8,
    /// Nothing.
    pub unused: u8,
    /// Bytes completed, or descriptors of a batch. Zero where an operation succeeded, but for comparisons (the offset of the first
    /// difference), CR_DELTA with result 2 (the offset that was reached) and batches (all). Little-endian in memory, as what follows.
    pub completed: u32,
    /// The address that faulted; its bits 11:0 may be zero.
    pub fault_address: u64,
    /// By operation: see the methods.
    pub specific: [u64; 2],
}

const _: () = {
    assert!(size_of::<CompletionRecord>() == RECORD_BYTES && align_of::<CompletionRecord>() == RECORD_BYTES);
    assert!(std::mem::offset_of!(CompletionRecord, status_byte) == 0);
    assert!(std::mem::offset_of!(CompletionRecord, result) == 1);
    assert!(std::mem::offset_of!(CompletionRecord, fault_info) == 2);
    assert!(std::mem::offset_of!(CompletionRecord, completed) == 4);
    assert!(std::mem::offset_of!(CompletionRecord, fault_address) == 8);
    assert!(std::mem::offset_of!(CompletionRecord, specific) == 16);
};

impl CompletionRecord {
    /// [`result`](Self::result) of a memory move that was done in part: from the front.
    pub const FORWARD: u8 = 0;
    /// [`result`](Self::result) of a memory move that was done in part: from the back. What remains starts where all of it did.
    pub const BACKWARD: u8 = 1;
    /// [`result`](Self::result) of comparisons and of CR_DELTA.
    pub const EQUAL: u8 = 0;
    /// [`result`](Self::result) of comparisons; of CR_DELTA: the record is complete.
    pub const DIFFERENT: u8 = 1;
    /// [`result`](Self::result) of CR_DELTA: the record is full, or nearly, and differences remain.
    pub const DELTA_OVERFLOW: u8 = 2;

    /// How the descriptor ended.
    #[inline]
    #[must_use]
    pub const fn status(&self) -> Status {
        Status::of(self.status_byte)
    }

    /// Whether the access that faulted was a write. `false` unless [`Status::is_fault`].
    #[must_use]
    pub const fn fault_was_write(&self) -> bool {
        self.status().is_fault() && self.status_byte & Status::WRITE_FAULT != 0
    }

    /// Which operand faulted: of devices with [`GenCap::FAULT_INFO`](super::GenCap::FAULT_INFO), where [`Status::is_fault`].
    #[must_use]
    pub const fn fault_operand(&self) -> FaultOperand {
        match self.fault_info >> 1 & 0b111 {
            1 => FaultOperand::First,
            2 => FaultOperand::Second,
            3 => FaultOperand::Destination,
            4 => FaultOperand::Destination2,
            5 => FaultOperand::CompletionRecord,
            6 => FaultOperand::List,
            _ => FaultOperand::Unknown,
        }
    }

    /// Whether the fault address is withheld: of devices with [`GenCap::FAULT_INFO`](super::GenCap::FAULT_INFO), where
    /// [`Status::is_fault`].
    #[must_use]
    pub const fn fault_address_masked(&self) -> bool {
        self.fault_info & 1 != 0
    }

    /// Flags that the device refused, where the status is [`Status::INVALID_FLAGS`]: some of them, not always all.
    #[must_use]
    pub const fn invalid_flags(&self) -> Flags {
        Flags::from_bits(self.specific[0] as u32)
    }

    /// The size of the delta record, in bytes: of CR_DELTA.
    #[must_use]
    pub const fn delta_record_size(&self) -> u32 {
        self.specific[0] as u32
    }

    /// The CRC, one of 32 bits in the lower half: of CRCGEN and COPY_CRC. Means nothing after a fault at the first byte.
    #[must_use]
    pub const fn crc(&self) -> u64 {
        self.specific[0]
    }

    /// What did not match: of DIF_CHECK, DIF_STRP and DIF_UPDT.
    #[must_use]
    pub const fn dif_status(&self) -> DifStatus {
        DifStatus(self.result)
    }

    /// Tags of the source's next block: of DIF_CHECK, DIF_STRP and DIF_UPDT.
    #[must_use]
    pub const fn dif_source_tags(&self) -> Tags {
        tags(self.specific[0])
    }

    /// Tags of the destination's next block: of DIF_INS, DIF_UPDT and DIX_GEN.
    #[must_use]
    pub const fn dif_destination_tags(&self) -> Tags {
        tags(self.specific[1])
    }

    /// The bytes, in the order of their addresses.
    #[must_use]
    pub fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..4].copy_from_slice(&[self.status_byte, self.result, self.fault_info, self.unused]);
        bytes[4..8].copy_from_slice(&self.completed.to_le_bytes());
        for (n, word) in [self.fault_address, self.specific[0], self.specific[1]].into_iter().enumerate() {
            bytes[8 * n + 8..8 * n + 16].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// From bytes, in the order of their addresses.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let word = |at: usize| bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        Self {
            status_byte: bytes[0],
            result: bytes[1],
            fault_info: bytes[2],
            unused: bytes[3],
            completed: (word(0) >> 32) as u32,
            fault_address: word(8),
            specific: [word(16), word(24)],
        }
    }

    /// The place in [`specific`](Self::specific) of tags of the next block: for those who write records.
    #[must_use]
    pub const fn tags_word(tags: Tags) -> u64 {
        tags.reference as u64 | (tags.application_mask as u64) << 32 | (tags.application as u64) << 48
    }
}

const fn tags(word: u64) -> Tags {
    Tags { reference: word as u32, application_mask: (word >> 32) as u16, application: (word >> 48) as u16 }
}

/// Status, count, fault address and the rest as they are; what they mean depends on an operation that the record does not name.
impl fmt::Debug for CompletionRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("CompletionRecord");
        debug.field("status", &self.status()).field("result", &self.result).field("completed", &self.completed);
        if self.status().is_fault() {
            let access = if self.fault_was_write() { "write" } else { "read" };
            debug.field("fault", &format_args!("{access} {:#x}", self.fault_address));
        }
        debug.field("specific", &format_args!("{:#x?}", self.specific)).finish()
    }
}

/// Which address of a descriptor faulted (bits 3:1 of byte 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FaultOperand {
    /// Not told.
    Unknown = 0,
    /// Source, first source, descriptor list, the delta record that is applied, first readback address, or the fetched address.
    First = 1,
    /// Second source, CRC seed, second readback address.
    Second = 2,
    /// Destination, first destination, the delta record that is created.
    Destination = 3,
    /// Second destination.
    Destination2 = 4,
    /// The completion record.
    CompletionRecord = 5,
    /// A scatter-gather list (version 3.0).
    List = 6,
}

/// The memory that a device writes a record to: 32 bytes of record in a line of 64.
///
/// The device is another party that writes when it likes. So fields are atomics, and are read in one order: the status byte first, with
/// Acquire, and the rest when it is not zero. Those who write records ([`publish`](Self::publish)) write the rest first and the status last; a
/// device writes it as a unit.
#[repr(C, align(64))]
pub struct CompletionSlot {
    status: AtomicU8,
    result: AtomicU8,
    fault_info: AtomicU8,
    unused: AtomicU8,
    completed: AtomicU32,
    fault_address: AtomicU64,
    specific: [AtomicU64; 2],
    /// Nobody writes here.
    rest_of_line: [u64; 4],
}

const _: () = {
    assert!(size_of::<CompletionSlot>() == SLOT_BYTES && align_of::<CompletionSlot>() == SLOT_BYTES);
    assert!(std::mem::offset_of!(CompletionSlot, status) == 0);
    assert!(std::mem::offset_of!(CompletionSlot, result) == 1);
    assert!(std::mem::offset_of!(CompletionSlot, fault_info) == 2);
    assert!(std::mem::offset_of!(CompletionSlot, completed) == 4);
    assert!(std::mem::offset_of!(CompletionSlot, fault_address) == 8);
    assert!(std::mem::offset_of!(CompletionSlot, specific) == 16);
};

impl CompletionSlot {
    /// An empty one: status zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            status: AtomicU8::new(0),
            result: AtomicU8::new(0),
            fault_info: AtomicU8::new(0),
            unused: AtomicU8::new(0),
            completed: AtomicU32::new(0),
            fault_address: AtomicU64::new(0),
            specific: [const { AtomicU64::new(0) }; 2],
            rest_of_line: [0; 4],
        }
    }

    /// What a descriptor's [`report_to`](super::Descriptor::report_to) takes.
    #[inline]
    #[must_use]
    pub fn address(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// The status byte as it is now; zero while the device has not answered. What the device wrote before it is seen after this.
    #[inline]
    #[must_use]
    pub fn status_byte(&self) -> u8 {
        // Acquire: partner of the device's write, which comes after its data; in the model, of the Release in `publish`.
        self.status.load(Ordering::Acquire)
    }

    /// The record, once the device has answered.
    #[inline]
    #[must_use]
    pub fn record(&self) -> Option<CompletionRecord> {
        let status_byte = self.status_byte();
        // Relaxed: ordered behind the Acquire load of the status, and written by nobody after it was.
        (status_byte != 0).then(|| CompletionRecord {
            status_byte,
            result: self.result.load(Ordering::Relaxed),
            fault_info: self.fault_info.load(Ordering::Relaxed),
            unused: self.unused.load(Ordering::Relaxed),
            completed: u32::from_le(self.completed.load(Ordering::Relaxed)),
            fault_address: u64::from_le(self.fault_address.load(Ordering::Relaxed)),
            specific: [0, 1].map(|n: usize| u64::from_le(self.specific[n].load(Ordering::Relaxed))),
        })
    }

    /// Zeroes the status, for the next descriptor; no other one may have this slot. The caller's store fence comes between this and the
    /// submission.
    #[inline]
    pub fn clear(&self) {
        // Relaxed: the submission's fence orders it before the device may write.
        self.status.store(0, Ordering::Relaxed);
    }

    /// Zeroes the whole record: for operations of which the device leaves the result alone, and a stale one must not be seen.
    pub fn clear_all(&self) {
        // Relaxed: as in `clear`.
        self.result.store(0, Ordering::Relaxed);
        self.fault_info.store(0, Ordering::Relaxed);
        self.unused.store(0, Ordering::Relaxed);
        self.completed.store(0, Ordering::Relaxed);
        self.fault_address.store(0, Ordering::Relaxed);
        self.specific[0].store(0, Ordering::Relaxed);
        self.specific[1].store(0, Ordering::Relaxed);
        self.clear();
    }

    /// Writes a record as a device would: for models. Everything but the status first, the status last.
    pub fn publish(&self, record: &CompletionRecord) {
        // Relaxed: the Release store below publishes them.
        self.result.store(record.result, Ordering::Relaxed);
        self.fault_info.store(record.fault_info, Ordering::Relaxed);
        self.unused.store(record.unused, Ordering::Relaxed);
        self.completed.store(record.completed.to_le(), Ordering::Relaxed);
        self.fault_address.store(record.fault_address.to_le(), Ordering::Relaxed);
        self.specific[0].store(record.specific[0].to_le(), Ordering::Relaxed);
        self.specific[1].store(record.specific[1].to_le(), Ordering::Relaxed);
        // Release: publishes the record, and the data before it. Partner: the Acquire in `status_byte`.
        self.status.store(record.status_byte, Ordering::Release);
    }
}

impl Default for CompletionSlot {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CompletionSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CompletionSlot").field(&self.record()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record whose bytes are their own offsets, the status apart.
    fn counted(status: u8) -> [u8; 32] {
        let mut bytes: [u8; 32] = std::array::from_fn(|n| n as u8);
        bytes[0] = status;
        bytes
    }

    #[test]
    fn fields_are_where_the_tables_have_them() {
        let record = CompletionRecord::from_bytes(&counted(0x83));
        assert_eq!(record.status(), Status::PAGE_FAULT_NOBOF);
        assert!(record.fault_was_write());
        assert_eq!((record.result, record.fault_info), (1, 2));
        assert_eq!(record.completed, 0x0706_0504);
        assert_eq!(record.fault_address, 0x0f0e_0d0c_0b0a_0908);
        assert_eq!(record.crc(), 0x1716_1514_1312_1110);
        assert_eq!(record.delta_record_size(), 0x1312_1110);
        assert_eq!(record.invalid_flags(), Flags::from_bits(0x0012_1110));
        let source = Tags { reference: 0x1312_1110, application_mask: 0x1514, application: 0x1716 };
        let destination = Tags { reference: 0x1b1a_1918, application_mask: 0x1d1c, application: 0x1f1e };
        assert_eq!((record.dif_source_tags(), record.dif_destination_tags()), (source, destination));
        assert_eq!(CompletionRecord::tags_word(source), record.specific[0]);
        assert_eq!(record.to_bytes(), counted(0x83));
    }

    #[test]
    fn the_write_bit_counts_after_faults_only() {
        for (byte, write) in [(0x03, false), (0x83, true), (0x81, false), (0x93, false), (0x9f, true), (0xc4, true)] {
            let record = CompletionRecord { status_byte: byte, ..CompletionRecord::default() };
            assert_eq!(record.fault_was_write(), write, "{byte:#x}");
        }
    }

    #[test]
    fn the_operand_is_told() {
        for (info, operand, masked) in [
            (0x00, FaultOperand::Unknown, false),
            (0x02, FaultOperand::First, false),
            (0x05, FaultOperand::Second, true),
            (0x06, FaultOperand::Destination, false),
            (0x08, FaultOperand::Destination2, false),
            (0x0a, FaultOperand::CompletionRecord, false),
            (0xfc, FaultOperand::List, false),
            (0x0e, FaultOperand::Unknown, false),
        ] {
            let record = CompletionRecord { fault_info: info, ..CompletionRecord::default() };
            assert_eq!((record.fault_operand(), record.fault_address_masked()), (operand, masked), "{info:#x}");
        }
    }

    #[test]
    fn a_slot_gives_back_what_was_published() {
        let slot = CompletionSlot::new();
        assert_eq!(slot.record(), None);
        let record = CompletionRecord::from_bytes(&counted(0x01));
        slot.publish(&record);
        assert_eq!(slot.record(), Some(record));
        slot.clear();
        assert_eq!(slot.record(), None);
        slot.clear_all();
        slot.publish(&CompletionRecord { status_byte: 1, ..CompletionRecord::default() });
        assert_eq!(slot.record().unwrap().to_bytes()[1..], [0; 31]);
        assert_eq!(slot.address() % 64, 0);
    }
}
