//! What the table means, in one sentence that its numbers allow. Pure.
//!
//! The sentence compares latencies at the lowest and the highest loaded rate, says what the lane's idle time went to, and
//! claims a gain for the neighbour only where siblings are seen (by the machine, or by enough looks of the probe) and the
//! difference stands out of the repeats.

use std::fmt::Write as _;

use twolane::placement::Sharing;

use crate::cells::{Cell, Seats};
use crate::figures::{Spread, micros};
use crate::siblings::{SeenCounts, Siblings};
use crate::summary::{RateSummary, Summary};

/// One sentence on what the table means, computed from it.
pub fn meaning(rates: &[RateSummary], seats: &Seats, siblings: &Siblings) -> String {
    format!("{}; {}.", latency_clause(rates, seats), neighbour_clause(rates, seats, siblings))
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

fn neighbour_clause(rates: &[RateSummary], seats: &Seats, siblings: &Siblings) -> String {
    if seats.one_lane {
        return "server and neighbour share one thread here, so what relief is worth to the neighbour cannot show"
            .to_owned();
    }
    if siblings.resolved() {
        return recovery_clause(siblings);
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
    let SeenCounts { shared, separate, .. } = siblings.slots;
    let watched = siblings.slots.watched();
    match (seats.sharing, gain, measured) {
        (Sharing::Seen, _, Some(measured)) if separate > shared => format!(
            "the machine shows the lanes as siblings, but a probe saw them on separate cores around {separate} of {watched} \
             slots, so the neighbour's gain stays open (it measured {measured})"
        ),
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
        (_, _, Some(measured)) if watched > 0 => format!(
            "siblings are not visible here, and a probe saw the lanes share a core around {shared} of {watched} slots, too \
             few, so the neighbour's gain cannot show (it measured {measured})"
        ),
        (_, _, Some(measured)) => {
            format!("siblings are not visible here, so the neighbour's gain cannot show (it measured {measured})")
        }
        _ => "the neighbour finished no event in some cell, so its gain is unknown".to_owned(),
    }
}

/// What the slots on a shared core say, once there are enough.
fn recovery_clause(siblings: &Siblings) -> String {
    let slots = siblings.slots.shared;
    let seen = format!("in the {slots} slots around which a probe saw the lanes share a core");
    match (siblings.recovered_percent, siblings.lost_percent) {
        (Some(recovered), Some(lost)) => format!(
            "{seen}, the neighbour got back {recovered:.0} % of what tight spin takes from it, at an echo loss of {lost:.2} %"
        ),
        (Some(recovered), None) => {
            format!("{seen}, the neighbour got back {recovered:.0} % of what tight spin takes from it")
        }
        (None, _) => format!("{seen}, tight spin took nothing from the neighbour that it could get back"),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Shadows the real one: these sweeps were not watched.
    fn meaning(rates: &[RateSummary], seats: &Seats) -> String {
        super::meaning(rates, seats, &Siblings::default())
    }
    use crate::fixtures::{SEATS, rates, summary};
    use crate::summary::Latency;

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
    }

    #[test]
    fn what_the_probe_saw_decides_where_the_machine_hides_it() {
        let watched = |shared, separate| Siblings {
            slots: SeenCounts { shared, separate, ..SeenCounts::default() },
            recovered_percent: Some(93.0),
            lost_percent: Some(0.25),
            why_not: None,
        };
        let hidden = Seats { sharing: Sharing::Unknown, ..SEATS };
        let rates = rates(1_150.0, 0.01);
        let table = [
            (&hidden, watched(30, 60), "got back 93 % of what tight spin takes from it, at an echo loss of 0.25 %"),
            (
                &hidden,
                watched(29, 61),
                "share a core around 29 of 90 slots, too few, so the neighbour's gain cannot show",
            ),
            (&SEATS, watched(2, 88), "on separate cores around 88 of 90 slots, so the neighbour's gain stays open"),
            (&SEATS, watched(29, 0), "gets more done"),
        ];
        for (seats, siblings, want) in table {
            let text = super::meaning(&rates, seats, &siblings);
            assert!(text.contains(want), "{want:?} in {text}");
        }
    }
}
