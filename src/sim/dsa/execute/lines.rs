//! Cache flush and translation fetch: operations that go over addresses and leave the bytes alone.

use crate::offload::dsa::abi::{Descriptor, FaultOperand, Flags, layout};

use super::super::memory::PAGE;
use super::{Access, Advance, Execute, Outcome, PageFault, SoFar, size};

/// Cache flush (8.3.22). Caches are no part of the model: what can be seen of it is its completion and its faults.
pub(super) struct Flush {
    destination: u64,
    size: u64,
    done: u64,
}

impl Flush {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        Self { destination: descriptor.value(layout::DESTINATION), size: size(descriptor), done: 0 }
    }
}

impl Execute for Flush {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        let at = self.destination.wrapping_add(self.done);
        let piece = access.piece(self.size - self.done, &[at]);
        // Reading proves that the page is there, and changes nothing.
        access.read(FaultOperand::Destination, at, &mut [0])?;
        self.done += piece as u64;
        Ok(if self.done == self.size { Advance::Done(Outcome::success()) } else { Advance::More })
    }

    fn so_far(&self) -> SoFar {
        SoFar { completed: self.done as u32, ..SoFar::default() }
    }
}

/// Translation fetch (8.3.11): looks translations up, one a page or a stride.
pub(super) struct Fetch {
    address: u64,
    size: u64,
    stride: u64,
    done: u64,
}

impl Fetch {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        let given = descriptor.flags().contains(Flags::STRIDE_VALID);
        let stride = if given { descriptor.value(layout::STRIDE) } else { PAGE };
        Self {
            address: descriptor.value(layout::FETCH_ADDRESS),
            size: descriptor.value(layout::REGION_SIZE),
            stride,
            done: 0,
        }
    }
}

impl Execute for Fetch {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        access.translate(FaultOperand::First, self.address.wrapping_add(self.done), false)?;
        self.done += self.stride;
        Ok(if self.done >= self.size { Advance::Done(Outcome::success()) } else { Advance::More })
    }

    fn so_far(&self) -> SoFar {
        // Bytes completed have no meaning for this operation.
        SoFar::default()
    }
}
