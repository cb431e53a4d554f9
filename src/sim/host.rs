//! The `/sys` and `/proc` trees of machines of any shape, written to a directory.
//!
//! A [`HostTree`] describes a machine; [`HostTree::write`] puts its files under a root, and the [`WrittenHost`] that
//! comes back can be read by [`Topology::read_from`], by hwloc (`HWLOC_FSROOT`), and be broken on purpose.
//!
//! ```
//! use twolane::sim::host::HostTree;
//!
//! # let dir = tempfile::tempdir()?;
//! // Four cores with SMT, cpu N and N+4 on a core, of which a container keeps three cpus.
//! let host = HostTree::apart(4, 2).affinity("0,4,5").write(dir.path())?;
//! let topology = host.topology()?;
//! assert_eq!(topology.siblings(0).iter().map(|cpu| cpu.id).collect::<Vec<_>>(), [0, 4]);
//! assert_eq!(topology.allowed().into_iter().collect::<Vec<_>>(), [0, 4, 5]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod groups;
mod layout;
mod tree;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::groups::Groups;
use self::layout::Layout;
use crate::topology::{CpuList, Topology, TopologyError};

/// A machine to be written. Starts from a numbering ([`adjacent`](Self::adjacent) or [`apart`](Self::apart)); every
/// other property has the default of an ordinary server: one package, one NUMA node, one last-level cache, all cpus
/// online and usable, no control groups, no hypervisor.
///
/// What makes no sense (no core at all, five cores in two packages, an offline cpu that does not exist) is an error of
/// [`write`](Self::write).
#[derive(Clone, Debug)]
#[must_use = "a description writes nothing until `write` is called"]
pub struct HostTree {
    shape: Shape,
    smt: SmtControl,
    offline: Lists,
    isolated: Lists,
    affinity: Option<String>,
    hypervisor: bool,
    names: Names,
    groups: Option<Groups>,
}

/// How cores, packages, nodes and caches are arranged.
#[derive(Clone, Debug)]
struct Shape {
    cores: usize,
    threads: usize,
    numbering: Numbering,
    efficiency_cores: usize,
    packages: usize,
    nodes: usize,
    cores_per_llc: Option<usize>,
    capacities: Option<(u32, u32)>,
    holes: Lists,
}

/// Lists of cpus as the user wrote them; understood when the tree is written.
type Lists = Vec<String>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbering {
    Adjacent,
    Apart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SmtControl {
    /// `on` where cores have several threads, else `notsupported`.
    Natural,
    /// Switched off: only the first thread of each core is online.
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Names {
    /// `core_cpus`, `package_cpus`: Linux 5.3 and newer.
    New,
    /// `thread_siblings`, `core_siblings`.
    Old,
}

/// Which generation of control groups a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupVersion {
    /// A hierarchy for each controller, `cpu` and `cpuset` here.
    V1,
    /// One hierarchy for all.
    V2,
}

impl HostTree {
    /// `cores` cores of `threads` cpus with adjacent numbers: core 0 has cpus 0 and 1.
    pub fn adjacent(cores: usize, threads: usize) -> Self {
        Self::new(cores, threads, Numbering::Adjacent)
    }

    /// `cores` cores of `threads` cpus with numbers `cores` apart: core 0 of 4 has cpus 0 and 4.
    pub fn apart(cores: usize, threads: usize) -> Self {
        Self::new(cores, threads, Numbering::Apart)
    }

    fn new(cores: usize, threads: usize, numbering: Numbering) -> Self {
        Self {
            shape: Shape {
                cores,
                threads,
                numbering,
                efficiency_cores: 0,
                packages: 1,
                nodes: 1,
                cores_per_llc: None,
                capacities: None,
                holes: Lists::new(),
            },
            smt: SmtControl::Natural,
            offline: Lists::new(),
            isolated: Lists::new(),
            affinity: None,
            hypervisor: false,
            names: Names::New,
            groups: None,
        }
    }

    /// Divides the cores among `packages` sockets. They must divide evenly.
    pub fn packages(mut self, packages: usize) -> Self {
        self.shape.packages = packages;
        self
    }

    /// Divides the cores of each package among `nodes` NUMA nodes. They must divide evenly.
    pub fn nodes_per_package(mut self, nodes: usize) -> Self {
        self.shape.nodes = nodes;
        self
    }

    /// Gives every `cores` neighbouring cores a last-level cache of their own. By default a package has one.
    pub fn cores_per_llc(mut self, cores: usize) -> Self {
        self.shape.cores_per_llc = Some(cores);
        self
    }

    /// Adds `cores` efficiency cores of one cpu each, numbered after all others, to the last package: a hybrid machine
    /// as Intel's are, which lists both kinds under `sys/devices/cpu_core` and `cpu_atom`. They share the last package's
    /// last cache, and an L2 cache by fours.
    pub fn efficiency_cores(mut self, cores: usize) -> Self {
        self.shape.efficiency_cores = cores;
        self
    }

    /// Tells the kinds of a hybrid machine by `cpu_capacity` (`performance`, `efficiency`, of 1024), as arm64 does,
    /// instead of by Intel's counter devices.
    pub fn capacities(mut self, performance: u32, efficiency: u32) -> Self {
        self.shape.capacities = Some((performance, efficiency));
        self
    }

    /// Leaves out cpu numbers: cpus are numbered as if these did not exist. `cpus` is a kernel list (`"2-3"`).
    pub fn holes(mut self, cpus: impl Into<String>) -> Self {
        self.shape.holes.push(cpus.into());
        self
    }

    /// Takes cpus offline.
    pub fn offline(mut self, cpus: impl Into<String>) -> Self {
        self.offline.push(cpus.into());
        self
    }

    /// Switches SMT off in the running kernel: all but the first cpu of each core are offline, `smt/control` says so.
    pub fn smt_off(mut self) -> Self {
        self.smt = SmtControl::Off;
        self
    }

    /// Isolates cpus, as `isolcpus=` on the kernel's command line.
    pub fn isolated(mut self, cpus: impl Into<String>) -> Self {
        self.isolated.push(cpus.into());
        self
    }

    /// The affinity mask that the process has. By default every cpu is in it.
    pub fn affinity(mut self, cpus: impl Into<String>) -> Self {
        self.affinity = Some(cpus.into());
        self
    }

    /// Puts the machine on a hypervisor.
    pub fn hypervisor(mut self) -> Self {
        self.hypervisor = true;
        self
    }

    /// Names the sibling files as kernels before 5.3 do (`thread_siblings`, `core_siblings`).
    pub fn old_names(mut self) -> Self {
        self.names = Names::Old;
        self
    }

    /// Gives the machine control groups, with the process in the group `path` (`"/"`, `"/pod/box"`).
    ///
    /// The groups limit nothing until [`cpuset`](Self::cpuset) or [`quota`](Self::quota) says so.
    pub fn groups(mut self, version: GroupVersion, path: impl Into<String>) -> Self {
        self.groups = Some(Groups::new(version, path.into()));
        self
    }

    /// Mounts only the process's own group, as container runtimes do without a namespace for groups: what lies above
    /// is out of sight. Needs [`groups`](Self::groups) first.
    pub fn only_own_group_mounted(mut self) -> Self {
        self.groups.get_or_insert_with(Groups::unset).only_own = true;
        self
    }

    /// Restricts the group `path` to `cpus`. Needs [`groups`](Self::groups) first.
    pub fn cpuset(mut self, path: impl Into<String>, cpus: impl Into<String>) -> Self {
        self.groups.get_or_insert_with(Groups::unset).cpusets.insert(path.into(), cpus.into());
        self
    }

    /// Allows the group `path` `quota_us` microseconds of cpu time in each `period_us`. Needs [`groups`](Self::groups)
    /// first.
    pub fn quota(mut self, path: impl Into<String>, quota_us: u64, period_us: u64) -> Self {
        self.groups.get_or_insert_with(Groups::unset).quotas.insert(path.into(), (quota_us, period_us));
        self
    }

    /// Writes the files under `root`, which should be an empty directory or none yet.
    ///
    /// Costs about thirty small files a cpu.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] with the reason when the description makes no sense; else what the file system
    /// said.
    pub fn write(&self, root: &Path) -> io::Result<WrittenHost> {
        let layout = Layout::of(&self.shape)?;
        let mut offline = layout.known("offline", &self.offline)?;
        if self.smt == SmtControl::Off {
            offline.extend(layout.cpus.iter().filter(|cpu| cpu.thread > 0).map(|cpu| cpu.id));
        }
        let isolated = layout.known("isolated", &self.isolated)?;
        let affinity = match &self.affinity {
            Some(text) => list("affinity", text)?,
            None => layout.ids(),
        };
        let online: BTreeSet<usize> = layout.ids().difference(&offline).copied().collect();
        if online.is_empty() {
            return Err(invalid("no cpu is left online"));
        }
        let facts = tree::Facts {
            layout: &layout,
            online: &online,
            isolated: &isolated,
            affinity: &affinity,
            smt_off: self.smt == SmtControl::Off,
            hypervisor: self.hypervisor,
            old_names: self.names == Names::Old,
        };
        tree::write(root, &facts)?;
        groups::write(root, self.groups.as_ref(), &online)?;
        Ok(WrittenHost { root: root.to_owned() })
    }
}

/// A tree on disk: to be read, and to be broken.
///
/// Paths are relative to the root, for example `sys/devices/system/cpu/online`.
#[derive(Clone, Debug)]
pub struct WrittenHost {
    root: PathBuf,
}

impl WrittenHost {
    /// What somebody else wrote there.
    pub(in crate::sim) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The directory above `sys` and `proc`.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads the tree with [`Topology::read_from`].
    ///
    /// # Errors
    /// As that function.
    pub fn topology(&self) -> Result<Topology, TopologyError> {
        Topology::read_from(&self.root)
    }

    /// Removes a file, or a directory with all that is in it.
    ///
    /// # Errors
    /// What the file system said, for example that there is no such file.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        let path = self.root.join(path);
        if fs::symlink_metadata(&path)?.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }
    }

    /// Makes a file empty.
    ///
    /// # Errors
    /// As [`replace`](Self::replace).
    pub fn empty(&self, path: &str) -> io::Result<()> {
        self.replace(path, b"")
    }

    /// Makes a file unreadable for everybody, root included, by putting a directory in its place.
    ///
    /// # Errors
    /// As [`remove`](Self::remove).
    pub fn make_unreadable(&self, path: &str) -> io::Result<()> {
        self.remove(path)?;
        fs::create_dir(self.root.join(path))
    }

    /// Replaces the content of a file that is there.
    ///
    /// # Errors
    /// What the file system said. A path that does not exist is an error: a test that breaks a file nobody reads would
    /// prove nothing.
    pub fn replace(&self, path: &str, content: &[u8]) -> io::Result<()> {
        let path = self.root.join(path);
        fs::metadata(&path)?;
        fs::write(path, content)
    }
}

fn list(what: &str, text: &str) -> io::Result<BTreeSet<usize>> {
    text.parse::<CpuList>().map(CpuList::into_set).map_err(|error| invalid(format!("{what}: {error}")))
}

fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.into())
}
