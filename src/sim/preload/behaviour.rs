//! How do the devices in the box behave? One line of text, for an environment variable, and back.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use crate::sim::dsa::{Faults, KernelProfile, Profile};

/// How devices, and the kernel in front of them, behave: words and `name=value`, with commas between them.
///
/// Words: `compat` (the default) or `strict`, the [profile](Profile); `tidy`, without garbage in unused fields of records although strict; `weather`, `storm` or `everything`, a set of [faults](Faults) to start from; `unprivileged`, for a program
/// without CAP_SYS_RAWIO, which the kernel refuses `mmap`.
/// Values: `seed` (a whole number); `kernel` (`6.9`, `6.12` or `6.16`, see [`KernelProfile`]); the probabilities of [`Faults`], 0 to 1, by their names (`page_absent=0.1`);
/// `every_page` and `refaults`, whole numbers.
///
/// ```
/// use twolane::sim::preload::Behaviour;
///
/// let behaviour: Behaviour = "strict,seed=7,page_absent=0.1".parse()?;
/// assert_eq!(behaviour.to_string().parse::<Behaviour>()?, behaviour);
/// assert!("page_absent=2".parse::<Behaviour>().is_err());
/// # Ok::<(), twolane::sim::preload::BehaviourError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Behaviour {
    /// Takes every freedom that the specification leaves, and watches software's duties.
    pub strict: bool,
    /// Even if strict, unused fields and bits of records are zero: many programs compare the whole status byte, DPDK among them.
    pub tidy: bool,
    /// What is drawn is drawn from this.
    pub seed: u64,
    /// The version of Linux: 6.9, 6.12, 6.16.
    pub kernel: Kernel,
    /// The program has no CAP_SYS_RAWIO.
    pub unprivileged: bool,
    /// What goes wrong.
    pub faults: Faults,
}

/// A kernel that made a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kernel {
    /// Everybody maps, nobody writes.
    V6_9,
    /// Without CAP_SYS_RAWIO one writes, and no batches.
    V6_12,
    /// As 6.12, but devices of version 2 take batches through `write(2)`.
    V6_16,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self { strict: false, tidy: false, seed: 0, kernel: Kernel::V6_12, unprivileged: false, faults: Faults::none() }
    }
}

impl Behaviour {
    /// As the model takes it.
    #[must_use]
    pub fn profile(&self) -> Profile {
        let profile = if self.strict { Profile::strict(self.seed) } else { Profile::compat().seed(self.seed) };
        let profile = if self.tidy { profile.garbage(false) } else { profile };
        profile.faults(self.faults)
    }

    /// The kernel in front of the devices.
    #[must_use]
    pub fn kernel_profile(&self) -> KernelProfile {
        let kernel = match self.kernel {
            Kernel::V6_9 => KernelProfile::BEFORE_6_10,
            Kernel::V6_12 => KernelProfile::V6_12,
            Kernel::V6_16 => KernelProfile::V6_16,
        };
        if self.unprivileged { kernel } else { kernel.privileged() }
    }
}

impl Kernel {
    const ALL: [(Self, &str); 3] = [(Self::V6_9, "6.9"), (Self::V6_12, "6.12"), (Self::V6_16, "6.16")];
}

impl FromStr for Kernel {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(kernel, _)| *kernel).ok_or("6.9, 6.12 or 6.16")
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::ALL.iter().find(|(kernel, _)| kernel == self).map_or("", |(_, name)| name);
        f.write_str(name)
    }
}

/// A probability among the faults, by name.
type Place = fn(&mut Faults) -> &mut f64;

const PROBABILITIES: &[(&str, Place)] = &[
    ("page_absent", |faults| &mut faults.page_absent),
    ("page_refused", |faults| &mut faults.page_refused),
    ("list_fault", |faults| &mut faults.list_fault),
    ("retry", |faults| &mut faults.retry),
    ("record_lost", |faults| &mut faults.record_lost),
    ("never", |faults| &mut faults.never),
    ("hardware_error", |faults| &mut faults.hardware_error),
    ("late_dispatch", |faults| &mut faults.late_dispatch),
];

impl FromStr for Behaviour {
    type Err = BehaviourError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut behaviour = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let wrong = |want: &str| BehaviourError { item: item.into(), want: want.into() };
            match item.split_once('=') {
                None => behaviour.word(item).ok_or_else(|| wrong(&known()))?,
                Some((name, value)) => behaviour.value(name.trim(), value.trim()).map_err(|want| wrong(&want))?,
            }
        }
        Ok(behaviour)
    }
}

impl Behaviour {
    fn word(&mut self, word: &str) -> Option<()> {
        match word {
            "compat" => self.strict = false,
            "strict" => self.strict = true,
            "tidy" => self.tidy = true,
            "unprivileged" => self.unprivileged = true,
            "weather" => self.faults = Faults::weather(),
            "storm" => self.faults = Faults::storm(),
            "everything" => self.faults = Faults::everything(),
            _ => return None,
        }
        Some(())
    }

    fn value(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "seed" => self.seed = value.parse().map_err(|_| "a whole number from 0 to 2^64 - 1")?,
            "kernel" => self.kernel = value.parse()?,
            "every_page" => {
                self.faults.every_page = Some(value.parse::<NonZeroU32>().map_err(|_| "a whole number from 1 on")?)
            }
            "refaults" => self.faults.refaults = value.parse().map_err(|_| "a whole number from 0 on")?,
            _ => {
                let (_, place) = PROBABILITIES.iter().find(|(known, _)| *known == name).ok_or_else(known)?;
                let chance: f64 = value.parse().map_err(|_| "a probability from 0 to 1")?;
                if !(0.0..=1.0).contains(&chance) {
                    return Err("a probability from 0 to 1".into());
                }
                *place(&mut self.faults) = chance;
            }
        }
        Ok(())
    }
}

fn known() -> String {
    let probabilities: Vec<&str> = PROBABILITIES.iter().map(|(name, _)| *name).collect();
    format!(
        "one of compat, strict, tidy, unprivileged, weather, storm, everything, or name=value with seed, kernel, every_page, refaults, {}",
        probabilities.join(", ")
    )
}

impl fmt::Display for Behaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strict, tidy, seed, kernel, unprivileged, mut faults } = *self;
        write!(f, "{},seed={seed},kernel={kernel}", if strict { "strict" } else { "compat" })?;
        if tidy {
            f.write_str(",tidy")?;
        }
        if unprivileged {
            f.write_str(",unprivileged")?;
        }
        if let Some(pages) = faults.every_page {
            write!(f, ",every_page={pages}")?;
        }
        if faults.refaults > 0 {
            write!(f, ",refaults={}", faults.refaults)?;
        }
        for (name, place) in PROBABILITIES {
            let chance = *place(&mut faults);
            if chance > 0.0 {
                write!(f, ",{name}={chance}")?;
            }
        }
        Ok(())
    }
}

/// A behaviour that there is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BehaviourError {
    item: String,
    want: String,
}

impl fmt::Display for BehaviourError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} says nothing about a DSA model; use {}", self.item, self.want)
    }
}

impl std::error::Error for BehaviourError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_and_value_is_understood_and_said_again() {
        let texts = [
            "compat,seed=0,kernel=6.12",
            "strict,seed=18446744073709551615,kernel=6.9,tidy",
            "compat,seed=7,kernel=6.16,unprivileged,every_page=3,refaults=2,page_absent=0.25,page_refused=1,list_fault=0.5,retry=0.125,record_lost=0.001,never=0.01,\
             hardware_error=0.0625,late_dispatch=0.75",
        ];
        for text in texts {
            assert_eq!(text.parse::<Behaviour>().unwrap().to_string(), text);
        }
        assert_eq!("".parse(), Ok(Behaviour::default()));
        let stormy: Behaviour = " storm , seed = 3 ".parse().unwrap();
        assert_eq!((stormy.faults, stormy.seed), (Faults::storm(), 3));
        assert!(stormy.kernel_profile().may_map);
        assert!(!"unprivileged".parse::<Behaviour>().unwrap().kernel_profile().may_map);
        assert!("unprivileged,kernel=6.9".parse::<Behaviour>().unwrap().kernel_profile().may_map);
    }

    #[test]
    fn what_means_nothing_is_named_with_what_would() {
        let cases = [
            ("lax", "unprivileged"),
            ("seed=x", "whole number"),
            ("seed=-1", "whole number"),
            ("page_absent=1.5", "from 0 to 1"),
            ("retry=nan", "from 0 to 1"),
            ("every_page=0", "from 1 on"),
            ("kernel=5.4", "6.12"),
            ("pages=1", "late_dispatch"),
            ("strict,=,", "seed"),
        ];
        for (text, want) in cases {
            let error = text.parse::<Behaviour>().unwrap_err().to_string();
            assert!(error.contains(want), "{text}: {error}");
        }
    }
}
