//! The engine beside the naive one, on operations drawn from a fixed sequence: the same memory, the same verdict, at once and in pieces.

use super::super::operation::{Dif, DifBlock, DifEscape, DifTags, DifWrite, Kind, Pattern};
use super::*;

/// Operations of each kind; some two seconds unoptimized.
const DRAWS: u64 = 200;
/// Bytes of the memory that operations work on.
const MEMORY: usize = 64 << 10;

#[test]
fn data_and_verdict_are_those_of_the_naive_engine() {
    let mut verdicts = std::collections::BTreeMap::<String, usize>::new();
    for kind in Kind::ALL {
        for seed in 0..DRAWS {
            let mut dice = Dice(seed << 8 | kind as u64);
            let mut memory = aligned_memory(&mut dice);
            let operation = draw(&mut dice, kind, memory.bytes());
            let mut expected = memory.bytes().to_vec();
            let verdict = naive::perform(&mut expected, &operation);
            let name = format!("{verdict:?}");
            *verdicts.entry(name.split([' ', '(']).next().unwrap_or_default().to_owned()).or_default() += 1;
            let start = memory.bytes().to_vec();
            let says = |way: &str| format!("{way}, seed {seed}: {operation:?}");

            for stores in [Stores::Plain, Stores::Streamed] {
                memory.bytes().copy_from_slice(&start);
                let real = placed(&operation, memory.bytes().as_mut_ptr());
                // SAFETY: the operation was drawn to lie within the memory, which nobody else has.
                let answer = unsafe { perform(&real, stores) };
                assert_eq!(answer, Ok(verdict), "{}", says("at once"));
                assert!(memory.bytes() == expected, "{}", says("at once"));

                memory.bytes().copy_from_slice(&start);
                let budget = 1 << dice.below(15);
                let mut work = Work::new(&placed(&operation, memory.bytes().as_mut_ptr()), stores).unwrap();
                // Not one call too many is needed: a piece is a line at least, and a block at most ends beyond the budget.
                let calls = operation.len() + 1;
                // SAFETY: as above.
                let answer = (0..calls).find_map(|_| unsafe { work.advance(budget) });
                assert_eq!(answer, Some(verdict), "budget {budget}, {}", says("in pieces"));
                assert!(memory.bytes() == expected, "budget {budget}, {}", says("in pieces"));
            }
        }
    }
    // A test that always sees the same answer sees little.
    for verdict in ["Done", "Equal", "Differ", "Crc", "Delta", "DeltaOverflow", "DeltaMalformed", "DifMismatch"] {
        assert!(verdicts.get(verdict).is_some_and(|seen| *seen > 20), "{verdict}: {verdicts:?}");
    }
}

#[test]
fn nothing_at_all_is_answered_whatever_the_addresses() {
    let nowhere: *const u8 = std::ptr::null();
    let nowhere_mut: *mut u8 = std::ptr::null_mut();
    let (left, right) = (nowhere, nowhere);
    for (operation, verdict) in [
        (Operation::Nop, Verdict::Done),
        (Operation::Copy { src: nowhere, dst: nowhere_mut, len: 0 }, Verdict::Done),
        (Operation::Fill { pattern: Pattern::Eight([1; 8]), dst: nowhere_mut, len: 0 }, Verdict::Done),
        (Operation::Compare { left, right, len: 0 }, Verdict::Equal),
        (Operation::ComparePattern { src: nowhere, pattern: 1, len: 0 }, Verdict::Equal),
        (Operation::Crc { src: nowhere, len: 0, seed: 5 }, Verdict::Crc(5)),
        (Operation::CopyCrc { src: nowhere, dst: nowhere_mut, len: 0, seed: 6 }, Verdict::Crc(6)),
        (
            Operation::CreateDelta { original: left, modified: right, len: 0, record: nowhere_mut, record_max: 0 },
            Verdict::Delta { len: 0 },
        ),
        (Operation::ApplyDelta { record: nowhere, record_len: 0, dst: nowhere_mut, len: 0 }, Verdict::Done),
        (Operation::Flush { dst: nowhere_mut, len: 0 }, Verdict::Done),
    ] {
        // SAFETY: no byte of memory is asked for.
        assert_eq!(unsafe { perform(&operation, Stores::Streamed) }, Ok(verdict), "{operation:?}");
    }
}

#[test]
fn what_is_refused_is_not_begun() {
    let mut memory = vec![3; 4096];
    let start = memory.as_mut_ptr();
    // SAFETY: within the memory.
    let operation = Operation::CopyCrc { src: start, dst: unsafe { start.add(1) }, len: 100, seed: 0 };
    // SAFETY: the operation lies within the memory.
    assert!(matches!(unsafe { perform(&operation, Stores::Plain) }, Err(Failure::Refused { .. })));
    assert!(Work::new(&operation, Stores::Plain).is_err());
    assert!(memory.iter().all(|byte| *byte == 3));
}

/// Memory that begins at a multiple of 8, as deltas want it, but not of a line.
struct Memory(Vec<u8>, usize);

impl Memory {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.0[self.1..][..MEMORY]
    }
}

fn aligned_memory(dice: &mut Dice) -> Memory {
    let mut bytes = vec![0; MEMORY + 128];
    // Few values, so that ranges are equal for a while.
    let values = [2, 256][dice.below(2)];
    bytes.fill_with(|| if dice.below(8) == 0 { dice.below(values) as u8 } else { 0 });
    let start = bytes.as_ptr().align_offset(64) + 8;
    Memory(bytes, start)
}

/// Prepares the memory so that every verdict comes up, and draws an operation whose addresses are offsets.
fn draw(dice: &mut Dice, kind: Kind, memory: &mut [u8]) -> Operation {
    let at = |offset: usize| std::ptr::without_provenance(offset);
    let to = |offset: usize| std::ptr::without_provenance_mut(offset);
    // Three parts of the memory that are apart, whatever the operation makes of its size.
    const PART: usize = MEMORY / 4;
    let len = dice.size(12 << 10);
    let (src, dst, third) = (dice.below(64), PART + dice.below(64), 2 * PART + dice.below(64));
    let delta_len = len / 8 * 8;
    match kind {
        Kind::Nop => Operation::Nop,
        // Anywhere, so that they overlap in both directions.
        Kind::Copy => Operation::Copy { src: at(dice.below(PART)), dst: to(dice.below(PART)), len },
        Kind::Fill => {
            let bytes: [u8; 16] = std::array::from_fn(|_| dice.below(3) as u8);
            let eight =
                Pattern::Eight([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]);
            let pattern = [eight, Pattern::Sixteen(bytes), Pattern::Eight([bytes[0]; 8])][dice.below(3)];
            Operation::Fill { pattern, dst: to(dst), len }
        }
        Kind::Compare => {
            memory.copy_within(src..src + len, dst);
            if len > 0 && dice.below(3) > 0 {
                memory[dst + dice.below(len)] ^= 1;
            }
            Operation::Compare { left: at(src), right: at(dst), len }
        }
        Kind::ComparePattern => {
            let pattern = (dice.next() & 0xff_00ff) << dice.below(40);
            for offset in 0..len {
                memory[src + offset] = pattern.to_le_bytes()[offset % 8];
            }
            if len > 0 && dice.below(3) > 0 {
                memory[src + dice.below(len)] ^= 1;
            }
            Operation::ComparePattern { src: at(src), pattern, len }
        }
        Kind::Crc => Operation::Crc { src: at(src), len, seed: dice.next() as u32 },
        Kind::CopyCrc => Operation::CopyCrc { src: at(src), dst: to(dst), len, seed: dice.next() as u32 },
        Kind::Dualcast => Operation::Dualcast { src: at(src), dst: to(dst), dst2: to(third), len },
        Kind::CreateDelta => {
            let (original, modified) = (src / 8 * 8, dst / 8 * 8);
            memory.copy_within(original..original + delta_len, modified);
            for _ in 0..dice.below(200) {
                memory[modified + dice.below(delta_len + 1)] ^= 1;
            }
            let record_max = 80 + dice.below(400);
            Operation::CreateDelta {
                original: at(original),
                modified: at(modified),
                len: delta_len,
                record: to(third),
                record_max,
            }
        }
        Kind::ApplyDelta => {
            let entries = dice.below(60);
            let mut offset = 0;
            for entry in memory[third..].chunks_mut(10).take(entries) {
                entry[..2].copy_from_slice(&(offset as u16).to_le_bytes());
                // Now and then it stays where it is, or leaps.
                offset += if dice.below(60) == 0 { 0 } else { 1 + dice.below(1 + delta_len / 300) };
            }
            Operation::ApplyDelta { record: at(third), record_len: 10 * entries, dst: to(dst / 8 * 8), len: delta_len }
        }
        Kind::DifCheck | Kind::DifInsert | Kind::DifStrip | Kind::DifUpdate => {
            let dif = draw_dif(dice);
            let (block, blocks) = (dif.block.bytes(), len / dif.block.with_tuple());
            let bare = block * blocks;
            let whole = dif.block.with_tuple() * blocks;
            if kind == Kind::DifInsert {
                return Operation::DifInsert { src: at(src), dst: to(dst), len: bare, dif };
            }
            // Right information, and then, now and then, something wrong with it.
            let insert = Operation::DifInsert { src: at(third), dst: to(src), len: bare, dif };
            naive::perform(memory, &insert);
            if whole > 0 && dice.below(2) == 0 {
                let tuple = dice.below(blocks) * (block + 8) + block;
                match dice.below(3) {
                    0 => memory[src + dice.below(whole)] ^= 1,
                    1 => memory[src + tuple + 2..][..6].fill(0xff),
                    _ => memory[src + tuple..][..8].fill(0xff),
                }
            }
            match kind {
                Kind::DifCheck => Operation::DifCheck { src: at(src), len: whole, dif },
                Kind::DifStrip => Operation::DifStrip { src: at(src), dst: to(dst), len: whole, dif },
                _ => {
                    let write = DifWrite {
                        tags: draw_dif(dice).tags,
                        keep_guard: dice.flip(),
                        keep_application: dice.flip(),
                        keep_reference: dice.flip(),
                    };
                    Operation::DifUpdate { src: at(src), dst: to(dst), len: whole, check: dif, write }
                }
            }
        }
        Kind::Flush => Operation::Flush { dst: to(dst), len },
    }
}

fn draw_dif(dice: &mut Dice) -> Dif {
    use DifBlock::*;
    Dif {
        block: [B512, B512, B520, B520, B4096, B4104][dice.below(6)],
        tags: DifTags {
            reference: dice.next() as u32 | if dice.flip() { 0xffff_fff0 } else { 0 },
            reference_fixed: dice.flip(),
            application: dice.next() as u16 | if dice.flip() { 0xfff0 } else { 0 },
            application_mask: [0, 0x0ff0, 0xffff, 1][dice.below(4)],
            application_increments: dice.flip(),
        },
        invert_seed: dice.flip(),
        invert_result: dice.flip(),
        check_guard: dice.below(4) > 0,
        check_reference: dice.below(4) > 0,
        escape: [
            DifEscape::Never,
            DifEscape::Application,
            DifEscape::ApplicationAndReference,
            DifEscape::AllOnesIsFault,
        ][dice.below(4)],
    }
}

/// The operation whose addresses were offsets, in real memory.
fn placed(operation: &Operation, memory: *mut u8) -> Operation {
    let mut placed = *operation;
    // SAFETY: offsets were drawn within the memory.
    let put = |address: &mut *const u8| *address = unsafe { memory.add(address.addr()) };
    // SAFETY: as above.
    let put_mut = |address: &mut *mut u8| *address = unsafe { memory.add(address.addr()) };
    match &mut placed {
        Operation::Nop => {}
        Operation::Copy { src, dst, .. }
        | Operation::CopyCrc { src, dst, .. }
        | Operation::DifInsert { src, dst, .. }
        | Operation::DifStrip { src, dst, .. }
        | Operation::DifUpdate { src, dst, .. }
        | Operation::ApplyDelta { record: src, dst, .. } => (put(src), put_mut(dst)).0,
        Operation::Fill { dst, .. } | Operation::Flush { dst, .. } => put_mut(dst),
        Operation::Compare { left, right, .. } => (put(left), put(right)).0,
        Operation::ComparePattern { src, .. } | Operation::Crc { src, .. } | Operation::DifCheck { src, .. } => {
            put(src)
        }
        Operation::Dualcast { src, dst, dst2, .. } => (put(src), put_mut(dst), put_mut(dst2)).0,
        Operation::CreateDelta { original, modified, record, .. } => (put(original), put(modified), put_mut(record)).0,
    }
    placed
}

/// A fixed sequence (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Small ones as often as large ones.
    fn size(&mut self, most: usize) -> usize {
        let octave = self.below(15);
        self.below((1 << octave).min(most) + 1)
    }
}
