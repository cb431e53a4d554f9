//! Which cpu of a described machine sits where.

use std::collections::BTreeSet;
use std::io;

use super::{Numbering, Shape, invalid, list};
use crate::topology::{CPUS_MAX, CoreKind};

/// All cpus, ascending by number.
#[derive(Debug)]
pub(super) struct Layout {
    pub cpus: Vec<Place>,
    pub hybrid: Hybrid,
    pub nodes: usize,
}

/// How a machine tells its kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hybrid {
    No,
    CounterDevices,
    Capacities { performance: u32, efficiency: u32 },
}

/// One cpu, with machine-wide indices of what it shares.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub id: usize,
    pub core: usize,
    pub thread: usize,
    pub l2: usize,
    pub llc: usize,
    pub node: usize,
    pub package: usize,
    pub kind: CoreKind,
}

impl Layout {
    pub(super) fn of(shape: &Shape) -> io::Result<Self> {
        let Shape { cores, threads, packages, nodes, efficiency_cores, .. } = *shape;
        let cores_a_package = divide("cores", cores, "packages", packages)?;
        let cores_a_node = divide("cores of a package", cores_a_package, "nodes", nodes)?;
        let cores_a_llc = shape.cores_per_llc.unwrap_or(cores_a_package);
        divide("cores of a package", cores_a_package, "cores of a last-level cache", cores_a_llc)?;
        if threads == 0 {
            return Err(invalid("a core needs at least one cpu"));
        }
        let count = cores.saturating_mul(threads).saturating_add(efficiency_cores);
        if count > CPUS_MAX {
            return Err(invalid(format!("{count} cpus are more than {CPUS_MAX}, which no reader takes")));
        }

        let main_kind = if efficiency_cores > 0 { CoreKind::Performance } else { CoreKind::Uniform };
        let at = |core: usize, thread: usize| Place {
            id: 0,
            core,
            thread,
            l2: core,
            llc: core / cores_a_llc,
            node: core / cores_a_node,
            package: core / cores_a_package,
            kind: main_kind,
        };
        let mut cpus: Vec<Place> = match shape.numbering {
            Numbering::Adjacent => {
                (0..cores).flat_map(|core| (0..threads).map(move |thread| at(core, thread))).collect()
            }
            Numbering::Apart => (0..threads).flat_map(|thread| (0..cores).map(move |core| at(core, thread))).collect(),
        };
        cpus.extend((0..efficiency_cores).map(|core| Place {
            core: cores + core,
            l2: cores + core / EFFICIENCY_CORES_A_CLUSTER,
            kind: CoreKind::Efficiency,
            ..at(cores - 1, 0)
        }));

        let holes: Vec<BTreeSet<usize>> =
            shape.holes.iter().map(|text| list("holes", text)).collect::<io::Result<_>>()?;
        let numbers = (0..).filter(|number| !holes.iter().any(|hole| hole.contains(number)));
        for (cpu, number) in cpus.iter_mut().zip(numbers) {
            cpu.id = number;
        }
        if let Some(last) = cpus.last().filter(|last| last.id >= CPUS_MAX) {
            return Err(invalid(format!("holes: cpu number {} is not below {CPUS_MAX}, as readers want it", last.id)));
        }
        let hybrid = match shape.capacities {
            Some((performance, efficiency)) => Hybrid::Capacities { performance, efficiency },
            None if efficiency_cores > 0 => Hybrid::CounterDevices,
            None => Hybrid::No,
        };
        Ok(Self { cpus, hybrid, nodes: packages * nodes })
    }

    pub(super) fn ids(&self) -> BTreeSet<usize> {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// The union of `lists`, all of whose cpus must exist.
    pub(super) fn known(&self, what: &str, lists: &[String]) -> io::Result<BTreeSet<usize>> {
        let ids = self.ids();
        let mut all = BTreeSet::new();
        for text in lists {
            all.extend(list(what, text)?);
        }
        match all.difference(&ids).next() {
            Some(stranger) => Err(invalid(format!("{what}: this machine has no cpu {stranger}"))),
            None => Ok(all),
        }
    }
}

/// Intel's efficiency cores share an L2 cache by fours.
const EFFICIENCY_CORES_A_CLUSTER: usize = 4;

fn divide(what: &str, count: usize, among: &str, parts: usize) -> io::Result<usize> {
    if count == 0 || parts == 0 || count % parts != 0 {
        return Err(invalid(format!("{count} {what} do not divide among {parts} {among}")));
    }
    Ok(count / parts)
}

#[cfg(test)]
mod tests {
    use super::super::HostTree;
    use super::*;

    fn places(tree: &HostTree) -> Vec<(usize, usize, usize)> {
        Layout::of(&tree.shape).unwrap().cpus.iter().map(|cpu| (cpu.id, cpu.core, cpu.thread)).collect()
    }

    #[test]
    fn numberings() {
        assert_eq!(places(&HostTree::adjacent(2, 2)), [(0, 0, 0), (1, 0, 1), (2, 1, 0), (3, 1, 1)]);
        assert_eq!(places(&HostTree::apart(2, 2)), [(0, 0, 0), (1, 1, 0), (2, 0, 1), (3, 1, 1)]);
        assert_eq!(places(&HostTree::adjacent(2, 1).holes("0,2")), [(1, 0, 0), (3, 1, 0)]);
        assert_eq!(places(&HostTree::adjacent(1, 2).efficiency_cores(1)), [(0, 0, 0), (1, 0, 1), (2, 1, 0)]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (tree, why) in [
            (HostTree::adjacent(0, 2), "0 cores do not divide among 1 packages"),
            (HostTree::adjacent(2, 0), "a core needs at least one cpu"),
            (HostTree::adjacent(usize::MAX, 2), "18446744073709551615 cpus are more than 65536, which no reader takes"),
            (
                HostTree::adjacent(1, 2).holes("0-65534"),
                "holes: cpu number 65536 is not below 65536, as readers want it",
            ),
            (HostTree::adjacent(5, 2).packages(2), "5 cores do not divide among 2 packages"),
            (HostTree::adjacent(4, 2).packages(0), "4 cores do not divide among 0 packages"),
            (HostTree::adjacent(4, 2).nodes_per_package(3), "4 cores of a package do not divide among 3 nodes"),
            (
                HostTree::adjacent(4, 2).cores_per_llc(0),
                "4 cores of a package do not divide among 0 cores of a last-level cache",
            ),
            (HostTree::adjacent(4, 2).holes("?"), r#"holes: "?" at byte 0 of a cpu list: wanted a cpu number"#),
        ] {
            assert_eq!(Layout::of(&tree.shape).unwrap_err().to_string(), why);
        }
        let layout = Layout::of(&HostTree::adjacent(2, 2).shape).unwrap();
        assert_eq!(
            layout.known("offline", &["3-4".into()]).unwrap_err().to_string(),
            "offline: this machine has no cpu 4"
        );
    }
}
