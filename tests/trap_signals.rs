//! What the trap emulator does with signals that are its own, and with those that are not.
#![cfg(all(feature = "sim", target_arch = "x86_64"))]
#![allow(unsafe_code)] // instructions and signals

mod children;

use std::arch::asm;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::*};

use twolane::sim::trap::{Behaviour, Trap};

/// Tells a child process which of the deaths to die.
const DEATH: &str = "TRAP_DEATH";

/// TPAUSE with any operand and deadline. Returns the flags after it; before it all arithmetic ones are set.
fn tpause(state: u32, deadline: u64) -> u64 {
    let flags: u64;
    // SAFETY: the traps carry it out, or the process dies, as the test wants. (MOV and XOR keep the stack as it is.)
    unsafe {
        asm!("mov ah, 0xff", "add al, 0x7f", "sahf", "mov eax, r10d", "tpause r9d", "pushfq", "pop {flags}",
            flags = out(reg) flags, in("r9d") state, in("r10") deadline, in("edx") (deadline >> 32) as u32,
            out("eax") _);
    }
    flags
}

/// In a child: dies, one way or the other. In the parent: how a child died that way.
fn death(name: &str, of: impl FnOnce()) -> Option<ExitStatus> {
    match std::env::var(DEATH) {
        Ok(asked) if asked == name => {
            // SAFETY: no core files from deaths that are meant.
            unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
            of();
            std::process::exit(0);
        }
        Ok(_) => None,
        Err(_) => {
            let program = std::env::current_exe().unwrap();
            let mut command = Command::new(program);
            Some(children::output(command.args(["--exact", name, "--nocapture"]).env(DEATH, name)).status)
        }
    }
}

#[test]
fn an_illegal_instruction_that_is_not_ours_kills_as_before() {
    let status = death("an_illegal_instruction_that_is_not_ours_kills_as_before", || {
        Trap::install().unwrap();
        // SAFETY: dies.
        unsafe { asm!("ud2") };
    });
    if let Some(status) = status {
        assert_eq!(status.signal(), Some(libc::SIGILL), "{status}");
    }
}

#[test]
fn reserved_bits_kill_as_a_general_protection_fault() {
    let status = death("reserved_bits_kill_as_a_general_protection_fault", || {
        let _scene = Trap::install().unwrap().scene(Behaviour::by_the_manual());
        tpause(2, 0);
    });
    if let Some(status) = status {
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status}");
    }
}

#[test]
fn a_fault_kills_although_it_is_ignored() {
    let status = death("a_fault_kills_although_it_is_ignored", || {
        let _scene = Trap::install().unwrap().scene(Behaviour::by_the_manual());
        // SAFETY: ignores a signal, as some programs do.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
        tpause(2, 0);
    });
    if let Some(status) = status {
        assert_eq!(status.signal(), Some(libc::SIGSEGV), "{status}");
    }
}

/// What the handler of a SIGSEGV saw, in a child.
static SEEN_CODE: AtomicI32 = AtomicI32::new(-1);
static SEEN_ADDRESS: AtomicU64 = AtomicU64::new(0);
static SEEN_AT: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_sigsegv(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's, valid while the handler runs.
    let (info, cpu) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    SEEN_CODE.store(info.si_code, Relaxed);
    // SAFETY: a fault's information has an address.
    SEEN_ADDRESS.store(unsafe { info.si_addr() } as u64, Relaxed);
    let at = &mut cpu.uc_mcontext.gregs[libc::REG_RIP as usize];
    SEEN_AT.store(*at as u64, Relaxed);
    // Behind the instruction, whose length the tests know.
    *at += 4;
}

fn install_sigsegv() {
    // SAFETY: a complete action with a handler of the right signature.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_sigsegv as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn faults_arrive_at_the_instruction_with_what_the_kernel_would_say() {
    let status = death("faults_arrive_at_the_instruction_with_what_the_kernel_would_say", || {
        let scene = Trap::install().unwrap().scene(Behaviour::by_the_manual());
        install_sigsegv();
        let at: u64;
        // SAFETY: the handler steps over UMONITOR, which is at the label that LEA reads.
        unsafe { asm!("lea {at}, [rip + 2f]", "2:", "umonitor rdi", at = out(reg) at, in("rdi") 0x1234) };
        assert_eq!(SEEN_CODE.load(Relaxed), 1, "SEGV_MAPERR");
        assert_eq!((SEEN_ADDRESS.load(Relaxed), SEEN_AT.load(Relaxed)), (0x1234, at));
        // SAFETY: as above.
        unsafe { asm!("lea {at}, [rip + 2f]", "2:", "umonitor rdi", at = out(reg) _, in("rdi") 1_u64 << 63) };
        assert_eq!(SEEN_CODE.load(Relaxed), 0x80, "SI_KERNEL, as for every #GP");
        assert_eq!(scene.counts().faults, 2);
        // No status but this one says that all of it held.
        std::process::exit(42);
    });
    if let Some(status) = status {
        assert_eq!(status.code(), Some(42), "{status}");
    }
}

static PASSED: AtomicI32 = AtomicI32::new(0);

extern "C" fn of_one_argument(signal: libc::c_int) {
    PASSED.fetch_add(signal, Relaxed);
    // SAFETY: the child ends here; `_exit` may be called in a handler.
    unsafe { libc::_exit(if PASSED.load(Relaxed) == libc::SIGILL { 43 } else { 1 }) };
}

#[test]
fn what_is_not_ours_goes_to_the_handler_that_was_there() {
    let status = death("what_is_not_ours_goes_to_the_handler_that_was_there", || {
        // SAFETY: a handler of one argument.
        unsafe { libc::signal(libc::SIGILL, of_one_argument as *const () as libc::sighandler_t) };
        let scene = Trap::install().unwrap().scene(Behaviour::by_the_manual());
        tpause(0, 0);
        assert_eq!((scene.counts().tpause, PASSED.load(Relaxed)), (1, 0), "ours does not go there");
        // SAFETY: ends in the handler.
        unsafe { asm!("ud2") };
    });
    if let Some(status) = status {
        assert_eq!(status.code(), Some(43), "{status}");
    }
}

#[test]
fn flags_show_the_limit_and_errno_is_kept() {
    const CF: u64 = 1;
    const OTHERS: u64 = 0x8d4; // PF, AF, ZF, SF, OF
    let scene = Trap::install().unwrap().scene(Behaviour::by_the_manual().os_limit(1_000));
    // SAFETY: the thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *errno = 77 };
    assert_eq!(tpause(0, u64::MAX) & (CF | OTHERS), CF, "the limit");
    assert_eq!(tpause(1, 0) & (CF | OTHERS), 0, "the deadline");
    // SAFETY: as above.
    assert_eq!(unsafe { *errno }, 77);
    let counts = scene.counts();
    assert_eq!((counts.tpause, counts.light, counts.by_os_limit, counts.at_once), (2, 1, 1, 1));
}

#[test]
fn spurious_returns_come_as_often_as_wanted() {
    let scene = Trap::install().unwrap().scene(Behaviour::by_the_manual().os_limit(1_000).spurious_every(4));
    for _ in 0..40 {
        tpause(0, u64::MAX);
    }
    let counts = scene.counts();
    assert_eq!((counts.by_nothing, counts.by_os_limit), (10, 30));
    scene.turn(Behaviour::by_the_manual().instant());
    tpause(0, u64::MAX);
    assert_eq!(scene.counts().at_once, 1);
}

/// The arithmetic flags that are left of all of them after each instruction, as the manuals have it; of a cpu that executes one by itself, too.
#[test]
fn instructions_that_arm_leave_flags_and_those_that_wait_until_a_deadline_clear_them() {
    const ARITHMETIC: u64 = 0x8d5; // CF, PF, AF, ZF, SF, OF
    let _scene = Trap::install().unwrap().scene(Behaviour::by_the_manual());
    #[repr(align(64))]
    struct Line(u64);
    let line = Line(7);
    let at = std::ptr::from_ref(&line.0);
    macro_rules! flags {
        ($($code:literal),+; $($operands:tt)*) => {{
            let flags: u64;
            // SAFETY: the traps carry it out, or the cpu; the line lives. (MOV, XCHG, ADD and SAHF keep the stack as it is, and flags are set before all else.)
            unsafe {
                asm!("mov eax, 0xff01", "add al, 0x7f", "sahf", $($code,)+ "pushfq", "pop {flags}",
                    flags = out(reg) flags, out("eax") _, $($operands)*);
            }
            flags & ARITHMETIC
        }};
    }
    assert_eq!(flags!("umonitor rdi"; in("rdi") at), ARITHMETIC, "UMONITOR");
    assert_eq!(flags!("mov eax, 0", "umwait r9d"; in("r9d") 0, in("edx") 0), 0, "UMWAIT, a deadline in the past");
    assert_eq!(flags!("mov eax, 0", "tpause r9d"; in("r9d") 1, in("edx") 0), 0, "TPAUSE, as much");
    assert_eq!(flags!("mov rax, rdi", "monitorx"; in("rdi") at, in("ecx") 0, in("edx") 0), ARITHMETIC, "MONITORX");
    let timer = 2; // ECX[1]
    let after = flags!("mov eax, 0xf0", "xchg rbx, {count}", "mwaitx", "xchg rbx, {count}"; in("ecx") timer, count = inout(reg) 1_000_u64 => _);
    assert_eq!(after, ARITHMETIC, "MWAITX");
}
