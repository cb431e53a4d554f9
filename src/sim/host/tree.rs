//! Writes what a described machine shows in `/sys/devices` and `/proc`.
//!
//! Both lists and masks are written, as the kernel does: our reader takes the former, hwloc the latter.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use super::layout::{Hybrid, Layout, Place};
use crate::topology::{CoreKind, CpuList};

/// Everything that the files tell.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub layout: &'a Layout,
    pub online: &'a BTreeSet<usize>,
    pub isolated: &'a BTreeSet<usize>,
    pub affinity: &'a BTreeSet<usize>,
    pub smt_off: bool,
    pub hypervisor: bool,
    pub old_names: bool,
}

/// Writes them all under `root`.
pub(super) fn write(root: &Path, facts: &Facts<'_>) -> io::Result<()> {
    let cpu_dir = root.join("sys/devices/system/cpu");
    let all = facts.layout.ids();
    let offline: BTreeSet<usize> = all.difference(facts.online).copied().collect();
    file(&cpu_dir, "present", &list(&all))?;
    file(&cpu_dir, "possible", &list(&all))?;
    file(&cpu_dir, "online", &list(facts.online))?;
    file(&cpu_dir, "offline", &list(&offline))?;
    file(&cpu_dir, "isolated", &list(facts.isolated))?;

    let shares = Shares::of(facts);
    for cpu in &facts.layout.cpus {
        let dir = cpu_dir.join(format!("cpu{}", cpu.id));
        let online = facts.online.contains(&cpu.id);
        // Cpu 0 cannot be taken offline on most machines, and has no such file there.
        if cpu.id != 0 || !online {
            file(&dir, "online", if online { "1" } else { "0" })?;
        }
        // The kernel takes topology and caches away with the cpu.
        if online {
            topology(&dir, cpu, &shares, facts)?;
            caches(&dir, cpu, &shares)?;
        }
        let frugal = cpu.kind == CoreKind::Efficiency;
        match facts.layout.hybrid {
            Hybrid::No => {}
            Hybrid::Capacities { performance, efficiency } => {
                file(&dir, "cpu_capacity", &if frugal { efficiency } else { performance }.to_string())?;
            }
            // The kernel tells more than one thing of such parts, and hwloc knows them by their frequencies.
            Hybrid::CounterDevices => {
                let (base_khz, max_khz) = if frugal { EFFICIENCY_KHZ } else { PERFORMANCE_KHZ };
                file(&dir, "cpufreq/base_frequency", base_khz)?;
                file(&dir, "cpufreq/cpuinfo_max_freq", max_khz)?;
            }
        }
    }
    smt(&cpu_dir, facts)?;
    counter_devices(root, facts)?;
    nodes(root, facts, &shares)?;
    proc(root, facts)
}

/// Base and maximum frequency of the kinds of core of a Core i7-1370P.
const PERFORMANCE_KHZ: (&str, &str) = ("1900000", "5200000");
const EFFICIENCY_KHZ: (&str, &str) = ("1400000", "3900000");

/// A file with a newline at the end, in a directory that is made if need be.
pub(super) fn file(dir: &Path, name: &str, content: &str) -> io::Result<()> {
    let path = dir.join(name);
    let line = format!("{content}\n");
    match fs::write(&path, &line) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&path, line)
        }
        done => done,
    }
}

pub(super) fn list(cpus: &BTreeSet<usize>) -> String {
    CpuList::from(cpus.clone()).to_string()
}

/// A set of cpus in both of the kernel's formats.
#[derive(Clone, Debug, Default)]
struct Share {
    cpus: BTreeSet<usize>,
    list: String,
    mask: String,
}

/// Who shares what, by the machine-wide index of the shared thing. Made once: on large machines thousands of files
/// repeat them.
#[derive(Debug)]
struct Shares {
    cores: Vec<Share>,
    l2: Vec<Share>,
    llc: Vec<Share>,
    nodes: Vec<Share>,
    packages: Vec<Share>,
}

impl Shares {
    fn of(facts: &Facts<'_>) -> Self {
        let bits = facts.layout.cpus.last().map_or(1, |last| last.id + 1);
        let by = |index: fn(&Place) -> usize| {
            let mut shares: Vec<Share> = Vec::new();
            for cpu in facts.layout.cpus.iter().filter(|cpu| facts.online.contains(&cpu.id)) {
                if shares.len() <= index(cpu) {
                    shares.resize_with(index(cpu) + 1, Share::default);
                }
                shares[index(cpu)].cpus.insert(cpu.id);
            }
            for share in &mut shares {
                share.list = list(&share.cpus);
                share.mask = mask(&share.cpus, bits);
            }
            shares
        };
        let mut nodes = by(|cpu| cpu.node);
        // A node whose cpus are all offline is there all the same.
        nodes.resize_with(facts.layout.nodes, || Share { mask: mask(&BTreeSet::new(), bits), ..Share::default() });
        Self {
            cores: by(|cpu| cpu.core),
            l2: by(|cpu| cpu.l2),
            llc: by(|cpu| cpu.llc),
            nodes,
            packages: by(|cpu| cpu.package),
        }
    }
}

/// Words of 32 bits in hexadecimal, the highest first.
fn mask(cpus: &BTreeSet<usize>, bits: usize) -> String {
    const WORD_BITS: usize = u32::BITS as usize;
    let mut words = vec![0_u32; bits.div_ceil(WORD_BITS)];
    for cpu in cpus {
        words[cpu / WORD_BITS] |= 1 << (cpu % WORD_BITS);
    }
    words.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

fn topology(dir: &Path, cpu: &Place, shares: &Shares, facts: &Facts<'_>) -> io::Result<()> {
    let dir = dir.join("topology");
    let (core, package) = (&shares.cores[cpu.core], &shares.packages[cpu.package]);
    let (core_name, package_name) =
        if facts.old_names { ("thread_siblings", "core_siblings") } else { ("core_cpus", "package_cpus") };
    file(&dir, core_name, &core.mask)?;
    file(&dir, &format!("{core_name}_list"), &core.list)?;
    file(&dir, package_name, &package.mask)?;
    file(&dir, &format!("{package_name}_list"), &package.list)?;
    // As firmware does it: counted anew in each package, so it names a core together with the package only.
    let first = facts.layout.cpus.iter().filter(|other| other.package == cpu.package).map(|other| other.core).min();
    file(&dir, "core_id", &(cpu.core - first.unwrap_or(0)).to_string())?;
    file(&dir, "physical_package_id", &cpu.package.to_string())
}

fn caches(dir: &Path, cpu: &Place, shares: &Shares) -> io::Result<()> {
    let (core, l2, llc) = (&shares.cores[cpu.core], &shares.l2[cpu.l2], &shares.llc[cpu.llc]);
    let caches = [
        ("index0", "1", "Data", "48K", core),
        ("index1", "1", "Instruction", "32K", core),
        ("index2", "2", "Unified", "2048K", l2),
        ("index3", "3", "Unified", "32768K", llc),
    ];
    for (name, level, kind, size, share) in caches {
        let dir = dir.join("cache").join(name);
        file(&dir, "level", level)?;
        file(&dir, "type", kind)?;
        file(&dir, "size", size)?;
        file(&dir, "shared_cpu_map", &share.mask)?;
        file(&dir, "shared_cpu_list", &share.list)?;
    }
    Ok(())
}

fn smt(cpu_dir: &Path, facts: &Facts<'_>) -> io::Result<()> {
    let several = facts.layout.cpus.iter().any(|cpu| cpu.thread > 0);
    let control = match (facts.smt_off, several) {
        (true, _) => "off",
        (false, true) => "on",
        (false, false) => "notsupported",
    };
    let dir = cpu_dir.join("smt");
    file(&dir, "control", control)?;
    file(&dir, "active", if control == "on" { "1" } else { "0" })
}

fn counter_devices(root: &Path, facts: &Facts<'_>) -> io::Result<()> {
    if facts.layout.hybrid != Hybrid::CounterDevices {
        return Ok(());
    }
    for (device, kind) in [("cpu_core", CoreKind::Performance), ("cpu_atom", CoreKind::Efficiency)] {
        let of_kind = facts.layout.cpus.iter().filter(|cpu| cpu.kind == kind && facts.online.contains(&cpu.id));
        let cpus: BTreeSet<usize> = of_kind.map(|cpu| cpu.id).collect();
        file(&root.join("sys/devices").join(device), "cpus", &list(&cpus))?;
    }
    Ok(())
}

fn nodes(root: &Path, facts: &Facts<'_>, shares: &Shares) -> io::Result<()> {
    let dir = root.join("sys/devices/system/node");
    let all: BTreeSet<usize> = (0..facts.layout.nodes).collect();
    for name in ["online", "possible", "has_memory"] {
        file(&dir, name, &list(&all))?;
    }
    for (number, share) in shares.nodes.iter().enumerate() {
        let dir = dir.join(format!("node{number}"));
        file(&dir, "cpulist", &share.list)?;
        file(&dir, "cpumap", &share.mask)?;
        file(&dir, "meminfo", &format!("Node {number} MemTotal:       16777216 kB"))?;
        let distances: Vec<&str> = all.iter().map(|&other| if other == number { "10" } else { "20" }).collect();
        file(&dir, "distance", &distances.join(" "))?;
    }
    Ok(())
}

fn proc(root: &Path, facts: &Facts<'_>) -> io::Result<()> {
    let dir = root.join("proc");
    let hypervisor = if facts.hypervisor { " hypervisor" } else { "" };
    let mut cpuinfo = String::new();
    for cpu in facts.layout.cpus.iter().filter(|cpu| facts.online.contains(&cpu.id)) {
        let _ = writeln!(
            cpuinfo,
            "processor\t: {}\nvendor_id\t: GenuineIntel\nmodel name\t: Simulated\nflags\t\t: fpu tsc ht{hypervisor}\n",
            cpu.id
        );
    }
    file(&dir, "cpuinfo", &cpuinfo)?;
    file(&dir, "meminfo", "MemTotal:       16777216 kB")?;
    let affinity = list(facts.affinity);
    file(&dir.join("self"), "status", &format!("Name:\tservice\nThreads:\t1\nCpus_allowed_list:\t{affinity}"))
}
