//! What the flags of a descriptor say (SPEC 8.1.3, table 8-3).

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not};

/// The flags of a descriptor: 24 bits at byte 4. Which of them an operation takes is in its [`Layout`](super::Layout).
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
#[repr(transparent)]
pub struct Flags(u32);

impl Flags {
    /// None.
    pub const NONE: Self = Self(0);

    /// Bit 0: in a batch, wait for the descriptors before this one, and give up from here on if one of them did not end with
    /// [`SUCCESS`](super::Status::SUCCESS). Reserved outside of a batch.
    pub const FENCE: Self = Self(1 << 0);
    /// Bit 1, block on fault: have an absent page served, and wait for it. Reserved unless the queue's `block_on_fault` is 1.
    pub const BOF: Self = Self(1 << 1);
    /// Bit 2: the address of the completion record is valid.
    pub const CRAV: Self = Self(1 << 2);
    /// Bit 3, request completion record: write it on success as well. Reserved without [`CRAV`](Self::CRAV).
    pub const RCR: Self = Self(1 << 3);
    /// Bit 4: request a completion interrupt. Reserved for descriptors of user space.
    pub const RCI: Self = Self(1 << 4);
    /// Bit 5. In version 3.0 cache control 3; before 2.0 the steering tag of the completion record, which no device made use of. The
    /// specification contradicts itself about it; leave it alone below version 3.0.
    pub const CC3: Self = Self(1 << 5);
    /// Bit 7, check result: a result other than the expected one ends with [`SUCCESS_PRED`](super::Status::SUCCESS_PRED).
    pub const CR: Self = Self(1 << 7);
    /// Bit 8, cache control 1: write to the cache.
    pub const CC: Self = Self(1 << 8);
    /// Bit 9: traffic class of the source, first source, descriptor list or first readback address (0: TC-A, 1: TC-B).
    pub const ADDR1_TCS: Self = Self(1 << 9);
    /// Bit 10: traffic class of the destination, first destination, second source or second readback address.
    pub const ADDR2_TCS: Self = Self(1 << 10);
    /// Bit 11: traffic class of the second destination, the delta record that is created, or the CRC seed's address.
    pub const ADDR3_TCS: Self = Self(1 << 11);
    /// Bit 12: traffic class of the completion record. Reserved without [`CRAV`](Self::CRAV).
    pub const CR_TCS: Self = Self(1 << 12);
    /// Bit 13: this descriptor's own writes are strictly ordered. Says nothing of other descriptors.
    pub const STORD: Self = Self(1 << 13);
    /// Bit 14: read the destination back (cache control 2).
    pub const DRDBK: Self = Self(1 << 14);
    /// Bit 15, in version 1.0 the steering tag of the destination. Removed since.
    pub const DSTS: Self = Self(1 << 15);

    /// Bit 16 of a batch: an earlier part of it had an error ([`GenCap::BATCH_CONTINUATION`](super::GenCap)).
    pub const BATCH_ERROR: Self = Self(1 << 16);
    /// Bit 16 of a drain: the first readback address is valid.
    pub const READBACK1_VALID: Self = Self(1 << 16);
    /// Bit 17 of a drain: the second readback address is valid.
    pub const READBACK2_VALID: Self = Self(1 << 17);
    /// Bit 18 of a drain: no implicit readback on TC-A.
    pub const SUPPRESS_TC_A: Self = Self(1 << 18);
    /// Bit 19 of a drain: no implicit readback on TC-B.
    pub const SUPPRESS_TC_B: Self = Self(1 << 19);
    /// Bit 18 of a fill: the pattern has 16 bytes.
    pub const FILL_16: Self = Self(1 << 18);
    /// Bit 16 of a translation fetch: the stride is valid.
    pub const STRIDE_VALID: Self = Self(1 << 16);
    /// Bit 16 of CRC operations: the seed is in memory, at the seed address.
    pub const READ_SEED: Self = Self(1 << 16);
    /// Bit 17 of CRC operations: seed and result are the raw register, neither inverted nor reflected.
    pub const BYPASS_CRC_INV_REF: Self = Self(1 << 17);
    /// Bit 18 of CRC operations: data bytes are not reflected.
    pub const BYPASS_DATA_REF: Self = Self(1 << 18);
    /// Bit 19 of CRC operations: a CRC of 64 bits.
    pub const CRC_64: Self = Self(1 << 19);

    /// Every bit that the field has room for.
    pub const MASK: Self = Self(0x00ff_ffff);

    /// From a number; bits from 24 up are dropped, there is no room for them.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits & Self::MASK.0)
    }

    /// As a number.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether all of `flags` are set.
    #[inline]
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Whether one of `flags` is set.
    #[must_use]
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Whether none is set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Those of both.
    #[inline]
    #[must_use]
    pub const fn union(self, flags: Self) -> Self {
        Self(self.0 | flags.0)
    }

    /// These without `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl BitOr for Flags {
    type Output = Self;
    fn bitor(self, flags: Self) -> Self {
        self.union(flags)
    }
}

impl BitOrAssign for Flags {
    fn bitor_assign(&mut self, flags: Self) {
        *self = self.union(flags);
    }
}

impl BitAnd for Flags {
    type Output = Self;
    fn bitand(self, flags: Self) -> Self {
        Self(self.0 & flags.0)
    }
}

impl Not for Flags {
    type Output = Self;
    fn not(self) -> Self {
        Self::MASK.without(self)
    }
}

/// Bits that mean the same in every operation, with `linux/idxd.h`'s names for them.
const NAMES: [(Flags, &str); 15] = [
    (Flags::FENCE, "FENCE"),
    (Flags::BOF, "BOF"),
    (Flags::CRAV, "CRAV"),
    (Flags::RCR, "RCR"),
    (Flags::RCI, "RCI"),
    (Flags::CC3, "CC3"),
    (Flags::CR, "CR"),
    (Flags::CC, "CC"),
    (Flags::ADDR1_TCS, "ADDR1_TCS"),
    (Flags::ADDR2_TCS, "ADDR2_TCS"),
    (Flags::ADDR3_TCS, "ADDR3_TCS"),
    (Flags::CR_TCS, "CR_TCS"),
    (Flags::STORD, "STORD"),
    (Flags::DRDBK, "DRDBK"),
    (Flags::DSTS, "DSTS"),
];

/// The names of the bits, `|` between them; bits without a name, and those whose meaning depends on the operation, as a number.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = NAMES.iter().filter(|(flag, _)| self.contains(*flag));
        let rest = NAMES.iter().fold(*self, |rest, (flag, _)| rest.without(*flag));
        let mut between = "";
        for (_, name) in named {
            write!(f, "{between}{name}")?;
            between = "|";
        }
        if rest.is_empty() && !self.is_empty() { Ok(()) } else { write!(f, "{between}{:#x}", rest.0) }
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_told_by_name() {
        for (flags, text) in [
            (Flags::NONE, "0x0"),
            (Flags::CRAV | Flags::RCR, "CRAV|RCR"),
            (Flags::FENCE | Flags::FILL_16, "FENCE|0x40000"),
            (Flags::from_bits(0xff00_0040), "0x40"),
        ] {
            assert_eq!(flags.to_string(), text);
        }
    }

    #[test]
    fn no_bit_leaves_its_field() {
        assert_eq!(Flags::from_bits(u32::MAX), Flags::MASK);
        assert_eq!((!Flags::NONE).bits(), 0x00ff_ffff);
        assert!(!Flags::CRAV.contains(Flags::CRAV | Flags::RCR) && Flags::CRAV.intersects(Flags::CRAV | Flags::RCR));
    }
}
