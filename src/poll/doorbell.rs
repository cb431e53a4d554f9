//! What a producer of work holds to wake the lane that looks for it.
//!
//! Work that comes through a descriptor wakes a parked lane by the kernel's doing. Work that comes through memory (a channel, a ring, a completion
//! queue) is seen by nobody while the lane is parked, so whoever puts it there rings.

use std::fmt;
use std::sync::Arc;

/// What of a lane can be rung. Implemented by the scheduler.
pub(crate) trait Rung: Send + Sync {
    fn ring(&self);
    fn ring_if_parked(&self);
}

/// Wakes one lane, from any thread: a small handle for whoever gives a poller work through memory.
///
/// Comes from [`PollerHandle::doorbell`](super::PollerHandle::doorbell), from [`PollCx::doorbell`](super::PollCx::doorbell) inside a poller, and
/// from [`Handle::doorbell`](crate::Handle::doorbell) by the lane's number, which is what a closure given to `spawn_poller_with` learns from its
/// `LaneInfo`. Clones are as good as the original.
///
/// Publish first, then ring: what was written before [`ring`](Self::ring), with whatever ordering, is seen by a call of every poller of the lane that
/// begins after it. The rings of [`twolane::ring`](crate::ring) do all this by themselves.
///
/// A doorbell does not keep the runtime alive. A ring that comes after the end of its lane does nothing; until the last doorbell is gone, some
/// hundred bytes and, if the lane ever parked on descriptors, one eventfd remain of the lane.
///
/// # Cost
/// [`ring`](Self::ring): one locked instruction on a line that the lane reads in every pass (so two lines' travel between cpus), a fence, and a pass
/// in which quiet [`Peek`](super::Peek)s spare no call. [`ring_if_parked`](Self::ring_if_parked): a fence and a load. Both: a system call if the lane
/// is parked and nobody else is waking it, 1.5 to 25 us on virtual machines. `clone` is one locked instruction.
///
/// # Example
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
/// use twolane::{Progress, Where, poll_fn};
///
/// let mail = Arc::new(AtomicU32::new(0));
/// let rt = twolane::Runtime::builder().build()?;
/// let look = Arc::clone(&mail);
/// let poller = poll_fn(move |_| match look.swap(0, Relaxed) {
///     0 => Progress::Idle,
///     _ => Progress::Done,
/// });
/// let poller = rt.spawn_poller(Where::Any, "mail", poller.ring())?; // `ring`: the lane may park
/// let doorbell = poller.doorbell();
/// std::thread::spawn(move || {
///     mail.store(1, Relaxed);
///     doorbell.ring();
/// });
/// poller.join()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Doorbell {
    lane: usize,
    rung: Arc<dyn Rung>,
}

impl Doorbell {
    pub(crate) fn new(lane: usize, rung: Arc<dyn Rung>) -> Self {
        Self { lane, rung }
    }

    /// Makes the lane call all of its pollers once more, whatever it does now: ends a doze, wakes it from a park, overrides quiet peeks.
    ///
    /// Callable from anywhere, a poller of the same lane included: it is then called again instead of waiting. Rings do not add up: one call may
    /// answer several.
    #[inline]
    pub fn ring(&self) {
        self.rung.ring();
    }

    /// Wakes the lane if it is parked, and leaves it alone if it is awake or dozes.
    ///
    /// For producers of a poller that finds by itself what came: without a peek, or with one whose word shows it. What meets a doze is then found when
    /// the doze is over, within `max_added`. As cheap as it is, it is meant to be called for each item, where [`ring`](Self::ring) would be called
    /// once a batch.
    #[inline]
    pub fn ring_if_parked(&self) {
        self.rung.ring_if_parked();
    }

    /// The number of the lane that it rings.
    #[must_use]
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// Whether both ring the same lane of the same runtime.
    #[must_use]
    pub fn same_lane(&self, other: &Self) -> bool {
        // By address alone: a vtable may exist twice.
        std::ptr::addr_eq(Arc::as_ptr(&self.rung), Arc::as_ptr(&other.rung))
    }
}

impl fmt::Debug for Doorbell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Doorbell").field("lane", &self.lane).finish_non_exhaustive()
    }
}
