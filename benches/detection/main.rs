//! How late does a lane see what a producer wrote into memory, and what does it take from its core meanwhile?
//!
//! For real and in process: the producer stamps the time-stamp counter into memory, the lane compares it with its own at the moment of detection. No
//! socket, no kernel, no load generator lies between. `cargo bench --bench detection` runs everything (about 50 s); names after `--`
//! choose groups. How to read the result is in `benches/README.md`; each figure's question, method, reference and bound are at the top of its file.

#[path = "../common/mod.rs"]
mod common;

mod balanced;
mod detect;
mod events;
mod latency;
mod parked;
mod siblings;

use std::process::ExitCode;

use common::figure::{Figure, Verdict, print_lines, print_table};
use common::lanes::Machine;

/// Figures that come from one run.
type Run = fn(&Machine) -> Result<Vec<Figure>, String>;

/// Every group by the figures that it measures, in the order in which they are measured.
const GROUPS: [(&[&str], Run); 5] = [
    (&["latency_p99_extra_ns"], latency::figures),
    (
        &["balanced_mean_added_ns", "balanced_duty_150ns", "balanced_duty_20ns", "balanced_unexplained_misses"],
        balanced::figures,
    ),
    (&["parked_cpu_percent"], parked::without_events),
    (&["events_1khz_cpu_percent"], parked::at_1_khz),
    (&["sibling_windows_seen", "sibling_recovered", "sibling_echo_loss_percent"], siblings::figures),
];

const USAGE: &str =
    "usage: detection [NAME...]   the groups that have a figure whose name contains one of these; none: all
       detection --list";
/// Wrong arguments.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("detection: {message}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode, String> {
    // cargo adds `--bench`; without it, and without a name, this is `cargo test`, for which a minute of measuring is no test.
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words[..] {
        ["--list"] => {
            GROUPS.iter().flat_map(|(names, _)| *names).for_each(|name| println!("{name}"));
            Ok(ExitCode::SUCCESS)
        }
        [] if arguments.is_empty() => {
            println!("nothing measured: run `cargo bench --bench detection`");
            Ok(ExitCode::SUCCESS)
        }
        _ if words.iter().any(|word| word.starts_with('-')) => Err(format!("unknown option\n{USAGE}")),
        _ => measure(&chosen(&words)?),
    }
}

fn chosen(words: &[&str]) -> Result<Vec<(&'static [&'static str], Run)>, String> {
    let has = |names: &[&str], word: &str| names.iter().any(|name| name.contains(word));
    if let Some(unknown) = words.iter().find(|word| !GROUPS.iter().any(|(names, _)| has(names, word))) {
        return Err(format!("no figure is called `{unknown}`; --list names them\n{USAGE}"));
    }
    let wanted = |names: &[&str]| words.is_empty() || words.iter().any(|word| has(names, word));
    Ok(GROUPS.iter().copied().filter(|(names, _)| wanted(names)).collect())
}

/// Measures one group after the other. One that cannot be measured is said so, and makes the run fail; a missed bound does not.
fn measure(chosen: &[(&'static [&'static str], Run)]) -> Result<ExitCode, String> {
    let machine = Machine::of_this_host()?;
    println!("poll lane on cpu {}, compute lane on cpu {}", machine.poll, machine.compute);
    let mut figures = Vec::new();
    let mut failed = false;
    for (names, run) in chosen {
        eprintln!("measuring {}", names.join(", "));
        match run(&machine) {
            Ok(measured) => figures.extend(measured),
            Err(error) => {
                eprintln!("detection: {}: {error}", names.join(", "));
                failed = true;
            }
        }
    }
    print_table(&figures);
    if figures.iter().any(|figure| figure.verdict() == Verdict::Unresolved) {
        println!(
            "unresolved: the noise of this machine hides the bound, or it did not show what is needed; run again when it is quieter"
        );
    }
    print_lines(&figures);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
