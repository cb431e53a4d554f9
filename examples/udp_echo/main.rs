//! UDP echo on a poll lane, with a compute neighbour beside it: what manners in waiting are worth.
//!
//! ```text
//! cargo run --release --example udp_echo                              # measure, half a minute
//! cargo run --release --example udp_echo -- --listen 127.0.0.1:7007   # serve anybody
//! ```
//!
//! Where to read: `server.rs` is the poller and `neighbour.rs` the compute work, both as a service would write them.
//! `cells.rs` has the three ways to wait that are compared. `client.rs` is the load, open loop and in a process of its
//! own, on the due times of `schedule.rs`. `sweep.rs` measures one slot; `summary.rs`, `table.rs` and `meaning.rs` make
//! sense of many.

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
mod summary;
mod sweep;
mod table;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use twolane::topology::Topology;

use crate::args::{Args, Internal};
use crate::cells::Seats;
use crate::machine::{Machine, Steal};
use crate::progress::Progress;
use crate::sweep::Agenda;

/// Names the form of the JSON output. It changes when a field changes its meaning or goes; new fields may come.
const SCHEMA: &str = "twolane.udp_echo.1";

/// Stolen time, in percent, from which on the figures are not to be trusted.
const STEAL_PERCENT_MAX: f64 = 1.0;

/// Why the program ends without success.
enum Failure {
    /// What was asked for cannot be had: exit code 2.
    Request(String),
    /// Something went wrong on the way: exit code 1.
    Run(String),
}

fn main() -> ExitCode {
    let outcome = Args::read().map_err(Failure::Request).and_then(|args| match (&args.internal, args.listen) {
        (Some(Internal::Client(client)), _) => client::run(client).map_err(|error| Failure::Run(error.to_string())),
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
    let run_error = |error: &dyn std::error::Error| Failure::Run(error.to_string());
    let began = Instant::now();
    let topology = Topology::read().map_err(|error| run_error(&error))?;
    let machine = Machine::read(&topology);
    let plan = cells::base().plan().map_err(|error| run_error(&error))?;
    let seats = Seats::of(&plan, &topology);
    // With --json, stdout is for the results alone.
    let tell = |text: &str| if args.json { eprintln!("{text}") } else { say(text) };
    tell(&format!("{machine}placement\n{plan}"));

    let capacity = match args.rates {
        Some(_) => None,
        None => {
            let found = capacity::probe(&seats, &mut Progress::new(0)).map_err(|error| run_error(&error))?;
            tell(&format!("saturation at about {found} datagrams a second, with client and neighbour on this machine"));
            Some(found)
        }
    };
    let rates = match &args.rates {
        Some(rates) => rates.0.clone(),
        None => capacity::default_rates(capacity.unwrap_or(0)),
    };
    let agenda = Agenda::new(Duration::from_secs_f64(args.seconds).saturating_sub(began.elapsed()), rates.len());
    let takes = agenda.total(rates.len());
    tell(&format!(
        "{} rates x 3 cells x {} rounds of {} ms, interleaved: about {:.0} s",
        rates.len(),
        agenda.rounds,
        agenda.slot.as_millis(),
        takes.as_secs_f64().ceil()
    ));
    if takes.as_secs_f64() > args.seconds + 1.0 {
        tell(&format!("({} s are too few for these rates; this is the shortest sweep of them)", args.seconds));
    }

    let steal_before = Steal::read();
    let plan_of_slots = agenda.slots(&rates);
    let mut progress = Progress::new(plan_of_slots.len());
    let mut slots = Vec::with_capacity(plan_of_slots.len());
    for (round, rate, cell) in plan_of_slots {
        progress.slot(&format!("round {} of {}", round + 1, agenda.rounds), &format!("{rate}/s {}", cell.name()));
        let slot = sweep::run_slot(cell, rate, agenda.slot, &seats)
            .map_err(|error| Failure::Run(format!("{} at {rate}/s: {error}", cell.name())))?;
        slots.push((rate, cell, slot));
        progress.done();
    }
    drop(progress);
    let steal = Steal::read().zip(steal_before).map(|(now, before)| now.percent_since(before));

    let summary = summary::summarise(&rates, &slots);
    let meaning = meaning::meaning(&summary, &seats);
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
    say(&meaning);
    Ok(())
}

/// One line on stdout. A reader that has gone away (`| head`) is no reason to panic.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
