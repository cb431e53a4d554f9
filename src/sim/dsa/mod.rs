//! Intel DSA without the device.

#![allow(dead_code)]

mod checks;
mod config;
mod counters;
mod crc;
mod execute;
mod faults;
#[allow(unsafe_code)]
mod memory;
mod pipeline;
mod profile;
mod space;
mod timing;
mod violations;

pub use config::{ConfigError, DeviceConfig, KernelProfile, QueueConfig, QueueMode, RefusesBatch};
pub use counters::Counters;
pub use faults::Faults;
pub use profile::Profile;
pub use space::{AddressSpace, PageState};
pub use timing::Timing;
pub use violations::{Rule, Violation};
