//! A word that threads can block on: wait while it holds a value, wake whoever waits.
//!
//! The contract is the kernel's: [`Futex::wait`] returns at once if the word no longer holds `expected`, may return for no reason, and is
//! ordered with [`Futex::wake_one`] by the kernel's own lock. The orderings of the word itself are the user's business.

use super::atomic::AtomicU32;
#[cfg(not(twolane_loom))]
use std::time::Duration;

/// The word and the ability to block on it.
#[derive(Debug)]
pub(crate) struct Futex {
    word: AtomicU32,
    #[cfg(twolane_loom)]
    queue: (loom::sync::Mutex<()>, loom::sync::Condvar),
}

impl std::ops::Deref for Futex {
    type Target = AtomicU32;
    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

#[cfg(not(twolane_loom))]
impl Futex {
    pub(crate) const fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value) }
    }

    /// Blocks while the word holds `expected`, at most `timeout`. May return early for no reason (a signal, a stray wake).
    pub(crate) fn wait(&self, expected: u32, timeout: Option<Duration>) {
        use rustix::thread::futex;
        let timeout = timeout.map(|t| rustix::time::Timespec {
            tv_sec: t.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: t.subsec_nanos().into(),
        });
        // Every error (EAGAIN: the word changed; EINTR; ETIMEDOUT) means the same to the caller: look again.
        let _ = futex::wait(&self.word, futex::Flags::PRIVATE, expected, timeout.as_ref());
    }

    /// Wakes one waiter, if there is one.
    pub(crate) fn wake_one(&self) {
        use rustix::thread::futex;
        // The call fails only for words that are not mapped or not aligned, which a reference rules out.
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
    }
}

#[cfg(twolane_loom)]
impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value), queue: (loom::sync::Mutex::new(()), loom::sync::Condvar::new()) }
    }

    /// As the kernel does it: compare under the queue's lock, then sleep. Never times out, so a lost wake is a deadlock that loom reports.
    pub(crate) fn wait(&self, expected: u32, _timeout: Option<std::time::Duration>) {
        let guard = self.queue.0.lock().expect("not poisoned");
        // Relaxed: the kernel promises nothing more to its caller either.
        if self.word.load(super::atomic::Ordering::Relaxed) == expected {
            drop(self.queue.1.wait(guard).expect("not poisoned"));
        }
    }

    pub(crate) fn wake_one(&self) {
        let _guard = self.queue.0.lock().expect("not poisoned");
        self.queue.1.notify_one();
    }
}
