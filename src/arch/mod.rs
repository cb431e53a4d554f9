//! What differs between processors, behind one surface: a counter, a pause, and what the cpu can do.
//!
//! Every architecture has one file here (`x86`, `aarch64`, `riscv64`, `other`), and every one of them states the same names:
//!
//! | name | promise |
//! |---|---|
//! | `pause()` | The hint of a spin loop, as one instruction. It may take no time at all; nobody relies on how long it takes. |
//! | `ticks() -> u64` | The counter as it is, a few nanoseconds to read, neither scaled nor ordered with memory. `0` for ever where there is none. |
//! | `capabilities() -> Capabilities` | What this cpu states about itself. |
//! | `wait(Instruction, Depth, Span) -> Woke` | Waits for so many ticks at most. |
//! | `store_fence()` | All older stores are visible before any younger one, to devices too; what tokens [`Movdir64b`] and [`Enqcmd`] do comes after it. |
//! | `wait_on(Instruction, Depth, &Watch, Span) -> Woke` | Arms a monitor on a word's line, **looks at the word again**, and only then waits: for a store to the line, or for so many ticks at most. |
//!
//! A wait is told a number of ticks from an instant, and each backend makes of it what its instruction takes (an absolute
//! deadline, a relative count that must not be 0, a number of short waits). It may end at any time for no reason, the
//! first moment included: **every return means "look again"**, and nothing may depend on how long a wait was.
//!
//! **Nothing is probed by executing it.** Hypervisors hide instructions (and then they really trap), so what the cpu
//! states is the only evidence that counts, and an instruction that is not stated is not there. A probe answers with a
//! token ([`Waitpkg`] and its fellows): code that wants to execute the instruction takes the token as an argument, and
//! tokens are made nowhere but in these files.
//!
//! Whether ticks are good for measuring time is decided in `wait::clock`, which also scales them.

pub(crate) mod memory;
#[cfg(target_arch = "aarch64")]
#[path = "aarch64.rs"]
mod native;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")))]
#[path = "other.rs"]
mod native;
#[cfg(target_arch = "riscv64")]
#[path = "riscv64.rs"]
mod native;
#[cfg(target_arch = "x86_64")]
#[path = "x86.rs"]
mod native;
mod wait;

#[cfg(not(target_arch = "x86_64"))]
#[path = "no_enqueue.rs"]
mod enqueue;
#[cfg(target_arch = "x86_64")]
#[path = "x86_enqueue.rs"]
mod enqueue;

pub(crate) use enqueue::store_fence;

pub(crate) use native::{pause, ticks, wait, wait_on};
pub(crate) use wait::{Depth, Instruction, Span, Watch, Woke};

/// What the cpu that runs the calling thread states about itself.
///
/// Absence is not an error: it is a line in a report.
#[derive(Clone, Debug, Default)]
pub(crate) struct Capabilities {
    /// Who made it, in the maker's own letters ("GenuineIntel"); empty when the cpu does not say.
    pub(crate) vendor: String,
    /// The model's name as sold; empty when the cpu does not say.
    pub(crate) brand: String,
    /// The hypervisor under which this cpu runs, if one makes itself known.
    pub(crate) hypervisor: Option<String>,
    /// The counter behind [`ticks`] runs at one rate through all frequencies and sleep states.
    pub(crate) invariant_tsc: bool,
    /// The rate of the counter, where something states it. A claim: it is checked before it is used.
    pub(crate) stated_rate: Option<StatedRate>,
    /// TPAUSE, UMONITOR and UMWAIT.
    pub(crate) waitpkg: Option<Waitpkg>,
    /// MOVDIR64B.
    pub(crate) movdir64b: Option<Movdir64b>,
    /// ENQCMD.
    pub(crate) enqcmd: Option<Enqcmd>,
    /// MONITORX and MWAITX.
    pub(crate) mwaitx: Option<Mwaitx>,
    /// PREFETCHW.
    pub(crate) prefetchw: Option<Prefetchw>,
    /// WFET.
    pub(crate) wfxt: Option<Wfxt>,
    /// A kernel that ends every WFE after a while.
    pub(crate) event_stream: Option<EventStream>,
    /// WRS.STO.
    pub(crate) zawrs: Option<Zawrs>,
}

impl Capabilities {
    /// Asks the cpu that runs the calling thread. Tens of microseconds under a hypervisor, which answers in the cpu's
    /// stead: done at start, never in a loop.
    pub(crate) fn detect() -> Self {
        native::capabilities()
    }

    /// The instruction to wait with, the finest first; `None`: this cpu states none, and PAUSE it is.
    pub(crate) fn wait_instruction(&self) -> Option<Instruction> {
        None.or(self.waitpkg.map(Instruction::Waitpkg))
            .or(self.mwaitx.map(Instruction::Mwaitx))
            .or(self.wfxt.map(Instruction::Wfet))
            .or(self.event_stream.map(Instruction::Wfe))
            .or(self.zawrs.map(Instruction::Wrs))
    }

    /// The same cpu with TPAUSE, UMONITOR and UMWAIT, and with them as the only instructions to wait with. The one way to a
    /// token that no cpu stated: whoever calls it has the traps of `sim::trap` installed, or executes nothing.
    #[cfg(any(test, all(feature = "sim", target_arch = "x86_64")))]
    pub(crate) fn with_emulated_waitpkg(self) -> Self {
        Self { waitpkg: Some(Waitpkg(())), mwaitx: None, wfxt: None, event_stream: None, zawrs: None, ..self }
    }

    /// The same cpu with MOVDIR64B and ENQCMD, whatever it states. As above: for those who execute neither.
    #[cfg(any(test, all(feature = "sim", target_arch = "x86_64")))]
    pub(crate) fn with_emulated_enqcmd(self) -> Self {
        Self { movdir64b: Some(Movdir64b(())), enqcmd: Some(Enqcmd(())), ..self }
    }

    /// As [`with_emulated_waitpkg`](Self::with_emulated_waitpkg), with MONITORX and MWAITX.
    #[cfg(any(test, all(feature = "sim", target_arch = "x86_64")))]
    pub(crate) fn with_emulated_mwaitx(self) -> Self {
        Self { mwaitx: Some(Mwaitx(())), waitpkg: None, wfxt: None, event_stream: None, zawrs: None, ..self }
    }
}

/// A rate that the machine states for the counter behind [`ticks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StatedRate {
    /// Ticks a second.
    pub(crate) hz: u64,
    /// Where it is stated, for reports.
    pub(crate) source: &'static str,
}

/// Holding one means: this cpu executes TPAUSE, UMONITOR and UMWAIT without trapping.
///
/// It does not mean that they wait for long, or at all: the operating system caps them, and some hypervisors make them
/// no-ops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waitpkg(());

/// Holding one means: this cpu executes MOVDIR64B without trapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Movdir64b(());

/// Holding one means: this cpu knows ENQCMD.
///
/// Executing it also takes an address space that the kernel has bound to a device (a PASID); without one it raises #GP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Enqcmd(());

/// Holding one means: this cpu executes MONITORX and MWAITX without trapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mwaitx(());

/// Holding one means: this cpu executes PREFETCHW, and does not take it for a NOP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefetchw(());

/// Holding one means: this cpu executes WFET, WFE with a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wfxt(());

/// Holding one means: the kernel has the timer send an event to every cpu each [`PERIOD_NS`](Self::PERIOD_NS), so that a
/// WFE ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventStream(());

impl EventStream {
    /// 100 us: what Linux sets up (10 kHz).
    pub(crate) const PERIOD_NS: u64 = 100_000;
}

/// Holding one means: this cpu executes WRS.STO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Zawrs(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stated_counter_advances() {
        if !Capabilities::detect().invariant_tsc {
            return;
        }
        let before = ticks();
        // Far more than one tick of the slowest counter (1 MHz), whatever a PAUSE takes.
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert!(ticks() > before);
        pause();
    }

    #[test]
    fn the_finest_instruction_that_is_stated_is_waited_with() {
        let plain = || Capabilities { ..Capabilities::default() };
        let (waitpkg, mwaitx) = (plain().with_emulated_waitpkg(), plain().with_emulated_mwaitx());
        let (wfxt, event_stream) = (Some(Wfxt(())), Some(EventStream(())));
        for (cpu, names) in [
            (plain(), None),
            (waitpkg, Some("TPAUSE and UMWAIT")),
            (mwaitx, Some("MWAITX")),
            (Capabilities { wfxt, event_stream, ..plain() }, Some("WFET")),
            (Capabilities { event_stream, ..plain() }, Some("WFE")),
            (Capabilities { zawrs: Some(Zawrs(())), ..plain() }, Some("WRS.STO")),
        ] {
            assert_eq!(cpu.wait_instruction().map(Instruction::name), names);
        }
    }
}
