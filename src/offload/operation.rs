//! What an engine is asked to do, in addresses: the one vocabulary of routes, engines and the ring.

use std::num::NonZeroU32;

/// A bulk operation. A plain value: whoever hands it to an engine answers for the memory behind its addresses until the engine has answered.
///
/// Sizes are bytes. Zero sizes are legal everywhere and are answered without an engine. What is larger than an engine takes at once is cut by
/// [the engine's own side](super), never by the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Does nothing; shows that a path works.
    Nop,
    /// Moves `len` bytes; the ranges may overlap (`memmove`).
    Copy { src: *const u8, dst: *mut u8, len: usize },
    /// Writes the pattern again and again, from `dst` on; its phase counts from `dst`.
    Fill { pattern: Pattern, dst: *mut u8, len: usize },
    /// Are the ranges equal, and if not, where do they first differ?
    Compare { left: *const u8, right: *const u8, len: usize },
    /// As `Compare`, against eight bytes repeated: `pattern` as it lies in memory on a little-endian cpu, the least significant byte first.
    ComparePattern { src: *const u8, pattern: u64, len: usize },
    /// CRC-32C (Castagnoli) continued from `seed`, which is the final value of the part before, or 0.
    Crc { src: *const u8, len: usize, seed: u32 },
    /// `Copy` of ranges that do not overlap, and `Crc` of what was copied.
    CopyCrc { src: *const u8, dst: *mut u8, len: usize, seed: u32 },
    /// One source, two destinations; no two of the three overlap. A device wants the destinations equal in address bits 11:0.
    Dualcast { src: *const u8, dst: *mut u8, dst2: *mut u8, len: usize },
    /// Writes at `record` how to make `modified` from `original`, as entries of 10 bytes; all sizes and addresses but `record`'s are multiples of 8.
    CreateDelta { original: *const u8, modified: *const u8, len: usize, record: *mut u8, record_max: usize },
    /// Applies what `CreateDelta` wrote to `dst` (`len` as at creation).
    ApplyDelta { record: *const u8, record_len: usize, dst: *mut u8, len: usize },
    /// Checks blocks that are followed by 8 bytes of protection information; `len` includes those.
    DifCheck { src: *const u8, len: usize, dif: Dif },
    /// Copies blocks and adds protection information after each; `len` counts the source.
    DifInsert { src: *const u8, dst: *mut u8, len: usize, dif: Dif },
    /// Checks, copies, and drops the protection information; `len` counts the source.
    DifStrip { src: *const u8, dst: *mut u8, len: usize, dif: Dif },
    /// Checks by the tags of `check`, copies, and writes protection information by the tags of `write`; `len` counts the source, and as much is
    /// written.
    DifUpdate { src: *const u8, dst: *mut u8, len: usize, check: Dif, write: DifWrite },
    /// Writes the lines of the range back to memory and gives them up.
    Flush { dst: *mut u8, len: usize },
}

// SAFETY: addresses without any claim on what is behind them; who dereferences them answers for it (see `Operation`'s first paragraph).
unsafe impl Send for Operation {}
// SAFETY: as above.
unsafe impl Sync for Operation {}

impl Operation {
    /// What kind it is, for capabilities and costs.
    #[inline]
    pub(crate) const fn kind(&self) -> Kind {
        match self {
            Self::Nop => Kind::Nop,
            Self::Copy { .. } => Kind::Copy,
            Self::Fill { .. } => Kind::Fill,
            Self::Compare { .. } => Kind::Compare,
            Self::ComparePattern { .. } => Kind::ComparePattern,
            Self::Crc { .. } => Kind::Crc,
            Self::CopyCrc { .. } => Kind::CopyCrc,
            Self::Dualcast { .. } => Kind::Dualcast,
            Self::CreateDelta { .. } => Kind::CreateDelta,
            Self::ApplyDelta { .. } => Kind::ApplyDelta,
            Self::DifCheck { .. } => Kind::DifCheck,
            Self::DifInsert { .. } => Kind::DifInsert,
            Self::DifStrip { .. } => Kind::DifStrip,
            Self::DifUpdate { .. } => Kind::DifUpdate,
            Self::Flush { .. } => Kind::Flush,
        }
    }

    /// The size that a descriptor states for it, in bytes: what is read, or written where nothing is read; the record's for `ApplyDelta`, whose
    /// work is proportional to that.
    #[inline]
    pub(crate) const fn len(&self) -> usize {
        match *self {
            Self::Nop => 0,
            Self::ApplyDelta { record_len, .. } => record_len,
            Self::Copy { len, .. }
            | Self::Fill { len, .. }
            | Self::Compare { len, .. }
            | Self::ComparePattern { len, .. }
            | Self::Crc { len, .. }
            | Self::CopyCrc { len, .. }
            | Self::Dualcast { len, .. }
            | Self::CreateDelta { len, .. }
            | Self::DifCheck { len, .. }
            | Self::DifInsert { len, .. }
            | Self::DifStrip { len, .. }
            | Self::DifUpdate { len, .. }
            | Self::Flush { len, .. } => len,
        }
    }
}

/// An operation without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Nothing.
    Nop,
    /// A copy, of ranges that may overlap.
    Copy,
    /// A pattern again and again.
    Fill,
    /// Two ranges compared.
    Compare,
    /// A range compared with a pattern.
    ComparePattern,
    /// CRC-32C.
    Crc,
    /// A copy and its CRC-32C.
    CopyCrc,
    /// A copy to two destinations.
    Dualcast,
    /// A delta record made.
    CreateDelta,
    /// A delta record applied.
    ApplyDelta,
    /// DIF checked.
    DifCheck,
    /// DIF added.
    DifInsert,
    /// DIF checked and dropped.
    DifStrip,
    /// DIF checked and replaced.
    DifUpdate,
    /// Cache lines written back.
    Flush,
}

impl Kind {
    /// Every kind, in the order of the numbers that they convert to.
    pub const ALL: [Self; 15] = [
        Self::Nop,
        Self::Copy,
        Self::Fill,
        Self::Compare,
        Self::ComparePattern,
        Self::Crc,
        Self::CopyCrc,
        Self::Dualcast,
        Self::CreateDelta,
        Self::ApplyDelta,
        Self::DifCheck,
        Self::DifInsert,
        Self::DifStrip,
        Self::DifUpdate,
        Self::Flush,
    ];
}

/// A fill's pattern: 8 or 16 bytes, as they lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Eight([u8; 8]),
    Sixteen([u8; 16]),
}

/// Protection information as T10 DIF has it: a guard (CRC-16), an application tag, a reference tag, big-endian, after each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dif {
    /// Bytes of a block.
    pub block: DifBlock,
    /// What the tags are, or should be.
    pub tags: DifTags,
    /// The guard's CRC starts at all ones.
    pub invert_seed: bool,
    /// The guard is stored inverted.
    pub invert_result: bool,
    /// Whether the guard is checked (`DifCheck`, `DifStrip`, `DifUpdate`).
    pub check_guard: bool,
    /// Whether the reference tag is checked.
    pub check_reference: bool,
    /// Which blocks are taken as they are (`DifCheck`, `DifStrip`, `DifUpdate`).
    pub escape: DifEscape,
}

/// Which blocks are not checked: T10's mark of a block whose protection information is not to be looked at, by the type of protection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DifEscape {
    /// All are checked.
    #[default]
    Never,
    /// Those whose application tag is all ones (protection types 1 and 2).
    Application,
    /// Those whose application and reference tags are all ones (protection type 3).
    ApplicationAndReference,
    /// All are checked, and one whose protection information is nothing but ones (never written, most likely) is a fault of its own.
    AllOnesIsFault,
}

/// The protection information that `DifUpdate` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifWrite {
    /// What the tags are, or should be.
    pub tags: DifTags,
    /// The guard is the source's, not computed.
    pub keep_guard: bool,
    /// The application tag is the source's, whatever `tags` says.
    pub keep_application: bool,
    /// The reference tag is the source's, whatever `tags` says.
    pub keep_reference: bool,
}

/// What the tags of a run of blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DifTags {
    /// Of the first block; one more each block unless `reference_fixed`.
    pub reference: u32,
    /// All blocks have the same reference tag.
    pub reference_fixed: bool,
    /// Of the first block.
    pub application: u16,
    /// One bits are ignored when checking (all ones is no check), and written as 0.
    pub application_mask: u16,
    /// One more each block.
    pub application_increments: bool,
}

/// Bytes of data in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifBlock {
    /// 512 bytes.
    B512,
    /// 520 bytes.
    B520,
    /// 4096 bytes.
    B4096,
    /// 4104 bytes.
    B4104,
}

impl DifBlock {
    /// Bytes of protection information behind each block.
    pub(crate) const TUPLE: NonZeroU32 = NonZeroU32::new(8).unwrap();

    /// Bytes of data.
    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::B512 => 512,
            Self::B520 => 520,
            Self::B4096 => 4096,
            Self::B4104 => 4104,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Kind;

    #[test]
    fn every_kind_stands_at_its_number() {
        for (number, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
    }
}
