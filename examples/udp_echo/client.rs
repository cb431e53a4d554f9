//! The client: offers datagrams on a schedule, from a process of its own.
//!
//! It is open loop and never spins. One thread sleeps to the absolute time of the next datagram and sends all that have
//! fallen due; another blocks for the echoes. A datagram carries the time it was *due*, and its latency counts from
//! there, so neither a late client nor a stalled server hides anything.
//!
//! It speaks to the parent in lines of JSON on stdout: `measuring` when the warm-up is over, `sent` when the last
//! datagram is out, `done` with the [`Report`]. Everything it does is bounded in time, and it dies with its parent.

use std::io::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::socket::MsgFlags;
use serde_json::{Value, json};

use crate::args::ClientArgs;
use crate::batch::{self, BATCH, Inbox, Outbox};
use crate::clock;
use crate::figures;
use crate::schedule::Schedule;

/// How long past the last due time the sender may still be sending. What is not sent by then counts as unsent.
pub const SEND_GRACE: Duration = Duration::from_millis(50);

/// How long after the last send the receiver still waits. What is not back by then counts as lost.
pub const RECEIVE_GRACE: Duration = Duration::from_millis(100);

/// Time between start-up and the first due datagram: enough for both threads to be in place.
const LEAD: Duration = Duration::from_millis(2);

/// How often a receiver that hears nothing looks whether it is over.
const RECEIVE_TIMEOUT: Duration = Duration::from_millis(20);

/// How long the sender leaves a full socket alone.
const FULL_PAUSE: Duration = Duration::from_micros(50);

/// Bytes of a datagram: the three words below and padding up to a cache line.
const DATAGRAM_BYTES: usize = 64;

/// Stands in [`Progress::sent`] until the sender is through.
const STILL_SENDING: u64 = u64::MAX;

/// What the client found in the measured window.
#[derive(Clone, Debug)]
pub struct Report {
    /// Datagrams that were due.
    pub offered: u64,
    /// Of those, the ones the kernel took.
    pub sent: u64,
    /// Of those, the ones that came back, each counted once.
    pub echoed: u64,
    /// Echoes that came back again.
    pub duplicates: u64,
    /// Datagrams that were none of ours.
    pub strays: u64,
    /// Errors of sending, such as a server that is gone.
    pub send_errors: u64,
    /// How long the schedule has for them, in nanoseconds.
    pub window_ns: u64,
    /// How long sending took: more than the window if the client could not keep up.
    pub took_ns: u64,
    /// How long it took until the last echo was there; 0 without any.
    pub drained_ns: u64,
    /// Cpu time of the client's process while it was sending.
    pub cpu_ns: u64,
    /// From due time to receipt, in nanoseconds.
    pub end_to_end: Histogram<u64>,
    /// From due time to just before the send, in nanoseconds: the client's own share of the above.
    pub late: Histogram<u64>,
}

impl Report {
    /// The `done` line.
    fn to_json(&self) -> Value {
        json!({
            "phase": "done",
            "offered": self.offered, "sent": self.sent, "echoed": self.echoed,
            "duplicates": self.duplicates, "strays": self.strays, "send_errors": self.send_errors,
            "window_ns": self.window_ns, "took_ns": self.took_ns, "drained_ns": self.drained_ns,
            "cpu_ns": self.cpu_ns,
            "end_to_end": figures::to_json(&self.end_to_end), "late": figures::to_json(&self.late),
        })
    }

    /// Reads a `done` line; nothing when it is none.
    pub fn from_json(line: &Value) -> Option<Self> {
        let count = |name: &str| line.get(name)?.as_u64();
        Some(Self {
            offered: count("offered")?,
            sent: count("sent")?,
            echoed: count("echoed")?,
            duplicates: count("duplicates")?,
            strays: count("strays")?,
            send_errors: count("send_errors")?,
            window_ns: count("window_ns")?,
            took_ns: count("took_ns")?,
            drained_ns: count("drained_ns")?,
            cpu_ns: count("cpu_ns")?,
            end_to_end: figures::from_json(line.get("end_to_end")?)?,
            late: figures::from_json(line.get("late")?)?,
        })
    }
}

/// Runs the client to its end. Only our own parent calls this, through the hidden subcommand.
///
/// # Errors
/// When the socket cannot be had or the parent no longer listens.
pub fn run(args: &ClientArgs) -> std::io::Result<()> {
    settle(args.cpu);
    let socket = connect(args.server)?;
    socket.set_read_timeout(Some(RECEIVE_TIMEOUT))?;
    batch::deepen_receive_queue(&socket);

    let start_ns = clock::monotonic_ns() + LEAD.as_nanos() as u64;
    let schedule = Schedule::new(start_ns, args.rate, args.warm(), args.measure());
    let progress = Progress { run: start_ns, sent: AtomicU64::new(STILL_SENDING) };
    let (sender, receiver) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive(&socket, &schedule, &progress));
        let sender = send(&socket, &schedule, &progress, &mut tell);
        (sender, receiver.join())
    });
    let sender = sender?;
    let receiver = receiver.map_err(|_| std::io::Error::other("the receiving thread panicked"))?;
    tell(&sender.report(&schedule, receiver).to_json())
}

/// Dies with the parent, wakes on time, stays on its cpu: each as far as the kernel lets it.
fn settle(cpu: Option<usize>) {
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    let _ = prctl::set_timerslack(1); // Nanoseconds; the default of 50 us would count as lateness.
    if let Some(cpu) = cpu.filter(|&cpu| cpu < rustix::thread::CpuSet::MAX_CPU) {
        let mut only = rustix::thread::CpuSet::new();
        only.set(cpu);
        let _ = rustix::thread::sched_setaffinity(None, &only);
    }
}

fn connect(server: SocketAddr) -> std::io::Result<UdpSocket> {
    let any_port = if server.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(any_port)?;
    socket.connect(server)?;
    Ok(socket)
}

/// One line for the parent.
fn tell(line: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// What the two threads know of each other.
struct Progress {
    /// Marks our datagrams, so that an echo of an earlier run is not taken for one.
    run: u64,
    /// How many datagrams are out in all, once that is settled.
    sent: AtomicU64,
}

/// What the sending thread counted.
struct Sent {
    sent: u64,
    errors: u64,
    took_ns: u64,
    cpu_ns: u64,
    late: Histogram<u64>,
}

impl Sent {
    fn report(self, schedule: &Schedule, received: Received) -> Report {
        Report {
            offered: schedule.total - schedule.warm,
            sent: self.sent,
            echoed: received.echoed,
            duplicates: received.duplicates,
            strays: received.strays,
            send_errors: self.errors,
            window_ns: schedule.due_at(schedule.total) - schedule.due_at(schedule.warm),
            took_ns: self.took_ns,
            drained_ns: received.last_ns.saturating_sub(schedule.due_at(schedule.warm)),
            cpu_ns: self.cpu_ns,
            end_to_end: received.end_to_end,
            late: self.late,
        }
    }
}

/// How phases reach the parent.
type Tell<'t> = &'t mut dyn FnMut(&Value) -> std::io::Result<()>;

fn send(socket: &UdpSocket, schedule: &Schedule, progress: &Progress, tell: Tell<'_>) -> std::io::Result<Sent> {
    let outcome = send_all(socket, schedule, progress, tell);
    if outcome.is_err() {
        // Relaxed: see `send_all`. Without this the receiver would wait for a sender that gave up.
        progress.sent.store(0, Ordering::Relaxed);
    }
    outcome
}

fn send_all(socket: &UdpSocket, schedule: &Schedule, progress: &Progress, tell: Tell<'_>) -> std::io::Result<Sent> {
    let mut outbox = Outbox::new();
    let mut datagrams = [[0_u8; DATAGRAM_BYTES]; BATCH];
    let mut counted = Sent { sent: 0, errors: 0, took_ns: 0, cpu_ns: 0, late: figures::latency_histogram() };
    let give_up_ns = schedule.due_at(schedule.total) + SEND_GRACE.as_nanos() as u64;
    let (mut next, mut sent_in_all) = (0, 0);
    let mut at_start = None;

    while next < schedule.total {
        if next == schedule.warm && at_start.is_none() {
            tell(&json!({ "phase": "measuring" }))?;
            at_start = Some((clock::monotonic_ns(), clock::process_cpu_ns()));
        }
        let now = clock::monotonic_ns();
        if now >= give_up_ns {
            break;
        }
        // A batch does not cross the end of the warm-up, so that all of it counts or none.
        let end = schedule.due_by(now).min(if next < schedule.warm { schedule.warm } else { schedule.total });
        if end <= next {
            clock::sleep_until(schedule.due_at(next));
            continue;
        }
        let count = (end - next).min(BATCH as u64) as usize;
        for (at, datagram) in datagrams[..count].iter_mut().enumerate() {
            let index = next + at as u64;
            write_words(datagram, [progress.run, index, schedule.due_at(index)]);
        }
        let sent = match outbox.send(socket, count, |at| (&datagrams[at], None)) {
            Ok(sent) => sent as u64,
            Err(Errno::EAGAIN | Errno::ENOBUFS | Errno::EINTR) => {
                clock::sleep_until(now + FULL_PAUSE.as_nanos() as u64);
                continue;
            }
            Err(_) => {
                // About the first datagram of the batch: it will never be sent, the others may be.
                counted.errors += u64::from(next >= schedule.warm);
                next += 1;
                continue;
            }
        };
        if next >= schedule.warm {
            counted.sent += sent;
            for index in next..next + sent {
                counted.late.saturating_record(now - schedule.due_at(index));
            }
        }
        sent_in_all += sent;
        next += sent;
    }
    // Without a start the client gave up in the warm-up, and there is nothing to charge.
    if let Some((start_ns, cpu_at_start)) = at_start {
        let last_due = schedule.due_at(schedule.total);
        counted.took_ns = clock::monotonic_ns().max(last_due) - start_ns;
        counted.cpu_ns = clock::process_cpu_ns() - cpu_at_start;
    }
    // Relaxed: a count; the receiver reads nothing else that this thread wrote, and looks again soon.
    progress.sent.store(sent_in_all, Ordering::Relaxed);
    tell(&json!({ "phase": "sent" }))?;
    Ok(counted)
}

/// What the receiving thread counted.
struct Received {
    echoed: u64,
    duplicates: u64,
    strays: u64,
    /// When the last echo that counts was received; 0 without any.
    last_ns: u64,
    end_to_end: Histogram<u64>,
}

fn receive(socket: &UdpSocket, schedule: &Schedule, progress: &Progress) -> Received {
    let mut inbox = Inbox::<DATAGRAM_BYTES>::new(false);
    let mut seen = Seen::new(schedule.total);
    let mut counted =
        Received { echoed: 0, duplicates: 0, strays: 0, last_ns: 0, end_to_end: figures::latency_histogram() };
    let mut echoed_in_all = 0;
    // The sender is bounded in time, so this is set some time.
    let mut last_call_ns = None;

    loop {
        // Blocks for the first datagram (at most `RECEIVE_TIMEOUT`), then takes what else is there.
        let count = inbox.receive(socket, MsgFlags::MSG_WAITFORONE).unwrap_or(0);
        let now = clock::monotonic_ns();
        for at in 0..count {
            let words = read_words(inbox.datagram(at).0).filter(|words| words[0] == progress.run);
            let Some([_, index, due]) = words.filter(|words| words[1] < schedule.total) else {
                counted.strays += 1;
                continue;
            };
            if !seen.insert(index) {
                counted.duplicates += 1;
                continue;
            }
            echoed_in_all += 1;
            if index >= schedule.warm {
                counted.echoed += 1;
                counted.last_ns = now;
                counted.end_to_end.saturating_record(now.saturating_sub(due));
            }
        }
        // Relaxed: see `send_all`.
        let sent = progress.sent.load(Ordering::Relaxed);
        if sent != STILL_SENDING {
            let last_call_ns = *last_call_ns.get_or_insert(now + RECEIVE_GRACE.as_nanos() as u64);
            if echoed_in_all >= sent || now >= last_call_ns {
                return counted;
            }
        }
    }
}

/// Which datagrams have come back, a bit each.
struct Seen(Vec<u64>);

impl Seen {
    fn new(total: u64) -> Self {
        Self(vec![0; total.div_ceil(u64::from(u64::BITS)) as usize])
    }

    /// Whether `index` (below the total) is new.
    fn insert(&mut self, index: u64) -> bool {
        let bit = 1 << (index % u64::from(u64::BITS));
        let word = &mut self.0[(index / u64::from(u64::BITS)) as usize];
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

/// Writes the words that identify a datagram: run, index, due time.
fn write_words(datagram: &mut [u8; DATAGRAM_BYTES], words: [u64; 3]) {
    for (bytes, word) in datagram.chunks_exact_mut(size_of::<u64>()).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// The reverse of [`write_words`]; nothing when the datagram is not of our length.
fn read_words(datagram: &[u8]) -> Option<[u64; 3]> {
    if datagram.len() != DATAGRAM_BYTES {
        return None;
    }
    let mut words = datagram.chunks_exact(size_of::<u64>()).filter_map(|word| word.try_into().ok());
    Some([words.next()?, words.next()?, words.next()?].map(u64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_datagram() {
        let mut datagram = [0; DATAGRAM_BYTES];
        write_words(&mut datagram, [1, u64::MAX, 3]);
        assert_eq!(read_words(&datagram), Some([1, u64::MAX, 3]));
        assert_eq!(read_words(&datagram[..24]), None, "a foreign length");
    }

    #[test]
    fn an_echo_is_new_once() {
        let mut seen = Seen::new(130);
        for index in [0, 63, 64, 129] {
            assert!(seen.insert(index));
            assert!(!seen.insert(index));
        }
        assert!(seen.insert(1));
    }

    #[test]
    fn a_report_travels() {
        let mut report = Report {
            offered: 9,
            sent: 8,
            echoed: 7,
            duplicates: 1,
            strays: 2,
            send_errors: 3,
            window_ns: 4,
            took_ns: 6,
            drained_ns: 8,
            cpu_ns: 5,
            end_to_end: figures::latency_histogram(),
            late: figures::latency_histogram(),
        };
        report.end_to_end.saturating_record(1_000);
        let back = Report::from_json(&report.to_json()).expect("it was just written");
        assert_eq!((back.offered, back.sent, back.echoed, back.took_ns, back.cpu_ns), (9, 8, 7, 6, 5));
        assert_eq!((back.end_to_end.len(), back.late.len()), (1, 0));
        assert!(Report::from_json(&json!({ "phase": "done" })).is_none());
    }

    #[test]
    fn a_client_without_a_server_ends_in_time_and_says_what_it_lost() {
        let unserved = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        let server = unserved.local_addr().expect("it is bound");
        let socket = connect(server).expect("loopback is reachable");
        socket.set_read_timeout(Some(RECEIVE_TIMEOUT)).expect("a positive timeout");
        let start = clock::monotonic_ns();
        let schedule = Schedule::new(start, 1_000, Duration::ZERO, Duration::from_millis(20));
        let progress = Progress { run: start, sent: AtomicU64::new(STILL_SENDING) };
        let mut phases = Vec::new();
        let mut tell = |line: &Value| {
            phases.push(line["phase"].clone());
            Ok(())
        };
        let sender = send(&socket, &schedule, &progress, &mut tell).expect("loopback takes it");
        assert_eq!(phases, ["measuring", "sent"]);
        let report = sender.report(&schedule, receive(&socket, &schedule, &progress));
        assert_eq!((report.offered, report.sent, report.echoed), (20, 20, 0));
    }
}
