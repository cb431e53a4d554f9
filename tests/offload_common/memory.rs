//! Memory whose pages a test has a say in: mapped for it alone, and at an offset of its choice within them.

use twolane::offload::RawBuffer;

/// 4 KiB, as translations have it.
pub const PAGE: usize = 4096;

/// An anonymous mapping; unmapped when it is dropped, so it is the `keep` of its buffers.
#[derive(Debug)]
pub struct Pages {
    start: *mut u8,
    len: usize,
}

// SAFETY: an address and a length; the mapping belongs to the process.
unsafe impl Send for Pages {}

impl Pages {
    /// So many pages that nobody has touched.
    pub fn new(pages: usize) -> Self {
        let len = pages * PAGE;
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(start, libc::MAP_FAILED);
        Self { start: start.cast(), len }
    }

    /// With contents from `offset` on.
    pub fn with(pages: usize, offset: usize, contents: &[u8]) -> Self {
        let pages = Self::new(pages);
        assert!(offset + contents.len() <= pages.len);
        // SAFETY: within the mapping, which is nobody else's yet.
        unsafe { pages.start.add(offset).copy_from_nonoverlapping(contents.as_ptr(), contents.len()) };
        pages
    }

    pub fn at(&self, offset: usize) -> *mut u8 {
        assert!(offset <= self.len);
        self.start.wrapping_add(offset)
    }

    /// Forbids all access but what `protection` allows to a page.
    pub fn protect(&self, page: usize, protection: i32) {
        // SAFETY: a page of the mapping; who breaks the protection asks for it.
        let failed = unsafe { libc::mprotect(self.at(page * PAGE).cast(), PAGE, protection) };
        assert_eq!(failed, 0);
    }

    /// What is there.
    pub fn read(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(offset + len <= self.len);
        // SAFETY: within the mapping; no operation is on it while it is not in a buffer.
        unsafe { std::slice::from_raw_parts(self.at(offset), len) }.to_vec()
    }

    /// A part of it as a buffer, which keeps it mapped.
    pub fn buffer(self, offset: usize, len: usize) -> RawBuffer<Self> {
        assert!(offset + len <= self.len);
        // SAFETY: the mapping is kept by the buffer, is initialised (zeros, or what was put there), and nobody else has it.
        unsafe { RawBuffer::new(self.at(offset), len, self) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own. It is dropped by whoever knows that no operation uses it.
        unsafe { libc::munmap(self.start.cast(), self.len) };
    }
}
