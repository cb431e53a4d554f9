//! A work queue with nothing behind it: takes every descriptor, does nothing, and says that it is done when it is told to. For counting what a
//! submission costs on this side.

use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use crate::offload::dsa::abi::{
    CompletionRecord, CompletionSlot, Descriptor, GenCap, OpCap, Opcode, Status, Version, layout, limits,
};
use crate::offload::dsa::portal::null_portal;
use crate::offload::dsa::queue::{Limits, Queue};

const PAGE: usize = 4096;
const DESCRIPTOR: usize = limits::DESCRIPTOR_BYTES;

/// A queue with nothing behind it, which says "done" when it is told to. Give it to a runtime with [`Builder::null_queue`](crate::Builder::null_queue).
///
/// Data that is "copied" stays as it was.
#[derive(Clone, Debug)]
pub struct NullQueue(Arc<File>);

impl NullQueue {
    /// A queue with room for any number of descriptors.
    ///
    /// # Errors
    /// The kernel gives no memory.
    pub fn new() -> io::Result<Self> {
        // SAFETY: a name that ends in 0, and flags.
        let fd = unsafe { libc::memfd_create(c"twolane null queue".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor that was just made, and nobody else's.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(fd) });
        file.set_len(PAGE as u64)?;
        Ok(Self(Arc::new(file)))
    }

    pub(crate) fn queue(&self) -> io::Result<Queue> {
        let limits = Limits {
            version: Version::V1_0,
            general: GenCap(0x40_915f_0107), // a 4th generation Xeon's
            operations: OpCap::of(&[Opcode::NOOP, Opcode::BATCH, Opcode::MEMMOVE, Opcode::MEMFILL]),
            transfer_max: 1 << 31,
            batch_max: 32,
            in_flight_max: 64,
            block_on_fault: false,
        };
        Ok(Queue::new("null", None, limits, Box::new(null_portal(self.0.try_clone()?)?)))
    }

    /// Takes the descriptors out of the portal's page: the last 64 that were submitted since. In no order. What is submitted meanwhile is
    /// taken now or the next time; but threads choose their places each for itself, as with a device's portal, so of two that submit between two calls of
    /// this one may store over the other's.
    ///
    /// # Errors
    /// The page cannot be read.
    pub fn take(&self) -> io::Result<Vec<Descriptor>> {
        let mut page = [0_u8; PAGE];
        self.0.read_exact_at(&mut page, 0)?;
        let mut taken = Vec::new();
        for (place, bytes) in page.chunks_exact(DESCRIPTOR).enumerate() {
            let first = Descriptor::from_bytes(bytes.try_into().expect("chunks of this size"));
            if first.completion_address().is_none() {
                continue;
            }
            // The record's address is written last, so the rest is there now, if it was not when the page was read.
            let (mut bytes, at) = ([0; DESCRIPTOR], (place * DESCRIPTOR) as u64);
            self.0.read_exact_at(&mut bytes, at)?;
            // Nobody stores there again before 63 others were submitted.
            self.0.write_all_at(&[0; DESCRIPTOR], at)?;
            taken.push(Descriptor::from_bytes(&bytes));
        }
        Ok(taken)
    }

    /// Says that it is done: writes its record, and those of its children if it is a batch.
    ///
    /// # Safety
    /// - It came from [`take`](Self::take), this is the first time, and the runtime that submitted it still runs.
    pub unsafe fn finish(&self, descriptor: &Descriptor) {
        let record =
            CompletionRecord { status_byte: Status::SUCCESS.code(), completed: 0, ..CompletionRecord::default() };
        if descriptor.opcode() == Opcode::BATCH {
            let list = std::ptr::with_exposed_provenance::<Descriptor>(descriptor.value(layout::LIST) as usize);
            for at in 0..descriptor.value(layout::COUNT) as usize {
                // SAFETY: says the caller; a list is as long as its count, and is not written before its batch is done.
                unsafe { self.finish(&*list.add(at)) };
            }
        }
        if let Some(address) = descriptor.completion_address() {
            let slot = std::ptr::with_exposed_provenance::<CompletionSlot>(address as usize);
            // SAFETY: says the caller.
            unsafe { &*slot }.publish(&record);
        }
    }
}
