//! What copies must reach, measured beside what one would write without the library, in one run.
//!
//! `cargo bench --features sim --bench offload` runs everything; names after `--` choose. How to read the result, and the latest one, is in
//! `benches/README.md`; each figure's question, method, reference and bound are at the top of its file.

#[path = "../common/mod.rs"]
#[allow(dead_code)] // every bench takes what it needs
mod common;

mod cpu_neighbour;
mod cpu_route;
mod cpu_speed;
mod inline;
#[allow(unsafe_code)] // records are written by hand
mod submit;

use std::process::ExitCode;

use common::figure::{Figure, Verdict, print_lines, print_table};
use common::lanes::Machine;

type Run = fn(&Machine) -> Result<Figure, String>;

/// Every figure by name, in the order in which they are measured.
const FIGURES: [(&str, Run); 8] = [
    ("submit_instructions_single", submit::single),
    ("submit_instructions_batch8", submit::batch8),
    ("inline_copy_extra_ns", inline::extra),
    ("cpu_engine_vs_memcpy_min", cpu_speed::against_memcpy),
    ("cpu_engine_small_extra_ns", cpu_speed::small_extra),
    ("neighbour_slowdown_ratio", cpu_neighbour::slowdown_ratio),
    ("route_small_instructions", cpu_route::small),
    ("route_device_instructions", cpu_route::device),
];

const USAGE: &str = "usage: offload [NAME...]             the figures whose names contain one of these; none: all
       offload --list
       offload --count small|device|nothing N       so many decisions of the router and nothing else, for valgrind
       offload --submit single|batch8|unpolled8|many8|gathered8 N   so many submissions and nothing else, for valgrind";
/// Wrong arguments.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("offload: {message}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode, String> {
    // cargo adds `--bench`; without it, and without a name, this is `cargo test`, for which a minute of measuring is no test.
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words[..] {
        ["--count", what, times] => cpu_route::count(what, times).map(|()| ExitCode::SUCCESS),
        ["--submit", what, times] => submit::count(what, times).map(|()| ExitCode::SUCCESS),
        ["--list"] => {
            FIGURES.iter().for_each(|(name, _)| println!("{name}"));
            Ok(ExitCode::SUCCESS)
        }
        [] if arguments.is_empty() => {
            println!("nothing measured: run `cargo bench --features sim --bench offload`");
            Ok(ExitCode::SUCCESS)
        }
        _ if words.iter().any(|word| word.starts_with('-')) => Err(format!("unknown option\n{USAGE}")),
        _ => measure(&chosen(&words)?),
    }
}

fn chosen(names: &[&str]) -> Result<Vec<(&'static str, Run)>, String> {
    if let Some(unknown) = names.iter().find(|name| !FIGURES.iter().any(|(figure, _)| figure.contains(**name))) {
        return Err(format!("no figure is called `{unknown}`; --list names them\n{USAGE}"));
    }
    let wanted = |figure: &str| names.is_empty() || names.iter().any(|name| figure.contains(name));
    Ok(FIGURES.iter().copied().filter(|(figure, _)| wanted(figure)).collect())
}

/// Measures one after the other. A figure that cannot be measured is said so, and makes the run fail; a missed bound does not.
fn measure(chosen: &[(&'static str, Run)]) -> Result<ExitCode, String> {
    let machine = Machine::of_this_host()?;
    println!("copies on cpu {}, their neighbour on cpu {}", machine.poll, machine.compute);
    let mut figures = Vec::new();
    let mut failed = false;
    for (name, run) in chosen {
        eprintln!("measuring {name}");
        match run(&machine) {
            Ok(figure) => figures.push(figure),
            Err(error) => {
                eprintln!("offload: {name}: {error}");
                failed = true;
            }
        }
    }
    print_table(&figures);
    if figures.iter().any(|figure| figure.verdict() == Verdict::Unresolved) {
        println!("unresolved: the noise of this machine hides the bound; run again when it is quieter");
    }
    print_lines(&figures);
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
