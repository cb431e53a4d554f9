//! The destination of an operation, written back to memory by the CPU: where durability was asked for and no device sees to it.

use super::dsa::faults::operands;
use super::{Operation, cpu};

/// Writes back what the operation has written.
///
/// # Safety
/// - The operation's memory is readable, and nobody writes it meanwhile.
#[cold]
pub(super) unsafe fn write_back(operation: &Operation) {
    for operand in operands(operation).into_iter().flatten().filter(|operand| operand.write) {
        let start = std::ptr::with_exposed_provenance::<u8>(operand.start);
        // SAFETY: says the caller; the range is the operation's own.
        unsafe { cpu::write_back(start, operand.bytes) };
    }
}
