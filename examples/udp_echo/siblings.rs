//! What relief is worth to a sibling: only from slots around which the two lanes were seen to share a core. Pure.

use std::fmt;

use serde_json::{Value, json};
use twolane::topology::probe::{SIBLING_WINDOWS_MIN, Seen};

use crate::cells::Cell;
use crate::clock::NS_PER_S;
use crate::figures::{Spread, percent, ratio};
use crate::sweep::Slot;

/// Slots by what was seen before and after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenCounts {
    /// The lanes shared a core.
    pub shared: usize,
    /// They did not.
    pub separate: usize,
    /// Nobody can say, or it changed.
    pub unclear: usize,
    /// Nobody looked.
    pub unwatched: usize,
}

impl SeenCounts {
    /// Of some slots.
    pub fn of<'s>(slots: impl IntoIterator<Item = &'s Slot>) -> Self {
        let mut counts = Self::default();
        for slot in slots {
            *match slot.seen {
                Some(Seen::Shared) => &mut counts.shared,
                Some(Seen::Separate) => &mut counts.separate,
                Some(_) => &mut counts.unclear,
                None => &mut counts.unwatched,
            } += 1;
        }
        counts
    }

    /// Slots that were looked at.
    pub fn watched(&self) -> usize {
        self.shared + self.separate + self.unclear
    }

    /// For machines.
    pub fn to_json(self) -> Value {
        json!({
            "shared": self.shared, "separate": self.separate, "unclear": self.unclear, "unwatched": self.unwatched,
        })
    }
}

/// What a sweep saw of siblings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Siblings {
    /// All slots of the sweep.
    pub slots: SeenCounts,
    /// What the neighbour gets back of what tight spin takes from it, (twolane - tight) / (parked - tight) in percent: the
    /// median over the rates. Only if enough slots saw sharing, and there is something to get back.
    pub recovered_percent: Option<f64>,
    /// Datagrams that twolane lost in those slots, in percent of the sent ones; under the same conditions.
    pub lost_percent: Option<f64>,
    /// Why nobody looked.
    pub why_not: Option<String>,
}

impl Siblings {
    /// Of a sweep; slots come in any order.
    pub fn of(rates: &[u64], slots: &[(u64, Cell, Slot)], why_not: Option<String>) -> Self {
        let counts = SeenCounts::of(slots.iter().map(|(_, _, slot)| slot));
        let mut siblings = Self { slots: counts, why_not, ..Self::default() };
        if siblings.resolved() {
            let shared = |rate: u64, cell: Cell| -> Vec<&Slot> {
                let of = slots.iter().filter(move |(at, of, _)| (*at, *of) == (rate, cell));
                of.map(|(_, _, slot)| slot).filter(|slot| slot.seen == Some(Seen::Shared)).collect()
            };
            let recovered = rates.iter().filter_map(|&rate| recovered(|cell| own_rate(&shared(rate, cell))));
            siblings.recovered_percent = Spread::of(recovered).map(|spread| spread.median);
            let clients = rates.iter().flat_map(|&rate| shared(rate, Cell::Twolane));
            let clients = clients.filter_map(|slot| slot.client.as_ref());
            let (sent, echoed) =
                clients.fold((0, 0), |(sent, echoed), client| (sent + client.sent, echoed + client.echoed));
            siblings.lost_percent = percent(sent as f64 - echoed as f64, sent as f64);
        }
        siblings
    }

    /// Enough slots saw sharing for a figure about siblings.
    pub fn resolved(&self) -> bool {
        self.slots.shared >= SIBLING_WINDOWS_MIN
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        json!({
            "sibling_windows_seen": self.slots.shared,
            "wanted": SIBLING_WINDOWS_MIN,
            "resolved": self.resolved(),
            "slots": self.slots.to_json(),
            "recovered_percent": self.recovered_percent,
            "lost_percent": self.lost_percent,
            "why_not": self.why_not,
        })
    }
}

impl fmt::Display for Siblings {
    /// One line, whatever was seen.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SeenCounts { shared, separate, unclear, .. } = self.slots;
        write!(f, "sibling_windows_seen {shared}")?;
        if let Some(why) = &self.why_not {
            return write!(f, ": unresolved, {why}");
        }
        write!(f, " of {} slots ({separate} on separate cores, {unclear} unclear)", self.slots.watched())?;
        if !self.resolved() {
            return write!(
                f,
                ": unresolved, what relief is worth to a sibling takes {SIBLING_WINDOWS_MIN} slots on a shared core"
            );
        }
        match self.recovered_percent {
            Some(percent) => write!(f, ": the neighbour recovered {percent:.0} % of what tight spin takes from it")?,
            None => write!(f, ": tight spin took nothing from the neighbour that it could recover")?,
        }
        match self.lost_percent {
            Some(percent) => write!(f, ", at an echo loss of {percent:.2} %"),
            None => Ok(()),
        }
    }
}

/// The neighbour's events per second of its own cpu time, the median over the slots.
fn own_rate(slots: &[&Slot]) -> Option<f64> {
    let rates =
        slots.iter().filter_map(|slot| ratio(slot.work.events as f64 * NS_PER_S as f64, slot.work.cpu_ns as f64));
    Spread::of(rates).map(|spread| spread.median)
}

/// In percent; nothing where parking gives the neighbour no more than tight spin does, or a cell is missing.
fn recovered(own: impl Fn(Cell) -> Option<f64>) -> Option<f64> {
    let (tight, ours, parked) = (own(Cell::Tight)?, own(Cell::Twolane)?, own(Cell::Parked)?);
    percent(ours - tight, parked - tight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::slot;
    use twolane::topology::probe::Doubt;

    /// So many slots a cell at one rate, in which the neighbour does that many events in the cells' order.
    fn sweep(count: usize, events: [u64; 3], seen: Option<Seen>) -> Vec<(u64, Cell, Slot)> {
        let slots = (0..count).flat_map(|_| Cell::ALL.into_iter().zip(events));
        slots.map(|(cell, events)| (1_000, cell, Slot { seen, ..slot(events, 90) })).collect()
    }

    #[test]
    fn figures_come_from_shared_slots_alone() {
        let mut slots = sweep(10, [100, 118, 120], Some(Seen::Shared));
        // On separate cores there is nothing to recover; these must not water it down.
        slots.extend(sweep(40, [120, 120, 120], Some(Seen::Separate)));
        slots.extend(sweep(5, [1, 1, 1], Some(Seen::Unclear(Doubt::Changed))));
        let found = Siblings::of(&[1_000], &slots, None);
        assert_eq!(found.slots, SeenCounts { shared: 30, separate: 120, unclear: 15, unwatched: 0 });
        assert!(found.recovered_percent.is_some_and(|percent| (percent - 90.0).abs() < 1e-9), "{found:?}");
        assert_eq!(found.lost_percent, Some(0.0), "90 sent, 90 echoed");
        let text = found.to_string();
        assert!(text.contains("sibling_windows_seen 30 of 165") && text.contains("recovered 90 %"), "{text}");
    }

    #[test]
    fn too_few_slots_resolve_nothing() {
        let mut slots = sweep(10, [100, 118, 120], Some(Seen::Shared));
        slots.pop();
        let found = Siblings::of(&[1_000], &slots, None);
        assert_eq!((found.slots.shared, found.resolved(), found.recovered_percent), (29, false, None));
        assert!(
            found.to_string().contains("sibling_windows_seen 29 of 29") && found.to_string().contains("unresolved")
        );
        assert_eq!(found.to_json()["resolved"], false);
    }

    #[test]
    fn the_line_is_there_whatever_was_seen() {
        let unwatched = Siblings::of(&[1_000], &sweep(20, [1, 1, 1], None), Some("not probed (--probe 0)".to_owned()));
        assert_eq!(unwatched.to_string(), "sibling_windows_seen 0: unresolved, not probed (--probe 0)");
        let level = Siblings::of(&[1_000], &sweep(10, [100, 100, 100], Some(Seen::Shared)), None);
        assert_eq!(level.recovered_percent, None);
        assert!(level.to_string().contains("took nothing"), "{level}");
    }
}
