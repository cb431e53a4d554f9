//! The 64 bytes that are handed to a device (SPEC 8.1), and how each operation fills them (SPEC 8.3).

use std::fmt;

use super::dif::{DestinationFlags, DifFlags, SourceFlags, Tags};
use super::layout::*;
use super::limits::DESCRIPTOR_BYTES;
use super::{Flags, Opcode};

/// A descriptor as it lies in memory. Plain bytes: nothing in it keeps the memory behind its addresses.
///
/// Constructors fill in what an operation needs, [`with_flags`](Self::with_flags) and [`report_to`](Self::report_to) what is common to all. They
/// check nothing: a value that the device refuses is refused by the device. Sizes and addresses of zero are written as they are.
///
/// Aligned to 64 bytes: as an element of a batch's list it must be, and elsewhere it costs one line instead of two.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(64))]
pub struct Descriptor {
    /// Little-endian.
    words: [u64; 8],
}

const _: () = assert!(size_of::<Descriptor>() == DESCRIPTOR_BYTES && align_of::<Descriptor>() == DESCRIPTOR_BYTES);

impl Descriptor {
    /// All zeros, which is a no-op without a completion record.
    pub const ZERO: Self = Self { words: [0; 8] };

    /// An operation whose fields are all zero.
    #[inline]
    #[must_use]
    pub const fn new(opcode: Opcode) -> Self {
        Self::ZERO.with(OPCODE, opcode.0 as u64)
    }

    /// NOOP: nothing, and a completion.
    #[inline]
    #[must_use]
    pub const fn noop() -> Self {
        Self::new(Opcode::NOOP)
    }

    /// BATCH: `count` descriptors from address `list` on.
    #[inline]
    #[must_use]
    pub const fn batch(list: u64, count: u32) -> Self {
        Self::new(Opcode::BATCH).with(LIST, list).with(COUNT, count as u64)
    }

    /// DRAIN, without readback. Needs [`Flags::RCR`].
    #[inline]
    #[must_use]
    pub const fn drain() -> Self {
        Self::new(Opcode::DRAIN)
    }

    /// MEMMOVE.
    #[inline]
    #[must_use]
    pub const fn memmove(source: u64, destination: u64, bytes: u32) -> Self {
        Self::moving(Opcode::MEMMOVE, source, destination, bytes)
    }

    /// MEMFILL with a pattern of 8 bytes, the lowest byte of `pattern` first.
    #[inline]
    #[must_use]
    pub const fn fill(pattern: u64, destination: u64, bytes: u32) -> Self {
        let descriptor = Self::new(Opcode::MEMFILL).with(PATTERN, pattern);
        descriptor.with(DESTINATION, destination).with(TRANSFER_SIZE, bytes as u64)
    }

    /// MEMFILL with a pattern of 16 bytes, the lowest byte of `pattern` first. Needs [`GenCap::FILL_16`](super::GenCap::FILL_16).
    #[must_use]
    pub const fn fill_16(pattern: u128, destination: u64, bytes: u32) -> Self {
        let descriptor = Self::fill(pattern as u64, destination, bytes).with_flags(Flags::FILL_16);
        descriptor.with(PATTERN_UPPER, (pattern >> 64) as u64)
    }

    /// COMPARE. Needs [`Flags::RCR`]. `expected`: 0 equal, 1 different; of interest with [`Flags::CR`] only.
    #[must_use]
    pub const fn compare(source_1: u64, source_2: u64, bytes: u32, expected: u8) -> Self {
        Self::moving(Opcode::COMPARE, source_1, source_2, bytes).with(EXPECTED_RESULT, expected as u64)
    }

    /// COMPVAL, with a pattern of 8 bytes, the lowest byte of `pattern` first. Needs [`Flags::RCR`]. `expected`: as in
    /// [`compare`](Self::compare).
    #[must_use]
    pub const fn compare_pattern(source: u64, pattern: u64, bytes: u32, expected: u8) -> Self {
        let descriptor = Self::new(Opcode::COMPVAL).with(SOURCE, source).with(COMPARE_PATTERN, pattern);
        descriptor.with(TRANSFER_SIZE, bytes as u64).with(EXPECTED_RESULT, expected as u64)
    }

    /// CR_DELTA: writes what makes `source_2` of `source_1` to `record`, which has room for `record_max` bytes. Needs [`Flags::RCR`].
    /// `expected`: of interest with [`Flags::CR`] only; bit X set says that result X is a success.
    #[must_use]
    pub const fn create_delta(
        source_1: u64,
        source_2: u64,
        bytes: u32,
        record: u64,
        record_max: u32,
        expected: u8,
    ) -> Self {
        let descriptor = Self::moving(Opcode::CR_DELTA, source_1, source_2, bytes).with(DELTA_CREATE, record);
        descriptor.with(DELTA_MAX, record_max as u64).with(EXPECTED_RESULT_MASK, expected as u64)
    }

    /// AP_DELTA: applies a record of `record_bytes` to a destination of `bytes`, the transfer size that it was created with.
    #[must_use]
    pub const fn apply_delta(record: u64, record_bytes: u32, destination: u64, bytes: u32) -> Self {
        Self::moving(Opcode::AP_DELTA, record, destination, bytes).with(DELTA_SIZE, record_bytes as u64)
    }

    /// DUALCAST: one source, two destinations, which agree in [`DUALCAST_MASK`](super::limits::DUALCAST_MASK).
    #[must_use]
    pub const fn dualcast(source: u64, destination_1: u64, destination_2: u64, bytes: u32) -> Self {
        Self::moving(Opcode::DUALCAST, source, destination_1, bytes).with(DESTINATION_2, destination_2)
    }

    /// TRANSL_FETCH of a region.
    #[must_use]
    pub const fn translation_fetch(address: u64, region: u32) -> Self {
        Self::new(Opcode::TRANSL_FETCH).with(FETCH_ADDRESS, address).with(REGION_SIZE, region as u64)
    }

    /// CRCGEN of 32 bits. Needs [`Flags::RCR`]. The seed is 0, or the result of what comes before the source.
    #[must_use]
    pub const fn crc(source: u64, bytes: u32, seed: u32) -> Self {
        let descriptor = Self::new(Opcode::CRCGEN).with(SOURCE, source);
        descriptor.with(TRANSFER_SIZE, bytes as u64).with(CRC_SEED, seed as u64)
    }

    /// COPY_CRC of 32 bits. Needs [`Flags::RCR`]. The seed: as in [`crc`](Self::crc).
    #[must_use]
    pub const fn copy_crc(source: u64, destination: u64, bytes: u32, seed: u32) -> Self {
        Self::moving(Opcode::COPY_CRC, source, destination, bytes).with(CRC_SEED, seed as u64)
    }

    /// A CRC operation that reads its seed from memory, 4 bytes aligned to 4: the CRC field of another operation's record, for example.
    #[must_use]
    pub const fn with_seed_from(self, address: u64) -> Self {
        self.with_flags(Flags::READ_SEED).with(CRC_SEED_64, 0).with(CRC_SEED_ADDRESS, address)
    }

    /// DIF_CHECK. Needs [`Flags::RCR`]. `bytes` is a multiple of the block with its tuple.
    #[must_use]
    pub const fn dif_check(source: u64, bytes: u32, dif: DifFlags, flags: SourceFlags, tags: Tags) -> Self {
        let descriptor = Self::new(Opcode::DIF_CHECK).with(SOURCE, source).with(TRANSFER_SIZE, bytes as u64);
        descriptor.with_dif_source(dif, flags, tags)
    }

    /// DIF_INS. `bytes`, of the source, is a multiple of the block.
    #[must_use]
    pub const fn dif_insert(
        source: u64,
        destination: u64,
        bytes: u32,
        dif: DifFlags,
        flags: DestinationFlags,
        tags: Tags,
    ) -> Self {
        Self::moving(Opcode::DIF_INS, source, destination, bytes).with_dif_destination(dif, flags, tags)
    }

    /// DIF_STRP. `bytes`, of the source, is a multiple of the block with its tuple.
    #[must_use]
    pub const fn dif_strip(
        source: u64,
        destination: u64,
        bytes: u32,
        dif: DifFlags,
        flags: SourceFlags,
        tags: Tags,
    ) -> Self {
        Self::moving(Opcode::DIF_STRP, source, destination, bytes).with_dif_source(dif, flags, tags)
    }

    /// DIF_UPDT. `bytes` is a multiple of the block with its tuple.
    #[must_use]
    pub const fn dif_update(
        source: u64,
        destination: u64,
        bytes: u32,
        dif: DifFlags,
        from: (SourceFlags, Tags),
        to: (DestinationFlags, Tags),
    ) -> Self {
        let descriptor = Self::moving(Opcode::DIF_UPDT, source, destination, bytes);
        descriptor.with_dif_source(dif, from.0, from.1).with_dif_destination(dif, to.0, to.1)
    }

    /// DIX_GEN: the tuples of the source's blocks, one after the other, to a destination aligned to 8. `bytes` is a multiple of the block.
    #[must_use]
    pub const fn dix_generate(
        source: u64,
        destination: u64,
        bytes: u32,
        dif: DifFlags,
        flags: DestinationFlags,
        tags: Tags,
    ) -> Self {
        Self::moving(Opcode::DIX_GEN, source, destination, bytes).with_dif_destination(dif, flags, tags)
    }

    /// CFLUSH.
    #[must_use]
    pub const fn cache_flush(address: u64, bytes: u32) -> Self {
        Self::new(Opcode::CFLUSH).with(DESTINATION, address).with(TRANSFER_SIZE, bytes as u64)
    }

    const fn moving(opcode: Opcode, first: u64, second: u64, bytes: u32) -> Self {
        Self::new(opcode).with(SOURCE, first).with(DESTINATION, second).with(TRANSFER_SIZE, bytes as u64)
    }

    const fn with_dif_source(self, dif: DifFlags, flags: SourceFlags, tags: Tags) -> Self {
        let descriptor = self.with(DIF_FLAGS, dif.0 as u64).with(DIF_SOURCE_FLAGS, flags.0 as u64);
        descriptor
            .with(DIF_SOURCE_REF, tags.reference as u64)
            .with(DIF_SOURCE_APP_MASK, tags.application_mask as u64)
            .with(DIF_SOURCE_APP, tags.application as u64)
    }

    const fn with_dif_destination(self, dif: DifFlags, flags: DestinationFlags, tags: Tags) -> Self {
        let descriptor = self.with(DIF_FLAGS, dif.0 as u64).with(DIF_DESTINATION_FLAGS, flags.0 as u64);
        descriptor
            .with(DIF_DESTINATION_REF, tags.reference as u64)
            .with(DIF_DESTINATION_APP_MASK, tags.application_mask as u64)
            .with(DIF_DESTINATION_APP, tags.application as u64)
    }

    /// Opcode and flags: what two MEMMOVEs of the same manner have in common. See [`memmove_as`](Self::memmove_as).
    #[must_use]
    pub(crate) const fn common(&self) -> u64 {
        self.words[0]
    }

    /// The words of a MEMMOVE with the [`common`](Self::common) of another, which has a record. At most `u32::MAX` bytes. (Words, since a descriptor is aligned,
    /// and all that has one on its stack, too.)
    #[inline(always)]
    #[must_use]
    pub(crate) const fn memmove_as(common: u64, source: u64, destination: u64, bytes: u64, record: u64) -> [u64; 8] {
        debug_assert!(bytes <= u32::MAX as u64);
        [common, record.to_le(), source.to_le(), destination.to_le(), bytes.to_le(), 0, 0, 0]
    }

    /// Makes a MEMMOVE of what [`memmove_as`](Self::memmove_as) wrote there before: the three words in which one differs from another with the same record.
    ///
    /// # Safety
    /// `to` is such a descriptor, valid for a write, and the caller's.
    #[inline(always)]
    pub(crate) unsafe fn fill_in_memmove(to: *mut Self, source: u64, destination: u64, bytes: u64) {
        /// The first of the words: those before it are the opcode with its flags, and the record.
        const FROM: usize = 2;
        debug_assert!(bytes <= u32::MAX as u64);
        let words = [source.to_le(), destination.to_le(), bytes.to_le()];
        // SAFETY: within it, says the caller; aligned as its words are.
        unsafe { to.cast::<u64>().add(FROM).cast::<[u64; 3]>().write(words) };
    }

    /// A BATCH of `count` descriptors, in words, as [`batch`](Self::batch) with a record that is written in any case.
    #[inline(always)]
    #[must_use]
    pub(crate) const fn batch_words(list: u64, count: u32, record: u64) -> [u64; 8] {
        const COMMON: u64 = Descriptor::batch(0, 0).report_to(0).with_flags(Flags::RCR).words[0];
        [COMMON, record.to_le(), list.to_le(), 0, (count as u64).to_le(), 0, 0, 0]
    }

    /// Of words that are such.
    #[inline(always)]
    pub(crate) const fn of_words(words: [u64; 8]) -> Self {
        Self { words }
    }

    /// With the address of a completion record, aligned to 32 bytes, and [`Flags::CRAV`].
    #[inline]
    #[must_use]
    pub const fn report_to(self, record: u64) -> Self {
        self.with(COMPLETION_ADDRESS, record).with_flags(Flags::CRAV)
    }

    /// With these flags besides those that are set.
    #[inline]
    #[must_use]
    pub const fn with_flags(self, flags: Flags) -> Self {
        self.with(FLAGS, self.flags().union(flags).bits() as u64)
    }

    /// With another value in a field. Bits beyond the field's size are dropped; debug builds panic on them.
    #[inline]
    #[must_use]
    pub const fn with(mut self, field: Field, value: u64) -> Self {
        self.set(field, value);
        self
    }

    /// Writes a value to a field, as [`with`](Self::with).
    #[inline]
    pub const fn set(&mut self, field: Field, value: u64) {
        debug_assert!(value <= field.max(), "a value fits its field");
        let (word, shift) = (field.offset() / 8, 8 * (field.offset() % 8) as u32);
        let rest = u64::from_le(self.words[word]) & !(field.max() << shift);
        self.words[word] = (rest | (value & field.max()) << shift).to_le();
    }

    /// What is in a field, whether or not the operation has it.
    #[inline]
    #[must_use]
    pub const fn value(&self, field: Field) -> u64 {
        let (word, shift) = (field.offset() / 8, 8 * (field.offset() % 8) as u32);
        u64::from_le(self.words[word]) >> shift & field.max()
    }

    /// The operation.
    #[inline]
    #[must_use]
    pub const fn opcode(&self) -> Opcode {
        Opcode(self.value(OPCODE) as u8)
    }

    /// The flags.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> Flags {
        Flags::from_bits(self.value(FLAGS) as u32)
    }

    /// Where the completion record is to go, if [`Flags::CRAV`] is set.
    #[must_use]
    pub const fn completion_address(&self) -> Option<u64> {
        if self.flags().contains(Flags::CRAV) { Some(self.value(COMPLETION_ADDRESS)) } else { None }
    }

    /// Tags for the source's protection information, as DIF operations that read it have them.
    #[must_use]
    pub const fn dif_source_tags(&self) -> Tags {
        Tags {
            reference: self.value(DIF_SOURCE_REF) as u32,
            application_mask: self.value(DIF_SOURCE_APP_MASK) as u16,
            application: self.value(DIF_SOURCE_APP) as u16,
        }
    }

    /// Tags for the destination's protection information, as DIF operations that write it have them.
    #[must_use]
    pub const fn dif_destination_tags(&self) -> Tags {
        Tags {
            reference: self.value(DIF_DESTINATION_REF) as u32,
            application_mask: self.value(DIF_DESTINATION_APP_MASK) as u16,
            application: self.value(DIF_DESTINATION_APP) as u16,
        }
    }

    /// Bytes that are not zero although nothing gives them a meaning, byte n as bit n. `None` for an operation without a [`Layout`].
    #[must_use]
    pub fn stray_bytes(&self) -> Option<u64> {
        let reserved = Layout::of(self.opcode())?.reserved_bytes(self.flags());
        let bytes = self.to_bytes();
        let set = bytes.iter().enumerate().filter(|(_, byte)| **byte != 0);
        Some(set.fold(0, |mask, (n, _)| mask | 1 << n) & reserved)
    }

    /// The bytes, in the order of their addresses.
    #[inline]
    #[must_use]
    pub const fn to_bytes(self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        let mut n = 0;
        while n < DESCRIPTOR_BYTES {
            bytes[n] = (u64::from_le(self.words[n / 8]) >> (8 * (n % 8))) as u8;
            n += 1;
        }
        bytes
    }

    /// From bytes, in the order of their addresses.
    #[must_use]
    pub const fn from_bytes(bytes: &[u8; DESCRIPTOR_BYTES]) -> Self {
        let mut descriptor = Self::ZERO;
        let mut n = 0;
        while n < DESCRIPTOR_BYTES {
            descriptor.words[n / 8] |= ((bytes[n] as u64) << (8 * (n % 8))).to_le();
            n += 1;
        }
        descriptor
    }
}

impl Default for Descriptor {
    fn default() -> Self {
        Self::ZERO
    }
}

/// The operation, its flags and its fields by name; of an operation without a layout, its words.
impl fmt::Debug for Descriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Descriptor");
        debug.field("opcode", &self.opcode()).field("flags", &self.flags());
        if let Some(address) = self.completion_address() {
            debug.field("completion record", &format_args!("{address:#x}"));
        }
        let Some(layout) = Layout::of(self.opcode()) else {
            return debug.field("words", &format_args!("{:#x?}", self.words.map(u64::from_le))).finish();
        };
        for field in layout.fields(self.flags()) {
            debug.field(field.name(), &format_args!("{:#x}", self.value(field)));
        }
        match self.stray_bytes() {
            None | Some(0) => debug.finish(),
            Some(_) => debug.field("bytes", &format_args!("{:02x?}", self.to_bytes())).finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dif::BlockSize;
    use super::*;

    /// An offset, and the bytes from there on.
    type Part<'a> = (usize, &'a [u8]);

    /// Bytes written down from the tables of the specification; all that no part has are zero.
    fn golden(parts: &[Part<'_>]) -> [u8; 64] {
        let mut bytes = [0; 64];
        for (at, part) in parts {
            bytes[*at..at + part.len()].copy_from_slice(part);
        }
        bytes
    }

    // Addresses whose bytes all differ, so that an exchange of two shows.
    const A: u64 = 0x0102_0304_0506_0708;
    const B: u64 = 0x1112_1314_1516_1718;
    const C: u64 = 0x2122_2324_2526_2728;
    const A_LE: &[u8] = &[8, 7, 6, 5, 4, 3, 2, 1];
    const B_LE: &[u8] = &[0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11];
    const C_LE: &[u8] = &[0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21];
    const SIZE: u32 = 0x0031_3233;
    const SIZE_LE: &[u8] = &[0x33, 0x32, 0x31, 0];
    const S_TAGS: Tags = Tags { reference: 0x4142_4344, application_mask: 0x4546, application: 0x4748 };
    const S_LE: &[u8] = &[0x44, 0x43, 0x42, 0x41, 0x46, 0x45, 0x48, 0x47];
    const D_TAGS: Tags = Tags { reference: 0x5152_5354, application_mask: 0x5556, application: 0x5758 };
    const D_LE: &[u8] = &[0x54, 0x53, 0x52, 0x51, 0x56, 0x55, 0x58, 0x57];

    #[test]
    fn constructors_write_the_bytes_of_the_tables() {
        let dif = DifFlags::of(BlockSize::B4096) | DifFlags::INVERT_CRC_SEED;
        let (source, destination) = (SourceFlags::ALL_F, DestinationFlags::FIXED_REFERENCE);
        let cases: [(Descriptor, &[Part<'_>]); 22] = [
            (Descriptor::noop(), &[]),
            (Descriptor::batch(A, 0x20), &[(7, &[0x01]), (16, A_LE), (32, &[0x20])]),
            (Descriptor::drain(), &[(7, &[0x02])]),
            (Descriptor::memmove(A, B, SIZE), &[(7, &[0x03]), (16, A_LE), (24, B_LE), (32, SIZE_LE)]),
            (Descriptor::fill(A, B, SIZE), &[(7, &[0x04]), (16, A_LE), (24, B_LE), (32, SIZE_LE)]),
            (
                Descriptor::fill_16(u128::from(C) << 64 | u128::from(A), B, SIZE),
                &[(6, &[0x04, 0x04]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, C_LE)],
            ),
            (Descriptor::compare(A, B, SIZE, 1), &[(7, &[0x05]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, &[1])]),
            (
                Descriptor::compare_pattern(A, B, SIZE, 1),
                &[(7, &[0x06]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, &[1])],
            ),
            (
                Descriptor::create_delta(A, B, SIZE, C, 0x50, 0x2),
                &[(7, &[0x07]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, C_LE), (48, &[0x50]), (56, &[0x02])],
            ),
            (
                Descriptor::apply_delta(A, 0x0a, B, SIZE),
                &[(7, &[0x08]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, &[0x0a])],
            ),
            (Descriptor::dualcast(A, B, C, SIZE), &[(7, &[0x09]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, C_LE)]),
            (Descriptor::translation_fetch(A, SIZE), &[(7, &[0x0a]), (16, A_LE), (32, SIZE_LE)]),
            (
                Descriptor::crc(A, SIZE, 0x6162_6364),
                &[(7, &[0x10]), (16, A_LE), (32, SIZE_LE), (40, &[0x64, 0x63, 0x62, 0x61])],
            ),
            (
                Descriptor::crc(A, SIZE, 0x6162_6364).with_seed_from(C),
                &[(6, &[0x01, 0x10]), (16, A_LE), (32, SIZE_LE), (48, C_LE)],
            ),
            (
                Descriptor::copy_crc(A, B, SIZE, 0x6162_6364),
                &[(7, &[0x11]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, &[0x64, 0x63, 0x62, 0x61])],
            ),
            (
                Descriptor::dif_check(A, SIZE, dif, source, S_TAGS),
                &[(7, &[0x12]), (16, A_LE), (32, SIZE_LE), (40, &[0x02, 0, 0x06]), (48, S_LE)],
            ),
            (
                Descriptor::dif_insert(A, B, SIZE, dif, destination, D_TAGS),
                &[(7, &[0x13]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, &[0, 0x80, 0x06]), (56, D_LE)],
            ),
            (
                Descriptor::dif_strip(A, B, SIZE, dif, source, S_TAGS),
                &[(7, &[0x14]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, &[0x02, 0, 0x06]), (48, S_LE)],
            ),
            (
                Descriptor::dif_update(A, B, SIZE, dif, (source, S_TAGS), (destination, D_TAGS)),
                &[
                    (7, &[0x15]),
                    (16, A_LE),
                    (24, B_LE),
                    (32, SIZE_LE),
                    (40, &[0x02, 0x80, 0x06]),
                    (48, S_LE),
                    (56, D_LE),
                ],
            ),
            (
                Descriptor::dix_generate(A, B, SIZE, dif, destination, D_TAGS),
                &[(7, &[0x17]), (16, A_LE), (24, B_LE), (32, SIZE_LE), (40, &[0, 0x80, 0x06]), (56, D_LE)],
            ),
            (Descriptor::cache_flush(B, SIZE), &[(7, &[0x20]), (24, B_LE), (32, SIZE_LE)]),
            (
                Descriptor::noop().report_to(A).with_flags(Flags::RCR | Flags::CC),
                &[(4, &[0x0c, 0x01, 0, 0]), (8, A_LE)],
            ),
        ];
        for (descriptor, parts) in cases {
            let bytes = golden(parts);
            assert_eq!(descriptor.to_bytes(), bytes, "{descriptor:?}");
            assert_eq!(Descriptor::from_bytes(&bytes), descriptor);
            assert_eq!(descriptor.stray_bytes(), Some(0), "{descriptor:?}");
        }
    }

    #[test]
    fn bytes_without_a_meaning_are_found() {
        let layouts = Layout::all().iter();
        let opcodes = layouts.map(|layout| layout.opcode);
        for opcode in opcodes {
            for byte in 0..64 {
                let mut bytes = Descriptor::new(opcode).report_to(0).to_bytes();
                bytes[byte] |= 0x80;
                let stray = Descriptor::from_bytes(&bytes).stray_bytes();
                if byte == 7 {
                    continue; // another operation, or none
                }
                let reserved = Layout::of(opcode).unwrap().reserved_bytes(Descriptor::from_bytes(&bytes).flags());
                assert_eq!(stray, Some(reserved & 1 << byte), "{opcode} byte {byte}");
            }
        }
        assert_eq!(Descriptor::new(Opcode(0x16)).stray_bytes(), None);
    }

    #[test]
    fn a_field_is_changed_alone() {
        let full = Descriptor::from_bytes(&[0xff; 64]);
        for field in [OPCODE, FLAGS, TRANSFER_SIZE, INTERRUPT_HANDLE, DIF_DESTINATION_FLAGS, DIF_SOURCE_APP, SOURCE] {
            let changed = full.with(field, 0);
            let zeros = changed.to_bytes().iter().filter(|byte| **byte == 0).count();
            assert_eq!((zeros, changed.value(field)), (field.bytes(), 0), "{}", field.name());
            assert_eq!(changed.with(field, field.max()), full);
        }
    }

    #[test]
    fn a_descriptor_prints_its_fields() {
        let descriptor = Descriptor::memmove(A, B, 16).report_to(0x40).with_flags(Flags::RCR);
        assert_eq!(
            format!("{descriptor:?}"),
            "Descriptor { opcode: 0x03 MEMMOVE, flags: CRAV|RCR, completion record: 0x40, source: 0x102030405060708, \
             destination: 0x1112131415161718, transfer size: 0x10 }"
        );
        assert!(format!("{:?}", Descriptor::new(Opcode(0x77))).contains("words"));
    }
}
