//! What does the kernel say of the calling thread? How often it was pushed off its cpu, and whether it has a real-time priority.

/// Times that the kernel took the cpu from the calling thread for somebody else; 0 if it does not say. A system call of some hundred
/// nanoseconds.
pub(crate) fn involuntary_switches() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a `rusage` that lives through the call, which the kernel writes whole or not at all.
    let failed = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0;
    if failed {
        return 0;
    }
    // SAFETY: all of it was zeroed, which is valid for integers, or written by the kernel.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_nivcsw).unwrap_or(0)
}

/// Whether the calling thread runs by SCHED_FIFO or SCHED_RR: before everybody who does not, for as long as it wants.
pub(crate) fn is_realtime() -> bool {
    // SAFETY: takes a number, 0 for the calling thread, and touches no memory of ours.
    let policy = unsafe { libc::sched_getscheduler(0) };
    // With SCHED_RESET_ON_FORK masked out, which is a flag beside the policy.
    matches!(policy & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO | libc::SCHED_RR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_yields_to_others_is_counted_no_worse_than_the_kernel_does() {
        let before = involuntary_switches();
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
        if let Some(of_kernel) = line.and_then(|count| count.trim().parse::<u64>().ok()) {
            assert!(before <= of_kernel && of_kernel <= involuntary_switches());
        }
    }

    #[test]
    fn the_policy_is_the_one_in_stat() {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap_or_default();
        // The 41st field; the second, the name, may have blanks in it and ends with the last bracket.
        let policy = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(38)?.parse::<i32>().ok());
        if let Some(policy) = policy {
            assert_eq!(is_realtime(), policy == libc::SCHED_FIFO || policy == libc::SCHED_RR);
        }
    }
}
