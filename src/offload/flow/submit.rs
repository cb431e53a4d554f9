//! How operations get into the flow: a slot each, then the backlog or the device.

use std::mem::ManuallyDrop;
use std::task::Waker;

use super::claims::{Claim, numbers};
use super::close;
use super::core::Core;
use super::memory::{LIST_LEN, Line, Memory};
use super::page::PageRef;
use super::slot::{Origin, OriginWord, PreparedFor};
use super::ticket::{Ticket, Tickets};
use crate::offload::batch::Waiting;
use crate::offload::dsa::abi::{Descriptor, Flags};
use crate::offload::dsa::portal::{Death, Direct, Submitted};
use crate::offload::dsa::prepare::{Manner, Note, Unsuited, prepare};
use crate::offload::dsa::queue::{Condition, Queue, QueueId, Template};
use crate::offload::{Intent, Operation};

/// Copies that are submitted together: a batch, as many as pay (see `batch`).
pub(crate) const TOGETHER: usize = 8;
const _: () = assert!(TOGETHER <= LIST_LEN);

/// How an operation is to be carried out: what the router decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) queue: QueueId,
    pub(crate) manner: Manner,
    /// It may wait for others, to go in a batch with them; else it is submitted at once.
    pub(crate) gather: bool,
}

/// Why there is no ticket. Nothing was submitted, and the memory is the caller's again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Every slot is taken: wait for one ([`Flow::room`](super::Flow::room)), or let the CPU do it.
    NoSlot,
    /// The queue does not take the operation, or not in this size: the CPU does, or it is split.
    Unsuited(Unsuited),
    /// The queue takes nothing (now): another queue, or the CPU.
    QueueDown(Option<Death>),
    /// The flow was shut down.
    Closed,
    /// The caller runs in a child of the process that opened the flow.
    Forked,
}

impl Core {
    /// See [`Flow::submit`](super::Flow::submit).
    ///
    /// # Safety
    /// As there.
    #[inline]
    pub(super) unsafe fn submit(&self, op: &Operation, how: How, waker: Option<&Waker>) -> Result<Ticket, Refused> {
        if !self.is_here() {
            return Err(Refused::Forked);
        }
        let queue = self.up(how.queue)?;
        let (page, taken) = self.claim(1)?;
        let slot = taken.slots.trailing_zeros();
        let record = page.memory.record(slot);
        let descriptor = page.memory.descriptor(slot);
        // SAFETY: in bounds and aligned; the slot is ours, so the descriptor is.
        let write_back = match unsafe { write(op, how.manner, queue, record.address(), descriptor) } {
            Ok(write_back) => write_back,
            Err(unsuited) => return Err(self.give_up(page, taken, Refused::Unsuited(unsuited))),
        };
        page.memory.clear_record(slot);
        let here = page.slot(slot);
        here.set_origin(Origin::alone(how.queue.index()));
        here.publish(waker);
        if how.gather {
            let waiting = page.backlog.add(taken.slots, 1, op.len() as u64);
            if self.settings.batching.is_full(Waiting { count: waiting.count, bytes: waiting.bytes }) {
                close::close(self, page);
            }
        } else {
            // SAFETY: the caller's promise about the memory; the record is zeroed, the slot's own, and in the page, which stays. The descriptor is
            // ours until the state is over.
            match unsafe { queue.submit(&*descriptor) } {
                Submitted::Accepted => page.counters.singles.add_roughly(1),
                Submitted::Full => self.put_off(page, taken.slots),
                Submitted::Dead(death) => {
                    // The credit went back with the refusal. Nobody else has seen the slot but the reaper, which finds no record.
                    let _ = here.leave();
                    return Err(self.give_up(page, taken, Refused::QueueDown(Some(death))));
                }
            }
        }
        if taken.rouse {
            self.ring();
        }
        Ok(Ticket::new(page, slot, Note::new(how.manner, write_back)))
    }

    /// See [`Flow::submit_copy`](super::Flow::submit_copy).
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn submit_copy(
        &self,
        may_go: impl FnOnce(&Queue) -> bool,
        copy: (*const u8, *mut u8, usize),
        intent: Intent,
    ) -> Option<Ticket> {
        let sole = self.queues.sole()?;
        let queue = sole.queue();
        if !may_go(queue) || !self.is_here() || !queue.health().is_up() {
            return None;
        }
        let template = queue.copies().template(Manner { intent, block_on_fault: false }, copy.2)?;
        let page = self.page();
        if !queue.credits().take_one() {
            return None;
        }
        let Some(slot) = page.claims.claim_one() else {
            queue.answered(1);
            return None;
        };
        let line = Line::of(slot);
        let record = page.memory.record_at(line);
        Memory::clear_status(record);
        let here = page.slot_at(line);
        here.set_origin(Origin::alone(queue.id().index()));
        here.publish_new();
        // SAFETY: the caller's promise about the memory; the record is zeroed, the slot's own, and in the page, which stays; the credit keeps the queue from
        // overflowing. This is the process that opened the flow and its queues, and nothing in between forks. A line is a place.
        unsafe { sole.direct().submit(line.offset(), || template.of(copy, record.address())) };
        page.counters.singles.add_roughly(1);
        Some(Ticket::at(page, line, template.note()))
    }

    /// See [`Flow::submit_copies`](super::Flow::submit_copies).
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn submit_copies<T>(
        &self,
        go: impl Fn(&Queue, &mut [T]) -> usize,
        intent: Intent,
        copies: &mut [T],
        copy_of: impl Fn(&mut T) -> Option<(*const u8, *mut u8, usize)>,
        put: impl Fn(&mut T, Ticket),
    ) -> Option<Tickets> {
        let sole = self.queues.sole()?;
        let queue = sole.queue();
        let batch_max = close::batch_max(queue, &self.settings.batching);
        if batch_max < TOGETHER || !self.is_here() || !queue.health().is_up() {
            return None;
        }
        let go = go(queue, copies);
        let copies = &mut copies[..go];
        if copies.is_empty() {
            return None;
        }
        let page = self.page();
        if !queue.credits().take_one() {
            return None;
        }
        // A slot for each, and the highest one for the batch.
        let Some(first) = page.claims.claim_run::<{ TOGETHER as u32 + 1 }>() else {
            queue.answered(1);
            return None;
        };
        let mut run = Run { queue, direct: sole.direct(), page, first, count: 0 };
        let template = queue.copies().of(intent);
        run.prepare(intent, template);
        let (takes, note) = (template.lengths(), template.note());
        let origin = OriginWord::from(Origin::child(queue.id().index(), run.batch()));
        let (memory, mut line) = (page.memory.records(), Line::of(first));
        let mut to = page.memory.list(run.batch());
        let most = copies.len().min(TOGETHER);
        for (number, one) in copies[..most].iter_mut().enumerate() {
            let Some(copy) = copy_of(one) else { break };
            if !takes.contains(copy.2) {
                break;
            }
            // SAFETY: in bounds: a list is longer; it belongs to the batch's slot, which is ours, and was prepared for copies.
            unsafe { Descriptor::fill_in_memmove(to, copy.0.addr() as u64, copy.1.addr() as u64, copy.2 as u64) };
            Memory::clear_status(memory.at(line));
            let here = page.slot_at(line);
            here.set_origin(origin);
            here.publish_new();
            put(one, Ticket::at(page, line, note));
            run.count = number + 1;
            (line, to) = (line.next(), to.wrapping_add(1));
        }
        let count = run.count;
        run.submit();
        (count > 0).then(|| Tickets::new(page, Line::of(first), note, count as u32))
    }

    /// See [`Flow::submit_many`](super::Flow::submit_many).
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn submit_many(
        &self,
        ops: &[Operation],
        how: How,
        mut sink: impl FnMut(Ticket),
    ) -> Result<(), (usize, Refused)> {
        let mut done = 0;
        while done < ops.len() {
            // SAFETY: the caller's promise.
            let part = unsafe { self.submit_part(&ops[done..], how, &mut sink) };
            done += part.map_err(|refused| (done, refused))?;
        }
        Ok(())
    }

    /// Submits some of `ops`, at least one, or says why not.
    ///
    /// # Safety
    /// As `submit_many`.
    #[inline]
    unsafe fn submit_part(&self, ops: &[Operation], how: How, sink: &mut impl FnMut(Ticket)) -> Result<usize, Refused> {
        if !self.is_here() {
            return Err(Refused::Forked);
        }
        let queue = self.up(how.queue)?;
        let batch_max = close::batch_max(queue, &self.settings.batching);
        let wanted = ops.len().min(batch_max);
        if wanted < 2 {
            // SAFETY: the caller's promise.
            unsafe { self.submit(&ops[0], How { gather: false, ..how }, None) }.map(&mut *sink)?;
            return Ok(1);
        }
        // A slot for each, and the highest one for the batch.
        let (page, taken) = self.claim(wanted as u32 + 1)?;
        let batch = taken.slots.ilog2();
        let children = taken.slots & !(1 << batch);
        let list = page.list_anew(batch);
        let (mut used, mut write_back) = (0_u64, 0_u64);
        let (mut left, mut count) = (children, 0);
        while left != 0 {
            let slot = left.trailing_zeros();
            left &= left - 1;
            let record = page.memory.record(slot).address();
            // What is refused here is the first of the next part, where it is refused again, and reported.
            // SAFETY: in bounds, since there are at most LIST_LEN children; the list belongs to the batch's slot, which is ours.
            let written = unsafe { write(&ops[count], how.manner, queue, record, list.add(count)) };
            let Ok(needs_write_back) = written else { break };
            if needs_write_back {
                write_back |= 1 << slot;
            }
            page.memory.clear_record(slot);
            let here = page.slot(slot);
            here.set_origin(Origin::child(how.queue.index(), batch));
            here.publish(None);
            used |= 1 << slot;
            count += 1;
        }
        if count < 2 {
            // One, or none: the plain way does it, or says why not.
            for slot in numbers(used) {
                let _ = page.slot(slot).leave();
            }
            page.release(taken.slots);
            if taken.rouse {
                self.ring(); // nobody else will
            }
            // SAFETY: the caller's promise.
            unsafe { self.submit(&ops[0], How { gather: false, ..how }, None) }.map(&mut *sink)?;
            return Ok(1);
        }
        // SAFETY: the children are published, the caller's promise holds for them, their list is complete, the batch's slot is ours.
        match unsafe { close::submit_batch(page, queue, how.queue, batch, used) } {
            Submitted::Accepted => {}
            Submitted::Full => {
                for (at, slot) in numbers(used).enumerate() {
                    page.slot(slot).set_origin(Origin::alone(how.queue.index()));
                    // SAFETY: both are ours, in bounds and aligned; nothing was submitted.
                    unsafe { page.memory.descriptor(slot).copy_from_nonoverlapping(list.add(at), 1) };
                }
                // Only now: with the slot goes its list, and whoever has it next writes there.
                page.release(1 << batch);
                self.put_off(page, used);
            }
            Submitted::Dead(death) => {
                for slot in numbers(used) {
                    let _ = page.slot(slot).leave();
                }
                return Err(self.give_up(page, taken, Refused::QueueDown(Some(death))));
            }
        }
        let spare = children & !used;
        if spare != 0 {
            page.release(spare);
        }
        if taken.rouse {
            self.ring();
        }
        while used != 0 {
            let slot = used.trailing_zeros();
            used &= used - 1;
            sink(Ticket::new(page, slot, Note::new(how.manner, write_back >> slot & 1 != 0)));
        }
        Ok(count)
    }

    /// The queue, if it is worth a try.
    #[inline]
    fn up(&self, id: QueueId) -> Result<&Queue, Refused> {
        let Some(queue) = self.queues.find(id) else { return Err(Refused::QueueDown(None)) };
        if !queue.health().is_up() {
            return Err(down(queue));
        }
        Ok(queue)
    }

    #[inline]
    fn claim(&self, wanted: u32) -> Result<(PageRef, Taken), Refused> {
        let page = self.page();
        let claim = if wanted == 1 { page.claims.claim() } else { page.claims.claim_many(wanted) };
        match claim {
            Claim::Taken { slots, rouse } => Ok((page, Taken { slots, rouse })),
            Claim::Full | Claim::Retired => self.claim_again(wanted),
        }
    }

    /// The page may have been replaced, in which case the new one is in its place.
    #[cold]
    fn claim_again(&self, wanted: u32) -> Result<(PageRef, Taken), Refused> {
        if self.is_closed() {
            return Err(Refused::Closed);
        }
        let page = self.page_now();
        match page.claims.claim_many(wanted) {
            Claim::Taken { slots, rouse } => Ok((page, Taken { slots, rouse })),
            Claim::Full | Claim::Retired => Err(Refused::NoSlot),
        }
    }

    /// The queue is full: whoever comes next, or the reaper, tries again.
    #[cold]
    fn put_off(&self, page: PageRef, slots: u64) {
        page.counters.full.add(1);
        page.backlog.put_back(slots);
    }

    /// Gives back what was taken for nothing. The reaper was taken out of its sleep for it all the same: nobody else will call it.
    #[cold]
    fn give_up(&self, page: PageRef, taken: Taken, why: Refused) -> Refused {
        page.release(taken.slots);
        if taken.rouse {
            self.ring();
        }
        why
    }
}

/// Slots that follow each other, and a batch of what is in the first of them, which is [submitted](Self::submit), or when this is dropped: if a buffer panics when it is asked
/// where it is.
///
/// Whoever makes one holds [`TOGETHER`] slots from `first` on, that of the batch behind them, and a credit of the queue; the page is at home; and of the slots the first
/// `count` are published, with their descriptors in the batch's list, for which [`Portal::submit`](crate::offload::dsa::portal::Portal::submit)'s promise holds.
struct Run<'a> {
    queue: &'a Queue,
    direct: Direct,
    page: PageRef,
    first: u32,
    count: usize,
}

impl Run<'_> {
    #[inline(always)]
    fn batch(&self) -> u32 {
        self.first + TOGETHER as u32
    }

    /// The first `count` of the slots, as bits.
    #[inline(always)]
    fn slots(&self, count: usize) -> u64 {
        ((1 << count) - 1) << self.first
    }

    /// Sees to it that the batch's list holds copies to the slots' records, all but what differs from copy to copy.
    #[inline(always)]
    fn prepare(&self, intent: Intent, template: &Template) {
        let wanted = PreparedFor::copies(self.queue.id().index(), intent as u8);
        if self.page.slot_at(Line::of(self.batch())).prepared() != wanted {
            self.prepare_anew(wanted, template);
        }
    }

    #[cold]
    #[inline(never)]
    fn prepare_anew(&self, wanted: PreparedFor, template: &Template) {
        let list = self.page.list_anew(self.batch());
        for at in 0..TOGETHER as u32 {
            let record = self.page.memory.record(self.first + at).address();
            let descriptor = Descriptor::of_words(template.of((std::ptr::null(), std::ptr::null_mut(), 0), record));
            // SAFETY: in bounds: a list is longer; it belongs to the batch's slot, which is ours.
            unsafe { list.add(at as usize).write(descriptor) };
        }
        self.page.slot(self.batch()).set_prepared(wanted);
    }

    /// Submits what there is. As when it is dropped, but in place.
    #[inline(always)]
    fn submit(self) {
        let run = ManuallyDrop::new(self);
        if run.count == TOGETHER { run.submit_batch(TOGETHER) } else { run.submit_short() }
    }

    /// With slots left over.
    #[cold]
    fn submit_short(&self) {
        let Self { queue, page, first, count, .. } = *self;
        let mut spare = self.slots(TOGETHER) & !self.slots(count);
        match count {
            0 => {
                spare |= 1 << self.batch();
                queue.answered(1);
            }
            1 => {
                spare |= 1 << self.batch();
                page.slot(first).set_origin(Origin::alone(queue.id().index()));
                // SAFETY: in bounds, written, and ours (see the type).
                let words = unsafe { page.memory.list(self.batch()).cast::<[u64; 8]>().read() };
                // SAFETY: see the type; the credit is the operation's now. A line is a place.
                unsafe { self.direct.submit(Line::of(first).offset(), || words) };
                page.counters.singles.add_roughly(1);
            }
            _ => self.submit_batch(count),
        }
        page.release(spare);
    }

    /// The batch itself: `count` operations, at least 2.
    #[inline(always)]
    fn submit_batch(&self, count: usize) {
        let (page, line) = (self.page, Line::of(self.batch()));
        let record = page.memory.record_at(line);
        Memory::clear_status(record);
        let here = page.slot_at(line);
        here.set_origin(Origin::alone(self.queue.id().index()));
        here.publish_batch(self.slots(count));
        let list = page.memory.list(self.batch()).addr() as u64;
        // SAFETY: see the type; the record is zeroed and the slot's own; the list stays until the batch's record is written, since the slot is given back only
        // then. A line is a place.
        unsafe { self.direct.submit(line.offset(), || Descriptor::batch_words(list, count as u32, record.address())) };
        page.counters.batches.add_roughly(1);
        page.counters.batched.add_roughly(count as u64);
    }
}

/// Only where a buffer panics.
impl Drop for Run<'_> {
    #[cold]
    fn drop(&mut self) {
        self.submit_short(); // with no slot left over, none is given back
    }
}

#[cold]
fn down(queue: &Queue) -> Refused {
    match queue.health().condition() {
        Condition::Dead(death) => Refused::QueueDown(Some(death)),
        Condition::Up | Condition::Suspect => Refused::QueueDown(None),
    }
}

/// Writes the descriptor of an operation. Returns whether its destination is to be written back by the CPU.
///
/// # Safety
/// `to` is valid for a write, and the caller's.
#[inline(always)]
pub(super) unsafe fn write(
    op: &Operation,
    manner: Manner,
    queue: &Queue,
    record: u64,
    to: *mut Descriptor,
) -> Result<bool, Unsuited> {
    if let Operation::Copy { src, dst, len } = *op {
        if let Some(template) = queue.copies().template(manner, len) {
            // SAFETY: the caller's promise.
            unsafe { to.write(Descriptor::of_words(template.of((src, dst, len), record))) };
            return Ok(template.note().write_back());
        }
    }
    // SAFETY: the caller's promise.
    unsafe { write_any(op, manner, queue, record, to) }
}

/// As [`write()`], for what has no template.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn write_any(
    op: &Operation,
    manner: Manner,
    queue: &Queue,
    record: u64,
    to: *mut Descriptor,
) -> Result<bool, Unsuited> {
    let prepared = prepare(op, manner, queue.limits(), record)?;
    // SAFETY: the caller's promise.
    unsafe { to.write(prepared.descriptor) };
    Ok(prepared.write_back)
}

/// Slots that were taken.
#[derive(Clone, Copy, Debug)]
struct Taken {
    slots: u64,
    /// The reaper sleeps: call it when they are published.
    rouse: bool,
}

const _: () = assert!(LIST_LEN < 60, "a batch and its children fit a page");

/// What a batch's own descriptor is.
pub(super) fn batch_descriptor(list: *const Descriptor, count: usize, record: u64) -> Descriptor {
    // At most LIST_LEN.
    Descriptor::batch(list.addr() as u64, count as u32).report_to(record).with_flags(Flags::RCR)
}
