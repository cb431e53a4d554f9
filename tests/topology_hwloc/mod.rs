//! Asks hwloc about a tree in a process of its own, and puts both answers into words that compare.

use std::path::Path;
use std::process::Command;

use twolane::topology::Topology;

/// hwloc's answer.
pub struct Answer(Vec<String>);

impl Answer {
    /// One line a cpu, as [`describe`] has them.
    pub fn about(&self, allowed: bool) -> Vec<String> {
        self.0.iter().map(|line| if allowed { line.as_str() } else { without_allowed(line) }.to_owned()).collect()
    }
}

/// Everything that both readers can know of each cpu.
pub fn describe(topology: &Topology, allowed: bool) -> Vec<String> {
    let lines = topology.cpus.iter().map(|cpu| {
        if !cpu.online {
            return format!("{MARK} {} is offline", cpu.id);
        }
        format!(
            "{MARK} {}: core {}, cache {}, node {}, package {}, {:?}{ALLOWED}{}",
            cpu.id, cpu.core, cpu.llc, cpu.node, cpu.package, cpu.kind, cpu.allowed
        )
    });
    lines.map(|line| if allowed { line } else { without_allowed(&line).to_owned() }).collect()
}

/// Runs this test binary again with hwloc's root set, and collects what [`child`] prints there.
pub fn hwloc_of(root: &Path) -> Answer {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .env("HWLOC_FSROOT", root)
        .env("HWLOC_COMPONENTS", "linux,stop")
        .env("HWLOC_THISSYSTEM", "0")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Answer(text.lines().filter_map(|line| line.find(MARK).map(|at| line[at..].to_owned())).collect())
}

/// The other side of [`hwloc_of`].
pub fn child() {
    for line in describe(&Topology::read_hwloc().unwrap(), true) {
        println!("{line}");
    }
}

/// Tells our lines from those of the test harness.
const MARK: &str = "cpu";
const ALLOWED: &str = ", allowed ";

fn without_allowed(line: &str) -> &str {
    line.split(ALLOWED).next().unwrap_or(line)
}
