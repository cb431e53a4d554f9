//! What all operations of a runtime share: the way to the lanes, the sizes at which the CPU changes its ways, the device, the counts.

use std::fmt;

use super::count::{CopyCounts, Counts};
use super::cpu::Stores;
use super::device::Device;
use super::dsa::portal::Lineage;
use crate::task::Scheduler;

/// Up to here the CPU does an operation at once, in the call that asks for it: 64 KiB take some 5 us, less than it takes to hand it to another lane
/// (a wake of 20 us and more where that sleeps).
pub(crate) const AT_ONCE_MAX: usize = 64 << 10;
/// A larger one is done in slices, so that a lane sees to its other work in between: 128 KiB take some 10 us from memory.
pub(crate) const SLICE: usize = 128 << 10;

/// Sizes at which the CPU changes its ways, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuSizes {
    /// Up to here at once.
    pub(crate) at_once_max: usize,
    /// Then in slices of this.
    pub(crate) slice: usize,
    /// From here on stores go round the caches.
    pub(crate) streamed_from: usize,
}

/// See the module's documentation.
pub(crate) struct Center {
    pub(crate) scheduler: Scheduler,
    pub(crate) sizes: CpuSizes,
    pub(crate) counts: Counts,
    /// The process whose lanes run.
    pub(crate) home: Lineage,
    /// Whether the calling thread may wait: a poller's lane may not.
    pub(crate) may_wait: fn() -> bool,
    /// Where there is one that can be used.
    pub(crate) device: Option<Device>,
}

impl Center {
    pub(crate) fn new(scheduler: Scheduler, sizes: CpuSizes, device: Option<Device>) -> Self {
        Self { scheduler, sizes, counts: Counts::default(), home: Lineage::here(), may_wait: || true, device }
    }

    pub(crate) fn counts(&self) -> CopyCounts {
        self.counts.read(self.device.as_ref().map(|device| device.flow.totals()).unwrap_or_default())
    }

    /// How the CPU stores an operation of this size.
    #[inline]
    pub(crate) fn stores(&self, len: usize) -> Stores {
        if len >= self.sizes.streamed_from { Stores::Streamed } else { Stores::Plain }
    }
}

impl fmt::Debug for Center {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Center").field("sizes", &self.sizes).finish_non_exhaustive()
    }
}
