//! When is a descriptor done, if the device has this much to do already? Latency and occupancy apart (specification 4.4).

use super::timing::Timing;

/// The engines of a device, and its way to memory, in virtual time.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    timing: Timing,
    /// A group each: when each of its engines takes the next descriptor.
    engines: Vec<Vec<f64>>,
    /// When the way to memory is free again.
    memory: f64,
}

/// What a descriptor costs the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// No-op and drain.
    Nothing,
    /// Reading a batch's list.
    List,
    /// So many bytes moved, compared or summed.
    Bytes(u64),
}

/// When a descriptor that is dispatched now is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Placed {
    /// The engine takes the next one.
    pub(crate) engine_free: f64,
    /// The record can be written.
    pub(crate) done: f64,
}

impl Pipeline {
    pub(crate) fn new(timing: Timing, groups: &[u32]) -> Self {
        let engines = groups.iter().map(|engines| vec![0.0; *engines as usize]).collect();
        Self { timing, engines, memory: 0.0 }
    }

    pub(crate) fn timing(&self) -> &Timing {
        &self.timing
    }

    /// When an engine of the group takes the next descriptor.
    pub(crate) fn ready(&self, group: usize) -> f64 {
        self.engines[group].iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// Dispatches a descriptor, at `now` or when an engine is free.
    pub(crate) fn place(&mut self, now: f64, group: usize, load: Load) -> Placed {
        let Self { timing, engines, memory } = self;
        // The one that is free first takes it.
        let engine = engines[group].iter_mut().min_by(|one, other| one.total_cmp(other));
        let Some(engine) = engine else { return Placed { engine_free: now, done: now } };
        let start = engine.max(now);
        let (bytes, latency) = match load {
            Load::Nothing => (0.0, timing.noop_ns),
            Load::List => (0.0, timing.batch_fetch_ns),
            Load::Bytes(bytes) => (bytes as f64, timing.latency_ns),
        };
        let at_engine = timing.descriptor_ns.max(bytes / timing.engine_rate);
        *engine = start + at_engine;
        let moved = if bytes > 0.0 {
            *memory = memory.max(start) + bytes / timing.device_rate;
            *memory
        } else {
            start
        };
        let streamed = start + bytes / timing.engine_rate;
        Placed { engine_free: *engine, done: moved.max(streamed) + latency }
    }

    /// Forgets what was going on: the device was reset.
    pub(crate) fn reset(&mut self, now: f64) {
        self.engines.iter_mut().flatten().for_each(|engine| *engine = now);
        self.memory = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(engines: u32) -> Pipeline {
        Pipeline::new(Timing::default(), &[engines])
    }

    /// Bytes per nanosecond of `count` copies that are all there from the start.
    fn rate(engines: u32, bytes: u64, count: u32) -> f64 {
        let mut pipeline = device(engines);
        let done = (0..count).map(|_| pipeline.place(0.0, 0, Load::Bytes(bytes)).done).fold(0.0, f64::max);
        (bytes * u64::from(count)) as f64 / done
    }

    #[test]
    fn alone_an_operation_takes_latency_and_transfer() {
        let placed = device(4).place(500.0, 0, Load::Bytes(30_000));
        assert_eq!((placed.engine_free, placed.done), (1_500.0, 500.0 + 1_000.0 + 1_100.0));
        assert_eq!(device(1).place(0.0, 0, Load::Nothing).done, Timing::default().noop_ns);
    }

    /// If an engine did one at a time, four of them would do 256 B each 1.1 us: 0.9 GB/s.
    #[test]
    fn engines_are_pipelines() {
        assert!(rate(4, 256, 10_000) > 9.0, "{}", rate(4, 256, 10_000));
        assert!(rate(1, 256, 10_000) > 2.4, "one engine: {}", rate(1, 256, 10_000));
    }

    #[test]
    fn the_device_has_a_ceiling_whatever_its_engines() {
        for (engines, bytes) in [(1, 1 << 20), (4, 1 << 20), (4, 4096), (4, 65_536)] {
            let rate = rate(engines, bytes, 2_000);
            assert!((27.0..=30.0).contains(&rate), "{engines} engines, {bytes} bytes: {rate} GB/s");
        }
    }

    /// Little's law: about nine copies of 4 KiB have to be in flight to fill the device.
    #[test]
    fn depth_decides() {
        let at_depth = |depth: usize| {
            let mut pipeline = device(4);
            let mut in_flight = vec![0.0_f64; depth];
            for _ in 0..10_000 {
                let first = in_flight.iter_mut().min_by(|one, other| one.total_cmp(other)).unwrap();
                *first = pipeline.place(*first, 0, Load::Bytes(4096)).done;
            }
            10_000.0 * 4096.0 / in_flight.iter().copied().fold(0.0, f64::max)
        };
        assert!(at_depth(1) < 4.0 && at_depth(4) < 16.0, "{} {}", at_depth(1), at_depth(4));
        assert!(at_depth(16) > 27.0 && at_depth(32) > 27.0, "{} {}", at_depth(16), at_depth(32));
    }
}
