//! The spawner's end of a task: wait for the output, abort, or let go.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use super::body::Outcome;
use super::contain::contain;
use super::error::{Failure, JoinError};
use super::header::{Header, Reference};
use super::runnable::Claimed;
use super::state::{Claim, Detach, Slot};
use crate::sync::fork::{self, Generation};

/// Waits for a task, whether it is a closure or a future.
///
/// The handle is itself a future of the task's output. Dropping it *detaches*: the task goes on, its output is dropped as soon as it is there.
/// Use [`abort`](Self::abort) to stop the task, and [`abort_on_drop`](Self::abort_on_drop) for one that shall not outlive its spawner.
///
/// # Cancellation
///
/// Dropping the handle while it waits loses the output and nothing else. A handle polled by reference (`(&mut handle).await`) may
/// be given up and polled again, by this or another task: whoever polled last is woken.
///
/// # Errors
///
/// The output is a [`JoinError`] if the task panicked, was aborted, was refused by a runtime that shuts down, or was dropped by its shutdown; and in a
/// child made by fork(2), where no lane runs, if the task had not ended when the child was made.
///
/// # Panics
///
/// Polling the handle again after it has given the output panics.
pub struct JoinHandle<T> {
    task: At,
    /// The process that the task was made in.
    process: Generation,
    output: PhantomData<T>,
}

/// Where the handle's task is.
enum At {
    /// The handle's reference to it.
    Live(NonNull<Header>),
    /// It never came to be.
    Refused,
    /// Its output was given out.
    Joined,
}

/// A [`JoinHandle`] that aborts its task when it is dropped. Made by [`JoinHandle::abort_on_drop`].
///
/// What [`JoinHandle::abort`] says about closures that run already holds here too.
pub struct AbortOnDrop<T>(JoinHandle<T>);

// SAFETY: the handle is a reference to a task, which is `Send`, and the right to take or drop a `T` where it is polled or dropped.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: by shared reference a handle aborts, asks and claims: the state word arbitrates that, and bodies are `Send`. The output moves by `&mut`
// only.
unsafe impl<T: Send> Sync for JoinHandle<T> {}
impl<T> Unpin for JoinHandle<T> {}
// A panic of the task is contained, and what it left is an error: there is no broken state to see through a handle.
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    /// Asks the task to end. The handle then resolves to a cancelled [`JoinError`], as soon as a lane has dropped the closure or future.
    ///
    /// A task that has not begun will not run. A future that waits is not polled again; one that is being polled ends when that poll
    /// returns. A closure that runs cannot be stopped and gives its output, as does a future whose running poll is its last. Costs
    /// one atomic operation; calls after the first, or after the end, do nothing.
    pub fn abort(&self) {
        if let Some(task) = self.live() {
            // SAFETY: the handle's reference keeps the task alive.
            unsafe { Reference::borrowed(task) }.abort();
        }
    }

    /// Whether waiting would take no time: the task has ended, in whichever way. Costs one load.
    pub fn is_finished(&self) -> bool {
        // SAFETY: the handle's reference keeps the task alive.
        self.live().is_none_or(|task| unsafe { task.as_ref() }.state.load().is_complete())
    }

    /// Ties the task to the handle: dropping the result aborts.
    pub fn abort_on_drop(self) -> AbortOnDrop<T> {
        AbortOnDrop(self)
    }

    /// The handle of a task that was refused: resolves to a cancelled [`JoinError`]. No allocation.
    pub(crate) fn cancelled() -> Self {
        Self { task: At::Refused, process: fork::generation(), output: PhantomData }
    }

    /// # Safety
    ///
    /// - `task` is a live task whose outcome is an `Outcome<T>`; its `HANDLE` bit is set and that reference is the caller's to give.
    pub(super) unsafe fn from_raw(task: NonNull<Header>) -> Self {
        Self { task: At::Live(task), process: fork::generation(), output: PhantomData }
    }

    /// Takes the task out of its queue, so to say, to run it on this thread instead of waiting for a lane. `None` if it runs, waits or
    /// has ended; rarely also if it was claimed, went to wait, and was queued again before the queue noticed.
    pub(crate) fn claim(&self) -> Option<Claimed> {
        let task = self.live()?;
        // SAFETY: the handle's reference keeps the task alive.
        match unsafe { task.as_ref() }.state.claim() {
            // SAFETY: granted just now, with a reference.
            Claim::Granted => Some(unsafe { Claimed::from_raw(task) }),
            Claim::Refused => None,
        }
    }

    /// The type of the task's closure or future, as far as there is a task.
    pub(crate) fn type_name(&self) -> Option<&'static str> {
        // SAFETY: the handle's reference keeps the task alive.
        self.live().map(|task| (unsafe { task.as_ref() }.kind.type_name)())
    }

    /// The output, or a promise to wake `waker` at the end of the task; an earlier waker is forgotten.
    ///
    /// # Panics
    ///
    /// If the output was given out before.
    pub(crate) fn poll_join(&mut self, waker: &Waker) -> Poll<Result<T, JoinError>> {
        let task = match self.task {
            At::Live(task) => task,
            At::Refused => return Poll::Ready(Err(JoinError::new(None, Failure::Cancelled))),
            At::Joined => panic!("a JoinHandle was polled after it had given the output of its task"),
        };
        // SAFETY: the handle's reference keeps the task alive; `take` ends it, after the last use.
        let header = unsafe { task.as_ref() };
        if self.process != fork::generation() && !header.state.load().is_complete() {
            // Nobody is left to end it. The handle lets go of it, as if dropped.
            drop(std::mem::replace(self, Self { task: At::Joined, process: self.process, output: PhantomData }));
            return Poll::Ready(Err(JoinError::forked()));
        }
        match register(header, waker) {
            Slot::Passed => Poll::Pending,
            Slot::Complete => Poll::Ready(self.take(task)),
        }
    }

    /// Takes the output of the complete task and leaves it.
    fn take(&mut self, task: NonNull<Header>) -> Result<T, JoinError> {
        self.task = At::Joined;
        // SAFETY: the handle's reference, which it does not use any more.
        let reference = unsafe { Reference::from_raw(task) };
        let kind = reference.header().kind;
        let mut outcome = MaybeUninit::<Outcome<T>>::uninit();
        // SAFETY: complete while the handle exists, so the output is the handle's; it is taken once, since `self.task` has changed. The
        // type is right by `from_raw`'s contract.
        let outcome = unsafe {
            (kind.verbs.take_output)(task, NonNull::from(&mut outcome).cast());
            outcome.assume_init()
        };
        drop(reference);
        outcome.map_err(|failure| JoinError::new(Some((kind.type_name)()), failure))
    }

    fn live(&self) -> Option<NonNull<Header>> {
        match self.task {
            At::Live(task) => Some(task),
            At::Refused | At::Joined => None,
        }
    }
}

/// Leaves `waker` with the completer, unless the task is complete.
fn register(header: &Header, waker: &Waker) -> Slot {
    if header.state.load().is_complete() {
        return Slot::Complete;
    }
    // With the slot in our hands the completer does not look into it, and finds `COMPLETE` before us or the new waker after us.
    let Slot::Passed = header.state.retract() else { return Slot::Complete };
    // SAFETY: retracted, or never published.
    let before = unsafe { header.take_joiner() };
    let (next, replaced) = match before {
        Some(same) if same.will_wake(waker) => (same, None),
        other => (waker.clone(), other),
    };
    // SAFETY: as above; the slot was emptied.
    unsafe { header.set_joiner(next) };
    let slot = header.state.publish();
    let missed = match slot {
        Slot::Passed => None,
        // SAFETY: not published, so it stayed ours.
        Slot::Complete => unsafe { header.take_joiner() },
    };
    // Last, since dropping a waker is foreign code. What it throws has nothing to do with this task.
    let _ = contain(|| drop((replaced, missed)));
    slot
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_join(cx.waker())
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        let Some(task) = self.live() else { return };
        // SAFETY: the handle's reference, which is not used any more.
        let reference = unsafe { Reference::from_raw(task) };
        match reference.header().state.detach() {
            // The transition has given the reference up.
            Detach::Released => _ = reference.into_raw(),
            Detach::DropWaker => {
                // SAFETY: *detach* took the slot back.
                let waker = unsafe { reference.header().take_joiner() };
                drop(reference);
                let _ = contain(|| drop(waker));
            }
            Detach::DropOutput => {
                // SAFETY: complete while the handle existed, so the output is the handle's, and it was not taken: `take` leaves `Live`.
                let _ = contain(|| unsafe { (reference.header().kind.verbs.drop_output)(task) });
            }
        }
    }
}

impl<T> AbortOnDrop<T> {
    /// Unties the task from the handle again.
    pub fn into_inner(mut self) -> JoinHandle<T> {
        // What is left behind has no task to abort.
        std::mem::replace(&mut self.0, JoinHandle::cancelled())
    }
}

impl<T> std::ops::Deref for AbortOnDrop<T> {
    type Target = JoinHandle<T>;

    fn deref(&self) -> &JoinHandle<T> {
        &self.0
    }
}

impl<T> Future for AbortOnDrop<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_join(cx.waker())
    }
}

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_tuple("JoinHandle");
        match self.task {
            // SAFETY: the handle's reference keeps the task alive.
            At::Live(task) => out.field(unsafe { task.as_ref() }),
            At::Refused => out.field(&"refused"),
            At::Joined => out.field(&"joined"),
        };
        out.finish()
    }
}

impl<T> fmt::Debug for AbortOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AbortOnDrop").field(&self.0).finish()
    }
}
