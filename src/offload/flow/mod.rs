//! Operations on their way to a device and back: slots, records, backlogs, batches, tickets, and the reaper.
#![doc = include_str!("../README.md")]

mod backlog;
mod claims;
#[cfg(twolane_loom)]
pub mod model;
#[allow(unsafe_code)]
mod slot;
mod state;
#[cfg(all(test, not(twolane_loom)))]
mod tests;
mod waiters;

#[cfg(not(twolane_loom))]
mod batches;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod close;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod core;
#[cfg(not(twolane_loom))]
mod counters;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod face;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod fenced;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod memory;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod page;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)] // a peek at a record
mod reaper;
#[cfg(not(twolane_loom))]
mod room;
#[cfg(not(twolane_loom))]
mod shutdown;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod submit;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod ticket;

#[cfg(not(twolane_loom))]
#[allow(unused_imports)] // until the futures are in
pub(crate) use {
    self::core::{Settings, sit_on},
    counters::{CLASSES, Totals, class},
    face::Flow,
    fenced::NotTogether,
    memory::LIST_LEN,
    reaper::Reaper,
    room::Room,
    shutdown::Report,
    slot::Kept,
    submit::{How, Refused, TOGETHER},
    ticket::{Settled, Ticket, Tickets},
};
