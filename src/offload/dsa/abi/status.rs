//! How a descriptor ended (SPEC 5.8.1, 5.8.2).

use std::fmt;

/// The code in the status byte of a completion record: its bits 5:0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Status(u8);

/// Declares the codes: constant, number, and what happened.
macro_rules! statuses {
    ($($name:ident = $number:literal, $meaning:literal;)*) => {
        impl Status {
            $(#[doc = concat!("`", stringify!($number), "`: ", $meaning, ".")] pub const $name: Self = Self($number);)*

            /// Every status that is known, by number.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// As in `linux/idxd.h`, without its prefix; of those that it lacks, in its manner.
            #[must_use]
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }

            /// What happened, as a sentence without its full stop.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)*
                    Self(0x28..=0x2e) => "an error of an operation between address spaces",
                    _ => "a status that the specification does not name",
                }
            }
        }
    };
}

statuses! {
    NONE = 0x00, "no device wrote this record yet";
    SUCCESS = 0x01, "done";
    SUCCESS_PRED = 0x02, "done, and the result is not the expected one";
    PAGE_FAULT_NOBOF = 0x03, "done in part: a page was absent, and the descriptor does not block on faults";
    PAGE_FAULT_IR = 0x04, "done in part: a page was refused";
    BATCH_FAIL = 0x05, "a descriptor of the batch did not end with success";
    BATCH_PAGE_FAULT = 0x06, "the list of the batch could not be read to its end";
    DR_OFFSET_NOINC = 0x07, "the offsets in the delta record do not increase";
    DR_OFFSET_ERANGE = 0x08, "an offset in the delta record is beyond the transfer";
    DIF_ERR = 0x09, "protection information does not match";
    BAD_OPCODE = 0x10, "the operation is not supported, not allowed in this queue, or not allowed in a batch";
    INVALID_FLAGS = 0x11, "a flag is reserved or not supported, or a required one is missing";
    NOZERO_RESERVE = 0x12, "a reserved field is not zero";
    XFER_ERANGE = 0x13, "the transfer size is zero, or larger than the queue or the operation allows";
    DESC_CNT_ERANGE = 0x14, "the batch is too small, or larger than the queue allows";
    DR_ERANGE = 0x15, "the size of the delta record is out of range";
    OVERLAP_BUFFERS = 0x16, "buffers overlap that may not";
    DCAST_ERR = 0x17, "the destinations of the dualcast differ in bits 11:0";
    DESCLIST_ALIGN = 0x18, "the list of the batch is not aligned to 64 bytes";
    INT_HANDLE_INVAL = 0x19, "the interrupt handle is not valid";
    CRA_XLAT = 0x1a, "the completion record's page was refused (never seen in a record)";
    CRA_ALIGN = 0x1b, "the completion record is not aligned to 32 bytes (never seen in a record)";
    ADDR_ALIGN = 0x1c, "an address or size is not aligned as the operation wants";
    PRIV_BAD = 0x1d, "privilege without right (never seen in a record)";
    TRAFFIC_CLASS_CONF = 0x1e, "the traffic class is not enabled";
    PFAULT_RDBA = 0x1f, "a readback address of the drain faulted";
    HW_ERR1 = 0x20, "hardware error, or a read that faulted without address translation service";
    HW_ERR_DRB = 0x21, "hardware error at a write or at reading back";
    TRANSLATION_FAIL = 0x22, "an address could not be translated";
    DRAIN_EVL = 0x26, "a completion record before the drain faulted (event log only)";
    BATCH_EVL_ERR = 0x27, "a completion record in the batch faulted (event log only)";
}

impl Status {
    /// The bits of the status byte that are the code.
    pub const CODE_MASK: u8 = 0x3f;
    /// Bit 7 of the status byte: the access that faulted was a write. Means something after a fault only.
    pub const WRITE_FAULT: u8 = 0x80;

    /// The code in a record's first byte. Bits 6 and 7 are no part of it.
    #[inline]
    #[must_use]
    pub const fn of(byte: u8) -> Self {
        Self(byte & Self::CODE_MASK)
    }

    /// As a number.
    #[inline]
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Whether an access faulted, so that bit 7, the fault address and the fault information mean something.
    #[must_use]
    pub const fn is_fault(self) -> bool {
        matches!(
            self,
            Self::PAGE_FAULT_NOBOF | Self::PAGE_FAULT_IR | Self::BATCH_PAGE_FAULT | Self::CRA_XLAT | Self::PFAULT_RDBA
        )
    }

    /// Whether a record is written for it without [`Flags::RCR`](super::Flags::RCR) (SPEC 8.1.3).
    #[must_use]
    pub const fn is_reported_unasked(self) -> bool {
        !matches!(self, Self::SUCCESS | Self::SUCCESS_PRED | Self::BATCH_FAIL)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name().map_or(String::new(), |name| format!(" {name}"));
        write!(f, "status {:#04x}{name}: {}", self.0, self.meaning())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}", self.0)?;
        self.name().map_or(Ok(()), |name| write!(f, " {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_six_bits() {
        for byte in [0x03, 0x83, 0x43, 0xc3] {
            assert_eq!(Status::of(byte), Status::PAGE_FAULT_NOBOF, "{byte:#x}");
        }
        assert_eq!(Status::of(0xff).name(), None);
    }

    #[test]
    fn statuses_are_told_in_words() {
        assert_eq!(
            Status::of(0x13).to_string(),
            "status 0x13 XFER_ERANGE: the transfer size is zero, or larger than the queue or the operation allows"
        );
        assert_eq!(Status::of(0x3f).to_string(), "status 0x3f: a status that the specification does not name");
    }

    #[test]
    fn success_is_reported_on_request_only() {
        let silent: Vec<u8> =
            Status::ALL.iter().filter(|status| !status.is_reported_unasked()).map(|status| status.code()).collect();
        assert_eq!(silent, [0x01, 0x02, 0x05]);
        let faults: Vec<u8> =
            Status::ALL.iter().filter(|status| status.is_fault()).map(|status| status.code()).collect();
        assert_eq!(faults, [0x03, 0x04, 0x06, 0x1a, 0x1f]);
    }
}
