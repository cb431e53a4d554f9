//! Bulk operations on memory, as futures: by Intel DSA where that pays, by the CPU where it does not or where there is no device.
//!
//! An `Operation` is what is asked for, in addresses; an *engine* carries it out and answers with a [`Verdict`] or a [`Failure`]. There are
//! two engines: `cpu`, and the device behind `dsa`. Both give the same data and the same verdict for the same operation, so that a route is a
//! matter of cost alone. Nothing here knows of lanes: the reaper is an ordinary [`Poller`](crate::Poller).

#[cfg(not(twolane_loom))]
pub(crate) mod batch;
#[cfg(all(feature = "sim", not(twolane_loom)))]
pub mod bench;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod borrowed;
#[cfg(not(twolane_loom))]
mod buffer;
#[cfg(not(twolane_loom))]
mod center;
#[cfg(not(twolane_loom))]
mod chain;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod chaining;
#[cfg(not(twolane_loom))]
mod copies;
#[cfg(not(twolane_loom))]
mod count;
#[cfg(not(twolane_loom))]
mod device;
#[cfg(not(twolane_loom))]
mod durable;
#[cfg(not(twolane_loom))]
mod errand;
#[cfg(not(twolane_loom))]
mod failure;
#[cfg(not(twolane_loom))]
mod held;
#[cfg(not(twolane_loom))]
mod intent;
#[cfg(not(twolane_loom))]
mod many;
#[cfg(not(twolane_loom))]
mod offloading;
#[cfg(not(twolane_loom))]
mod operation;
#[cfg(not(twolane_loom))]
mod pieces;
#[cfg(not(twolane_loom))]
mod reopening;
#[cfg(not(twolane_loom))]
mod request;
#[cfg(not(twolane_loom))]
mod submitted;
#[cfg(not(twolane_loom))]
mod timing;
#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
mod together;
#[cfg(not(twolane_loom))]
mod verdict;

#[cfg(not(twolane_loom))]
pub(crate) mod cpu;
#[cfg(twolane_loom)]
#[path = "dsa/queue/credits.rs"]
mod credits;
#[cfg(not(twolane_loom))]
pub mod dsa;
pub(crate) mod flow;
#[cfg(not(twolane_loom))]
#[cfg_attr(not(feature = "sim"), allow(dead_code))]
// sharing and crowding are for the study so far, which is a part of `sim`
pub(crate) mod route;

#[cfg(twolane_loom)]
pub use flow::model;
#[cfg(not(twolane_loom))]
pub use {
    buffer::{OutOfRange, Part, PartMut, PartRef, RawBuffer, ReadBuffer, WriteBuffer},
    chain::{CHAIN_MAX, Chain, Seed, Source, Span, SpanMut, StepId, Target},
    chaining::{Chained, Chaining, CopyingLists},
    copies::{Copies, Engine},
    count::{CopyCounts, SIZE_CLASSES},
    failure::Failure,
    intent::Intent,
    offloading::{Failed, Offloading},
    operation::{Dif, DifBlock, DifEscape, DifTags, DifWrite},
    request::*,
    together::{CopyingAll, FailedCopies},
    verdict::{DifFault, Verdict},
};
#[cfg(not(twolane_loom))]
pub(crate) use {
    center::{AT_ONCE_MAX, Center, CpuSizes, SLICE},
    device::Device,
    operation::{Kind, Operation, Pattern},
    reopening::Reopening,
};

/// Refuses a destination that is too small.
#[cfg(not(twolane_loom))]
#[inline]
fn check_room(which: &str, room: usize, wanted: usize) -> Result<(), Failure> {
    if room >= wanted { Ok(()) } else { Err(no_room(which, room, wanted)) }
}

#[cfg(not(twolane_loom))]
#[cold]
fn no_room(which: &str, room: usize, wanted: usize) -> Failure {
    Failure::Refused {
        what: format!(
            "the {which} has {room} bytes, and {wanted} are needed: give a larger buffer, or a part of the source"
        ),
    }
}
