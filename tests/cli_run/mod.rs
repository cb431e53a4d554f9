//! Runs the program, and writes machines for it to look at.

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;
use twolane::sim::host::HostTree;

/// What the program said.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The program with `arguments`, in an environment without overrides.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twolane"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TWOLANE_")) {
        command.env_remove(name);
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Runs it to its end.
pub fn run(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// `twolane COMMAND --root DIR` and more.
pub fn look(command: &str, dir: &Path, more: &[&str]) -> Said {
    let mut arguments = vec![command, "--root", dir.to_str().unwrap()];
    arguments.extend(more);
    run(&mut self::command(&arguments))
}

/// Writes the machine.
pub fn machine(tree: &HostTree) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    tree.write(dir.path()).unwrap();
    dir
}

/// Refuses, with one line that holds all of `words`, and prints nothing.
pub fn assert_refused(said: &Said, words: &[&str]) {
    assert_eq!((said.code, said.out.as_str()), (Some(2), ""), "{said:?}");
    assert_eq!(said.err.lines().count(), 1, "one line: {said:?}");
    for word in words {
        assert!(said.err.contains(word), "{word:?} in {said:?}");
    }
}
