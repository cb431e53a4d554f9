//! Pages that a device could not access: brought in by the task that owns the memory, or found to be nobody's. Never by the reaper.
//!
//! A page is touched **by the kernel, in the calling thread's name**: one word of it is read, or has 0 added to it by an atomic OR, in a futex call.
//! That brings it in as an access of the thread would, by the thread's own NUMA policy, breaks copy-on-write, and changes no byte; and where an
//! access would be a SIGSEGV or SIGBUS, the call says EFAULT and we say [`Failure::BadAddress`]. It needs no kernel younger than any that runs here
//! (`MADV_POPULATE_WRITE` wants 5.14), and no right to inspect processes (`process_vm_readv`). Some tenths of a microsecond a page besides the
//! fault itself.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::outcome::Fault;
use crate::offload::{DifBlock, Failure, Operation};

/// The smallest page that there is, in bytes: larger ones are touched more than once.
const PAGE: usize = 4_096;

/// Brings in the page that a device stumbled over, before the operation (what remains of it) is submitted again or finished on the CPU.
///
/// A device may withhold the address, or its lower bits. One that is in no page of the operation is not believed: then the first page of every
/// operand is brought in, since what remains begins where the device stopped.
///
/// # Errors
/// [`Failure::BadAddress`] if the memory cannot be accessed so.
pub(crate) fn bring_in(operation: &Operation, fault: Fault) -> Result<(), Failure> {
    let operands = operands(operation);
    let operands = || operands.iter().flatten().filter(|operand| operand.bytes > 0);
    let mut concerned = operands().filter(|operand| operand.has_page_of(fault.address)).peekable();
    if concerned.peek().is_none() {
        return operands().try_for_each(|operand| touch(operand.start, operand.write));
    }
    // What the operation writes is brought in for writing, whichever access came first.
    touch(fault.address, fault.write || concerned.any(|operand| operand.write))
}

/// Looks at every page of the operation, and brings it in: for what a device was refused and the CPU is to do, which would die of it otherwise.
///
/// # Errors
/// [`Failure::BadAddress`] with the first page that cannot be accessed.
pub(crate) fn check(operation: &Operation) -> Result<(), Failure> {
    for operand in operands(operation).iter().flatten().filter(|operand| operand.bytes > 0) {
        touch(operand.start, operand.write)?;
        let (first, last) = (operand.start / PAGE, (operand.start + operand.bytes - 1) / PAGE);
        (first + 1..=last).try_for_each(|page| touch(page * PAGE, operand.write))?;
    }
    Ok(())
}

/// Memory that an operation accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operand {
    pub(crate) start: usize,
    pub(crate) bytes: usize,
    pub(crate) write: bool,
}

impl Operand {
    /// Whether one of its bytes is in the page of an address.
    fn has_page_of(&self, address: usize) -> bool {
        (self.start / PAGE..=(self.start + self.bytes - 1) / PAGE).contains(&(address / PAGE))
    }
}

/// Sources, then destinations.
pub(crate) fn operands(operation: &Operation) -> [Option<Operand>; 3] {
    let read = |start: *const u8, bytes| Some(Operand { start: start.addr(), bytes, write: false });
    let write = |start: *mut u8, bytes| Some(Operand { start: start.addr(), bytes, write: true });
    let blocks = |len: usize, from: usize, to: usize| len / from * to;
    let (data, both) = (|block: DifBlock| block.bytes(), |block: DifBlock| block.with_tuple());
    match *operation {
        Operation::Nop => [None; 3],
        Operation::Copy { src, dst, len } | Operation::CopyCrc { src, dst, len, .. } => {
            [read(src, len), write(dst, len), None]
        }
        Operation::Fill { dst, len, .. } => [None, write(dst, len), None],
        Operation::Compare { left, right, len } => [read(left, len), read(right, len), None],
        Operation::ComparePattern { src, len, .. }
        | Operation::Crc { src, len, .. }
        | Operation::DifCheck { src, len, .. } => [read(src, len), None, None],
        Operation::Dualcast { src, dst, dst2, len } => [read(src, len), write(dst, len), write(dst2, len)],
        Operation::CreateDelta { original, modified, len, record, record_max } => {
            [read(original, len), read(modified, len), write(record, record_max)]
        }
        Operation::ApplyDelta { record, record_len, dst, len } => [read(record, record_len), write(dst, len), None],
        Operation::DifInsert { src, dst, len, dif } => {
            [read(src, len), write(dst, blocks(len, data(dif.block), both(dif.block))), None]
        }
        Operation::DifStrip { src, dst, len, dif } => {
            [read(src, len), write(dst, blocks(len, both(dif.block), data(dif.block))), None]
        }
        Operation::DifUpdate { src, dst, len, .. } => [read(src, len), write(dst, len), None],
        // Lines that are flushed are not changed; the memory need not be writable.
        Operation::Flush { dst, len } => [read(dst, len), None, None],
    }
}

/// Brings in the page of an address, for reading or for writing. No byte changes.
fn touch(address: usize, write: bool) -> Result<(), Failure> {
    // The word that the address is in; it is in the same page.
    let word = address & !(size_of::<u32>() - 1);
    match if write { or_nothing(word) } else { look(word) } {
        Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Err(Failure::BadAddress { address, write }),
        // EAGAIN and ETIMEDOUT are the ways in which a look ends well. Anything else says nothing about the page, and whoever needs it will see.
        _ => Ok(()),
    }
}

/// FUTEX_WAIT with a timeout of nothing: reads the word, and comes back whether it is 0 or not.
fn look(word: usize) -> io::Result<()> {
    let no_time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel checks the address, which it only reads; the timeout lives through the call.
    let returned = unsafe {
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, 0, &raw const no_time, 0, 0)
    };
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// FUTEX_WAKE_OP with "OR 0" as the operation: an atomic write of what is there. Nobody is woken, but by chance a thread that waits on this very
/// word of a buffer, which futexes allow.
fn or_nothing(word: usize) -> io::Result<()> {
    /// Nobody waits here.
    static NOBODY: AtomicU32 = AtomicU32::new(0);
    /// FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_LT, -2048): the comparison, too, is to come out false for the most.
    const OR_0: u32 = (libc::FUTEX_OP_OR as u32) << 28 | (libc::FUTEX_OP_CMP_LT as u32) << 24 | 0x800;
    let operation = libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel checks the address, and writes to it what it holds, atomically.
    let returned = unsafe { libc::syscall(libc::SYS_futex, NOBODY.as_ptr(), operation, 0, 0_usize, word, OR_0) };
    // Keeps the compiler from taking the word for one that never changes.
    let _ = NOBODY.load(Ordering::Relaxed); // Relaxed: its value means nothing.
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    /// Three pages of anonymous memory: absent, and with the protection that a test gives them.
    struct Pages(*mut u8);

    impl Pages {
        fn new() -> Self {
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: a new mapping.
            let start =
                unsafe { libc::mmap(ptr::null_mut(), 3 * PAGE, libc::PROT_READ | libc::PROT_WRITE, kind, -1, 0) };
            assert_ne!(start, libc::MAP_FAILED);
            Self(start.cast())
        }
        fn at(&self, offset: usize) -> *mut u8 {
            self.0.wrapping_add(offset)
        }
        fn protect(&self, page: usize, protection: i32) {
            // SAFETY: a page of ours.
            assert_eq!(unsafe { libc::mprotect(self.at(page * PAGE).cast(), PAGE, protection) }, 0);
        }
        fn present(&self) -> [bool; 3] {
            let mut present = [0_u8; 3];
            // SAFETY: our pages, and a byte for each.
            assert_eq!(unsafe { libc::mincore(self.0.cast(), 3 * PAGE, present.as_mut_ptr()) }, 0);
            present.map(|byte| byte & 1 == 1)
        }
    }

    impl Drop for Pages {
        fn drop(&mut self) {
            // SAFETY: our mapping; pages of it that are gone already are no error.
            unsafe { libc::munmap(self.0.cast(), 3 * PAGE) };
        }
    }

    fn bad(address: *mut u8, write: bool) -> Result<(), Failure> {
        Err(Failure::BadAddress { address: address.addr(), write })
    }

    #[test]
    fn an_absent_page_is_brought_in_and_no_other() {
        let pages = Pages::new();
        let fill =
            Operation::Fill { pattern: super::super::super::Pattern::Eight([1; 8]), dst: pages.at(5), len: 2 * PAGE };
        bring_in(&fill, Fault { address: pages.at(PAGE).addr(), write: true }).unwrap();
        assert_eq!(pages.present(), [false, true, false]);
        // The same page twice is no matter.
        bring_in(&fill, Fault { address: pages.at(PAGE + 7).addr(), write: true }).unwrap();
    }

    #[test]
    fn no_byte_changes() {
        let pages = Pages::new();
        // SAFETY: the first page, ours, writable.
        unsafe { ptr::write_bytes(pages.at(0), 0xa5, PAGE) };
        touch(pages.at(2).addr(), true).unwrap();
        touch(pages.at(PAGE - 1).addr(), true).unwrap();
        touch(pages.at(1).addr(), false).unwrap();
        // SAFETY: as above, and readable.
        let bytes = unsafe { std::slice::from_raw_parts(pages.at(0), PAGE) };
        assert!(bytes.iter().all(|byte| *byte == 0xa5));
    }

    #[test]
    fn memory_that_cannot_be_accessed_is_told_and_nothing_dies() {
        let pages = Pages::new();
        pages.protect(1, libc::PROT_READ);
        pages.protect(2, libc::PROT_NONE);
        assert_eq!(touch(pages.at(PAGE).addr(), false), Ok(()));
        assert_eq!(touch(pages.at(PAGE).addr(), true), bad(pages.at(PAGE), true));
        assert_eq!(touch(pages.at(2 * PAGE).addr(), false), bad(pages.at(2 * PAGE), false));
        let copy = |src, dst, len| Operation::Copy { src, dst, len };
        assert_eq!(check(&copy(pages.at(PAGE), pages.at(0), PAGE)), Ok(()));
        assert_eq!(check(&copy(pages.at(0), pages.at(10), PAGE)), bad(pages.at(PAGE), true), "its last ten bytes");
        assert_eq!(check(&copy(pages.at(PAGE + 1), pages.at(0), PAGE)), bad(pages.at(2 * PAGE), false));
        // SAFETY: a page of ours, which nobody uses.
        unsafe { libc::munmap(pages.at(PAGE).cast(), PAGE) };
        assert_eq!(touch(pages.at(PAGE).addr(), false), bad(pages.at(PAGE), false), "unmapped");
        let kernel = usize::MAX - PAGE;
        assert_eq!(touch(kernel, false), Err(Failure::BadAddress { address: kernel, write: false }));
    }

    #[test]
    fn a_page_beyond_a_files_end_is_told() {
        use std::os::fd::AsRawFd;
        let file = tempfile::tempfile().unwrap();
        // SAFETY: a new mapping.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), PAGE, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        for write in [false, true] {
            assert_eq!(touch(start.addr(), write), bad(start.cast(), write), "it would be SIGBUS");
        }
        file.set_len(1).unwrap();
        assert_eq!(touch(start.addr(), true), Ok(()));
        // SAFETY: our mapping.
        unsafe { libc::munmap(start, PAGE) };
    }

    #[test]
    fn an_address_that_is_withheld_brings_in_where_the_rest_begins() {
        let pages = Pages::new();
        let copy = Operation::Copy { src: pages.at(2 * PAGE + 100), dst: pages.at(100), len: 50 };
        bring_in(&copy, Fault { address: 0, write: true }).unwrap();
        assert_eq!(pages.present(), [true, false, true]);
        // Lower bits that are zero name the page all the same.
        let pages = Pages::new();
        let copy = Operation::Copy { src: pages.at(2 * PAGE + 100), dst: pages.at(100), len: 50 };
        bring_in(&copy, Fault { address: pages.at(0).addr(), write: true }).unwrap();
        assert_eq!(pages.present(), [true, false, false]);
    }

    #[test]
    fn a_destination_is_brought_in_for_writing() {
        // A fault that the device calls a read, of a page that is written: copy-on-write would fault again.
        let pages = Pages::new();
        pages.protect(0, libc::PROT_READ);
        let copy = Operation::Copy { src: pages.at(PAGE), dst: pages.at(0), len: 8 };
        let fault = Fault { address: pages.at(0).addr(), write: false };
        assert_eq!(bring_in(&copy, fault), bad(pages.at(0), true));
    }
}
