//! Which descriptor does an operation become, on a queue of these limits? Pure. What the queue does not take is [`Unsuited`], with the reason,
//! and the CPU does it.
//!
//! An operation that comes here has passed [`cpu::check`](crate::offload::cpu::check): overlaps, alignments and block sizes that *no* engine takes are not
//! looked for again. What is looked for is what this device, this queue, or the silicon takes less.
//!
//! **Flags.** Every descriptor asks for its record in any case (CRAV and RCR), those in a batch as well. A child without RCR would spare the device a
//! write of 32 bytes on success; but then nothing tells a child that succeeded from one that a lost batch record leaves unknown, every child would
//! have to wait for the slowest of its batch, and comparisons and CRCs want it anyway. Block-on-fault is set on demand only: a device that waits
//! for a page holds up everybody behind it. Traffic classes, strict ordering, interrupts, check-result: never.

use crate::offload::cpu::overlap;
use crate::offload::dsa::abi::dif::{BlockSize, DestinationFlags, DifFlags, SourceFlags, Tags};
use crate::offload::dsa::abi::{CacheControl, Descriptor, Flags, GenCap, Opcode, limits};
use crate::offload::dsa::queue::Limits;
use crate::offload::{Dif, DifBlock, DifEscape, DifTags, DifWrite, Intent, Kind, Operation, Pattern};

/// What is asked for besides the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) intent: Intent,
    /// The device is to have absent pages served, and to wait for them, where the queue lets it.
    pub(crate) block_on_fault: bool,
}

/// What is to be remembered of an operation that was prepared, in one word, for whoever keeps many of them: its [`Manner`], whether the CPU has to write back, and
/// two bytes of the keeper's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note(u64);

impl Note {
    const OWN: u64 = 0xffff;
    const INTENT_SHIFT: u32 = 16;
    const BLOCK_ON_FAULT: u64 = 1 << 18;
    const WRITE_BACK: u64 = 1 << 19;

    /// With zero for the keeper's own.
    #[inline]
    pub(crate) const fn new(manner: Manner, write_back: bool) -> Self {
        let block_on_fault = if manner.block_on_fault { Self::BLOCK_ON_FAULT } else { 0 };
        let write_back = if write_back { Self::WRITE_BACK } else { 0 };
        Self((manner.intent as u64) << Self::INTENT_SHIFT | block_on_fault | write_back)
    }
    /// With these bits for the keeper's own, which were zero.
    #[inline(always)]
    pub(crate) const fn with_own(self, own: u64) -> Self {
        debug_assert!(own <= Self::OWN);
        Self(self.0 | own)
    }
    /// With the keeper's own raised by this.
    pub(crate) const fn raised(self, by: u16) -> Self {
        Self(self.0 & !Self::OWN | self.own().wrapping_add(by) as u64)
    }
    /// The keeper's own.
    #[inline(always)]
    pub(crate) const fn own(self) -> u16 {
        self.0 as u16
    }
    pub(crate) const fn manner(self) -> Manner {
        let intent = match self.0 >> Self::INTENT_SHIFT & 0b11 {
            0 => Intent::Soon,
            1 => Intent::Cold,
            _ => Intent::Durable,
        };
        Manner { intent, block_on_fault: self.0 & Self::BLOCK_ON_FAULT != 0 }
    }
    pub(crate) const fn write_back(self) -> bool {
        self.0 & Self::WRITE_BACK != 0
    }
}

/// A descriptor, and what it leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub(crate) descriptor: Descriptor,
    /// When the device is done, the CPU writes the destination back to memory: durability was asked for, and the device cannot.
    pub(crate) write_back: bool,
}

/// Why a queue does not take an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Unsuited {
    /// The device lacks the operation, or the queue's configuration rules it out.
    Operation(Opcode),
    /// Nothing to do: no engine is needed.
    Empty,
    /// More than one descriptor takes, in bytes: it goes in pieces.
    Long { most: u64 },
    /// The copy overlaps itself, and the device does not order that.
    Overlap,
    /// A dualcast's destinations differ in address bits 11:0.
    Dualcast,
    /// A pattern of 16 bytes.
    Pattern,
    /// The room for a delta record, or its size, is out of the queue's range.
    Delta,
    /// A strip of protection information whose destination touches the source from below: Intel's own library keeps it from the silicon.
    Strip,
}

/// The descriptor of an operation, to be answered in the record at address `record`.
///
/// # Errors
/// Why this queue does not take it.
#[inline]
pub(crate) fn prepare(
    operation: &Operation,
    manner: Manner,
    limits: &Limits,
    record: u64,
) -> Result<Prepared, Unsuited> {
    debug_assert_eq!(record % limits::RECORD_BYTES as u64, 0, "a record that is not aligned is never written");
    let opcode = opcode(operation.kind());
    if !limits.operations.contains(opcode) {
        return Err(Unsuited::Operation(opcode));
    }
    let bytes = transfer(operation, limits)?;
    if !matches!(operation, Operation::Copy { .. }) || !limits.general.contains(GenCap::OVERLAPPING_COPY) {
        suits(operation, limits)?;
    }
    let mut descriptor = fill_in(operation, bytes, limits).with_flags(Flags::RCR).report_to(record);
    let mut write_back = false;
    if writes_data(operation.kind()) {
        let (hint, device_does) = cache_control(manner.intent, limits);
        descriptor = descriptor.with_flags(hint.flags());
        write_back = !device_does;
    }
    if manner.block_on_fault && limits.block_on_fault && operation.kind() != Kind::Nop {
        descriptor = descriptor.with_flags(Flags::BOF);
    }
    Ok(Prepared { descriptor, write_back })
}

/// The opcode of a kind of operation.
#[inline]
pub(crate) const fn opcode(kind: Kind) -> Opcode {
    match kind {
        Kind::Nop => Opcode::NOOP,
        Kind::Copy => Opcode::MEMMOVE,
        Kind::Fill => Opcode::MEMFILL,
        Kind::Compare => Opcode::COMPARE,
        Kind::ComparePattern => Opcode::COMPVAL,
        Kind::Crc => Opcode::CRCGEN,
        Kind::CopyCrc => Opcode::COPY_CRC,
        Kind::Dualcast => Opcode::DUALCAST,
        Kind::CreateDelta => Opcode::CR_DELTA,
        Kind::ApplyDelta => Opcode::AP_DELTA,
        Kind::DifCheck => Opcode::DIF_CHECK,
        Kind::DifInsert => Opcode::DIF_INS,
        Kind::DifStrip => Opcode::DIF_STRP,
        Kind::DifUpdate => Opcode::DIF_UPDT,
        Kind::Flush => Opcode::CFLUSH,
    }
}

/// Whether it writes memory through the caches or past them, so that a hint means something. A flush is about caches, and takes none.
#[inline]
const fn writes_data(kind: Kind) -> bool {
    match kind {
        Kind::Copy
        | Kind::Fill
        | Kind::CopyCrc
        | Kind::Dualcast
        | Kind::CreateDelta
        | Kind::ApplyDelta
        | Kind::DifInsert
        | Kind::DifStrip
        | Kind::DifUpdate => true,
        Kind::Nop | Kind::Compare | Kind::ComparePattern | Kind::Crc | Kind::DifCheck | Kind::Flush => false,
    }
}

/// The hint, and whether the device then does all that was asked for.
#[inline]
fn cache_control(intent: Intent, limits: &Limits) -> (CacheControl, bool) {
    let takes = |hint: CacheControl| hint.is_taken_by(limits.general, limits.version);
    match intent {
        Intent::Soon if takes(CacheControl::Cache) => (CacheControl::Cache, true),
        Intent::Durable if takes(CacheControl::DurableReadback) => (CacheControl::DurableReadback, true),
        Intent::Durable if takes(CacheControl::Durable) => (CacheControl::Durable, true),
        Intent::Durable => (CacheControl::Memory, false),
        _ => (CacheControl::Memory, true),
    }
}

/// The transfer size of the descriptor, in the queue's range.
#[inline]
fn transfer(operation: &Operation, limits: &Limits) -> Result<u32, Unsuited> {
    let bytes = match *operation {
        Operation::Nop => return Ok(0),
        Operation::ApplyDelta { len, .. } => len,
        _ => operation.len(),
    } as u64;
    // A queue of 4 GiB transfers would not fit the field; there is none (the capability ends at 2 GiB).
    let most = limits.transfer_max.min(u64::from(u32::MAX));
    match bytes {
        0 => Err(Unsuited::Empty),
        _ if bytes > most => Err(Unsuited::Long { most }),
        _ => Ok(bytes as u32),
    }
}

/// What the device, the queue or the silicon does not take.
fn suits(operation: &Operation, queue: &Limits) -> Result<(), Unsuited> {
    let fits = |wrong: bool, why| if wrong { Err(why) } else { Ok(()) };
    match *operation {
        // Only asked where the device does not order an overlap.
        Operation::Copy { src, dst, len } => fits(overlap(src.addr(), len, dst.addr(), len), Unsuited::Overlap),
        Operation::Fill { pattern: Pattern::Sixteen(_), .. } => {
            fits(!queue.general.contains(GenCap::FILL_16), Unsuited::Pattern)
        }
        Operation::Dualcast { dst, dst2, .. } => {
            fits((dst.addr() ^ dst2.addr()) as u64 & limits::DUALCAST_MASK != 0, Unsuited::Dualcast)
        }
        Operation::CreateDelta { len, record_max, .. } => {
            fits(delta_room(len, record_max, queue.transfer_max).is_none(), Unsuited::Delta)
        }
        Operation::ApplyDelta { record_len, .. } => {
            let range = u64::from(limits::DELTA_APPLY_MIN)..=queue.transfer_max;
            fits(!range.contains(&(record_len as u64)), Unsuited::Delta)
        }
        Operation::DifStrip { src, dst, len, dif } => {
            let written = len / dif.block.with_tuple() * dif.block.bytes();
            let end = dst.addr().wrapping_add(written);
            fits(dst.addr() < src.addr() && end <= src.addr() && src.addr() <= dst.addr() + len, Unsuited::Strip)
        }
        _ => Ok(()),
    }
}

/// How much room for a delta record to tell the device, in its range; `None` if that would change the answer. More room than every unit of the
/// source needs changes nothing ("nearly full" is an overflow, so one entry more than that is offered).
fn delta_room(len: usize, record_max: usize, transfer_max: u64) -> Option<u32> {
    let most = transfer_max.min(u64::from(u32::MAX));
    let all = (len as u64 / limits::DELTA_ALIGN + 1) * u64::from(limits::DELTA_ENTRY_BYTES);
    let room = match record_max as u64 {
        room if room <= most => room,
        _ if all <= most => most,
        _ => return None,
    };
    // Truncation cannot be: `most` fits.
    (room >= u64::from(limits::DELTA_RECORD_MIN)).then_some(room as u32)
}

#[inline]
fn fill_in(operation: &Operation, bytes: u32, limits: &Limits) -> Descriptor {
    let at = |address: *const u8| address.addr() as u64;
    match *operation {
        Operation::Nop => Descriptor::noop(),
        Operation::Copy { src, dst, .. } => Descriptor::memmove(at(src), at(dst), bytes),
        Operation::Fill { pattern: Pattern::Eight(pattern), dst, .. } => {
            Descriptor::fill(u64::from_le_bytes(pattern), at(dst), bytes)
        }
        Operation::Fill { pattern: Pattern::Sixteen(pattern), dst, .. } => {
            Descriptor::fill_16(u128::from_le_bytes(pattern), at(dst), bytes)
        }
        // The expected result means something with the check-result flag only.
        Operation::Compare { left, right, .. } => Descriptor::compare(at(left), at(right), bytes, 0),
        Operation::ComparePattern { src, pattern, .. } => Descriptor::compare_pattern(at(src), pattern, bytes, 0),
        Operation::Crc { src, seed, .. } => Descriptor::crc(at(src), bytes, seed),
        Operation::CopyCrc { src, dst, seed, .. } => Descriptor::copy_crc(at(src), at(dst), bytes, seed),
        Operation::Dualcast { src, dst, dst2, .. } => Descriptor::dualcast(at(src), at(dst), at(dst2), bytes),
        Operation::CreateDelta { original, modified, len, record, record_max } => {
            // `suits` has asked; the least room is what it would otherwise be.
            let room = delta_room(len, record_max, limits.transfer_max).unwrap_or(limits::DELTA_RECORD_MIN);
            Descriptor::create_delta(at(original), at(modified), bytes, at(record), room, 0)
        }
        Operation::ApplyDelta { record, record_len, dst, .. } => {
            Descriptor::apply_delta(at(record), record_len as u32, at(dst), bytes) // `suits`: at most transfer_max
        }
        Operation::DifCheck { src, dif, .. } => {
            Descriptor::dif_check(at(src), bytes, dif_flags(&dif), source_flags(&dif), tags(&dif.tags))
        }
        Operation::DifInsert { src, dst, dif, .. } => {
            let (flags, tags) = destination(&DifWrite::of(dif.tags));
            Descriptor::dif_insert(at(src), at(dst), bytes, dif_flags(&dif), flags, tags)
        }
        Operation::DifStrip { src, dst, dif, .. } => {
            Descriptor::dif_strip(at(src), at(dst), bytes, dif_flags(&dif), source_flags(&dif), tags(&dif.tags))
        }
        Operation::DifUpdate { src, dst, check, write, .. } => Descriptor::dif_update(
            at(src),
            at(dst),
            bytes,
            dif_flags(&check),
            (source_flags(&check), tags(&check.tags)),
            destination(&write),
        ),
        Operation::Flush { dst, .. } => Descriptor::cache_flush(at(dst), bytes),
    }
}

impl DifWrite {
    /// All of it computed.
    const fn of(tags: DifTags) -> Self {
        Self { tags, keep_guard: false, keep_application: false, keep_reference: false }
    }
}

fn dif_flags(dif: &Dif) -> DifFlags {
    let block = match dif.block {
        DifBlock::B512 => BlockSize::B512,
        DifBlock::B520 => BlockSize::B520,
        DifBlock::B4096 => BlockSize::B4096,
        DifBlock::B4104 => BlockSize::B4104,
    };
    let set = |set: bool, flag: DifFlags| if set { flag } else { DifFlags::default() };
    DifFlags::of(block)
        | set(dif.invert_seed, DifFlags::INVERT_CRC_SEED)
        | set(dif.invert_result, DifFlags::INVERT_CRC_RESULT)
}

fn source_flags(dif: &Dif) -> SourceFlags {
    let set = |set: bool, flag: SourceFlags| if set { flag } else { SourceFlags::default() };
    set(dif.tags.reference_fixed, SourceFlags::FIXED_REFERENCE)
        | set(!dif.check_reference, SourceFlags::NO_REFERENCE_CHECK)
        | set(!dif.check_guard, SourceFlags::NO_GUARD_CHECK)
        | set(dif.tags.application_increments, SourceFlags::INCREMENTING_APPLICATION)
        | match dif.escape {
            DifEscape::Never => SourceFlags::default(),
            DifEscape::Application => SourceFlags::APPLICATION_F,
            DifEscape::ApplicationAndReference => SourceFlags::APPLICATION_AND_REFERENCE_F,
            DifEscape::AllOnesIsFault => SourceFlags::ALL_F_ERROR,
        }
}

fn destination(write: &DifWrite) -> (DestinationFlags, Tags) {
    let set = |set: bool, flag: DestinationFlags| if set { flag } else { DestinationFlags::default() };
    let flags = set(write.tags.reference_fixed, DestinationFlags::FIXED_REFERENCE)
        | set(write.keep_reference, DestinationFlags::PASS_REFERENCE)
        | set(write.keep_guard, DestinationFlags::PASS_GUARD)
        | set(write.tags.application_increments, DestinationFlags::INCREMENTING_APPLICATION)
        | set(write.keep_application, DestinationFlags::PASS_APPLICATION);
    (flags, tags(&write.tags))
}

fn tags(tags: &DifTags) -> Tags {
    Tags { reference: tags.reference, application_mask: tags.application_mask, application: tags.application }
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
