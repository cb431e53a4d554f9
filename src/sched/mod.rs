#![doc = include_str!("README.md")]

// The protocols, which loom explores.
pub(crate) mod doorbell;
#[cfg(twolane_loom)]
#[allow(missing_docs)] // the names of what is wrapped
pub mod model;
pub(crate) mod phase;
pub(crate) mod sleepers;
#[allow(unsafe_code)] // tasks as raw pointers in an atomic
pub(crate) mod slot;

// The lanes, which need threads, clocks and queues that loom does not see.
#[cfg(not(twolane_loom))]
pub(crate) mod blocking;
#[cfg(not(twolane_loom))]
mod compute_lane;
#[cfg(not(twolane_loom))]
pub(crate) mod current;
#[cfg(not(twolane_loom))]
pub(crate) mod deque;
#[cfg(not(twolane_loom))]
mod exits;
#[cfg(not(twolane_loom))]
#[cfg(not(twolane_loom))]
mod inbox;
#[cfg(not(twolane_loom))]
pub(crate) mod join;
#[cfg(not(twolane_loom))]
mod kinds;
#[cfg(not(twolane_loom))]
mod lend;
#[cfg(not(twolane_loom))]
mod linger;
#[cfg(not(twolane_loom))]
mod park;
#[cfg(not(twolane_loom))]
mod poll_lane;
#[cfg(not(twolane_loom))]
pub(crate) mod settings;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)] // the published pointer to the kind of the running task
pub(crate) mod shared;
#[cfg(not(twolane_loom))]
pub(crate) mod shutdown;
#[cfg(not(twolane_loom))]
mod steal;
#[cfg(not(twolane_loom))]
mod timers;
#[cfg(not(twolane_loom))]
pub(crate) mod worker;
