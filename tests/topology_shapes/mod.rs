//! Well-formed machines that several tests read.

use twolane::sim::host::{GroupVersion, HostTree};

/// Every shape, by name.
pub fn all() -> Vec<(&'static str, HostTree)> {
    use GroupVersion::{V1, V2};
    vec![
        ("one cpu", HostTree::adjacent(1, 1)),
        ("siblings adjacent", HostTree::adjacent(4, 2)),
        ("siblings apart", HostTree::apart(4, 2)),
        ("siblings apart, old kernel", HostTree::apart(4, 2).old_names()),
        ("no SMT", HostTree::adjacent(4, 1)),
        ("SMT off", HostTree::apart(4, 2).smt_off()),
        ("SMT4", HostTree::adjacent(3, 4)),
        ("SMT8", HostTree::adjacent(2, 8)),
        ("hybrid", HostTree::adjacent(2, 2).efficiency_cores(5)),
        ("big.LITTLE", HostTree::adjacent(2, 1).efficiency_cores(4).capacities(1024, 446)),
        ("two sockets", HostTree::apart(8, 2).packages(2).nodes_per_package(2).cores_per_llc(2)),
        ("several caches in a node", HostTree::adjacent(6, 2).cores_per_llc(3)),
        ("holes and offline", HostTree::adjacent(4, 2).holes("2-3").offline("5,8")),
        ("cpu 0 offline", HostTree::adjacent(2, 2).offline("0")),
        ("a node offline", HostTree::adjacent(2, 2).packages(2).offline("2-3")),
        ("isolated", HostTree::adjacent(4, 2).isolated("4-7")),
        ("a narrow mask", HostTree::adjacent(4, 2).affinity("1-2")),
        (
            "container v1 keeps one sibling",
            HostTree::apart(4, 2).affinity("0-2,4").groups(V1, "/docker/abc").cpuset("/docker/abc", "0-2,4"),
        ),
        (
            "container v2 keeps one sibling",
            HostTree::apart(4, 2)
                .affinity("0-2,4")
                .groups(V2, "/pod/box")
                .cpuset("/pod", "0-6")
                .cpuset("/pod/box", "0-2,4"),
        ),
        (
            "container v1 sees its own group only",
            HostTree::apart(4, 2).groups(V1, "/docker/abc").only_own_group_mounted().cpuset("/docker/abc", "1,5"),
        ),
        (
            "quota v1",
            HostTree::adjacent(4, 2).groups(V1, "/a/b").quota("/a", 250_000, 100_000).quota("/a/b", 300_000, 100_000),
        ),
        (
            "quota v2",
            HostTree::adjacent(4, 2).groups(V2, "/a/b").quota("/a", 400_000, 100_000).quota("/a/b", 75_000, 50_000),
        ),
        ("hypervisor", HostTree::adjacent(2, 1).hypervisor()),
        ("300 cpus", HostTree::apart(150, 2).packages(2)),
        ("2000 cpus", HostTree::adjacent(1000, 2).packages(8).cores_per_llc(25)),
    ]
}
