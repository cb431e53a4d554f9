//! Memory move, fill and dualcast: operations that write one byte for each byte they are at.

use crate::offload::dsa::abi::{Descriptor, FaultOperand, Flags, layout};

use super::{Access, Advance, Execute, Outcome, PageFault, SoFar, size};

/// Memory move (8.3.4): from the front, or from the back where the ranges overlap so that the front would be overwritten before it is read.
pub(super) struct Move {
    source: u64,
    destination: u64,
    size: u64,
    done: u64,
    backward: bool,
}

impl Move {
    /// `either`: go backward if the ranges do not overlap, which is as good.
    pub(super) fn new(descriptor: &Descriptor, either: bool) -> Self {
        let (source, destination) = (descriptor.value(layout::SOURCE), descriptor.value(layout::DESTINATION));
        let size = size(descriptor);
        let apart = source.abs_diff(destination) >= size;
        let backward = if apart { either } else { destination > source };
        Self { source, destination, size, done: 0, backward }
    }
}

impl Execute for Move {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        let left = self.size - self.done;
        let (piece, offset) = if self.backward {
            let piece =
                access.piece_before(left, &[self.source.wrapping_add(left), self.destination.wrapping_add(left)]);
            (piece, left - piece as u64)
        } else {
            (
                access.piece(left, &[self.source.wrapping_add(self.done), self.destination.wrapping_add(self.done)]),
                self.done,
            )
        };
        let mut data = vec![0; piece];
        access.read(FaultOperand::First, self.source.wrapping_add(offset), &mut data)?;
        access.write(FaultOperand::Destination, self.destination.wrapping_add(offset), &data)?;
        self.done += piece as u64;
        Ok(if self.done == self.size { Advance::Done(Outcome::success()) } else { Advance::More })
    }

    fn so_far(&self) -> SoFar {
        SoFar { completed: self.done as u32, result: Some(u8::from(self.backward)), ..SoFar::default() }
    }
}

/// Fill (8.3.5): the pattern's phase counts from the destination of this descriptor.
pub(super) struct Fill {
    pattern: [u8; 16],
    /// 8 or 16 bytes.
    period: u64,
    destination: u64,
    size: u64,
    done: u64,
}

impl Fill {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        let wide = descriptor.flags().contains(Flags::FILL_16);
        let mut pattern = [0; 16];
        pattern[..8].copy_from_slice(&descriptor.value(layout::PATTERN).to_le_bytes());
        if wide {
            pattern[8..].copy_from_slice(&descriptor.value(layout::PATTERN_UPPER).to_le_bytes());
        }
        let destination = descriptor.value(layout::DESTINATION);
        Self { pattern, period: if wide { 16 } else { 8 }, destination, size: size(descriptor), done: 0 }
    }
}

impl Execute for Fill {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        let at = self.destination.wrapping_add(self.done);
        let piece = access.piece(self.size - self.done, &[at]) as u64;
        let phase = |n: u64| self.pattern[((self.done + n) % self.period) as usize];
        let data: Vec<u8> = (0..piece).map(phase).collect();
        access.write(FaultOperand::Destination, at, &data)?;
        self.done += piece;
        Ok(if self.done == self.size { Advance::Done(Outcome::success()) } else { Advance::More })
    }

    fn so_far(&self) -> SoFar {
        SoFar { completed: self.done as u32, ..SoFar::default() }
    }
}

/// Memory copy with dualcast (8.3.10): both destinations are as far as the record says.
pub(super) struct Dualcast {
    source: u64,
    destinations: [u64; 2],
    size: u64,
    done: u64,
}

impl Dualcast {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        Self {
            source: descriptor.value(layout::SOURCE),
            destinations: [descriptor.value(layout::DESTINATION), descriptor.value(layout::DESTINATION_2)],
            size: size(descriptor),
            done: 0,
        }
    }
}

impl Execute for Dualcast {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        // Both destinations or neither: a page at a time.
        access.large = false;
        let (source, [one, two]) =
            (self.source.wrapping_add(self.done), self.destinations.map(|start| start.wrapping_add(self.done)));
        let piece = access.piece(self.size - self.done, &[source, one, two]);
        let mut data = vec![0; piece];
        access.read(FaultOperand::First, source, &mut data)?;
        access.writable(FaultOperand::Destination2, two)?;
        access.write(FaultOperand::Destination, one, &data)?;
        access.write(FaultOperand::Destination2, two, &data)?;
        self.done += piece as u64;
        Ok(if self.done == self.size { Advance::Done(Outcome::success()) } else { Advance::More })
    }

    fn so_far(&self) -> SoFar {
        SoFar { completed: self.done as u32, ..SoFar::default() }
    }
}
