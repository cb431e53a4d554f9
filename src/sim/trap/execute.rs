//! What does a wait instruction do? A pure function of the registers, the time, the monitor and how the pretended cpu behaves;
//! `handler` carries it out.

use super::Fault;
use super::decode::{Decoded, Op};

/// The registers that take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers {
    /// By number: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    pub(super) general: [u64; 16],
}

impl Registers {
    pub(super) fn full(&self, number: u8) -> u64 {
        self.general[usize::from(number & 15)]
    }
    /// Truncation is meant: the low half.
    fn low(&self, number: u8) -> u32 {
        self.full(number) as u32
    }
}

const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RBX: u8 = 3;

/// How the pretended cpu behaves, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Model {
    /// The operating system's limit for WAITPKG's waits, in ticks; 0 for none.
    pub(super) os_limit: u64,
    /// Waits return at once.
    pub(super) instant: bool,
    /// This wait ends half way, for no reason.
    pub(super) spurious: bool,
    /// A store to the monitored line ends waits.
    pub(super) hears: bool,
    /// Waits end so many ticks late.
    pub(super) overshoot: u64,
    /// Deadlines and counts are so many ticks longer, for what a trap takes.
    pub(super) grace: u64,
}

/// What is to be done, after which the instruction is over (but for a fault).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The instruction raises an exception.
    Fault(Fault),
    /// The monitor is armed with the line of this address, which is read.
    Arm { address: u64 },
    /// The thread waits.
    Wait(Wait),
    /// It is not carried out here: what it needs is not pretended.
    NotOurs,
}

/// A wait. In any case the monitor is disarmed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wait {
    /// Ends when the counter gets here.
    pub(super) until: u64,
    /// Ends at a store to the monitored line.
    pub(super) monitored: bool,
    /// The reason, if time ends it.
    pub(super) end: End,
    /// What was asked for, in ticks from now; `None`: for ever.
    pub(super) asked: Option<u64>,
    /// CF and the other arithmetic flags show how it ended. MWAITX leaves them alone.
    pub(super) flags: bool,
}

/// Why a wait ends, if time ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It did not begin: nothing was armed, the deadline was past, or the cpu does not wait.
    AtOnce,
    Deadline,
    /// CF is set.
    OsLimit,
    /// An interrupt, as some comes to every cpu.
    Interrupt,
    /// Nothing.
    Spurious,
}

/// 100 ms, at 2.5 GHz. On a real cpu an interrupt ends every wait; seldom ones, so that a wait which relies on them shows.
const INTERRUPT_TICKS: u64 = 250_000_000;

/// Decides. `now`: the counter; `armed`: the monitor of this thread.
pub(super) fn execute(decoded: &Decoded, registers: &Registers, now: u64, armed: bool, model: &Model) -> Action {
    let address = |register| {
        let address = registers.full(register);
        if decoded.address_32 { address & u64::from(u32::MAX) } else { address }
    };
    let arm = |address: u64| {
        if decoded.segment.is_some() {
            Action::NotOurs
        } else if is_canonical(address) {
            Action::Arm { address }
        } else {
            Action::Fault(Fault::GeneralProtection)
        }
    };
    match decoded.op {
        Op::Umonitor { address: register } => arm(address(register)),
        // No extensions are defined.
        Op::Monitorx if registers.low(RCX) != 0 => Action::Fault(Fault::GeneralProtection),
        Op::Monitorx => arm(address(RAX)),
        // All bits but the lowest are reserved.
        Op::Tpause { state } | Op::Umwait { state } if registers.low(state) > 1 => {
            Action::Fault(Fault::GeneralProtection)
        }
        Op::Tpause { .. } => waitpkg(registers, now, None, model),
        Op::Umwait { .. } => waitpkg(registers, now, Some(armed), model),
        Op::Mwaitx => {
            /// Break on interrupts although they are masked, and use the timer.
            const EXTENSIONS: u32 = 0b11;
            const TIMER: u32 = 0b10;
            let extensions = registers.low(RCX);
            if extensions & !EXTENSIONS != 0 {
                return Action::Fault(Fault::GeneralProtection);
            }
            // Without the timer, and with 0 in it, for ever.
            let ticks = Some(u64::from(registers.low(RBX))).filter(|&ticks| ticks > 0 && extensions & TIMER != 0);
            let longer = ticks.map(|ticks| ticks + model.grace);
            Action::Wait(Wait { asked: ticks, ..wait(longer, 0, now, Some(armed), model) })
        }
        // `submit` has the word on those.
        Op::Submit(..) => Action::NotOurs,
    }
}

/// TPAUSE (`armed` is `None`) and UMWAIT.
fn waitpkg(registers: &Registers, now: u64, armed: Option<bool>, model: &Model) -> Action {
    let deadline = u64::from(registers.low(RDX)) << 32 | u64::from(registers.low(RAX));
    let ticks = deadline.saturating_add(model.grace).saturating_sub(now);
    let wait = wait(Some(ticks), model.os_limit, now, armed, model);
    Action::Wait(Wait { flags: true, asked: Some(deadline.saturating_sub(now)), ..wait })
}

/// A wait for `ticks`, which ends at a store if a monitor is part of it.
fn wait(ticks: Option<u64>, os_limit: u64, now: u64, armed: Option<bool>, model: &Model) -> Wait {
    let nothing = Wait { until: now, monitored: false, end: End::AtOnce, asked: ticks, flags: false };
    if model.instant || armed == Some(false) || ticks == Some(0) {
        return nothing;
    }
    let (mut left, mut end) = match ticks {
        Some(ticks) => (ticks, End::Deadline),
        None => (u64::MAX, End::Interrupt),
    };
    if os_limit > 0 && os_limit < left {
        (left, end) = (os_limit, End::OsLimit);
    }
    if INTERRUPT_TICKS < left {
        (left, end) = (INTERRUPT_TICKS, End::Interrupt);
    }
    if model.spurious {
        (left, end) = (left / 2, End::Spurious);
    }
    let until = now.saturating_add(left).saturating_add(model.overshoot);
    Wait { until, monitored: armed == Some(true) && model.hears, end, ..nothing }
}

/// CF, PF, AF, ZF, SF and OF.
pub(super) const ARITHMETIC: u64 = 0x8d5;
const CF: u64 = 1;

/// The flags after a wait of WAITPKG's: all arithmetic ones clear, and CF if the operating system's limit ended it.
pub(super) fn flags_after(flags: u64, limited: bool) -> u64 {
    flags & !ARITHMETIC | if limited { CF } else { 0 }
}

/// Whether the upper bits are copies of bit 47. (Cpus with 57 bits of address allow more; user memory is in these.)
pub(super) fn is_canonical(address: u64) -> bool {
    const SHIFT: u32 = 64 - 48;
    // Signed, so that the shift back copies the highest bit.
    ((address << SHIFT) as i64 >> SHIFT) as u64 == address
}

#[cfg(test)]
mod tests {
    use super::super::decode::Segment;
    use super::*;

    const PLAIN: Model = Model { os_limit: 0, instant: false, spurious: false, hears: true, overshoot: 0, grace: 0 };
    const NOW: u64 = 1 << 40;

    fn decoded(op: Op) -> Decoded {
        Decoded { op, length: 4, address_32: false, segment: None }
    }

    fn registers(set: &[(u8, u64)]) -> Registers {
        let mut registers = Registers::default();
        set.iter().for_each(|&(number, value)| registers.general[usize::from(number)] = value);
        registers
    }

    /// TPAUSE or UMWAIT with the state in R9, for a deadline `ticks` from now.
    fn deadline(state: u64, ticks: u64) -> Registers {
        let deadline = NOW.wrapping_add(ticks);
        // The upper halves are not looked at.
        registers(&[(9, state | 5 << 32), (RAX, deadline & 0xffff_ffff | 7 << 32), (RDX, deadline >> 32 | 7 << 32)])
    }

    fn ends(op: Op, registers: &Registers, armed: bool, model: &Model) -> (u64, End, bool) {
        match execute(&decoded(op), registers, NOW, armed, model) {
            Action::Wait(wait) => (wait.until - NOW, wait.end, wait.monitored),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn time_ends_waits_by_the_manual() {
        const TPAUSE: Op = Op::Tpause { state: 9 };
        const UMWAIT: Op = Op::Umwait { state: 9 };
        let limited = Model { os_limit: 1_000, ..PLAIN };
        for (op, ticks, armed, model, until, end, monitored, why) in [
            (TPAUSE, 500, false, PLAIN, 500, End::Deadline, false, "a deadline"),
            (TPAUSE, 500, true, PLAIN, 500, End::Deadline, false, "TPAUSE hears no stores"),
            (UMWAIT, 500, true, PLAIN, 500, End::Deadline, true, "UMWAIT does"),
            (UMWAIT, 500, false, PLAIN, 0, End::AtOnce, false, "without a monitor it does not wait"),
            (TPAUSE, 0, false, PLAIN, 0, End::AtOnce, false, "now is past"),
            (TPAUSE, 0_u64.wrapping_sub(5), false, PLAIN, 0, End::AtOnce, false, "past"),
            (TPAUSE, 1_001, false, limited, 1_000, End::OsLimit, false, "the kernel's limit comes first"),
            (TPAUSE, 1_000, false, limited, 1_000, End::Deadline, false, "the deadline comes no later"),
            (TPAUSE, 1 << 41, false, PLAIN, INTERRUPT_TICKS, End::Interrupt, false, "an interrupt"),
            (TPAUSE, 500, false, Model { overshoot: 70, ..PLAIN }, 570, End::Deadline, false, "late"),
            (TPAUSE, 500, false, Model { grace: 70, ..PLAIN }, 570, End::Deadline, false, "with time for the trap"),
            (
                TPAUSE,
                0_u64.wrapping_sub(5),
                false,
                Model { grace: 70, ..PLAIN },
                65,
                End::Deadline,
                false,
                "past only by the trap",
            ),
            (UMWAIT, 500, true, Model { spurious: true, ..PLAIN }, 250, End::Spurious, true, "for no reason"),
            (UMWAIT, 500, true, Model { instant: true, ..PLAIN }, 0, End::AtOnce, false, "a no-op"),
            (UMWAIT, 500, true, Model { hears: false, ..PLAIN }, 500, End::Deadline, false, "deaf"),
        ] {
            for state in [0, 1] {
                assert_eq!(ends(op, &deadline(state, ticks), armed, &model), (until, end, monitored), "{why}");
            }
        }
    }

    #[test]
    fn mwaitx_counts_from_now_and_0_is_for_ever() {
        let limited = Model { os_limit: 10, ..PLAIN };
        for (count, extensions, until, end, why) in [
            (500, 0b10, 500, End::Deadline, "a count; the limit is WAITPKG's"),
            (500, 0b11, 500, End::Deadline, "and interrupts"),
            (0, 0b10, INTERRUPT_TICKS, End::Interrupt, "0 is for ever"),
            (500, 0, INTERRUPT_TICKS, End::Interrupt, "no timer"),
            (500 | 3 << 32, 0b10, 500, End::Deadline, "the upper half of RBX is not looked at"),
        ] {
            let registers = registers(&[(RBX, count), (RCX, extensions), (RAX, 0xf0)]);
            assert_eq!(ends(Op::Mwaitx, &registers, true, &limited), (until, end, true), "{why}");
        }
        assert_eq!(ends(Op::Mwaitx, &registers(&[(RBX, 5), (RCX, 2)]), false, &PLAIN).1, End::AtOnce, "not armed");
    }

    #[test]
    fn reserved_bits_fault() {
        let execute = |op, set: &[(u8, u64)]| execute(&decoded(op), &registers(set), NOW, true, &PLAIN);
        let fault = Action::Fault(Fault::GeneralProtection);
        for state in [2, 3, 1 << 31] {
            assert_eq!(execute(Op::Tpause { state: 9 }, &[(9, state)]), fault);
            assert_eq!(execute(Op::Umwait { state: 9 }, &[(9, state)]), fault);
        }
        assert_eq!(execute(Op::Monitorx, &[(RCX, 1)]), fault);
        assert_eq!(execute(Op::Mwaitx, &[(RCX, 0b100), (RBX, 1)]), fault);
        assert_eq!(execute(Op::Umonitor { address: 7 }, &[(7, 1 << 47)]), fault);
        assert_eq!(
            execute(Op::Umonitor { address: 7 }, &[(7, 0x7fff_ffff_fff0)]),
            Action::Arm { address: 0x7fff_ffff_fff0 }
        );
    }

    #[test]
    fn prefixes_change_addresses() {
        let at = registers(&[(7, 0x1_2345_6780), (RAX, 0x1_0000_0040)]);
        let execute = |decoded| execute(&decoded, &at, NOW, false, &PLAIN);
        let umonitor = decoded(Op::Umonitor { address: 7 });
        assert_eq!(execute(umonitor), Action::Arm { address: 0x1_2345_6780 });
        assert_eq!(execute(Decoded { address_32: true, ..umonitor }), Action::Arm { address: 0x2345_6780 });
        assert_eq!(execute(Decoded { address_32: true, ..decoded(Op::Monitorx) }), Action::Arm { address: 0x40 });
        assert_eq!(execute(Decoded { segment: Some(Segment::Fs), ..umonitor }), Action::NotOurs);
    }

    #[test]
    fn flags_show_the_limit_and_nothing_else() {
        const OTHERS: u64 = 0x202; // interrupts on, and the bit that is always set
        assert_eq!(flags_after(OTHERS | 0x8d5, false), OTHERS);
        assert_eq!(flags_after(OTHERS | 0x8d4, true), OTHERS | CF);
    }
}
