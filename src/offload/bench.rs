//! The CPU engine and the router, laid open for measurements (feature `sim`): what `cargo bench --bench offload` holds against `memcpy`, and what
//! decides in a model's time.
//!
//! Services have no use for it: copies go through a runtime, which chooses the engine.

pub(crate) use super::batch::split;
pub use super::cpu::Stores;
pub use super::operation::Kind;
pub use super::route::{
    Ask, BatchGain, BatchGoes, Choice, Costs, Engine, Group, Latency, Mode, Observation, QueueView, Router, Took,
    crowds,
};

use super::cpu::{self, calibrate};
use crate::arch::memory::largest_cache;

/// The engine's copies, with the size from which they are streamed.
///
/// ```
/// use twolane::offload::bench::CpuEngine;
///
/// let engine = CpuEngine::calibrated();
/// let (src, mut dst) = (vec![7; 100_000], vec![0; 100_000]);
/// engine.copy(&src, &mut dst);
/// assert_eq!(src, dst);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CpuEngine {
    streamed_from: usize,
}

impl CpuEngine {
    /// Measures from which size streaming pays, as a runtime does when it starts; takes up to 50 ms.
    pub fn calibrated() -> Self {
        let cache = largest_cache();
        let samples = calibrate::measure(cache, calibrate::CALIBRATION_LIMIT);
        Self { streamed_from: calibrate::streamed_from(cache, &samples) }
    }

    /// Streams from so many bytes on.
    pub fn streaming_from(bytes: usize) -> Self {
        Self { streamed_from: bytes }
    }

    /// Bytes from which copies are streamed.
    pub fn streamed_from(&self) -> usize {
        self.streamed_from
    }

    /// Copies `src` to the start of `dst`, as the router would have the cpu do it when nobody else is about.
    ///
    /// # Panics
    /// If `dst` is shorter than `src`.
    #[inline]
    pub fn copy(&self, src: &[u8], dst: &mut [u8]) {
        assert!(dst.len() >= src.len(), "{} bytes into {}: make the destination as long", src.len(), dst.len());
        let stores = if src.len() >= self.streamed_from { Stores::Streamed } else { Stores::Plain };
        // SAFETY: both are slices, `dst` is as long at least, and it is borrowed mutably, so they are apart.
        unsafe { cpu::copy(src.as_ptr(), dst.as_mut_ptr(), src.len(), stores) };
    }
}
