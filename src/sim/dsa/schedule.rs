//! What does the device do next? Dispatching, advancing, waiting: one step at a time.

use crate::offload::dsa::abi::{Descriptor, FaultOperand, Flags, GenCap, Opcode, Status, layout};

use super::batch::Batch;
use super::checks::{Case, check, part_of_a_block};
use super::execute::access::{Access, Reached, Tally};
use super::execute::{self, Advance, Outcome, PageFault};
use super::memory::{self, PAGE, to_page_end};
use super::pipeline::Load;
use super::queue::{Entry, QueueState};
use super::record;
use super::space::Translation;
use super::state::{Origin, Running, Stage, State, operations_in};
use super::trace::Loss;
use super::violations::Rule;
use super::watch::descriptors;

/// Something that the device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Take the next descriptor out of a queue.
    Dispatch(usize),
    /// Go on with a descriptor, by its place in `running`.
    Go(usize),
}

/// Descriptors that an engine has under way at once, at most, without a pipeline that says so. Deep enough to reorder, and small enough that
/// queues fill up.
const IN_FLIGHT_PER_ENGINE: usize = 8;
/// Pieces that an operation advances by in one step, where nobody asked for pieces of random size: 16 KiB to 256 KiB.
const PIECES_PER_STEP: usize = 4;
/// Probability that a descriptor is passed over, at most: one that is passed over for ever would never end.
const LATE_MAX: f64 = 0.95;

impl State {
    /// Does one thing. `false`: there is nothing to do, now.
    pub(crate) fn step(&mut self) -> bool {
        let tasks = self.tasks(self.now);
        let Some(task) = self.choose(&tasks) else { return false };
        match task {
            Task::Dispatch(queue) => {
                let late = self.weather.faults.late_dispatch.min(LATE_MAX);
                if !self.weather.chance(late) {
                    self.dispatch(queue);
                }
            }
            Task::Go(index) => self.go(index),
        }
        true
    }

    /// When there is something to do, in the device's time: the past or the present if there is now. `None`: there is nothing until somebody submits.
    pub(crate) fn next_due(&mut self) -> Option<f64> {
        let tasks = self.tasks(f64::INFINITY);
        tasks.into_iter().map(|task| self.due(task)).min_by(f64::total_cmp)
    }

    fn due(&self, task: Task) -> f64 {
        match task {
            Task::Go(index) => self.running[index].due,
            Task::Dispatch(queue) => {
                let group = self.config.queues[queue].group;
                self.pipeline.as_ref().map_or(0.0, |pipeline| pipeline.ready(group))
            }
        }
    }

    /// Everything that could be done by a time.
    fn tasks(&mut self, by: f64) -> Vec<Task> {
        let mut tasks = Vec::new();
        for queue in 0..self.queues.len() {
            let waits = !self.queues[queue].waiting.is_empty() && self.queue_runs(queue);
            if waits && self.has_room(queue) && self.due(Task::Dispatch(queue)) <= by {
                tasks.push(Task::Dispatch(queue));
            }
        }
        for index in 0..self.running.len() {
            if self.running[index].due <= by && self.can_go(index) {
                tasks.push(Task::Go(index));
            }
        }
        tasks
    }

    fn has_room(&self, queue: usize) -> bool {
        let group = self.config.queues[queue].group;
        let in_group = |running: &&Running| {
            running.origin.child.is_none() && self.config.queues[running.origin.queue].group == group
        };
        let engines = self.config.groups[group] as usize;
        self.pipeline.is_some() || self.running.iter().filter(in_group).count() < engines * IN_FLIGHT_PER_ENGINE
    }

    fn can_go(&mut self, index: usize) -> bool {
        let in_order = self.children_in_order();
        if matches!(self.running[index].stage, Stage::Draining) {
            return !self.something_before(index);
        }
        match &mut self.running[index].stage {
            Stage::Working(_) | Stage::Ending(_) => true,
            Stage::Draining => false,
            Stage::Batch(batch, _) => !batch.startable(in_order).is_empty() || batch.outcome().is_some(),
        }
    }

    /// A drain waits for what came before it: of its own PASID in a shared queue, of everybody in a dedicated one (SPEC 3.12).
    fn something_before(&self, index: usize) -> bool {
        let drain = self.running[index].origin;
        let pasid = self.space(drain.client).pasid();
        self.running.iter().any(|other| {
            let other = other.origin;
            other.queue == drain.queue && other.id < drain.id && self.space(other.client).pasid() == pasid
        })
    }

    /// Without a pipeline, children in order wait for each other; in a pipeline they enter in order.
    fn children_in_order(&self) -> bool {
        !self.profile.freedoms.reorder && self.pipeline.is_none()
    }

    fn choose(&mut self, tasks: &[Task]) -> Option<Task> {
        if self.profile.freedoms.reorder {
            let drawn = self.dice.next() as usize % tasks.len().max(1);
            return tasks.get(drawn).copied();
        }
        // What is due first; of those, what came first.
        let key = |task: &Task| match *task {
            Task::Go(index) => (self.running[index].due, self.running[index].origin.id),
            Task::Dispatch(_) => (self.due(*task), u64::MAX),
        };
        let first = |one: &&Task, other: &&Task| {
            let ((one_due, one_id), (other_due, other_id)) = (key(one), key(other));
            one_due.total_cmp(&other_due).then(one_id.cmp(&other_id))
        };
        tasks.iter().min_by(first).copied()
    }

    fn dispatch(&mut self, queue: usize) {
        let Some(entry) = self.queues[queue].waiting.pop_front() else { return };
        let Entry { id, client, descriptor, list } = entry;
        let origin = Origin { id, child: None, queue, client };
        if self.weather.chance(self.weather.faults.never) {
            self.lose(origin, &descriptor, operations_in(&descriptor), Loss::Never);
            return;
        }
        self.begin(origin, descriptor, list);
    }

    /// Checks a descriptor and starts it.
    fn begin(&mut self, origin: Origin, descriptor: Descriptor, list: Option<Vec<u8>>) {
        let is_child = origin.child.is_some();
        let case =
            Case { descriptor: &descriptor, device: &self.config, queue: &self.config.queues[origin.queue], is_child };
        let shuffle = if self.profile.freedoms.shuffle_checks { Some(&mut self.dice) } else { None };
        let checked = check(&case, shuffle);
        let part = if self.profile.freedoms.watch && checked.is_ok() { part_of_a_block(&descriptor) } else { None };
        if let Some(what) = part {
            self.watch.report(Rule::PartialBlock, origin.queue, Some(descriptor), what);
        }
        self.counters.children += u64::from(is_child);
        let (stage, load) = match checked {
            Err(refusal) => {
                if self.profile.freedoms.watch {
                    self.watch.report(refusal.rule, origin.queue, Some(descriptor), refusal.what);
                }
                (Stage::Ending(record::refused(refusal.status, refusal.flags)), Load::Nothing)
            }
            Ok(()) => match descriptor.opcode() {
                Opcode::DRAIN => (Stage::Draining, Load::Nothing),
                Opcode::BATCH => (self.open_batch(origin, &descriptor, list), Load::List),
                opcode => {
                    let Self { profile, dice, .. } = self;
                    let work = execute::begin(&descriptor, &profile.freedoms, profile.data, dice);
                    let bytes = descriptor.value(layout::TRANSFER_SIZE);
                    let load = if opcode == Opcode::NOOP { Load::Nothing } else { Load::Bytes(bytes) };
                    (Stage::Working(work), load)
                }
            },
        };
        let due = self.place(origin, load);
        let unheard = operations_in(&descriptor);
        self.running.push(Running { origin, descriptor, stage, reached: Reached::default(), unheard, due });
    }

    fn place(&mut self, origin: Origin, load: Load) -> f64 {
        let group = self.config.queues[origin.queue].group;
        let now = self.now;
        let Some(pipeline) = &mut self.pipeline else { return 0.0 };
        let done = pipeline.place(now, group, load).done;
        if self.profile.freedoms.reorder || origin.child.is_none() {
            return done;
        }
        // In order: not before the siblings that entered earlier.
        let before = self.running.iter().filter(|other| other.origin.id == origin.id && other.origin.child.is_some());
        before.map(|other| other.due).fold(done, f64::max)
    }

    /// Reads a batch's list whole, at its dispatch: up to the first page that cannot be read.
    fn open_batch(&mut self, origin: Origin, batch: &Descriptor, at_submission: Option<Vec<u8>>) -> Stage {
        self.counters.batches += 1;
        let bytes = batch.value(layout::COUNT) as usize * size_of::<Descriptor>();
        let start = batch.value(layout::LIST);
        let mut list = vec![0; bytes];
        let mut read = 0;
        let mut fault = None;
        while read < bytes {
            let at = start.wrapping_add(read as u64);
            let here = (bytes - read).min(to_page_end(at) as usize);
            let readable = self.list_page(origin, at).and_then(|()| {
                let missing = PageFault { address: at, write: false, refused: true, operand: FaultOperand::First };
                memory::read(at, &mut list[read..read + here]).map_err(|_| missing)
            });
            if let Err(missing) = readable {
                fault = Some(missing);
                break;
            }
            read += here;
        }
        list.truncate(read);
        if let Some(then) = &at_submission {
            self.watch.list_is_unchanged(origin.queue, batch, then, "before it was dispatched");
        }
        let tells_result = self.config.gencap.contains(GenCap::BATCH_CONTINUATION);
        let batch = Batch::new(descriptors(&list).collect(), fault, batch, tells_result);
        Stage::Batch(batch, at_submission)
    }

    /// A list always blocks on faults if the queue makes page requests (SPEC 8.1.3).
    fn list_page(&mut self, origin: Origin, address: u64) -> Result<(), PageFault> {
        let fault = |refused| PageFault { address, write: false, refused, operand: FaultOperand::First };
        if self.weather.chance(self.weather.faults.list_fault) {
            return Err(fault(true));
        }
        let requests = !self.config.queues[origin.queue].prs_disable;
        let residency = self.profile.freedoms.residency;
        let space = self.space(origin.client).clone();
        match space.translate(address, false, residency) {
            Translation::Present => Ok(()),
            Translation::Requestable if requests => {
                space.fill(address);
                self.counters.page_requests += 1;
                Ok(())
            }
            Translation::Requestable | Translation::Refusable => Err(fault(requests)),
            Translation::Refused => Err(fault(true)),
        }
    }

    fn go(&mut self, index: usize) {
        match &self.running[index].stage {
            Stage::Working(_) => self.work(index),
            Stage::Draining => self.drained(index),
            Stage::Batch(..) => self.mind_children(index),
            Stage::Ending(_) => self.end(index),
        }
    }

    /// Advances an operation. In a pipeline all of it happens when its time has come.
    fn work(&mut self, index: usize) {
        let whole = self.pipeline.is_some();
        let pieces = if self.profile.freedoms.pieces { 1 } else { PIECES_PER_STEP };
        let mut left = if whole { usize::MAX } else { pieces };
        while left > 0 {
            left -= 1;
            if let Some(outcome) = self.advance(index) {
                self.running[index].stage = Stage::Ending(outcome);
                return;
            }
        }
    }

    fn advance(&mut self, index: usize) -> Option<Outcome> {
        if self.weather.chance(self.weather.faults.hardware_error) {
            return Some(Outcome::of(Status::HW_ERR1));
        }
        let Self { running, clients, config, profile, weather, counters, pipeline, .. } = self;
        let running = &mut running[index];
        let Stage::Working(work) = &mut running.stage else { return None };
        let space = &clients[running.origin.client].space;
        let mut access = Access {
            large: Access::whole(space, &weather.faults, &profile.freedoms),
            space,
            weather,
            reached: &mut running.reached,
            blocks: running.descriptor.flags().contains(Flags::BOF)
                && config.queues[running.origin.queue].block_on_fault,
            residency: profile.freedoms.residency,
            pieces: profile.freedoms.pieces,
            tally: Tally::default(),
        };
        let mut advanced = work.advance(&mut access);
        // In large pieces it has not moved on, or by whole units: again, to the very page.
        if advanced.is_err() && access.large {
            access.large = false;
            advanced = work.advance(&mut access);
        }
        let Tally { read, written, page_requests } = access.tally;
        counters.bytes_read += read;
        counters.bytes_written += written;
        counters.page_requests += page_requests;
        if let Some(pipeline) = pipeline {
            running.due += page_requests as f64 * pipeline.timing().page_request_ns;
        }
        match advanced {
            Ok(Advance::More) => None,
            Ok(Advance::Done(outcome)) => Some(outcome),
            Err(fault) => Some(execute::partial(work.as_ref(), fault)),
        }
    }

    fn drained(&mut self, index: usize) {
        let drain = self.running[index].descriptor;
        let flags = drain.flags();
        let readbacks = [
            (Flags::READBACK1_VALID, layout::READBACK_1, FaultOperand::First),
            (Flags::READBACK2_VALID, layout::READBACK_2, FaultOperand::Second),
        ];
        let origin = self.running[index].origin;
        let mut outcome = Outcome::success();
        for (flag, field, operand) in readbacks {
            if !flags.contains(flag) {
                continue;
            }
            let address = drain.value(field);
            // Always blocks on faults, as lists do; what is read goes nowhere.
            let readable = self.list_page(origin, address).and_then(|()| {
                let missing = PageFault { address, write: false, refused: true, operand };
                memory::read(address, &mut [0]).map_err(|_| missing)
            });
            if let Err(fault) = readable {
                let fault = PageFault { operand, ..fault };
                outcome = Outcome { fault: Some(fault), ..Outcome::of(Status::PFAULT_RDBA) };
                break;
            }
        }
        self.running[index].stage = Stage::Ending(outcome);
    }

    /// Starts a child, or ends the batch.
    fn mind_children(&mut self, index: usize) {
        let in_order = self.children_in_order();
        let reorder = self.profile.freedoms.reorder;
        let draw = if reorder { self.dice.next() as usize } else { 0 };
        let batch_end = self.pipeline.as_ref().map_or(0.0, |pipeline| pipeline.timing().batch_end_ns);
        let now = self.now;
        let running = &mut self.running[index];
        let origin = running.origin;
        let Stage::Batch(batch, _) = &mut running.stage else { return };
        let startable = batch.startable(in_order);
        if !startable.is_empty() {
            let child = startable[draw % startable.len()];
            let descriptor = batch.start(child);
            self.begin(Origin { child: Some(child), ..origin }, descriptor, None);
            return;
        }
        let Some(outcome) = batch.outcome() else { return };
        running.unheard = batch.unreported();
        let children: Vec<Descriptor> = batch.children().iter().map(|child| child.descriptor).collect();
        let Stage::Batch(_, at_submission) = std::mem::replace(&mut running.stage, Stage::Ending(outcome)) else {
            return;
        };
        running.due = now + batch_end;
        let batch = running.descriptor;
        // Their records are free as soon as the batch's is there; it is written by this device, next. So are those of children that were never
        // read, because their part of the list faulted.
        children.iter().for_each(|child| self.watch.release(child, origin.id));
        if let Some(then) = at_submission {
            self.watch.list_is_unchanged(origin.queue, &batch, &then, "before its record was written");
            descriptors(&then).for_each(|child| self.watch.release(&child, origin.id));
        }
    }

    /// A queue that was draining and has nothing left is disabled.
    pub(crate) fn settle(&mut self, queue: usize) {
        let busy =
            !self.queues[queue].waiting.is_empty() || self.running.iter().any(|running| running.origin.queue == queue);
        if self.queues[queue].state == QueueState::Draining && !busy {
            self.queues[queue].state = QueueState::Disabled;
        }
    }
}

const _: () = assert!(PAGE as usize % size_of::<Descriptor>() == 0, "no descriptor of a list spans pages");
