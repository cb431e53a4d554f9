//! Is this still the process that opened the queue? One load a submission.
//!
//! After fork(2) a child has the descriptors of its parent, and not the portals (the kernel leaves them out); what it submits would at best be refused,
//! on old kernels it would write to its parent's memory. So every opening remembers a mark in a page that the kernel wipes in children
//! (`MADV_WIPEONFORK`, Linux 4.14), which also covers processes made by a bare `clone`; where that is refused, a fork handler wipes it. A
//! `vfork` or a thread shares the memory, finds the mark, and may submit, as the kernel lets it.

use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::*};

use super::page::PAGE_BYTES;

/// The process that made it. A copy in a child is not at home there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lineage {
    word: &'static AtomicU32,
    mark: u32,
}

/// The last mark that was given out, in this process and those that it was forked from: marks differ along a line of children.
static LAST: AtomicU32 = AtomicU32::new(0);
/// Used if there is no memory for a page: wiped by the fork handler.
static SPARE: AtomicU32 = AtomicU32::new(0);
static WORD: OnceLock<&'static AtomicU32> = OnceLock::new();

impl Lineage {
    /// The calling process.
    pub(crate) fn here() -> Self {
        let word = *WORD.get_or_init(wiped_in_children);
        // Relaxed throughout: the word stands for itself, and a fork is a barrier to everything.
        let mark = match word.load(Relaxed) {
            0 => {
                let mine = LAST.fetch_add(1, Relaxed).wrapping_add(1).max(1);
                word.compare_exchange(0, mine, Relaxed, Relaxed).map_or_else(|first| first, |_| mine)
            }
            mark => mark,
        };
        Self { word, mark }
    }

    /// Whether the caller runs in the process (the memory) that this was made in.
    #[inline(always)]
    pub(crate) fn is_here(&self) -> bool {
        // Relaxed: see `here`.
        self.word.load(Relaxed) == self.mark
    }
}

/// A word that is 0 in every child until the child makes its own mark.
fn wiped_in_children() -> &'static AtomicU32 {
    let Some(page) = map_page() else {
        wipe_by_handler();
        return &SPARE;
    };
    // SAFETY: the page that was just mapped for us.
    let refused = unsafe { libc::madvise(page.as_ptr().cast(), PAGE_BYTES, libc::MADV_WIPEONFORK) };
    if refused != 0 {
        wipe_by_handler();
    }
    // SAFETY: a page is aligned for a word, zeroed, never unmapped, and only ever used as this word.
    unsafe { page.cast::<AtomicU32>().as_ref() }
}

fn map_page() -> Option<NonNull<u8>> {
    let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, where the kernel likes; nothing that exists is touched.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), PAGE_BYTES, protection, kind, -1, 0) };
    if page == libc::MAP_FAILED { None } else { NonNull::new(page.cast()) }
}

/// The old way, for kernels that do not wipe: children made by `fork` of the C library are noticed.
fn wipe_by_handler() {
    extern "C" fn in_child() {
        SPARE.store(0, Relaxed);
        if let Some(word) = WORD.get() {
            word.store(0, Relaxed);
        }
    }
    // SAFETY: the handler lives as long as the program, and stores to words that are never freed.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // Out of memory is the only reason.
    debug_assert_eq!(refused, 0, "pthread_atfork: out of memory");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_not_at_home_and_makes_its_own_mark() {
        let parent = Lineage::here();
        assert!(parent.is_here() && Lineage::here().is_here());
        // SAFETY: the child does nothing but loads, stores and `_exit`: no allocation, no lock.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let stranger = parent.is_here();
            let own = Lineage::here();
            let code = i32::from(stranger) | i32::from(!own.is_here()) << 1 | i32::from(parent.is_here()) << 2;
            // SAFETY: ends the child.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 0));
        assert!(parent.is_here(), "the parent's mark stays");
    }
}
