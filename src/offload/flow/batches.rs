//! What a batch's record says of children that have none of their own: a pure decision.

use crate::offload::dsa::abi::Status;

/// Whether those `missing` of a batch's `count` children did certainly not run, and will not. `completed`: the batch's count of descriptors that were
/// processed.
///
/// A batch's record comes after its children's (SPEC 3.8), so what is missing by then was not processed (a fence stopped the batch, its list could
/// not be read, it was refused as a whole) or processed and its record lost. The count tells which; where it does not, an error of the hardware
/// for example, nothing is certain.
pub(super) fn missing_did_not_run(status: Status, count: u32, completed: u32, missing: u32) -> bool {
    match status {
        Status::SUCCESS | Status::BATCH_FAIL | Status::BATCH_PAGE_FAULT => missing <= count.saturating_sub(completed),
        // Refused before anything was done (SPEC 5.4).
        status => (Status::BAD_OPCODE.code()..=Status::TRAFFIC_CLASS_CONF.code()).contains(&status.code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_not_counted_did_not_run() {
        for (status, count, completed, missing, want) in [
            (Status::BATCH_PAGE_FAULT, 8, 3, 5, true),
            (Status::BATCH_PAGE_FAULT, 8, 3, 6, false), // one of the three lost its record
            (Status::BATCH_FAIL, 8, 8, 1, false),
            (Status::BATCH_FAIL, 8, 2, 6, true), // stopped by a fence
            (Status::SUCCESS, 8, 8, 1, false),
            (Status::DESC_CNT_ERANGE, 8, 0, 8, true),
            (Status::DESC_CNT_ERANGE, 8, 77, 8, true), // the count means nothing here
            (Status::BAD_OPCODE, 2, 0, 2, true),
            (Status::TRAFFIC_CLASS_CONF, 2, 0, 2, true),
            (Status::HW_ERR1, 8, 0, 8, false),
            (Status::TRANSLATION_FAIL, 8, 0, 8, false),
        ] {
            assert_eq!(missing_did_not_run(status, count, completed, missing), want, "{status:?} {completed}/{count}");
        }
    }
}
