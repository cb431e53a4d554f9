//! What the loom models (`tests/loom_task.rs`) need to see of tasks: the real thing, behind public names.

use std::collections::VecDeque;
use std::future::Future;

use super::{JoinHandle, Ran, Registry, Schedule};
use crate::sync::{Arc, Mutex};

/// A task in a queue.
#[derive(Debug)]
pub struct Runnable(pub(crate) super::Runnable);

/// The right to run a task inline.
#[derive(Debug)]
pub struct Claimed(super::Claimed);

/// A queue of futures that is run by hand. Each future owns one of these; `token` goes when its allocation is freed.
#[derive(Clone, Debug)]
pub struct Lane<K> {
    inner: Arc<Inner>,
    token: K,
}

#[derive(Debug)]
struct Inner {
    queue: Mutex<VecDeque<super::Runnable>>,
    registry: Registry,
}

impl<K: Clone + Send + Sync + 'static> Lane<K> {
    /// An empty queue.
    pub fn new(token: K) -> Self {
        Self { inner: Arc::new(Inner { queue: Mutex::new(VecDeque::new()), registry: Registry::new(1) }), token }
    }

    /// Queues a new future.
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let (runnable, handle) = super::future(future, self.clone()).ok().expect("no model spawns after a close");
        self.schedule(runnable);
        handle
    }

    /// Runs what is queued first; whether there was something.
    pub fn run(&self) -> bool {
        let first = self.inner.queue.lock().pop_front();
        first.map(super::Runnable::run).is_some()
    }

    /// Runs all that is queued; how many times that was a piece of work, not a stale runnable.
    pub fn drain(&self) -> usize {
        let mut pieces = 0;
        loop {
            let first = self.inner.queue.lock().pop_front();
            let Some(runnable) = first else { return pieces };
            pieces += usize::from(runnable.run() != Ran::Stale);
        }
    }

    /// Closes the registry and aborts what is on it.
    pub fn cancel_all(&self) {
        self.inner.registry.close();
        self.inner.registry.cancel_all();
    }

    /// Whether all futures are gone.
    pub fn is_empty(&self) -> bool {
        self.inner.registry.is_empty()
    }
}

impl<K: Clone + Send + Sync + 'static> Schedule for Lane<K> {
    fn schedule(&self, runnable: super::Runnable) {
        self.inner.queue.lock().push_back(runnable);
    }

    fn registry(&self) -> &Registry {
        &self.inner.registry
    }
}

impl Runnable {
    /// Runs it; whether that was a piece of work, not a stale runnable.
    pub fn run(self) -> bool {
        self.0.run() != Ran::Stale
    }
}

impl Claimed {
    /// Runs it.
    pub fn run(self) {
        let _ = self.0.run();
    }
}

/// A closure that is not queued yet.
pub fn closure<F, T>(closure: F) -> (Runnable, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (runnable, handle) = super::closure(closure);
    (Runnable(runnable), handle)
}

/// [`JoinHandle::claim`].
pub fn claim<T>(handle: &JoinHandle<T>) -> Option<Claimed> {
    handle.claim().map(Claimed)
}
