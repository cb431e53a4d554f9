//! Who may block until something is done, and how threads outside the lanes do it.
//!
//! A thread outside the lanes may. A lane may while it has no pollers, runs a task (and not a hook or a pass), and another compute lane is
//! left that does not block: somebody must be able to run what is waited for. Whoever may not gets an error at once.

use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Context, Poll, Wake, Waker};

use super::current::{self, Doing, LaneCx};
use crate::placement::Role;
use crate::sync::Futex;
use crate::task::{JoinError, JoinHandle};

/// Counts the compute lanes that block.
#[derive(Debug)]
pub(crate) struct Blocking {
    blocked: AtomicUsize,
    /// Lanes planned for tasks.
    lanes: usize,
}

/// Holding one means: the calling thread may block. Dropping it says that it does not any more.
#[derive(Debug)]
#[must_use]
pub(crate) struct Permit {
    /// The lane that blocks by it, which is the calling thread. `None`: no lane, or one that blocks already.
    lane: Option<Rc<LaneCx>>,
}

impl Blocking {
    pub(crate) fn new(lanes: usize) -> Self {
        Self { blocked: AtomicUsize::new(0), lanes }
    }

    /// One more blocks, if one is left that does not.
    fn count(&self) -> bool {
        // Relaxed: only the number itself matters, and the update is one step.
        self.blocked.fetch_update(Relaxed, Relaxed, |blocked| (blocked + 1 < self.lanes).then_some(blocked + 1)).is_ok()
    }

    /// Whether at least one compute lane does not block.
    fn one_is_free(&self) -> bool {
        // Relaxed: as above; a lane that is not counted itself takes the risk that it changes meanwhile only as far as the others do.
        self.blocked.load(Relaxed) < self.lanes
    }
}

/// Asks for leave to block on the calling thread.
pub(crate) fn permit() -> Option<Permit> {
    current::with_rc(|lane| {
        let Some(lane) = lane else { return Some(Permit { lane: None }) };
        if lane.doing.get() != Doing::Task || lane.has_pollers.get() && lane.role() == Role::Poll {
            return None;
        }
        let shared = &lane.shared;
        let blocked = &shared.lane(lane.lane).blocked;
        // Relaxed: this thread wrote it last. A lane that blocks within a future that it drives while it blocks is one lane that blocks.
        if blocked.load(Relaxed) {
            return Some(Permit { lane: None });
        }
        let granted = match lane.role() {
            Role::Poll => shared.blocking.one_is_free(),
            Role::Compute | Role::Shared => shared.blocking.count(),
        };
        if !granted {
            return None;
        }
        // Relaxed: a hint for those who look for a lane for a poller.
        blocked.store(true, Relaxed);
        if shared.work_waits() {
            // This lane will not look at the queues for a while: somebody else should.
            shared.notify(Some(lane.lane));
        }
        Some(Permit { lane: Some(Rc::clone(lane)) })
    })
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(lane) = &self.lane else { return };
        // Relaxed: see `permit`.
        lane.shared.lane(lane.lane).blocked.store(false, Relaxed);
        if lane.role() != Role::Poll {
            // Relaxed: see `count`.
            lane.shared.blocking.blocked.fetch_sub(1, Relaxed);
        }
    }
}

/// A parker of one call: wakes that come after the call find nobody and do nothing. std's park token is not touched.
#[derive(Debug)]
struct Parker(Futex);

const WAITING: u32 = 0;
const WOKEN: u32 = 1;

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Release: what the waker did is seen by the poll that follows. Partner: the Acquire swap in `drive`.
        if self.0.swap(WOKEN, Release) == WAITING {
            self.0.wake_one();
        }
    }
}

/// Polls `future` on the calling thread until it is ready, blocking between polls. The caller holds a permit.
pub(crate) fn drive<F: Future>(_permit: &Permit, future: F) -> F::Output {
    let parker = Arc::new(Parker(Futex::new(WAITING)));
    let waker = Waker::from(Arc::clone(&parker));
    let mut cx = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
        // Acquire: partner is the Release swap in `wake_by_ref`.
        while parker.0.swap(WAITING, Acquire) == WAITING {
            parker.0.wait(WAITING, None);
        }
    }
}

/// Whether the calling thread is a lane that may run a task right here: inside a task, on any lane without pollers of its own to serve.
pub(crate) fn may_run_inline() -> bool {
    current::with(|lane| {
        lane.is_some_and(|lane| {
            lane.doing.get() == Doing::Task && !(lane.has_pollers.get() && lane.role() == Role::Poll)
        })
    })
}

/// Whether the calling thread may be kept for a while by something that no lane has a part in: outside of the lanes, and in tasks, which keep their lane as long as they
/// like. Not in a pass or a hook.
pub(crate) fn may_be_kept() -> bool {
    current::with(|lane| lane.is_none_or(|lane| lane.doing.get() == Doing::Task))
}

/// Waits for `handle` if the calling thread may; else takes what is there now, or gives the handle back.
pub(crate) fn drive_or_poll_once<T>(mut handle: JoinHandle<T>) -> Result<Result<T, JoinError>, JoinHandle<T>> {
    // What is there already needs no permit: this is how the last compute lane gets the output of a task that it ran itself.
    if let Poll::Ready(result) = handle.poll_join(Waker::noop()) {
        return Ok(result);
    }
    match permit() {
        Some(permit) => Ok(drive(&permit, handle)),
        None => Err(handle),
    }
}
