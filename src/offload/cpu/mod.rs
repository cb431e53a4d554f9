//! The engine that is always there: every operation, carried out by the calling thread.
//!
//! Data and verdict are what the device's specification says of the same operation, and what the device refuses by its nature (an overlap, a size
//! that a delta record cannot say) is refused here, too ([`check()`]): a route never changes an answer. Two answers are better than a device's:
//! compare-pattern's offset is exact, and an offset is never a lower bound.
//!
//! What takes long is done in pieces: [`Work`] does so many bytes of any operation a call, so that a lane's bounds hold, and [`perform`] all at
//! once. Above a size that is [calibrated](calibrate), copies and fills store round the caches ([`Stores::Streamed`]): a copy that cannot stay in
//! the cache anyway is faster so, and leaves the neighbours' lines alone.
//!
//! There is one file a family of operations. None of them knows what a lane, a queue or a future is.

pub(crate) mod calibrate;
mod check;
mod compare;
mod copy;
mod crc;
mod delta;
mod dif;
mod fill;
mod flush;
#[cfg(test)]
mod naive;
mod work;

use super::{Failure, Operation, Verdict};

pub(crate) use check::{check, overlap};
pub(crate) use copy::copy;
#[allow(unused_imports)] // for a device that cannot make its destination durable
pub(crate) use flush::write_back;
pub(crate) use work::{Work, cut, source_block};

/// How copies and fills store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stores {
    /// Through the caches, as `memcpy` does.
    #[default]
    Plain,
    /// Round the caches, where the cpu can (x86-64); else as [`Plain`](Self::Plain). Ordered before every later store of the thread.
    Streamed,
}

/// Carries out an operation, wholly, before it returns. Nothing is allocated unless it is refused.
///
/// # Errors
/// [`Failure::Refused`], for what [`check()`] says; nothing was done then.
///
/// # Safety
/// - What the operation reads is readable, and what it writes is writable and nobody else's, until this returns. An address that is not gets the
///   thread a SIGSEGV or SIGBUS, as from `memcpy`.
/// - What it reads does not change meanwhile.
pub(crate) unsafe fn perform(operation: &Operation, stores: Stores) -> Result<Verdict, Failure> {
    check(operation)?;
    // SAFETY: the memory is as this function demands, and the operation was checked.
    Ok(unsafe { perform_checked(operation, stores) })
}

/// As [`perform`], for an operation that [`check()`] has let pass.
///
/// # Safety
/// As [`perform`]; and `check` has no objection.
unsafe fn perform_checked(operation: &Operation, stores: Stores) -> Verdict {
    // Everything below may take an address for one that is behind memory.
    if operation.len() == 0 {
        return of_nothing(operation);
    }
    // SAFETY: each function demands of its operands what `perform` demands of the operation's, and what `check` has looked at.
    unsafe {
        match *operation {
            Operation::Nop => Verdict::Done,
            Operation::Copy { src, dst, len } => {
                copy(src, dst, len, stores);
                Verdict::Done
            }
            Operation::Fill { pattern, dst, len } => {
                fill::fill(pattern, dst, len, stores);
                Verdict::Done
            }
            Operation::Compare { left, right, len } => compare::compare(left, right, len),
            Operation::ComparePattern { src, pattern, len } => compare::compare_pattern(src, pattern, len),
            Operation::Crc { src, len, seed } => Verdict::Crc(crc::crc(src, len, seed)),
            Operation::CopyCrc { src, dst, len, seed } => Verdict::Crc(crc::copy_crc(src, dst, len, seed, stores)),
            Operation::Dualcast { src, dst, dst2, len } => {
                copy::dualcast(src, dst, dst2, len, stores);
                Verdict::Done
            }
            Operation::CreateDelta { original, modified, len, record, record_max } => {
                delta::create(original, modified, len, record, record_max)
            }
            Operation::ApplyDelta { record, record_len, dst, len } => delta::apply(record, record_len, dst, len),
            Operation::DifCheck { src, len, dif } => dif::check(src, len, &dif),
            Operation::DifInsert { src, dst, len, dif } => {
                dif::insert(src, dst, len, &dif);
                Verdict::Done
            }
            Operation::DifStrip { src, dst, len, dif } => dif::strip(src, dst, len, &dif),
            Operation::DifUpdate { src, dst, len, check, write } => dif::update(src, dst, len, &check, &write),
            Operation::Flush { dst, len } => {
                flush::give_up(dst, len);
                Verdict::Done
            }
        }
    }
}

/// The verdict of an operation on no bytes, whose addresses may be anything.
fn of_nothing(operation: &Operation) -> Verdict {
    match *operation {
        Operation::Compare { .. } | Operation::ComparePattern { .. } => Verdict::Equal,
        Operation::Crc { seed, .. } | Operation::CopyCrc { seed, .. } => Verdict::Crc(seed),
        Operation::CreateDelta { .. } => Verdict::Delta { len: 0 },
        _ => Verdict::Done,
    }
}

#[cfg(test)]
mod tests;
