//! How many operations of which size went where.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::dsa::portal::Drained;
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
    /// Operations given up that may still run: their buffers stay until the process ends. A no-op counts as well by which a queue was asked whether it lives, if it was not answered.
    pub quarantined: u64,
    /// Of those: answered after all, or told by their batch that they did not run.
    pub late: u64,
    /// Operations on borrowed memory that were not answered, and whose queue was closed and drained.
    pub closed: u64,
    /// Threads that wait for the kernel to close and drain such a queue, now: a number that stays is a device that hangs, or a child that has the queue open.
    pub closing: u64,
    /// Times that such a queue was closed, or was not, and nobody could say that it was drained: it is tried again.
    pub not_drained: u64,
}

/// What the engines' callers count.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    sliced: [AtomicU64; CLASSES],
    refused: AtomicU64,
    closed: AtomicU64,
    closing: AtomicU64,
    not_drained: AtomicU64,
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

    /// Somebody waits for a queue to be closed, from now on.
    pub(crate) fn closing(&self) -> Closing<'_> {
        // Relaxed, here and below: statistics.
        self.closing.fetch_add(1, Relaxed);
        Closing(self)
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
            not_drained: self.not_drained.load(Relaxed),
        }
    }
}

/// A thread that waits for a queue to be closed.
#[derive(Debug)]
pub(crate) struct Closing<'a>(&'a Counts);

impl Closing<'_> {
    /// It was tried, in vain.
    pub(crate) fn not_drained(&self) {
        self.0.not_drained.fetch_add(1, Relaxed);
    }

    /// It is closed, and drained.
    pub(crate) fn closed(self, _: Drained) {
        self.0.closed.fetch_add(1, Relaxed);
    }
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.closing.fetch_sub(1, Relaxed);
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
