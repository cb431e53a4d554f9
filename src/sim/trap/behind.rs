//! Whose is a signal that is none of the traps'? The handler's that was there before them, or that was [put behind](super::Trap::behind) them since.
//!
//! Read in signal handlers and changed in them as well, since `sigaction` may be called there: no lock and no allocation. Actions are kept for ever, each
//! different one once, in a table; what is behind a signal is a place in it.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering::*};

/// What becomes of a signal, as `sigaction` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disposition {
    /// The handler's address; 0 (`SIG_DFL`): what the kernel does; 1 (`SIG_IGN`): nothing, which for a fault is what the kernel does.
    pub handler: usize,
    /// `SA_SIGINFO`, `SA_NODEFER`, `SA_RESETHAND`; others mean nothing here.
    pub flags: i32,
    /// Signals that wait while the handler runs: bit `n - 1` for signal `n`.
    pub mask: u64,
}

/// Different actions in a process. Programs have a handful for these signals; one that makes handlers without end is told so by an error.
const ACTIONS_MAX: usize = 64;

static TABLE: [Place; ACTIONS_MAX] = [const { Place::new() }; ACTIONS_MAX];

/// What is behind each signal: 0 for the default, else a place in the table, counted from 1.
static BEHIND: [(c_int, AtomicU8); 3] =
    [(libc::SIGILL, AtomicU8::new(0)), (libc::SIGSEGV, AtomicU8::new(0)), (libc::SIGBUS, AtomicU8::new(0))];

/// Holds an action once it is [`READY`], and then for ever.
struct Place {
    state: AtomicU8,
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

const FREE: u8 = 0;
const BEING_WRITTEN: u8 = 1;
const READY: u8 = 2;

impl Place {
    const fn new() -> Self {
        Self {
            state: AtomicU8::new(FREE),
            handler: AtomicUsize::new(0),
            flags: AtomicI32::new(0),
            mask: AtomicU64::new(0),
        }
    }

    /// Relaxed, here and in `is`: published by the state.
    fn read(&self) -> Disposition {
        Disposition {
            handler: self.handler.load(Relaxed),
            flags: self.flags.load(Relaxed),
            mask: self.mask.load(Relaxed),
        }
    }

    /// Whether the action is here now; a free place takes it.
    fn is(&self, action: Disposition) -> bool {
        // Acquire: the action behind the state. Partner: the Release below.
        match self.state.compare_exchange(FREE, BEING_WRITTEN, Acquire, Acquire) {
            Ok(_) => {
                self.handler.store(action.handler, Relaxed);
                self.flags.store(action.flags, Relaxed);
                self.mask.store(action.mask, Relaxed);
                // Release: partner of the Acquires above and in `action`.
                self.state.store(READY, Release);
                true
            }
            Err(READY) => self.read() == action,
            // Another thread's, or that of the code that this handler interrupted: not to be waited for.
            Err(_) => false,
        }
    }
}

/// What is behind a signal now.
pub(super) fn action(signal: c_int) -> Disposition {
    let Some((_, behind)) = BEHIND.iter().find(|(of, _)| *of == signal) else { return Disposition::default() };
    // Acquire: partner of the Release in `replace`, by which the place was ready.
    match behind.load(Acquire) {
        0 => Disposition::default(),
        place => TABLE[usize::from(place) - 1].read(),
    }
}

/// Puts an action behind a signal; the one that was there.
///
/// # Errors
/// The table is full.
pub(super) fn replace(signal: c_int, action: Disposition) -> io::Result<Disposition> {
    let Some((_, behind)) = BEHIND.iter().find(|(of, _)| *of == signal) else {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    };
    let place = if action.handler == libc::SIG_DFL {
        0
    } else {
        let at = TABLE.iter().position(|place| place.is(action));
        // ENOMEM, as of a kernel that has no room; no message, which would be allocated.
        at.map(|at| at as u8 + 1).ok_or(io::Error::from_raw_os_error(libc::ENOMEM))?
    };
    // AcqRel: this call's place was ready before, and the old one was before it was put there.
    match behind.swap(place, AcqRel) {
        0 => Ok(Disposition::default()),
        old => Ok(TABLE[usize::from(old) - 1].read()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the process, as the traps are: no other test of this program puts anything behind SIGBUS.
    #[test]
    fn an_action_is_kept_once_and_the_one_before_is_told() {
        let action = |n| Disposition { handler: 0x1000 + n, flags: libc::SA_SIGINFO, mask: n as u64 };
        let before = action_behind_sigbus();
        assert_eq!(replace(libc::SIGBUS, action(1)).unwrap(), before);
        for _ in 0..10 * ACTIONS_MAX {
            assert_eq!(replace(libc::SIGBUS, action(2)).unwrap(), action(1));
            assert_eq!(replace(libc::SIGBUS, action(1)).unwrap(), action(2));
        }
        assert_eq!(action_behind_sigbus(), action(1));
        // Different ones run out, and nothing changes then.
        let refused = (3..).find_map(|n| replace(libc::SIGBUS, action(n)).err()).unwrap();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOMEM));
        assert!(replace(libc::SIGBUS, action(1)).is_ok(), "those that are known are");
        replace(libc::SIGBUS, before).unwrap();
        assert_eq!(replace(libc::SIGUSR1, before).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    fn action_behind_sigbus() -> Disposition {
        super::action(libc::SIGBUS)
    }
}
