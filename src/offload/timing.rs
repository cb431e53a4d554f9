//! What an operation that nobody waits for took, for the router that wanted to know: the core's own time, put together from every moment somebody worked on it.
//!
//! One operation in some hundred is timed, and those are boxed: the others pay nothing for it. What is dropped before its end teaches nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Operation;
use super::center::Center;
use super::device::Device;
use super::flow::How;
use super::intent::Intent;
use super::operation::Kind;
use super::route::{Mode, Observation, Took};

/// An operation that is timed.
#[derive(Clone, Copy, Debug)]
struct Timed {
    kind: Kind,
    len: usize,
    intent: Intent,
    spent: Duration,
}

impl Timed {
    fn new(operation: &Operation, intent: Intent) -> Self {
        Self { kind: operation.kind(), len: operation.len(), intent, spent: Duration::ZERO }
    }

    fn learn(&self, device: &Device, mode: Mode, took: impl FnOnce(f32) -> Took) {
        let ns = self.spent.as_secs_f32() * 1e9;
        let Self { kind, len, intent, .. } = *self;
        device.router.observe(&Observation { kind, len, intent, mode, took: took(ns) });
    }
}

/// Of an operation that the CPU does.
pub(super) struct CpuTiming {
    center: Arc<Center>,
    timed: Timed,
}

impl CpuTiming {
    pub(super) fn new(center: &Arc<Center>, operation: &Operation, intent: Intent) -> Box<Self> {
        Box::new(Self { center: Arc::clone(center), timed: Timed::new(operation, intent) })
    }

    /// It is over.
    pub(super) fn learn(&self) {
        if let Some(device) = &self.center.device {
            self.timed.learn(device, Mode::Overlapped, |ns| Took::Cpu { ns });
        }
    }
}

/// Does a part of the work, and counts what it takes if there is something to count for.
#[inline]
pub(super) fn counted<R>(timing: &mut Option<Box<CpuTiming>>, work: impl FnOnce() -> R) -> R {
    let Some(timing) = timing else { return work() };
    let began = Instant::now();
    let done = work();
    timing.timed.spent += began.elapsed();
    done
}

/// Of an operation that a device has, alone or in a batch.
#[derive(Debug)]
pub(super) enum DeviceTiming {
    Alone(Alone),
    InBatch(Arc<Mutex<Batch>>),
}

#[derive(Debug)]
pub(super) struct Alone {
    timed: Timed,
    how: How,
    ahead: u32,
}

/// All of a batch, whose cost is one.
#[derive(Debug)]
pub(super) struct Batch {
    /// The first one stands for all.
    timed: Timed,
    together: u32,
    /// Of which so many are not over.
    left: u32,
    /// One of them was not done plainly.
    spoilt: bool,
}

impl DeviceTiming {
    /// Before it is submitted.
    pub(super) fn alone(device: &Device, operation: &Operation, intent: Intent, how: How) -> Self {
        Self::Alone(Alone { timed: Timed::new(operation, intent), how, ahead: device.ahead(how.queue) })
    }

    /// Of one of a batch that was submitted.
    pub(super) fn of_batch(batch: &Arc<Mutex<Batch>>) -> Self {
        Self::InBatch(Arc::clone(batch))
    }

    /// The core worked on it.
    pub(super) fn spend(&mut self, took: Duration) {
        match self {
            Self::Alone(alone) => alone.timed.spent += took,
            Self::InBatch(batch) => batch.lock().timed.spent += took,
        }
    }

    /// It is over. `plainly`: the device did all of it.
    pub(super) fn end(self, device: &Device, plainly: bool) {
        match self {
            Self::Alone(Alone { timed, how, ahead }) if plainly => timed.learn(device, Mode::Overlapped, |core_ns| {
                Took::Device { queue: device.place(how.queue), ahead, core_ns, latency_ns: None }
            }),
            Self::Alone(_) => {}
            Self::InBatch(batch) => {
                let mut batch = batch.lock();
                batch.left = batch.left.saturating_sub(1);
                batch.spoilt |= !plainly;
                let Batch { timed, together, left, spoilt } = *batch;
                drop(batch);
                if left == 0 && !spoilt {
                    timed.learn(device, Mode::Batched, |core_ns| Took::Batch { together, core_ns });
                }
            }
        }
    }
}

impl Batch {
    /// Of so many that are submitted together, which took `spent`.
    pub(super) fn new(first: &Operation, intent: Intent, together: usize, spent: Duration) -> Arc<Mutex<Self>> {
        let timed = Timed { spent, ..Timed::new(first, intent) };
        // A batch has at most as many as a page has slots.
        let together = together as u32;
        Arc::new(Mutex::new(Self { timed, together, left: together, spoilt: false }))
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::offload::{Copies, Engine, Offloading};
    use crate::sim::dsa::{Device as Model, DeviceConfig, Profile, QueueConfig};
    use crate::{Placement, Runtime};

    /// What is asked for, again and again, until what is believed of copies of `len` bytes has changed; and which parts of that did.
    fn learns(len: impl Fn(&Device) -> usize, ask: impl Fn(&Runtime, &Copies, usize)) -> [bool; 3] {
        const ROUNDS: usize = 5_000;
        let model = Model::new(DeviceConfig::v1().queue(QueueConfig::shared(16)), Profile::strict(1)).unwrap();
        let _driven = model.spawn().unwrap();
        let rt = Runtime::builder().placement(Placement::Unpinned).env_overrides(false).model_device(&model);
        let rt = rt.copy_timeout(Duration::from_secs(60)).build().unwrap();
        let copies = rt.copies();
        assert_eq!(copies.engine, Engine::Auto);
        let device = copies.center.device.as_ref().unwrap();
        let len = len(device);
        let believed = || device.router.believed(Kind::Copy, Intent::default(), len);
        let before = believed();
        for _ in 0..ROUNDS {
            ask(&rt, &copies, len);
            if believed() != before {
                break;
            }
        }
        let after = believed();
        std::array::from_fn(|part| before[part] != after[part])
    }

    fn large(device: &Device) -> usize {
        let len = 100_000;
        assert!(device.router.pays_alone(Kind::Copy, Intent::default(), len), "it goes to a device");
        len
    }

    /// Not small, and not for the device.
    fn between(device: &Device) -> usize {
        let is = |len: &usize| {
            let small = device.router.is_small(Kind::Copy, Intent::default(), Mode::Overlapped, *len);
            !small && !device.router.pays_alone(Kind::Copy, Intent::default(), *len)
        };
        (1..1 << 20).step_by(16).find(is).expect("one is within reach")
    }

    fn pair(len: usize) -> (Vec<u8>, Vec<u8>) {
        (vec![1; len], vec![0; len])
    }

    #[test]
    fn what_goes_alone_teaches_what_that_takes() {
        let [submission, operation, cpu] = learns(large, |rt, copies, len| {
            let (src, dst) = pair(len);
            rt.block_on(copies.copy(src, dst)).unwrap().unwrap();
        });
        assert!(submission && operation && !cpu);
    }

    #[test]
    fn what_goes_together_teaches_what_that_takes() {
        let [submission, operation, cpu] = learns(large, |rt, copies, len| {
            let mut copying: Vec<Offloading<_>> = Vec::new();
            copies.copy_many((0..8).map(|_| pair(len)), &mut copying);
            for copy in copying {
                rt.block_on(copy).unwrap().unwrap();
            }
        });
        assert!((submission || operation) && !cpu);
    }

    #[test]
    fn what_the_cpu_does_teaches_what_that_takes() {
        let [submission, operation, cpu] = learns(between, |rt, copies, len| {
            let (src, dst) = pair(len);
            rt.block_on(copies.copy(src, dst)).unwrap().unwrap();
        });
        // Or a trial came first.
        assert!(cpu || submission || operation);
    }

    #[test]
    fn what_is_dropped_or_was_not_done_plainly_teaches_nothing() {
        let [submission, operation, cpu] = learns(large, |_, copies, len| {
            let (src, dst) = pair(len);
            drop(copies.copy(src, dst));
            let mut copying: Vec<Offloading<_>> = Vec::new();
            copies.copy_many((0..2).map(|_| pair(len)), &mut copying);
        });
        assert!(!submission && !operation && !cpu);
        let first = Operation::Nop;
        let batch = Batch::new(&first, Intent::default(), 2, Duration::ZERO);
        let model = Model::new(DeviceConfig::v1().queue(QueueConfig::shared(16)), Profile::strict(1)).unwrap();
        let rt = Runtime::builder().placement(Placement::Unpinned).env_overrides(false).model_device(&model);
        let rt = rt.build().unwrap();
        let copies = rt.copies();
        let device = copies.center.device.as_ref().unwrap();
        let believed = || device.router.believed(Kind::Copy, Intent::default(), 100);
        let before = believed();
        DeviceTiming::of_batch(&batch).end(device, true);
        DeviceTiming::of_batch(&batch).end(device, false);
        assert_eq!(believed(), before);
    }
}
