//! What does a descriptor ask for, and what is wrong with it? For people who write drivers: one line in the specification's words, and one more for
//! each rule that it breaks, with the status that the device answers and the section that says so.
//!
//! A device reports one violation of several; this reports all, since whoever repairs one wants to know of the next.
//!
//! ```
//! use twolane::offload::dsa::abi::{Descriptor, Flags};
//! use twolane::sim::dsa::DeviceConfig;
//! use twolane::sim::dsa::QueueConfig;
//! use twolane::sim::dsa::words::{Site, describe};
//!
//! let device = DeviceConfig::v1().queue(QueueConfig::shared(16));
//! let site = Site { device: &device, queue: 0, is_child: false };
//! let wrong = Descriptor::memmove(0x1000, 0x2000, 0).report_to(0x3000).with_flags(Flags::RCR | Flags::FENCE);
//! let words = describe(&wrong, &site).to_string();
//! assert!(words.contains("0x11 INVALID_FLAGS: MEMMOVE: flags FENCE are reserved here (specification 5.4)"), "{words}");
//! assert!(words.contains("0x13 XFER_ERANGE: MEMMOVE: transfer size 0, not 1 to 2097152 (specification 5.4)"), "{words}");
//! ```

use std::fmt;

use crate::offload::dsa::abi::{Descriptor, Flags, GenCap, Opcode, Status};
use crate::offload::dsa::words::{self, DescriptorInWords};

pub use crate::offload::dsa::words::describe_record;

use super::checks::{self, Case};
use super::config::{DeviceConfig, QueueConfig};
use super::trace::{End, Loss, TraceEntry};
use super::violations::Rule;

/// Where a descriptor was submitted: what it is held against.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The device.
    pub device: &'a DeviceConfig,
    /// The work queue, by number. One that the device has not: nothing is said about what is wrong.
    pub queue: usize,
    /// It stands in a batch's list.
    pub is_child: bool,
}

/// A rule that a descriptor breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// What the device answers; `None`: nothing, it is not looked at.
    pub status: Option<Status>,
    /// The rule.
    pub rule: Rule,
    /// How it is broken, with the numbers.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => {
                write!(f, "{:#04x}", status.code())?;
                status.name().map_or(Ok(()), |name| write!(f, " {name}"))?;
            }
            None => write!(f, "{:?}", self.rule)?,
        }
        write!(f, ": {} (specification {})", self.what, self.rule.section())
    }
}

/// Every rule that a descriptor breaks where it was submitted, in the order in which a device looks. Empty: it is carried out, as far as its memory
/// is there.
#[must_use]
pub fn findings(descriptor: &Descriptor, site: &Site<'_>) -> Vec<Finding> {
    let Some(queue) = site.queue_config() else { return Vec::new() };
    let case = Case { descriptor, device: site.device, queue, is_child: site.is_child };
    let refused = checks::all(&case).into_iter();
    let mut all: Vec<_> = refused.map(|r| Finding { status: Some(r.status), rule: r.rule, what: r.what }).collect();
    all.extend(checks::part_of_a_block(descriptor).map(|what| Finding {
        status: None,
        rule: Rule::PartialBlock,
        what,
    }));
    all
}

/// A descriptor in words: its line, and behind it one, indented, for each [`Finding`]; then what is not wrong but easily overlooked.
#[must_use = "it is words, to be printed"]
pub fn describe(descriptor: &Descriptor, site: &Site<'_>) -> Described {
    let findings = findings(descriptor, site);
    Described { line: words::describe(descriptor), note: note(descriptor), findings }
}

/// See [`describe`].
#[derive(Clone, Debug)]
pub struct Described {
    line: DescriptorInWords,
    findings: Vec<Finding>,
    note: Option<&'static str>,
}

impl Described {
    /// The rules that it breaks.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.line)?;
        for finding in &self.findings {
            write!(f, "\n    {finding}")?;
        }
        self.note.map_or(Ok(()), |note| write!(f, "\n    note: {note}"))
    }
}

/// What follows from flags that are allowed.
fn note(descriptor: &Descriptor) -> Option<&'static str> {
    let flags = descriptor.flags();
    // Dedicated to nothing: a no-op without a record is how queues are kept busy.
    if !flags.contains(Flags::CRAV) && descriptor.opcode() != Opcode::NOOP {
        return Some("without CRAV nobody hears how it ended; an error goes to the device's error register");
    }
    let unasked = flags.contains(Flags::CRAV) && !flags.contains(Flags::RCR);
    unasked.then_some("without RCR its record is written only if it fails: a status of 0 is what success looks like")
}

/// What became of a descriptor, in words: number, queue, what was asked for, how it ended; with what was wrong with it, if something was.
#[must_use = "it is words, to be printed"]
pub fn describe_entry(entry: &TraceEntry, device: &DeviceConfig) -> EntryInWords {
    let site = Site { device, queue: entry.queue, is_child: entry.child.is_some() };
    let described = Described { note: None, ..describe(&entry.descriptor, &site) };
    let has_fault_info = device.gencap.contains(GenCap::FAULT_INFO);
    EntryInWords { entry: entry.clone(), described, has_fault_info, queue: None }
}

/// See [`describe_entry`].
#[derive(Clone, Debug)]
pub struct EntryInWords {
    entry: TraceEntry,
    described: Described,
    has_fault_info: bool,
    queue: Option<String>,
}

impl EntryInWords {
    /// With the queue's name instead of its number in the model: `dsa0/wq0.1`, say.
    pub fn queue(mut self, name: impl Into<String>) -> Self {
        self.queue = Some(name.into());
        self
    }
}

impl fmt::Display for EntryInWords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TraceEntry { id, child, queue, pasid, descriptor, end, at_ns } = &self.entry;
        write!(f, "#{id}")?;
        child.map_or(Ok(()), |child| write!(f, ".{child}"))?;
        match &self.queue {
            Some(name) => write!(f, " {name} pasid {pasid}")?,
            None => write!(f, " wq{queue} pasid {pasid}")?,
        }
        if *at_ns > 0 {
            write!(f, " {at_ns} ns")?;
        }
        write!(f, " {} -> ", self.described.line)?;
        let told = |record| {
            let words = describe_record(record, descriptor);
            if self.has_fault_info { words.with_fault_info() } else { words }
        };
        match end {
            End::Reported(record) => write!(f, "{}", told(record))?,
            End::Silent(record) => write!(f, "{} (no record was asked for)", told(record))?,
            End::Lost(loss) => f.write_str(in_words(*loss))?,
        }
        self.described.findings.iter().try_for_each(|finding| write!(f, "\n    {finding}"))
    }
}

fn in_words(loss: Loss) -> &'static str {
    match loss {
        Loss::Record => "lost: its completion record could not be written (0x1a or 0x1b in the error register)",
        Loss::Overflow => "lost: the dedicated queue was full (0x53 in the error register)",
        Loss::Dropped => "lost: the queue was disabled, or takes ENQCMD only",
        Loss::Vanished => "lost: the queue was disabled, or its device halted, before it was done",
        Loss::Never => "lost: injected, it was accepted and never carried out",
    }
}

impl<'a> Site<'a> {
    fn queue_config(&self) -> Option<&'a QueueConfig> {
        self.device.queues.get(self.queue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::{CompletionRecord, layout};

    fn device() -> DeviceConfig {
        DeviceConfig::v1().queue(QueueConfig::shared(16))
    }

    fn words(descriptor: Descriptor, is_child: bool) -> String {
        let device = device();
        describe(&descriptor, &Site { device: &device, queue: 0, is_child }).to_string()
    }

    fn reported(descriptor: Descriptor) -> Descriptor {
        descriptor.report_to(0x40).with_flags(Flags::RCR)
    }

    #[test]
    fn what_is_good_is_one_line() {
        for descriptor in [
            reported(Descriptor::noop()),
            reported(Descriptor::memmove(0x1000, 0x5000, 64)),
            reported(Descriptor::batch(0x1000, 2)),
            reported(Descriptor::crc(0x1000, 9, 0)),
            Descriptor::noop(),
        ] {
            assert!(!words(descriptor, false).contains('\n'), "{}", words(descriptor, false));
        }
    }

    /// Each mistake with the status, the rule's words and the section.
    #[test]
    fn mistakes_are_named_with_status_and_section() {
        let mv = || reported(Descriptor::memmove(0x1000, 0x5000, 64));
        for (descriptor, is_child, says) in [
            (
                mv().with_flags(Flags::FENCE),
                false,
                "0x11 INVALID_FLAGS: MEMMOVE: flags FENCE are reserved here (specification 5.4)",
            ),
            (mv().with_flags(Flags::BOF), false, "0x11 INVALID_FLAGS: MEMMOVE: flags BOF are reserved here"),
            (
                mv().with(layout::TRANSFER_SIZE, 0),
                false,
                "0x13 XFER_ERANGE: MEMMOVE: transfer size 0, not 1 to 2097152",
            ),
            (mv().with(layout::DESTINATION_2, 1), false, "0x12 NOZERO_RESERVE: MEMMOVE: byte 40 not zero"),
            (
                mv().with(layout::COMPLETION_ADDRESS, 0x41),
                false,
                "0x1b CRA_ALIGN: the completion record at 0x41 is not aligned",
            ),
            (Descriptor::crc(0, 1, 0), false, "0x11 INVALID_FLAGS: CRCGEN: it has to have flags"),
            (reported(Descriptor::batch(0x1001, 1)), false, "0x14 DESC_CNT_ERANGE"),
            (reported(Descriptor::batch(0x1001, 2)), false, "0x18 DESCLIST_ALIGN"),
            (reported(Descriptor::batch(0x1000, 2)), true, "0x10 BAD_OPCODE: BATCH: not allowed in a batch"),
            (reported(Descriptor::dualcast(0x1000, 0x2000, 0x3001, 8)), false, "0x17 DCAST_ERR"),
            (reported(Descriptor::copy_crc(0x1000, 0x1001, 8, 0)), false, "0x16 OVERLAP_BUFFERS"),
            (reported(Descriptor::new(Opcode(0x7f))), false, "0x10 BAD_OPCODE: opcode 0x7f"),
            (
                reported(Descriptor::new(Opcode::DIF_CHECK).with(layout::TRANSFER_SIZE, 521)),
                false,
                "PartialBlock: transfer size 521, not a multiple of 520 (specification 8.3.17)",
            ),
        ] {
            let words = words(descriptor, is_child);
            assert!(words.contains(&format!("\n    {says}")), "{says}, not:\n{words}");
        }
    }

    #[test]
    fn several_mistakes_are_all_told() {
        let descriptor = reported(Descriptor::memmove(1, 2, 0)).with_flags(Flags::FENCE).with(layout::DESTINATION_2, 7);
        assert_eq!(words(descriptor, false).lines().count(), 4);
    }

    #[test]
    fn what_is_easily_overlooked_is_noted() {
        assert!(words(Descriptor::memmove(1, 0x100, 1), false).contains("note: without CRAV"));
        assert!(words(Descriptor::memmove(1, 0x100, 1).report_to(64), false).contains("note: without RCR"));
    }

    #[test]
    fn an_entry_is_a_line_with_its_end() {
        let success = CompletionRecord { status_byte: 1, ..CompletionRecord::default() };
        let entry = TraceEntry {
            id: 7,
            child: Some(2),
            queue: 0,
            pasid: 3,
            descriptor: reported(Descriptor::noop()),
            end: End::Reported(success),
            at_ns: 0,
        };
        let told = |entry: &TraceEntry| describe_entry(entry, &device()).to_string();
        assert_eq!(told(&entry), "#7.2 wq0 pasid 3 NOOP; flags CRAV|RCR; completion record 0x40 -> 0x01 SUCCESS");
        let lost = TraceEntry { child: None, end: End::Lost(Loss::Overflow), at_ns: 5, ..entry.clone() };
        assert!(
            told(&lost).starts_with("#7 wq0 pasid 3 5 ns NOOP")
                && told(&lost).contains("-> lost: the dedicated queue was full")
        );
        let nowhere = TraceEntry { queue: 99, ..entry };
        assert!(!told(&nowhere).is_empty(), "a queue that is not there is no reason to panic");
    }

    /// Any bytes, held against devices of both versions.
    #[test]
    fn no_descriptor_is_beyond_words() {
        let devices = [device(), DeviceConfig::v2().queue(QueueConfig::dedicated(8).block_on_fault(true))];
        let mut dice = 0x5eed_u64;
        for n in 0..20_000_u32 {
            let mut bytes = [0; 64];
            for byte in &mut bytes {
                dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (dice >> 56) as u8;
            }
            bytes[7] = n as u8;
            let descriptor = Descriptor::from_bytes(&bytes);
            for device in &devices {
                let site = Site { device, queue: 0, is_child: n % 2 == 0 };
                let described = describe(&descriptor, &site);
                assert_eq!(
                    described.to_string().lines().count(),
                    1 + described.findings().len() + usize::from(described.note.is_some())
                );
            }
        }
    }
}
