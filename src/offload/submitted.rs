//! An operation that a device has, piece by piece, until its verdict is known; what the device leaves undone is done here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::center::Center;
use super::cpu;
use super::device::Device;
use super::durable;
use super::flow::{How, Refused, Room, Settled, Ticket};
use super::pieces::Pieces;
use super::{Failure, Operation, Verdict};

/// See the module's documentation.
///
/// The operation itself is the future's, which knows its buffers, and is passed in.
#[derive(Debug)]
pub(super) struct Submitted {
    center: Arc<Center>,
    /// `None`: the whole at once.
    pieces: Option<Box<Pieces>>,
    hand: Hand,
    how: How,
    /// The device was asked for by name: what it refuses is an error, not the CPU's.
    demanded: bool,
}

#[derive(Debug)]
enum Hand {
    /// The piece is with the device.
    Ticket(Ticket),
    /// The piece waits for a slot.
    Waiting(Box<Room>),
    Over,
}

impl Submitted {
    /// Submits the first piece, or makes it wait for a slot. `Err`: the CPU has to do it.
    ///
    /// # Safety
    /// - The memory of the operation's addresses stays valid, and is not used otherwise, until `poll` says `Ready` with anything but
    ///   [`Failure::Quarantined`], or what [`abandon`](Self::abandon) is given is dropped.
    #[inline]
    pub(super) unsafe fn new(
        center: &Arc<Center>,
        device: &Device,
        operation: &Operation,
        how: How,
        demanded: bool,
    ) -> Result<Self, ()> {
        let budget = device.transfer_max(how.queue);
        if operation.len() > budget {
            // SAFETY: the caller's promise.
            return unsafe { Self::in_pieces(center, device, operation, how, demanded) };
        }
        // SAFETY: says the caller.
        let hand = match unsafe { device.flow.submit(operation, how, None) } {
            Ok(ticket) => Hand::Ticket(ticket),
            Err(refused) => Self::without_ticket(device, refused, demanded)?,
        };
        Ok(Self { center: Arc::clone(center), pieces: None, hand, how, demanded })
    }

    /// # Safety
    /// As [`new`](Self::new).
    #[cold]
    unsafe fn in_pieces(
        center: &Arc<Center>,
        device: &Device,
        operation: &Operation,
        how: How,
        demanded: bool,
    ) -> Result<Self, ()> {
        let pieces = Box::new(Pieces::new(operation, device.transfer_max(how.queue)));
        // SAFETY: says the caller; a piece is a part of the operation.
        let hand = match unsafe { device.flow.submit(pieces.now(), how, None) } {
            Ok(ticket) => Hand::Ticket(ticket),
            Err(refused) => Self::without_ticket(device, refused, demanded)?,
        };
        Ok(Self { center: Arc::clone(center), pieces: Some(pieces), hand, how, demanded })
    }

    #[cold]
    fn without_ticket(device: &Device, refused: Refused, demanded: bool) -> Result<Hand, ()> {
        match refused {
            Refused::NoSlot => Ok(Hand::Waiting(Box::new(device.flow.room()))),
            _ if demanded => Ok(Hand::Over),
            _ => Err(()),
        }
    }

    /// With a ticket that was had together with others, for the whole operation.
    #[inline]
    pub(super) fn with(center: &Arc<Center>, how: How, demanded: bool, ticket: Ticket) -> Self {
        Self { center: Arc::clone(center), pieces: None, hand: Hand::Ticket(ticket), how, demanded }
    }

    /// `whole` says what was submitted in the beginning.
    ///
    /// # Safety
    /// - It says the same as then, and what was promised then holds.
    #[inline]
    pub(super) unsafe fn poll(
        &mut self,
        whole: &mut dyn FnMut() -> Operation,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Verdict, Failure>> {
        if let (Hand::Ticket(ticket), None) = (&mut self.hand, &self.pieces) {
            // SAFETY: says the caller.
            let verdict = match ready!(unsafe { ticket.poll(&mut *whole, cx.waker()) }) {
                Settled::Done(verdict) => Ok(verdict),
                // The ticket stays: it is abandoned with the buffers.
                Settled::Failed(failure @ Failure::Quarantined { .. }) => return Poll::Ready(Err(failure)),
                // SAFETY: says the caller.
                settled => unsafe { self.settle(settled, &whole()) },
            };
            self.hand = Hand::Over;
            return Poll::Ready(verdict);
        }
        // SAFETY: says the caller.
        unsafe { self.poll_on(whole, cx) }
    }

    /// As [`poll`](Self::poll), with pieces or without a ticket.
    ///
    /// # Safety
    /// As there.
    #[cold]
    unsafe fn poll_on(
        &mut self,
        whole: &mut dyn FnMut() -> Operation,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Verdict, Failure>> {
        loop {
            let piece = self.pieces.as_deref().map_or_else(&mut *whole, |pieces| *pieces.now());
            let verdict = match &mut self.hand {
                Hand::Ticket(ticket) => {
                    // SAFETY: says the caller; the piece is what was submitted last.
                    let settled = ready!(unsafe { ticket.poll(|| piece, cx.waker()) });
                    if let Settled::Failed(failure @ Failure::Quarantined { .. }) = settled {
                        return Poll::Ready(Err(failure));
                    }
                    // SAFETY: as above.
                    unsafe { self.settle(settled, &piece) }
                }
                Hand::Waiting(room) => {
                    ready!(Pin::new(&mut **room).poll(cx));
                    room.again();
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
            self.hand = Hand::Waiting(Box::new(self.device().flow.room()));
            let Some(next) = self.pieces.as_deref().map(|pieces| *pieces.now()) else { continue };
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
            Err(_) => Some(unsafe { self.finish(piece) }),
        }
    }

    /// What the device has not (quite) done.
    ///
    /// # Safety
    /// As `poll`; the device is done with the piece.
    #[cold]
    unsafe fn settle(&self, settled: Settled, piece: &Operation) -> Result<Verdict, Failure> {
        let (verdict, write_back) = match settled {
            Settled::Done(verdict) => (verdict, false),
            Settled::WriteBack(verdict) => (verdict, true),
            Settled::Failed(failure) => return Err(failure),
            Settled::NeverRan => unreachable!("it waits for no others"),
            // SAFETY: says the caller; what is left is a part of the piece.
            Settled::OnCpu { rest, write_back } => (rest.lift(unsafe { self.finish(&rest.operation) }?), write_back),
        };
        if write_back {
            // SAFETY: says the caller.
            unsafe { durable::write_back(piece) };
        }
        Ok(verdict)
    }

    /// What is left, on the CPU.
    ///
    /// # Safety
    /// As `settle`.
    unsafe fn finish(&self, rest: &Operation) -> Result<Verdict, Failure> {
        // SAFETY: says the caller.
        unsafe { cpu::perform(rest, self.center.stores(rest.len())) }
    }

    /// Nobody waits any more: the buffers stay until the device has answered.
    pub(super) fn abandon<T: Send + 'static>(self, buffers: T) {
        match self.hand {
            Hand::Ticket(ticket) => ticket.abandon(move || Box::new(buffers)),
            Hand::Waiting(_) | Hand::Over => {}
        }
    }
}

fn no_device(why: &str) -> Failure {
    Failure::Refused {
        what: format!("the device was asked for, and {why}: see `twolane doctor`, or let the engine be chosen"),
    }
}
