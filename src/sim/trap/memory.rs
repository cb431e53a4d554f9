//! How does a signal handler touch memory that may not be there? The kernel looks, since a fault in the handler would be reported at the wrong place.
//!
//! System calls are made by number: what a sanitizer or a preloaded library puts in their place is not made for signal handlers.

use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Release};

use libc::{c_long, c_void, iovec};

use super::decode::Segment;

const PAGE: u64 = 4096;

/// Where the page of an address ends, and the next begins; 0 after the last.
pub(super) fn first_page_end(address: u64) -> u64 {
    (address & !(PAGE - 1)).wrapping_add(PAGE)
}

/// Whether a byte can be read there.
pub(super) fn is_readable(address: u64) -> bool {
    let mut byte = 0_u8;
    let to = iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    read(&to, &[part(address, 1)]) != Err(Unreadable)
}

/// 64 bytes of the program's, wherever they lie; not in one piece, as the cpu does not read them in one piece either.
///
/// # Errors
/// The address of the first byte that cannot be read.
pub(super) fn read_64(address: u64) -> Result<[u8; 64], u64> {
    let mut bytes = [0_u8; 64];
    let to = iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let here = first_page_end(address).wrapping_sub(address).min(bytes.len() as u64);
    // By pages: the kernel tells how much it has read in whole parts.
    let parts = [part(address, here), part(address.wrapping_add(here), bytes.len() as u64 - here)];
    let used = if here == bytes.len() as u64 { &parts[..1] } else { &parts[..] };
    match read(&to, used) {
        Ok(read) if read as usize == bytes.len() => Ok(bytes),
        Ok(read) => Err(address.wrapping_add(read)),
        Err(Unreadable) => Err(address),
        Err(Forbidden) => {
            for (n, byte) in bytes.iter_mut().enumerate() {
                let at = ptr::with_exposed_provenance::<u8>(address.wrapping_add(n as u64) as usize);
                // SAFETY: the program's own access. What it faults on would have killed the program, and kills it here.
                *byte = unsafe { at.read_volatile() };
            }
            Ok(bytes)
        }
    }
}

/// Stores 64 bytes as MOVDIR64B does, but for being one piece: the first word comes last, so that who waits for it finds the others.
///
/// # Safety
/// `to` is 64-byte aligned and mapped for writing, in memory that whoever executes the instruction may store to.
pub(super) unsafe fn store_64(to: u64, bytes: &[u8; 64]) {
    let to = ptr::with_exposed_provenance_mut::<u64>(to as usize);
    for (n, word) in bytes.chunks_exact(8).enumerate().rev() {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        // SAFETY: within the 64 bytes, aligned for a word; others may read them at the same time, hence an atomic. Release: the order of the words.
        unsafe { AtomicU64::from_ptr(to.add(n)) }.store(word, Release);
    }
}

/// The base of a segment. 0, as for a thread that has none, if the kernel does not tell.
pub(super) fn segment_base(segment: Segment) -> u64 {
    const ARCH_GET_FS: c_long = 0x1003;
    const ARCH_GET_GS: c_long = 0x1004;
    let which = match segment {
        Segment::Fs => ARCH_GET_FS,
        Segment::Gs => ARCH_GET_GS,
    };
    let mut base = 0_u64;
    // SAFETY: the kernel writes one word to `base`.
    unsafe { libc::syscall(libc::SYS_arch_prctl, which, &raw mut base) };
    base
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// Not mapped, or protected.
    Unreadable,
    /// A sandbox forbids the question.
    Forbidden,
}
use Failure::{Forbidden, Unreadable};

fn part(address: u64, len: u64) -> iovec {
    iovec { iov_base: ptr::with_exposed_provenance_mut::<c_void>(address as usize), iov_len: len as usize }
}

/// Reads whole parts of the program's memory into `to`, up to the first that is not readable.
fn read(to: &iovec, parts: &[iovec]) -> Result<u64, Failure> {
    let to = ptr::from_ref(to);
    // SAFETY: reads this process's memory into `to`, which has room for it; addresses that are none are an error of the call.
    let read = unsafe {
        libc::syscall(libc::SYS_process_vm_readv, libc::getpid(), to, 1_usize, parts.as_ptr(), parts.len(), 0_usize)
    };
    // SAFETY: the thread's own.
    let errno = || unsafe { *libc::__errno_location() };
    match u64::try_from(read) {
        Ok(0) => Err(Unreadable),
        Ok(read) => Ok(read),
        Err(_) if errno() == libc::EFAULT => Err(Unreadable),
        Err(_) => Err(Forbidden),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two pages, the second of which is not there.
    fn one_page() -> u64 {
        let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, of which the second page is given back.
        unsafe {
            let at = libc::mmap(ptr::null_mut(), 2 * PAGE as usize, protection, kind, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            assert_eq!(libc::munmap(at.byte_add(PAGE as usize), PAGE as usize), 0);
            at as u64
        }
    }

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_named() {
        let page = one_page();
        let source: [u8; 64] = std::array::from_fn(|n| n as u8 + 1);
        let end = page + PAGE;
        // SAFETY: the last 64 bytes of the test's page, aligned.
        unsafe { store_64(end - 64, &source) };
        assert_eq!(read_64(end - 64), Ok(source));
        assert_eq!(read_64(end - 65).map(|bytes| bytes[1..] == source[..63]), Ok(true), "at any alignment");
        assert_eq!(read_64(end - 1), Err(end), "the next page is missing");
        assert_eq!(read_64(end), Err(end));
        assert_eq!(read_64(u64::MAX - 3), Err(u64::MAX - 3));
        assert!(is_readable(end - 1) && !is_readable(end) && !is_readable(0));
    }

    #[test]
    fn pages_end_where_they_end() {
        assert_eq!([0, 1, 4095, 4096].map(first_page_end), [4096, 4096, 4096, 8192]);
        assert_eq!(first_page_end(u64::MAX), 0);
    }

    #[test]
    fn a_thread_has_storage_of_its_own_behind_fs() {
        thread_local!(static HERE: u8 = const { 0 });
        let here = HERE.with(|here| ptr::from_ref(here).addr() as u64);
        assert!(segment_base(Segment::Fs).abs_diff(here) < 1 << 20);
    }
}
