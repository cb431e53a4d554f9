//! Bulk operations on memory, as futures: by Intel DSA where that pays, by the CPU where it does not or where there is no device.
//!
//! An `Operation` is what is asked for, in addresses; an *engine* carries it out and answers with a [`Verdict`] or a [`Failure`]. There are
//! two engines: `cpu`, and the device behind `dsa`. Both give the same data and the same verdict for the same operation, so that a route is a
//! matter of cost alone. Nothing here knows of lanes: the reaper is an ordinary [`Poller`](crate::Poller).

#![allow(dead_code)] // until the engines are in

#[cfg(feature = "sim")]
pub mod bench;
mod failure;
mod intent;
mod operation;
mod verdict;

pub(crate) mod cpu;
pub mod dsa;
pub(crate) mod route;

pub use failure::Failure;
pub use intent::Intent;
#[allow(unused_imports)]
pub(crate) use operation::{Dif, DifBlock, DifEscape, DifTags, DifWrite, Kind, Operation, Pattern};
pub use verdict::{DifFault, Verdict};
