//! Delta records: how to make one buffer from another, as entries of a 16-bit offset (in units of 8 bytes) and 8 bytes of data.

use crate::offload::dsa::abi::{Descriptor, FaultOperand, Status, layout, limits};

use super::{Access, Advance, Execute, Outcome, PageFault, SoFar, Specific, is_checked, size};

const UNIT: u64 = limits::DELTA_ALIGN;
const ENTRY: u64 = limits::DELTA_ENTRY_BYTES as u64;

/// Create delta record (8.3.8).
pub(super) struct Create {
    sources: [u64; 2],
    size: u64,
    record: u64,
    record_max: u64,
    /// Bytes of both sources that are compared.
    done: u64,
    /// Bytes of the record that are written.
    written: u64,
    /// Bit X: result X is a success. `None`: results are not checked.
    expected: Option<u64>,
}

/// Results of a creation.
const EQUAL: u8 = 0;
const COMPLETE: u8 = 1;
const TOO_SMALL: u8 = 2;

impl Create {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        Self {
            sources: [descriptor.value(layout::SOURCE_1), descriptor.value(layout::SOURCE_2)],
            size: size(descriptor),
            record: descriptor.value(layout::DELTA_CREATE),
            record_max: descriptor.value(layout::DELTA_MAX),
            done: 0,
            written: 0,
            expected: is_checked(descriptor).then(|| descriptor.value(layout::EXPECTED_RESULT_MASK)),
        }
    }

    fn finished(&self, result: u8) -> Advance {
        let completed = if result == TOO_SMALL { self.done as u32 } else { 0 };
        let as_expected = self.expected.is_none_or(|mask| mask >> result & 1 == 1);
        let outcome = Outcome { completed, specific: self.record_size(), ..Outcome::success() };
        Advance::Done(outcome.with_result(result, as_expected))
    }

    fn record_size(&self) -> Specific {
        Specific::default().with(0, &(self.written as u32).to_le_bytes())
    }
}

impl Execute for Create {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        let [one, two] = self.sources.map(|start| start.wrapping_add(self.done));
        // Sources are aligned to units, so a unit never spans pages.
        let piece = access.piece(self.size - self.done, &[one, two]) as u64;
        let units = (piece / UNIT).max(1);
        let bytes = (units * UNIT) as usize;
        let (mut left, mut right) = (vec![0; bytes], vec![0; bytes]);
        access.read(FaultOperand::First, one, &mut left)?;
        access.read(FaultOperand::Second, two, &mut right)?;
        for (left, right) in left.chunks_exact(UNIT as usize).zip(right.chunks_exact(UNIT as usize)) {
            if left != right {
                if self.written + ENTRY > self.record_max {
                    return Ok(self.finished(TOO_SMALL));
                }
                let mut entry = [0; ENTRY as usize];
                // The checks bound the size to 0x80000, so that the offset fits.
                entry[..2].copy_from_slice(&((self.done / UNIT) as u16).to_le_bytes());
                entry[2..].copy_from_slice(right);
                access.write_unit(FaultOperand::Destination, self.record.wrapping_add(self.written), &entry)?;
                self.written += ENTRY;
            }
            self.done += UNIT;
        }
        if self.done < self.size {
            return Ok(Advance::More);
        }
        Ok(self.finished(if self.written == 0 { EQUAL } else { COMPLETE }))
    }

    fn so_far(&self) -> SoFar {
        let result = if self.written == 0 { EQUAL } else { COMPLETE };
        SoFar { completed: self.done as u32, result: Some(result), specific: self.record_size() }
    }
}

/// Apply delta record (8.3.9).
pub(super) struct Apply {
    record: u64,
    record_size: u64,
    destination: u64,
    size: u64,
    /// Bytes of the record that are applied.
    done: u64,
    last: Option<u64>,
}

impl Apply {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        Self {
            record: descriptor.value(layout::DELTA_APPLY),
            record_size: descriptor.value(layout::DELTA_SIZE),
            destination: descriptor.value(layout::DESTINATION),
            size: size(descriptor),
            done: 0,
            last: None,
        }
    }

    fn malformed(&self, status: Status) -> Advance {
        Advance::Done(Outcome { completed: self.done as u32, ..Outcome::of(status) })
    }
}

impl Execute for Apply {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        if self.done + ENTRY > self.record_size {
            // A record that is no whole number of entries: what is left over is no entry.
            return Ok(Advance::Done(Outcome::success()));
        }
        let mut entry = [0; ENTRY as usize];
        access.read(FaultOperand::First, self.record.wrapping_add(self.done), &mut entry)?;
        let offset = u64::from(u16::from_le_bytes([entry[0], entry[1]])) * UNIT;
        if self.last.is_some_and(|last| offset <= last) {
            return Ok(self.malformed(Status::DR_OFFSET_NOINC));
        }
        if offset >= self.size {
            return Ok(self.malformed(Status::DR_OFFSET_ERANGE));
        }
        access.write(FaultOperand::Destination, self.destination.wrapping_add(offset), &entry[2..])?;
        self.last = Some(offset);
        self.done += ENTRY;
        Ok(if self.done == self.record_size { Advance::Done(Outcome::success()) } else { Advance::More })
    }

    fn so_far(&self) -> SoFar {
        SoFar { completed: self.done as u32, ..SoFar::default() }
    }
}
