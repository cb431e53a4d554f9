//! CRC generation, and copy with CRC generation.

use crate::offload::dsa::abi::{Descriptor, FaultOperand, Flags, Opcode, layout};

use super::super::crc::{Register, Width};
use super::{Access, Advance, Execute, Outcome, PageFault, SoFar, Specific, size};

/// CRC generation (8.3.12, 8.3.13).
pub(super) struct Crc {
    source: u64,
    destination: Option<u64>,
    size: u64,
    done: u64,
    seed: Seed,
}

enum Seed {
    At { address: u64, width: Width, raw: bool, plain: bool },
    Known(Register),
}

impl Crc {
    pub(super) fn new(descriptor: &Descriptor) -> Self {
        let flags = descriptor.flags();
        let width = if flags.contains(Flags::CRC_64) { Width::Crc64 } else { Width::Crc32 };
        let raw = flags.contains(Flags::BYPASS_CRC_INV_REF);
        let plain = flags.contains(Flags::BYPASS_DATA_REF);
        let seed = if flags.contains(Flags::READ_SEED) {
            Seed::At { address: descriptor.value(layout::CRC_SEED_ADDRESS), width, raw, plain }
        } else {
            let field = if width == Width::Crc64 { layout::CRC_SEED_64 } else { layout::CRC_SEED };
            Seed::Known(Register::new(width, descriptor.value(field), raw, plain))
        };
        let copies = descriptor.opcode() == Opcode::COPY_CRC;
        Self {
            source: descriptor.value(layout::SOURCE),
            destination: copies.then(|| descriptor.value(layout::DESTINATION)),
            size: size(descriptor),
            done: 0,
            seed,
        }
    }

    fn register(&mut self, access: &mut Access<'_>) -> Result<Register, PageFault> {
        match self.seed {
            Seed::Known(register) => Ok(register),
            Seed::At { address, width, raw, plain } => {
                let mut bytes = [0; 8];
                let used = if width == Width::Crc64 { 8 } else { 4 };
                access.read(FaultOperand::Second, address, &mut bytes[..used])?;
                Ok(Register::new(width, u64::from_le_bytes(bytes), raw, plain))
            }
        }
    }

    fn value(&self) -> Specific {
        match &self.seed {
            Seed::Known(register) => Specific::default().with(0, &register.value().to_le_bytes()),
            Seed::At { .. } => Specific::default(),
        }
    }
}

impl Execute for Crc {
    fn advance(&mut self, access: &mut Access<'_>) -> Result<Advance, PageFault> {
        let mut register = self.register(access)?;
        let at = self.source.wrapping_add(self.done);
        let to = self.destination.map(|start| start.wrapping_add(self.done));
        let piece = access.piece(self.size - self.done, &[at, to.unwrap_or(at)]);
        let mut data = vec![0; piece];
        access.read(FaultOperand::First, at, &mut data)?;
        if let Some(to) = to {
            access.write(FaultOperand::Destination, to, &data)?;
        }
        register.take(&data);
        self.seed = Seed::Known(register);
        self.done += piece as u64;
        if self.done < self.size {
            return Ok(Advance::More);
        }
        Ok(Advance::Done(Outcome { specific: self.value(), ..Outcome::success() }))
    }

    fn so_far(&self) -> SoFar {
        // With nothing done the CRC is undefined (8.3.12).
        let specific = if self.done == 0 { Specific::default() } else { self.value() };
        SoFar { completed: self.done as u32, result: None, specific }
    }
}
