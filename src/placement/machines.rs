//! Topologies for the tests of this module, built by hand: cores by their cpus first, then what deviates.

use std::path::PathBuf;

use crate::topology::{CoreKind, Cpu, Quota, Smt, Topology};

/// A topology under construction. Starts as one cache domain on one node, everything online and allowed.
#[derive(Clone, Debug)]
pub(super) struct Machine(Topology);

impl Machine {
    /// One slice a core: the numbers of its cpus.
    pub(super) fn new<C: AsRef<[usize]>>(cores: &[C]) -> Self {
        let mut cpus: Vec<Cpu> = Vec::new();
        for core in cores.iter().map(AsRef::as_ref) {
            cpus.extend(core.iter().map(|id| Cpu {
                id: *id,
                core: core[0],
                llc: 0,
                node: 0,
                package: 0,
                kind: CoreKind::Uniform,
                online: true,
                isolated: false,
                allowed: true,
            }));
        }
        cpus.sort_by_key(|cpu| cpu.id);
        let smt = if cores.iter().any(|core| core.as_ref().len() > 1) { Smt::Visible } else { Smt::Absent };
        let lowest = cpus[0].id;
        let mut machine = Self(Topology { cpus, smt, hypervisor: false, quota: None, notes: Vec::new() });
        machine.0.cpus.iter_mut().for_each(|cpu| cpu.llc = lowest);
        machine
    }

    /// `cores` cores of `threads` siblings with neighbouring numbers, as Intel clients number them.
    pub(super) fn adjacent(cores: usize, threads: usize) -> Self {
        let cores: Vec<Vec<usize>> = (0..cores).map(|core| (core * threads..(core + 1) * threads).collect()).collect();
        Self::new(&cores)
    }

    /// `cores` cores of `threads` siblings, each `cores` numbers apart, as servers number them.
    pub(super) fn apart(cores: usize, threads: usize) -> Self {
        let numbers = |core| (0..threads).map(|thread| core + thread * cores).collect();
        Self::new(&(0..cores).map(numbers).collect::<Vec<Vec<usize>>>())
    }

    /// Performance cores of two siblings first, then efficiency cores of one.
    pub(super) fn hybrid(performance: usize, efficiency: usize) -> Self {
        let first = 2 * performance;
        let mut cores: Vec<Vec<usize>> = (0..performance).map(|core| vec![2 * core, 2 * core + 1]).collect();
        cores.extend((first..first + efficiency).map(|id| vec![id]));
        Self::new(&cores)
            .each(0..first, |cpu| cpu.kind = CoreKind::Performance)
            .each(first..first + efficiency, |cpu| cpu.kind = CoreKind::Efficiency)
    }

    /// Changes the cpus `ids`.
    pub(super) fn each(mut self, ids: impl IntoIterator<Item = usize>, change: impl Fn(&mut Cpu)) -> Self {
        for id in ids {
            let cpu = self.0.cpus.iter_mut().find(|cpu| cpu.id == id).expect("a cpu of this machine");
            change(cpu);
        }
        self
    }

    /// A last-level cache of their own for `ids`.
    pub(super) fn cache(self, ids: impl IntoIterator<Item = usize> + Clone) -> Self {
        let llc = ids.clone().into_iter().min().expect("at least one cpu");
        self.each(ids, |cpu| cpu.llc = llc)
    }

    /// A NUMA node for `ids`, with a cache of its own.
    pub(super) fn node(self, node: usize, ids: impl IntoIterator<Item = usize> + Clone) -> Self {
        self.cache(ids.clone()).each(ids, |cpu| (cpu.node, cpu.package) = (node, node))
    }

    pub(super) fn isolated(self, ids: impl IntoIterator<Item = usize>) -> Self {
        self.each(ids, |cpu| cpu.isolated = true)
    }

    /// Offline, hence neither allowed nor a sibling of anything.
    pub(super) fn offline(self, ids: impl IntoIterator<Item = usize>) -> Self {
        self.each(ids, |cpu| {
            (cpu.online, cpu.allowed) = (false, false);
            (cpu.core, cpu.llc) = (cpu.id, cpu.id);
        })
    }

    /// The affinity mask: nothing but `ids`.
    pub(super) fn mask(mut self, ids: impl IntoIterator<Item = usize>) -> Self {
        self.0.cpus.iter_mut().for_each(|cpu| cpu.allowed = false);
        self.each(ids, |cpu| cpu.allowed = true)
    }

    pub(super) fn quota(mut self, cpus: f64) -> Self {
        self.0.quota = Some(Quota { cpus, source: PathBuf::from("/sys/fs/cgroup/cpu.max") });
        self
    }

    /// A guest; without visible siblings it cannot know whether there are any.
    pub(super) fn guest(mut self) -> Self {
        self.0.hypervisor = true;
        if self.0.smt == Smt::Absent {
            self.0.smt = Smt::Unknown;
        }
        self
    }

    pub(super) fn smt(mut self, smt: Smt) -> Self {
        self.0.smt = smt;
        self
    }

    pub(super) fn build(self) -> Topology {
        self.0
    }
}
