//! Where do two ranges first differ, or a range and a pattern?

use super::super::Verdict;

/// Compared at once, in bytes: `memcmp` finds fast whether a piece differs, and the search for where stays short.
const PIECE: usize = 4 << 10;
/// Bytes of a pattern.
const WORD: usize = 8;
/// Words that are looked at together; the compiler makes vectors of them.
const WORDS: usize = 8;

/// # Safety
/// Both ranges are readable for `len` bytes.
pub(super) unsafe fn compare(left: *const u8, right: *const u8, len: usize) -> Verdict {
    // SAFETY: as this function demands.
    let (left, right) = unsafe { (std::slice::from_raw_parts(left, len), std::slice::from_raw_parts(right, len)) };
    let differing = left.chunks(PIECE).zip(right.chunks(PIECE)).position(|(left, right)| left != right);
    let Some(piece) = differing else { return Verdict::Equal };
    let from = piece * PIECE;
    match left[from..].iter().zip(&right[from..]).position(|(left, right)| left != right) {
        Some(at) => Verdict::Differ { at: from + at },
        // The memory changed between the two looks, which the caller ruled out; either answer was true at a time.
        None => Verdict::Equal,
    }
}

/// # Safety
/// The range is readable for `len` bytes.
pub(super) unsafe fn compare_pattern(src: *const u8, pattern: u64, len: usize) -> Verdict {
    let pattern = pattern.to_le_bytes();
    // SAFETY: as this function demands.
    let src = unsafe { std::slice::from_raw_parts(src, len) };
    // As it lies in memory, so that words compare as bytes do on any cpu.
    let word = u64::from_ne_bytes(pattern);
    let differs = |block: &[u8]| {
        let words = block.chunks_exact(WORD).map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap_or_default()));
        words.fold(0, |all, each| all | (each ^ word)) != 0
    };
    let blocks = src.chunks_exact(WORD * WORDS);
    let from = blocks.clone().position(differs).unwrap_or(blocks.len()) * WORD * WORDS;
    // Blocks begin at multiples of the pattern, so its phase is that of the offset.
    match src[from..].iter().enumerate().position(|(at, byte)| *byte != pattern[at % WORD]) {
        Some(at) => Verdict::Differ { at: from + at },
        None => Verdict::Equal,
    }
}
