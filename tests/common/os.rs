//! What the kernel says about this process's threads.

use std::fs;
use std::time::Duration;

/// One thread, from `/proc/self/task`.
#[derive(Debug)]
pub struct Thread {
    pub tid: i32,
    pub name: String,
    /// `R` runs, `S` sleeps.
    pub state: char,
    /// Signals that it blocks, signal n at bit n - 1.
    pub blocked: u64,
    /// Cpus that it may run on, as the kernel lists them.
    pub allowed: String,
}

/// The threads of this process. Those that end meanwhile are left out.
pub fn threads() -> Vec<Thread> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| thread(task.ok()?.file_name().to_str()?.parse().ok()?)).collect()
}

/// Those that are lanes of runtimes with the default thread name.
pub fn lanes() -> Vec<Thread> {
    named("twolane-")
}

/// Those whose name begins so.
pub fn named(prefix: &str) -> Vec<Thread> {
    let mut found: Vec<Thread> = threads().into_iter().filter(|thread| thread.name.starts_with(prefix)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// The calling thread.
pub fn this() -> Thread {
    thread(rustix::thread::gettid().as_raw_nonzero().get()).unwrap()
}

fn thread(tid: i32) -> Option<Thread> {
    let status = fs::read_to_string(format!("/proc/self/task/{tid}/status")).ok()?;
    let field = |name: &str| {
        status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(|value| value.trim().to_owned())
    };
    Some(Thread {
        tid,
        name: field("Name")?,
        state: field("State")?.chars().next()?,
        blocked: u64::from_str_radix(&field("SigBlk")?, 16).ok()?,
        allowed: field("Cpus_allowed_list")?,
    })
}

/// Cpu time of a thread of this process: its own CLOCK_THREAD_CPUTIME_ID.
pub fn cpu_time(tid: i32) -> Duration {
    // The kernel's number of another thread's cpu clock: the complement of its id, then 3 bits: per thread (4), scheduler's clock (2).
    let clock = (!tid << 3) | 6;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid for the call, which writes it or fails.
    #[allow(unsafe_code)]
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0, "clock of thread {tid}");
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}
