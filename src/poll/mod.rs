//! Pollers: what user code gives to a lane to be called again and again.
//!
//! A [`Poller`] looks for work once and says what it found ([`Progress`]). It never loops, spins or sleeps: the lane calls it again, and
//! waits between calls as its [`Etiquette`](crate::wait::Etiquette) allows. What a poller may tell the lane beside that makes waiting
//! cheaper: a [`Peek`] (a word that shows whether there is anything to do) [`WakeBy`] (how it can be woken from a park), and [`Bounds`] of its own.

mod bounds;
mod call_times;
mod cx;
mod doorbell;
pub(crate) mod fds;
mod handle;
#[allow(unsafe_code)]
mod peek;
mod poll_fn;
mod poller;
mod set;

pub use bounds::Bounds;
pub use cx::PollCx;
pub(crate) use cx::Ports;
pub use doorbell::Doorbell;
pub(crate) use doorbell::Rung;
pub(crate) use handle::{Adoption, AnyPoller, Bell, Unbuilt, adoption};
pub use handle::{PollerError, PollerHandle, PollerStats};
use peek::KeptPeek;
pub use peek::{Peek, PeekError};
pub use poll_fn::{PollFn, poll_fn};
pub use poller::{Poller, Progress, WakeBy};
pub(crate) use set::{PollerId, PollerSet, Sweep, Swept};
