//! What lanes, tickets and the reaper share: the queues, the pages, and the knobs.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::counters::Totals;
use super::page::{Page, PageRef};
use super::reaper::Sweeper;
use crate::offload::batch::Batching;
use crate::offload::dsa::portal::Lineage;
use crate::offload::dsa::queue::{Queue, QueueId, Queues};

/// Pages for threads that are no lanes. They are dealt out to such threads in turn, so that two of them rarely meet in one word.
pub(crate) const FOREIGN_PAGES: usize = 4;
/// How long an operation may be unanswered before it is given up: 1 s. A device answers in microseconds, a fault that the kernel serves from disk
/// in milliseconds; what takes longer than this is a device that was reset or halted. Giving up too early costs the buffers.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(1);

/// The knobs of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Lanes that have a page of their own.
    pub(crate) lanes: usize,
    /// When backlogs are submitted.
    pub(crate) batching: Batching,
    /// See [`TIMEOUT`].
    pub(crate) timeout: Duration,
    /// From so many bytes on, the CPU stores past the caches what it finishes.
    pub(crate) streamed_from: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { lanes: 1, batching: Batching::default(), timeout: TIMEOUT, streamed_from: usize::MAX }
    }
}

/// See the module's documentation.
pub(crate) struct Core {
    /// No other core of this process has it, before or after.
    number: u64,
    pub(super) queues: Queues,
    /// One a lane, then those of foreign threads. Replaced, never null after `open`.
    pages: Box<[AtomicPtr<Page>]>,
    /// All pages that there ever were.
    all: Mutex<Vec<PageRef>>,
    pub(super) settings: Settings,
    /// Calls the reaper's lane; set when there is a reaper.
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// New operations are refused.
    closed: AtomicBool,
    /// The reaper gives up everything that is outstanding.
    pub(super) expired: AtomicBool,
    /// What the reaper knows, while no reaper has it.
    pub(super) sweeper: Mutex<Option<Sweeper>>,
    /// The process that this was made in; in its children nothing of it can be used.
    home: Lineage,
}

thread_local! {
    /// Which page the thread submits with: a lane's number, or one of the foreign ones.
    static SEAT: Cell<u32> = const { Cell::new(UNSEATED) };
    /// The page of that seat, in the flow that the thread used last: the core's number, and the page. A page that was replaced since is found out when a
    /// slot of it is asked for.
    static LAST: Cell<(u64, *mut Page)> = const { Cell::new((NO_CORE, std::ptr::null_mut())) };
}

/// The number of no core.
const NO_CORE: u64 = 0;

const UNSEATED: u32 = u32::MAX;
/// Set in seats that are numbered from the first foreign page on.
const FOREIGN: u32 = 1 << 31;

/// Makes the calling thread submit with page `lane` of every flow. Lanes call it when they start.
pub(crate) fn sit_on(lane: usize) {
    // Lanes are fewer than 2^31: each has a cpu.
    SEAT.set(lane as u32 & !FOREIGN);
    LAST.set((NO_CORE, std::ptr::null_mut()));
}

#[cold]
fn sit_down() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: any distribution will do.
    let seat = (NEXT.fetch_add(1, Relaxed) % FOREIGN_PAGES as u32) | FOREIGN;
    SEAT.set(seat);
    seat
}

impl Core {
    /// Makes the pages.
    pub(super) fn open(queues: Queues, settings: Settings) -> io::Result<Arc<Self>> {
        static NUMBERS: AtomicU64 = AtomicU64::new(NO_CORE + 1);
        let count = settings.lanes + FOREIGN_PAGES;
        let core = Arc::new(Self {
            // Relaxed: any number that is nobody else's.
            number: NUMBERS.fetch_add(1, Relaxed),
            queues,
            pages: (0..count).map(|_| AtomicPtr::default()).collect(),
            all: Mutex::default(),
            settings,
            bell: OnceLock::new(),
            closed: AtomicBool::new(false),
            expired: AtomicBool::new(false),
            sweeper: Mutex::default(),
            home: Lineage::here(),
        });
        for seat in 0..count {
            if let Err(error) = core.new_page(seat) {
                core.retire_all(); // or those that were made would keep the core
                return Err(error);
            }
        }
        *core.sweeper.lock() = Some(Sweeper::new(&core));
        Ok(core)
    }

    /// Puts a new page on a seat. Returns it.
    pub(super) fn new_page(self: &Arc<Self>, seat: usize) -> io::Result<PageRef> {
        let page = PageRef::new(self)?;
        self.all.lock().push(page);
        // Release: the page, for whoever reads the pointer. Partner: the Acquire in `page`.
        self.pages[seat].store(page.as_ptr(), Release);
        Ok(page)
    }

    /// The page that the calling thread submits with. It may be retired, and another one in its place: see [`page_now`](Self::page_now).
    #[inline]
    pub(super) fn page(&self) -> PageRef {
        match LAST.try_with(Cell::get) {
            // SAFETY: from `page_now` of this very core, since the number is nobody else's; its pages live as long as it does, and the caller has it.
            Ok((core, page)) if core == self.number => unsafe { PageRef::from_ptr(page) },
            _ => self.page_now(),
        }
    }

    /// The page that the calling thread's seat has now.
    #[cold]
    pub(super) fn page_now(&self) -> PageRef {
        // While the thread's locals are being destroyed it has no seat: any will do.
        let seat = SEAT.try_with(Cell::get).unwrap_or(FOREIGN);
        let seat = if seat == UNSEATED { sit_down() } else { seat };
        let at =
            if seat & FOREIGN == 0 && (seat as usize) < self.pages.len() { seat as usize } else { self.foreign(seat) };
        let page = self.page_on(at);
        let _ = LAST.try_with(|last| last.set((self.number, page.as_ptr())));
        page
    }

    fn foreign(&self, seat: u32) -> usize {
        // A lane of a larger runtime is a foreign thread here.
        self.settings.lanes + (seat & !FOREIGN) as usize % FOREIGN_PAGES
    }

    #[inline]
    pub(super) fn page_on(&self, seat: usize) -> PageRef {
        // Acquire: partner is the Release in `new_page`.
        // SAFETY: pages live as long as the core, which the caller has; the pointer is set since `open`.
        unsafe { PageRef::from_ptr(self.pages[seat].load(Acquire)) }
    }

    /// How many seats there are.
    pub(super) fn seats(&self) -> usize {
        self.pages.len()
    }

    #[inline]
    pub(super) fn queue(&self, queue: u16) -> Option<&Queue> {
        self.queues.find(QueueId::from_index(queue))
    }

    /// Whether the caller runs in the process that this belongs to.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        self.home.is_here()
    }

    /// Calls the reaper.
    #[cold]
    pub(super) fn ring(&self) {
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }

    /// How the reaper is called. The first one stays.
    pub(super) fn set_bell(&self, bell: Box<dyn Fn() + Send + Sync>) {
        let _ = self.bell.set(bell);
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire: partner is the Release in `close`.
        self.closed.load(Acquire)
    }

    /// New operations are refused from now on. `false`: they were already.
    pub(super) fn close(&self) -> bool {
        // Release, Acquire: whoever sees it sees what came before, in whichever order two of them close.
        !self.closed.swap(true, AcqRel)
    }

    /// Ends the leases of all pages that are not retired yet, as far as their slots are free; the others' end with their last slot.
    pub(super) fn retire_all(&self) {
        let pages = self.all.lock().clone();
        for page in pages.into_iter().filter(|page| !page.claims.look().retired()) {
            page.retire();
        }
    }

    /// All pages, replaced ones too.
    pub(super) fn all_pages(&self) -> Vec<PageRef> {
        self.all.lock().clone()
    }

    pub(super) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for page in self.all.lock().iter() {
            totals.add(&page.counters);
        }
        totals
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        for page in self.all.get_mut().drain(..) {
            // SAFETY: a page with a slot taken has a lease, which is a reference to this core; there is none any more. Tickets have slots.
            unsafe { page.free() };
        }
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").field("settings", &self.settings).field("queues", &self.queues).finish_non_exhaustive()
    }
}
