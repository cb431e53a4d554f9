//! Prints a [`Plan`] for people: a table of lanes, then what is left out and why, then notes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::planner::left_empty;
use super::ranges::{Cpus, Ranges};
use super::{LanePlan, Plan, Role, Sharing};

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_lanes(f, self)?;
        let groups = left_out(self);
        if !groups.is_empty() {
            writeln!(f, "left out")?;
        }
        for (cpus, reason) in groups {
            writeln!(f, "  {}: {reason}", Cpus(&cpus))?;
        }
        if !self.notes.is_empty() {
            writeln!(f, "notes")?;
        }
        for note in &self.notes {
            writeln!(f, "  {note}")?;
        }
        Ok(())
    }
}

/// One column: its title, and whether its cells are numbers, which stand at its right edge.
type Column = (&'static str, bool);

const COLUMNS: [Column; 9] = [
    ("lane", true),
    ("pair", true),
    ("role", false),
    ("cpu", true),
    ("partner", true),
    ("siblings", false),
    ("sharing", false),
    ("cache", true),
    ("node", true),
];

/// What a cell shows that has nothing to say: an unpinned lane's cpu, a shared lane's partner.
const NOTHING: &str = "-";

fn write_lanes(f: &mut fmt::Formatter<'_>, plan: &Plan) -> fmt::Result {
    let rows: Vec<_> = plan.lanes.iter().map(|lane| cells(lane, plan)).collect();
    let widths: [usize; COLUMNS.len()] = std::array::from_fn(|at| {
        let cells = rows.iter().map(|row| row[at].len());
        cells.max().unwrap_or(0).max(COLUMNS[at].0.len())
    });
    for row in std::iter::once(COLUMNS.map(|(title, _)| title.to_owned())).chain(rows) {
        let mut line = String::new();
        for ((cell, width), (_, number)) in row.iter().zip(widths).zip(COLUMNS) {
            let padded = if number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
            line += &padded;
            line += "  ";
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

fn cells(lane: &LanePlan, plan: &Plan) -> [String; COLUMNS.len()] {
    let pinned = |number: usize| if lane.cpu.is_some() { number.to_string() } else { NOTHING.to_owned() };
    let partner = lane.partner.and_then(|at| plan.lanes.get(at)).and_then(|partner| partner.cpu);
    let siblings: BTreeSet<usize> = lane.siblings.iter().copied().collect();
    [
        lane.lane.to_string(),
        lane.pair.to_string(),
        role(lane.role).to_owned(),
        lane.cpu.map_or_else(|| NOTHING.to_owned(), |cpu| cpu.to_string()),
        partner.map_or_else(|| NOTHING.to_owned(), |cpu| cpu.to_string()),
        if siblings.is_empty() { NOTHING.to_owned() } else { Ranges(&siblings).to_string() },
        plan.sharing.get(lane.pair).map_or_else(|| NOTHING.to_owned(), Sharing::to_string),
        pinned(lane.llc),
        pinned(lane.node),
    ]
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Poll => "poll",
        Role::Compute => "compute",
        Role::Shared => "shared",
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Seen => "seen",
            Self::Denied => "denied",
            Self::Unknown => "unknown",
        })
    }
}

/// Cpus with one reason, gathered; groups ascend by their lowest cpu.
fn left_out(plan: &Plan) -> Vec<(BTreeSet<usize>, String)> {
    let mut groups: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    // On a machine with a thousand cores, "sibling of cpu N" would be a thousand lines: all these share one.
    let empty_siblings = empty_siblings(plan);
    for left in plan.left_out.iter().filter(|left| !empty_siblings.contains_key(&left.cpu)) {
        groups.entry(&left.reason).or_default().insert(left.cpu);
    }
    let mut groups: Vec<_> = groups.into_iter().map(|(reason, cpus)| (cpus, reason.to_owned())).collect();
    if !empty_siblings.is_empty() {
        let of: BTreeSet<usize> = empty_siblings.values().copied().collect();
        let noun = if empty_siblings.len() == 1 { "sibling" } else { "siblings" };
        groups.push((empty_siblings.into_keys().collect(), format!("{noun} of {}, left empty", Cpus(&of))));
    }
    groups.sort();
    groups
}

/// Cpus left empty for the sake of a lane on their core, with that lane's cpu.
fn empty_siblings(plan: &Plan) -> BTreeMap<usize, usize> {
    let reasons: BTreeMap<usize, &str> = plan.left_out.iter().map(|left| (left.cpu, left.reason.as_str())).collect();
    let mut empty = BTreeMap::new();
    for lane in &plan.lanes {
        let Some(cpu) = lane.cpu else { continue };
        let expected = left_empty(cpu);
        let siblings = lane.siblings.iter().filter(|id| reasons.get(id).is_some_and(|reason| *reason == expected));
        empty.extend(siblings.map(|id| (*id, cpu)));
    }
    empty
}
