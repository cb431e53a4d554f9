//! The sweep: short slots, every cell at every rate, interleaved, so that what drifts in the machine hits all alike.
//!
//! A slot builds a runtime the cell's way, starts neighbour, server and client, and reads every counter twice: when the
//! client's warm-up is over, and when its last datagram is out. Between the two, all figures belong to the same stretch
//! of time.

use std::convert::Infallible;
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use twolane::topology::probe::Seen;
use twolane::{LaneInfo, PollerHandle, Runtime, Where};

use crate::cells::{Cell, Seats};
use crate::client::Report;
use crate::client_process::{ClientError, ClientProcess};
use crate::neighbour::{Neighbour, Work};
use crate::server::{self, EchoServer, Ledger, Tally};

/// Length of a slot, warm-up included, where time allows: long enough for a p99 at a thousand datagrams a second.
const SLOT_IDEAL: Duration = Duration::from_millis(300);

/// The shortest slot that still says something.
const SLOT_MIN: Duration = Duration::from_millis(40);

/// Repeats that a median wants, if they can be had with slots of [`SLOT_MIN`].
const ROUNDS_MIN: usize = 3;

/// What a slot costs beside its length: a runtime built and shut down, a process started and ended.
const SLOT_OVERHEAD: Duration = Duration::from_millis(40);

/// The part of a slot that warms up and counts for nothing.
const WARM_PART: f64 = 0.15;

/// How long a runtime may take to end before the slot counts as failed.
const SHUTDOWN_DEADLINE: Duration = Duration::from_secs(5);

/// How the time of a sweep is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agenda {
    /// How often each cell is measured at each rate.
    pub rounds: usize,
    /// Length of a slot, warm-up included.
    pub slot: Duration,
    /// What a slot takes beside its length.
    overhead: Duration,
}

impl Agenda {
    /// Divides `time` among that many rates and all cells, with a look of length `probe` after each slot. Where it is too short, the shortest slots are taken once and
    /// the sweep takes longer than asked ([`Agenda::total`]).
    pub fn new(time: Duration, rates: usize, probe: Duration) -> Self {
        let overhead = SLOT_OVERHEAD + probe;
        let places = (rates * Cell::ALL.len()).max(1) as f64;
        let share = time.as_secs_f64() / places;
        let fits = |slot: Duration| (share / (slot + overhead).as_secs_f64()) as usize;
        let rounds = fits(SLOT_IDEAL).max(fits(SLOT_MIN).clamp(1, ROUNDS_MIN));
        let slot = share / rounds as f64 - overhead.as_secs_f64();
        Self { rounds, slot: Duration::from_secs_f64(slot.max(SLOT_MIN.as_secs_f64())), overhead }
    }

    /// How long the sweep takes, about.
    pub fn total(&self, rates: usize) -> Duration {
        (self.slot + self.overhead) * u32::try_from(self.rounds * rates * Cell::ALL.len()).unwrap_or(u32::MAX)
    }

    /// The slots in order: all rates in a round, all cells at a rate, and each round begins with another cell.
    pub fn slots(&self, rates: &[u64]) -> Vec<(usize, u64, Cell)> {
        let mut slots = Vec::new();
        for round in 0..self.rounds {
            for &rate in rates {
                let mut cells = Cell::ALL;
                cells.rotate_left(round % Cell::ALL.len());
                slots.extend(cells.map(|cell| (round, rate, cell)));
            }
        }
        slots
    }
}

/// How the poll lane's time split between the two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneTime {
    /// In calls that found something.
    pub busy: Duration,
    /// In calls that found nothing, and in spinning.
    pub empty: Duration,
    /// Waiting with manners, on the cpu.
    pub doze: Duration,
    /// Blocked in the kernel.
    pub park: Duration,
    /// Ready to run, while the kernel or a hypervisor ran somebody else.
    pub preempted: Duration,
}

/// What one slot found.
#[derive(Debug)]
pub struct Slot {
    /// From one reading to the other.
    pub wall: Duration,
    /// The neighbour's work.
    pub work: Work,
    /// The server's counts.
    pub tally: Tally,
    /// The poll lane's time.
    pub lane: LaneTime,
    /// The client's counts; none at rate 0.
    pub client: Option<Report>,
    /// Whether the two lanes shared a core, as seen right before and right after; nothing where nobody looked.
    pub seen: Option<Seen>,
}

/// Why a slot could not be measured.
#[derive(Debug)]
pub enum SlotError {
    /// The runtime could not be built, or did not take the server.
    Runtime(String),
    /// There was no socket on loopback.
    Socket(std::io::Error),
    /// The client failed.
    Client(ClientError),
}

/// Measures one slot.
///
/// # Errors
/// [`SlotError`]; whatever was started is ended before it is returned.
pub fn run_slot(cell: Cell, rate: u64, length: Duration, seats: &Seats) -> Result<Slot, SlotError> {
    let rt = cell.builder().build().map_err(runtime_error)?;
    let neighbour = Neighbour::start(&rt.handle(), seats.compute_lanes);
    let server = start_server(&rt, SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let read = || Reading::take(&rt, &neighbour, &server.ledger, seats);

    let warm = length.mul_f64(WARM_PART);
    let measure = length - warm;
    let slot = if rate == 0 {
        std::thread::sleep(warm);
        let before = read();
        std::thread::sleep(measure);
        before.until(read(), None)
    } else {
        let mut client = ClientProcess::start(server.address, rate, warm, measure, seats.client_cpu)?;
        client.measuring()?;
        let before = read();
        client.sent()?;
        let after = read();
        before.until(after, Some(client.done()?))
    };

    drop(neighbour);
    end(rt, server)?;
    Ok(slot)
}

/// Binds a socket, and gives a server for it to a poll lane. What it counts is in the ledger.
///
/// # Errors
/// [`SlotError`] when there is no such address to be had, or the lane refuses.
pub fn start_server(rt: &Runtime, address: SocketAddr) -> Result<Server, SlotError> {
    let socket = UdpSocket::bind(address).map_err(SlotError::Socket)?;
    let address = socket.local_addr().map_err(SlotError::Socket)?;
    let stamped = server::prepare(&socket).map_err(SlotError::Socket)?;
    let ledger = Ledger::default();
    let on_lane = ledger.clone();
    let build = move |_: &LaneInfo| Ok::<_, Infallible>(EchoServer::new(socket, stamped, on_lane));
    let handle = rt.spawn_poller_with(Where::Any, "udp-echo", build).map_err(runtime_error)?;
    Ok(Server { address, stamped, ledger, handle })
}

/// Ends the server, which first answers what has arrived, and then the runtime.
///
/// # Errors
/// [`SlotError::Runtime`] when that takes longer than a few seconds, or the server had failed.
pub fn end(rt: Runtime, server: Server) -> Result<(), SlotError> {
    server.handle.stop();
    rt.shutdown(SHUTDOWN_DEADLINE).map_err(runtime_error)?;
    // Every lane has ended, so this does not block.
    server.handle.join().map_err(runtime_error)
}

/// A server at work.
#[derive(Debug)]
pub struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether the kernel stamps arrivals, so that residence is known.
    pub stamped: bool,
    /// What it counts.
    pub ledger: Ledger,
    handle: PollerHandle<()>,
}

fn runtime_error(error: impl fmt::Display) -> SlotError {
    SlotError::Runtime(error.to_string())
}

/// All counters at one moment. Taking it empties the ledger.
struct Reading {
    at: Instant,
    work: Work,
    tally: Tally,
    lane: LaneTime,
}

impl Reading {
    fn take(rt: &Runtime, neighbour: &Neighbour, ledger: &Ledger, seats: &Seats) -> Self {
        let metrics = rt.metrics();
        let lane = metrics.lanes.get(seats.poll_lane).map_or_else(LaneTime::default, |lane| LaneTime {
            busy: lane.busy,
            empty: lane.empty,
            doze: lane.dozing,
            park: lane.parked,
            preempted: lane.preempted,
        });
        Self { at: Instant::now(), work: neighbour.work(), tally: ledger.take(), lane }
    }

    fn until(self, later: Self, client: Option<Report>) -> Slot {
        Slot {
            wall: later.at - self.at,
            work: later.work.since(self.work),
            tally: later.tally,
            lane: LaneTime {
                busy: later.lane.busy.saturating_sub(self.lane.busy),
                empty: later.lane.empty.saturating_sub(self.lane.empty),
                doze: later.lane.doze.saturating_sub(self.lane.doze),
                park: later.lane.park.saturating_sub(self.lane.park),
                preempted: later.lane.preempted.saturating_sub(self.lane.preempted),
            },
            client,
            seen: None,
        }
    }
}

impl From<ClientError> for SlotError {
    fn from(error: ClientError) -> Self {
        Self::Client(error)
    }
}

impl fmt::Display for SlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Runtime(why) => f.write_str(why),
            Self::Socket(error) => write!(f, "no UDP socket on loopback: {error}"),
            Self::Client(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SlotError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A look at siblings after each slot.
    const PROBE: Duration = Duration::from_millis(10);

    #[test]
    fn time_is_divided_into_slots() {
        let table = [
            ("the default: ideal slots, several rounds", 30.0, 6, 4, 300),
            ("short: as many rounds as a median wants", 5.0, 6, 3, 40),
            ("too short: one round of the shortest", 0.01, 6, 1, 40),
            ("one rate: many rounds rather than long slots", 30.0, 1, 28, 300),
        ];
        for (what, seconds, rates, rounds, slot_ms) in table {
            let agenda = Agenda::new(Duration::from_secs_f64(seconds), rates, PROBE);
            assert_eq!(agenda.rounds, rounds, "{what}");
            assert!(agenda.slot >= Duration::from_millis(slot_ms), "{what}: {:?}", agenda.slot);
        }
    }

    #[test]
    fn a_sweep_takes_what_was_asked_unless_that_is_too_short() {
        for seconds in [5.0, 10.0, 30.0, 3_600.0] {
            let took = Agenda::new(Duration::from_secs_f64(seconds), 6, PROBE).total(6).as_secs_f64();
            assert!((took - seconds).abs() < 0.05 * seconds, "{took} s where {seconds} s were asked for");
        }
        assert!(Agenda::new(Duration::from_millis(1), 6, PROBE).total(6) > Duration::from_secs(1));
    }

    #[test]
    fn every_cell_is_measured_at_every_rate_in_every_round_and_none_is_always_first() {
        let agenda = Agenda { rounds: 3, slot: SLOT_MIN, overhead: SLOT_OVERHEAD };
        let slots = agenda.slots(&[0, 1_000]);
        assert_eq!(slots.len(), 3 * 2 * 3);
        let first: Vec<Cell> = slots.chunks(6).map(|round| round[0].2).collect();
        assert_eq!(first, Cell::ALL);
        for cell in Cell::ALL {
            assert_eq!(slots.iter().filter(|&&(_, rate, at)| rate == 1_000 && at == cell).count(), 3);
        }
    }

    /// Echoes wait in the kernel once the server has answered; this bounds a test in which it did not.
    const PATIENCE: Duration = Duration::from_secs(10);

    fn socket_to(server: &Server) -> UdpSocket {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        socket.connect(server.address).expect("loopback is reachable");
        socket.set_read_timeout(Some(PATIENCE)).expect("a positive timeout");
        socket
    }

    fn any_port() -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
    }

    #[test]
    fn what_arrived_before_the_end_is_still_answered() {
        const DATAGRAMS: u64 = 100;
        for cell in Cell::ALL {
            let rt = cell.builder().build().expect("the machine has a cpu");
            let server = start_server(&rt, any_port()).expect("loopback has a free port");
            let (client, ledger) = (socket_to(&server), server.ledger.clone());
            for index in 0..DATAGRAMS {
                client.send(&index.to_le_bytes()).expect("loopback takes it");
            }
            end(rt, server).expect("nothing holds it up");
            for index in 0..DATAGRAMS {
                let mut echo = [0; 9];
                let length = client.recv(&mut echo).expect("an echo");
                assert_eq!(echo[..length], index.to_le_bytes(), "{cell:?}");
            }
            let tally = ledger.take();
            assert_eq!((tally.echoed, tally.bytes, tally.sends_lost), (DATAGRAMS, 8 * DATAGRAMS, 0), "{cell:?}");
        }
    }

    #[test]
    fn datagrams_of_any_length_come_back_whole_and_clients_that_left_do_no_harm() {
        /// The most that fits a UDP datagram over IPv4.
        const LENGTH_MAX: usize = 65_507;
        let rt = Cell::Twolane.builder().build().expect("the machine has a cpu");
        let server = start_server(&rt, any_port()).expect("loopback has a free port");
        for _ in 0..10 {
            socket_to(&server).send(b"gone before the answer").expect("loopback takes it");
        }
        let client = socket_to(&server);
        for length in [0, 1, 1_500, LENGTH_MAX] {
            let datagram: Vec<u8> = (0..length).map(|at| at as u8).collect();
            client.send(&datagram).expect("loopback takes it");
            let mut echo = vec![0; LENGTH_MAX + 1];
            let came = client.recv(&mut echo).expect("an echo");
            assert!(echo[..came] == datagram, "{length} bytes went, {came} came");
        }
        end(rt, server).expect("nothing holds it up");
    }

    #[test]
    fn a_taken_port_is_an_error_and_not_a_second_server() {
        let rt = Cell::Twolane.builder().build().expect("the machine has a cpu");
        let taken = UdpSocket::bind(any_port()).expect("loopback has a free port");
        let refused = start_server(&rt, taken.local_addr().expect("it is bound"));
        assert!(matches!(refused, Err(SlotError::Socket(error)) if error.kind() == std::io::ErrorKind::AddrInUse));
    }
}
