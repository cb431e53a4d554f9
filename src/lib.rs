#![doc = include_str!("../README.md")]
#![cfg_attr(twolane_loom, allow(dead_code, unused_imports))] // the models use a part of what is built for them

#[cfg(not(target_os = "linux"))]
compile_error!("twolane runs on Linux: it reads /sys, pins with sched_setaffinity and parks on futexes and epoll");

#[cfg(not(twolane_loom))]
#[allow(unsafe_code)]
pub(crate) mod arch;
pub(crate) mod sync;
#[allow(unsafe_code)]
pub(crate) mod task;

pub mod ring;
pub(crate) mod sched;

#[cfg(not(twolane_loom))]
mod builder;
#[cfg(not(twolane_loom))]
pub mod doctor;
#[cfg(not(twolane_loom))]
mod error;
#[cfg(not(twolane_loom))]
pub mod metrics;
#[allow(unsafe_code)]
pub mod offload;
#[cfg(not(twolane_loom))]
pub mod placement;
#[cfg(not(twolane_loom))]
mod poll;
#[cfg(not(twolane_loom))]
mod runtime;
#[cfg(all(feature = "sim", not(twolane_loom)))]
pub mod sim;
#[cfg(not(twolane_loom))]
pub mod topology;
#[cfg(not(twolane_loom))]
pub mod wait;

pub use task::{AbortOnDrop, JoinError, JoinHandle};
#[cfg(not(twolane_loom))]
pub use {
    builder::{Builder, offload::Offload},
    error::{Error, Rejected, RejectedBecause},
    metrics::{Guard, LaneMetrics, Metrics, Misses, Withheld},
    placement::{LaneInfo, Placement, Plan, Role, Sharing},
    poll::{
        Bounds, Doorbell, Peek, PeekError, PollCx, PollFn, Poller, PollerError, PollerHandle, PollerStats, Progress,
        WakeBy, poll_fn,
    },
    runtime::{Handle, LaneRunner, Runtime, Where},
    sched::join::{BlockingJoinError, WouldDeadlock},
    sched::shutdown::{ShutdownReport, StuckLane},
    wait::{Etiquette, Park, Relief, WaitReport, WaitWith, WhyNot},
};

#[cfg(twolane_loom)]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod model {
    pub use crate::offload::model as offload;
    pub use crate::ring;
    pub use crate::sched::model as sched;
    pub use crate::task::model as task;
}
