//! Looks between slots whether the two lanes' cpus share a core, so that each slot lies between two looks.
//!
//! Nothing else runs then: a slot's runtime has ended before the window after it begins. The window after one slot is the
//! window before the next.

use std::time::Duration;

use twolane::topology::probe::{Prober, Seen};

use crate::cells::Seats;

/// Takes the windows, if there are two cpus to look at.
#[derive(Debug)]
pub struct Watch {
    prober: Option<Prober>,
    length: Duration,
    last: Option<Seen>,
    /// Why there is nothing to see, for people.
    pub why_not: Option<String>,
}

impl Watch {
    /// For the cpus of those seats, in windows of that length; of length 0: never.
    pub fn start(seats: &Seats, length: Duration) -> Self {
        let none = |why: String| Self { prober: None, length: Duration::ZERO, last: None, why_not: Some(why) };
        if length.is_zero() {
            return none("not probed (--probe 0)".to_owned());
        }
        let Some((poll, compute)) = seats.cpus else {
            return none("not probed: the two lanes have no cpu each".to_owned());
        };
        match Prober::start(poll, compute) {
            Ok(prober) => Self { prober: Some(prober), length, last: None, why_not: None },
            Err(error) => none(format!("not probed: {error}")),
        }
    }

    /// Runs a slot between two windows. Returns what both saw; nothing where there is nothing to see.
    pub fn around<R>(&mut self, slot: impl FnOnce() -> R) -> (R, Option<Seen>) {
        let before = self.last.or_else(|| self.window());
        let result = slot();
        self.last = self.window();
        (result, before.zip(self.last).map(|(before, after)| before.and(after)))
    }

    /// How long a window takes.
    pub fn length(&self) -> Duration {
        self.length
    }

    fn window(&mut self) -> Option<Seen> {
        // Only a length out of range is an error, and the command line has checked that.
        Some(self.prober.as_mut()?.window(self.length).ok()?.seen)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::SEATS;

    #[test]
    fn without_two_cpus_slots_run_unwatched() {
        let mut watch = Watch::start(&Seats { cpus: None, ..SEATS }, Duration::from_millis(10));
        assert_eq!(watch.around(|| 7), (7, None));
        assert!(watch.why_not.as_deref().is_some_and(|why| why.contains("no cpu each")));
        let off = Watch::start(&SEATS, Duration::ZERO);
        assert!(off.why_not.is_some_and(|why| why.contains("--probe 0")) && off.length.is_zero());
        let same = Watch::start(&Seats { cpus: Some((0, 0)), ..SEATS }, Duration::from_millis(10));
        assert!(same.why_not.is_some_and(|why| why.contains("two different cpus")));
    }
}
