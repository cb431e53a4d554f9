//! Ours beside a peer, at equal latency: which gives more away?

use super::engine::{Outcome, run};
use super::machine::Machine;
use super::ours::{Knobs, Ours};
use super::peers::{Peer, Tight};
use super::traffic::Traffic;

/// Traffic in two seeds: one to tune on, one to judge on.
#[derive(Clone, Debug)]
pub struct Pair {
    /// To tune on.
    pub tuning: Traffic,
    /// To judge on.
    pub judging: Traffic,
}

/// A traffic, a pass cost, a peer, and how ours compares.
#[derive(Clone, Debug)]
pub struct Cell {
    /// The traffic's name.
    pub traffic: String,
    /// The cost of an empty pass.
    pub pass_ns: u64,
    /// The peer's name.
    pub peer: &'static str,
    /// The peer on the judging seed.
    pub theirs: Outcome,
    /// Ours on the judging seed.
    pub ours: Outcome,
    /// Tight polling on the judging seed.
    pub tight_mean_ns: f64,
    /// What was bisected.
    pub mean_added_ns: u64,
    /// Both bounds on our latency hold on the judging seed.
    pub kept: bool,
    /// Whether the cell counts: not if the peer's latency is below what counts, or it hardly gives anything away.
    pub judged: bool,
}

impl Cell {
    /// Our duty over the peer's.
    pub fn ratio(&self) -> f64 {
        self.ours.duty() / self.theirs.duty().max(1e-9)
    }
    /// What the peer adds to tight polling.
    pub fn peer_added_ns(&self) -> f64 {
        self.theirs.mean_ns() - self.tight_mean_ns
    }
    /// What ours adds.
    pub fn ours_added_ns(&self) -> f64 {
        self.ours.mean_ns() - self.tight_mean_ns
    }
}

/// Peers that add less than this are as good as tight polling: not judged.
const ADDED_MIN_NS: f64 = 5.0;
/// Peers that give less away have no duty to compare with: not judged.
const DUTY_MIN: f64 = 0.02;
/// What ours may be later by on average, nanoseconds.
const MEAN_SLACK_NS: f64 = 2.0;
/// The search comes down in such steps.
const COARSE_STEP: f64 = 1.25;
/// The budget is found to this factor.
const STEP: f64 = 1.02;
/// Where the budget found on one seed is too much on the other, it is cut so often at most.
const CUTS_MAX: u32 = 24;

/// A peer and tight polling on one traffic: what ours has to keep to.
struct Reference {
    theirs: Outcome,
    tight_mean_ns: f64,
}

/// Judges one cell.
///
/// Ours gets the tools of the peer, the peer's longest wait for `max_added`, and the largest `mean_added` with a mean of at
/// most the peer's and 2 ns, and a 99.9th percentile of at most the peer's and a pass. That is bisected on the tuning seed. If
/// the two bounds do not hold on the judging seed as well, the budget is cut until they do.
pub fn judge(traffic: &Pair, pass_ns: u64, peer: &Peer, machine: &Machine) -> Cell {
    let machine = Machine { park: peer.park.unwrap_or(machine.park), ..*machine };
    let reference = |traffic: &Traffic| Reference {
        theirs: run(&mut *(peer.policy)(), traffic, pass_ns, &machine),
        tight_mean_ns: run(&mut Tight, traffic, pass_ns, &machine).mean_ns(),
    };
    let tuning = reference(&traffic.tuning);
    let judging = reference(&traffic.judging);
    let ours = |mean_added_ns: f64, traffic: &Traffic| {
        let knobs = Knobs {
            mean_added_ns: mean_added_ns as u64,
            max_added_ns: tuning.theirs.longest_wait_ns(),
            strict: false,
            duty_percent: 100,
            tools: peer.tools,
        };
        run(&mut Ours::new(knobs, &machine), traffic, pass_ns, &machine)
    };
    let keeps_to = |ours: &Outcome, reference: &Reference| {
        ours.mean_ns() <= reference.theirs.mean_ns() + MEAN_SLACK_NS
            && ours.quantile_ns(0.999) <= reference.theirs.quantile_ns(0.999) + pass_ns
    };
    let fits = |mean_added_ns: f64| keeps_to(&ours(mean_added_ns, &traffic.tuning), &tuning);

    let added = tuning.theirs.mean_ns() - tuning.tight_mean_ns;
    let judged = added >= ADDED_MIN_NS && tuning.theirs.duty() >= DUTY_MIN;
    let mut best = 0.0;
    if judged {
        // Charges are cautious, so the budget that spends a mean may be a multiple of it. From the top, since a larger budget
        // may fit where a smaller one, by the luck of a few long waits, does not.
        let (mut low, mut high) = (64.0 * added + 1_000.0, 64.0 * added + 1_000.0);
        while low > 1.0 && !fits(low) {
            (low, high) = (low / COARSE_STEP, low);
        }
        while high / low > STEP {
            let middle = f64::sqrt(high * low);
            if fits(middle) { low = middle } else { high = middle }
        }
        best = low;
    }
    let mut outcome = ours(best, &traffic.judging);
    for _ in 0..CUTS_MAX {
        if !judged || keeps_to(&outcome, &judging) {
            break;
        }
        best /= STEP * STEP;
        outcome = ours(best, &traffic.judging);
    }
    Cell {
        traffic: traffic.judging.name().into(),
        pass_ns,
        peer: peer.name,
        kept: keeps_to(&outcome, &judging),
        theirs: judging.theirs,
        ours: outcome,
        tight_mean_ns: judging.tight_mean_ns,
        mean_added_ns: best as u64,
        judged,
    }
}
