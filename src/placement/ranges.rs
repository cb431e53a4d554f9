//! Prints a set of cpu numbers for people: `cpu 4`, `cpus 0-3,8`.

use std::collections::BTreeSet;
use std::fmt;

use crate::topology::CpuList;

/// A set of numbers as the kernel would list it: `0-3,8`; `none` where it is empty.
pub(super) struct Ranges<'a>(pub(super) &'a BTreeSet<usize>);

impl fmt::Display for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        self.0.iter().copied().collect::<CpuList>().fmt(f)
    }
}

/// The same with its noun in front: `cpu 4`, `cpus 0-3,8`, `no cpu`.
pub(super) struct Cpus<'a>(pub(super) &'a BTreeSet<usize>);

impl fmt::Display for Cpus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.len() {
            0 => f.write_str("no cpu"),
            1 => write!(f, "cpu {}", Ranges(self.0)),
            _ => write!(f, "cpus {}", Ranges(self.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_join_into_ranges_and_the_noun_follows_the_number() {
        for (numbers, ranges, cpus) in [
            (&[][..], "none", "no cpu"),
            (&[4], "4", "cpu 4"),
            (&[4, 5], "4-5", "cpus 4-5"),
            (&[0, 1, 2, 3, 8, 10, 11], "0-3,8,10-11", "cpus 0-3,8,10-11"),
        ] {
            let set: BTreeSet<usize> = numbers.iter().copied().collect();
            assert_eq!(Ranges(&set).to_string(), ranges);
            assert_eq!(Cpus(&set).to_string(), cpus);
        }
    }
}
