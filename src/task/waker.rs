//! Wakers: a pointer to the header that owns one reference.
//!
//! Waking is one atomic operation and, if the task was idle, one call of [`Schedule::schedule`](super::Schedule::schedule). No lock is held and no
//! thread-local storage is used here, so it works from any thread, in its last destructors, and after shutdown.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::header::{Header, Reference};

/// The waker of the task behind `reference`, for as long as that lives, without a reference of its own.
pub(super) fn borrowed(reference: &Reference) -> ManuallyDrop<Waker> {
    // SAFETY: the table's functions take what `raw` makes. The waker is never dropped, so it gives up no reference.
    ManuallyDrop::new(unsafe { Waker::from_raw(raw(reference.as_raw())) })
}

/// One table for all types, so that `Waker::will_wake` compares tasks.
static TABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

fn raw(task: NonNull<Header>) -> RawWaker {
    RawWaker::new(task.as_ptr().cast_const().cast(), &TABLE)
}

fn header(data: *const ()) -> NonNull<Header> {
    // SAFETY: only `raw` makes data for our table, from a `NonNull`.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned keeps the task alive.
    raw(unsafe { Reference::retained(header(data)) }.into_raw())
}

unsafe fn wake(data: *const ()) {
    // By value saves nothing: the reference has to stay until the scheduler, which lies in the task, has returned.
    // SAFETY: the waker gives us its reference.
    unsafe { Reference::from_raw(header(data)) }.wake();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker keeps the task alive during the call.
    unsafe { Reference::borrowed(header(data)) }.wake();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker gives us its reference.
    drop(unsafe { Reference::from_raw(header(data)) });
}
