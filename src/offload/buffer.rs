//! Memory that an operation may use: owned, and where it is, it stays.
//!
//! An engine may use a buffer after the future that holds it is gone: a dropped future leaves its buffers to the library, a forgotten one leaks
//! them. So an operation takes buffers by value, and only such whose memory does not move with the value and outlives a leak of it: heap or static
//! memory. An array inside the value is neither, and has no implementation:
//!
//! ```compile_fail,E0277
//! # let rt = twolane::Runtime::builder().build().unwrap();
//! let copying = rt.copies().copy([0u8; 4096], vec![0u8; 4096]); // `[u8; 4096]` moves with the value that holds it
//! ```

use std::fmt;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// Memory that an operation may read.
///
/// # Safety
/// - [`readable`](Self::readable) gives the same initialised range at every call, wherever the value was moved meanwhile.
/// - The range stays readable and unchanged by others until the value is dropped, and for ever if it is leaked.
/// - Between two calls of its methods the value does not read or write the range on its own account.
/// - Its methods return in the process that called them: they do not fork.
pub unsafe trait ReadBuffer: Send + 'static {
    /// First byte and length, in bytes. The pointer may be anything if the length is 0.
    fn readable(&self) -> (*const u8, usize);
}

/// Memory that an operation may write.
///
/// # Safety
/// - [`writable`](Self::writable) gives the same initialised range at every call, wherever the value was moved meanwhile.
/// - The range stays writable, and nobody else reads or writes it, until the value is dropped, and for ever if it is leaked.
/// - Between two calls of its methods the value does not read or write the range on its own account.
/// - Its methods return in the process that called them: they do not fork.
pub unsafe trait WriteBuffer: Send + 'static {
    /// First byte and length, in bytes. The pointer may be anything if the length is 0.
    fn writable(&mut self) -> (*mut u8, usize);
}

// SAFETY: a vector's elements are on the heap, where a move of the vector leaves them; it reallocates only through `&mut`, and nobody else has it.
unsafe impl ReadBuffer for Vec<u8> {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.as_ptr(), self.len())
    }
}
// SAFETY: as above; ownership makes the range nobody else's.
unsafe impl WriteBuffer for Vec<u8> {
    #[inline]
    fn writable(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}
// SAFETY: on the heap, and unchanged while the box is not lent mutably.
unsafe impl ReadBuffer for Box<[u8]> {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.as_ptr(), self.len())
    }
}
// SAFETY: as above; ownership makes the range nobody else's.
unsafe impl WriteBuffer for Box<[u8]> {
    #[inline]
    fn writable(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}
// SAFETY: on the heap, kept by this reference, and shared, so nobody writes it: `Arc::get_mut` refuses while it is not the only one, and whoever is the
// only one is the operation.
unsafe impl ReadBuffer for Arc<[u8]> {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.as_ptr(), self.len())
    }
}
// SAFETY: borrowed for ever.
unsafe impl ReadBuffer for &'static [u8] {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.as_ptr(), self.len())
    }
}
// SAFETY: borrowed for ever.
unsafe impl ReadBuffer for &'static mut [u8] {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.as_ptr(), self.len())
    }
}
// SAFETY: borrowed for ever, and by nobody else.
unsafe impl WriteBuffer for &'static mut [u8] {
    #[inline]
    fn writable(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}
#[cfg(feature = "bytes")]
// SAFETY: what `Bytes` shows is on the heap or static, is shared and hence unchanged, and lives as long as any of those that share it.
unsafe impl ReadBuffer for bytes::Bytes {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.as_ptr(), self.len())
    }
}
#[cfg(feature = "bytes")]
// SAFETY: on the heap; a `BytesMut` is the only one that has its range.
unsafe impl ReadBuffer for bytes::BytesMut {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.as_ptr(), self.len())
    }
}
#[cfg(feature = "bytes")]
// SAFETY: as above.
unsafe impl WriteBuffer for bytes::BytesMut {
    #[inline]
    fn writable(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }
}

/// Memory that somebody else looks after: an arena, a mapping, hugepages, a packet pool. With `keep` to hold it: dropped when the operation no longer uses the memory.
#[derive(Debug)]
pub struct RawBuffer<K = ()> {
    at: *mut u8,
    len: usize,
    keep: K,
}

impl<K> RawBuffer<K> {
    /// `len` bytes from `at` on; `keep` is kept with them and given back by [`into_inner`](Self::into_inner).
    ///
    /// # Safety
    /// - The range is initialised and readable, and writable if it is given as a [`WriteBuffer`], until the value is dropped, and for ever if it is leaked (so a
    ///   mapping is not unmapped behind it).
    /// - Meanwhile nobody else writes it, and nobody else reads it either if it is given as a [`WriteBuffer`].
    /// - It is ordinary memory: no device's registers.
    pub unsafe fn new(at: *mut u8, len: usize, keep: K) -> Self {
        Self { at, len, keep }
    }

    /// What was kept.
    pub fn into_inner(self) -> K {
        self.keep
    }
}

// SAFETY: an address and a length, of memory that any thread may use (says the caller of `new`), and what is kept, which can be sent.
unsafe impl<K: Send> Send for RawBuffer<K> {}
// SAFETY: says the caller of `new`.
unsafe impl<K: Send + 'static> ReadBuffer for RawBuffer<K> {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.at, self.len)
    }
}
// SAFETY: says the caller of `new`.
unsafe impl<K: Send + 'static> WriteBuffer for RawBuffer<K> {
    #[inline]
    fn writable(&mut self) -> (*mut u8, usize) {
        (self.at, self.len)
    }
}

/// A part of a buffer, in the whole's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<B> {
    buffer: B,
    start: usize,
    len: usize,
}

impl<B> Part<B> {
    /// The whole buffer again.
    pub fn into_inner(self) -> B {
        self.buffer
    }
}

// SAFETY: a part of what does not move, checked to lie within when it was made; the length of a buffer is the same at every call.
unsafe impl<B: ReadBuffer> ReadBuffer for Part<B> {
    #[inline]
    fn readable(&self) -> (*const u8, usize) {
        (self.buffer.readable().0.wrapping_add(self.start), self.len)
    }
}
// SAFETY: as above.
unsafe impl<B: WriteBuffer> WriteBuffer for Part<B> {
    #[inline]
    fn writable(&mut self) -> (*mut u8, usize) {
        (self.buffer.writable().0.wrapping_add(self.start), self.len)
    }
}

/// A range that is not within its buffer. Gives the buffer back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange<B> {
    /// The buffer.
    pub buffer: B,
    /// Where the range begins, in bytes.
    pub start: usize,
    /// Where it ends.
    pub end: usize,
    /// Bytes that there are.
    pub len: usize,
}

impl<B> fmt::Debug for OutOfRange<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, len, .. } = self;
        f.debug_struct("OutOfRange").field("start", start).field("end", end).field("len", len).finish_non_exhaustive()
    }
}

impl<B> fmt::Display for OutOfRange<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { start, end, len, .. } = self;
        write!(f, "bytes {start}..{end} of a buffer of {len}: give a range within it, its start not behind its end")
    }
}

impl<B> std::error::Error for OutOfRange<B> {}

/// [`part`](Self::part), for what an operation reads; [`PartMut`] is for what it writes.
///
/// ```
/// use twolane::offload::{PartMut, PartRef};
///
/// let header = vec![7u8; 64].part(..16)?;
/// let inside = vec![0u8; 4096].part_mut(1024..1040)?;
/// assert_eq!(vec![0u8; 4].part(2..9).unwrap_err().to_string(),
///            "bytes 2..9 of a buffer of 4: give a range within it, its start not behind its end");
/// # let _ = (header, inside);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PartRef: ReadBuffer + Sized {
    /// These bytes of the buffer, in the whole's place.
    ///
    /// # Errors
    /// [`OutOfRange`], with the buffer.
    fn part(self, range: impl RangeBounds<usize>) -> Result<Part<Self>, OutOfRange<Self>> {
        let len = self.readable().1;
        cut(self, len, range)
    }
}

/// [`part_mut`](Self::part_mut), for what an operation writes.
pub trait PartMut: WriteBuffer + Sized {
    /// These bytes of the buffer, in the whole's place.
    ///
    /// # Errors
    /// [`OutOfRange`], with the buffer.
    fn part_mut(mut self, range: impl RangeBounds<usize>) -> Result<Part<Self>, OutOfRange<Self>> {
        let len = self.writable().1;
        cut(self, len, range)
    }
}

impl<B: ReadBuffer> PartRef for B {}
impl<B: WriteBuffer> PartMut for B {}

fn cut<B>(buffer: B, len: usize, range: impl RangeBounds<usize>) -> Result<Part<B>, OutOfRange<B>> {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    if start <= end && end <= len {
        Ok(Part { buffer, start, len: end - start })
    } else {
        Err(OutOfRange { buffer, start, end, len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_where_the_range_says_and_gives_the_whole_back() {
        let whole = vec![1u8, 2, 3, 4, 5];
        let at = whole.as_ptr();
        let part = whole.part(1..=3).unwrap();
        assert_eq!(part.readable(), (at.wrapping_add(1), 3));
        let part = part.part(1..).unwrap();
        assert_eq!(part.readable(), (at.wrapping_add(2), 2), "a part of a part");
        assert_eq!(part.into_inner().into_inner(), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn what_is_not_within_is_refused_with_the_buffer() {
        for (range, shown) in [((0, 6), (0, 6)), ((4, 3), (4, 3)), ((6, 6), (6, 6)), ((0, usize::MAX), (0, usize::MAX))]
        {
            let refused = vec![0u8; 5].part(range.0..range.1).unwrap_err();
            assert_eq!((refused.start, refused.end, refused.len), (shown.0, shown.1, 5));
            assert_eq!(refused.buffer.len(), 5);
        }
        assert!(vec![0u8; 5].part_mut((Bound::Excluded(usize::MAX), Bound::Unbounded)).is_err());
        assert!(vec![0u8; 5].part_mut(5..).is_ok(), "nothing, at the end");
    }

    #[test]
    fn moves_leave_the_memory_where_it_is() {
        let mut boxed: Box<[u8]> = vec![0; 10].into();
        let at = boxed.writable();
        let mut moved = Box::new(boxed);
        assert_eq!(moved.writable(), at);
        let shared: Arc<[u8]> = vec![1u8; 3].into();
        let at = shared.readable();
        let moved = [shared];
        assert_eq!(moved[0].readable(), at);
    }
}
