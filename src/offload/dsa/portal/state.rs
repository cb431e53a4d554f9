//! What can be asked about a queue's life. The only witness of its death: neither a portal nor `write(2)` tells.

use std::fmt;

use super::Death;
use crate::offload::dsa::discover::{Health, HealthFile};

/// Reads anew whether the queue is enabled.
pub(crate) trait StateSource: Send + Sync + fmt::Debug {
    /// `None`: it is enabled, or nobody can say. Costs two reads of sysfs, some microseconds.
    fn death(&self) -> Option<Death>;
}

/// Nothing is known: there is no /sys here (a container), and the queue was described by hand.
#[derive(Debug)]
pub(crate) struct NoState;

impl StateSource for NoState {
    fn death(&self) -> Option<Death> {
        None
    }
}

impl StateSource for HealthFile {
    fn death(&self) -> Option<Death> {
        match self.read() {
            Health::Enabled => None,
            Health::Disabled => Some(Death::Disabled),
            Health::Halted => Some(Death::Halted),
            Health::Gone => Some(Death::Gone),
        }
    }
}
