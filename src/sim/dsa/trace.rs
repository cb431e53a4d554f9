//! What did the device do with each descriptor, one after the other?

use std::collections::VecDeque;

use crate::offload::dsa::abi::{CompletionRecord, Descriptor};

/// A descriptor and what became of it. For [`Profile::trace`](super::Profile::trace).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceEntry {
    /// Counts the descriptors that queues took. A child has its batch's.
    pub id: u64,
    /// Its place in a batch.
    pub child: Option<usize>,
    /// The work queue, by number.
    pub queue: usize,
    /// Whose memory it works on.
    pub pasid: u32,
    /// As it was submitted.
    pub descriptor: Descriptor,
    /// What became of it.
    pub end: End,
    /// When, in nanoseconds since the device was made: in the device's time, which stands still without a [`Timing`](super::Timing).
    pub at_ns: u64,
}

/// What became of a descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// It ended so, and the record says so.
    Reported(CompletionRecord),
    /// It ended so, and no record was to be written.
    Silent(CompletionRecord),
    /// It ended so, or would have, and software will never know.
    Lost(Loss),
}

/// Why an operation is never answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// Its record could not be written: status 0x1a or 0x1b, which only the error register tells.
    Record,
    /// A dedicated queue had no room.
    Overflow,
    /// The queue does not take what comes that way, or is disabled.
    Dropped,
    /// The queue was disabled, or the device halted or reset, before it was done.
    Vanished,
    /// Injected: it was accepted and never carried out.
    Never,
}

#[derive(Debug)]
pub(crate) struct Trace {
    kept: usize,
    entries: VecDeque<TraceEntry>,
}

impl Trace {
    pub(crate) fn new(kept: usize) -> Self {
        Self { kept, entries: VecDeque::new() }
    }

    pub(crate) fn push(&mut self, entry: impl FnOnce() -> TraceEntry) {
        if self.kept == 0 {
            return;
        }
        if self.entries.len() == self.kept {
            self.entries.pop_front();
        }
        self.entries.push_back(entry());
    }

    pub(crate) fn take(&mut self) -> Vec<TraceEntry> {
        self.entries.drain(..).collect()
    }
}
