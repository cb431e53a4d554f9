//! A shared queue, or dedicated ones? 1 to 64 cores submit copies of 1 KiB to one device, each with four outstanding.
//!
//! Shared: each core does its own ENQCMD, and tries again while the queue is full. Dedicated: the device's eight queues (16 entries each) are dealt out; cores that have to share one take
//! turns, a MOVDIR64B at a time, and count its credits. Published (the study): dedicated queues are faster unless many submit. What a lock costs to pass between cores is not in
//! the model, so dedicated queues with more cores than queues look better here than they are.

use std::collections::VecDeque;

use twolane::offload::dsa::abi::{CompletionSlot, Descriptor, Flags};
use twolane::sim::dsa::{AddressSpace, Device, DeviceConfig, Enqcmd, ModelPortal, Profile, QueueConfig, Timing};
use twolane::sim::study::chart::{Chart, Line};

use crate::figure::{Bound, Figure};
use crate::{Asked, Failure};

const CORES: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
const BYTES: u32 = 1024;
/// Outstanding a core.
const EACH: usize = 4;
/// Copies of all cores.
const COPIES: usize = 4_000;
const QUEUES: usize = 8;
/// Entries of a device, all queues together.
const ENTRIES: u32 = 128;

struct Core {
    now: f64,
    outstanding: VecDeque<Box<CompletionSlot>>,
}

/// What a dedicated queue's users share.
struct Turn {
    free_at: f64,
}

struct Machine {
    device: Device,
    portals: Vec<ModelPortal>,
    turns: Vec<Turn>,
    shared: bool,
    timing: Timing,
}

impl Machine {
    fn new(shared: bool) -> Result<Self, Failure> {
        let timing = Timing::default();
        let queues = if shared { 1 } else { QUEUES };
        let queue =
            |_| if shared { QueueConfig::shared(ENTRIES) } else { QueueConfig::dedicated(ENTRIES / QUEUES as u32) };
        let config = (0..queues).map(queue).fold(DeviceConfig::v1(), DeviceConfig::queue);
        let device = Device::new(config, Profile::compat().timing(timing).without_data())?;
        let space = AddressSpace::new()?;
        let portals = (0..queues).map(|queue| device.open(queue, &space)).collect::<Result<_, _>>()?;
        Ok(Self { device, portals, turns: (0..queues).map(|_| Turn { free_at: 0.0 }).collect(), shared, timing })
    }

    /// One attempt at submitting, at the core's time. `false`: the queue is full, and the attempt cost what it cost.
    fn submit(&mut self, number: usize, core: &mut Core, record: &CompletionSlot) -> bool {
        let descriptor =
            Descriptor::memmove(1 << 40, 1 << 41, BYTES).report_to(record.address()).with_flags(Flags::RCR);
        let queue = number % self.portals.len();
        if self.shared {
            core.now += self.timing.enqcmd_ns;
        } else {
            let turn = &mut self.turns[queue];
            core.now = core.now.max(turn.free_at) + self.timing.movdir64b_ns;
            turn.free_at = core.now;
        }
        self.device.advance_to(core.now as u64);
        // Credits, without which an overflowing MOVDIR64B is dropped: here the occupancy itself.
        if !self.shared && self.device.occupancy(queue) >= ENTRIES as usize / QUEUES {
            return false;
        }
        let portal = &self.portals[queue];
        // SAFETY: the record is boxed, and kept until it is written or the device is gone, which nobody drives by then. The data's addresses are never touched: the device
        // was made `without_data`.
        #[allow(unsafe_code)]
        let answer = unsafe {
            if self.shared {
                portal.enqcmd(0, &descriptor)
            } else {
                portal.movdir64b(0, &descriptor).map(|()| Enqcmd::Accepted)
            }
        };
        answer.expect("an aligned store of a well-formed descriptor") == Enqcmd::Accepted
    }
}

/// Bytes a nanosecond.
fn rate(shared: bool, cores: usize) -> Result<f64, Failure> {
    let mut machine = Machine::new(shared)?;
    let mut all: Vec<Core> = (0..cores).map(|_| Core { now: 0.0, outstanding: VecDeque::new() }).collect();
    let mut submitted = 0;
    while submitted < COPIES {
        // The core whose time is earliest goes on, so that the device's time never has to go back.
        let earliest = (0..cores).min_by(|a, b| all[*a].now.total_cmp(&all[*b].now)).ok_or("no cores")?;
        let core = &mut all[earliest];
        machine.device.advance_to(core.now as u64);
        while core.outstanding.front().is_some_and(|record| record.status_byte() != 0) {
            core.outstanding.pop_front();
        }
        if core.outstanding.len() == EACH {
            // Its next answer comes with one of the device's next events, or those of others' making.
            let due = machine.device.next_due_ns().map_or(core.now + 1.0, |due| due as f64);
            core.now = due.max(core.now + 1.0);
            continue;
        }
        let record = Box::<CompletionSlot>::default();
        if machine.submit(earliest, core, &record) {
            core.outstanding.push_back(record);
            submitted += 1;
        }
    }
    machine.device.run_until_idle();
    Ok(COPIES as f64 * f64::from(BYTES) / machine.device.now_ns() as f64)
}

pub fn run(_: &Asked) -> Result<(Vec<Chart>, Vec<Figure>), Failure> {
    let mut lines = Vec::new();
    for (name, shared) in [("one shared queue", true), ("eight dedicated", false)] {
        let points = CORES.iter().map(|cores| Ok((*cores as f64, rate(shared, *cores)?)));
        lines.push(Line { name: name.into(), points: points.collect::<Result<_, Failure>>()? });
    }
    let chart = Chart { title: "submitters, 1 KiB".into(), x: "cores", y: "GB/s", y_log: false, lines };
    let alone = rate(false, 1)? / rate(true, 1)?;
    let figure = Figure::exact("model_dedicated_gain_alone", alone, Bound::AtLeast(1.0))
        .beside("with_64_cores", rate(false, 64)? / rate(true, 64)?);
    Ok((vec![chart], vec![figure]))
}
