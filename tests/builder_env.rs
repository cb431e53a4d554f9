//! `TWOLANE_*` variables override the builder, are reported where they did, and are errors where they mean nothing.

mod common;
use common::{child, is_child, made_up};
use twolane::{Builder, Error, Runtime};

fn builder() -> Builder {
    Runtime::builder().placement(twolane::Placement::Unpinned).topology(made_up(4))
}

#[test]
fn values_are_used_and_reported() {
    if !is_child() {
        return child(
            "values_are_used_and_reported",
            &[
                ("TWOLANE_PAIRS", "2"),
                ("TWOLANE_BACKLOG_MAX", " 1 "),
                ("TWOLANE_PLACEMENT", "unpinned"),
                ("TWOLANE_ETIQUETTE", "polite"),
            ],
        );
    }
    let used = ["TWOLANE_BACKLOG_MAX= 1 ", "TWOLANE_ETIQUETTE=polite", "TWOLANE_PAIRS=2", "TWOLANE_PLACEMENT=unpinned"];
    // The operator has the last word.
    let rt = builder().pairs(1).backlog_max(100).build().unwrap();
    assert_eq!(rt.plan().lanes.len(), 4);
    assert_eq!(rt.metrics().overrides, used);
    for variable in used {
        let note = format!("from the environment: {variable}");
        assert!(rt.plan().notes.contains(&note), "{}", rt.plan());
        assert!(rt.plan().to_string().contains(&note), "{}", rt.plan());
    }
    let ends: Vec<_> = (0..4).map(|_| common::occupy(&rt)).collect();
    assert!(rt.try_spawn_compute(|| ()).is_ok());
    assert!(rt.try_spawn_compute(|| ()).is_err(), "backlog_max is 1");
    ends.iter().for_each(common::Gate::open);

    let rt = builder().pairs(1).env_overrides(false).build().unwrap();
    assert_eq!((rt.plan().lanes.len(), rt.metrics().overrides.len()), (2, 0), "unless the program says no");
}

#[test]
fn a_value_that_means_nothing_is_an_error() {
    if !is_child() {
        return child("a_value_that_means_nothing_is_an_error", &[("TWOLANE_ETIQUETTE", "rude")]);
    }
    let error = builder().build().map(|_| ()).unwrap_err();
    assert!(matches!(error, Error::Environment { .. }), "{error:?}");
    assert_eq!(error.to_string(), "environment variable TWOLANE_ETIQUETTE=rude: use latency, balanced or polite");
    assert!(builder().plan().is_err(), "the dry run sees it, too");
    assert!(builder().env_overrides(false).build().is_ok());
}

#[test]
fn a_name_that_means_nothing_is_an_error() {
    if !is_child() {
        return child("a_name_that_means_nothing_is_an_error", &[("TWOLANE_PIARS", "2")]);
    }
    let text = builder().build().map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("TWOLANE_PIARS=2: no such variable; there are TWOLANE_PLACEMENT, TWOLANE_PAIRS"), "{text}");
}

#[test]
fn what_the_planner_refuses_is_refused_from_here_as_well() {
    if !is_child() {
        return child("what_the_planner_refuses_is_refused_from_here_as_well", &[("TWOLANE_PAIRS", "0")]);
    }
    let text = builder().build().map(|_| ()).unwrap_err().to_string();
    assert!(text.contains("`pairs` is 0"), "{text}");
}

#[test]
fn an_unset_environment_changes_nothing() {
    if !is_child() {
        return child("an_unset_environment_changes_nothing", &[]);
    }
    let rt = builder().build().unwrap();
    assert_eq!(rt.plan().lanes.len(), 4);
    assert!(rt.metrics().overrides.is_empty());
}
