//! A ring as a poller: what it tells its lane, and how its producers learn which lane that is.

#![allow(unsafe_code)] // Peek::new

use std::fmt;
use std::num::NonZeroU32;

use super::{Consumer, PopError};
use crate::poll::{Peek, PollCx, Poller, Progress, WakeBy};

/// Items that one call takes, unless [`RingPoller::per_call`] says otherwise: the lane's other pollers wait meanwhile.
const PER_CALL: u32 = 32;

/// A poller that hands what comes through a ring to a closure. Made by [`Consumer::into_poller`].
///
/// It is done when the ring is empty and its last producer gone. Asked to stop, it takes what is there, but not more than the ring holds, so that producers
/// that go on do not keep it from ending. A panic of the closure removes it; what is left in the ring is dropped and the producers hear of it.
pub struct RingPoller<T, F> {
    consumer: Consumer<T>,
    each: F,
    per_call: u32,
    /// Where the `LaneInfo` of the lane lies whose doorbell hangs in the ring. The doorbell keeps that lane's memory, so no other lane's can be there.
    lane: usize,
    /// Items that it still takes since it was asked to stop.
    last_orders: Option<usize>,
}

impl<T> Consumer<T> {
    /// Makes a poller of it that calls `each` with every item, in order.
    pub fn into_poller<F>(self, each: F) -> RingPoller<T, F>
    where
        F: FnMut(T, &mut PollCx<'_>),
    {
        RingPoller { consumer: self, each, per_call: PER_CALL, lane: 0, last_orders: None }
    }
}

impl<T, F> RingPoller<T, F> {
    /// How many items one call may take. Default: 32. Trades the cost of a pass against the time that the lane's other pollers wait.
    #[must_use]
    pub fn per_call(mut self, items: NonZeroU32) -> Self {
        self.per_call = items.get();
        self
    }

    /// The ring's end and the closure: what is left when the poller has ended.
    pub fn into_parts(self) -> (Consumer<T>, F) {
        (self.consumer, self.each)
    }

    /// Leaves the lane's doorbell in the ring, once a lane.
    #[inline]
    fn come_to(&mut self, cx: &PollCx<'_>) {
        let lane = std::ptr::from_ref(cx.lane()).addr();
        if self.lane != lane {
            self.lane = lane;
            self.consumer.hang(cx.doorbell());
        }
    }

    /// How many items this call may take.
    fn allowance(&mut self, stopping: bool) -> usize {
        let per_call = self.per_call as usize;
        if !stopping {
            self.last_orders = None; // it may have been stopped on this lane before
            return per_call;
        }
        per_call.min(*self.last_orders.get_or_insert(self.consumer.capacity()))
    }
}

impl<T, F> Poller for RingPoller<T, F>
where
    F: FnMut(T, &mut PollCx<'_>),
{
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        self.come_to(cx);
        let allowed = self.allowance(cx.stopping());
        let mut taken = 0;
        let nothing = loop {
            if taken == allowed {
                break Progress::Done; // stopping, and nothing more is allowed; else something was taken
            }
            match self.consumer.pop() {
                Ok(item) => {
                    (self.each)(item, cx);
                    taken += 1;
                }
                Err(PopError::Empty) => break Progress::Idle,
                Err(PopError::Disconnected) => break Progress::Done,
            }
        };
        if let Some(left) = &mut self.last_orders {
            *left -= taken;
        }
        match u32::try_from(taken) {
            Ok(0) => nothing,
            taken => Progress::Busy(taken.unwrap_or(u32::MAX)), // `per_call` is a u32
        }
    }

    fn wake_by(&self) -> WakeBy<'_> {
        WakeBy::Ring
    }

    fn peek(&self) -> Option<Peek<'_>> {
        if self.consumer.is_disconnected() {
            // There is an end to be found, and no word that would show it.
            return None;
        }
        let (word, value) = self.consumer.word();
        // SAFETY: the stamp is an atomic word in memory that the consumer keeps as long as it lives, and `self`, from which the peek is lent, keeps it.
        let peek = unsafe { Peek::new(word, usize::BITS, usize::MAX as u64, value as u64) };
        // Everything shows there: an item, or the end, for which the last producer rings.
        peek.ok().map(Peek::complete)
    }

    fn before_wait(&mut self) {
        self.consumer.expect();
    }
}

impl<T, F> fmt::Debug for RingPoller<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RingPoller")
            .field("capacity", &self.consumer.capacity())
            .field("per_call", &self.per_call)
            .finish_non_exhaustive()
    }
}
