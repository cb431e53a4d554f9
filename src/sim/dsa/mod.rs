//! Stand-ins for Intel's Data Streaming Accelerator.

pub mod tree;
