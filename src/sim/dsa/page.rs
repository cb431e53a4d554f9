//! A portal that is a real page of memory: software stores descriptors to it with its own MOVDIR64B, and the device picks them up. (Eight ordinary
//! stores do as well, if the first eight bytes come last: for cpus without the instruction.)
//!
//! What that shows: the very instruction, its operands and its alignment, against memory that another thread reads. What it does not: that a fence
//! is missing (memory is coherent here, and portals are weakly ordered), and anything about ENQCMD, which wants an answer.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::offload::dsa::abi::Descriptor;
use crate::offload::dsa::abi::limits::{DESCRIPTOR_BYTES, PORTAL_BYTES};

use super::device::Device;

/// A mapped portal of a dedicated queue, for software that stores to it: [`address`](Self::address), or a mapping of its own of
/// [`file`](Self::file). The device looks at its 64 places whenever it is driven. Unmapped when it drops.
///
/// A real portal takes a descriptor as it is stored; this page holds it until the device looks. So a place must not be stored to again before it
/// was looked at. **One submitting thread that goes round all 64 places, with at most 32 descriptors outstanding, and one thread that drives the
/// device**, never lose one: for a place to be stored to again, at least 32 of the 63 descriptors between have to complete, so they were picked up. A
/// look that begins when the first one is there picks it up with them; and a look that had passed its place just before finds at most the 31 others
/// that may be outstanding at that moment, since nothing completes during a look. Several threads with turns of their own, or a thread that always
/// stores to one place, can overwrite a descriptor, which is lost without a trace then: give each a queue and a page of its own.
///
/// A descriptor whose flags and opcode are all zero (a no-op without a record) looks like an empty place.
#[derive(Debug)]
pub struct PagePortal {
    device: Device,
    page: Arc<Page>,
}

impl PagePortal {
    pub(crate) fn new(device: &Device, client: usize) -> io::Result<Self> {
        let page = Arc::new(Page::new(client)?);
        device.pages().add(Arc::clone(&page));
        device.wake();
        Ok(Self { device: device.clone(), page })
    }

    /// The page, writable, 4096 bytes.
    pub fn address(&self) -> *mut u8 {
        self.page.start.as_ptr().cast()
    }

    /// What to map (one page, MAP_SHARED, PROT_WRITE) to have the portal at another address: as the queue's device node would be.
    pub fn file(&self) -> &File {
        &self.page.file
    }
}

impl Drop for PagePortal {
    fn drop(&mut self) {
        self.device.pages().remove(&self.page);
    }
}

/// The pages that a device looks at.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    count: AtomicUsize,
    pages: Mutex<Vec<Arc<Page>>>,
}

impl Pages {
    fn add(&self, page: Arc<Page>) {
        let mut pages = self.pages.lock();
        pages.push(page);
        // Relaxed: a hint; whoever added a page drives the device, or wakes who does.
        self.count.store(pages.len(), Ordering::Relaxed);
    }

    fn remove(&self, page: &Arc<Page>) {
        let mut pages = self.pages.lock();
        pages.retain(|other| !Arc::ptr_eq(other, page));
        // Relaxed: as in `add`.
        self.count.store(pages.len(), Ordering::Relaxed);
    }

    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: as in `add`.
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Picks up what was stored to any of them, all places of each in one go. Whether there was something.
    pub(crate) fn look(&self, device: &Device) -> bool {
        if self.is_empty() {
            return false;
        }
        // One looker at a time: two could see one descriptor twice.
        let pages = self.pages.lock();
        let mut found = false;
        for page in pages.iter() {
            for place in page.places() {
                let Some(descriptor) = take(place) else { continue };
                found = true;
                device.lock().movdir64b(page.client, &descriptor);
            }
        }
        found
    }
}

type Place = [AtomicU64; DESCRIPTOR_BYTES / 8];
const PLACES: usize = PORTAL_BYTES / DESCRIPTOR_BYTES;

/// A page of shared memory, mapped here.
#[derive(Debug)]
struct Page {
    client: usize,
    file: File,
    start: NonNull<[Place; PLACES]>,
}

// SAFETY: the page is reached through atomics alone, and lives as long as this value.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn new(client: usize) -> io::Result<Self> {
        // SAFETY: a name that ends with a zero; the call makes a descriptor and touches no memory of ours.
        let fd = unsafe { libc::memfd_create(c"dsa-portal".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and owned by nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(PORTAL_BYTES as u64)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), PORTAL_BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        let start = if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) };
        let start = start.ok_or_else(io::Error::last_os_error)?;
        Ok(Self { client, file, start })
    }

    fn places(&self) -> &[Place; PLACES] {
        // SAFETY: `new` mapped 4096 bytes there, zeroed and page-aligned, and `drop` unmaps them. Nobody has a reference to them that is not to
        // atomics: software writes through a pointer, as a device's driver does, and a file that somebody else shortens is theirs to answer for
        // (`ModelPortal::map`'s contract).
        unsafe { self.start.as_ref() }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and nobody looks any more: lookers hold a reference to this value.
        unsafe { libc::munmap(self.start.as_ptr().cast(), PORTAL_BYTES) };
    }
}

/// Takes the descriptor out of a place, and makes the place empty.
fn take(place: &Place) -> Option<Descriptor> {
    // Acquire: partner of MOVDIR64B, which stores all 64 bytes at once, or of a Release store of this word after the others: they are at least as
    // new as it.
    let first = place[0].load(Ordering::Acquire);
    // Flags and opcode: the upper half. The lower one is the PASID, which the device fills in.
    if first >> 32 == 0 {
        return None;
    }
    let mut bytes = [0; DESCRIPTOR_BYTES];
    for (word, to) in place.iter().zip(bytes.chunks_exact_mut(8)) {
        // Relaxed: ordered behind the load above.
        to.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    // Relaxed: software never reads a portal, and does not store to this place before it saw something complete, which is ordered by the
    // completion record.
    place.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    Some(Descriptor::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_taken_once_and_is_empty_then() {
        let page = Page::new(0).unwrap();
        let descriptor = Descriptor::memmove(1, 2, 3).report_to(64);
        assert_eq!(take(&page.places()[5]), None);
        for (n, bytes) in descriptor.to_bytes().chunks_exact(8).enumerate() {
            let word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            page.places()[5][n].store(u64::from_ne_bytes(u64::to_le_bytes(word)), Ordering::Relaxed);
        }
        assert_eq!(take(&page.places()[5]), Some(descriptor));
        assert_eq!(take(&page.places()[5]), None);
        assert!(page.places()[5].iter().all(|word| word.load(Ordering::Relaxed) == 0));
    }
}
