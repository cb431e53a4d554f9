//! From which size do streamed stores pay? Taken from the cache's size, and corrected by a measurement of bounded time.
//!
//! A copy whose two ranges fit into the last-level cache is faster through it, several times even; one that does not fit pays for it twice: each
//! line of the destination is read before it is overwritten, and the neighbours' lines are thrown out. Where the two meet depends on the cpu, on
//! how many share the cache, and on the hypervisor, so it is measured: on a Zen 4 with 32 MiB of cache, streaming was 0.55 of plain copies' speed
//! up to 4 MiB and 2 to 4 times as fast from 16 MiB on.

use std::time::{Duration, Instant};

use super::{Stores, copy};
use crate::arch::memory::Streaming;

/// Copies from so many bytes on are streamed where nothing was measured and the cache's size is unknown: half of 16 MiB, a common share.
const STREAMED_FROM_UNKNOWN: usize = 8 << 20;
/// The last-level cache where its size is unknown: twice that.
const CACHE_UNKNOWN: usize = 2 * STREAMED_FROM_UNKNOWN;
/// Smaller copies are not streamed whatever a neighbour needs, in bytes: they hardly displace anything, and streaming them takes several times as long.
const STREAMED_BESIDE_NEIGHBOUR_MIN: usize = 64 << 10;
/// Whatever a cache states, in bytes: below, the second-level cache alone may hold both ranges; above, no cache does.
const STREAMED_FROM_RANGE: std::ops::RangeInclusive<usize> = (1 << 20)..=(64 << 20);

/// Sizes that are measured, in bytes, ascending: the first two tell the router what a copy costs, the others where streaming begins to pay.
const SIZES: [usize; 8] = [4 << 10, 64 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20];
/// Copies of a size each way; the best counts, so that a preemption does not.
const ROUNDS: usize = 3;
/// Bytes that one reading of the clock is spread over at least: its own cost (some 50 ns) stays below a percent.
const BYTES_A_READING: usize = 256 << 10;

/// How long a measurement may take by default. Without disturbance it takes 10 to 40 ms, most of it for the largest copies and the pages under
/// them; it ends as soon as it knows.
pub(crate) const CALIBRATION_LIMIT: Duration = Duration::from_millis(50);

/// What copies of a size took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) bytes: usize,
    /// One copy through the caches, warm, in nanoseconds.
    pub(crate) plain_ns: f64,
    /// One copy by streamed stores; `None` where that was not measured.
    pub(crate) streamed_ns: Option<f64>,
}

/// The size from which copies are streamed, in bytes; pure.
///
/// `cache` is the last-level cache, in bytes ([`largest_cache`](crate::arch::memory::largest_cache)). Without a measurement, copies are streamed
/// whose two ranges do not fit into it. A measurement moves that up, to beyond the largest size at which streaming was slower; never down, because
/// beside busy neighbours the cache looks smaller than it will be, and a plain copy is then no worse than `memcpy`.
pub(crate) fn streamed_from(cache: Option<usize>, samples: &[Sample]) -> usize {
    let expected = expected(cache);
    let lost = |sample: &&Sample| sample.streamed_ns.is_some_and(|streamed| streamed > sample.plain_ns);
    let lost = samples.iter().filter(lost).map(|sample| sample.bytes).max();
    lost.map_or(expected, |lost| expected.max(2 * lost))
}

/// What a neighbour needs of the last-level cache, and how large that is, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// 0: nothing is known, and nothing is kept clear of.
    pub(crate) needs: usize,
    pub(crate) cache: usize,
}

impl Footprint {
    pub(crate) fn new(needs: usize, cache: Option<usize>) -> Self {
        Self { needs, cache: cache.unwrap_or(CACHE_UNKNOWN) }
    }

    /// From which size copies of the CPU are streamed, that would be from `otherwise` on: the first size whose two ranges displace what the neighbour needs.
    pub(crate) fn streamed_from(self, otherwise: usize) -> usize {
        if self.needs == 0 {
            return otherwise;
        }
        let free = self.cache.saturating_sub(self.needs) / 2;
        free.saturating_add(1).max(STREAMED_BESIDE_NEIGHBOUR_MIN).min(otherwise)
    }
}

/// The size from which streaming should pay, by the cache alone.
fn expected(cache: Option<usize>) -> usize {
    cache
        .map_or(STREAMED_FROM_UNKNOWN, |cache| cache / 2)
        .clamp(*STREAMED_FROM_RANGE.start(), *STREAMED_FROM_RANGE.end())
}

/// Measures copies of growing size, streamed ones from the expected size on, until streaming has won or `limit` has passed (it may be exceeded by
/// one copy of one size). Empty where the memory cannot be had.
///
/// Needs twice the largest size, 64 MiB at most, and gives it back.
pub(crate) fn measure(cache: Option<usize>, limit: Duration) -> Vec<Sample> {
    let began = Instant::now();
    let mut samples = Vec::with_capacity(SIZES.len());
    for bytes in SIZES {
        let Some((src, mut dst)) = buffer(bytes).zip(buffer(bytes)) else { break };
        // One kind after the other: a streamed store takes the destination out of the caches, in which the next plain copy expects it.
        let mut best_of = |stores| {
            let mut best = f64::INFINITY;
            for round in 0..=ROUNDS {
                let took = time(&src, &mut dst, stores);
                // The first round also brings pages and caches; it counts only if there is no time for another.
                best = if round == 1 { took } else { best.min(took) };
                if began.elapsed() > limit {
                    break;
                }
            }
            best
        };
        let plain_ns = best_of(Stores::Plain);
        let streams = bytes >= expected(cache) && Streaming::detect().is_some();
        let best = Sample { bytes, plain_ns, streamed_ns: streams.then(|| best_of(Stores::Streamed)) };
        samples.push(best);
        if best.streamed_ns.is_some_and(|streamed| streamed <= best.plain_ns) || began.elapsed() > limit {
            break;
        }
    }
    samples
}

/// Memory of so many bytes with a page under each of them, so that no fault is measured.
fn buffer(bytes: usize) -> Option<Vec<u8>> {
    let mut memory = Vec::new();
    memory.try_reserve_exact(bytes).ok()?;
    // Not zero: zeros would be given as pages that are one and the same until they are written.
    memory.resize(bytes, 1);
    Some(memory)
}

/// Nanoseconds a copy.
fn time(src: &[u8], dst: &mut [u8], stores: Stores) -> f64 {
    let len = src.len().min(dst.len());
    let copies = (BYTES_A_READING / len.max(1)).max(1);
    let began = Instant::now();
    for _ in 0..copies {
        let (from, to) = std::hint::black_box((src.as_ptr(), dst.as_mut_ptr()));
        // SAFETY: as many bytes as the shorter one has; one is borrowed mutably, so they are apart.
        unsafe { copy(from, to, len, stores) };
    }
    began.elapsed().as_nanos() as f64 / copies as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn a_neighbour_is_kept_clear_of() {
        const MIB: usize = 1 << 20;
        let from = |needs, otherwise| Footprint::new(needs, Some(32 * MIB)).streamed_from(otherwise);
        assert_eq!(from(0, 16 * MIB), 16 * MIB, "nothing is known of one");
        assert_eq!(from(8 * MIB, 16 * MIB), 12 * MIB + 1);
        assert_eq!(from(30 * MIB, 16 * MIB), MIB + 1);
        assert_eq!(from(30 * MIB, MIB), MIB, "never later than otherwise");
        assert_eq!(from(32 * MIB, 16 * MIB), STREAMED_BESIDE_NEIGHBOUR_MIN);
        assert_eq!(from(usize::MAX, 16 * MIB), STREAMED_BESIDE_NEIGHBOUR_MIN);
        assert_eq!(
            Footprint::new(MIB, None).streamed_from(16 * MIB),
            7 * MIB + MIB / 2 + 1,
            "16 MiB are taken for a cache"
        );
    }

    #[test]
    fn streaming_begins_where_it_is_never_slower() {
        let sample = |mib: usize, plain_ns, streamed_ns| Sample { bytes: mib * MIB, plain_ns, streamed_ns };
        let slow = |mib| sample(mib, 100.0, Some(170.0));
        let fast = |mib| sample(mib, 100.0, Some(40.0));
        let unknown = |mib| sample(mib, 100.0, None);
        for (cache, samples, from) in [
            (None, vec![], 8),
            (Some(32 * MIB), vec![], 16),
            (Some(MIB / 2), vec![], 1),
            (Some(1 << 40), vec![], 64),
            (Some(32 * MIB), vec![unknown(1), unknown(16)], 16),
            (Some(32 * MIB), vec![fast(16), fast(32)], 16),
            (Some(32 * MIB), vec![sample(16, 100.0, Some(100.0))], 16),
            (Some(32 * MIB), vec![slow(16), fast(32)], 32),
            // A lucky size in between proves nothing.
            (Some(16 * MIB), vec![slow(8), fast(16), slow(32)], 64),
            // Neighbours may make the cache look small.
            (Some(32 * MIB), vec![fast(4), fast(8)], 16),
            (Some(32 * MIB), vec![slow(8), fast(16)], 16),
        ] {
            assert_eq!(streamed_from(cache, &samples), from * MIB, "{cache:?} {samples:?}");
        }
    }

    #[test]
    fn a_measurement_ends_in_time_and_says_something() {
        let began = Instant::now();
        let samples = measure(None, Duration::ZERO);
        // One round of the smallest size is what is always done.
        assert_eq!(samples.len(), 1);
        assert!(samples[0].plain_ns.is_finite() && samples[0].plain_ns > 0.0, "{samples:?}");
        assert!(began.elapsed() < Duration::from_secs(5));
        let samples = measure(None, Duration::from_millis(20));
        assert!(samples.windows(2).all(|pair| pair[0].bytes < pair[1].bytes), "{samples:?}");
        assert!(samples.iter().all(|sample| sample.plain_ns > 0.0), "{samples:?}");
    }
}
