//! An operation that a device has, piece by piece, until its verdict is known; what the device leaves undone is done here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use super::center::Center;
use super::cpu::{self, Stores};
use super::device::Device;
use super::durable;
use super::flow::{How, Refused, Room, Settled, Ticket};
use super::pieces::Pieces;
use super::timing::DeviceTiming;
use super::{Failure, Operation, Verdict};

/// See the module's documentation.
///
/// The operation itself is the future's, which knows its buffers, and is passed in.
pub(super) enum Submitted {
    /// All of it is with the device, or was.
    Whole(Ticket),
    /// Everything that is rare. Boxed, for the sake of the other.
    Otherwise(Box<Otherwise>),
}

/// In pieces, without a slot, refused, or timed.
#[derive(Debug)]
pub(super) struct Otherwise {
    center: Arc<Center>,
    /// `None`: the whole at once.
    pieces: Option<Pieces>,
    hand: Hand,
    how: How,
    /// The device was asked for by name: what it refuses is an error, not the CPU's.
    demanded: bool,
    /// The router wants to know what it takes.
    timing: Option<DeviceTiming>,
    /// The device did all that was done so far.
    plainly: bool,
}

#[derive(Debug)]
enum Hand {
    /// The piece is with the device.
    Ticket(Ticket),
    /// The piece waits for a slot.
    Waiting(Room),
    Over,
}

impl Submitted {
    /// Submits the first piece, or makes it wait for a slot. `Err`: the CPU has to do it.
    ///
    /// # Safety
    /// - The memory of the operation's addresses stays valid, and is not used otherwise, until `poll` says `Ready` with anything but
    ///   [`Failure::Quarantined`], or what `abandon` is given is dropped.
    pub(super) unsafe fn new(
        center: &Arc<Center>,
        device: &Device,
        operation: &Operation,
        how: How,
        demanded: bool,
        mut timing: Option<DeviceTiming>,
    ) -> Result<Self, ()> {
        let began = timing.is_some().then(Instant::now);
        let budget = device.transfer_max(how.queue);
        let pieces = (operation.len() > budget).then(|| Pieces::new(operation, budget));
        let first = pieces.as_ref().map_or(operation, Pieces::now);
        // SAFETY: says the caller; a piece is a part of the operation.
        let hand = match unsafe { device.flow.submit(first, how, None) } {
            Ok(ticket) if pieces.is_none() && timing.is_none() => return Ok(Self::Whole(ticket)),
            Ok(ticket) => Hand::Ticket(ticket),
            Err(Refused::NoSlot) => Hand::Waiting(device.flow.room()),
            Err(_) if demanded => Hand::Over,
            Err(_) => return Err(()),
        };
        if let (Some(timing), Some(began)) = (&mut timing, began) {
            timing.spend(began.elapsed());
        }
        let (center, plainly) = (Arc::clone(center), matches!(hand, Hand::Ticket(_)));
        Ok(Self::Otherwise(Box::new(Otherwise { center, pieces, hand, how, demanded, timing, plainly })))
    }
}

impl Submitted {
    /// As [`poll_whole`], whichever it is.
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn poll(
        &mut self,
        whole: &mut dyn FnMut() -> Operation,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Verdict, Failure>> {
        match self {
            // SAFETY: says the caller.
            Self::Whole(ticket) => unsafe { poll_whole(ticket, whole, cx) },
            // SAFETY: as above.
            Self::Otherwise(otherwise) => unsafe { otherwise.poll(whole, cx) },
        }
    }

    /// Nobody waits any more: the buffers stay until the device has answered.
    pub(super) fn abandon<T: Send + 'static>(self, buffers: T) {
        match self {
            Self::Whole(ticket) => ticket.abandon(move || Box::new(buffers)),
            Self::Otherwise(otherwise) => otherwise.abandon(buffers),
        }
    }
}

/// What became of an operation that is wholly with the device; `whole` says what was submitted.
///
/// # Safety
/// - It says the same as then, and what was promised then holds.
pub(super) unsafe fn poll_whole(
    ticket: &mut Ticket,
    whole: &mut dyn FnMut() -> Operation,
    cx: &mut Context<'_>,
) -> Poll<Result<Verdict, Failure>> {
    // SAFETY: says the caller.
    match ready!(unsafe { ticket.poll(&mut *whole, cx.waker()) }) {
        Settled::Done(verdict) => Poll::Ready(Ok(verdict)),
        // SAFETY: says the caller.
        settled => Poll::Ready(unsafe { settle(settled, &whole()) }),
    }
}

impl Otherwise {
    /// One that was submitted, as a whole, with others of a batch that is timed.
    pub(super) fn of_batch(
        center: &Arc<Center>,
        ticket: Ticket,
        how: How,
        demanded: bool,
        timing: DeviceTiming,
    ) -> Box<Self> {
        let (center, hand, timing) = (Arc::clone(center), Hand::Ticket(ticket), Some(timing));
        Box::new(Self { center, pieces: None, hand, how, demanded, timing, plainly: true })
    }

    /// As [`poll_whole`].
    ///
    /// # Safety
    /// As there.
    pub(super) unsafe fn poll(
        &mut self,
        whole: &mut dyn FnMut() -> Operation,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Verdict, Failure>> {
        let Some(mut timing) = self.timing.take() else {
            // SAFETY: says the caller.
            return unsafe { self.go_on(whole, cx) };
        };
        let began = Instant::now();
        // SAFETY: says the caller.
        let polled = unsafe { self.go_on(whole, cx) };
        timing.spend(began.elapsed());
        match &polled {
            Poll::Pending => self.timing = Some(timing),
            Poll::Ready(result) => timing.end(self.device(), self.plainly && result.is_ok()),
        }
        polled
    }

    /// As [`poll`](Self::poll), untimed.
    ///
    /// # Safety
    /// As there.
    unsafe fn go_on(
        &mut self,
        whole: &mut dyn FnMut() -> Operation,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Verdict, Failure>> {
        loop {
            let piece = self.pieces.as_ref().map_or_else(&mut *whole, |pieces| *pieces.now());
            let verdict = match &mut self.hand {
                Hand::Ticket(ticket) => {
                    // SAFETY: says the caller; the piece is what was submitted last.
                    let settled = ready!(unsafe { ticket.poll(|| piece, cx.waker()) });
                    // The ticket stays: it is abandoned with the buffers.
                    if let Settled::Failed(failure @ Failure::Quarantined { .. }) = settled {
                        return Poll::Ready(Err(failure));
                    }
                    self.plainly &= matches!(settled, Settled::Done(_));
                    // SAFETY: as above.
                    unsafe { settle(settled, &piece) }
                }
                Hand::Waiting(room) => {
                    ready!(Pin::new(&mut *room).poll(cx));
                    room.again();
                    self.plainly = false;
                    // SAFETY: says the caller.
                    match unsafe { self.submit(&piece) } {
                        None => continue,
                        Some(verdict) => verdict,
                    }
                }
                Hand::Over => Err(no_device("its work queue does not take the operation")),
            };
            let verdict = match verdict {
                Ok(verdict) => verdict,
                Err(failure) => {
                    self.hand = Hand::Over;
                    return Poll::Ready(Err(failure));
                }
            };
            let budget = self.device().transfer_max(self.how.queue);
            let whole_verdict = match &mut self.pieces {
                None => Some(verdict),
                Some(pieces) => pieces.done(verdict, budget),
            };
            if let Some(verdict) = whole_verdict {
                self.hand = Hand::Over;
                return Poll::Ready(Ok(verdict));
            }
            // The next piece; if no queue takes it, the loop comes to it again as to one that waits for a slot.
            self.hand = Hand::Waiting(self.device().flow.room());
            let Some(next) = self.pieces.as_ref().map(|pieces| *pieces.now()) else { continue };
            // SAFETY: says the caller; a piece is a part of the operation.
            if let Some(verdict) = unsafe { self.submit(&next) } {
                let done = match (verdict, &mut self.pieces) {
                    (Ok(verdict), Some(pieces)) => pieces.done(verdict, budget).map(Ok),
                    (verdict, _) => Some(verdict),
                };
                if let Some(verdict) = done {
                    self.hand = Hand::Over;
                    return Poll::Ready(verdict);
                }
            }
        }
    }

    /// Nobody waits any more: the buffers stay until the device has answered.
    pub(super) fn abandon<T: Send + 'static>(self, buffers: T) {
        if let Hand::Ticket(ticket) = self.hand {
            ticket.abandon(move || Box::new(buffers));
        }
    }

    fn device(&self) -> &Device {
        self.center.device.as_ref().expect("what was submitted was submitted to a device")
    }

    /// Submits the piece; `Some`: no queue took it, and this is what became of it on the CPU.
    ///
    /// # Safety
    /// As `poll`.
    unsafe fn submit(&mut self, piece: &Operation) -> Option<Result<Verdict, Failure>> {
        // SAFETY: as promised to `new`.
        match unsafe { self.device().flow.submit(piece, self.how, None) } {
            Ok(ticket) => {
                self.hand = Hand::Ticket(ticket);
                None
            }
            Err(Refused::NoSlot) => None,
            Err(Refused::Closed) => Some(Err(Failure::Shutdown)),
            Err(_) if self.demanded => Some(Err(no_device("its work queue went away, or does not take the operation"))),
            // SAFETY: as promised; no device has it.
            Err(_) => Some(unsafe { cpu::perform(piece, self.center.stores(piece.len())) }),
        }
    }
}

/// What the device has not (quite) done.
///
/// # Safety
/// As [`poll_whole`]; the device is done with the piece.
#[cold]
unsafe fn settle(settled: Settled, piece: &Operation) -> Result<Verdict, Failure> {
    let (verdict, write_back) = match settled {
        Settled::Done(verdict) => (verdict, false),
        Settled::WriteBack(verdict) => (verdict, true),
        Settled::Failed(failure) => return Err(failure),
        Settled::NeverRan => unreachable!("it waits for no others"),
        Settled::OnCpu { rest, write_back, streamed } => {
            let stores = if streamed { Stores::Streamed } else { Stores::Plain };
            // SAFETY: says the caller; what is left is a part of the piece.
            (rest.lift(unsafe { cpu::perform(&rest.operation, stores) }?), write_back)
        }
    };
    if write_back {
        // SAFETY: says the caller.
        unsafe { durable::write_back(piece) };
    }
    Ok(verdict)
}

fn no_device(why: &str) -> Failure {
    Failure::Refused {
        what: format!("the device was asked for, and {why}: see `twolane doctor`, or let the engine be chosen"),
    }
}
