//! What a device can do: its version, general and operation capabilities (SPEC 9.2).

use std::fmt;

use super::Opcode;

/// The version of the specification that a device implements, as in sysfs's `version`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Version(pub u32);

impl Version {
    /// Sapphire Rapids, Emerald Rapids.
    pub const V1_0: Self = Self(0x100);
    /// Granite Rapids-D; which others say so is not known to us.
    pub const V2_0: Self = Self(0x200);
    /// Diamond Rapids.
    pub const V3_0: Self = Self(0x300);
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 >> 8, self.0 & 0xff)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// General capabilities (SPEC 9.2.2), as in sysfs's `gen_cap`. The constants are its single bits.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(transparent)]
pub struct GenCap(pub u64);

impl GenCap {
    /// Bit 0: descriptors may block on a fault, where the queue lets them.
    pub const BLOCK_ON_FAULT: Self = Self(1 << 0);
    /// Bit 1: a memory move may overlap itself.
    pub const OVERLAPPING_COPY: Self = Self(1 << 1);
    /// Bit 2: writes can go to the cache.
    pub const CACHE_CONTROL: Self = Self(1 << 2);
    /// Bit 4: there is a register of command capabilities.
    pub const COMMAND_CAP: Self = Self(1 << 4);
    /// Bit 5: durable writes without readback.
    pub const DURABLE_WRITE: Self = Self(1 << 5);
    /// Bit 6: operations between address spaces.
    pub const INTER_DOMAIN: Self = Self(1 << 6);
    /// Bit 7: translation fetch takes a stride.
    pub const FETCH_STRIDE: Self = Self(1 << 7);
    /// Bit 8: the destination can be read back.
    pub const DEST_READBACK: Self = Self(1 << 8);
    /// Bit 9: drain takes readback addresses.
    pub const DRAIN_READBACK: Self = Self(1 << 9);
    /// Bit 10: patterns of 16 bytes.
    pub const FILL_16: Self = Self(1 << 10);
    /// Bit 11: CRCs of 64 bits.
    pub const CRC_64: Self = Self(1 << 11);
    /// Bit 12: completion records say which operand faulted.
    pub const FAULT_INFO: Self = Self(1 << 12);
    /// Bit 15: a batch can be continued with what the part before it came to.
    pub const BATCH_CONTINUATION: Self = Self(1 << 15);
    /// Bit 31: queues, groups and engines can be configured.
    pub const CONFIGURABLE: Self = Self(1 << 31);
    /// Bit 32: the event log may overflow.
    pub const EVENT_LOG_OVERFLOW: Self = Self(1 << 32);
    /// Bit 52: a batch of one descriptor is legal.
    pub const BATCH_1: Self = Self(1 << 52);
    /// Bit 53: [`Flags::STORD`](super::Flags::STORD) is reserved for destinations in memory.
    pub const NO_STORD_MEMORY: Self = Self(1 << 53);
    /// Bit 54: [`Flags::STORD`](super::Flags::STORD) is reserved for destinations in other devices.
    pub const NO_STORD_PEER: Self = Self(1 << 54);

    /// Whether all of `bits` are there.
    #[must_use]
    pub const fn contains(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// Those of both.
    #[must_use]
    pub const fn union(self, bits: Self) -> Self {
        Self(self.0 | bits.0)
    }

    /// Bits 14:13: the device's event log.
    #[must_use]
    pub const fn event_log(self) -> EventLog {
        match self.0 >> 13 & 0b11 {
            0 => EventLog::None,
            1 => EventLog::Entries64,
            2 => EventLog::Entries128,
            _ => EventLog::Entries256,
        }
    }

    /// Bits 20:16: the largest transfer of the device, in bytes. A queue may have a smaller one.
    #[must_use]
    pub const fn max_transfer_size(self) -> u64 {
        1 << (self.0 >> 16 & 0x1f)
    }

    /// Bits 24:21: the largest batch of the device, in descriptors; without meaning if it has no batches. A queue may have a smaller one.
    #[must_use]
    pub const fn max_batch_size(self) -> u32 {
        1 << (self.0 >> 21 & 0xf)
    }

    /// Bits 30:25: entries of the interrupt message storage.
    #[must_use]
    pub const fn ims_entries(self) -> u32 {
        (self.0 >> 25 & 0x3f) as u32 * 256
    }

    /// With another largest transfer, rounded up to a power of two. For models: devices have theirs.
    #[must_use]
    pub const fn with_max_transfer_size(self, bytes: u64) -> Self {
        let log2 = if bytes > 1 << 31 { 31 } else { bytes.next_power_of_two().trailing_zeros() as u64 };
        Self(self.0 & !(0x1f << 16) | log2 << 16)
    }

    /// With another largest batch, rounded up to a power of two. For models: devices have theirs.
    #[must_use]
    pub const fn with_max_batch_size(self, descriptors: u32) -> Self {
        let log2 = if descriptors > 1 << 15 { 15 } else { descriptors.next_power_of_two().trailing_zeros() as u64 };
        Self(self.0 & !(0xf << 21) | log2 << 21)
    }
}

impl fmt::Debug for GenCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Whether a device logs events, and how long an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventLog {
    /// It does not.
    None,
    /// 64 bytes.
    Entries64,
    /// 128 bytes.
    Entries128,
    /// 256 bytes.
    Entries256,
}

/// A bit an opcode: a device's operation capabilities (SPEC 9.2) as in sysfs's `op_cap`, or a queue's `op_config`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(transparent)]
pub struct OpCap(
    /// The least significant word first: bit n of word w is opcode 64 w + n.
    pub [u64; 4],
);

impl OpCap {
    /// No operation.
    pub const NONE: Self = Self([0; 4]);

    /// These operations.
    #[must_use]
    pub const fn of(opcodes: &[Opcode]) -> Self {
        let mut set = Self::NONE;
        let mut n = 0;
        while n < opcodes.len() {
            set = set.with(opcodes[n]);
            n += 1;
        }
        set
    }

    /// Whether the operation is among them.
    #[must_use]
    pub const fn contains(&self, opcode: Opcode) -> bool {
        self.0[opcode.0 as usize / 64] >> (opcode.0 % 64) & 1 == 1
    }

    /// Whether all of those are among these.
    #[must_use]
    pub const fn contains_all(&self, those: &Self) -> bool {
        let (a, b) = (&self.0, &those.0);
        a[0] & b[0] == b[0] && a[1] & b[1] == b[1] && a[2] & b[2] == b[2] && a[3] & b[3] == b[3]
    }

    /// With another operation.
    #[must_use]
    pub const fn with(mut self, opcode: Opcode) -> Self {
        self.0[opcode.0 as usize / 64] |= 1 << (opcode.0 % 64);
        self
    }

    /// Without an operation.
    #[must_use]
    pub const fn without(mut self, opcode: Opcode) -> Self {
        self.0[opcode.0 as usize / 64] &= !(1 << (opcode.0 % 64));
        self
    }

    /// Those in both.
    #[must_use]
    pub const fn intersection(&self, those: &Self) -> Self {
        let (a, b) = (&self.0, &those.0);
        Self([a[0] & b[0], a[1] & b[1], a[2] & b[2], a[3] & b[3]])
    }

    /// The operations, by number.
    pub fn iter(&self) -> impl Iterator<Item = Opcode> + use<> {
        let set = *self;
        (0..=u8::MAX).map(Opcode).filter(move |opcode| set.contains(*opcode))
    }
}

/// As the kernel prints it: eight words of 32 bits in hexadecimal, the most significant first, commas between them.
impl fmt::Display for OpCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, word) in self.0.iter().rev().enumerate() {
            let between = if n == 0 { "" } else { "," };
            write!(f, "{between}{:08x},{:08x}", word >> 32, word & 0xffff_ffff)?;
        }
        Ok(())
    }
}

impl fmt::Debug for OpCap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a 4th-generation Xeon says of itself (github.com/intel/idxd-config, issue 40).
    const SAPPHIRE_RAPIDS: GenCap = GenCap(0x40_915f_0107);

    #[test]
    fn a_real_devices_capabilities_are_read() {
        let cap = SAPPHIRE_RAPIDS;
        let there = GenCap::BLOCK_ON_FAULT
            .union(GenCap::OVERLAPPING_COPY)
            .union(GenCap::CACHE_CONTROL)
            .union(GenCap::DEST_READBACK)
            .union(GenCap::CONFIGURABLE);
        assert!(cap.contains(there));
        for absent in [
            GenCap::DURABLE_WRITE,
            GenCap::DRAIN_READBACK,
            GenCap::FILL_16,
            GenCap::CRC_64,
            GenCap::FAULT_INFO,
            GenCap::BATCH_CONTINUATION,
            GenCap::BATCH_1,
        ] {
            assert!(!cap.contains(absent), "{absent:?}");
        }
        assert_eq!(cap.event_log(), EventLog::None);
        assert_eq!((cap.max_transfer_size(), cap.max_batch_size(), cap.ims_entries()), (1 << 31, 1024, 2048));
    }

    #[test]
    fn limits_are_put_where_they_are_read() {
        for (bytes, stored) in [(0, 1), (1, 1), (3, 4), (2 << 20, 2 << 20), (u64::MAX, 1 << 31)] {
            assert_eq!(SAPPHIRE_RAPIDS.with_max_transfer_size(bytes).max_transfer_size(), stored);
        }
        for (descriptors, stored) in [(0, 1), (32, 32), (33, 64), (u32::MAX, 1 << 15)] {
            assert_eq!(SAPPHIRE_RAPIDS.with_max_batch_size(descriptors).max_batch_size(), stored);
        }
        let same = SAPPHIRE_RAPIDS.with_max_transfer_size(1 << 31).with_max_batch_size(1024);
        assert_eq!(same, SAPPHIRE_RAPIDS);
    }

    #[test]
    fn operations_are_bits_by_opcode() {
        let set = OpCap::of(&[Opcode::NOOP, Opcode::MEMMOVE, Opcode::CFLUSH, Opcode(0xff)]);
        assert_eq!(set.0, [0x1_0000_0009, 0, 0, 1 << 63]);
        assert_eq!(set.to_string(), "80000000,00000000,00000000,00000000,00000000,00000000,00000001,00000009");
        assert!(set.contains(Opcode::CFLUSH) && !set.contains(Opcode::BATCH));
        assert_eq!(set.iter().count(), 4);
        assert!(set.contains_all(&OpCap::of(&[Opcode::CFLUSH])) && !set.contains_all(&set.with(Opcode::DRAIN)));
        assert_eq!(set.without(Opcode(0xff)).0[3], 0);
    }
}
