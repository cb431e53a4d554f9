//! `model_vs_best_fixed_min`, `model_mix_gain_min`: do router and batcher choose as well as who knows the machine?
//!
//! **Method.** Worlds are drawn by seeds, every parameter of the model within 50 % either way, half of them with shared queues, half with dedicated ones. In each,
//! services ask for copies of one size, or of a mix of sizes, and wait for each, for none, or for groups. Ours begins with the constants that it has in a runtime, sees a time of
//! one copy in sixteen (later in sixty-four), with noise, and is judged after 6 000 copies. The router was made while worlds 0 to 23, 1000 to 1007, 2000 to 2007 and 3000 to 3031 were looked at; it is judged in eight others, and what it
//! reaches in the first eight stands beside the figure (`min_in_worlds_it_was_made_in`). What is compared is what copies take from the service (`twolane::sim::study` says why that).
//!
//! **Reference.** Fixed policies, each with its best constants. For the first figure, those that are best *in that very cell*, found by trying all: the bar is whoever
//! knows the world, its sizes and what it waits for. For the second, those that are best over all worlds.
//!
//! **Bound.** 0.95 of the best fixed policy's throughput in every cell: 1 % for trials, and the rest for what is not known. Above 1 over
//! the mix, a service of all sizes that does all three in turns, against each family of fixed policies.
//!
//! **What is not in it.** The time that choosing takes: the model has costs of hardware, not of instructions, and the fixed policies pay nothing for theirs either.
//! `with_choosing_min` beside the figure charges it to ours alone: some 20 ns, which show beside a portal write of 65 ns and less. It is measured as `route_*_instructions` in the
//! bench `offload`.

use std::ops::Range;

use twolane::sim::study::chart::{Chart, Line};
use twolane::sim::study::judge::{Cell, gain, judge};
use twolane::sim::study::{Family, Sizes, Waits, Workload};

use crate::figure::{Bound, Figure};
use crate::{Asked, Failure, in_parallel};

/// Worlds in which the router was made.
const MADE_IN: Range<u64> = 0..8;
/// Worlds in which it is judged.
const JUDGED_IN: Range<u64> = 4_000..4_008;
const RATIO_MIN: f64 = 0.95;
const SIZES: [usize; 16] = [
    64,
    128,
    256,
    384,
    512,
    1 << 10,
    1536,
    2 << 10,
    3 << 10,
    4 << 10,
    6 << 10,
    8 << 10,
    16 << 10,
    64 << 10,
    256 << 10,
    2 << 20,
];
const EVERYTHING: Sizes = Sizes::Even(64, 2 << 20);
const MIXES: [Sizes; 5] = [EVERYTHING, Sizes::Even(64, 4 << 10), Sizes::Packets, Sizes::Values, Sizes::FewLarge];
/// A service of all kinds.
const THE_MIX: Workload = Workload { sizes: EVERYTHING, waits: Waits::Turns };

fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for waits in [Waits::Each, Waits::Window, Waits::Groups(4), Waits::Groups(16)] {
        all.extend(SIZES.map(|len| Workload { sizes: Sizes::Only(len), waits }));
    }
    for waits in [Waits::Each, Waits::Window, Waits::Groups(8), Waits::Turns] {
        all.extend(MIXES.map(|sizes| Workload { sizes, waits }));
    }
    all
}

pub fn run(asked: &Asked) -> Result<(Vec<Chart>, Vec<Figure>), Failure> {
    let workloads = workloads();
    let mut work: Vec<(Option<u64>, Workload)> = Vec::new();
    let judged_in = asked.worlds.clone().unwrap_or(JUDGED_IN);
    // Worlds that are asked for are judged alone.
    let made_in = if asked.worlds.is_some() { 0..0 } else { MADE_IN };
    for seed in judged_in.clone().chain(made_in) {
        work.extend(workloads.iter().map(|workload| (Some(seed), *workload)));
    }
    // The usual world is for the charts only: the starting costs were made for it.
    work.extend(workloads.iter().filter(|workload| is_single(workload)).map(|workload| (None, *workload)));
    let cells = in_parallel(&work, |(seed, workload)| Ok(judge(*seed, workload)?))?;
    let (usual, drawn): (Vec<Cell>, Vec<Cell>) = cells.into_iter().partition(|cell| cell.seed.is_none());
    let (judged, made): (Vec<Cell>, Vec<Cell>) =
        drawn.into_iter().partition(|cell| cell.seed.is_some_and(|seed| judged_in.contains(&seed)));
    print_cells("worlds that the router was not made in", &judged, asked.cells);
    if !made.is_empty() {
        print_cells("worlds that it was made in", &made, asked.cells);
    }
    let charts = [Waits::Each, Waits::Window, Waits::Groups(4), Waits::Groups(16)].map(|waits| chart(&usual, waits));
    Ok((charts.into(), vec![ratio_figure(&judged, &made), gain_figure(&judged)?]))
}

fn is_single(workload: &Workload) -> bool {
    matches!(workload.sizes, Sizes::Only(_))
}

fn print_cells(which: &str, cells: &[Cell], all: bool) {
    let short = cells.iter().filter(|cell| cell.ratio() < RATIO_MIN).count();
    println!(
        "model: {} cells in {which}, of which {short} are more than 5 % behind the best fixed policy",
        cells.len()
    );
    let mut listed: Vec<&Cell> = cells.iter().filter(|cell| all || cell.ratio() < RATIO_MIN).collect();
    listed.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    for cell in listed {
        let (best, cost) = cell.best();
        println!(
            "{:.3}  world {}  {:<22}{:<12} ours {:>10.1} ns, {:>3.0} % by the device; best {:>10.1} ns: {best}",
            cell.ratio(),
            cell.seed.unwrap_or_default(),
            format!("{:?}", cell.workload.sizes),
            format!("{:?}", cell.workload.waits),
            cell.ours.cost_ns,
            100.0 * cell.ours.by_device,
            cost.cost_ns
        );
    }
}

fn ratio_figure(cells: &[Cell], made: &[Cell]) -> Figure {
    let least_of = |cells: &[Cell], ratio: fn(&Cell) -> f64| cells.iter().map(ratio).fold(f64::INFINITY, f64::min);
    let least = |ratio: fn(&Cell) -> f64| least_of(cells, ratio);
    let mean = cells.iter().map(|cell| cell.ratio().ln()).sum::<f64>() / cells.len() as f64;
    let charged = cells.iter().map(|cell| cell.charged_ratio().ln()).sum::<f64>() / cells.len() as f64;
    let figure = Figure::exact("model_vs_best_fixed_min", least(Cell::ratio), Bound::AtLeast(RATIO_MIN));
    let figure = match made {
        [] => figure,
        made => figure.beside("min_in_worlds_it_was_made_in", least_of(made, Cell::ratio)),
    };
    figure
        .beside("mean", mean.exp())
        .beside("with_choosing_min", least(Cell::charged_ratio))
        .beside("with_choosing_mean", charged.exp())
        .beside("cells", cells.len() as f64)
}

fn gain_figure(cells: &[Cell]) -> Result<Figure, Failure> {
    let mix: Vec<Cell> = cells.iter().filter(|cell| cell.workload == THE_MIX).cloned().collect();
    let mut gains = Vec::new();
    for family in Family::ALL {
        let (fixed, ahead) = gain(&mix, family).ok_or_else(|| format!("no {family} in the mix"))?;
        println!(
            "model: over the mix, ours is ahead of {family} {ahead:.3} times (its best constants for all worlds: {fixed})"
        );
        gains.push(ahead);
    }
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let names = ["ahead_of_cpu", "ahead_of_device", "ahead_of_dto", "ahead_of_dml", "ahead_of_threshold"];
    let figure = Figure::exact("model_mix_gain_min", least, Bound::AtLeast(1.0));
    Ok(names.into_iter().zip(gains).fold(figure, |figure, (name, gain)| figure.beside(name, gain)))
}

/// Each family's best constants at each size, and ours, in the usual world.
fn chart(usual: &[Cell], waits: Waits) -> Chart {
    let cells: Vec<(f64, &Cell)> = usual
        .iter()
        .filter_map(|cell| match cell.workload {
            Workload { sizes: Sizes::Only(len), waits: these } if these == waits => Some((len as f64, cell)),
            _ => None,
        })
        .collect();
    let mut lines = vec![Line {
        name: "router, batcher".into(),
        points: cells.iter().map(|(len, cell)| (*len, cell.ours.cost_ns)).collect(),
    }];
    for family in Family::ALL {
        let best = |cell: &Cell| {
            let costs = cell.fixed.iter().filter(|(fixed, _)| fixed.family == family).map(|(_, cost)| cost.cost_ns);
            costs.fold(f64::INFINITY, f64::min)
        };
        let points = cells.iter().map(|(len, cell)| (*len, best(cell))).collect();
        lines.push(Line { name: family.to_string(), points });
    }
    let title = match waits {
        Waits::Each => "policies, each copy waited for".into(),
        Waits::Window => "policies, overlapped".into(),
        Waits::Groups(size) => format!("policies, groups of {size}"),
        Waits::Turns => "policies, all kinds in turns".to_owned(),
    };
    Chart { title, x: "bytes", y: "ns taken from the service by a copy", y_log: true, lines }
}
