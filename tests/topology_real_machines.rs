//! Real machines are read as hwloc reads them.
//!
//! Their snapshots lie in `../shared/topologies`, which is no part of this package. Where that folder is absent, the
//! tests say what they leave out and pass.

#[cfg(feature = "hwloc")]
mod topology_hwloc;
mod topology_scratch;
mod topology_text;

use std::path::{Path, PathBuf};
use std::process::Command;

use topology_text::{shared, those};
use twolane::topology::{CoreKind, Cpu, Topology};

/// What is known of a snapshot: how many of each there are among the online cpus, by hwloc's own account but for what
/// `unlike_hwloc` says.
struct Known {
    snapshot: &'static str,
    /// Where in the archive `sys` and `proc` are.
    root: &'static str,
    online: usize,
    cores: usize,
    /// `None` where the machine tells of no caches.
    caches: Option<usize>,
    nodes: usize,
    efficiency: &'static str,
    #[cfg_attr(not(feature = "hwloc"), expect(dead_code))]
    unlike_hwloc: Option<Difference>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// Two integer units share a front end. The kernel calls them siblings, hwloc calls them cores.
    Modules,
    /// A machine that was made up, whose nodes overlap and leave cpus out. There is no right answer.
    Nodes,
}

const KNOWN: [Known; 11] = [
    Known {
        snapshot: "8em64t-4c2t",
        root: "8em64t-4c2t",
        online: 8,
        cores: 4,
        caches: Some(1),
        nodes: 1,
        efficiency: "",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "16em64t-4s2c2t",
        root: "16em64t-4s2c2t",
        online: 16,
        cores: 8,
        caches: Some(4),
        nodes: 1,
        efficiency: "",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "16em64t-4s2c2t-offlines",
        root: "16em64t-4s2c2t-offlines",
        online: 12,
        cores: 7,
        caches: Some(4),
        nodes: 1,
        efficiency: "",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "16amd64-8n2c-cpusets",
        root: "16amd64-8n2c-cpusets",
        online: 15,
        cores: 15,
        caches: Some(15),
        nodes: 8,
        efficiency: "",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "20em64t-hybrid-1p6c2t+2ca4co1t",
        root: "20em64t-hybrid-1p6c2t+2ca4co1t",
        online: 20,
        cores: 14,
        caches: Some(1),
        nodes: 1,
        efficiency: "12-19",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "5intel64-hybrid-lakefield",
        root: "5intel64-hybrid-lakefield/fsroot",
        online: 5,
        cores: 5,
        caches: Some(1),
        nodes: 1,
        efficiency: "0-3",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "32amd64-4s2n4c-cgroup2",
        root: "32amd64-4s2n4c-cgroup",
        online: 32,
        cores: 32,
        caches: Some(8),
        nodes: 8,
        efficiency: "",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "64amd64-4s2n4ca2co",
        root: "64amd64-4s2n4ca2co",
        online: 64,
        cores: 32,
        caches: Some(8),
        nodes: 8,
        efficiency: "",
        unlike_hwloc: Some(Difference::Modules),
    },
    Known {
        snapshot: "128arm-2pa2n8cluster4co",
        root: "128arm-2pa2n8cluster4co",
        online: 128,
        cores: 128,
        caches: Some(4),
        nodes: 4,
        efficiency: "",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "256ppc-8n8s4t",
        root: "256ppc-8n8s4t",
        online: 256,
        cores: 64,
        caches: Some(64),
        nodes: 8,
        efficiency: "",
        unlike_hwloc: None,
    },
    Known {
        snapshot: "fakeheterocpunuma",
        root: "fakeheterocpunuma",
        online: 24,
        cores: 12,
        caches: None,
        nodes: 5,
        efficiency: "0-11",
        unlike_hwloc: Some(Difference::Nodes),
    },
];

#[test]
#[ignore = "a part of the other tests, which run it in a process of its own"]
#[cfg(feature = "hwloc")]
fn child() {
    topology_hwloc::child();
}

#[test]
fn counts_are_as_known() {
    each(|known, root| {
        let topology = Topology::read_from(root).unwrap();
        let count = |key: fn(&Cpu) -> usize| shared(&topology, key).split(" | ").count();
        let name = known.snapshot;
        println!("{name}: {:#?}", topology.notes);
        assert_eq!(count(|cpu| cpu.id), known.online, "{name}: online");
        assert_eq!(count(|cpu| cpu.core), known.cores, "{name}: cores");
        if let Some(caches) = known.caches {
            assert_eq!(count(|cpu| cpu.llc), caches, "{name}: caches");
        }
        assert_eq!(count(|cpu| cpu.node), known.nodes, "{name}: nodes");
        assert_eq!(those(&topology, |cpu| cpu.kind == CoreKind::Efficiency), known.efficiency, "{name}: kinds");
    });
}

#[test]
#[cfg(feature = "hwloc")]
fn hwloc_agrees() {
    each(|known, root| {
        let (ours, theirs) = (Topology::read_from(root).unwrap(), topology_hwloc::hwloc_of(root));
        assert_eq!(ours.cpus.len(), theirs.about(true).len(), "{}: cpus", known.snapshot);
        for (ours, theirs) in topology_hwloc::describe(&ours, true).into_iter().zip(theirs.about(true)) {
            let (ours, theirs) = (but_for(known.unlike_hwloc, &ours), but_for(known.unlike_hwloc, &theirs));
            assert_eq!(ours, theirs, "{}: left ours, right hwloc's", known.snapshot);
        }
    });
}

/// The words about a cpu without those on which we differ on purpose.
#[cfg(feature = "hwloc")]
fn but_for(difference: Option<Difference>, line: &str) -> String {
    let word = match difference {
        None => return line.to_owned(),
        Some(Difference::Modules) => ": core ",
        Some(Difference::Nodes) => ", node ",
    };
    let Some((before, after)) = line.split_once(word) else { return line.to_owned() };
    format!("{before}{}", after.trim_start_matches(|char: char| char.is_ascii_digit()))
}

/// What hwloc once wrote of machines that can be asked for more than files.
#[test]
#[cfg(feature = "hwloc")]
fn xml_of_real_machines() {
    use twolane::topology::{HwlocSource, Smt};

    let Some(folder) = snapshots() else { return };
    for (file, online, cores, caches, siblings_of_5, efficiency, smt) in [
        ("Intel-SapphireRapids-2xXeonMax9460.xml", "0-159", 80, 2, "5,85", "", Smt::Visible),
        ("AMD-1Ah-Zen5StrixPoint-RyzenAI9HX370.xml", "0-23", 12, 2, "5,17", "", Smt::Visible),
        ("Intel-RaptorLake-Corei7-1370P.xml", "0-19", 14, 1, "4-5", "12-19", Smt::Visible),
        ("AMD-19h-Zen3-2xEpyc-7763.xml", "0-127", 128, 16, "5", "", Smt::Unknown),
    ] {
        let path = folder.join("xml").join(file);
        if !path.exists() {
            println!("left out: {} is not there", path.display());
            continue;
        }
        let topology = Topology::read_hwloc_from(&HwlocSource::Xml(path)).unwrap();
        let count = |key: fn(&Cpu) -> usize| shared(&topology, key).split(" | ").count();
        assert_eq!(those(&topology, |cpu| cpu.online && cpu.allowed), online, "{file}");
        assert_eq!(count(|cpu| cpu.core), cores, "{file}: cores");
        assert_eq!(count(|cpu| cpu.llc), caches, "{file}: caches");
        let core_of_5 = topology.cpu(5).unwrap().core;
        assert_eq!(those(&topology, |cpu| cpu.core == core_of_5), siblings_of_5, "{file}: siblings of cpu 5");
        assert_eq!(those(&topology, |cpu| cpu.kind == CoreKind::Efficiency), efficiency, "{file}: kinds");
        assert_eq!((topology.smt, topology.quota), (smt, None), "{file}");
    }
}

/// Unpacks each snapshot and hands over its root.
fn each(mut case: impl FnMut(&Known, &Path)) {
    let Some(folder) = snapshots() else { return };
    for known in &KNOWN {
        let archive = folder.join("sysfs").join(format!("{}.tar.bz2", known.snapshot));
        if !archive.exists() {
            println!("left out: {} is not there", archive.display());
            continue;
        }
        let dir = topology_scratch::scratch();
        let unpacked = Command::new("tar").arg("-xjf").arg(&archive).arg("-C").arg(dir.path()).status();
        match unpacked {
            Ok(status) if status.success() => case(known, &dir.path().join(known.root)),
            outcome => println!("left out: tar cannot unpack {}: {outcome:?}", archive.display()),
        }
    }
}

fn snapshots() -> Option<PathBuf> {
    // Asked at run time first, so that a binary that was moved elsewhere can be told.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let folder = Path::new(&package).join("../shared/topologies");
    if !folder.exists() {
        println!("left out: all {} real machines, as {} is not there", KNOWN.len(), folder.display());
        return None;
    }
    Some(folder)
}
