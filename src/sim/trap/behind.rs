//! Whose is a signal that is none of the traps'? The handler's that was there before them, or that was [put behind](super::Trap::behind) them since.
//!
//! Read in signal handlers and changed in them as well, since `sigaction` may be called there: no lock and no allocation. Dispositions are kept for ever,
//! each different one once, in a table; what is behind a signal is a place in it.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering::*};

/// What becomes of a signal, as `sigaction` has it; [`Trap::behind`](super::Trap::behind).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disposition {
    /// The handler's address; 0 (`SIG_DFL`): what the kernel does; 1 (`SIG_IGN`): nothing, which for a fault is what the kernel does.
    pub handler: usize,
    /// `SA_SIGINFO`, `SA_NODEFER`, `SA_RESETHAND`; others mean nothing here.
    pub flags: i32,
    /// Signals that wait while the handler runs: bit `n - 1` for signal `n`.
    pub mask: u64,
}

/// Different dispositions in a process. Programs have a handful for these signals; one that makes handlers without end is told so by an error.
const DIFFERENT_MAX: usize = 64;

static BEHIND: Behind = Behind::new();

/// What is behind each signal: 0 for the default, else a place in the table, counted from 1.
struct Behind {
    table: [Place; DIFFERENT_MAX],
    sigill: AtomicU8,
    sigsegv: AtomicU8,
    sigbus: AtomicU8,
}

/// Holds a disposition once it is [`READY`], and then for ever.
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

    /// Whether it is here now; a free place takes it.
    fn is(&self, new: Disposition) -> bool {
        // Acquire: what is behind the state. Partner: the Release below.
        match self.state.compare_exchange(FREE, BEING_WRITTEN, Acquire, Acquire) {
            Ok(_) => {
                self.handler.store(new.handler, Relaxed);
                self.flags.store(new.flags, Relaxed);
                self.mask.store(new.mask, Relaxed);
                // Release: partner of the Acquires above.
                self.state.store(READY, Release);
                true
            }
            Err(READY) => self.read() == new,
            // Another thread's, or that of the code that this handler interrupted: not to be waited for.
            Err(_) => false,
        }
    }
}

impl Behind {
    const fn new() -> Self {
        Self {
            table: [const { Place::new() }; DIFFERENT_MAX],
            sigill: AtomicU8::new(0),
            sigsegv: AtomicU8::new(0),
            sigbus: AtomicU8::new(0),
        }
    }

    fn of(&self, signal: c_int) -> Option<&AtomicU8> {
        match signal {
            libc::SIGILL => Some(&self.sigill),
            libc::SIGSEGV => Some(&self.sigsegv),
            libc::SIGBUS => Some(&self.sigbus),
            _ => None,
        }
    }

    fn read(&self, place: u8) -> Disposition {
        match place {
            0 => Disposition::default(),
            place => self.table[usize::from(place) - 1].read(),
        }
    }

    fn disposition(&self, signal: c_int) -> Disposition {
        // Acquire: partner of the exchange in `replace`, before which the place was ready.
        self.of(signal).map_or_else(Disposition::default, |behind| self.read(behind.load(Acquire)))
    }

    fn replace(&self, signal: c_int, new: Disposition) -> io::Result<Disposition> {
        // Errors without a message, which would be allocated.
        let errno = io::Error::from_raw_os_error;
        let behind = self.of(signal).ok_or_else(|| errno(libc::EINVAL))?;
        let place = match new.handler {
            libc::SIG_DFL => 0,
            _ => {
                let at = self.table.iter().position(|place| place.is(new));
                at.map(|at| at as u8 + 1).ok_or_else(|| errno(libc::ENOMEM))?
            }
        };
        // AcqRel: this one's place was ready before, and so was the old one's before it was put there.
        Ok(self.read(behind.swap(place, AcqRel)))
    }
}

/// What is behind a signal now.
pub(super) fn disposition(signal: c_int) -> Disposition {
    BEHIND.disposition(signal)
}

/// Puts something behind a signal; what was there.
///
/// # Errors
/// EINVAL: the traps have nothing to do with this signal. ENOMEM: the table is full.
pub(super) fn replace(signal: c_int, new: Disposition) -> io::Result<Disposition> {
    BEHIND.replace(signal, new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handled(n: u64) -> Disposition {
        Disposition { handler: 0x1000 + n as usize, flags: libc::SA_SIGINFO, mask: n }
    }

    #[test]
    fn each_is_kept_once_and_the_one_before_is_told() {
        let behind = Behind::new();
        assert_eq!(behind.replace(libc::SIGBUS, handled(1)).unwrap(), Disposition::default());
        for _ in 0..10 * DIFFERENT_MAX {
            assert_eq!(behind.replace(libc::SIGBUS, handled(2)).unwrap(), handled(1));
            assert_eq!(behind.replace(libc::SIGBUS, handled(1)).unwrap(), handled(2));
        }
        assert_eq!(behind.disposition(libc::SIGBUS), handled(1));
        assert_eq!(behind.disposition(libc::SIGSEGV), Disposition::default(), "each signal has its own");
        assert_eq!(behind.replace(libc::SIGUSR1, handled(1)).unwrap_err().raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn different_ones_run_out_and_nothing_is_changed_then() {
        let behind = Behind::new();
        for n in 0..DIFFERENT_MAX as u64 {
            behind.replace(libc::SIGILL, handled(n)).unwrap();
        }
        let refused = behind.replace(libc::SIGILL, handled(1_000)).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ENOMEM));
        assert_eq!(behind.disposition(libc::SIGILL), handled(DIFFERENT_MAX as u64 - 1));
        assert_eq!(
            behind.replace(libc::SIGSEGV, handled(0)).unwrap(),
            Disposition::default(),
            "those that are known are"
        );
        assert_eq!(behind.replace(libc::SIGILL, Disposition::default()).unwrap(), handled(DIFFERENT_MAX as u64 - 1));
    }

    /// A handler that calls `sigaction` in the middle of it: what is being written is passed over.
    #[test]
    fn a_place_that_is_being_written_is_nobodys() {
        let behind = Behind::new();
        behind.table[0].state.store(BEING_WRITTEN, Relaxed);
        behind.replace(libc::SIGILL, handled(5)).unwrap();
        assert_eq!(behind.disposition(libc::SIGILL), handled(5));
    }

    #[test]
    fn threads_that_put_and_read_find_whole_ones() {
        const THREADS: u64 = 4;
        let behind = Behind::new();
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let behind = &behind;
                scope.spawn(move || {
                    for n in 0..5_000 {
                        behind.replace(libc::SIGSEGV, handled((thread * 7 + n) % 12)).unwrap();
                        let found = behind.disposition(libc::SIGSEGV);
                        assert_eq!(found, handled(found.mask));
                    }
                });
            }
        });
    }
}
