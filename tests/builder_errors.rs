//! What a builder cannot do is an error that names the value and the way out, never something else that it does instead.

mod common;
use common::{made_up, os, pairs};
use std::time::Duration;
use twolane::placement::PlanError;
use twolane::topology::{CoreKind, Quota, Smt, Topology};
use twolane::{Builder, Error, Placement, Runtime, Sharing};

/// Four cpus in two cores, whose siblings are seen.
fn siblings() -> Topology {
    let mut topology = made_up(4);
    topology.cpus.iter_mut().for_each(|cpu| cpu.core = cpu.id / 2 * 2);
    (topology.smt, topology.hypervisor) = (Smt::Visible, false);
    topology
}

fn on(topology: Topology) -> Builder {
    Runtime::builder().env_overrides(false).topology(topology)
}

/// The dry run and the build say the same, and no thread is left.
fn refused(builder: Builder) -> (Error, String) {
    let builder = builder.thread_name("refused");
    let dry = builder.plan().map(|plan| plan.to_string()).unwrap_err().to_string();
    let error = builder.build().map(|_| ()).unwrap_err();
    assert_eq!(error.to_string(), dry);
    assert!(os::named("refused").is_empty());
    (error, dry)
}

#[test]
fn counts_that_make_no_sense() {
    let cases: [(Builder, &[&str]); 12] = [
        (on(siblings()).pairs(0), &["`pairs` is 0", "at least 1"]),
        (on(siblings()).compute_per_core(0), &["`compute_per_core` is 0", "at least 1"]),
        (on(siblings()).pairs(3), &["3 pairs", "2 fit"]),
        (on(siblings()).pairs(usize::MAX), &["18446744073709551615", "2 fit"]),
        (on(siblings()).placement(Placement::Shared).pairs(5), &["5 shared lanes", "4 fit"]),
        (on(siblings()).placement(Placement::Unpinned).pairs(5), &["5 pairs", "4 fit"]),
        (on(siblings()).reserve(4), &["`reserve` is 4", "at most"]),
        (on(siblings()).reserve(usize::MAX), &["`reserve` is 18446744073709551615", "at most"]),
        (on(siblings()).compute_per_core(2), &["`compute_per_core` is 2", "at most 1"]),
        (on(siblings()).node(7), &["`node` is 7", "nodes 0"]),
        (on(siblings()).cpus([]), &["`cpus` names nothing", "leave it out"]),
        (on(siblings()).placement(Placement::Pairs(vec![])), &["names nothing", "at least one"]),
    ];
    for (builder, says) in cases {
        let (error, text) = refused(builder);
        assert!(matches!(error, Error::Plan(_)), "{error:?}");
        assert!(says.iter().all(|part| text.contains(part)), "{text} (wanted {says:?})");
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn sharing_of_a_pair_that_is_not_there() {
    let (error, text) = refused(on(siblings()).pairs(1).sharing(1, Sharing::Seen));
    assert!(matches!(error, Error::Knob { knob: "sharing", .. }), "{error:?}");
    assert!(text.contains("pair 1") && text.contains("`plan`"), "{text}");
}

#[test]
fn cpus_that_cannot_carry_a_lane() {
    let masked = || {
        let mut topology = siblings();
        topology.cpus[3].allowed = false;
        topology
    };
    let offline = || {
        let mut topology = siblings();
        (topology.cpus[3].online, topology.cpus[3].allowed) = (false, false);
        topology
    };
    let pair = |poll, compute| Placement::Pairs(vec![(poll, compute)]);
    let cases: [(Builder, &[&str]); 7] = [
        (on(masked()).cpus([2, 3]), &["`cpus` names cpu 3", "mask or cpuset", "allowed are cpus 0-2", "taskset"]),
        (on(masked()).placement(pair(2, 3)), &["names cpu 3", "mask or cpuset", "cpus 0-2"]),
        (on(offline()).placement(pair(2, 3)), &["names cpu 3", "is offline", "`online` file"]),
        (on(siblings()).cpus([0, 4]), &["`cpus` names cpu 4", "does not have", "cpus 0-3"]),
        (on(siblings()).cpus([usize::MAX]), &["18446744073709551615", "does not have"]),
        (on(siblings()).placement(pair(1, 1)), &["names cpu 1 twice", "`Placement::Shared`"]),
        (on(siblings()).placement(Placement::Pairs(vec![(0, 1), (2, 0)])), &["names cpu 0 twice", "free are cpu 3"]),
    ];
    for (builder, says) in cases {
        let (error, text) = refused(builder);
        assert!(matches!(error, Error::Plan(_)), "{error:?}");
        assert!(says.iter().all(|part| text.contains(part)), "{text} (wanted {says:?})");
    }
}

#[test]
fn machines_that_do_not_have_what_the_placement_wants() {
    let mut hybrid = siblings();
    hybrid.cpus[0].kind = CoreKind::Performance;
    hybrid.cpus[2].kind = CoreKind::Efficiency;
    let cases: [(Builder, &str); 4] = [
        (on(made_up(2)).placement(Placement::Siblings), "finds no pair of SMT siblings"),
        (on(made_up(1)).placement(Placement::WholeCores), "needs two cores of one kind"),
        (on(hybrid).placement(Placement::Pairs(vec![(0, 2)])), "a performance core and an efficiency core"),
        (on(siblings()).placement(Placement::Unpinned).cpus([0]), "contradicts"),
    ];
    for (builder, says) in cases {
        let (error, text) = refused(builder);
        assert!(matches!(error, Error::Plan(_)), "{error:?}");
        assert!(text.contains(says), "{text} (wanted {says:?})");
    }
}

#[test]
fn a_quota_below_the_lanes_asked_for_is_seen_in_the_plan() {
    let quota = |cpus| {
        let mut topology = siblings();
        topology.quota = Some(Quota { cpus, source: "/sys/fs/cgroup/box/cpu.max".into() });
        topology
    };
    // As many pairs as the quota carries, one at the least, and a note that says so.
    for (cpus, lanes) in [(0.5, 2), (1.5, 2), (2.0, 2), (3.9, 2), (4.0, 4), (100.0, 4)] {
        let plan = on(quota(cpus)).plan().unwrap();
        assert_eq!(plan.lanes.len(), lanes, "{cpus} cpus\n{plan}");
        let noted = plan.notes.iter().any(|note| note.contains("quota") && note.contains("cpu.max"));
        assert!(noted == (cpus < 4.0), "{cpus} cpus\n{plan}");
    }
    // Asked for by name, they are made, and the note says what will happen.
    let plan = on(quota(1.5)).pairs(2).plan().unwrap();
    assert_eq!(plan.lanes.len(), 4);
    assert!(plan.notes.iter().any(|note| note.contains("1.5") && note.contains("quota")), "{plan}");
}

#[test]
fn bounds_on_waiting_out_of_range() {
    let cases: [(Builder, &[&str]); 6] = [
        (pairs(1).max_added(Duration::from_millis(11)), &["max_added", "11ms", "10ms"]),
        (pairs(1).max_added(Duration::MAX), &["max_added", "10ms"]),
        (
            pairs(1).max_added(Duration::from_micros(1)).mean_added(Duration::from_micros(2)),
            &["mean_added", "2µs", "1µs"],
        ),
        (pairs(1).park_after(Duration::ZERO), &["park_after", "0ns", "1µs"]),
        (pairs(1).park_after(Duration::from_secs(61)), &["park_after", "61s", "60s"]),
        (pairs(1).park_after(Duration::MAX), &["park_after", "60s"]),
    ];
    for (builder, says) in cases {
        let (error, text) = refused(builder);
        assert!(matches!(error, Error::Wait(_)), "{error:?}");
        assert!(says.iter().all(|part| text.contains(part)), "{text} (wanted {says:?})");
    }
}

#[test]
fn other_knobs_out_of_range() {
    let cases: [(Builder, &[&str]); 7] = [
        (pairs(1).backlog_max(0), &["backlog_max is 0", "1 or more"]),
        (pairs(1).linger_max(Duration::from_millis(11)), &["linger_max is 11ms", "0 to 10 ms"]),
        (pairs(1).linger_max(Duration::MAX), &["linger_max", "0 to 10 ms"]),
        (pairs(1).thread_name(""), &["thread_name is \"\"", "1 to 10 bytes"]),
        (pairs(1).thread_name("elevenbytes"), &["elevenbytes", "1 to 10 bytes"]),
        (pairs(1).thread_name("a\0b"), &["a\\0b", "without NUL"]),
        (pairs(1).thread_name("äöüßäö"), &["äöüßäö", "1 to 10 bytes"]),
    ];
    for (builder, says) in cases {
        let error = builder.build().map(|_| ()).unwrap_err();
        assert!(matches!(error, Error::Knob { .. }), "{error:?}");
        let text = error.to_string();
        assert!(says.iter().all(|part| text.contains(part)), "{text} (wanted {says:?})");
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidInput);
    }
}

#[test]
fn values_at_the_edge_of_their_range_are_taken() {
    let builders = [
        pairs(1).max_added(Duration::from_millis(10)).mean_added(Duration::from_millis(10)),
        pairs(1).max_added(Duration::ZERO).mean_added(Duration::ZERO),
        pairs(1).park_after(Duration::from_micros(1)),
        pairs(1).park_after(Duration::from_secs(60)),
        pairs(1).linger_max(Duration::ZERO),
        pairs(1).linger_max(Duration::from_millis(10)),
        pairs(1).peek_refresh(Duration::ZERO),
        pairs(1).peek_refresh(Duration::MAX),
        pairs(1).drop_deadline(Duration::MAX),
        pairs(1).backlog_max(1),
        pairs(1).thread_name("tenletters"),
    ];
    for builder in builders {
        let rt = builder.build().unwrap();
        assert_eq!(rt.spawn_compute(|| 3).join().unwrap(), 3);
    }
}

#[test]
fn a_lane_that_cannot_be_bound() {
    let beyond = || on(made_up(3000)).placement(Placement::Pairs(vec![(2998, 2999)]));
    let error = beyond().thread_name("unbound").build().map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Pin { lane: 0, .. }), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("lane 0") && text.contains("2998") && text.contains("allow_unpinned(true)"), "{text}");
    assert!(os::named("unbound").is_empty(), "no thread is left");

    let rt = beyond().allow_unpinned(true).build().unwrap();
    assert!(
        rt.metrics()
            .lanes
            .iter()
            .all(|lane| !lane.info.pinned && lane.info.cpu().is_none() && lane.info.plan.cpu.is_some())
    );
    assert_eq!(rt.spawn_compute(|| 3).join().unwrap(), 3);
    assert!(matches!(on(made_up(2)).pairs(2).plan(), Err(Error::Plan(PlanError::TooMany { asked: 2, fit: 1, .. }))));
}
