//! The table that ends a sweep, and the notes without which it would be misread. Pure.

use std::fmt::Write as _;

use crate::cells::{Cell, Seats};
use crate::figures::{P999_SAMPLES_MIN, Spread, micros};
use crate::siblings::SeenCounts;
use crate::summary::{RateSummary, Split, Summary};

/// Columns by group; a group's name stands over its first column.
const GROUPS: [(&str, &[&str]); 8] = [
    ("", &["rate/s", "cell"]),
    ("residence us", &["p50", "±%", "p99"]),
    ("end to end us", &["p50", "p99", "p99.9"]),
    ("neighbour ev/s", &["own cpu", "±%", "wall"]),
    ("client", &["cpu %", "late us"]),
    ("datagrams", &["offered", "echoed", "lost"]),
    ("lane time %", &["busy", "empty", "doze", "park", "duty %"]),
    ("one core", &["slots"]),
];

/// Columns in all.
const COLUMNS: usize = 22;

/// Between two columns of a group, and between groups.
const GAPS: (&str, &str) = ("  ", "   ");

/// Time that others take from the poll lane, in percent, from which on the latencies are theirs rather than ours.
const PREEMPTED_PERCENT_MAX: f64 = 2.0;

/// What stands where there is nothing to say.
const NOTHING: &str = "-";

/// The table, a line a cell and a blank one between rates, and the notes.
pub fn table(rates: &[RateSummary], seats: &Seats) -> String {
    let names = GROUPS.iter().flat_map(|(_, names)| *names);
    let head: Vec<String> = names.map(|&name| name.to_owned()).collect();
    let blocks: Vec<Vec<[String; COLUMNS]>> =
        rates.iter().map(|at| at.cells.iter().map(|(cell, sum)| row(at.rate, *cell, sum)).collect()).collect();
    let widths: Vec<usize> = (0..COLUMNS)
        .map(|column| {
            let cells = blocks.iter().flatten().map(|row| &row[column]).chain([&head[column]]);
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        })
        .collect();

    let mut text = format!("{}\n{}\n", group_line(&widths), line(&head, &widths));
    for (at, block) in blocks.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        for row in block {
            let _ = writeln!(text, "{}", line(row, &widths));
        }
    }
    text.push('\n');
    for note in notes(rates, seats) {
        let _ = writeln!(text, "  {note}");
    }
    text
}

/// One line of cells, each group as wide as its name at least.
fn line(cells: &[String], widths: &[usize]) -> String {
    let mut groups = Vec::new();
    let mut at = 0;
    for (name, names) in GROUPS {
        let columns: Vec<String> = (at..at + names.len())
            .map(|column| {
                let (cell, width) = (&cells[column], widths[column]);
                // Words begin where their column does, numbers end where it ends.
                if column == CELL_COLUMN { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            })
            .collect();
        groups.push(format!("{:<width$}", columns.join(GAPS.0), width = name.len()));
        at += names.len();
    }
    groups.join(GAPS.1).trim_end().to_owned()
}

/// The one column of words.
const CELL_COLUMN: usize = 1;

/// The groups' names, each over its group.
fn group_line(widths: &[usize]) -> String {
    let mut groups = Vec::new();
    let mut at = 0;
    for (name, names) in GROUPS {
        let gaps = GAPS.0.len() * (names.len() - 1);
        let width = widths[at..at + names.len()].iter().sum::<usize>() + gaps;
        groups.push(format!("{name:<width$}"));
        at += names.len();
    }
    groups.join(GAPS.1).trim_end().to_owned()
}

fn row(rate: u64, cell: Cell, sum: &Summary) -> [String; COLUMNS] {
    let median = |spread: Option<Spread>, show: fn(f64) -> String| {
        spread.map_or_else(|| NOTHING.to_owned(), |spread| show(spread.median))
    };
    let apart = |spread: Option<Spread>| {
        let several = spread.filter(|_| sum.slots > 1);
        several.map_or_else(|| NOTHING.to_owned(), |spread| spread_percent(spread.relative() * 100.0))
    };
    let part =
        |pick: fn(&Split) -> f64| sum.split.map_or_else(|| NOTHING.to_owned(), |split| one_decimal(pick(&split)));
    let some = |figure: Option<f64>, show: fn(f64) -> String| figure.map_or_else(|| NOTHING.to_owned(), show);
    [
        rate.to_string(),
        cell.name().to_owned(),
        median(sum.residence.p50, micros),
        apart(sum.residence.p50),
        median(sum.residence.p99, micros),
        median(sum.end_to_end.p50, micros),
        median(sum.end_to_end.p99, micros),
        some(sum.end_to_end.p999, micros),
        median(sum.neighbour_own, whole),
        apart(sum.neighbour_own),
        median(sum.neighbour_wall, whole),
        median(sum.client_cpu, one_decimal),
        median(sum.late.p50, micros),
        sum.offered.to_string(),
        sum.echoed.to_string(),
        sum.lost().to_string(),
        part(|split| split.busy),
        part(|split| split.empty),
        part(|split| split.doze),
        part(|split| split.park),
        some(sum.duty, one_decimal),
        core_slots(sum.seen),
    ]
}

/// Slots around which the lanes were seen to share a core, of those that were looked at.
fn core_slots(seen: SeenCounts) -> String {
    if seen.watched() == 0 { NOTHING.to_owned() } else { format!("{}/{}", seen.shared, seen.watched()) }
}

/// What a reader must know to read the figures right.
fn notes(rates: &[RateSummary], seats: &Seats) -> Vec<String> {
    let mut notes = vec![
        "tight: spins; twolane: etiquette Balanced; parked: blocks as soon as a pass is empty. Medians over the slots; \
         ±% is half their spread."
            .to_owned(),
        "residence: in the server, the kernel's receive stamp to after sendmmsg. end to end: the time a datagram was due \
         to its receipt by the client, with the client's own lateness (late, the median) in it."
            .to_owned(),
        format!("duty: doze / (doze + empty). p99.9: from {P999_SAMPLES_MIN} samples up. lost: sent and never echoed."),
        "one core: slots right before and after which a probe saw the two lanes share a core, of those it looked at."
            .to_owned(),
        "own cpu: events per second of the neighbour's cpu time, in which the kernel counts the interrupts it took meanwhile."
            .to_owned(),
    ];
    if seats.one_lane {
        notes.push(
            "One cpu: server and neighbour take turns on one thread, and a datagram waits for a whole event."
                .to_owned(),
        );
    }
    if seats.client_shares {
        let beside = if seats.one_lane { "the lane's" } else { "the neighbour's" };
        notes.push(match seats.client_cpu {
            Some(cpu) => format!(
                "The client shares {beside} cpu {cpu}: its own waiting is in end to end, its cpu time is missing from \
                 the neighbour's wall rate, and residence and own cpu are the figures to compare."
            ),
            None => "Nothing is pinned, so client, server and neighbour may meet on a cpu.".to_owned(),
        });
    }
    let preempted = rates.iter().flat_map(|at| &at.cells).filter_map(|(_, sum)| sum.preempted).fold(0.0, f64::max);
    if preempted >= PREEMPTED_PERCENT_MAX && !seats.one_lane {
        notes.push(format!(
            "Something else had the poll lane's cpu for up to {preempted:.0} % of the time: run again on a quieter machine."
        ));
    }
    let unstamped = |(_, sum): &(Cell, Summary)| sum.echoed > 0 && sum.residence.samples == 0;
    if rates.iter().any(|at| at.cells.iter().any(unstamped)) {
        notes.push("The kernel does not stamp arrivals here (SO_TIMESTAMPNS), so residence is unknown.".to_owned());
    }
    for at in rates {
        for (cell, sum) in at.cells.iter().filter(|(_, sum)| sum.unsent() > 0) {
            let (unsent, offered, rate, cell) = (sum.unsent(), sum.offered, at.rate, cell.name());
            notes.push(format!(
                "{cell} at {rate}/s: the client could not send {unsent} of the {offered} datagrams due."
            ));
        }
    }
    notes
}

/// Past this, a spread only says that the median means nothing.
const SPREAD_PERCENT_MAX: f64 = 999.0;

fn spread_percent(percent: f64) -> String {
    if percent > SPREAD_PERCENT_MAX { format!(">{SPREAD_PERCENT_MAX:.0}") } else { whole(percent) }
}

fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

fn one_decimal(figure: f64) -> String {
    format!("{figure:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{SEATS, rates};

    #[test]
    fn the_table_has_a_line_a_cell_and_its_columns_line_up() {
        let text = table(&rates(1_150.0, 0.01), &SEATS);
        let lines: Vec<&str> = text.lines().collect();
        let cell_lines: Vec<&&str> =
            lines[2..].iter().filter(|line| line.contains("00  t") || line.contains("00  p")).collect();
        assert_eq!(cell_lines.len(), 6, "{text}");
        assert!(cell_lines.iter().all(|line| line.chars().count() == lines[1].chars().count()), "{text}");
        assert!(lines[0].contains("residence us") && lines[0].contains("lane time %"));
    }

    #[test]
    fn notes_tell_what_distorts_the_figures() {
        let mut rates = rates(1_000.0, 0.0);
        rates[1].cells[0].1.sent = 60;
        rates[0].cells[1].1.preempted = Some(12.3);
        let shared = Seats { client_cpu: Some(1), client_shares: true, ..SEATS };
        let text = table(&rates, &shared);
        assert!(text.contains("shares the neighbour's cpu 1"), "{text}");
        assert!(text.contains("tight at 50000/s: the client could not send 40 of the 100"), "{text}");
        assert!(text.contains("for up to 12 % of the time"), "{text}");
        assert!(!table(&rates, &SEATS).contains("shares"));
        assert!(table(&rates, &Seats { one_lane: true, ..SEATS }).contains("One cpu"));
    }

    #[test]
    fn unknown_residence_is_explained() {
        let mut rates = rates(1_000.0, 0.0);
        for (_, sum) in rates.iter_mut().flat_map(|at| &mut at.cells) {
            sum.residence = Default::default();
        }
        assert!(table(&rates, &SEATS).contains("SO_TIMESTAMPNS"));
    }

    #[test]
    fn no_results_are_a_head_and_no_crash() {
        assert!(table(&[], &SEATS).starts_with(' '));
    }
}
