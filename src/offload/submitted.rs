//! An operation that a device has, piece by piece, until its verdict is known; what the device leaves undone is done here.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::center::Center;
use super::cpu;
use super::device::Device;
use super::durable;
use super::flow::{How, Refused, Room, Settled, Ticket};
use super::held::Held;
use super::pieces::Pieces;
use super::{Failure, Operation, Verdict};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Submitted {
    center: Arc<Center>,
    pieces: Pieces,
    how: How,
    /// The device was asked for by name: what it refuses is an error, not the CPU's.
    demanded: bool,
    hand: Hand,
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
        let pieces = Pieces::new(operation, budget);
        // SAFETY: says the caller; a piece is a part of the operation.
        let hand = match unsafe { device.flow.submit(pieces.now(), how, None) } {
            Ok(ticket) => Hand::Ticket(ticket),
            Err(Refused::NoSlot) => Hand::Waiting(device.flow.room()),
            Err(_) if demanded => Hand::Over,
            Err(_) => return Err(()),
        };
        Ok(Self { center: Arc::clone(center), pieces, how, demanded, hand })
    }

    /// With a ticket that was had together with others.
    ///
    /// # Safety
    /// - As [`new`](Self::new); the ticket is for the operation, whole.
    #[inline]
    pub(super) unsafe fn with(
        center: &Arc<Center>,
        operation: &Operation,
        how: How,
        demanded: bool,
        ticket: Ticket,
    ) -> Self {
        let pieces = Pieces::new(operation, usize::MAX);
        Self { center: Arc::clone(center), pieces, how, demanded, hand: Hand::Ticket(ticket) }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Verdict, Failure>> {
        loop {
            let verdict = match &mut self.hand {
                Hand::Ticket(ticket) => match std::task::ready!(ticket.poll_in(cx)) {
                    Settled::Done(verdict) => verdict,
                    Settled::WriteBack(verdict) => {
                        // SAFETY: as promised to `new`; the device is done with it.
                        unsafe { durable::write_back(self.pieces.now()) };
                        verdict
                    }
                    // The ticket stays: it is abandoned with the buffers.
                    Settled::Failed(failure) => return Poll::Ready(Err(failure)),
                    Settled::OnCpu { rest, write_back } => match self.finish(&rest.operation) {
                        Ok(verdict) => {
                            if write_back {
                                // SAFETY: as above.
                                unsafe { durable::write_back(self.pieces.now()) };
                            }
                            rest.lift(verdict)
                        }
                        Err(failure) => return Poll::Ready(Err(failure)),
                    },
                },
                Hand::Waiting(room) => {
                    std::task::ready!(Pin::new(&mut *room).poll(cx));
                    room.again();
                    match self.submit_now() {
                        Submission::Accepted => continue,
                        Submission::NoSlot => continue,
                        Submission::Refused(why) => match self.instead(why) {
                            Ok(verdict) => verdict,
                            Err(failure) => return Poll::Ready(Err(failure)),
                        },
                    }
                }
                Hand::Over => return Poll::Ready(Err(no_device("the work queue does not take it"))),
            };
            let budget = self.device().transfer_max(self.how.queue);
            if let Some(whole) = self.pieces.done(verdict, budget) {
                self.hand = Hand::Over;
                return Poll::Ready(Ok(whole));
            }
            match self.submit_now() {
                Submission::Accepted | Submission::NoSlot => {}
                Submission::Refused(why) => match self.instead(why) {
                    Ok(verdict) => match self.pieces.done(verdict, budget) {
                        Some(whole) => return Poll::Ready(Ok(whole)),
                        None => self.hand = Hand::Waiting(self.device().flow.room()),
                    },
                    Err(failure) => return Poll::Ready(Err(failure)),
                },
            }
        }
    }

    fn device(&self) -> &Device {
        self.center.device.as_ref().expect("what was submitted was submitted to a device")
    }

    fn submit_now(&mut self) -> Submission {
        let device = self.center.device.as_ref().expect("what was submitted was submitted to a device");
        // SAFETY: as promised to `new`: the piece is a part of the operation.
        match unsafe { device.flow.submit(self.pieces.now(), self.how, None) } {
            Ok(ticket) => {
                self.hand = Hand::Ticket(ticket);
                Submission::Accepted
            }
            Err(Refused::NoSlot) => {
                if !matches!(self.hand, Hand::Waiting(_)) {
                    self.hand = Hand::Waiting(device.flow.room());
                }
                Submission::NoSlot
            }
            Err(why) => Submission::Refused(why),
        }
    }

    /// The piece on the CPU, which no queue takes.
    fn instead(&mut self, why: Refused) -> Result<Verdict, Failure> {
        match why {
            Refused::Closed => Err(Failure::Shutdown),
            _ if self.demanded => Err(no_device("its work queue went away, or does not have the operation")),
            _ => self.finish(self.pieces.now()),
        }
    }

    /// What is left, on the CPU.
    fn finish(&self, rest: &Operation) -> Result<Verdict, Failure> {
        // SAFETY: as promised to `new`; the device is done with it.
        unsafe { cpu::perform(rest, self.center.stores(rest.len())) }
    }

    /// Nobody waits any more: the buffers stay until the device has answered.
    pub(super) fn abandon<R: Send + 'static>(self, request: Held<R>) {
        match self.hand {
            Hand::Ticket(ticket) => ticket.abandon(move || Box::new(request)),
            Hand::Waiting(_) | Hand::Over => {}
        }
    }
}

enum Submission {
    Accepted,
    NoSlot,
    Refused(Refused),
}

fn no_device(why: &str) -> Failure {
    Failure::Refused {
        what: format!("the device was asked for, and {why}: see `twolane doctor`, or let the engine be chosen"),
    }
}
