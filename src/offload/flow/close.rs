//! Closing a backlog: what waits becomes batches, single descriptors, or goes back to wait.
//!
//! Whoever takes the bits out of the backlog owns their submission; so of two that close at once each operation is submitted by one, and none twice.

use super::claims::{Claim, numbers};
use super::core::Core;
use super::memory::LIST_LEN;
use super::page::PageRef;
use super::slot::Origin;
use super::state::Over;
use super::submit::batch_descriptor;
use crate::offload::batch::{self, Batching};
use crate::offload::dsa::abi::Descriptor;
use crate::offload::dsa::portal::Submitted;
use crate::offload::dsa::queue::{Condition, Queue, QueueId};

/// What one batch of this queue may hold; below 2: no batches.
#[inline]
pub(super) fn batch_max(queue: &Queue, batching: &Batching) -> usize {
    (queue.limits().batch_max as usize).min(LIST_LEN).min(batching.count as usize)
}

/// Submits all that waits on this page, as far as the queues take it.
pub(super) fn close(core: &Core, page: PageRef) {
    let mut slots = page.backlog.take();
    let mut stay = 0;
    while slots != 0 {
        let queue = page.slot(slots.trailing_zeros()).origin().queue;
        let same = numbers(slots).filter(|&slot| page.slot(slot).origin().queue == queue);
        let same = same.fold(0, |same, slot| same | 1 << slot);
        slots &= !same;
        stay |= dispatch(core, page, QueueId::from_index(queue), same);
    }
    if stay != 0 {
        page.counters.full.add(1);
        page.backlog.put_back(stay);
    }
}

/// Submits slots to one queue; returns those for which it has no room.
fn dispatch(core: &Core, page: PageRef, id: QueueId, mut slots: u64) -> u64 {
    let Some(queue) = core.queues.find(id) else {
        unrun(page, slots);
        return 0;
    };
    match queue.health().condition() {
        Condition::Up => {}
        Condition::Suspect => return slots,
        Condition::Dead(_) => {
            unrun(page, slots);
            return 0;
        }
    }
    let batch_max = batch_max(queue, &core.settings.batching);
    for count in batch::split(slots.count_ones() as usize, batch_max) {
        let part = numbers(slots).take(count).fold(0, |part, slot| part | 1 << slot);
        let (gone, submitted) = if count == 1 { singles(page, queue, part) } else { together(page, queue, id, part) };
        slots &= !gone;
        match submitted {
            Submitted::Accepted => {}
            Submitted::Full => return slots,
            Submitted::Dead(_) => {
                unrun(page, slots);
                return 0;
            }
        }
    }
    slots // none, unless some of a part were left
}

/// Two or more as one batch; alone if there is no slot for the batch. Returns which went.
fn together(page: PageRef, queue: &Queue, id: QueueId, slots: u64) -> (u64, Submitted) {
    let Claim::Taken { slots: own, rouse: _ } = page.claims.claim() else { return singles(page, queue, slots) };
    // The reaper is awake, or was called: it does not sleep beside the live slots that are being submitted here.
    let batch = own.trailing_zeros();
    let list = page.list_anew(batch);
    for (at, slot) in numbers(slots).enumerate() {
        // SAFETY: in bounds (a part has at most LIST_LEN), aligned; the descriptor is ours with its bit, the list with its slot.
        unsafe { list.add(at).copy_from_nonoverlapping(page.memory.descriptor(slot), 1) };
        let here = page.slot(slot);
        here.set_origin(Origin::child(id.index(), batch));
    }
    // SAFETY: the children are published, their list is complete, the batch's slot is ours.
    match unsafe { submit_batch(page, queue, id, batch, slots) } {
        Submitted::Accepted => (slots, Submitted::Accepted),
        not => {
            page.release(own);
            for slot in numbers(slots) {
                page.slot(slot).set_origin(Origin::alone(id.index()));
            }
            (0, not)
        }
    }
}

/// Publishes and submits a batch whose list and children are in place. If it was not accepted, its slot is held again, by the caller.
///
/// # Safety
/// `batch` is a slot that the caller holds, with a descriptor in its list for each of `children` (2 to [`LIST_LEN`] slots, as bits), which are published, and for which
/// [`Portal::submit`](crate::offload::dsa::portal::Portal::submit)'s promise holds.
#[inline]
pub(super) unsafe fn submit_batch(page: PageRef, queue: &Queue, id: QueueId, batch: u32, children: u64) -> Submitted {
    let record = page.memory.record(batch);
    page.memory.clear_record(batch);
    let slot = page.slot(batch);
    slot.set_origin(Origin::alone(id.index()));
    slot.publish_batch(children);
    let count = children.count_ones() as usize;
    let descriptor = batch_descriptor(page.memory.list(batch), count, record.address());
    // SAFETY: the caller's promise; the record is zeroed and the slot's own; the list stays until the batch's record is written, since the
    // slot is given back only then.
    let submitted = unsafe { queue.submit(&descriptor) };
    if submitted == Submitted::Accepted {
        page.counters.batches.add_roughly(1);
        page.counters.batched.add_roughly(count as u64);
    } else {
        slot.unpublish_batch();
    }
    submitted
}

/// Descriptors alone, each with a record and a credit. Returns which went.
fn singles(page: PageRef, queue: &Queue, slots: u64) -> (u64, Submitted) {
    let mut descriptors = [Descriptor::ZERO; LIST_LEN];
    let mut count = 0;
    for slot in numbers(slots) {
        // SAFETY: the descriptor is ours with its bit.
        descriptors[count] = unsafe { page.memory.descriptor(slot).read() };
        count += 1;
    }
    // SAFETY: the operations were handed to the flow with the promise that this takes; each has a record of its own, zeroed when it was published.
    let (accepted, submitted) = unsafe { queue.submit_many(&descriptors[..count]) };
    page.counters.singles.add(accepted as u64);
    (numbers(slots).take(accepted).fold(0, |gone, slot| gone | 1 << slot), submitted)
}

/// These did not run and will not: their tasks see to it.
#[cold]
pub(super) fn unrun(page: PageRef, slots: u64) {
    for slot in numbers(slots) {
        let here = page.slot(slot);
        // No credit: it has none while it waits in the backlog.
        let none = here.origin().without_credit();
        let outcome = here.over(here.look(), Over::Unrun);
        page.carry_out(slot, none, outcome);
    }
}
