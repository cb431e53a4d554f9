//! An opened work queue: the way into it, what it takes, how much more it may be given now, and whether it still answers.
//!
//! A `Queue` is opened once. What was disabled and enabled again is opened again, and that is another `Queue` ([`Queues`] keeps both), because
//! operations on the old one may be outstanding for ever: their credits and their quarantine stay with the old one. A [`QueueId`] therefore says
//! which opening it was.

mod copies;
mod credits;
mod health;
mod set;

use std::fmt;
use std::mem::ManuallyDrop;

pub(crate) use copies::Template;
pub(crate) use credits::Credits;
pub(crate) use health::{Condition, Health};
#[cfg(test)]
pub(crate) use set::OPENINGS_MAX;
pub(crate) use set::{QueueId, Queues};

use super::abi::{Descriptor, GenCap, OpCap, Version};
use super::portal::{Death, Direct, Drained, NotDrained, Portal, Submitted};
use crate::sync::Mutex;

/// What a queue takes: the work queue's own limits where it has some, else its device's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) version: Version,
    pub(crate) general: GenCap,
    /// The device's operations that the queue's configuration leaves.
    pub(crate) operations: OpCap,
    /// Bytes of one descriptor's transfer, and of a delta record.
    pub(crate) transfer_max: u64,
    /// Descriptors in a batch; 0: no batch goes this way.
    pub(crate) batch_max: u32,
    /// Descriptors outstanding at a time: the size of a dedicated queue, and for a shared one what is polite (at most its threshold).
    pub(crate) in_flight_max: u32,
    /// Descriptors may block on a fault.
    pub(crate) block_on_fault: bool,
}

/// See the module's documentation.
pub(crate) struct Queue {
    /// Not dropped while something is outstanding: see `Drop`.
    portal: ManuallyDrop<Box<dyn Portal>>,
    /// The portal's way without a call, if it has one. Good for as long as the portal is there, which is as long as the queue.
    direct: Option<Direct>,
    limits: Limits,
    copies: copies::Copies,
    credits: Credits,
    health: Health,
    /// Which opening it is; set when it is added to [`Queues`].
    id: QueueId,
    name: Box<str>,
    node: Option<u32>,
    /// Held by whoever closes it.
    closing: Mutex<()>,
}

impl Queue {
    /// `name` as people know it (`wq0.1`); `node`: the device's NUMA node, where it is known.
    pub(crate) fn new(name: &str, node: Option<u32>, limits: Limits, portal: Box<dyn Portal>) -> Self {
        let credits = Credits::new(limits.in_flight_max);
        let copies = copies::Copies::new(&limits);
        let direct = portal.direct();
        let portal = ManuallyDrop::new(portal);
        Self {
            portal,
            direct,
            limits,
            copies,
            credits,
            health: Health::new(),
            id: QueueId::from_index(0),
            name: name.into(),
            node,
            closing: Mutex::new(()),
        }
    }

    /// Takes a credit and submits. [`Submitted::Full`] also means: no credit left. A dead portal makes the queue [`Condition::Dead`].
    ///
    /// Whoever sees the completion record calls [`answered`](Self::answered); whoever gives up on it does not, ever.
    ///
    /// # Safety
    /// As [`Portal::submit`]; what it says about a dedicated queue's size is kept here.
    #[inline]
    pub(crate) unsafe fn submit(&self, descriptor: &Descriptor) -> Submitted {
        if !self.credits.take_one() {
            return Submitted::Full;
        }
        // SAFETY: the caller's promise; the credit keeps the queue from overflowing.
        let submitted = unsafe { self.portal.submit(descriptor) };
        if submitted != Submitted::Accepted {
            self.not_accepted(1, submitted);
        }
        submitted
    }

    /// The way past [`submit`](Self::submit), for those that take [a credit](Self::credits) themselves and have seen that this is the process that opened
    /// the queue. `None`: there is none.
    #[inline(always)]
    pub(crate) fn direct(&self) -> Option<Direct> {
        self.direct
    }

    /// As [`submit`](Self::submit), in order, with a credit each: how many were accepted, and why it stopped.
    ///
    /// # Safety
    /// As [`Portal::submit`], for each of them.
    pub(crate) unsafe fn submit_many(&self, descriptors: &[Descriptor]) -> (usize, Submitted) {
        // More than u32::MAX descriptors are more than any queue has credits for.
        let credits = self.credits.take(u32::try_from(descriptors.len()).unwrap_or(u32::MAX));
        let affordable = &descriptors[..credits as usize];
        if affordable.is_empty() {
            return (0, if descriptors.is_empty() { Submitted::Accepted } else { Submitted::Full });
        }
        // SAFETY: the caller's promise; there is a credit for each of these.
        let (accepted, submitted) = unsafe { self.portal.submit_many(affordable) };
        debug_assert!(accepted <= affordable.len());
        if submitted != Submitted::Accepted {
            self.not_accepted(affordable.len() - accepted, submitted);
        }
        match submitted {
            Submitted::Accepted if accepted < descriptors.len() => (accepted, Submitted::Full),
            submitted => (accepted, submitted),
        }
    }

    /// What was taken for descriptors that the device has not got.
    #[cold]
    fn not_accepted(&self, count: usize, submitted: Submitted) {
        self.credits.give_back(count as u32); // at most what was taken, a u32
        if let Submitted::Dead(death) = submitted {
            self.health.die(death);
        }
    }

    /// The completion records of so many descriptors that this queue accepted were seen: a batch counts as one.
    #[inline]
    pub(crate) fn answered(&self, count: u32) {
        self.credits.give_back(count);
    }

    /// Looks anew whether the queue is alive (see [`Portal::death`]), and remembers it if it is not.
    pub(crate) fn look(&self) -> Condition {
        if let Some(death) = self.portal.death() {
            self.health.die(death);
        }
        self.health.condition()
    }

    /// Whether its `state` says that it is down now, whatever it died of.
    pub(crate) fn is_down(&self) -> bool {
        self.portal.death().is_some()
    }

    /// Lets go of the queue: see [`Portal::retire`], which can block.
    ///
    /// # Errors
    /// What it accepted may still run.
    pub(crate) fn retire(&self) -> Result<Drained, NotDrained> {
        self.health.die(Death::Retired);
        // One closes, and the others wait for it: only then is their promise kept, too.
        let _closing = self.closing.lock();
        self.portal.retire()
    }

    /// Templates of copies.
    #[inline]
    pub(crate) fn copies(&self) -> &copies::Copies {
        &self.copies
    }
    #[inline]
    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }
    #[inline]
    pub(crate) fn credits(&self) -> &Credits {
        &self.credits
    }
    #[inline]
    pub(crate) fn health(&self) -> &Health {
        &self.health
    }
    /// Which opening it is.
    #[inline]
    pub(crate) fn id(&self) -> QueueId {
        self.id
    }
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
    /// The NUMA node of the device; `None`: not known, so any.
    #[inline]
    pub(crate) fn node(&self) -> Option<u32> {
        self.node
    }
}

impl Drop for Queue {
    /// Closes the queue if everything was answered. Else it stays open until the process ends, because closing waits for the device, which may
    /// hang; whoever can wait calls [`retire`](Self::retire).
    fn drop(&mut self) {
        if self.credits.taken() == 0 {
            // SAFETY: once, here; nobody uses it after.
            unsafe { ManuallyDrop::drop(&mut self.portal) };
        }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("name", &self.name)
            .field("condition", &self.health.condition())
            .field("outstanding", &self.credits.taken())
            .field("portal", &self.portal)
            .finish_non_exhaustive()
    }
}
