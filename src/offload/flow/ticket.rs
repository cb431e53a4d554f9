//! The holder's side of an operation that was submitted: what a future is made of.

use std::task::{Poll, Waker};

use super::counters::class;
use super::page::PageRef;
use super::slot::{Kept, OwesCredit, Registered};
use super::state::Phase;
use super::submit::How;
use crate::offload::dsa::abi::CompletionRecord;
use crate::offload::dsa::faults;
use crate::offload::dsa::outcome::{Fault, Outcome, Rest, outcome};
use crate::offload::dsa::portal::Submitted;
use crate::offload::dsa::prepare::prepare;
use crate::offload::{Failure, Operation, Verdict};

/// Times that an operation is submitted again because it had not run, before the CPU does it: 2.
const RETRIES_MAX: u8 = 2;
/// In the place of a number of retries: it is not submitted again, since others have their turn before it.
const IN_ORDER: u8 = u8::MAX;

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
    slot: u32,
    retries: u8,
    write_back: bool,
    /// The slot was given back: there is nothing to be done any more.
    over: bool,
    how: How,
    /// What was submitted last, if that is not the whole operation any more.
    rest: Option<Box<Rest>>,
}

impl Ticket {
    #[inline]
    pub(super) fn new(page: PageRef, slot: u32, how: How, write_back: bool) -> Self {
        Self { page, slot, retries: 0, write_back, over: false, how, rest: None }
    }

    /// One that waits for others in its batch: see [`Settled::NeverRan`].
    pub(super) fn in_order(self) -> Self {
        let mut this = self;
        this.retries = IN_ORDER;
        this
    }

    /// Whether it is over, and if so how; else `waker` will be woken when it may be (the last one that was given).
    ///
    /// Touches memory of the operation after a fault, and submits again what can be. After `Ready` it is not polled again. `op` is asked for when there is
    /// an answer; the ticket does not keep it, since the future that owns the buffers knows it, and a ticket is four words this way.
    ///
    /// # Panics
    /// When polled after `Ready`, except after [`Failure::Quarantined`].
    ///
    /// # Safety
    /// `op` says what was submitted, and the promise that was given then holds.
    pub(crate) unsafe fn poll(&mut self, op: impl FnOnce() -> Operation, waker: &Waker) -> Poll<Settled> {
        assert!(!self.over, "polled after it was ready");
        if !self.page.core().is_here() {
            self.over = true; // a copy of the parent's; its slot and its memory are the parent's
            return Poll::Ready(Settled::Failed(Failure::Refused { what: FORKED.into() }));
        }
        // Twice at most: what `register` says is over is over when it is looked at again.
        loop {
            let slot = self.page.slot(self.slot);
            if let Some(record) = self.page.memory.record(self.slot).record() {
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
    pub(crate) fn status_byte(&self) -> u8 {
        self.page.memory.record(self.slot).status_byte()
    }

    /// Submits it, and what waits with it, if it waits for room in its queue: for those that wait without a reaper.
    pub(crate) fn push(&self) {
        let core = self.page.core();
        if core.is_here() && self.page.backlog.peek() & 1 << self.slot != 0 {
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
        if std::mem::replace(&mut self.over, true) || !self.page.core().is_here() {
            return;
        }
        let slot = self.page.slot(self.slot);
        if self.page.backlog.withdraw(1 << self.slot) {
            // Never submitted, so it has no credit either.
            let _ = slot.leave();
            return self.page.release(1 << self.slot);
        }
        if self.page.memory.record(self.slot).status_byte() != 0 {
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
        self.over = true;
        let slot = self.page.slot(self.slot);
        let origin = slot.origin();
        if let Some(OwesCredit(credit)) = slot.leave() {
            if credit {
                self.page.give_back_credit(origin);
            }
            self.page.release(1 << self.slot);
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
                Poll::Ready(if self.write_back { Settled::WriteBack(verdict) } else { Settled::Done(verdict) })
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
        if self.retries == IN_ORDER {
            self.retries = 0;
        }
        self.rest = Some(Box::new(rest)); // a fault costs a thousand times as much
        self.again(rest, waker)
    }

    /// It did not run.
    fn retry(&mut self, rest: Rest, waker: &Waker) -> Poll<Settled> {
        if self.retries == IN_ORDER {
            self.leave();
            return Poll::Ready(Settled::NeverRan);
        }
        if self.retries == RETRIES_MAX {
            return self.on_cpu(rest);
        }
        if !self.take_slot_back(waker) {
            return Poll::Pending;
        }
        self.retries += 1;
        self.page.counters.retries.add(1);
        self.again(rest, waker)
    }

    fn on_cpu(&mut self, rest: Rest) -> Poll<Settled> {
        self.page.counters.cpu[class(rest.operation.len())].add(1);
        self.leave();
        Poll::Ready(Settled::OnCpu { rest, write_back: self.write_back })
    }

    fn fail(&mut self, failure: Failure) -> Poll<Settled> {
        self.leave();
        Poll::Ready(Settled::Failed(failure))
    }

    fn queue_name(&self) -> String {
        self.page.core().queue(self.how.queue.index()).map_or("?", |queue| queue.name()).into()
    }

    /// Makes the slot the holder's again. `false`: the reaper is in the middle of waking this task; the next poll will find it done.
    fn take_slot_back(&mut self, waker: &Waker) -> bool {
        let slot = self.page.slot(self.slot);
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
        let (page, slot) = (self.page, self.slot);
        let queue = core.queue(self.how.queue.index()).filter(|queue| queue.health().is_up() && !core.is_closed());
        let Some(queue) = queue else { return self.on_cpu(rest) };
        let record = page.memory.record(slot);
        let Ok(prepared) = prepare(&rest.operation, self.how.manner, queue.limits(), record.address()) else {
            return self.on_cpu(rest);
        };
        let descriptor = page.memory.descriptor(slot);
        // SAFETY: the slot is held, and its bit is not in the backlog.
        unsafe { descriptor.write(prepared.descriptor) };
        page.memory.clear_record(slot);
        let here = page.slot(slot);
        here.set_origin(super::slot::Origin { queue: self.how.queue.index(), credit: true });
        here.publish(Some(waker));
        // SAFETY: the promise that came with the operation, of which this is a part; its record is zeroed and the slot's own.
        match unsafe { queue.submit(&*descriptor) } {
            Submitted::Accepted => page.counters.singles.add(1),
            Submitted::Full => page.backlog.put_back(1 << slot),
            Submitted::Dead(_) => {
                // The credit went back with the refusal; `leave` in `on_cpu` would give back another.
                here.set_origin(super::slot::Origin { queue: self.how.queue.index(), credit: false });
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
