//! UDP echo on a poll lane, with a compute neighbour beside it: what manners in waiting are worth.
//!
//! ```text
//! cargo run --release --example udp_echo                              # measure, half a minute
//! cargo run --release --example udp_echo -- --listen 127.0.0.1:7007   # serve anybody
//! ```
//!
//! Where to read: `server.rs` is the poller and `neighbour.rs` the compute work, both as a service would write them.
//! `cells.rs` has the three ways to wait that are compared. `client.rs` is the load, open loop and in a process of its
//! own, on the due times of `schedule.rs`. `sweep.rs` measures one slot, and `watch.rs` looks between slots whether the
//! lanes share a core; `summary.rs`, `siblings.rs`, `table.rs` and `meaning.rs` make sense of many.

mod args;
mod batch;
mod capacity;
mod cells;
mod client;
mod client_process;
mod clock;
mod figures;
#[cfg(test)]
mod fixtures;
mod listen;
mod machine;
mod meaning;
mod neighbour;
mod progress;
mod schedule;
mod server;
mod siblings;
mod summary;
mod sweep;
mod table;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use twolane::topology::Topology;

use crate::args::{Args, Internal};
use crate::cells::{Cell, Seats};
use crate::machine::{Machine, Steal};
use crate::progress::Progress;
use crate::siblings::Siblings;
use crate::sweep::{Agenda, Slot};
use crate::watch::Watch;

/// Names the form of the JSON output. It changes when a field changes its meaning or goes; new fields may come.
const SCHEMA: &str = "twolane.udp_echo.1";

/// Stolen time, in percent, from which on the figures are not to be trusted.
const STEAL_PERCENT_MAX: f64 = 1.0;

/// How the library's own variables begin.
const ENVIRONMENT: &str = "TWOLANE_";

/// Why the program ends without success.
enum Failure {
    /// What was asked for cannot be had: exit code 2.
    Request(String),
    /// Something went wrong on the way: exit code 1.
    Run(String),
}

impl Failure {
    fn run(error: impl std::fmt::Display) -> Self {
        Self::Run(error.to_string())
    }

    fn request(error: impl std::fmt::Display) -> Self {
        Self::Request(error.to_string())
    }
}

fn main() -> ExitCode {
    let outcome = Args::read().map_err(Failure::Request).and_then(|args| match (&args.internal, args.listen) {
        (Some(Internal::Client(client)), _) => client::run(client).map_err(Failure::run),
        (None, Some(address)) => listen::run(address),
        (None, None) => measure(&args),
    });
    let (message, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Request(message)) => (message, 2),
        Err(Failure::Run(message)) => (message, 1),
    };
    eprintln!("udp_echo: {message}");
    ExitCode::from(code)
}

/// The sweep, from the first look at the machine to the last sentence.
fn measure(args: &Args) -> Result<(), Failure> {
    let began = Instant::now();
    let topology = Topology::read().map_err(Failure::run)?;
    let machine = Machine::read(&topology);
    let plan = cells::base().plan().map_err(Failure::run)?;
    let seats = Seats::of(&plan, &topology);
    // With --json, stdout is for the results alone.
    let tell = |text: &str| if args.json { eprintln!("{text}") } else { say(text) };
    tell(&format!("{machine}placement\n{plan}"));
    if std::env::vars_os().any(|(name, _)| name.as_encoded_bytes().starts_with(ENVIRONMENT.as_bytes())) {
        tell(&format!("({ENVIRONMENT}* in the environment is not heeded here: the cells set their own knobs)"));
    }

    let (rates, capacity) = match &args.rates {
        Some(rates) => (rates.0.clone(), None),
        None => {
            let found = capacity::probe(&seats, &mut Progress::new(0)).map_err(Failure::run)?;
            tell(&format!("saturation at about {found} datagrams a second, with client and neighbour on this machine"));
            (capacity::default_rates(found), Some(found))
        }
    };
    let mut watch = Watch::start(&seats, args.probe);
    let left = Duration::from_secs_f64(args.seconds).saturating_sub(began.elapsed());
    let agenda = Agenda::new(left, rates.len(), watch.length());
    tell(&announcement(&agenda, rates.len(), args.seconds));

    let steal_before = Steal::read();
    let slots = run_slots(&agenda, &rates, &seats, &mut watch)?;
    let steal = Steal::read().zip(steal_before).map(|(now, before)| now.percent_since(before));
    let summary = summary::summarise(&rates, &slots);
    let siblings = Siblings::of(&rates, &slots, watch.why_not.take());
    let meaning = meaning::meaning(&summary, &seats, &siblings);
    if args.json {
        let result = json!({
            "schema": SCHEMA,
            "machine": machine.to_json(),
            "placement": seats.to_json(),
            "seconds": args.seconds,
            "slot_ms": agenda.slot.as_secs_f64() * 1e3,
            "rounds": agenda.rounds,
            "capacity": capacity,
            "steal_percent": steal,
            "rates": summary::to_json(&summary),
            "siblings": siblings.to_json(),
            "meaning": meaning,
        });
        say(&result.to_string());
        return Ok(());
    }
    say("");
    say(&table::table(&summary, &seats));
    if let Some(steal) = steal.filter(|&steal| steal >= STEAL_PERCENT_MAX) {
        say(&format!("  The hypervisor gave {steal:.1} % of the time to others: run again on a quieter machine.\n"));
    }
    say(&siblings.to_string());
    say("");
    say(&meaning);
    Ok(())
}

/// What is about to be run, and whether that is what was asked for.
fn announcement(agenda: &Agenda, rates: usize, asked_s: f64) -> String {
    /// A sweep that is longer than asked by less than this is as asked.
    const TOLERANCE_S: f64 = 1.0;
    let takes_s = agenda.total(rates).as_secs_f64();
    let (cells, rounds, slot_ms) = (Cell::ALL.len(), agenda.rounds, agenda.slot.as_millis());
    let what = format!("{rates} rates x {cells} cells x {rounds} rounds of {slot_ms} ms, interleaved: {takes_s:.0} s");
    if takes_s <= asked_s + TOLERANCE_S {
        return what;
    }
    format!("{what} ({asked_s} s are too few for these rates; this is the shortest sweep of them)")
}

/// Runs all slots in their order, each between two looks at whether the lanes share a core.
fn run_slots(
    agenda: &Agenda,
    rates: &[u64],
    seats: &Seats,
    watch: &mut Watch,
) -> Result<Vec<(u64, Cell, Slot)>, Failure> {
    let order = agenda.slots(rates);
    let mut progress = Progress::new(order.len());
    let mut slots = Vec::with_capacity(order.len());
    for (round, rate, cell) in order {
        progress.slot(&format!("round {} of {}", round + 1, agenda.rounds), &format!("{rate}/s {}", cell.name()));
        let (slot, seen) = watch.around(|| sweep::run_slot(cell, rate, agenda.slot, seats));
        let slot = slot.map_err(|error| Failure::Run(format!("{} at {rate}/s: {error}", cell.name())))?;
        slots.push((rate, cell, Slot { seen, ..slot }));
        progress.done();
    }
    Ok(slots)
}

/// One line on stdout. A reader that has gone away (`| head`) is no reason to panic.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
