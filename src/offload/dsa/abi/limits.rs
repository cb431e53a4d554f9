//! Sizes, counts and alignments that every device has (SPEC 5.4, 8.1, 8.3). Those of a queue are in sysfs.

/// A descriptor, and one in a batch's list, in bytes. A list is aligned to it.
pub const DESCRIPTOR_BYTES: usize = 64;
/// A completion record, in bytes. Its address is aligned to it: a device never reports that it is not.
pub const RECORD_BYTES: usize = 32;
/// The slot that a record is given here, in bytes: a cache line, so that a wait for one record is not woken by its neighbour.
pub const SLOT_BYTES: usize = 64;
/// A portal, in bytes; its addresses are aligned to [`DESCRIPTOR_BYTES`], and all of them are one queue.
pub const PORTAL_BYTES: usize = 4_096;

/// The smallest batch, in descriptors, unless the device has [`GenCap::BATCH_1`](super::GenCap::BATCH_1).
pub const BATCH_MIN: u32 = 2;

/// Delta records: source, destination and transfer size are multiples of this, in bytes.
pub const DELTA_ALIGN: u64 = 8;
/// The largest transfer of delta operations, in bytes: what the 16 bits of an entry's offset can tell, in units of 8 bytes.
pub const DELTA_TRANSFER_MAX: u64 = 0x8_0000;
/// An entry of a delta record, in bytes: an offset (16 bits, little-endian, in units of 8 bytes), and 8 bytes of data.
pub const DELTA_ENTRY_BYTES: u32 = 10;
/// The smallest room for a delta record that can be created, in bytes.
pub const DELTA_RECORD_MIN: u32 = 80;
/// The smallest delta record that can be applied, in bytes: one entry.
pub const DELTA_APPLY_MIN: u32 = DELTA_ENTRY_BYTES;

/// The two destinations of a dualcast agree in these bits of their addresses.
pub const DUALCAST_MASK: u64 = 0xfff;

/// The stride of a translation fetch is at least this, in bytes, and a power of two.
pub const STRIDE_MIN: u32 = 4_096;

/// What the driver gives a queue unless it is configured otherwise, in bytes (Linux, `WQ_DEFAULT_MAX_XFER`).
pub const DEFAULT_MAX_TRANSFER: u64 = 2 << 20;
/// What the driver gives a queue unless it is configured otherwise, in descriptors (Linux, `WQ_DEFAULT_MAX_BATCH`).
pub const DEFAULT_MAX_BATCH: u32 = 32;
