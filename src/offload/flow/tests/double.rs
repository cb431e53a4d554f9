//! A device of the tests' own, as small as can be: it does what it is told to, when it is told to. (The model in `sim` is the adversary; this one
//! is obedient, so that a test can put every event where it wants it.)

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::offload::dsa::abi::{
    CompletionRecord, CompletionSlot, Descriptor, Flags, GenCap, OpCap, Opcode, Status, Version, layout,
};
use crate::offload::dsa::portal::{Death, Drained, NotDrained, Portal, Submitted};
use crate::offload::dsa::queue::{Limits, Queue, QueueId, Queues};

/// The device, as tests hold it.
#[derive(Clone, Debug, Default)]
pub(super) struct Double(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Descriptor>,
    /// Descriptors that were accepted, batches and their children apart.
    accepted: usize,
    dead: Option<Death>,
    full: bool,
}

impl Portal for Double {
    unsafe fn submit(&self, descriptor: &Descriptor) -> Submitted {
        let mut inner = self.0.lock();
        if let Some(death) = inner.dead {
            return Submitted::Dead(death);
        }
        if inner.full {
            return Submitted::Full;
        }
        inner.queue.push_back(*descriptor);
        inner.accepted += 1;
        Submitted::Accepted
    }

    fn death(&self) -> Option<Death> {
        self.0.lock().dead
    }

    fn retire(&self) -> Result<Drained, NotDrained> {
        Ok(Drained::by_the_portals_word())
    }
}

/// What becomes of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Do {
    /// What it says.
    All,
    /// So many bytes (fewer than all), then a fault at the address behind them.
    Part(u32),
    /// Nothing, and this status.
    Status(Status),
    /// Of a batch: the first so many children, then a fault of the list.
    Children(u32),
    /// Of a batch: nothing more, and a fault of the list after the first so many children.
    Told(u32),
}

impl Double {
    pub(super) fn queue(&self, batch_max: u32, in_flight_max: u32) -> Queue {
        Queue::new("wq7.0", None, Self::limits(batch_max, in_flight_max), Box::new(self.clone()))
    }

    pub(super) fn limits(batch_max: u32, in_flight_max: u32) -> Limits {
        Limits {
            version: Version::V1_0,
            general: GenCap(0x40_915f_0107),
            operations: OpCap::of(&[Opcode::NOOP, Opcode::BATCH, Opcode::MEMMOVE, Opcode::MEMFILL, Opcode::COMPARE]),
            transfer_max: 2 << 20,
            batch_max,
            in_flight_max,
            block_on_fault: false,
        }
    }

    /// Takes a descriptor that came by another way than this portal.
    pub(super) fn accept(&self, descriptor: Descriptor) {
        self.0.lock().queue.push_back(descriptor);
    }

    pub(super) fn queues(&self, batch_max: u32, in_flight_max: u32) -> (Queues, QueueId) {
        let queues = Queues::new();
        let id = queues.add(self.queue(batch_max, in_flight_max)).expect("the first");
        (queues, id)
    }

    pub(super) fn set_full(&self, full: bool) {
        self.0.lock().full = full;
    }

    pub(super) fn kill(&self, death: Death) {
        self.0.lock().dead = Some(death);
    }

    pub(super) fn accepted(&self) -> usize {
        self.0.lock().accepted
    }

    /// What waits in the device, the oldest first.
    pub(super) fn waiting(&self) -> Vec<Descriptor> {
        self.0.lock().queue.iter().copied().collect()
    }

    /// Forgets the oldest, as a device that is reset does.
    pub(super) fn lose(&self) -> Descriptor {
        self.0.lock().queue.pop_front().expect("something was submitted")
    }

    /// Does the oldest.
    pub(super) fn step(&self, what: Do) {
        let descriptor = self.lose();
        carry_out(&descriptor, what);
    }

    /// Does all, the newest first.
    pub(super) fn run(&self) {
        let all: Vec<_> = self.0.lock().queue.drain(..).collect();
        for descriptor in all.iter().rev() {
            carry_out(descriptor, Do::All);
        }
    }
}

pub(super) fn carry_out(descriptor: &Descriptor, what: Do) {
    let mut record = CompletionRecord { status_byte: Status::SUCCESS.code(), ..CompletionRecord::default() };
    let source = descriptor.value(layout::SOURCE) as usize as *const u8;
    let destination = descriptor.value(layout::DESTINATION) as usize as *mut u8;
    let size = descriptor.value(layout::TRANSFER_SIZE) as usize;
    match (what, descriptor.opcode()) {
        (Do::Status(status), _) => record.status_byte = status.code(),
        (_, Opcode::NOOP) => {}
        (Do::All | Do::Part(_), Opcode::MEMMOVE) => {
            let bytes = match what {
                Do::Part(bytes) => {
                    let bytes = bytes.min(size as u32 - 1); // what is left of a resumed one may be less
                    record.status_byte = Status::PAGE_FAULT_NOBOF.code() | Status::WRITE_FAULT;
                    record.completed = bytes;
                    record.fault_address = destination.addr() as u64 + u64::from(bytes);
                    bytes as usize
                }
                _ => size,
            };
            // SAFETY: whoever submitted it promised that the memory is there.
            unsafe { std::ptr::copy(source, destination, bytes) };
        }
        (_, Opcode::BATCH) => {
            let list = descriptor.value(layout::LIST) as usize as *const Descriptor;
            let count = descriptor.value(layout::COUNT) as u32;
            let (done, told) = match what {
                Do::Children(done) => (done, done),
                Do::Told(told) => (0, told),
                _ => (count, count),
            };
            if told < count {
                record.status_byte = Status::BATCH_PAGE_FAULT.code();
            }
            record.completed = told;
            for at in (0..done).rev() {
                // SAFETY: the list stays until the batch's record is written, which is later.
                carry_out(unsafe { &*list.add(at as usize) }, Do::All);
            }
        }
        (what, opcode) => panic!("{what:?} of {opcode}"),
    }
    assert!(descriptor.flags().contains(Flags::RCR), "a descriptor without a record: {descriptor:?}");
    let address = descriptor.completion_address().expect("CRAV") as usize as *const CompletionSlot;
    // SAFETY: whoever submitted it promised that the record is there.
    let slot = unsafe { &*address };
    assert_eq!(slot.status_byte(), 0, "a record that was not zeroed, or is in use: {descriptor:?}");
    slot.publish(&record);
}
