//! What the loom models (`tests/loom_*.rs`) need to see of the protocols: the real things, behind public names.

#![allow(clippy::new_without_default)] // nobody asks for a default of these

use super::{doorbell, phase, sleepers, slot};
use crate::task::JoinHandle;
use crate::task::model::Runnable;

pub use loom_eventfd::Eventfd;

/// [`doorbell::Doorbell`].
#[derive(Debug)]
pub struct Doorbell(doorbell::Doorbell);

/// [`doorbell::Epoch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch(pub(crate) doorbell::Epoch);

/// [`doorbell::ParkIn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkIn {
    /// On the epoch word.
    Futex,
    /// On the eventfd, and whatever else is in the set.
    Epoll,
}

/// [`doorbell::Wake`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wake {
    /// No system call.
    NotNeeded,
    /// One, made already.
    Futex,
    /// One, to be made by the caller.
    Eventfd,
}

/// [`sleepers::Sleepers`].
#[derive(Debug)]
pub struct Sleepers(sleepers::Sleepers);

/// [`sleepers::Searching`].
#[derive(Debug)]
#[must_use]
pub struct Searching(sleepers::Searching);

/// [`sleepers::Asleep`].
#[derive(Debug)]
#[must_use]
pub struct Asleep(sleepers::Asleep);

/// [`slot::Slot`].
#[derive(Debug)]
pub struct Slot(slot::Slot);

/// [`phase::PhaseCell`], as far as its last step.
#[derive(Debug)]
pub struct Phase(phase::PhaseCell);

impl From<doorbell::Wake> for Wake {
    fn from(wake: doorbell::Wake) -> Self {
        match wake {
            doorbell::Wake::NotNeeded => Self::NotNeeded,
            doorbell::Wake::Futex => Self::Futex,
            doorbell::Wake::Eventfd => Self::Eventfd,
        }
    }
}

impl Doorbell {
    pub fn new() -> Self {
        Self(doorbell::Doorbell::new())
    }

    pub fn epoch(&self) -> Epoch {
        Epoch(self.0.epoch())
    }

    pub fn ring(&self) -> Wake {
        self.0.ring(|| ()).into()
    }

    pub fn ring_if_parked(&self) -> Wake {
        self.0.ring_if_parked().into()
    }

    pub fn announce(&self, place: ParkIn) {
        self.0.announce(match place {
            ParkIn::Futex => doorbell::ParkIn::Futex,
            ParkIn::Epoll => doorbell::ParkIn::Epoll,
        });
    }

    pub fn block(&self, seen: Epoch) {
        self.0.block(seen.0, None);
    }

    pub fn retract(&self) {
        self.0.retract();
    }
}

impl Sleepers {
    pub fn new(domains: &[usize]) -> Self {
        Self(sleepers::Sleepers::new(domains))
    }

    pub fn search(&self, lane: usize) -> Option<Searching> {
        self.0.search(lane).map(Searching)
    }

    /// Whether the caller was the last to search.
    #[must_use]
    pub fn found(&self, lane: usize, searching: Searching) -> bool {
        self.0.found(lane, searching.0) == sleepers::Left::Last
    }

    pub fn sleep(&self, lane: usize, searching: Option<Searching>) -> Asleep {
        Asleep(self.0.sleep(lane, searching.map(|it| it.0)))
    }

    pub fn wake_up(&self, lane: usize, asleep: Asleep) -> Searching {
        Searching(self.0.wake_up(lane, asleep.0))
    }

    /// The lane to ring, sleeper or lender.
    #[must_use]
    pub fn notify(&self, near: Option<usize>) -> Option<usize> {
        match self.0.notify(near) {
            sleepers::Notify::SearcherFinds | sleepers::Notify::AllBusy => None,
            sleepers::Notify::Sleeper(lane) | sleepers::Notify::Lender(lane) => Some(lane),
        }
    }

    pub fn lend(&self, lane: usize) {
        self.0.lend(lane);
    }

    #[must_use]
    pub fn unlend(&self, lane: usize) -> bool {
        self.0.unlend(lane)
    }
}

impl Slot {
    pub fn new() -> Self {
        Self(slot::Slot::new())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Fills it with a task that calls `work`.
    pub fn fill(&self, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        let (task, handle) = crate::task::closure(work);
        self.0.fill(task);
        handle
    }

    pub fn take(&self) -> Option<Runnable> {
        self.0.take().map(Runnable)
    }
}

impl Phase {
    pub fn running() -> Self {
        Self(phase::PhaseCell::new())
    }

    /// *Ending* begins.
    pub fn end(&self) {
        self.0.advance(phase::Phase::Ending);
    }

    pub fn is_ending(&self) -> bool {
        self.0.now() == phase::Phase::Ending
    }
}

/// A stand-in for the one thing that the protocols leave to the kernel and loom does not have.
mod loom_eventfd {
    use loom::sync::{Condvar, Mutex};

    /// An eventfd in an epoll set, edge-triggered, as `poll::fds` has it: a write ends one wait, be it before or after the wait began. Also
    /// stands for the other descriptors of the set: an event of theirs ends a wait all the same.
    #[derive(Debug)]
    pub struct Eventfd {
        edge: Mutex<bool>,
        changed: Condvar,
    }

    impl Eventfd {
        pub fn new() -> Self {
            Self { edge: Mutex::new(false), changed: Condvar::new() }
        }

        pub fn write(&self) {
            *self.edge.lock().unwrap() = true;
            self.changed.notify_one();
        }

        pub fn wait(&self) {
            let mut edge = self.edge.lock().unwrap();
            while !*edge {
                edge = self.changed.wait(edge).unwrap();
            }
            *edge = false;
        }
    }
}
