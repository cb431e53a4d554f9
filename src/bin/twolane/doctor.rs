//! `twolane doctor`: prints the library's report.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use twolane::doctor::{Finding, Instructions, LaneWaits, Report, Roots, Severity, WorkQueue, examine};
use twolane::offload::dsa::discover::Places;
use twolane::topology::{Cpu, CpuList, Quota, Smt, Topology};
use twolane::{Error, Runtime, WaitWith};

use crate::output;
use crate::probe::{self, Pair, Probed};

/// Says what is there, what it means for lanes, and what to type where something can be mended.
///
/// Changes nothing. Run it where the service runs: in its container, as its user,
/// with its affinity mask.
///
/// With --probe it measures as well whether the two cpus of each pair share a core,
/// which virtual machines often hide: two seconds a pair, in which both cpus are
/// busy. Do that before the service starts. What it finds is a measurement, never
/// the hardware's word; it changes neither findings nor exit code.
///
/// Exit code: 0 if all is well or merely worth knowing; 1 with warnings; 2 with
/// errors (a runtime with default options cannot be built) or wrong options, among
/// them variables TWOLANE_* that a service would refuse.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_long_help = JSON_FORMAT)]
pub struct Options {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Examine the sys, proc and dev trees under DIR instead of this machine
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Measure whether two cpus share a core: A and B, or those of each pair of the default plan
    #[arg(long, value_name = "A,B")]
    probe: Option<Option<Pair>>,
    /// How long the probe of a pair may take, in seconds, 0.05 to 60
    #[arg(long, value_name = "N", default_value_t = 2.0, requires = "probe")]
    probe_seconds: f64,
}

/// The names that programs may rely on; more may be added to them, in the same format.
const JSON_FORMAT: &str = "\
JSON (format 1):
  format        1
  root          directory above sys and proc
  worst         \"ok\", \"info\", \"warning\" or \"error\"
  exit_code     as of this program
  machine       null, or: online, allowed, isolated (lists such as \"0-3,8\"),
                cores, siblings (\"visible\", \"absent\", \"unknown\"), hypervisor,
                quota (null, or: cpus, file)
  instructions  waitpkg, mwaitx, movdir64b, enqcmd: true if stated by the cpu
  waits         null with --root, else: wanted (\"auto\", \"pause\", \"light\", \"deep\":
                TWOLANE_WAIT), cpu (that it was tried on), instructions (what a
                lane there waits with), why_pause (null if it has more than PAUSE),
                why_no_monitor (null if a store ends its waits), overshoot_ns,
                os_limit_ns (null if there is none), deep_allowed (null if
                nobody says)
  work_queues   list of: name, device, label, state, mode, type, driver, size,
                node (null, or: path, mode (octal text), uid, gid,
                open_to_us (null if not known))
  findings      list of: id (stable), topic, severity, what, why,
                remedy (list of lines to type or edit, in order; one that begins
                with \"or: \" is an alternative), seen_on_hardware
  probes        null without --probe, else a list of: cpus, stated (\"seen\",
                \"denied\", \"unknown\": what the machine says), verdict (\"shared\",
                \"separate\", \"floating\", \"unclear\"), says (a sentence), ratio
                (pace beside work against pace alone, or null), shared_windows,
                separate_windows, unclear_windows, changes, steal_percent,
                took_ms, windows (list of: at_ms, took_ms, seen, why (null if it is
                clear), ratio (null, or low, median, high), spin, rounds,
                dropped), error (null, or why
                there is no measurement: then only cpus, stated and verdict are
                there)";

/// Prints the report. Returns the exit code.
pub fn run(options: &Options) -> Result<u8, String> {
    let roots = match &options.root {
        Some(root) if root.is_dir() => Roots::under(root),
        Some(root) => return Err(format!("--root {}: no such directory", root.display())),
        None => {
            refused_environment()?;
            let variable = |name: &str| env::var(name).ok();
            Roots::live().dsa(places(variable)).wait_with(wait_with(variable))
        }
    };
    let probed = match (&options.probe, &options.root) {
        (None, _) => None,
        (Some(_), Some(_)) => {
            return Err("--probe measures this machine, and --root names another: leave one out".into());
        }
        (Some(pair), None) => Some(probe::run(*pair, probe_total(options.probe_seconds)?)?),
    };
    let report = examine(&roots);
    let text = match options.json {
        true => format!("{:#}\n", as_json(&report, probed.as_deref())),
        false => report.to_string() + &probed.as_deref().map(probe::as_text).unwrap_or_default(),
    };
    output::print(&text)?;
    Ok(exit_code(&report))
}

/// `Err`: variables for which a runtime with default options cannot be built here. What it cannot be built for without them is among the findings.
fn refused_environment() -> Result<(), String> {
    let Err(error) = Runtime::builder().plan() else { return Ok(()) };
    if matches!(error, Error::Environment { .. }) {
        return Err(error.to_string());
    }
    if Runtime::builder().env_overrides(false).plan().is_err() {
        return Ok(());
    }
    let ours = env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"TWOLANE_"));
    let ours: Vec<String> =
        ours.map(|(name, value)| format!("{}={}", name.to_string_lossy(), value.to_string_lossy())).collect();
    Err(format!("{error} (the environment has {})", ours.join(" ")))
}

/// Where a runtime in this environment looks for work queues. The values are such that a runtime takes them.
fn places(variable: impl Fn(&str) -> Option<String>) -> Places {
    let mut places = Places::default();
    for (name, place) in [(Places::ENV_SYSFS, &mut places.sysfs), (Places::ENV_NODES, &mut places.nodes)] {
        if let Some(value) = variable(name) {
            *place = value.trim().into();
        }
    }
    places
}

/// How a runtime in this environment is told to wait. The value is one that a runtime takes.
fn wait_with(variable: impl Fn(&str) -> Option<String>) -> WaitWith {
    variable("TWOLANE_WAIT").and_then(|value| WaitWith::named(value.trim())).unwrap_or_default()
}

/// The duration, if it is one; its range is checked where it is used.
fn probe_total(seconds: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds).map_err(|error| format!("--probe-seconds {seconds:?}: {error}; try 2"))
}

fn exit_code(report: &Report) -> u8 {
    match report.worst() {
        Severity::Ok | Severity::Info => 0,
        Severity::Warning => 1,
        _ => crate::FAILED,
    }
}

fn as_json(report: &Report, probed: Option<&[Probed]>) -> Value {
    json!({
        "format": 1,
        "root": report.root.display().to_string(),
        "worst": report.worst().name(),
        "exit_code": exit_code(report),
        "machine": report.topology.as_ref().map(machine),
        "instructions": instructions(report.instructions),
        "waits": report.lane_waits.as_ref().map(waits),
        "work_queues": report.work_queues.iter().map(work_queue).collect::<Vec<_>>(),
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "probes": probed.map(probe::as_json),
    })
}

fn machine(topology: &Topology) -> Value {
    let list = |is: fn(&Cpu) -> bool| {
        topology.cpus.iter().filter(|cpu| is(cpu)).map(|cpu| cpu.id).collect::<CpuList>().to_string()
    };
    let siblings = match topology.smt {
        Smt::Visible => "visible",
        Smt::Absent => "absent",
        _ => "unknown",
    };
    let quota = |quota: &Quota| json!({ "cpus": quota.cpus, "file": quota.source.display().to_string() });
    json!({
        "online": list(|cpu| cpu.online),
        "allowed": list(|cpu| cpu.allowed),
        "isolated": list(|cpu| cpu.isolated),
        "cores": topology.cpus.iter().filter(|cpu| cpu.online && cpu.id == cpu.core).count(),
        "siblings": siblings,
        "hypervisor": topology.hypervisor,
        "quota": topology.quota.as_ref().map(quota),
    })
}

fn instructions(instructions: Instructions) -> Value {
    json!({
        "waitpkg": instructions.waitpkg,
        "mwaitx": instructions.mwaitx,
        "movdir64b": instructions.movdir64b,
        "enqcmd": instructions.enqcmd,
    })
}

fn waits(waits: &LaneWaits) -> Value {
    let LaneWaits { wanted, cpu, report, .. } = waits;
    json!({
        "wanted": wanted.name(),
        "cpu": cpu,
        "instructions": report.instructions,
        "why_pause": report.why_pause.as_ref().map(ToString::to_string),
        "why_no_monitor": report.why_no_monitor.as_ref().map(ToString::to_string),
        "overshoot_ns": report.overshoot.as_nanos() as u64,
        "os_limit_ns": report.os_limit.map(|limit| limit.as_nanos() as u64),
        "deep_allowed": report.deep_allowed,
    })
}

fn work_queue(queue: &WorkQueue) -> Value {
    let node = queue.node.map(|node| {
        json!({
            "path": format!("/dev/dsa/{}", queue.name),
            "mode": format!("{:03o}", node.mode),
            "uid": node.uid,
            "gid": node.gid,
            "open_to_us": node.open_to_us,
        })
    });
    json!({
        "name": queue.name,
        "device": queue.device,
        "label": queue.label,
        "state": queue.state,
        "mode": queue.mode,
        "type": queue.kind,
        "driver": queue.driver,
        "size": queue.size,
        "node": node,
    })
}

fn finding(finding: &Finding) -> Value {
    json!({
        "id": finding.id,
        "topic": finding.topic.name(),
        "severity": finding.severity.name(),
        "what": finding.what,
        "why": finding.why,
        "remedy": finding.remedy,
        "seen_on_hardware": finding.seen_on_hardware,
    })
}
