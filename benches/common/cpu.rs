//! Threads, by their numbers, and the cpus they may run on.

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The kernel's number of the calling thread.
pub fn thread_id() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// Binds the calling thread to one cpu until the guard is dropped.
pub fn pin(cpu: usize) -> Result<Pinned, String> {
    let before = sched_getaffinity(None).map_err(|error| format!("sched_getaffinity: {error}"))?;
    let mut only = CpuSet::new();
    only.set(cpu);
    sched_setaffinity(None, &only).map_err(|error| format!("cannot bind a thread to cpu {cpu}: {error}"))?;
    Ok(Pinned { before })
}

/// See [`pin`].
pub struct Pinned {
    before: CpuSet,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed before, and a bench that cannot go back only measures with a bound thread.
        let _ = sched_setaffinity(None::<Pid>, &self.before);
    }
}

/// Cpu time that a thread of this process has used, in nanoseconds.
pub fn thread_cpu_ns(thread: i32) -> Result<u64, String> {
    let path = format!("/proc/self/task/{thread}/schedstat");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| format!("{path} does not begin with a number: {text:?}"))
}
