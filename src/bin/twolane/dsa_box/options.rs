//! What was asked for? Options, and the tree and the behaviour that they describe.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use twolane::sim::dsa::tree::{Device, DsaTree, Queue};
use twolane::sim::preload::{Behaviour, Kernel};

/// Runs a program with Intel DSA devices that are not there: a model, seen by unmodified programs.
///
/// Devices and work queues appear under /sys/bus/dsa and /dev/dsa (in a mount namespace of the program's own
/// where that is allowed, else by redirecting its paths), DPDK, accel-config and programs of twolane find
/// them by variables as well, and MOVDIR64B, ENQCMD and write(2) reach a device model in the program.
/// Nothing of it is evidence about hardware: not how long anything takes, in particular.
///
/// At the end it says on standard error what became of the program's descriptors, also if the program
/// crashed. Exit code: the program's, or 128 and the number of the signal that killed it; 2 if it could
/// not be started or the options are wrong.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub struct Options {
    /// How many devices: dsa0, dsa2, dsa4 and so on
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=8))]
    devices: u32,
    /// A queue of every device: MODE:ENTRIES or MODE:ENTRIES:NAME, mode `dedicated` or `shared`; repeat for more [default: dedicated:32:dpdk_0 and shared:32:shared_0]
    #[arg(long = "queue", value_name = "MODE:ENTRIES[:NAME]")]
    queues: Vec<QueueSpec>,
    /// The version of the DSA specification: 1 or 2
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=2))]
    dsa_version: u32,
    /// Engines of each device
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=4))]
    engines: u32,
    /// The NUMA node of the devices; -1 is not known
    #[arg(long, value_name = "NODE", default_value_t = 0, allow_negative_numbers = true, value_parser = clap::value_parser!(i32).range(-1..=1023))]
    numa_node: i32,
    /// The largest transfer, in bytes, of the queues
    #[arg(long, value_name = "BYTES", default_value_t = 2 << 20, value_parser = clap::value_parser!(u64).range(1..=2 << 30))]
    max_transfer: u64,
    /// The largest batch, in descriptors, of the queues
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(2..=1024))]
    max_batch: u32,
    /// Let descriptors block on faults
    #[arg(long)]
    block_on_fault: bool,
    /// The kernel in front of the devices: 6.9, 6.12 or 6.16, which differ in who may map and write
    #[arg(long, value_name = "VERSION", default_value = "6.12", value_parser = Kernel::from_str)]
    kernel: Kernel,
    /// The program has no CAP_SYS_RAWIO: from 6.12 on it cannot map portals, and submits by write(2)
    #[arg(long)]
    unprivileged: bool,
    /// Take every freedom that the specification leaves, and watch what software must not do
    #[arg(long)]
    strict: bool,
    /// With --strict: no garbage in unused fields of records (DPDK compares the whole status byte)
    #[arg(long, requires = "strict")]
    tidy: bool,
    /// What faults and freedoms are drawn from
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// What goes wrong: weather, storm, everything, or NAME=PROBABILITY with commas between them (page_absent=0.1,retry=0.2; see below)
    #[arg(long, value_name = "LIST", default_value = "")]
    faults: String,
    /// Write every descriptor with its outcome to FILE
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Write the summary as JSON to FILE
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Print no summary
    #[arg(long)]
    pub quiet: bool,
    /// How the program finds /sys/bus/dsa and /dev/dsa
    #[arg(long, value_enum, default_value_t = Paths::Auto)]
    pub paths: Paths,
    /// The library to preload [default: beside this program, see below]
    #[arg(long, value_name = "FILE")]
    pub library: Option<PathBuf>,
    /// Write the tree to DIR, print the variables to set, and run nothing
    #[arg(long, value_name = "DIR", conflicts_with_all = ["command", "trace", "summary", "library", "paths", "faults", "strict", "seed"])]
    pub tree: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        required_unless_present = "tree",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<OsString>,
    /// `faults` and the switches above, taken together; see `parse`.
    #[arg(skip)]
    behaviour: Option<Behaviour>,
}

const EXAMPLES: &str = "\
Examples:
  twolane dsa-box -- dpdk-test --no-pci --no-huge -m 512
  twolane dsa-box --devices 2 --faults page_absent=0.1 --trace t.txt -- ./copies
  twolane dsa-box -- accel-config list
Faults:
  page_absent, page_refused, list_fault, retry, record_lost, never, hardware_error, late_dispatch: probabilities
  every_page=N, refaults=N: whole numbers
The library:
  libdsa_preload.so is looked for in the directory of this program, in its `examples` and in `../lib`;
  DSA_MODEL_LIBRARY names another. It is made by
    cargo build --release --features sim,cli --bin twolane --example dsa_preload";

/// How a program with fixed paths finds the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Paths {
    /// A mount namespace for root, and redirected paths
    Auto,
    /// A mount namespace (for others than root: with a user namespace)
    Namespace,
    /// Paths that it passes to libc are redirected
    Redirect,
    /// Not at all: by variables only
    None,
}

/// A queue, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct QueueSpec {
    dedicated: bool,
    entries: u32,
    name: Option<String>,
}

impl FromStr for QueueSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let dedicated = match parts.next() {
            Some("dedicated") => true,
            Some("shared") => false,
            _ => return Err("the mode is dedicated or shared, as in dedicated:32".into()),
        };
        let entries = parts
            .next()
            .and_then(|entries| entries.parse().ok())
            .filter(|entries| (1..=Device::ENTRIES).contains(entries));
        let entries = entries.ok_or("a queue has 1 to 128 entries, as in dedicated:32")?;
        let name = parts.next().map(str::to_owned);
        /// What the kernel keeps of a name.
        const NAME_MAX: usize = 30;
        if name.as_ref().is_some_and(|name| name.is_empty() || name.len() > NAME_MAX || name.contains(['/', '\n'])) {
            return Err(format!("a name has 1 to {NAME_MAX} bytes, none of them a slash or newline"));
        }
        Ok(Self { dedicated, entries, name })
    }
}

impl Options {
    /// The tree. `Err`: no machine is like that.
    pub fn tree_to_write(&self) -> Result<DsaTree, String> {
        let default = ["dedicated:32:dpdk_0", "shared:32:shared_0"].map(QueueSpec::from_str);
        let queues: Vec<QueueSpec> =
            if self.queues.is_empty() { default.into_iter().collect::<Result<_, _>>()? } else { self.queues.clone() };
        let entries: u32 = queues.iter().map(|queue| queue.entries).sum();
        if queues.len() > Device::QUEUES || entries > Device::ENTRIES {
            return Err(format!(
                "--queue: {} queues with {entries} entries; a device has {} queues and {} entries for all of them",
                queues.len(),
                Device::QUEUES,
                Device::ENTRIES
            ));
        }
        let device = |number: u32| {
            let device = if self.dsa_version == 1 { Device::v1(number) } else { Device::v2(number) };
            let device = device.engines(self.engines).numa_node(self.numa_node);
            let device = if self.hides_batches() { device.without_batches() } else { device };
            queues.iter().enumerate().fold(device, |device, (n, spec)| device.queue(self.queue(n, spec)))
        };
        Ok((0..self.devices).fold(DsaTree::new(), |tree, n| tree.device(device(2 * n))))
    }

    fn queue(&self, number: usize, spec: &QueueSpec) -> Queue {
        let queue = if spec.dedicated { Queue::dedicated(spec.entries) } else { Queue::shared(spec.entries) };
        let name =
            spec.name.clone().unwrap_or_else(|| format!("{}_{number}", if spec.dedicated { "dpdk" } else { "shared" }));
        let queue = queue.label(&name).max_transfer_size(self.max_transfer).max_batch_size(self.max_batch);
        if self.block_on_fault { queue.block_on_fault() } else { queue }
    }

    /// Kernels show batches to nobody where they refuse them to some.
    fn hides_batches(&self) -> bool {
        match self.kernel {
            Kernel::V6_9 => false,
            Kernel::V6_16 => self.dsa_version < 2,
            _ => true,
        }
    }

    /// How the devices behave, if the list of faults means something.
    pub fn check(mut self) -> Result<Self, String> {
        // What follows an option that is not known is taken for the program, and so is the option.
        if let Some(name) = self.command.first().filter(|name| name.as_encoded_bytes().starts_with(b"-")) {
            return Err(format!(
                "{}: no such option (see `twolane dsa-box --help`); a program of that name is given with its directory, as in `./{0}`",
                name.to_string_lossy()
            ));
        }
        let mut behaviour: Behaviour =
            self.faults.parse().map_err(|error| format!("--faults {}: {error}", self.faults))?;
        behaviour.strict |= self.strict;
        behaviour.tidy |= self.tidy;
        behaviour.unprivileged |= self.unprivileged;
        behaviour.seed = self.seed;
        behaviour.kernel = self.kernel;
        self.behaviour = Some(behaviour);
        Ok(self)
    }

    pub fn behaviour(&self) -> Behaviour {
        self.behaviour.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_understood_or_refused_with_what_there_is() {
        let good = |dedicated, entries, name: Option<&str>| {
            Ok(QueueSpec { dedicated, entries, name: name.map(str::to_owned) })
        };
        let cases = [
            ("dedicated:32", good(true, 32, None)),
            ("shared:128:a:b", good(false, 128, Some("a:b"))),
            ("shared:0", Err("1 to 128")),
            ("shared:129", Err("1 to 128")),
            ("shared", Err("1 to 128")),
            ("dedicated:x", Err("1 to 128")),
            ("exclusive:4", Err("dedicated or shared")),
            ("", Err("dedicated or shared")),
            ("shared:4:", Err("a name has")),
            ("shared:4:a/b", Err("a name has")),
        ];
        for (text, want) in cases {
            match (text.parse::<QueueSpec>(), want) {
                (Ok(got), Ok(want)) => assert_eq!(got, want, "{text}"),
                (Err(got), Err(want)) => assert!(got.contains(want), "{text}: {got}"),
                (got, want) => panic!("{text}: {got:?}, not {want:?}"),
            }
        }
    }
}
