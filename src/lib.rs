//! twolane
#![allow(missing_docs, dead_code, unused_imports)] // SKELETON: removed at integration

#[cfg(not(target_os = "linux"))]
compile_error!("twolane runs on Linux: it reads /sys, pins with sched_setaffinity and parks on futexes and epoll");

pub(crate) mod sync;

pub mod placement;
#[cfg(feature = "sim")]
pub mod sim;
pub mod topology;
