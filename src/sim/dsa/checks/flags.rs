//! Which flags may be set, and which have to be (SPEC 8.1.3; tables 5-3 to 5-5).

use crate::offload::dsa::abi::{CacheControl, Flags, GenCap, Opcode, Status, Version};

use super::super::violations::Rule;
use super::{Case, Refusal};

const CACHE: Flags = Flags::CC.union(Flags::DRDBK).union(Flags::CC3);

pub(super) fn reserved(case: &Case<'_>) -> Option<Refusal> {
    let layout = case.layout()?;
    let given = case.flags();
    let mut wrong = given.without(layout.flags(given)) | layout.lacking(given, case.device.gencap);
    // Every other condition, and what it forbids.
    let forbidden = [
        (!case.is_child, Flags::FENCE),
        (!given.contains(Flags::CRAV), Flags::RCR | Flags::CR_TCS),
        (!case.queue.block_on_fault || case.queue.prs_disable, Flags::BOF),
        // Users get no interrupts: PASID on, privilege off, user-mode interrupts off.
        (true, Flags::RCI),
        (case.device.gencap.contains(GenCap::NO_STORD_MEMORY), Flags::STORD),
        (case.device.version < Version::V3_0, Flags::CC3),
        (!cache_is_good(case), CACHE),
    ];
    for (_, flags) in forbidden.iter().filter(|(applies, _)| *applies) {
        wrong |= given & *flags;
    }
    let what = || format!("{}: flags {wrong} are reserved here", case.opcode());
    (!wrong.is_empty()).then(|| Refusal {
        status: Status::INVALID_FLAGS,
        flags: wrong,
        rule: Rule::ReservedFlag,
        what: what(),
    })
}

fn cache_is_good(case: &Case<'_>) -> bool {
    let Some(combination) = CacheControl::of(case.flags()) else { return false };
    let flushes = matches!(combination, CacheControl::Memory | CacheControl::DurableReadback);
    combination.is_taken_by(case.device.gencap, case.device.version) && (case.opcode() != Opcode::CFLUSH || flushes)
}

pub(super) fn required(case: &Case<'_>) -> Option<Refusal> {
    let given = case.flags();
    let lacking = case.layout()?.required().iter().filter(|one_of| !given.intersects(**one_of));
    let missing = lacking.fold(Flags::NONE, |missing, one_of| missing | *one_of);
    let what = || format!("{}: it has to have flags {missing}", case.opcode());
    (!missing.is_empty()).then(|| Refusal {
        status: Status::INVALID_FLAGS,
        flags: missing,
        rule: Rule::MissingFlag,
        what: what(),
    })
}
