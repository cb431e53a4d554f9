//! Who keeps an eye on software? Which records and lists are in flight, and what was done to them meanwhile.

use std::collections::HashMap;

use crate::offload::dsa::abi::limits::{DESCRIPTOR_BYTES, RECORD_BYTES};
use crate::offload::dsa::abi::{Descriptor, Opcode, layout};

use super::memory;
use super::state::Origin;
use super::violations::{KEPT_MAX, Rule, Violation};

/// What is watched, and what was seen.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Records in flight, by address. Records that were lost stay, until their client closes: the device may write them yet.
    records: HashMap<u64, Held>,
    kept: Vec<Violation>,
    pub(crate) count: u64,
}

/// Whose record it is.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// The top-level descriptor.
    id: u64,
    client: usize,
}

impl Watch {
    pub(crate) fn violations(&self) -> &[Violation] {
        &self.kept
    }

    pub(crate) fn report(&mut self, rule: Rule, queue: usize, descriptor: Option<Descriptor>, what: String) {
        self.count += 1;
        if self.kept.len() < KEPT_MAX {
            self.kept.push(Violation { rule, what, queue, descriptor });
        }
    }

    /// A descriptor was submitted: its record and, for a batch, its children's are in flight from now on. Returns the list as it is now.
    pub(crate) fn submitted(&mut self, origin: Origin, descriptor: &Descriptor) -> Option<Vec<u8>> {
        self.hold(origin, descriptor);
        if descriptor.opcode() != Opcode::BATCH {
            return None;
        }
        let list = read_list(descriptor)?;
        for child in descriptors(&list) {
            self.hold(origin, &child);
        }
        Some(list)
    }

    /// The list is what it was: at its dispatch, and again before its batch's record is written.
    pub(crate) fn list_is_unchanged(&mut self, queue: usize, batch: &Descriptor, at_submission: &[u8], when: &str) {
        match read_list(batch) {
            Some(now) if now == at_submission => {}
            Some(now) => {
                let changed = now.iter().zip(at_submission).position(|(now, then)| now != then).unwrap_or(0);
                let (child, byte) = (changed / DESCRIPTOR_BYTES, changed % DESCRIPTOR_BYTES);
                let what = format!("byte {byte} of descriptor {child} in its list changed {when}");
                self.report(Rule::ListChanged, queue, Some(*batch), what);
            }
            None => self.report(Rule::ListLost, queue, Some(*batch), format!("its list was unmapped {when}")),
        }
    }

    /// A record was written, or will not be used: it may be used again.
    pub(crate) fn release(&mut self, descriptor: &Descriptor, id: u64) {
        let Some(address) = descriptor.completion_address() else { return };
        // Somebody else's by now, if it was reused too early.
        if self.records.get(&address).is_some_and(|held| held.id == id) {
            self.records.remove(&address);
        }
    }

    /// Nothing that a client submitted runs any more, and what was lost will not be written.
    pub(crate) fn forget(&mut self, client: usize) {
        self.records.retain(|_, held| held.client != client);
    }

    fn hold(&mut self, origin: Origin, descriptor: &Descriptor) {
        let Origin { id, client, queue, .. } = origin;
        let Some(address) = descriptor.completion_address() else { return };
        // What is misaligned is refused, and never written.
        if address % RECORD_BYTES as u64 != 0 {
            return;
        }
        if let Some(Held { id: other, .. }) = self.records.insert(address, Held { id, client }) {
            let what =
                format!("the completion record at {address:#x} belongs to descriptor {other}, which is in flight");
            self.report(Rule::RecordReused, queue, Some(*descriptor), what);
        }
        let mut status = [0];
        match memory::read(address, &mut status) {
            Ok(()) if status == [0] => {}
            Ok(()) => {
                let what = format!("the status at {address:#x} was {:#04x} when it was submitted", status[0]);
                self.report(Rule::RecordNotCleared, queue, Some(*descriptor), what);
            }
            Err(_) => {
                let what = format!("the completion record at {address:#x} is not mapped");
                self.report(Rule::RecordLost, queue, Some(*descriptor), what);
            }
        }
    }
}

fn read_list(batch: &Descriptor) -> Option<Vec<u8>> {
    /// Longer than any device's largest batch: a count that is refused later must not cost memory now.
    const COUNT_MAX: u64 = 1 << 15;
    let count = batch.value(layout::COUNT).min(COUNT_MAX) as usize;
    let mut list = vec![0; count * DESCRIPTOR_BYTES];
    memory::read(batch.value(layout::LIST), &mut list).ok()?;
    Some(list)
}

pub(crate) fn descriptors(list: &[u8]) -> impl Iterator<Item = Descriptor> + '_ {
    list.chunks_exact(DESCRIPTOR_BYTES).map(|bytes| {
        let mut descriptor = [0; DESCRIPTOR_BYTES];
        descriptor.copy_from_slice(bytes);
        Descriptor::from_bytes(&descriptor)
    })
}
