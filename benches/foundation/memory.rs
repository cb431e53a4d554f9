//! `runtime_private_dirty_kib`: how much memory of its own does a process take that has a runtime of two lanes?
//!
//! **Method.** This program runs itself. The child builds a runtime of one pair, lets each lane work once (a poller on one, a
//! closure on the other), and prints its `Private_Dirty` from /proc/self/smaps_rollup. Figure: that number, for the whole
//! process: what Rust itself and this program take is in it.
//!
//! **Bound.** 1024 KiB. A child without a runtime shows what a process takes anyway.
//!
//! **Beside.** A child without a runtime.

use std::process::Command;

use crate::common::figure::{Bound, Figure};
use crate::common::lanes::{Lanes, Machine, builder};

pub fn private_dirty(_: &Machine) -> Result<Figure, String> {
    let (with, without) = (run_child("runtime")?, run_child("nothing")?);
    Ok(Figure::exact("runtime_private_dirty_kib", with, Bound::AtMost(1024.0))
        .beside("without_runtime_kib", without)
        .beside("runtime_alone_kib", with - without))
}

fn run_child(with: &str) -> Result<f64, String> {
    let program = std::env::current_exe().map_err(|error| format!("where this program is: {error}"))?;
    let run = Command::new(program).args(["--private-dirty", with]).output();
    let run = run.map_err(|error| format!("cannot run itself: {error}"))?;
    let said = String::from_utf8_lossy(&run.stdout);
    said.trim().parse().map_err(|_| format!("the child said {said:?}: {}", String::from_utf8_lossy(&run.stderr)))
}

/// The child's side.
pub fn child(with: &str) -> Result<(), String> {
    // `Lanes::start` lets each lane work once.
    let lanes = match with {
        "runtime" => Some(Lanes::start(builder())?),
        "nothing" => None,
        other => return Err(format!("--private-dirty: `{other}` is neither `runtime` nor `nothing`")),
    };
    const ROLLUP: &str = "/proc/self/smaps_rollup";
    let rollup = std::fs::read_to_string(ROLLUP).map_err(|error| format!("{ROLLUP}: {error}"))?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Private_Dirty:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    println!("{}", kib.ok_or_else(|| format!("{ROLLUP} has no Private_Dirty"))?);
    drop(lanes);
    Ok(())
}
