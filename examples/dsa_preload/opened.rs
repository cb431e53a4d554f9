//! Who has which queue open? A queue that was opened lives as long as descriptors or mappings of it do, as a file of the kernel's.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use twolane::sim::dsa::ModelPortal;

use crate::descriptors::{self, Is};
use crate::world;

/// A queue that this process opened.
pub struct Opened {
    portal: Arc<ModelPortal>,
    /// Descriptors and mappings.
    holders: u32,
}

static OPENED: Mutex<Vec<Option<Opened>>> = Mutex::new(Vec::new());

/// How long a `close` waits for what is in flight. The kernel waits for ever; a model that was told never to complete something would hang the program's exit.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Enters a queue that was just opened as a descriptor. `Err`: an errno.
pub fn enter(fd: c_int, portal: ModelPortal) -> Result<(), c_int> {
    let mut opened = OPENED.lock();
    let place = opened.iter().position(Option::is_none).unwrap_or_else(|| {
        opened.push(None);
        opened.len() - 1
    });
    if !descriptors::enter(fd, place) {
        return Err(libc::EMFILE);
    }
    opened[place] = Some(Opened { portal: Arc::new(portal), holders: 1 });
    Ok(())
}

/// The queue behind a descriptor of the program's. `None`: it is none; pass the call on. `Some(Err)`: an errno.
pub fn behind(fd: c_int) -> Option<Result<Arc<ModelPortal>, c_int>> {
    let is = descriptors::get(fd)?;
    let Is::Queue(place) = is else { return Some(Err(libc::EPERM)) };
    let Some(world) = world::get().filter(|world| world.pid == std::process::id()) else { return Some(Err(libc::EPERM)) };
    if !world.is_node(fd) {
        // Closed behind our back, and the number given to another file.
        closed(fd);
        return None;
    }
    let opened = OPENED.lock();
    opened.get(place)?.as_ref().map(|opened| Ok(Arc::clone(&opened.portal)))
}

/// A descriptor was closed, or is about to be.
pub fn closed(fd: c_int) {
    let Some(is) = descriptors::get(fd) else { return };
    // A child that shares our memory closes its own copy (vfork): the table is still right for us.
    if is != Is::Foreign && world::get().is_none_or(|world| world.pid != std::process::id()) {
        return;
    }
    descriptors::forget(fd);
    if let Is::Queue(place) = is {
        release(place);
    }
}

/// A descriptor was duplicated: the new one is a queue, or not, as the old one is.
pub fn duplicated(from: c_int, to: c_int) {
    if from == to {
        return;
    }
    match descriptors::get(from) {
        Some(Is::Queue(place)) if hold(place).is_some() => {
            if !descriptors::enter(to, place) {
                release(place);
            }
        }
        _ => {}
    }
}

/// A mapping begins to hold a descriptor's queue. Its place, to be [`release`]d.
pub fn hold_by(fd: c_int) -> Option<usize> {
    let Some(Is::Queue(place)) = descriptors::get(fd) else { return None };
    hold(place).map(|()| place)
}

fn hold(place: usize) -> Option<()> {
    let mut opened = OPENED.lock();
    opened.get_mut(place)?.as_mut()?.holders += 1;
    Some(())
}

/// A holder is gone; the last one closes the queue, which waits for what is in flight.
pub fn release(place: usize) {
    let last = {
        let mut opened = OPENED.lock();
        let Some(entry) = opened.get_mut(place) else { return };
        let Some(held) = entry.as_mut() else { return };
        held.holders -= 1;
        if held.holders == 0 { entry.take() } else { None }
    };
    if let Some(portal) = last.and_then(|opened| Arc::into_inner(opened.portal)) {
        // What hangs was told to hang; it is counted as lost.
        let _ = portal.close(DRAIN_MAX);
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

