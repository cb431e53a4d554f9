//! Two ways to wake a blocked thread, with nothing around them: a futex, and an eventfd in an epoll set.
//!
//! Both waiters note how long after the wake was sent they ran, and block again at once.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::thread::futex;

use crate::common::ticks;

/// When a wake was sent, and how long it took: what the waker and the woken tell each other.
#[repr(align(128))]
pub struct Note {
    sent: AtomicU64,
    took: AtomicU64,
}

impl Note {
    pub const fn new() -> Self {
        Self { sent: AtomicU64::new(0), took: AtomicU64::new(0) }
    }

    /// The waker, just before it wakes.
    #[inline]
    pub fn send(&self) {
        self.took.store(0, Relaxed);
        // Release: the woken that sees this stamp writes its own time after ours. Partner: the Acquire swap in `arrived`.
        self.sent.store(ticks::now(), Release);
    }

    /// The woken, as soon as it runs. `false`: nothing was sent.
    #[inline]
    pub fn arrived(&self) -> bool {
        if self.sent.load(Relaxed) == 0 {
            return false;
        }
        let now = ticks::now();
        let sent = self.sent.swap(0, Acquire);
        // Relaxed: one word, and nothing else is read on the strength of it.
        self.took.store(now.saturating_sub(sent).max(1), Relaxed);
        true
    }

    /// What the last wake took in nanoseconds, if the woken has run.
    pub fn took_ns(&self) -> Option<f64> {
        match self.took.load(Relaxed) {
            0 => None,
            ticks => Some(ticks as f64 * ticks::ns_per_tick()),
        }
    }
}

/// A thread that blocks, and whoever wakes it.
pub trait Waiter: Send + Sync + 'static {
    fn note(&self) -> &Note;
    fn wake(&self);
    /// Blocks until woken, again and again.
    fn serve(&self);
    fn end(&self);
}

/// A thread blocked on a word.
pub struct FutexWaiter {
    word: AtomicU32,
    over: AtomicBool,
    note: Note,
}

impl FutexWaiter {
    pub fn new() -> Self {
        Self { word: AtomicU32::new(0), over: AtomicBool::new(false), note: Note::new() }
    }
}

impl Waiter for FutexWaiter {
    fn note(&self) -> &Note {
        &self.note
    }

    fn wake(&self) {
        // Release: publishes the stamp. Partner: the Acquire load in `serve`.
        self.word.fetch_add(1, Release);
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1); // fails only for words that are not mapped
    }

    fn serve(&self) {
        let mut seen = self.word.load(Acquire);
        while !self.over.load(Relaxed) {
            // Every error means: look again.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, seen, None);
            self.note.arrived();
            seen = self.word.load(Acquire);
        }
    }

    fn end(&self) {
        self.over.store(true, Relaxed);
        self.wake();
    }
}

/// A thread blocked in epoll, with an eventfd to wake it.
pub struct EpollWaiter {
    bell: OwnedFd,
    set: OwnedFd,
    over: AtomicBool,
    note: Note,
}

impl EpollWaiter {
    pub fn new() -> Result<Self, String> {
        let said = |error: rustix::io::Errno| format!("eventfd and epoll: {error}");
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(said)?;
        let set = epoll::create(CreateFlags::CLOEXEC).map_err(said)?;
        // Edge-triggered: the leanest there is, since the counter never has to be read.
        epoll::add(&set, &bell, EventData::new_u64(0), EventFlags::IN | EventFlags::ET).map_err(said)?;
        Ok(Self { bell, set, over: AtomicBool::new(false), note: Note::new() })
    }
}

impl Waiter for EpollWaiter {
    fn note(&self) -> &Note {
        &self.note
    }

    fn wake(&self) {
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes()); // fails only when 2^64 wakes are unread
    }

    fn serve(&self) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 1];
        while !self.over.load(Relaxed) {
            // EINTR means: look again.
            let _ = epoll::wait(&self.set, &mut events, None);
            self.note.arrived();
        }
    }

    fn end(&self) {
        self.over.store(true, Relaxed);
        self.wake();
    }
}
