//! Sizes in bins: sixteen to an octave, so that a table of bits stands for all of them.
//!
//! All sizes of a bin are treated as the one in its middle, from which they differ by 3 % at most: so much may be lost where the engines are equal.

/// Octaves of sizes that are told apart: from 16 B to 256 GiB. Smaller sizes are in the first, larger ones in the last.
pub(super) const OCTAVES: usize = 34;
/// The first octave: sizes below 2^(4+1).
const FIRST: u32 = 4;
/// Bins an octave.
pub(super) const PARTS: usize = 1 << PARTS_LOG2;
const PARTS_LOG2: u32 = 4;
/// All bins.
pub(super) const BINS: usize = OCTAVES * PARTS;
/// Words that hold a bit for each bin.
pub(super) const WORDS: usize = BINS.div_ceil(64);

/// The octave of a size.
#[inline(always)]
pub(super) fn octave_of(len: usize) -> usize {
    // As `bin_of` has it, without the part.
    ((63 - (len as u64 | 1 << FIRST).leading_zeros() - FIRST) as usize).min(OCTAVES - 1)
}

/// The bin of a size.
#[inline(always)]
pub(super) fn bin_of(len: usize) -> usize {
    let len = (len as u64).max(1 << FIRST);
    let octave = 63 - len.leading_zeros();
    // The bits below the highest.
    let part = (len >> (octave - PARTS_LOG2)) as usize & (PARTS - 1);
    ((octave - FIRST) as usize * PARTS + part).min(BINS - 1)
}

/// The smallest size of a bin.
pub(super) fn edge(bin: usize) -> usize {
    match bin {
        0 => 0,
        _ => (PARTS + bin % PARTS) << (bin / PARTS + (FIRST - PARTS_LOG2) as usize),
    }
}

/// A size in the middle of a bin, which stands for all of it.
pub(super) fn middle(bin: usize) -> usize {
    let octave = bin / PARTS + FIRST as usize;
    ((2 * (PARTS + bin % PARTS) + 1) << octave) / (2 * PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_follow_each_other_without_gaps() {
        assert_eq!([0, 16, 17, 32, 33, 34, usize::MAX].map(bin_of), [0, 0, 1, 16, 16, 17, BINS - 1]);
        assert_eq!([0, 15, 16, 31, 32, usize::MAX].map(octave_of), [0, 0, 0, 0, 1, OCTAVES - 1]);
        for bin in 1..BINS {
            assert!(edge(bin) > edge(bin - 1) && edge(bin) <= middle(bin), "{bin}");
            assert_eq!((bin_of(edge(bin)), bin_of(edge(bin) - 1), bin_of(middle(bin))), (bin, bin - 1, bin));
            assert_eq!(octave_of(middle(bin)), bin / PARTS, "{bin}");
        }
    }
}
