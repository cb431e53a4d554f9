//! Does the device take this descriptor? What it looks at before it does anything (SPEC 5.4), one row a check.
//!
//! The specification gives no order among the checks, and a device reports one violation of several: the default is the order of [`CHECKS`], and a
//! strict device draws one. Whether reserved fields are all looked at is the implementation's choice; this one looks at all.
//!
//! Two of the specification's checks have no row: privilege (no descriptor gets it past ENQCMD or the kernel), and traffic classes (both are
//! always enabled, as the kernel sets them up to version 2).

mod flags;
mod overlap;
mod reserved;
mod sizes;
#[cfg(test)]
mod tests;

pub(crate) use sizes::part_of_a_block;

use crate::offload::dsa::abi::limits::RECORD_BYTES;
use crate::offload::dsa::abi::{Descriptor, Flags, Layout, OpCap, Opcode, Status};
use crate::sim::lab::Dice;

use super::config::{DeviceConfig, QueueConfig};
use super::violations::Rule;

/// A descriptor, and what decides whether it is a good one.
#[derive(Clone, Copy)]
pub(crate) struct Case<'a> {
    pub(crate) descriptor: &'a Descriptor,
    pub(crate) device: &'a DeviceConfig,
    pub(crate) queue: &'a QueueConfig,
    /// It came out of a batch's list.
    pub(crate) is_child: bool,
}

/// Why a descriptor is refused. Nothing of it was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: Status,
    /// For 0x11: flags that are at fault.
    pub(crate) flags: Flags,
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

type Check = fn(&Case<'_>) -> Option<Refusal>;

/// In the default order. The record's alignment comes first always: without it nothing can be reported.
const CHECKS: [Check; 10] = [
    operation,
    flags::reserved,
    flags::required,
    reserved::bytes,
    sizes::transfer,
    sizes::batch,
    sizes::delta,
    sizes::alignment,
    overlap::buffers,
    overlap::dualcast_pages,
];

/// Looks at a descriptor. `shuffle`: draws which of several violations is the answer.
pub(crate) fn check(case: &Case<'_>, shuffle: Option<&mut Dice>) -> Result<(), Refusal> {
    if let Some(refusal) = record_address(case) {
        return Err(refusal);
    }
    let mut found = CHECKS.iter().filter_map(|check| check(case));
    let refusal = match shuffle {
        None => found.next(),
        Some(dice) => {
            let mut all: Vec<Refusal> = found.collect();
            let drawn = dice.next() as usize % all.len().max(1);
            (drawn < all.len()).then(|| all.swap_remove(drawn))
        }
    };
    refusal.map_or(Ok(()), Err)
}

/// Everything that is wrong with a descriptor, in the default order.
pub(crate) fn all(case: &Case<'_>) -> Vec<Refusal> {
    record_address(case).into_iter().chain(CHECKS.iter().filter_map(|check| check(case))).collect()
}

impl Case<'_> {
    fn opcode(&self) -> Opcode {
        self.descriptor.opcode()
    }

    fn flags(&self) -> Flags {
        self.descriptor.flags()
    }

    fn layout(&self) -> Option<&'static Layout> {
        Layout::of(self.opcode())
    }

    /// The operations of device and queue.
    fn operations(&self) -> OpCap {
        self.queue.op_config.map_or(self.device.opcap, |queue| self.device.opcap.intersection(&queue))
    }
}

fn refuse(status: Status, rule: Rule, what: String) -> Option<Refusal> {
    Some(Refusal { status, flags: Flags::NONE, rule, what })
}

fn record_address(case: &Case<'_>) -> Option<Refusal> {
    let address = case.descriptor.completion_address()?;
    if address % RECORD_BYTES as u64 == 0 {
        return None;
    }
    refuse(
        Status::CRA_ALIGN,
        Rule::RecordLost,
        format!("the completion record at {address:#x} is not aligned to 32 bytes"),
    )
}

fn operation(case: &Case<'_>) -> Option<Refusal> {
    let opcode = case.opcode();
    let refuse = |why: &str| refuse(Status::BAD_OPCODE, Rule::Refused, format!("{opcode}: {why}"));
    let never_in_a_batch = matches!(opcode, Opcode::BATCH | Opcode::DRAIN | Opcode::UPDATE_WIN);
    if case.layout().is_none() {
        return refuse("no operation of this device model");
    }
    if !case.operations().contains(opcode) {
        return refuse("the device or the queue does not have the operation");
    }
    if case.is_child && never_in_a_batch {
        return refuse("not allowed in a batch");
    }
    if opcode == Opcode::TRANSL_FETCH && case.queue.ats_disable {
        return refuse("the queue has no address translation service");
    }
    None
}
