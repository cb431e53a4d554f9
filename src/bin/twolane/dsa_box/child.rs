//! The program, from its start to its end, and signals on the way to it.

use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

/// How a program ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended(ExitStatus);

impl Ended {
    /// As a shell has it.
    pub fn code(self) -> u8 {
        const KILLED: i32 = 128;
        let code = self.0.code().or_else(|| self.0.signal().map(|signal| KILLED + signal));
        code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
    }

    /// The signal that killed it.
    pub fn signal(self) -> Option<i32> {
        self.0.signal()
    }
}

/// The program, for the handler. 0: none.
static CHILD: AtomicI32 = AtomicI32::new(0);

/// What a terminal sends to both: the program decides, and we stay to tell what became of it.
const LEFT_TO_THE_PROGRAM: [libc::c_int; 2] = [libc::SIGINT, libc::SIGQUIT];
/// What is sent to us alone.
const PASSED_ON: [libc::c_int; 5] = [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];

/// Runs it to its end. `Err`: it could not be started.
pub fn run(mut command: Command) -> Result<Ended, String> {
    let before = LEFT_TO_THE_PROGRAM.map(|signal| (signal, handle(signal, libc::SIG_IGN)));
    let boxed = std::process::id();
    let restored = move || -> io::Result<()> {
        for (signal, action) in before {
            handle(signal, action);
        }
        go_with(boxed)
    };
    // SAFETY: between fork and exec, in a process of one thread: system calls.
    unsafe { command.pre_exec(restored) };
    let started = command.spawn();
    let outcome = started.and_then(|mut child| {
        // Relaxed: the handler runs on this thread.
        CHILD.store(child.id() as i32, Ordering::Relaxed);
        let handlers = PASSED_ON.map(|signal| (signal, handle(signal, pass_on as *const () as libc::sighandler_t)));
        let status = child.wait();
        CHILD.store(0, Ordering::Relaxed);
        for (signal, action) in handlers {
            handle(signal, action);
        }
        status.map(Ended)
    });
    for (signal, action) in before {
        handle(signal, action);
    }
    outcome.map_err(|error| format!("{}: cannot be started: {error}", command.get_program().to_string_lossy()))
}

/// The program has no devices without its box: if that is killed (by what it cannot pass on, such as SIGKILL), the program gets a SIGTERM.
fn go_with(boxed: u32) -> io::Result<()> {
    // SAFETY: a system call about the calling thread, the only one.
    if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if std::os::unix::process::parent_id() != boxed {
        return Err(io::ErrorKind::BrokenPipe.into()); // it was killed before that
    }
    Ok(())
}

/// Sets what a signal does, and returns what it did.
fn handle(signal: libc::c_int, action: libc::sighandler_t) -> libc::sighandler_t {
    // SAFETY: the action is the default, nothing, `pass_on`, or what was there before.
    unsafe { libc::signal(signal, action) }
}

extern "C" fn pass_on(signal: libc::c_int) {
    let child = CHILD.load(Ordering::Relaxed); // see `run`
    if child > 0 {
        // SAFETY: a system call, fit for a handler; the child was not waited for yet, so the number is its own.
        unsafe { libc::kill(child, signal) };
    }
}
