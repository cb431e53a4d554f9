//! Reads a [`Topology`] through hwloc (feature `hwloc`): this machine, or an XML file of another one.
//!
//! hwloc knows cpus, cores, caches, nodes, packages and kinds of core on many systems and odd machines. It does not know
//! quotas, isolated cpus, the state of SMT or hypervisors: on this machine those come from our own reader, for an XML
//! file they stay unknown, and a note says so.
//!
//! hwloc obeys environment variables (`HWLOC_XMLFILE`, `HWLOC_FSROOT`, `HWLOC_SYNTHETIC`). Such a machine is not this
//! one, and is treated like an XML file. The variables must be set before the process starts, as nothing else is safe
//! beside other threads.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CStr;
use std::fs;
use std::path::PathBuf;

use hwlocality::bitmap::BitmapIndex;
use hwlocality::cpu::cpuset::CpuSet;
use hwlocality::cpu::kind::CpuKind;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use hwlocality::topology::builder::{BuildFlags, TopologyBuilder};

use super::sysfs::{self, Host};
use super::{CPUS_MAX, CoreKind, Cpu, CpuList, Topology, TopologyError, pin};

/// What hwloc is to read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HwlocSource {
    /// A file that `lstopo FILE.xml` wrote, in the format 2 (hwloc 2.0 to 2.12).
    Xml(PathBuf),
}

impl Topology {
    /// Reads the machine that the calling thread runs on through hwloc.
    ///
    /// Gives the fields that [`Topology::read`] gives; quota, isolation, SMT control and hypervisor come from the same
    /// files as there. Takes tens of milliseconds; nobody's affinity changes meanwhile.
    ///
    /// # Errors
    /// [`TopologyError`] when hwloc cannot make anything of the machine, or no cpu is left to the thread.
    pub fn read_hwloc() -> Result<Self, TopologyError> {
        let seen = Seen::load(TopologyBuilder::new(), PathBuf::from("/sys"))?;
        if !seen.this_system {
            return seen.describe(None, &sysfs::Besides::default());
        }
        let mask = pin::current_mask()
            .map_err(|error| TopologyError::NoCpu { why: format!("the affinity mask cannot be read: {error}") })?;
        seen.describe(Some(&mask), &sysfs::besides(&Host::live()))
    }

    /// Reads another machine from what hwloc once wrote about it.
    ///
    /// All online cpus that hwloc had permission for count as allowed. [`Topology::quota`] is `None`, no cpu is isolated,
    /// [`Topology::hypervisor`] is false and SMT is never [`Absent`](super::Smt::Absent), because hwloc does not say.
    ///
    /// # Errors
    /// [`TopologyError::Unreadable`] names the file when it cannot be read or hwloc rejects it.
    pub fn read_hwloc_from(source: &HwlocSource) -> Result<Self, TopologyError> {
        let HwlocSource::Xml(path) = source;
        let unreadable = |why: String| TopologyError::Unreadable { path: path.clone(), why };
        // The text goes through our hands: hwlocality panics on a file that is not there.
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let builder = TopologyBuilder::new()
            .from_xml(&text)
            .map_err(|error| unreadable(format!("{error}; wanted hwloc's XML format 2")))?;
        Seen::load(builder, path.clone())?.describe(None, &sysfs::Besides::default())
    }
}

/// A machine as hwloc sees it.
struct Seen {
    topology: hwlocality::topology::Topology,
    this_system: bool,
    /// What to name in errors.
    source: PathBuf,
}

impl Seen {
    fn load(builder: TopologyBuilder, source: PathBuf) -> Result<Self, TopologyError> {
        // INCLUDE_DISALLOWED: cpus outside our cpuset are there all the same. DONT_CHANGE_BINDING: hwloc would move the
        // calling thread from cpu to cpu to ask each one.
        let flags = BuildFlags::INCLUDE_DISALLOWED | BuildFlags::DONT_CHANGE_BINDING;
        let loaded = builder
            .with_flags(flags)
            .map_err(|error| error.to_string())
            .and_then(|builder| builder.build().map_err(|error| error.to_string()));
        match loaded {
            Ok(topology) => Ok(Self { this_system: topology.is_this_system(), topology, source }),
            Err(why) => Err(TopologyError::Unreadable { path: source, why: format!("hwloc says: {why}") }),
        }
    }

    fn describe(&self, mask: Option<&BTreeSet<usize>>, besides: &sysfs::Besides) -> Result<Topology, TopologyError> {
        let kinds = self.kinds();
        let permitted = members(&self.topology.allowed_cpuset());
        let mut cpus: Vec<Cpu> = Vec::new();
        let mut cacheless = None;
        for pu in self.topology.objects_with_type(ObjectType::PU) {
            let Some(id) = pu.os_index().filter(|&id| id < CPUS_MAX) else { continue };
            let smallest = |object: Option<&TopologyObject>| object.and_then(smallest_cpu).unwrap_or(id);
            let cache = pu.ancestors().filter(|object| object.object_type().is_cpu_data_cache()).last();
            let package = pu.first_ancestor_with_type(ObjectType::Package);
            if cache.is_none() {
                cacheless.get_or_insert(id);
            }
            cpus.push(Cpu {
                id,
                core: smallest(pu.first_ancestor_with_type(ObjectType::Core)),
                llc: smallest(cache.or(package)),
                node: self.node_of(id),
                package: package.and_then(TopologyObject::os_index).unwrap_or(0),
                kind: kinds.get(&id).copied().unwrap_or(CoreKind::Uniform),
                online: true,
                isolated: besides.isolated.contains(id),
                allowed: permitted.contains(&id) && mask.is_none_or(|mask| mask.contains(&id)),
            });
        }
        let online: BTreeSet<usize> = cpus.iter().map(|cpu| cpu.id).collect();
        for id in members(&self.topology.complete_cpuset()).difference(&online).copied() {
            cpus.push(Cpu {
                id,
                core: id,
                llc: id,
                node: 0,
                package: 0,
                kind: CoreKind::Uniform,
                online: false,
                isolated: besides.isolated.contains(id),
                allowed: false,
            });
        }
        cpus.sort_by_key(|cpu| cpu.id);
        if !cpus.iter().any(|cpu| cpu.allowed) {
            let list = |set: BTreeSet<usize>| CpuList::from(set);
            let mask = mask.map(|mask| format!(", the affinity mask has {}", list(mask.clone()))).unwrap_or_default();
            let why = format!("online are {}, hwloc permits {}{mask}", list(online), list(permitted));
            return Err(TopologyError::NoCpu { why });
        }

        let mut notes = besides.notes.clone();
        if let Some(cpu) = cacheless {
            notes.push(format!("Cpu {cpu} tells of no cache; its package counts as one domain."));
        }
        if !self.this_system {
            let source = self.source.display();
            notes.push(format!(
                "Read from {source} by hwloc, which knows no quota, isolation, SMT control or hypervisor."
            ));
        }
        let siblings_seen = cpus.iter().any(|cpu| cpu.online && cpu.core != cpu.id);
        Ok(Topology {
            smt: sysfs::decide_smt(siblings_seen, besides.hypervisor, besides.smt_control.as_deref()),
            hypervisor: besides.hypervisor,
            quota: besides.quota.clone(),
            cpus,
            notes,
        })
    }

    /// The node with the lowest number that is local to a cpu: nodes of memory alone (HBM) share the cpus of ordinary
    /// ones, and come after them.
    fn node_of(&self, cpu: usize) -> usize {
        let local = self.topology.objects_with_type(ObjectType::NUMANode).filter(|node| {
            let index = BitmapIndex::try_from(cpu).ok();
            node.cpuset().zip(index).is_some_and(|(set, index)| set.is_set(index))
        });
        local.filter_map(TopologyObject::os_index).min().unwrap_or(0)
    }

    /// Kinds by the same witnesses as our own reader takes, in the same order.
    fn kinds(&self) -> BTreeMap<usize, CoreKind> {
        let Ok(kinds) = self.topology.cpu_kinds() else { return BTreeMap::new() };
        let mut named = BTreeMap::new();
        for kind in kinds.clone() {
            let core_kind = match info(&kind, c"CoreType") {
                Some("IntelCore") => CoreKind::Performance,
                Some("IntelAtom" | "IntelLowPower") => CoreKind::Efficiency,
                _ => continue,
            };
            named.extend(members(&kind.cpuset).into_iter().map(|cpu| (cpu, core_kind)));
        }
        if !named.is_empty() {
            return named;
        }
        [c"LinuxCapacity", c"FrequencyBaseMHz"]
            .into_iter()
            .map(|key| {
                let mut measures = BTreeMap::new();
                for kind in kinds.clone() {
                    // A kind that does not say makes the measure useless, as -1 does.
                    let measure = info(&kind, key).and_then(|value| value.parse().ok()).unwrap_or(-1);
                    measures.extend(members(&kind.cpuset).into_iter().map(|cpu| (cpu, measure)));
                }
                sysfs::kinds_by_measure(&measures)
            })
            .find(|kinds| !kinds.is_empty())
            .unwrap_or_default()
    }
}

fn info<'a>(kind: &CpuKind<'a>, key: &CStr) -> Option<&'a str> {
    kind.infos.iter().find(|info| info.name() == key)?.value().to_str().ok()
}

fn smallest_cpu(object: &TopologyObject) -> Option<usize> {
    object.cpuset()?.first_set().map(usize::from)
}

/// The cpus of a set, which hwloc may leave without an end.
fn members(set: &CpuSet) -> BTreeSet<usize> {
    set.iter_set().map(usize::from).take_while(|&cpu| cpu < CPUS_MAX).collect()
}
