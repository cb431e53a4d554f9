//! Waiting for a task, or driving a future, on the calling thread: [`JoinHandle::join`] and `block_on`.

use std::fmt;
use std::future::Future;

use super::blocking;
use crate::task::{JoinError, JoinHandle};

/// Why [`JoinHandle::join`] has no output to give.
#[non_exhaustive]
pub enum BlockingJoinError<T> {
    /// The task ended without one: it panicked or was cancelled.
    Failed(JoinError),
    /// Waiting here could never end: the caller is a poller or a hook, or the last compute lane that is not already waiting. The handle is given
    /// back: await it, keep it, or hand it to somebody else.
    WouldDeadlock(JoinHandle<T>),
}

/// A future that [`block_on`](crate::Handle::block_on) did not drive, because waiting where it was called could never end. It is given
/// back unpolled.
pub struct WouldDeadlock<F> {
    future: F,
}

impl<T> JoinHandle<T> {
    /// Waits for the task and returns its output, on the calling thread.
    ///
    /// On a lane, a task that is still queued is taken from the queue and run right here. One that runs elsewhere is waited for, as long as
    /// another compute lane is left that does not wait: the last one gets an error at once, and so does every poller and hook.
    /// Threads outside the lanes always wait. In async code, await the handle instead.
    ///
    /// # Errors
    /// [`BlockingJoinError`]: the task panicked or was cancelled; or waiting here could never end, and the handle comes back.
    ///
    /// # Example
    /// ```
    /// let rt = twolane::Runtime::builder().build()?;
    /// let sum = rt.spawn_compute(|| (1..=10).sum::<u32>());
    /// assert_eq!(sum.join()?, 55);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn join(self) -> Result<T, BlockingJoinError<T>> {
        if blocking::may_run_inline() {
            if let Some(claimed) = self.claim() {
                let _ = claimed.run(); // its output, or why there is none, is in the handle
            }
        }
        match blocking::drive_or_poll_once(self) {
            Ok(result) => result.map_err(BlockingJoinError::Failed),
            Err(handle) => Err(BlockingJoinError::WouldDeadlock(handle)),
        }
    }
}

/// Drives `future` on the calling thread; see [`Handle::block_on`](crate::Handle::block_on).
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output, WouldDeadlock<F>> {
    match blocking::permit() {
        Some(permit) => Ok(blocking::drive(&permit, future)),
        None => Err(WouldDeadlock { future }),
    }
}

impl<T> BlockingJoinError<T> {
    /// Whether the task was cancelled: aborted, or the runtime ended.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_cancelled())
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self, Self::Failed(error) if error.is_panic())
    }

    /// Whether nothing was waited for.
    pub fn is_would_deadlock(&self) -> bool {
        matches!(self, Self::WouldDeadlock(_))
    }
}

impl<F> WouldDeadlock<F> {
    /// The future, unpolled.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<T> fmt::Display for BlockingJoinError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::WouldDeadlock(handle) => write!(
                f,
                "joining the task {} here could never end: inside a poller or hook, or on the last compute lane that is not already \
                 waiting; await the handle, or join it elsewhere",
                handle.type_name().unwrap_or("that was refused")
            ),
        }
    }
}

impl<T> fmt::Debug for BlockingJoinError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T> std::error::Error for BlockingJoinError<T> {}

impl<F> fmt::Display for WouldDeadlock<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("block_on here could never end: inside a poller or hook, or on the last compute lane that is not already waiting; spawn the future instead")
    }
}

impl<F> fmt::Debug for WouldDeadlock<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<F> std::error::Error for WouldDeadlock<F> {}
