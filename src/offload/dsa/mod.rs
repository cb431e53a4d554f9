//! The device: Intel Data Streaming Accelerator, from bytes and bits (`abi`) up to operations that survive its faults.

pub mod abi;
pub mod discover;
pub(crate) mod faults;
pub(crate) mod outcome;
pub(crate) mod portal;
pub(crate) mod prepare;
pub(crate) mod queue;
