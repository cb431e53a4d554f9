//! Child processes that cannot hang a test: past a limit they are killed, with all that they have started, and what they had said is told.
#![allow(dead_code)] // each test uses a part

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// What takes a second on a quiet machine is done by then on one that does a hundred other things. Past it, something hangs.
pub const LIMIT: Duration = Duration::from_secs(600);
/// The pause between two looks: they order nothing.
const LOOK_EACH: Duration = Duration::from_millis(2);

/// As [`Command::output`], with a limit, and in a process group of its own.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    output_within(LIMIT, command)
}

/// As [`output`], with another limit.
#[track_caller]
#[allow(clippy::zombie_processes)] // the loop ends with a status, or in a panic after `wait`
pub fn output_within(limit: Duration, command: &mut Command) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let until = Instant::now() + limit;
    let mut status = None;
    // Pipes are held open by whatever the child has started, too.
    while status.is_none() || !out.is_finished() || !err.is_finished() {
        if Instant::now() > until {
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            child.wait().unwrap();
            let text = |reader: JoinHandle<Vec<u8>>| String::from_utf8_lossy(&reader.join().unwrap()).into_owned();
            panic!("this hangs: {command:?} did not end within {limit:?}\n{}\n{}", text(out), text(err));
        }
        if status.is_none() {
            status = child.try_wait().unwrap();
        }
        std::thread::sleep(LOOK_EACH);
    }
    Output { status: status.unwrap(), stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    let mut pipe = pipe.unwrap();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is worth telling.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}
