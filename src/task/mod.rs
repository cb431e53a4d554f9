//! Tasks: closures that run once and futures, each in one allocation, from the moment they are spawned to the moment their output is taken.
//!
//! This module knows how a task lives; where it is queued and who runs it is the business of the [`Schedule`] it was made with.
//!
//! # Parts
//!
//! ```text
//!   JoinHandle ──┐                  ┌────────────── one allocation ──────────────┐
//!   Runnable  ───┼─ one reference ─►│ Header            Listing          Stage   │
//!   Claimed   ───┤      each        │ state kind joiner links scheduler  body or │
//!   Waker     ───┘                  │                   (futures only)   output  │
//!                                   └────────────────────────────────────────────┘
//! ```
//!
//! - [`state`]: the state word, its numbered transitions and what each obliges to. Read it first.
//! - [`header`]: what is the same for all types; [`raw`]: the allocation and the verbs that know the type; [`body`]: closure or future.
//! - [`runnable`], [`handle`], [`waker`]: the three ways to hold a task. [`registry`]: the futures that have not ended.
//! - [`mod@contain`], [`error`]: where panics end, and what becomes of them.
//!
//! # Who may touch what
//!
//! 1. **The body** belongs to the *runner*: who made the task `RUNNING`, a runnable by *start* or a handle by *claim*. The runner gives it up in
//!    *suspend*, or drops it and goes on to *complete*. While the task is queued or idle nobody touches the body.
//! 2. **The output** is written by the runner before *complete*. Then it is the handle's, if there is one at that moment; else the runner's, to
//!    drop. A handle that finds the task complete takes the output, or drops it when it is dropped.
//! 3. **The slot of the join waker** is the handle's, until it is published; a published slot is the completer's (the last runner's). The handle
//!    gets it back by *retract* or *detach* as long as the task is not complete.
//! 4. **The links** are touched under the lock of their registry. The future leaves the list after its body is gone and before it is complete.
//! 5. **The scheduler** is read by anybody with a reference, and the reference has to outlast the call.
//!
//! # References
//!
//! Each runnable (also a stale one), each runner, each waker and the handle own one. At most one runnable is fresh and at most one stale. The last
//! reference frees the allocation. If it belonged to a future that waits, nobody can wake it any more: it is scheduled once more, as
//! aborted, so that a lane and not some unsuspecting thread drops it.
//!
//! # Panics
//!
//! Everything that user code may throw is caught: in the poll, in drops of the body, of the output and of payloads, in join wakers. A panic of the
//! poll is the task's result. A panic in a drop never changes a result that is there; the runner hears of it as [`Ran::Panicked`].

mod body;
mod contain;
mod error;
mod handle;
mod header;
pub(crate) mod memory;
#[cfg(twolane_loom)]
pub mod model;
mod raw;
mod registry;
mod runnable;
mod state;
#[cfg(all(test, not(twolane_loom)))]
mod tests;
mod waker;

use std::future::Future;
use std::mem::offset_of;
use std::sync::Arc;

pub(crate) use contain::{Contained, contain};
pub use error::JoinError;
#[cfg(not(twolane_loom))]
pub(crate) use error::panic_message;
pub use handle::{AbortOnDrop, JoinHandle};
pub(crate) use header::{Header, Kind};
pub(crate) use registry::Registry;
#[cfg(twolane_loom)]
pub(crate) use runnable::Claimed;
pub(crate) use runnable::{Ran, Runnable};

use body::{Async, Listing, Once};
use raw::Task;
use registry::{Links, Listed};

/// Where a future goes when it becomes runnable again, and who hears of its end.
///
/// Lies in the task, so it should be one pointer wide, and is dropped where the last reference is: on any thread.
pub(crate) trait Schedule: Send + Sync + 'static {
    /// Queues a future that was woken, or that is to be dropped by a lane. Called on any thread, from wakers, also in its last destructors and after
    /// shutdown: must neither block nor panic. If nobody will run the future any more, drop the runnable, which cancels it.
    fn schedule(&self, runnable: Runnable);

    /// Queues a future that was woken while it was being polled, most often by itself, to yield: it wants to go behind others. Called by the
    /// runner.
    fn reschedule(&self, runnable: Runnable) {
        self.schedule(runnable);
    }

    /// The list of live futures that the task is on.
    fn registry(&self) -> &Registry;
}

/// A scheduler of any kind: what tasks carry where their type must not depend on who runs them.
pub(crate) type Scheduler = Arc<dyn Schedule>;

impl<S: Schedule + ?Sized> Schedule for Arc<S> {
    fn schedule(&self, runnable: Runnable) {
        (**self).schedule(runnable);
    }

    fn reschedule(&self, runnable: Runnable) {
        (**self).reschedule(runnable);
    }

    fn registry(&self) -> &Registry {
        (**self).registry()
    }
}

/// A task that runs `closure` once. It has no scheduler and is on no registry: it is queued once, by the caller, and runs in its first poll.
pub(crate) fn closure<F, T>(closure: F) -> (Runnable, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let task = Task::<Once<F>>::allocate((), Once(closure));
    // SAFETY: a new task has a reference for each, and the outcome of `Once<F>` is an `Outcome<T>`.
    unsafe { (Runnable::from_raw(task), JoinHandle::from_raw(task)) }
}

/// A task that polls `future`, and goes to `scheduler` whenever it is woken. The first runnable is the caller's to queue.
///
/// # Errors
///
/// Gives the future back if the registry is closed.
pub(crate) fn future<F, S>(future: F, scheduler: S) -> Result<(Runnable, JoinHandle<F::Output>), F>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Schedule,
{
    // The registry finds the links behind the header. An over-aligned scheduler would move them.
    const { assert!(offset_of!(Task<Async<F, S>>, extra) + offset_of!(Listing<S>, links) == Listed::LINKS_OFFSET) };

    let task = Task::<Async<F, S>>::allocate(Listing { links: Links::default(), scheduler }, Async::new(future));
    // SAFETY: of this type, and ours alone until it is on the list; then our two references keep it alive.
    let registry = unsafe { Task::<Async<F, S>>::of(task) }.extra.scheduler.registry();
    // SAFETY: new, and laid out as asserted; *complete* comes after `remove`, and it stays alive until then.
    if unsafe { registry.insert(task) }.is_err() {
        // SAFETY: not listed, so still ours alone.
        return Err(unsafe { Task::<Async<F, S>>::reclaim(task) }.into_inner());
    }
    // SAFETY: a new task has a reference for each, and the outcome of `Async<F, S>` is an `Outcome<F::Output>`.
    Ok(unsafe { (Runnable::from_raw(task), JoinHandle::from_raw(task)) })
}
