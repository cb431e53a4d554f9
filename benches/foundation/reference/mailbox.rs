//! A closure from one cpu to another, by hand: boxed with the function that runs it, through one atomic pointer.
//!
//! One allocation a closure, one line that changes hands, no queue: the receiver takes each before the next is sent. The receiver
//! spins with PAUSE, as everybody does who may share a core with the sender.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

/// Room for one closure, on a line of its own (two, since lines are fetched in pairs).
#[repr(align(128))]
pub struct Mailbox(AtomicPtr<Head>);

/// What a boxed closure starts with. A pointer to it is a pointer to the whole box.
#[repr(C)]
struct Head {
    run: unsafe fn(*mut Head),
}

#[repr(C)]
struct Boxed<F> {
    head: Head,
    closure: F,
}

impl Mailbox {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Boxes `closure` and sends it, once the one before is gone.
    #[inline]
    pub fn send<F: FnOnce() + Send + 'static>(&self, closure: F) {
        let boxed = Box::into_raw(Box::new(Boxed { head: Head { run: run::<F> }, closure }));
        while !self.0.load(Relaxed).is_null() {
            std::hint::spin_loop();
        }
        // Release: publishes the box. Partner: the Acquire swap in `serve`.
        self.0.store(boxed.cast(), Release);
    }

    /// Runs what comes, until `over` is set and nothing is there.
    #[allow(unsafe_code)]
    pub fn serve(&self, over: &AtomicBool) {
        loop {
            if self.0.load(Relaxed).is_null() {
                if over.load(Relaxed) {
                    return;
                }
                std::hint::spin_loop();
                continue;
            }
            let boxed = self.0.swap(ptr::null_mut(), Acquire);
            // SAFETY: not null, because only this thread empties the mailbox; made by `send`, and taken out once.
            unsafe { ((*boxed).run)(boxed) };
        }
    }
}

/// # Safety
/// `head` is that of a `Boxed<F>` from `Box::into_raw`, and is not used again.
#[allow(unsafe_code)]
unsafe fn run<F: FnOnce()>(head: *mut Head) {
    // SAFETY: says the caller; `repr(C)` puts the head first.
    let boxed = unsafe { Box::from_raw(head.cast::<Boxed<F>>()) };
    (boxed.closure)();
}

/// The least that a message from one cpu to another can take: a stamp in a word that the other side watches.
#[repr(align(128))]
pub struct Flag(AtomicU64);

impl Flag {
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline]
    pub fn raise(&self, stamp: u64) {
        // Relaxed: the stamp is all there is to see.
        self.0.store(stamp, Relaxed);
    }

    /// Calls `seen` with each stamp that is raised, until `over`.
    pub fn watch(&self, over: &AtomicBool, mut seen: impl FnMut(u64)) {
        let mut last = self.0.load(Relaxed);
        while !over.load(Relaxed) {
            let now = self.0.load(Relaxed);
            if now == last {
                std::hint::spin_loop();
            } else {
                seen(now);
                last = now;
            }
        }
    }
}
