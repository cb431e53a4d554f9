//! What every task starts with, whatever its type: the state word, the kind, and the slot of the join waker.
//!
//! [`Reference`] owns one of the references that the state word counts, and turns the duties that its transitions ask for into acts that need no
//! knowledge of the type: schedule, abort, free.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::Waker;

use super::runnable::{Ran, Runnable};
use super::state::{Release, State, Submit};
use crate::sync::UnsafeCell;

/// The head of every task's allocation. A pointer to it is the task's name, and may be used for the whole allocation.
#[repr(C)]
pub(crate) struct Header {
    pub(super) state: State,
    pub(super) kind: &'static Kind,
    /// Whom to wake at completion. Whose it is says `WAKER` of the state word.
    joiner: UnsafeCell<Option<Waker>>,
}

/// What the tasks of one type have in common.
///
/// There is one for every type of closure or future; its address is the key for statistics at run time. The compiler may fold types whose
/// code is the same into one, and may use several for one type: neither matters to a statistic.
pub(crate) struct Kind {
    /// The name of the closure's or future's type.
    pub(crate) type_name: fn() -> &'static str,
    /// A closure, that runs once, rather than a future.
    pub(crate) once: bool,
    pub(super) verbs: Verbs,
}

/// What has to know the type. Each takes a pointer to a live task of the kind; the rest of the obligations are listed one by one.
pub(super) struct Verbs {
    /// Polls or drops the body. The caller has the body (*start*, *claim*), and gives up its reference.
    pub(super) run: unsafe fn(Reference, Go) -> Ran,
    /// Hands a fresh runnable of this task to its scheduler. The caller holds a reference beside the runnable's.
    pub(super) schedule: unsafe fn(NonNull<Header>, Runnable, Cause),
    /// Moves the output, an `Outcome<T>`, to where the second pointer says. The task is complete and the output is the caller's.
    pub(super) take_output: unsafe fn(NonNull<Header>, NonNull<()>),
    /// Drops the output; a panic in there unwinds. The task is complete and the output is the caller's.
    pub(super) drop_output: unsafe fn(NonNull<Header>),
    /// Frees the allocation. The task is complete, its output is gone, and the caller has the last reference.
    pub(super) free: unsafe fn(NonNull<Header>),
}

/// What to do with a body that one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    Poll,
    Cancel,
}

/// Why a fresh runnable exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// The task was idle and was woken or aborted, or is to be buried.
    Woken,
    /// It was woken while it ran.
    WokenWhileRunning,
}

/// One reference to a task.
pub(super) struct Reference(NonNull<Header>);

// Half a cache line, so that a small closure can share one with its header.
#[cfg(not(twolane_loom))]
const _: () = assert!(size_of::<Header>() <= 32);

// SAFETY: all shared access goes through the state word, which arbitrates it; bodies and outputs are `Send` (required where tasks are made:
// `task::closure`, `task::future`), and whoever acquires the body or the output by a transition may be on any thread.
unsafe impl Send for Reference {}
// SAFETY: as above; by shared reference there is no access to body or output at all.
unsafe impl Sync for Reference {}

impl Header {
    pub(super) fn new(kind: &'static Kind) -> Self {
        Self { state: State::new(), kind, joiner: UnsafeCell::new(None) }
    }

    /// Empties the slot of the join waker.
    ///
    /// # Safety
    ///
    /// - The slot is the caller's: the handle's unless it is published, the completer's from then on.
    pub(super) unsafe fn take_joiner(&self) -> Option<Waker> {
        // SAFETY: the caller has the slot, and no reference into it leaves these two functions.
        self.joiner.with_mut(|slot| unsafe { (*slot).take() })
    }

    /// Fills the slot of the join waker, which is empty.
    ///
    /// # Safety
    ///
    /// - The slot is the caller's, as for [`take_joiner`](Self::take_joiner).
    pub(super) unsafe fn set_joiner(&self, waker: Waker) {
        // SAFETY: the caller has the slot, and no reference into it leaves these two functions.
        let before = self.joiner.with_mut(|slot| unsafe { (*slot).replace(waker) });
        debug_assert!(before.is_none(), "the slot of the join waker was taken over while full");
    }
}

impl Reference {
    /// # Safety
    ///
    /// - `task` is a live task, and one of its references is the caller's to give.
    pub(super) unsafe fn from_raw(task: NonNull<Header>) -> Self {
        Self(task)
    }

    /// A reference for the length of a call, on account of one that the caller owns and keeps.
    ///
    /// # Safety
    ///
    /// - `task` stays alive as long as the result is used.
    pub(super) unsafe fn borrowed(task: NonNull<Header>) -> ManuallyDrop<Self> {
        ManuallyDrop::new(Self(task))
    }

    /// A further reference.
    ///
    /// # Safety
    ///
    /// - `task` is alive during the call.
    pub(super) unsafe fn retained(task: NonNull<Header>) -> Self {
        // SAFETY: alive, says the caller.
        unsafe { task.as_ref() }.state.retain();
        Self(task)
    }

    /// The pointer; the reference stays counted until somebody makes a `Reference` of it again.
    pub(super) fn into_raw(self) -> NonNull<Header> {
        ManuallyDrop::new(self).0
    }

    pub(super) fn as_raw(&self) -> NonNull<Header> {
        self.0
    }

    pub(super) fn header(&self) -> &Header {
        // SAFETY: our reference keeps the allocation alive, and nobody has a `&mut Header` before it is freed.
        unsafe { self.0.as_ref() }
    }

    /// Sees to it that the future is polled after this call.
    pub(super) fn wake(&self) {
        let duty = self.header().state.wake();
        self.submit(duty);
    }

    /// Sees to it that the body is dropped rather than polled, as far as it is not too late.
    pub(super) fn abort(&self) {
        let duty = self.header().state.abort();
        self.submit(duty);
    }

    /// As [`abort`](Self::abort), but leaves a future alone that runs or is queued.
    pub(super) fn abort_idle(&self) {
        let duty = self.header().state.abort_idle();
        self.submit(duty);
    }

    fn submit(&self, duty: Submit) {
        match duty {
            // SAFETY: the transition has added a reference for the runnable.
            Submit::Schedule => unsafe { self.schedule(Cause::Woken) },
            Submit::Nothing => {}
        }
    }

    /// Makes a fresh runnable and hands it to the scheduler.
    ///
    /// # Safety
    ///
    /// - A transition has set `SCHEDULED` and added a reference for the runnable, which nobody else uses.
    pub(super) unsafe fn schedule(&self, cause: Cause) {
        // SAFETY: the caller's reference is passed on. Ours keeps the scheduler, which lies in the task, alive during the call, even if
        // another thread runs the runnable to its end meanwhile.
        unsafe { (self.header().kind.verbs.schedule)(self.0, Runnable::from_raw(self.0), cause) }
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // At most two rounds: a burial gives the reference back once, and what is buried cannot be idle again.
        loop {
            match self.header().state.release() {
                Release::Shared => return,
                // SAFETY: the last reference of a complete task. *complete* has left the output to a holder of a reference, who took or
                // dropped it before releasing that.
                Release::Free => return unsafe { (self.header().kind.verbs.free)(self.0) },
                // SAFETY: the transition has added a reference for the runnable.
                Release::Bury => unsafe { self.schedule(Cause::Woken) },
            }
        }
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task").field("type", &(self.kind.type_name)()).field("state", &self.state).finish()
    }
}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kind").field("type", &(self.type_name)()).field("once", &self.once).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.header().fmt(f)
    }
}
