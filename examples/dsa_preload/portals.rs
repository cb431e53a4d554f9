//! Which pages of the program's are portals? The traps find that out for themselves; this is about how long a queue stays open.

use std::ffi::c_int;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::{next, opened};

/// The kernel's driver maps one page.
pub const BYTES: usize = 4096;

/// A page that a program submits to.
struct Page {
    at: usize,
    /// Whose queue it holds.
    node: usize,
}

static PAGES: Mutex<Vec<Page>> = Mutex::new(Vec::new());
/// How many there are: what unmaps memory in a program without portals looks at this alone.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A queue's page was mapped. Returns what `mmap` does.
pub fn mapped(fd: c_int, at: usize) -> isize {
    let Some(node) = opened::hold_by(fd) else {
        // Closed by another thread meanwhile.
        // SAFETY: just mapped, and known to nobody.
        unsafe { next::munmap(at as *mut _, BYTES) };
        return next::fail(libc::EBADF);
    };
    // A child does not inherit it, as the kernel's driver has it.
    // SAFETY: advice on a page that was just mapped; changes no content.
    unsafe { libc::madvise(at as *mut _, BYTES, libc::MADV_DONTFORK) };
    let mut pages = PAGES.lock();
    pages.push(Page { at, node });
    // Relaxed: a thread that unmaps a page has got its address from the one that mapped it.
    COUNT.store(pages.len(), Ordering::Relaxed);
    at as isize
}

/// Memory is about to be unmapped, or replaced.
pub fn unmapped(at: usize, len: usize) {
    // Relaxed: see `mapped`.
    if COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let gone: Vec<Page> = {
        let mut pages = PAGES.lock();
        let (gone, left) = std::mem::take(&mut *pages)
            .into_iter()
            .partition(|page| page.at < at.saturating_add(len) && at < page.at + BYTES);
        *pages = left;
        COUNT.store(pages.len(), Ordering::Relaxed); // see `mapped`
        gone
    };
    for page in gone {
        opened::release(page.node);
    }
}

/// In a child, which has none of them.
pub fn disown() {
    // Relaxed: a child has one thread.
    COUNT.store(0, Ordering::Relaxed);
    // SAFETY: as above; another thread of the parent's may have had the lock, and what it did is not looked at.
    unsafe {
        std::mem::forget(std::mem::take(&mut *PAGES.data_ptr()));
        if PAGES.is_locked() {
            PAGES.force_unlock();
        }
    }
}
