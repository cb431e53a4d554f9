//! Which operations there are (SPEC 8.1.2, table 8-2).

use std::fmt;

use super::Version;

/// The operation of a descriptor: its byte 7. Any byte can be held; those that mean nothing have no [`name`](Self::name).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Opcode(pub u8);

/// Declares the opcodes: constant, number, first version, and what the operation does.
macro_rules! opcodes {
    ($($name:ident = $number:literal, $since:ident, $meaning:literal;)*) => {
        impl Opcode {
            $(#[doc = concat!("`", stringify!($number), "`: ", $meaning, ".")] pub const $name: Self = Self($number);)*

            /// Every opcode that the specification names, by number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As in `linux/idxd.h`, without its prefix; of those that it lacks, in its manner.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// What it does, as the end of a sentence; of a number without meaning, that it has none.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                    _ => "no operation that the specification names",
                }
            }

            /// The first version of the specification with it. Whether a device has it is told by its [`OpCap`](super::OpCap) alone.
            #[must_use]
            pub const fn since(self) -> Option<Version> {
                match self {
                    $(Self::$name => Some(Version::$since),)*
                    _ => None,
                }
            }
        }
    };
}

opcodes! {
    NOOP = 0x00, V1_0, "does nothing, and completes";
    BATCH = 0x01, V1_0, "carries out a list of descriptors";
    DRAIN = 0x02, V1_0, "waits for the descriptors before it";
    MEMMOVE = 0x03, V1_0, "copies memory, overlapping or not";
    MEMFILL = 0x04, V1_0, "fills memory with a pattern";
    COMPARE = 0x05, V1_0, "compares two ranges of memory";
    COMPVAL = 0x06, V1_0, "compares memory with a pattern";
    CR_DELTA = 0x07, V1_0, "writes down where two ranges differ";
    AP_DELTA = 0x08, V1_0, "applies a delta record to memory";
    DUALCAST = 0x09, V1_0, "copies memory to two places";
    TRANSL_FETCH = 0x0a, V2_0, "fetches address translations";
    CRCGEN = 0x10, V1_0, "computes a CRC";
    COPY_CRC = 0x11, V1_0, "copies memory and computes its CRC";
    DIF_CHECK = 0x12, V1_0, "checks the protection information of blocks";
    DIF_INS = 0x13, V1_0, "copies blocks and inserts protection information";
    DIF_STRP = 0x14, V1_0, "checks protection information, and copies the blocks without it";
    DIF_UPDT = 0x15, V1_0, "checks protection information, and copies the blocks with a new one";
    DIX_GEN = 0x17, V2_0, "writes the protection information of blocks apart from them";
    TYPE_CONV = 0x18, V3_0, "converts numbers to another type";
    REDUCE = 0x19, V3_0, "combines two arrays of numbers";
    REDUCE_DUALCAST = 0x1a, V3_0, "combines two arrays of numbers, and writes the result to two places";
    GATHER_REDUCE = 0x1b, V3_0, "combines scattered arrays of numbers";
    GATHER_COPY = 0x1c, V3_0, "copies scattered memory to one place";
    SCATTER_COPY = 0x1d, V3_0, "copies memory to scattered places";
    SCATTER_FILL = 0x1e, V3_0, "fills scattered memory with a pattern";
    CFLUSH = 0x20, V1_0, "flushes memory from the caches";
    UPDATE_WIN = 0x21, V2_0, "changes the window of an inter-domain permission";
    ID_COPY = 0x23, V2_0, "copies memory between address spaces";
    ID_FILL = 0x24, V2_0, "fills memory of another address space";
    ID_COMPARE = 0x25, V2_0, "compares memory of two address spaces";
    ID_COMPVAL = 0x26, V2_0, "compares memory of another address space with a pattern";
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => write!(f, "opcode {:#04x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.0)?;
        self.name().map_or(Ok(()), |name| write!(f, " {name}"))
    }
}
