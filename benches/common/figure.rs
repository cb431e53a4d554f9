//! A figure, its bound, and the verdict: kept, missed, or not to be told on this machine today.

use std::fmt;

use super::slots::SLOTS;

/// What a figure must reach.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// Not more than this.
    AtMost(f64),
    /// Not less than this.
    AtLeast(f64),
}

/// What A against A' shows, and what it would show without noise.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    /// The figure's own arithmetic, with A' in the place of ours.
    pub aa: f64,
    /// 1 for a ratio, 0 for a difference.
    pub neutral: f64,
}

/// One result.
#[derive(Clone, Debug)]
pub struct Figure {
    pub name: &'static str,
    pub value: f64,
    pub bound: Bound,
    /// `None`: nothing was timed, or there is no reference to run twice.
    pub noise: Option<Noise>,
    /// Undisturbed slots in the cell that has fewest. `None`: nothing was timed.
    pub clean: Option<usize>,
    /// What helps to read the figure, by name.
    pub beside: Vec<(&'static str, f64)>,
}

/// How a figure stands to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Kept,
    Missed,
    /// The bound cannot be told apart from the noise, or too few slots were left alone.
    Unresolved,
}

impl Figure {
    /// A figure without noise: a count, a size, cpu time.
    pub fn exact(name: &'static str, value: f64, bound: Bound) -> Self {
        Self { name, value, bound, noise: None, clean: None, beside: Vec::new() }
    }

    /// Adds something to read beside it.
    pub fn beside(mut self, name: &'static str, value: f64) -> Self {
        self.beside.push((name, value));
        self
    }

    /// A bound that lies inside the noise, and a value that lies nearer to its bound than the noise reaches, decide nothing. A bound that is what the reference itself would
    /// get demands a gain, and a gain beyond the noise is one.
    pub fn verdict(&self) -> Verdict {
        let (noise, room) = match (self.noise, self.bound) {
            (None, _) => (0.0, f64::INFINITY),
            (Some(noise), Bound::AtMost(bound) | Bound::AtLeast(bound)) => {
                ((noise.aa - noise.neutral).abs(), (bound - noise.neutral).abs())
            }
        };
        let too_few = self.clean.is_some_and(|clean| clean < SLOTS);
        if !self.value.is_finite() || !noise.is_finite() || (room > 0.0 && noise >= room) || too_few {
            return Verdict::Unresolved;
        }
        let beyond = match self.bound {
            Bound::AtMost(bound) => self.value - bound,
            Bound::AtLeast(bound) => bound - self.value,
        };
        if beyond > noise {
            Verdict::Missed
        } else if self.noise.is_none() || beyond <= -noise {
            Verdict::Kept
        } else {
            Verdict::Unresolved
        }
    }
}

/// The results as a table for people.
pub fn print_table(figures: &[Figure]) {
    println!("{:<28} {:>12} {:>12} {:>10} {:>6}  verdict", "figure", "value", "bound", "A/A'", "slots");
    for figure in figures {
        let aa = figure.noise.map_or("-".into(), |noise| number(noise.aa));
        let clean = figure.clean.map_or("-".into(), |clean| clean.to_string());
        let (value, bound, verdict) = (number(figure.value), figure.bound.to_string(), figure.verdict());
        println!("{:<28} {value:>12} {bound:>12} {aa:>10} {clean:>6}  {verdict}", figure.name);
        for (name, value) in &figure.beside {
            println!("{:<28} {:>12}", format!("  {name}"), number(*value));
        }
    }
}

/// The results for programs, a line each.
pub fn print_lines(figures: &[Figure]) {
    for figure in figures {
        println!("figure {} {}", figure.name, number(figure.value));
        if let Some(noise) = figure.noise {
            println!("figure {}_aa {}", figure.name, number(noise.aa));
        }
    }
}

/// What could not be measured reads `unresolved`.
fn number(value: f64) -> String {
    if value.is_nan() {
        "unresolved".into()
    } else if value.fract() == 0.0 && value.abs() < 1e9 {
        format!("{value:.0}")
    } else {
        format!("{value:.4}")
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bound) => write!(f, "<= {bound}"),
            Self::AtLeast(bound) => write!(f, ">= {bound}"),
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kept => "kept",
            Self::Missed => "MISSED",
            Self::Unresolved => "unresolved",
        })
    }
}
