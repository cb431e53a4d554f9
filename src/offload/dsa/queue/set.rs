//! Every queue that was opened, old openings too: an append-only list that is read without a lock.

use std::sync::OnceLock;

use super::Queue;
use crate::sync::Mutex;

/// Openings in a process's life. Each costs a little memory, and its descriptor and mapping until it is retired; a queue that is disabled and
/// enabled again more often than this is left alone (32 queues, each reopened seven times).
pub(crate) const OPENINGS_MAX: usize = 256;

/// One opening of a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueId(u16);

impl QueueId {
    /// As a number, for words that hold one. Below [`OPENINGS_MAX`].
    pub(crate) fn index(self) -> u16 {
        self.0
    }
    /// From [`index`](Self::index)'s number.
    pub(crate) fn from_index(index: u16) -> Self {
        Self(index)
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Queues {
    /// Filled from the front, never emptied.
    slots: Box<[OnceLock<Box<Queue>>]>,
    /// How many are filled.
    opened: Mutex<usize>,
}

impl Queues {
    pub(crate) fn new() -> Self {
        Self { slots: (0..OPENINGS_MAX).map(|_| OnceLock::new()).collect(), opened: Mutex::new(0) }
    }

    /// Adds an opening; gives it back when there were too many.
    pub(crate) fn add(&self, queue: Queue) -> Result<QueueId, Box<Queue>> {
        let mut opened = self.opened.lock();
        let Some(slot) = self.slots.get(*opened) else { return Err(Box::new(queue)) };
        slot.set(Box::new(queue))?;
        let id = QueueId(*opened as u16); // below OPENINGS_MAX
        *opened += 1;
        Ok(id)
    }

    /// The opening; `None` for an id that is not from this list.
    #[inline]
    pub(crate) fn find(&self, id: QueueId) -> Option<&Queue> {
        self.slots.get(usize::from(id.0))?.get().map(|queue| &**queue)
    }

    /// All openings, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        let filled = self.slots.iter().map_while(|slot| slot.get());
        filled.enumerate().map(|(index, queue)| (QueueId(index as u16), &**queue))
    }
}
