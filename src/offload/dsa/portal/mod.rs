//! How a descriptor gets to a device: one trait, and what a submission can come to.
//!
//! A [`Portal`] knows one work queue and one way into it. It says whether a descriptor was *accepted*, which means queued and nothing more: what
//! the device thinks of it stands in the completion record, later. It counts nothing and decides nothing; credits, health and choice are
//! [`Queue`](super::queue::Queue)'s.
//!
//! No device was there to see any of it. MOVDIR64B was executed, into the page of a file that a thread drained; ENQCMD's code was read back and
//! compared with the manual, and its protocol was run over a closure; `write(2)` went to sockets and pipes. What the kernel's own side does stands
//! here as its source has it.

#[cfg(not(twolane_loom))]
mod direct;
mod drained;
#[cfg(not(twolane_loom))]
mod enqcmd;
#[cfg(not(twolane_loom))]
mod lineage;
#[cfg(not(twolane_loom))]
mod mapped;
#[cfg(not(twolane_loom))]
mod node;
#[cfg(all(any(test, feature = "sim"), not(twolane_loom)))]
mod null;
#[cfg(not(twolane_loom))]
mod page;
#[cfg(not(twolane_loom))]
mod private;
#[cfg(not(twolane_loom))]
mod state;
#[cfg(all(test, not(twolane_loom)))]
pub(crate) mod test_device;
#[cfg(not(twolane_loom))]
mod way;
#[cfg(not(twolane_loom))]
mod write;

use std::fmt;

use super::abi::Descriptor;
#[cfg(not(twolane_loom))]
pub(crate) use direct::Direct;
pub(crate) use drained::{Drained, NotDrained};
#[cfg(not(twolane_loom))]
pub(crate) use lineage::Lineage;
#[cfg(all(any(test, feature = "sim"), not(twolane_loom)))]
#[allow(unused_imports)] // for counting instructions
pub(crate) use null::null_portal;
#[cfg(all(test, not(twolane_loom)))]
pub(crate) use private::open_node;
#[cfg(not(twolane_loom))]
pub(crate) use state::{NoState, StateSource};
#[cfg(not(twolane_loom))]
pub(crate) use way::{NotMapped, Way, map, through};

/// What became of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what was not accepted must be kept, or given to another engine"]
pub(crate) enum Submitted {
    /// The device has it, and may access everything that the descriptor names until the completion record is written.
    Accepted,
    /// The queue has no room now. Try again later, another queue, or the CPU; the device has not seen it.
    Full,
    /// This portal accepts nothing any more: never try again. The device has not seen the descriptor.
    Dead(Death),
}

/// Why a work queue accepts nothing any more. What it accepted before may still run, but after [`Halted`](Death::Halted).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) enum Death {
    /// The queue's or the device's `state` says that it is not enabled.
    Disabled,
    /// The device's `state` is `halted`: it needs a reset by an administrator.
    Halted,
    /// The queue's entry in sysfs is gone, and with it the driver or the device.
    Gone,
    /// The calling process is a child (fork) of the one that opened the queue.
    Forked,
    /// `write(2)` failed with this errno, which no retry cures.
    Errno(i32),
    /// It stayed silent: nothing that was submitted was answered in time.
    Silent,
    /// It was closed on this side, to be opened anew or for good.
    Retired,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabled => f.write_str("it was disabled; `accel-config enable-wq` brings it back"),
            Self::Halted => f.write_str("its device halted; reset it (`accel-config disable-device`, `enable-device`)"),
            Self::Gone => f.write_str("it is gone from sysfs; was the idxd driver unbound?"),
            Self::Forked => f.write_str("it was opened by the parent of this process; a child opens its own"),
            Self::Errno(errno) => {
                write!(f, "write(2) to it failed: {}", std::io::Error::from_raw_os_error(*errno))
            }
            Self::Silent => f.write_str("it does not answer"),
            Self::Retired => f.write_str("it was closed"),
        }
    }
}

/// One way into one work queue. Any thread may submit, without a lock.
pub(crate) trait Portal: Send + Sync + fmt::Debug {
    /// Hands one descriptor to the device.
    ///
    /// Everything that the calling thread wrote before (the zeroed record, the source, a batch's list) is visible to the device when it works on
    /// the descriptor. The descriptor itself is copied: it may be changed as soon as this returns.
    ///
    /// # Safety
    /// Until the completion record is written, for every descriptor that is accepted:
    /// - every address in it (a batch's children included) stays valid for the accesses of its operation, and what is written there is not
    ///   used otherwise;
    /// - its completion record is zeroed, 32-byte aligned, not in use by another operation, and stays mapped;
    /// - on a dedicated queue, no more than the queue's size are outstanding (the device drops the rest without a word).
    unsafe fn submit(&self, descriptor: &Descriptor) -> Submitted;

    /// A way that needs no call, where a single store is all that a submission takes, and always is accepted.
    #[cfg(not(twolane_loom))]
    fn direct(&self) -> Option<Direct> {
        None
    }

    /// Hands over descriptors in their order: how many were accepted, and why it stopped ([`Submitted::Accepted`] when all were). One fence, and
    /// where the way allows it one system call, for all of them.
    ///
    /// # Safety
    /// As [`submit`](Self::submit), for each of them.
    unsafe fn submit_many(&self, descriptors: &[Descriptor]) -> (usize, Submitted) {
        for (accepted, descriptor) in descriptors.iter().enumerate() {
            // SAFETY: the caller's promise, for this one.
            match unsafe { self.submit(descriptor) } {
                Submitted::Accepted => {}
                stopped => return (accepted, stopped),
            }
        }
        (descriptors.len(), Submitted::Accepted)
    }

    /// Looks anew whether the queue is alive: `None` if it is, or if nobody can say. Costs some microseconds (sysfs); for when an answer is overdue.
    fn death(&self) -> Option<Death> {
        None
    }

    /// Gives up the way into the queue, so that the kernel lets go of it: later submissions come to nothing. **It can block** for as long as the device
    /// hangs. May be called again, after an error. Ways that the kernel does not know of have nothing to do.
    ///
    /// # Errors
    /// [`NotDrained`]: the way may be closed, or not, and what it accepted may still run.
    fn retire(&self) -> Result<Drained, NotDrained>;
}
