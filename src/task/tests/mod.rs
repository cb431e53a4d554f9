//! Stories of tasks on a lane that is cranked by hand, with polls, drops, wakes and schedules counted exactly.

mod abort;
mod claim;
mod closure;
mod future;
mod join;
mod panics;
mod registry;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use super::{JoinError, JoinHandle, Ran, Registry, Runnable, Schedule};

/// A queue, run by hand.
#[derive(Clone)]
struct Lane(Arc<Inner>);

struct Inner {
    queue: Mutex<VecDeque<Runnable>>,
    registry: Registry,
    trace: Trace,
}

/// What happened, in order.
#[derive(Clone, Default)]
struct Trace(Arc<Mutex<Vec<&'static str>>>);

/// Tells the trace when it is dropped.
struct Probe(Trace, &'static str);

/// Panics when it is dropped, after telling the trace.
struct Bomb(Trace, &'static str);

/// A waker that counts.
#[derive(Default)]
struct Count(AtomicUsize);

impl Lane {
    fn new() -> Self {
        Self(Arc::new(Inner { queue: Mutex::default(), registry: Registry::new(2), trace: Trace::default() }))
    }

    /// A future in the queue.
    fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let (runnable, handle) = super::future(future, self.clone()).ok().expect("the registry is open");
        self.push(runnable);
        handle
    }

    /// A future that tells the trace "poll" and "drop", leaves its waker with the waiter, and is ready with 7 when told so.
    fn spawn_waiter(&self) -> (JoinHandle<i32>, Arc<Mutex<Waiter>>) {
        let shared = Arc::new(Mutex::new(Waiter::default()));
        let (probe, ours) = (self.trace().probe("drop"), shared.clone());
        let handle = self.spawn(poll_fn(move |cx: &mut Context<'_>| {
            probe.0.add("poll");
            let mut waiter = ours.lock().unwrap();
            waiter.waker = Some(cx.waker().clone());
            if waiter.ready { Poll::Ready(7) } else { Poll::Pending }
        }));
        (handle, shared)
    }

    fn push(&self, runnable: Runnable) {
        self.0.queue.lock().unwrap().push_back(runnable);
    }

    fn pop(&self) -> Option<Runnable> {
        self.0.queue.lock().unwrap().pop_front()
    }

    /// Runs what is queued first, if there is something.
    fn run(&self) -> Option<Ran> {
        self.pop().map(Runnable::run)
    }

    fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// Ends futures that wait, some of which own their wakers, as a shutdown does: nothing may be left.
    #[track_caller]
    fn shut_down<H, W>(&self, handles: H, waiters: W) {
        drop((handles, waiters));
        self.0.registry.close();
        self.0.registry.cancel_all();
        while self.run().is_some() {}
        self.assert_alone();
    }

    /// All tasks are freed: none keeps the lane any more.
    #[track_caller]
    fn assert_alone(&self) {
        assert!(self.pop().is_none(), "the queue is empty");
        assert_eq!(Arc::strong_count(&self.0), 1, "references of tasks to their lane");
        assert!(self.0.registry.is_empty());
    }
}

#[derive(Default)]
struct Waiter {
    ready: bool,
    waker: Option<Waker>,
}

impl Waiter {
    /// Takes the waker that the future left.
    fn waker(this: &Mutex<Self>) -> Waker {
        this.lock().unwrap().waker.take().expect("the future was polled")
    }

    /// Lets the future be ready at its next poll, and wakes it.
    fn finish(this: &Mutex<Self>) {
        this.lock().unwrap().ready = true;
        Self::waker(this).wake();
    }
}

impl Schedule for Lane {
    fn schedule(&self, runnable: Runnable) {
        self.trace().add("schedule");
        self.push(runnable);
    }
    fn reschedule(&self, runnable: Runnable) {
        self.trace().add("reschedule");
        self.push(runnable);
    }
    fn registry(&self) -> &Registry {
        &self.0.registry
    }
}

impl Trace {
    fn add(&self, what: &'static str) {
        self.0.lock().unwrap().push(what);
    }

    /// What happened since the last call.
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn probe(&self, what: &'static str) -> Probe {
        Probe(self.clone(), what)
    }

    fn bomb(&self, what: &'static str) -> Bomb {
        Bomb(self.clone(), what)
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.add(self.1);
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.add(self.1);
        panic!("{} (a test wants this panic)", self.1);
    }
}

impl Count {
    fn waker() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self::default());
        (count.clone(), count.into())
    }

    fn wakes(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Asks the handle without waiting.
fn poll<T>(handle: &mut JoinHandle<T>) -> Poll<Result<T, JoinError>> {
    handle.poll_join(Waker::noop())
}

/// The result of a task that has ended.
#[track_caller]
fn ready<T>(handle: &mut JoinHandle<T>) -> Result<T, JoinError> {
    match poll(handle) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("the task has not ended"),
    }
}

/// The task has ended without an output, and its handle knows.
#[track_caller]
fn assert_cancelled<T>(handle: &mut JoinHandle<T>) {
    assert!(ready(handle).err().expect("no output").is_cancelled());
}
