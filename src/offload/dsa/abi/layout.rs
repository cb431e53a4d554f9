//! Which bytes of a descriptor mean what, operation by operation (SPEC 8.1 and 8.3; flags: tables 5-3 and 5-5).
//!
//! A [`Field`] is a place in the 64 bytes; a [`Layout`] lists the fields of an operation and the flags it takes. Whatever no field covers is
//! reserved and zero. Operations that came with version 3.0, and those between address spaces, have opcodes but no layout here.

use super::{Flags, GenCap, Opcode};

/// A place in a descriptor: little-endian, within one of its eight words of 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    name: &'static str,
    at: u8,
    bytes: u8,
}

impl Field {
    const fn new(name: &'static str, at: u8, bytes: u8) -> Self {
        assert!(bytes >= 1 && at / 8 == (at + bytes - 1) / 8 && at + bytes <= 64, "within a word");
        Self { name, at, bytes }
    }

    /// In a few lower-case words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Its first byte.
    #[must_use]
    pub const fn offset(self) -> usize {
        self.at as usize
    }

    /// How many bytes it has: 1 to 8.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.bytes as usize
    }

    /// The largest value it holds.
    #[must_use]
    pub const fn max(self) -> u64 {
        u64::MAX >> (64 - 8 * self.bytes as u32)
    }

    /// Its bytes, a bit each.
    const fn mask(self) -> u64 {
        (u64::MAX >> (64 - self.bytes as u32)) << self.at
    }
}

/// Bits 19:0 the PASID, bit 31 privilege. ENQCMD wants zero here and fills it in; MOVDIR64B's is ignored.
pub const TRUSTED: Field = Field::new("pasid and privilege", 0, 4);
/// See [`Flags`].
pub const FLAGS: Field = Field::new("flags", 4, 3);
/// See [`Opcode`].
pub const OPCODE: Field = Field::new("opcode", 7, 1);
/// Aligned to [`RECORD_BYTES`](super::limits::RECORD_BYTES); reserved without [`Flags::CRAV`].
pub const COMPLETION_ADDRESS: Field = Field::new("completion record address", 8, 8);
/// Reserved without [`Flags::RCI`], and so for user space.
pub const INTERRUPT_HANDLE: Field = Field::new("completion interrupt handle", 36, 2);

/// Of most operations.
pub const SOURCE: Field = Field::new("source", 16, 8);
/// Of most operations; of a cache flush as well.
pub const DESTINATION: Field = Field::new("destination", 24, 8);
/// In bytes.
pub const TRANSFER_SIZE: Field = Field::new("transfer size", 32, 4);
/// Of comparisons and CR_DELTA.
pub const SOURCE_1: Field = Field::new("first source", 16, 8);
/// Of comparisons and CR_DELTA.
pub const SOURCE_2: Field = Field::new("second source", 24, 8);
/// Of a batch: aligned to [`DESCRIPTOR_BYTES`](super::limits::DESCRIPTOR_BYTES).
pub const LIST: Field = Field::new("descriptor list", 16, 8);
/// Of a batch: how many descriptors.
pub const COUNT: Field = Field::new("descriptor count", 32, 4);
/// Of a drain, if [`Flags::READBACK1_VALID`].
pub const READBACK_1: Field = Field::new("first readback address", 16, 8);
/// Of a drain, if [`Flags::READBACK2_VALID`].
pub const READBACK_2: Field = Field::new("second readback address", 24, 8);
/// Of a fill.
pub const PATTERN: Field = Field::new("pattern", 16, 8);
/// Of a fill, if [`Flags::FILL_16`]: its bytes 8 to 15.
pub const PATTERN_UPPER: Field = Field::new("upper half of the pattern", 40, 8);
/// Of COMPVAL, whose source is where others have theirs.
pub const COMPARE_PATTERN: Field = Field::new("pattern", 24, 8);
/// Of comparisons: bit 0; the others are ignored.
pub const EXPECTED_RESULT: Field = Field::new("expected result", 40, 1);
/// Of CR_DELTA: where the record goes.
pub const DELTA_CREATE: Field = Field::new("delta record", 40, 8);
/// Of CR_DELTA: room for the record, in bytes.
pub const DELTA_MAX: Field = Field::new("maximum delta record size", 48, 4);
/// Of CR_DELTA: bit X set says that result X is a success.
pub const EXPECTED_RESULT_MASK: Field = Field::new("expected result mask", 56, 1);
/// Of AP_DELTA: where the record is.
pub const DELTA_APPLY: Field = Field::new("delta record", 16, 8);
/// Of AP_DELTA: the record's size, in bytes.
pub const DELTA_SIZE: Field = Field::new("delta record size", 40, 4);
/// Of a dualcast.
pub const DESTINATION_2: Field = Field::new("second destination", 40, 8);
/// Of a translation fetch.
pub const FETCH_ADDRESS: Field = Field::new("address", 16, 8);
/// Of a translation fetch, in bytes.
pub const REGION_SIZE: Field = Field::new("region size", 32, 4);
/// Of a translation fetch, if [`Flags::STRIDE_VALID`].
pub const STRIDE: Field = Field::new("stride", 48, 4);
/// Of CRC operations of 32 bits, unless [`Flags::READ_SEED`].
pub const CRC_SEED: Field = Field::new("crc seed", 40, 4);
/// Of CRC operations of 64 bits, unless [`Flags::READ_SEED`].
pub const CRC_SEED_64: Field = Field::new("crc seed", 40, 8);
/// Of CRC operations, if [`Flags::READ_SEED`].
pub const CRC_SEED_ADDRESS: Field = Field::new("crc seed address", 48, 8);
/// Of DIF operations that read protection information: [`dif::SourceFlags`](super::dif::SourceFlags).
pub const DIF_SOURCE_FLAGS: Field = Field::new("source dif flags", 40, 1);
/// Of DIF operations that write protection information: [`dif::DestinationFlags`](super::dif::DestinationFlags).
pub const DIF_DESTINATION_FLAGS: Field = Field::new("destination dif flags", 41, 1);
/// Of all DIF operations: [`dif::DifFlags`](super::dif::DifFlags).
pub const DIF_FLAGS: Field = Field::new("dif flags", 42, 1);
/// Of DIF operations that read protection information.
pub const DIF_SOURCE_REF: Field = Field::new("source reference tag seed", 48, 4);
/// A bit that is set ignores that bit of the tag.
pub const DIF_SOURCE_APP_MASK: Field = Field::new("source application tag mask", 52, 2);
/// Of DIF operations that read protection information.
pub const DIF_SOURCE_APP: Field = Field::new("source application tag seed", 54, 2);
/// Of DIF operations that write protection information.
pub const DIF_DESTINATION_REF: Field = Field::new("destination reference tag seed", 56, 4);
/// Of DIF operations that write protection information.
pub const DIF_DESTINATION_APP_MASK: Field = Field::new("destination application tag mask", 60, 2);
/// Of DIF operations that write protection information.
pub const DIF_DESTINATION_APP: Field = Field::new("destination application tag seed", 62, 2);

/// The fields and flags of an operation.
#[derive(Debug)]
pub struct Layout {
    /// Whose.
    pub opcode: Opcode,
    fields: &'static [Part],
    flags: Flags,
    required: &'static [Flags],
    only_with: &'static [(Flags, Flags)],
    capabilities: &'static [(Flags, GenCap)],
}

/// A field that is there if all of `with` and none of `without` are set; otherwise its bytes are reserved.
#[derive(Clone, Copy, Debug)]
struct Part {
    field: Field,
    with: Flags,
    without: Flags,
}

const fn always(field: Field) -> Part {
    Part { field, with: Flags::NONE, without: Flags::NONE }
}

const fn with(flag: Flags, field: Field) -> Part {
    Part { field, with: flag, without: Flags::NONE }
}

impl Layout {
    /// The layout of an operation, if it is described here.
    #[must_use]
    pub fn of(opcode: Opcode) -> Option<&'static Self> {
        LAYOUTS.iter().find(|layout| layout.opcode == opcode)
    }

    /// Every layout, by opcode.
    #[must_use]
    pub const fn all() -> &'static [Self] {
        LAYOUTS
    }

    /// The operation's own fields under these flags, in the order of their bytes; the common ones ([`FLAGS`], [`OPCODE`],
    /// [`COMPLETION_ADDRESS`] and so on) are not among them.
    pub fn fields(&self, flags: Flags) -> impl Iterator<Item = Field> + use<> {
        let parts = self.fields;
        parts.iter().filter(move |part| part.is_there(flags)).map(|part| part.field)
    }

    /// The bytes that are reserved under these flags, byte n as bit n. The completion record's address and the interrupt handle are among
    /// them where the flags make them so.
    #[must_use]
    pub fn reserved_bytes(&self, flags: Flags) -> u64 {
        let common = TRUSTED.mask() | FLAGS.mask() | OPCODE.mask();
        let address = if flags.contains(Flags::CRAV) { COMPLETION_ADDRESS.mask() } else { 0 };
        let handle = if flags.contains(Flags::RCI) { INTERRUPT_HANDLE.mask() } else { 0 };
        self.fields(flags).fold(!(common | address | handle), |reserved, field| reserved & !field.mask())
    }

    /// The flags that mean something in this operation while `given` are set: those that need another flag are left out without it.
    ///
    /// Whether a flag is taken in the end depends on more: on where the descriptor is ([`Flags::FENCE`] in a batch only), on its queue
    /// ([`Flags::BOF`]), on the device ([`lacking`](Self::lacking)), on other flags of the common ones ([`Flags::RCR`] and
    /// [`Flags::CR_TCS`] with [`Flags::CRAV`] only) and on their combination ([`CacheControl`](super::CacheControl)).
    #[must_use]
    pub fn flags(&self, given: Flags) -> Flags {
        let without = self.only_with.iter().filter(|(_, need)| !given.intersects(*need)).map(|(flag, _)| *flag);
        without.fold(self.flags, Flags::without)
    }

    /// The flags that this operation cannot do without. Of each element one bit at least must be set; no element, no such flag.
    #[must_use]
    pub const fn required(&self) -> &'static [Flags] {
        self.required
    }

    /// Those of `given` that need a capability which `capabilities` lacks. Cache control has a table of its own:
    /// [`CacheControl::is_taken_by`](super::CacheControl::is_taken_by).
    #[must_use]
    pub fn lacking(&self, given: Flags, capabilities: GenCap) -> Flags {
        let blocks = std::iter::once(&(Flags::BOF, GenCap::BLOCK_ON_FAULT));
        let needs = self.capabilities.iter().chain(blocks);
        let lacking = needs.filter(|(_, need)| !capabilities.contains(*need)).map(|(flag, _)| *flag);
        lacking.fold(Flags::NONE, Flags::union) & given
    }
}

impl Part {
    const fn is_there(&self, flags: Flags) -> bool {
        flags.contains(self.with) && !flags.intersects(self.without)
    }
}

/// Flags of every operation; a fence in a batch only, which every operation but a batch and a drain can be part of.
const COMMON: Flags = Flags::CRAV.union(Flags::RCR).union(Flags::RCI).union(Flags::CR_TCS).union(Flags::FENCE);
const BOF: Flags = COMMON.union(Flags::BOF);
const ADDR1: Flags = Flags::ADDR1_TCS;
const ADDR2: Flags = Flags::ADDR2_TCS;
const ADDR3: Flags = Flags::ADDR3_TCS;
/// Flags of operations that write memory.
const WRITES: Flags = BOF.union(Flags::CC).union(Flags::DRDBK).union(Flags::CC3).union(Flags::STORD);
const CRC: Flags = Flags::READ_SEED.union(Flags::BYPASS_CRC_INV_REF).union(Flags::BYPASS_DATA_REF).union(Flags::CRC_64);
const READBACKS: Flags = Flags::READBACK1_VALID.union(Flags::READBACK2_VALID);

/// Results that are of use in a record only.
const RECORD: &[Flags] = &[Flags::CRAV, Flags::RCR];
const NO_FLAG: &[Flags] = &[];

const CRC_SEEDS: [Part; 3] = [
    Part { field: CRC_SEED, with: Flags::NONE, without: Flags::READ_SEED.union(Flags::CRC_64) },
    Part { field: CRC_SEED_64, with: Flags::CRC_64, without: Flags::READ_SEED },
    with(Flags::READ_SEED, CRC_SEED_ADDRESS),
];
const CRC_SELECTOR: &[(Flags, Flags)] = &[(ADDR3, Flags::READ_SEED)];
const CRC_CAPABILITY: &[(Flags, GenCap)] = &[(Flags::CRC_64, GenCap::CRC_64)];

const DIF_READ: [Part; 3] = [always(DIF_SOURCE_REF), always(DIF_SOURCE_APP_MASK), always(DIF_SOURCE_APP)];
const DIF_WRITE: [Part; 3] =
    [always(DIF_DESTINATION_REF), always(DIF_DESTINATION_APP_MASK), always(DIF_DESTINATION_APP)];

const fn layout(opcode: Opcode, fields: &'static [Part], flags: Flags, required: &'static [Flags]) -> Layout {
    Layout { opcode, fields, flags, required, only_with: &[], capabilities: &[] }
}

const LAYOUTS: &[Layout] = &[
    layout(Opcode::NOOP, &[], COMMON, NO_FLAG),
    Layout {
        opcode: Opcode::BATCH,
        fields: &[always(LIST), always(COUNT)],
        flags: COMMON.without(Flags::FENCE).union(ADDR1).union(Flags::BATCH_ERROR),
        required: NO_FLAG,
        only_with: &[],
        capabilities: &[(Flags::BATCH_ERROR, GenCap::BATCH_CONTINUATION)],
    },
    Layout {
        opcode: Opcode::DRAIN,
        fields: &[with(Flags::READBACK1_VALID, READBACK_1), with(Flags::READBACK2_VALID, READBACK_2)],
        flags: COMMON
            .without(Flags::FENCE)
            .union(ADDR1)
            .union(ADDR2)
            .union(READBACKS)
            .union(Flags::SUPPRESS_TC_A)
            .union(Flags::SUPPRESS_TC_B),
        required: &[Flags::RCR.union(Flags::RCI)],
        only_with: &[(ADDR1, Flags::READBACK1_VALID), (ADDR2, Flags::READBACK2_VALID)],
        capabilities: &[(READBACKS, GenCap::DRAIN_READBACK)],
    },
    layout(
        Opcode::MEMMOVE,
        &[always(SOURCE), always(DESTINATION), always(TRANSFER_SIZE)],
        WRITES.union(ADDR1).union(ADDR2),
        NO_FLAG,
    ),
    Layout {
        opcode: Opcode::MEMFILL,
        fields: &[always(PATTERN), always(DESTINATION), always(TRANSFER_SIZE), with(Flags::FILL_16, PATTERN_UPPER)],
        flags: WRITES.union(ADDR2).union(Flags::FILL_16),
        required: NO_FLAG,
        only_with: &[],
        capabilities: &[(Flags::FILL_16, GenCap::FILL_16)],
    },
    layout(
        Opcode::COMPARE,
        &[always(SOURCE_1), always(SOURCE_2), always(TRANSFER_SIZE), always(EXPECTED_RESULT)],
        BOF.union(Flags::CR).union(ADDR1).union(ADDR2),
        RECORD,
    ),
    layout(
        Opcode::COMPVAL,
        &[always(SOURCE), always(COMPARE_PATTERN), always(TRANSFER_SIZE), always(EXPECTED_RESULT)],
        BOF.union(Flags::CR).union(ADDR1),
        RECORD,
    ),
    layout(
        Opcode::CR_DELTA,
        &[
            always(SOURCE_1),
            always(SOURCE_2),
            always(TRANSFER_SIZE),
            always(DELTA_CREATE),
            always(DELTA_MAX),
            always(EXPECTED_RESULT_MASK),
        ],
        WRITES.union(Flags::CR).union(ADDR1).union(ADDR2).union(ADDR3),
        RECORD,
    ),
    layout(
        Opcode::AP_DELTA,
        &[always(DELTA_APPLY), always(DESTINATION), always(TRANSFER_SIZE), always(DELTA_SIZE)],
        WRITES.union(ADDR1).union(ADDR2),
        NO_FLAG,
    ),
    layout(
        Opcode::DUALCAST,
        &[always(SOURCE), always(DESTINATION), always(TRANSFER_SIZE), always(DESTINATION_2)],
        WRITES.union(ADDR1).union(ADDR2).union(ADDR3),
        NO_FLAG,
    ),
    Layout {
        opcode: Opcode::TRANSL_FETCH,
        fields: &[always(FETCH_ADDRESS), always(REGION_SIZE), with(Flags::STRIDE_VALID, STRIDE)],
        flags: BOF.union(Flags::STRIDE_VALID),
        required: NO_FLAG,
        only_with: &[],
        capabilities: &[(Flags::STRIDE_VALID, GenCap::FETCH_STRIDE)],
    },
    Layout {
        opcode: Opcode::CRCGEN,
        fields: &[always(SOURCE), always(TRANSFER_SIZE), CRC_SEEDS[0], CRC_SEEDS[1], CRC_SEEDS[2]],
        flags: BOF.union(CRC).union(ADDR1).union(ADDR3),
        required: RECORD,
        only_with: CRC_SELECTOR,
        capabilities: CRC_CAPABILITY,
    },
    Layout {
        opcode: Opcode::COPY_CRC,
        fields: &[always(SOURCE), always(DESTINATION), always(TRANSFER_SIZE), CRC_SEEDS[0], CRC_SEEDS[1], CRC_SEEDS[2]],
        flags: WRITES.union(CRC).union(ADDR1).union(ADDR2).union(ADDR3),
        required: RECORD,
        only_with: CRC_SELECTOR,
        capabilities: CRC_CAPABILITY,
    },
    layout(
        Opcode::DIF_CHECK,
        &[
            always(SOURCE),
            always(TRANSFER_SIZE),
            always(DIF_SOURCE_FLAGS),
            always(DIF_FLAGS),
            DIF_READ[0],
            DIF_READ[1],
            DIF_READ[2],
        ],
        BOF.union(ADDR1),
        RECORD,
    ),
    layout(Opcode::DIF_INS, DIF_INSERTS, WRITES.union(ADDR1).union(ADDR2), NO_FLAG),
    layout(
        Opcode::DIF_STRP,
        &[
            always(SOURCE),
            always(DESTINATION),
            always(TRANSFER_SIZE),
            always(DIF_SOURCE_FLAGS),
            always(DIF_FLAGS),
            DIF_READ[0],
            DIF_READ[1],
            DIF_READ[2],
        ],
        WRITES.union(ADDR1).union(ADDR2),
        NO_FLAG,
    ),
    layout(
        Opcode::DIF_UPDT,
        &[
            always(SOURCE),
            always(DESTINATION),
            always(TRANSFER_SIZE),
            always(DIF_SOURCE_FLAGS),
            always(DIF_DESTINATION_FLAGS),
            always(DIF_FLAGS),
            DIF_READ[0],
            DIF_READ[1],
            DIF_READ[2],
            DIF_WRITE[0],
            DIF_WRITE[1],
            DIF_WRITE[2],
        ],
        WRITES.union(ADDR1).union(ADDR2),
        NO_FLAG,
    ),
    layout(Opcode::DIX_GEN, DIF_INSERTS, WRITES.union(ADDR1).union(ADDR2), NO_FLAG),
    layout(
        Opcode::CFLUSH,
        &[always(DESTINATION), always(TRANSFER_SIZE)],
        BOF.union(Flags::STORD).union(Flags::DRDBK).union(ADDR2),
        NO_FLAG,
    ),
];

const DIF_INSERTS: &[Part] = &[
    always(SOURCE),
    always(DESTINATION),
    always(TRANSFER_SIZE),
    always(DIF_DESTINATION_FLAGS),
    always(DIF_FLAGS),
    DIF_WRITE[0],
    DIF_WRITE[1],
    DIF_WRITE[2],
];

/// No two fields that can be there together share a byte, and none lies on what is common to all.
const _: () = {
    let common = TRUSTED.mask() | FLAGS.mask() | OPCODE.mask() | COMPLETION_ADDRESS.mask() | INTERRUPT_HANDLE.mask();
    assert!(common == 0x30_0000_ffff);
    let mut n = 0;
    while n < LAYOUTS.len() {
        let parts = LAYOUTS[n].fields;
        let mut i = 0;
        while i < parts.len() {
            assert!(parts[i].field.mask() & common == 0);
            let mut j = 0;
            while j < i {
                let (a, b) = (parts[i], parts[j]);
                let apart = a.with.intersects(b.without) || b.with.intersects(a.without);
                assert!(apart || a.field.mask() & b.field.mask() == 0);
                j += 1;
            }
            i += 1;
        }
        n += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(ranges: &[std::ops::RangeInclusive<u32>]) -> u64 {
        ranges.iter().cloned().flatten().fold(0, |mask, byte| mask | 1 << byte)
    }

    /// The reserved bytes as the specification's tables list them, against those that no field covers.
    #[test]
    fn what_no_field_covers_is_what_the_tables_reserve() {
        let (none, f16, rd) = (Flags::NONE, Flags::FILL_16, Flags::READ_SEED);
        let wide = Flags::CRC_64;
        for (opcode, flags, reserved) in [
            (Opcode::NOOP, none, bytes(&[16..=35, 38..=63])),
            (Opcode::BATCH, none, bytes(&[24..=31, 38..=63])),
            (Opcode::DRAIN, none, bytes(&[16..=31, 32..=35, 38..=63])),
            (Opcode::DRAIN, Flags::READBACK1_VALID, bytes(&[24..=31, 32..=35, 38..=63])),
            (Opcode::DRAIN, READBACKS, bytes(&[32..=35, 38..=63])),
            (Opcode::MEMMOVE, none, bytes(&[38..=63])),
            (Opcode::MEMFILL, none, bytes(&[38..=63])),
            (Opcode::MEMFILL, f16, bytes(&[38..=39, 48..=63])),
            (Opcode::COMPARE, none, bytes(&[38..=39, 41..=63])),
            (Opcode::COMPVAL, none, bytes(&[38..=39, 41..=63])),
            (Opcode::CR_DELTA, none, bytes(&[38..=39, 52..=55, 57..=63])),
            (Opcode::AP_DELTA, none, bytes(&[38..=39, 44..=63])),
            (Opcode::DUALCAST, none, bytes(&[38..=39, 48..=63])),
            (Opcode::TRANSL_FETCH, none, bytes(&[24..=31, 38..=63])),
            (Opcode::TRANSL_FETCH, Flags::STRIDE_VALID, bytes(&[24..=31, 38..=47, 52..=63])),
            (Opcode::CRCGEN, none, bytes(&[24..=31, 38..=39, 44..=63])),
            (Opcode::CRCGEN, wide, bytes(&[24..=31, 38..=39, 48..=63])),
            (Opcode::CRCGEN, rd, bytes(&[24..=31, 38..=47, 56..=63])),
            (Opcode::CRCGEN, rd | wide, bytes(&[24..=31, 38..=47, 56..=63])),
            (Opcode::COPY_CRC, none, bytes(&[38..=39, 44..=63])),
            (Opcode::DIF_CHECK, none, bytes(&[24..=31, 38..=39, 41..=41, 43..=47, 56..=63])),
            (Opcode::DIF_INS, none, bytes(&[38..=40, 43..=55])),
            (Opcode::DIF_STRP, none, bytes(&[38..=39, 41..=41, 43..=47, 56..=63])),
            (Opcode::DIF_UPDT, none, bytes(&[38..=39, 43..=47])),
            (Opcode::DIX_GEN, none, bytes(&[38..=40, 43..=55])),
            (Opcode::CFLUSH, none, bytes(&[16..=23, 38..=63])),
        ] {
            let layout = Layout::of(opcode).unwrap();
            let given = flags | Flags::CRAV | Flags::RCI;
            assert_eq!(layout.reserved_bytes(given), reserved, "{opcode} {flags}");
            let with_address_and_handle = reserved | bytes(&[8..=15, 36..=37]);
            assert_eq!(layout.reserved_bytes(flags), with_address_and_handle, "{opcode} {flags}");
        }
    }

    #[test]
    fn layouts_are_in_order_and_one_an_operation() {
        assert!(Layout::all().windows(2).all(|pair| pair[0].opcode < pair[1].opcode));
        assert!(Layout::all().iter().all(|layout| layout.opcode.name().is_some()));
        assert!(Layout::of(Opcode::GATHER_COPY).is_none() && Layout::of(Opcode(0x16)).is_none());
    }

    /// Every flag that an operation takes, as numbers that were added up from the tables by hand.
    #[test]
    fn flags_are_those_of_the_tables() {
        let always = 0x100d | 0x10; // FENCE CRAV RCR CR_TCS, RCI
        let writes = 0x2 | 0x100 | 0x4000 | 0x20 | 0x2000; // BOF CC DRDBK CC3 STORD
        for (opcode, given, taken) in [
            (Opcode::NOOP, Flags::MASK, always),
            (Opcode::BATCH, Flags::MASK, always & !1 | 0x200 | 0x1_0000),
            (Opcode::DRAIN, Flags::MASK, always & !1 | 0x600 | 0xf_0000),
            (Opcode::DRAIN, Flags::NONE, always & !1 | 0xf_0000),
            (Opcode::MEMMOVE, Flags::MASK, always | writes | 0x600),
            (Opcode::MEMFILL, Flags::MASK, always | writes | 0x400 | 0x4_0000),
            (Opcode::COMPARE, Flags::MASK, always | 0x2 | 0x80 | 0x600),
            (Opcode::COMPVAL, Flags::MASK, always | 0x2 | 0x80 | 0x200),
            (Opcode::CR_DELTA, Flags::MASK, always | writes | 0x80 | 0xe00),
            (Opcode::AP_DELTA, Flags::MASK, always | writes | 0x600),
            (Opcode::DUALCAST, Flags::MASK, always | writes | 0xe00),
            (Opcode::TRANSL_FETCH, Flags::MASK, always | 0x2 | 0x1_0000),
            (Opcode::CRCGEN, Flags::MASK, always | 0x2 | 0xa00 | 0xf_0000),
            (Opcode::CRCGEN, Flags::NONE, always | 0x2 | 0x200 | 0xf_0000),
            (Opcode::COPY_CRC, Flags::MASK, always | writes | 0xe00 | 0xf_0000),
            (Opcode::DIF_CHECK, Flags::MASK, always | 0x2 | 0x200),
            (Opcode::DIF_INS, Flags::MASK, always | writes | 0x600),
            (Opcode::DIF_STRP, Flags::MASK, always | writes | 0x600),
            (Opcode::DIF_UPDT, Flags::MASK, always | writes | 0x600),
            (Opcode::DIX_GEN, Flags::MASK, always | writes | 0x600),
            (Opcode::CFLUSH, Flags::MASK, always | 0x2 | 0x2000 | 0x4000 | 0x400),
        ] {
            assert_eq!(Layout::of(opcode).unwrap().flags(given), Flags::from_bits(taken), "{opcode}");
        }
    }

    #[test]
    fn some_operations_must_report() {
        let must: Vec<Opcode> =
            Layout::all().iter().filter(|layout| layout.required() == RECORD).map(|layout| layout.opcode).collect();
        let wanted =
            [Opcode::COMPARE, Opcode::COMPVAL, Opcode::CR_DELTA, Opcode::CRCGEN, Opcode::COPY_CRC, Opcode::DIF_CHECK];
        assert_eq!(must, wanted);
        assert_eq!(Layout::of(Opcode::DRAIN).unwrap().required(), [Flags::RCR | Flags::RCI]);
    }

    #[test]
    fn flags_need_capabilities() {
        for (opcode, flag, capability) in [
            (Opcode::BATCH, Flags::BATCH_ERROR, GenCap::BATCH_CONTINUATION),
            (Opcode::DRAIN, Flags::READBACK2_VALID, GenCap::DRAIN_READBACK),
            (Opcode::MEMFILL, Flags::FILL_16, GenCap::FILL_16),
            (Opcode::MEMMOVE, Flags::BOF, GenCap::BLOCK_ON_FAULT),
            (Opcode::TRANSL_FETCH, Flags::STRIDE_VALID, GenCap::FETCH_STRIDE),
            (Opcode::COPY_CRC, Flags::CRC_64, GenCap::CRC_64),
        ] {
            let layout = Layout::of(opcode).unwrap();
            let given = flag | Flags::CRAV;
            assert_eq!(layout.lacking(given, GenCap(0)), flag);
            assert_eq!(layout.lacking(given, capability), Flags::NONE);
            assert_eq!(layout.lacking(Flags::CRAV, GenCap(0)), Flags::NONE);
        }
    }
}
