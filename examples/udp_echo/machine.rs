//! What machine this is, as far as it bears on the figures: siblings, wait instructions, limits.

use std::fmt;
use std::fs;

use serde_json::{Value, json};
use twolane::topology::{Smt, Topology};

/// Wait instructions by the kernel's name for the cpu's feature; PAUSE is always there.
const WAIT_FEATURES: [(&str, &str); 2] = [("waitpkg", "TPAUSE/UMWAIT"), ("mwaitx", "MWAITX")];

/// A machine, in the words of a reader.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    model: String,
    kernel: String,
    hypervisor: bool,
    smt: Smt,
    cpus: usize,
    allowed: usize,
    quota_cpus: Option<f64>,
    waits: Vec<&'static str>,
    absent_waits: Vec<&'static str>,
}

impl Machine {
    /// Looks at the one we run on. What cannot be read is said to be unknown.
    pub fn read(topology: &Topology) -> Self {
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let (waits, absent_waits) = waits(std::env::consts::ARCH, &cpuinfo);
        Self {
            model: field(&cpuinfo, "model name").unwrap_or("a cpu that does not say its name").to_owned(),
            kernel: kernel.trim().to_owned(),
            hypervisor: topology.hypervisor,
            smt: topology.smt,
            cpus: topology.cpus.iter().filter(|cpu| cpu.online).count(),
            allowed: topology.allowed().len(),
            quota_cpus: topology.quota.as_ref().map(|quota| quota.cpus),
            waits,
            absent_waits,
        }
    }

    /// For machines.
    pub fn to_json(&self) -> Value {
        json!({
            "model": self.model, "kernel": self.kernel, "hypervisor": self.hypervisor,
            "smt": smt_word(self.smt), "cpus_online": self.cpus, "cpus_allowed": self.allowed,
            "quota_cpus": self.quota_cpus, "wait_instructions": self.waits,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.hypervisor { ", under a hypervisor" } else { "" };
        writeln!(f, "machine    {}{place}, Linux {}", self.model, self.kernel)?;
        write!(f, "cpus       {} online, {} for this process", self.cpus, self.allowed)?;
        match self.quota_cpus {
            Some(cpus) => writeln!(f, ", limited to the time of {cpus:.1} by a control group")?,
            None => writeln!(f)?,
        }
        let siblings = match self.smt {
            Smt::Visible => "visible: poller and compute can share a core",
            Smt::Absent => "none: this machine has no SMT, or it is off",
            _ => "not visible: a hypervisor may hide them",
        };
        writeln!(f, "siblings   {siblings}")?;
        write!(f, "waits      {}", self.waits.join(", "))?;
        if !self.absent_waits.is_empty() {
            write!(f, "; not on this cpu: {}", self.absent_waits.join(", "))?;
        }
        writeln!(f)
    }
}

/// Time that the hypervisor gave to others, as `/proc/stat` counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steal {
    stolen: u64,
    total: u64,
}

impl Steal {
    /// Up to now; nothing where the kernel does not say.
    pub fn read() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// In percent of all cpus' time since an `earlier` reading.
    pub fn percent_since(self, earlier: Self) -> f64 {
        let total = self.total.saturating_sub(earlier.total).max(1);
        self.stolen.saturating_sub(earlier.stolen) as f64 / total as f64 * 100.0
    }

    fn parse(stat: &str) -> Option<Self> {
        /// Columns of the first line: user nice system idle iowait irq softirq steal; guest time is inside user.
        const STEAL_COLUMN: usize = 7;
        let line = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        Some(Self { stolen: *ticks.get(STEAL_COLUMN)?, total: ticks[..=STEAL_COLUMN].iter().sum() })
    }
}

fn smt_word(smt: Smt) -> &'static str {
    match smt {
        Smt::Visible => "visible",
        Smt::Absent => "absent",
        _ => "unknown",
    }
}

/// Wait instructions that are there, and those known for the architecture that are not.
fn waits(arch: &str, cpuinfo: &str) -> (Vec<&'static str>, Vec<&'static str>) {
    match arch {
        "x86" | "x86_64" => {
            let flags = field(cpuinfo, "flags").unwrap_or_default();
            let (there, absent): (Vec<_>, Vec<_>) =
                WAIT_FEATURES.into_iter().partition(|(flag, _)| flags.split(' ').any(|word| word == *flag));
            let names = |features: Vec<(_, &'static str)>| features.into_iter().map(|(_, name)| name);
            (std::iter::once("PAUSE").chain(names(there)).collect(), names(absent).collect())
        }
        "aarch64" => (vec!["ISB", "WFE"], Vec::new()),
        _ => (vec!["the compiler's spin hint"], Vec::new()),
    }
}

/// The first `name : value` of `/proc/cpuinfo`.
fn field<'t>(cpuinfo: &'t str, name: &str) -> Option<&'t str> {
    cpuinfo.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| key.trim() == name).map(|(_, v)| v.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_instructions_are_whole_words_of_the_flags() {
        let table = [
            ("flags\t\t: fpu waitpkg mwaitx sse", vec!["PAUSE", "TPAUSE/UMWAIT", "MWAITX"]),
            ("flags\t\t: fpu waitpkgs sse\nmodel name : waitpkg", vec!["PAUSE"]),
            ("", vec!["PAUSE"]),
        ];
        for (cpuinfo, want) in table {
            assert_eq!(waits("x86_64", cpuinfo).0, want, "{cpuinfo:?}");
        }
        assert_eq!(waits("x86_64", "").1, ["TPAUSE/UMWAIT", "MWAITX"]);
        assert!(waits("aarch64", "").0.contains(&"WFE"));
    }

    #[test]
    fn stolen_time_is_read_from_its_column() {
        let early = Steal::parse("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1").expect("a line of the kernel's");
        let late = Steal::parse("cpu  20 0 20 130 0 0 0 30 5 0\n").expect("a line of the kernel's");
        assert_eq!(late.percent_since(early), 20.0);
        assert_eq!(early.percent_since(early), 0.0);
        for odd in ["", "cpu", "cpu 1 2 3", "intr 5"] {
            assert_eq!(Steal::parse(odd), None, "{odd:?}");
        }
    }

    #[test]
    fn it_says_whether_siblings_show() {
        let machine = |smt| Machine {
            model: "A".to_owned(),
            kernel: "6".to_owned(),
            hypervisor: true,
            smt,
            cpus: 4,
            allowed: 2,
            quota_cpus: Some(1.5),
            waits: vec!["PAUSE"],
            absent_waits: vec!["MWAITX"],
        };
        let text = machine(Smt::Unknown).to_string();
        for part in
            ["not visible", "4 online, 2 for this process", "time of 1.5", "hypervisor", "not on this cpu: MWAITX"]
        {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert!(machine(Smt::Visible).to_string().contains("siblings   visible"));
    }
}
