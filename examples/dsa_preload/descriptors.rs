//! Which file descriptors are work queues? A table that is looked at on every `write` and `close` of the program, so: one load.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

/// Descriptors from here on cannot be queues: as many as the table has room for. 256 KiB that stay untouched but for the pages in use.
pub const DESCRIPTORS_MAX: usize = 1 << 16;

static TABLE: [AtomicU32; DESCRIPTORS_MAX] = [const { AtomicU32::new(NOTHING) }; DESCRIPTORS_MAX];

const NOTHING: u32 = 0;
/// A queue that a parent opened: to be closed here, and for nothing else.
const FOREIGN: u32 = u32::MAX;

/// What a descriptor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// A queue that this process opened: its place among them.
    Queue(usize),
    /// A queue that its parent opened.
    Foreign,
}

/// `None`: none of ours.
pub fn get(fd: c_int) -> Option<Is> {
    // Relaxed, here and below: the program orders its use of a descriptor after the call that gave it; what the number leads to has a lock.
    match TABLE.get(usize::try_from(fd).ok()?)?.load(Ordering::Relaxed) {
        NOTHING => None,
        FOREIGN => Some(Is::Foreign),
        place => Some(Is::Queue(place as usize - 1)),
    }
}

/// Enters a descriptor. `false`: there is no room for its number.
#[must_use]
pub fn enter(fd: c_int, place: usize) -> bool {
    let Some(entry) = usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd)) else { return false };
    entry.store(u32::try_from(place).map_or(FOREIGN, |place| place + 1), Ordering::Relaxed);
    true
}

/// Strikes it out.
pub fn forget(fd: c_int) {
    if let Some(entry) = usize::try_from(fd).ok().and_then(|fd| TABLE.get(fd)) {
        entry.store(NOTHING, Ordering::Relaxed);
    }
}

/// In a child: what was open is the parent's.
pub fn disown() {
    for entry in &TABLE {
        if entry.load(Ordering::Relaxed) != NOTHING {
            entry.store(FOREIGN, Ordering::Relaxed);
        }
    }
}
