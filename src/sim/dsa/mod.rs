//! Intel's Data Streaming Accelerator without the device: test your service's offload path on a laptop.
//!
//! [`Device`] is a model written from the specification (*Intel DSA Architecture Specification*, revision 3.0), never from a driver: it looks at
//! every reserved bit, carries out every operation of DSA 1.0 and what 2.0 adds for users, faults, retries, reorders, halts, and writes completion records. It works on
//! the memory of this process, at the addresses that descriptors name. [`tree`] writes what the kernel shows of devices in `/sys` and `/dev`.
//!
//! ```
//! use twolane::offload::dsa::abi::{CompletionSlot, Descriptor, Flags, Status};
//! use twolane::sim::dsa::{AddressSpace, Device, DeviceConfig, Enqcmd, Faults, Profile, QueueConfig};
//!
//! // A device of the 4th generation Xeons with one shared queue of 16 entries, as unhelpful as the specification lets it be.
//! let config = DeviceConfig::v1().queue(QueueConfig::shared(16));
//! let device = Device::new(config, Profile::strict(42).faults(Faults::weather()))?;
//! let portal = device.open(0, &AddressSpace::new()?)?;
//!
//! let (source, mut destination) = (vec![7_u8; 5000], vec![0_u8; 5000]);
//! let record = CompletionSlot::new();
//! let (from, to) = (source.as_ptr().addr() as u64, destination.as_mut_ptr().addr() as u64);
//! let copy = Descriptor::memmove(from, to, 5000).report_to(record.address()).with_flags(Flags::RCR);
//!
//! // SAFETY: buffers and record live until the record is there, and nobody else uses them.
//! while unsafe { portal.enqcmd(0, &copy)? } == Enqcmd::Retry {}
//! device.run_until_idle();
//!
//! let record = record.record().expect("this weather loses no record");
//! match record.status() {
//!     Status::SUCCESS => assert_eq!(destination, source),
//!     Status::PAGE_FAULT_NOBOF => println!("{} bytes done, page {:#x} was absent", record.completed, record.fault_address),
//!     other => panic!("{other}"),
//! }
//! assert!(device.violations().is_empty(), "every duty of software was kept");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Driving it
//! By hand, a step at a time: equal seeds and equal calls give equal behaviour, so a failure can be played again ([`Device::step`],
//! [`Device::run_until_idle`]). In virtual time, with what everything would cost on a device ([`Timing`], [`Device::advance_to`]); the parameters
//! are published or fitted figures, so results are labelled *model* and say nothing about hardware. Or by a thread beside the service under test
//! ([`Device::spawn`]).
//!
//! # Getting at it
//! [`ModelPortal`] has a verb for each instruction and for `write(2)`, with the kernel's rules ([`KernelProfile`]); [`PagePortal`] is a real page that
//! software stores descriptors to. All are `unsafe`: a device writes where it is told to.
//!
//! # Disturbing it
//! [`AddressSpace::set`] makes pages absent, read-only or bad; [`Faults`] draws absent and refused pages, retries, lost records, operations that
//! never end, hardware errors; [`Device::disable_queue`], [`Device::halt`] and [`Device::reset`] strike with work in flight. Memory that is really not mapped is a fault
//! like others, never a signal.
//!
//! # What it tells
//! [`Device::violations`] are duties of software that were broken: a record that is used twice at a time, a batch's list that is changed too early, a stray byte, a missing
//! flag ([`Rule`]). [`Device::counters`] says what was done and what was lost, to be compared with what a driver believes; [`Device::trace`] tells of each descriptor.
//!
//! # What it does not show
//! Nobody compared it with a device: there was none on the machines that built it. It cannot show missing fences (every submission here is ordered), what cache hints are
//! worth, traffic classes (both are always enabled), interrupts, privilege, virtual machines, or operations of version 3.0. Where the
//! specification leaves a choice, it makes one that the specification allows, or in [`Profile::compat`] the one that programs in use expect.

mod batch;
mod checks;
mod completion;
mod config;
mod counters;
mod crc;
mod device;
#[allow(unsafe_code)]
pub(crate) mod driver;
mod execute;
mod faults;
mod life;
#[allow(unsafe_code)]
mod memory;
#[allow(unsafe_code)]
mod null;
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
pub(crate) use driver::DriverSide;
pub use faults::Faults;
pub use null::NullQueue;
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
