//! T10 DIF: blocks with 8 bytes of protection information behind each: guard, application tag, reference tag, all big-endian.

use crc_fast::{CrcAlgorithm, Digest};

use super::super::operation::{DifEscape, DifTags, DifWrite};
use super::super::verdict::DifFault;
use super::super::{Dif, DifBlock, Verdict};

/// Bytes of protection information.
const TUPLE: usize = DifBlock::TUPLE.get() as usize;

/// # Safety
/// `src` is readable for `len` bytes, whole blocks with their information.
pub(super) unsafe fn check(src: *const u8, len: usize, dif: &Dif) -> Verdict {
    // SAFETY: as this function demands.
    let src = unsafe { std::slice::from_raw_parts(src, len) };
    first_fault(src, dif, |_, _, _| ())
}

/// # Safety
/// `src` is readable for `len` bytes, whole blocks; `dst` is writable for as many blocks with their information; they do not overlap.
pub(super) unsafe fn insert(src: *const u8, dst: *mut u8, len: usize, dif: &Dif) {
    let (block, step) = (dif.block.bytes(), dif.block.with_tuple());
    // SAFETY: as this function demands.
    let src = unsafe { std::slice::from_raw_parts(src, len) };
    for (number, data) in src.chunks_exact(block).enumerate() {
        let tuple = Tuple { guard: guard(data, dif), ..Tuple::expected(&dif.tags, number) };
        // SAFETY: the destination has room for this block and what is behind it.
        unsafe { put(dst.add(number * step), data, Some(tuple)) };
    }
}

/// # Safety
/// `src` is readable for `len` bytes, whole blocks with their information; `dst` is writable for as many blocks without; they do not overlap.
pub(super) unsafe fn strip(src: *const u8, dst: *mut u8, len: usize, dif: &Dif) -> Verdict {
    let block = dif.block.bytes();
    // SAFETY: as this function demands.
    let src = unsafe { std::slice::from_raw_parts(src, len) };
    // SAFETY: the destination has room for every block of the source.
    first_fault(src, dif, |number, data, _| unsafe { put(dst.add(number * block), data, None) })
}

/// # Safety
/// `src` is readable and `dst` writable for `len` bytes, whole blocks with their information; they do not overlap.
pub(super) unsafe fn update(src: *const u8, dst: *mut u8, len: usize, dif: &Dif, write: &DifWrite) -> Verdict {
    let step = dif.block.with_tuple();
    // SAFETY: as this function demands.
    let src = unsafe { std::slice::from_raw_parts(src, len) };
    first_fault(src, dif, |number, data, stored| {
        let new = Tuple::expected(&write.tags, number);
        let tuple = Tuple {
            guard: if write.keep_guard { stored.guard } else { guard(data, dif) },
            application: if write.keep_application { stored.application } else { new.application },
            reference: if write.keep_reference { stored.reference } else { new.reference },
        };
        // SAFETY: the destination has room for this block and what is behind it.
        unsafe { put(dst.add(number * step), data, Some(tuple)) };
    })
}

/// Checks block after block, and hands each good one (number, data, stored information) on.
fn first_fault(src: &[u8], dif: &Dif, mut good: impl FnMut(usize, &[u8], Tuple)) -> Verdict {
    for (number, block) in src.chunks_exact(dif.block.with_tuple()).enumerate() {
        let (data, stored) = block.split_at(dif.block.bytes());
        let stored = Tuple::from_bytes(stored);
        let fault = fault_of(data, stored, dif, number);
        if fault != DifFault::default() {
            return Verdict::DifMismatch { block: number, fault };
        }
        good(number, data, stored);
    }
    Verdict::Done
}

fn fault_of(data: &[u8], stored: Tuple, dif: &Dif, number: usize) -> DifFault {
    if stored.is_escaped(dif.escape) {
        return DifFault::default();
    }
    if dif.escape == DifEscape::AllOnesIsFault && stored == Tuple::ALL_ONES {
        return DifFault { all_ones: true, ..DifFault::default() };
    }
    let expected = Tuple::expected(&dif.tags, number);
    DifFault {
        guard: dif.check_guard && stored.guard != guard(data, dif),
        // Both sides without the masked bits: `expected` has none of them.
        application: stored.application & !dif.tags.application_mask != expected.application,
        reference: dif.check_reference && stored.reference != expected.reference,
        all_ones: false,
    }
}

/// What stands behind a block.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tuple {
    guard: u16,
    application: u16,
    reference: u32,
}

impl Tuple {
    const ALL_ONES: Self = Self { guard: u16::MAX, application: u16::MAX, reference: u32::MAX };

    fn from_bytes(bytes: &[u8]) -> Self {
        let bytes: [u8; TUPLE] = bytes.try_into().unwrap_or_default();
        let [g0, g1, a0, a1, r0, r1, r2, r3] = bytes;
        Self {
            guard: u16::from_be_bytes([g0, g1]),
            application: u16::from_be_bytes([a0, a1]),
            reference: u32::from_be_bytes([r0, r1, r2, r3]),
        }
    }

    fn to_bytes(self) -> [u8; TUPLE] {
        let ([g0, g1], [a0, a1]) = (self.guard.to_be_bytes(), self.application.to_be_bytes());
        let [r0, r1, r2, r3] = self.reference.to_be_bytes();
        [g0, g1, a0, a1, r0, r1, r2, r3]
    }

    /// The tags of a block, masked bits being 0; the guard is left to others. Both tags wrap around.
    fn expected(tags: &DifTags, number: usize) -> Self {
        let tags = tags.after(number);
        Self { guard: 0, application: tags.application & !tags.application_mask, reference: tags.reference }
    }

    fn is_escaped(self, escape: DifEscape) -> bool {
        match escape {
            DifEscape::Never | DifEscape::AllOnesIsFault => false,
            DifEscape::Application => self.application == u16::MAX,
            DifEscape::ApplicationAndReference => self.application == u16::MAX && self.reference == u32::MAX,
        }
    }
}

impl DifTags {
    /// The tags of a run that begins so many blocks later.
    pub(crate) fn after(self, blocks: usize) -> Self {
        // Truncation is meant: tags count modulo their width.
        let reference = if self.reference_fixed { 0 } else { blocks as u32 };
        let application = if self.application_increments { blocks as u16 } else { 0 };
        Self {
            reference: self.reference.wrapping_add(reference),
            application: self.application.wrapping_add(application),
            ..self
        }
    }
}

/// CRC-16/T10-DIF of a block's data, with the inversions that `dif` asks for.
fn guard(data: &[u8], dif: &Dif) -> u16 {
    let seed = if dif.invert_seed { u16::MAX } else { 0 };
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc16T10Dif, u64::from(seed));
    digest.update(data);
    // A CRC of 16 bits stands in the lowest.
    let crc = digest.finalize() as u16;
    if dif.invert_result { !crc } else { crc }
}

/// # Safety
/// `dst` is writable for the data, and for the information if there is some, and overlaps `data` nowhere.
unsafe fn put(dst: *mut u8, data: &[u8], tuple: Option<Tuple>) {
    // SAFETY: as this function demands.
    unsafe {
        std::ptr::copy_nonoverlapping(data.as_ptr(), dst, data.len());
        if let Some(tuple) = tuple {
            std::ptr::copy_nonoverlapping(tuple.to_bytes().as_ptr(), dst.add(data.len()), TUPLE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Dif = Dif {
        block: DifBlock::B512,
        tags: DifTags {
            reference: u32::MAX,
            reference_fixed: false,
            application: 0x1234,
            application_mask: 0x00f0,
            application_increments: true,
        },
        invert_seed: false,
        invert_result: false,
        check_guard: true,
        check_reference: true,
        escape: DifEscape::Never,
    };

    /// The check value of the CRC catalogue, and T10's own vectors (SBC-4, "CRC examples").
    #[test]
    fn published_guards() {
        let ascending: Vec<u8> = (0..32).collect();
        for (bytes, crc) in
            [(&b"123456789"[..], 0xd0db), (&[0; 32], 0x0000), (&[0xff; 32], 0xa293), (&ascending, 0x0224)]
        {
            assert_eq!(guard(bytes, &PLAIN), crc, "{bytes:?}");
        }
        let inverted = Dif { invert_seed: true, invert_result: true, ..PLAIN };
        // All ones through 512 zeros, and back: neither inversion is lost.
        let seeded = guard(&[0; 512], &Dif { invert_result: false, ..inverted });
        assert_ne!(seeded, 0);
        assert_eq!(guard(&[0; 512], &inverted), !seeded);
    }

    #[test]
    fn tags_are_big_endian_count_and_wrap() {
        let bytes = |number| Tuple { guard: 0xabcd, ..Tuple::expected(&PLAIN.tags, number) }.to_bytes();
        assert_eq!(bytes(0), [0xab, 0xcd, 0x12, 0x04, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(bytes(1), [0xab, 0xcd, 0x12, 0x05, 0, 0, 0, 0]);
        let fixed = DifTags { reference_fixed: true, application_increments: false, ..PLAIN.tags };
        assert!(Tuple::expected(&fixed, 7) == Tuple::expected(&fixed, 0));
        assert!(Tuple::from_bytes(&bytes(1)).to_bytes() == bytes(1));
    }

    #[test]
    fn faults_are_told_apart() {
        let data = [7; 512];
        let right = Tuple { guard: guard(&data, &PLAIN), ..Tuple::expected(&PLAIN.tags, 3) };
        let fault = |stored, dif: &Dif| fault_of(&data, stored, dif, 3);
        let none = DifFault::default();
        assert_eq!(fault(right, &PLAIN), none);
        assert_eq!(fault(Tuple { application: right.application | 0xf0, ..right }, &PLAIN), none, "masked bits");
        let application = Tuple { application: right.application ^ 1, ..right };
        let reference = Tuple { reference: right.reference ^ 1, ..right };
        let guarded = Tuple { guard: right.guard ^ 1, ..right };
        assert_eq!(fault(application, &PLAIN), DifFault { application: true, ..none });
        assert_eq!(fault(reference, &PLAIN), DifFault { reference: true, ..none });
        assert_eq!(fault(guarded, &PLAIN), DifFault { guard: true, ..none });
        assert_eq!(fault(guarded, &Dif { check_guard: false, ..PLAIN }), none);
        assert_eq!(fault(reference, &Dif { check_reference: false, ..PLAIN }), none);
        let unmasked = DifTags { application_mask: u16::MAX, ..PLAIN.tags };
        assert_eq!(fault(application, &Dif { tags: unmasked, ..PLAIN }), none);

        let escaping = |escape| Dif { escape, ..PLAIN };
        let application = Tuple { application: u16::MAX, ..guarded };
        let both = Tuple { reference: u32::MAX, ..application };
        let all = DifFault { all_ones: true, ..none };
        for (stored, escape, expected) in [
            (application, DifEscape::Never, DifFault { guard: true, application: true, ..none }),
            (application, DifEscape::Application, none),
            (application, DifEscape::ApplicationAndReference, DifFault { guard: true, application: true, ..none }),
            (both, DifEscape::Application, none),
            (both, DifEscape::ApplicationAndReference, none),
            (both, DifEscape::AllOnesIsFault, DifFault { guard: true, application: true, reference: true, ..none }),
            (Tuple::ALL_ONES, DifEscape::AllOnesIsFault, all),
            (Tuple::ALL_ONES, DifEscape::Application, none),
        ] {
            assert_eq!(fault(stored, &escaping(escape)), expected, "{escape:?}");
        }
    }
}
