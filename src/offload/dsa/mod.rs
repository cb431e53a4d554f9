//! The device: Intel Data Streaming Accelerator, from bytes and bits (`abi`) up to operations that survive its faults.

pub mod abi;
pub mod discover;
