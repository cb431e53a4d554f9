//! Notices fork(2): the child has the memory of its parent and one of its threads. What others were to do never happens there.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts the forks that led to this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u32);

static GENERATION: AtomicU32 = AtomicU32::new(0);
static WATCH: Once = Once::new();

/// The generation of the calling process.
#[inline]
pub(crate) fn generation() -> Generation {
    if !WATCH.is_completed() {
        WATCH.call_once(watch);
    }
    // Relaxed: the child that the handler ran in has one thread.
    Generation(GENERATION.load(Relaxed))
}

#[allow(unsafe_code)]
fn watch() {
    extern "C" fn in_child() {
        GENERATION.fetch_add(1, Relaxed);
    }
    // SAFETY: the handler lives as long as the program (this crate does not unload), and does one atomic addition, which is allowed
    // in the child of a process with many threads.
    let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    // Out of memory is the only reason; then a fork goes unnoticed, as it would without this file.
    debug_assert_eq!(refused, 0, "pthread_atfork: out of memory");
}
