//! How does a descriptor get into a queue? By ENQCMD, by MOVDIR64B, and through the kernel's `write(2)` (SPEC 5.3).

use std::fmt;
use std::io;

use crate::offload::dsa::abi::limits::{DESCRIPTOR_BYTES, RECORD_BYTES};
use crate::offload::dsa::abi::{Descriptor, Opcode, SwErrorCode, Version, layout};

use super::config::{QueueMode, RefusesBatch};
use super::queue::{Admission, Arrival, Entry};
use super::state::{Origin, State, operations_in};
use super::trace::Loss;
use super::violations::Rule;

/// What ENQCMD answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "what has to be retried was not taken"]
pub enum Enqcmd {
    /// ZF is 0: the descriptor is in the queue.
    Accepted,
    /// ZF is 1: the queue is full, or disabled, or dedicated, or its device has halted. It never says which.
    Retry,
}

/// The cpu would raise an exception, which kills the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeneralProtection {
    /// The portal's address is not aligned to 64 bytes.
    Misaligned {
        /// The offset in the portal's page.
        offset: usize,
    },
    /// ENQCMD fills the first 4 bytes in itself, and wants zeros there.
    FirstWord {
        /// What was there.
        value: u32,
    },
    /// The process is a child (fork) of the one that opened the queue: it has neither the mapping nor a PASID.
    Forked,
}

impl fmt::Display for GeneralProtection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned { offset } => {
                write!(f, "#GP: offset {offset:#x} in a portal; descriptors go to multiples of 64")
            }
            Self::FirstWord { value } => {
                write!(
                    f,
                    "#GP: ENQCMD of a descriptor that starts with {value:#010x}; its first 4 bytes have to be zero"
                )
            }
            Self::Forked => {
                f.write_str("#GP: the queue was opened by the parent of this process; a child opens its own")
            }
        }
    }
}

impl std::error::Error for GeneralProtection {}

/// What the cpu checks itself.
pub(crate) fn cpu_checks(offset: usize, descriptor: &Descriptor, arrival: Arrival) -> Result<(), GeneralProtection> {
    if offset % DESCRIPTOR_BYTES != 0 {
        return Err(GeneralProtection::Misaligned { offset });
    }
    let value = descriptor.value(layout::TRUSTED) as u32;
    if arrival == Arrival::Deferrable && value != 0 {
        return Err(GeneralProtection::FirstWord { value });
    }
    Ok(())
}

impl State {
    pub(crate) fn enqcmd(&mut self, client: usize, descriptor: &Descriptor) -> Enqcmd {
        match self.arrive(client, Arrival::Deferrable, descriptor) {
            Admission::Accepted => Enqcmd::Accepted,
            Admission::Retry | Admission::Dropped | Admission::Overflow => Enqcmd::Retry,
        }
    }

    pub(crate) fn movdir64b(&mut self, client: usize, descriptor: &Descriptor) {
        // A posted write has no answer.
        let _ = self.arrive(client, Arrival::Posted, descriptor);
    }

    /// The kernel's part, for a caller in the opener's address space: whole descriptors, in order, up to the first that fails.
    pub(crate) fn write(&mut self, client: usize, bytes: &[u8]) -> io::Result<usize> {
        let kernel = self.config.kernel;
        let errno = |errno| Err(io::Error::from_raw_os_error(errno));
        if !kernel.has_write {
            return errno(libc::EINVAL);
        }
        let mut done = 0;
        for bytes in bytes.chunks_exact(DESCRIPTOR_BYTES) {
            let mut descriptor = [0; DESCRIPTOR_BYTES];
            descriptor.copy_from_slice(bytes);
            let failed = self.write_one(client, &Descriptor::from_bytes(&descriptor)).err();
            match failed {
                None => done += DESCRIPTOR_BYTES,
                Some(failed) if done == 0 => return errno(failed),
                Some(_) => break,
            }
        }
        Ok(done)
    }

    fn write_one(&mut self, client: usize, descriptor: &Descriptor) -> Result<(), i32> {
        let kernel = self.config.kernel;
        let refuses_batch = match kernel.refuses_batch {
            RefusesBatch::Always => true,
            RefusesBatch::Version1 => self.config.version < Version::V2_0,
        };
        // The alignment is looked at with or without CRAV.
        let misaligned = descriptor.value(layout::COMPLETION_ADDRESS) % RECORD_BYTES as u64 != 0;
        if misaligned || (refuses_batch && descriptor.opcode() == Opcode::BATCH) {
            return Err(libc::EINVAL);
        }
        let queue = self.clients[client].queue;
        // PASID and privilege are the kernel's to fill in.
        let descriptor = descriptor.with(layout::TRUSTED, 0);
        if self.config.queues[queue].mode == QueueMode::Dedicated {
            // No flow control, and no look at the state: whatever becomes of it, it counts as written.
            let _ = self.arrive(client, Arrival::Posted, &descriptor);
            return Ok(());
        }
        for _ in 0..kernel.enqcmds_retries.max(1) {
            match self.arrive(client, Arrival::Deferrable, &descriptor) {
                Admission::Accepted => return Ok(()),
                Admission::Retry | Admission::Dropped | Admission::Overflow => {}
            }
        }
        Err(libc::EAGAIN)
    }

    fn arrive(&mut self, client: usize, arrival: Arrival, descriptor: &Descriptor) -> Admission {
        let queue = self.clients[client].queue;
        let alive = self.is_alive(client);
        let config = &self.config.queues[queue];
        let wrong = match (arrival, config.mode) {
            (Arrival::Deferrable, QueueMode::Dedicated) => Some("ENQCMD to a dedicated queue says retry for ever"),
            (Arrival::Posted, QueueMode::Shared) => Some("MOVDIR64B to a shared queue is dropped"),
            _ => None,
        };
        let mut admission = self.queues[queue].admit(config, arrival, alive);
        let crowded = arrival == Arrival::Deferrable && self.weather.chance(self.weather.faults.retry);
        if admission == Admission::Accepted && crowded {
            admission = Admission::Retry;
        }
        if let Some(wrong) = wrong.filter(|_| self.profile.freedoms.watch) {
            self.watch.report(Rule::WrongInstruction, queue, Some(*descriptor), wrong.into());
        }
        match admission {
            Admission::Accepted => self.accept(client, queue, descriptor),
            Admission::Retry => self.counters.retries += 1,
            Admission::Dropped => self.drop_silently(client, queue, descriptor, Loss::Dropped),
            Admission::Overflow => {
                if self.profile.freedoms.watch {
                    let what = format!("all {} entries were taken", self.config.queues[queue].size);
                    self.watch.report(Rule::Overflow, queue, Some(*descriptor), what);
                }
                self.raise(SwErrorCode::QUEUE_OVERFLOW, queue, None, None);
                self.drop_silently(client, queue, descriptor, Loss::Overflow);
            }
        }
        admission
    }

    pub(super) fn accept(&mut self, client: usize, queue: usize, descriptor: &Descriptor) {
        let id = self.next_id;
        self.next_id += 1;
        self.counters.accepted += 1;
        let watched = self.profile.freedoms.watch;
        let origin = Origin { id, child: None, queue, client };
        let list = if watched { self.watch.submitted(origin, descriptor) } else { None };
        self.queues[queue].waiting.push_back(Entry { id, client, descriptor: *descriptor, list });
    }

    fn drop_silently(&mut self, client: usize, queue: usize, descriptor: &Descriptor, why: Loss) {
        self.counters.dropped += 1;
        let id = self.next_id;
        self.next_id += 1;
        let origin = Origin { id, child: None, queue, client };
        self.lose(origin, descriptor, operations_in(descriptor), why);
    }
}
