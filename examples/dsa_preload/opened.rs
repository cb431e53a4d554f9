//! Which queues has this process open? A queue that was opened lives as long as descriptors or mappings of its node do, as a file of the kernel's.
//!
//! All who have a shared queue open are one client of the device, as in the kernel: they have one address space.

use std::cell::Cell;
use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use twolane::sim::dsa::ModelPortal;
use twolane::sim::trap::{Trap, TrappedPortal};

use crate::descriptors::{self, Is};
use crate::world;

/// A way into the model.
pub enum Queue {
    /// By instructions to what is mapped from the node, and by `write`.
    Trapped(TrappedPortal),
    /// By `write` alone: the kernel lets this program map nothing.
    Written(ModelPortal),
}

impl Queue {
    /// Puts a queue that was opened behind its node.
    pub fn new(trap: Trap, portal: ModelPortal, node: &std::path::Path) -> io::Result<Self> {
        if !portal.device().config().kernel.may_map {
            return Ok(Self::Written(portal));
        }
        // Opens and maps the node itself.
        let _quiet = Quiet::begin();
        trap.node(portal, node).map(Self::Trapped)
    }

    pub fn portal(&self) -> &ModelPortal {
        match self {
            Self::Trapped(portal) => portal.queue(),
            Self::Written(portal) => portal,
        }
    }

    /// Waits until nothing is in flight, as the kernel does when it releases a queue.
    fn drain(&self) {
        /// The kernel waits for ever; a model that was told never to complete something would hang the program's exit.
        const DRAIN_MAX: Duration = Duration::from_secs(2);
        let until = Instant::now() + DRAIN_MAX;
        let (device, queue) = (self.portal().device(), self.portal().queue());
        while (device.occupancy(queue) > 0 || device.in_flight() > 0) && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

/// While one lives, this thread's calls are the library's own, and go to libc.
pub struct Quiet(bool);

thread_local! {
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

impl Quiet {
    pub fn begin() -> Self {
        Self(IS_QUIET.replace(true))
    }

    pub fn is_on() -> bool {
        IS_QUIET.get()
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(self.0);
    }
}

struct Opened {
    queue: Arc<Queue>,
    /// Descriptors and mappings.
    holders: u32,
}

/// By the number of the node in the world.
static OPENED: Mutex<Vec<Option<Opened>>> = Mutex::new(Vec::new());

/// Enters a descriptor of a node; opens its queue if it is the first one. `Err`: an errno.
pub fn enter(fd: c_int, node: usize, open: impl FnOnce() -> io::Result<Queue>) -> Result<(), c_int> {
    let mut opened = OPENED.lock();
    if opened.len() <= node {
        opened.resize_with(node + 1, || None);
    }
    if !descriptors::enter(fd, node) {
        return Err(libc::EMFILE);
    }
    match &mut opened[node] {
        Some(held) => held.holders += 1,
        empty => match open() {
            Ok(queue) => *empty = Some(Opened { queue: Arc::new(queue), holders: 1 }),
            Err(error) => {
                descriptors::forget(fd);
                return Err(match error.raw_os_error() {
                    Some(errno) => errno,
                    // Still about to be closed by another thread, which is in the middle of a `write`.
                    None if error.kind() == io::ErrorKind::AlreadyExists => libc::EBUSY,
                    None => {
                        crate::complain::line(&error.to_string());
                        libc::EIO
                    }
                });
            }
        },
    }
    Ok(())
}

/// The queue behind a descriptor of the program's. `None`: it is none; pass the call on. `Some(Err)`: an errno.
pub fn behind(fd: c_int) -> Option<Result<Arc<Queue>, c_int>> {
    let is = descriptors::get(fd)?;
    if Quiet::is_on() {
        return None;
    }
    let Is::Queue(node) = is else { return Some(Err(libc::EPERM)) };
    let Some(world) = world::get().filter(|world| world.pid == std::process::id()) else {
        return Some(Err(libc::EPERM));
    };
    if world.node(fd) != Some(node) {
        // Closed behind our back, and the number given to another file.
        closed(fd);
        return None;
    }
    let opened = OPENED.lock();
    opened.get(node)?.as_ref().map(|opened| Ok(Arc::clone(&opened.queue)))
}

/// A descriptor was closed, or is about to be.
pub fn closed(fd: c_int) {
    let Some(is) = descriptors::get(fd) else { return };
    // A child that shares our memory closes its own copy (vfork): the table is still right for us.
    if is != Is::Foreign && world::get().is_none_or(|world| world.pid != std::process::id()) {
        return;
    }
    descriptors::forget(fd);
    if let Is::Queue(node) = is {
        release(node);
    }
}

/// A descriptor was duplicated: the new one is a queue, or not, as the old one is.
pub fn duplicated(from: c_int, to: c_int) {
    if let Some(node) = (from != to).then(|| hold_by(from)).flatten() {
        if !descriptors::enter(to, node) {
            release(node);
        }
    }
}

/// Somebody begins to hold a descriptor's queue. The node, to be [`release`]d.
pub fn hold_by(fd: c_int) -> Option<usize> {
    let Some(Is::Queue(node)) = descriptors::get(fd) else { return None };
    let mut opened = OPENED.lock();
    opened.get_mut(node)?.as_mut()?.holders += 1;
    Some(node)
}

/// A holder is gone; the last one closes the queue, which waits for what is in flight.
pub fn release(node: usize) {
    let mut opened = OPENED.lock();
    let Some(entry) = opened.get_mut(node) else { return };
    let Some(held) = entry.as_mut() else { return };
    held.holders -= 1;
    if held.holders == 0 {
        // Under the lock: who opens it again waits until it is closed.
        if let Some(last) = entry.take() {
            last.queue.drain();
        }
    }
}

/// Around `fork`.
pub fn freeze() {
    std::mem::forget(OPENED.lock());
}

pub fn thaw() {
    // SAFETY: taken in `freeze`, by this thread.
    unsafe { OPENED.force_unlock() };
}

/// In a child, after `freeze`: what was open is the parent's, and its models are not to be touched.
pub fn disown() {
    // SAFETY: taken in `freeze`, by the thread of which this one is the copy; a child has no other.
    unsafe {
        std::mem::forget(std::mem::take(&mut *OPENED.data_ptr()));
        OPENED.force_unlock();
    }
}
