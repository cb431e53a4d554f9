//! Was a slot disturbed? Asks the kernel before and after.
//!
//! Two things make a slot worthless: the hypervisor ran somebody else on one of its cpus (*steal* of /proc/stat, which counts
//! in hundredths of a second), or the kernel took the cpu from a thread that was being timed (involuntary switches, the
//! counter that `getrusage(RUSAGE_THREAD)` calls `ru_nivcsw`). The latter is read from /proc/self/task, where the witness can
//! see it for the library's lanes without running anything on them.

use std::fs;

/// Watches some cpus and some threads of this process.
pub struct Witness {
    cpus: Vec<usize>,
    threads: Vec<i32>,
}

/// Counters as they stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    steal: u64,
    involuntary: u64,
}

impl Witness {
    /// `threads`: the kernel's numbers of the threads that do what is timed.
    pub fn new(cpus: impl IntoIterator<Item = usize>, threads: impl IntoIterator<Item = i32>) -> Self {
        Self { cpus: cpus.into_iter().collect(), threads: threads.into_iter().collect() }
    }

    /// Runs a slot. Returns what it measured, and whether nothing disturbed it.
    pub fn watch<R>(&self, slot: impl FnOnce() -> R) -> (R, bool) {
        let before = self.look();
        let measured = slot();
        (measured, self.look() == before)
    }

    fn look(&self) -> Seen {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        Seen {
            steal: self.cpus.iter().map(|&cpu| steal_of(&stat, cpu)).sum(),
            involuntary: self.threads.iter().map(|&thread| involuntary_of(thread)).sum(),
        }
    }
}

/// The eighth figure of the cpu's line.
fn steal_of(stat: &str, cpu: usize) -> u64 {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name));
    line.and_then(|line| line.split_whitespace().nth(8)?.parse().ok()).unwrap_or(0)
}

fn involuntary_of(thread: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/self/task/{thread}/status")).unwrap_or_default();
    let count = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}
