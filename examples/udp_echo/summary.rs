//! From slots to one line a cell: medians over the repeats with their spread, counts added up.

use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::cells::Cell;
use crate::clock::NS_PER_S;
use crate::figures::{self, Spread, percent, ratio};
use crate::siblings::SeenCounts;
use crate::sweep::Slot;

/// All cells at one rate.
#[derive(Debug)]
pub struct RateSummary {
    /// Datagrams offered a second.
    pub rate: u64,
    /// One entry a cell, in the order of [`Cell::ALL`]; a cell without slots is absent.
    pub cells: Vec<(Cell, Summary)>,
}

/// One cell at one rate.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Slots behind it.
    pub slots: usize,
    /// Datagrams that were due.
    pub offered: u64,
    /// Of those, sent.
    pub sent: u64,
    /// Of those, echoed.
    pub echoed: u64,
    /// Server: from the kernel's receive stamp to after the send.
    pub residence: Latency,
    /// Client: from due time to receipt.
    pub end_to_end: Latency,
    /// Client: from due time to just before the send.
    pub late: Latency,
    /// The neighbour's events per second of its threads' own cpu time.
    pub neighbour_own: Option<Spread>,
    /// The neighbour's events per second of wall time.
    pub neighbour_wall: Option<Spread>,
    /// Cpu time of the client's process, in percent of one cpu.
    pub client_cpu: Option<Spread>,
    /// How the poll lane's time split, in percent of what it accounts for.
    pub split: Option<Split>,
    /// Waiting with manners, in percent of the time on the cpu without work: doze / (doze + empty).
    pub duty: Option<f64>,
    /// Time in which the poll lane was ready and something else had its cpu, in percent of wall time.
    pub preempted: Option<f64>,
    /// Datagrams the server received a batch, on average.
    pub batch_mean: Option<f64>,
    /// Echoes that the server could not send.
    pub sends_lost: u64,
    /// Slots by whether the two lanes shared a core around them.
    pub seen: SeenCounts,
}

/// Quantiles of a latency in microseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latency {
    /// Samples in all slots.
    pub samples: u64,
    /// Median over the slots of each slot's p50.
    pub p50: Option<Spread>,
    /// Median over the slots of each slot's p99.
    pub p99: Option<Spread>,
    /// Of all slots' samples together, if there are [`figures::P999_SAMPLES_MIN`].
    pub p999: Option<f64>,
}

/// Parts of a lane's time in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// In calls that found something.
    pub busy: f64,
    /// In calls that found nothing, and spinning.
    pub empty: f64,
    /// Waiting with manners.
    pub doze: f64,
    /// Blocked in the kernel.
    pub park: f64,
}

/// Sums up a sweep; slots come in any order.
pub fn summarise(rates: &[u64], slots: &[(u64, Cell, Slot)]) -> Vec<RateSummary> {
    let of = |rate: u64, cell: Cell| -> Vec<&Slot> {
        slots.iter().filter(|(at, of, _)| (*at, *of) == (rate, cell)).map(|(_, _, slot)| slot).collect()
    };
    let cells =
        |rate| Cell::ALL.into_iter().map(move |cell| (cell, of(rate, cell))).filter(|(_, slots)| !slots.is_empty());
    rates
        .iter()
        .map(|&rate| RateSummary {
            rate,
            cells: cells(rate).map(|(cell, slots)| (cell, Summary::of(&slots))).collect(),
        })
        .collect()
}

impl RateSummary {
    /// The line of one cell.
    pub fn cell(&self, wanted: Cell) -> Option<&Summary> {
        self.cells.iter().find(|(cell, _)| *cell == wanted).map(|(_, summary)| summary)
    }
}

impl Summary {
    /// Of the repeats of one cell at one rate.
    pub fn of(slots: &[&Slot]) -> Self {
        let clients = || slots.iter().filter_map(|slot| slot.client.as_ref());
        let lane_seconds =
            |part: fn(&Slot) -> std::time::Duration| -> f64 { slots.iter().map(|slot| part(slot).as_secs_f64()).sum() };
        let (busy, empty) = (lane_seconds(|slot| slot.lane.busy), lane_seconds(|slot| slot.lane.empty));
        let (doze, park) = (lane_seconds(|slot| slot.lane.doze), lane_seconds(|slot| slot.lane.park));
        let split = |part| percent(part, busy + empty + doze + park);
        let batches: u64 = slots.iter().map(|slot| slot.tally.batches).sum();
        let answered: u64 = slots.iter().map(|slot| slot.tally.echoed + slot.tally.sends_lost).sum();
        Self {
            slots: slots.len(),
            offered: clients().map(|client| client.offered).sum(),
            sent: clients().map(|client| client.sent).sum(),
            echoed: clients().map(|client| client.echoed).sum(),
            residence: Latency::of(slots.iter().map(|slot| &slot.tally.residence)),
            end_to_end: Latency::of(clients().map(|client| &client.end_to_end)),
            late: Latency::of(clients().map(|client| &client.late)),
            neighbour_own: Spread::of(
                slots
                    .iter()
                    .filter_map(|slot| ratio(slot.work.events as f64 * NS_PER_S as f64, slot.work.cpu_ns as f64)),
            ),
            neighbour_wall: Spread::of(
                slots.iter().filter_map(|slot| ratio(slot.work.events as f64, slot.wall.as_secs_f64())),
            ),
            client_cpu: Spread::of(clients().filter_map(|client| percent(client.cpu_ns as f64, client.took_ns as f64))),
            split: split(busy).map(|busy| {
                let part = |seconds| split(seconds).unwrap_or_default();
                Split { busy, empty: part(empty), doze: part(doze), park: part(park) }
            }),
            duty: percent(doze, doze + empty),
            preempted: percent(lane_seconds(|slot| slot.lane.preempted), lane_seconds(|slot| slot.wall)),
            batch_mean: ratio(answered as f64, batches as f64),
            sends_lost: slots.iter().map(|slot| slot.tally.sends_lost).sum(),
            seen: SeenCounts::of(slots.iter().copied()),
        }
    }

    /// Sent, and never echoed.
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.echoed)
    }

    /// Due, and never sent: the client could not keep up.
    pub fn unsent(&self) -> u64 {
        self.offered.saturating_sub(self.sent)
    }
}

impl Latency {
    /// Of each slot's samples.
    pub fn of<'h>(slots: impl Iterator<Item = &'h Histogram<u64>> + Clone) -> Self {
        let all = figures::merged(slots.clone());
        Self {
            samples: all.len(),
            p50: Spread::of(slots.clone().filter_map(|slot| figures::quantile_us(slot, 0.50))),
            p99: Spread::of(slots.filter_map(|slot| figures::quantile_us(slot, 0.99))),
            p999: figures::p999_us(&all),
        }
    }
}

/// A sweep as JSON: an array of rates, each with its cells by name. Absent figures are null.
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
        "core_slots": sum.seen.to_json(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{self, slot};
    use crate::server::Tally;
    use crate::sweep::LaneTime;

    #[test]
    fn repeats_become_one_line() {
        let (one, two, three) = (slot(10, 80), slot(30, 90), slot(20, 85));
        let sum = Summary::of(&[&one, &two, &three]);
        assert_eq!((sum.slots, sum.offered, sum.sent, sum.echoed), (3, 300, 270, 255));
        assert_eq!((sum.lost(), sum.unsent()), (15, 30));
        assert_eq!(sum.neighbour_own, Some(Spread { median: 400.0, min: 200.0, max: 600.0 }), "of own cpu time");
        assert_eq!(sum.neighbour_wall, Some(Spread { median: 200.0, min: 100.0, max: 300.0 }), "of wall time");
        assert_eq!(sum.client_cpu.map(|spread| spread.median), Some(10.0));
        assert_eq!(sum.duty, Some(75.0), "doze 60 of the 80 ms without work on the cpu");
        let split = sum.split.expect("there is time to split");
        assert!((split.busy - 10.0).abs() < 1e-9 && (split.park - 10.0).abs() < 1e-9);
        assert_eq!(sum.batch_mean, Some(8.5));
        assert!(sum.preempted.is_some_and(|percent| (percent - 5.0).abs() < 1e-9));
        assert_eq!(sum.end_to_end.p999, None, "too few samples");
    }

    #[test]
    fn an_idle_slot_has_no_latency_and_no_duty_without_time() {
        let idle = Slot { client: None, lane: LaneTime::default(), tally: Tally::default(), ..slot(1, 1) };
        let sum = Summary::of(&[&idle]);
        assert_eq!((sum.offered, sum.duty, sum.batch_mean), (0, None, None));
        assert_eq!((sum.end_to_end.p50, sum.residence.p50, sum.client_cpu), (None, None, None));
        assert!(sum.split.is_none());
    }

    #[test]
    fn slots_find_their_rate_and_cell() {
        let slots = [(0, Cell::Tight, slot(1, 1)), (5, Cell::Parked, slot(2, 2)), (5, Cell::Parked, slot(3, 3))];
        let rates = summarise(&[0, 5], &slots);
        assert_eq!(rates[0].cell(Cell::Tight).map(|sum| sum.slots), Some(1));
        assert_eq!(rates[1].cell(Cell::Parked).map(|sum| sum.slots), Some(2));
        assert!(rates[1].cell(Cell::Twolane).is_none());
    }

    #[test]
    fn json_names_the_cells_and_keeps_absent_figures_null() {
        let value = to_json(&fixtures::rates(1_150.0, 0.01));
        assert_eq!(value[0]["rate"], 1_000);
        for cell in Cell::ALL {
            assert_eq!(value[1]["cells"][cell.name()]["echoed"], 100);
        }
        assert_eq!(value[0]["cells"]["twolane"]["residence_us"]["p50"]["median"], 2.5);
        assert!(value[0]["cells"]["twolane"]["end_to_end_us"]["p50"].is_null());
    }
}
