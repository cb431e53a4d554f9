//! Functions that handle and block signals. Three signals are the traps' while the program has devices: a program that handles them too gets what is none of theirs,
//! as it would on a machine with a device, and one that blocks them is not killed by its own submission.
//!
//! All of them may be called in signal handlers, so: no lock and no allocation.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;

use twolane::sim::trap::Disposition;

use super::super::next::{Next, fail};
use super::super::{settings, world};

/// What arrives as one of these is never put off: the kernel kills instead.
const TRAPS: [c_int; 3] = [libc::SIGILL, libc::SIGSEGV, libc::SIGBUS];

/// As libc's; a handler of the traps' signals is put behind them.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    static NEXT: Next = Next::new(c"sigaction");
    // SAFETY: the program's arguments, here and below: null or an action.
    let action = unsafe { new.as_ref() };
    let behind =
        action.map(|new| Disposition { handler: new.sa_sigaction, flags: new.sa_flags, mask: word(&new.sa_mask) });
    // SAFETY: the program's own handler, by the program's word.
    if let Some(was) = unsafe { put_behind(signal, behind) } {
        let was = match was {
            Ok(was) => was,
            Err(errno) => return fail(errno) as c_int,
        };
        if !old.is_null() {
            // SAFETY: the program's, to be written.
            unsafe { old.write(as_action(was)) };
        }
        return 0;
    }
    // The traps' signals stay open in other handlers.
    let open = action.map(|new| libc::sigaction { sa_mask: without_traps(&new.sa_mask), ..*new });
    let new = open.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the program's arguments, one of them a copy that outlives the call.
    unsafe { NEXT.call([signal as usize, new as usize, old as usize, 0, 0, 0]) as c_int }
}

/// Declares `signal` and its twins: the flags that each gives its handler.
macro_rules! handling {
    ($($name:ident: $flags:expr;)*) => {$(
        /// As libc's; a handler of the traps' signals is put behind them.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
            static NEXT: Next = Next::new(match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without zeros"),
            });
            // SAFETY: the program's own handler, by the program's word.
            match unsafe { put_behind(signal, Some(Disposition { handler, flags: $flags, mask: 0 })) } {
                Some(Ok(was)) => was.handler,
                Some(Err(errno)) => fail(errno) as usize,
                // SAFETY: the program's arguments.
                None => unsafe { NEXT.call([signal as usize, handler, 0, 0, 0, 0]) as usize },
            }
        }
    )*};
}

handling! {
    signal: libc::SA_RESTART;
    bsd_signal: libc::SA_RESTART;
    ssignal: libc::SA_RESTART;
    sysv_signal: libc::SA_RESETHAND | libc::SA_NODEFER;
    __sysv_signal: libc::SA_RESETHAND | libc::SA_NODEFER;
}

/// `None`: it is none of the traps' signals, or nothing has been opened yet. `Some(Err)`: an errno.
///
/// # Safety
/// As [`Trap::behind`](twolane::sim::trap::Trap::behind).
unsafe fn put_behind(signal: c_int, action: Option<Disposition>) -> Option<Result<Disposition, c_int>> {
    let trap = TRAPS.contains(&signal).then(world::trap).flatten()?;
    // SAFETY: the caller's promise.
    let was = unsafe { trap.behind(signal, action) }?;
    Some(was.map_err(|error| error.raw_os_error().unwrap_or(libc::ENOMEM)))
}

/// Declares `pthread_sigmask` and `sigprocmask`.
macro_rules! blocking {
    ($($name:ident = $symbol:literal;)*) => {$(
        /// As libc's; the traps' signals are never blocked.
        ///
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(how: c_int, set: *const libc::sigset_t, old: *mut libc::sigset_t) -> c_int {
            static NEXT: Next = Next::new($symbol);
            // SAFETY: the program's argument: null or a set.
            let open = unsafe { set.as_ref() }.filter(|_| how != libc::SIG_UNBLOCK).map(without_traps);
            let set = open.as_ref().map_or(set, std::ptr::from_ref);
            // SAFETY: the program's arguments, one of them perhaps a copy that outlives the call.
            unsafe { NEXT.call([how as usize, set as usize, old as usize, 0, 0, 0]) as c_int }
        }
    )*};
}

blocking! {
    pthread_sigmask = c"pthread_sigmask";
    sigprocmask = c"sigprocmask";
}

/// A set without the traps' signals, in a program that has devices to open; else as it is.
fn without_traps(set: &libc::sigset_t) -> libc::sigset_t {
    let mut set = *set;
    if settings::get().is_some() {
        for signal in TRAPS {
            // SAFETY: takes a signal that exists out of a set.
            unsafe { libc::sigdelset(&mut set, signal) };
        }
    }
    set
}

/// The kernel's word of a set.
fn word(set: &libc::sigset_t) -> u64 {
    // SAFETY: a set begins with the kernel's 64 signals.
    unsafe { std::ptr::from_ref(set).cast::<u64>().read() }
}

fn as_action(was: Disposition) -> libc::sigaction {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    let at: *mut libc::sigaction = action.as_mut_ptr();
    // SAFETY: all zeroes is a valid action; its mask begins with the kernel's word.
    unsafe {
        (*at).sa_sigaction = was.handler;
        (*at).sa_flags = was.flags;
        (&raw mut (*at).sa_mask).cast::<c_void>().cast::<u64>().write(was.mask);
        action.assume_init()
    }
}
