//! Why an operation has no verdict.

use std::fmt;

/// Why an operation was not carried out, or not to its end. What a route can cure is cured before anybody sees one of these: the CPU finishes
/// what a device provably left undone.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The memory at this address cannot be used that way: unmapped, or read-only.
    BadAddress {
        /// The page's address.
        address: usize,
        /// The access was a write.
        write: bool,
    },
    /// A size or an alignment that the operation does not have. Nothing was done.
    Refused {
        /// What is wrong, with the value.
        what: String,
    },
    /// The device has the operation and does not answer: it was disabled, reset or halted, or an answer was lost. It may still write, so the
    /// buffers stay with the library until the process ends.
    Quarantined {
        /// The work queue.
        queue: String,
        /// How long it had been waited for, in milliseconds.
        after_ms: u64,
    },
    /// The device answered that it failed, in a way that says nothing about what it wrote.
    Device {
        /// The work queue.
        queue: String,
        /// The completion record's status.
        status: u8,
        /// What the status means.
        meaning: &'static str,
    },
    /// An operation of a [`Chain`](super::Chain) that it waited for failed. Nothing was done.
    NotDone {
        /// Which, by its number in the chain.
        because: usize,
    },
    /// The runtime has been shut down.
    Shutdown,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadAddress { address, write } => {
                let access = if *write { "written" } else { "read" };
                write!(f, "memory at {address:#x} cannot be {access}: map it, or give a buffer of its own")
            }
            Self::Refused { what } => f.write_str(what),
            Self::Quarantined { queue, after_ms } => write!(
                f,
                "work queue {queue} has not answered for {after_ms} ms and may still write: the buffers are kept until the process ends; \
                 see its `state` and `errors` in sysfs, or `twolane doctor`"
            ),
            Self::Device { queue, status, meaning } => {
                write!(f, "work queue {queue} answered {status:#04x} ({meaning})")
            }
            Self::NotDone { because } => write!(f, "not done, because operation {because} of its chain failed"),
            Self::Shutdown => f.write_str("the runtime has been shut down"),
        }
    }
}

impl std::error::Error for Failure {}
