//! A page of slots: what a lane submits with. Its words, its memory, and how long it lives.
//!
//! Pages are never freed while a slot is taken: a ticket refers to its page for as long as it lives, and the device may write to it for longer. So a
//! page in use holds a reference to the flow's core (its *lease*), which ends with the page's last slot after it was retired; the core, when nothing
//! refers to it any more, gives its pages back. A page whose operations are never answered keeps the core for ever, and is found from
//! [`LEASED`], so that a leak checker sees what was kept on purpose.

use std::io;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use super::backlog::Backlog;
use super::claims::{Claims, SLOTS};
use super::core::Core;
use super::counters::Counters;
use super::memory::{Line, Memory, RECORDS};
use super::slot::{Origin, Outcome, PreparedFor, Slot};
use super::waiters::Waiters;
use crate::offload::dsa::abi::Descriptor;
use crate::offload::dsa::portal::Lineage;
use crate::task::contain;

/// Pages with a lease: the roots of everything that the device may still write to.
static LEASED: Mutex<Vec<PageRef>> = Mutex::new(Vec::new());

/// See the module's documentation.
pub(crate) struct Page {
    pub(crate) claims: CachePadded<Claims>,
    pub(crate) backlog: CachePadded<Backlog>,
    /// As many as there are records, of which [`SLOTS`] are used: an index below 64 needs no check then.
    slots: [Slot; RECORDS],
    pub(crate) memory: Memory,
    pub(crate) waiters: Waiters,
    pub(crate) counters: CachePadded<Counters>,
    /// From `Arc::into_raw`; null: no lease.
    lease: AtomicPtr<Core>,
    /// The core's, at hand.
    home: Lineage,
}

/// A page by reference. Copied into tickets; valid while the holder has a slot of the page, or a reference to the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageRef(ptr::NonNull<Page>);

// SAFETY: a shared reference in all but name, to what is `Sync`.
unsafe impl Send for PageRef {}
// SAFETY: as above.
unsafe impl Sync for PageRef {}

impl std::ops::Deref for PageRef {
    type Target = Page;
    #[inline]
    fn deref(&self) -> &Page {
        // SAFETY: see the type: pages are freed by `Core`'s drop, and a page with a slot taken keeps its core.
        unsafe { self.0.as_ref() }
    }
}

impl PageRef {
    /// A new page, in use for `core`.
    pub(crate) fn new(core: &Arc<Core>) -> io::Result<Self> {
        let page = Box::new(Page {
            claims: CachePadded::new(Claims::new()),
            backlog: CachePadded::new(Backlog::new()),
            slots: std::array::from_fn(|_| Slot::new()),
            memory: Memory::map()?,
            waiters: Waiters::new(),
            counters: CachePadded::new(Counters::default()),
            lease: AtomicPtr::new(Arc::into_raw(Arc::clone(core)).cast_mut()),
            home: Lineage::here(),
        });
        let page = Self(ptr::NonNull::from(Box::leak(page)));
        LEASED.lock().push(page);
        Ok(page)
    }

    #[inline]
    pub(crate) fn as_ptr(self) -> *mut Page {
        self.0.as_ptr()
    }

    /// From [`as_ptr`](Self::as_ptr).
    ///
    /// # Safety
    /// The page lives: see the type.
    #[inline]
    pub(crate) unsafe fn from_ptr(page: *mut Page) -> Self {
        debug_assert!(!page.is_null());
        // SAFETY: from `as_ptr`, by the caller's promise.
        Self(unsafe { ptr::NonNull::new_unchecked(page) })
    }

    /// Nobody takes a slot any more; the lease ends with the last one that is taken. Once.
    pub(crate) fn retire(self) {
        if self.claims.retire() {
            self.end_lease();
        }
        // Those who wait for a slot have to look for the page that took its place.
        while let Some(waker) = self.waiters.pass(&self.claims) {
            let _ = contain(|| waker.wake());
        }
    }

    /// Gives back slots, and does what that entails.
    #[inline]
    pub(crate) fn release(self, slots: u64) {
        let released = self.claims.release(slots);
        if released.waiters || released.emptied {
            self.released(released.emptied);
        }
    }

    #[cold]
    fn released(self, emptied: bool) {
        self.pass_on();
        if emptied {
            self.end_lease();
        }
    }

    /// Wakes one of those who wait for a slot.
    pub(crate) fn pass_on(self) {
        if let Some(waker) = self.waiters.pass(&self.claims) {
            let _ = contain(|| waker.wake());
        }
    }

    fn end_lease(self) {
        // Acquire: the core as it was when the page got it; it came from another thread. The claims' word says that this happens once.
        let core = self.lease.swap(ptr::null_mut(), Acquire);
        debug_assert!(!core.is_null());
        LEASED.lock().retain(|page| *page != self);
        // SAFETY: from `Arc::into_raw` in `new`, taken once. Dropping the last reference frees this page: it is not touched after.
        drop(unsafe { Arc::from_raw(core) });
    }

    /// Frees it.
    ///
    /// # Safety
    /// Nobody refers to it: no slot is taken, and its core is being dropped.
    pub(crate) unsafe fn free(self) {
        debug_assert!(self.lease.load(Relaxed).is_null());
        // SAFETY: from `Box::leak` in `new`; the caller's promise.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }

    /// Does what a declaration that an operation is over entails: credit, waker, what was left, the slot. `origin` was read before the declaration:
    /// after it the slot may have another life. `true`: somebody was told.
    pub(crate) fn carry_out(self, slot: u32, origin: Origin, outcome: Outcome) -> bool {
        let Outcome { mine, waker, kept, gives_back } = outcome;
        if mine {
            self.give_back_credit(origin);
        }
        if gives_back {
            // Before the drop of what was left, which is user code: the slot has nothing to do with it any more.
            self.release(1 << slot);
        }
        let tells = waker.is_some();
        if let Some(waker) = waker {
            let _ = contain(|| waker.wake());
        }
        if let Some(kept) = kept {
            let _ = contain(|| drop(kept));
        }
        tells
    }

    /// The record of what was submitted from there was seen.
    #[inline]
    pub(crate) fn give_back_credit(self, origin: Origin) {
        if origin.credit {
            if let Some(queue) = self.core().queue(origin.queue) {
                queue.answered(1);
            }
        }
    }

    /// The core that the page is leased to. The caller holds a slot of the page, or a reference to the core.
    #[inline]
    pub(crate) fn core<'a>(self) -> &'a Core {
        // Relaxed: written when the page was made, before anybody had it; the caller's slot keeps it from being taken out.
        // SAFETY: the lease is a reference, and the page has it while a slot is taken.
        unsafe { &*self.lease.load(Relaxed) }
    }
}

impl Page {
    #[inline]
    pub(crate) fn slot(&self, slot: u32) -> &Slot {
        debug_assert!(slot < SLOTS);
        &self.slots[slot as usize % RECORDS]
    }

    /// Whether the caller runs in the process that the page belongs to; its memory is not there in others.
    #[inline(always)]
    pub(crate) fn is_here(&self) -> bool {
        self.home.is_here()
    }

    /// The [list](Memory::list) of a slot, for its holder to write: from now on it is prepared for nothing.
    pub(crate) fn list_anew(&self, slot: u32) -> *mut Descriptor {
        self.slot(slot).set_prepared(PreparedFor::NOTHING);
        self.memory.list(slot)
    }

    /// As [`slot`](Self::slot).
    #[inline(always)]
    pub(crate) fn slot_at(&self, line: Line) -> &Slot {
        const { assert!(size_of::<Slot>() == size_of::<Descriptor>(), "a line each") };
        let slots = std::ptr::from_ref(&self.slots).cast::<Slot>();
        // SAFETY: the line's offset is within as many lines as there are slots, which are lines.
        unsafe { &*slots.byte_add(line.offset()) }
    }
}

impl std::fmt::Debug for Page {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Page").field("claims", &self.claims).field("backlog", &self.backlog).finish_non_exhaustive()
    }
}
