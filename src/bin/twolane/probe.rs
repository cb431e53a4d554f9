//! `twolane doctor --probe`: measures whether the cpus of a pair share a core, and says so beside what the machine states.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use twolane::topology::probe::{Probe, ProbeError, Report, Seen, Verdict};
use twolane::topology::{Smt, Topology};
use twolane::{Plan, Runtime};

/// Two cpus, typed as `A,B`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair(usize, usize);

impl FromStr for Pair {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cpu = |word: &str| word.trim().parse::<usize>().ok();
        text.split_once(',')
            .and_then(|(first, second)| Some(Self(cpu(first)?, cpu(second)?)))
            .ok_or_else(|| "not two cpus with a comma between, such as 2,3".to_owned())
    }
}

/// What came of a pair.
#[derive(Debug)]
pub struct Probed {
    pair: Pair,
    /// What the machine states: "seen", "denied" or "unknown".
    stated: &'static str,
    found: Result<Report, ProbeError>,
}

/// Probes the pair that was named, or every pair of the default plan, one after the other.
///
/// # Errors
/// A message, if the pair that was named cannot be probed, or the duration is out of range.
pub fn run(named: Option<Pair>, total: Duration) -> Result<Vec<Probed>, String> {
    let topology = Topology::read().ok();
    let probe = |pair: Pair| {
        let Pair(first, second) = pair;
        let stated = topology.as_ref().map_or("unknown", |topology| stated(topology, pair));
        Probed { pair, stated, found: Probe::of(first, second).total(total).run() }
    };
    let pairs = match named {
        Some(pair) => vec![pair],
        // Without a plan there is no pair either; why there is none, the findings say.
        None => Runtime::builder().plan().map(|plan| planned(&plan)).unwrap_or_default(),
    };
    let mut all = Vec::new();
    for pair in pairs {
        let probed = probe(pair);
        match &probed.found {
            Err(error) if named.is_some() => return Err(format!("--probe {},{}: {error}", pair.0, pair.1)),
            Err(error @ ProbeError::Knob { .. }) => return Err(format!("--probe-seconds: {error}")),
            _ => all.push(probed),
        }
    }
    Ok(all)
}

/// The pairs of a plan whose lanes sit on two cpus: each compute lane's cpu and its partner's.
fn planned(plan: &Plan) -> Vec<Pair> {
    let pair = |lane: &twolane::placement::LanePlan| {
        let first = lane.cpu?;
        let second = plan.lanes.get(lane.partner?)?.cpu?;
        (lane.role == twolane::Role::Poll && first != second).then_some(Pair(first, second))
    };
    plan.lanes.iter().filter_map(pair).collect()
}

/// What the machine states about two cpus on one core.
fn stated(topology: &Topology, Pair(first, second): Pair) -> &'static str {
    match topology.smt {
        _ if topology.siblings(first).iter().any(|cpu| cpu.id == second) => "seen",
        Smt::Visible => "denied",
        Smt::Absent if !topology.hypervisor => "denied",
        _ => "unknown",
    }
}

/// A section for people.
pub fn as_text(probed: &[Probed]) -> String {
    let mut text = String::from("probe\n");
    if probed.is_empty() {
        text += "  nothing to probe: the plan has no pair on two cpus (see `twolane plan`)\n";
        return text;
    }
    for Probed { pair: Pair(first, second), stated, found } in probed {
        let shown = match found {
            Ok(report) => report.to_string(),
            Err(error) => format!("cpus {first} and {second}  {error}\n"),
        };
        shown.lines().for_each(|line| text += &format!("  {line}\n"));
        text += &format!("    stated    {}\n", in_words(stated));
    }
    text + "  Measured, not the hardware's word: this is how the cpus behaved while it looked, and\n  \
            a hypervisor may move them at any time.\n"
}

fn in_words(stated: &str) -> &'static str {
    match stated {
        "seen" => "the machine shows them as siblings",
        "denied" => "the machine shows them on different cores",
        _ => "the machine does not say whether they share a core",
    }
}

/// The list for programs.
pub fn as_json(probed: &[Probed]) -> Value {
    probed.iter().map(one_as_json).collect()
}

fn one_as_json(Probed { pair: Pair(first, second), stated, found }: &Probed) -> Value {
    let report = match found {
        Ok(report) => report,
        Err(error) => {
            return json!({
                "cpus": [first, second], "stated": stated, "verdict": "unclear", "error": error.to_string(),
            });
        }
    };
    let ratio = match report.verdict {
        Verdict::Shared { ratio } | Verdict::Separate { ratio } => Some(ratio),
        _ => None,
    };
    let counts = report.counts();
    let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
    let windows: Vec<Value> = report
        .windows
        .iter()
        .map(|window| {
            json!({
                "at_ms": ms(window.at), "took_ms": ms(window.took), "seen": window.seen.name(),
                "why": match window.seen { Seen::Unclear(doubt) => Some(doubt.to_string()), _ => None },
                "ratio": window.ratio.map(|ratio| json!([ratio.low, ratio.median, ratio.high])),
                "spin": window.spin, "pauses": window.pauses, "rounds": window.rounds, "dropped": window.dropped,
            })
        })
        .collect();
    json!({
        "cpus": [first, second],
        "stated": stated,
        "verdict": report.verdict.name(),
        "says": report.verdict.to_string(),
        "ratio": ratio,
        "shared_windows": counts.shared,
        "separate_windows": counts.separate,
        "unclear_windows": counts.unclear,
        "given_back": report.given_back().map(|back| json!({ "spin": back.spin, "pauses": back.pauses, "part": back.part })),
        "changes": report.changes().len(),
        "steal_percent": report.steal_percent,
        "took_ms": ms(report.took),
        "windows": windows,
        "error": null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_is_two_numbers() {
        assert_eq!("2,13".parse(), Ok(Pair(2, 13)));
        assert_eq!("2, 3".parse(), Ok(Pair(2, 3)));
        for odd in ["", "2", "2-3", "2,3,4", "a,b", ",", "-1,2", "2,"] {
            assert!(odd.parse::<Pair>().is_err(), "{odd:?}");
        }
    }
}
