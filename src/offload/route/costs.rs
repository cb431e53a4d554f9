//! What operations are believed to cost before any was seen.

use super::Kind;

/// Operations that cost the cpu about the same a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Group {
    /// Copies, with or without a CRC, and those to two destinations.
    Copy,
    /// Fills.
    Fill,
    /// Compares, and CRCs of what stays where it is: reads only.
    Read,
    /// Delta records, made or applied.
    Delta,
    /// Protection information, in all four ways.
    Dif,
    /// Cache flushes.
    Flush,
}

impl Group {
    pub(super) const COUNT: usize = 6;
    pub(super) const ALL: [Self; Self::COUNT] =
        [Self::Copy, Self::Fill, Self::Read, Self::Delta, Self::Dif, Self::Flush];

    #[inline(always)]
    pub(super) const fn of(kind: Kind) -> Self {
        match kind {
            Kind::Nop | Kind::Copy | Kind::CopyCrc | Kind::Dualcast => Self::Copy,
            Kind::Fill => Self::Fill,
            Kind::Compare | Kind::ComparePattern | Kind::Crc => Self::Read,
            Kind::CreateDelta | Kind::ApplyDelta => Self::Delta,
            Kind::DifCheck | Kind::DifInsert | Kind::DifStrip | Kind::DifUpdate => Self::Dif,
            Kind::Flush => Self::Flush,
        }
    }
}

/// Costs in nanoseconds, and nanoseconds a byte. Only the start of what is learnt, except for those that cannot be learnt here, which say so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// The cpu, before the first byte.
    pub cpu_fixed_ns: f32,
    /// The cpu, a byte, by [`Group`].
    pub cpu_byte_ns: [f32; Group::COUNT],
    /// The core's time for a submission, however many operations go by it: the portal write, and what is done once around it.
    pub submit_ns: f32,
    /// The core's time for each operation of a submission: preparing it, taking its answer, waking its task.
    pub operation_ns: f32,
    /// From a submission until the answer is seen, before the first byte.
    pub latency_fixed_ns: f32,
    /// The device, a byte.
    pub latency_byte_ns: f32,
    /// How much later an operation is done for each one that is before it in the queue. Not learnt.
    pub occupancy_ns: f32,
    /// How much later on another node. Not learnt.
    pub remote_ns: f32,
    /// What a copy by the cpu takes from a neighbour whose data it displaces, a byte. Not learnt.
    pub crowding_byte_ns: f32,
}

impl Costs {
    /// Before anything was measured, if a queue is a shared one. They give the thresholds that `dsa.md` section 7 proposes: 16 KiB for a copy that is waited for, 4 KiB for one
    /// that is not, 1 KiB and less in a batch (the study's own, 4 KiB and 256 B, are for one core that does nothing else).
    pub const STARTING: Self = Self {
        cpu_fixed_ns: 10.0,
        // Copies of data that is in no cache, about 9 GB/s a core; fills write only, compares and CRCs read only; DIF reads, computes and writes;
        // a line's flush takes some 30 ns if it is dirty.
        cpu_byte_ns: [0.115, 0.08, 0.08, 0.115, 0.15, 0.5],
        // Two thirds are ENQCMD (560 to 690 cycles: `dsa.md` section 4.3), the rest is ours: 470 ns for one alone, 110 ns each for eight together.
        submit_ns: 410.0,
        operation_ns: 60.0,
        // DTO's table: 1.19 us for 8 to 12 KiB; 30 GB/s a device.
        latency_fixed_ns: 900.0,
        latency_byte_ns: 0.033,
        // A descriptor occupies an engine for some 100 ns; 4 engines and the bytes of middling copies together.
        occupancy_ns: 100.0,
        // A guess: one hop more for descriptor, data and record.
        remote_ns: 300.0,
        // The study's neighbour lost 43 % beside a copying core; a third of a line's miss (80 ns) for each line displaced.
        crowding_byte_ns: 0.04,
    };

    /// The same where every queue is a dedicated one that is mapped: a posted write of one line in the place of ENQCMD, which waits for the device's answer. 65 ns of
    /// it are MOVDIR64B and the fence, fitted to the study's asynchronous crossover near 256 B; the rest is ours, some hundred instructions.
    pub const DEDICATED: Self = Self { submit_ns: 105.0, ..Self::STARTING };

    pub(super) fn cpu_ns(&self, group: Group, len: usize) -> f32 {
        self.cpu_fixed_ns + len as f32 * self.cpu_byte_ns[group as usize]
    }

    pub(super) fn latency_ns(&self, len: usize) -> f32 {
        self.latency_fixed_ns + len as f32 * self.latency_byte_ns
    }

    pub(super) fn crowding_ns(&self, len: usize) -> f32 {
        len as f32 * self.crowding_byte_ns
    }
}
