#![doc = include_str!("README.md")]

pub(crate) mod doorbell;
pub(crate) mod sleepers;
#[allow(unsafe_code)]
pub(crate) mod slot;

#[cfg(not(twolane_loom))]
mod lanes {
    //! What needs threads, clocks and queues that loom does not see.
}

#[cfg(not(twolane_loom))]
pub(crate) mod blocking;
#[cfg(not(twolane_loom))]
mod compute_lane;
#[cfg(not(twolane_loom))]
pub(crate) mod current;
#[cfg(not(twolane_loom))]
pub(crate) mod deque;
