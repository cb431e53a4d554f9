//! Whom a lane steals from, and in which order. Pure.

use crate::placement::LanePlan;

/// Victims of `thief`, nearest first: the other lanes of its pair, then its cache domain, its node, the rest. Within a distance the order
/// starts behind the thief, so that thieves of one domain do not all begin with the same victim.
pub(crate) fn victims(thief: usize, lanes: &[LanePlan]) -> Vec<usize> {
    let me = &lanes[thief];
    let distance = |lane: &LanePlan| match () {
        () if lane.pair == me.pair => 0,
        () if lane.llc == me.llc => 1,
        () if lane.node == me.node => 2,
        () => 3,
    };
    let mut order: Vec<usize> = (1..lanes.len()).map(|step| (thief + step) % lanes.len()).collect();
    order.sort_by_key(|&lane| distance(&lanes[lane])); // stable: keeps the rotation within a distance
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::LaneInfo;

    fn lane(lane: usize, pair: usize, llc: usize, node: usize) -> LanePlan {
        let mut plan = LaneInfo::for_tests(lane).plan;
        (plan.pair, plan.llc, plan.node) = (pair, llc, node);
        plan
    }

    #[test]
    fn the_sibling_comes_first_then_by_distance_from_behind_the_thief() {
        let lanes = [
            lane(0, 0, 0, 0),
            lane(1, 0, 0, 0),
            lane(2, 1, 0, 0),
            lane(3, 1, 0, 0),
            lane(4, 2, 4, 0),
            lane(5, 2, 4, 0),
            lane(6, 3, 6, 1),
            lane(7, 3, 6, 1),
        ];
        assert_eq!(victims(1, &lanes), [0, 2, 3, 4, 5, 6, 7]);
        assert_eq!(victims(3, &lanes), [2, 0, 1, 4, 5, 6, 7]);
        assert_eq!(victims(6, &lanes), [7, 0, 1, 2, 3, 4, 5]);
        assert!(victims(0, &lanes[..1]).is_empty());
    }
}
