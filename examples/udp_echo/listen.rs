//! Serving foreign clients: until Ctrl-C or SIGTERM, then drain, then say what was served.

use std::io::{self, Read as _};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level::pipe};

use crate::cells::Cell;
use crate::figures;
use crate::server::Tally;
use crate::sweep::{self, SlotError};
use crate::{Failure, say};

/// What a shell expects of a program that a second Ctrl-C ended.
const EXIT_INTERRUPTED: i32 = 130;

/// Serves on `address`, the library's own way, under what `TWOLANE_*` says.
///
/// # Errors
/// [`Failure::Request`] when the address cannot be had, [`Failure::Run`] for what goes wrong later.
pub fn run(address: SocketAddr) -> Result<(), Failure> {
    let stop = StopSignal::register().map_err(|error| Failure::Run(format!("cannot listen for signals: {error}")))?;
    let rt = Cell::Twolane.builder().env_overrides(true).build().map_err(Failure::request)?;
    let server = match sweep::start_server(&rt, address) {
        Err(SlotError::Socket(error)) => return Err(Failure::Request(explain(address, &error))),
        other => other.map_err(Failure::run)?,
    };
    say(&rt.plan().to_string());
    if !server.stamped {
        say("The kernel does not stamp arrivals here (SO_TIMESTAMPNS), so residence is unknown.");
    }
    say(&format!("listening on {}; Ctrl-C ends it", server.address));
    stop.wait().map_err(|error| Failure::Run(format!("cannot wait for signals: {error}")))?;

    let ledger = server.ledger.clone();
    sweep::end(rt, server).map_err(Failure::run)?;
    say(&served(&ledger.take()));
    Ok(())
}

/// Ctrl-C and SIGTERM, as something to wait for. After the first one, a second ends the process at once.
struct StopSignal {
    heard: UnixStream,
    impatient: Arc<AtomicBool>,
}

impl StopSignal {
    fn register() -> io::Result<Self> {
        let (heard, raised) = UnixStream::pair()?;
        let impatient = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, EXIT_INTERRUPTED, Arc::clone(&impatient))?;
            pipe::register(signal, raised.try_clone()?)?;
        }
        Ok(Self { heard, impatient })
    }

    /// Blocks until one comes.
    fn wait(mut self) -> io::Result<()> {
        self.heard.read_exact(&mut [0])?;
        // Relaxed: a signal handler reads it and nothing else.
        self.impatient.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// Why an address cannot be served, and what to do.
fn explain(address: SocketAddr, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "the port is in use; stop its owner, choose another, or let the system (port 0)".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            "no permission; ports below 1024 want CAP_NET_BIND_SERVICE, choose a higher one".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "no interface of this machine has that address".to_owned(),
        _ => error.to_string(),
    };
    format!("cannot listen on {address}: {why}")
}

/// The last word of a server.
fn served(tally: &Tally) -> String {
    let Tally { echoed, bytes, batches, sends_lost, .. } = tally;
    let mut text = format!("served {echoed} packets, {bytes} bytes, in {batches} batches; {sends_lost} sends lost");
    if tally.clients_gone > 0 {
        text += &format!(" ({} to clients that were gone)", tally.clients_gone);
    }
    if tally.receive_errors > 0 {
        text += &format!("; {} errors of receiving", tally.receive_errors);
    }
    let residence = |quantile| figures::quantile_us(&tally.residence, quantile);
    if let (Some(p50), Some(p99)) = (residence(0.50), residence(0.99)) {
        text += &format!("; from receipt to echo p50 {p50:.1} us, p99 {p99:.1} us");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_address_is_explained_with_what_to_do() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7));
        let table = [
            (nix::errno::Errno::EADDRINUSE, "in use"),
            (nix::errno::Errno::EACCES, "CAP_NET_BIND_SERVICE"),
            (nix::errno::Errno::EADDRNOTAVAIL, "no interface"),
            (nix::errno::Errno::EMFILE, "open files"),
        ];
        for (errno, want) in table {
            let text = explain(address, &io::Error::from(errno));
            assert!(text.contains("127.0.0.1:7") && text.contains(want) && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn it_says_what_it_served_and_what_it_lost() {
        let mut tally = Tally { echoed: 3, bytes: 12, batches: 2, ..Tally::default() };
        assert_eq!(served(&tally), "served 3 packets, 12 bytes, in 2 batches; 0 sends lost");
        (tally.sends_lost, tally.clients_gone) = (4, 1);
        tally.residence.saturating_record(2_000);
        let text = served(&tally);
        assert!(text.contains("4 sends lost (1 to clients that were gone)") && text.contains("p50 2.0 us"), "{text}");
    }
}
