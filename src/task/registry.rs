//! The futures that have not ended yet, so that a shutdown can find those that merely wait.
//!
//! An intrusive list in shards, each under a lock that is held for a few pointer writes: nothing is allocated, and no user code (no drop,
//! no wake) runs under it. The list owns no references. It needs none: a runner takes its task off the list before it gives up its own,
//! so what is on the list while the lock is held is alive.

use std::fmt;
use std::ptr::NonNull;

use crossbeam_utils::CachePadded;

use super::header::{Header, Reference};
use crate::sync::{Mutex, UnsafeCell};

/// The live futures of one runtime.
pub(crate) struct Registry {
    /// A power of two of them.
    shards: Box<[CachePadded<Mutex<Shard>>]>,
}

/// The registry takes no more futures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

/// A doubly linked list with its ends.
#[derive(Default)]
struct Shard {
    first: Option<NonNull<Listed>>,
    last: Option<NonNull<Listed>>,
    len: usize,
    closed: bool,
}

/// The head of a future's allocation: the links follow the header, which [`Task`](super::raw::Task) and
/// [`Listing`](super::body::Listing) see to and `task::future` asserts.
#[repr(C)]
pub(super) struct Listed {
    _header: Header,
    links: Links,
}

/// The neighbours on the list, under the lock of its shard.
#[derive(Default)]
pub(super) struct Links(UnsafeCell<Neighbours>);

#[derive(Clone, Copy, Default)]
struct Neighbours {
    before: Option<NonNull<Listed>>,
    after: Option<NonNull<Listed>>,
}

/// More shards than this help no machine that was seen, and `cancel_all` and `is_empty` visit each.
const SHARDS_MAX: usize = 64;

// SAFETY: the tasks on the list are `Send`, and all access to their links goes through the shard's lock.
unsafe impl Send for Shard {}

impl Registry {
    /// An empty registry, with as many shards as threads that spawn and finish futures at a time, rounded up to a power of two.
    pub(crate) fn new(lanes: usize) -> Self {
        let shards = lanes.clamp(1, SHARDS_MAX).next_power_of_two();
        Self { shards: (0..shards).map(|_| CachePadded::new(Mutex::new(Shard::default()))).collect() }
    }

    /// Refuses futures from now on.
    pub(crate) fn close(&self) {
        self.shards.iter().for_each(|shard| shard.lock().closed = true);
    }

    /// Aborts every future: one that waits is scheduled, so that a lane drops it; one that is queued or runs is marked. Returns before they
    /// have ended: ask [`is_empty`](Self::is_empty). A future that comes in meanwhile may be missed, so [`close`](Self::close) first.
    pub(crate) fn cancel_all(&self) {
        self.visit(Reference::abort);
    }

    /// Aborts the futures that wait; those that are queued or run go on, and may be waiting when it returns.
    pub(crate) fn cancel_idle(&self) {
        self.visit(Reference::abort_idle);
    }

    fn visit(&self, act: impl Fn(&Reference)) {
        for shard in &self.shards {
            // Each round brings the first to the end, so after as many rounds as there were futures, each has had its turn, wherever others
            // left the list in between. Some may have two turns, which does no harm.
            let mut rounds = shard.lock().len;
            while rounds > 0 {
                let Some(task) = shard.lock().rotate() else { break };
                // Outside the lock: it may schedule, and it may be the last reference.
                act(&task);
                rounds -= 1;
            }
        }
    }

    /// Whether all futures are gone, dropped by whoever ran them last. Their outputs may still wait for handles. Final only if closed.
    pub(crate) fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.lock().len == 0)
    }

    /// The number of futures; without [`close`](Self::close), as stale as any count.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len).sum()
    }

    /// Puts a new future on the list.
    ///
    /// # Safety
    ///
    /// - `task` begins with a [`Listed`] and is on no list. It stays alive until [`remove`](Self::remove) was called.
    pub(super) unsafe fn insert(&self, task: NonNull<Header>) -> Result<(), Closed> {
        let mut shard = self.shard(task).lock();
        if shard.closed {
            return Err(Closed);
        }
        // SAFETY: alive and unlisted, says the caller; we hold the lock of its shard.
        unsafe { shard.push(task.cast()) };
        Ok(())
    }

    /// Takes a future off the list.
    ///
    /// # Safety
    ///
    /// - `task` was inserted here, and is removed once.
    pub(super) unsafe fn remove(&self, task: NonNull<Header>) {
        let mut shard = self.shard(task).lock();
        // SAFETY: on the list of its shard, whose lock we hold.
        unsafe { shard.unlink(task.cast()) };
    }

    fn shard(&self, task: NonNull<Header>) -> &Mutex<Shard> {
        &self.shards[shard_of(task.addr().get(), self.shards.len())]
    }
}

/// The shard of a task at `address`, among a power of two of `shards`: as good as random, and always the same.
pub(super) fn shard_of(address: usize, shards: usize) -> usize {
    /// 2^64 divided by the golden ratio: multiplied by it, addresses that differ by small steps differ in their upper bits (Fibonacci hashing).
    const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = (address as u64).wrapping_mul(GOLDEN) >> u32::BITS;
    mixed as usize & (shards - 1)
}

/// All of these ask for the lock, and for tasks that are on this list (or, for `push`, on none) and alive.
impl Shard {
    unsafe fn push(&mut self, task: NonNull<Listed>) {
        // SAFETY: by the head of this impl.
        unsafe {
            set(task, Neighbours { before: self.last, after: None });
            match self.last {
                Some(last) => set(last, Neighbours { after: Some(task), ..neighbours(last) }),
                None => self.first = Some(task),
            }
        }
        self.last = Some(task);
        self.len += 1;
    }

    unsafe fn unlink(&mut self, task: NonNull<Listed>) {
        // SAFETY: by the head of this impl; neighbours are on the list too.
        unsafe {
            let Neighbours { before, after } = neighbours(task);
            match before {
                Some(before) => set(before, Neighbours { after, ..neighbours(before) }),
                None => self.first = after,
            }
            match after {
                Some(after) => set(after, Neighbours { before, ..neighbours(after) }),
                None => self.last = before,
            }
        }
        self.len -= 1;
    }

    /// Brings the first to the end, and gives a reference to it.
    fn rotate(&mut self) -> Option<Reference> {
        let first = self.first?;
        // SAFETY: it is on the list, so it is alive as long as `&mut self` (the lock) keeps others from removing it.
        unsafe {
            self.unlink(first);
            self.push(first);
            Some(Reference::retained(first.cast()))
        }
    }
}

unsafe fn neighbours(task: NonNull<Listed>) -> Neighbours {
    // SAFETY: alive, and the caller holds the lock of its shard.
    unsafe { task.as_ref() }.links.0.with(|links| unsafe { *links })
}

unsafe fn set(task: NonNull<Listed>, neighbours: Neighbours) {
    // SAFETY: alive, and the caller holds the lock of its shard.
    unsafe { task.as_ref() }.links.0.with_mut(|links| unsafe { *links = neighbours });
}

impl Listed {
    /// Where the registry looks for the links.
    pub(super) const LINKS_OFFSET: usize = std::mem::offset_of!(Self, links);
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("len", &self.len()).finish_non_exhaustive()
    }
}
