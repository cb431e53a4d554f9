//! Every operation byte by byte, from the specification's sentences and nothing else: what the engine is compared with.

use super::super::operation::{DifEscape, DifTags};
use super::super::verdict::DifFault;
use super::super::{Dif, Operation, Pattern, Verdict};

/// What the operation does to `memory`, and its verdict. Addresses are offsets into it; the operation is one that is not refused.
pub(super) fn perform(memory: &mut [u8], operation: &Operation) -> Verdict {
    let before = memory.to_vec();
    match *operation {
        Operation::Nop | Operation::Flush { .. } => Verdict::Done,
        Operation::Copy { src, dst, len } => {
            copy(memory, &before, src, dst, len);
            Verdict::Done
        }
        Operation::Fill { pattern, dst, len } => {
            let pattern = match pattern {
                Pattern::Eight(bytes) => bytes.to_vec(),
                Pattern::Sixteen(bytes) => bytes.to_vec(),
            };
            for at in 0..len {
                memory[dst.addr() + at] = pattern[at % pattern.len()];
            }
            Verdict::Done
        }
        Operation::Compare { left, right, len } => {
            match (0..len).find(|at| before[left.addr() + at] != before[right.addr() + at]) {
                Some(at) => Verdict::Differ { at },
                None => Verdict::Equal,
            }
        }
        Operation::ComparePattern { src, pattern, len } => {
            match (0..len).find(|at| before[src.addr() + at] != (pattern >> (8 * (at % 8))) as u8) {
                Some(at) => Verdict::Differ { at },
                None => Verdict::Equal,
            }
        }
        Operation::Crc { src, len, seed } => Verdict::Crc(crc_32c(&before[src.addr()..][..len], seed)),
        Operation::CopyCrc { src, dst, len, seed } => {
            copy(memory, &before, src, dst, len);
            Verdict::Crc(crc_32c(&before[src.addr()..][..len], seed))
        }
        Operation::Dualcast { src, dst, dst2, len } => {
            copy(memory, &before, src, dst, len);
            copy(memory, &before, src, dst2, len);
            Verdict::Done
        }
        Operation::CreateDelta { original, modified, len, record, record_max } => {
            let mut entries = Vec::new();
            for unit in 0..len / 8 {
                let new = &before[modified.addr() + 8 * unit..][..8];
                if &before[original.addr() + 8 * unit..][..8] != new {
                    entries.push((unit % 256) as u8);
                    entries.push((unit / 256) as u8);
                    entries.extend_from_slice(new);
                }
            }
            let fits = entries.len() <= record_max;
            // What of the record is written when it overflows is nobody's business; the engine stops at the last whole entry.
            let written = if fits { entries.len() } else { record_max / 10 * 10 };
            memory[record.addr()..][..written].copy_from_slice(&entries[..written]);
            if fits { Verdict::Delta { len: entries.len() } } else { Verdict::DeltaOverflow }
        }
        Operation::ApplyDelta { record, record_len, dst, len } => {
            let mut last = -1;
            for at in (0..record_len).step_by(10) {
                let entry = &before[record.addr() + at..][..10];
                let offset = i64::from(entry[0]) + 256 * i64::from(entry[1]);
                if offset <= last || offset * 8 >= len as i64 {
                    return Verdict::DeltaMalformed { applied: at };
                }
                memory[dst.addr() + 8 * offset as usize..][..8].copy_from_slice(&entry[2..]);
                last = offset;
            }
            Verdict::Done
        }
        Operation::DifCheck { src, len, dif } => dif_run(&before[src.addr()..][..len], &dif, |_, _, _| ()),
        Operation::DifInsert { src, dst, len, dif } => {
            let (block, mut to) = (dif.block.bytes(), dst.addr());
            for (number, data) in before[src.addr()..][..len].chunks(block).enumerate() {
                memory[to..][..block].copy_from_slice(data);
                memory[to + block..][..8].copy_from_slice(&tuple(data, &dif, &dif.tags, number));
                to += block + 8;
            }
            Verdict::Done
        }
        Operation::DifStrip { src, dst, len, dif } => dif_run(&before[src.addr()..][..len], &dif, |number, data, _| {
            memory[dst.addr() + number * data.len()..][..data.len()].copy_from_slice(data);
        }),
        Operation::DifUpdate { src, dst, len, check, write } => {
            dif_run(&before[src.addr()..][..len], &check, |number, data, stored| {
                let mut new = tuple(data, &check, &write.tags, number);
                for (keep, range) in
                    [(write.keep_guard, 0..2), (write.keep_application, 2..4), (write.keep_reference, 4..8)]
                {
                    if keep {
                        new[range.clone()].copy_from_slice(&stored[range]);
                    }
                }
                let to = dst.addr() + number * (data.len() + 8);
                memory[to..][..data.len()].copy_from_slice(data);
                memory[to + data.len()..][..8].copy_from_slice(&new);
            })
        }
    }
}

fn copy(memory: &mut [u8], before: &[u8], src: *const u8, dst: *mut u8, len: usize) {
    memory[dst.addr()..][..len].copy_from_slice(&before[src.addr()..][..len]);
}

/// Bit by bit: the reflected polynomial 0x1EDC6F41, seed and result inverted.
fn crc_32c(bytes: &[u8], seed: u32) -> u32 {
    let mut register = !seed;
    for byte in bytes {
        register ^= u32::from(*byte);
        for _ in 0..8 {
            register = if register & 1 == 1 { register >> 1 ^ 0x82f6_3b78 } else { register >> 1 };
        }
    }
    !register
}

/// Bit by bit: the polynomial 0x8BB7, most significant bit first.
fn crc_t10(bytes: &[u8], seed: u16) -> u16 {
    let mut register = seed;
    for byte in bytes {
        register ^= u16::from(*byte) << 8;
        for _ in 0..8 {
            register = if register & 0x8000 != 0 { register << 1 ^ 0x8bb7 } else { register << 1 };
        }
    }
    register
}

fn tuple(data: &[u8], dif: &Dif, tags: &DifTags, number: usize) -> [u8; 8] {
    let guard = crc_t10(data, if dif.invert_seed { 0xffff } else { 0 }) ^ if dif.invert_result { 0xffff } else { 0 };
    let count = |counts: bool| if counts { number as u64 } else { 0 };
    let application =
        (u64::from(tags.application) + count(tags.application_increments)) as u16 & !tags.application_mask;
    let reference = (u64::from(tags.reference) + count(!tags.reference_fixed)) as u32;
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&guard.to_be_bytes());
    bytes[2..4].copy_from_slice(&application.to_be_bytes());
    bytes[4..].copy_from_slice(&reference.to_be_bytes());
    bytes
}

fn dif_run(src: &[u8], dif: &Dif, mut good: impl FnMut(usize, &[u8], &[u8])) -> Verdict {
    let block = dif.block.bytes();
    for (number, both) in src.chunks(block + 8).enumerate() {
        let (data, stored) = both.split_at(block);
        let ones = |range: std::ops::Range<usize>| stored[range].iter().all(|byte| *byte == 0xff);
        let escaped = match dif.escape {
            DifEscape::Application => ones(2..4),
            DifEscape::ApplicationAndReference => ones(2..8),
            DifEscape::Never | DifEscape::AllOnesIsFault => false,
        };
        if !escaped {
            let right = tuple(data, dif, &dif.tags, number);
            let mut application = [stored[2], stored[3]];
            for (byte, mask) in application.iter_mut().zip(dif.tags.application_mask.to_be_bytes()) {
                *byte &= !mask;
            }
            let fault = if dif.escape == DifEscape::AllOnesIsFault && ones(0..8) {
                DifFault { all_ones: true, ..DifFault::default() }
            } else {
                DifFault {
                    guard: dif.check_guard && stored[..2] != right[..2],
                    application: application != right[2..4],
                    reference: dif.check_reference && stored[4..] != right[4..],
                    all_ones: false,
                }
            };
            if fault != DifFault::default() {
                return Verdict::DifMismatch { block: number, fault };
            }
        }
        good(number, data, stored);
    }
    Verdict::Done
}
