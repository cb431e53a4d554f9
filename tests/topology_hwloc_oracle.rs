//! hwloc is the oracle: on every well-formed machine it tells the same of each cpu as our own reader.
//!
//! hwloc takes another root from the environment only, and an environment cannot be changed safely once threads run. So
//! each question goes to a process of its own: this test binary again, told to run [`child`] alone.
#![cfg(all(feature = "hwloc", feature = "sim"))]

mod topology_hwloc;
mod topology_scratch;
mod topology_shapes;

use topology_hwloc::{describe, hwloc_of};
use topology_scratch::scratch;
use twolane::sim::host::HostTree;

#[test]
#[ignore = "a part of the other tests, which run it in a process of its own"]
fn child() {
    topology_hwloc::child();
}

#[test]
fn both_readers_agree_on_every_shape() {
    for (name, tree) in topology_shapes::all() {
        let dir = scratch();
        let host = tree.write(dir.path()).unwrap();
        let ours = host.topology().unwrap();
        // hwloc knows no affinity masks of other machines, and takes every mount of groups for a whole one.
        let masked = name == "a narrow mask" || name == "container v1 sees its own group only";
        let theirs = hwloc_of(dir.path());
        assert_eq!(describe(&ours, !masked), theirs.about(!masked), "{name}: left ours, right hwloc's");
    }
}

#[test]
fn they_disagree_where_our_tree_is_changed() {
    // The oracle would be worth nothing if it said yes to everything.
    let dir = scratch();
    let host = HostTree::adjacent(2, 2).write(dir.path()).unwrap();
    for cpu in 0..4 {
        host.replace(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"), b"0-3").unwrap();
    }
    assert_ne!(describe(&host.topology().unwrap(), true), hwloc_of(dir.path()).about(true));
}
