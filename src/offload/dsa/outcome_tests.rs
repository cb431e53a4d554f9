//! Every status with every operation, and every way to be interrupted: the parts make the same data and verdict as the whole.

use super::*;
use crate::offload::cpu::{self, Stores};
use crate::offload::{DifBlock, DifEscape, Kind, Pattern};

const TAGS: DifTags = DifTags {
    reference: u32::MAX - 1,
    reference_fixed: false,
    application: 7,
    application_mask: 0xf000,
    application_increments: true,
};
const DIF: Dif = Dif {
    block: DifBlock::B512,
    tags: TAGS,
    invert_seed: true,
    invert_result: false,
    check_guard: true,
    check_reference: true,
    escape: DifEscape::Never,
};
const WRITE: DifWrite = DifWrite {
    tags: DifTags { reference: 100, reference_fixed: true, ..TAGS },
    keep_guard: true,
    keep_application: false,
    keep_reference: false,
};
/// Of sources and destinations, in bytes: whole blocks of 512, of 520, and of 8.
const LEN: usize = 512 * 520 / 8;

/// An operation of each kind, over addresses.
fn operations(a: *const u8, b: *mut u8, c: *mut u8) -> [Operation; 15] {
    let len = LEN;
    [
        Operation::Nop,
        Operation::Copy { src: a, dst: b, len },
        Operation::Fill { pattern: Pattern::Eight(*b"abcdefgh"), dst: b, len },
        Operation::Compare { left: a, right: b, len },
        Operation::ComparePattern { src: a, pattern: 0x0807_0605_0403_0201, len },
        Operation::Crc { src: a, len, seed: 5 },
        Operation::CopyCrc { src: a, dst: b, len, seed: 6 },
        Operation::Dualcast { src: a, dst: b, dst2: c, len },
        Operation::CreateDelta { original: a, modified: b, len, record: c, record_max: 2 * LEN },
        Operation::ApplyDelta { record: a, record_len: 20, dst: b, len },
        Operation::DifCheck { src: a, len, dif: DIF },
        Operation::DifInsert { src: a, dst: b, len: LEN / 512 * 512, dif: DIF },
        Operation::DifStrip { src: a, dst: b, len, dif: DIF },
        Operation::DifUpdate { src: a, dst: b, len, check: DIF, write: WRITE },
        Operation::Flush { dst: b, len },
    ]
}

fn anywhere() -> [Operation; 15] {
    operations(0x10_0000 as *const u8, 0x20_0000 as *mut u8, 0x30_0000 as *mut u8)
}

fn record(status_byte: u8, result: u8, completed: usize) -> CompletionRecord {
    CompletionRecord { status_byte, result, completed: completed as u32, ..CompletionRecord::default() }
}

#[test]
fn every_status_has_its_class_with_every_operation() {
    /// P pending, D done, R resume, F finish, X refused, E failed; a letter an operation, in the order of `Kind::ALL`.
    fn classes(status: u8) -> &'static str {
        match status {
            0x00 => "PPPPPPPPPPPPPPP",
            0x01 | 0x02 => "DDDDDDDDDDDDDDD",
            0x03 => "ERRRRRRRFRRRRRR",
            0x04 => "EFFFFFFFFFFFFFF",
            0x07 | 0x08 => "EEEEEEEEEDEEEEE",
            0x09 => "EEEEEEEEEEDEDDE",
            0x10..=0x19 | 0x1c | 0x1e => "XXXXXXXXXXXXXXX",
            _ => "EEEEEEEEEEEEEEE",
        }
    }
    for byte in 0..=u8::MAX {
        // The upper bits are no part of the code; a record whose code is 0 and whose upper bits are not was never seen.
        let expected = classes(byte & 0x3f);
        for (operation, expected) in anywhere().into_iter().zip(expected.chars()) {
            // A DIF error names something that did not match.
            let found = match outcome(&Rest::whole(operation), &record(byte, u8::from(byte & 0x3f == 9), 0)) {
                Outcome::Pending => 'P',
                Outcome::Done(_) => 'D',
                Outcome::Resume { .. } => 'R',
                Outcome::Finish { .. } => 'F',
                Outcome::Refused { rest, .. } => {
                    assert_eq!(rest, Rest::whole(operation), "untouched");
                    'X'
                }
                Outcome::Failed(_) => 'E',
            };
            assert_eq!(found, expected, "status {byte:#04x} of {:?}", operation.kind());
        }
    }
}

#[test]
fn the_order_of_the_table_is_that_of_the_kinds() {
    assert_eq!(anywhere().map(|operation| operation.kind()), Kind::ALL);
}

#[test]
fn verdicts_are_read_where_each_operation_has_them() {
    let [_, _, _, compare, pattern, crc, copy_crc, _, delta, apply, dif, ..] = anywhere();
    let ok = |operation, result, completed, specific| {
        let record = CompletionRecord { specific: [specific, u64::MAX], ..record(1, result, completed) };
        outcome(&Rest { before: 1000, ..Rest::whole(operation) }, &record)
    };
    let failed = Outcome::Failed(Status::SUCCESS);
    for (found, expected) in [
        (ok(compare, 0, 9, 0), Outcome::Done(Verdict::Equal)),
        (ok(compare, 1, 9, 0), Outcome::Done(Verdict::Differ { at: 1009 })),
        (ok(compare, 1, LEN, 0), failed),
        (ok(compare, 2, 9, 0), failed),
        (ok(pattern, 0, 9, 0), Outcome::Done(Verdict::Equal)),
        (ok(pattern, 1, LEN, 0), failed),
        (ok(crc, 7, 9, 0xffff_ffff_0000_0005), Outcome::Done(Verdict::Crc(5))),
        (ok(copy_crc, 7, 9, 6), Outcome::Done(Verdict::Crc(6))),
        (ok(delta, 0, 9, 80), Outcome::Done(Verdict::Delta { len: 0 })),
        (ok(delta, 1, 0, 0xffff_ffff_0000_0050), Outcome::Done(Verdict::Delta { len: 80 })),
        (ok(delta, 1, 0, 2 * LEN as u64 + 1), failed),
        (ok(delta, 2, 64, 80), Outcome::Done(Verdict::DeltaOverflow)),
        (ok(delta, 3, 0, 80), failed),
        (ok(apply, 9, 9, 9), Outcome::Done(Verdict::Done)),
        (ok(dif, 9, 9, 9), Outcome::Done(Verdict::Done)),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_pattern_that_differs_is_looked_for_from_the_lower_bound() {
    let src = 0x1000 as *const u8;
    let operation = Operation::ComparePattern { src, pattern: 0x0807_0605_0403_0201, len: 100 };
    let rest = Rest { before: 5, ..Rest::whole(operation) };
    let Outcome::Finish { rest, fault: None } = outcome(&rest, &record(1, 1, 19)) else { panic!() };
    // Byte 19 of the range is compared with byte 3 of the pattern.
    let pattern = 0x0302_0108_0706_0504;
    assert_eq!(rest.operation, Operation::ComparePattern { src: src.wrapping_add(19), pattern, len: 81 });
    assert_eq!(rest.lift(Verdict::Differ { at: 2 }), Verdict::Differ { at: 26 });
}

#[test]
fn answers_about_data_carry_their_place() {
    let [.., apply, dif, insert, _, update, _] = anywhere();
    let told = |operation, status, result, completed| {
        outcome(&Rest { before: 3, ..Rest::whole(operation) }, &record(status, result, completed))
    };
    assert_eq!(told(apply, 0x07, 0, 10), Outcome::Done(Verdict::DeltaMalformed { applied: 13 }));
    assert_eq!(told(apply, 0x08, 0, 20), Outcome::Done(Verdict::DeltaMalformed { applied: 23 }));
    assert_eq!(told(apply, 0x08, 0, 21), Outcome::Failed(Status::DR_OFFSET_ERANGE), "more than there was");
    let fault = |guard, application, reference, all_ones| DifFault { guard, application, reference, all_ones };
    for (result, fault) in [
        (1, fault(true, false, false, false)),
        (2, fault(false, true, false, false)),
        (4, fault(false, false, true, false)),
        (8, fault(false, false, false, true)),
        (7, fault(true, true, true, false)),
    ] {
        let mismatch = Verdict::DifMismatch { block: 5, fault };
        assert_eq!(told(dif, 0x09, result, 2 * 520), Outcome::Done(mismatch));
        assert_eq!(told(update, 0x89, result, 2 * 520), Outcome::Done(mismatch));
    }
    let failed = Outcome::Failed(Status::DIF_ERR);
    assert_eq!(told(dif, 0x09, 1, 519), failed, "no whole blocks");
    assert_eq!(told(dif, 0x09, 1, LEN), failed, "no block is left to be wrong");
    assert_eq!(told(dif, 0x09, 0, 0), failed, "nothing is wrong");
    assert_eq!(told(insert, 0x09, 1, 0), failed, "nothing is checked");
}

#[test]
fn resumes_are_bounded_and_keep_the_page() {
    let [_, copy, ..] = anywhere();
    let page = 0xffff_8000_1234_5678_usize;
    let record = CompletionRecord { fault_address: page as u64, ..record(0x83, 0, 1) };
    let mut rest = Rest::whole(copy);
    for n in 1..=RESUMES_MAX {
        let Outcome::Resume { rest: next, fault } = outcome(&rest, &record) else { panic!("{n}") };
        assert_eq!((next.resumes, next.operation.len()), (n, LEN - n as usize));
        assert_eq!(fault, Fault { address: page, write: true });
        rest = next;
    }
    let Outcome::Finish { rest, fault: Some(fault) } = outcome(&rest, &record) else { panic!() };
    assert_eq!((rest.operation.len(), fault.write), (LEN - 1 - RESUMES_MAX as usize, true));
    assert!(matches!(
        outcome(&Rest::whole(copy), &CompletionRecord { status_byte: 0x03, ..record }),
        Outcome::Resume { fault: Fault { write: false, .. }, .. }
    ));
}

#[test]
fn a_count_beyond_the_operation_is_a_failure() {
    for operation in anywhere() {
        let beyond = operation.len() + 1;
        for status in [0x03, 0x04] {
            let found = outcome(&Rest::whole(operation), &record(status, 0, beyond));
            assert!(matches!(found, Outcome::Failed(_)), "{:?}", operation.kind());
        }
    }
}

#[test]
fn a_fault_after_the_last_byte_leaves_nothing_to_touch() {
    let [_, copy, ..] = anywhere();
    let Outcome::Finish { rest, fault: None } = outcome(&Rest::whole(copy), &record(0x83, 0, LEN)) else { panic!() };
    assert_eq!(rest.operation.len(), 0);
}

/// Pseudo-random numbers, always the same.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

/// What the device does before a fault, and says about it: the first `n` bytes of what the operation counts (the last, if from the back), done by the
/// CPU engine, and the record.
fn done_in_part(operation: &Operation, n: usize, backward: bool) -> (Operation, CompletionRecord) {
    let mut told = record(0x03, u8::from(backward), n);
    // Fields without a meaning hold anything.
    told.specific = [0x5a5a_5a5a_5a5a_5a5a, 0xa5a5_a5a5_a5a5_a5a5];
    let next = |tags: DifTags, blocks: usize| {
        let fixed = |fixed: bool| if fixed { 0 } else { blocks };
        CompletionRecord::tags_word(Tags {
            reference: tags.reference.wrapping_add(fixed(tags.reference_fixed) as u32),
            application: tags.application.wrapping_add(fixed(!tags.application_increments) as u16),
            application_mask: 0xbad,
        })
    };
    let part = match *operation {
        Operation::Copy { src, dst, len } if backward => {
            Operation::Copy { src: src.wrapping_add(len - n), dst: dst.wrapping_add(len - n), len: n }
        }
        Operation::Copy { src, dst, .. } => Operation::Copy { src, dst, len: n },
        Operation::Fill { pattern, dst, .. } => Operation::Fill { pattern, dst, len: n },
        Operation::Compare { left, right, .. } => Operation::Compare { left, right, len: n },
        Operation::ComparePattern { src, pattern, .. } => Operation::ComparePattern { src, pattern, len: n },
        Operation::Crc { src, seed, .. } => Operation::Crc { src, len: n, seed },
        Operation::CopyCrc { src, dst, seed, .. } => Operation::CopyCrc { src, dst, len: n, seed },
        Operation::Dualcast { src, dst, dst2, .. } => Operation::Dualcast { src, dst, dst2, len: n },
        Operation::CreateDelta { original, modified, record, record_max, .. } => {
            Operation::CreateDelta { original, modified, len: n, record, record_max }
        }
        Operation::ApplyDelta { record, dst, len, .. } => Operation::ApplyDelta { record, record_len: n, dst, len },
        Operation::DifCheck { src, dif, .. } => {
            told.specific[0] = next(dif.tags, n / 520);
            Operation::DifCheck { src, len: n, dif }
        }
        Operation::DifInsert { src, dst, dif, .. } => {
            told.specific[1] = next(dif.tags, n / 512);
            Operation::DifInsert { src, dst, len: n, dif }
        }
        Operation::DifStrip { src, dst, dif, .. } => {
            told.specific[0] = next(dif.tags, n / 520);
            Operation::DifStrip { src, dst, len: n, dif }
        }
        Operation::DifUpdate { src, dst, check, write, .. } => {
            told.specific = [next(check.tags, n / 520), next(write.tags, n / 520)];
            Operation::DifUpdate { src, dst, len: n, check, write }
        }
        Operation::Flush { dst, .. } => Operation::Flush { dst, len: n },
        Operation::Nop => Operation::Nop,
    };
    (part, told)
}

/// What an operation counts in, in bytes.
fn unit(operation: &Operation) -> usize {
    match operation.kind() {
        Kind::CreateDelta => 8,
        Kind::ApplyDelta => 10,
        Kind::DifInsert => 512,
        Kind::DifCheck | Kind::DifStrip | Kind::DifUpdate => 520,
        _ => 1,
    }
}

/// Memory for an operation of [`draw`], in words.
pub(crate) const MEMORY_WORDS: usize = 5 * LEN / 8;

/// Draws an operation, the `round`th kind in turn, over memory that it fills: overlapping copies, ranges that differ or not, good and bad records and
/// blocks.
pub(crate) fn draw(round: usize, draws: &mut Draws, memory: &mut [u64]) -> Operation {
    memory.iter_mut().zip(0..).for_each(|(word, n)| *word = n % 251);
    let base: *mut u8 = memory.as_mut_ptr().cast();
    // A dualcast's destinations agree in their lower 12 bits.
    let b = base.wrapping_add(LEN + 64);
    let c = b.wrapping_add(LEN.next_multiple_of(4096));
    let mut operation = operations(base, b, c)[round % 15];
    // SAFETY: here and below, everything lies in `memory`, which is this test's.
    let perform = |operation: &Operation| unsafe { cpu::perform(operation, Stores::Plain) }.unwrap();
    match &mut operation {
        // Overlaps in both directions, and none.
        Operation::Copy { src, dst, .. } => {
            (*src, *dst) = match draws.below(3) {
                0 => (base, base.wrapping_add(1 + draws.below(100))),
                1 => (base.wrapping_add(1 + draws.below(100)), base),
                _ => (base, b),
            };
        }
        Operation::Compare { right, left, len } => {
            perform(&Operation::Copy { src: *left, dst: right.cast_mut(), len: *len });
            if draws.below(2) == 0 {
                // SAFETY: as above.
                unsafe { right.cast_mut().add(draws.below(LEN)).write(0xff) };
            }
        }
        Operation::ComparePattern { src, pattern, len } => {
            let fill = Pattern::Eight(pattern.to_le_bytes());
            perform(&Operation::Fill { pattern: fill, dst: src.cast_mut(), len: *len });
            if draws.below(2) == 0 {
                // SAFETY: as above.
                unsafe { src.cast_mut().add(draws.below(LEN)).write(0xff) };
            }
        }
        Operation::CreateDelta { modified, .. } => {
            // SAFETY: as above.
            (0..draws.below(30)).for_each(|_| unsafe { modified.cast_mut().add(draws.below(LEN)).write(0xee) });
        }
        Operation::ApplyDelta { record, record_len, len, .. } => {
            let entries = 1 + draws.below(40);
            for n in 0..entries {
                // SAFETY: as above. One record in three has an entry that does not come after the one before.
                unsafe {
                    let entry = record.cast_mut().add(10 * n);
                    entry.cast::<u16>().write_unaligned((7 * n) as u16);
                    entry.add(2).cast::<u64>().write_unaligned(draws.below(usize::MAX) as u64);
                }
            }
            if draws.below(3) == 0 {
                // SAFETY: as above.
                unsafe { record.cast_mut().add(10 * draws.below(entries)).cast::<u16>().write_unaligned(0xffff) };
            }
            (*record_len, *len) = (10 * entries, LEN);
        }
        Operation::DifCheck { src, len, dif }
        | Operation::DifStrip { src, len, dif, .. }
        | Operation::DifUpdate { src, len, check: dif, .. } => {
            let plain = base.wrapping_add(3 * LEN);
            let len = *len / 520 * 512;
            let clean = Operation::DifInsert { src: plain, dst: src.cast_mut(), len: len / 2, dif: *dif };
            // The first half of the blocks from the end of the memory, the second from the same.
            perform(&clean);
            let half = len / 2 / 512;
            let tags = DifTags {
                reference: dif.tags.reference.wrapping_add(half as u32),
                application: dif.tags.application.wrapping_add(half as u16),
                ..dif.tags
            };
            let dst = src.cast_mut().wrapping_add(half * 520);
            perform(&Operation::DifInsert { src: plain, dst, len: len - half * 512, dif: Dif { tags, ..*dif } });
            if draws.below(3) == 0 {
                let block = draws.below(len / 512);
                // SAFETY: as above.
                unsafe { src.cast_mut().add(block * 520 + 100).write(0x99) };
            }
        }
        _ => {}
    }
    operation
}

#[test]
fn parts_make_the_whole_wherever_it_is_interrupted() {
    let mut draws = Draws(0x2545_f491_4f6c_dd1d);
    for round in 0..600 {
        let mut memory = vec![0; MEMORY_WORDS];
        let operation = draw(round, &mut draws, &mut memory);
        // SAFETY: what it accesses lies in `memory`, which is this test's.
        let perform = |operation: &Operation| unsafe { cpu::perform(operation, Stores::Plain) }.unwrap();
        let start = memory.clone();
        let expected = (perform(&operation), memory.clone());
        memory.copy_from_slice(&start);

        // The device does a part, faults, and is given the rest, as often as it may; the CPU ends it.
        let mut rest = Rest::whole(operation);
        let verdict = loop {
            let (unit, len) = (unit(&rest.operation), rest.operation.len());
            // One fault in four is at the first byte.
            let n = if draws.below(4) == 0 { 0 } else { draws.below(len / unit + 1) * unit };
            let backward = match rest.operation {
                // The direction that the hardware would have to take; any, where both are right.
                Operation::Copy { src, dst, len } if src.addr() < dst.addr() && dst.addr() < src.addr() + len => true,
                Operation::Copy { src, dst, len } if dst.addr() < src.addr() && src.addr() < dst.addr() + len => false,
                _ => draws.below(2) == 0 && matches!(rest.operation, Operation::Copy { .. }),
            };
            let (part, mut told) = done_in_part(&rest.operation, n, backward);
            let found = if n == 0 { Verdict::Done } else { perform(&part) };
            match found {
                // A difference before the fault is what the device tells.
                Verdict::Differ { .. } | Verdict::DifMismatch { .. } | Verdict::DeltaMalformed { .. } => {
                    break rest.lift(found);
                }
                Verdict::Crc(crc) => told.specific[0] = 0xdead_beef_0000_0000 | u64::from(crc),
                _ => {}
            }
            match outcome(&rest, &told) {
                Outcome::Resume { rest: next, .. } => rest = next,
                Outcome::Finish { rest, .. } => break rest.lift(perform(&rest.operation)),
                Outcome::Failed(_) if operation == Operation::Nop => break Verdict::Done,
                other => panic!("{other:?} of {rest:?}"),
            }
        };
        assert_eq!(verdict, expected.0, "round {round}: {operation:?}");
        assert!(memory == expected.1, "round {round}: the data of {operation:?}");
    }
}

#[test]
fn batches_are_judged_by_count_and_status() {
    let batch = |status, completed| {
        let record = CompletionRecord { fault_address: 0x7000, ..record(status, 0xff, completed) };
        batch_outcome(8, &record)
    };
    let list = Some(Fault { address: 0x7000, write: false });
    for (found, expected) in [
        (batch(0x00, 0), BatchOutcome::Pending),
        (batch(0x01, 8), BatchOutcome::Done),
        (batch(0xc1, 0), BatchOutcome::Done),
        (batch(0x05, 8), BatchOutcome::Done),
        (batch(0x05, 3), BatchOutcome::Stopped { ran: 3, fault: None }),
        (batch(0x05, 9), BatchOutcome::Failed(Status::BATCH_FAIL)),
        (batch(0x06, 5), BatchOutcome::Stopped { ran: 5, fault: list }),
        (batch(0x86, 0), BatchOutcome::Stopped { ran: 0, fault: list }),
        (batch(0x06, 8), BatchOutcome::Failed(Status::BATCH_PAGE_FAULT)),
        (batch(0x10, 0), BatchOutcome::Refused(Status::BAD_OPCODE)),
        (batch(0x14, 0), BatchOutcome::Refused(Status::DESC_CNT_ERANGE)),
        (batch(0x18, 0), BatchOutcome::Refused(Status::DESCLIST_ALIGN)),
        (batch(0x20, 0), BatchOutcome::Failed(Status::HW_ERR1)),
        (batch(0x03, 0), BatchOutcome::Failed(Status::PAGE_FAULT_NOBOF)),
    ] {
        assert_eq!(found, expected);
    }
}

#[test]
fn a_childs_own_record_has_the_word() {
    let stopped = BatchOutcome::Stopped { ran: 3, fault: None };
    let (refused, failed) = (BatchOutcome::Refused(Status::BAD_OPCODE), BatchOutcome::Failed(Status::HW_ERR1));
    for (batch, index, answered, expected) in [
        (BatchOutcome::Done, 0, true, Child::Answered),
        (BatchOutcome::Done, 0, false, Child::Unknown),
        (stopped, 2, true, Child::Answered),
        (stopped, 2, false, Child::Unknown),
        (stopped, 3, false, Child::NeverRan),
        (stopped, 3, true, Child::Answered),
        (refused, 0, false, Child::NeverRan),
        (failed, 0, true, Child::Answered),
        (failed, 0, false, Child::Unknown),
        (BatchOutcome::Pending, 0, false, Child::Unknown),
    ] {
        assert_eq!(child(batch, index, answered), expected, "{batch:?} {index} {answered}");
    }
}
