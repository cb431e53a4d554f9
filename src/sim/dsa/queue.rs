//! What waits in a work queue, and whether it takes more?

use std::collections::VecDeque;

use crate::offload::dsa::abi::Descriptor;

use super::config::{QueueConfig, QueueMode};

/// A work queue's contents and state.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) state: QueueState,
    /// Counts how often it was enabled: what was opened before is dead.
    pub(crate) generation: u64,
    /// Snapshots: the device copies a descriptor as it is submitted.
    pub(crate) waiting: VecDeque<Entry>,
    /// Dedicated: who has it open.
    pub(crate) holder: Option<usize>,
}

/// Whether a queue takes descriptors, as sysfs's `state` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueState {
    /// It takes and carries out descriptors.
    Enabled,
    /// It takes none, and carries out what it has.
    Draining,
    /// It takes none and has none.
    Disabled,
}

/// A descriptor in a queue.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) client: usize,
    pub(crate) descriptor: Descriptor,
    /// A batch's list as it was at submission, where software's duties are watched.
    pub(crate) list: Option<Vec<u8>>,
}

/// What becomes of a descriptor at a queue (SPEC 5.3, table 5-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Accepted,
    /// ENQCMD's answer, to everything that is not "accepted".
    Retry,
    /// MOVDIR64B has no answer.
    Dropped,
    /// Dropped because the queue is full, which the error register tells.
    Overflow,
}

/// How a descriptor comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// ENQCMD, or the kernel's ENQCMDS at the limited portal.
    Deferrable,
    /// MOVDIR64B.
    Posted,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self { state: QueueState::Enabled, generation: 0, waiting: VecDeque::new(), holder: None }
    }

    /// Whether a descriptor gets in. `alive`: the device is enabled and the portal belongs to this life of the queue.
    pub(crate) fn admit(&self, config: &QueueConfig, arrival: Arrival, alive: bool) -> Admission {
        let enabled = alive && self.state == QueueState::Enabled;
        let occupancy = self.waiting.len() as u64;
        match (arrival, config.mode) {
            (Arrival::Deferrable, QueueMode::Shared) if enabled && occupancy < u64::from(config.threshold) => {
                Admission::Accepted
            }
            (Arrival::Deferrable, _) => Admission::Retry,
            (Arrival::Posted, QueueMode::Dedicated) if enabled && occupancy < u64::from(config.size) => {
                Admission::Accepted
            }
            (Arrival::Posted, QueueMode::Dedicated) if enabled => Admission::Overflow,
            (Arrival::Posted, _) => Admission::Dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_5_1() {
        use Admission::*;
        use Arrival::*;
        let shared = QueueConfig::shared(4).threshold(2);
        let dedicated = QueueConfig::dedicated(4);
        // Queue, arrival, alive, state, entries, what becomes of it.
        let rows = [
            (&shared, Deferrable, true, QueueState::Enabled, 0, Accepted),
            (&shared, Deferrable, true, QueueState::Enabled, 1, Accepted),
            (&shared, Deferrable, true, QueueState::Enabled, 2, Retry),
            (&shared, Deferrable, true, QueueState::Disabled, 0, Retry),
            (&shared, Deferrable, true, QueueState::Draining, 0, Retry),
            (&shared, Deferrable, false, QueueState::Enabled, 0, Retry),
            (&dedicated, Deferrable, true, QueueState::Enabled, 0, Retry),
            (&dedicated, Posted, true, QueueState::Enabled, 3, Accepted),
            (&dedicated, Posted, true, QueueState::Enabled, 4, Overflow),
            (&dedicated, Posted, true, QueueState::Disabled, 4, Dropped),
            (&dedicated, Posted, false, QueueState::Enabled, 0, Dropped),
            (&shared, Posted, true, QueueState::Enabled, 0, Dropped),
        ];
        for (n, (config, arrival, alive, state, entries, admission)) in rows.into_iter().enumerate() {
            let mut queue = Queue::new();
            queue.state = state;
            let entry = |id| Entry { id, client: 0, descriptor: Descriptor::noop(), list: None };
            queue.waiting.extend((0..entries).map(entry));
            assert_eq!(queue.admit(config, arrival, alive), admission, "row {n}");
        }
    }
}
