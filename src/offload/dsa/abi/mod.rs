//! What descriptors and completion records look like, byte for byte and bit for bit. Nothing here decides anything.
//!
//! The driver fills descriptors with it, the device model (feature `sim`) reads them with it, and both are therefore wrong together if a
//! number here is: which is why sizes and offsets are asserted when this is compiled, and every constructor is compared with bytes that were
//! written down by hand from the tables.
//!
//! Numbers are from the *Intel Data Streaming Accelerator Architecture Specification*, revision 3.0 (June 2025, order number 341204-006US);
//! "SPEC 8.1.3" names a section of it. Names in capitals are those of Linux's `include/uapi/linux/idxd.h`, where it has one. What devices
//! accept is told by their capabilities ([`GenCap`], [`OpCap`]) and by the work queue, never by the version alone.
//!
//! Nothing in this module was ever seen by a device: there was none on the machines that built it.
//!
//! ```
//! use twolane::offload::dsa::abi::{CompletionRecord, Descriptor, Flags, Opcode, Status, layout};
//!
//! let (source, destination, record) = (0x1000, 0x2000, 0x3000);
//! let descriptor = Descriptor::memmove(source, destination, 4_096).report_to(record).with_flags(Flags::RCR);
//! assert_eq!(descriptor.opcode(), Opcode::MEMMOVE);
//! assert_eq!(descriptor.value(layout::TRANSFER_SIZE), 4_096);
//!
//! // What a device would write there if page 0x2000 were absent.
//! let mut bytes = [0; 32];
//! bytes[0] = 0x83;
//! let record = CompletionRecord::from_bytes(&bytes);
//! assert_eq!(record.status(), Status::PAGE_FAULT_NOBOF);
//! assert!(record.fault_was_write());
//! ```

mod cache;
mod capability;
mod descriptor;
pub mod dif;
mod flags;
pub mod layout;
pub mod limits;
mod opcode;
mod record;
mod status;
mod swerror;

pub use cache::CacheControl;
pub use capability::{EventLog, GenCap, OpCap, Version};
pub use descriptor::Descriptor;
pub use flags::Flags;
pub use layout::{Field, Layout};
pub use opcode::Opcode;
pub use record::{CompletionRecord, CompletionSlot, FaultOperand};
pub use status::Status;
pub use swerror::{SwError, SwErrorCode};
