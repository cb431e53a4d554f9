//! What the tests of copies share: everything that can carry an operation out, and an independent opinion of what should come of it.
#![allow(dead_code)] // every test file takes what it needs

pub mod backend;
#[allow(unsafe_code)] // mappings of the tests' own
pub mod memory;
pub mod reference;
#[cfg(target_arch = "x86_64")]
pub mod trapped;

use std::future::Future;
use std::time::Duration;

#[allow(unused_imports)] // as above
pub use backend::{Backend, Rig};
use twolane::Runtime;

/// Longer than any of these tests' operations takes on a machine that does other things, too: past it, something hangs.
pub const LIMIT: Duration = Duration::from_secs(300);

/// What operations get that are expected to be answered: the model's thread may not run for seconds on such a machine.
pub const PATIENT: Duration = Duration::from_secs(60);

/// Bytes of which no two neighbourhoods look alike, and others for another seed.
pub fn bytes(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed ^ 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The future's output, or a failure that says what never ended.
pub fn end_of<F: Future>(rt: &Runtime, what: &str, future: F) -> F::Output {
    ends(what, || rt.block_on(future).expect("no lane of the runtime's waits here"))
}

/// Runs something that may wait, or ends the process with a line that says what never ended.
pub fn ends<R>(what: &str, run: impl FnOnce() -> R) -> R {
    // What waits here has no limit of its own, so the watchdog is a thread that ends the process; a hang would end nothing.
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let what_hangs = what.to_owned();
    let dog = std::thread::spawn(move || {
        if wait.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("this hangs: {what_hangs} did not end within {LIMIT:?}");
            std::process::abort();
        }
    });
    let output = run();
    drop(done);
    dog.join().expect("the watchdog does not panic");
    output
}
