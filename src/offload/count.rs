//! How many operations of which size went where.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::flow::{CLASSES, Totals, class};

/// Where size classes begin, in bytes: the first has what is smaller, the last all that is larger.
pub const SIZE_CLASSES: [usize; CLASSES - 1] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Operations by engine and size class (see [`SIZE_CLASSES`]), since the runtime began.
///
/// What the CPU does in the call that asks for it is not counted: the count would cost as much as a small copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CopyCounts {
    /// By the CPU, in slices.
    pub sliced: [u64; CLASSES],
    /// By a device; an operation that is larger than a queue takes counts once a piece.
    pub device: [u64; CLASSES],
    /// Given to a device, and done by the CPU in part or wholly, after a fault or a failure.
    pub finished_by_cpu: [u64; CLASSES],
    /// Refused: a size, an alignment, an overlap that the operation does not have.
    pub refused: u64,
    /// Descriptors submitted alone.
    pub singles: u64,
    /// Batches submitted.
    pub batches: u64,
    /// Operations in those.
    pub batched: u64,
    /// Submissions that found a queue full and waited.
    pub full: u64,
    /// Operations submitted again because they had not run.
    pub retries: u64,
    /// Operations resumed after a page fault.
    pub resumes: u64,
    /// Operations whose future was dropped while a device had them.
    pub abandoned: u64,
    /// Operations given up that may still run: their buffers stay until the process ends.
    pub quarantined: u64,
    /// Of those: answered after all.
    pub late: u64,
    /// Queues that were closed because an operation on borrowed memory was not answered.
    pub closed: u64,
    /// Threads that wait for the kernel to close such a queue, now: a number that stays is a device that hangs.
    pub closing: u64,
}

/// What the engines' callers count.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    sliced: [AtomicU64; CLASSES],
    refused: AtomicU64,
    closed: AtomicU64,
    closing: AtomicU64,
}

impl Counts {
    pub(crate) fn sliced(&self, len: usize) {
        // Relaxed: a statistic.
        self.sliced[class(len)].fetch_add(1, Relaxed);
    }

    pub(crate) fn refused(&self) {
        // Relaxed: a statistic.
        self.refused.fetch_add(1, Relaxed);
    }

    /// Around the closing of a queue that somebody waits for.
    pub(crate) fn closing(&self, close: impl FnOnce()) {
        // Relaxed, all of them: statistics.
        self.closing.fetch_add(1, Relaxed);
        close();
        self.closing.fetch_sub(1, Relaxed);
        self.closed.fetch_add(1, Relaxed);
    }

    /// Together with what a flow has counted.
    pub(crate) fn read(&self, flow: Totals) -> CopyCounts {
        CopyCounts {
            // Relaxed: statistics.
            sliced: std::array::from_fn(|at| self.sliced[at].load(Relaxed)),
            refused: self.refused.load(Relaxed),
            device: flow.device,
            finished_by_cpu: flow.cpu,
            singles: flow.singles,
            batches: flow.batches,
            batched: flow.batched,
            full: flow.full,
            retries: flow.retries,
            resumes: flow.resumes,
            abandoned: flow.abandoned,
            quarantined: flow.quarantined,
            late: flow.late,
            closed: self.closed.load(Relaxed),
            closing: self.closing.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_classes_begin_where_they_are_said_to() {
        for (at, &begin) in SIZE_CLASSES.iter().enumerate() {
            assert_eq!((class(begin - 1), class(begin)), (at, at + 1));
        }
    }
}
