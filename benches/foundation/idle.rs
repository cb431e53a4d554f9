//! `idle_cpu_percent`, `idle_armed_cpu_percent`: what does a runtime take that has nothing to do?
//!
//! **Method.** After 1 s of settling, the cpu time of the runtime's threads (the kernel's own account, in nanoseconds) is summed
//! over 5 s. One runtime has no pollers; the other has one on a UDP socket that it may be woken by. Afterwards a submitted closure,
//! and a datagram, must be answered: a runtime that is dead is idle, too.
//!
//! **Reference.** None: blocked threads take nothing, so there is nothing to run twice.
//!
//! **Bound.** 0.1 percent of one cpu. A runtime that spins gets 100 a lane.
//!
//! **Beside.** How long the answer took.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use twolane::{PollCx, Progress, Where, poll_fn};

use crate::common::cpu::thread_cpu_ns;
use crate::common::figure::{Bound, Figure};
use crate::common::lanes::{Lanes, Machine, builder};

const SETTLING: Duration = Duration::from_secs(1);
const WATCHED: Duration = Duration::from_secs(5);
/// An answer that takes longer is none.
const ANSWER_MAX: Duration = Duration::from_secs(1);
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
