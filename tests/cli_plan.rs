//! `twolane plan` prints the library's own plan for the options given.
#![cfg(all(feature = "cli", feature = "sim"))]

mod cli_run;

use cli_run::{assert_refused, command, look, machine, run};
use serde_json::Value;
use twolane::sim::host::{GroupVersion, HostTree};
use twolane::topology::Topology;
use twolane::{Builder, Placement, Runtime};

fn tree() -> HostTree {
    HostTree::apart(8, 2).packages(2).isolated("7,15").affinity("0-6,8-14")
}

#[test]
fn the_table_is_the_librarys() {
    let dir = machine(&tree());
    type Built = fn(Builder) -> Builder;
    let cases: [(&[&str], Built); 10] = [
        (&[], |builder| builder),
        (&["--placement", "auto"], |builder| builder.placement(Placement::Auto)),
        (&["--placement", "siblings", "--pairs", "2"], |builder| builder.placement(Placement::Siblings).pairs(2)),
        (&["--placement", "whole-cores"], |builder| builder.placement(Placement::WholeCores)),
        (&["--placement", "shared"], |builder| builder.placement(Placement::Shared)),
        (&["--placement", "unpinned"], |builder| builder.placement(Placement::Unpinned)),
        (&["--placement", "2-10,3-11"], |builder| builder.placement(Placement::Pairs(vec![(2, 10), (3, 11)]))),
        (&["--reserve", "2", "--node", "0"], |builder| builder.reserve(2).node(0)),
        (&["--cpus", "7,15"], |builder| builder.cpus([7, 15])),
        (&["--compute-per-core", "1"], |builder| builder.compute_per_core(1)),
    ];
    for (arguments, built) in cases {
        let builder = Runtime::builder().env_overrides(false).topology(Topology::read_from(dir.path()).unwrap());
        let wanted = built(builder).plan().unwrap().to_string();
        let said = look("plan", dir.path(), arguments);
        assert_eq!((said.code, said.out, said.err), (Some(0), wanted, String::new()), "{arguments:?}");
    }
}

#[test]
fn json_has_lanes_left_out_cpus_and_notes() {
    let dir = machine(&HostTree::adjacent(3, 2).groups(GroupVersion::V2, "/a").quota("/a", 100_000, 100_000));
    let said = look("plan", dir.path(), &["--pairs", "2", "--json"]);
    let plan: Value = serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    assert_eq!((said.code, &plan["format"]), (Some(0), &1.into()));
    let lanes = plan["lanes"].as_array().unwrap();
    assert_eq!(lanes.len(), 4);
    let second = serde_json::json!({
        "lane": 1, "pair": 0, "role": "compute", "cpu": 1, "partner": 0, "siblings": [0], "sharing": "seen", "llc": 0, "node": 0,
    });
    assert_eq!(lanes[1], second);
    assert_eq!(plan["left_out"][0]["cpu"], 4);
    assert!(plan["left_out"][0]["reason"].as_str().unwrap().contains("pairs asked for"), "{plan:#}");
    assert!(plan["notes"][0].as_str().unwrap().contains("quota"), "{plan:#}");
}

#[test]
fn the_environment_counts_and_is_listed() {
    let dir = machine(&tree());
    let arguments = ["plan", "--root", dir.path().to_str().unwrap(), "--pairs", "3"];
    let said = run(command(&arguments).env("TWOLANE_PAIRS", "1"));
    assert!(said.code == Some(0) && said.out.contains("from the environment: TWOLANE_PAIRS=1"), "{said:?}");
    assert_refused(&run(command(&arguments).env("TWOLANE_PAIRS", "many")), &["TWOLANE_PAIRS=many", "whole number"]);
}

#[test]
fn this_machine() {
    let said = run(&mut command(&["plan", "--placement", "unpinned"]));
    assert!(said.code == Some(0) && said.out.starts_with("lane  pair  role"), "{said:?}");
}

#[test]
fn what_cannot_be_had_is_one_line() {
    let dir = machine(&tree());
    for (arguments, words) in [
        (&["--pairs", "0"][..], &["`pairs` is 0"][..]),
        (&["--pairs", "99"], &["99"]),
        (&["--pairs", "-1"], &["-1"]),
        (&["--pairs", "x"], &["'x'", "--pairs"]),
        (&["--node", "5"], &["`node` is 5"]),
        (&["--cpus", "40"], &["cpu 40"]),
        (&["--cpus", "3-1"], &["3-1", "upwards"]),
        (&["--placement", "best"], &["'best'", "whole-cores"]),
        (&["--placement", "2-"], &["'2-'", "pairs such as"]),
        (&["--placement", "2-2"], &["cpu 2 twice"]),
        (&["--reserve", "99"], &["`reserve` is 99"]),
        (&["extra"], &["'extra'"]),
    ] {
        assert_refused(&look("plan", dir.path(), arguments), words);
    }
    assert_refused(&run(&mut command(&["plan", "--root", "/no/such/place"])), &["/no/such/place"]);
}
