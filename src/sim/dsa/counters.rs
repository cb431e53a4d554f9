//! What has the device done so far? To be compared with what a driver believes.

use std::collections::BTreeMap;

use crate::offload::dsa::abi::{Opcode, Status};

/// Counts since the device was made. Plain numbers, to be compared and printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Descriptors that a queue took: singles and batches, not their children.
    pub accepted: u64,
    /// ENQCMD that was told to retry, and descriptors for which `write(2)` said EAGAIN.
    pub retries: u64,
    /// Descriptors that were dropped without a word: queue full, disabled, halted, or of the other mode.
    pub dropped: u64,
    /// Batches that were dispatched.
    pub batches: u64,
    /// Descriptors out of batches' lists.
    pub children: u64,
    /// Operations that ended, by opcode and status (without bits 6 and 7), children among them.
    pub ended: BTreeMap<(Opcode, Status), u64>,
    /// Completion records written.
    pub records: u64,
    /// Bytes that operations wrote to memory, records apart.
    pub bytes_written: u64,
    /// Bytes that operations read, lists apart.
    pub bytes_read: u64,
    /// Page requests that the operating system served.
    pub page_requests: u64,
    /// Operations whose record will never come, though software was promised one: lost with a disable, halt or reset, lost with their record, dropped,
    /// or never carried out. A batch counts its children, those apart whose own record was written. Children that a fence gave up, or that are
    /// behind an unreadable page of the list, are not among them if the batch's record is written: it tells of those.
    pub lost: u64,
    /// Violations seen, kept or not.
    pub violations: u64,
}

impl Counters {
    /// Operations that ended with a status.
    pub fn with_status(&self, status: Status) -> u64 {
        self.ended.iter().filter(|((_, ended), _)| *ended == status).map(|(_, count)| count).sum()
    }

    /// Operations of an opcode that ended, however.
    pub fn with_opcode(&self, opcode: Opcode) -> u64 {
        self.ended.iter().filter(|((ended, _), _)| *ended == opcode).map(|(_, count)| count).sum()
    }
}
