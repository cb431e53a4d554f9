//! What does everything cost? One table of parameters, each with its source.

use crate::sim::lab::Dice;

/// Costs of a device and of the cpu beside it, in nanoseconds and bytes per nanosecond (GB/s). Latency and occupancy are kept apart: an engine
/// works on several descriptors at once, in a pipeline (specification 4.4), so the time that one takes says little about how many pass in a second.
///
/// An operation of `n` bytes that finds everything idle completes [`latency_ns`](Self::latency_ns) + n / [`device_rate`](Self::device_rate) after
/// its dispatch. It occupies an engine for the longer of [`descriptor_ns`](Self::descriptor_ns) and n / `engine_rate`, and the device's one way to
/// memory for n / `device_rate`.
///
/// *Published* figures come from others' measurements on DSA 1.0 (4th and 5th generation Xeon); *fitted* ones were chosen so that published
/// ratios come out. None was measured by us. So the model calibrates choices; it is no evidence about hardware.
///
/// ```
/// use twolane::sim::dsa::Timing;
///
/// let usual = Timing::default();
/// let another_machine = usual.drawn(7); // every parameter within 50 % either way
/// assert!(another_machine.latency_ns <= usual.latency_ns * 1.5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Timing {
    /// From dispatch to the record of an operation with no data to speak of. Published: DTO's table reads 1.19 us for 8 to 12 KiB.
    pub latency_ns: f64,
    /// The same for a No-op. Published: 488 cycles (DSAssassin, records in one page), taken at 2.3 GHz.
    pub noop_ns: f64,
    /// What a descriptor occupies an engine for, however small it is. Fitted: 256 B pay asynchronously (study), and batches of four 1 KiB copies reach
    /// 6.4 times one core (thesis), so four engines have to pass well over 20 descriptors a microsecond.
    pub descriptor_ns: f64,
    /// Bytes per nanosecond of one engine. Published: 13.2 B a cycle for one large operation (DSAssassin), which is about what the device has.
    pub engine_rate: f64,
    /// Bytes per nanosecond of the device, all engines together. Published: 30 GB/s (study), 31.17 (dsa-perf-micros).
    pub device_rate: f64,
    /// From the dispatch of a batch to that of its first child: the list has to be read. Fitted: one round trip to memory and back.
    pub batch_fetch_ns: f64,
    /// For the completion of a batch after its last child. Fitted.
    pub batch_end_ns: f64,
    /// A page request that the operating system serves (block on fault). Published ranges: 2 to 80 us.
    pub page_request_ns: f64,
    /// The submitter's time for SFENCE and ENQCMD. Published: 560 to 690 cycles, taken at 2.3 GHz.
    pub enqcmd_ns: f64,
    /// The submitter's time for SFENCE and MOVDIR64B. Fitted: a posted write of one line, and the asynchronous crossover near 256 B.
    pub movdir64b_ns: f64,
    /// The submitter's time for a `write(2)` of one descriptor, apart from the enqueue itself. Fitted: a system call with copies and checks.
    pub write_call_ns: f64,
    /// For each descriptor of a `write(2)`: the kernel's ENQCMDS.
    pub write_descriptor_ns: f64,
    /// The cpu's own copy, before the first byte. Fitted.
    pub cpu_setup_ns: f64,
    /// Bytes per nanosecond of the cpu's copy of data in its caches. Fitted: usual for AVX copies out of L2.
    pub cpu_warm_rate: f64,
    /// Bytes per nanosecond of the cpu's copy from and to memory, for the first [`CPU_COLD_KNEE`](Self::CPU_COLD_KNEE) bytes. Fitted: the synchronous crossover near 4 KiB (study).
    pub cpu_cold_rate: f64,
    /// The same for what lies beyond, where the prefetchers are at work. Fitted.
    pub cpu_stream_rate: f64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            latency_ns: 1_100.0,
            noop_ns: 212.0,
            descriptor_ns: 100.0,
            engine_rate: 30.0,
            device_rate: 30.0,
            batch_fetch_ns: 250.0,
            batch_end_ns: 100.0,
            page_request_ns: 20_000.0,
            enqcmd_ns: 270.0,
            movdir64b_ns: 65.0,
            write_call_ns: 250.0,
            write_descriptor_ns: 270.0,
            cpu_setup_ns: 25.0,
            cpu_warm_rate: 25.0,
            cpu_cold_rate: 3.0,
            cpu_stream_rate: 10.0,
        }
    }
}

impl Timing {
    /// Bytes after which a cold copy streams. Fitted: where the prefetchers have caught up.
    pub const CPU_COLD_KNEE: u64 = 16 * 1024;

    /// Another machine: every parameter multiplied by a factor of its own, even between 0.5 and 1.5.
    #[must_use]
    pub fn drawn(mut self, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        for parameter in self.parameters() {
            *parameter *= 0.5 + dice.unit();
        }
        self
    }

    /// What the cpu takes for a copy, in nanoseconds: `warm` if the data is in its caches.
    pub fn cpu_copy_ns(&self, bytes: u64, warm: bool) -> f64 {
        let moving = if warm {
            bytes as f64 / self.cpu_warm_rate
        } else {
            let first = bytes.min(Self::CPU_COLD_KNEE);
            first as f64 / self.cpu_cold_rate + (bytes - first) as f64 / self.cpu_stream_rate
        };
        self.cpu_setup_ns + moving
    }

    /// The submitter's time for a `write(2)` of so many descriptors, in nanoseconds.
    pub fn write_ns(&self, descriptors: u32) -> f64 {
        self.write_call_ns + f64::from(descriptors) * self.write_descriptor_ns
    }

    fn parameters(&mut self) -> [&mut f64; 16] {
        [
            &mut self.latency_ns,
            &mut self.noop_ns,
            &mut self.descriptor_ns,
            &mut self.engine_rate,
            &mut self.device_rate,
            &mut self.batch_fetch_ns,
            &mut self.batch_end_ns,
            &mut self.page_request_ns,
            &mut self.enqcmd_ns,
            &mut self.movdir64b_ns,
            &mut self.write_call_ns,
            &mut self.write_descriptor_ns,
            &mut self.cpu_setup_ns,
            &mut self.cpu_warm_rate,
            &mut self.cpu_cold_rate,
            &mut self.cpu_stream_rate,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_machine_differs_in_every_parameter_and_stays_within_half() {
        let mut usual = Timing::default();
        for seed in 0..100 {
            let mut drawn = usual.drawn(seed);
            for (drawn, usual) in drawn.parameters().into_iter().zip(usual.parameters()) {
                assert!(*drawn != *usual && (0.5..=1.5).contains(&(*drawn / *usual)), "seed {seed}");
            }
        }
        assert_eq!(usual.drawn(3), usual.drawn(3));
        assert_ne!(usual.drawn(3), usual.drawn(4));
    }

    /// The study's crossovers, from the parameters alone: a copy that is waited for pays from about 4 KiB, one that is not from about 256 B.
    #[test]
    fn published_crossovers_come_out() {
        let timing = Timing::default();
        let device = |bytes: u64| timing.enqcmd_ns + timing.latency_ns + bytes as f64 / timing.device_rate;
        assert!(device(2048) > timing.cpu_copy_ns(2048, false) && device(8192) < timing.cpu_copy_ns(8192, false));
        assert!(timing.movdir64b_ns > timing.cpu_copy_ns(64, false));
        assert!(timing.movdir64b_ns < timing.cpu_copy_ns(256, false));
    }
}
