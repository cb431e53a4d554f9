//! A way to nowhere: stores of 64 bytes to ordinary memory. For counting what a submission costs on this side, where the store itself is as many
//! ordinary instructions instead of one that emulators lack.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering::Release};

use super::direct::By;
use super::mapped::{Mapped, Store64};
use super::page::Page;
use super::state::NoState;
use crate::offload::dsa::abi::Descriptor;

/// Eight stores of a word. The one with the record's address is the last: whoever sees it sees the whole descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words;

/// The word of a descriptor that has its record's address.
const RECORD_WORD: usize = 1;

impl Store64 for Words {
    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; 64], from: &Descriptor) {
        // SAFETY: the descriptor's 64 aligned bytes; the rest is the caller's promise.
        unsafe { self.store_words(to.cast(), std::ptr::from_ref(from).cast::<[u64; 8]>().read()) };
    }

    fn by(self) -> By {
        By::Words(self)
    }
}

impl Words {
    /// As [`store`](Store64::store), of words.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(super) unsafe fn store_words(self, to: *mut u64, words: [u64; 8]) {
        let [common, record, rest @ ..] = words;
        // SAFETY: 64 aligned bytes (the caller's promise). Volatile: nobody of this program reads them, and they are to happen.
        unsafe {
            to.write_volatile(common);
            // Written out, or it would be a loop at run time.
            let rest_at = to.add(RECORD_WORD + 1);
            rest_at.write_volatile(rest[0]);
            rest_at.add(1).write_volatile(rest[1]);
            rest_at.add(2).write_volatile(rest[2]);
            rest_at.add(3).write_volatile(rest[3]);
            rest_at.add(4).write_volatile(rest[4]);
            rest_at.add(5).write_volatile(rest[5]);
        }
        // SAFETY: as above; the word is accessed as an atomic or by the kernel's copy of the page.
        let last = unsafe { AtomicU64::from_ptr(to.add(RECORD_WORD)) };
        // Release: the other words; partner is the second look of `NullQueue::take`.
        last.store(record, Release);
    }
}

/// Everything of a dedicated queue's portal but its device: every descriptor is accepted, and none is ever answered.
///
/// `node` is a page of memory to store to: a memfd that others may look into, or `/dev/zero`.
pub(crate) fn null_portal(node: File) -> io::Result<Mapped<Words>> {
    Ok(Mapped::new(Page::map(&node)?, Words, Box::new(NoState)))
}

#[cfg(test)]
mod tests {
    use super::super::{Death, Portal, Submitted};
    use super::*;

    fn zero() -> File {
        File::options().read(true).write(true).open("/dev/zero").unwrap()
    }

    #[test]
    fn everything_is_accepted_until_it_is_retired_and_nothing_faults_after() {
        let portal = null_portal(zero()).unwrap();
        let descriptors = [Descriptor::noop(); 100];
        // SAFETY: no device reads it.
        assert_eq!(unsafe { portal.submit(&descriptors[0]) }, Submitted::Accepted);
        // SAFETY: as above.
        assert_eq!(unsafe { portal.submit_many(&descriptors) }, (100, Submitted::Accepted));
        let _ = portal.retire().unwrap();
        // SAFETY: as above.
        assert_eq!(unsafe { portal.submit(&descriptors[0]) }, Submitted::Accepted, "lost, as with a disabled queue");
    }

    #[test]
    fn a_child_submits_nothing() {
        let portal = null_portal(zero()).unwrap();
        // SAFETY: the child submits, frees and ends; the C library keeps its allocator usable in children.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no device reads it. It would fault if it were stored: the page is not there.
            let submitted = unsafe { portal.submit(&Descriptor::noop()) };
            // SAFETY: as above.
            let many = unsafe { portal.submit_many(&[Descriptor::noop()]) };
            let right = submitted == Submitted::Dead(Death::Forked)
                && many == (0, Submitted::Dead(Death::Forked))
                && portal.death() == Some(Death::Forked);
            let right = right && portal.retire().is_err();
            // Nothing is unmapped by this, of what may be somebody else's by now.
            drop(portal);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = 0;
        // SAFETY: waits for the child that was just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 0));
    }
}
