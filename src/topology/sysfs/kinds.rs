//! Which cores are fast and which are frugal, on parts that mix them.

use std::collections::{BTreeMap, BTreeSet};

use super::files::Files;
use super::presence::CPU;
use crate::topology::CoreKind;

/// The kind of each online cpu; empty on machines whose cores are alike.
///
/// Intel's hybrid parts have one performance-counter device a kind, which lists its cpus. Elsewhere (big.LITTLE) the
/// scheduler's capacities tell.
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
    let mut capacities = BTreeMap::new();
    for &cpu in online {
        match files.number(format!("{CPU}/cpu{cpu}/cpu_capacity")) {
            Some(capacity) => capacities.insert(cpu, capacity),
            // All or nothing: the kernel has the file for every cpu or for none.
            None => return BTreeMap::new(),
        };
    }
    by_capacity(&capacities)
}

/// Kinds by the scheduler's capacities (1024 for the fastest cpu of a machine).
pub(in crate::topology) fn by_capacity(capacities: &BTreeMap<usize, i64>) -> BTreeMap<usize, CoreKind> {
    let best = capacities.values().copied().max().unwrap_or(0);
    let frugal = |capacity: i64| capacity <= best / 4 * FRUGAL_QUARTERS;
    // No capacity is 0 or less: such a machine tells nothing.
    if capacities.values().any(|&capacity| capacity <= 0) || !capacities.values().copied().any(frugal) {
        return BTreeMap::new();
    }
    let kind = |capacity| if frugal(capacity) { CoreKind::Efficiency } else { CoreKind::Performance };
    capacities.iter().map(|(&cpu, &capacity)| (cpu, kind(capacity))).collect()
}

/// Which counters belong to which kind; `cpu_lowpower` are the cores outside the main die of newer parts.
const COUNTER_DEVICES: [(&str, CoreKind); 3] =
    [("cpu_core", CoreKind::Performance), ("cpu_atom", CoreKind::Efficiency), ("cpu_lowpower", CoreKind::Efficiency)];

/// A core with at most this many quarters of the best one's capacity is frugal. Favoured cores of one kind differ by a
/// few percent, a "prime" and a "big" core by a tenth; little cores reach half to seven tenths.
const FRUGAL_QUARTERS: i64 = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use CoreKind::{Efficiency as E, Performance as P};

    #[test]
    fn capacities_make_kinds() {
        for (capacities, kinds, why) in [
            (vec![1024, 1024], vec![], "all alike"),
            (vec![1024, 1009], vec![], "a favoured core is no kind"),
            (vec![446, 446, 1024, 1024], vec![E, E, P, P], "big.LITTLE"),
            (vec![325, 828, 1024], vec![E, P, P], "little, big, prime"),
            (vec![0, 1024], vec![], "nonsense"),
            (vec![1, i64::MAX], vec![E, P], "absurd numbers"),
            (vec![], vec![], "nobody"),
        ] {
            let found = by_capacity(&capacities.into_iter().enumerate().collect());
            assert_eq!(found.into_values().collect::<Vec<_>>(), kinds, "{why}");
        }
    }
}
