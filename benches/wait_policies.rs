//! Which way of waiting gives the neighbour most for the same latency? Ours beside other systems' rules, in virtual time.
//!
//! ```text
//! cargo bench --features sim --bench wait_policies [-- --out DIR] [--replay FILE]... [--cells] [--step]
//! ```
//!
//! Writes `outcomes.csv` and a chart for each traffic and pass cost into DIR (`target/wait_policies` if not given), prints
//! the table, the cells that fall short or are not judged (all of them with `--cells`), and the figures last; with
//! `--step`, only what one decision costs. Equal inputs
//! give equal figures on every machine, but for `controller_ns`, which is measured. Some minutes on two cpus.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use twolane::sim::lab::judge::{Cell, Pair, judge};
use twolane::sim::lab::report::{self, Row};
use twolane::sim::lab::{Knobs, Machine, Ours, Tools, Traffic, bound, hindsight, peers, run, step_cost};

/// What an empty pass costs.
const PASSES_NS: [u64; 3] = [20, 150, 2_000];
const TUNING_SEED: u64 = 1;
const JUDGING_SEED: u64 = 2;
/// What is asked of a cell.
const CELL_RATIO_MIN: f64 = 0.98;
/// Budgets of the curves and of the comparison with hindsight.
const MEANS_NS: [u64; 7] = [20, 50, 100, 250, 500, 1_000, 2_500];

/// Budgets at which hindsight judges: around what the presets grant. Below, the mean of dear passes is all phase noise.
const HINDSIGHT_MEANS_NS: [u64; 4] = [500, 1_000, 2_500, 5_000];

/// The traffics, long enough for their percentiles: dear passes blur the mean more, and take fewer steps.
fn traffics(pass_ns: u64, seed: u64, replays: &[Traffic]) -> Vec<Traffic> {
    let many = if pass_ns >= 1_000 { 250_000 } else { 60_000 };
    let mut all = vec![
        Traffic::poisson(1_000, if pass_ns >= 1_000 { 10_000 } else { 2_500 }, seed),
        Traffic::poisson(20_000, many / 4, seed),
        Traffic::poisson(200_000, many, seed),
        Traffic::poisson(1_000_000, many, seed),
        Traffic::bursts(many, seed),
        Traffic::periodic(many / 6, seed),
        Traffic::phase_locked(many / 6, seed),
        Traffic::pareto(many, seed),
        Traffic::on_off(many, seed),
    ];
    all.extend_from_slice(replays);
    all
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked = Asked::from_args()?;
    let machine = Machine::default();
    if asked.only_step {
        println!("figure controller_ns {:.1}", step(&machine));
        return Ok(());
    }
    let cells = judge_all(&asked.replays, &machine);
    let rows = outcomes(&asked.replays, &machine);
    write_charts(&asked.out, &rows)?;
    print!("{}", report::table(&rows));
    print_cells(&cells, asked.all_cells);
    figures(&cells, &rows, &asked.replays, &machine);
    Ok(())
}

struct Asked {
    out: PathBuf,
    replays: Vec<Traffic>,
    all_cells: bool,
    only_step: bool,
}

impl Asked {
    fn from_args() -> Result<Self, Box<dyn std::error::Error>> {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        let mut asked =
            Self { out: target.join("wait_policies"), replays: Vec::new(), all_cells: false, only_step: false };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--out" => asked.out = args.next().ok_or("--out wants a directory")?.into(),
                "--replay" => {
                    let file = args.next().ok_or("--replay wants a file of arrival times, one a line")?;
                    asked.replays.push(Traffic::replay(file.as_ref())?);
                }
                "--cells" => asked.all_cells = true,
                "--step" => asked.only_step = true,
                // What cargo passes to every bench.
                "--bench" => {}
                other => {
                    return Err(
                        format!("unknown argument {other}; known are --out, --replay, --cells and --step").into()
                    );
                }
            }
        }
        Ok(asked)
    }
}

/// `work` for each of `items`, on all cpus; results in order.
fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                // Relaxed: the number is all that is shared.
                while let Some((number, item)) = Some(next.fetch_add(1, Relaxed)).and_then(|i| Some((i, items.get(i)?)))
                {
                    let result = work(item);
                    done.lock().unwrap().push((number, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

fn judge_all(replays: &[Traffic], machine: &Machine) -> Vec<Cell> {
    let mut work = Vec::new();
    for pass_ns in PASSES_NS {
        let seeds = [TUNING_SEED, JUDGING_SEED].map(|seed| traffics(pass_ns, seed, replays));
        let [tuning, judging] = seeds;
        for (tuning, judging) in tuning.into_iter().zip(judging) {
            let pair = std::sync::Arc::new(Pair { tuning, judging });
            work.extend(peers::all().into_iter().map(|peer| (pair.clone(), pass_ns, peer)));
        }
    }
    in_parallel(&work, |(pair, pass_ns, peer)| judge(pair, *pass_ns, peer, machine))
}

/// Every peer, and the curve of our budgets with and without the tools of the better equipped ones.
fn outcomes(replays: &[Traffic], machine: &Machine) -> Vec<Row> {
    let mut work = Vec::new();
    for pass_ns in PASSES_NS {
        work.extend(traffics(pass_ns, JUDGING_SEED, replays).into_iter().map(|traffic| (pass_ns, traffic)));
    }
    let rows = in_parallel(&work, |(pass_ns, traffic)| {
        let (pass_ns, name) = (*pass_ns, traffic.name());
        let tight = run(&mut peers::Tight, traffic, pass_ns, machine);
        let mut rows = Vec::new();
        for peer in peers::all() {
            let machine = Machine { park: peer.park.unwrap_or(machine.park), ..*machine };
            let outcome = run(&mut *(peer.policy)(), traffic, pass_ns, &machine);
            rows.push(Row::new(name, pass_ns, peer.name, &outcome, &tight));
        }
        for (curve, monitored) in [("twolane", false), ("twolane, watching", true)] {
            for mean_added_ns in MEANS_NS {
                let knobs = Knobs {
                    mean_added_ns,
                    max_added_ns: 25_000,
                    strict: false,
                    duty_percent: 100,
                    tools: Tools { timed: true, monitored, park: false },
                };
                let mut ours = Ours::new(knobs, machine);
                let outcome = run(&mut ours, traffic, pass_ns, machine);
                let policy = format!("{curve} {mean_added_ns} ns");
                rows.push(Row::new(name, pass_ns, &policy, &outcome, &tight).on_curve(curve));
            }
        }
        rows
    });
    rows.into_iter().flatten().collect()
}

fn write_charts(out: &PathBuf, rows: &[Row]) -> std::io::Result<()> {
    std::fs::create_dir_all(out)?;
    std::fs::write(out.join("outcomes.csv"), report::csv(rows))?;
    for group in rows.chunk_by(|a, b| a.traffic == b.traffic && a.pass_ns == b.pass_ns) {
        let (traffic, pass_ns) = (&group[0].traffic, group[0].pass_ns);
        let title = format!("{traffic}, empty pass {pass_ns} ns");
        let file: String = title.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        std::fs::write(out.join(file + ".svg"), report::chart(&title, group))?;
    }
    println!("charts and outcomes.csv are in {}", out.display());
    Ok(())
}

fn print_cells(cells: &[Cell], all: bool) {
    println!("\n{} cells, of which {} are judged:", cells.len(), cells.iter().filter(|cell| cell.judged).count());
    for cell in cells {
        let short = cell.judged && (cell.ratio() < CELL_RATIO_MIN || !cell.kept);
        if !all && !short {
            continue;
        }
        println!(
            "{:<20}{:>6} ns  {:<13} added {:>8.1} ours {:>8.1}  p99.9 {:>7} ours {:>7}  X {:>7}  duty {:.3} ours {:.3}  {}",
            cell.traffic,
            cell.pass_ns,
            cell.peer,
            cell.peer_added_ns(),
            cell.ours_added_ns(),
            cell.theirs.quantile_ns(0.999),
            cell.ours.quantile_ns(0.999),
            cell.mean_added_ns,
            cell.theirs.duty(),
            cell.ours.duty(),
            match (cell.judged, short) {
                (false, _) => "not judged".into(),
                (true, true) if !cell.kept => format!("{:.3} beyond its bounds on this seed", cell.ratio()),
                (true, true) => format!("{:.3} falls short", cell.ratio()),
                (true, false) => format!("{:.3}", cell.ratio()),
            }
        );
    }
    let unjudged: Vec<String> = cells
        .iter()
        .filter(|cell| !cell.judged)
        .map(|cell| format!("{}/{}/{}", cell.traffic, cell.pass_ns, cell.peer))
        .collect();
    println!("not judged (the peer adds less than 5 ns or gives away less than 2 %): {}", unjudged.join(", "));
}

fn figures(cells: &[Cell], rows: &[Row], replays: &[Traffic], machine: &Machine) {
    let mut by_peer: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for cell in cells.iter().filter(|cell| cell.judged) {
        by_peer.entry(cell.peer).or_default().push(cell.ratio());
    }
    let mean = |ratios: &Vec<f64>| (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    for (peer, ratios) in &by_peer {
        println!("against {peer:<13} {:.3} on average of {} cells", mean(ratios), ratios.len());
    }
    let late = cells.iter().filter(|cell| cell.judged && !cell.kept).count();
    println!("cells in which ours is beyond its bounds on the judging seed: {late}");

    let (dominated, of) = dominated(rows);
    let hindsight = hindsight_min(replays, machine);
    let strict = bound_max(true, machine);
    let expected = bound_max(false, machine);
    let step = step(machine);
    let best = by_peer.values().flatten().copied().fold(f64::INFINITY, f64::min);
    println!("figure duty_vs_best_peer_min {best:.3}");
    println!("figure duty_vs_best_peer_mean {:.3}", by_peer.values().map(mean).fold(f64::INFINITY, f64::min));
    println!("figure fixed_setting_dominated {dominated} of {of}");
    println!("figure duty_vs_hindsight_min {hindsight:.3}");
    println!("figure strict_bound_ratio_max {strict:.3}");
    println!("figure expected_bound_ratio_max {expected:.3}");
    println!("figure controller_ns {step:.1}");
}

/// Some ten thousand passes, with the time in which the scale is found.
const STEP_EVENTS: usize = 2_000;

fn step(machine: &Machine) -> f64 {
    step_cost::controller_ns(&Traffic::poisson(20_000, STEP_EVENTS, JUDGING_SEED), 150, machine, 100)
}

/// Our one fixed setting in the comparison of outcomes.
const FIXED: &str = "twolane, watching 500 ns";

/// How often a peer is both no later on average and in the tail, and gives no less away, than the fixed setting.
fn dominated(rows: &[Row]) -> (usize, usize) {
    let (mut dominated, mut of) = (0, 0);
    for group in rows.chunk_by(|a, b| a.traffic == b.traffic && a.pass_ns == b.pass_ns) {
        let Some(ours) = group.iter().find(|row| row.policy == FIXED) else { continue };
        for peer in group.iter().filter(|row| row.curve.is_none()) {
            of += 1;
            if peer.added_ns[0] <= ours.added_ns[0] && peer.added_ns[2] <= ours.added_ns[2] && peer.duty >= ours.duty {
                println!("dominated by {} on {}, {} ns", peer.policy, peer.traffic, peer.pass_ns);
                dominated += 1;
            }
        }
    }
    (dominated, of)
}

fn hindsight_min(replays: &[Traffic], machine: &Machine) -> f64 {
    let mut work = Vec::new();
    for pass_ns in PASSES_NS {
        work.extend(traffics(pass_ns, JUDGING_SEED, replays).into_iter().map(|traffic| (pass_ns, traffic)));
    }
    let ratios = in_parallel(&work, |(pass_ns, traffic)| {
        let grid = hindsight::Grid::new(traffic, *pass_ns, machine);
        let of = |mean_added_ns: &u64| {
            let knobs = Knobs {
                mean_added_ns: *mean_added_ns,
                max_added_ns: 1_000_000,
                strict: false,
                duty_percent: 100,
                tools: Tools::default(),
            };
            let ours = run(&mut Ours::new(knobs, machine), traffic, *pass_ns, machine);
            let ratio = grid.ratio(&ours).unwrap_or(f64::INFINITY);
            (ratio, *mean_added_ns, ours.duty())
        };
        (HINDSIGHT_MEANS_NS.iter().map(of).collect::<Vec<_>>(), traffic.name().to_owned(), *pass_ns)
    });
    let mut least = f64::INFINITY;
    for (ratios, traffic, pass_ns) in ratios {
        for (ratio, mean_added_ns, duty) in ratios {
            if ratio < 0.95 {
                println!("hindsight: {traffic}, {pass_ns} ns, X {mean_added_ns}: duty {duty:.3}, ratio {ratio:.3}");
            }
            least = least.min(ratio);
        }
    }
    least
}

fn bound_max(strict: bool, machine: &Machine) -> f64 {
    const EVENTS: usize = 100_000;
    let mut work = Vec::new();
    for traffic in [
        Traffic::poisson(20_000, EVENTS, 3),
        Traffic::poisson(200_000, EVENTS, 3),
        Traffic::poisson(1_000_000, EVENTS, 3),
        Traffic::bursts(EVENTS, 3),
        Traffic::periodic(EVENTS, 3),
        Traffic::phase_locked(EVENTS, 3),
        Traffic::pareto(EVENTS, 3),
        Traffic::on_off(EVENTS, 3),
    ] {
        let traffic = std::sync::Arc::new(traffic);
        for pass_ns in PASSES_NS {
            for mean_added_ns in [50, 500, 5_000] {
                work.push((traffic.clone(), pass_ns, mean_added_ns));
            }
        }
    }
    let ratios =
        in_parallel(&work, |(traffic, pass_ns, mean)| bound::ratio(traffic, *pass_ns, *mean, strict, machine).0);
    let worst = ratios.iter().zip(&work).max_by(|a, b| a.0.total_cmp(b.0));
    let Some((ratio, (traffic, pass_ns, mean))) = worst else { return 0.0 };
    let kind = if strict { "strict" } else { "expected" };
    println!("{kind}: nearest to its bound on {}, {pass_ns} ns, X {mean}", traffic.name());
    *ratio
}
