//! Every shape of machine is read as it was described.
#![cfg(feature = "sim")]

mod topology_scratch;
mod topology_shapes;
mod topology_text;

use std::time::{Duration, Instant};

use topology_scratch::scratch;
use topology_text::{shared, those};
use twolane::sim::host::{GroupVersion, HostTree};
use twolane::topology::{CoreKind, Smt, Topology, TopologyError};

fn read(tree: &HostTree) -> Topology {
    let dir = scratch();
    tree.write(dir.path()).unwrap().topology().unwrap()
}

fn named(name: &str) -> HostTree {
    let shape = topology_shapes::all().into_iter().find(|(other, _)| *other == name);
    shape.map(|(_, tree)| tree).expect("a shape of that name")
}

/// Cores, last-level caches, nodes, all as lists of online cpus, then SMT.
#[test]
fn cores_caches_nodes_and_smt() {
    let none = "";
    for (name, cores, caches, nodes, smt) in [
        ("one cpu", "0", "0", "0", Smt::Absent),
        ("siblings adjacent", "0-1 | 2-3 | 4-5 | 6-7", "0-7", "0-7", Smt::Visible),
        ("siblings apart", "0,4 | 1,5 | 2,6 | 3,7", "0-7", "0-7", Smt::Visible),
        ("siblings apart, old kernel", "0,4 | 1,5 | 2,6 | 3,7", "0-7", "0-7", Smt::Visible),
        ("no SMT", "0 | 1 | 2 | 3", "0-3", "0-3", Smt::Absent),
        ("SMT off", "0 | 1 | 2 | 3", "0-3", "0-3", Smt::Absent),
        ("SMT4", "0-3 | 4-7 | 8-11", "0-11", "0-11", Smt::Visible),
        ("SMT8", "0-7 | 8-15", "0-15", "0-15", Smt::Visible),
        ("hybrid", "0-1 | 2-3 | 4 | 5 | 6 | 7 | 8", "0-8", "0-8", Smt::Visible),
        ("big.LITTLE", "0 | 1 | 2 | 3 | 4 | 5", "0-5", "0-5", Smt::Absent),
        (
            "two sockets",
            "0,8 | 1,9 | 2,10 | 3,11 | 4,12 | 5,13 | 6,14 | 7,15",
            "0-1,8-9 | 2-3,10-11 | 4-5,12-13 | 6-7,14-15",
            "0-1,8-9 | 2-3,10-11 | 4-5,12-13 | 6-7,14-15",
            Smt::Visible,
        ),
        ("several caches in a node", "0-1 | 2-3 | 4-5 | 6-7 | 8-9 | 10-11", "0-5 | 6-11", "0-11", Smt::Visible),
        ("holes and offline", "0-1 | 4 | 6-7 | 9", "0-1,4,6-7,9", "0-1,4,6-7,9", Smt::Visible),
        ("cpu 0 offline", "1 | 2-3", "1-3", "1-3", Smt::Visible),
        ("a node offline", "0-1", "0-1", "0-1", Smt::Visible),
        ("hypervisor", "0 | 1", "0-1", "0-1", Smt::Unknown),
    ] {
        let topology = read(&named(name));
        assert_eq!(shared(&topology, |cpu| cpu.core), cores, "{name}: cores");
        assert_eq!(shared(&topology, |cpu| cpu.llc), caches, "{name}: caches");
        assert_eq!(shared(&topology, |cpu| cpu.node), nodes, "{name}: nodes");
        assert_eq!(topology.smt, smt, "{name}");
        assert_eq!(topology.notes.join(" "), none, "{name}: nothing is odd");
    }
}

#[test]
fn cores_and_caches_are_named_by_their_smallest_cpu() {
    let topology = read(&named("two sockets"));
    let cpu = topology.cpu(13).unwrap();
    assert_eq!((cpu.core, cpu.llc, cpu.node, cpu.package), (5, 4, 2, 1));
}

#[test]
fn kinds_of_hybrids() {
    for (name, performance, efficiency) in [("hybrid", "0-3", "4-8"), ("big.LITTLE", "0-1", "2-5"), ("SMT4", "", "")] {
        let topology = read(&named(name));
        assert_eq!(those(&topology, |cpu| cpu.kind == CoreKind::Performance), performance, "{name}");
        assert_eq!(those(&topology, |cpu| cpu.kind == CoreKind::Efficiency), efficiency, "{name}");
    }
}

#[test]
fn holes_do_not_exist_and_offline_cpus_do() {
    let topology = read(&named("holes and offline"));
    assert_eq!(those(&topology, |_| true), "0-1,4-9");
    assert_eq!(those(&topology, |cpu| !cpu.online), "5,8");
    assert_eq!(those(&topology, |cpu| cpu.allowed), "0-1,4,6-7,9");
    let offline = topology.cpu(5).unwrap();
    assert_eq!((offline.core, offline.llc), (5, 5), "an offline cpu is its own core and cache");
    assert_eq!(topology.siblings(4).len(), 1, "its online neighbour has no sibling");
    assert!(topology.cpu(2).is_none());
}

#[test]
fn isolated_cpus_are_marked_and_allowed() {
    let topology = read(&named("isolated"));
    assert_eq!(those(&topology, |cpu| cpu.isolated), "4-7");
    assert_eq!(those(&topology, |cpu| cpu.allowed), "0-7");
}

#[test]
fn masks_and_cpusets_decide_what_is_allowed() {
    for (name, allowed) in [
        ("a narrow mask", "1-2"),
        ("container v1 keeps one sibling", "0-2,4"),
        ("container v2 keeps one sibling", "0-2,4"),
        ("container v1 sees its own group only", "1,5"),
        ("SMT off", "0-3"),
    ] {
        let topology = read(&named(name));
        assert_eq!(those(&topology, |cpu| cpu.allowed), allowed, "{name}");
    }
    let topology = read(&named("container v1 keeps one sibling"));
    let siblings: Vec<usize> = topology.siblings(1).iter().map(|cpu| cpu.id).collect();
    assert_eq!(siblings, [1, 5], "siblings are seen even where one of them is out of reach");
}

#[test]
fn the_cpuset_alone_restricts_too() {
    // A mask recorded before the cpuset shrank.
    let tree = HostTree::adjacent(4, 2).groups(GroupVersion::V2, "/box").cpuset("/box", "2-5").affinity("0-3");
    assert_eq!(those(&read(&tree), |cpu| cpu.allowed), "2-3");
}

#[test]
fn nothing_left_is_an_error_that_names_all_reasons() {
    let dir = scratch();
    let tree = HostTree::adjacent(4, 2).groups(GroupVersion::V2, "/box").cpuset("/box", "2-3").affinity("0-1");
    let error = tree.write(dir.path()).unwrap().topology().unwrap_err();
    assert!(matches!(error, TopologyError::NoCpu { .. }), "{error:?}");
    let text = error.to_string();
    for part in ["online are 0-7", "mask has 0-1", "box/cpuset.cpus.effective has 2-3"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_smallest_quota_on_the_way_up_counts() {
    for (name, cpus, file) in
        [("quota v1", 2.5, "sys/fs/cgroup/cpu/a/cpu.cfs_quota_us"), ("quota v2", 1.5, "sys/fs/cgroup/a/b/cpu.max")]
    {
        let dir = scratch();
        let quota = named(name).write(dir.path()).unwrap().topology().unwrap().quota.unwrap();
        assert!((quota.cpus - cpus).abs() < 1e-9, "{name}: {}", quota.cpus);
        assert_eq!(quota.source, dir.path().join(file), "{name}");
    }
    assert_eq!(read(&named("container v2 keeps one sibling")).quota, None);
}

#[test]
fn a_quota_of_the_own_group_is_found_where_only_that_is_mounted() {
    for version in [GroupVersion::V1, GroupVersion::V2] {
        let tree = HostTree::adjacent(2, 2)
            .groups(version, "/pod/box")
            .only_own_group_mounted()
            .quota("/pod/box", 50_000, 100_000);
        assert!((read(&tree).quota.unwrap().cpus - 0.5).abs() < 1e-9, "{version:?}");
    }
}

#[test]
fn hypervisors_are_seen() {
    assert!(read(&named("hypervisor")).hypervisor);
    assert!(!read(&named("siblings adjacent")).hypervisor);
}

#[test]
fn many_cpus_are_read_completely_and_soon() {
    let topology = read(&named("300 cpus"));
    assert_eq!((topology.cpus.len(), topology.siblings(7).len()), (300, 2));
    assert_eq!(topology.cpu(299).unwrap().core, 149);

    let dir = scratch();
    let host = named("2000 cpus").write(dir.path()).unwrap();
    let start = Instant::now();
    let topology = host.topology().unwrap();
    let taken = start.elapsed();
    assert_eq!(topology.allowed().len(), 2000);
    assert_eq!(topology.cpu(1999).unwrap().llc, 1950, "forty cache domains of fifty cpus");
    assert_eq!(topology.cpu(1999).unwrap().node, 7);
    assert_eq!(topology.notes, [""; 0]);
    // Far above what it takes, so that a busy machine passes and a quadratic reader does not.
    assert!(taken < Duration::from_secs(2), "2000 cpus took {taken:?}");
    println!("2000 cpus took {taken:?}");
}
