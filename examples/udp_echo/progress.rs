//! How far the sweep is: a bar for people, lines for logs. Always on stderr, so that stdout has results only.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// Shows progress in slots.
pub enum Progress {
    /// On a terminal.
    Bar(ProgressBar),
    /// Elsewhere: one line whenever the headline changes.
    Lines(String),
}

impl Progress {
    /// Of so many slots; 0 if nobody knows how many there will be.
    pub fn new(slots: usize) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self::Lines(String::new());
        }
        let (bar, template) = match slots {
            0 => (ProgressBar::new_spinner(), "{spinner} {msg}"),
            _ => (ProgressBar::new(slots as u64), "{bar:40} {pos}/{len} slots, {eta} left, {msg}"),
        };
        // Drawn between slots only: a bar that moves by itself would take time from what is measured.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self::Bar(bar)
    }

    /// A slot begins. The headline names the stretch of the sweep, the detail the slot.
    pub fn slot(&mut self, headline: &str, detail: &str) {
        match self {
            Self::Bar(bar) => bar.set_message(format!("{headline}, {detail}")),
            Self::Lines(last) if last != headline => {
                eprintln!("{headline}");
                headline.clone_into(last);
            }
            Self::Lines(_) => {}
        }
    }

    /// A slot ended.
    pub fn done(&self) {
        if let Self::Bar(bar) = self {
            bar.inc(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Self::Bar(bar) = self {
            bar.finish_and_clear();
        }
    }
}
