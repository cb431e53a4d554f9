//! How many of the groups that fit are taken: the number asked for, or as many as the cgroup quota carries.

use super::error::PlanError;
use super::offer::{Group, Offer};
use super::pool::Pool;
use super::ranges::Cpus;
use crate::topology::Quota;

/// The number of groups to take, from the front.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Quantity {
    pub(super) groups: usize,
    /// Why a group behind that number is not taken.
    pub(super) reason: String,
    /// What the user should know about the choice.
    pub(super) notes: Vec<String>,
}

impl Quantity {
    /// Decides between the number `asked` for, the default of `offer`, and `quota`.
    pub(super) fn decide(
        asked: Option<usize>,
        offer: &Offer,
        pool: &Pool,
        quota: Option<&Quota>,
    ) -> Result<Self, PlanError> {
        let fit = offer.groups.len();
        if let Some(asked) = asked.filter(|asked| *asked > fit) {
            return Err(PlanError::TooMany { asked, fit, what: offer.what, why: why_not_more(offer, pool) });
        }
        let what = offer.what;
        let mut decided = match (asked, quota) {
            (Some(groups), _) => {
                Self { groups, reason: format!("beyond the number of {what} asked for ({groups})"), notes: Vec::new() }
            }
            (None, Some(quota)) => {
                let groups = carried(&offer.groups[..offer.by_default], quota);
                let mut notes = Vec::new();
                if groups < offer.by_default {
                    notes.push(format!(
                        "{what} planned: {groups} of {}, because the cgroup quota is {} cpus ({}): raise it there, or set \
                         `pairs`",
                        offer.by_default,
                        quota.cpus,
                        quota.source.display()
                    ));
                }
                Self {
                    groups,
                    reason: format!("the cgroup quota of {} cpus carries no more {what}", quota.cpus),
                    notes,
                }
            }
            (None, None) => Self { groups: offer.by_default, reason: "not needed".to_owned(), notes: Vec::new() },
        };

        let lanes = lanes(&offer.groups[..decided.groups]);
        decided.notes.extend(quota.and_then(|quota| overdrawn(quota, lanes)));
        Ok(decided)
    }
}

/// How many `groups` stay within `quota`, counted from the front; at least one, as a runtime without lanes runs nothing.
fn carried(groups: &[Group], quota: &Quota) -> usize {
    let mut lanes = 0;
    let within = groups.iter().take_while(|group| {
        lanes += group.lanes.len();
        within(lanes, quota)
    });
    within.count().max(1)
}

/// A warning where the lanes can use more time than there is.
fn overdrawn(quota: &Quota, lanes: usize) -> Option<String> {
    (!within(lanes, quota)).then(|| {
        format!(
            "{lanes} lanes share a cgroup quota of {} cpus ({}): a waiting lane that spins uses it up, and then the kernel \
             stops all of them until the next period; plan fewer lanes, or raise the quota there",
            quota.cpus,
            quota.source.display()
        )
    })
}

/// Whether `lanes` that never sleep fit into the quota. A quota that is no number carries nothing.
fn within(lanes: usize, quota: &Quota) -> bool {
    lanes as f64 <= quota.cpus
}

fn lanes(groups: &[Group]) -> usize {
    groups.iter().map(|group| group.lanes.len()).sum()
}

fn why_not_more(offer: &Offer, pool: &Pool) -> String {
    let reserved =
        if pool.reserved.is_empty() { String::new() } else { format!(" beside the reserved {}", Cpus(&pool.reserved)) };
    let remedy = if pool.reserved.is_empty() { "" } else { ", lower `reserve`" };
    format!(
        "{} may carry lanes{reserved}, and {}; ask for at most {}{remedy}, or widen the affinity mask or `cpus`",
        Cpus(&pool.usable),
        offer.rule,
        offer.groups.len()
    )
}
