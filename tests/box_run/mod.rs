//! Runs programs in the box.
#![allow(dead_code)] // each test uses a part

#[path = "../children/mod.rs"]
mod children;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// What came of a run.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

/// The library that is preloaded. `cargo test --test` builds no examples, so it is built here, with the features and in the profile of this test.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let program = Path::new(env!("CARGO_BIN_EXE_twolane"));
        let features: Vec<&str> = [
            ("sim", cfg!(feature = "sim")),
            ("cli", cfg!(feature = "cli")),
            ("hwloc", cfg!(feature = "hwloc")),
            ("bytes", cfg!(feature = "bytes")),
        ]
        .into_iter()
        .filter_map(|(name, on)| on.then_some(name))
        .collect();
        let dir = program.parent().unwrap();
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "--quiet", "--example", "dsa_preload", "--features", &features.join(",")])
            .arg("--target-dir")
            .arg(dir.parent().unwrap());
        if dir.ends_with("release") {
            cargo.arg("--release");
        }
        let built = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().unwrap();
        assert!(built.success(), "{cargo:?}");
        let library = dir.join("examples/libdsa_preload.so");
        assert!(library.exists(), "{}", library.display());
        library
    })
}

/// `twolane dsa-box` with these options, in an environment without others' variables.
pub fn dsa_box(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twolane"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("TWOLANE_") || name.starts_with("DSA_") {
            command.env_remove(&*name);
        }
    }
    command.arg("dsa-box").args(arguments).stdin(Stdio::null());
    command
}

/// Runs it to its end, which comes.
#[track_caller]
pub fn run(command: &mut Command) -> Said {
    let output = children::output(command);
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// A C program of ours, compiled with more options (after the sources). `None`: there is no compiler.
pub fn compile(into: &Path, sources: &[PathBuf], more: &[String]) -> Option<()> {
    let output = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(into)
        .args(sources)
        .args(more)
        .output();
    let output = output.ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// Operations of an opcode that ended with a status, as the summary has it.
pub fn ended(summary: &Value, opcode: u8, status: u8) -> u64 {
    let ends = summary["all"]["ended"].as_array().unwrap().iter();
    ends.filter(|end| end["opcode"] == opcode && end["status"] == status)
        .map(|end| end["count"].as_u64().unwrap())
        .sum()
}
