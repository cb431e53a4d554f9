//! A slot beside its completion record: the state word, the waker's cell, the keep cell, and what the submission is remembered by.
//!
//! The cells are reached through the state's transitions only; which party may touch which cell in which phase is said at [`StateWord`].

use std::mem::MaybeUninit;
use std::task::Waker;

use super::state::{Abandon, Ended, Leave, Over, Reclaim, Seen, StateWord};
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

/// What a dropped future leaves to the ring: it is dropped when the device can no longer reach it.
pub(crate) type Kept = Box<dyn Send>;

/// See the module's documentation. A line of its own: a task polls one slot while the reaper looks at the others.
#[repr(align(64))]
pub(crate) struct Slot {
    state: StateWord,
    /// Filled while the state says `WAKER` or `TAKING`.
    waker: UnsafeCell<MaybeUninit<Waker>>,
    /// Filled while the state says `ABANDONED`, and by the holder just before.
    keep: UnsafeCell<Option<Kept>>,
    /// A [`Deadline`], its flag in the lowest bit; 0: not set yet.
    deadline: AtomicU64,
    /// The queue that it was submitted to, and whether it took a credit there of its own.
    origin: AtomicU32,
    /// Of a batch: the slots of its operations, as bits.
    children: AtomicU64,
    /// What the slot's list was [prepared](PreparedFor) for.
    prepared: AtomicU32,
}

// SAFETY: the cells are handed from thread to thread by the state word (see `StateWord`); what is in them is `Send`.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// Where an operation was submitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Number of the queue.
    pub(crate) queue: u16,
    /// It has a credit of the queue, to be given back when it is over. Children of a batch have none: theirs is the batch's.
    pub(crate) credit: bool,
    /// Of a child: the slot of its batch. Else of no meaning.
    pub(crate) batch: u8,
}

/// In a word: there is no credit. (So that the word of most is the queue's number.)
const NO_CREDIT: u32 = 1 << 16;
const BATCH_SHIFT: u32 = 17;
/// The number of no slot.
const NO_BATCH: u8 = u8::MAX;

/// An origin as it is written, for whoever writes the same to several.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OriginWord(u32);

/// What a list of descriptors was written for as far as its descriptors are all alike, so that another batch of that kind need not write it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PreparedFor(u32);

impl PreparedFor {
    /// It was not, or is about to be written over.
    pub(crate) const NOTHING: Self = Self(0);

    /// Copies with this intent to this queue, in a run of slots that ends with the list's.
    #[inline(always)]
    pub(crate) fn copies(queue: u16, intent: u8) -> Self {
        const SOMETHING: u32 = 1 << 31;
        Self(SOMETHING | u32::from(queue) << 8 | u32::from(intent))
    }
}

impl From<Origin> for OriginWord {
    #[inline(always)]
    fn from(origin: Origin) -> Self {
        let credit = if origin.credit { 0 } else { NO_CREDIT };
        Self(u32::from(origin.queue) | credit | u32::from(origin.batch) << BATCH_SHIFT)
    }
}

impl Origin {
    /// Of one that has a credit.
    #[inline(always)]
    pub(crate) fn alone(queue: u16) -> Self {
        Self { queue, credit: true, batch: 0 }
    }
    /// Of a child; `batch` is a slot.
    #[inline(always)]
    pub(crate) fn child(queue: u16, batch: u32) -> Self {
        Self { queue, credit: false, batch: batch as u8 }
    }
    /// Of one whose credit is not out, or not its own.
    pub(crate) fn without_credit(self) -> Self {
        Self { credit: false, batch: NO_BATCH, ..self }
    }
    /// Whether it is a child of this batch.
    pub(crate) fn is_child_of(self, batch: u32) -> bool {
        !self.credit && u32::from(self.batch) == batch
    }
}

/// When an operation is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    /// In nanoseconds of the reaper's clock.
    pub(crate) at: u64,
    /// It passed once already.
    pub(crate) again: bool,
}

/// What the reaper must do after it declared an operation over.
#[must_use]
pub(crate) struct Outcome {
    /// The declaration was the caller's: it gives back the credit.
    pub(crate) mine: bool,
    /// Wake this.
    pub(crate) waker: Option<Waker>,
    /// Drop this.
    pub(crate) kept: Option<Kept>,
    /// Give the slot back.
    pub(crate) gives_back: bool,
}

/// What became of a waker that was to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Registered {
    /// The reaper will wake it.
    Waiting,
    /// The operation is over; nobody will.
    Over,
}

impl Slot {
    pub(crate) fn new() -> Self {
        Self {
            state: StateWord::new(),
            waker: UnsafeCell::new(MaybeUninit::uninit()),
            keep: UnsafeCell::new(None),
            deadline: AtomicU64::new(0),
            origin: AtomicU32::new(0),
            children: AtomicU64::new(0),
            prepared: AtomicU32::new(PreparedFor::NOTHING.0),
        }
    }

    #[inline]
    pub(crate) fn look(&self) -> Seen {
        self.state.look()
    }

    // What follows is the holder's: the one party that has the ticket, in one thread at a time.

    /// *Publish*: about to be submitted or to enter the backlog, with the record zeroed. With `waker`, nobody has to register first.
    #[inline]
    pub(crate) fn publish(&self, waker: Option<&Waker>) -> Seen {
        // Relaxed: read by the reaper after it saw the state (Release in `publish`).
        self.deadline.store(0, Relaxed);
        if let Some(waker) = waker {
            self.fill_waker(waker.clone());
        }
        self.state.publish(waker.is_some())
    }

    /// As [`publish`](Self::publish), of a slot that was taken just now, without a waker.
    #[inline(always)]
    pub(crate) fn publish_new(&self) -> Seen {
        // Relaxed: as in `publish`.
        self.deadline.store(0, Relaxed);
        self.state.publish_new()
    }

    /// *Publish* of a batch with these children, as bits, which nobody holds.
    #[inline]
    pub(crate) fn publish_batch(&self, children: u64) {
        // Relaxed, both: as in `publish`.
        self.deadline.store(0, Relaxed);
        self.children.store(children, Relaxed);
        self.state.publish_batch();
    }

    /// The batch was not accepted: whoever published it holds the slot.
    #[cold]
    pub(crate) fn unpublish_batch(&self) {
        self.state.unpublish();
    }

    /// Where it goes. By whoever submits it, before it does.
    #[inline]
    pub(crate) fn set_origin(&self, origin: impl Into<OriginWord>) {
        // Relaxed: read by whoever saw the record, which the device writes after it was told of the operation; or by a
        // quarantine, which reports it and no more.
        self.origin.store(origin.into().0, Relaxed);
    }

    /// What the slot's list was prepared for.
    #[inline(always)]
    pub(crate) fn prepared(&self) -> PreparedFor {
        // Relaxed: as the list, it comes with the slot.
        PreparedFor(self.prepared.load(Relaxed))
    }

    /// Before the list is written over, by the slot's holder; and after it was prepared.
    pub(crate) fn set_prepared(&self, what: PreparedFor) {
        // Relaxed: see `prepared`.
        self.prepared.store(what.0, Relaxed);
    }

    /// As [`register`](Self::register), where no waker was registered before. `false`: nothing was done; ask `register`.
    #[inline(always)]
    pub(crate) fn register_first(&self, waker: &Waker) -> bool {
        let seen = self.state.look();
        if !seen.is_live() || seen.has_waker() {
            return false;
        }
        self.fill_waker(waker.clone());
        if self.state.offer_first_waker(seen) {
            return true;
        }
        drop(self.read_waker());
        false
    }

    /// Lets `waker` be woken when the operation is over; takes the place of the one before.
    pub(crate) fn register(&self, waker: &Waker) -> Registered {
        let seen = self.state.look();
        if !seen.is_live() {
            return Registered::Over;
        }
        if seen.has_waker() {
            // SAFETY: the cell is filled, since WAKER was set by this holder and only the reaper clears it, who reads and does not write.
            let same = self.waker.with(|cell| unsafe { (*cell).assume_init_ref() }.will_wake(waker));
            if same {
                return Registered::Waiting;
            }
            if !self.state.withdraw_waker() {
                return Registered::Over;
            }
            drop(self.read_waker());
        }
        self.fill_waker(waker.clone());
        if self.state.offer_waker() {
            return Registered::Waiting;
        }
        drop(self.read_waker());
        Registered::Over
    }

    /// *Leave*. `Some`: give the slot back; and the credit, if it says so.
    #[inline]
    pub(crate) fn leave(&self) -> Option<OwesCredit> {
        match self.state.leave() {
            Leave::ToReaper => None,
            Leave::GiveBack { credit, waker } => {
                if waker {
                    drop(self.read_waker());
                }
                Some(OwesCredit(credit))
            }
        }
    }

    /// *Reclaim*. `None`: try again when woken.
    pub(crate) fn reclaim(&self) -> Option<OwesCredit> {
        match self.state.reclaim() {
            Reclaim::Busy => None,
            Reclaim::Mine { credit, waker } => {
                if waker {
                    drop(self.read_waker());
                }
                Some(OwesCredit(credit))
            }
        }
    }

    /// *Abandon*: leaves `kept` until the device can no longer reach it. Gives it back if the operation is over; then the holder leaves.
    pub(crate) fn abandon(&self, kept: Option<Kept>) -> Result<(), Option<Kept>> {
        if self.state.withdraw_waker() {
            drop(self.read_waker());
        }
        // SAFETY: until the state says ABANDONED the cell is the holder's, which is the caller.
        self.keep.with_mut(|cell| unsafe { *cell = kept });
        match self.state.abandon() {
            Abandon::Left => Ok(()),
            // SAFETY: as above; the state did not change hands.
            Abandon::IsOver => Err(self.keep.with_mut(|cell| unsafe { (*cell).take() })),
        }
    }

    // What follows is the reaper's: whoever found out what became of the operation.

    /// *Over*. The caller knows it of the life `seen`.
    pub(crate) fn over(&self, seen: Seen, over: Over) -> Outcome {
        self.carry_out(self.state.over(seen, over))
    }

    /// *Late*: the record of an operation that was given up, or its batch's, by which it did not run.
    pub(crate) fn late(&self, seen: Seen, unrun: bool) -> Outcome {
        self.carry_out(self.state.late(seen, unrun))
    }

    fn carry_out(&self, ended: Ended) -> Outcome {
        let nothing = Outcome { mine: true, waker: None, kept: None, gives_back: false };
        match ended {
            Ended::NotMine => Outcome { mine: false, ..nothing },
            Ended::Quietly | Ended::Keep => nothing,
            Ended::TakeWaker => {
                let waker = self.read_waker();
                let gives_back = self.state.taken();
                Outcome { waker: Some(waker), gives_back, ..nothing }
            }
            Ended::Drop => {
                // SAFETY: the transition gave us the slot, and with it what its holder left.
                let kept = self.keep.with_mut(|cell| unsafe { (*cell).take() });
                Outcome { kept, gives_back: true, ..nothing }
            }
        }
    }

    /// When it is given up; `None`: not set yet.
    pub(crate) fn deadline(&self) -> Option<Deadline> {
        // Relaxed: the reaper's own note, but for the zero of `publish`, which comes with the state.
        match self.deadline.load(Relaxed) {
            0 => None,
            word => Some(Deadline { at: word >> 1, again: word & 1 != 0 }),
        }
    }

    pub(crate) fn set_deadline(&self, deadline: Deadline) {
        // Relaxed: see `deadline`. Half the range of nanoseconds is 292 years.
        self.deadline.store(deadline.at.max(1) << 1 | u64::from(deadline.again), Relaxed);
    }

    #[inline]
    pub(crate) fn origin(&self) -> Origin {
        // Relaxed: see `set_origin`.
        let origin = self.origin.load(Relaxed);
        Origin { queue: origin as u16, credit: origin & NO_CREDIT == 0, batch: (origin >> BATCH_SHIFT) as u8 }
    }

    /// The children of the batch that this slot is, as bits.
    #[inline]
    pub(crate) fn children(&self) -> u64 {
        // Relaxed: the caller saw the state, which says that it is a batch.
        self.children.load(Relaxed)
    }

    /// The holder's, while the state says neither WAKER nor TAKING.
    #[inline]
    fn fill_waker(&self, waker: Waker) {
        // SAFETY: the cell is the holder's, and empty: nothing is overwritten that would have to be dropped.
        self.waker.with_mut(|cell| unsafe {
            (*cell).write(waker);
        });
    }

    /// Whoever cleared WAKER in the state reads, once.
    fn read_waker(&self) -> Waker {
        // SAFETY: the cell was filled (WAKER was set), and the transition that cleared the bit gave the waker to the caller alone.
        self.waker.with(|cell| unsafe { (*cell).assume_init_read() })
    }
}

/// Whether the holder was the first to see the record: then it gives back the credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct OwesCredit(pub(crate) bool);

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot")
            .field("state", &self.state.look())
            .field("origin", &self.origin())
            .finish_non_exhaustive()
    }
}
