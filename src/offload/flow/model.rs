//! What the loom models (`tests/loom_offload_*.rs`) need to see of the flow's protocols: the real things, behind public names.

#![allow(clippy::new_without_default, missing_docs)] // nobody asks for a default of these; the originals have the docs

use std::task::Waker;

use super::{backlog, claims, slot, state, waiters};
use crate::offload::credits;

/// Slots of a page, in the models.
pub const SLOTS: u32 = claims::SLOTS;

/// [`claims::Claims`].
#[derive(Debug)]
pub struct Claims(claims::Claims);

/// [`claims::Look`].
#[derive(Clone, Copy, Debug)]
pub struct Look(claims::Look);

/// [`claims::Claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claim {
    /// See the original.
    Taken {
        /// As bits.
        slots: u64,
        /// Call the reaper.
        rouse: bool,
    },
    /// See the original.
    Full,
    /// See the original.
    Retired,
}

/// [`claims::Released`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Released {
    /// See the original.
    pub waiters: bool,
    /// See the original.
    pub emptied: bool,
}

/// [`backlog::Backlog`].
#[derive(Debug)]
pub struct Backlog(backlog::Backlog);

/// A queue's credits (`dsa::queue::Credits`).
#[derive(Debug)]
pub struct Credits(credits::Credits);

impl Credits {
    pub fn new(all: u32) -> Self {
        Self(credits::Credits::new(all))
    }

    #[must_use]
    pub fn take(&self, wanted: u32) -> u32 {
        self.0.take(wanted)
    }

    pub fn give_back(&self, count: u32) {
        self.0.give_back(count);
    }

    pub fn taken(&self) -> u32 {
        self.0.taken()
    }
}

/// [`waiters::Waiters`].
#[derive(Debug)]
pub struct Waiters(waiters::Waiters);

/// [`waiters::WaiterId`].
#[derive(Clone, Copy, Debug)]
pub struct WaiterId(waiters::WaiterId);

/// [`slot::Slot`].
#[derive(Debug)]
pub struct Slot(slot::Slot);

/// [`state::Seen`].
#[derive(Clone, Copy, Debug)]
pub struct Seen(state::Seen);

/// [`state::Over`].
#[derive(Clone, Copy, Debug)]
pub enum Over {
    /// See the original.
    Settled,
    /// See the original.
    Unrun,
    /// See the original.
    Quarantined,
}

/// [`state::Phase`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// See the original.
    Held,
    /// See the original.
    Live,
    /// See the original.
    Settled,
    /// See the original.
    Unrun,
    /// See the original.
    Quarantined,
}

/// [`slot::Outcome`].
#[must_use]
#[allow(missing_debug_implementations)] // what was left is anything
pub struct Outcome {
    /// See the original.
    pub mine: bool,
    /// See the original.
    pub waker: Option<Waker>,
    /// See the original.
    pub kept: Option<Box<dyn Send>>,
    /// See the original.
    pub gives_back: bool,
}

impl Claims {
    pub fn new() -> Self {
        Self(claims::Claims::new())
    }

    /// As submissions do: the short way first.
    pub fn claim(&self) -> Claim {
        if let Some(slot) = self.0.claim_one() {
            return Claim::Taken { slots: 1 << slot, rouse: false };
        }
        match self.0.claim() {
            claims::Claim::Taken { slots, rouse } => Claim::Taken { slots, rouse },
            claims::Claim::Full => Claim::Full,
            claims::Claim::Retired => Claim::Retired,
        }
    }

    pub fn release(&self, slots: u64) -> Released {
        let claims::Released { waiters, emptied } = self.0.release(slots);
        Released { waiters, emptied }
    }

    pub fn look(&self) -> Look {
        Look(self.0.look())
    }

    #[must_use]
    pub fn fall_asleep(&self, look: Look) -> bool {
        self.0.fall_asleep(look.0)
    }

    #[must_use]
    pub fn rouse(&self) -> bool {
        self.0.rouse()
    }

    #[must_use]
    pub fn retire(&self) -> bool {
        self.0.retire()
    }
}

impl Look {
    pub fn slots(self) -> u64 {
        self.0.slots()
    }
}

impl Backlog {
    pub fn new() -> Self {
        Self(backlog::Backlog::new())
    }

    /// Returns how many wait.
    pub fn add(&self, slots: u64) -> u32 {
        self.0.add(slots, slots.count_ones(), 1).count
    }

    pub fn put_back(&self, slots: u64) {
        self.0.put_back(slots);
    }

    pub fn take(&self) -> u64 {
        self.0.take()
    }

    #[must_use]
    pub fn withdraw(&self, slot: u64) -> bool {
        self.0.withdraw(slot)
    }
}

impl Waiters {
    pub fn new() -> Self {
        Self(waiters::Waiters::new())
    }

    pub fn register(&self, claims: &Claims, waker: &Waker, again: bool) -> Option<WaiterId> {
        self.0.register(&claims.0, waker, again).map(WaiterId)
    }

    #[must_use]
    pub fn pass(&self, claims: &Claims) -> Option<Waker> {
        self.0.pass(&claims.0)
    }

    #[must_use]
    pub fn cancel(&self, claims: &Claims, id: WaiterId) -> bool {
        self.0.cancel(&claims.0, id.0)
    }
}

impl Slot {
    pub fn new() -> Self {
        Self(slot::Slot::new())
    }

    pub fn look(&self) -> Seen {
        Seen(self.0.look())
    }

    /// By the short way, if there is no waker.
    pub fn publish(&self, waker: Option<&Waker>) -> Seen {
        Seen(if waker.is_none() { self.0.publish_new() } else { self.0.publish(waker) })
    }

    /// Whether the reaper will wake it. As tickets do: the short way first.
    #[must_use]
    pub fn register(&self, waker: &Waker) -> bool {
        self.0.register_first(waker) || self.0.register(waker) == slot::Registered::Waiting
    }

    /// `Some`: give the slot back, and the credit if it says so.
    pub fn leave(&self) -> Option<bool> {
        self.0.leave().map(|owes| owes.0)
    }

    /// `Some`: the slot is held again; with the credit if it says so.
    pub fn reclaim(&self) -> Option<bool> {
        self.0.reclaim().map(|owes| owes.0)
    }

    /// Gives back what was to be left if it is over.
    pub fn abandon(&self, kept: Box<dyn Send>) -> Result<(), Option<Box<dyn Send>>> {
        self.0.abandon(Some(kept))
    }

    pub fn over(&self, seen: Seen, over: Over) -> Outcome {
        outcome(self.0.over(
            seen.0,
            match over {
                Over::Settled => state::Over::Settled,
                Over::Unrun => state::Over::Unrun,
                Over::Quarantined => state::Over::Quarantined,
            },
        ))
    }

    pub fn late(&self, seen: Seen, unrun: bool) -> Outcome {
        outcome(self.0.late(seen.0, unrun))
    }
}

impl Seen {
    pub fn phase(self) -> Phase {
        match self.0.phase() {
            state::Phase::Held => Phase::Held,
            state::Phase::Live => Phase::Live,
            state::Phase::Settled => Phase::Settled,
            state::Phase::Unrun => Phase::Unrun,
            state::Phase::Quarantined => Phase::Quarantined,
        }
    }
}

fn outcome(outcome: slot::Outcome) -> Outcome {
    let slot::Outcome { mine, waker, kept, gives_back } = outcome;
    Outcome { mine, waker, kept, gives_back }
}
