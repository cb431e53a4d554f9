//! Binds the calling thread to one cpu, and does not believe it until the kernel says so.
//!
//! Pinning goes through `core_affinity`. That crate works on a set of fixed size and panics from cpu 1024 up, so the
//! range is checked first and larger numbers take our own call (`affinity`) with a set that is large enough. Either way
//! the mask is read back: a sandbox may answer "done" and do nothing.

#[allow(unsafe_code)] // Two system calls whose sets outgrow the types of the safe wrappers.
mod affinity;

use std::collections::BTreeSet;
use std::fmt;
use std::io;

use super::cpulist::{CPUS_MAX, CpuList};

/// Binds the calling thread to `cpu` alone.
///
/// Costs two system calls. The mask of no other thread changes; threads that this one spawns later inherit it.
///
/// # Errors
/// [`PinError`] when the kernel refuses, or when the mask read back is not exactly that cpu.
pub(crate) fn pin_current(cpu: usize) -> Result<(), PinError> {
    let refused = |error: &io::Error| PinError::Refused { cpu, errno: error.raw_os_error().unwrap_or(libc::EINVAL) };
    if cpu < CORE_AFFINITY_CPUS {
        // The crate tells success from failure only; its system call is the last thing it does, so errno is that of
        // the call.
        if !core_affinity::set_for_current(core_affinity::CoreId { id: cpu }) {
            return Err(refused(&io::Error::last_os_error()));
        }
    } else {
        set_mask(&BTreeSet::from([cpu])).map_err(|error| refused(&error))?;
    }
    let found = current_mask().map_err(|error| refused(&error))?;
    if found.len() == 1 && found.contains(&cpu) { Ok(()) } else { Err(PinError::Ignored { cpu, found: found.into() }) }
}

/// The cpus that the calling thread may run on, however many the machine has.
///
/// # Errors
/// What the kernel said.
pub(crate) fn current_mask() -> io::Result<BTreeSet<usize>> {
    affinity::read()
}

/// Restricts the calling thread to `cpus`.
///
/// # Errors
/// What the kernel said: `EINVAL` where none of `cpus` is online and in the process's cpuset. A number from
/// [`CPUS_MAX`] up is `EINVAL` as well, as no machine has it.
pub(crate) fn set_mask(cpus: &BTreeSet<usize>) -> io::Result<()> {
    if cpus.last().is_some_and(|&last| last >= CPUS_MAX) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    affinity::write(cpus)
}

/// Why a thread does not run on the cpu it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PinError {
    /// The kernel said no.
    Refused {
        /// The cpu that was asked for.
        cpu: usize,
        /// What the kernel answered.
        errno: i32,
    },
    /// The kernel said yes, and the mask is another one.
    Ignored {
        /// The cpu that was asked for.
        cpu: usize,
        /// The cpus that the thread may run on.
        found: CpuList,
    },
}

impl fmt::Display for PinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { cpu, errno } => {
                let why = io::Error::from_raw_os_error(*errno);
                write!(
                    f,
                    "cannot pin a thread to cpu {cpu}: {why}; is it online, in the affinity mask and in the cpuset?"
                )
            }
            Self::Ignored { cpu, found } => write!(
                f,
                "a thread pinned to cpu {cpu} may still run on {found}: the kernel or a sandbox ignores affinity"
            ),
        }
    }
}

impl std::error::Error for PinError {}

/// Cpus that `core_affinity` can name: the size of libc's `cpu_set_t`, beyond which it panics.
const CORE_AFFINITY_CPUS: usize = libc::CPU_SETSIZE as usize;

#[cfg(test)]
mod tests {
    use super::*;

    /// Affinity belongs to a thread, so each case gets one that nobody else uses.
    fn on_a_thread<T: Send>(case: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(case).join().unwrap())
    }

    #[test]
    fn every_cpu_of_the_mask_can_be_had() {
        for cpu in current_mask().unwrap() {
            let mask = on_a_thread(move || {
                pin_current(cpu).unwrap();
                current_mask().unwrap()
            });
            assert_eq!(mask, BTreeSet::from([cpu]));
        }
    }

    #[test]
    fn the_callers_mask_stays() {
        let before = current_mask().unwrap();
        let cpu = *before.first().unwrap();
        on_a_thread(move || pin_current(cpu).unwrap());
        assert_eq!(current_mask().unwrap(), before);
    }

    #[test]
    fn cpus_that_are_not_there_are_refused_on_both_paths() {
        for cpu in [CORE_AFFINITY_CPUS - 1, CORE_AFFINITY_CPUS, 5000, CPUS_MAX - 1, CPUS_MAX, usize::MAX] {
            if current_mask().unwrap().contains(&cpu) {
                continue;
            }
            let error = on_a_thread(move || pin_current(cpu)).unwrap_err();
            assert_eq!(error, PinError::Refused { cpu, errno: libc::EINVAL });
            assert!(error.to_string().contains(&format!("cpu {cpu}:")), "{error}");
        }
    }

    #[test]
    fn a_mask_can_be_narrowed_and_read_back() {
        let whole = current_mask().unwrap();
        let some: BTreeSet<usize> = whole.iter().copied().take(2).collect();
        let wanted = some.clone();
        let found = on_a_thread(move || {
            set_mask(&wanted).unwrap();
            current_mask().unwrap()
        });
        assert_eq!(found, some);
        on_a_thread(|| assert!(set_mask(&BTreeSet::new()).is_err(), "no cpu at all is refused"));
    }

    #[test]
    fn an_ignored_pin_names_both() {
        let error = PinError::Ignored { cpu: 3, found: (0..4).collect() };
        assert_eq!(
            error.to_string(),
            "a thread pinned to cpu 3 may still run on 0-3: the kernel or a sandbox ignores affinity"
        );
    }
}
