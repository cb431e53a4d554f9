//! Where a descriptor's writes are to end up: the cache control bits (SPEC 8.1.3.1, table 8-4).

use super::{Flags, GenCap, Version};

/// A combination of the three cache control bits. A hint: implementations may ignore it. Completion records go to the cache always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CacheControl {
    /// `000`: write to memory; a line that is in the cache may be evicted.
    Memory,
    /// `001`: write to the cache, allocating lines.
    Cache,
    /// `010`: write durable memory, then read the destination back.
    DurableReadback,
    /// `011`: write to the cache, then read the destination back.
    CacheReadback,
    /// `100`: write durable memory, no readback.
    Durable,
    /// `110`: write to memory, then read the destination back.
    MemoryReadback,
}

impl CacheControl {
    /// Every combination that means something. `101` and `111` are reserved.
    pub const ALL: [Self; 6] =
        [Self::Memory, Self::Cache, Self::DurableReadback, Self::CacheReadback, Self::Durable, Self::MemoryReadback];

    /// The bits, of the three.
    #[must_use]
    pub const fn flags(self) -> Flags {
        match self {
            Self::Memory => Flags::NONE,
            Self::Cache => Flags::CC,
            Self::DurableReadback => Flags::DRDBK,
            Self::CacheReadback => Flags::CC.union(Flags::DRDBK),
            Self::Durable => Flags::CC3,
            Self::MemoryReadback => Flags::CC3.union(Flags::DRDBK),
        }
    }

    /// The combination that is set in `flags`; `None` for the two that are reserved.
    #[must_use]
    pub fn of(flags: Flags) -> Option<Self> {
        let bits = flags & (Flags::CC | Flags::DRDBK | Flags::CC3);
        Self::ALL.into_iter().find(|combination| combination.flags() == bits)
    }

    /// Whether a device of these capabilities takes it, in an operation that writes memory. A cache flush takes
    /// [`Memory`](Self::Memory) and [`DurableReadback`](Self::DurableReadback) only.
    ///
    /// The specification's 3.0 lets [`Durable`](Self::Durable) and [`MemoryReadback`](Self::MemoryReadback) use bit 5, which 2.0 reserves: they
    /// are told as not taken below 3.0, whatever the capabilities say.
    #[must_use]
    pub const fn is_taken_by(self, capabilities: GenCap, version: Version) -> bool {
        let with_cc3 = version.0 >= Version::V3_0.0;
        match self {
            Self::Memory => true,
            Self::Cache => capabilities.contains(GenCap::CACHE_CONTROL),
            Self::DurableReadback => capabilities.contains(GenCap::DEST_READBACK),
            Self::CacheReadback => capabilities.contains(GenCap::CACHE_CONTROL.union(GenCap::DEST_READBACK)),
            Self::Durable => with_cc3 && capabilities.contains(GenCap::DURABLE_WRITE),
            Self::MemoryReadback => with_cc3 && capabilities.contains(GenCap::DEST_READBACK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_are_those_of_the_table() {
        // Columns 3 2 1 of the table: bits 5, 14 and 8.
        for (combination, cc3, cc2, cc1) in [
            (Some(CacheControl::Memory), 0, 0, 0),
            (Some(CacheControl::Cache), 0, 0, 1),
            (Some(CacheControl::DurableReadback), 0, 1, 0),
            (Some(CacheControl::CacheReadback), 0, 1, 1),
            (Some(CacheControl::Durable), 1, 0, 0),
            (None, 1, 0, 1),
            (Some(CacheControl::MemoryReadback), 1, 1, 0),
            (None, 1, 1, 1),
        ] {
            let bits = cc3 << 5 | cc2 << 14 | cc1 << 8;
            assert_eq!(CacheControl::of(Flags::from_bits(bits | 0xc)), combination, "{cc3}{cc2}{cc1}");
            assert!(combination.is_none_or(|combination| combination.flags().bits() == bits));
        }
    }

    #[test]
    fn capabilities_decide() {
        let (cache, readback, durable) = (GenCap::CACHE_CONTROL, GenCap::DEST_READBACK, GenCap::DURABLE_WRITE);
        let taken = |capabilities: GenCap, version| {
            CacheControl::ALL.map(|combination| u8::from(combination.is_taken_by(capabilities, version)))
        };
        // Memory, Cache, DurableReadback, CacheReadback, Durable, MemoryReadback.
        assert_eq!(taken(GenCap(0), Version::V3_0), [1, 0, 0, 0, 0, 0]);
        assert_eq!(taken(cache, Version::V1_0), [1, 1, 0, 0, 0, 0]);
        assert_eq!(taken(readback, Version::V2_0), [1, 0, 1, 0, 0, 0]);
        assert_eq!(taken(cache.union(readback).union(durable), Version::V2_0), [1, 1, 1, 1, 0, 0]);
        assert_eq!(taken(cache.union(readback).union(durable), Version::V3_0), [1, 1, 1, 1, 1, 1]);
        assert_eq!(taken(durable, Version::V3_0), [1, 0, 0, 0, 1, 0]);
    }
}
