//! Which lane, if any, is the calling thread, and what is it doing?
//!
//! Code that is reached inside a pass or a task through a waker, a `Handle` or a `JoinHandle` meets its lane here: by `&` and cells, never
//! by `&mut`, since the lane's own loop is further up the same stack.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use super::deque::Own;
use super::shared::Shared;
use crate::RejectedBecause;
use crate::placement::Role;
use crate::poll::{Doorbell, Ports};
use crate::task::{Runnable, Scheduler};
use crate::wait::clock::Ticks;

thread_local! {
    static CURRENT: RefCell<Option<Rc<LaneCx>>> = const { RefCell::new(None) };
}

/// What the lane is doing, as far as it matters to code below it on the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// Its own bookkeeping.
    Lane,
    /// Calling pollers, or building and dropping them.
    Pass,
    /// Running a task.
    Task,
    /// Calling a hook.
    Hook,
}

/// The part of a lane that code on its thread can reach.
#[derive(Debug)]
pub(crate) struct LaneCx {
    pub shared: Arc<Shared>,
    pub lane: usize,
    pub queue: Own,
    pub doing: Cell<Doing>,
    /// The lane has pollers: it must not block.
    pub has_pollers: Cell<bool>,
    /// A task was handed off during this pass: wake somebody when it is over.
    pub wake_after_pass: Cell<bool>,
    /// The clock at the beginning of the pass.
    pub pass_start: Cell<Ticks>,
}

/// Calls `f` with the lane that the calling thread is, if it is one.
pub(crate) fn with<R>(f: impl FnOnce(Option<&LaneCx>) -> R) -> R {
    with_rc(|lane| f(lane.map(|lane| &**lane)))
}

/// As [`with`], for those that keep the lane on its thread.
pub(crate) fn with_rc<R>(f: impl FnOnce(Option<&Rc<LaneCx>>) -> R) -> R {
    let mut f = Some(f);
    let mut call = |lane: Option<&Rc<LaneCx>>| f.take().map(|f| f(lane));
    // While the thread's locals are being destroyed, or the lane is entering or leaving, it is a thread like any other.
    let result = CURRENT.try_with(|current| match current.try_borrow() {
        Ok(current) => call(current.as_ref()),
        Err(_) => call(None),
    });
    match result {
        Ok(Some(result)) => result,
        _ => call(None).expect("`call` runs once: `try_with` did not reach it"),
    }
}

/// Calls `f` with the lane that the calling thread is, if it is a lane of `shared`.
pub(crate) fn with_lane_of<R>(shared: &Shared, f: impl FnOnce(Option<&LaneCx>) -> R) -> R {
    with(|lane| f(lane.filter(|lane| std::ptr::eq(&*lane.shared, shared))))
}

/// Makes the calling thread a lane until the guard is dropped.
#[must_use]
pub(crate) fn enter(lane: Rc<LaneCx>) -> Entered {
    CURRENT.with(|current| *current.borrow_mut() = Some(lane));
    Entered(())
}

/// See [`enter`].
#[derive(Debug)]
pub(crate) struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        let lane = CURRENT.try_with(|current| current.borrow_mut().take());
        drop(lane); // outside the borrow: may be the last reference to the queue
    }
}

impl LaneCx {
    pub(crate) fn new(shared: Arc<Shared>, lane: usize, queue: Own) -> Self {
        Self {
            shared,
            lane,
            queue,
            doing: Cell::new(Doing::Lane),
            has_pollers: Cell::new(false),
            wake_after_pass: Cell::new(false),
            pass_start: Cell::new(Ticks::default()),
        }
    }

    pub(crate) fn role(&self) -> Role {
        self.shared.lane(self.lane).info.plan.role
    }

    /// Does `work` as `doing`, also for whoever asks meanwhile.
    pub(crate) fn while_doing<R>(&self, doing: Doing, work: impl FnOnce() -> R) -> R {
        let before = self.doing.replace(doing);
        let result = work();
        self.doing.set(before);
        result
    }

    /// *Push* and, unless a pass is on, *Notify*: a task that code on this lane made runnable.
    pub(crate) fn push(&self, task: Runnable) {
        let lane = self.shared.lane(self.lane);
        if self.doing.get() == Doing::Pass {
            // The slot holds the oldest task or none, so it is filled only while the deque behind it is empty.
            if lane.slot.is_empty() && self.queue.is_empty() {
                lane.slot.fill(task);
            } else {
                self.queue.push(task);
            }
            self.wake_after_pass.set(true);
        } else {
            self.queue.push(task);
            self.shared.notify(Some(self.lane));
        }
    }
}

impl Ports for LaneCx {
    fn hand_off(&self, task: Runnable) {
        self.shared.lane(self.lane).counters.hand_offs.add(1);
        self.push(task);
    }

    fn accepts(&self) -> Result<(), RejectedBecause> {
        self.shared.accepts(Some(self))
    }

    fn scheduler(&self) -> Scheduler {
        self.shared.clone()
    }

    fn now(&self) -> Duration {
        self.shared.since_start(self.pass_start.get())
    }

    fn doorbell(&self) -> Doorbell {
        self.shared.doorbell(self.lane)
    }
}
