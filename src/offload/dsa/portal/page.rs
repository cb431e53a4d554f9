//! A portal in this process's memory: one page, mapped from the queue's device node, given up without ever pulling it from under a submitter.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{self, NonNull};

use super::drained::{Drained, NotDrained};
use super::lineage::Lineage;
use crate::offload::dsa::abi::limits::{DESCRIPTOR_BYTES, PORTAL_BYTES, RECORD_BYTES};
use crate::offload::dsa::abi::{Descriptor, layout};

/// The kernel maps exactly this much, and refuses more.
pub(super) const PAGE_BYTES: usize = PORTAL_BYTES;
/// Places for a descriptor in a portal. To the device all are the same queue.
const PLACES: usize = PAGE_BYTES / DESCRIPTOR_BYTES;

/// A page that descriptors are stored to.
#[derive(Debug)]
pub(crate) struct Page {
    start: NonNull<u8>,
    lineage: Lineage,
    /// No child has the queue open: its node was never where one could inherit it.
    alone: bool,
}

// SAFETY: an address. What is behind it is written by whole-descriptor stores only, which any thread may do.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Maps the portal of an opened queue. EPERM: the kernel wants CAP_SYS_RAWIO for it.
    pub(crate) fn map(node: &File) -> io::Result<Self> {
        // PROT_WRITE alone, as a portal is never read.
        // SAFETY: a new mapping, where the kernel likes; nothing that exists is touched.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, libc::PROT_WRITE, libc::MAP_SHARED, node.as_raw_fd(), 0) };
        let start = if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast::<u8>()) };
        let start = start.ok_or_else(io::Error::last_os_error)?;
        // The kernel leaves a real portal out of children by itself; a stand-in (a file) it would not. Refused or not, `lineage` guards it.
        // SAFETY: the page that was just mapped.
        let _ = unsafe { libc::madvise(start.as_ptr().cast(), PAGE_BYTES, libc::MADV_DONTFORK) };
        Ok(Self { start, lineage: Lineage::here(), alone: true })
    }

    /// The node was open for a while where a child that was made then has it.
    pub(super) fn maybe_inherited(self) -> Self {
        let mut page = self;
        page.alone = false;
        page
    }

    /// Whether the page is there at all: it is not in children.
    #[inline(always)]
    pub(crate) fn is_here(&self) -> bool {
        self.lineage.is_here()
    }

    /// Where to store a descriptor.
    #[inline(always)]
    pub(crate) fn place(&self, descriptor: &Descriptor) -> *mut [u8; 64] {
        // SAFETY: below PAGE_BYTES, so inside of the mapping.
        unsafe { self.start.add(place(descriptor.value(layout::COMPLETION_ADDRESS))) }.as_ptr().cast()
    }

    /// Its first byte. Stays, also when it is retired.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Lets go of the device: puts ordinary memory where the portal was, in one step. A submitter that is late stores to that memory, or is told
    /// "retry" by ENQCMD; there is no instant at which the address is not mapped. This was the kernel's last reference to the opened queue, since its node is closed and the mapping
    /// is not in children: the kernel drains it before this returns, and blocks if the device hangs.
    pub(crate) fn retire(&self) -> Result<Drained, NotDrained> {
        if !self.is_here() {
            return Err(NotDrained::because("the queue was opened by the parent of this process"));
        }
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        // SAFETY: exactly the page that is ours (this process's: just checked), which nobody reads.
        let placed = unsafe {
            libc::mmap(self.start.as_ptr().cast(), PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0)
        };
        if placed != self.start.as_ptr().cast() {
            return Err(NotDrained::of("the portal could not be unmapped")(io::Error::last_os_error()));
        }
        if !self.alone {
            return Err(NotDrained::because("a child that was made while the queue was being opened may have it open"));
        }
        Ok(Drained::by_the_portals_word())
    }
}

/// Which place of a portal a descriptor is stored to, as an offset: its record's own within a page. Stores to one place one after the other wait for each other;
/// but two operations in flight have different records, and those of one lane, which has a page of records, different places. That two lanes take the same
/// place now and then does no harm.
#[inline(always)]
pub(super) fn place(record: u64) -> usize {
    // Records are a line apart, as places are.
    const { assert!(RECORD_BYTES <= DESCRIPTOR_BYTES && PLACES.is_power_of_two()) };
    record as usize & ((PLACES - 1) * DESCRIPTOR_BYTES)
}

impl Drop for Page {
    fn drop(&mut self) {
        // In a child the address may be anybody's by now.
        if self.is_here() {
            // SAFETY: our mapping, in the process that made it, and nobody submits any more: they would hold a reference.
            unsafe { libc::munmap(self.start.as_ptr().cast(), PAGE_BYTES) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> (File, Page) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(PAGE_BYTES as u64).unwrap();
        let page = Page::map(&file).unwrap();
        (file, page)
    }

    #[test]
    fn places_are_aligned_and_all_of_them_are_used() {
        let (_file, page) = page();
        let place = |record: usize| page.place(&Descriptor::noop().report_to(record as u64)).addr();
        let mut places: Vec<usize> = (0..PLACES).map(|slot| place(0x7_3000 + slot * 64)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), PLACES);
        assert!(places.iter().all(|at| at % DESCRIPTOR_BYTES == 0));
        assert_eq!(places[PLACES - 1] - places[0], PAGE_BYTES - DESCRIPTOR_BYTES);
    }

    #[test]
    fn a_retired_page_takes_late_stores_and_keeps_them_from_the_file() {
        use std::os::unix::fs::FileExt;
        let (file, page) = page();
        let first = |file: &File| {
            let mut byte = [0];
            file.read_exact_at(&mut byte, 0).unwrap();
            byte[0]
        };
        // SAFETY: a byte of a mapping for writing, of a file of this test's.
        unsafe { page.start.write_volatile(1) };
        assert_eq!(first(&file), 1);
        let _ = page.retire().unwrap();
        // SAFETY: as above; it is ordinary memory now.
        unsafe { page.start.write_volatile(2) };
        assert_eq!(first(&file), 1, "the file is out of reach");
        let _ = page.retire().unwrap();
        let error = page.maybe_inherited().retire().unwrap_err().to_string();
        assert!(error.contains("child"), "{error}");
    }

    #[test]
    fn what_cannot_be_mapped_is_an_error() {
        let device = File::options().read(true).write(true).open("/dev/null").unwrap();
        assert_eq!(Page::map(&device).unwrap_err().raw_os_error(), Some(libc::ENODEV));
    }
}
