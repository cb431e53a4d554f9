//! What a task executes: a closure, once, or a future, again and again. Everything else about tasks is the same for both.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, Waker};

use super::Schedule;
use super::contain::{Contained, catch, contain};
use super::error::Failure;
use super::header::{Cause, Header};
use super::registry::Links;
use super::runnable::{Ran, Runnable};

/// What a finished task leaves for its handle.
pub(super) type Outcome<T> = Result<T, Failure>;

/// Closure or future.
pub(super) trait Body: Sized {
    type Output;
    /// What lies between the header and the body.
    type Extra;
    /// It finishes in its first poll.
    const ONCE: bool;

    fn type_name() -> &'static str;

    /// Executes a piece; panics are contained. The body is gone afterwards unless it is pending.
    ///
    /// # Safety
    ///
    /// - `body` is alive, at its final place, and the caller has it to itself.
    unsafe fn step(body: *mut Self, waker: &Waker) -> Step<Self::Output>;

    /// Brings a fresh runnable to where the body's tasks are queued.
    fn schedule(extra: &Self::Extra, fresh: Runnable, cause: Cause);

    /// Called once, after the body is gone and before anybody hears of it.
    ///
    /// # Safety
    ///
    /// - `extra` is that of `task`, which was handed out by the constructor.
    unsafe fn retire(extra: &Self::Extra, task: NonNull<Header>);
}

/// What came of a piece of execution.
pub(super) enum Step<T> {
    Pending,
    Finished(Outcome<T>, Ran),
}

/// A closure that runs once.
pub(super) struct Once<F>(pub(super) F);

impl<F, T> Body for Once<F>
where
    F: FnOnce() -> T,
{
    type Output = T;
    type Extra = ();
    const ONCE: bool = true;

    fn type_name() -> &'static str {
        std::any::type_name::<F>()
    }

    unsafe fn step(body: *mut Self, _waker: &Waker) -> Step<T> {
        // SAFETY: alive and ours; the caller does not use it again, since we do not answer `Pending`.
        let Self(closure) = unsafe { body.read() };
        match catch(closure) {
            Ok(output) => Step::Finished(Ok(output), Ran::Finished),
            Err(payload) => Step::Finished(Err(Failure::Panicked(payload)), Ran::Panicked),
        }
    }

    fn schedule(_: &(), fresh: Runnable, _: Cause) {
        // A closure has no waker, and its one runnable exists until it runs: it is never idle, so nothing makes a fresh one.
        debug_assert!(false, "a closure was scheduled twice");
        drop(fresh);
    }

    unsafe fn retire(_: &(), _: NonNull<Header>) {}
}

/// A future and, in the type only, its scheduler.
pub(super) struct Async<F, S>(F, PhantomData<fn(S)>);

/// What a future needs beside its header.
#[repr(C)]
pub(super) struct Listing<S> {
    /// First, where the registry expects them.
    pub(super) links: Links,
    pub(super) scheduler: S,
}

// With a scheduler of one pointer, all that is not the future's own takes no more than a cache line.
#[cfg(not(twolane_loom))]
const _: () = assert!(size_of::<Header>() + size_of::<Listing<usize>>() <= 64);

impl<F, S> Async<F, S> {
    pub(super) fn new(future: F) -> Self {
        Self(future, PhantomData)
    }

    pub(super) fn into_inner(self) -> F {
        self.0
    }
}

impl<F: Future, S: Schedule> Body for Async<F, S> {
    type Output = F::Output;
    type Extra = Listing<S>;
    const ONCE: bool = false;

    fn type_name() -> &'static str {
        std::any::type_name::<F>()
    }

    unsafe fn step(body: *mut Self, waker: &Waker) -> Step<F::Output> {
        let polled = catch(|| {
            // SAFETY: alive and ours; it is at its final place and is dropped there, below or in `Task::cancel`.
            let future = unsafe { Pin::new_unchecked(&mut (*body).0) };
            future.poll(&mut Context::from_waker(waker))
        });
        let outcome = match polled {
            Ok(Poll::Pending) => return Step::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(Failure::Panicked(payload)),
        };
        // The future goes now, not with the last waker. SAFETY: still alive and ours; the caller does not use it again, since we do not
        // answer `Pending`.
        let dropped = contain(|| unsafe { ptr::drop_in_place(body) });
        let ran = match (&outcome, dropped) {
            (Ok(_), Contained::Quiet) => Ran::Finished,
            // A future that panics as it is dropped has still given its output; only the counts hear of it.
            (Ok(_), Contained::Panicked) | (Err(_), _) => Ran::Panicked,
        };
        Step::Finished(outcome, ran)
    }

    fn schedule(extra: &Listing<S>, fresh: Runnable, cause: Cause) {
        match cause {
            Cause::Woken => extra.scheduler.schedule(fresh),
            Cause::WokenWhileRunning => extra.scheduler.reschedule(fresh),
        }
    }

    unsafe fn retire(extra: &Listing<S>, task: NonNull<Header>) {
        // SAFETY: `task::future` put it on this very list before it handed the task out, and `retire` is called once.
        unsafe { extra.scheduler.registry().remove(task) }
    }
}
