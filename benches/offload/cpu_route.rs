//! `route_small_instructions`, `route_device_instructions`: what does it cost to ask who shall do it?
//!
//! **Method.** Instructions a decision, by valgrind's count, as what more decisions cost more, less what calls of a function that does nothing cost. *Small* is the question that a copy below the threshold costs; *device* is a decision for the device with one queue, timing and
//! trials included.
//!
//! **Reference.** None: a program that asks nobody gets 0.
//!
//! **Bound.** 15, which leaves a copy below the threshold its 15 ns; and 60, which leaves two thirds of the 150 of a submission to the submission.
//!
//! By hand: `valgrind --tool=callgrind <the bench> --count small 20000`, again with 40000, and a 20 000th of the difference.

use std::hint::black_box;
use std::process::Command;

use twolane::offload::Intent;
use twolane::offload::bench::{Ask, Choice, Costs, Engine, Kind, Mode, QueueView, Router};

use crate::common::figure::{Bound, Figure};
use crate::common::lanes::Machine;

/// The size from which copies are streamed: of no matter here.
const STREAMED_FROM: usize = 8 << 20;

pub fn small(_: &Machine) -> Result<Figure, String> {
    Ok(Figure::exact(
        "route_small_instructions",
        instructions("small")? - instructions("nothing")?,
        Bound::AtMost(15.0),
    ))
}

pub fn device(_: &Machine) -> Result<Figure, String> {
    Ok(Figure::exact(
        "route_device_instructions",
        instructions("device")? - instructions("nothing")?,
        Bound::AtMost(60.0),
    ))
}

/// `--count`: decisions and nothing else.
pub fn count(what: &str, times: &str) -> Result<(), String> {
    let times = times.parse::<u32>().map_err(|_| format!("--count: `{times}` is no number"))?;
    let router = Router::new(Costs::STARTING, STREAMED_FROM);
    match what {
        "small" => {
            let was_small = (0..times).all(|_| is_small(black_box(&router), black_box(128)));
            was_small.then_some(()).ok_or("128 bytes are not small to the router".to_owned())
        }
        "nothing" => {
            (0..times).all(|_| is_anything(black_box(&router), black_box(128))).then_some(()).ok_or(String::new())
        }
        "device" => {
            let queues = [QueueView { fit: true, outstanding: 1, depth: 32, remote: false }];
            let to_device = |turn| matches!(decide(black_box(&router), turn, &queues).by, Engine::Device { .. });
            (0..times).all(to_device).then_some(()).ok_or("64 KiB are not the device's to the router".to_owned())
        }
        other => Err(format!("--count: `{other}` is none of `small`, `device` and `nothing`")),
    }
}

#[inline(never)]
fn is_small(router: &Router, len: usize) -> bool {
    router.is_small(Kind::Copy, Intent::Soon, Mode::Overlapped, len)
}

/// What is around a decision.
#[inline(never)]
fn is_anything(_: &Router, len: usize) -> bool {
    len > 0
}

#[inline(never)]
fn decide(router: &Router, turn: u32, queues: &[QueueView]) -> Choice {
    let (kind, intent, mode) = (Kind::Copy, Intent::Soon, Mode::Overlapped);
    router.decide(&Ask { kind, len: 64 << 10, intent, mode, crowded: false, bound_ns: 0, turn }, queues)
}

fn instructions(what: &str) -> Result<f64, String> {
    const FEW: u32 = 20_000;
    const MANY: u32 = 200_000;
    let counted = |times: u32| {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(program)
            .args(["--count", what, &times.to_string()])
            .output()
            .map_err(|error| format!("valgrind, which counts: {error}"))?;
        if !run.status.success() {
            return Err(format!("{what}: {}", String::from_utf8_lossy(&run.stderr)));
        }
        let report = String::from_utf8_lossy(&run.stderr).into_owned();
        let line = report.lines().find(|line| line.contains("Collected :"));
        let count = line.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok());
        count.ok_or_else(|| format!("valgrind did not count: {report}"))
    };
    let (few, many) = (counted(FEW)?, counted(MANY)?);
    Ok(many.saturating_sub(few) as f64 / f64::from(MANY - FEW))
}
