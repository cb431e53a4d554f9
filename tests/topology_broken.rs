//! Broken trees never panic: what can be told is told, with a sentence about what was odd, and the rest is an error.
#![cfg(feature = "sim")]

mod topology_scratch;
mod topology_text;

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use topology_scratch::scratch;
use topology_text::{shared, those};
use twolane::sim::host::{GroupVersion, HostTree, WrittenHost};
use twolane::topology::{CoreKind, Smt, Topology, TopologyError};

const CPU: &str = "sys/devices/system/cpu";

/// A machine of two cores with two cpus each, after `damage`.
fn broken(damage: impl Fn(&WrittenHost)) -> Result<Topology, TopologyError> {
    let dir = scratch();
    let host = HostTree::adjacent(2, 2)
        .groups(GroupVersion::V2, "/box")
        .cpuset("/box", "0-2")
        .quota("/box", 150_000, 100_000)
        .write(dir.path())
        .unwrap();
    damage(&host);
    host.topology()
}

fn noted(topology: &Topology, part: &str) {
    assert!(topology.notes.iter().any(|note| note.contains(part)), "{part:?} in {:#?}", topology.notes);
}

#[test]
fn no_tree_at_all_is_an_error() {
    let dir = scratch();
    for root in [dir.path(), Path::new("/nonexistent/root")] {
        let error = Topology::read_from(root).unwrap_err();
        let TopologyError::Unreadable { path, why } = &error else { panic!("{error:?}") };
        assert_eq!(path, &root.join(CPU));
        assert!(why.contains("is /sys mounted?"), "{why}");
    }
}

#[test]
fn the_mask_alone_is_enough() {
    let topology = broken(|host| host.remove("sys").unwrap()).unwrap();
    assert_eq!(those(&topology, |cpu| cpu.allowed), "0-3");
    assert_eq!(shared(&topology, |cpu| cpu.core), "0 | 1 | 2 | 3");
    assert_eq!(topology.smt, Smt::Unknown);
    noted(&topology, "cpu/online is missing or says nothing; taken instead: the affinity mask.");
}

#[test]
fn lists_of_cpus_that_are_gone_or_nonsense_are_made_up_from_directories() {
    for name in ["online", "present"] {
        let path = format!("{CPU}/{name}");
        for (what, damage) in damages() {
            let topology = broken(|host| damage(host, &path)).unwrap();
            assert_eq!(those(&topology, |cpu| cpu.online), "0-3", "{name} {what}");
            assert_eq!(shared(&topology, |cpu| cpu.core), "0-1 | 2-3", "{name} {what}");
            noted(&topology, "taken instead: the cpuN directories.");
        }
    }
}

#[test]
fn without_the_list_each_cpu_says_whether_it_is_online() {
    let dir = scratch();
    let host = HostTree::adjacent(2, 2).offline("3").write(dir.path()).unwrap();
    host.remove(&format!("{CPU}/online")).unwrap();
    assert_eq!(those(&host.topology().unwrap(), |cpu| cpu.online), "0-2");
}

#[test]
fn a_cpu_without_siblings_to_read_is_alone() {
    for (what, damage) in damages() {
        let topology = broken(|host| {
            host.remove(&format!("{CPU}/cpu1/topology/core_cpus")).unwrap();
            damage(host, &format!("{CPU}/cpu1/topology/core_cpus_list"));
        })
        .unwrap();
        assert_eq!(shared(&topology, |cpu| cpu.core), "0 | 1 | 2-3", "{what}");
        noted(&topology, "Nothing says with whom cpu 1 shares a core");
    }
}

#[test]
fn masks_stand_in_for_lists() {
    let topology = broken(|host| {
        for cpu in 0..4 {
            host.remove(&format!("{CPU}/cpu{cpu}/topology/core_cpus_list")).unwrap();
            host.remove(&format!("{CPU}/cpu{cpu}/cache/index3/shared_cpu_list")).unwrap();
        }
        host.remove("sys/devices/system/node/node0/cpulist").unwrap();
    })
    .unwrap();
    assert_eq!(shared(&topology, |cpu| cpu.core), "0-1 | 2-3");
    assert_eq!(shared(&topology, |cpu| cpu.llc), "0-3");
    assert_eq!(topology.notes, [""; 0]);
}

#[test]
fn contradictions_split_cores_and_never_join_them() {
    for (cpu, claim, cores) in [
        (1, "1", "0 | 1 | 2-3"),
        (1, "1-2", "0 | 1 | 2-3"),
        (1, "0-3", "0 | 1 | 2-3"),
        (1, "2-3", "0 | 1 | 2-3"),
        (0, "0-3", "0 | 1 | 2-3"),
        (3, "0-1,3", "0-1 | 2 | 3"),
    ] {
        let path = format!("{CPU}/cpu{cpu}/topology/core_cpus_list");
        let topology = broken(|host| host.replace(&path, claim.as_bytes()).unwrap()).unwrap();
        assert_eq!(shared(&topology, |cpu| cpu.core), cores, "cpu {cpu} claims {claim}");
        noted(&topology, "contradict each other; only cpus that agree share a core");
    }
}

#[test]
fn siblings_that_do_not_exist_do_not_count() {
    let topology = broken(|host| {
        for cpu in 0..2 {
            host.replace(&format!("{CPU}/cpu{cpu}/topology/core_cpus_list"), b"0-1,900").unwrap();
        }
    })
    .unwrap();
    assert_eq!(shared(&topology, |cpu| cpu.core), "0-1 | 2-3");
    assert_eq!(topology.cpus.len(), 4);
}

#[test]
fn without_caches_the_package_is_the_domain() {
    let topology = broken(|host| {
        for cpu in 0..4 {
            host.remove(&format!("{CPU}/cpu{cpu}/cache")).unwrap();
        }
    })
    .unwrap();
    assert_eq!(shared(&topology, |cpu| cpu.llc), "0-3");
    noted(&topology, "tells of no cache; its package counts as one domain");
}

#[test]
fn without_caches_a_cluster_is_the_domain() {
    let topology = broken(|host| {
        for cpu in 0..4 {
            host.remove(&format!("{CPU}/cpu{cpu}/cache")).unwrap();
            let cluster = host.root().join(format!("{CPU}/cpu{cpu}/topology/cluster_cpus_list"));
            fs::write(cluster, if cpu < 2 { "0-1\n" } else { "2-3\n" }).unwrap();
        }
    })
    .unwrap();
    assert_eq!(shared(&topology, |cpu| cpu.llc), "0-1 | 2-3");
    noted(&topology, "its cluster 0-1 counts as one domain");
}

#[test]
fn a_cache_without_a_level_leaves_the_one_below() {
    let topology = broken(|host| {
        for cpu in 0..4 {
            host.replace(&format!("{CPU}/cpu{cpu}/cache/index3/level"), b"L3").unwrap();
        }
    })
    .unwrap();
    assert_eq!(shared(&topology, |cpu| cpu.llc), "0-1 | 2-3");
    noted(&topology, r#"index3/level makes no sense and is ignored: "L3" is no number"#);
}

#[test]
fn caches_that_contradict_each_other_are_noted() {
    let topology = broken(|host| {
        host.replace(&format!("{CPU}/cpu0/cache/index3/shared_cpu_list"), b"0-1").unwrap();
        host.replace(&format!("{CPU}/cpu2/cache/index3/shared_cpu_list"), b"1-3").unwrap();
    })
    .unwrap();
    assert_eq!(shared(&topology, |cpu| cpu.llc), "0-1 | 2-3");
    noted(&topology, "The cache lists around cpu 2 contradict each other");
}

#[test]
fn nodes_that_are_gone_or_nonsense_are_node_0() {
    for (what, damage) in damages() {
        let topology = broken(|host| {
            host.remove("sys/devices/system/node/node0/cpumap").unwrap();
            damage(host, "sys/devices/system/node/node0/cpulist");
        })
        .unwrap();
        assert_eq!(shared(&topology, |cpu| cpu.node), "0-3", "{what}");
        noted(&topology, "No node lists cpu 0; it counts as node 0. And 3 more like this.");
    }
    let topology = broken(|host| host.remove("sys/devices/system/node").unwrap()).unwrap();
    assert_eq!(shared(&topology, |cpu| cpu.node), "0-3");
    assert_eq!(topology.notes, [""; 0], "a kernel without NUMA is not odd");
}

#[test]
fn packages_the_kernel_does_not_know_are_package_0() {
    let topology = broken(|host| {
        host.replace(&format!("{CPU}/cpu0/topology/physical_package_id"), b"-1").unwrap();
    })
    .unwrap();
    assert_eq!(shared(&topology, |cpu| cpu.package), "0-3");
    noted(&topology, "Nothing says in which package cpu 0 is");
}

#[test]
fn nonsense_kinds_are_no_kinds() {
    let dir = scratch();
    let host = HostTree::adjacent(2, 2).efficiency_cores(2).write(dir.path()).unwrap();
    host.replace("sys/devices/cpu_core/cpus", b"all").unwrap();
    host.empty("sys/devices/cpu_atom/cpus").unwrap();
    let topology = host.topology().unwrap();
    assert_eq!(those(&topology, |cpu| cpu.kind == CoreKind::Efficiency), "4-5", "frequencies stand in");
    noted(&topology, "cpu_core/cpus makes no sense");

    host.replace(&format!("{CPU}/cpu0/cpufreq/base_frequency"), b"fast").unwrap();
    assert_eq!(those(&host.topology().unwrap(), |cpu| cpu.kind == CoreKind::Uniform), "0-5", "all or nothing");
}

#[test]
fn limits_that_make_no_sense_are_ignored_with_a_note() {
    let topology = broken(|host| host.replace("sys/fs/cgroup/box/cpu.max", b"lots").unwrap()).unwrap();
    assert_eq!(topology.quota, None);
    noted(&topology, r#"cpu.max makes no sense and is ignored: "lots" is no `cpu.max`"#);

    // The group above has a set of its own, which holds for its children.
    let topology =
        broken(|host| host.replace("sys/fs/cgroup/box/cpuset.cpus.effective", b"0-99999999999").unwrap()).unwrap();
    assert_eq!(those(&topology, |cpu| cpu.allowed), "0-3");
    noted(&topology, "wanted a cpu number below 65536");

    let topology = broken(|host| host.replace("proc/self/cgroup", b"\xff\xfe").unwrap()).unwrap();
    assert_eq!((topology.quota.clone(), topology.allowed().len()), (None, 4));
    noted(&topology, "proc/self/cgroup cannot be read");

    let topology = broken(|host| host.remove("proc/self/mountinfo").unwrap()).unwrap();
    assert!(topology.quota.is_some(), "the older list of mounts stands in");
    noted(&topology, "taken instead: proc/mounts");

    let topology = broken(|host| {
        host.remove("proc/self/mountinfo").unwrap();
        host.remove("proc/mounts").unwrap();
    })
    .unwrap();
    assert_eq!(topology.quota, None);
    noted(&topology, "limits of control groups are not seen");
}

#[test]
fn a_process_outside_its_namespace_gets_the_mounts_quota_and_no_cpuset() {
    let topology = broken(|host| {
        host.replace("proc/self/cgroup", b"0::/../elsewhere\n").unwrap();
        fs::write(host.root().join("sys/fs/cgroup/cpu.max"), "50000 100000\n").unwrap();
        host.replace("sys/fs/cgroup/cpuset.cpus.effective", b"3\n").unwrap();
    })
    .unwrap();
    assert_eq!(topology.allowed().len(), 4);
    assert!((topology.quota.as_ref().unwrap().cpus - 0.5).abs() < 1e-9);
    noted(&topology, "The process's own control group cannot be located");
}

#[test]
fn a_nonsense_mask_means_all_online_cpus() {
    for content in ["Cpus_allowed_list:\tnone\n", "Cpus_allowed_list:\n", "Name:\tx\n", ""] {
        let dir = scratch();
        let host = HostTree::adjacent(2, 2).affinity("1").write(dir.path()).unwrap();
        host.replace("proc/self/status", content.as_bytes()).unwrap();
        let topology = host.topology();
        assert_eq!(topology.map(|topology| topology.allowed().len()), Ok(4), "{content:?}");
    }
}

/// Whatever single file is damaged, and however, reading ends without a panic, and what the file does not concern
/// stays as it is.
#[test]
fn any_one_file_may_be_damaged_in_any_way() {
    let v1 = HostTree::adjacent(1, 2).efficiency_cores(1).groups(GroupVersion::V1, "/a").quota("/a", 150_000, 100_000);
    let v2 =
        HostTree::adjacent(1, 2).capacities(1024, 446).old_names().groups(GroupVersion::V2, "/a").cpuset("/a", "0");
    for tree in [v1, v2] {
        let dir = scratch();
        let host = tree.write(dir.path()).unwrap();
        let count = host.topology().unwrap().cpus.len();
        for path in files(host.root()) {
            let whole = fs::read(host.root().join(&path)).unwrap();
            for content in NONSENSE {
                host.replace(&path, content).unwrap();
                match host.topology() {
                    // A list that names other cpus is believed, but never without bound.
                    Ok(topology) => {
                        let lists = path.ends_with("present") || path.ends_with("online");
                        assert!(lists || topology.cpus.len() == count, "{path}");
                    }
                    Err(error) => assert!(matches!(error, TopologyError::NoCpu { .. }), "{path}: {error}"),
                }
            }
            host.make_unreadable(&path).unwrap();
            host.topology().unwrap();
            host.remove(&path).unwrap();
            host.topology().unwrap();
            fs::write(host.root().join(&path), whole).unwrap();
        }
    }
}

#[test]
fn a_pipe_in_the_tree_does_not_hang_the_reader() {
    let dir = scratch();
    let host = HostTree::adjacent(2, 2).write(dir.path()).unwrap();
    let path = format!("{CPU}/online");
    host.remove(&path).unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join(&path)).status().unwrap().success());

    let (told, answer) = mpsc::channel();
    thread::spawn(move || told.send(host.topology().unwrap()));
    let topology = answer.recv_timeout(HANG).expect("the reader waits for a writer of the pipe");
    assert_eq!(those(&topology, |cpu| cpu.online), "0-3");
}

/// Longer than any machine takes to read thirty files.
const HANG: Duration = Duration::from_secs(20);

type Damage = fn(&WrittenHost, &str);

/// The ways in which a file that is needed can be of no use.
fn damages() -> [(&'static str, Damage); 4] {
    [
        ("missing", |host, path| host.remove(path).unwrap()),
        ("empty", |host, path| host.empty(path).unwrap()),
        ("unreadable", |host, path| host.make_unreadable(path).unwrap()),
        ("nonsense", |host, path| host.replace(path, b"\x00?!\xff").unwrap()),
    ]
}

const NONSENSE: [&[u8]; 8] =
    [b"", b"\n", b"-1\n", b"0-99999999999\n", b"18446744073709551616\n", b"60000\n", b"3-0,x:::\n", b"\xff\x00\xfe"];

/// All files under `root`, relative to it.
fn files(root: &Path) -> Vec<String> {
    let (mut open, mut found) = (vec![root.to_owned()], Vec::new());
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    found
}
