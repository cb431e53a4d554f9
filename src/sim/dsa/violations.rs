//! Which duties of software did somebody break? What a device would answer with silence, or not notice until much later.

use std::fmt;

use crate::offload::dsa::abi::Descriptor;

/// Something that software may not do, seen by a [strict](super::Profile::strict) device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// What was broken.
    pub rule: Rule,
    /// How, with the numbers.
    pub what: String,
    /// The work queue, by its number in the device.
    pub queue: usize,
    /// The descriptor, if there is one.
    pub descriptor: Option<Descriptor>,
}

/// The duties that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// One completion record for two operations in flight: the first to complete flips the status of the other.
    RecordReused,
    /// A record whose status was not 0 when its descriptor was submitted: software cannot see it complete.
    RecordNotCleared,
    /// A record in memory that the device cannot write: it never comes.
    RecordLost,
    /// A batch's list that changed between its submission and its record: software reused it too early.
    ListChanged,
    /// A batch's list that could not be read.
    ListLost,
    /// A byte without a meaning that is not 0.
    StrayByte,
    /// A flag that is reserved there.
    ReservedFlag,
    /// A flag that the operation has to have.
    MissingFlag,
    /// Any other refusal: sizes, alignment, overlap, an operation that the queue does not have.
    Refused,
    /// More descriptors than a dedicated queue has room for: the device drops them without a word.
    Overflow,
    /// MOVDIR64B to a shared queue, or ENQCMD to a dedicated one.
    WrongInstruction,
    /// Protection information whose size is no whole number of blocks.
    PartialBlock,
}

impl Rule {
    /// Where the specification says so (Intel DSA Architecture Specification, revision 3.0).
    pub const fn section(self) -> &'static str {
        match self {
            Self::RecordReused | Self::RecordNotCleared => "3.6, 8.2",
            Self::RecordLost => "3.13.3, 5.4",
            Self::ListChanged | Self::ListLost => "3.8, 8.3.2",
            Self::StrayByte | Self::ReservedFlag | Self::MissingFlag | Self::Refused => "5.4",
            Self::Overflow => "3.3.2, 5.3",
            Self::WrongInstruction => "5.3, table 5-1",
            Self::PartialBlock => "8.3.17",
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, what, queue, descriptor } = self;
        write!(f, "{rule:?} on queue {queue}: {what} (specification {})", rule.section())?;
        descriptor.map_or(Ok(()), |descriptor| write!(f, "; {descriptor:?}"))
    }
}

/// More than this many are counted, not kept: the first ones tell what is wrong.
pub(crate) const KEPT_MAX: usize = 256;
