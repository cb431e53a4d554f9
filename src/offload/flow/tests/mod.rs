//! The flow over a device that does what the test says: one file a behaviour.

mod abandon;
mod batch;
mod cost;
mod direct;
mod double;
mod end;
mod faults;
mod full;
mod lanes;
mod overdue;
mod single;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use double::{Do, Double};

use super::core::Core;
use super::face::Flow;
use super::reaper::{Sweeper, Swept};
use super::submit::{How, Refused};
use super::ticket::{Settled, Ticket};
use super::{Settings, Totals};
use crate::offload::batch::Batching;
use crate::offload::dsa::prepare::Manner;
use crate::offload::dsa::queue::QueueId;
use crate::offload::{Operation, Verdict};

/// A flow over one queue of a [`Double`], whose time the test turns by hand.
struct Scene {
    device: Double,
    flow: Flow,
    queue: QueueId,
    rings: Arc<AtomicUsize>,
    /// Nanoseconds.
    now: u64,
}

/// How long an operation has in these tests.
const TIMEOUT: Duration = Duration::from_millis(8);

impl Scene {
    fn new() -> Self {
        Self::with(8, 32)
    }

    fn with(batch_max: u32, in_flight_max: u32) -> Self {
        Self::with_timeout(batch_max, in_flight_max, TIMEOUT)
    }

    fn with_timeout(batch_max: u32, in_flight_max: u32, timeout: Duration) -> Self {
        let device = Double::default();
        let (queues, queue) = device.queues(batch_max, in_flight_max);
        let batching = Batching { count: 4, bytes: 1 << 20, age: Duration::from_micros(5) };
        let settings = Settings { lanes: 0, batching, timeout, ..Settings::default() };
        let flow = Flow::new(queues, settings).unwrap();
        Self { device, flow, queue, rings: Arc::default(), now: 0 }
    }

    /// Counts the calls of the reaper.
    fn count_rings(self) -> Self {
        let rings = Arc::clone(&self.rings);
        self.core().set_bell(Box::new(move || _ = rings.fetch_add(1, Relaxed)));
        self
    }

    fn core(&self) -> &Arc<Core> {
        self.flow.core()
    }

    fn how(&self, gather: bool) -> How {
        How { queue: self.queue, manner: Manner::default(), gather }
    }

    /// A copy of `len` bytes, submitted at once.
    fn copy(&self, len: usize) -> Copying {
        self.try_copy(len, false).unwrap()
    }

    /// One that may wait for others.
    fn gather(&self, len: usize) -> Copying {
        self.try_copy(len, true).unwrap()
    }

    fn try_copy(&self, len: usize, gather: bool) -> Result<Copying, Refused> {
        let mut copying = Copying::prepared(len);
        let op = copying.operation();
        // SAFETY: the buffers are in `copying`, which leaks them where it is dropped with an operation outstanding.
        copying.ticket = Some(unsafe { self.flow.submit(&op, self.how(gather), None) }?);
        Ok(copying)
    }

    /// Several, together.
    fn many(&self, count: usize, len: usize) -> Vec<Copying> {
        let mut all: Vec<_> = (0..count).map(|_| Copying::prepared(len)).collect();
        let ops: Vec<_> = all.iter_mut().map(Copying::operation).collect();
        let mut tickets = Vec::new();
        // SAFETY: as in `try_copy`.
        unsafe { self.flow.submit_many(&ops, self.how(false), |ticket| tickets.push(ticket)) }.unwrap();
        for (copying, ticket) in all.iter_mut().zip(tickets) {
            copying.ticket = Some(ticket);
        }
        all
    }

    /// As many of several as there is room for.
    fn try_many(&self, count: usize, len: usize) -> Vec<Copying> {
        let mut all: Vec<_> = (0..count).map(|_| Copying::prepared(len)).collect();
        let ops: Vec<_> = all.iter_mut().map(Copying::operation).collect();
        let mut tickets = Vec::new();
        // SAFETY: as in `try_copy`.
        let _ = unsafe { self.flow.submit_many(&ops, self.how(false), |ticket| tickets.push(ticket)) };
        all.truncate(tickets.len());
        for (copying, ticket) in all.iter_mut().zip(tickets) {
            copying.ticket = Some(ticket);
        }
        all
    }

    /// A pass of the reaper.
    fn sweep(&mut self) -> Swept {
        self.sweep_after(Duration::from_nanos(100))
    }

    /// One after some time.
    fn sweep_after(&mut self, time: Duration) -> Swept {
        self.now += time.as_nanos() as u64;
        let now = self.now;
        self.with_sweeper(|sweeper, core| sweeper.sweep(core, now))
    }

    fn with_sweeper<R>(&self, act: impl FnOnce(&mut Sweeper, &Arc<Core>) -> R) -> R {
        act(self.core().sweeper.lock().as_mut().expect("no reaper has it"), self.core())
    }

    fn totals(&self) -> Totals {
        self.flow.totals()
    }

    /// Credits of the queue that are out.
    fn outstanding(&self) -> u32 {
        self.flow.queues().find(self.queue).unwrap().credits().taken()
    }

    /// Slots that are taken, over all pages.
    fn taken(&self) -> u32 {
        self.core().all_pages().iter().map(|page| page.claims.look().slots().count_ones()).sum()
    }

    /// Everything was given back.
    fn assert_clean(&self) {
        assert_eq!((self.taken(), self.outstanding()), (0, 0), "slots and credits");
    }
}

/// A copy, and its buffers.
struct Copying {
    src: Vec<u8>,
    dst: Vec<u8>,
    ticket: Option<Ticket>,
    woken: Arc<Count>,
    waker: Waker,
}

impl Copying {
    fn prepared(len: usize) -> Self {
        static SEED: AtomicUsize = AtomicUsize::new(1);
        let seed = SEED.fetch_add(1, Relaxed);
        let src = (0..len).map(|at| (at * 31 + seed * 17) as u8 | 1).collect();
        let woken = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&woken));
        Self { src, dst: vec![0; len], ticket: None, woken, waker }
    }

    fn operation(&mut self) -> Operation {
        Operation::Copy { src: self.src.as_ptr(), dst: self.dst.as_mut_ptr(), len: self.src.len() }
    }

    fn poll(&mut self) -> Poll<Settled> {
        let op = self.operation();
        // SAFETY: it is what was submitted, of buffers that are here.
        let polled = unsafe { self.ticket.as_mut().expect("not over").poll(|| op, &self.waker) };
        if polled.is_ready()
            && !matches!(polled, Poll::Ready(Settled::Failed(crate::offload::Failure::Quarantined { .. })))
        {
            self.ticket = None;
        }
        polled
    }

    fn assert_pending(&mut self) {
        assert!(self.poll().is_pending());
    }

    /// It is done, and right.
    fn assert_done(&mut self) {
        match self.poll() {
            Poll::Ready(Settled::Done(Verdict::Done)) => assert_eq!(self.src, self.dst),
            other => panic!("{other:?}"),
        }
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Relaxed)
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let buffers = (std::mem::take(&mut self.src), std::mem::take(&mut self.dst));
            ticket.abandon(|| Box::new(buffers));
        }
    }
}

/// Counts wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}
