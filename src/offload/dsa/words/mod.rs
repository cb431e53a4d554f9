//! Descriptors and completion records in words, with the specification's names, for logs and traces: one line each.
//!
//! Pure functions of any bytes: what means nothing is shown as it is. Whether a device would take a descriptor is not said here, since that depends on
//! the device; `sim::dsa::words` (feature `sim`) says it.
//!
//! ```
//! use twolane::offload::dsa::abi::{CompletionRecord, Descriptor, Flags};
//! use twolane::offload::dsa::words::{describe, describe_record};
//!
//! let copy = Descriptor::memmove(0x1000, 0x2000, 4096).report_to(0x3000).with_flags(Flags::RCR);
//! assert_eq!(
//!     describe(&copy).to_string(),
//!     "MEMMOVE: source 0x1000, destination 0x2000, transfer size 4096; flags CRAV|RCR; completion record 0x3000"
//! );
//! let mut bytes = [0; 32];
//! (bytes[0], bytes[5], bytes[9]) = (0x83, 4, 0x24);
//! assert_eq!(
//!     describe_record(&CompletionRecord::from_bytes(&bytes), &copy).to_string(),
//!     "0x03 PAGE_FAULT_NOBOF: a write to 0x2400 faulted, 1024 bytes done, from the front"
//! );
//! ```

mod descriptor;
mod record;

pub use descriptor::{DescriptorInWords, describe};
pub use record::{RecordInWords, describe_record};
