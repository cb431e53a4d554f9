//! Memory for tasks, one block ahead.
//!
//! The memory of a task that is handed to another cpu comes back from there: that cpu wrote it last, when it freed it. A thread that hands off
//! tasks one by one would wait for those lines each time, between making the task and publishing it, since stores become visible in order. So a
//! lane allocates the next task's memory when it has handed one off, and asks for the lines then: tasks of one poller are mostly of one type, hence of
//! one layout. A task of another layout is allocated as usual.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::NonNull;

use crate::sync::prefetch;

thread_local! {
    static AHEAD: Cell<Option<Block>> = const { Cell::new(None) };
    /// Layout of the task that the thread made last.
    static LAST: Cell<Option<Layout>> = const { Cell::new(None) };
}

/// Memory that nobody uses yet.
struct Block {
    at: NonNull<u8>,
    layout: Layout,
}

/// Memory of `layout`, to be freed as such by the global allocator. `layout` has a size.
pub(super) fn allocate(layout: Layout) -> NonNull<u8> {
    // While the thread's locals are being destroyed there is nothing ahead, and nothing is remembered.
    let _ = LAST.try_with(|last| last.set(Some(layout)));
    match AHEAD.try_with(Cell::take) {
        Ok(Some(block)) if block.layout == layout => block.into_raw(),
        _ => Block::new(layout).into_raw(), // what was ahead, of another layout, is freed
    }
}

/// Gets the memory for a task like the last one ready, unless it is.
pub(crate) fn prepare() {
    let Ok(Some(layout)) = LAST.try_with(Cell::get) else { return };
    let _ = AHEAD.try_with(|ahead| {
        let block = match ahead.take() {
            Some(block) if block.layout == layout => block,
            _ => Block::new(layout),
        };
        prefetch(block.at);
        ahead.set(Some(block));
    });
}

impl Block {
    fn new(layout: Layout) -> Self {
        debug_assert!(layout.size() > 0, "a task has a header");
        // SAFETY: the layout has a size, says the caller: every task has a header.
        match NonNull::new(unsafe { alloc(layout) }) {
            Some(at) => Self { at, layout },
            None => handle_alloc_error(layout),
        }
    }

    fn into_raw(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).at
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: from `alloc` with this layout, and not given out: `into_raw` forgets the block.
        unsafe { dealloc(self.at.as_ptr(), self.layout) };
    }
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_block_ahead_serves_its_own_layout_only() {
        let (small, large) = (Layout::new::<[u64; 8]>(), Layout::new::<[u64; 32]>());
        let free = |at: NonNull<u8>, layout| {
            // SAFETY: from `allocate` with this layout, freed once.
            unsafe { dealloc(at.as_ptr(), layout) }
        };
        free(allocate(small), small);
        prepare();
        let ahead = AHEAD.take().expect("prepared");
        let at = ahead.at;
        AHEAD.set(Some(ahead));
        prepare(); // does nothing more
        let got = allocate(small);
        assert_eq!(got, at, "the one that was ahead");
        free(got, small);
        prepare();
        free(allocate(large), large);
        assert!(AHEAD.take().is_none(), "one of another layout is not kept");
    }
}
