//! What the sweep says at its end: a table, a sentence, or the same as JSON. Pure functions from [`RateSummary`].

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use twolane::placement::Sharing;

use crate::cells::{Cell, Seats};
use crate::figures::{P999_SAMPLES_MIN, Spread};
use crate::summary::{Latency, RateSummary, Split, Summary};

/// Columns as (group, name); a group's name stands over its first column.
const COLUMNS: [(&str, &str); 21] = [
    ("", "rate/s"),
    ("", "cell"),
    ("residence us", "p50"),
    ("", "±%"),
    ("", "p99"),
    ("end to end us", "p50"),
    ("", "p99"),
    ("", "p99.9"),
    ("neighbour ev/s", "own cpu"),
    ("", "±%"),
    ("", "wall"),
    ("client", "cpu %"),
    ("", "late us"),
    ("datagrams", "offered"),
    ("", "echoed"),
    ("", "lost"),
    ("lane time %", "busy"),
    ("", "empty"),
    ("", "doze"),
    ("", "park"),
    ("", "duty %"),
];

/// The first columns of groups, which get a wider gap before them.
const GROUP_STARTS: [usize; 6] = [2, 5, 8, 11, 13, 16];

/// Time that others take from the poll lane, in percent, from which on the latencies are theirs rather than ours.
const PREEMPTED_PERCENT_MAX: f64 = 2.0;

/// What stands where there is nothing to say.
const NOTHING: &str = "-";

/// The table, and the lines that explain it.
pub fn table(rates: &[RateSummary], seats: &Seats) -> String {
    let rows: Vec<[String; COLUMNS.len()]> =
        rates.iter().flat_map(|at| at.cells.iter().map(|(cell, sum)| row(at.rate, *cell, sum))).collect();
    let width = |column: usize| {
        rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0).max(COLUMNS[column].1.chars().count())
    };
    let gap = |column: usize| match column {
        0 => 0,
        _ if GROUP_STARTS.contains(&column) => 3,
        _ => 2,
    };
    let line = |cells: &[&str]| {
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate() {
            let (gap, width) = (gap(column), width(column));
            let _ = if column == 1 {
                write!(text, "{:gap$}{cell:<width$}", "")
            } else {
                write!(text, "{:gap$}{cell:>width$}", "")
            };
        }
        text.trim_end().to_owned()
    };

    let mut groups = String::new();
    let mut at = 0;
    for (column, (group, _)) in COLUMNS.iter().enumerate() {
        at += gap(column);
        if !group.is_empty() {
            // A name longer than its columns pushes the next one on; a space keeps them apart.
            let length = groups.chars().count();
            groups.push_str(&" ".repeat(at.saturating_sub(length).max(usize::from(length > 0))));
            groups.push_str(group);
        }
        at += width(column);
    }

    let mut text = format!("{groups}\n{}\n", line(&COLUMNS.map(|(_, name)| name)));
    let mut last_rate = None;
    for row in &rows {
        if last_rate.is_some_and(|last| last != &row[0]) {
            text.push('\n');
        }
        last_rate = Some(&row[0]);
        let _ = writeln!(text, "{}", line(&row.each_ref().map(String::as_str)));
    }
    text.push('\n');
    for note in notes(rates, seats) {
        let _ = writeln!(text, "  {note}");
    }
    text
}

fn row(rate: u64, cell: Cell, sum: &Summary) -> [String; COLUMNS.len()] {
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
    ]
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

/// One sentence on what the table means, computed from it.
pub fn meaning(rates: &[RateSummary], seats: &Seats) -> String {
    format!("{}; {}.", latency_clause(rates, seats), neighbour_clause(rates, seats))
}

fn latency_clause(rates: &[RateSummary], seats: &Seats) -> String {
    let loaded = |at: &&RateSummary| at.cell(Cell::Twolane).is_some_and(|sum| latency(sum).1.is_some());
    let Some(low) = rates.iter().find(loaded) else {
        return match rates.iter().find_map(|at| at.cell(Cell::Twolane)).and_then(|sum| sum.split) {
            Some(split) => {
                format!("With no traffic offered, twolane's poll lane used {:.1} % of its cpu", 100.0 - split.park)
            }
            None => "Nothing was echoed".to_owned(),
        };
    };
    let describe = |at: &RateSummary| {
        let p50 = |cell| {
            let spread = at.cell(cell).and_then(|sum| latency(sum).1);
            spread.map_or_else(|| "nothing".to_owned(), |spread| format!("{} us", micros(spread.median)))
        };
        (p50(Cell::Twolane), p50(Cell::Tight), p50(Cell::Parked))
    };
    let what = low.cell(Cell::Twolane).map_or("", |sum| latency(sum).0);
    let (twolane, tight, parked) = describe(low);
    let mut text =
        format!("At {}/s twolane's median {what} is {twolane} (tight spin {tight}, parked {parked})", low.rate);
    if let Some(high) = rates.iter().rfind(loaded).filter(|high| high.rate != low.rate) {
        let (twolane, tight, parked) = describe(high);
        let _ = write!(text, " and at {}/s {twolane} ({tight}, {parked})", high.rate);
    }
    if let Some(sum) = low.cell(Cell::Twolane).filter(|_| !seats.one_lane) {
        let (duty, park) = (sum.duty, sum.split.map(|split| split.park));
        if let (Some(duty), Some(park)) = (duty, park) {
            let _ = write!(
                text,
                ", while at {}/s its lane was parked {park:.0} % of the time and waited with manners for {duty:.0} % of the \
                 rest of its idle time",
                low.rate
            );
        }
    }
    let lost = |cell| rates.iter().filter_map(|at| at.cell(cell)).map(Summary::lost).sum::<u64>();
    let (ours, tights) = (lost(Cell::Twolane), lost(Cell::Tight));
    if ours > tights {
        let _ = write!(text, ", and it lost {ours} datagrams where tight spin lost {tights}");
    }
    text
}

/// The best latency figure there is: residence, else end to end.
fn latency(sum: &Summary) -> (&'static str, Option<Spread>) {
    match sum.residence.p50 {
        Some(p50) => ("time from the kernel's receipt to the echo", Some(p50)),
        None => ("time end to end", sum.end_to_end.p50),
    }
}

fn neighbour_clause(rates: &[RateSummary], seats: &Seats) -> String {
    if seats.one_lane {
        return "server and neighbour share one thread here, so what relief is worth to the neighbour cannot show"
            .to_owned();
    }
    let gain = neighbour_gain(rates);
    let measured = gain.map(|gain| {
        let percent = gain.median * 100.0;
        match gain.noise {
            Some(noise) => {
                format!("{percent:+.1} % against tight spin, where repeats differ by ±{:.1} %", noise * 100.0)
            }
            None => format!("{percent:+.1} % against tight spin, measured once"),
        }
    });
    match (seats.sharing, gain, measured) {
        (Sharing::Seen, Some(gain), Some(measured)) if gain.noise.is_none_or(|noise| gain.median.abs() <= noise) => {
            format!("the neighbour's gain is not told apart from noise ({measured})")
        }
        (Sharing::Seen, Some(gain), Some(measured)) => {
            let word = if gain.median > 0.0 { "more" } else { "less" };
            format!("the neighbour on the sibling gets {word} done per second of its own cpu time ({measured})")
        }
        (Sharing::Denied, _, Some(measured)) => {
            format!(
                "the two lanes sit on different cores here, so the neighbour's gain cannot show (it measured {measured})"
            )
        }
        (_, _, Some(measured)) => {
            format!("siblings are not visible here, so the neighbour's gain cannot show (it measured {measured})")
        }
        _ => "the neighbour finished no event in some cell, so its gain is unknown".to_owned(),
    }
}

/// How much more the neighbour does beside twolane than beside tight spin.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gain {
    /// Median over the rates, as a part.
    median: f64,
    /// The largest spread of the repeats that went into it, as a part; unknown without repeats.
    noise: Option<f64>,
}

fn neighbour_gain(rates: &[RateSummary]) -> Option<Gain> {
    let pairs: Vec<(&Summary, &Summary)> =
        rates.iter().filter_map(|at| at.cell(Cell::Twolane).zip(at.cell(Cell::Tight))).collect();
    let own = pairs.iter().filter_map(|(ours, tight)| ours.neighbour_own.zip(tight.neighbour_own));
    let gains = Spread::of(own.clone().map(|(ours, tight)| ours.median / tight.median - 1.0))?;
    let repeated = pairs.iter().all(|(ours, tight)| ours.slots.min(tight.slots) > 1);
    let noise = repeated.then(|| own.map(|(ours, tight)| ours.relative().max(tight.relative())).fold(0.0, f64::max));
    Some(Gain { median: gains.median, noise })
}

/// The cells' figures as JSON: an array of rates, each with its cells by name.
pub fn to_json(rates: &[RateSummary]) -> Value {
    rates
        .iter()
        .map(|at| {
            let cells: Map<String, Value> =
                at.cells.iter().map(|(cell, sum)| (cell.name().to_owned(), cell_json(sum))).collect();
            json!({ "rate": at.rate, "cells": cells })
        })
        .collect()
}

fn cell_json(sum: &Summary) -> Value {
    let spread = |spread: Option<Spread>| spread.map(Spread::to_json);
    let latency = |latency: &Latency| {
        json!({
            "samples": latency.samples,
            "p50": spread(latency.p50), "p99": spread(latency.p99), "p999": latency.p999,
        })
    };
    let split = sum
        .split
        .map(|split| json!({ "busy": split.busy, "empty": split.empty, "doze": split.doze, "park": split.park }));
    json!({
        "slots": sum.slots,
        "offered": sum.offered, "sent": sum.sent, "echoed": sum.echoed,
        "lost": sum.lost(), "unsent": sum.unsent(), "server_sends_lost": sum.sends_lost,
        "residence_us": latency(&sum.residence),
        "end_to_end_us": latency(&sum.end_to_end),
        "client_late_us": latency(&sum.late),
        "neighbour_events_per_cpu_second": spread(sum.neighbour_own),
        "neighbour_events_per_second": spread(sum.neighbour_wall),
        "client_cpu_percent": spread(sum.client_cpu),
        "lane_percent": split,
        "duty_percent": sum.duty,
        "lane_preempted_percent": sum.preempted,
        "batch_mean": sum.batch_mean,
    })
}

fn micros(us: f64) -> String {
    if us < 100.0 { format!("{us:.1}") } else { format!("{us:.0}") }
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

    const SEATS: Seats = Seats {
        poll_lane: 0,
        compute_lanes: 1,
        one_lane: false,
        sharing: Sharing::Seen,
        client_cpu: Some(2),
        client_shares: false,
    };

    fn spread(median: f64, relative: f64) -> Option<Spread> {
        Some(Spread { median, min: median * (1.0 - relative), max: median * (1.0 + relative) })
    }

    fn summary(p50: f64, own: f64, apart: f64) -> Summary {
        Summary {
            slots: 3,
            offered: 100,
            sent: 100,
            echoed: 100,
            residence: Latency { samples: 100, p50: spread(p50, 0.0), p99: spread(2.0 * p50, 0.0), p999: None },
            neighbour_own: spread(own, apart),
            split: Some(Split { busy: 1.0, empty: 9.0, doze: 90.0, park: 0.0 }),
            duty: Some(90.9),
            ..Summary::default()
        }
    }

    fn rates(own: f64, apart: f64) -> Vec<RateSummary> {
        let cells = |scale: f64| {
            vec![
                (Cell::Tight, summary(2.0 * scale, 1_000.0, apart)),
                (Cell::Twolane, summary(2.5 * scale, own, apart)),
                (Cell::Parked, summary(40.0 * scale, 1_100.0, apart)),
            ]
        };
        vec![RateSummary { rate: 1_000, cells: cells(1.0) }, RateSummary { rate: 50_000, cells: cells(3.0) }]
    }

    #[test]
    fn the_sentence_says_what_the_numbers_say() {
        let seen = meaning(&rates(1_150.0, 0.01), &SEATS);
        assert!(seen.contains("At 1000/s") && seen.contains("2.5 us (tight spin 2.0 us, parked 40.0 us)"), "{seen}");
        assert!(seen.contains("at 50000/s 7.5 us"), "{seen}");
        assert!(seen.contains("gets more done") && seen.contains("+15.0 %"), "{seen}");

        let worse = meaning(&rates(900.0, 0.01), &SEATS);
        assert!(worse.contains("gets less done") && worse.contains("-10.0 %"), "{worse}");

        let noisy = meaning(&rates(1_050.0, 0.2), &SEATS);
        assert!(noisy.contains("not told apart from noise") && noisy.contains("±20.0 %"), "{noisy}");

        let mut once = rates(1_150.0, 0.0);
        once.iter_mut().flat_map(|at| &mut at.cells).for_each(|(_, sum)| sum.slots = 1);
        let once = meaning(&once, &SEATS);
        assert!(once.contains("not told apart from noise") && once.contains("measured once"), "{once}");
    }

    #[test]
    fn the_sentence_claims_no_gain_that_cannot_show() {
        for (sharing, why) in [(Sharing::Unknown, "siblings are not visible"), (Sharing::Denied, "on different cores")]
        {
            let hidden = meaning(&rates(1_150.0, 0.01), &Seats { sharing, ..SEATS });
            assert!(hidden.contains(why) && hidden.contains("so the neighbour's gain cannot show"), "{hidden}");
        }
        let one = meaning(&rates(1_150.0, 0.01), &Seats { one_lane: true, ..SEATS });
        assert!(one.contains("share one thread") && !one.contains('+'), "{one}");
    }

    #[test]
    fn the_sentence_admits_losses() {
        let mut rates = rates(1_000.0, 0.0);
        rates[1].cells[1].1.echoed = 93;
        let text = meaning(&rates, &SEATS);
        assert!(text.contains("it lost 7 datagrams where tight spin lost 0"), "{text}");
    }

    #[test]
    fn it_is_one_sentence_whatever_there_is() {
        let idle = Summary { residence: Latency::default(), offered: 0, sent: 0, echoed: 0, ..summary(1.0, 1.0, 0.0) };
        let idle = vec![RateSummary { rate: 0, cells: vec![(Cell::Twolane, idle)] }];
        for rates in [idle, Vec::new(), rates(1_000.0, 0.1)] {
            let text = meaning(&rates, &SEATS);
            assert!(text.ends_with('.') && !text.contains(". ") && !text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn without_receive_stamps_end_to_end_takes_the_place_of_residence() {
        let mut rates = rates(1_000.0, 0.0);
        for (_, sum) in rates.iter_mut().flat_map(|at| &mut at.cells) {
            sum.end_to_end = std::mem::take(&mut sum.residence);
        }
        assert!(meaning(&rates, &SEATS).contains("time end to end is 2.5 us"));
        assert!(table(&rates, &SEATS).contains("SO_TIMESTAMPNS"));
    }

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
    fn json_names_the_cells_and_keeps_absent_figures_null() {
        let value = to_json(&rates(1_150.0, 0.01));
        assert_eq!(value[0]["rate"], 1_000);
        for cell in Cell::ALL {
            assert_eq!(value[1]["cells"][cell.name()]["echoed"], 100);
        }
        assert_eq!(value[0]["cells"]["twolane"]["residence_us"]["p50"]["median"], 2.5);
        assert!(value[0]["cells"]["twolane"]["end_to_end_us"]["p50"].is_null());
    }
}
