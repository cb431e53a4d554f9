//! Prints what a probe found: the verdict in a sentence, and the evidence below it.

use std::fmt;

use super::{Doubt, GivenBack, Report, Verdict, Window};

/// Changes that are told one by one; of more, only the number.
const CHANGES_MAX: usize = 4;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shared { ratio } => write!(f, "shared: beside work, {ratio:.2} of the pace alone"),
            Self::Separate { ratio } => write!(f, "separate: beside work, {ratio:.2} of the pace alone"),
            Self::Floating { shared_windows, windows } => {
                write!(f, "floating: shared in {shared_windows} of the {windows} windows that have an answer")
            }
            Self::Unclear { why } => write!(f, "unclear: {why}"),
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFew { rounds, wanted } => write!(
                f,
                "{rounds} of the {wanted} rounds that it takes were left alone; something else runs on these cpus, or the hypervisor stops them"
            ),
            Self::Between { low, high } => {
                write!(f, "beside work, {low:.2} to {high:.2} of the pace alone, which is neither of both")
            }
            Self::SlowThroughout { part } => write!(
                f,
                "the first cpu had {part:.2} of its best pace whether the other one worked or not, so somebody else slows it"
            ),
            Self::Changed => f.write_str("the windows before and after differ"),
            Self::Starved => f.write_str("the threads did not get to run in time"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.cpus;
        writeln!(f, "cpus {first} and {second}  {}", self.verdict)?;
        let counts = self.counts();
        writeln!(
            f,
            "  windows   {} shared, {} separate, {} unclear, in {:.1} s",
            counts.shared,
            counts.separate,
            counts.unclear,
            self.took.as_secs_f64()
        )?;
        let kept: usize = self.windows.iter().map(|window| window.rounds).sum();
        let dropped: usize = self.windows.iter().map(|window| window.dropped).sum();
        let steal = self.steal_percent.map_or_else(|| "not known".to_owned(), |percent| format!("{percent:.1} %"));
        writeln!(f, "  rounds    {kept} kept, {dropped} dropped as disturbed; steal {steal}")?;
        writeln!(
            f,
            "  pace      beside work {}, beside a tight spin {}, beside PAUSEs {}",
            range(self, |window| window.ratio.map(|ratio| ratio.median)),
            range(self, |window| window.spin),
            range(self, |window| window.pauses)
        )?;
        if let Some(GivenBack { spin, pauses, part }) = self.given_back() {
            writeln!(
                f,
                "  manners   where shared, {spin:.2} beside a tight spin and {pauses:.2} beside PAUSEs: {:.0} % given back of what the spin takes",
                part * 100.0
            )?;
        }
        let changes = self.changes();
        if !changes.is_empty() {
            let told: Vec<String> = changes
                .iter()
                .take(CHANGES_MAX)
                .map(|window| format!("{} at {:.2} s", window.seen.name(), window.at.as_secs_f64()))
                .collect();
            let more = changes.len().saturating_sub(CHANGES_MAX);
            let more = if more == 0 { String::new() } else { format!(", and {more} more") };
            writeln!(f, "  changes   {}{more}", told.join(", "))?;
        }
        Ok(())
    }
}

/// From the least to the most that a window has.
fn range(report: &Report, of: fn(&Window) -> Option<f64>) -> String {
    let all = || report.windows.iter().filter_map(of);
    let (low, high) = (all().fold(f64::INFINITY, f64::min), all().fold(f64::NEG_INFINITY, f64::max));
    if low > high { "not known".to_owned() } else { format!("{low:.2} to {high:.2}") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::{Ratio, Seen};
    use super::*;

    #[test]
    fn a_report_says_verdict_evidence_and_changes() {
        let window = |at_ms, seen, median| Window {
            seen,
            at: Duration::from_millis(at_ms),
            took: Duration::from_millis(50),
            ratio: Some(Ratio { low: median, median, high: median }),
            spin: Some(0.8),
            pauses: Some(0.9),
            rounds: 40,
            dropped: 2,
        };
        let report = Report {
            cpus: [2, 5],
            verdict: Verdict::Floating { shared_windows: 1, windows: 3 },
            windows: vec![
                window(0, Seen::Shared, 0.51),
                window(50, Seen::Separate, 1.0),
                window(100, Seen::Separate, 0.99),
            ],
            steal_percent: Some(1.25),
            took: Duration::from_millis(152),
        };
        let want = "\
cpus 2 and 5  floating: shared in 1 of the 3 windows that have an answer
  windows   1 shared, 2 separate, 0 unclear, in 0.2 s
  rounds    120 kept, 6 dropped as disturbed; steal 1.2 %
  pace      beside work 0.51 to 1.00, beside a tight spin 0.80 to 0.80, beside PAUSEs 0.90 to 0.90
  changes   separate at 0.05 s
";
        assert_eq!(report.to_string(), want);
        let siblings = Report { windows: vec![window(0, Seen::Shared, 0.51); 5], ..report.clone() };
        let manners = "manners   where shared, 0.80 beside a tight spin and 0.90 beside PAUSEs: 50 % given back of what the spin takes";
        assert!(siblings.to_string().contains(manners), "{siblings}");
        let nothing = Report { windows: Vec::new(), steal_percent: None, ..report };
        assert!(
            nothing.to_string().contains("beside work not known") && nothing.to_string().contains("steal not known")
        );
    }
}
