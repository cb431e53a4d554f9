//! twolane
#![allow(missing_docs, dead_code, unused_imports)] // SKELETON: removed at integration

#[cfg(not(target_os = "linux"))]
compile_error!("twolane runs on Linux: it reads /sys, pins with sched_setaffinity and parks on futexes and epoll");

pub(crate) mod sync;

#[allow(unsafe_code)]
pub(crate) mod task;

pub use task::{AbortOnDrop, JoinError, JoinHandle};

#[cfg(not(twolane_loom))]
pub mod placement;
#[cfg(not(twolane_loom))]
pub mod topology;

#[cfg(twolane_loom)]
#[doc(hidden)]
pub mod model {
    pub use crate::task::model as task;
}
