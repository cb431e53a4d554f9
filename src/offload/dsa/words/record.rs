//! What does a completion record say, of the descriptor that it belongs to?

use std::fmt;

use crate::offload::dsa::abi::{CompletionRecord, Descriptor, FaultOperand, Opcode, Status};
use crate::offload::dsa::words::descriptor::write_flags;

/// A completion record in one line: the status, and those fields that mean something for this operation and this status. Others hold anything, and are
/// left out.
#[must_use = "it is words, to be printed"]
pub fn describe_record(record: &CompletionRecord, of: &Descriptor) -> RecordInWords {
    RecordInWords { record: *record, opcode: of.opcode(), has_fault_info: false }
}

/// See [`describe_record`].
#[derive(Clone, Copy, Debug)]
pub struct RecordInWords {
    record: CompletionRecord,
    opcode: Opcode,
    has_fault_info: bool,
}

impl RecordInWords {
    /// The same of a device that says which operand faulted ([`GenCap::FAULT_INFO`](crate::offload::dsa::abi::GenCap::FAULT_INFO)). From others that field holds anything, and is left out.
    #[must_use]
    pub fn with_fault_info(self) -> Self {
        Self { has_fault_info: true, ..self }
    }
}

impl fmt::Display for RecordInWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { record, opcode, has_fault_info } = self;
        let status = record.status();
        if record.status_byte == 0 {
            return f.write_str("not complete");
        }
        write!(f, "{:#04x}", status.code())?;
        status.name().map_or(Ok(()), |name| write!(f, " {name}"))?;
        let mut parts = Parts { f, before: ": " };
        match status {
            Status::SUCCESS | Status::SUCCESS_PRED => {}
            _ if status.is_fault() => parts.fault(record, *has_fault_info)?,
            Status::INVALID_FLAGS => {
                parts.begin()?;
                write_flags(parts.f, *opcode, record.invalid_flags())?;
                parts.f.write_str(", at least")?;
                return Ok(());
            }
            _ => parts.add(format_args!("{}", status.meaning()))?,
        }
        parts.specific(record, *opcode)
    }
}

/// What follows the status, with something in between.
struct Parts<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    before: &'static str,
}

impl Parts<'_, '_> {
    fn begin(&mut self) -> fmt::Result {
        self.f.write_str(self.before)?;
        self.before = ", ";
        Ok(())
    }

    fn add(&mut self, words: fmt::Arguments<'_>) -> fmt::Result {
        self.begin()?;
        self.f.write_fmt(words)
    }

    fn fault(&mut self, record: &CompletionRecord, has_info: bool) -> fmt::Result {
        let access = if record.fault_was_write() { "write to" } else { "read of" };
        self.add(format_args!("a {access} {:#x} faulted", record.fault_address))?;
        let operand = match record.fault_operand() {
            _ if !has_info => return Ok(()),
            FaultOperand::Unknown => return Ok(()),
            FaultOperand::First => "first operand",
            FaultOperand::Second => "second operand",
            FaultOperand::Destination => "destination",
            FaultOperand::Destination2 => "second destination",
            FaultOperand::CompletionRecord => "completion record",
            FaultOperand::List => "scatter-gather list",
        };
        write!(self.f, " ({operand})")
    }

    fn specific(&mut self, record: &CompletionRecord, opcode: Opcode) -> fmt::Result {
        let status = record.status();
        let succeeded = matches!(status, Status::SUCCESS | Status::SUCCESS_PRED);
        let partial = matches!(status, Status::PAGE_FAULT_NOBOF | Status::PAGE_FAULT_IR);
        let done = record.completed;
        match opcode {
            Opcode::BATCH if succeeded || matches!(status, Status::BATCH_FAIL | Status::BATCH_PAGE_FAULT) => {
                self.add(format_args!("{done} descriptors processed"))
            }
            Opcode::COMPARE | Opcode::COMPVAL if succeeded => match (record.result, opcode) {
                (CompletionRecord::EQUAL, _) => self.add(format_args!("equal")),
                (_, Opcode::COMPARE) => self.add(format_args!("different at byte {done}")),
                _ => self.add(format_args!("different at byte {done} or later")),
            },
            Opcode::CR_DELTA if succeeded => match record.result {
                CompletionRecord::EQUAL => self.add(format_args!("equal")),
                CompletionRecord::DELTA_OVERFLOW => {
                    let size = record.delta_record_size();
                    self.add(format_args!("the delta record is full at {size} bytes, {done} bytes compared"))
                }
                _ => self.add(format_args!("a delta record of {} bytes", record.delta_record_size())),
            },
            Opcode::CRCGEN | Opcode::COPY_CRC if succeeded => self.add(format_args!("crc {:#x}", record.crc())),
            Opcode::AP_DELTA if partial || matches!(status, Status::DR_OFFSET_NOINC | Status::DR_OFFSET_ERANGE) => {
                self.add(format_args!("{done} bytes of the delta record applied"))
            }
            Opcode::MEMMOVE if partial => {
                let from = if record.result == CompletionRecord::BACKWARD { "back" } else { "front" };
                self.add(format_args!("{done} bytes done, from the {from}"))
            }
            _ if status == Status::DIF_ERR => {
                self.add(format_args!("{done} bytes of good blocks, {:?}", record.dif_status()))
            }
            Opcode::TRANSL_FETCH | Opcode::NOOP | Opcode::DRAIN => Ok(()),
            _ if partial => self.add(format_args!("{done} bytes done")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::Flags;

    #[test]
    fn records_are_told_as_far_as_they_mean_something() {
        let garbage = CompletionRecord {
            result: 0x5a,
            completed: 77,
            fault_address: 0xdead,
            specific: [0xabc, 0xdef],
            ..CompletionRecord::default()
        };
        let rows = [
            (Opcode::MEMMOVE, 0x00, 0, "not complete"),
            (Opcode::MEMMOVE, 0x01, 0x5a, "0x01 SUCCESS"),
            (Opcode::MEMMOVE, 0xc1, 0x5a, "0x01 SUCCESS"),
            (
                Opcode::MEMMOVE,
                0x03,
                0,
                "0x03 PAGE_FAULT_NOBOF: a read of 0xdead faulted, 77 bytes done, from the front",
            ),
            (
                Opcode::MEMMOVE,
                0x83,
                1,
                "0x03 PAGE_FAULT_NOBOF: a write to 0xdead faulted, 77 bytes done, from the back",
            ),
            (Opcode::MEMFILL, 0x84, 0, "0x04 PAGE_FAULT_IR: a write to 0xdead faulted, 77 bytes done"),
            (Opcode::COMPARE, 0x01, 0, "0x01 SUCCESS: equal"),
            (Opcode::COMPARE, 0x02, 1, "0x02 SUCCESS_PRED: different at byte 77"),
            (Opcode::COMPVAL, 0x01, 1, "0x01 SUCCESS: different at byte 77 or later"),
            (Opcode::CR_DELTA, 0x01, 1, "0x01 SUCCESS: a delta record of 2748 bytes"),
            (Opcode::CR_DELTA, 0x01, 2, "0x01 SUCCESS: the delta record is full at 2748 bytes, 77 bytes compared"),
            (Opcode::CRCGEN, 0x01, 0, "0x01 SUCCESS: crc 0xabc"),
            (Opcode::BATCH, 0x01, 0, "0x01 SUCCESS: 77 descriptors processed"),
            (Opcode::NOOP, 0x01, 0, "0x01 SUCCESS"),
        ];
        for (opcode, status_byte, result, words) in rows {
            let record = CompletionRecord { status_byte, result, ..garbage };
            assert_eq!(describe_record(&record, &Descriptor::new(opcode)).to_string(), words, "{opcode}");
        }
    }

    #[test]
    fn an_operand_is_named_where_the_device_names_one() {
        let record = CompletionRecord { status_byte: 0x83, fault_info: 3 << 1, ..CompletionRecord::default() };
        let words = describe_record(&record, &Descriptor::new(Opcode::MEMFILL));
        assert_eq!(words.to_string(), "0x03 PAGE_FAULT_NOBOF: a write to 0x0 faulted, 0 bytes done");
        let words = words.with_fault_info().to_string();
        assert_eq!(words, "0x03 PAGE_FAULT_NOBOF: a write to 0x0 faulted (destination), 0 bytes done");
    }

    #[test]
    fn what_was_refused_is_named() {
        let specific = [u64::from((Flags::FENCE | Flags::FILL_16).bits()), 0];
        let record = CompletionRecord { status_byte: 0x11, specific, ..CompletionRecord::default() };
        let words = |opcode| describe_record(&record, &Descriptor::new(opcode)).to_string();
        assert_eq!(words(Opcode::MEMFILL), "0x11 INVALID_FLAGS: FENCE|FILL_16, at least");
        assert_eq!(words(Opcode::MEMMOVE), "0x11 INVALID_FLAGS: FENCE|0x40000, at least");
        let fail = CompletionRecord { status_byte: 0x05, completed: 3, ..CompletionRecord::default() };
        let told = describe_record(&fail, &Descriptor::batch(0, 4)).to_string();
        assert!(told.starts_with("0x05 BATCH_FAIL: ") && told.ends_with(", 3 descriptors processed"), "{told}");
    }

    #[test]
    fn no_record_is_beyond_words() {
        let mut dice = 0x5eed_u64;
        for n in 0..60_000_u32 {
            let mut bytes = [0; 32];
            for byte in &mut bytes {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (dice >> 56) as u8;
            }
            bytes[0] = n as u8;
            let of = Descriptor::new(Opcode((n >> 8) as u8));
            let words = describe_record(&CompletionRecord::from_bytes(&bytes), &of).to_string();
            assert!(!words.is_empty() && !words.contains('\n'), "{bytes:02x?}");
        }
    }
}
