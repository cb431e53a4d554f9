//! The command line: what may be asked for, and one clear line for what may not.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use clap::{Parser, Subcommand};

/// Seconds a sweep takes when nobody says otherwise.
const SECONDS_DEFAULT: &str = "30";

/// The longest sweep: an hour of loopback traffic tells nothing that a minute does not.
const SECONDS_MAX: f64 = 3_600.0;

/// Milliseconds of a look when nobody says otherwise: the shortest there is, nine rounds or so.
const PROBE_MS_DEFAULT: &str = "10";

/// Milliseconds of a look that the library takes.
const PROBE_MS: std::ops::RangeInclusive<u64> = 10..=1_000;

/// The highest rate that may be asked for, in datagrams a second: far beyond what one core of any machine echoes
/// through the kernel, and low enough that a slot's bookkeeping stays small.
const RATE_MAX: u64 = 10_000_000;

/// Echo real UDP from a poll lane, with compute beside it, and see what waiting with manners is worth.
///
/// Without --listen it measures: three ways to wait (tight, twolane, parked) under open-loop load on loopback, at rates
/// from idle to near saturation.
#[derive(Debug, Parser)]
#[command(name = "udp_echo", version, args_conflicts_with_subcommands = true)]
pub struct Args {
    /// How long the whole sweep may take, in seconds.
    #[arg(long, value_name = "N", default_value = SECONDS_DEFAULT, allow_negative_numbers = true, value_parser = parse_seconds)]
    pub seconds: f64,

    /// Datagrams a second, ascending, with commas between; 0 is idle. By default 0,1000,5000,20000,50000 and 80 % of
    /// what a short probe finds this machine can do.
    #[arg(long, value_name = "R,R,…", value_parser = parse_rates)]
    pub rates: Option<Rates>,

    /// Look before and after each slot, for N milliseconds, whether the two lanes share a core (10 to 1000; 0: never).
    #[arg(long, value_name = "N", default_value = PROBE_MS_DEFAULT, allow_negative_numbers = true, value_parser = parse_probe)]
    pub probe: Duration,

    /// Print the results as JSON on stdout, and nothing else there.
    #[arg(long)]
    pub json: bool,

    /// Serve on ADDR (as 127.0.0.1:7007, port 0 for any) until Ctrl-C, for any client. An echo server answers whoever
    /// asks, so bind it to loopback or a network you trust.
    #[arg(long, value_name = "ADDR", value_parser = parse_address, conflicts_with_all = ["seconds", "rates", "json", "probe"])]
    pub listen: Option<SocketAddr>,

    /// What our own child process runs.
    #[command(subcommand)]
    pub internal: Option<Internal>,
}

/// Subcommands that only this program itself uses.
#[derive(Debug, Subcommand)]
pub enum Internal {
    /// Offers load to a server.
    #[command(hide = true)]
    Client(ClientArgs),
}

/// What the client is told by its parent.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct ClientArgs {
    /// Where the server listens.
    #[arg(long)]
    pub server: SocketAddr,
    /// Datagrams a second.
    #[arg(long)]
    pub rate: u64,
    /// Length of the warm-up, in nanoseconds.
    #[arg(long)]
    warm_ns: u64,
    /// Length of what is measured, in nanoseconds.
    #[arg(long)]
    measure_ns: u64,
    /// The cpu to stay on; anywhere if absent.
    #[arg(long)]
    pub cpu: Option<usize>,
}

/// Rates of a sweep, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rates(pub Vec<u64>);

impl Args {
    /// Reads the command line of this process.
    ///
    /// # Errors
    /// One line that says what is wrong with it. A request for help or the version is answered here, and ends the
    /// program.
    pub fn read() -> Result<Self, String> {
        Self::try_parse().map_err(|error| {
            if !error.use_stderr() {
                error.exit();
            }
            one_line(&error.to_string())
        })
    }
}

impl ClientArgs {
    /// What a client is to do.
    pub fn new(server: SocketAddr, rate: u64, warm: Duration, measure: Duration, cpu: Option<usize>) -> Self {
        let ns = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Self { server, rate, warm_ns: ns(warm), measure_ns: ns(measure), cpu }
    }

    /// The same as words of a command line.
    pub fn to_command_line(&self) -> Vec<String> {
        let mut words = vec!["client".to_owned()];
        let mut option = |name: &str, value: String| words.extend([format!("--{name}"), value]);
        option("server", self.server.to_string());
        option("rate", self.rate.to_string());
        option("warm-ns", self.warm_ns.to_string());
        option("measure-ns", self.measure_ns.to_string());
        if let Some(cpu) = self.cpu {
            option("cpu", cpu.to_string());
        }
        words
    }

    /// Length of the warm-up.
    pub fn warm(&self) -> Duration {
        Duration::from_nanos(self.warm_ns)
    }

    /// Length of what is measured.
    pub fn measure(&self) -> Duration {
        Duration::from_nanos(self.measure_ns)
    }
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(u64::to_string).collect();
        f.write_str(&words.join(","))
    }
}

fn parse_seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds; try 30".to_owned())?;
    if seconds > 0.0 && seconds <= SECONDS_MAX {
        Ok(seconds)
    } else {
        Err(format!("must be more than 0 and at most {SECONDS_MAX}"))
    }
}

fn parse_probe(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(ms) if ms == 0 || PROBE_MS.contains(&ms) => Ok(Duration::from_millis(ms)),
        _ => Err(format!("not a number of milliseconds from {} to {}, nor 0", PROBE_MS.start(), PROBE_MS.end())),
    }
}

fn parse_rates(text: &str) -> Result<Rates, String> {
    if text.trim().is_empty() {
        return Err("no rate given; try 0,1000,20000".to_owned());
    }
    let mut rates = Vec::new();
    for word in text.split(',') {
        let word = word.trim();
        let rate: u64 = word.parse().map_err(|_| format!("\"{word}\" is not a number of datagrams a second"))?;
        if rate > RATE_MAX {
            return Err(format!("{rate} datagrams a second are too many; at most {RATE_MAX}"));
        }
        if rates.last().is_some_and(|&last| last >= rate) {
            return Err(format!("{rate} follows a rate that is not smaller; name each rate once, ascending"));
        }
        rates.push(rate);
    }
    Ok(Rates(rates))
}

fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "not an IP address and a port; try 127.0.0.1:7007 or [::1]:7007".to_owned())
}

/// The first line of clap's message, without its prefix; the rest is advice on usage.
fn one_line(message: &str) -> String {
    let first = message.lines().next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Args, String> {
        Args::try_parse_from(std::iter::once(&"udp_echo").chain(words)).map_err(|error| one_line(&error.to_string()))
    }

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Args::command().debug_assert();
    }

    #[test]
    fn what_is_asked_for_is_what_is_read() {
        let args = parse(&["--seconds", "2.5", "--rates", "0, 1000", "--json"]).expect("all of it is right");
        assert_eq!((args.seconds, args.json, args.listen), (2.5, true, None));
        assert_eq!(args.probe, Duration::from_millis(10));
        assert!(parse(&["--probe", "0"]).expect("never").probe.is_zero());
        assert_eq!(args.rates, Some(Rates(vec![0, 1_000])));
        let args = parse(&["--listen", "[::1]:7007"]).expect("an address");
        assert_eq!(args.listen.map(|address| address.port()), Some(7_007));
    }

    #[test]
    fn what_is_wrong_is_said_in_one_line_that_names_the_value() {
        let table: [(&[&str], &str); 17] = [
            (&["--seconds", "soon"], "soon"),
            (&["--seconds", "0"], "more than 0"),
            (&["--seconds", "-1"], "more than 0"),
            (&["--seconds", "nan"], "more than 0"),
            (&["--seconds", "1e9"], "at most"),
            (&["--probe", "9"], "from 10 to 1000"),
            (&["--probe", "-1"], "-1"),
            (&["--probe", "1001"], "nor 0"),
            (&["--listen", "127.0.0.1:0", "--probe", "0"], "--probe"),
            (&["--rates", ""], "no rate given"),
            (&["--rates", "1000,"], "\"\""),
            (&["--rates", "1k"], "1k"),
            (&["--rates", "1000,1000"], "ascending"),
            (&["--rates", "99999999999"], "too many"),
            (&["--listen", "localhost"], "127.0.0.1:7007"),
            (&["--listen", "127.0.0.1:99999"], "99999"),
            (&["--listen", "127.0.0.1:0", "--json"], "--json"),
        ];
        for (words, want) in table {
            let message = parse(words).expect_err("it is wrong");
            assert!(message.contains(want) && !message.contains('\n'), "{words:?} gives {message:?}");
        }
    }

    #[test]
    fn the_child_reads_what_the_parent_wrote() {
        let address = "127.0.0.1:9".parse().expect("an address");
        for cpu in [None, Some(3)] {
            let wrote = ClientArgs::new(address, 7, Duration::from_millis(1), Duration::from_secs(2), cpu);
            let line = wrote.to_command_line();
            let args = parse(&line.iter().map(String::as_str).collect::<Vec<_>>()).expect("we wrote it");
            let Some(Internal::Client(read)) = args.internal else { panic!("no client in {line:?}") };
            assert_eq!(read, wrote);
        }
    }
}
