//! Compare and compare pattern: where is the first difference?

use crate::offload::dsa::abi::{Descriptor, FaultOperand, layout};

use super::{Access, Advance, Execute, Outcome, PageFault, SoFar, is_checked, size};

/// What a comparison is told to find: equal (0) or different (1), and whether anything else is a failed prediction.
struct Expected {
    result: u8,
    is_checked: bool,
}

impl Expected {
    fn of(descriptor: &Descriptor) -> Self {
        // Bits 7:1 are ignored (8.3.6).
        Self { result: descriptor.value(layout::EXPECTED_RESULT) as u8 & 1, is_checked: is_checked(descriptor) }
    }

    fn outcome(&self, difference: Option<u64>) -> Outcome {
        let result = u8::from(difference.is_some());
        let outcome = Outcome { completed: difference.unwrap_or(0) as u32, ..Outcome::success() };
        outcome.with_result(result, !self.is_checked || result == self.result)
    }
}

/// Compare (8.3.6). A difference before the page that faults is the answer, and the fault is not.
pub(super) struct Compare {
    sources: [u64; 2],
    size: u64,
    done: u64,
    expected: Expected,
}

impl Compare {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        let sources = [descriptor.value(layout::SOURCE_1), descriptor.value(layout::SOURCE_2)];
        Self { sources, size: size(descriptor), done: 0, expected: Expected::of(descriptor) }
    }
}

impl Execute for Compare {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        let [one, two] = self.sources.map(|start| start.wrapping_add(self.done));
        let piece = access.piece(self.size - self.done, &[one, two]);
        let (mut left, mut right) = (vec![0; piece], vec![0; piece]);
        access.read(FaultOperand::First, one, &mut left)?;
        access.read(FaultOperand::Second, two, &mut right)?;
        if let Some(at) = left.iter().zip(&right).position(|(left, right)| left != right) {
            return Ok(Advance::Done(self.expected.outcome(Some(self.done + at as u64))));
        }
        self.done += piece as u64;
        Ok(if self.done == self.size { Advance::Done(self.expected.outcome(None)) } else { Advance::More })
    }

    fn so_far(&self) -> SoFar {
        // No difference so far, which is a result as well.
        SoFar { completed: self.done as u32, result: Some(0), ..SoFar::default() }
    }
}

/// Compare pattern (8.3.7): the offset reported is at most that of the first difference.
pub(super) struct ComparePattern {
    source: u64,
    pattern: [u8; 8],
    size: u64,
    done: u64,
    expected: Expected,
    lower_bound: bool,
}

impl ComparePattern {
    pub(super) fn new(descriptor: &Descriptor, lower_bound: bool) -> Self {
        Self {
            source: descriptor.value(layout::SOURCE),
            pattern: descriptor.value(layout::COMPARE_PATTERN).to_le_bytes(),
            size: size(descriptor),
            done: 0,
            expected: Expected::of(descriptor),
            lower_bound,
        }
    }
}

impl Execute for ComparePattern {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        let at = self.source.wrapping_add(self.done);
        let piece = access.piece(self.size - self.done, &[at]);
        let mut data = vec![0; piece];
        access.read(FaultOperand::First, at, &mut data)?;
        let phase = |n: usize| self.pattern[((self.done + n as u64) % 8) as usize];
        if let Some(at) = data.iter().enumerate().position(|(n, byte)| *byte != phase(n)) {
            let exact = self.done + at as u64;
            let units = exact / 8;
            let reported = if self.lower_bound { access.weather.dice.next() % (units + 1) * 8 } else { exact };
            return Ok(Advance::Done(self.expected.outcome(Some(reported))));
        }
        self.done += piece as u64;
        Ok(if self.done == self.size { Advance::Done(self.expected.outcome(None)) } else { Advance::More })
    }

    fn so_far(&self) -> SoFar {
        SoFar { completed: self.done as u32, result: Some(0), ..SoFar::default() }
    }
}
