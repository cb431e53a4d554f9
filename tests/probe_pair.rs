//! A probe on real threads: whatever the machine is, it ends in time, its answer is well formed, and it leaves the caller alone.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use twolane::topology::Topology;
use twolane::topology::probe::{Probe, ProbeError, Prober, Seen, Verdict};
use twolane::{Runtime, Sharing};

mod common;

/// What the OS may need to run this thread again once its time has come. Generous: the machine may be busy with other tests.
const LATE_MAX: Duration = Duration::from_millis(500);

/// Two cpus to probe; `None` on a machine with one.
fn pair() -> Option<(usize, usize)> {
    let allowed: Vec<usize> = Topology::read().unwrap().allowed().into_iter().collect();
    Some((*allowed.first()?, *allowed.get(1)?))
}

fn mask() -> BTreeSet<usize> {
    Topology::read().unwrap().allowed()
}

fn threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.starts_with("probe-")).count()
}

#[test]
fn a_probe_ends_in_time_with_an_answer_and_its_evidence() {
    const TOTAL: Duration = Duration::from_millis(400);
    let Some((first, second)) = pair() else { return };
    let before = mask();
    let began = Instant::now();
    let report = match Probe::of(first, second).total(TOTAL).run() {
        Ok(report) => report,
        // Real-time work on one of the cpus: nothing to see, and that is said.
        Err(ProbeError::Starved { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    assert!(began.elapsed() < TOTAL + LATE_MAX, "{:?}", began.elapsed());
    assert_eq!(mask(), before, "the caller's own mask");
    assert_eq!(report.cpus, [first, second]);

    let counts = report.counts();
    assert_eq!(counts.shared + counts.separate + counts.unclear, report.windows.len());
    for window in &report.windows {
        assert!(window.at + window.took <= report.took, "{window:?}");
        if !matches!(window.seen, Seen::Unclear(_)) {
            let ratio = window.ratio.expect("a clear answer has its evidence");
            assert!(0.0 < ratio.low && ratio.low <= ratio.median && ratio.median <= ratio.high, "{window:?}");
            assert!(window.rounds >= 7, "{window:?}");
        }
    }
    match report.verdict {
        Verdict::Shared { ratio } => assert!(counts.shared > 0 && ratio < 0.75, "{report}"),
        Verdict::Separate { ratio } => assert!(counts.separate > 0 && ratio > 0.85, "{report}"),
        Verdict::Floating { shared_windows, windows } => {
            assert_eq!((shared_windows, windows), (counts.shared, counts.shared + counts.separate));
            assert!(0 < shared_windows && shared_windows < windows && !report.changes().is_empty(), "{report}");
        }
        _ => assert!(2 * counts.unclear >= report.windows.len(), "{report}"),
    }
    let text = report.to_string();
    assert!(text.contains(report.verdict.name()) && text.contains("windows"), "{text}");
}

#[test]
fn what_cannot_be_probed_is_refused_with_the_remedy() {
    let allowed = mask();
    let first = *allowed.first().unwrap();
    let absent = (0..).find(|cpu| !allowed.contains(cpu)).unwrap();
    let table = [
        (first, first, "two different cpus"),
        (first, absent, "taskset"),
        (absent, first, "taskset"),
        (first, usize::MAX, "taskset"),
    ];
    for (one, other, remedy) in table {
        let error = Probe::of(one, other).run().expect_err("refused");
        let text = error.to_string();
        let named = if one == other { one } else { one.max(other) };
        assert!(text.contains(&format!("cpu {named} ")) && text.contains(remedy), "{text}");
        assert!(Prober::start(one, other).is_err());
    }
}

/// What was measured reaches the lanes by the user's word alone, and the plan says whose word it is.
#[test]
fn a_verdict_can_be_told_to_the_builder() {
    // Four cpus of a virtual machine that shows no siblings.
    let builder = || Runtime::builder().env_overrides(false).topology(common::made_up(4)).pairs(2);
    assert_eq!(builder().plan().unwrap().sharing, [Sharing::Unknown; 2]);
    let plan = builder().sharing(1, Verdict::Shared { ratio: 0.5 }).sharing(0, Verdict::Separate { ratio: 1.0 });
    let plan = plan.plan().unwrap();
    assert_eq!(plan.sharing, [Sharing::Denied, Sharing::Seen]);
    let text = plan.to_string();
    assert!(text.contains("pair 1: sharing seen by the builder's word; the machine says unknown"), "{text}");
    let wavering = builder().sharing(0, Verdict::Floating { shared_windows: 3, windows: 9 }).plan().unwrap();
    assert_eq!((wavering.sharing, wavering.notes.len()), (vec![Sharing::Unknown; 2], 0));
}

/// Half a mask is a machine with one cpu, as far as this thread is concerned.
#[test]
fn a_single_cpu_has_no_pair() {
    let Some((first, second)) = pair() else { return };
    std::thread::spawn(move || {
        assert!(core_affinity::set_for_current(core_affinity::CoreId { id: first }));
        let refused = Probe::of(first, second).run();
        assert!(matches!(&refused, Err(ProbeError::NotAllowed { cpu, .. }) if *cpu == second), "{refused:?}");
    })
    .join()
    .unwrap();
}

#[test]
fn a_prober_answers_window_by_window_and_leaves_no_thread() {
    const WINDOW: Duration = Duration::from_millis(20);
    let Some((first, second)) = pair() else { return };
    let mut prober = match Prober::start(first, second) {
        Ok(prober) => prober,
        Err(ProbeError::Starved { .. }) => return,
        Err(error) => panic!("{error}"),
    };
    assert!(prober.window(Duration::from_millis(9)).is_err() && prober.window(Duration::from_secs(2)).is_err());
    let mut last = Duration::ZERO;
    for _ in 0..3 {
        let began = Instant::now();
        let window = prober.window(WINDOW).unwrap();
        assert!(began.elapsed() < WINDOW + LATE_MAX, "{window:?}");
        assert!(window.at >= last && window.took <= began.elapsed(), "{window:?}");
        last = window.at + window.took;
    }
    let (seven, _) = prober.around(WINDOW, || 7).unwrap();
    assert_eq!(seven, 7);
    drop(prober);
    // A thread that is kept from its cpu ends when it gets there.
    let end = Instant::now() + Duration::from_secs(5);
    while threads() > 0 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(threads(), 0);
}
