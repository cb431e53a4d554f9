//! Who waits for a slot of a full page. Cold: the only lock of the ring, taken when a page is full, and by whoever then gives a slot back.
//!
//! *Register*: lock; enter the list; *ExpectWaiters*, the bit in the page's [`Claims`] that is set only while all slots are taken, in the same step
//! that sees it; if that fails, leave the list and try to take a slot again. *Release* sees the bit in the step that gives the slot back; *Pass*:
//! lock; take one out of the list; if it was the last, clear the bit; unlock; wake. So a slot that becomes free after *ExpectWaiters* finds somebody in
//! the list, and one that became free before makes *ExpectWaiters* fail. One is woken a slot; one that was woken and goes away passes it on.

use std::collections::VecDeque;
use std::task::Waker;

use super::claims::Claims;
use crate::sync::Mutex;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Waiters(Mutex<List>);

#[derive(Debug, Default)]
struct List {
    queue: VecDeque<(WaiterId, Waker)>,
    next: u64,
}

/// Names one wait; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaiterId(u64);

impl Waiters {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(List::default()))
    }

    /// *Register*. `None`: there is room, or the page is retired; try again. `again`: who was woken in vain comes first.
    pub(crate) fn register(&self, claims: &Claims, waker: &Waker, again: bool) -> Option<WaiterId> {
        let waker = waker.clone(); // user code, outside of the lock
        let mut list = self.0.lock();
        if !claims.expect_waiters() {
            return None;
        }
        let id = WaiterId(list.next);
        list.next += 1;
        if again {
            list.queue.push_front((id, waker));
        } else {
            list.queue.push_back((id, waker));
        }
        Some(id)
    }

    /// Still in the list? Then with this waker from now on.
    #[must_use]
    pub(crate) fn renew(&self, id: WaiterId, waker: &Waker) -> bool {
        let mut waker = waker.clone(); // user code, outside of the lock
        let mut list = self.0.lock();
        let Some((_, old)) = list.queue.iter_mut().find(|(waiter, _)| *waiter == id) else { return false };
        std::mem::swap(old, &mut waker);
        drop(list);
        true // and the old waker is dropped here, outside of the lock
    }

    /// *Pass*: a slot is free, or the page is retired: the one to wake.
    #[must_use]
    pub(crate) fn pass(&self, claims: &Claims) -> Option<Waker> {
        let mut list = self.0.lock();
        let next = list.queue.pop_front();
        if list.queue.is_empty() {
            claims.no_waiters();
        }
        next.map(|(_, waker)| waker)
    }

    /// Goes away. `true`: it had been woken; whoever does not take a slot then passes the wake on.
    #[must_use]
    pub(crate) fn cancel(&self, claims: &Claims, id: WaiterId) -> bool {
        let mut list = self.0.lock();
        let Some(at) = list.queue.iter().position(|(waiter, _)| *waiter == id) else { return true };
        let entry = list.queue.remove(at);
        if list.queue.is_empty() {
            claims.no_waiters();
        }
        drop(list);
        drop(entry); // user code, outside of the lock
        false
    }
}
