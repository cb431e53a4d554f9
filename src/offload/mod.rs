//! Bulk operations on memory, as futures: by Intel DSA where that pays, by the CPU where it does not or where there is no device.
//!
//! An `Operation` is what is asked for, in addresses; an *engine* carries it out and answers with a [`Verdict`] or a [`Failure`]. There are
//! two engines: `cpu`, and the device behind `dsa`. Both give the same data and the same verdict for the same operation, so that a route is a
//! matter of cost alone. Nothing here knows of lanes: the reaper is an ordinary [`Poller`](crate::Poller).

#![allow(dead_code)] // until the engines are in

mod batch;
mod buffer;
mod center;
mod copies;
mod count;
mod device;
mod errand;
mod failure;
mod held;
mod intent;
mod offloading;
mod operation;
mod pieces;
mod request;
mod submitted;
mod verdict;

pub(crate) mod cpu;
pub mod dsa;
pub(crate) mod flow;
pub(crate) mod route;

pub use buffer::{OutOfRange, Part, PartMut, PartRef, RawBuffer, ReadBuffer, WriteBuffer};
pub(crate) use center::{AT_ONCE_MAX, Center, CpuSizes, SLICE};
pub use copies::{Copies, Engine};
pub use count::{CopyCounts, SIZE_CLASSES};
pub use failure::Failure;
pub use intent::Intent;
pub use offloading::{Failed, Offloading};
pub use operation::{Dif, DifBlock, DifEscape, DifTags, DifWrite};
pub(crate) use operation::{Kind, Operation, Pattern};
pub use request::*;
pub use verdict::{DifFault, Verdict};

/// Refuses a destination that is too small.
#[inline]
fn check_room(which: &str, room: usize, wanted: usize) -> Result<(), Failure> {
    if room >= wanted { Ok(()) } else { Err(no_room(which, room, wanted)) }
}

#[cold]
fn no_room(which: &str, room: usize, wanted: usize) -> Failure {
    Failure::Refused {
        what: format!(
            "the {which} has {room} bytes, and {wanted} are needed: give a larger buffer, or a part of the source"
        ),
    }
}
