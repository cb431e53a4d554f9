//! From the description of a work queue to an opened one: which way in, and whether it answers.
//!
//! A way is chosen by the queue's mode, the cpu's instructions and what the kernel grants, and then *tried*: a no-op is submitted, and only its
//! completion record proves that descriptors get through. Any status does. So a portal of the other mode, a device that hangs, an address space that
//! the IOMMU does not know, and a kernel without `write(2)` for queues are found out here and not by the first copy. Where batches are said to be
//! taken, one of two no-ops is tried as well.
//!
//! A queue that does not answer is left open: closing it waits for the device, which hangs. The process's exit closes it.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::abi::{CompletionSlot, Descriptor, Flags, OpCap, Opcode, Status, limits};
use super::discover::{HealthFile, Mode, WorkQueue};
use super::portal::{self, Death, NoState, NotMapped, Portal, StateSource, Submitted, Way};
use super::queue::{Limits, Queue};
use crate::arch::{self, Capabilities, Enqcmd, Movdir64b};

/// How long the answer to a no-op is waited for. A device answers in about a microsecond; this is for a machine that has not run this thread meanwhile.
const ANSWER_MAX: Duration = Duration::from_millis(500);
/// Of that, how long without giving up the cpu.
const SPIN_MAX: Duration = Duration::from_micros(50);
/// The pause between two looks after that.
const LOOK_EACH: Duration = Duration::from_micros(100);
/// A queue that is full when it is tried: how often, with the pause above in between.
const FULL_TRIES_MAX: u32 = 100;
/// How many descriptors of ours a shared queue holds at most: depth beyond it brings nothing (published: 32 entries reach the peak), and others wait.
const SHARED_IN_FLIGHT_MAX: u32 = 32;

/// What the cpu can submit with.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Instructions {
    pub(crate) movdir64b: Option<Movdir64b>,
    pub(crate) enqcmd: Option<Enqcmd>,
}

impl Instructions {
    pub(crate) fn of(cpu: &Capabilities) -> Self {
        Self { movdir64b: cpu.movdir64b, enqcmd: cpu.enqcmd }
    }
}

/// What the caller wants of an opening, besides the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wants {
    /// Batches on a mapped portal although sysfs hides them: the kernel hides them from everybody when it refuses them through `write(2)`. They are
    /// tried all the same.
    pub(crate) batch_anyway: bool,
}

/// Opens a queue, finds the way in, and tries it.
///
/// Blocks until the queue has answered, half a second at most.
///
/// # Errors
/// What failed, with path, errno and what to do. The queue is then closed, unless it did not answer.
pub(crate) fn open(queue: &WorkQueue, cpu: Instructions, wants: Wants) -> Result<Queue, OpenError> {
    let fail = |why| OpenError { queue: queue.name.clone(), node: queue.node.clone(), why };
    let state: Box<dyn StateSource> = match HealthFile::open(queue) {
        Some(file) => Box::new(file.map_err(|error| fail(NotOpened::State(error)))?),
        None => Box::new(NoState),
    };
    if let Some(death) = state.death() {
        return Err(fail(NotOpened::Dead(death)));
    }
    let way = way(queue.mode, cpu, || portal::map(&queue.node)).map_err(|not| {
        fail(match not {
            NotMapped::Opened(error) => NotOpened::Node(error),
            NotMapped::Mapped(error) => NotOpened::Map(error),
        })
    })?;
    let mapped = way.is_mapped();
    let portal = portal::through(way, &queue.node, state).map_err(|error| fail(NotOpened::Node(error)))?;
    match try_out(&*portal, queue, mapped && wants.batch_anyway) {
        Ok(limits) => Ok(Queue::new(&queue.name, queue.numa_node, limits, portal)),
        Err(why) => {
            if matches!(why, NotOpened::Silent(_)) {
                // The no-op may still be in there: closing would wait for it.
                std::mem::forget(portal);
            }
            Err(fail(why))
        }
    }
}

/// Whether the queue answers, and what it takes.
fn try_out(portal: &dyn Portal, queue: &WorkQueue, batch_anyway: bool) -> Result<Limits, NotOpened> {
    answers(portal, queue)?;
    let limits = limits_of(queue, batch_anyway);
    if limits.batch_max > 0 && !takes_batches(portal)? { Ok(without_batches(limits)) } else { Ok(limits) }
}

/// The way into a queue: by the instruction of its mode to the mapped portal, or by `write(2)` where the cpu lacks the one or the kernel refuses the
/// other (CAP_SYS_RAWIO). `map` is called only if the instruction is there.
///
/// # Errors
/// Opening failed, or mapping for another reason.
fn way<P>(mode: Mode, cpu: Instructions, map: impl FnOnce() -> Result<P, NotMapped>) -> Result<Way<P>, NotMapped> {
    let to_page = |map: Result<P, NotMapped>, by: &dyn Fn(P) -> Way<P>| match map {
        Ok(page) => Ok(by(page)),
        Err(NotMapped::Mapped(error)) if error.raw_os_error() == Some(libc::EPERM) => Ok(Way::Write),
        Err(error) => Err(error),
    };
    match (mode, cpu.movdir64b, cpu.enqcmd) {
        (Mode::Dedicated, Some(token), _) => to_page(map(), &move |page| Way::Movdir64b(page, token)),
        (Mode::Shared, _, Some(token)) => to_page(map(), &move |page| Way::Enqcmd(page, token)),
        _ => Ok(Way::Write),
    }
}

/// What the queue takes, before batches were tried.
fn limits_of(queue: &WorkQueue, batch_anyway: bool) -> Limits {
    let batch_max = match queue.batch_max() {
        0 if batch_anyway && queue.max_batch_size >= limits::BATCH_MIN => queue.max_batch_size,
        shown => shown,
    };
    let in_flight_max = match queue.mode {
        Mode::Dedicated => queue.depth(),
        Mode::Shared => queue.depth().min(SHARED_IN_FLIGHT_MAX),
    };
    Limits {
        version: queue.version,
        general: queue.capabilities,
        operations: queue.operations,
        transfer_max: queue.max_transfer_size,
        batch_max,
        in_flight_max,
        block_on_fault: queue.block_on_fault,
    }
}

fn without_batches(limits: Limits) -> Limits {
    let operations: OpCap = limits.operations.without(Opcode::BATCH);
    Limits { batch_max: 0, operations, ..limits }
}

/// Whether a no-op comes back, with whatever status.
fn answers(portal: &dyn Portal, queue: &WorkQueue) -> Result<(), NotOpened> {
    let probe = Probe::new();
    // SAFETY: a no-op has no address but its record's, which lives as long as the device may write (`Probe`). One descriptor at a time, after
    // the answer to the one before: no queue is too small.
    match unsafe { submit(portal, &probe.0[0], Descriptor::noop()) }? {
        Answer::Status(_) => Ok(()),
        Answer::Full => Err(NotOpened::Full { entries: queue.depth() }),
        Answer::Nothing => {
            probe.keep();
            Err(NotOpened::Silent(portal.death()))
        }
    }
}

/// Whether a batch of two no-ops succeeds. A refusal is an answer; only silence is an error.
fn takes_batches(portal: &dyn Portal) -> Result<bool, NotOpened> {
    let mut probe = Probe::new();
    probe.1 = [1, 2].map(|n: usize| Descriptor::noop().report_to(probe.0[n].address()).with_flags(Flags::RCR));
    let list = std::ptr::from_ref(&probe.1).addr() as u64;
    // SAFETY: the list and three records, which live as long as the device may access them (`Probe`).
    match unsafe { submit(portal, &probe.0[0], Descriptor::batch(list, 2)) } {
        Ok(Answer::Status(Status::SUCCESS)) => Ok(true),
        Ok(Answer::Status(_)) => {
            // Refused, most likely; after a hardware error nobody knows what is still to be written.
            probe.keep();
            Ok(false)
        }
        // `write(2)` refuses a batch with EINVAL. A queue that stays full has not refused it, but is none to batch on.
        Ok(Answer::Full) | Err(NotOpened::Dead(Death::Errno(libc::EINVAL))) => Ok(false),
        Ok(Answer::Nothing) => {
            probe.keep();
            Err(NotOpened::Silent(portal.death()))
        }
        Err(why) => Err(why),
    }
}

/// Three records and a list of two, on the heap.
struct Probe([CompletionSlot; 3], [Descriptor; 2]);

impl Probe {
    fn new() -> Box<Self> {
        Box::new(Self(Default::default(), [Descriptor::ZERO; 2]))
    }
    /// The device may still write: the memory is its from now on.
    fn keep(self: Box<Self>) {
        Box::leak(self);
    }
}

enum Answer {
    Status(Status),
    /// Never accepted, for a while.
    Full,
    /// Accepted, and not answered in time.
    Nothing,
}

/// Submits a descriptor, to be answered in `slot`, and waits.
///
/// # Safety
/// As [`Portal::submit`]; with [`Answer::Nothing`] the memory stays the device's for ever.
unsafe fn submit(portal: &dyn Portal, slot: &CompletionSlot, descriptor: Descriptor) -> Result<Answer, NotOpened> {
    slot.clear_all();
    let descriptor = descriptor.report_to(slot.address()).with_flags(Flags::RCR);
    let mut tries = 0;
    loop {
        // SAFETY: the caller's promise; the record was just zeroed.
        match unsafe { portal.submit(&descriptor) } {
            Submitted::Accepted => break,
            Submitted::Dead(death) => return Err(NotOpened::Dead(death)),
            Submitted::Full if tries == FULL_TRIES_MAX => return Ok(Answer::Full),
            Submitted::Full => {
                tries += 1;
                std::thread::sleep(LOOK_EACH);
            }
        }
    }
    let start = Instant::now();
    loop {
        match slot.status_byte() {
            0 if start.elapsed() > ANSWER_MAX => return Ok(Answer::Nothing),
            0 if start.elapsed() > SPIN_MAX => std::thread::sleep(LOOK_EACH),
            0 => arch::pause(),
            byte => return Ok(Answer::Status(Status::of(byte))),
        }
    }
}

/// A work queue that could not be opened. Not an error of the program: the next queue is tried, and then the CPU.
#[derive(Debug)]
pub(crate) struct OpenError {
    pub(crate) queue: String,
    pub(crate) node: PathBuf,
    pub(crate) why: NotOpened,
}

/// What kept a queue from being opened.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum NotOpened {
    /// Its `state` in sysfs cannot be read.
    State(io::Error),
    /// It accepts nothing.
    Dead(Death),
    /// Its node cannot be opened.
    Node(io::Error),
    /// Its portal cannot be mapped, and not for want of the right to.
    Map(io::Error),
    /// It was full all the time.
    Full { entries: u32 },
    /// It took a no-op and did not answer; what its `state` said then.
    Silent(Option<Death>),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queue, node) = (&self.queue, self.node.display());
        match &self.why {
            NotOpened::State(error) => {
                write!(f, "the state of work queue {queue} cannot be read ({error}): is the idxd driver still loaded?")
            }
            NotOpened::Dead(Death::Errno(libc::EINVAL)) => write!(
                f,
                "{node} takes no write(2): this kernel (before 6.9.1 or 6.1.91) has none for work queues, so the cpu's own instruction is needed, \
                 and a hypervisor that shows it (MOVDIR64B for a dedicated queue, ENQCMD for a shared one)"
            ),
            NotOpened::Dead(death) => write!(f, "work queue {queue} ({node}) accepts nothing: {death}"),
            NotOpened::Node(error) => {
                write!(f, "{node} cannot be opened ({error})")?;
                match error.raw_os_error() {
                    Some(libc::EACCES | libc::EPERM) => {
                        write!(f, ": give it to your group (`chgrp GROUP {node} && chmod 660 {node}`, or an udev rule)")
                    }
                    Some(libc::EBUSY) => f.write_str(": a dedicated queue has one user at a time; use another, or a shared one"),
                    Some(libc::ENOENT) => write!(f, ": is the queue enabled (`accel-config enable-wq`), and /dev/dsa mapped into the container?"),
                    Some(libc::ENODEV | libc::ENXIO) => f.write_str(": its device is gone; `accel-config list` shows what is there"),
                    Some(libc::EOPNOTSUPP | libc::EINVAL) => f.write_str(
                        ": the kernel could not bind this process's memory to the device; it wants `intel_iommu=on,sm_on` at boot",
                    ),
                    _ => Ok(()),
                }
            }
            NotOpened::Map(error) => {
                write!(f, "the portal of {node} cannot be mapped ({error}): is this the node of a DSA work queue?")
            }
            NotOpened::Full { entries } => write!(
                f,
                "work queue {queue} ({entries} entries) was full whenever it was tried: others keep it busy, it was given another mode than sysfs said, \
                 or its device hangs (see `twolane doctor`)"
            ),
            NotOpened::Silent(death) => {
                let waited = ANSWER_MAX.as_millis();
                write!(f, "work queue {queue} ({node}) took a no-op and has not answered for {waited} ms")?;
                match death {
                    Some(death) => write!(f, ": {death}")?,
                    None => f.write_str(
                        ": see its device's `errors` and `state` in sysfs, and whether the IOMMU is in scalable mode",
                    )?,
                }
                f.write_str("; it stays open until this process ends")
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.why {
            NotOpened::State(error) | NotOpened::Node(error) | NotOpened::Map(error) => Some(error),
            NotOpened::Dead(_) | NotOpened::Full { .. } | NotOpened::Silent(_) => None,
        }
    }
}

#[cfg(test)]
#[path = "open_tests.rs"]
mod tests;
