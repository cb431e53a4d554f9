//! A word in memory that shows, at the price of one load, whether a poller has anything to do.

use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use crate::arch::Watch;

/// "There is nothing here while this word looks like that": `word & mask == value`.
///
/// The lane reads the word instead of calling the poller while the word is quiet. Typical words: the ownership bit of the next receive
/// descriptor, the producer index of a ring, the phase tag of a completion queue entry.
///
/// `'a` is how long the word may be looked at; [`Poller::peek`](super::Poller::peek) ties it to the poller.
#[derive(Clone, Copy, Debug)]
pub struct Peek<'a> {
    word: Word,
    mask: u64,
    value: u64,
    complete: bool,
    watched_only: bool,
    lent: PhantomData<&'a ()>,
}

// SAFETY: a `Peek` only ever reads its word, atomically; `Peek::new` obliges its caller to keep the word valid for that from any thread.
unsafe impl Send for Peek<'_> {}
// SAFETY: as above.
unsafe impl Sync for Peek<'_> {}

#[derive(Clone, Copy, Debug)]
enum Word {
    U8(*const AtomicU8),
    U16(*const AtomicU16),
    U32(*const AtomicU32),
    U64(*const AtomicU64),
}

/// Why a [`Peek`] cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeekError {
    /// The width is not 8, 16, 32 or 64 bits.
    Width(u32),
    /// The address is null, or not aligned to the width.
    Address(usize),
    /// `value` has bits outside `mask`, or `mask` outside the width: the word could never look quiet, or the mask means nothing.
    Mask {
        /// The mask given.
        mask: u64,
        /// The value given.
        value: u64,
    },
}

impl Peek<'_> {
    /// A peek at the word of `width` bits (8, 16, 32, 64) at `ptr`: quiet while `word & mask == value`.
    ///
    /// # Errors
    /// [`PeekError`]: a width or an address that no atomic load can have, or a mask that can never match.
    ///
    /// # Safety
    /// - `ptr` stays valid for reads, from any thread, for the lifetime of the peek. A lane looks there until it next touches the poller that returned
    ///   the peek by `&mut` (then it asks again) or drops it.
    /// - The word is in ordinary write-back memory: not a device register (BAR), where each look would cross the bus.
    /// - Whoever writes it writes it atomically (hardware does so for aligned words), never through a `&mut` held across a look.
    pub unsafe fn new(ptr: *const u8, width: u32, mask: u64, value: u64) -> Result<Self, PeekError> {
        let word = match width {
            8 => Word::U8(ptr.cast()),
            16 => Word::U16(ptr.cast()),
            32 => Word::U32(ptr.cast()),
            64 => Word::U64(ptr.cast()),
            _ => return Err(PeekError::Width(width)),
        };
        if ptr.is_null() || ptr.addr() % (width as usize / 8) != 0 {
            return Err(PeekError::Address(ptr.addr()));
        }
        let all = u64::MAX >> (64 - width);
        if mask & !all != 0 || value & !mask != 0 || mask == 0 {
            return Err(PeekError::Mask { mask, value });
        }
        Ok(Self { word, mask, value, complete: false, watched_only: false, lent: PhantomData })
    }

    /// Declares that the word tells everything: the poller has no housekeeping of its own and is not called while the word is quiet.
    /// Without it the lane calls the poller all the same after `peek_refresh`, or its housekeeping would starve.
    #[must_use]
    pub fn complete(mut self) -> Self {
        self.complete = true;
        self
    }

    /// The word does not tell everything, and the poller is cheap to call: no call is saved by it. It is what a wait of the lane watches, and the
    /// poller is asked for another one after every call.
    #[must_use]
    pub(crate) fn watched_only(mut self) -> Self {
        self.watched_only = true;
        self
    }

    /// See [`watched_only`](Self::watched_only).
    #[inline]
    pub(crate) fn is_watched_only(&self) -> bool {
        self.watched_only
    }

    /// Whether the poller declared that the word tells everything.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// What a monitor watches for a write of the word. Never `None`: every width that a peek has can be watched.
    #[inline]
    pub(crate) fn watch(&self) -> Option<Watch<'_>> {
        let Self { word, mask, value, .. } = *self;
        let (address, width): (*const u8, u32) = match word {
            Word::U8(word) => (word.cast(), 8),
            Word::U16(word) => (word.cast(), 16),
            Word::U32(word) => (word.cast(), 32),
            Word::U64(word) => (word.cast(), 64),
        };
        // SAFETY: `Peek::new` checked the alignment, and its caller keeps the word valid for the lifetime of the peek.
        unsafe { Watch::at(address, width, mask, value) }
    }

    /// Whether there is nothing to do as far as the word shows. What the writer wrote before the word is seen by a caller that gets `false`.
    #[inline]
    pub(crate) fn is_quiet(&self) -> bool {
        let word = match self.word {
            // SAFETY: `Peek::new` checked the alignment, and its caller keeps the word valid for atomic reads for the lifetime of the peek.
            Word::U8(word) => u64::from(unsafe { &*word }.load(Ordering::Relaxed)),
            // SAFETY: as above.
            Word::U16(word) => u64::from(unsafe { &*word }.load(Ordering::Relaxed)),
            // SAFETY: as above.
            Word::U32(word) => u64::from(unsafe { &*word }.load(Ordering::Relaxed)),
            // SAFETY: as above.
            Word::U64(word) => unsafe { &*word }.load(Ordering::Relaxed),
        };
        if word & self.mask == self.value {
            return true;
        }
        fence(Ordering::Acquire); // Partner: whatever release, or device ordering, the producer puts before its write of the word.
        false
    }
}

/// A peek as a lane keeps it, beside the poller that lent it.
#[derive(Debug)]
pub(crate) struct KeptPeek(Peek<'static>);

impl KeptPeek {
    /// # Safety
    /// The poller that lent the peek is not touched by `&mut`, nor dropped, before the last look at it.
    pub(crate) unsafe fn new(peek: Peek<'_>) -> Self {
        let Peek { word, mask, value, complete, watched_only, lent: _ } = peek;
        Self(Peek { word, mask, value, complete, watched_only, lent: PhantomData })
    }

    #[inline]
    pub(crate) fn get(&self) -> &Peek<'_> {
        &self.0
    }
}

impl fmt::Display for PeekError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Width(width) => write!(f, "a peek of {width} bits: use 8, 16, 32 or 64"),
            Self::Address(address) => write!(f, "a peek at {address:#x}: null, or not aligned to its width"),
            Self::Mask { mask, value } => {
                write!(
                    f,
                    "a peek with mask {mask:#x} and value {value:#x} can never match: use value & !mask == 0, a mask that is not 0 and fits the width"
                )
            }
        }
    }
}

impl std::error::Error for PeekError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_no_load_can_read() {
        let word = AtomicU64::new(0);
        let ptr: *const u8 = (&raw const word).cast();
        // SAFETY: none of these is accepted, so none is ever read.
        let try_new = |ptr, width, mask, value| unsafe { Peek::new(ptr, width, mask, value) }.unwrap_err();
        assert_eq!(try_new(ptr, 12, 1, 0), PeekError::Width(12));
        assert!(matches!(try_new(std::ptr::null(), 8, 1, 0), PeekError::Address(0)));
        assert!(matches!(try_new(ptr.wrapping_add(1), 32, 1, 0), PeekError::Address(_)));
        assert_eq!(try_new(ptr, 8, 0x100, 0), PeekError::Mask { mask: 0x100, value: 0 });
        assert_eq!(try_new(ptr, 64, 1, 2), PeekError::Mask { mask: 1, value: 2 });
        assert_eq!(try_new(ptr, 64, 0, 0), PeekError::Mask { mask: 0, value: 0 });
    }

    #[test]
    fn every_width_sees_its_own_word_only() {
        let words = [AtomicU64::new(0xffff_ffff_0102_0304), AtomicU64::new(u64::MAX)];
        let ptr: *const u8 = (&raw const words[0]).cast();
        for (width, want) in [(8, 0x04), (16, 0x0304), (32, 0x0102_0304), (64, 0xffff_ffff_0102_0304)] {
            let mask = u64::MAX >> (64 - width);
            // SAFETY: `words` outlives the peek and is only read.
            let (quiet, busy) =
                unsafe { (Peek::new(ptr, width, mask, want).unwrap(), Peek::new(ptr, width, mask, want ^ 1).unwrap()) };
            assert!(quiet.is_quiet() && !busy.is_quiet(), "{width} bits (little-endian)");
        }
    }
}
