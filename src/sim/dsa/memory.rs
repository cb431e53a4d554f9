//! How does the model touch memory of the process without ever dying of it?
//!
//! A device writes where software told it to, and software may have unmapped the page, or may unmap it while the device writes. A model
//! that used ordinary loads and stores would be killed by SIGSEGV, and a look beforehand (`mincore`, say) would be out of date by the time of
//! the access. So every access is made by the kernel, which answers EFAULT: `process_vm_readv` and `process_vm_writev` on the own process.
//! Both honour the protection of the page (`/proc/self/mem` would not), fault in what is merely absent, and take SIGBUS mappings for EFAULT.
//!
//! The memory of the program is named as the *local* side of the call, the model's own buffer as the *remote* one: AddressSanitizer looks at
//! the local side, and so reports a device that writes to freed memory. Threads of the program see the accesses as they see those of a device:
//! outside of the language's memory model, ordered by the status byte alone, which is stored last (see `store_status`).

use std::io;
use std::sync::OnceLock;

/// The unit of translation, presence and faults: 4 KiB, as the smallest pages of the cpus that have the device.
pub(crate) const PAGE: u64 = 4096;

/// The page that an address lies in.
pub(crate) fn page_of(address: u64) -> u64 {
    address & !(PAGE - 1)
}

/// Bytes from an address to the end of its page, 1 to 4096.
pub(crate) fn to_page_end(address: u64) -> u64 {
    PAGE - (address & (PAGE - 1))
}

/// The memory cannot be accessed that way: unmapped, protected, or beyond the end of a mapped file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inaccessible;

/// Whether the kernel lets this process do what the model needs.
pub(crate) fn probe() -> io::Result<()> {
    let from = [7_u8; 8];
    let mut to = [0_u8; 8];
    let copied = transfer(Direction::FromProgram, from.as_ptr() as u64, to.as_mut_ptr(), to.len());
    match copied {
        Ok(8) if to == from => Ok(()),
        Ok(_) => Err(io::Error::other("process_vm_writev copied something else")),
        Err(error) => Err(error),
    }
}

/// Reads; on failure an unknown part of `to` is filled.
pub(crate) fn read(address: u64, to: &mut [u8]) -> Result<(), Inaccessible> {
    let wanted = to.len();
    whole(transfer(Direction::FromProgram, address, to.as_mut_ptr(), wanted), wanted)
}

/// Writes; on failure an unknown prefix is written.
pub(crate) fn write(address: u64, from: &[u8]) -> Result<(), Inaccessible> {
    // The pointer is only read through: see `transfer`.
    whole(transfer(Direction::ToProgram, address, from.as_ptr().cast_mut(), from.len()), from.len())
}

/// Writes the first byte of a completion record, after everything else: what makes the record valid.
pub(crate) fn store_status(address: u64, status: u8) -> Result<(), Inaccessible> {
    // Release: the data and the rest of the record were written before. Partner: software's Acquire load of the status byte. The kernel's copies
    // are ordinary stores of this thread, and this fence keeps them in order.
    std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
    write(address, &[status])
}

/// Would a write to the page of `address` go through? Makes it present, does not change it. Kernels before 5.14 cannot tell and are believed.
pub(crate) fn writable(address: u64) -> Result<(), Inaccessible> {
    // EINVAL is both "no such advice" and "no permission", so whether the kernel knows the advice is asked once, of a page that is surely good.
    static KNOWN: OnceLock<bool> = OnceLock::new();
    let known = || {
        let good = 0_u8;
        populate(std::ptr::from_ref(&good).addr() as u64)
    };
    if !*KNOWN.get_or_init(known) || populate(address) { Ok(()) } else { Err(Inaccessible) }
}

fn populate(address: u64) -> bool {
    let page = page_of(address) as *mut libc::c_void;
    // SAFETY: MADV_POPULATE_WRITE faults pages in and changes neither contents nor mappings; a range that is not mapped, or not for writing, is
    // answered with an error.
    unsafe { libc::madvise(page, PAGE as usize, libc::MADV_POPULATE_WRITE) == 0 }
}

/// Is the page in the page tables, as a device that does not ask for pages needs it? Exact for anonymous memory; for mapped files it tells whether
/// the page is in memory at all, which is the nearest that can be asked. `Err`: it is not mapped at all.
pub(crate) fn resident(address: u64) -> Result<bool, Inaccessible> {
    let mut there = 0_u8;
    // SAFETY: mincore writes one byte, for one page, to `there`; a range that is not mapped is answered with ENOMEM.
    let refused = unsafe { libc::mincore(page_of(address) as *mut libc::c_void, PAGE as usize, &raw mut there) };
    if refused == 0 { Ok(there & 1 == 1) } else { Err(Inaccessible) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    FromProgram,
    ToProgram,
}

/// One copy between the program's memory and `own`, which has to be valid for `len` bytes, and for writes if the direction is `FromProgram`.
fn transfer(direction: Direction, program: u64, own: *mut u8, len: usize) -> io::Result<usize> {
    let local = libc::iovec { iov_base: program as *mut libc::c_void, iov_len: len };
    let remote = libc::iovec { iov_base: own.cast(), iov_len: len };
    // Process numbers are positive and small (`pid_max` is at most 2^22).
    let me = std::process::id() as libc::pid_t;
    // By number, past the C library's functions: AddressSanitizer looks at their buffers once more when they return, and by then a program that saw the status
    // may rightly have freed its record.
    let number = match direction {
        Direction::FromProgram => libc::SYS_process_vm_writev,
        Direction::ToProgram => libc::SYS_process_vm_readv,
    };
    let (one, flags): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: both sides are given to the kernel, which checks every page and answers EFAULT for what is not accessible. `own` is valid for
    // `len` bytes (both callers pass a slice). The program's side is whatever software told the device to use: the duties of that software
    // towards a device, which are stated where it gets a portal, are the ones that cover it.
    let copied = unsafe { libc::syscall(number, me, &raw const local, one, &raw const remote, one, flags) };
    usize::try_from(copied).map_err(|_| io::Error::last_os_error())
}

fn whole(copied: io::Result<usize>, wanted: usize) -> Result<(), Inaccessible> {
    if copied.is_ok_and(|copied| copied == wanted) { Ok(()) } else { Err(Inaccessible) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Mapping(*mut libc::c_void, usize);

    impl Mapping {
        fn new(protection: i32) -> Self {
            let len = 2 * PAGE as usize;
            // SAFETY: a new anonymous mapping, at an address of the kernel's choice.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
            };
            assert_ne!(at, libc::MAP_FAILED);
            Self(at, len)
        }

        fn at(&self) -> u64 {
            self.0 as u64
        }
    }

    impl Drop for Mapping {
        fn drop(&mut self) {
            // SAFETY: the mapping is this value's own, and nothing points into it any more.
            unsafe { libc::munmap(self.0, self.1) };
        }
    }

    #[test]
    fn every_kind_of_page_answers() {
        probe().unwrap();
        let cases = [
            (libc::PROT_READ | libc::PROT_WRITE, Ok(()), Ok(())),
            (libc::PROT_READ, Ok(()), Err(Inaccessible)),
            (libc::PROT_NONE, Err(Inaccessible), Err(Inaccessible)),
        ];
        for (protection, reads, writes) in cases {
            let page = Mapping::new(protection);
            let mut byte = [0];
            assert_eq!(read(page.at() + 100, &mut byte), reads, "protection {protection}");
            assert_eq!(writable(page.at() + 100), writes, "protection {protection}");
            assert_eq!(write(page.at() + 100, &[5]), writes, "protection {protection}");
        }
    }

    #[test]
    fn what_is_not_mapped_is_an_answer_and_no_signal() {
        let gone = {
            let page = Mapping::new(libc::PROT_READ | libc::PROT_WRITE);
            page.at()
        };
        for address in [0, 8, gone, u64::MAX - 4, 0x8000_0000_0000, 0xffff_8000_0000_0000] {
            let mut byte = [0];
            assert_eq!(read(address, &mut byte), Err(Inaccessible), "{address:#x}");
            assert_eq!(write(address, &byte), Err(Inaccessible), "{address:#x}");
            assert_eq!(writable(address), Err(Inaccessible), "{address:#x}");
            assert_eq!(resident(address), Err(Inaccessible), "{address:#x}");
            assert_eq!(store_status(address, 1), Err(Inaccessible), "{address:#x}");
        }
    }

    #[test]
    fn an_untouched_page_is_not_resident_and_a_touched_one_is() {
        let page = Mapping::new(libc::PROT_READ | libc::PROT_WRITE);
        assert_eq!(resident(page.at()), Ok(false));
        assert_eq!(write(page.at(), &[1]), Ok(()));
        assert_eq!(resident(page.at() + 4000), Ok(true));
        assert_eq!(resident(page.at() + PAGE), Ok(false));
    }

    #[test]
    fn pages_end_where_they_end() {
        assert_eq!((page_of(0x1fff), to_page_end(0x1fff), to_page_end(0x1000)), (0x1000, 1, PAGE));
    }
}
