//! Lanes take no asynchronous signals: a handler would run in the middle of a pass, and take longer than the pass.

use std::io;
use std::mem::MaybeUninit;

/// Signals that a thread raises itself, by what it executes: blocking them would turn a report into a silent kill. And SIGPROF, which
/// profilers send to the threads that they want to look at.
const LEFT_OPEN: [libc::c_int; 8] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
    libc::SIGPROF,
];

/// Holding one means: the calling thread, and threads that it spawns, take no asynchronous signals. Dropping it restores the mask.
#[derive(Debug)]
pub(super) struct Blocked {
    before: libc::sigset_t,
}

/// Blocks asynchronous signals on the calling thread.
pub(super) fn block() -> io::Result<Blocked> {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: `sigfillset` writes the whole set that it is given and cannot fail for a valid address.
    let mut set = unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    };
    for signal in LEFT_OPEN {
        // SAFETY: the set is initialised and the number is a signal's.
        unsafe { libc::sigdelset(&mut set, signal) };
    }
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both sets are valid for the call, which fills `before` when it succeeds.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, before.as_mut_ptr()) } {
        // SAFETY: the call succeeded, so it has written the old mask.
        0 => Ok(Blocked { before: unsafe { before.assume_init() } }),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set was written by the kernel; restoring a mask that was in force cannot fail.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}
