//! Operations that wait for each other within one batch: a fence makes a descriptor wait for all before it, and stops the batch if one of those did not plainly succeed.
//!
//! What a stopped batch left out is not submitted again by its ticket, as other operations are that did not run: what it waits for may be under way
//! (a fault is resumed, alone). It is told so instead ([`Settled::NeverRan`](super::Settled::NeverRan)), and whoever knows the order submits it when its turn has come.

use super::claims::{Claim, numbers};
use super::close;
use super::core::Core;
use super::slot::Origin;
use super::submit::{How, write};
use super::ticket::Ticket;
use crate::offload::Operation;
use crate::offload::dsa::abi::Flags;
use crate::offload::dsa::portal::Submitted;
use crate::offload::dsa::prepare::Note;

/// Why a batch was not submitted. Nothing of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotTogether {
    /// No room, in the page or in the queue: when something has ended there may be.
    Now,
    /// Not as a batch, or not on this queue: one by one, as far as that goes.
    Ever,
}

impl Core {
    /// See [`Flow::submit_fenced`](super::Flow::submit_fenced).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn submit_fenced(
        &self,
        operations: &[(Operation, bool)],
        how: How,
        mut sink: impl FnMut(Ticket),
    ) -> Result<(), NotTogether> {
        let queue = self.queues.find(how.queue).filter(|queue| queue.health().is_up());
        let Some(queue) = queue.filter(|_| self.is_here() && !self.is_closed()) else { return Err(NotTogether::Ever) };
        if !(2..=close::batch_max(queue, &self.settings.batching)).contains(&operations.len()) {
            return Err(NotTogether::Ever);
        }
        // A slot for each, and the highest one for the batch.
        let page = self.page();
        let claim = page.claims.claim_many(operations.len() as u32 + 1);
        let Claim::Taken { slots, rouse } = claim else { return Err(NotTogether::Now) };
        if slots.count_ones() as usize != operations.len() + 1 {
            page.release(slots);
            if rouse {
                self.ring(); // nobody else will
            }
            return Err(NotTogether::Now);
        }
        let batch = slots.ilog2();
        let children = slots & !(1 << batch);
        let list = page.list_anew(batch);
        let mut write_back = 0_u64;
        let mut result = Ok(());
        for (at, (slot, (operation, fenced))) in numbers(children).zip(operations).enumerate() {
            let record = page.memory.record(slot).address();
            // SAFETY: in bounds, since there are at most LIST_LEN; the list belongs to the batch's slot, which is ours.
            let to = unsafe { list.add(at) };
            // SAFETY: as above, and aligned.
            match unsafe { write(operation, how.manner, queue, record, to) } {
                Ok(needs_write_back) => write_back |= u64::from(needs_write_back) << slot,
                Err(_) => result = Err(NotTogether::Ever),
            }
            if *fenced && result.is_ok() {
                // SAFETY: it was written just now.
                unsafe { *to = (*to).with_flags(Flags::FENCE) };
            }
        }
        if result.is_ok() {
            for slot in numbers(children) {
                page.memory.clear_record(slot);
                let here = page.slot(slot);
                here.set_origin(Origin::child(how.queue.index(), batch));
                let _ = here.publish(None);
            }
            // SAFETY: the children are published, the caller's promise holds for them, their list is complete, the batch's slot is ours.
            result = match unsafe { close::submit_batch(page, queue, how.queue, batch, children) } {
                Submitted::Accepted => Ok(()),
                Submitted::Full => Err(NotTogether::Now),
                Submitted::Dead(_) => Err(NotTogether::Ever),
            };
            if result.is_err() {
                // Nobody else has seen them but the reaper, which finds no record.
                numbers(children).for_each(|slot| _ = page.slot(slot).leave());
            }
        }
        if result.is_err() {
            page.release(slots);
        }
        if rouse {
            self.ring();
        }
        result?;
        for slot in numbers(children) {
            let note = Note::new(how.manner, write_back >> slot & 1 != 0);
            sink(Ticket::new(page, slot, note).in_order());
        }
        Ok(())
    }
}
