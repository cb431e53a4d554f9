//! Every queue that was opened, old openings too: an append-only list that is read without a lock.

use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::*};

use super::{Condition, Queue};
use crate::offload::dsa::portal::Direct;
use crate::sync::Mutex;

/// Openings in a process's life. Each costs a little memory, and its descriptor and mapping until it is retired; a queue that is disabled and
/// enabled again more often than this is left alone (32 queues, each reopened seven times).
pub(crate) const OPENINGS_MAX: usize = 256;

/// One opening of a work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct QueueId(u16);

impl QueueId {
    /// As a number, for words that hold one. Below [`OPENINGS_MAX`].
    #[inline]
    pub(crate) fn index(self) -> u16 {
        self.0
    }
    /// From [`index`](Self::index)'s number.
    #[inline]
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
    /// The last one, if all others are dead openings of the same queue and it has a [way without a call](Queue::direct); else null. What nearly every service has, at
    /// the cost of one load.
    sole: AtomicPtr<Queue>,
}

impl Queues {
    pub(crate) fn new() -> Self {
        Self {
            slots: (0..OPENINGS_MAX).map(|_| OnceLock::new()).collect(),
            opened: Mutex::new(0),
            sole: AtomicPtr::default(),
        }
    }

    /// Adds an opening; gives it back when there were too many.
    pub(crate) fn add(&self, mut queue: Queue) -> Result<QueueId, Box<Queue>> {
        let mut opened = self.opened.lock();
        let Some(slot) = self.slots.get(*opened) else { return Err(Box::new(queue)) };
        let id = QueueId(*opened as u16); // below OPENINGS_MAX
        queue.id = id;
        slot.set(Box::new(queue))?;
        *opened += 1;
        // Release: the queue, for whoever reads the pointer. Partner: the Acquire in `sole`.
        self.sole.store(self.look_for_sole().map_or(ptr::null_mut(), |queue| ptr::from_ref(queue).cast_mut()), Release);
        Ok(id)
    }

    /// Dead is for ever, so what is the only one now is so until the next one is added. Others' old openings count, too: they may be back, for which whoever decides
    /// among several looks.
    fn look_for_sole(&self) -> Option<&Queue> {
        let (_, last) = self.iter().last()?;
        let is_alone = |queue: &Queue| {
            let is_old = queue.name() == last.name() && matches!(queue.health().condition(), Condition::Dead(_));
            ptr::eq(queue, last) || is_old
        };
        (last.direct().is_some() && self.iter().all(|(_, queue)| is_alone(queue))).then_some(last)
    }

    /// The only opening that is not dead, if that is known and it has a way without a call; it may have died meanwhile.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn sole(&self) -> Option<Sole<'_>> {
        // Acquire: partner is the Release in `add`.
        // SAFETY: null, or one of the boxes in `slots`, which are filled once, never emptied, and live as long as `self`; it is shared, never
        // mutably borrowed, since it was put there.
        unsafe { self.sole.load(Acquire).as_ref() }.map(Sole)
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

/// The only opening that is not dead, as far as is known. Holding one means: it has a way without a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sole<'a>(&'a Queue);

impl<'a> Sole<'a> {
    #[inline(always)]
    pub(crate) fn queue(self) -> &'a Queue {
        self.0
    }

    /// Its way.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn direct(self) -> Direct {
        // SAFETY: made by `Queues::sole` only, of what `look_for_sole` found to have one, which stays as it is.
        unsafe { self.0.direct().unwrap_unchecked() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::{GenCap, OpCap, Version};
    use crate::offload::dsa::portal::{Death, null_portal};
    use crate::offload::dsa::queue::Limits;

    fn queue(name: &str) -> Queue {
        let limits = Limits {
            version: Version::V1_0,
            general: GenCap(0),
            operations: OpCap::NONE,
            transfer_max: 4096,
            batch_max: 0,
            in_flight_max: 1,
            block_on_fault: false,
        };
        let node = std::fs::File::options().read(true).write(true).open("/dev/zero").unwrap();
        Queue::new(name, None, limits, Box::new(null_portal(node).unwrap()))
    }

    #[test]
    fn the_only_one_is_known_and_its_old_openings_do_not_count() {
        let queues = Queues::new();
        let sole = || queues.sole().map(|sole| sole.queue().id().index());
        let die = |id| queues.find(id).unwrap().health().die(Death::Gone);
        assert_eq!(sole(), None);
        let first = queues.add(queue("a")).unwrap();
        assert_eq!(sole(), Some(0));
        die(first);
        let second = queues.add(queue("a")).unwrap();
        assert_eq!((sole(), queues.find(second).unwrap().id()), (Some(1), second), "it was opened anew");
        queues.find(second).unwrap().health().suspect();
        let third = queues.add(queue("a")).unwrap();
        assert_eq!(sole(), None, "what is suspected may answer after all");
        die(second);
        die(third);
        let fourth = queues.add(queue("a")).unwrap();
        assert_eq!(sole(), Some(3));
        queues.add(queue("b")).unwrap();
        assert_eq!(sole(), None, "two");
        die(fourth);
        queues.add(queue("b")).unwrap();
        assert_eq!(sole(), None, "a may be back");
    }
}
