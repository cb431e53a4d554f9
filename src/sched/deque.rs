//! The queues that tasks wait in: a lane's own deque, and an injector per cache domain. The only file that knows crossbeam-deque.
//!
//! crossbeam-deque is invisible to loom, so the models put a queue of their own under the protocols; its own guarantees (each item taken
//! once, `is_empty` true only if it was empty at some moment of the call) are what the rest of `sched` builds on.

use std::fmt;

use crossbeam_deque::{Injector as Global, Steal, Stealer as CrossbeamStealer, Worker};

use crate::task::Runnable;

/// Attempts at one queue while others keep winning the race for it. Each lost race means that somebody else got a task, so giving up
/// costs this lane one look, not the task.
const RETRIES_MAX: u32 = 8;

/// A lane's own deque, first in first out. Only its lane pushes and pops.
pub(crate) struct Own(Worker<Runnable>);

/// The thieves' end of a lane's deque.
pub(crate) struct Stealer(CrossbeamStealer<Runnable>);

/// A queue that everybody pushes to.
pub(crate) struct Injector(Global<Runnable>);

impl Own {
    pub(crate) fn new() -> (Self, Stealer) {
        let worker = Worker::new_fifo();
        let stealer = worker.stealer();
        (Self(worker), Stealer(stealer))
    }

    pub(crate) fn push(&self, task: Runnable) {
        self.0.push(task);
    }

    pub(crate) fn pop(&self) -> Option<Runnable> {
        self.0.pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Stealer {
    /// Takes about half of the tasks: one to run, the others into `own`.
    pub(crate) fn steal_into(&self, own: &Own) -> Option<Runnable> {
        retry(|| self.0.steal_batch_and_pop(&own.0))
    }

    pub(crate) fn steal_one(&self) -> Option<Runnable> {
        retry(|| self.0.steal())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Injector {
    pub(crate) fn new() -> Self {
        Self(Global::new())
    }

    pub(crate) fn push(&self, task: Runnable) {
        self.0.push(task);
    }

    /// Takes a batch: one to run, the others into `own`.
    pub(crate) fn steal_into(&self, own: &Own) -> Option<Runnable> {
        retry(|| self.0.steal_batch_and_pop(&own.0))
    }

    pub(crate) fn steal_one(&self) -> Option<Runnable> {
        retry(|| self.0.steal())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

fn retry(mut steal: impl FnMut() -> Steal<Runnable>) -> Option<Runnable> {
    for _ in 0..RETRIES_MAX {
        match steal() {
            Steal::Success(task) => return Some(task),
            Steal::Empty => return None,
            Steal::Retry => {}
        }
    }
    None
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Own({})", self.len())
    }
}

impl fmt::Debug for Stealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stealer({})", self.len())
    }
}

impl fmt::Debug for Injector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Injector({})", self.len())
    }
}
