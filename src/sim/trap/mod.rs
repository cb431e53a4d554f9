//! Instructions for machines whose cpu has none of them. Those that wait (TPAUSE, UMONITOR, UMWAIT, MONITORX and MWAITX) and those that submit to a
//! device (MOVDIR64B and ENQCMD) raise a signal there, and a handler carries them out.
//!
//! So the very machine code that waits on other machines runs on this one, under tests that can say how the cpu behaves:
//! by the manual, or in each of the ways in which real cpus, kernels and hypervisors surprise. What it shows: encodings,
//! operands and flags; that no store is slept through between a check and the wait; that nothing depends on a wait being
//! long, or being a wait at all. What it does not show: timing below the trap's own 15 us, weak memory ordering (a trap is
//! a full barrier), what C0.1 and C0.2 save, and what the sibling gains.
//!
//! [`Trap::install`] puts the handler in; a [`Scene`] says how the cpu behaves while it lives, and counts;
//! [`Builder::emulate_waits`](crate::Builder::emulate_waits) makes a runtime wait with these instructions.
//!
//! ```
//! use twolane::sim::trap::{Behaviour, Family, Trap};
//! use twolane::{Placement, Relief, Runtime, Where};
//!
//! let trap = Trap::install()?;
//! let scene = trap.scene(Behaviour::by_the_manual().os_limit(100_000));
//! let rt = Runtime::builder()
//!     .placement(Placement::Unpinned)
//!     .relief(Relief::Always)
//!     .emulate_waits(trap, Family::Waitpkg)
//!     .build()?;
//! let mut polls = 0;
//! let poller = rt.spawn_poller(Where::Any, "idle", move |_: &mut twolane::PollCx<'_>| {
//!     polls += 1;
//!     if polls < 1_000 { twolane::Progress::Idle } else { twolane::Progress::Done }
//! })?;
//! poller.join()?;
//! println!("{:?}", rt.metrics().lanes[0].waits);
//! println!("{:?}", scene.counts());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is pretended
//! As the manuals have it: reserved bits and addresses that are not canonical raise #GP, memory that cannot be read raises a
//! page fault (both arrive as the SIGSEGV that the kernel would send, at the instruction). TPAUSE and UMWAIT clear the
//! arithmetic flags, and set CF if the operating system's limit ended the wait; MWAITX leaves flags alone and takes 0 for
//! "for ever". UMWAIT and MWAITX return at once unless a monitor is armed, and disarm it. An interrupt ends every wait
//! after 100 ms.
//!
//! A store by any thread to the 64 bytes of the armed line ends a wait if it *changes* them: one that writes what is there
//! already, or that is undone at once, may go unseen. The line has to stay mapped while it is waited on. FS and GS
//! prefixes are not pretended; such an instruction stays illegal.
//!
//! # Submissions
//! [`Trap::portal`] puts a queue of the [device model](crate::sim::dsa) behind a page, [`Trap::node`] behind an empty file that a driver opens and
//! maps as it does `/dev/dsa/wq0.0`. Then the very code that submits to real queues submits to the model:
//!
//! | | arrives as |
//! |---|---|
//! | MOVDIR64B where the cpu has it | SIGSEGV by address (a page of ours), SIGBUS (a mapped node): elsewhere it just executes |
//! | ENQCMD where the cpu has it but no PASID, as under hypervisors that hide it | SIGSEGV for a general protection fault, without an address |
//! | either where the cpu has not | SIGILL, wherever it goes to: MOVDIR64B to ordinary memory is carried out as a store |
//!
//! As the manual has it: the destination is aligned to 64 bytes and ENQCMD's first word is zero, else #GP; the source is read at any alignment, in FS and
//! GS too; ENQCMD clears the arithmetic flags and sets ZF for "retry", also where no portal is; MOVDIR64B leaves flags alone; ENQCMDS is the
//! kernel's, #GP. ENQCMD is answered in the handler, by the queue's state and by how full it is; descriptors go into a ring, out of which the
//! device takes them when anybody looks at it, its own thread ([`Device::spawn`](crate::sim::dsa::Device::spawn)) first.
//!
//! What it does not show: time (a trap takes microseconds), weak ordering (a trap is a full barrier, so a missing fence is not seen), that a store to a
//! portal is one piece, and addresses in the stack segment that are not canonical (#SS; #GP here). It was never seen on a cpu with ENQCMD and a PASID.
//!
//! # Signals
//! The handlers live in the process from then on: for SIGILL after [`Trap::install`], for SIGSEGV and SIGBUS after the first portal. They allocate
//! nothing, take no lock, keep `errno` and need about two kilobytes of an alternate stack. A signal for anything
//! else goes to the handler that was there before, or kills the process as it would have. Installing a handler of your own
//! afterwards takes the traps out: put it [behind](Trap::behind) them. A thread that blocks these signals dies of its next trap, since the kernel
//! puts no fault off. On a cpu that has one of the instructions, it simply
//! executes, also where a hypervisor hides it: ask [`Trap::carries_out`].
//!
//! # Under other programs
//! Seen to run: `cargo test`, in debug and in release; cargo-nextest 0.9; gdb 13, told `handle SIGILL SIGSEGV SIGBUS nostop noprint pass` (else it stops at each trap);
//! AddressSanitizer, which has to leave the signals to their handlers (`ASAN_OPTIONS=handle_segv=0:handle_sigill=0:handle_sigbus=0`).
//! Not seen: a cpu on which ENQCMD or MOVDIR64B fault instead of being illegal, but
//! for the signals that these would raise, which tests send.

mod behind;
mod decode;
#[cfg(test)]
pub(crate) mod driver_tests;
mod execute;
mod handler;
mod maps;
mod memory;
mod native;
mod portal;
mod portals;
mod submit;

pub use behind::Disposition;
pub use portal::TrappedPortal;

use std::io;
use std::sync::atomic::AtomicU32;

use parking_lot::MutexGuard;

/// Proof that the traps are in; see the [module](self).
#[derive(Clone, Copy, Debug)]
pub struct Trap(());

impl Trap {
    /// Installs the handler, once in a process; later calls are free.
    ///
    /// # Errors
    /// The kernel refuses (a seccomp filter, say).
    pub fn install() -> io::Result<Self> {
        handler::install()?;
        native::learn();
        Ok(Self(()))
    }

    /// Whether these instructions come to the traps. `false`: the cpu executes them by itself, which it may do though CPUID hides them; then no
    /// [`Behaviour`] holds for them, and nothing of theirs is counted.
    #[must_use]
    pub fn carries_out(self, family: Family) -> bool {
        !native::executed(family)
    }

    /// Puts a handler behind the traps, or none (the [default](Disposition)): it gets what is none of theirs of SIGILL, SIGSEGV or SIGBUS, as the handler does that was
    /// there when they were installed, with its own mask. Returns what was behind them; `None` asks for no more than that. For those who want to handle
    /// such a signal after [`install`](Self::install), and for libraries that stand between a program and libc's `sigaction`
    /// ([`sim::preload`](crate::sim::preload)). Async-signal-safe.
    ///
    /// `None`: the traps do not handle this signal (SIGSEGV and SIGBUS: not before the first portal), and `sigaction` does.
    ///
    /// # Errors
    /// ENOMEM: more than 64 different dispositions in a process.
    ///
    /// # Safety
    /// The handler's address is of a function for signals (of three arguments with `SA_SIGINFO`, else of one) that lives as long as the process.
    pub unsafe fn behind(self, signal: i32, new: Option<Disposition>) -> Option<io::Result<Disposition>> {
        handler::handles(signal).then(|| match new {
            Some(new) => behind::replace(signal, new),
            None => Ok(behind::disposition(signal)),
        })
    }

    /// Begins a scene, after those of other threads: the cpu is one for the whole process.
    ///
    /// # Deadlocks
    /// A thread that holds a scene cannot begin another.
    #[must_use = "the behaviour holds while the scene lives"]
    pub fn scene(self, behaviour: Behaviour) -> Scene {
        let alone = handler::ONE_SCENE.lock();
        handler::restart(behaviour);
        Scene { _alone: alone }
    }
}

/// Which instructions a runtime is told that its cpu has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Family {
    /// Intel's: TPAUSE, UMONITOR, UMWAIT.
    Waitpkg,
    /// AMD's: MONITORX, MWAITX.
    Mwaitx,
}

/// How the pretended cpu behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "nothing behaves like this before a scene says so"]
pub struct Behaviour {
    os_limit: u64,
    instant: bool,
    spurious_every: u32,
    deaf: bool,
    overshoot: u64,
    grace: u64,
}

impl Behaviour {
    /// As the manuals say, with no limit set by the operating system.
    pub const fn by_the_manual() -> Self {
        Self { os_limit: 0, instant: false, spurious_every: 0, deaf: false, overshoot: 0, grace: 0 }
    }

    /// The operating system ends TPAUSE and UMWAIT after so many ticks of the counter, and CF says so. 0: no limit. Linux sets
    /// 100 000.
    pub const fn os_limit(mut self, ticks: u64) -> Self {
        self.os_limit = ticks;
        self
    }

    /// Every wait returns at once, as under emulators that take the instructions for no-ops.
    pub const fn instant(mut self) -> Self {
        self.instant = true;
        self
    }

    /// Every `n`th wait ends after half its time for no reason. 0: none.
    pub const fn spurious_every(mut self, n: u32) -> Self {
        self.spurious_every = n;
        self
    }

    /// No store ends a wait, as if another program took the monitor each time.
    pub const fn deaf(mut self) -> Self {
        self.deaf = true;
        self
    }

    /// Time ends waits so many ticks late, as where a hypervisor runs somebody else meanwhile.
    pub const fn overshoot(mut self, ticks: u64) -> Self {
        self.overshoot = ticks;
        self
    }

    /// Deadlines and counts are so many ticks longer, which makes up for what the traps take: a wait of a few microseconds would
    /// be over before its instruction is carried out. What is counted as asked is without it.
    pub const fn grace(mut self, ticks: u64) -> Self {
        self.grace = ticks;
        self
    }
}

/// When a store of [`Scene::store_at`] happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// When the next monitor is armed, just before: the monitor does not see it.
    BeforeArm,
    /// When the next monitor is armed, just after.
    AfterArm,
    /// When the next wait has begun.
    InWait,
}

/// A time in which the cpu behaves in one way, or in several, one after the other. Ends when dropped, and the cpu behaves by
/// the manual again.
#[derive(Debug)]
pub struct Scene {
    _alone: MutexGuard<'static, ()>,
}

impl Scene {
    /// From now on the cpu behaves like this. Waits that have begun go on as they were.
    pub fn turn(&self, behaviour: Behaviour) {
        handler::set(behaviour);
    }

    /// At the moment given, once, `value` is stored in `word` as if by another cpu. One store is kept: a second call replaces
    /// the first.
    pub fn store_at(&self, moment: Moment, word: &'static AtomicU32, value: u32) {
        handler::intrude(moment, word, value);
    }

    /// What was executed since the scene began, by all threads.
    #[must_use]
    pub fn counts(&self) -> Counts {
        handler::counts()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        handler::set(Behaviour::by_the_manual());
        handler::forget_intrusion();
    }
}

/// Instructions that were carried out, and how waits ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// TPAUSE.
    pub tpause: u64,
    /// UMONITOR.
    pub umonitor: u64,
    /// UMWAIT.
    pub umwait: u64,
    /// MONITORX.
    pub monitorx: u64,
    /// MWAITX.
    pub mwaitx: u64,
    /// Waits that did not begin: nothing armed, a deadline in the past, an instant cpu.
    pub at_once: u64,
    /// Waits that their deadline or timer ended.
    pub by_deadline: u64,
    /// Waits that the operating system's limit ended.
    pub by_os_limit: u64,
    /// Waits that a store ended.
    pub by_store: u64,
    /// Waits that ended for no reason.
    pub by_nothing: u64,
    /// Waits that an interrupt ended, for want of anything else.
    pub by_interrupt: u64,
    /// Waits for which no end was asked (MWAITX with a count of 0, or without its timer).
    pub endless: u64,
    /// TPAUSE and UMWAIT in the light state, C0.1.
    pub light: u64,
    /// The longest wait that was asked for, in ticks; endless ones are not in it.
    pub longest_asked: u64,
    /// Instructions that faulted: reserved bits, addresses that are none.
    pub faults: u64,
    /// Signals that were passed on.
    pub passed_on: u64,
    /// MOVDIR64B to a portal.
    pub movdir64b: u64,
    /// MOVDIR64B to memory, on a cpu that has no such instruction.
    pub stores: u64,
    /// ENQCMD that got an answer.
    pub enqcmd: u64,
    /// ENQCMD that was told to retry.
    pub enqcmd_retry: u64,
}

/// An exception that an instruction raises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// #GP.
    GeneralProtection,
    /// #PF, at an address that cannot be accessed.
    Page(u64),
}
