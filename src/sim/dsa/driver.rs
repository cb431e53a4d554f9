//! How does this crate's own driver reach the model? As any other way into a queue, and with no knowledge that a real one would not give.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::offload::dsa::abi::limits::DESCRIPTOR_BYTES;
use crate::offload::dsa::abi::{Descriptor, Opcode, Version};
use crate::offload::dsa::portal::{Death, Drained, NotDrained, Portal, StateSource, Submitted};
use crate::offload::dsa::queue::{Limits, Queue, QueueId, Queues};
use crate::offload::dsa::reopen::TakenUp;

use super::config::{QueueMode, RefusesBatch};
use super::portal::ModelPortal;
use super::queue::QueueState;
use super::state::DeviceState;
use super::submission::{Enqcmd, GeneralProtection};

/// A queue of the model as the driver's [`Portal`]: by instruction, whichever the queue wants, or by `write(2)`.
pub(crate) struct ModelWay {
    portal: ModelPortal,
    by: By,
    retired: AtomicBool,
}

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// ENQCMD or MOVDIR64B.
    Instruction,
    /// `write(2)`.
    Write,
}

/// ENQCMD is tried so often before the queue counts as full: what another tenant took is free again soon, and what is full stays so.
const TRIES_MAX: u32 = 8;
/// How long the kernel is waited for when it drains. Longer than any test's operations take; a model that hangs beyond it is a defect.
const DRAIN_MAX: Duration = Duration::from_secs(60);

impl ModelWay {
    pub(crate) fn new(portal: ModelPortal, by: By) -> Self {
        Self { portal, by, retired: AtomicBool::new(false) }
    }

    /// What the queue takes, as sysfs would tell it.
    pub(crate) fn limits(&self) -> Limits {
        let config = self.portal.device().config();
        let queue = &config.queues[self.portal.queue()];
        let refuses = match config.kernel.refuses_batch {
            RefusesBatch::Always => true,
            RefusesBatch::Version1 => config.version < Version::V2_0,
        };
        let operations = queue.op_config.map_or(config.opcap, |own| config.opcap.intersection(&own));
        let batches = operations.contains(Opcode::BATCH) && !(self.by == By::Write && refuses);
        Limits {
            version: config.version,
            general: config.gencap,
            operations,
            transfer_max: queue.max_transfer,
            batch_max: if batches { queue.max_batch } else { 0 },
            in_flight_max: if queue.mode == QueueMode::Dedicated { queue.size } else { queue.threshold },
            block_on_fault: queue.block_on_fault,
        }
    }

    /// What a submission comes to that was not taken now: the states tell, nothing else does.
    fn not_taken(&self) -> Submitted {
        StateSource::death(&self.portal).map_or(Submitted::Full, Submitted::Dead)
    }

    /// # Safety
    /// As [`Portal::submit`].
    unsafe fn by_instruction(&self, descriptor: &Descriptor) -> Submitted {
        if self.portal.mode() == QueueMode::Dedicated {
            // SAFETY: the caller's promise.
            return match unsafe { self.portal.movdir64b(0, descriptor) } {
                Ok(()) => Submitted::Accepted,
                Err(error) => died(error),
            };
        }
        for _ in 0..TRIES_MAX {
            // SAFETY: the caller's promise.
            match unsafe { self.portal.enqcmd(0, descriptor) } {
                Ok(Enqcmd::Accepted) => return Submitted::Accepted,
                Ok(Enqcmd::Retry) => {}
                Err(error) => return died(error),
            }
        }
        self.not_taken()
    }

    /// # Safety
    /// As [`Portal::submit`].
    unsafe fn by_write(&self, descriptors: &[Descriptor]) -> (usize, Submitted) {
        let bytes: Vec<u8> = descriptors.iter().flat_map(|descriptor| descriptor.to_bytes()).collect();
        let mut accepted = 0;
        while accepted < descriptors.len() {
            if let Some(death) = StateSource::death(&self.portal) {
                return (accepted, Submitted::Dead(death));
            }
            // SAFETY: the caller's promise.
            match unsafe { self.portal.write(&bytes[accepted * DESCRIPTOR_BYTES..]) } {
                Ok(written) => accepted += written / DESCRIPTOR_BYTES,
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => return (accepted, Submitted::Full),
                Err(error) => {
                    let errno = error.raw_os_error().unwrap_or(libc::EIO);
                    let forked = self.portal.is_forked();
                    return (accepted, Submitted::Dead(if forked { Death::Forked } else { Death::Errno(errno) }));
                }
            }
        }
        (accepted, Submitted::Accepted)
    }
}

/// What kills a process, but for the case that the driver asks about.
fn died(error: GeneralProtection) -> Submitted {
    match error {
        GeneralProtection::Forked => Submitted::Dead(Death::Forked),
        error => panic!("{error}"),
    }
}

impl Portal for ModelWay {
    unsafe fn submit(&self, descriptor: &Descriptor) -> Submitted {
        // SAFETY: the caller's promise.
        unsafe { self.submit_many(std::slice::from_ref(descriptor)) }.1
    }

    unsafe fn submit_many(&self, descriptors: &[Descriptor]) -> (usize, Submitted) {
        // Relaxed: the queue itself is closed as well, and says "retry" to who is late.
        if self.retired.load(Ordering::Relaxed) {
            return (0, Submitted::Dead(Death::Retired));
        }
        if self.by == By::Write {
            // SAFETY: the caller's promise.
            return unsafe { self.by_write(descriptors) };
        }
        for (accepted, descriptor) in descriptors.iter().enumerate() {
            // SAFETY: the caller's promise, for this one.
            match unsafe { self.by_instruction(descriptor) } {
                Submitted::Accepted => {}
                stopped => return (accepted, stopped),
            }
        }
        (descriptors.len(), Submitted::Accepted)
    }

    fn death(&self) -> Option<Death> {
        if self.portal.is_forked() { Some(Death::Forked) } else { StateSource::death(&self.portal) }
    }

    fn retire(&self) -> Result<Drained, NotDrained> {
        // Relaxed: see `submit_many`.
        self.retired.store(true, Ordering::Relaxed);
        if self.portal.is_forked() {
            return Err(NotDrained::because("the queue was opened by the parent of this process"));
        }
        self.portal.drain(DRAIN_MAX).map_err(NotDrained::of("the model's queue was closed, and is not drained"))?;
        Ok(Drained::by_the_portals_word())
    }
}

impl fmt::Debug for ModelWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelWay").field("portal", &self.portal).field("by", &self.by).finish_non_exhaustive()
    }
}

/// As sysfs's `state` attributes tell it.
impl StateSource for ModelPortal {
    fn death(&self) -> Option<Death> {
        match self.states() {
            (DeviceState::Halted, _) => Some(Death::Halted),
            (DeviceState::Disabled, _) | (_, QueueState::Disabled | QueueState::Draining) => Some(Death::Disabled),
            (DeviceState::Enabled, QueueState::Enabled) => None,
        }
    }
}

/// A model as a runtime of this crate takes it: all of its queues, by instruction.
#[derive(Clone, Debug)]
pub(crate) struct DriverSide {
    device: super::Device,
    /// What it is opened on; `None`: each queue on one of its own.
    space: Option<super::AddressSpace>,
}

impl DriverSide {
    pub(crate) fn new(device: &super::Device, space: Option<&super::AddressSpace>) -> Self {
        Self { device: device.clone(), space: space.cloned() }
    }

    /// Opens every queue; `at` is the device's number, for names.
    ///
    /// # Errors
    /// As [`Device::open`](super::Device::open).
    pub(crate) fn queues(&self, at: usize) -> std::io::Result<Vec<Queue>> {
        let count = self.device.config().queues.len();
        (0..count).map(|number| self.open(at, number)).collect()
    }

    /// Opens a queue anew that died, if it is this device's and is enabled again. As with sysfs, the name and the state are all that tells.
    pub(crate) fn take_up(&self, at: usize, queues: &Queues, dead: QueueId) -> TakenUp {
        let Some(old) = queues.find(dead) else { return TakenUp::NotBack };
        let count = self.device.config().queues.len();
        let Some(number) = (0..count).find(|&number| name(at, number) == old.name()) else { return TakenUp::NotBack };
        let up = (DeviceState::Enabled, QueueState::Enabled);
        if (self.device.state(), self.device.queue_state(number)) != up {
            return TakenUp::NotBack;
        }
        // A dedicated queue would be busy with the old opening.
        let _ = old.retire();
        // Disabled in this very moment: another look finds it.
        let Ok(new) = self.open(at, number) else { return TakenUp::NotBack };
        queues.add(new).map_or(TakenUp::TooMany, TakenUp::Opened)
    }

    fn open(&self, at: usize, number: usize) -> std::io::Result<Queue> {
        let space = self.space.clone().map_or_else(super::AddressSpace::new, Ok)?;
        let way = ModelWay::new(self.device.open(number, &space)?, By::Instruction);
        let limits = way.limits();
        Ok(Queue::new(&name(at, number), None, limits, Box::new(way)))
    }
}

fn name(device: usize, queue: usize) -> String {
    format!("model wq{device}.{queue}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::{CompletionSlot, Flags, Status};
    use crate::sim::dsa::{AddressSpace, Device, DeviceConfig, KernelProfile, Profile, QueueConfig};

    fn way(queue: QueueConfig, by: By) -> (Device, ModelWay) {
        let config = DeviceConfig::v1().kernel(KernelProfile::V6_12).queue(queue);
        let device = Device::new(config, Profile::strict(1)).unwrap();
        let portal = device.open(0, &AddressSpace::new().unwrap()).unwrap();
        (device, ModelWay::new(portal, by))
    }

    fn no_op(slot: &CompletionSlot) -> Descriptor {
        slot.clear();
        Descriptor::noop().report_to(slot.address()).with_flags(Flags::RCR)
    }

    #[test]
    fn every_way_reaches_its_queue() {
        for (queue, by, in_flight, batch) in [
            (QueueConfig::shared(8).threshold(4), By::Instruction, 4, 32),
            (QueueConfig::shared(8), By::Write, 8, 0),
            (QueueConfig::dedicated(8), By::Instruction, 8, 32),
            (QueueConfig::dedicated(8), By::Write, 8, 0),
        ] {
            let (device, way) = way(queue, by);
            let limits = way.limits();
            assert_eq!((limits.in_flight_max, limits.batch_max), (in_flight, batch));
            let slots = [CompletionSlot::new(), CompletionSlot::new()];
            let descriptors = [no_op(&slots[0]), no_op(&slots[1])];
            // SAFETY: no-ops whose records outlive their run, below.
            assert_eq!(unsafe { way.submit_many(&descriptors) }, (2, Submitted::Accepted));
            device.run_until_idle();
            assert!(slots.iter().all(|slot| slot.record().unwrap().status() == Status::SUCCESS));
            assert_eq!(way.death(), None);
            let _ = way.retire().unwrap();
            // SAFETY: as above; it is not accepted.
            assert_eq!(unsafe { way.submit(&descriptors[0]) }, Submitted::Dead(Death::Retired));
            assert_eq!(device.violations(), []);
        }
    }

    #[test]
    fn full_is_not_dead() {
        for by in [By::Instruction, By::Write] {
            let (device, way) = way(QueueConfig::shared(1), by);
            let slots = [CompletionSlot::new(), CompletionSlot::new()];
            let descriptors = [no_op(&slots[0]), no_op(&slots[1])];
            // SAFETY: as above.
            unsafe {
                assert_eq!(way.submit_many(&descriptors), (1, Submitted::Full));
                device.run_until_idle();
                device.halt();
                assert_eq!(way.submit(&descriptors[1]), Submitted::Dead(Death::Halted));
                device.enable();
                device.disable_queue(0);
                assert_eq!(way.submit(&descriptors[1]), Submitted::Dead(Death::Disabled));
            }
        }
    }

    /// A dedicated queue that is disabled is silent.
    #[test]
    fn silence_is_accepted() {
        let (device, way) = way(QueueConfig::dedicated(4), By::Instruction);
        device.disable_queue(0);
        let slot = CompletionSlot::new();
        // SAFETY: as above; it is dropped.
        assert_eq!(unsafe { way.submit(&no_op(&slot)) }, Submitted::Accepted);
        device.run_until_idle();
        assert_eq!((slot.record(), way.death()), (None, Some(Death::Disabled)));
    }
}
