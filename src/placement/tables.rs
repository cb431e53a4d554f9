//! Plans by table: a machine and a request on the left, what comes of them on the right.

use std::collections::BTreeSet;

use super::machines::Machine;
use super::{CpuFault, Placement, Plan, PlanError, Request, Role, Sharing, plan};
use crate::topology::{CoreKind, Smt};

/// What a row asks for, without what it leaves at the default.
fn request(placement: Placement) -> Request {
    Request { placement, ..Request::default() }
}

fn set(ids: impl IntoIterator<Item = usize>) -> BTreeSet<usize> {
    ids.into_iter().collect()
}

/// A plan in short: for each pair its sharing and cpus, `seen p0 c1`; `-` is an unpinned lane.
fn short(plan: &Plan) -> Vec<String> {
    let pair = |(index, sharing): (usize, &Sharing)| {
        let mut text = match sharing {
            Sharing::Seen => "seen",
            Sharing::Denied => "denied",
            Sharing::Unknown => "unknown",
        }
        .to_owned();
        for lane in plan.lanes.iter().filter(|lane| lane.pair == index) {
            let role = match lane.role {
                Role::Poll => 'p',
                Role::Compute => 'c',
                Role::Shared => 's',
            };
            text += &format!(" {role}{}", lane.cpu.map_or("-".to_owned(), |cpu| cpu.to_string()));
        }
        text
    };
    plan.sharing.iter().enumerate().map(pair).collect()
}

fn reason(plan: &Plan, cpu: usize) -> &str {
    &plan.left_out.iter().find(|left| left.cpu == cpu).expect("a cpu left out").reason
}

#[test]
fn auto_takes_siblings_else_neighbours_else_shared_lanes() {
    for (name, machine, pairs) in [
        ("adjacent siblings", Machine::adjacent(2, 2), &["seen p0 c1", "seen p2 c3"][..]),
        ("siblings N apart", Machine::apart(2, 2), &["seen p0 c2", "seen p1 c3"]),
        ("SMT off", Machine::adjacent(4, 1), &["denied p0 c1", "denied p2 c3"]),
        ("a guest that shows no siblings", Machine::adjacent(4, 1).guest(), &["unknown p0 c1", "unknown p2 c3"]),
        ("a guest that shows siblings", Machine::adjacent(1, 2).guest(), &["seen p0 c1"]),
        ("SMT absent, says a guest", Machine::adjacent(2, 1).guest().smt(Smt::Absent), &["unknown p0 c1"]),
        ("an odd cpu", Machine::adjacent(3, 1), &["denied p0 c1"]),
        (
            "a mask with one of each siblings",
            Machine::apart(4, 2).mask([0, 1, 2, 7]),
            &["denied p0 c1", "denied p2 c7"],
        ),
        ("a mask with one whole core", Machine::apart(4, 2).mask([0, 1, 2, 5]), &["seen p1 c5"]),
        ("one cpu", Machine::adjacent(1, 1), &["denied s0"]),
        ("one cpu of many", Machine::adjacent(4, 2).mask([5]), &["denied s5"]),
        ("one cpu of a guest", Machine::adjacent(1, 1).guest(), &["unknown s0"]),
        ("one cpu a cache", Machine::adjacent(2, 1).cache([1]), &["denied s0", "denied s1"]),
        ("one cpu a cache, says a guest", Machine::adjacent(2, 1).cache([1]).guest(), &["unknown p0 c1"]),
        ("caches of two, numbered across", Machine::adjacent(4, 1).cache([1, 3]), &["denied p0 c2", "denied p1 c3"]),
        ("SMT4", Machine::adjacent(2, 4), &["seen p0 c1", "seen p4 c5"]),
        ("SMT8", Machine::adjacent(1, 8), &["seen p0 c1"]),
        ("holes and an offline sibling", Machine::new(&[[3, 9], [4, 12]]).offline([9]), &["seen p4 c12"]),
        (
            "two sockets, one after the other",
            Machine::apart(4, 2).node(1, [1, 3, 5, 7]),
            &["seen p0 c4", "seen p2 c6", "seen p1 c5", "seen p3 c7"],
        ),
    ] {
        assert_eq!(short(&plan(&Request::default(), &machine.build()).expect(name)), pairs, "{name}");
    }
}

#[test]
fn hybrids_pair_performance_cores_and_leave_efficiency_cores_out() {
    let machine = Machine::hybrid(2, 4);
    let planned = plan(&Request::default(), &machine.clone().build()).expect("P cores");
    assert_eq!(short(&planned), ["seen p0 c1", "seen p2 c3"]);
    assert!(reason(&planned, 4).starts_with("efficiency core"));

    let only_e = Request { cpus: Some(set(4..8)), ..Request::default() };
    let planned = plan(&only_e, &machine.clone().build()).expect("E cores alone");
    assert_eq!(short(&planned), ["denied p4 c5", "denied p6 c7"]);

    let one_each = plan(&Request::default(), &machine.mask([0, 4]).build()).expect("one of each kind");
    assert_eq!(short(&one_each), ["denied s0", "denied s4"], "never a pair across kinds");

    let no_smt = Machine::adjacent(8, 1)
        .each(0..4, |cpu| cpu.kind = CoreKind::Efficiency)
        .each(4..8, |cpu| cpu.kind = CoreKind::Performance);
    let planned = plan(&Request::default(), &no_smt.build()).expect("P cores without SMT");
    assert_eq!(short(&planned), ["denied p4 c5", "denied p6 c7"]);
    assert!(reason(&planned, 0).starts_with("efficiency core"));

    let compact = Machine::adjacent(4, 2)
        .each(0..4, |cpu| cpu.kind = CoreKind::Efficiency)
        .each(4..8, |cpu| cpu.kind = CoreKind::Performance);
    let planned = plan(&Request::default(), &compact.build()).expect("E cores with SMT");
    assert_eq!(short(&planned), ["seen p4 c5", "seen p6 c7", "seen p0 c1", "seen p2 c3"], "faster ones first");
}

#[test]
fn siblings_or_an_error_that_says_what_hides_them() {
    for (name, machine, words) in [
        ("SMT off", Machine::adjacent(4, 1), "SMT is off"),
        ("a guest", Machine::adjacent(4, 1).guest(), "hypervisor may hide"),
        ("halves in the mask", Machine::adjacent(2, 2).mask([0, 2]), "cpus 0,2 may carry lanes"),
    ] {
        let error = plan(&request(Placement::Siblings), &machine.build()).expect_err(name);
        assert!(error.to_string().contains(words), "{name}: {error}");
    }
    let planned = plan(&request(Placement::Siblings), &Machine::adjacent(2, 2).build()).expect("siblings");
    assert_eq!(short(&planned), ["seen p0 c1", "seen p2 c3"]);
}

#[test]
fn whole_cores_keep_siblings_empty() {
    let planned = plan(&request(Placement::WholeCores), &Machine::apart(5, 2).build()).expect("whole cores");
    assert_eq!(short(&planned), ["denied p0 c1", "denied p2 c3"]);
    assert_eq!(reason(&planned, 5), "sibling of cpu 0, left empty");
    assert_eq!(reason(&planned, 8), "sibling of cpu 3, left empty");
    for cpu in [4, 9] {
        assert_eq!(reason(&planned, cpu), "no second cpu of its kind is left in its cache domain");
    }

    let reserve = Request { reserve: 1, ..request(Placement::WholeCores) };
    let planned = plan(&reserve, &Machine::apart(5, 2).build()).expect("four free cores");
    assert_eq!(short(&planned), ["denied p1 c2", "denied p3 c4"], "no lane beside a reserved cpu");
    assert_eq!(reason(&planned, 5), "shares its core with a cpu reserved for the OS");

    let strangers = plan(&request(Placement::WholeCores), &Machine::adjacent(2, 2).mask([0, 2, 3]).build());
    assert!(strangers.expect("two cores").notes[0].contains("others may run on cpu 1"));

    let error = plan(&request(Placement::WholeCores), &Machine::adjacent(1, 2).build()).expect_err("one core");
    assert_eq!(error, PlanError::NoWholeCores { usable: set([0, 1]) });
}

#[test]
fn shared_takes_every_cpu_and_unpinned_none() {
    let planned = plan(&request(Placement::Shared), &Machine::adjacent(2, 2).mask([0, 1, 2]).build()).expect("shared");
    assert_eq!(short(&planned), ["seen s0", "seen s1", "denied s2"]);
    assert!(planned.lanes.iter().all(|lane| lane.partner.is_none()));

    let planned = plan(&request(Placement::Unpinned), &Machine::adjacent(5, 1).build()).expect("unpinned");
    assert_eq!(short(&planned), ["denied p- c-", "denied p- c-"]);
    assert_eq!(planned.left_out.len(), 5);
    let planned = plan(&request(Placement::Unpinned), &Machine::adjacent(2, 2).mask([0]).build()).expect("one cpu");
    assert_eq!(short(&planned), ["unknown p- c-"]);
    assert!(planned.notes[0].contains("2 unpinned lanes share cpu 0"));

    let too_many = Request { pairs: Some(3), ..request(Placement::Unpinned) };
    let error = plan(&too_many, &Machine::adjacent(2, 1).build()).expect_err("two cpus");
    assert!(matches!(error, PlanError::TooMany { asked: 3, fit: 2, .. }));
}

#[test]
fn explicit_pairs_are_taken_as_given() {
    let pairs = |list: &[(usize, usize)]| request(Placement::Pairs(list.to_vec()));
    let planned = plan(&pairs(&[(5, 1), (3, 2)]), &Machine::apart(4, 2).build()).expect("pairs");
    assert_eq!(short(&planned), ["seen p5 c1", "denied p3 c2"]);

    let isolated = Machine::adjacent(4, 1).isolated([2, 3]).mask([0, 1]);
    let planned = plan(&pairs(&[(2, 3)]), &isolated.build()).expect("isolated cpus outside the mask");
    assert_eq!(short(&planned), ["denied p2 c3"]);
    assert!(planned.notes[0].contains("cpus 2-3 named although isolated"), "{:?}", planned.notes);

    let crossed = plan(&pairs(&[(0, 2), (1, 3)]), &Machine::adjacent(2, 2).build()).expect("crossed pairs");
    assert!(crossed.notes[0].contains("cpus 2 and 3 both compute on one core"));

    let far = plan(&pairs(&[(0, 1)]), &Machine::adjacent(2, 1).node(1, [1]).build()).expect("two sockets");
    assert!(far.notes[0].contains("share no last-level cache"));
}

#[test]
fn explicit_pairs_are_checked() {
    let machine = Machine::hybrid(2, 2).node(1, [2, 3]).offline([3]).mask([0, 1, 2, 4]).build();
    let allowed = set([0, 1, 2, 4]);
    let unusable = |cpu, fault| PlanError::Unusable { cpu, knob: "Placement::Pairs", fault, allowed: allowed.clone() };
    for (list, error) in [
        (&[(0, 9)][..], unusable(9, CpuFault::NotPresent)),
        (&[(3, 0)], unusable(3, CpuFault::Offline)),
        (&[(0, 5)], unusable(5, CpuFault::NotAllowed)),
        (&[(0, 1), (2, 1)], PlanError::Duplicate { cpu: 1, free: set([4]) }),
        (&[(0, 0)], PlanError::Duplicate { cpu: 0, free: set([1, 2, 4]) }),
        (&[(0, 4)], PlanError::MixedKinds { poll: 0, compute: 4 }),
        (&[], PlanError::EmptyList { knob: "Placement::Pairs" }),
    ] {
        assert_eq!(plan(&request(Placement::Pairs(list.to_vec())), &machine), Err(error), "{list:?}");
    }

    let list = Placement::Pairs(vec![(0, 1)]);
    for (name, wrong) in [
        ("another number", Request { pairs: Some(2), ..request(list.clone()) }),
        ("another node", Request { node: Some(1), ..request(list.clone()) }),
        ("other cpus", Request { cpus: Some(set([1, 2])), ..request(list.clone()) }),
        ("more compute lanes", Request { compute_per_core: 2, ..request(list.clone()) }),
    ] {
        assert!(matches!(plan(&wrong, &machine), Err(PlanError::Conflict { .. })), "{name}");
    }
    let greedy = Request { reserve: 3, ..request(list.clone()) };
    assert!(matches!(plan(&greedy, &machine), Err(PlanError::ReserveTooLarge { asked: 3, most: 2, .. })));
    assert!(plan(&Request { reserve: 2, pairs: Some(1), node: Some(0), ..request(list) }, &machine).is_ok());
}

#[test]
fn cpus_node_and_isolation_narrow_the_choice() {
    let machine = Machine::adjacent(6, 2).node(1, 6..12).isolated(4..6).build();
    for (name, asked, pairs) in [
        ("isolated left out", Request { node: Some(0), ..Request::default() }, &["seen p0 c1", "seen p2 c3"][..]),
        ("isolated named", Request { cpus: Some(set(2..6)), ..Request::default() }, &["seen p2 c3", "seen p4 c5"]),
        ("both", Request { cpus: Some(set(4..8)), node: Some(1), ..Request::default() }, &["seen p6 c7"]),
    ] {
        assert_eq!(short(&plan(&asked, &machine).expect(name)), pairs, "{name}");
    }
    let planned = plan(&Request { node: Some(0), ..Request::default() }, &machine).expect("node 0");
    assert_eq!(reason(&planned, 6), "not on node 0");
    assert!(reason(&planned, 4).starts_with("isolated"));

    let only_isolated = Machine::adjacent(4, 2).isolated(2..8).mask(4..8).build();
    assert_eq!(short(&plan(&Request::default(), &only_isolated).expect("meant")), ["seen p4 c5", "seen p6 c7"]);

    let error = plan(&Request { node: Some(2), ..Request::default() }, &machine);
    assert_eq!(error, Err(PlanError::NoSuchNode { node: 2, nodes: set([0, 1]) }));
    let nothing = Request { node: Some(1), cpus: Some(set([0])), ..Request::default() };
    let error = plan(&nothing, &machine).expect_err("no such cpu").to_string();
    assert!(error.contains("online, allowed and on node 1 and among cpu 0"), "{error}");
    let outside = Request { cpus: Some(set([3, 4])), ..Request::default() };
    let error = plan(&outside, &Machine::adjacent(3, 2).mask(0..4).build()).expect_err("outside the mask").to_string();
    assert!(error.contains("cpu 4") && error.contains("allowed are cpus 0-3"), "{error}");
}

#[test]
fn the_reserve_comes_off_before_pairs_are_made() {
    let planned = plan(&Request { reserve: 3, ..Request::default() }, &Machine::apart(4, 2).build()).expect("room");
    assert_eq!(short(&planned), ["seen p2 c6", "seen p3 c7"]);
    assert_eq!(reason(&planned, 0), "reserved for the OS");
    assert_eq!(reason(&planned, 5), "its siblings are reserved or may not be used");

    let all = Request { reserve: 4, ..Request::default() };
    let error = plan(&all, &Machine::adjacent(2, 2).build());
    assert_eq!(error, Err(PlanError::ReserveTooLarge { asked: 4, from: set(0..4), most: 3 }));
}

#[test]
fn numbers_that_do_not_fit_are_errors() {
    for (placement, fit) in [
        (Placement::Auto, 3),
        (Placement::Siblings, 3),
        (Placement::WholeCores, 1),
        (Placement::Shared, 6),
        (Placement::Unpinned, 6),
    ] {
        let machine = Machine::adjacent(4, 2).build();
        let asked = |pairs| Request { pairs: Some(pairs), reserve: 2, ..request(placement.clone()) };
        let planned = plan(&asked(fit), &machine).expect("what fits");
        assert_eq!(planned.sharing.len(), fit);
        for wrong in [fit + 1, usize::MAX] {
            let error = plan(&asked(wrong), &machine).expect_err("more than fits");
            let text = error.to_string();
            assert!(matches!(error, PlanError::TooMany { .. }), "{text}");
            assert!(text.contains(&format!("{fit} fit")) && text.contains("lower `reserve`"), "{text}");
        }
        assert_eq!(plan(&asked(0), &machine), Err(PlanError::Zero { knob: "pairs" }));
    }
    let planned = plan(&Request { pairs: Some(1), ..Request::default() }, &Machine::adjacent(2, 2).build());
    assert_eq!(reason(&planned.expect("one pair"), 2), "beyond the number of pairs asked for (1)");
}

#[test]
fn more_compute_lanes_a_core_only_where_asked_for() {
    let machine = Machine::adjacent(2, 4).mask([0, 1, 2, 3, 4, 5, 6]).build();
    let asked = |compute_per_core| Request { compute_per_core, ..Request::default() };
    let planned = plan(&asked(3), &machine).expect("SMT4");
    assert_eq!(short(&planned), ["seen p0 c1 c2 c3", "seen p4 c5 c6"]);
    let partners: Vec<_> = planned.lanes.iter().map(|lane| lane.partner).collect();
    assert_eq!(partners, [Some(1), Some(0), Some(0), Some(0), Some(5), Some(4), Some(4)]);
    assert!(planned.notes[0].contains("fewer than the 3"));

    assert_eq!(plan(&asked(4), &machine), Err(PlanError::ComputePerCore { asked: 4, most: 3 }));
    assert_eq!(plan(&asked(usize::MAX), &machine), Err(PlanError::ComputePerCore { asked: usize::MAX, most: 3 }));
    assert_eq!(plan(&asked(0), &machine), Err(PlanError::Zero { knob: "compute_per_core" }));
    let flat = plan(&asked(2), &Machine::adjacent(4, 1).build());
    assert_eq!(flat, Err(PlanError::ComputePerCore { asked: 2, most: 1 }));

    let whole = Request { compute_per_core: 2, ..request(Placement::WholeCores) };
    assert_eq!(short(&plan(&whole, &Machine::adjacent(2, 2).build()).expect("two cores")), ["denied p0 c2 c3"]);
}

#[test]
fn a_quota_limits_the_default_and_comments_on_the_rest() {
    let machine = |quota| Machine::adjacent(4, 2).quota(quota).build();
    for (quota, pairs, notes) in [
        (8.0, 4, &[][..]),
        (7.9, 3, &["planned: 3 of 4"]),
        (4.0, 2, &["planned: 2 of 4"]),
        (1.5, 1, &["planned: 1 of 4", "2 lanes share a cgroup quota of 1.5 cpus (/sys/fs/cgroup/cpu.max)"]),
        (0.0, 1, &["planned: 1 of 4", "2 lanes share"]),
        (f64::NAN, 1, &["planned: 1 of 4", "2 lanes share"]),
    ] {
        let planned = plan(&Request::default(), &machine(quota)).expect("at least one pair");
        assert_eq!(planned.sharing.len(), pairs, "quota {quota}");
        assert_eq!(planned.notes.len(), notes.len(), "quota {quota}: {:?}", planned.notes);
        for (note, words) in planned.notes.iter().zip(notes) {
            assert!(note.contains(words), "quota {quota}: {note}");
        }
    }
    let asked = Request { pairs: Some(3), ..Request::default() };
    let planned = plan(&asked, &machine(2.0)).expect("what was asked for");
    assert_eq!(planned.sharing.len(), 3, "an explicit number stands");
    assert!(planned.notes[0].contains("6 lanes share a cgroup quota of 2 cpus"));
}

#[test]
fn the_table_reads_as_documented() {
    let asked = Request { pairs: Some(2), reserve: 2, ..Request::default() };
    let planned = plan(&asked, &Machine::adjacent(4, 2).build()).expect("two pairs");
    assert_eq!(
        planned.to_string(),
        "\
lane  pair  role     cpu  partner  siblings  sharing  cache  node
   0     0  poll       2        3  3         seen         0     0
   1     0  compute    3        2  2         seen         0     0
   2     1  poll       4        5  5         seen         0     0
   3     1  compute    5        4  4         seen         0     0
left out
  cpus 0-1: reserved for the OS
  cpus 6-7: beyond the number of pairs asked for (2)
"
    );

    let planned =
        plan(&request(Placement::WholeCores), &Machine::apart(4, 2).mask([0, 1, 2, 3, 4, 5, 7]).quota(2.0).build());
    assert_eq!(
        planned.expect("whole cores").to_string(),
        "\
lane  pair  role     cpu  partner  siblings  sharing  cache  node
   0     0  poll       0        1  4         denied       0     0
   1     0  compute    1        0  5         denied       0     0
left out
  cpus 2-3,7: the cgroup quota of 2 cpus carries no more pairs
  cpus 4-5: siblings of cpus 0-1, left empty
  cpu 6: not in the affinity mask or cpuset
notes
  pairs planned: 1 of 2, because the cgroup quota is 2 cpus (/sys/fs/cgroup/cpu.max): raise it there, or set `pairs`
"
    );

    let planned = plan(&request(Placement::Unpinned), &Machine::adjacent(2, 1).guest().build()).expect("unpinned");
    assert_eq!(
        planned.to_string(),
        "\
lane  pair  role     cpu  partner  siblings  sharing  cache  node
   0     0  poll       -        -  -         unknown      -     -
   1     0  compute    -        -  -         unknown      -     -
left out
  cpus 0-1: lanes are not pinned: the OS places them
"
    );
}

#[test]
fn two_thousand_cpus_need_no_more_lines_below_the_table_than_four() {
    let planned = plan(&request(Placement::WholeCores), &Machine::apart(1000, 2).build()).expect("500 pairs");
    assert_eq!(planned.lanes.len(), 1000);
    assert_eq!(planned.left_out.len(), 1000);
    assert!(planned.to_string().ends_with("left out\n  cpus 1000-1999: siblings of cpus 0-999, left empty\n"));
}

#[test]
fn every_error_names_value_knob_and_remedy() {
    let one_of_each = [
        (PlanError::Zero { knob: "pairs" }, "`pairs` is 0: give at least 1, or leave it out for the default"),
        (PlanError::EmptyList { knob: "cpus" }, "`cpus` names nothing: name at least one, or leave it out"),
        (
            PlanError::Unusable { cpu: 7, knob: "cpus", fault: CpuFault::NotAllowed, allowed: set(0..4) },
            "`cpus` names cpu 7, which the affinity mask or cpuset of this process leaves out; allowed are cpus 0-3: name \
             one of those, or widen the mask (taskset, CPUAffinity=, cpuset.cpus)",
        ),
        (
            PlanError::Duplicate { cpu: 1, free: set([3]) },
            "`Placement::Pairs` names cpu 1 twice: a cpu carries one lane; allowed and free are cpu 3; for both roles on \
             one cpu use `Placement::Shared`",
        ),
        (
            PlanError::NoSuchNode { node: 4, nodes: set([0, 1]) },
            "`node` is 4, but the machine has NUMA nodes 0-1: name one of those",
        ),
        (
            PlanError::ReserveTooLarge { asked: 9, from: set(0..4), most: 3 },
            "`reserve` is 9, but lanes and reserve share cpus 0-3: reserve at most 3, or widen the affinity mask or `cpus`",
        ),
        (
            PlanError::ComputePerCore { asked: 9, most: 3 },
            "`compute_per_core` is 9, but the best core that may be used carries 3 beside its poll lane: give at most 3",
        ),
    ];
    for (error, text) in one_of_each {
        assert_eq!(error.to_string(), text);
    }
}
