//! The line that everybody writes to wake a lane, and the only way in which a lane blocks.
//!
//! Two words and a note, on lines of their own: the lane reads them all the time and writes nothing there between arming a
//! wait and waiting. `README.md` beside this file states the protocol; the step names in the comments are from there.
//!
//! Claim: after [`Doorbell::ring`] the lane looks at everything that was published before the ring, however the ring meets its
//! way into or out of a park. Checked by `tests/loom_doorbell.rs`.

use std::time::Duration;

use crate::sync::Futex;
use crate::sync::atomic::{AtomicU32, Ordering::*, fence};

/// `parked`: the lane is awake, or on its way out of a park. Set by the ringer that takes the wake on itself, or by the lane.
const AWAKE: u32 = 0;
/// `parked`: the lane blocks (or is about to) on the epoch word. Set by the lane only.
const IN_FUTEX: u32 = 1;
/// `parked`: the lane blocks (or is about to) in epoll. Set by the lane only.
const IN_EPOLL: u32 = 2;

/// Where a lane is going to block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParkIn {
    /// On the doorbell's own word; cheapest, hears nothing but rings.
    Futex,
    /// In epoll, on the pollers' fds and the lane's eventfd.
    Epoll,
}

/// Whose system call a ring has become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the lane stays blocked until this wake is carried out"]
pub(crate) enum Wake {
    /// The lane is awake, or somebody else is waking it.
    NotNeeded,
    /// It blocked on the futex and has been woken; nothing is left to do but to count it.
    Futex,
    /// The caller must now write the lane's eventfd.
    Eventfd,
}

/// A snapshot of the epoch: everything published before it was taken has been, or will be, looked at by its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch(u32);

/// See the module's documentation. 128 bytes: two lines, since adjacent lines are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Doorbell {
    epoch: Futex,
    parked: AtomicU32,
    /// When the lane was last rung out of a park, in ticks, if by somebody with a clock. Here, since the woken takes this line anyway; not an
    /// atomic of the models, since no step of the protocol reads it.
    rung_at: std::sync::atomic::AtomicU64,
}

impl Doorbell {
    pub(crate) fn new() -> Self {
        Self { epoch: Futex::new(0), parked: AtomicU32::new(AWAKE), rung_at: std::sync::atomic::AtomicU64::new(0) }
    }

    /// Notes when somebody rings the lane out of its park, in ticks: for whoever makes the system call.
    pub(crate) fn note_ring(&self, now: u64) {
        // Relaxed: a measure of wakes, in which a value that comes late is left out.
        self.rung_at.store(now, Relaxed);
    }

    /// The last note.
    pub(crate) fn rung_at(&self) -> u64 {
        self.rung_at.load(Relaxed) // Relaxed: see `note_ring`.
    }

    /// *ReadEpoch*. Take it before looking at inbox, queues and pollers: what is published later changes the epoch.
    #[inline]
    pub(crate) fn epoch(&self) -> Epoch {
        // Acquire: partner is RingEpoch in `ring`. What was pushed before that ring is seen by looks after this load.
        Epoch(self.epoch.load(Acquire))
    }

    /// What a monitor watches for a ring after `seen`.
    #[cfg(not(twolane_loom))]
    #[inline]
    pub(crate) fn watch(&self, seen: Epoch) -> crate::arch::Watch<'_> {
        crate::arch::Watch::while_equal(&self.epoch, seen.0)
    }

    /// Wakes the lane, whatever it does. Call after publishing what it should see.
    ///
    /// `note` is called before the system call, if it falls to this ring. Costs one locked instruction and a fence; a system call only when the lane is parked and nobody else is waking it.
    pub(crate) fn ring(&self, note: impl FnOnce()) -> Wake {
        // RingEpoch. Release: publishes the push before it. Partner: ReadEpoch in `epoch`.
        self.epoch.fetch_add(1, Release);
        fence(SeqCst); // PostFence: pairs with SleepFence in `announce`.
        self.take_wake(note)
    }

    /// Wakes the lane if it is parked, and lets it be if it is awake or dozes. Enough for whoever published where the full pass of *Re-check* looks:
    /// that pass comes after *SleepFence*, so it sees what was published before *PostFence*, or this sees the announcement.
    pub(crate) fn ring_if_parked(&self) -> Wake {
        fence(SeqCst); // PostFence: pairs with SleepFence in `announce`.
        self.take_wake(|| ())
    }

    /// *TakeWake*: the second half of a ring. The caller's fence already orders its push.
    fn take_wake(&self, note: impl FnOnce()) -> Wake {
        // Relaxed: only the fences order this word against the epoch; its own value is decided by the swap below.
        if self.parked.load(Relaxed) == AWAKE {
            return Wake::NotNeeded;
        }
        // Acquire: partner is the Release store in `announce`; whoever finds `IN_EPOLL` finds the eventfd as well. The winner of the swap
        // makes the system call, and the kernel orders that against the block.
        match self.parked.swap(AWAKE, Acquire) {
            IN_FUTEX => {
                note();
                // *RingAgain*. We may be late: the announcement that we took may be a second one, by a lane that has seen our ring and is not
                // blocked yet. Then it would block all the same, and whoever rings next would leave it to us. With the epoch moved once more, the
                // kernel refuses that block. Relaxed: publishes nothing new, and an update keeps RingEpoch's release sequence.
                self.epoch.fetch_add(1, Relaxed);
                self.epoch.wake_one();
                Wake::Futex
            }
            IN_EPOLL => {
                note();
                Wake::Eventfd
            }
            _ => Wake::NotNeeded,
        }
    }

    /// *Announce* and *SleepFence*. After it, re-check the epoch and everything that a ringer may have published; then block, or
    /// [`retract`](Self::retract).
    pub(crate) fn announce(&self, place: ParkIn) {
        let value = match place {
            ParkIn::Futex => IN_FUTEX,
            ParkIn::Epoll => IN_EPOLL,
        };
        // Release: publishes the eventfd, which the lane made when it first needed one. Partner: the swap in `take_wake`. Against the epoch it
        // is ordered by the fence that follows. A swap, since a store beside the ringers' swaps has no place among them as loom sees it.
        let _ = self.parked.swap(value, Release);
        fence(SeqCst); // SleepFence: pairs with PostFence in `ring`.
    }

    /// Blocks on the epoch, at most `timeout`. Returns at once if somebody rang since `seen`. May return for no reason.
    pub(crate) fn block(&self, seen: Epoch, timeout: Option<Duration>) {
        self.epoch.wait(seen.0, timeout);
    }

    /// Takes the announcement back, after a block or instead of one. A ringer that already took the wake on itself makes its system
    /// call anyway; it wakes nobody, or ends the next block early. One that is about to take it may take the next announcement instead, and
    /// ends that block.
    pub(crate) fn retract(&self) {
        // Relaxed: a ringer that still reads the old value makes a system call in vain, nothing more. A swap: see `announce`.
        let _ = self.parked.swap(AWAKE, Relaxed);
    }
}
