//! A slot's state: one word, every change of it a named transition.
//!
//! ```text
//!            publish                    over: Settled, Unrun
//!    HELD ────────────► LIVE ───────────────────────────────► OVER (settled | unrun)
//!     ▲ ▲                │ │                                    │
//!     │ │     leave      │ │ over: Quarantined                  │ leave, publish
//!     │ └────────────────┘ └───────────► QUARANTINED ───────────┤
//!     │                                      │ late             │
//!     └──────────────────────────────────────┴──────────────────┘
//!                                 (leave and reclaim from any phase)
//! ```
//!
//! Two parties meet here: the *holder* (who has the ticket; one thread at a time) and the *reaper* (whoever found out what became of the
//! operation; several may look, the exchange of the word decides). Flags beside the phase:
//!
//! - `WAKER`: the waker cell is filled, and the reaper may take it. Set by the holder, cleared by whoever takes the waker out.
//! - `TAKING`: the reaper is reading the waker out of the cell; the slot cannot have another life before it is done. Cleared by the reaper.
//! - `LEFT`: the holder went while the reaper was taking; the reaper gives the slot back.
//! - `ABANDONED`: the holder is gone and what it left in the keep cell is the reaper's, who drops it when the operation is over.
//! - `BATCH`: not an operation but a batch of some. Born abandoned: only the reaper waits for it.
//!
//! The upper half counts the slot's lives, so that what was read in one life never passes for the next.

use crate::sync::atomic::{AtomicU64, Ordering::*};

const PHASE: u64 = 0b111;
const HELD: u64 = 0;
const LIVE: u64 = 1;
const SETTLED: u64 = 2;
const UNRUN: u64 = 3;
const QUARANTINED: u64 = 4;
const WAKER: u64 = 1 << 3;
const TAKING: u64 = 1 << 4;
const LEFT: u64 = 1 << 5;
const ABANDONED: u64 = 1 << 6;
const BATCH: u64 = 1 << 7;
const LIFE: u64 = 1 << 32;
const LIFE_MASK: u64 = !(LIFE - 1);

/// What is known of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nobody's, or its holder prepares it.
    Held,
    /// In the backlog, or with the device.
    Live,
    /// Its record is written.
    Settled,
    /// It provably did not run and will not.
    Unrun,
    /// It was given up; it may still run.
    Quarantined,
}

/// How an operation's life ends, as the reaper found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    Settled,
    Unrun,
    Quarantined,
}

/// The word as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen(u64);

impl Seen {
    #[inline]
    pub(crate) fn phase(self) -> Phase {
        match self.0 & PHASE {
            HELD => Phase::Held,
            LIVE => Phase::Live,
            SETTLED => Phase::Settled,
            UNRUN => Phase::Unrun,
            _ => Phase::Quarantined,
        }
    }
    #[inline]
    pub(crate) fn is_live(self) -> bool {
        self.0 & PHASE == LIVE
    }
    /// As it was seen before it is alive, or was given up, whatever became of its holder.
    #[inline]
    pub(crate) fn still_lives(self, before: Self) -> bool {
        (self.0 ^ before.0) & (PHASE | LIFE_MASK) == 0
    }
    /// The holder left it to the reaper.
    #[inline]
    pub(crate) fn is_abandoned(self) -> bool {
        self.0 & ABANDONED != 0
    }
    /// It is a batch.
    #[inline]
    pub(crate) fn is_batch(self) -> bool {
        self.0 & BATCH != 0
    }
    #[inline]
    pub(crate) fn has_waker(self) -> bool {
        self.0 & WAKER != 0
    }
}

/// What [`StateWord::over`] leaves to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Ended {
    /// Nobody waits: the holder will see it.
    Quietly,
    /// Take the waker out of the cell, then say [`taken`](StateWord::taken), then wake.
    TakeWaker,
    /// The holder is gone: drop what it left, and give the slot back.
    Drop,
    /// The holder is gone, and what it left has to stay.
    Keep,
    /// It was over already, or this is another life.
    NotMine,
}

/// What [`StateWord::leave`] leaves to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Leave {
    /// Give the slot back. `credit`: nobody else has seen the record, and the credit is out. `waker`: there is one in the cell, to be dropped.
    GiveBack { credit: bool, waker: bool },
    /// The reaper gives it back.
    ToReaper,
}

/// What [`StateWord::reclaim`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Reclaim {
    /// See [`Leave::GiveBack`].
    Mine { credit: bool, waker: bool },
    /// The reaper is taking the waker out of the cell and will wake it: try again then.
    Busy,
}

/// What [`StateWord::abandon`] came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Abandon {
    /// The reaper has what was left.
    Left,
    /// It is over: take back what was left, and [`leave`](StateWord::leave).
    IsOver,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct StateWord(AtomicU64);

impl StateWord {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(HELD))
    }

    /// What others did.
    #[inline]
    pub(crate) fn look(&self) -> Seen {
        // Acquire: what came before the transition that is seen; partners are the Releases below.
        Seen(self.0.load(Acquire))
    }

    /// *Publish*, by the holder: it is about to enter the backlog or to be submitted. `waker`: the cell was filled before. Begins another life.
    #[inline]
    pub(crate) fn publish(&self, waker: bool) -> Seen {
        // Relaxed: nobody else changes the word of a slot that is held (or over, and nothing being taken).
        let before = self.0.load(Relaxed);
        debug_assert!(before & (TAKING | LEFT | ABANDONED | WAKER) == 0 && before & PHASE != LIVE, "{before:#x}");
        let live = (before & LIFE_MASK).wrapping_add(LIFE) | LIVE | if waker { WAKER } else { 0 };
        // Release: the zeroed record and the waker. Partner: `look` and `over`, by which the reaper comes to them.
        self.0.store(live, Release);
        Seen(live)
    }

    /// As [`publish`](Self::publish), of a slot that was taken just now, without a waker.
    #[inline(always)]
    pub(crate) fn publish_new(&self) -> Seen {
        // Relaxed: as in `publish`.
        let before = self.0.load(Relaxed);
        debug_assert!(before & !LIFE_MASK == HELD, "{before:#x}");
        let live = before.wrapping_add(LIFE | LIVE);
        // Release: as in `publish`.
        self.0.store(live, Release);
        Seen(live)
    }

    /// As [`publish`](Self::publish), for a batch, which has no holder.
    #[inline]
    pub(crate) fn publish_batch(&self) {
        // Relaxed, Release: as in `publish`.
        let before = self.0.load(Relaxed);
        debug_assert!(before & !LIFE_MASK == HELD, "{before:#x}");
        let live = (before & LIFE_MASK).wrapping_add(LIFE) | LIVE | ABANDONED | BATCH;
        self.0.store(live, Release);
    }

    /// What was published with [`publish_batch`](Self::publish_batch) was not submitted after all.
    pub(crate) fn unpublish(&self) {
        // Relaxed: without a record nobody declares it settled or unrun. The reaper may have given it up, if this thread stood still for as long as a
        // deadline; nothing was left with it, so that is undone without loss.
        let life = self.0.load(Relaxed) & LIFE_MASK;
        self.0.store(life | HELD, Relaxed);
    }

    /// The waker's cell is filled. `false`: the operation is over, take the waker back.
    #[must_use]
    pub(crate) fn offer_waker(&self) -> bool {
        // Relaxed: the exchange decides.
        let mut seen = self.0.load(Relaxed);
        while seen & PHASE == LIVE {
            debug_assert!(seen & (WAKER | ABANDONED) == 0);
            // Release: the waker; partner is the Acquire in `over`. Acquire on failure: what made it over.
            match self.0.compare_exchange_weak(seen, seen | WAKER, Release, Acquire) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// As [`offer_waker`](Self::offer_waker), by a holder that has just seen the word live and without a waker. `false`: it has changed since; take the waker
    /// back, and look again.
    #[inline]
    #[must_use]
    pub(crate) fn offer_first_waker(&self, seen: Seen) -> bool {
        debug_assert!(seen.is_live() && !seen.has_waker() && !seen.is_abandoned());
        // Release: the waker; partner is the Acquire in `over`. Relaxed on failure: the caller looks again. Strong: it is tried once.
        // An addition, since the bit is not set.
        self.0.compare_exchange(seen.0, seen.0 + WAKER, Release, Relaxed).is_ok()
    }

    /// Takes the offer back, to offer another waker. `false`: the operation is over, and the reaper has the waker.
    #[must_use]
    pub(crate) fn withdraw_waker(&self) -> bool {
        // Relaxed: the exchange decides.
        let seen = self.0.load(Relaxed);
        seen & (PHASE | WAKER) == LIVE | WAKER
            // Relaxed on success: the cell was written by this holder. Acquire on failure: what made it over. Strong: it is tried once.
            && self.0.compare_exchange(seen, seen & !WAKER, Relaxed, Acquire).is_ok()
    }

    /// *Over*, by the reaper: what became of the operation whose life was `seen`.
    pub(crate) fn over(&self, seen: Seen, over: Over) -> Ended {
        let mut word = seen.0;
        let phase = match over {
            Over::Settled => SETTLED,
            Over::Unrun => UNRUN,
            Over::Quarantined => QUARANTINED,
        };
        loop {
            if word & PHASE != LIVE || word & LIFE_MASK != seen.0 & LIFE_MASK {
                return Ended::NotMine;
            }
            let life = word & LIFE_MASK;
            let (next, ended) = match (word & ABANDONED != 0, word & WAKER != 0) {
                (true, _) if over == Over::Quarantined => (word & !PHASE | phase, Ended::Keep),
                (true, _) => (life | HELD, Ended::Drop),
                (false, true) => (life | phase | TAKING, Ended::TakeWaker),
                (false, false) => (life | phase, Ended::Quietly),
            };
            // Acquire: the waker or what was left; partners are the Releases in `publish`, `offer_waker` and `abandon`. Release: what the caller
            // found out, for the holder's `look`.
            match self.0.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return ended,
                Err(now) => word = now,
            }
        }
    }

    /// The reaper has read the waker out of the cell. `true`: the holder is gone, give the slot back.
    #[must_use]
    pub(crate) fn taken(&self) -> bool {
        // A subtraction: the bit is set, and nobody else clears it.
        // Release: the cell was read; partner is the holder's Acquire in `look` or `leave`, before it is written again. Acquire: with LEFT, all that the
        // holder did; partner is the Release in `leave`.
        let before = self.0.fetch_sub(TAKING, AcqRel);
        debug_assert!(before & TAKING != 0);
        if before & LEFT == 0 {
            return false;
        }
        // Relaxed: the holder is gone, the slot is ours, and giving it back is a Release.
        self.0.store(before & LIFE_MASK | HELD, Relaxed);
        true
    }

    /// *Late*: the record of an operation that was given up was written after all; or that of its batch, which tells that it did not run (`unrun`).
    pub(crate) fn late(&self, seen: Seen, unrun: bool) -> Ended {
        let phase = if unrun { UNRUN } else { SETTLED };
        let mut word = seen.0;
        loop {
            if word & PHASE != QUARANTINED || word & LIFE_MASK != seen.0 & LIFE_MASK {
                return Ended::NotMine;
            }
            let abandoned = word & ABANDONED != 0;
            let next = if abandoned { word & LIFE_MASK | HELD } else { word & !PHASE | phase };
            // Acquire: what was left; partner is the Release in `abandon`. Release: as in `over`.
            match self.0.compare_exchange_weak(word, next, AcqRel, Acquire) {
                Ok(_) => return if abandoned { Ended::Drop } else { Ended::Quietly },
                Err(now) => word = now,
            }
        }
    }

    /// *Leave*, by the holder, who knows that the operation is over (it saw the record, or the phase) or was never submitted.
    #[inline]
    pub(crate) fn leave(&self) -> Leave {
        // Acquire: as in `look`.
        let mut seen = self.0.load(Acquire);
        loop {
            debug_assert!(seen & (ABANDONED | LEFT) == 0, "a slot has one holder, who leaves once: {seen:#x}");
            let to_reaper = seen & TAKING != 0;
            let next = if to_reaper { seen | LEFT } else { seen & LIFE_MASK | HELD };
            // Release: with LEFT, the holder's last use of the slot; partner is the Acquire in `taken`. Acquire: the reaper may have just taken the waker.
            match self.0.compare_exchange_weak(seen, next, AcqRel, Acquire) {
                Ok(_) if to_reaper => return Leave::ToReaper,
                Ok(_) => {
                    return Leave::GiveBack {
                        credit: matches!(seen & PHASE, LIVE | QUARANTINED),
                        waker: seen & WAKER != 0,
                    };
                }
                Err(now) => seen = now,
            }
        }
    }

    /// *Reclaim*, by the holder, who knows that the operation is over: the slot stays its own, to be published again.
    pub(crate) fn reclaim(&self) -> Reclaim {
        // Acquire: the reaper is done with the cell; partner is the Release in `taken`.
        let mut seen = self.0.load(Acquire);
        loop {
            debug_assert!(seen & (ABANDONED | LEFT) == 0);
            if seen & TAKING != 0 {
                return Reclaim::Busy;
            }
            // AcqRel: as in `leave`.
            match self.0.compare_exchange_weak(seen, seen & LIFE_MASK | HELD, AcqRel, Acquire) {
                Ok(_) => {
                    return Reclaim::Mine {
                        credit: matches!(seen & PHASE, LIVE | QUARANTINED),
                        waker: seen & WAKER != 0,
                    };
                }
                Err(now) => seen = now,
            }
        }
    }

    /// *Abandon*, by the holder, who has filled the keep cell and emptied the waker's. From here on the slot is the reaper's, unless it is over.
    pub(crate) fn abandon(&self) -> Abandon {
        // Relaxed: the exchange decides.
        let mut seen = self.0.load(Relaxed);
        loop {
            debug_assert!(seen & (ABANDONED | LEFT | WAKER) == 0);
            if !matches!(seen & PHASE, LIVE | QUARANTINED) {
                return Abandon::IsOver;
            }
            // Release: what was left; partner is the Acquire in `over` and `late`. Acquire on failure: what made it over.
            match self.0.compare_exchange_weak(seen, seen | ABANDONED, Release, Acquire) {
                Ok(_) => return Abandon::Left,
                Err(now) => seen = now,
            }
        }
    }
}
