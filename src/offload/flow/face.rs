//! The flow as the rest of the crate sees it.

use std::io;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

#[cfg(doc)]
use super::TOGETHER;
use super::close;
use super::core::{Core, Settings};
use super::counters::Totals;
use super::fenced::NotTogether;
use super::reaper::Reaper;
use super::room::Room;
use super::shutdown::{self, Report};
use super::submit::{How, Refused};
use super::ticket::{Ticket, Tickets};
use crate::offload::dsa::portal::{Drained, NotDrained};
use crate::offload::dsa::queue::{Queue, QueueId, Queues};
use crate::offload::{Intent, Operation};

/// Everything between the router and the portals. Shared by lanes, foreign threads and futures; dropped (and not shut down), it takes nothing new, and
/// goes when the last ticket does.
#[derive(Debug)]
pub(crate) struct Flow(Arc<Core>);

impl Flow {
    /// Opens a flow over queues that were opened before; more may be added while it runs ([`queues`](Self::queues)).
    ///
    /// # Errors
    /// There was no memory for the pages (76 KiB of addresses each, of which 8 KiB are touched).
    pub(crate) fn new(queues: Queues, settings: Settings) -> io::Result<Self> {
        Ok(Self(Core::open(queues, settings)?))
    }

    #[cfg(test)]
    pub(super) fn core(&self) -> &Arc<Core> {
        &self.0
    }

    /// The queues, old openings too.
    #[inline]
    pub(crate) fn queues(&self) -> &Queues {
        &self.0.queues
    }

    /// Prepares an operation and submits it, or lets it wait in the backlog (`how.gather`). With `waker`, the first poll is made with it: it
    /// is woken when the operation is over.
    ///
    /// # Cost
    /// No allocation, no lock, one exchange for the slot and the queue's own for its credit.
    ///
    /// # Errors
    /// [`Refused`]: nothing was submitted, and the caller has its memory.
    ///
    /// # Safety
    /// What the operation's addresses refer to stays valid for what it does, and is not used otherwise, until one of these: the ticket's `poll` said
    /// `Ready`, with anything but `Failure::Quarantined`; or what `abandon` was given is dropped, or was not asked for. If neither comes, for ever.
    #[inline]
    pub(crate) unsafe fn submit(&self, op: &Operation, how: How, waker: Option<&Waker>) -> Result<Ticket, Refused> {
        // SAFETY: the caller's promise.
        unsafe { self.0.submit(op, how, waker) }
    }

    /// A copy, submitted at once to the only queue that there is if that `may_go`, and without a look at anything that is not as it nearly always is. `None`: nothing
    /// was done, and [`submit`](Self::submit) knows why.
    ///
    /// # Safety
    /// As [`submit`](Self::submit).
    #[inline(always)]
    pub(crate) unsafe fn submit_copy(
        &self,
        may_go: impl FnOnce(&Queue) -> bool,
        copy: (*const u8, *mut u8, usize),
        intent: Intent,
    ) -> Option<Ticket> {
        // SAFETY: the caller's promise.
        unsafe { self.0.submit_copy(may_go, copy, intent) }
    }

    /// The first of these copies, together in one batch to the only queue that there is, as many as `go` there: as [`submit_copy`](Self::submit_copy) each, of which
    /// says `copy_of`. Each one's ticket is `put`, and all of them are returned, for whoever forgets it there. `None`: nothing was done. Fewer than [`TOGETHER`] are
    /// submitted if there are no more, or if the next one is unusual.
    ///
    /// # Safety
    /// As [`submit`](Self::submit), for each; and `copy_of` and `put` do not fork.
    #[inline(always)]
    pub(crate) unsafe fn submit_copies<T>(
        &self,
        go: impl Fn(&Queue, &mut [T]) -> usize,
        intent: Intent,
        copies: &mut [T],
        copy_of: impl Fn(&mut T) -> Option<(*const u8, *mut u8, usize)>,
        put: impl Fn(&mut T, Ticket),
    ) -> Option<Tickets> {
        // SAFETY: the caller's promise.
        unsafe { self.0.submit_copies(go, intent, copies, copy_of, put) }
    }

    /// Submits operations together, in batches where the queue takes them, in their order; `how.gather` does not matter. Each ticket goes to `sink`.
    ///
    /// # Cost
    /// As [`submit`](Self::submit), once a batch; and a descriptor and a record each.
    ///
    /// # Errors
    /// How many were submitted (their tickets went to `sink`), and why the next one was not. Nothing is known of those behind it.
    ///
    /// # Safety
    /// As [`submit`](Self::submit), for each.
    #[inline]
    pub(crate) unsafe fn submit_many(
        &self,
        ops: &[Operation],
        how: How,
        sink: impl FnMut(Ticket),
    ) -> Result<(), (usize, Refused)> {
        // SAFETY: the caller's promise.
        unsafe { self.0.submit_many(ops, how, sink) }
    }

    /// Submits operations as one batch, all or none, in which those that are marked wait for all before them. They are not mixed with what waits for others.
    ///
    /// # Errors
    /// [`NotTogether`]: nothing was submitted.
    ///
    /// # Safety
    /// As [`submit`](Self::submit), for each.
    pub(crate) unsafe fn submit_fenced(
        &self,
        operations: &[(Operation, bool)],
        how: How,
        sink: impl FnMut(Ticket),
    ) -> Result<(), NotTogether> {
        // SAFETY: the caller's promise.
        unsafe { self.0.submit_fenced(operations, how, sink) }
    }

    /// What a batch of this queue may hold; below 2: it takes none.
    pub(crate) fn batch_max(&self, queue: QueueId) -> usize {
        self.0.queues.find(queue).map_or(0, |queue| close::batch_max(queue, &self.0.settings.batching))
    }

    /// Submits what waits in the calling thread's backlog.
    pub(crate) fn flush(&self) {
        if self.0.is_here() {
            close::close(&self.0, self.0.page());
        }
    }

    /// Ready when a slot may be free: after [`Refused::NoSlot`].
    pub(crate) fn room(&self) -> Room {
        Room::new(&self.0)
    }

    /// The poller that wakes tasks; `bell` calls the lane that it is given to. There is one at a time; `None`: there is one.
    pub(crate) fn reaper(&self, bell: impl Fn() + Send + Sync + 'static) -> Option<Reaper> {
        self.0.set_bell(Box::new(bell));
        Reaper::new(&self.0)
    }

    /// Takes nothing new, submits what waits, waits until everything is answered or `deadline` has come, and gives up the rest. Tasks that wait are
    /// woken: their operations are done, left to the CPU, or quarantined. May be called from any thread; the reaper may be running or gone.
    ///
    /// Nothing is freed that the device may still write to: what was given up, and the queues that it went to, stay until the process ends.
    pub(crate) fn shutdown(&self, deadline: Instant) -> Report {
        shutdown::run(&self.0, deadline)
    }

    /// How long an operation may be unanswered.
    pub(crate) fn timeout(&self) -> std::time::Duration {
        self.0.settings.timeout
    }

    /// Closes a queue, for good. **Can block**, as long as the device hangs.
    ///
    /// # Errors
    /// What was submitted to it may still run.
    pub(crate) fn close_queue(&self, queue: QueueId) -> Result<Drained, NotDrained> {
        let unknown = || NotDrained::because("there is no such queue");
        self.0.queues.find(queue).ok_or_else(unknown)?.retire()
    }

    /// What went through so far.
    pub(crate) fn totals(&self) -> Totals {
        self.0.totals()
    }
}

impl Drop for Flow {
    fn drop(&mut self) {
        self.0.close();
        if self.0.is_here() {
            self.0.retire_all();
        }
    }
}
