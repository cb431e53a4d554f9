//! How many operations of which size went where.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Size classes: the upper ends, in bytes, of all but the last, which has none.
pub const SIZE_CLASSES: [usize; 5] = [256, 4 << 10, 64 << 10, 1 << 20, 16 << 20];
const CLASSES: usize = SIZE_CLASSES.len() + 1;

/// Operations by engine and size class, since the runtime began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyCounts {
    /// By the CPU, in the call that asked for them; by class, see [`SIZE_CLASSES`].
    pub at_once: [u64; CLASSES],
    /// By the CPU, in slices.
    pub sliced: [u64; CLASSES],
    /// By a device.
    pub device: [u64; CLASSES],
    /// Of those by a device: finished by the CPU after a fault or a failure.
    pub finished_by_cpu: u64,
    /// Refused: a size, an alignment, an overlap that the operation does not have.
    pub refused: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counts {
    at_once: [AtomicU64; CLASSES],
    sliced: [AtomicU64; CLASSES],
    device: [AtomicU64; CLASSES],
    finished_by_cpu: AtomicU64,
    refused: AtomicU64,
}

/// Who carried an operation out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    CpuAtOnce,
    CpuSliced,
    Device,
}

impl Counts {
    /// Not for what is small enough that the count would cost as much as the copy: see `Offloading::start`.
    pub(crate) fn add(&self, by: By, len: usize) {
        let classes = match by {
            By::CpuAtOnce => &self.at_once,
            By::CpuSliced => &self.sliced,
            By::Device => &self.device,
        };
        // Relaxed: a statistic.
        classes[class(len)].fetch_add(1, Relaxed);
    }

    pub(crate) fn finished_by_cpu(&self) {
        // Relaxed: a statistic.
        self.finished_by_cpu.fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        // Relaxed: a statistic.
        self.refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn read(&self) -> CopyCounts {
        // Relaxed: a statistic.
        let read = |classes: &[AtomicU64; CLASSES]| std::array::from_fn(|at| classes[at].load(Relaxed));
        CopyCounts {
            at_once: read(&self.at_once),
            sliced: read(&self.sliced),
            device: read(&self.device),
            finished_by_cpu: self.finished_by_cpu.load(Relaxed),
            refused: self.refused.load(Relaxed),
        }
    }
}

/// The class of a size.
fn class(len: usize) -> usize {
    SIZE_CLASSES.iter().position(|&end| len <= end).unwrap_or(SIZE_CLASSES.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_belongs_to_the_first_class_whose_end_it_does_not_exceed() {
        for (len, want) in [(0, 0), (256, 0), (257, 1), (4096, 1), (65_536, 2), (1 << 20, 3), ((16 << 20) + 1, 5)] {
            assert_eq!(class(len), want, "{len}");
        }
    }
}
