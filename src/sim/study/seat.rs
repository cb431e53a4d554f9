//! A core with a clock of its own, and its queue of the device model.

use std::io;

use super::world::World;
use crate::offload::dsa::abi::{CompletionSlot, Descriptor, Flags, Status};
use crate::sim::dsa::{AddressSpace, Device, DeviceConfig, Enqcmd, ModelPortal, Profile, QueueConfig, QueueMode};

/// Descriptors that the queue takes: more than anybody here has outstanding.
const QUEUE_SIZE: u32 = 64;
/// Largest batch.
const BATCH_MAX: u32 = 32;
/// Where the copies would be: the model leaves the data alone, so nothing has to be there, but ranges must not overlap.
const SOURCE: u64 = 1 << 40;
const DESTINATION: u64 = 1 << 41;

/// A submitter in virtual time. The device is a real model with real descriptors and records; only the data is not touched.
#[derive(Debug)]
pub struct Seat {
    world: World,
    now: f64,
    device: Device,
    portal: ModelPortal,
    flights: Vec<Flight>,
    free: Vec<usize>,
}

/// A descriptor's memory: a record, and a list if it is a batch.
#[derive(Debug)]
struct Flight {
    record: Box<CompletionSlot>,
    list: Vec<Descriptor>,
}

/// Something submitted: a copy, or a batch of them.
#[derive(Debug)]
#[must_use = "what was submitted has to be reaped"]
pub struct Ticket {
    flight: usize,
    copies: u32,
    /// When the portal write was over.
    submitted: f64,
    /// The core's time until then.
    core_ns: f64,
}

impl Ticket {
    /// How many copies it stands for.
    pub fn copies(&self) -> u32 {
        self.copies
    }

    /// The core's time for all of them until the submission was over, in nanoseconds.
    pub fn core_ns(&self) -> f64 {
        self.core_ns
    }
}

impl Seat {
    /// A core and an idle device.
    ///
    /// # Errors
    /// The kernel refuses what the model needs to write records.
    pub fn new(world: &World) -> io::Result<Self> {
        let queue = match world.queue {
            QueueMode::Shared => QueueConfig::shared(QUEUE_SIZE),
            QueueMode::Dedicated => QueueConfig::dedicated(QUEUE_SIZE),
        };
        // The largest transfer that a device has: nobody here cuts copies.
        let queue = queue.max_batch(BATCH_MAX).max_transfer(1 << 31);
        let profile = Profile::compat().timing(world.timing).without_data();
        let device = Device::new(DeviceConfig::v1().queue(queue), profile).map_err(io::Error::other)?;
        let portal = device.open(0, &AddressSpace::new()?)?;
        Ok(Self { world: *world, now: 0.0, device, portal, flights: Vec::new(), free: Vec::new() })
    }

    /// Where it is.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The core's time, in nanoseconds.
    pub fn now_ns(&self) -> f64 {
        self.now
    }

    /// The core does something else.
    pub fn work(&mut self, ns: f64) {
        self.now += ns;
    }

    /// The core copies; what that took.
    pub fn copy(&mut self, bytes: usize) -> f64 {
        let takes = self.world.cpu_ns(bytes);
        self.now += takes;
        takes
    }

    /// Submits the copies: one alone, several as a batch. `lens` has 1 to 32 sizes.
    ///
    /// A shared queue that is full is tried again until it is not, as a loop around ENQCMD would.
    pub fn submit(&mut self, lens: &[usize]) -> Ticket {
        let began = self.now;
        self.now += self.world.software.prepare_ns * lens.len() as f64;
        let flight = self.flight();
        let Flight { record, list } = &mut self.flights[flight];
        record.clear_all();
        let copy = |len: &usize| Descriptor::memmove(SOURCE, DESTINATION, *len as u32);
        list.clear();
        let descriptor = match lens {
            [len] => copy(len),
            lens => {
                list.extend(lens.iter().map(copy));
                Descriptor::batch(list.as_ptr().addr() as u64, lens.len() as u32)
            }
        };
        let descriptor = descriptor.report_to(record.address()).with_flags(Flags::RCR);
        loop {
            self.now += self.world.submit_ns();
            self.device.advance_to(self.now as u64);
            // SAFETY: record and list are this seat's, which reuses them when the record is there, and drops them with the device, that nobody drives
            // any more by then. The copies' own addresses are never touched: the device was made `without_data`.
            let answer = unsafe {
                match self.world.queue {
                    QueueMode::Shared => self.portal.enqcmd(0, &descriptor),
                    QueueMode::Dedicated => self.portal.movdir64b(0, &descriptor).map(|()| Enqcmd::Accepted),
                }
            };
            // No #GP: offset 0 is aligned, and the first word of a new descriptor is zero.
            if answer.expect("an aligned store of a well-formed descriptor") == Enqcmd::Accepted {
                break;
            }
        }
        Ticket { flight, copies: lens.len() as u32, submitted: self.now, core_ns: self.now - began }
    }

    /// Whether it is over, as far as the core can see now. Looking costs nothing.
    pub fn is_done(&self, ticket: &Ticket) -> bool {
        self.device.advance_to(self.now as u64);
        self.flights[ticket.flight].record.status_byte() != 0
    }

    /// Waits until it is over and takes the answer; the core's time for that, and the time since the submission until that was seen.
    ///
    /// # Panics
    /// The device did not do it: a defect of the model, or of the caller.
    pub fn wait(&mut self, ticket: Ticket) -> (f64, f64) {
        self.device.advance_to(self.now as u64);
        while self.flights[ticket.flight].record.status_byte() == 0 {
            let due = self.device.next_due_ns().expect("what was submitted is going to end");
            self.device.advance_to(due);
            self.now = self.now.max(due as f64);
        }
        let latency = self.now - ticket.submitted;
        let status = self.flights[ticket.flight].record.record().map(|record| record.status());
        assert_eq!(status, Some(Status::SUCCESS), "a copy that nothing hinders");
        let reaping = self.world.software.reap_ns * f64::from(ticket.copies);
        self.now += reaping;
        self.free.push(ticket.flight);
        (reaping, latency)
    }

    fn flight(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            let list = Vec::with_capacity(BATCH_MAX as usize);
            self.flights.push(Flight { record: Box::default(), list });
            self.flights.len() - 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_takes_what_the_parts_take() {
        let world = World::default();
        let mut seat = Seat::new(&world).unwrap();
        let ticket = seat.submit(&[30_000]);
        assert!(!seat.is_done(&ticket));
        assert_eq!(ticket.core_ns(), 25.0 + 270.0);
        let (reaping, latency) = seat.wait(ticket);
        assert_eq!(reaping, 15.0);
        assert!((latency - (1_100.0 + 1_000.0)).abs() < 2.0, "{latency}");
        assert_eq!(seat.copy(0), 25.0);
    }

    #[test]
    fn a_batch_saves_portal_writes_and_adds_its_fetch() {
        let mut seat = Seat::new(&World::default()).unwrap();
        let batch = seat.submit(&[256; 8]);
        assert_eq!((batch.copies(), batch.core_ns()), (8, 8.0 * 25.0 + 270.0));
        let (_, latency) = seat.wait(batch);
        assert!(latency > 1_100.0 + 250.0 + 100.0, "{latency}");
    }

    #[test]
    fn what_the_work_hides_is_not_waited_for() {
        let mut seat = Seat::new(&World { queue: QueueMode::Dedicated, ..World::default() }).unwrap();
        let ticket = seat.submit(&[4096]);
        seat.work(5_000.0);
        assert!(seat.is_done(&ticket));
        let before = seat.now_ns();
        let (reaping, latency) = seat.wait(ticket);
        assert_eq!(latency, 5_000.0);
        assert_eq!(seat.now_ns() - before, reaping);
    }
}
