//! The queues that tasks wait in: a lane's own deque, and an injector per cache domain. The only file that knows crossbeam-deque.
//!
//! crossbeam-deque is invisible to loom, so the models put a queue of their own under the protocols; its own guarantees (each item taken
//! once, `is_empty` true only if it was empty at some moment of the call) are what the rest of `sched` builds on.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crossbeam_deque::{Injector as Global, Steal, Stealer as CrossbeamStealer, Worker};
use crossbeam_utils::CachePadded;

use crate::task::Runnable;

/// Attempts at one queue while others keep winning the race for it. Each lost race means that somebody else got a task, so giving up
/// costs this lane one look, not the task.
const RETRIES_MAX: u32 = 8;

/// A lane's own deque, first in first out. Only its lane pushes and pops.
pub(crate) struct Own {
    deque: Worker<Runnable>,
    used: Used,
}

/// The thieves' end of a lane's deque.
pub(crate) struct Stealer {
    deque: CrossbeamStealer<Runnable>,
    used: Used,
}

/// Set before anything comes into the deque, cleared when its owner finds it empty: while it is clear the deque *is* empty. A look at it costs
/// nothing; a look at a crossbeam deque costs a fence, and everybody who comes to rest looks at everybody's.
///
/// Whoever looks brings the fence of the protocol along (*SleepFence*, *RecheckFence*), and whoever pushes follows up with *PostFence*. Since the
/// flag is set before the push, it is seen whenever the push would be.
#[derive(Clone)]
struct Used(Arc<CachePadded<AtomicBool>>);

/// A queue that everybody pushes to.
pub(crate) struct Injector(Global<Runnable>);

impl Own {
    pub(crate) fn new() -> (Self, Stealer) {
        let deque = Worker::new_fifo();
        let used = Used(Arc::new(CachePadded::new(AtomicBool::new(false))));
        let stealer = Stealer { deque: deque.stealer(), used: used.clone() };
        (Self { deque, used }, stealer)
    }

    pub(crate) fn push(&self, task: Runnable) {
        self.used.set(true);
        self.deque.push(task);
    }

    pub(crate) fn pop(&self) -> Option<Runnable> {
        if !self.used.get() {
            return None;
        }
        let task = self.deque.pop();
        if task.is_none() {
            self.used.set(false);
        }
        task
    }

    /// Whether nothing waits here. For the owner, who alone can change that from yes to no.
    pub(crate) fn is_empty(&self) -> bool {
        if !self.used.get() {
            return true;
        }
        let empty = self.deque.is_empty();
        if empty {
            self.used.set(false);
        }
        empty
    }

    pub(crate) fn len(&self) -> usize {
        self.deque.len()
    }
}

impl Stealer {
    /// Takes about half of the tasks: one to run, the others into `own`.
    pub(crate) fn steal_into(&self, own: &Own) -> Option<Runnable> {
        if self.is_empty() {
            return None;
        }
        own.used.set(true);
        retry(|| self.deque.steal_batch_and_pop(&own.deque))
    }

    pub(crate) fn steal_one(&self) -> Option<Runnable> {
        retry(|| self.deque.steal())
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.used.get() || self.deque.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.deque.len()
    }
}

impl Used {
    /// For the owner of the deque.
    fn set(&self, used: bool) {
        // Relaxed: see the type. Compared first, so that the line stays with those who look.
        if self.0.load(Relaxed) != used {
            self.0.store(used, Relaxed);
        }
    }

    fn get(&self) -> bool {
        // Relaxed: see the type.
        self.0.load(Relaxed)
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
        if self.is_empty() {
            return None;
        }
        own.used.set(true);
        retry(|| self.0.steal_batch_and_pop(&own.deque))
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
