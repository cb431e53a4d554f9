//! Protection information of blocks (T10 DIF): what the flag bytes and tags say (SPEC 8.3.17, appendix B).
//!
//! A protected block is followed by a tuple of 8 bytes: guard (a CRC of 16 bits, polynomial 0x18bb7), application tag (16 bits) and
//! reference tag (32 bits), each big-endian. Tags in descriptors and records are little-endian, as all their fields are.

use std::fmt;
use std::ops::BitOr;

/// The tuple, in bytes.
pub const TUPLE_BYTES: u32 = 8;

/// Declares a byte of flags with its bits.
macro_rules! flag_byte {
    ($(#[$doc:meta])* $name:ident { $($(#[$bit_doc:meta])* $bit:ident = $value:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
        #[repr(transparent)]
        pub struct $name(pub u8);

        impl $name {
            $($(#[$bit_doc])* pub const $bit: Self = Self($value);)*

            /// Whether all of `bits` are set.
            #[must_use]
            pub const fn contains(self, bits: Self) -> bool {
                self.0 & bits.0 == bits.0
            }
        }

        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, bits: Self) -> Self {
                Self(self.0 | bits.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(stringify!($name))?;
                f.write_str("(")?;
                let mut between = "";
                $(if Self::$bit.0 != 0 && self.contains(Self::$bit) {
                    f.write_str(between)?;
                    f.write_str(stringify!($bit))?;
                    between = "|";
                })*
                let rest = self.0 & !(0 $(| Self::$bit.0)*);
                if rest != 0 {
                    write!(f, "{between}{rest:#x}")?;
                }
                f.write_str(")")
            }
        }
    };
}

flag_byte! {
    /// How the source's protection information is checked: byte 40.
    SourceFlags {
        /// Bit 7: the reference tag is the same for every block, instead of one more each.
        FIXED_REFERENCE = 0x80;
        /// Bit 6: the reference tag is not checked.
        NO_REFERENCE_CHECK = 0x40;
        /// Bit 5: the guard is not checked.
        NO_GUARD_CHECK = 0x20;
        /// Bit 4: the application tag is one more for every block, instead of the same.
        INCREMENTING_APPLICATION = 0x10;
        /// Bit 3: a block whose application and reference tags are all ones is not checked.
        APPLICATION_AND_REFERENCE_F = 0x08;
        /// Bit 2: a block whose application tag is all ones is not checked.
        APPLICATION_F = 0x04;
        /// Bit 1: a block whose application and reference tags and guard are all ones is not checked.
        ALL_F = 0x02;
        /// Bit 0: a block that is all ones is an error.
        ALL_F_ERROR = 0x01;
    }
}

flag_byte! {
    /// How the destination's protection information is made: byte 41.
    DestinationFlags {
        /// Bit 7: the reference tag is the same for every block, instead of one more each.
        FIXED_REFERENCE = 0x80;
        /// Bit 6: the reference tag is the source's. Of DIF_UPDT only.
        PASS_REFERENCE = 0x40;
        /// Bit 5: the guard is the source's. Of DIF_UPDT only.
        PASS_GUARD = 0x20;
        /// Bit 4: the application tag is one more for every block, instead of the same.
        INCREMENTING_APPLICATION = 0x10;
        /// Bit 3: the application tag is the source's. Of DIF_UPDT only.
        PASS_APPLICATION = 0x08;
    }
}

flag_byte! {
    /// The blocks and their guard: byte 42. Bits 1:0 are the block size.
    DifFlags {
        /// Bit 2: the CRC's seed is all ones instead of zero.
        INVERT_CRC_SEED = 0x04;
        /// Bit 3: the CRC is inverted at the end.
        INVERT_CRC_RESULT = 0x08;
    }
}

impl DestinationFlags {
    /// The bits that are reserved.
    pub const RESERVED: u8 = 0x07;
}

impl DifFlags {
    /// The bits that are reserved.
    pub const RESERVED: u8 = 0xf0;

    /// Of blocks of this size.
    #[must_use]
    pub const fn of(block: BlockSize) -> Self {
        Self(block as u8)
    }

    /// The size of a block.
    #[must_use]
    pub const fn block(self) -> BlockSize {
        match self.0 & 0b11 {
            0 => BlockSize::B512,
            1 => BlockSize::B520,
            2 => BlockSize::B4096,
            _ => BlockSize::B4104,
        }
    }
}

/// The size of a block without its tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockSize {
    /// 512 bytes.
    B512 = 0,
    /// 520 bytes.
    B520 = 1,
    /// 4096 bytes.
    B4096 = 2,
    /// 4104 bytes.
    B4104 = 3,
}

impl BlockSize {
    /// Every size.
    pub const ALL: [Self; 4] = [Self::B512, Self::B520, Self::B4096, Self::B4104];

    /// In bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::B512 => 512,
            Self::B520 => 520,
            Self::B4096 => 4_096,
            Self::B4104 => 4_104,
        }
    }

    /// With its tuple, in bytes.
    #[must_use]
    pub const fn protected_bytes(self) -> u32 {
        self.bytes() + TUPLE_BYTES
    }
}

/// The tags of the first block, or of the next one where a record says how far an operation came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Tags {
    /// The reference tag.
    pub reference: u32,
    /// A bit that is set ignores that bit of the application tag; all of them: it is not checked.
    pub application_mask: u16,
    /// The application tag.
    pub application: u16,
}

flag_byte! {
    /// What did not match: byte 1 of the record of an operation that ended with [`Status::DIF_ERR`](super::Status::DIF_ERR).
    DifStatus {
        /// Bit 0: the guard.
        GUARD = 0x01;
        /// Bit 1: the application tag.
        APPLICATION = 0x02;
        /// Bit 2: the reference tag.
        REFERENCE = 0x04;
        /// Bit 3: a block is all ones, and [`SourceFlags::ALL_F_ERROR`] was set.
        ALL_F = 0x08;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_the_low_two_bits() {
        for (block, bits, bytes) in [
            (BlockSize::B512, 0, 512),
            (BlockSize::B520, 1, 520),
            (BlockSize::B4096, 2, 4_096),
            (BlockSize::B4104, 3, 4_104),
        ] {
            let flags = DifFlags::of(block) | DifFlags::INVERT_CRC_RESULT;
            assert_eq!((flags.0, flags.block(), block.bytes()), (bits | 8, block, bytes));
            assert_eq!(block.protected_bytes(), bytes + 8);
        }
    }

    #[test]
    fn bytes_of_flags_are_told_by_name() {
        let flags = SourceFlags::FIXED_REFERENCE | SourceFlags::ALL_F;
        assert_eq!(format!("{flags:?}"), "SourceFlags(FIXED_REFERENCE|ALL_F)");
        assert_eq!(format!("{:?}", DifStatus(0x41)), "DifStatus(GUARD|0x40)");
        assert_eq!(format!("{:?}", DestinationFlags(0)), "DestinationFlags()");
    }
}
