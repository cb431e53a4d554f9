//! What a lane knows about itself once it runs.

use super::{LanePlan, Sharing};

/// A lane as it runs: what was planned, and what came of it. Given to hooks and pollers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaneInfo {
    /// Lane number, role, cpu, partner, cache domain and node, as planned.
    pub plan: LanePlan,
    /// Whether it shares its core with its partner, as far as is known.
    pub sharing: Sharing,
    /// Whether its thread is bound to the planned cpu. `false` with a cpu planned means: it could not be, and the user allowed that.
    pub pinned: bool,
}

impl LaneInfo {
    /// The lane's number, dense from 0.
    #[must_use]
    pub fn lane(&self) -> usize {
        self.plan.lane
    }

    /// The cpu that the lane is bound to, if it is.
    #[must_use]
    pub fn cpu(&self) -> Option<usize> {
        self.plan.cpu.filter(|_| self.pinned)
    }

    #[cfg(test)]
    pub(crate) fn for_tests(lane: usize) -> Self {
        let plan = LanePlan {
            lane,
            pair: lane / 2,
            role: super::Role::Poll,
            cpu: None,
            partner: None,
            siblings: Vec::new(),
            llc: 0,
            node: 0,
        };
        Self { plan, sharing: Sharing::Unknown, pinned: false }
    }
}
