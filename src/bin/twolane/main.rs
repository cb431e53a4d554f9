//! `twolane`: what a machine is good for, and where lanes would run, before a service is started on it.
//!
//! The library decides everything; this program parses options, prints, and turns severities into exit codes. Files:
//! `doctor`, `plan` and (feature `sim`) `dsa_box` are the commands, `probe` is a part of the former, `output` writes to a reader that may leave early,
//! `oneline` words what was wrong with the options.

mod doctor;
#[cfg(all(feature = "sim", target_arch = "x86_64"))]
mod dsa_box;
mod oneline;
mod output;
mod plan;
mod probe;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Looks at a machine the way a twolane runtime does.
#[derive(Debug, Parser)]
#[command(name = "twolane", version)]
struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Doctor(doctor::Options),
    #[cfg(all(feature = "sim", target_arch = "x86_64"))]
    DsaBox(Box<dsa_box::Options>),
    Plan(plan::Options),
}

/// Options, files or output were wrong. The same number as that of a report with errors.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let outcome = match Options::try_parse() {
        Ok(options) => match options.command {
            Command::Doctor(options) => doctor::run(&options),
            #[cfg(all(feature = "sim", target_arch = "x86_64"))]
            Command::DsaBox(options) => options.check().and_then(|options| dsa_box::run(&options)),
            Command::Plan(options) => plan::run(&options),
        },
        Err(error) if error.use_stderr() => Err(oneline::of(&error)),
        Err(help) => output::print(&format!("{}\n", help.to_string().trim_end())).map(|()| 0),
    };
    ExitCode::from(outcome.unwrap_or_else(|message| {
        output::complain(&message);
        FAILED
    }))
}
