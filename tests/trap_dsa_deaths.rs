//! What kills a process as it did before, although the traps handle SIGSEGV, SIGBUS and SIGILL: each death in a process of its own.
#![cfg(all(feature = "sim", target_arch = "x86_64"))]
#![allow(unsafe_code)] // instructions and signals

mod children;
mod trap_dsa;

use std::arch::asm;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use trap_dsa::{Faulting, Trapped, enqcmd, faulting, movdir64b};
use twolane::offload::dsa::abi::Descriptor;
use twolane::sim::dsa::{Profile, QueueConfig};
use twolane::sim::trap::{Disposition, Trap};

/// Tells a child process which of the deaths to die.
const DEATH: &str = "TRAP_DSA_DEATH";

/// In a child: dies, one way or the other. In the parent: how a child died that way.
fn death(name: &str, of: impl FnOnce()) -> Option<Output> {
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
            Some(children::output(Command::new(program).args(["--exact", name, "--nocapture"]).env(DEATH, name)))
        }
    }
}

fn trapped() -> Trapped {
    Trapped::page("", QueueConfig::shared(4), &Profile::strict(1))
}

const ZERO: [u8; 64] = [0; 64];

/// Declares tests that die of a signal.
macro_rules! deaths {
    ($($name:ident: $signal:ident, $of:block;)*) => {$(
        #[test]
        fn $name() {
            // SAFETY: it is executed in a child, which dies of it, as the test wants, or leaves.
            if let Some(child) = death(stringify!($name), || unsafe { $of }) {
                assert_eq!(child.status.signal(), Some(libc::$signal), "{child:?}");
            }
        }
    )*};
}

deaths! {
    an_ordinary_store_to_a_page: SIGSEGV, { let trapped = trapped(); trapped.at.write_volatile(1) };
    an_ordinary_load_from_a_page: SIGSEGV, { let trapped = trapped(); let _ = trapped.at.read_volatile(); };
    an_ordinary_store_to_a_node: SIGBUS, {
        let trapped = Trapped::node("", QueueConfig::dedicated(4), &Profile::strict(1));
        trapped.at.write_volatile(1)
    };
    a_null_dereference: SIGSEGV, { let _trapped = trapped(); asm!("mov eax, [rdi]", in("rdi") 0, out("eax") _) };
    a_jump_to_nowhere: SIGSEGV, { let _trapped = trapped(); asm!("call rdi", in("rdi") 8, clobber_abi("C")) };
    an_address_that_is_not_canonical: SIGSEGV, {
        let _trapped = trapped();
        asm!("mov eax, [rdi]", in("rdi") 1_u64 << 63, out("eax") _)
    };
    // Nobody's but the kernel's: std's handler takes one that was sent for a fault, and leaves it to happen again.
    a_sigsegv_that_was_sent: SIGSEGV, {
        libc::signal(libc::SIGSEGV, libc::SIG_DFL);
        let _trapped = trapped();
        libc::kill(libc::getpid(), libc::SIGSEGV);
        std::thread::sleep(Duration::from_secs(5)); // it may come to another thread
    };
    a_sigbus_that_was_sent: SIGBUS, {
        libc::signal(libc::SIGBUS, libc::SIG_DFL);
        let _trapped = trapped();
        libc::raise(libc::SIGBUS);
    };
    a_sigill_that_was_sent: SIGILL, { let _trapped = trapped(); libc::raise(libc::SIGILL); };
    an_illegal_instruction: SIGILL, { let _trapped = trapped(); asm!("ud2") };
    a_misaligned_enqcmd: SIGSEGV, { let trapped = trapped(); enqcmd(trapped.at.add(32), ZERO.as_ptr()); };
    a_misaligned_movdir64b: SIGSEGV, { let trapped = trapped(); movdir64b(trapped.at.add(1), ZERO.as_ptr()) };
    an_enqcmd_with_a_pasid: SIGSEGV, {
        let trapped = trapped();
        let mut bytes = ZERO;
        bytes[0] = 1;
        enqcmd(trapped.at, bytes.as_ptr());
    };
    an_enqcmds_of_a_user: SIGSEGV, {
        let trapped = trapped();
        asm!("enqcmds {to}, [{from}]", to = in(reg) trapped.at, from = in(reg) ZERO.as_ptr())
    };
    a_descriptor_that_is_not_there: SIGSEGV, { let trapped = trapped(); enqcmd(trapped.at, std::ptr::dangling()); };
    an_enqcmd_to_nowhere: SIGSEGV, { let _trapped = trapped(); enqcmd(0x10000 as *mut u8, ZERO.as_ptr()); };
    a_movdir64b_to_memory_that_is_read_only: SIGSEGV, {
        #[repr(align(64))]
        struct Line([u8; 64]);
        static FIXED: Line = Line([0; 64]);
        let _trapped = trapped();
        movdir64b(FIXED.0.as_ptr().cast_mut(), ZERO.as_ptr())
    };
    a_portal_that_is_gone: SIGSEGV, {
        let trapped = trapped();
        let at = trapped.at;
        drop(trapped);
        enqcmd(at, ZERO.as_ptr());
    };
}

#[test]
fn a_stack_that_overflows_says_so() {
    #[allow(unconditional_recursion)]
    fn deeper(n: u64) -> u64 {
        let room = std::hint::black_box([n; 100]);
        deeper(n + 1) + room[n as usize % 100]
    }
    let Some(child) = death("a_stack_that_overflows_says_so", || {
        let _trapped = trapped();
        std::hint::black_box(deeper(0));
    }) else {
        return;
    };
    assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{child:?}");
    assert!(String::from_utf8_lossy(&child.stderr).contains("has overflowed its stack"), "{child:?}");
}

#[test]
fn a_forked_child_has_no_portal_and_its_parent_keeps_it() {
    let trapped = trapped();
    let node = Trapped::node("", QueueConfig::dedicated(4), &Profile::strict(1));
    for one in [&trapped, &node] {
        // SAFETY: the child executes one instruction, or ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no memory is named; it dies of it, without a core.
            unsafe {
                libc::prctl(libc::PR_SET_DUMPABLE, 0);
                one.submit(0, &Descriptor::noop());
                libc::_exit(0);
            }
        }
        let (mut status, until) = (0, Instant::now() + children::LIMIT);
        // SAFETY: waits for the child that was just made, here and below.
        while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
            if Instant::now() > until {
                // SAFETY: the child's own number, since nobody has waited for it.
                unsafe { libc::kill(child, libc::SIGKILL) };
                panic!("the child hangs");
            }
            std::thread::sleep(Duration::from_millis(1)); // paces the looks, orders nothing
        }
        assert!(libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSEGV, "{status:#x}");
        // SAFETY: no memory is named.
        assert!(unsafe { one.submit(0, &Descriptor::noop()) });
        assert_eq!(one.device.counters().accepted, 1);
    }
}

static SEEN: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static SIGNALS: AtomicI32 = AtomicI32::new(0);

extern "C" fn skip(_: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel's, valid while the handler runs.
    let (info, cpu) = unsafe { (&*info, &mut *context.cast::<libc::ucontext_t>()) };
    let at = &mut cpu.uc_mcontext.gregs[libc::REG_RIP as usize];
    SEEN[0].store(info.si_code as u64, Relaxed);
    // SAFETY: a fault's information has an address.
    SEEN[1].store(unsafe { info.si_addr() } as u64, Relaxed);
    SEEN[2].store(*at as u64, Relaxed);
    SIGNALS.fetch_add(1, Relaxed);
    // Behind the instruction, whose length the test knows.
    *at += 5;
}

#[test]
fn faults_go_to_the_handler_that_was_there_with_what_the_kernel_would_say() {
    let Some(child) = death("faults_go_to_the_handler_that_was_there_with_what_the_kernel_would_say", || {
        // SAFETY: a complete action with a handler of the right signature.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = skip as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            assert_eq!(libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()), 0);
        }
        let trapped = trapped();
        let page = trapped.at.addr() as u64;
        let border = trapped.at.wrapping_add(trap_dsa::PAGE - 32).addr() as u64;
        for (to, from, code, address, what) in [
            (page + 1, ZERO.as_ptr().addr() as u64, 0x80, 0, "misaligned: #GP"),
            (page, 0x1000, 1, 0x1000, "no source"),
            (page, border, 2, border, "a source that is a portal"),
            (0x10040, ZERO.as_ptr().addr() as u64, 1, 0x10040, "no destination"),
        ] {
            let at: u64;
            // SAFETY: the handler steps over ENQCMD, which is at the label that LEA reads.
            unsafe {
                asm!("lea {at}, [rip + 2f]", "2:", "enqcmd rax, [rdi]", at = out(reg) at, in("rax") to, in("rdi") from);
            }
            assert_eq!([0, 1, 2].map(|n| SEEN[n].load(Relaxed)), [code, address, at], "{what}");
        }
        assert_eq!(SIGNALS.load(Relaxed), 4);
        // SAFETY: a portal; no memory is named.
        assert!(unsafe { trapped.submit(0, &Descriptor::noop()) }, "what is ours does not go there");
        assert_eq!(SIGNALS.load(Relaxed), 4);
        // No status but this one says that all of it held.
        std::process::exit(42);
    }) else {
        return;
    };
    assert_eq!(child.status.code(), Some(42), "{child:?}");
}

/// What a program does that wants to know of such a signal although the traps handle it.
#[test]
fn a_handler_is_put_behind_the_traps_and_has_its_flags() {
    let name = "a_handler_is_put_behind_the_traps_and_has_its_flags";
    let Some(child) = death(name, || {
        let trap = Trap::install().unwrap();
        let skip = Disposition { handler: skip as *const () as usize, flags: libc::SA_SIGINFO, mask: 0 };
        // SAFETY: a handler of three arguments.
        let early = unsafe { trap.behind(libc::SIGSEGV, Some(skip)) };
        assert!(early.is_none(), "the traps handle it from the first portal on");
        let trapped = trapped();
        // SAFETY: as above.
        let put = |action| unsafe { trap.behind(libc::SIGSEGV, action) }.unwrap().unwrap();
        let before = put(Some(skip));
        assert_ne!(before.handler, 0, "std's, which tells of stacks that overflow");
        assert_eq!(put(None), skip);
        // SAFETY: a misaligned portal, 5 bytes of code that the handler steps over; and then a portal.
        unsafe {
            asm!("enqcmd rax, [rdi]", in("rax") trapped.at.add(1), in("rdi") ZERO.as_ptr());
            assert!(trapped.submit(0, &Descriptor::noop()));
        }
        assert_eq!(SIGNALS.load(Relaxed), 1);
        // Once, and then no more.
        put(Some(Disposition { flags: libc::SA_SIGINFO | libc::SA_RESETHAND, ..skip }));
        // SAFETY: as above.
        unsafe { asm!("enqcmd rax, [rdi]", in("rax") trapped.at.add(1), in("rdi") ZERO.as_ptr()) };
        assert_eq!((SIGNALS.load(Relaxed), put(None).handler), (2, libc::SIG_DFL));
        // What is sent and ignored does nothing; what is ignored and a fault kills.
        put(Some(Disposition { handler: libc::SIG_IGN, ..Disposition::default() }));
        // SAFETY: sends a signal to this thread; dies of the instruction.
        unsafe {
            libc::raise(libc::SIGSEGV);
            asm!("enqcmd rax, [rdi]", in("rax") trapped.at.add(1), in("rdi") ZERO.as_ptr());
        }
        std::process::exit(1);
    }) else {
        return;
    };
    assert_eq!(child.status.signal(), Some(libc::SIGSEGV), "{child:?}");
    assert!(!String::from_utf8_lossy(&child.stderr).contains("panicked"), "{child:?}");
}

extern "C" fn leave(_: libc::c_int) {
    // SAFETY: ends the child; `_exit` may be called in a handler.
    unsafe { libc::_exit(43) };
}

/// A cpu that has the instructions tells these faults of them, and none is an access to a portal.
#[test]
fn faults_of_submissions_that_meet_no_portal_are_passed_on() {
    let name = "faults_of_submissions_that_meet_no_portal_are_passed_on";
    let nowhere = std::ptr::null();
    for (n, (instruction, misplaced, signal, code, address)) in [
        (Faulting::Movdir64b, 0, libc::SIGSEGV, 0x80, nowhere),
        (Faulting::Enqcmd, 8, libc::SIGSEGV, 0x80, nowhere),
        (Faulting::Enqcmd, 0, libc::SIGSEGV, 1, std::ptr::dangling()),
        (Faulting::Enqcmd, 0, libc::SIGBUS, 2, std::ptr::dangling()),
        (Faulting::Movdir64b, 0, libc::SIGSEGV, libc::SI_TKILL, nowhere),
    ]
    .into_iter()
    .enumerate()
    {
        // One death a child: its number is told along.
        const NUMBER: &str = "TRAP_DSA_DEATH_NUMBER";
        match std::env::var(DEATH) {
            Ok(asked) if asked == name => {
                if std::env::var(NUMBER).unwrap() != n.to_string() {
                    continue;
                }
                // SAFETY: handlers of one argument; the last call ends in one of them.
                unsafe {
                    libc::signal(libc::SIGSEGV, leave as *const () as libc::sighandler_t);
                    libc::signal(libc::SIGBUS, leave as *const () as libc::sighandler_t);
                    let trapped = trapped();
                    faulting(instruction, trapped.at.add(misplaced), ZERO.as_ptr(), signal, code, address);
                }
                std::process::exit(0);
            }
            Ok(_) => return,
            Err(_) => {
                let program = std::env::current_exe().unwrap();
                let mut command = Command::new(program);
                command.args(["--exact", name]).env(DEATH, name).env(NUMBER, n.to_string());
                let child = children::output(&mut command);
                assert_eq!(child.status.code(), Some(43), "{n}: {child:?}");
            }
        }
    }
}
