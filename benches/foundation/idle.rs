//! `idle_cpu_percent`, `idle_armed_cpu_percent`, `events_1khz_cpu_percent`: what does a runtime take that has nothing, or little, to do?
//!
//! **Method.** After 1 s of settling, the cpu time of the runtime's threads (the kernel's own account, in nanoseconds) is summed
//! over 5 s. One runtime has no pollers; the other has one on a UDP socket that it may be woken by. Afterwards a submitted closure,
//! and a datagram, must be answered: a runtime that is dead is idle, too.
//!
//! With a thousand events a second, a thread of its own sends one each millisecond and rings for it. All of them must have been seen.
//!
//! **Reference.** None: blocked threads take nothing, so there is nothing to run twice.
//!
//! **Bound.** 0.1 percent of one cpu; 5 with a thousand events a second: a lane that polls for 200 us after each takes 20. A runtime that spins gets 100 a lane.
//!
//! **Beside.** How long the answer took.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

use twolane::{PollCx, Progress, Role, Where, poll_fn};

use crate::common::cpu::thread_cpu_ns;
use crate::common::figure::{Bound, Figure};
use crate::common::lanes::{Lanes, Machine, builder};

const SETTLING: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(5);
/// An answer that takes longer is none.
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// A thousand a second.
const EVENT_EVERY: Duration = Duration::from_millis(1);
const BOUND: Bound = Bound::AtMost(0.1);

pub fn cpu_percent(_: &Machine) -> Result<Figure, String> {
    let lanes = Lanes::start(builder())?;
    let percent = watch(&lanes)?;
    let began = Instant::now();
    lanes.runtime.spawn_compute(|| ()).join().map_err(|error| format!("no answer to a submit: {error}"))?;
    let answer = began.elapsed();
    Ok(Figure::exact("idle_cpu_percent", percent, BOUND).beside("answer_us", micros(answer)))
}

pub fn armed_cpu_percent(_: &Machine) -> Result<Figure, String> {
    let lanes = Lanes::start(builder())?;
    let (socket, client) = sockets().map_err(|error| format!("sockets on 127.0.0.1: {error}"))?;
    let echo = socket.try_clone().map_err(|error| format!("a second descriptor: {error}"))?;
    let poller = poll_fn(move |_: &mut PollCx<'_>| {
        let mut datagram = [0; 64];
        match echo.recv_from(&mut datagram) {
            Ok((length, from)) => {
                let _ = echo.send_to(&datagram[..length], from); // a lost echo is an answer that does not come
                Progress::Busy(1)
            }
            Err(_) => Progress::Idle,
        }
    });
    let poller = poller.fd(&socket).map_err(|error| format!("a second descriptor: {error}"))?;
    let echo = lanes.runtime.spawn_poller(Where::Any, "echo", poller).map_err(|error| error.to_string())?;
    let percent = watch(&lanes)?;
    let began = Instant::now();
    client.send(b"anybody there?").map_err(|error| format!("send: {error}"))?;
    client.recv(&mut [0; 64]).map_err(|error| format!("no answer to a datagram: {error}"))?;
    let answer = began.elapsed();
    echo.stop();
    echo.join().map(drop).map_err(|error| error.to_string())?;
    Ok(Figure::exact("idle_armed_cpu_percent", percent, BOUND).beside("answer_us", micros(answer)))
}

/// What a thousand events a second take, each brought by a ring.
pub fn events_1khz_cpu_percent(_: &Machine) -> Result<Figure, String> {
    let lanes = Lanes::start(builder())?;
    let sent = Arc::new(AtomicU64::new(0));
    let seen = Arc::new(AtomicU64::new(0));
    let (to_see, tell) = (Arc::clone(&sent), Arc::clone(&seen));
    let poller = poll_fn(move |_: &mut PollCx<'_>| {
        // Acquire, Release: the count is all there is; as a queue would do it.
        let new = to_see.load(Acquire) - tell.load(Relaxed);
        tell.fetch_add(new, Release);
        if new > 0 { Progress::Busy(new as u32) } else { Progress::Idle }
    });
    let poller = poller.ring();
    let poller = lanes.runtime.spawn_poller(Where::Any, "events", poller).map_err(|error| error.to_string())?;
    let over = AtomicBool::new(false);
    let (percent, parks, unseen) = std::thread::scope(|scope| {
        let events = scope.spawn(|| {
            let mut next = Instant::now();
            while !over.load(Relaxed) {
                next += EVENT_EVERY;
                std::thread::sleep(next.saturating_duration_since(Instant::now()));
                sent.fetch_add(1, Release);
                poller.ring();
            }
        });
        let before = lanes.metrics(Role::Poll);
        let percent = watch(&lanes);
        let after = lanes.metrics(Role::Poll);
        over.store(true, Relaxed);
        let ended = events.join().map_err(|_| "the thread that sends events panicked".to_owned());
        let parks = before.and_then(|before| Ok(after?.parks - before.parks));
        std::thread::sleep(SETTLING);
        ended.and_then(|()| Ok((percent?, parks?, sent.load(Acquire) - seen.load(Acquire))))
    })?;
    poller.stop();
    poller.join().map(drop).map_err(|error| error.to_string())?;
    if unseen > 0 {
        return Err(format!("{unseen} events were never seen"));
    }
    let figure = Figure::exact("events_1khz_cpu_percent", percent, Bound::AtMost(5.0));
    Ok(figure
        .beside("parks_per_s", parks as f64 / (SETTLING + WATCHED).as_secs_f64())
        .beside("events", sent.load(Acquire) as f64))
}

/// Percent of one cpu that all lanes together used.
fn watch(lanes: &Lanes) -> Result<f64, String> {
    let used = || lanes.thread_ids().into_iter().map(thread_cpu_ns).sum::<Result<u64, String>>();
    std::thread::sleep(SETTLING);
    let (began, before) = (Instant::now(), used()?);
    if before == 0 {
        return Err("the kernel keeps no account of the lanes' cpu time: they have worked, and it says 0".into());
    }
    std::thread::sleep(WATCHED);
    Ok((used()? - before) as f64 / began.elapsed().as_nanos() as f64 * 100.0)
}

fn sockets() -> std::io::Result<(UdpSocket, UdpSocket)> {
    let server = UdpSocket::bind("127.0.0.1:0")?;
    server.set_nonblocking(true)?;
    let client = UdpSocket::bind("127.0.0.1:0")?;
    client.connect(server.local_addr()?)?;
    client.set_read_timeout(Some(ANSWER_MAX))?;
    Ok((server, client))
}

fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}
