//! What does the device consist of while it runs? The parts that the other files act on.

use std::collections::VecDeque;

use crate::offload::dsa::abi::{Descriptor, Opcode, SwError, layout};
use crate::sim::lab::Dice;

use super::batch::Batch;
use super::config::DeviceConfig;
use super::counters::Counters;
use super::execute::access::{Reached, Weather};
use super::execute::{Execute, Outcome};
use super::front::Attached;
use super::pipeline::Pipeline;
use super::profile::Profile;
use super::queue::{Queue, QueueState};
use super::space::AddressSpace;
use super::trace::{End, Loss, Trace, TraceEntry};
use super::watch::Watch;

/// Everything of a device, under one lock.
pub(crate) struct State {
    pub(crate) config: DeviceConfig,
    pub(crate) profile: Profile,
    pub(crate) life: DeviceState,
    pub(crate) queues: Vec<Queue>,
    pub(crate) clients: Vec<Client>,
    /// Where descriptors come from that instructions of traps submit.
    pub(crate) fronts: Vec<Attached>,
    pub(crate) running: Vec<Running>,
    pub(crate) weather: Weather,
    /// For the freedoms; the weather has dice of its own.
    pub(crate) dice: Dice,
    pub(crate) pipeline: Option<Pipeline>,
    /// The device's time, in nanoseconds; stands still without a pipeline.
    pub(crate) now: f64,
    pub(crate) next_id: u64,
    pub(crate) counters: Counters,
    pub(crate) watch: Watch,
    pub(crate) trace: Trace,
    pub(crate) error: SwError,
    /// Somebody else has the queues open, too.
    pub(crate) kept_open: bool,
}

/// Whether the device works, as sysfs's `state` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceState {
    /// It does.
    Enabled,
    /// It was disabled or reset.
    Disabled,
    /// A fatal error stopped it; it needs a reset.
    Halted,
}

/// Somebody who opened a queue.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) space: AddressSpace,
    pub(crate) queue: usize,
    /// Of the queue, when it was opened.
    pub(crate) generation: u64,
    pub(crate) is_open: bool,
}

/// A descriptor that was dispatched.
pub(crate) struct Running {
    pub(crate) origin: Origin,
    pub(crate) descriptor: Descriptor,
    pub(crate) stage: Stage,
    pub(crate) reached: Reached,
    /// Operations in it whose end software cannot have heard of: 1, or a batch's children.
    pub(crate) unheard: u64,
    /// When its next step happens, in the device's time.
    pub(crate) due: f64,
}

/// Where a descriptor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// Its number; a child's is its batch's.
    pub(crate) id: u64,
    pub(crate) child: Option<usize>,
    pub(crate) queue: usize,
    pub(crate) client: usize,
}

pub(crate) enum Stage {
    /// Reads and writes memory.
    Working(Box<dyn Execute>),
    /// Waits for the descriptors before it.
    Draining,
    /// Waits for its children. With the list as it was at submission, if that is watched.
    Batch(Batch, Option<Vec<u8>>),
    /// Has come to an end, and its record is not written yet.
    Ending(Outcome),
}

impl State {
    pub(crate) fn new(config: DeviceConfig, profile: Profile) -> Self {
        /// The weather's draws are others than those of the freedoms.
        const WEATHER: u64 = 0x5EED;
        let queues = config.queues.iter().map(|_| Queue::new()).collect();
        Self {
            life: DeviceState::Enabled,
            queues,
            clients: Vec::new(),
            fronts: Vec::new(),
            running: Vec::new(),
            weather: Weather::new(profile.faults, profile.seed ^ WEATHER),
            dice: Dice::new(profile.seed),
            pipeline: profile.timing.map(|timing| Pipeline::new(timing, &config.groups)),
            now: 0.0,
            next_id: 0,
            counters: Counters::default(),
            watch: Watch::default(),
            trace: Trace::new(profile.trace),
            error: SwError::default(),
            kept_open: false,
            config,
            profile,
        }
    }

    pub(crate) fn space(&self, client: usize) -> &AddressSpace {
        &self.clients[client].space
    }

    /// The device and the queue take and run descriptors of this client's.
    pub(crate) fn is_alive(&self, client: usize) -> bool {
        let client = &self.clients[client];
        self.life == DeviceState::Enabled && client.is_open && client.generation == self.queues[client.queue].generation
    }

    pub(crate) fn queue_runs(&self, queue: usize) -> bool {
        self.life == DeviceState::Enabled && self.queues[queue].state != QueueState::Disabled
    }

    pub(crate) fn note(&mut self, origin: Origin, descriptor: &Descriptor, end: End) {
        let pasid = self.space(origin.client).pasid();
        let at_ns = self.now as u64;
        let Origin { id, child, queue, .. } = origin;
        let entry = || TraceEntry { id, child, queue, pasid, descriptor: *descriptor, end, at_ns };
        match &self.profile.observer {
            Some(observer) => {
                self.counters.violations = self.watch.count;
                let entry = entry();
                (observer.0)(&entry, &self.counters);
                self.trace.push(|| entry);
            }
            None => self.trace.push(entry),
        }
    }

    /// A descriptor whose record will never come, with so many operations in it.
    pub(crate) fn lose(&mut self, origin: Origin, descriptor: &Descriptor, operations: u64, why: Loss) {
        if descriptor.completion_address().is_some() {
            self.counters.lost += operations;
        }
        self.note(origin, descriptor, End::Lost(why));
    }

    /// Empties a queue.
    pub(crate) fn take_waiting(&mut self, queue: usize) -> VecDeque<super::queue::Entry> {
        std::mem::take(&mut self.queues[queue].waiting)
    }
}

/// How many operations a descriptor stands for: a batch for its children.
pub(crate) fn operations_in(descriptor: &Descriptor) -> u64 {
    if descriptor.opcode() == Opcode::BATCH { descriptor.value(layout::COUNT) } else { 1 }
}
