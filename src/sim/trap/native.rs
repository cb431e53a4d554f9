//! Which of the instructions the cpu executes by itself, so that nothing traps.
//!
//! CPUID does not tell: hypervisors hide instructions that the cpu goes on to execute all the same (MONITORX and MWAITX on some hosts), which
//! is why nothing outside of this module tries. Here the handler is in, so that a trial is harmless either way.

use std::sync::OnceLock;

use super::{Family, handler};
use crate::arch::{self, Capabilities, Depth, Span};

/// Ticks that the trial's wait may last: long enough to be begun, too short to be noticed.
const TRIAL: u64 = 100_000;

static EXECUTED: OnceLock<[bool; 2]> = OnceLock::new();

/// Tries, once in a process: after the handler was installed and before anybody can begin a scene.
pub(super) fn learn() {
    EXECUTED.get_or_init(|| [Family::Waitpkg, Family::Mwaitx].map(executes));
}

/// Whether the cpu executes the family's instructions by itself.
pub(super) fn executed(family: Family) -> bool {
    let [waitpkg, mwaitx] = EXECUTED.get().copied().unwrap_or_default();
    match family {
        Family::Waitpkg => waitpkg,
        Family::Mwaitx => mwaitx,
    }
}

fn executes(family: Family) -> bool {
    let traps = || {
        let counts = handler::counts();
        counts.tpause + counts.monitorx
    };
    let cpu = Capabilities::default();
    let cpu = match family {
        Family::Waitpkg => cpu.with_emulated_waitpkg(),
        Family::Mwaitx => cpu.with_emulated_mwaitx(),
    };
    let before = traps();
    if let Some(by) = cpu.wait_instruction() {
        let _ = arch::wait(by, Depth::Light, Span { from: arch::ticks(), ticks: TRIAL });
    }
    traps() == before
}
