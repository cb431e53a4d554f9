//! x86-64: MOVNTDQ in its widths, PREFETCHNTA, SFENCE; CLWB, CLFLUSHOPT and CLFLUSH.

use super::LINE;
use core::arch::asm;
use core::arch::x86_64::{
    __m128i, __m256i, _MM_HINT_NTA, _mm_loadu_si128, _mm_prefetch, _mm_stream_si128, _mm256_loadu_si256,
    _mm256_stream_si256,
};
use raw_cpuid::{CacheParameter, CacheType, CpuId, CpuIdReader, CpuIdReaderNative};
use std::sync::OnceLock;

/// How far ahead of the loads a streamed copy asks for its source, in bytes. Four lines: in the middle of what was measured as good (128 to 512)
/// on a Zen 4; the hardware's own prefetcher does the rest.
const AHEAD: usize = 4 * LINE;

/// See [`super`]. The widest form that the cpu states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streaming(Width);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    /// 16 bytes a store: SSE2, which every x86-64 cpu has.
    Sse2,
    /// 32 bytes a store: the cpu states AVX, and the kernel keeps its registers.
    Avx,
}

impl Streaming {
    /// What this cpu has. Cheap: the standard library asks the cpu once.
    #[inline]
    pub(crate) fn detect() -> Option<Self> {
        Some(Self(if std::is_x86_feature_detected!("avx") { Width::Avx } else { Width::Sse2 }))
    }

    /// Copies `len` bytes by stores that go round the caches, and asks for the source in a way that displaces little. Ends with
    /// [`publish`](Self::publish).
    ///
    /// # Safety
    /// `src` is readable and `dst` writable for `len` bytes, which do not overlap; `dst` and `len` are multiples of [`LINE`].
    pub(crate) unsafe fn copy(self, src: *const u8, dst: *mut u8, len: usize) {
        debug_assert!(dst.addr() % LINE == 0 && len % LINE == 0);
        // SAFETY: as this function demands; the token says that the cpu has the width.
        unsafe {
            match self.0 {
                Width::Sse2 => copy_sse2(src, dst, len),
                Width::Avx => copy_avx(src, dst, len),
            }
        }
        Self::publish();
    }

    /// Writes `pattern` again and again. Ends with [`publish`](Self::publish).
    ///
    /// # Safety
    /// `dst` is writable for `len` bytes; both are multiples of [`LINE`].
    pub(crate) unsafe fn fill(self, pattern: &[u8; LINE], dst: *mut u8, len: usize) {
        debug_assert!(dst.addr() % LINE == 0 && len % LINE == 0);
        // SAFETY: as this function demands; the token says that the cpu has the width.
        unsafe {
            match self.0 {
                Width::Sse2 => fill_sse2(pattern, dst, len),
                Width::Avx => fill_avx(pattern, dst, len),
            }
        }
        Self::publish();
    }

    /// SFENCE: what was streamed before is visible before any later store of this thread is. Without it, a flag that says "done" could be seen
    /// before the data.
    fn publish() {
        store_fence();
    }

    /// Every width that this cpu has.
    #[cfg(test)]
    pub(super) fn kinds(self) -> Vec<Self> {
        if self.0 == Width::Avx { vec![Self(Width::Sse2), self] } else { vec![self] }
    }
}

/// # Safety
/// As [`Streaming::copy`].
unsafe fn copy_sse2(src: *const u8, dst: *mut u8, len: usize) {
    let mut at = 0;
    while at < len {
        prefetch(src.wrapping_add(at + AHEAD));
        // SAFETY: `at` is a multiple of a line below `len`, so a whole line of both is left; stores are aligned since `dst` is.
        unsafe {
            let (from, to) = (src.add(at).cast::<__m128i>(), dst.add(at).cast::<__m128i>());
            let (a, b) = (_mm_loadu_si128(from), _mm_loadu_si128(from.add(1)));
            let (c, d) = (_mm_loadu_si128(from.add(2)), _mm_loadu_si128(from.add(3)));
            _mm_stream_si128(to, a);
            _mm_stream_si128(to.add(1), b);
            _mm_stream_si128(to.add(2), c);
            _mm_stream_si128(to.add(3), d);
        }
        at += LINE;
    }
}

/// # Safety
/// As [`Streaming::copy`], and the cpu has AVX.
#[target_feature(enable = "avx")]
unsafe fn copy_avx(src: *const u8, dst: *mut u8, len: usize) {
    let mut at = 0;
    while at < len {
        prefetch(src.wrapping_add(at + AHEAD));
        // SAFETY: as in `copy_sse2`.
        unsafe {
            let (from, to) = (src.add(at).cast::<__m256i>(), dst.add(at).cast::<__m256i>());
            let (a, b) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            _mm256_stream_si256(to, a);
            _mm256_stream_si256(to.add(1), b);
        }
        at += LINE;
    }
}

/// # Safety
/// As [`Streaming::fill`].
unsafe fn fill_sse2(pattern: &[u8; LINE], dst: *mut u8, len: usize) {
    let from = pattern.as_ptr().cast::<__m128i>();
    let mut at = 0;
    while at < len {
        // SAFETY: the pattern is four such words; the rest as in `copy_sse2`.
        unsafe {
            let to = dst.add(at).cast::<__m128i>();
            for word in 0..4 {
                _mm_stream_si128(to.add(word), _mm_loadu_si128(from.add(word)));
            }
        }
        at += LINE;
    }
}

/// # Safety
/// As [`Streaming::fill`], and the cpu has AVX.
#[target_feature(enable = "avx")]
unsafe fn fill_avx(pattern: &[u8; LINE], dst: *mut u8, len: usize) {
    let from = pattern.as_ptr().cast::<__m256i>();
    // SAFETY: the pattern is two such words.
    let (low, high) = unsafe { (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))) };
    let mut at = 0;
    while at < len {
        // SAFETY: as in `copy_sse2`.
        unsafe {
            let to = dst.add(at).cast::<__m256i>();
            _mm256_stream_si256(to, low);
            _mm256_stream_si256(to.add(1), high);
        }
        at += LINE;
    }
}

/// SFENCE.
fn store_fence() {
    // SAFETY: SSE, which every x86-64 cpu has; a fence touches nothing. Not `nomem`: the compiler orders memory around it, too.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}

/// PREFETCHNTA: into the first level, to be given up first. Past the end of the source it asks for what may not exist, which is no fault.
#[inline(always)]
fn prefetch(address: *const u8) {
    // SAFETY: a hint that touches nothing and faults on nothing, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_NTA>(address.cast()) };
}

/// See [`super`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineFlush {
    /// Writes a line back and gives it up, in any order; else CLFLUSH, which waits for the one before.
    clflushopt: bool,
    /// Writes a line back and may keep it.
    clwb: bool,
    /// Bytes a line, as these instructions count.
    line: usize,
}

impl LineFlush {
    /// What this cpu has: every x86-64 cpu has CLFLUSH. The cpu is asked once a process, which takes tens of microseconds under a hypervisor.
    pub(crate) fn detect() -> Option<Self> {
        static STATED: OnceLock<LineFlush> = OnceLock::new();
        Some(*STATED.get_or_init(|| Self::from_leaves(CpuIdReaderNative)))
    }

    fn from_leaves<R: CpuIdReader>(leaves: R) -> Self {
        /// The unit of CPUID's line size.
        const QUADWORD: usize = 8;
        let cpu = CpuId::with_cpuid_reader(leaves);
        let extended = cpu.get_extended_feature_info();
        let line = cpu.get_feature_info().map_or(0, |info| usize::from(info.cflush_cache_line_size()) * QUADWORD);
        Self {
            clflushopt: extended.as_ref().is_some_and(|info| info.has_clflushopt()),
            clwb: extended.as_ref().is_some_and(|info| info.has_clwb()),
            // A hypervisor may leave it out; smaller steps than a line are merely repeated.
            line: if line.is_power_of_two() { line } else { LINE },
        }
    }

    /// Writes the lines of the range back to memory and takes them out of all caches. When it returns, that is done.
    ///
    /// # Safety
    /// The range is readable.
    pub(crate) unsafe fn give_up(self, address: *const u8, len: usize) {
        for line in self.lines(address, len) {
            // SAFETY: the token says that the cpu has the instruction, which faults as a load of the line's byte does: `lines` stays within the
            // lines of the range, and a line does not cross pages.
            unsafe {
                if self.clflushopt {
                    asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags));
                } else {
                    asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags));
                }
            }
        }
        // MFENCE and not SFENCE: CLFLUSHOPT is ordered by either, but only MFENCE keeps later loads behind it.
        // SAFETY: SSE2, which every x86-64 cpu has; a fence touches nothing. Not `nomem`: the compiler orders memory around it, too.
        unsafe { asm!("mfence", options(nostack, preserves_flags)) };
    }

    /// Writes the lines of the range back to memory; they may stay in the caches where the cpu can do that (CLWB). When it returns, that is done.
    ///
    /// # Safety
    /// The range is readable.
    pub(crate) unsafe fn write_back(self, address: *const u8, len: usize) {
        if !self.clwb {
            // SAFETY: as this function demands.
            return unsafe { self.give_up(address, len) };
        }
        for line in self.lines(address, len) {
            // SAFETY: as in `give_up`.
            unsafe { asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) };
        }
        // SFENCE: later stores of this thread (a flag, a doorbell) come after the lines are on their way to memory.
        store_fence();
    }

    /// An address in each line of the range.
    fn lines(self, address: *const u8, len: usize) -> impl Iterator<Item = *const u8> {
        let skip = address.addr() & (self.line - 1);
        let first = address.wrapping_sub(skip);
        let lines = if len == 0 { 0 } else { (skip + len).div_ceil(self.line) };
        (0..lines).map(move |line| first.wrapping_add(line * self.line))
    }
}

/// Bytes of the largest cache that holds data, as the cpu states it: tens of microseconds under a hypervisor, so once, at start. A guest may be told
/// of a cache that it shares with others.
pub(crate) fn largest_cache() -> Option<usize> {
    largest_cache_from(CpuIdReaderNative)
}

fn largest_cache_from<R: CpuIdReader>(leaves: R) -> Option<usize> {
    let cpu = CpuId::with_cpuid_reader(leaves);
    let bytes = |cache: CacheParameter| {
        cache.associativity() * cache.physical_line_partitions() * cache.coherency_line_size() * cache.sets()
    };
    let holds_data = |cache: &CacheParameter| matches!(cache.cache_type(), CacheType::Data | CacheType::Unified);
    cpu.get_cache_parameters()?.filter(holds_data).map(bytes).max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use raw_cpuid::CpuIdResult;

    fn read(leaf_1_ebx: u32, leaf_7_ebx: u32) -> LineFlush {
        LineFlush::from_leaves(move |leaf: u32, _: u32| {
            let [eax, ebx, ecx, edx] = match leaf {
                0 => [0x20, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
                1 => [0, leaf_1_ebx, 0, 0],
                7 => [0, leaf_7_ebx, 0, 0],
                _ => [0; 4],
            };
            CpuIdResult { eax, ebx, ecx, edx }
        })
    }

    #[test]
    fn instructions_and_line_are_what_the_leaves_say() {
        const OPT: u32 = 1 << 23;
        const WB: u32 = 1 << 24;
        for (leaf_1, leaf_7, clflushopt, clwb, line) in [
            (8 << 8, 0, false, false, 64),
            (8 << 8, OPT, true, false, 64),
            (16 << 8, OPT | WB, true, true, 128),
            // Left out, or nonsense.
            (0, WB, false, true, 64),
            (3 << 8, 0, false, false, 64),
        ] {
            assert_eq!(read(leaf_1, leaf_7), LineFlush { clflushopt, clwb, line });
        }
    }

    #[test]
    fn every_line_of_a_range_is_visited_once() {
        let flush = LineFlush { clflushopt: false, clwb: false, line: 64 };
        let visited = |from: usize, len| -> Vec<usize> {
            flush.lines(std::ptr::without_provenance(from), len).map(|line| line.addr()).collect()
        };
        assert_eq!(visited(0x1000, 0), [0usize; 0]);
        assert_eq!(visited(0x1000, 1), [0x1000]);
        assert_eq!(visited(0x103f, 1), [0x1000]);
        assert_eq!(visited(0x103f, 2), [0x1000, 0x1040]);
        assert_eq!(visited(0x1000, 128), [0x1000, 0x1040]);
        assert_eq!(visited(0x1001, 128), [0x1000, 0x1040, 0x1080]);
    }

    #[test]
    fn the_largest_cache_is_counted_from_its_parts() {
        // EAX: type (1 data, 2 code, 3 both) and level; EBX: ways, partitions, line, each less one; ECX: sets less one.
        let geometry = |ways: u32, line: u32| (ways - 1) << 22 | (line - 1);
        let cache = |subleaf: u32| match subleaf {
            0 => [1 | 1 << 5, geometry(8, 64), 63, 0],
            1 => [2 | 1 << 5, geometry(8, 64), 0xffff, 0], // code does not count, however large
            2 => [3 | 3 << 5, geometry(16, 64), 32_767, 0],
            _ => [0; 4],
        };
        let read = |stated: bool| {
            largest_cache_from(move |leaf: u32, subleaf: u32| {
                let [eax, ebx, ecx, edx] = match leaf {
                    0 => [0x20, 0x756e_6547, 0x6c65_746e, 0x4965_6e69],
                    4 if stated => cache(subleaf),
                    _ => [0; 4],
                };
                CpuIdResult { eax, ebx, ecx, edx }
            })
        };
        assert_eq!(read(true), Some(32 << 20));
        assert_eq!(read(false), None);
    }
}
