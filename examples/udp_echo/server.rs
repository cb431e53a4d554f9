//! The echo server: a poller that sends every datagram back to where it came from.
//!
//! One call receives at most one batch and answers it. What the kernel will not take at once stays in the batch and goes
//! out first in the next call, so back-pressure ends up in the socket's receive queue and not in memory of ours. A
//! datagram that cannot be sent (its client is gone, say) is counted and dropped: no client can end the service.
//!
//! The poller is built on its lane, since its message headers hold pointers and must not change threads. What it counts
//! it shares as a [`Ledger`], one lock that nobody contends a batch.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, setsockopt, sockopt};
use twolane::{PollCx, Poller, Progress, WakeBy};

use crate::batch::{Inbox, Outbox};
use crate::clock;
use crate::figures;

/// The largest datagram that UDP knows fits; the odd line on top keeps the buffers of a batch from all starting in the
/// same cache set.
const DATAGRAM_BYTES: usize = 65_536 + 64;

/// What the server did since the ledger was last taken.
#[derive(Debug)]
pub struct Tally {
    /// Datagrams echoed.
    pub echoed: u64,
    /// Bytes echoed.
    pub bytes: u64,
    /// Batches that held at least one datagram.
    pub batches: u64,
    /// Echoes that the kernel refused for good; the datagram is lost.
    pub sends_lost: u64,
    /// Of those, the ones whose client had gone away (ECONNREFUSED).
    pub clients_gone: u64,
    /// Times the kernel took only a part of a batch, or none for now (EAGAIN).
    pub sends_partial: u64,
    /// Errors of receiving other than "nothing there".
    pub receive_errors: u64,
    /// From the kernel's receive stamp to after `sendmmsg`, in nanoseconds. Empty without receive stamps.
    pub residence: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            echoed: 0,
            bytes: 0,
            batches: 0,
            sends_lost: 0,
            clients_gone: 0,
            sends_partial: 0,
            receive_errors: 0,
            residence: figures::latency_histogram(),
        }
    }
}

/// A [`Tally`] that the server writes and anybody may take.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Tally>>);

impl Ledger {
    /// What was counted since the last call, leaving an empty tally.
    pub fn take(&self) -> Tally {
        let fresh = Tally::default(); // Outside the lock: it allocates, and the lane must not wait for that.
        self.with(|tally| std::mem::replace(tally, fresh))
    }

    fn with<T>(&self, change: impl FnOnce(&mut Tally) -> T) -> T {
        // A panic between two counts leaves counts, so a poisoned tally is as good as any.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Makes a bound socket fit to be served: non-blocking, deep queue, arrivals stamped by the kernel. Returns whether the
/// kernel stamps.
pub fn prepare(socket: &UdpSocket) -> std::io::Result<bool> {
    socket.set_nonblocking(true)?;
    crate::batch::deepen_receive_queue(socket);
    Ok(setsockopt(socket, sockopt::ReceiveTimestampns, &true).is_ok())
}

/// The poller.
pub struct EchoServer {
    socket: UdpSocket,
    inbox: Inbox<DATAGRAM_BYTES>,
    outbox: Outbox,
    /// The part of the inbox that still has to go out: from here …
    next: usize,
    /// … to here.
    end: usize,
    ledger: Ledger,
}

impl EchoServer {
    /// A server on a socket that [`prepare`] made fit.
    pub fn new(socket: UdpSocket, stamped: bool, ledger: Ledger) -> Self {
        Self { socket, inbox: Inbox::new(stamped), outbox: Outbox::new(), next: 0, end: 0, ledger }
    }

    /// Fills the inbox once the last batch is out. Returns how many datagrams arrived.
    fn receive(&mut self) -> usize {
        debug_assert_eq!(self.next, self.end, "the inbox is overwritten");
        match self.inbox.receive(&self.socket, MsgFlags::MSG_DONTWAIT) {
            Ok(count) => {
                (self.next, self.end) = (0, count);
                count
            }
            Err(Errno::EAGAIN | Errno::EINTR) => 0,
            // The kernel reports an earlier send's failure here (ECONNREFUSED), and clears it by reporting.
            Err(_) => {
                self.ledger.with(|tally| tally.receive_errors += 1);
                0
            }
        }
    }

    /// Sends what is in the inbox, until it is empty or the kernel wants a pause.
    fn answer(&mut self) {
        while self.next < self.end {
            let (from, inbox) = (self.next, &self.inbox);
            let outcome = self.outbox.send(&self.socket, self.end - from, |at| {
                let (bytes, arrival) = inbox.datagram(from + at);
                (bytes, arrival.from)
            });
            let sent_at = clock::realtime_ns();
            let pending = self.end - from;
            let step = after_send(outcome, pending);
            self.ledger.with(|tally| {
                for at in from..from + step.sent {
                    let (bytes, arrival) = self.inbox.datagram(at);
                    tally.echoed += 1;
                    tally.bytes += bytes.len() as u64;
                    if let Some(stamp) = arrival.stamp_ns {
                        // A clock set back between the two readings would wrap; it reads as zero instead.
                        tally.residence.saturating_record(sent_at.saturating_sub(stamp));
                    }
                }
                tally.batches += u64::from(from == 0 && step.sent + step.lost > 0);
                tally.sends_partial += u64::from(step.sent + step.lost < pending);
                tally.sends_lost += step.lost as u64;
                tally.clients_gone += u64::from(outcome == Err(Errno::ECONNREFUSED));
            });
            self.next += step.sent + step.lost;
            if step.pause {
                break;
            }
        }
    }
}

impl Poller for EchoServer {
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        self.answer();
        if self.next < self.end {
            return Progress::Busy(0); // The kernel is full; nothing new was found, and what is held must still go out.
        }
        let arrived = self.receive();
        if arrived == 0 {
            return if cx.stopping() { Progress::Done } else { Progress::Idle };
        }
        self.answer();
        Progress::Busy(arrived as u32)
    }

    /// Consent to park: the kernel wakes the lane when the socket can be read.
    fn wake_by(&self) -> WakeBy<'_> {
        WakeBy::Fd(self.socket.as_fd())
    }

    /// No parking on readability while answers are held back: they go out without a new arrival.
    fn arm(&mut self) -> bool {
        self.next == self.end
    }
}

/// What became of the first datagrams of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AfterSend {
    /// The kernel took so many.
    sent: usize,
    /// So many after those will never go out.
    lost: usize,
    /// The kernel wants a pause before the rest.
    pause: bool,
}

/// Reads an answer of `sendmmsg` for `pending` datagrams. Errors are about the first of them only.
fn after_send(outcome: Result<usize, Errno>, pending: usize) -> AfterSend {
    match outcome {
        Ok(sent) => AfterSend { sent: sent.min(pending), lost: 0, pause: sent == 0 },
        Err(Errno::EINTR) => AfterSend { sent: 0, lost: 0, pause: false },
        Err(Errno::EAGAIN | Errno::ENOBUFS) => AfterSend { sent: 0, lost: 0, pause: true },
        Err(_) => AfterSend { sent: 0, lost: pending.min(1), pause: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_each_answer_of_sendmmsg() {
        let table = [
            ("all of it", Ok(4), AfterSend { sent: 4, lost: 0, pause: false }),
            ("a part: the rest is tried at once", Ok(3), AfterSend { sent: 3, lost: 0, pause: false }),
            ("nothing, no error: do not loop on it", Ok(0), AfterSend { sent: 0, lost: 0, pause: true }),
            ("queue full", Err(Errno::EAGAIN), AfterSend { sent: 0, lost: 0, pause: true }),
            ("no buffers", Err(Errno::ENOBUFS), AfterSend { sent: 0, lost: 0, pause: true }),
            ("interrupted", Err(Errno::EINTR), AfterSend { sent: 0, lost: 0, pause: false }),
            ("the client went away", Err(Errno::ECONNREFUSED), AfterSend { sent: 0, lost: 1, pause: false }),
            ("too long for the way back", Err(Errno::EMSGSIZE), AfterSend { sent: 0, lost: 1, pause: false }),
        ];
        for (what, outcome, want) in table {
            assert_eq!(after_send(outcome, 4), want, "{what}");
        }
    }

    #[test]
    fn taking_the_ledger_leaves_it_empty() {
        let ledger = Ledger::default();
        ledger.with(|tally| tally.echoed = 3);
        assert_eq!(ledger.take().echoed, 3);
        assert_eq!(ledger.take().echoed, 0);
    }
}
