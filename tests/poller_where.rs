//! A poller lives where it was put, and a place that takes no pollers is an error that says which do.

mod common;
use common::{LIMIT, pairs, within};
use twolane::{Error, Placement, Role, Where};

#[test]
fn lane_and_pair_name_the_place() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        for (place, lane) in [(Where::Lane(2), 2), (Where::Lane(0), 0), (Where::Pair(1), 2), (Where::Pair(0), 0)] {
            let poller = rt.spawn_poller(place, "here", common::quiet()).unwrap();
            assert_eq!(poller.lane(), lane, "{place:?}");
            common::until("it is called", || poller.stats().calls > 0);
        }
        common::until("both lanes have two", || {
            let lanes = rt.metrics().lanes;
            lanes.iter().map(|lane| lane.pollers).collect::<Vec<_>>() == [2, 0, 2, 0]
        });
    });
}

#[test]
fn any_is_the_lane_with_the_fewest() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let place = |place| rt.spawn_poller(place, "quiet", common::quiet()).unwrap();
        assert_eq!(Where::default(), Where::Any);
        let first = place(Where::Lane(0));
        let lanes: Vec<usize> = (0..3).map(|_| place(Where::Any).lane()).collect();
        assert_eq!(lanes[0], 2, "the empty one first");
        assert_eq!(lanes.iter().filter(|&&lane| lane == 2).count(), 2, "then in turn: {lanes:?}");
        first.stop();
        first.join().unwrap();
        assert_eq!(place(Where::Any).lane(), 0, "those that ended do not count");
    });
}

#[test]
fn places_that_do_not_exist_are_named_with_those_that_do() {
    within(LIMIT, || {
        let rt = pairs(2).build().unwrap();
        let refused = |place| rt.spawn_poller(place, "nowhere", common::quiet()).map(|_| ()).unwrap_err();
        for (place, text) in [
            (Where::Lane(4), "there is no lane 4: the runtime has 4 lanes in 2 pairs, numbered from 0"),
            (
                Where::Lane(usize::MAX),
                "there is no lane 18446744073709551615: the runtime has 4 lanes in 2 pairs, numbered from 0",
            ),
            (Where::Pair(2), "there is no pair 2: the runtime has 4 lanes in 2 pairs, numbered from 0"),
        ] {
            let error = refused(place);
            assert!(matches!(error, Error::NoSuchLane { .. }), "{error:?}");
            assert_eq!(error.to_string(), text);
        }
        let error = refused(Where::Lane(1));
        assert!(matches!(error, Error::NotForPollers { lane: 1, role: Role::Compute }), "{error:?}");
        assert!(error.to_string().contains("use `Where::Pair` or a poll lane (see `Runtime::plan`)"), "{error}");
        assert_eq!(rt.metrics().live_pollers, 0, "none of them was counted");
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::InvalidInput);
    });
}

#[test]
fn a_shared_lane_takes_pollers_by_any_of_its_names() {
    within(LIMIT, || {
        let rt =
            twolane::Runtime::builder().env_overrides(false).placement(Placement::Shared).pairs(1).build().unwrap();
        for place in [Where::Any, Where::Pair(0), Where::Lane(0)] {
            assert_eq!(rt.spawn_poller(place, "shared", common::quiet()).unwrap().lane(), 0);
        }
    });
}
