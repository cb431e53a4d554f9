//! Rings: bounded queues from any thread to a poller, which wake its lane when it dozes or is parked.
//!
//! [`spsc`] has one producer and [`mpsc`] any number; both have the same [`Consumer`]. [`Consumer::into_poller`] makes a [`RingPoller`] of it that
//! tells its lane everything there is to tell: one word that shows whether the ring is empty ([`Peek`](crate::Peek)), and that whoever pushes
//! rings ([`WakeBy::Ring`](crate::WakeBy::Ring)). Nothing has to be wired by hand: the poller leaves its lane's doorbell in the ring when it is first
//! called.
//!
//! # What it promises
//! - Bounded: the memory is allocated by [`spsc`] or [`mpsc`] and never grows. What does not fit is given back.
//! - In order, per producer; nothing twice, nothing lost: what is left when the last end goes is dropped.
//! - Both ends hear of the other's end: [`PushError::Disconnected`], [`PopError::Disconnected`], and a [`RingPoller`] is done when the
//!   last producer is gone and the ring is empty.
//! - No lane sleeps beside an item: a push meets a lane on its way into a park in one order or the other, and in both the item is found.
//! - A lane is rung at most once a wait of its own, however many items come, and not at all while it finds something in every pass.
//! - No locks. With several producers, an item is seen once those that took places before it have written theirs; a producer that is preempted between
//!   the two (some ten instructions) holds up those behind it, not the other producers.
//!
//! # Cost
//! A push is two stores and a fence into a line that the consumer has read; with several producers one locked instruction more. One that ends a wait
//! also pays a ring (see [`Doorbell`]). A quiet lane looks at one word a pass, without calling the poller.
//!
//! # How, and why not a crate
//! Each slot has a stamp beside its item, as in Dmitry Vyukov's bounded queue: for position `p` it reads `p` when the slot is free and `p + 1` when it
//! is filled. So the one word that shows whether there is something to do is the stamp of the next slot: a load of an unchanged line for the lane, and a
//! line that a monitor (UMONITOR, MONITORX) can watch; and stamp and item reach the consumer in one line's travel. The rings of rtrb, ringbuf and
//! crossbeam (`ArrayQueue`, bounded channels) say *whether* they are empty, but none says *where* that can be seen, so a lane could only ask them
//! by calling the poller in every pass, and no monitor could watch them.
//!
//! # Example
//! ```
//! use twolane::{Where, ring};
//!
//! let (mut orders, inbox) = ring::spsc::<u64>(1024)?;
//! let rt = twolane::Runtime::builder().build()?;
//! let mut sum = 0;
//! let (tell, hear) = std::sync::mpsc::channel();
//! let poller = inbox.into_poller(move |order, _cx| {
//!     sum += order;
//!     let _ = tell.send(sum);
//! });
//! let poller = rt.spawn_poller(Where::Any, "orders", poller)?;
//! orders.push(40)?; // the lane may be parked by now: this wakes it
//! orders.push(2)?;
//! drop(orders); // the poller is done when it has seen both
//! poller.join()?;
//! assert_eq!(hear.iter().last(), Some(42));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod bells;
mod consumer;
mod error;
mod leftovers;
#[cfg(twolane_loom)]
#[allow(missing_docs)] // the names of what is wrapped
pub mod model;
#[cfg(not(twolane_loom))]
mod poller;
mod producer;
mod slots;

pub use consumer::Consumer;
pub use error::{CapacityError, Disconnected, PopError, PushError};
#[cfg(not(twolane_loom))]
pub use poller::RingPoller;
pub use producer::{Producer, SharedProducer};

#[cfg(not(twolane_loom))]
use crate::poll::Doorbell;
#[cfg(twolane_loom)]
use model::Doorbell;

use crossbeam_utils::CachePadded;

use crate::sync::Arc;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use bells::Bells;
use slots::Slots;

/// Least slots of a ring: with one, a filled slot and a slot that is free again would have the same stamp.
const SLOTS_MIN: usize = 2;
/// Most slots of a ring: beyond, a position and one that is a lap away could not be told apart by sign.
const SLOTS_MAX: usize = 1 << (usize::BITS - 2);

/// A ring of `slots` slots from one producer to one consumer.
///
/// # Errors
/// [`CapacityError`]: `slots` is not a power of two, or less than 2, or more than memory can have.
///
/// # Cost
/// The only allocation, of `slots` items and a word each.
pub fn spsc<T: Send>(slots: usize) -> Result<(Producer<T>, Consumer<T>), CapacityError> {
    let ring = Ring::new(slots)?;
    Ok((Producer::new(Arc::clone(&ring)), Consumer::new(ring)))
}

/// A ring of `slots` slots from any number of producers (clone the first) to one consumer.
///
/// # Errors
/// As [`spsc`].
///
/// # Cost
/// As [`spsc`].
pub fn mpsc<T: Send>(slots: usize) -> Result<(SharedProducer<T>, Consumer<T>), CapacityError> {
    let ring = Ring::new(slots)?;
    Ok((SharedProducer::new(Arc::clone(&ring)), Consumer::new(ring)))
}

/// What both ends hold.
struct Ring<T> {
    slots: Slots<T>,
    bells: Bells,
    /// Producers that have not been dropped.
    producers: AtomicUsize,
    /// Not 0: the consumer was dropped.
    abandoned: AtomicU32,
    /// The next position that no producer has taken; [`SharedProducer`]s only.
    tail: CachePadded<AtomicUsize>,
}

impl<T> Ring<T> {
    fn new(slots: usize) -> Result<Arc<Self>, CapacityError> {
        let bytes = slots.checked_mul(Slots::<T>::SLOT_BYTES).filter(|&bytes| bytes <= isize::MAX as usize);
        if !slots.is_power_of_two() || !(SLOTS_MIN..=SLOTS_MAX).contains(&slots) || bytes.is_none() {
            return Err(CapacityError { slots });
        }
        Ok(Arc::new(Self {
            slots: Slots::new(slots),
            bells: Bells::new(),
            producers: AtomicUsize::new(1),
            abandoned: AtomicU32::new(0),
            tail: CachePadded::new(AtomicUsize::new(0)),
        }))
    }

    /// Whether the consumer is gone.
    #[inline]
    fn is_abandoned(&self) -> bool {
        // Acquire: partner is the Release store in the consumer's drop; a producer that hears of the end sees what the consumer did before.
        self.abandoned.load(Acquire) != 0
    }

    /// Whether all producers are gone. What they pushed is seen by looks after this.
    #[inline]
    fn is_closed(&self) -> bool {
        // Acquire: partner is the Release in `producer_ends`.
        self.producers.load(Acquire) == 0
    }

    fn producer_begins(&self) {
        // Relaxed: whoever clones a producer has one, so the count does not come from 0.
        self.producers.fetch_add(1, Relaxed);
    }

    fn producer_ends(&self) {
        // Release: what this producer pushed is seen by a consumer that sees it gone. Partner: the Acquire load in `is_closed`; the updates of other
        // producers continue the release sequence. (A producer that pushed has passed PushFence, which would do as well: loom cannot tell them apart.)
        if self.producers.fetch_sub(1, Release) == 1 {
            self.bells.closed();
        }
    }
}

#[cfg(all(test, not(twolane_loom)))]
mod tests;
