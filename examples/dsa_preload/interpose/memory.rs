//! Functions that map memory: portals among it.

use std::ffi::{c_int, c_void};

use super::super::next::{self, Next, fail};
use super::super::{opened, portals};

/// Declares `mmap` and its twin.
macro_rules! mapping {
    ($($name:ident = $symbol:literal;)*) => {$(
        /// As libc's; a work queue gives its portal.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(at: *mut c_void, len: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64) -> *mut c_void {
            static NEXT: Next = Next::new($symbol);
            let queue = if flags & libc::MAP_ANONYMOUS == 0 { opened::behind(fd) } else { None };
            if flags & libc::MAP_FIXED != 0 {
                portals::unmapped(at as usize, len);
            }
            let map = |offset: i64| {
                // SAFETY: the program's arguments; a portal's offset is not looked at by the kernel's driver either.
                unsafe { NEXT.call([at as usize, len, protection as usize, flags as usize, fd as usize, offset as usize]) }
            };
            let mapped = match queue {
                None => map(offset),
                Some(Err(errno)) => fail(errno),
                Some(Ok(_)) if len > portals::BYTES => fail(libc::EINVAL),
                Some(Ok(queue)) if !queue.portal().device().config().kernel.may_map => fail(libc::EPERM),
                Some(Ok(_)) => match map(0) {
                    -1 => -1,
                    at => portals::mapped(fd, at as usize),
                },
            };
            mapped as *mut c_void
        }
    )*};
}

mapping! {
    mmap = c"mmap";
    mmap64 = c"mmap64";
}

/// As libc's; a portal that goes is no portal any more.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(at: *mut c_void, len: usize) -> c_int {
    portals::unmapped(at as usize, len);
    // SAFETY: the program's arguments.
    unsafe { next::munmap(at, len) as c_int }
}
