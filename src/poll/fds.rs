//! The descriptors that can wake a lane from a park: its pollers' and its own eventfd, in one epoll set.
//!
//! Descriptors enter at adoption, level-triggered: arming and disarming a poller costs no system call here, and a descriptor that is
//! ready already ends the park at once. The eventfd is edge-triggered: a ring ends the wait and never has to be read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};

/// What one wait reports at most. Which descriptors are ready does not matter: every poller is called after a park.
const EVENTS_MAX: usize = 8;
/// epoll counts milliseconds.
pub(crate) const GRAIN: Duration = Duration::from_millis(1);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Fds {
    epoll: OwnedFd,
}

/// A new eventfd for ringers to write to.
pub(crate) fn new_bell() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Ends a wait on the set that has this eventfd.
pub(crate) fn ring(bell: impl AsFd) {
    // The only failure is a counter that is full (2^64 rings unread): then the set has an edge pending anyway.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}

impl Fds {
    pub(crate) fn new(bell: BorrowedFd<'_>) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, bell, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?;
        Ok(Self { epoll })
    }

    pub(crate) fn add(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(1), EventFlags::IN)?)
    }

    /// Must happen before the descriptor is closed: a duplicate elsewhere would keep the registration alive, and nobody could remove it.
    pub(crate) fn remove(&self, fd: BorrowedFd<'_>) {
        // The only failures say that it is not there.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Waits for any of them, at most `timeout`, whose part below a millisecond is left to the caller. May return for no reason.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.map(|t| {
            let whole = Duration::from_millis(t.as_millis().try_into().unwrap_or(u64::MAX));
            Timespec { tv_sec: whole.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: whole.subsec_nanos().into() }
        });
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; EVENTS_MAX];
        // EINTR is a wake like any other; nothing else can happen to a set and a buffer that we own.
        let _ = epoll::wait(&self.epoll, &mut events, timeout.as_ref());
    }
}
