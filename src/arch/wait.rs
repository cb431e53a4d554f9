//! What a wait instruction is asked and what it answers, on every architecture.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
#[cfg(any(test, target_arch = "x86_64"))]
use std::sync::atomic::{Ordering, fence};

use super::{EventStream, Mwaitx, Waitpkg, Wfxt, Zawrs};

/// An instruction, or a family of them, with which a cpu waits; it holds the token that proves that the cpu has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instruction {
    /// x86, Intel: TPAUSE until a deadline, UMONITOR and UMWAIT for a store.
    Waitpkg(Waitpkg),
    /// x86, AMD: MONITORX and MWAITX, with its timer.
    Mwaitx(Mwaitx),
    /// AArch64: WFET, which has a deadline, alone or after LDXR.
    Wfet(Wfxt),
    /// AArch64 before WFET: WFE, which ends at the next event of the kernel's stream at the latest.
    Wfe(EventStream),
    /// RISC-V: LR and WRS.STO, which ends by itself after a short time and is repeated until the deadline.
    Wrs(Zawrs),
}

impl Instruction {
    /// The instructions' names, for reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Waitpkg(_) => "TPAUSE and UMWAIT",
            Self::Mwaitx(_) => "MWAITX",
            Self::Wfet(_) => "WFET",
            Self::Wfe(_) => "WFE",
            Self::Wrs(_) => "WRS.STO",
        }
    }

    /// How much later than asked a wait may end by construction, in nanoseconds.
    pub(crate) fn late_by_ns(self) -> u64 {
        match self {
            Self::Wfe(_) => EventStream::PERIOD_NS,
            _ => 0,
        }
    }
}

/// How deep a wait goes, where the cpu knows more than one depth (WAITPKG); others ignore it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// C0.1: wakes faster; no gain for the sibling is documented.
    Light,
    /// C0.2: wakes more slowly, saves more, and is documented to speed up the sibling.
    Deep,
}

/// How a wait ended, as far as the instruction tells. All of them mean: look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woke {
    /// It did not begin: the watched word had changed when the monitor was armed, or the time was over.
    AtOnce,
    /// The operating system's limit ended it.
    #[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))] // only WAITPKG tells
    OsLimit,
    /// A store, the deadline, an interrupt, or nothing at all.
    Somehow,
}

/// For how long to wait: `ticks` of the counter behind [`ticks`](super::ticks), counted from `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// The instant from which the time counts: a past reading of the counter.
    pub(crate) from: u64,
    /// How long.
    pub(crate) ticks: u64,
}

impl Span {
    /// What is left at `now`. Never more than `ticks`, so that a counter that jumped back costs one wait, not the jump.
    #[inline(always)]
    pub(crate) fn left(self, now: u64) -> u64 {
        self.from.saturating_add(self.ticks).saturating_sub(now).min(self.ticks)
    }
}

/// A word whose line a monitor watches: "wait while `word & mask == value`".
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch<'a> {
    word: Word,
    mask: u64,
    value: u64,
    /// The word stays readable for so long.
    life: PhantomData<&'a AtomicU64>,
}

/// A word by its width.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    U8(*const AtomicU8),
    U16(*const AtomicU16),
    U32(*const AtomicU32),
    U64(*const AtomicU64),
}

impl<'a> Watch<'a> {
    /// Watches `word`, which holds `value` while there is no news.
    #[inline(always)]
    pub(crate) fn while_equal(word: &'a AtomicU32, value: u32) -> Self {
        let word = Word::U32(std::ptr::from_ref(word));
        Self { word, mask: u32::MAX.into(), value: value.into(), life: PhantomData }
    }

    /// Watches `width` bits (8, 16, 32, 64) at `address`; `None` for another width.
    ///
    /// # Safety
    /// - `address` is aligned to the width, in write-back memory, and valid for atomic reads as long as `'a`.
    #[inline]
    pub(crate) unsafe fn at(address: *const u8, width: u32, mask: u64, value: u64) -> Option<Self> {
        let word = match width {
            8 => Word::U8(address.cast()),
            16 => Word::U16(address.cast()),
            32 => Word::U32(address.cast()),
            64 => Word::U64(address.cast()),
            _ => return None,
        };
        Some(Self { word, mask, value, life: PhantomData })
    }

    /// The address to arm a monitor with.
    #[cfg(any(test, target_arch = "x86_64", target_arch = "riscv64"))]
    #[inline(always)]
    pub(super) fn address(&self) -> *const u8 {
        match self.word {
            Word::U8(word) => word.cast(),
            Word::U16(word) => word.cast(),
            Word::U32(word) => word.cast(),
            Word::U64(word) => word.cast(),
        }
    }

    /// Whether the word looks as it did: for architectures that arm and compare in two steps, and for rows of PAUSEs. After `false`, what
    /// its writer wrote before it is visible.
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        // Relaxed: ordered after arming, where there is a monitor, by its instruction, which no compiler moves a load across; before what
        // the caller reads on news, by the fence.
        let word = match self.word {
            // SAFETY: whoever made the watch keeps the word aligned and readable for `'a`.
            Word::U8(word) => u64::from(unsafe { &*word }.load(Ordering::Relaxed)),
            // SAFETY: as above.
            Word::U16(word) => u64::from(unsafe { &*word }.load(Ordering::Relaxed)),
            // SAFETY: as above.
            Word::U32(word) => u64::from(unsafe { &*word }.load(Ordering::Relaxed)),
            // SAFETY: as above.
            Word::U64(word) => unsafe { &*word }.load(Ordering::Relaxed),
        };
        let quiet = word & self.mask == self.value;
        if !quiet {
            fence(Ordering::Acquire); // Partner: whatever release the writer put before its store of the word.
        }
        quiet
    }

    /// The parts, for architectures that compare within the wait itself.
    #[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
    pub(super) fn parts(&self) -> (Word, u64, u64) {
        (self.word, self.mask, self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_never_exceeds_what_was_asked() {
        for (from, ticks, now, left, why) in [
            (100, 50, 100, 50, "just begun"),
            (100, 50, 120, 30, "some of it is over"),
            (100, 50, 150, 0, "all of it"),
            (100, 50, u64::MAX, 0, "the counter leapt"),
            (1 << 40, 50, 100, 50, "the counter jumped back"),
            (u64::MAX - 10, 50, u64::MAX - 5, 5, "the counter's end"),
            (0, u64::MAX, 7, u64::MAX - 7, "for ever"),
        ] {
            assert_eq!(Span { from, ticks }.left(now), left, "{why}");
        }
    }

    #[test]
    fn a_watch_is_quiet_while_the_masked_word_is_equal() {
        let word = AtomicU64::new(0x1234_5678_9abc_def0);
        let base: *const u8 = (&raw const word).cast();
        for (offset, width, mask, value, quiet) in [
            (0, 8, 0xff, 0xf0, true),
            (1, 8, 0x0f, 0x0e, true),
            (1, 8, 0x0f, 0x0f, false),
            (2, 16, 0xffff, 0x9abc, true),
            (4, 32, 0xff, 0x78, true),
            (4, 32, 0xff, 0x79, false),
            (0, 64, u64::MAX, 0x1234_5678_9abc_def0, true),
            (0, 64, u64::MAX, 0, false),
        ] {
            // SAFETY: all offsets are aligned to their widths and lie within `word`.
            let watch = unsafe { Watch::at(base.wrapping_add(offset), width, mask, value) }.unwrap();
            assert_eq!(watch.is_quiet(), quiet, "{width} bits at {offset}");
            assert_eq!(watch.address(), base.wrapping_add(offset));
        }
        // SAFETY: refused, so never read.
        assert!(unsafe { Watch::at(base, 24, 1, 0) }.is_none());
    }
}
