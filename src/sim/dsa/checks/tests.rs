//! One row a violation: what is broken in an otherwise good descriptor, and the status that it gets.

use super::*;
use crate::offload::dsa::abi::dif::{BlockSize, DestinationFlags, DifFlags, SourceFlags, Tags};
use crate::offload::dsa::abi::{GenCap, layout};

const RECORD: u64 = 0x5000;
const A: u64 = 0x1_0000;
const B: u64 = 0x2_0000;
const C: u64 = 0x3_0000;

fn asked(descriptor: Descriptor) -> Descriptor {
    descriptor.report_to(RECORD).with_flags(Flags::RCR)
}

/// A good descriptor of every operation.
fn good() -> Vec<Descriptor> {
    let dif = DifFlags::of(BlockSize::B512);
    let tags = Tags::default();
    let (from, to) = (SourceFlags::default(), DestinationFlags::default());
    [
        Descriptor::noop(),
        Descriptor::batch(A, 2),
        Descriptor::drain(),
        Descriptor::memmove(A, B, 100),
        Descriptor::fill(7, B, 100),
        Descriptor::fill_16(7, B, 100),
        Descriptor::compare(A, B, 100, 0),
        Descriptor::compare_pattern(A, 7, 100, 0),
        Descriptor::create_delta(A, B, 128, C, 80, 0),
        Descriptor::apply_delta(A, 10, B, 128),
        Descriptor::dualcast(A, B, C, 100),
        Descriptor::translation_fetch(A, 100),
        Descriptor::crc(A, 100, 1),
        Descriptor::crc(A, 100, 0).with_seed_from(C),
        Descriptor::copy_crc(A, B, 100, 1),
        Descriptor::dif_check(A, 520, dif, from, tags),
        Descriptor::dif_insert(A, B, 512, dif, to, tags),
        Descriptor::dif_strip(A, B, 520, dif, from, tags),
        Descriptor::dif_update(A, B, 520, dif, (from, tags), (to, tags)),
        Descriptor::dix_generate(A, B, 512, dif, to, tags),
        Descriptor::cache_flush(A, 100),
    ]
    .map(asked)
    .to_vec()
}

fn device() -> DeviceConfig {
    DeviceConfig::v2().queue(QueueConfig::shared(16).block_on_fault(true))
}

fn judge_on(device: &DeviceConfig, descriptor: &Descriptor, is_child: bool) -> Result<(), Refusal> {
    check(&Case { descriptor, device, queue: &device.queues[0], is_child }, None)
}

fn judge(descriptor: &Descriptor) -> Result<(), Refusal> {
    judge_on(&device(), descriptor, false)
}

fn find(opcode: Opcode) -> Descriptor {
    good().into_iter().find(|descriptor| descriptor.opcode() == opcode).unwrap()
}

/// The descriptor's flags, with some taken away.
fn without(descriptor: Descriptor, flags: Flags) -> Descriptor {
    descriptor.with(layout::FLAGS, u64::from(descriptor.flags().without(flags).bits()))
}

#[test]
fn what_is_good_is_taken() {
    for descriptor in good() {
        assert_eq!(judge(&descriptor), Ok(()), "{descriptor:?}");
        let child_allowed = !matches!(descriptor.opcode(), Opcode::BATCH | Opcode::DRAIN);
        assert_eq!(judge_on(&device(), &descriptor, true).is_ok(), child_allowed, "{descriptor:?}");
    }
}

/// Rows 4 to 15 of the table of statuses that this model was written from, less what only a record's page can show.
#[test]
fn each_violation_has_its_status() {
    let of = find;
    let rows = [
        ("record misaligned by 16", of(Opcode::NOOP).with(layout::COMPLETION_ADDRESS, RECORD + 16), Status::CRA_ALIGN),
        ("no such operation", asked(Descriptor::new(Opcode(0x7f))), Status::BAD_OPCODE),
        ("an operation of version 3.0", asked(Descriptor::new(Opcode::GATHER_COPY)), Status::BAD_OPCODE),
        ("flag bit 6", of(Opcode::MEMMOVE).with_flags(Flags::from_bits(1 << 6)), Status::INVALID_FLAGS),
        ("flag bit 5", of(Opcode::MEMMOVE).with_flags(Flags::CC3), Status::INVALID_FLAGS),
        ("flag bit 15", of(Opcode::MEMMOVE).with_flags(Flags::DSTS), Status::INVALID_FLAGS),
        ("fence outside of a batch", of(Opcode::MEMMOVE).with_flags(Flags::FENCE), Status::INVALID_FLAGS),
        ("block on fault of a no-op", of(Opcode::NOOP).with_flags(Flags::BOF), Status::INVALID_FLAGS),
        ("block on fault of a drain", of(Opcode::DRAIN).with_flags(Flags::BOF), Status::INVALID_FLAGS),
        ("block on fault of a batch", of(Opcode::BATCH).with_flags(Flags::BOF), Status::INVALID_FLAGS),
        ("interrupt", of(Opcode::NOOP).with_flags(Flags::RCI), Status::INVALID_FLAGS),
        ("record asked for, no record", Descriptor::noop().with_flags(Flags::RCR), Status::INVALID_FLAGS),
        ("class of a record, no record", Descriptor::noop().with_flags(Flags::CR_TCS), Status::INVALID_FLAGS),
        ("check result of a move", of(Opcode::MEMMOVE).with_flags(Flags::CR), Status::INVALID_FLAGS),
        ("cache hint of a comparison", of(Opcode::COMPARE).with_flags(Flags::CC), Status::INVALID_FLAGS),
        ("cache hint of a flush", of(Opcode::CFLUSH).with_flags(Flags::CC), Status::INVALID_FLAGS),
        ("strict order of a comparison", of(Opcode::COMPARE).with_flags(Flags::STORD), Status::INVALID_FLAGS),
        (
            "class of a second source that is none",
            of(Opcode::COMPVAL).with_flags(Flags::ADDR2_TCS),
            Status::INVALID_FLAGS,
        ),
        ("class of a seed that is not read", of(Opcode::CRCGEN).with_flags(Flags::ADDR3_TCS), Status::INVALID_FLAGS),
        ("class of a readback that is not", of(Opcode::DRAIN).with_flags(Flags::ADDR1_TCS), Status::INVALID_FLAGS),
        ("an operation's bit of another's", of(Opcode::MEMMOVE).with_flags(Flags::CRC_64), Status::INVALID_FLAGS),
        ("drain that reports to nobody", without(of(Opcode::DRAIN), Flags::RCR), Status::INVALID_FLAGS),
        ("comparison without RCR", without(of(Opcode::COMPARE), Flags::RCR), Status::INVALID_FLAGS),
        ("pattern comparison without RCR", without(of(Opcode::COMPVAL), Flags::RCR), Status::INVALID_FLAGS),
        ("delta without RCR", without(of(Opcode::CR_DELTA), Flags::RCR), Status::INVALID_FLAGS),
        ("CRC without RCR", without(of(Opcode::CRCGEN), Flags::RCR), Status::INVALID_FLAGS),
        ("copy and CRC without RCR", without(of(Opcode::COPY_CRC), Flags::RCR), Status::INVALID_FLAGS),
        ("DIF check without RCR", without(of(Opcode::DIF_CHECK), Flags::RCR), Status::INVALID_FLAGS),
        (
            "record's address without CRAV",
            Descriptor::noop().with(layout::COMPLETION_ADDRESS, 32),
            Status::NOZERO_RESERVE,
        ),
        ("interrupt handle", of(Opcode::NOOP).with(layout::INTERRUPT_HANDLE, 1), Status::NOZERO_RESERVE),
        ("reserved bits of DIF flags", of(Opcode::DIF_CHECK).with(layout::DIF_FLAGS, 0x10), Status::NOZERO_RESERVE),
        (
            "reserved bits of the destination's",
            of(Opcode::DIF_UPDT).with(layout::DIF_DESTINATION_FLAGS, 1),
            Status::NOZERO_RESERVE,
        ),
        (
            "a tag passed from nowhere",
            of(Opcode::DIF_INS).with(layout::DIF_DESTINATION_FLAGS, 0x40),
            Status::NOZERO_RESERVE,
        ),
        ("size 0", of(Opcode::MEMMOVE).with(layout::TRANSFER_SIZE, 0), Status::XFER_ERANGE),
        ("size above the queue's", of(Opcode::MEMFILL).with(layout::TRANSFER_SIZE, (2 << 20) + 1), Status::XFER_ERANGE),
        ("delta above 512 KiB", of(Opcode::CR_DELTA).with(layout::TRANSFER_SIZE, 0x8_0008), Status::XFER_ERANGE),
        ("region of 0", of(Opcode::TRANSL_FETCH).with(layout::REGION_SIZE, 0), Status::XFER_ERANGE),
        (
            "region beyond the last address",
            of(Opcode::TRANSL_FETCH).with(layout::FETCH_ADDRESS, u64::MAX - 98),
            Status::XFER_ERANGE,
        ),
        ("batch of 0", of(Opcode::BATCH).with(layout::COUNT, 0), Status::DESC_CNT_ERANGE),
        ("batch of 1", of(Opcode::BATCH).with(layout::COUNT, 1), Status::DESC_CNT_ERANGE),
        ("batch of 33", of(Opcode::BATCH).with(layout::COUNT, 33), Status::DESC_CNT_ERANGE),
        ("batch's list misaligned by 32", of(Opcode::BATCH).with(layout::LIST, A + 32), Status::DESCLIST_ALIGN),
        ("delta record of 79", of(Opcode::CR_DELTA).with(layout::DELTA_MAX, 79), Status::DR_ERANGE),
        (
            "delta record above the largest transfer",
            of(Opcode::CR_DELTA).with(layout::DELTA_MAX, (2 << 20) + 1),
            Status::DR_ERANGE,
        ),
        ("delta record of 9 to apply", of(Opcode::AP_DELTA).with(layout::DELTA_SIZE, 9), Status::DR_ERANGE),
        ("delta's first source", of(Opcode::CR_DELTA).with(layout::SOURCE_1, A + 4), Status::ADDR_ALIGN),
        ("delta's second source", of(Opcode::CR_DELTA).with(layout::SOURCE_2, B + 4), Status::ADDR_ALIGN),
        ("delta's size", of(Opcode::CR_DELTA).with(layout::TRANSFER_SIZE, 100), Status::ADDR_ALIGN),
        ("destination of a delta", of(Opcode::AP_DELTA).with(layout::DESTINATION, B + 1), Status::ADDR_ALIGN),
        ("seed's address", asked(Descriptor::crc(A, 8, 0).with_seed_from(C + 2)), Status::ADDR_ALIGN),
        ("destination of DIX", of(Opcode::DIX_GEN).with(layout::DESTINATION, B + 4), Status::ADDR_ALIGN),
        (
            "stride of 2048",
            of(Opcode::TRANSL_FETCH).with_flags(Flags::STRIDE_VALID).with(layout::STRIDE, 2048),
            Status::ADDR_ALIGN,
        ),
        (
            "stride of 12288",
            of(Opcode::TRANSL_FETCH).with_flags(Flags::STRIDE_VALID).with(layout::STRIDE, 12288),
            Status::ADDR_ALIGN,
        ),
        ("copy and CRC overlap", of(Opcode::COPY_CRC).with(layout::DESTINATION, A + 99), Status::OVERLAP_BUFFERS),
        ("dualcast overlaps its source", of(Opcode::DUALCAST).with(layout::DESTINATION, A), Status::OVERLAP_BUFFERS),
        (
            "dualcast's second overlaps its source",
            of(Opcode::DUALCAST).with(layout::DESTINATION_2, A),
            Status::OVERLAP_BUFFERS,
        ),
        (
            "dualcast's destinations overlap",
            of(Opcode::DUALCAST).with(layout::DESTINATION_2, B),
            Status::OVERLAP_BUFFERS,
        ),
        (
            "delta record in the first source",
            of(Opcode::CR_DELTA).with(layout::DELTA_CREATE, A + 127),
            Status::OVERLAP_BUFFERS,
        ),
        (
            "delta record before the second source",
            of(Opcode::CR_DELTA).with(layout::DELTA_CREATE, B - 79),
            Status::OVERLAP_BUFFERS,
        ),
        ("delta applied to itself", of(Opcode::AP_DELTA).with(layout::DELTA_APPLY, B + 120), Status::OVERLAP_BUFFERS),
        (
            "inserted tuples reach the source",
            of(Opcode::DIF_INS).with(layout::DESTINATION, A - 519),
            Status::OVERLAP_BUFFERS,
        ),
        ("strip overlaps", of(Opcode::DIF_STRP).with(layout::DESTINATION, A + 519), Status::OVERLAP_BUFFERS),
        ("update overlaps", of(Opcode::DIF_UPDT).with(layout::DESTINATION, A + 519), Status::OVERLAP_BUFFERS),
        ("dualcast's pages", of(Opcode::DUALCAST).with(layout::DESTINATION_2, C + 64), Status::DCAST_ERR),
    ];
    for (what, descriptor, status) in rows {
        assert_eq!(judge(&descriptor).map_err(|refusal| refusal.status), Err(status), "{what}: {descriptor:?}");
    }
}

/// What is just inside of each limit.
#[test]
fn limits_are_exact() {
    let of = find;
    let rows = [
        of(Opcode::MEMMOVE).with(layout::TRANSFER_SIZE, 2 << 20),
        of(Opcode::MEMMOVE).with(layout::DESTINATION, A + 50),
        of(Opcode::CR_DELTA)
            .with(layout::TRANSFER_SIZE, 0x8_0000)
            .with(layout::SOURCE_2, 1 << 30)
            .with(layout::DELTA_CREATE, 1 << 31),
        of(Opcode::TRANSL_FETCH).with(layout::FETCH_ADDRESS, u64::MAX - 99),
        of(Opcode::BATCH).with(layout::COUNT, 32),
        of(Opcode::CR_DELTA).with(layout::DELTA_MAX, 80).with(layout::DELTA_CREATE, B - 80),
        of(Opcode::COPY_CRC).with(layout::DESTINATION, A + 100),
        of(Opcode::DIF_INS).with(layout::DESTINATION, A - 520),
        of(Opcode::COMPARE).with(layout::EXPECTED_RESULT, 0xff),
        of(Opcode::MEMMOVE).with_flags(Flags::BOF | Flags::STORD | Flags::CC | Flags::ADDR1_TCS | Flags::CR_TCS),
        of(Opcode::CFLUSH).with_flags(Flags::DRDBK),
        of(Opcode::DIF_UPDT).with(layout::DIF_DESTINATION_FLAGS, 0xf8),
    ];
    for descriptor in rows {
        assert_eq!(judge(&descriptor), Ok(()), "{descriptor:?}");
    }
}

/// Every reserved byte of every operation, one at a time.
#[test]
fn a_stray_byte_is_found_wherever_it_is() {
    for descriptor in good() {
        let reserved = Layout::of(descriptor.opcode()).unwrap().reserved_bytes(descriptor.flags());
        for byte in (8..64).filter(|byte| reserved >> byte & 1 == 1) {
            let mut bytes = descriptor.to_bytes();
            bytes[byte] = 0x80;
            let refusal = judge(&Descriptor::from_bytes(&bytes)).unwrap_err();
            assert_eq!(
                (refusal.status, refusal.rule),
                (Status::NOZERO_RESERVE, Rule::StrayByte),
                "byte {byte} of {descriptor:?}"
            );
            assert!(refusal.what.contains(&byte.to_string()), "{}", refusal.what);
        }
    }
}

#[test]
fn what_the_device_lacks_is_refused() {
    let lacking = |bits: GenCap| {
        let device = device();
        let rest = GenCap(device.gencap.0 & !bits.0);
        device.gencap(rest)
    };
    let bytes = 128;
    let rows = [
        (lacking(GenCap::OVERLAPPING_COPY), asked(Descriptor::memmove(A, A + 64, bytes)), Status::OVERLAP_BUFFERS),
        (
            lacking(GenCap::CACHE_CONTROL),
            asked(Descriptor::memmove(A, B, bytes).with_flags(Flags::CC)),
            Status::INVALID_FLAGS,
        ),
        (
            lacking(GenCap::DEST_READBACK),
            asked(Descriptor::memmove(A, B, bytes).with_flags(Flags::DRDBK)),
            Status::INVALID_FLAGS,
        ),
        (lacking(GenCap::FILL_16), asked(Descriptor::fill_16(1, B, bytes)), Status::INVALID_FLAGS),
        (lacking(GenCap::CRC_64), asked(Descriptor::crc(A, bytes, 0).with_flags(Flags::CRC_64)), Status::INVALID_FLAGS),
        (
            lacking(GenCap::DRAIN_READBACK),
            asked(Descriptor::drain().with_flags(Flags::READBACK1_VALID)),
            Status::INVALID_FLAGS,
        ),
        (
            lacking(GenCap::BATCH_CONTINUATION),
            asked(Descriptor::batch(A, 2).with_flags(Flags::BATCH_ERROR)),
            Status::INVALID_FLAGS,
        ),
        (
            lacking(GenCap::FETCH_STRIDE),
            asked(Descriptor::translation_fetch(A, 99).with_flags(Flags::STRIDE_VALID)),
            Status::INVALID_FLAGS,
        ),
        (
            device().gencap(device().gencap.union(GenCap::NO_STORD_MEMORY)),
            asked(Descriptor::memmove(A, B, bytes).with_flags(Flags::STORD)),
            Status::INVALID_FLAGS,
        ),
        (
            DeviceConfig::v1().queue(QueueConfig::shared(1)),
            asked(Descriptor::translation_fetch(A, bytes)),
            Status::BAD_OPCODE,
        ),
        (
            DeviceConfig::v1().queue(QueueConfig::shared(1)),
            asked(Descriptor::memmove(A, B, bytes).with_flags(Flags::BOF)),
            Status::INVALID_FLAGS,
        ),
        (
            DeviceConfig::v1().queue(QueueConfig::shared(1).op_config(OpCap::of(&[Opcode::NOOP]))),
            asked(Descriptor::memmove(A, B, bytes)),
            Status::BAD_OPCODE,
        ),
    ];
    for (device, descriptor, status) in rows {
        let judged = judge_on(&device, &descriptor, false).map_err(|refusal| refusal.status);
        assert_eq!(judged, Err(status), "{descriptor:?}");
    }
    let with_batch_1 = device().gencap(device().gencap.union(GenCap::BATCH_1));
    assert_eq!(judge_on(&with_batch_1, &asked(Descriptor::batch(A, 1)), false), Ok(()));
}

#[test]
fn a_child_may_have_a_fence_and_may_not_be_a_batch_or_drain() {
    let child = |descriptor: &Descriptor| judge_on(&device(), descriptor, true).map_err(|refusal| refusal.status);
    assert_eq!(child(&find(Opcode::MEMMOVE).with_flags(Flags::FENCE)), Ok(()));
    assert_eq!(child(&find(Opcode::NOOP).with_flags(Flags::FENCE)), Ok(()));
    assert_eq!(child(&find(Opcode::BATCH)), Err(Status::BAD_OPCODE));
    assert_eq!(child(&find(Opcode::DRAIN)), Err(Status::BAD_OPCODE));
}

#[test]
fn the_flags_at_fault_are_named() {
    let refusal = judge(&find(Opcode::MEMMOVE).with_flags(Flags::FENCE | Flags::CR)).unwrap_err();
    assert_eq!(refusal.flags, Flags::FENCE | Flags::CR);
    assert!(refusal.what.contains("FENCE|CR"), "{}", refusal.what);
}

/// Of two violations a strict device reports one or the other, and never a third.
#[test]
fn of_several_violations_any_is_reported() {
    let device = device();
    let descriptor = find(Opcode::MEMMOVE).with(layout::TRANSFER_SIZE, 0).with_flags(Flags::FENCE);
    let case = Case { descriptor: &descriptor, device: &device, queue: &device.queues[0], is_child: false };
    let mut dice = Dice::new(1);
    let drawn: std::collections::BTreeSet<u8> =
        (0..100).map(|_| check(&case, Some(&mut dice)).unwrap_err().status.code()).collect();
    assert_eq!(Vec::from_iter(drawn), [Status::INVALID_FLAGS.code(), Status::XFER_ERANGE.code()]);
    assert_eq!(check(&case, None).unwrap_err().status, Status::INVALID_FLAGS);
}
