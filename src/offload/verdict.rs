//! What an operation found out, the same from every engine.

/// The answer of an operation that was carried out.
// Words, not bytes: a future that holds one is moved in registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u64)]
pub enum Verdict {
    /// Done; there is nothing to find out.
    Done,
    /// The ranges are equal, or the range is nothing but the pattern.
    Equal,
    /// They differ first at this offset, in bytes from their start.
    Differ {
        /// The first byte that differs.
        at: usize,
    },
    /// The CRC-32C up to the end; the seed of the part that follows.
    Crc(u32),
    /// The delta record is complete.
    Delta {
        /// Bytes of the record, a multiple of 10; 0: the ranges are equal.
        len: usize,
    },
    /// The differences do not fit in the delta record; what is in it is of no use.
    DeltaOverflow,
    /// A delta record's offsets do not increase, or lie outside of the destination; entries before the bad one are applied.
    DeltaMalformed {
        /// Bytes of the record that were applied.
        applied: usize,
    },
    /// A block is not what its protection information says; blocks before it are checked (and copied). What the destination holds from this
    /// block on is undefined.
    DifMismatch {
        /// The block, counted from 0.
        block: usize,
        /// What did not match.
        fault: DifFault,
    },
}

/// Which parts of a block's protection information did not match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DifFault {
    /// The guard (CRC-16 of the data).
    pub guard: bool,
    /// The application tag.
    pub application: bool,
    /// The reference tag.
    pub reference: bool,
    /// The whole of it is ones, where that was asked for as a fault; the other three are then not looked at.
    pub all_ones: bool,
}
