//! Which descriptor, and why none.

use super::*;
use crate::offload::dsa::abi::{OpCap, Version, layout};

/// A 4th-generation Xeon's capabilities (github.com/intel/idxd-config, issue 40), all operations of version 1.0, the driver's default limits.
fn queue() -> Limits {
    Limits {
        version: Version::V1_0,
        general: GenCap(0x40_915f_0107),
        operations: OpCap([0x1_003f_03ff, 0, 0, 0]),
        transfer_max: 2 << 20,
        batch_max: 32,
        in_flight_max: 16,
        block_on_fault: false,
    }
}

const RECORD: u64 = 0x7000;
const TAGS: DifTags =
    DifTags { reference: 1, reference_fixed: true, application: 2, application_mask: 3, application_increments: false };
const DIF: Dif = Dif {
    block: DifBlock::B4104,
    tags: TAGS,
    invert_seed: true,
    invert_result: false,
    check_guard: false,
    check_reference: true,
    escape: DifEscape::Application,
};

fn at(address: usize) -> *mut u8 {
    address as *mut u8
}

fn all() -> [Operation; 15] {
    let (src, dst, len) = (at(0x10_0000).cast_const(), at(0x20_0000), 4096);
    let blocks = 4112 * 2;
    let write = DifWrite { tags: TAGS, keep_guard: true, keep_application: false, keep_reference: true };
    [
        Operation::Nop,
        Operation::Copy { src, dst, len },
        Operation::Fill { pattern: Pattern::Eight(*b"abcdefgh"), dst, len },
        Operation::Compare { left: src, right: dst, len },
        Operation::ComparePattern { src, pattern: 5, len },
        Operation::Crc { src, len, seed: 6 },
        Operation::CopyCrc { src, dst, len, seed: 7 },
        Operation::Dualcast { src, dst, dst2: at(0x30_0000), len },
        Operation::CreateDelta { original: src, modified: dst, len, record: at(0x30_0000), record_max: 100 },
        Operation::ApplyDelta { record: src, record_len: 30, dst, len },
        Operation::DifCheck { src, len: blocks, dif: DIF },
        Operation::DifInsert { src, dst, len: 4104 * 2, dif: DIF },
        Operation::DifStrip { src, dst, len: blocks, dif: DIF },
        Operation::DifUpdate { src, dst, len: blocks, check: DIF, write },
        Operation::Flush { dst, len },
    ]
}

fn prepared(operation: &Operation, limits: &Limits) -> Result<Descriptor, Unsuited> {
    prepare(operation, Manner::default(), limits, RECORD).map(|prepared| prepared.descriptor)
}

#[test]
fn no_descriptor_has_a_byte_or_a_flag_that_its_operation_lacks() {
    for operation in all() {
        for intent in [Intent::Soon, Intent::Cold, Intent::Durable] {
            let limits = Limits { block_on_fault: true, ..queue() };
            let manner = Manner { intent, block_on_fault: true };
            let Prepared { descriptor, .. } = prepare(&operation, manner, &limits, RECORD).unwrap();
            let kind = operation.kind();
            assert_eq!(descriptor.opcode(), opcode(kind));
            assert_eq!(descriptor.stray_bytes(), Some(0), "{kind:?}: {descriptor:?}");
            assert_eq!(descriptor.value(layout::TRUSTED), 0, "ENQCMD wants it so");
            assert_eq!(descriptor.completion_address(), Some(RECORD));
            let flags = descriptor.flags();
            assert!(flags.contains(Flags::CRAV | Flags::RCR));
            assert_eq!(flags.contains(Flags::BOF), kind != Kind::Nop);
            let never = Flags::FENCE | Flags::RCI | Flags::CR | Flags::STORD | Flags::CR_TCS | Flags::CC3 | Flags::DSTS;
            assert!(!flags.intersects(never), "{flags}");
            let hints = flags & (Flags::CC | Flags::DRDBK);
            assert!(hints.is_empty() || writes_data(kind), "{kind:?}: {flags}");
        }
    }
}

#[test]
fn operands_are_where_the_specification_has_them() {
    let [_, copy, fill, compare, pattern, crc, copy_crc, dualcast, create, apply, check, insert, strip, update, flush] =
        all();
    let (src, dst) = ((layout::SOURCE, 0x10_0000), (layout::DESTINATION, 0x20_0000));
    let size = |bytes| (layout::TRANSFER_SIZE, bytes);
    let source_tags = [(layout::DIF_SOURCE_REF, 1), (layout::DIF_SOURCE_APP, 2), (layout::DIF_SOURCE_APP_MASK, 3)];
    let written_tags =
        [(layout::DIF_DESTINATION_REF, 1), (layout::DIF_DESTINATION_APP, 2), (layout::DIF_DESTINATION_APP_MASK, 3)];
    // Blocks of 4104, inverted seed.
    let dif = (layout::DIF_FLAGS, 0b0111);
    // Fixed reference, no guard check, application escape.
    let checks = (layout::DIF_SOURCE_FLAGS, 0x80 | 0x20 | 0x04);
    for (operation, fields) in [
        (copy, vec![src, dst, size(4096)]),
        (fill, vec![(layout::PATTERN, u64::from_le_bytes(*b"abcdefgh")), dst, size(4096)]),
        (compare, vec![(layout::SOURCE_1, 0x10_0000), (layout::SOURCE_2, 0x20_0000), size(4096)]),
        (pattern, vec![src, (layout::COMPARE_PATTERN, 5), size(4096)]),
        (crc, vec![src, size(4096), (layout::CRC_SEED, 6)]),
        (copy_crc, vec![src, dst, size(4096), (layout::CRC_SEED, 7)]),
        (dualcast, vec![src, dst, size(4096), (layout::DESTINATION_2, 0x30_0000)]),
        (create, vec![src, dst, size(4096), (layout::DELTA_CREATE, 0x30_0000), (layout::DELTA_MAX, 100)]),
        (apply, vec![src, dst, size(4096), (layout::DELTA_SIZE, 30)]),
        (check, [&[src, size(8224), dif, checks], &source_tags[..]].concat()),
        (insert, [&[src, dst, size(8208), dif, (layout::DIF_DESTINATION_FLAGS, 0x80)], &written_tags[..]].concat()),
        (strip, [&[src, dst, size(8224), dif, checks], &source_tags[..]].concat()),
        (
            update,
            [
                &[src, dst, size(8224), dif, checks, (layout::DIF_DESTINATION_FLAGS, 0x80 | 0x40 | 0x20)],
                &source_tags[..],
                &written_tags[..],
            ]
            .concat(),
        ),
        (flush, vec![dst, size(4096)]),
    ] {
        let descriptor = prepared(&operation, &queue()).unwrap();
        for (field, value) in fields {
            assert_eq!(descriptor.value(field), value, "{} of {:?}", field.name(), operation.kind());
        }
    }
}

#[test]
fn every_operation_waits_for_its_bit() {
    for operation in all() {
        let opcode = opcode(operation.kind());
        let without = Limits { operations: queue().operations.without(opcode), ..queue() };
        assert_eq!(prepared(&operation, &without), Err(Unsuited::Operation(opcode)));
        let alone = Limits { operations: OpCap::of(&[opcode]), ..queue() };
        assert!(prepared(&operation, &alone).is_ok());
    }
}

#[test]
fn what_does_not_fit_is_told_apart() {
    let queue = queue();
    let limits = |general: GenCap| Limits { general, ..queue.clone() };
    let (src, dst) = (at(0x10_0000).cast_const(), at(0x20_0000));
    let copy = |len| Operation::Copy { src, dst, len };
    let overlapping = Operation::Copy { src, dst: at(0x10_0001), len: 2 };
    let sixteen = Operation::Fill { pattern: Pattern::Sixteen([1; 16]), dst, len: 1 };
    let dualcast = |dst2| Operation::Dualcast { src, dst, dst2: at(dst2), len: 1 };
    let create = |len, record_max| Operation::CreateDelta {
        original: src,
        modified: dst,
        len,
        record: at(0x4000_0000),
        record_max,
    };
    let apply = |record_len| Operation::ApplyDelta { record: src, record_len, dst, len: 8 };
    let strip = |dst| Operation::DifStrip { src, dst: at(dst), len: 8224, dif: DIF };
    let plain = limits(GenCap(0));
    let with_16 = limits(GenCap::FILL_16);
    let small = Limits { transfer_max: 4096, ..queue.clone() };
    for (operation, limits, expected) in [
        (copy(2 << 20), &queue, Ok(())),
        (copy((2 << 20) + 1), &queue, Err(Unsuited::Long { most: 2 << 20 })),
        (copy(1 << 40), &queue, Err(Unsuited::Long { most: 2 << 20 })),
        (copy(0), &queue, Err(Unsuited::Empty)),
        (Operation::Nop, &queue, Ok(())),
        (overlapping, &queue, Ok(())),
        (overlapping, &plain, Err(Unsuited::Overlap)),
        (copy(4096), &plain, Ok(())),
        (sixteen, &queue, Err(Unsuited::Pattern)),
        (sixteen, &with_16, Ok(())),
        (dualcast(0x30_0000), &queue, Ok(())),
        (dualcast(0x30_0800), &queue, Err(Unsuited::Dualcast)),
        (dualcast(0x30_1001), &queue, Err(Unsuited::Dualcast)),
        (create(4096, 80), &queue, Ok(())),
        (create(4096, 79), &queue, Err(Unsuited::Delta)),
        (create(4096, 4097), &small, Err(Unsuited::Delta)),
        // All of it would need 330 bytes: what the queue offers is as good as what the caller does.
        (create(256, 1 << 30), &small, Ok(())),
        (apply(10), &queue, Ok(())),
        (apply(0), &queue, Err(Unsuited::Delta)),
        (apply(4100), &small, Err(Unsuited::Delta)),
        // 8208 bytes are written: up to the source, near to it, and elsewhere.
        (strip(0x10_0000 - 8208), &queue, Err(Unsuited::Strip)),
        (strip(0x10_0000 - 8224), &queue, Err(Unsuited::Strip)),
        (strip(0x10_0000 - 8225), &queue, Ok(())),
        (strip(0x10_0000 + 8224), &queue, Ok(())),
    ] {
        assert_eq!(prepared(&operation, limits).map(|_| ()), expected, "{operation:?}");
    }
}

#[test]
fn more_room_for_a_delta_than_the_queue_takes_is_offered_as_much_as_matters() {
    let small = Limits { transfer_max: 4096, ..queue() };
    let create = Operation::CreateDelta {
        original: at(0x1000),
        modified: at(0x2000),
        len: 256,
        record: at(0x4000),
        record_max: 1 << 30,
    };
    assert_eq!(prepared(&create, &small).unwrap().value(layout::DELTA_MAX), 4096);
}

#[test]
fn hints_are_those_that_the_device_takes() {
    let (cache, readback, durable) = (GenCap::CACHE_CONTROL, GenCap::DEST_READBACK, GenCap::DURABLE_WRITE);
    let copy = all()[1];
    for (intent, general, version, flags, write_back) in [
        (Intent::Soon, cache, Version::V1_0, Flags::CC, false),
        (Intent::Soon, GenCap(0), Version::V1_0, Flags::NONE, false),
        (Intent::Cold, cache.union(readback), Version::V1_0, Flags::NONE, false),
        (Intent::Durable, readback.union(durable), Version::V3_0, Flags::DRDBK, false),
        (Intent::Durable, durable, Version::V3_0, Flags::CC3, false),
        // Bit 5 is not to be trusted before 3.0.
        (Intent::Durable, durable, Version::V2_0, Flags::NONE, true),
        (Intent::Durable, cache, Version::V1_0, Flags::NONE, true),
    ] {
        let limits = Limits { general, version, ..queue() };
        let found = prepare(&copy, Manner { intent, block_on_fault: false }, &limits, RECORD).unwrap();
        let hints = found.descriptor.flags() & (Flags::CC | Flags::DRDBK | Flags::CC3);
        assert_eq!((hints, found.write_back), (flags, write_back), "{intent:?} {general:?} {version}");
    }
}

#[test]
fn blocking_is_for_those_who_ask_where_the_queue_lets_them() {
    let copy = all()[1];
    for (asked, allowed, set) in [(false, true, false), (true, false, false), (true, true, true)] {
        let limits = Limits { block_on_fault: allowed, ..queue() };
        let manner = Manner { block_on_fault: asked, ..Manner::default() };
        let flags = prepare(&copy, manner, &limits, RECORD).unwrap().descriptor.flags();
        assert_eq!(flags.contains(Flags::BOF), set);
    }
}

#[test]
fn a_note_says_what_it_was_made_of() {
    for intent in [Intent::Soon, Intent::Cold, Intent::Durable] {
        for (block_on_fault, write_back) in [(false, false), (false, true), (true, false), (true, true)] {
            let manner = Manner { intent, block_on_fault };
            let note = Note::new(manner, write_back).with_own(0x2a).raised(0x100).raised(0x100);
            assert_eq!((note.manner(), note.write_back(), note.own()), (manner, write_back, 0x22a));
        }
    }
}
