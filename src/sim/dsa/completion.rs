//! What happens when an operation ends? Its record, the error register, its batch, the books.

use crate::offload::dsa::abi::{CompletionRecord, Descriptor, EventLog, Flags, Status, SwError, SwErrorCode};

use super::execute::Outcome;
use super::memory::{self, Inaccessible};
use super::record;
use super::space::Translation;
use super::state::{Origin, Running, Stage, State};
use super::trace::{End, Loss};
use super::violations::Rule;

impl State {
    /// Ends a descriptor whose outcome stands.
    pub(crate) fn end(&mut self, index: usize) {
        let Running { origin, descriptor, stage, unheard, .. } = self.running.swap_remove(index);
        let Stage::Ending(outcome) = stage else { return };
        *self.counters.ended.entry((descriptor.opcode(), outcome.status)).or_default() += 1;
        let record = record::encode(&outcome, self.config.gencap, &self.profile.freedoms, &mut self.dice);
        let reported = self.report(origin, &descriptor, &outcome, record, unheard);
        if let Some(fault) = outcome.fault {
            self.space(origin.client).reported(fault.address);
        }
        if let Some(child) = origin.child {
            self.tell_batch(origin, child, outcome.status, reported);
        }
        self.settle(origin.queue);
    }

    /// Writes the record, if there is to be one. Whether software can see how it ended.
    fn report(
        &mut self,
        origin: Origin,
        descriptor: &Descriptor,
        outcome: &Outcome,
        record: CompletionRecord,
        unheard: u64,
    ) -> bool {
        let asked = descriptor.flags().contains(Flags::RCR) || outcome.status.is_reported_unasked();
        let address = descriptor.completion_address().filter(|_| asked);
        let Some(address) = address else {
            if descriptor.completion_address().is_none() && outcome.status.is_reported_unasked() {
                self.raise(SwErrorCode(outcome.status.code()), origin.queue, Some((origin, descriptor)), None);
            }
            // That a child has ended without a record, software learns from the batch's.
            if origin.child.is_none() {
                self.watch.release(descriptor, origin.id);
            }
            self.note(origin, descriptor, End::Silent(record));
            return false;
        };
        let why = match self.write_record(origin, descriptor, outcome.status, address, &record) {
            Ok(()) => {
                // A child's too: it has ended, and the batch's record is another one.
                self.watch.release(descriptor, origin.id);
                return true;
            }
            Err(why) => why,
        };
        self.raise(SwErrorCode(why.code()), origin.queue, Some((origin, descriptor)), Some(address));
        // A record that is lost stays in flight for the watch: who uses it again does not know that.
        self.lose(origin, descriptor, unheard, Loss::Record);
        false
    }

    fn write_record(
        &mut self,
        origin: Origin,
        descriptor: &Descriptor,
        status: Status,
        address: u64,
        record: &CompletionRecord,
    ) -> Result<(), Status> {
        if status == Status::CRA_ALIGN {
            return Err(status);
        }
        if self.weather.chance(self.weather.faults.record_lost) {
            return Err(Status::CRA_XLAT);
        }
        self.record_page(origin, address)?;
        let bytes = record.to_bytes();
        let written = memory::write(address + 1, &bytes[1..]).and_then(|()| {
            // Noted before software can see it: it may be dead a moment later.
            self.counters.records += 1;
            self.note(origin, descriptor, End::Reported(*record));
            memory::store_status(address, bytes[0]).inspect_err(|_| self.counters.records -= 1)
        });
        written.map_err(|Inaccessible| {
            if self.profile.freedoms.watch {
                let what = format!("the completion record at {address:#x} was unmapped, or made read-only, in flight");
                self.watch.report(Rule::RecordLost, origin.queue, None, what);
            }
            Status::CRA_XLAT
        })
    }

    /// The page of a record: it always blocks on faults if the queue makes page requests (SPEC 8.1.3). With an event log the kernel writes the
    /// record itself, once it has the page; that it comes later cannot be told from a slow device.
    fn record_page(&mut self, origin: Origin, address: u64) -> Result<(), Status> {
        let has_log = self.config.gencap.event_log() != EventLog::None;
        let requests = !self.config.queues[origin.queue].prs_disable;
        let residency = self.profile.freedoms.residency;
        let space = self.space(origin.client).clone();
        match space.translate(address, true, residency) {
            Translation::Present => Ok(()),
            Translation::Requestable if requests || has_log => {
                space.fill(address);
                self.counters.page_requests += u64::from(requests);
                Ok(())
            }
            Translation::Requestable | Translation::Refusable | Translation::Refused => Err(Status::CRA_XLAT),
        }
    }

    fn tell_batch(&mut self, origin: Origin, child: usize, status: Status, reported: bool) {
        let now = self.now;
        let is_batch = |running: &&mut Running| running.origin.id == origin.id && running.origin.child.is_none();
        let Some(parent) = self.running.iter_mut().find(is_batch) else { return };
        if let Stage::Batch(batch, _) = &mut parent.stage {
            batch.ended(child, status, reported);
            parent.due = parent.due.max(now);
        }
    }

    /// Puts an error into the register; if there is one already, only that there were more.
    pub(crate) fn raise(
        &mut self,
        code: SwErrorCode,
        queue: usize,
        descriptor: Option<(Origin, &Descriptor)>,
        fault: Option<u64>,
    ) {
        const VALID: u64 = 1;
        const OVERFLOW: u64 = 1 << 1;
        const OF_A_DESCRIPTOR: u64 = 1 << 2;
        const OF_A_QUEUE: u64 = 1 << 3;
        const OF_A_BATCH: u64 = 1 << 4;
        if self.error.valid() {
            self.error.0[0] |= OVERFLOW;
            return;
        }
        let mut words = [VALID | OF_A_QUEUE | u64::from(code.0) << 8 | (queue as u64 & 0xff) << 16, 0, 0, 0];
        if let Some((origin, descriptor)) = descriptor {
            words[0] |= OF_A_DESCRIPTOR | u64::from(descriptor.opcode().0) << 32;
            if let Some(child) = origin.child {
                words[0] |= OF_A_BATCH;
                words[1] |= child as u64 & 0xffff;
            }
        }
        words[2] = fault.unwrap_or(0);
        self.error = SwError(words);
    }
}
