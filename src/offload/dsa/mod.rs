//! The device: Intel Data Streaming Accelerator, from bytes and bits (`abi`) up to operations that survive its faults.

pub mod abi;
pub(crate) mod chain;
pub mod discover;
pub(crate) mod faults;
#[cfg(not(twolane_loom))]
pub(crate) mod open;
pub(crate) mod outcome;
pub(crate) mod portal;
pub(crate) mod prepare;
pub(crate) mod queue;
#[cfg(not(twolane_loom))]
pub(crate) mod reopen;
pub mod words;

#[cfg(all(test, feature = "sim", not(twolane_loom)))]
mod model_tests;
