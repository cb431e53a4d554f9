//! Intel's own tool reads our DSA trees: `accel-config list` in a private mount namespace, with the tree in the place of `/sys`.
//!
//! Needs the program (Debian: `accel-config`) and the right to make a mount namespace. Where either is missing the test says so and passes: it
//! compares our generator with somebody else's reader, not our code with the machine.

#![cfg(feature = "sim")]

#[path = "topology_scratch/mod.rs"]
mod scratch;

use std::fs;
use std::path::Path;
use std::process::Command;

use scratch::scratch;
use serde_json::Value;
use twolane::offload::dsa::discover::find;
use twolane::sim::dsa::tree::{Device, DsaTree, Queue};

/// `accel-config list` with `tree/sys` as `/sys`; `None` where that cannot be had here.
fn accel_config(tree: &Path) -> Option<Value> {
    // It fails here whatever it is asked: there is no driver. That it can be started is enough.
    let tool = Command::new("accel-config").arg("--version").output().is_ok();
    let namespace = Command::new("unshare").args(["-m", "--propagation", "private", "true"]).output();
    if !tool || !namespace.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no accel-config, or no right to a mount namespace");
        return None;
    }
    // It looks for the driver before it looks for devices.
    fs::create_dir_all(tree.join("sys/module/idxd")).unwrap();
    let script = "mount --rbind \"$1/sys\" /sys && exec accel-config list -i";
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", script, "sh"])
        .arg(tree)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
}

#[test]
fn it_lists_what_was_written_and_what_we_find() {
    let dir = scratch();
    let tree = DsaTree::new()
        .device(
            Device::v1(0)
                .numa_node(1)
                .queue(Queue::shared(16).threshold(12).label("first").max_batch_size(8))
                .queue(Queue::dedicated(32).label("second").max_transfer_size(1 << 20)),
        )
        .device(Device::v2(2).queue(Queue::dedicated(64).block_on_fault()))
        .analytics(1);
    let written = tree.write(dir.path()).unwrap();
    let ours = find(&written.places());
    assert_eq!((ours.queues.len(), ours.skipped.len()), (3, 1));

    let Some(listed) = accel_config(dir.path()) else { return };
    let devices = listed.as_array().unwrap();
    let names: Vec<&Value> = devices.iter().map(|device| &device["dev"]).collect();
    assert_eq!(names, ["dsa0", "dsa2"], "{listed:#}");
    let queues: Vec<(&Value, &Value)> = devices
        .iter()
        .flat_map(|device| {
            let groups = device["groups"].as_array().unwrap().iter();
            groups
                .filter_map(|group| group["grouped_workqueues"].as_array())
                .flatten()
                .map(move |queue| (device, queue))
        })
        .collect();
    assert_eq!(queues.len(), ours.queues.len(), "{listed:#}");
    for (queue, (device, theirs)) in ours.queues.iter().zip(queues) {
        assert_eq!(theirs["dev"], queue.name.as_str());
        assert_eq!(theirs["mode"], queue.mode.name());
        assert_eq!((&theirs["size"], &theirs["name"]), (&queue.size.into(), &queue.label.as_str().into()));
        assert_eq!(theirs["max_batch_size"], queue.max_batch_size);
        assert_eq!(theirs["max_transfer_size"], queue.max_transfer_size);
        assert_eq!(theirs["block_on_fault"], u8::from(queue.block_on_fault));
        assert_eq!((&theirs["type"], &theirs["state"]), (&"user".into(), &"enabled".into()));
        assert_eq!(theirs["threshold"], queue.threshold.unwrap_or(0), "dedicated queues have none");
        assert_eq!((&device["numa_node"], &device["state"]), (&queue.numa_node.unwrap().into(), &"enabled".into()));
        assert_eq!(device["gen_cap"], format!("{:#x}", queue.capabilities.0));
        assert_eq!(device["pasid_enabled"], 1);
    }
}
