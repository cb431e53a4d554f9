//! Do router and batcher choose well, if a device were as it is said to be? The published study, replayed in the device model's time.
//!
//! ```text
//! cargo bench --features sim --bench offload_model [-- --out DIR] [--cells] [--worlds FROM..TO] [NAME...]
//! ```
//!
//! Experiments by name: `crossover`, `batches`, `depth`, `submitters`, `devices`, `policies`; none named: all, in some minutes of cpu time, nearly all of which `policies` takes. Each prints a table and
//! writes a chart (SVG) and CSV into DIR (`target/offload_model` if not given); `policies` prints the figures, last. `--cells` lists all its cells, not only those that fall short; `--worlds` has it play in
//! worlds of other seeds.
//!
//! All of it is a *model*: published and fitted costs, virtual time, equal on every machine. It calibrates choices; it is no evidence about hardware.

#[path = "../common/figure.rs"]
#[allow(dead_code, clippy::absurd_extreme_comparisons)]
// every bench takes what it needs; nothing is timed here, so no slot is too few
mod figure;
mod slots {
    //! What `figure` asks of the timed benches; nothing is timed here.
    pub const SLOTS: usize = 0;
}

mod batches;
mod crossover;
mod depth;
mod devices;
mod policies;
mod submitters;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use figure::{Figure, print_lines, print_table};
use twolane::sim::study::chart::Chart;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Run = fn(&Asked) -> Result<(Vec<Chart>, Vec<Figure>), Failure>;

const EXPERIMENTS: [(&str, Run); 6] = [
    ("crossover", crossover::run),
    ("batches", batches::run),
    ("depth", depth::run),
    ("submitters", submitters::run),
    ("devices", devices::run),
    ("policies", policies::run),
];
/// Wrong arguments.
const EXIT_USAGE: u8 = 2;

/// What the command line says.
#[derive(Debug)]
pub struct Asked {
    out: PathBuf,
    names: Vec<String>,
    /// All cells are listed.
    pub cells: bool,
    /// Worlds of these seeds instead of the bench's own.
    pub worlds: Option<std::ops::Range<u64>>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // cargo adds `--bench`; without it, and without a name, this is `cargo test`.
    if arguments.is_empty() {
        println!("nothing run: run `cargo bench --features sim --bench offload_model`");
        return ExitCode::SUCCESS;
    }
    let asked = match Asked::from(arguments) {
        Ok(asked) => asked,
        Err(message) => {
            eprintln!("offload_model: {message}");
            return ExitCode::from(EXIT_USAGE);
        }
    };
    match play(&asked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("offload_model: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Asked {
    fn from(arguments: Vec<String>) -> Result<Self, String> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let mut asked = Self { out: target.join("offload_model"), names: Vec::new(), cells: false, worlds: None };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--bench" => {}
                "--cells" => asked.cells = true,
                "--worlds" => asked.worlds = Some(range(arguments.next())?),
                "--out" => asked.out = arguments.next().ok_or("--out wants a directory")?.into(),
                name if EXPERIMENTS.iter().any(|(known, _)| *known == name) => asked.names.push(argument),
                other => {
                    let known: Vec<&str> = EXPERIMENTS.iter().map(|(name, _)| *name).collect();
                    return Err(format!("`{other}` is none of --out, --cells, --worlds and {}", known.join(", ")));
                }
            }
        }
        Ok(asked)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| wanted == name)
    }
}

fn range(text: Option<String>) -> Result<std::ops::Range<u64>, String> {
    let text = text.unwrap_or_default();
    let seeds = text.split_once("..").and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
    seeds.filter(|seeds| !seeds.is_empty()).ok_or(format!("--worlds: `{text}` is no range of seeds such as 8..16"))
}

fn play(asked: &Asked) -> Result<(), Failure> {
    std::fs::create_dir_all(&asked.out).map_err(|error| format!("{}: {error}", asked.out.display()))?;
    let mut all = Vec::new();
    for (name, run) in EXPERIMENTS.iter().filter(|(name, _)| asked.wants(name)) {
        let (charts, figures) = run(asked)?;
        for chart in &charts {
            println!("{}", chart.table());
            write(&asked.out, chart)?;
        }
        all.extend(figures);
        eprintln!("{name} done");
    }
    println!("model: charts and CSV are in {}", asked.out.display());
    print_table(&all);
    print_lines(&all);
    Ok(())
}

fn write(out: &Path, chart: &Chart) -> Result<(), Failure> {
    let file: String = chart.title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    std::fs::write(out.join(format!("{file}.svg")), chart.svg())?;
    std::fs::write(out.join(format!("{file}.csv")), chart.csv())?;
    Ok(())
}

/// `work` for each of `items`, on all cpus; results in order.
pub fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<R, Failure> + Sync,
) -> Result<Vec<R>, Failure> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    // Relaxed: the number is all that is shared.
                    let number = next.fetch_add(1, Relaxed);
                    let Some(item) = items.get(number) else { break };
                    let result = work(item);
                    done.lock().expect("no worker panics with it").push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no worker panics with it");
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
