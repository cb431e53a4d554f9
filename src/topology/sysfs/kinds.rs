//! Which cores are fast and which are frugal, on parts that mix them.

use std::collections::{BTreeMap, BTreeSet};

use super::files::Files;
use super::presence::CPU;
use crate::topology::CoreKind;

/// The kind of each online cpu; empty on machines whose cores are alike.
///
/// Intel's hybrid parts have one performance-counter device a kind, which lists its cpus. Elsewhere (big.LITTLE) the
/// scheduler's capacities tell, or the base frequencies where the kernel has neither (Intel's before Linux 5.13).
pub(super) fn read(files: &mut Files<'_>, online: &BTreeSet<usize>) -> BTreeMap<usize, CoreKind> {
    let mut kinds = BTreeMap::new();
    for (device, kind) in COUNTER_DEVICES {
        for cpu in files.list(format!("sys/devices/{device}/cpus")).unwrap_or_default().iter() {
            if online.contains(&cpu) {
                kinds.insert(cpu, kind);
            }
        }
    }
    if !kinds.is_empty() {
        return kinds;
    }
    for measure in MEASURES {
        let kinds = by_measure(&measured(files, online, measure));
        if !kinds.is_empty() {
            return kinds;
        }
    }
    kinds
}

/// Kinds by a number that is high for fast cores: a scheduler's capacity or a base frequency. Empty where the cores
/// are alike.
pub(in crate::topology) fn by_measure(measures: &BTreeMap<usize, i64>) -> BTreeMap<usize, CoreKind> {
    let best = measures.values().copied().max().unwrap_or(0);
    let frugal = |measure: i64| measure <= best / 4 * FRUGAL_QUARTERS;
    // No measure is 0 or less: such a machine tells nothing.
    if measures.values().any(|&measure| measure <= 0) || !measures.values().copied().any(frugal) {
        return BTreeMap::new();
    }
    let kind = |measure| if frugal(measure) { CoreKind::Efficiency } else { CoreKind::Performance };
    measures.iter().map(|(&cpu, &measure)| (cpu, kind(measure))).collect()
}

/// What a file says for every cpu; nothing where a cpu lacks it, for the kernel has such a file for all or none.
fn measured(files: &mut Files<'_>, online: &BTreeSet<usize>, name: &str) -> BTreeMap<usize, i64> {
    let mut measures = BTreeMap::new();
    for &cpu in online {
        match files.number(format!("{CPU}/cpu{cpu}/{name}")) {
            Some(measure) => measures.insert(cpu, measure),
            None => return BTreeMap::new(),
        };
    }
    measures
}

/// Which counters belong to which kind; `cpu_lowpower` are the cores outside the main die of newer parts.
const COUNTER_DEVICES: [(&str, CoreKind); 3] =
    [("cpu_core", CoreKind::Performance), ("cpu_atom", CoreKind::Efficiency), ("cpu_lowpower", CoreKind::Efficiency)];

/// Under the cpu's directory, the better witness first.
const MEASURES: [&str; 2] = ["cpu_capacity", "cpufreq/base_frequency"];

/// A core with at most this many quarters of the best one's measure is frugal. Favoured cores of one kind differ by a
/// few percent, a "prime" and a "big" core by a tenth; little cores reach half to seven tenths.
const FRUGAL_QUARTERS: i64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use CoreKind::{Efficiency as E, Performance as P};

    #[test]
    fn measures_make_kinds() {
        for (measures, kinds, why) in [
            (vec![1024, 1024], vec![], "all alike"),
            (vec![1024, 1009], vec![], "a favoured core is no kind"),
            (vec![446, 446, 1024, 1024], vec![E, E, P, P], "big.LITTLE"),
            (vec![1_900_000, 1_400_000], vec![P, E], "a hybrid's base frequencies"),
            (vec![2_700_000, 2_100_000], vec![], "cores of one kind with a base frequency of their own"),
            (vec![325, 828, 1024], vec![E, P, P], "little, big, prime"),
            (vec![0, 1024], vec![], "nonsense"),
            (vec![1, i64::MAX], vec![E, P], "absurd numbers"),
            (vec![], vec![], "nobody"),
        ] {
            let found = by_measure(&measures.into_iter().enumerate().collect());
            assert_eq!(found.into_values().collect::<Vec<_>>(), kinds, "{why}");
        }
    }
}
