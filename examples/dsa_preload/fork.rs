//! What becomes of the devices in a child? As on a machine: it has inherited descriptors that it can only close, and no portal; what it opens itself works.

use crate::{descriptors, opened, portals, world};

/// Has the three functions called around every `fork`. A process that shares its parent's memory (vfork) is told by its number instead: see `world`.
pub fn watch() {
    // SAFETY: functions that live as long as the library, which is never unloaded.
    let failed = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    if failed != 0 {
        crate::complain::line("no memory to watch for fork: children that use queues of their parent will misbehave");
    }
}

/// Nobody makes a world, or opens and closes queues, while memory is copied.
unsafe extern "C" fn before() {
    std::mem::forget(world::MAKING.lock());
    opened::freeze();
}

unsafe extern "C" fn in_parent() {
    opened::thaw();
    // SAFETY: taken in `before`, by this thread.
    unsafe { world::MAKING.force_unlock() };
}

unsafe extern "C" fn in_child() {
    portals::disown();
    opened::disown();
    descriptors::disown();
    world::disown();
    // SAFETY: `in_parent`'s argument: the child is a copy of the thread that took it.
    unsafe { world::MAKING.force_unlock() };
}
