//! The contract between a poller and its lane.

use std::fmt;
use std::os::fd::BorrowedFd;

use super::{Bounds, Peek, PollCx};

/// What one call of a poller found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// This many arrivals that waited for this call: packets, completions, messages. Counts towards the latency budget.
    ///
    /// `Busy(0)` is housekeeping: it keeps the poller (see [`PollCx::stopping`]) but earns no budget and resets no idle time.
    Busy(u32),
    /// Nothing was there.
    Idle,
    /// Nothing was there, and nothing can come before somebody rings ([`PollerHandle::ring`](super::PollerHandle::ring)): the poller has asked whoever
    /// gives it work to do so. It is not called until its lane is rung, and a lane whose pollers are all dormant works as one that has none.
    ///
    /// A poller that cannot be sure of the ring says `Idle`.
    Dormant,
    /// The poller is finished. It is not called again; its handle gets it back.
    Done,
}

/// How a poller can be woken while its lane is parked in the kernel. To name a way is to consent to parking.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WakeBy<'a> {
    /// It cannot: the lane never parks while it has this poller. For hardware queues without an interrupt.
    Never,
    /// Its lane's [`Doorbell`](super::Doorbell), rung by whoever gives it work.
    Ring,
    /// This descriptor becomes readable. A duplicate of it is put into the lane's epoll set when the poller is adopted, level-triggered, and
    /// taken out when the poller ends. A poller with several descriptors nests an epoll of its own.
    Fd(BorrowedFd<'a>),
}

/// Something that a lane calls again and again.
///
/// Closures `FnMut(&mut PollCx<'_>) -> Progress` are pollers that cannot be woken ([`WakeBy::Never`]); [`poll_fn`](super::poll_fn())
/// adds what a closure cannot say. Implement the trait where the state has a type of its own.
///
/// # What a call owes
/// It returns soon: the lane's other pollers and the latency bounds wait for it. It does not block and does not wait for its own
/// runtime (joining or `block_on` inside a call is refused with an error).
///
/// # Panics
/// A panic in any of the methods removes this poller and nothing else; its handle gets the payload.
///
/// # Example
/// ```
/// use twolane::{PollCx, Poller, Progress};
///
/// struct Countdown(u32);
/// impl Poller for Countdown {
///     fn poll(&mut self, _cx: &mut PollCx<'_>) -> Progress {
///         match self.0 {
///             0 => Progress::Done,
///             _ => {
///                 self.0 -= 1;
///                 Progress::Busy(1)
///             }
///         }
///     }
/// }
/// let rt = twolane::Runtime::builder().build()?;
/// let done = rt.spawn_poller(twolane::Where::Any, "countdown", Countdown(3))?.join()?;
/// assert_eq!(done.0, 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Poller {
    /// Looks for work once, does it, and says what was found.
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress;

    /// How this poller is woken from a park; asked once, when the lane adopts it. Default: it cannot be, and the lane never parks.
    fn wake_by(&self) -> WakeBy<'_> {
        WakeBy::Never
    }

    /// A word that shows whether there is anything to do; asked at adoption and after each call of a method that may have changed it. A poller that
    /// answers `None` is called in every pass from then on. Default: none.
    fn peek(&self) -> Option<Peek<'_>> {
        None
    }

    /// Latency that the lane's waiting may add to this poller's events, where that is not what the runtime was built with; asked once, when the
    /// lane adopts it. Default: the runtime's.
    fn bounds(&self) -> Option<Bounds> {
        None
    }

    /// Called before each park: make sure that what arrives from now on wakes the lane (enable the interrupt, clear the "I poll" flag).
    /// `false` refuses: the lane disarms those it armed and polls on. Default: `true`.
    ///
    /// The lane makes one full pass after arming everybody, so what arrived before the call is not lost.
    fn arm(&mut self) -> bool {
        true
    }

    /// Called after each park, and when another poller refused; only if [`arm`](Self::arm) returned `true`. Default: nothing.
    fn disarm(&mut self) {}

    /// Called before the lane waits in any way, once per wait: the moment to flush what is worth batching only while busy.
    fn before_wait(&mut self) {}

    /// Whether the lane may be woken from a park to run *any* task: what comes for this poller meanwhile waits for that task, as long as it
    /// takes. Holds for a lane only if all of its pollers agree. Default: `false`; the lane then runs tasks only while it is awake and its pollers
    /// are quiet, and only those whose kind is known to be short enough for `max_added`.
    fn lend_while_armed(&self) -> bool {
        false
    }
}

impl<F> Poller for F
where
    F: FnMut(&mut PollCx<'_>) -> Progress,
{
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        self(cx)
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Busy(n) => write!(f, "busy ({n})"),
            Self::Idle => f.write_str("idle"),
            Self::Dormant => f.write_str("dormant"),
            Self::Done => f.write_str("done"),
        }
    }
}
