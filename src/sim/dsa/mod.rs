//! Intel DSA without the device.

mod batch;
mod checks;
mod completion;
mod config;
mod counters;
mod crc;
mod device;
#[allow(unsafe_code)]
#[cfg_attr(not(test), allow(dead_code))] // for tests of the driver, in this crate
pub(crate) mod driver;
mod execute;
mod faults;
mod life;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod page;
mod pipeline;
#[allow(unsafe_code)]
mod portal;
mod profile;
mod queue;
mod record;
mod schedule;
mod space;
mod state;
mod submission;
mod timing;
mod trace;
pub mod tree;
mod violations;
mod watch;

pub use config::{ConfigError, DeviceConfig, KernelProfile, QueueConfig, QueueMode, RefusesBatch};
pub use counters::Counters;
pub use device::{Device, Driven};
pub use faults::Faults;
pub use page::PagePortal;
pub use portal::ModelPortal;
pub use profile::Profile;
pub use queue::QueueState;
pub use space::{AddressSpace, PageState};
pub use state::DeviceState;
pub use submission::{Enqcmd, GeneralProtection};
pub use timing::Timing;
pub use trace::{End, Loss, TraceEntry};
pub use violations::{Rule, Violation};
