//! `sched_getaffinity` and `sched_setaffinity` of the calling thread with sets of any size.
//!
//! libc's `cpu_set_t` ends at 1024 cpus; the system calls take a pointer and a length, so a longer array of the same
//! words does.

use std::collections::BTreeSet;
use std::ffi::c_ulong;
use std::io;

/// The calling thread's mask.
pub(super) fn read() -> io::Result<BTreeSet<usize>> {
    let mut words = WORDS_FIRST;
    loop {
        let mut set: Vec<c_ulong> = vec![0; words];
        let bytes = words * size_of::<c_ulong>();
        // SAFETY: `set` is an initialised array of exactly `bytes` bytes, aligned for the words that the kernel writes,
        // and lives until after the call; 0 names the calling thread.
        let failed = unsafe { libc::sched_getaffinity(0, bytes, set.as_mut_ptr().cast()) } != 0;
        if !failed {
            return Ok(members(&set));
        }
        let error = io::Error::last_os_error();
        // EINVAL: the kernel's set has more bits than ours. It cannot have more than the bound that ends this.
        if error.raw_os_error() != Some(libc::EINVAL) || words >= WORDS_MAX {
            return Err(error);
        }
        words *= 2;
    }
}

/// Restricts the calling thread to `cpus`, whose numbers the caller has bounded.
pub(super) fn write(cpus: &BTreeSet<usize>) -> io::Result<()> {
    let words = cpus.last().map_or(1, |last| last / WORD_BITS + 1).max(WORDS_FIRST);
    let mut set: Vec<c_ulong> = vec![0; words];
    for cpu in cpus {
        set[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
    let bytes = words * size_of::<c_ulong>();
    // SAFETY: `set` is an initialised array of exactly `bytes` bytes that the kernel only reads, alive until after the
    // call; 0 names the calling thread.
    if unsafe { libc::sched_setaffinity(0, bytes, set.as_ptr().cast()) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn members(set: &[c_ulong]) -> BTreeSet<usize> {
    set.iter()
        .enumerate()
        .flat_map(|(word, bits)| {
            (0..WORD_BITS).filter(move |bit| bits & (1 << bit) != 0).map(move |bit| word * WORD_BITS + bit)
        })
        .collect()
}

const WORD_BITS: usize = c_ulong::BITS as usize;

/// As many bits as `cpu_set_t` has: enough for nearly every kernel at the first try.
const WORDS_FIRST: usize = libc::CPU_SETSIZE as usize / WORD_BITS;

/// Sixteen times the cpus that any list may name: a kernel that still says EINVAL means something else by it.
const WORDS_MAX: usize = 16 * crate::topology::cpulist::CPUS_MAX / WORD_BITS;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_counts_bits_across_words() {
        assert_eq!(members(&[0b101, 0, 1]), BTreeSet::from([0, 2, 2 * WORD_BITS]));
        assert_eq!(members(&[]), BTreeSet::new());
    }
}
