//! The holder's side of an operation that was submitted: what a future is made of.

use std::task::{Poll, Waker};

use super::counters::class;
use super::memory::Line;
use super::page::PageRef;
use super::slot::{Kept, Origin, OwesCredit, Registered};
use super::state::Phase;
use crate::offload::dsa::abi::CompletionRecord;
use crate::offload::dsa::faults;
use crate::offload::dsa::outcome::{Fault, Outcome, Rest, outcome};
use crate::offload::dsa::portal::Submitted;
use crate::offload::dsa::prepare::{Note, prepare};
use crate::offload::dsa::queue::QueueId;
use crate::offload::{Failure, Operation, Verdict};

/// Times that an operation is submitted again because it had not run, before the CPU does it: 2.
const RETRIES_MAX: u8 = 2;
/// In the place of a number of retries: it is not submitted again, since others have their turn before it.
const IN_ORDER: u8 = RETRIES;

/// What an operation came to.
#[derive(Debug)]
#[must_use]
pub(crate) enum Settled {
    /// It is done.
    Done(Verdict),
    /// It is done, and its destination is for the CPU to write back to memory: durability was asked for, and the device cannot.
    WriteBack(Verdict),
    /// It is not, and the device is done with its memory; but after [`Failure::Quarantined`]: then [`Ticket::abandon`] has to be called, or the memory
    /// leaked.
    Failed(Failure),
    /// It did not run, and will not: whoever asked for an order ([`Flow::submit_fenced`](super::Flow::submit_fenced)) submits it when its turn has come.
    NeverRan,
    /// The device did not (quite) do it and is done with its memory: this is left for the CPU, whose verdict is to be [`lift`](Rest::lift)ed. The CPU
    /// can access all of it. `write_back`: as above.
    OnCpu {
        /// What is left.
        rest: Rest,
        /// Its destination, the part included that the device wrote, is to be written back.
        write_back: bool,
        /// It is large enough to be stored past the caches.
        streamed: bool,
    },
}

/// An operation that was submitted, and the slot that it has until it is over.
///
/// Dropped, it leaves the operation alone: what the operation refers to must then stay for ever, which is what [`abandon`](Self::abandon) is for.
/// Forgotten (`mem::forget`), it leaks its slot; a page that has lost too many is replaced.
#[must_use]
#[derive(Debug)]
pub(crate) struct Ticket {
    page: PageRef,
    /// Its own bytes: the slot, how often it was retried, and `OVER`.
    note: Note,
    /// What was submitted last, if that is not the whole operation any more.
    rest: Option<Box<Rest>>,
}

/// In a note: one retry, of at most 3.
const RETRY: u16 = 1;
const RETRIES: u8 = 0b11;
/// In a note: the slot was given back, there is nothing to be done any more.
const OVER: u16 = 1 << 15;
const _: () = assert!(Line::BITS & (RETRIES as u32 | OVER as u32) == 0);

#[inline(always)]
fn slot_of(note: Note) -> u32 {
    Line::of_bits(note.own().into()).slot()
}

#[inline(always)]
fn is_over(note: Note) -> bool {
    note.own() & OVER != 0
}

/// The tickets of copies whose slots follow each other, not made yet: whoever makes none has forgotten them all.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tickets {
    page: PageRef,
    /// The first one's.
    note: Note,
    count: u32,
}

impl Tickets {
    #[inline(always)]
    pub(super) fn new(page: PageRef, first: Line, note: Note, count: u32) -> Self {
        Self { page, note: note.with_own(first.bits().into()), count }
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count as usize
    }

    /// One of them, by its number from 0.
    ///
    /// # Safety
    /// It was not made before.
    #[inline(always)]
    pub(crate) unsafe fn ticket(&self, number: usize) -> Ticket {
        assert!(number < self.count());
        // Below the last line's, so it stays among the keeper's own.
        Ticket { page: self.page, note: self.note.raised((number as u32 * (Line::of(1).bits())) as u16), rest: None }
    }
}

impl Ticket {
    #[inline(always)]
    pub(super) fn new(page: PageRef, slot: u32, note: Note) -> Self {
        Self { page, note: note.with_own(Line::of(slot).bits().into()), rest: None }
    }

    /// As [`new`](Self::new).
    #[inline(always)]
    pub(super) fn at(page: PageRef, line: Line, note: Note) -> Self {
        Self { page, note: note.with_own(line.bits().into()), rest: None }
    }

    fn slot(&self) -> u32 {
        slot_of(self.note)
    }

    fn retries(&self) -> u8 {
        self.note.own() as u8 & RETRIES
    }

    fn is_over(&self) -> bool {
        is_over(self.note)
    }

    /// `true`: it was already.
    fn set_over(&mut self) -> bool {
        let was = self.is_over();
        if !was {
            self.note = self.note.raised(OVER);
        }
        was
    }

    /// The queue that it was submitted to last.
    fn queue(&self) -> QueueId {
        QueueId::from_index(self.page.slot(self.slot()).origin().queue)
    }

    /// `true`: it is with the device, and `waker` will be woken when it is over. `false`: look at it closer, with [`poll`](Self::poll), which may come to the
    /// same. The first poll of what was submitted just now, and no more than that.
    #[inline(always)]
    pub(crate) fn waits(&self, waker: &Waker) -> bool {
        // By value: what is looked at in between keeps the compiler from remembering what is behind a reference.
        let (page, note) = (self.page, self.note);
        let line = Line::of_bits(note.own().into());
        !is_over(note)
            && page.is_here()
            && page.memory.record_at(line).status_byte() == 0
            && page.slot_at(line).register_first(waker)
    }

    /// One that waits for others in its batch: see [`Settled::NeverRan`].
    pub(super) fn in_order(self) -> Self {
        let note = self.note.raised(u16::from(IN_ORDER) * RETRY);
        let mut this = self;
        this.note = note;
        this
    }

    /// Whether it is over, and if so how; else `waker` will be woken when it may be (the last one that was given).
    ///
    /// Touches memory of the operation after a fault, and submits again what can be. After `Ready` it is not polled again. `op` is asked for when there is
    /// an answer; the ticket does not keep it, since the future that owns the buffers knows it, and a ticket is three words this way.
    ///
    /// # Panics
    /// When polled after `Ready`, except after [`Failure::Quarantined`].
    ///
    /// # Safety
    /// `op` says what was submitted, and the promise that was given then holds.
    pub(crate) unsafe fn poll(&mut self, op: impl FnOnce() -> Operation, waker: &Waker) -> Poll<Settled> {
        assert!(!self.is_over(), "polled after it was ready");
        if !self.page.is_here() {
            self.set_over(); // a copy of the parent's; its slot and its memory are the parent's
            return Poll::Ready(Settled::Failed(Failure::Refused { what: FORKED.into() }));
        }
        // Twice at most: what `register` says is over is over when it is looked at again.
        loop {
            let slot = self.page.slot(self.slot());
            if let Some(record) = self.page.memory.record(self.slot()).record() {
                return self.settle(self.rest_of(op()), &record, waker);
            }
            match slot.look().phase() {
                Phase::Live => match slot.register(waker) {
                    Registered::Waiting => return Poll::Pending,
                    Registered::Over => continue,
                },
                // The record was written between our looks.
                Phase::Settled => continue,
                Phase::Unrun => return self.retry(self.rest_of(op()), waker),
                Phase::Quarantined => return Poll::Ready(Settled::Failed(self.quarantined())),
                Phase::Held => unreachable!("a ticket's slot is published until the ticket is over"),
            }
        }
    }

    /// Its record's status byte: 0 while there is no answer. For those that wait for it themselves.
    #[inline]
    pub(crate) fn status_byte(&self) -> u8 {
        self.page.memory.record(self.slot()).status_byte()
    }

    /// Submits it, and what waits with it, if it waits for room in its queue: for those that wait without a reaper.
    pub(crate) fn push(&self) {
        let core = self.page.core();
        if core.is_here() && self.page.backlog.peek() & 1 << self.slot() != 0 {
            super::close::close(core, self.page);
        }
    }

    /// Nobody waits for it any more. If the device may still work on it, `keep` is called (once, and only then) for what must stay until it has
    /// answered; the ring drops that then, in whichever thread, or never.
    ///
    /// # Cost
    /// One allocation (in `keep`) if the operation is with the device; else none.
    pub(crate) fn abandon(mut self, keep: impl FnOnce() -> Kept) {
        self.let_go(|| Some(keep()));
    }

    fn let_go(&mut self, keep: impl FnOnce() -> Option<Kept>) {
        if self.set_over() || !self.page.is_here() {
            return;
        }
        let slot = self.page.slot(self.slot());
        if self.page.backlog.withdraw(1 << self.slot()) {
            // Never submitted, so it has no credit either.
            let _ = slot.leave();
            return self.page.release(1 << self.slot());
        }
        if self.page.memory.record(self.slot()).status_byte() != 0 {
            return self.leave();
        }
        match slot.abandon(keep()) {
            Ok(()) => self.page.counters.abandoned.add(1),
            Err(kept) => {
                self.leave();
                drop(kept);
            }
        }
    }

    /// Gives the slot back; the operation is over.
    fn leave(&mut self) {
        self.set_over();
        let slot = self.page.slot(self.slot());
        let origin = slot.origin();
        if let Some(OwesCredit(credit)) = slot.leave() {
            if credit {
                self.page.give_back_credit(origin);
            }
            self.page.release(1 << self.slot());
        }
    }

    /// What was submitted last.
    fn rest_of(&self, op: Operation) -> Rest {
        self.rest.as_deref().copied().unwrap_or_else(|| Rest::whole(op))
    }

    /// The record is there.
    fn settle(&mut self, submitted: Rest, record: &CompletionRecord, waker: &Waker) -> Poll<Settled> {
        match outcome(&submitted, record) {
            Outcome::Done(verdict) => {
                self.page.counters.device[class(submitted.operation.len())].add(1);
                self.leave();
                Poll::Ready(if self.note.write_back() { Settled::WriteBack(verdict) } else { Settled::Done(verdict) })
            }
            Outcome::Resume { rest, fault } => self.resume(rest, fault, waker),
            Outcome::Finish { rest, fault: None } => self.on_cpu(rest),
            // The CPU would die of what the device was refused.
            Outcome::Finish { rest, fault: Some(_) } => match faults::check(&rest.operation) {
                Ok(()) => self.on_cpu(rest),
                Err(failure) => self.fail(failure),
            },
            Outcome::Refused { rest, .. } => self.on_cpu(rest),
            Outcome::Failed(status) => {
                let (queue, meaning) = (self.queue_name(), status.meaning());
                self.fail(Failure::Device { queue, status: status.code(), meaning })
            }
            // Not of a record whose status was not zero.
            Outcome::Pending => Poll::Pending,
        }
    }

    /// A page was absent: brings it in, and submits what remains.
    fn resume(&mut self, rest: Rest, fault: Fault, waker: &Waker) -> Poll<Settled> {
        if let Err(failure) = faults::bring_in(&rest.operation, fault) {
            return self.fail(failure);
        }
        if !self.take_slot_back(waker) {
            return Poll::Pending;
        }
        self.page.counters.resumes.add(1);
        // What is resumed was running, so its turn had come: from here on it goes as others do.
        if self.retries() == IN_ORDER {
            self.note = self.note.raised((u16::from(IN_ORDER) * RETRY).wrapping_neg());
        }
        self.rest = Some(Box::new(rest)); // a fault costs a thousand times as much
        self.again(rest, waker)
    }

    /// It did not run.
    fn retry(&mut self, rest: Rest, waker: &Waker) -> Poll<Settled> {
        if self.retries() == IN_ORDER {
            self.leave();
            return Poll::Ready(Settled::NeverRan);
        }
        if self.retries() == RETRIES_MAX {
            return self.on_cpu(rest);
        }
        if !self.take_slot_back(waker) {
            return Poll::Pending;
        }
        self.note = self.note.raised(RETRY);
        self.page.counters.retries.add(1);
        self.again(rest, waker)
    }

    fn on_cpu(&mut self, rest: Rest) -> Poll<Settled> {
        let len = rest.operation.len();
        self.page.counters.cpu[class(len)].add(1);
        // Before the slot is given back, which keeps the core.
        let streamed = len >= self.page.core().settings.streamed_from;
        self.leave();
        Poll::Ready(Settled::OnCpu { rest, write_back: self.note.write_back(), streamed })
    }

    fn fail(&mut self, failure: Failure) -> Poll<Settled> {
        self.leave();
        Poll::Ready(Settled::Failed(failure))
    }

    fn queue_name(&self) -> String {
        self.page.core().queues.find(self.queue()).map_or("?", |queue| queue.name()).into()
    }

    /// Makes the slot the holder's again. `false`: the reaper is in the middle of waking this task; the next poll will find it done.
    fn take_slot_back(&mut self, waker: &Waker) -> bool {
        let slot = self.page.slot(self.slot());
        let origin = slot.origin();
        match slot.reclaim() {
            Some(OwesCredit(credit)) => {
                if credit {
                    self.page.give_back_credit(origin);
                }
                true
            }
            None => {
                waker.wake_by_ref(); // the waker that is being woken may be an older one
                false
            }
        }
    }

    /// Submits what is left, alone, in the slot that is held.
    fn again(&mut self, rest: Rest, waker: &Waker) -> Poll<Settled> {
        let core = self.page.core();
        let (page, slot) = (self.page, self.slot());
        let id = self.queue();
        let queue = core.queues.find(id).filter(|queue| queue.health().is_up() && !core.is_closed());
        let Some(queue) = queue else { return self.on_cpu(rest) };
        let record = page.memory.record(slot);
        let Ok(prepared) = prepare(&rest.operation, self.note.manner(), queue.limits(), record.address()) else {
            return self.on_cpu(rest);
        };
        let descriptor = page.memory.descriptor(slot);
        // SAFETY: the slot is held, and its bit is not in the backlog.
        unsafe { descriptor.write(prepared.descriptor) };
        page.memory.clear_record(slot);
        let here = page.slot(slot);
        here.set_origin(Origin::alone(id.index()));
        here.publish(Some(waker));
        // SAFETY: the promise that came with the operation, of which this is a part; its record is zeroed and the slot's own.
        match unsafe { queue.submit(&*descriptor) } {
            Submitted::Accepted => page.counters.singles.add(1),
            Submitted::Full => page.backlog.put_back(1 << slot),
            Submitted::Dead(_) => {
                // The credit went back with the refusal; `leave` in `on_cpu` would give back another.
                here.set_origin(Origin::alone(id.index()).without_credit());
                return self.on_cpu(rest);
            }
        }
        if page.claims.rouse() {
            core.ring();
        }
        Poll::Pending
    }

    fn quarantined(&self) -> Failure {
        let after_ms = u64::try_from(self.page.core().settings.timeout.as_millis()).unwrap_or(u64::MAX);
        Failure::Quarantined { queue: self.queue_name(), after_ms }
    }
}

/// What a child of a fork is told.
const FORKED: &str = "this operation was submitted by the parent of this process (fork), which alone hears of its end: submit it again here";

impl Drop for Ticket {
    fn drop(&mut self) {
        self.let_go(|| None);
    }
}
