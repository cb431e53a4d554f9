//! `echo_packet_ratio`: what does the runtime add to a packet through an echo server that never runs dry?
//!
//! **Method.** A round: the server's loop is held, its socket is filled with 200 datagrams from the sink's socket, the loop is
//! released, and the kernel stamps the last echo as it reaches the sink (SO_TIMESTAMPNS). What lies between the release and
//! that stamp, divided by 200, is the time of a packet. The thread that fills and releases is bound to the compute lane's cpu,
//! and blocks until everything is echoed. A slot is 3 rounds; all slots together are 60 rounds and more a side. Figure: ratio
//! of the medians of all rounds.
//!
//! **Reference.** [`echo_loop`](crate::reference::echo_loop): the same turn (recvmmsg, sendmmsg, up to 32 datagrams a call)
//! in a loop without a runtime, on the same cpu and the same sockets.
//!
//! **Bound.** 1.02. A runtime that only calls the poller gets 1.00: a pass costs some ten nanoseconds, a batch of 32 some tens of
//! microseconds. What would show here is anything slow between two busy passes: a wait, a system call, a lock.
//!
//! **Beside.** Nanoseconds a packet of both sides.

use std::convert::Infallible;
use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use twolane::{LaneInfo, PollCx, Progress, Where};

use crate::common::cpu;
use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::{Lanes, Machine, builder};
use crate::common::seat::Seat;
use crate::common::slots::{Cell, SLOTS, interleave};
use crate::common::stats::median;
use crate::common::witness::Witness;
use crate::reference::echo_loop::{self, Echo};

const DATAGRAMS: usize = 200;
const PAYLOAD: [u8; 64] = [0x2a; 64];
const ROUNDS: usize = 3;
/// Room for a filled queue, far more than 200 small datagrams take with what the kernel counts beside them.
const QUEUE_BYTES: usize = 1 << 20;
/// A round that takes longer has lost a datagram.
const ROUND_MAX: Duration = Duration::from_secs(2);

pub fn packet_ratio(machine: &Machine) -> Result<Figure, String> {
    let lanes = Lanes::start(builder())?;
    let seat = Seat::on(machine.poll)?;
    let sockets = Sockets::new()?;
    let _pinned = cpu::pin(machine.compute)?;
    let witness = Witness::new(machine.cpus(), lanes.thread_ids().into_iter().chain([seat.id()]));
    let slots = interleave(SLOTS, &witness, |cell| match cell {
        Cell::Ours => by_lane(&lanes, &sockets).map(Some),
        Cell::A | Cell::AAgain => by_hand(&seat, &sockets).map(Some),
    })?;
    let (ours, reference) = (median(&slots.ours), median(&slots.references()));
    Ok(Figure {
        name: "echo_packet_ratio",
        value: ours / reference,
        bound: Bound::AtMost(1.02),
        noise: Some(Noise { aa: median(&slots.a_again) / median(&slots.a), neutral: 1.0 }),
        clean: Some(slots.clean()),
        beside: vec![
            ("lane_packet_ns", ours),
            ("by_hand_packet_ns", reference),
            ("rounds_of_ours", (slots.ours.len() * ROUNDS) as f64),
        ],
    })
}

struct Sockets {
    server: Arc<UdpSocket>,
    sink: UdpSocket,
}

/// What holds a loop, and tells when it has echoed everything.
struct Gate {
    open: AtomicBool,
    over: AtomicBool,
    echoed: AtomicUsize,
}

/// A turn of the echo behind the gate: the very same on both sides.
fn turn_behind(gate: &Gate, echo: &mut Echo, done: &Sender<()>) -> usize {
    // Acquire: partner is the Release store in `round`; what was sent before the release is there to be received.
    if !gate.open.load(Acquire) {
        return 0;
    }
    let count = echo.turn();
    // Relaxed: only this thread counts while the gate is open.
    let echoed = gate.echoed.load(Relaxed) + count;
    gate.echoed.store(echoed, Relaxed);
    if echoed >= DATAGRAMS {
        gate.open.store(false, Relaxed);
        let _ = done.send(()); // nobody listens if the round was given up
    }
    count
}

fn by_lane(lanes: &Lanes, sockets: &Sockets) -> Result<f64, String> {
    let (gate, done, hear) = sockets.gate();
    let (behind, server) = (Arc::clone(&gate), Arc::clone(&sockets.server));
    // Built on the lane: nix's headers stay on one thread.
    let make = move |_: &LaneInfo| {
        let mut echo = Echo::over(server);
        Ok::<_, Infallible>(move |_: &mut PollCx<'_>| match turn_behind(&behind, &mut echo, &done) {
            0 if behind.over.load(Relaxed) => Progress::Done,
            0 => Progress::Idle,
            count => Progress::Busy(count as u32),
        })
    };
    let poller = lanes.runtime.spawn_poller_with(Where::Any, "echo", make).map_err(|error| error.to_string())?;
    let packet_ns = sockets.rounds(&gate, &hear);
    gate.over.store(true, Relaxed);
    poller.join().map_err(|error| error.to_string())?;
    packet_ns
}

fn by_hand(seat: &Seat, sockets: &Sockets) -> Result<f64, String> {
    let (gate, done, hear) = sockets.gate();
    let (behind, server) = (Arc::clone(&gate), Arc::clone(&sockets.server));
    let running = seat.start(move || {
        let mut echo = Echo::over(server);
        echo_loop::run(|| turn_behind(&behind, &mut echo, &done), &behind.over)
    });
    let packet_ns = sockets.rounds(&gate, &hear);
    gate.over.store(true, Relaxed);
    running.wait()?;
    packet_ns
}

impl Sockets {
    fn new() -> Result<Self, String> {
        let said = |error: std::io::Error| format!("sockets on 127.0.0.1: {error}");
        let server = UdpSocket::bind("127.0.0.1:0").map_err(said)?;
        server.set_nonblocking(true).map_err(said)?;
        let sink = UdpSocket::bind("127.0.0.1:0").map_err(said)?;
        sink.connect(server.local_addr().map_err(said)?).map_err(said)?;
        for socket in [&server, &sink] {
            let refused = |error| format!("a receive queue of {QUEUE_BYTES} bytes: {error}");
            setsockopt(socket, sockopt::RcvBuf, &QUEUE_BYTES).map_err(refused)?;
        }
        setsockopt(&sink, sockopt::ReceiveTimestampns, &true).map_err(|error| format!("SO_TIMESTAMPNS: {error}"))?;
        Ok(Self { server: Arc::new(server), sink })
    }

    fn gate(&self) -> (Arc<Gate>, Sender<()>, Receiver<()>) {
        let gate = Gate { open: AtomicBool::new(false), over: AtomicBool::new(false), echoed: AtomicUsize::new(0) };
        let (done, hear) = channel();
        (Arc::new(gate), done, hear)
    }

    /// The slot: the median of some rounds, in nanoseconds a packet. The first round only warms up.
    fn rounds(&self, gate: &Gate, done: &Receiver<()>) -> Result<f64, String> {
        self.round(gate, done)?;
        let rounds = (0..ROUNDS).map(|_| self.round(gate, done)).collect::<Result<Vec<f64>, String>>()?;
        Ok(median(&rounds))
    }

    fn round(&self, gate: &Gate, done: &Receiver<()>) -> Result<f64, String> {
        for _ in 0..DATAGRAMS {
            self.sink.send(&PAYLOAD).map_err(|error| format!("send: {error}"))?;
        }
        gate.echoed.store(0, Relaxed);
        let released = realtime_ns()?;
        // Release: partner is the Acquire load in `turn_behind`.
        gate.open.store(true, Release);
        match done.recv_timeout(ROUND_MAX) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => {
                let echoed = gate.echoed.load(Relaxed);
                return Err(format!("{echoed} of {DATAGRAMS} datagrams were echoed: some were lost"));
            }
            Err(RecvTimeoutError::Disconnected) => return Err("the echo ended".into()),
        }
        let last = self.last_stamp_ns()?;
        Ok(last.saturating_sub(released) as f64 / DATAGRAMS as f64)
    }

    /// Takes all echoes; the kernel's stamp of the last.
    fn last_stamp_ns(&self) -> Result<u64, String> {
        let mut last = 0;
        for _ in 0..DATAGRAMS {
            let mut bytes = [0; PAYLOAD.len()];
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let mut space = nix::cmsg_space!(nix::sys::time::TimeSpec);
            let flags = MsgFlags::MSG_DONTWAIT;
            let message = recvmsg::<SockaddrStorage>(self.sink.as_raw_fd(), &mut slices, Some(&mut space), flags);
            let message = message.map_err(|error| format!("an echo is missing: {error}"))?;
            let stamps = message.cmsgs().map_err(|error| format!("no room for the stamp: {error}"))?;
            for stamp in stamps {
                if let ControlMessageOwned::ScmTimestampns(at) = stamp {
                    last = last.max(at.tv_sec() as u64 * 1_000_000_000 + at.tv_nsec() as u64);
                }
            }
        }
        if last == 0 { Err("the kernel stamped no echo".into()) } else { Ok(last) }
    }
}

/// The clock of the kernel's stamps.
fn realtime_ns() -> Result<u64, String> {
    let now = clock_gettime(ClockId::CLOCK_REALTIME).map_err(|error| format!("CLOCK_REALTIME: {error}"))?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}
