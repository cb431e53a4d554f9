//! Time that the hypervisor took from two cpus, as `/proc/stat` counts it: in ticks of 10 ms, so only of use for a whole probe.

use std::fs;

/// Up to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steal {
    stolen: u64,
    total: u64,
}

impl Steal {
    /// `None` where the kernel does not say.
    pub(super) fn read(cpus: [usize; 2]) -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?, cpus)
    }

    /// In percent of the two cpus' time since an `earlier` reading.
    pub(super) fn since(self, earlier: Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total).max(1);
        self.stolen.saturating_sub(earlier.stolen) as f64 / total as f64 * 100.0
    }

    fn parse(stat: &str, cpus: [usize; 2]) -> Option<Self> {
        /// Columns of a cpu's line: user nice system idle iowait irq softirq steal; guest time is inside user.
        const COLUMNS: usize = 8;
        let of = |cpu: usize| -> Option<(u64, u64)> {
            let name = format!("cpu{cpu}");
            let mut words = stat
                .lines()
                .map(str::split_whitespace)
                .find_map(|mut words| (words.next() == Some(&name)).then_some(words))?;
            let ticks: Vec<u64> = words.by_ref().take(COLUMNS).map_while(|word| word.parse().ok()).collect();
            Some((*ticks.get(COLUMNS - 1)?, ticks.iter().sum()))
        };
        let (first, second) = (of(cpus[0])?, of(cpus[1])?);
        Some(Self { stolen: first.0 + second.0, total: first.1 + second.1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_from_the_cpus_own_lines() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\ncpu1 10 0 0 80 0 0 0 10 3 0\ncpu10 1 1 1 1 1 1 1 1 1 1\ncpu11 0 0 0 100 0 0 0 0 0 0\n";
        let early = Steal::parse(stat, [1, 11]).unwrap();
        assert_eq!(early, Steal { stolen: 10, total: 200 });
        let late = Steal { stolen: 30, total: 400 };
        assert_eq!(late.since(early), 10.0);
        assert_eq!(early.since(early), 0.0);
        for odd in ["", "cpu1 1 2 3\ncpu11 1 2 3", "cpu1 1 1 1 1 1 1 1 1"] {
            assert_eq!(Steal::parse(odd, [1, 11]), None, "{odd:?}");
        }
    }
}
