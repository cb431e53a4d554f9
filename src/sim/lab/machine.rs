//! What does each way to wait cost? A model of one cpu.

use super::traffic::Dice;

/// The costs, in nanoseconds, that a [`run`](super::run) charges.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// One PAUSE. 43 ns is what Skylake-class servers show; parts range from 5 to 92.
    pub pause_ns: u64,
    /// A look at the clock between two stretches of PAUSE.
    pub look_ns: u64,
    /// TPAUSE ends at a multiple of this: about 83 cycles.
    pub timed_quantum_ns: u64,
    /// TPAUSE or UMWAIT until the next instruction: leaving the state takes so long.
    pub timed_exit_ns: u64,
    /// The operating system ends a monitored wait after so long: 100 000 cycles at 2.3 GHz.
    pub monitored_max_ns: u64,
    /// `sched_yield` with nobody else to run. It relieves nobody: it is a system call.
    pub yield_ns: u64,
    /// Blocking in the kernel.
    pub park: ParkCost,
    /// Handling of one event.
    pub handling_ns: u64,
    /// Events that one pass takes at most.
    pub batch_max: usize,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            pause_ns: 43,
            look_ns: 11,
            timed_quantum_ns: 36,
            timed_exit_ns: 100,
            monitored_max_ns: 43_478,
            yield_ns: 274,
            park: ParkCost::Futex,
            handling_ns: 400,
            batch_max: 32,
        }
    }
}

/// From an arrival to the parked thread running again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParkCost {
    /// A futex in a virtual machine, as measured: the longer the cpu was idle, the later.
    Futex,
    /// A constant, in nanoseconds.
    Constant(u64),
}

/// (idle time, median, 99th percentile) of a futex wake, nanoseconds; measured on an Emerald Rapids guest.
const FUTEX: [(f64, f64, f64); 4] = [(5e3, 26e3, 88e3), (50e3, 45e3, 97e3), (500e3, 65e3, 151e3), (5e6, 85e3, 518e3)];
/// The standard normal's 99th percentile.
const Z99: f64 = 2.326;
/// What goes to sleep: arming and the system call, before the cpu is given away.
pub(super) const PARK_ENTRY_NS: u64 = 2_000;

impl ParkCost {
    /// Draws the wake of a thread that was blocked for `slept` ns.
    pub(super) fn wake_ns(self, slept: u64, dice: &mut Dice) -> u64 {
        match self {
            ParkCost::Constant(ns) => ns,
            ParkCost::Futex => {
                let (median, p99) = between(slept as f64);
                let sigma = (p99 / median).ln() / Z99;
                // Lognormal through both percentiles, cut at four times the 99th: no kernel takes for ever.
                (median * (sigma * dice.normal()).exp()).min(4.0 * p99) as u64
            }
        }
    }
}

/// Percentiles at an idle time, interpolated in its logarithm.
fn between(slept: f64) -> (f64, f64) {
    let first = FUTEX[0];
    if slept <= first.0 {
        return (first.1, first.2);
    }
    for pair in FUTEX.windows(2) {
        let (low, high) = (pair[0], pair[1]);
        if slept <= high.0 {
            let part = (slept / low.0).ln() / (high.0 / low.0).ln();
            return (low.1 + part * (high.1 - low.1), low.2 + part * (high.2 - low.2));
        }
    }
    let last = FUTEX[FUTEX.len() - 1];
    (last.1, last.2)
}

/// Which ways to wait a policy has besides PAUSE. In comparisons, ours has what the peer uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tools {
    /// TPAUSE.
    pub timed: bool,
    /// UMWAIT on what the events are stored to.
    pub monitored: bool,
    /// Blocking in the kernel.
    pub park: bool,
}
