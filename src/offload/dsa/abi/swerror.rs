//! Errors that no completion record tells: the register SWERROR (SPEC 9.2), as in sysfs's `errors`.
//! Bits are where Linux's driver has them (`drivers/dma/idxd/registers.h`).

use std::fmt;

use super::{Flags, Opcode, Status};

/// The device's last error that it could not tell the submitter: 256 bits. It holds one error; further ones set
/// [`overflow`](Self::overflow) alone.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct SwError(
    /// The least significant word first.
    pub [u64; 4],
);

impl SwError {
    /// Whether there is one.
    #[must_use]
    pub const fn valid(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether there were more, which are lost.
    #[must_use]
    pub const fn overflow(&self) -> bool {
        self.0[0] >> 1 & 1 != 0
    }

    /// What happened.
    #[must_use]
    pub const fn code(&self) -> SwErrorCode {
        SwErrorCode((self.0[0] >> 8) as u8)
    }

    /// The work queue, if the error was one of a queue.
    #[must_use]
    pub const fn queue(&self) -> Option<u8> {
        if self.0[0] >> 3 & 1 != 0 { Some((self.0[0] >> 16) as u8) } else { None }
    }

    /// The operation, if the error was one of a descriptor.
    #[must_use]
    pub const fn opcode(&self) -> Option<Opcode> {
        if self.0[0] >> 2 & 1 != 0 { Some(Opcode((self.0[0] >> 32) as u8)) } else { None }
    }

    /// Which descriptor of a batch, if the error was one of a batch's.
    #[must_use]
    pub const fn batch_index(&self) -> Option<u16> {
        if self.0[0] >> 4 & 1 != 0 { Some(self.0[1] as u16) } else { None }
    }

    /// Whether the access that faulted was a write.
    #[must_use]
    pub const fn fault_was_write(&self) -> bool {
        self.0[0] >> 5 & 1 != 0
    }

    /// Flags that were refused, where the code says so.
    #[must_use]
    pub const fn invalid_flags(&self) -> Flags {
        Flags::from_bits((self.0[1] >> 32) as u32)
    }

    /// The address that faulted, where the code says that one did.
    #[must_use]
    pub const fn fault_address(&self) -> u64 {
        self.0[2]
    }
}

impl fmt::Debug for SwError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.valid() {
            return f.write_str("SwError(none)");
        }
        f.debug_struct("SwError")
            .field("code", &self.code())
            .field("queue", &self.queue())
            .field("opcode", &self.opcode())
            .field("batch_index", &self.batch_index())
            .field("fault_address", &format_args!("{:#x}", self.fault_address()))
            .field("overflow", &self.overflow())
            .finish()
    }
}

/// The code of a [`SwError`]: that of a completion record, or one of the device's own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct SwErrorCode(pub u8);

impl SwErrorCode {
    /// `0x51`: the PCI configuration was changed while the device was enabled.
    pub const PCI_CONFIG: Self = Self(0x51);
    /// `0x52`: a command came while another one was active.
    pub const COMMAND_ACTIVE: Self = Self(0x52);
    /// `0x53`: a descriptor was dropped, because a dedicated queue was full.
    pub const QUEUE_OVERFLOW: Self = Self(0x53);
    /// `0x54`: the event log is full.
    pub const EVENT_LOG_FULL: Self = Self(0x54);

    /// What happened, as a sentence without its full stop.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::PCI_CONFIG => "the PCI configuration was changed while the device was enabled",
            Self::COMMAND_ACTIVE => "a command came while another one was active",
            Self::QUEUE_OVERFLOW => "a descriptor was dropped, because a dedicated queue was full",
            Self::EVENT_LOG_FULL => "the event log is full",
            Self(code) if code == Status::of(code).code() => Status::of(code).meaning(),
            _ => "an error that the specification does not name",
        }
    }
}

impl fmt::Debug for SwErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x} {}", self.0, self.meaning())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_read() {
        // Valid, of a descriptor, of a queue, of a batch, a write; code 0x1a, queue 5, MEMMOVE; child 7; flags 0x20; address.
        let error = SwError([0x03_0005_1a3d, 0x20_0000_0007, 0xdead_b000, 0]);
        assert!(error.valid() && !error.overflow() && error.fault_was_write());
        assert_eq!((error.code(), error.queue(), error.opcode()), (SwErrorCode(0x1a), Some(5), Some(Opcode::MEMMOVE)));
        assert_eq!((error.batch_index(), error.fault_address()), (Some(7), 0xdead_b000));
        assert_eq!(error.invalid_flags(), Flags::CC3);
        let overflow = SwError([0x5303, 0, 0, 0]);
        assert_eq!((overflow.code(), overflow.queue(), overflow.opcode()), (SwErrorCode::QUEUE_OVERFLOW, None, None));
        assert!(overflow.overflow());
        assert_eq!(format!("{:?}", SwError::default()), "SwError(none)");
    }

    #[test]
    fn codes_are_told_in_words() {
        assert_eq!(SwErrorCode(0x1a).meaning(), Status::CRA_XLAT.meaning());
        assert!(SwErrorCode(0x53).meaning().contains("dropped") && SwErrorCode(0xee).meaning().contains("not name"));
    }
}
