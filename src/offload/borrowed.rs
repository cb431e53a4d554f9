//! Operations on borrowed memory, by the thread that asks: nothing of them is left behind when the call returns.
//!
//! What is borrowed cannot be left to a device for ever, as the buffers of a future are. So whoever calls stays until the device has answered, looking at the
//! completion record by itself: it needs no reaper, and no lane that runs. If there is no answer in time, the queue is closed, upon which the kernel drains what the
//! device has of it; when that is known to be done ([`Drained`](super::dsa::portal::Drained), a value), nothing runs any more, and the CPU does the operation (again: every
//! operation here may be done twice). Closing takes as long as the device takes, or for ever if it hangs.
//!
//! Closing may fail, and it drains nothing while a child of the process has the queue open. Then nobody knows whether the device still writes, and borrowed memory can neither
//! be given back nor kept for ever, as a future's buffers can. So the caller stays, until the record is written or closing succeeds, which is tried again and again, however long
//! that takes; [`CopyCounts::closing`](super::CopyCounts::closing) and [`not_drained`](super::CopyCounts::not_drained) tell of those that wait. To end the process instead would end what is
//! well along with it, and whoever wants that sees the numbers and can.

use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use super::copies::{Copies, Engine};
use super::device::{Device, Way};
use super::flow::{How, Refused, Settled, Ticket};
use super::operation::Pattern;
use super::pieces::Pieces;
use super::route::{Mode, Observation, Took};
use super::{Failure, Operation, Verdict, check_room, cpu, durable};
use crate::arch;

/// Looks at the record between two looks at the clock. A PAUSE takes 10 to 140 cycles, so this takes 0.1 to 2 us.
const LOOKS: u32 = 32;
/// A wait that has lasted so long is no ordinary answer (those take microseconds), so the cpu is given to others in between.
const SPIN_MAX: Duration = Duration::from_micros(50);
/// Between two tries to close a queue: 100 ms. What stands in the way is a child, a limit, or no memory, and each try makes a thread.
const CLOSE_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The longest nap between two looks.
const NAP_MAX: Duration = Duration::from_millis(1);

/// # Borrowed buffers
/// These methods wait until the operation is over, on the calling thread: one outside of the lanes, or a task's. They need no future and no ownership, and they
/// allocate nothing. Inside a poller they are refused, whatever the size, since a poller's lane has others to call.
///
/// If the device does not answer in time ([`Builder::copy_timeout`](crate::Builder::copy_timeout)), its queue is closed and the kernel waited for, **as long as that
/// takes**, before the CPU does it: borrowed memory cannot be left to a device that may still write to it. For ever, if the device hangs; and where queues are written to by `write(2)`
/// (no CAP_SYS_RAWIO), as long as a child that was forked meanwhile has a dedicated queue open: a program that forks and goes on closes them in the child, or uses the futures.
impl Copies {
    /// Copies all of `src` to the beginning of `dst`.
    ///
    /// ```
    /// # let rt = twolane::Runtime::builder().build()?;
    /// let (src, mut dst) = ([7u8; 4096], [0u8; 5000]);
    /// rt.copies().copy_blocking(&src, &mut dst)?;
    /// assert_eq!(src, dst[..4096]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Failure::Refused`]: `dst` has no room, the caller is in a poller, or [`Engine::Device`] was asked for and there is none that can.
    /// [`Failure::BadAddress`], [`Failure::Device`]: what is in `dst` then is undefined (initialised, as ever).
    pub fn copy_blocking(&self, src: &[u8], dst: &mut [u8]) -> Result<(), Failure> {
        check_room("destination", dst.len(), src.len())?;
        let operation = Operation::Copy { src: src.as_ptr(), dst: dst.as_mut_ptr(), len: src.len() };
        // SAFETY: borrowed until this returns, `dst` by nobody else.
        unsafe { self.perform(&operation) }.map(drop)
    }

    /// Fills `dst` with these 8 bytes again and again; the last time as far as there is room.
    ///
    /// # Errors
    /// As [`copy_blocking`](Self::copy_blocking).
    pub fn fill_blocking(&self, dst: &mut [u8], pattern: [u8; 8]) -> Result<(), Failure> {
        let operation = Operation::Fill { pattern: Pattern::Eight(pattern), dst: dst.as_mut_ptr(), len: dst.len() };
        // SAFETY: borrowed until this returns, by nobody else.
        unsafe { self.perform(&operation) }.map(drop)
    }

    /// Where two slices of one length differ first; `None`: they are equal.
    ///
    /// # Errors
    /// As [`copy_blocking`](Self::copy_blocking); and if the lengths differ.
    pub fn compare_blocking(&self, left: &[u8], right: &[u8]) -> Result<Option<usize>, Failure> {
        let len = left.len();
        if right.len() != len {
            let what = format!("a comparison of {len} with {} bytes: give slices of one length", right.len());
            return Err(Failure::Refused { what });
        }
        let operation = Operation::Compare { left: left.as_ptr(), right: right.as_ptr(), len };
        // SAFETY: borrowed until this returns.
        match unsafe { self.perform(&operation) }? {
            Verdict::Differ { at } => Ok(Some(at)),
            _ => Ok(None),
        }
    }

    /// CRC-32C; `seed`: 0, or the CRC of the part before this one.
    ///
    /// # Errors
    /// As [`copy_blocking`](Self::copy_blocking).
    pub fn crc32c_blocking(&self, src: &[u8], seed: u32) -> Result<u32, Failure> {
        let operation = Operation::Crc { src: src.as_ptr(), len: src.len(), seed };
        // SAFETY: borrowed until this returns.
        match unsafe { self.perform(&operation) }? {
            Verdict::Crc(crc) => Ok(crc),
            other => unreachable!("an engine answered {other:?} to a checksum"),
        }
    }

    /// # Safety
    /// - The operation's memory is valid for what it does and is not used otherwise until this returns.
    /// - It may be done twice.
    unsafe fn perform(&self, operation: &Operation) -> Result<Verdict, Failure> {
        if !(self.center.may_wait)() {
            let what = "a copy that waits, asked for in a poller or a hook, while others of the lane have to wait: use the future there";
            return Err(Failure::Refused { what: what.into() });
        }
        cpu::check(operation)?;
        let len = operation.len();
        let demanded = self.engine == Engine::Device;
        let may_go = len > 0 && !matches!(self.engine, Engine::Cpu | Engine::CpuHere);
        let Some(device) = self.center.device.as_ref().filter(|_| may_go) else {
            if demanded && len > 0 {
                return Err(refused("there is no work queue that can be used"));
            }
            // SAFETY: says the caller.
            return unsafe { self.on_cpu(operation) };
        };
        match device.way(operation, self.intent, self.engine, Mode::Waited, false) {
            Way::Cpu { .. } if demanded => Err(refused("no work queue answers")),
            Way::Cpu { timed } => {
                let began = timed.then(Instant::now);
                // SAFETY: says the caller.
                let verdict = unsafe { self.on_cpu(operation) }?;
                if let Some(began) = began {
                    self.learn(device, operation, Took::Cpu { ns: nanos(began.elapsed()) });
                }
                Ok(verdict)
            }
            Way::Queue { how, timed } => {
                let timed = timed.then(|| (Instant::now(), device.ahead(how.queue)));
                // SAFETY: says the caller.
                let done = unsafe { self.by_device(device, operation, how) }?;
                if let (Some((began, ahead)), Done::ByDevice { core, .. }) = (timed, done) {
                    let latency_ns = Some(nanos(began.elapsed()));
                    let took = Took::Device { queue: device.place(how.queue), ahead, core_ns: nanos(core), latency_ns };
                    self.learn(device, operation, took);
                }
                Ok(done.verdict())
            }
        }
    }

    /// Tells the router what an operation took, of which it wanted to know.
    fn learn(&self, device: &Device, operation: &Operation, took: Took) {
        let (kind, len, intent) = (operation.kind(), operation.len(), self.intent);
        device.router.observe(&Observation { kind, len, intent, mode: Mode::Waited, took });
    }

    /// # Safety
    /// As [`perform`](Self::perform).
    unsafe fn on_cpu(&self, operation: &Operation) -> Result<Verdict, Failure> {
        // SAFETY: says the caller.
        let verdict = unsafe { cpu::perform(operation, self.center.stores(operation.len())) }?;
        if self.intent == super::Intent::Durable {
            // SAFETY: says the caller.
            unsafe { durable::write_back(operation) };
        }
        Ok(verdict)
    }

    /// Piece by piece.
    ///
    /// # Safety
    /// As [`perform`](Self::perform).
    unsafe fn by_device(&self, device: &Device, operation: &Operation, how: How) -> Result<Done, Failure> {
        let budget = device.transfer_max(how.queue);
        let mut pieces = Pieces::new(operation, budget);
        let mut submitting = Duration::ZERO;
        let mut wholly = true;
        loop {
            // SAFETY: says the caller; a piece is a part of the operation.
            let piece = unsafe { self.piece(device, pieces.now(), how) }?;
            match piece {
                Done::ByDevice { core, .. } => submitting += core,
                Done::ByCpu(_) => wholly = false,
            }
            if let Some(verdict) = pieces.done(piece.verdict(), budget) {
                return Ok(if wholly { Done::ByDevice { verdict, core: submitting } } else { Done::ByCpu(verdict) });
            }
        }
    }

    /// # Safety
    /// As [`perform`](Self::perform); the piece is no larger than the queue takes.
    unsafe fn piece(&self, device: &Device, piece: &Operation, how: How) -> Result<Done, Failure> {
        let demanded = self.engine == Engine::Device;
        let began = Instant::now();
        let mut wait = Wait::new();
        let ticket = loop {
            // SAFETY: the caller's promise, for as long as it takes: nothing below returns, and nothing unwinds, while the device has it.
            match unsafe { device.flow.submit(piece, how, None) } {
                Ok(ticket) => break ticket,
                // Slots come back as operations end, which others see to.
                Err(Refused::NoSlot) if demanded && wait.waited() < device.flow.timeout() => wait.once(),
                Err(Refused::Closed) if demanded => return Err(Failure::Shutdown),
                Err(_) if demanded => return Err(refused("its work queue went away, or does not have the operation")),
                Err(_) => {
                    // SAFETY: says the caller; it was not submitted.
                    return unsafe { self.on_cpu(piece) }.map(Done::ByCpu);
                }
            }
        };
        let core = began.elapsed();
        let borrowed = Unwinding;
        // SAFETY: says the caller.
        let done = unsafe { self.answer(device, piece, how, ticket, core) };
        std::mem::forget(borrowed);
        done
    }

    /// Waits for the answer.
    ///
    /// # Safety
    /// As [`perform`](Self::perform); the ticket is the piece's.
    unsafe fn answer(
        &self,
        device: &Device,
        piece: &Operation,
        how: How,
        mut ticket: Ticket,
        core: Duration,
    ) -> Result<Done, Failure> {
        let mut wait = Wait::new();
        // Who closes the queue, since when it is overdue, and when it may be tried.
        let (mut closing, mut close_at) = (None, device.flow.timeout());
        loop {
            // SAFETY: says the caller.
            match unsafe { ticket.poll(|| *piece, Waker::noop()) } {
                Poll::Ready(Settled::Done(verdict)) => return Ok(Done::ByDevice { verdict, core }),
                Poll::Ready(Settled::WriteBack(verdict)) => {
                    // SAFETY: says the caller; the device is done with it.
                    unsafe { durable::write_back(piece) };
                    return Ok(Done::ByDevice { verdict, core });
                }
                Poll::Ready(Settled::NeverRan) => unreachable!("it waits for no others"),
                Poll::Ready(Settled::OnCpu { rest, write_back, .. }) => {
                    // SAFETY: as above.
                    let verdict = unsafe { cpu::perform(&rest.operation, self.center.stores(rest.operation.len())) }?;
                    if write_back {
                        // SAFETY: as above.
                        unsafe { durable::write_back(piece) };
                    }
                    return Ok(Done::ByCpu(rest.lift(verdict)));
                }
                // A watcher gave it up; here it is not given up, but waited for.
                Poll::Ready(Settled::Failed(Failure::Quarantined { .. })) if closing.is_none() => {
                    close_at = Duration::ZERO
                }
                Poll::Ready(Settled::Failed(Failure::Quarantined { .. })) => {}
                Poll::Ready(Settled::Failed(failure)) => return Err(failure),
                Poll::Pending => {}
            }
            if wait.waited() >= close_at {
                let closer = closing.take().unwrap_or_else(|| self.center.counts.closing());
                match device.flow.close_queue(how.queue) {
                    Ok(drained) => break closer.closed(drained),
                    Err(_) => closer.not_drained(),
                }
                (closing, close_at) = (Some(closer), wait.waited() + CLOSE_AGAIN_AFTER);
            }
            ticket.push();
            wait.until(|| ticket.status_byte() != 0);
        }
        // Nothing of it runs any more. What is kept in the operation's place is nothing.
        ticket.abandon(|| Box::new(()));
        // SAFETY: says the caller.
        unsafe { self.on_cpu(piece) }.map(Done::ByCpu)
    }
}

/// How it was done.
#[derive(Clone, Copy, Debug)]
enum Done {
    ByDevice { verdict: Verdict, core: Duration },
    ByCpu(Verdict),
}

impl Done {
    fn verdict(self) -> Verdict {
        match self {
            Self::ByDevice { verdict, .. } | Self::ByCpu(verdict) => verdict,
        }
    }
}

/// Ends the process when it is dropped: an unwinding caller would take memory back that a device writes to.
struct Unwinding;

impl Drop for Unwinding {
    fn drop(&mut self) {
        eprintln!("twolane: a panic while a device has borrowed memory, which it may still write to: the process ends");
        std::process::abort();
    }
}

/// A wait in looks, pauses and naps.
struct Wait {
    began: Instant,
}

impl Wait {
    fn new() -> Self {
        Self { began: Instant::now() }
    }

    fn waited(&self) -> Duration {
        self.began.elapsed()
    }

    fn once(&mut self) {
        self.until(|| false);
    }

    /// Until it holds, or for a while: the caller looks at everything else in between.
    fn until(&mut self, holds: impl Fn() -> bool) {
        for _ in 0..LOOKS {
            if holds() {
                return;
            }
            arch::pause();
        }
        if let Some(nap) = nap_after(self.waited()) {
            std::thread::sleep(nap);
        }
    }
}

/// How long the cpu is given away after a wait of this length: a quarter of it, so that an answer is seen at most a quarter late.
fn nap_after(waited: Duration) -> Option<Duration> {
    (waited >= SPIN_MAX).then(|| (waited / 4).min(NAP_MAX))
}

fn nanos(duration: Duration) -> f32 {
    // Exact to a part in 16 million, which is more than a clock is.
    duration.as_nanos() as f32
}

#[cold]
fn refused(why: &str) -> Failure {
    Failure::Refused {
        what: format!("the device was asked for, and {why}: see `twolane doctor`, or let the engine be chosen"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_follow_the_wait() {
        let us = Duration::from_micros;
        for (waited, nap) in [
            (us(0), None),
            (us(49), None),
            (us(50), Some(us(12) + Duration::from_nanos(500))),
            (us(400), Some(us(100))),
            (us(4_000), Some(us(1_000))),
            (us(60_000_000), Some(us(1_000))),
        ] {
            assert_eq!(nap_after(waited), nap, "{waited:?}");
        }
    }
}
