//! What do other systems do when a poll finds nothing? Their rules, at their own constants.
//!
//! Each is reduced to what one lane does between events: spin, yield, wait, park. What they do beside (stealing, steering
//! of siblings, frequency) is left out, and so is the cost of their polls, which is the laboratory's to set. Where a peer
//! parks, waking it costs what the [`Machine`](super::Machine) says; [`Caladan`] brings a cheaper wake of its own.

use super::engine::{Pass, Policy, Rest, Rested};
use super::machine::{ParkCost, Tools};

/// The answer that stands until an event comes.
const FOR_EVER: u64 = u64::MAX;

/// A peer by name, with what it uses.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// What it is called in reports.
    pub name: &'static str,
    /// A fresh policy.
    pub policy: fn() -> Box<dyn Policy>,
    /// The ways to wait that it uses; PAUSE is taken for granted.
    pub tools: Tools,
    /// What its wake costs, if not what the machine's does.
    pub park: Option<ParkCost>,
}

/// All peers.
pub fn all() -> Vec<Peer> {
    const PAUSE: Tools = Tools { timed: false, monitored: false, park: false };
    const PARK: Tools = Tools { park: true, ..PAUSE };
    fn peer<P: Policy + Default + 'static>(name: &'static str, tools: Tools) -> Peer {
        Peer { name, policy: || Box::new(P::default()), tools, park: None }
    }
    vec![
        peer::<DpdkPause>("dpdk pause", Tools { timed: true, ..PAUSE }),
        peer::<DpdkMonitor>("dpdk monitor", Tools { monitored: true, timed: true, ..PAUSE }),
        peer::<Seastar>("seastar", PARK),
        Peer { park: Some(ParkCost::Constant(Caladan::WAKE_NS)), ..peer::<Caladan>("caladan", PARK) },
        peer::<Rayon>("rayon", PARK),
        peer::<Tokio>("tokio", PARK),
        peer::<OneTbb>("onetbb", Tools { timed: true, ..PARK }),
        peer::<Crossbeam>("crossbeam", PARK),
        peer::<HaltPoll>("haltpoll", PARK),
    ]
}

/// Polls without any wait: the baseline that added latency is measured from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tight;

impl Policy for Tight {
    fn name(&self) -> String {
        "tight".into()
    }
    fn found(&mut self, _: &Pass) {}
    fn empty(&mut self, _: &Pass) -> (Rest, u64) {
        (Rest::None, FOR_EVER)
    }
}

/// After `after` empty passes, the same wait after each.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// The wait.
    pub rest: Rest,
    /// Empty passes without a wait before the first.
    pub after: u64,
    empties: u64,
}

impl Constant {
    /// `rest` after every empty pass but the first `after` of a row.
    pub fn new(rest: Rest, after: u64) -> Self {
        Self { rest, after, empties: 0 }
    }
}

impl Policy for Constant {
    fn name(&self) -> String {
        format!("{:?} after {}", self.rest, self.after)
    }
    fn found(&mut self, _: &Pass) {
        self.empties = 0;
    }
    fn empty(&mut self, _: &Pass) -> (Rest, u64) {
        if self.empties < self.after {
            let row = self.after - self.empties;
            self.empties = self.after;
            return (Rest::None, row);
        }
        (self.rest, FOR_EVER)
    }
}

/// DPDK's `rte_power_pmd_mgmt`, pause mode: 512 empty polls, then TPAUSE (C0.2) for 1 us after each.
#[derive(Clone, Copy, Debug)]
pub struct DpdkPause(Constant);

/// `emptypoll_max`.
const DPDK_EMPTIES: u64 = 512;

impl Default for DpdkPause {
    fn default() -> Self {
        // `pause_duration` is 1 (us).
        Self(Constant::new(Rest::Timed(1_000), DPDK_EMPTIES))
    }
}

impl Policy for DpdkPause {
    fn name(&self) -> String {
        "dpdk pause".into()
    }
    fn found(&mut self, pass: &Pass) {
        self.0.found(pass);
    }
    fn empty(&mut self, pass: &Pass) -> (Rest, u64) {
        self.0.empty(pass)
    }
}

/// DPDK's `rte_power_pmd_mgmt`, monitor mode: 512 empty polls, then UMONITOR and UMWAIT on the next descriptor, which the
/// operating system's limit ends if the device does not.
#[derive(Clone, Copy, Debug)]
pub struct DpdkMonitor(Constant);

impl Default for DpdkMonitor {
    fn default() -> Self {
        Self(Constant::new(Rest::Monitored(u64::MAX), DPDK_EMPTIES))
    }
}

impl Policy for DpdkMonitor {
    fn name(&self) -> String {
        "dpdk monitor".into()
    }
    fn found(&mut self, pass: &Pass) {
        self.0.found(pass);
    }
    fn empty(&mut self, pass: &Pass) -> (Rest, u64) {
        self.0.empty(pass)
    }
}

/// Spins by time, then parks.
#[derive(Clone, Copy, Debug)]
struct SpinThenPark {
    spin: Rest,
    spin_ns: u64,
    /// What `spin` takes; only there to foresee how long the answer stands.
    spin_took: u64,
    idle_since: u64,
}

impl SpinThenPark {
    fn new(spin: Rest, spin_ns: u64) -> Self {
        Self { spin, spin_ns, spin_took: 0, idle_since: 0 }
    }
    fn found(&mut self, pass: &Pass) {
        self.idle_since = pass.now;
    }
    fn empty(&mut self, pass: &Pass) -> (Rest, u64) {
        let left = (self.idle_since + self.spin_ns).saturating_sub(pass.now);
        if left == 0 {
            return (Rest::Park, 1);
        }
        // Known after the first rest; until then the answer stands once.
        let row = if self.spin != Rest::None && self.spin_took == 0 { 1 } else { left / (pass.took + self.spin_took) };
        (self.spin, row.max(1))
    }
    fn rested(&mut self, rest: Rest, rested: &Rested) {
        if rest == self.spin {
            self.spin_took = rested.took;
        }
    }
}

/// Seastar: one PAUSE after each empty pass of the reactor, for 200 us (`--poll-mode` off, bare metal); then it blocks.
#[derive(Clone, Copy, Debug)]
pub struct Seastar(SpinThenPark);

impl Default for Seastar {
    fn default() -> Self {
        Self(SpinThenPark::new(Rest::Pause(1), 200_000))
    }
}

impl Policy for Seastar {
    fn name(&self) -> String {
        "seastar".into()
    }
    fn found(&mut self, pass: &Pass) {
        self.0.found(pass);
    }
    fn empty(&mut self, pass: &Pass) -> (Rest, u64) {
        self.0.empty(pass)
    }
    fn rested(&mut self, rest: Rest, rested: &Rested) {
        self.0.rested(rest, rested);
    }
}

/// Caladan's runtime: at least 2 us of attempts to steal, then the kernel thread parks and the core goes back to the
/// scheduler core, which wakes it with a store to a line that the idle core MWAITs on.
#[derive(Clone, Copy, Debug)]
pub struct Caladan(SpinThenPark);

impl Caladan {
    /// The scheduler's reaction and the switch back: published figures are around 5 us. It takes a kernel module and a
    /// core of its own.
    pub const WAKE_NS: u64 = 5_000;
}

impl Default for Caladan {
    fn default() -> Self {
        Self(SpinThenPark::new(Rest::None, 2_000))
    }
}

impl Policy for Caladan {
    fn name(&self) -> String {
        "caladan".into()
    }
    fn found(&mut self, pass: &Pass) {
        self.0.found(pass);
    }
    fn empty(&mut self, pass: &Pass) -> (Rest, u64) {
        self.0.empty(pass)
    }
    fn rested(&mut self, rest: Rest, rested: &Rested) {
        self.0.rested(rest, rested);
    }
}

/// A fixed list of rests after the first empty passes of a row; after the list, a park.
#[derive(Clone, Copy, Debug)]
struct Rounds {
    /// (rest, how often), in order.
    list: &'static [(Rest, u64)],
    at: usize,
}

impl Rounds {
    fn new(list: &'static [(Rest, u64)]) -> Self {
        Self { list, at: 0 }
    }
    fn found(&mut self) {
        self.at = 0;
    }
    fn empty(&mut self) -> (Rest, u64) {
        let answer = self.list.get(self.at).copied().unwrap_or((Rest::Park, 1));
        self.at += 1;
        answer
    }
}

/// Rayon: 32 rounds of search with a yield each, one more look once "sleepy", then it blocks.
#[derive(Clone, Copy, Debug)]
pub struct Rayon(Rounds);

impl Default for Rayon {
    fn default() -> Self {
        Self(Rounds::new(&[(Rest::Yield, 32), (Rest::None, 1)]))
    }
}

impl Policy for Rayon {
    fn name(&self) -> String {
        "rayon".into()
    }
    fn found(&mut self, _: &Pass) {
        self.0.found();
    }
    fn empty(&mut self, _: &Pass) -> (Rest, u64) {
        self.0.empty()
    }
}

/// Tokio's multi-threaded scheduler: an idle worker parks at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tokio;

impl Policy for Tokio {
    fn name(&self) -> String {
        "tokio".into()
    }
    fn found(&mut self, _: &Pass) {}
    fn empty(&mut self, _: &Pass) -> (Rest, u64) {
        (Rest::Park, 1)
    }
}

/// oneTBB: `2 * (workers + 1)` waits of TPAUSE to now + 1000 cycles, then 100 yields, then it sleeps. Two workers.
#[derive(Clone, Copy, Debug)]
pub struct OneTbb(Rounds);

impl Default for OneTbb {
    fn default() -> Self {
        // 1000 cycles at 2.3 GHz.
        Self(Rounds::new(&[(Rest::Timed(435), 6), (Rest::Yield, 100)]))
    }
}

impl Policy for OneTbb {
    fn name(&self) -> String {
        "onetbb".into()
    }
    fn found(&mut self, _: &Pass) {
        self.0.found();
    }
    fn empty(&mut self, _: &Pass) -> (Rest, u64) {
        self.0.empty()
    }
}

/// crossbeam's `Backoff::snooze`: 1, 2, 4 .. 64 PAUSEs, four yields, then `is_completed` says to park.
#[derive(Clone, Copy, Debug)]
pub struct Crossbeam(Rounds);

impl Default for Crossbeam {
    fn default() -> Self {
        Self(Rounds::new(&[
            (Rest::Pause(1), 1),
            (Rest::Pause(2), 1),
            (Rest::Pause(4), 1),
            (Rest::Pause(8), 1),
            (Rest::Pause(16), 1),
            (Rest::Pause(32), 1),
            (Rest::Pause(64), 1),
            (Rest::Yield, 4),
        ]))
    }
}

impl Policy for Crossbeam {
    fn name(&self) -> String {
        "crossbeam".into()
    }
    fn found(&mut self, _: &Pass) {
        self.0.found();
    }
    fn empty(&mut self, _: &Pass) -> (Rest, u64) {
        self.0.empty()
    }
}

/// Linux' haltpoll governor: `cpu_relax` for up to 200 us, halting after. The limit doubles (from 50 us) if the wake came
/// after the limit but within 200 us of idle time, and is halved if it came later.
#[derive(Clone, Copy, Debug)]
pub struct HaltPoll {
    spin: SpinThenPark,
}

/// `guest_halt_poll_ns`.
const HALT_POLL_MAX_NS: u64 = 200_000;
/// `guest_halt_poll_grow_start`.
const HALT_POLL_GROW_START_NS: u64 = 50_000;

impl Default for HaltPoll {
    fn default() -> Self {
        Self { spin: SpinThenPark::new(Rest::Pause(1), HALT_POLL_MAX_NS) }
    }
}

impl Policy for HaltPoll {
    fn name(&self) -> String {
        "haltpoll".into()
    }
    fn found(&mut self, pass: &Pass) {
        self.spin.found(pass);
    }
    fn empty(&mut self, pass: &Pass) -> (Rest, u64) {
        self.spin.empty(pass)
    }
    fn rested(&mut self, rest: Rest, rested: &Rested) {
        self.spin.rested(rest, rested);
        if rest == Rest::Park {
            let limit = &mut self.spin.spin_ns;
            let idle = rested.now - rested.wake - self.spin.idle_since;
            if idle <= HALT_POLL_MAX_NS && idle > *limit {
                *limit = (*limit * 2).clamp(HALT_POLL_GROW_START_NS, HALT_POLL_MAX_NS);
            } else if idle > HALT_POLL_MAX_NS {
                *limit /= 2;
            }
        }
    }
}
