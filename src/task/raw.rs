//! The allocation of a task, and the verbs that have to know its type.

use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::body::{Body, Outcome, Step};
use super::contain::{Contained, contain};
use super::error::Failure;
use super::header::{Cause, Go, Header, Kind, Reference, Verbs};
use super::memory;
use super::runnable::{Ran, Runnable};
use super::state::{Complete, Suspend};
use super::waker;
use crate::sync::UnsafeCell;

/// The one allocation. `repr(C)`: a pointer to the header is a pointer to the task, and what a future has beside it comes next.
#[repr(C)]
pub(super) struct Task<B: Body> {
    header: Header,
    pub(super) extra: B::Extra,
    stage: UnsafeCell<Stage<B>>,
}

/// The body, later in its place the output. Which of them, or neither, follows from the state word.
union Stage<B: Body> {
    body: ManuallyDrop<B>,
    output: ManuallyDrop<Outcome<B::Output>>,
}

impl<B: Body> Task<B> {
    const KIND: &'static Kind = &Kind {
        type_name: B::type_name,
        once: B::ONCE,
        verbs: Verbs {
            run: run::<B>,
            schedule: schedule::<B>,
            take_output: take_output::<B>,
            drop_output: drop_output::<B>,
            free: free::<B>,
        },
    };

    /// A queued task with two references, one for a runnable and one for a handle.
    pub(super) fn allocate(extra: B::Extra, body: B) -> NonNull<Header> {
        let task = memory::allocate(Layout::new::<Self>()).cast::<Self>();
        // SAFETY: allocated just now for this type, and ours alone. It is freed as a box, which is of the same layout and allocator.
        unsafe {
            task.write(Self {
                header: Header::new(Self::KIND),
                extra,
                stage: UnsafeCell::new(Stage { body: ManuallyDrop::new(body) }),
            });
        }
        task.cast()
    }

    /// Undoes [`allocate`](Self::allocate).
    ///
    /// # Safety
    ///
    /// - `task` comes from `allocate` of this type, and nobody else has seen it.
    pub(super) unsafe fn reclaim(task: NonNull<Header>) -> B {
        // SAFETY: ours alone, says the caller; the body is alive, because the task has not run.
        unsafe {
            let task = Box::from_raw(task.cast::<Self>().as_ptr());
            task.stage.with_mut(|stage| ManuallyDrop::take(&mut (*stage).body))
        }
    }

    /// The task behind its header.
    ///
    /// # Safety
    ///
    /// - `task` is of this type and alive as long as the result is used.
    pub(super) unsafe fn of<'a>(task: NonNull<Header>) -> &'a Self {
        // SAFETY: `allocate` made the pointer from one to the whole task; shared references are all there are until it is freed, and body
        // and output lie in an `UnsafeCell`.
        unsafe { task.cast::<Self>().as_ref() }
    }

    /// Drops the body instead of executing it.
    ///
    /// # Safety
    ///
    /// - The body is alive and the caller's.
    unsafe fn cancel(&self) -> (Outcome<B::Output>, Ran) {
        // SAFETY: alive and ours; `run` overwrites it with the output next.
        let dropped = self.stage.with_mut(|stage| contain(|| unsafe { ManuallyDrop::drop(&mut (*stage).body) }));
        let ran = match dropped {
            Contained::Quiet => Ran::Cancelled,
            Contained::Panicked => Ran::Panicked,
        };
        (Err(Failure::Cancelled), ran)
    }
}

/// [`Verbs::run`].
unsafe fn run<B: Body>(runner: Reference, go: Go) -> Ran {
    // SAFETY: of this type, as it came by this type's table; `runner` outlives the uses of `task`, see the ends below.
    let task = unsafe { Task::<B>::of(runner.as_raw()) };
    let state = &runner.header().state;

    let (outcome, mut ran) = match go {
        // SAFETY: the caller has the body, and it is alive until the task completes.
        Go::Cancel => unsafe { task.cancel() },
        Go::Poll => {
            let waker = waker::borrowed(&runner);
            // SAFETY: as above; `ManuallyDrop<B>` is laid out as `B`.
            match task.stage.with_mut(|stage| unsafe { B::step((&raw mut (*stage).body).cast::<B>(), &waker) }) {
                Step::Finished(outcome, ran) => (outcome, ran),
                Step::Pending => match state.suspend() {
                    Suspend::Idle => {
                        // The transition has given our reference up; `task` may be gone.
                        let _ = runner.into_raw();
                        return Ran::Pending;
                    }
                    Suspend::Requeue => {
                        // SAFETY: the transition has added a reference for the runnable. Ours goes after the call.
                        unsafe { runner.schedule(Cause::WokenWhileRunning) };
                        return Ran::Pending;
                    }
                    // SAFETY: the transition has left us the body, which was pending.
                    Suspend::Cancel => unsafe { task.cancel() },
                },
            }
        }
    };

    // SAFETY: the task was handed out, or nobody could have run it; each branch above that comes here comes here once in its life.
    unsafe { B::retire(&task.extra, runner.as_raw()) };
    // The body is gone, so this overwrites nothing.
    // SAFETY: the place is ours until *complete*.
    task.stage.with_mut(|stage| unsafe { (*stage).output = ManuallyDrop::new(outcome) });

    match state.complete() {
        // The transition has given our reference up; `task` may be gone.
        Complete::Released => _ = runner.into_raw(),
        Complete::WakeJoiner => {
            // SAFETY: published and complete, so the slot is ours for good.
            let joiner = unsafe { runner.header().take_joiner() };
            drop(runner);
            // What a foreign waker throws is not this task's fault: not counted.
            let _ = contain(|| joiner.into_iter().for_each(|waker| waker.wake()));
        }
        Complete::DropOutput => {
            // SAFETY: complete, and left to us because there is no handle.
            if contain(|| unsafe { drop_output::<B>(runner.as_raw()) }) == Contained::Panicked {
                ran = Ran::Panicked;
            }
        }
    }
    ran
}

/// [`Verbs::schedule`].
unsafe fn schedule<B: Body>(task: NonNull<Header>, fresh: Runnable, cause: Cause) {
    // SAFETY: of this type, as it came by this type's table; alive, because the caller holds a reference beside the runnable's.
    let task = unsafe { Task::<B>::of(task) };
    B::schedule(&task.extra, fresh, cause);
}

/// [`Verbs::take_output`].
unsafe fn take_output<B: Body>(task: NonNull<Header>, to: NonNull<()>) {
    // SAFETY: of this type, as it came by this type's table; complete, so the place holds an output, and it is the caller's.
    unsafe {
        let task = Task::<B>::of(task);
        task.stage.with_mut(|stage| {
            let output = ManuallyDrop::take(&mut (*stage).output);
            to.cast::<Outcome<B::Output>>().write(output);
        });
    }
}

/// [`Verbs::drop_output`].
unsafe fn drop_output<B: Body>(task: NonNull<Header>) {
    // SAFETY: as in `take_output`.
    unsafe {
        let task = Task::<B>::of(task);
        task.stage.with_mut(|stage| ManuallyDrop::drop(&mut (*stage).output));
    }
}

/// [`Verbs::free`].
unsafe fn free<B: Body>(task: NonNull<Header>) {
    // SAFETY: `allocate` got it as a box would; the caller has the last reference. Body and output are gone, and a union drops nothing.
    let task = unsafe { Box::from_raw(task.cast::<Task<B>>().as_ptr()) };
    // A join waker may be left in its slot if cloning another one panicked; and the scheduler goes, which is ours.
    let _ = contain(|| drop(task));
}
