//! Prints a report for a terminal: a heading a topic, a line a finding, wrapped; commands whole, so that they can be copied.

use std::fmt;

use super::{Finding, Report, Severity};

/// Terminals have at least as many columns.
const COLUMNS: usize = 80;

/// Where text begins, past the severity.
const INDENT: usize = 11;

impl fmt::Display for Report {
    /// Findings that are [`Severity::Ok`] are told in their first sentence only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut topic = None;
        for finding in &self.findings {
            if topic.replace(finding.topic) != Some(finding.topic) {
                writeln!(f, "{}", finding.topic.name())?;
            }
            write_finding(f, finding)?;
        }
        let count = |severity| self.findings.iter().filter(|finding| finding.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        writeln!(f, "{errors} error{}, {warnings} warning{}", plural(errors), plural(warnings))
    }
}

fn write_finding(f: &mut fmt::Formatter<'_>, finding: &Finding) -> fmt::Result {
    let mut text = wrapped(&finding.what);
    if finding.severity > Severity::Ok {
        text.extend(wrapped(&finding.why));
    }
    let width = INDENT - 2;
    for (at, line) in text.iter().enumerate() {
        let mark = if at == 0 { finding.severity.name() } else { "" };
        writeln!(f, "  {mark:<width$}{line}")?;
    }
    for line in &finding.remedy {
        writeln!(f, "{:INDENT$}> {line}", "")?;
    }
    Ok(())
}

/// Lines that fit between the indentation and the last column; a longer word stands alone.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if INDENT + line.chars().count() + 1 + word.chars().count() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_words_and_keep_all_of_them() {
        let text = "word ".repeat(40) + &"x".repeat(100) + " end";
        let lines = wrapped(&text);
        assert_eq!(lines.join(" "), text.split_whitespace().collect::<Vec<_>>().join(" "));
        assert!(lines.iter().all(|line| INDENT + line.len() <= COLUMNS || !line.contains(' ')), "{lines:#?}");
        assert!(wrapped("  ").is_empty());
    }
}
