//! What the foundation must reach, measured beside hand-written references in one run.
//!
//! `cargo bench --bench foundation` runs everything (about a minute and a half); names after `--` choose: `cargo bench --bench foundation --
//! pass_overhead unpark`. How to read the result, and the latest one, is in `benches/README.md`; each figure's question, method,
//! reference and bound are at the top of its file.

#[path = "../common/mod.rs"]
mod common;

mod duty;
mod echo;
mod handoff;
mod idle;
mod memory;
mod pass;
mod reference {
    //! What an expert writes by hand where there is no runtime: the other side of every timed figure.
    pub mod echo_loop;
    pub mod mailbox;
    pub mod poll_loop;
    pub mod wakes;
}
mod task;
mod unpark;

use std::process::ExitCode;

use common::figure::{Figure, Verdict, print_lines, print_table};
use common::lanes::Machine;

type Run = fn(&Machine) -> Result<Figure, String>;

/// Every figure by name, in the order in which they are measured.
const FIGURES: [(&str, Run); 14] = [
    ("echo_packet_ratio", echo::packet_ratio),
    ("pass_overhead_1_ns", pass::overhead_of_1),
    ("pass_overhead_8_ns", pass::overhead_of_8),
    ("handoff_extra_ns", handoff::extra),
    ("unpark_ratio_futex", unpark::ratio_futex),
    ("unpark_ratio_epoll", unpark::ratio_epoll),
    ("idle_cpu_percent", idle::cpu_percent),
    ("idle_armed_cpu_percent", idle::armed_cpu_percent),
    ("events_1khz_cpu_percent", idle::events_1khz_cpu_percent),
    ("balanced_duty_150ns", duty::of_150_ns),
    ("balanced_duty_20ns", duty::of_20_ns),
    ("task_allocations", task::allocations),
    ("task_header_bytes", task::header_bytes),
    ("runtime_private_dirty_kib", memory::private_dirty),
];

const USAGE: &str = "usage: foundation [NAME...]             the figures whose names contain one of these; none: all
       foundation --list
       foundation --count bare|lane N PASSES   so many passes over N pollers and nothing else, for valgrind";
/// Wrong arguments.
const EXIT_USAGE: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("foundation: {message}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<ExitCode, String> {
    // cargo adds `--bench`; without it, and without a name, this is `cargo test`, for which a minute of measuring is no test.
    let words: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "--bench").collect();
    match words[..] {
        ["--count", side, pollers, passes] => pass::count(side, pollers, passes).map(|()| ExitCode::SUCCESS),
        ["--private-dirty", with] => memory::child(with).map(|()| ExitCode::SUCCESS),
        ["--list"] => {
            FIGURES.iter().for_each(|(name, _)| println!("{name}"));
            Ok(ExitCode::SUCCESS)
        }
        [] if arguments.is_empty() => {
            println!("nothing measured: run `cargo bench --bench foundation`");
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
    println!("poll lane on cpu {}, compute lane on cpu {}", machine.poll, machine.compute);
    let mut figures = Vec::new();
    let mut failed = false;
    for (name, run) in chosen {
        eprintln!("measuring {name}");
        match run(&machine) {
            Ok(figure) => figures.push(figure),
            Err(error) => {
                eprintln!("foundation: {name}: {error}");
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
