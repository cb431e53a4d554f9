//! Outcomes as a table, as CSV and as charts.

mod chart;

use super::engine::Outcome;
use std::fmt::Write as _;

/// One policy on one traffic.
#[derive(Clone, Debug)]
pub struct Row {
    /// The traffic's name.
    pub traffic: String,
    /// The cost of an empty pass, nanoseconds.
    pub pass_ns: u64,
    /// The policy's name.
    pub policy: String,
    /// Which curve of a chart it belongs to, if any: rows of one curve are settings of one policy.
    pub curve: Option<String>,
    /// Latency beyond that of tight polling: mean, 99th and 99.9th percentile, nanoseconds.
    pub added_ns: [f64; 3],
    /// See [`Outcome::duty`].
    pub duty: f64,
    /// See [`Outcome::cpu`].
    pub cpu: f64,
}

impl Row {
    /// What `outcome` adds to `tight`.
    pub fn new(traffic: &str, pass_ns: u64, policy: &str, outcome: &Outcome, tight: &Outcome) -> Self {
        let beyond = |q| outcome.quantile_ns(q) as f64 - tight.quantile_ns(q) as f64;
        Self {
            traffic: traffic.into(),
            pass_ns,
            policy: policy.into(),
            curve: None,
            added_ns: [outcome.mean_ns() - tight.mean_ns(), beyond(0.99), beyond(0.999)],
            duty: outcome.duty(),
            cpu: outcome.cpu(),
        }
    }

    /// As a point of a curve.
    pub fn on_curve(self, curve: &str) -> Self {
        Self { curve: Some(curve.into()), ..self }
    }
}

/// A table to read, columns aligned.
pub fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<20}{:>8}  {:<22}{:>10}{:>10}{:>10}{:>8}{:>8}\n",
        "traffic", "pass ns", "policy", "mean+ ns", "p99+", "p99.9+", "duty %", "cpu %"
    );
    for row in rows {
        let [mean, p99, p999] = row.added_ns;
        let (duty, cpu) = (100.0 * row.duty, 100.0 * row.cpu);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{:<20}{:>8}  {:<22}{mean:>10.0}{p99:>10.0}{p999:>10.0}{duty:>8.1}{cpu:>8.1}",
            row.traffic, row.pass_ns, row.policy
        );
    }
    text
}

/// The same for programs: a header, then a line a row; no field contains a comma.
pub fn csv(rows: &[Row]) -> String {
    let mut text = String::from("traffic,pass_ns,policy,mean_added_ns,p99_added_ns,p999_added_ns,duty,cpu\n");
    for row in rows {
        let [mean, p99, p999] = row.added_ns;
        let name = |text: &str| text.replace(',', ";");
        let _ = writeln!(
            text,
            "{},{},{},{mean:.1},{p99:.0},{p999:.0},{:.4},{:.4}",
            name(&row.traffic),
            row.pass_ns,
            name(&row.policy),
            row.duty,
            row.cpu
        );
    }
    text
}

/// An SVG chart of one traffic and pass cost: duty over mean added latency (logarithmic). Curves are lines, other rows are
/// labelled points; up and to the left is better.
pub fn chart(title: &str, rows: &[Row]) -> String {
    chart::draw(title, rows)
}
