//! `twolane plan`: prints the library's dry run for given builder options.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use twolane::placement::LanePlan;
use twolane::topology::{CpuList, Topology};
use twolane::{Placement, Plan, Role, Runtime, Sharing};

use crate::output;

/// Shows which lane would run on which cpu, and why other cpus are left out.
///
/// Starts nothing. Variables TWOLANE_* count as they would in a service: they win
/// over these options, and the notes below the table list them.
///
/// Exit code: 0, or 2 if there is no such plan or an option is wrong.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment, after_long_help = JSON_FORMAT)]
pub struct Options {
    /// auto, siblings, whole-cores, shared, unpinned, or pairs 2-3,4-5 (poll cpu-compute cpu) [default: auto]
    #[arg(long, value_name = "POLICY", value_parser = str::parse::<Placement>)]
    placement: Option<Placement>,
    /// How many pairs, or shared lanes [default: as many as fit and the quota carries]
    #[arg(long, value_name = "N")]
    pairs: Option<usize>,
    /// How many cpus to leave to the OS [default: 0]
    #[arg(long, value_name = "N")]
    reserve: Option<usize>,
    /// Use only cpus of this NUMA node
    #[arg(long, value_name = "N")]
    node: Option<usize>,
    /// Use only these cpus, such as 0-3,8; isolated ones are used only if they are named
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// How many compute lanes a core may carry [default: 1]
    #[arg(long, value_name = "N")]
    compute_per_core: Option<usize>,
    /// Plan for the machine whose sys and proc trees are under DIR instead of this one
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The names that programs may rely on; more may be added to them, in the same format.
const JSON_FORMAT: &str = "\
JSON (format 1):
  format    1
  lanes     list of: lane, pair, role (\"poll\", \"compute\", \"shared\"),
            cpu (null if unpinned), partner (a lane, or null),
            siblings (list of cpus), sharing (\"seen\", \"denied\", \"unknown\"),
            llc (lowest cpu of the cache domain), node
  left_out  list of: cpu, reason
  notes     list of sentences";

/// Prints the plan. Returns the exit code.
pub fn run(options: &Options) -> Result<u8, String> {
    let plan = plan(options)?;
    let text = match options.json {
        true => format!("{:#}\n", as_json(&plan)),
        false => plan.to_string(),
    };
    output::print(&text)?;
    Ok(0)
}

fn plan(options: &Options) -> Result<Plan, String> {
    let mut builder = Runtime::builder();
    if let Some(placement) = &options.placement {
        builder = builder.placement(placement.clone());
    }
    if let Some(pairs) = options.pairs {
        builder = builder.pairs(pairs);
    }
    if let Some(cpus) = options.reserve {
        builder = builder.reserve(cpus);
    }
    if let Some(node) = options.node {
        builder = builder.node(node);
    }
    if let Some(cpus) = &options.cpus {
        builder = builder.cpus(cpus.iter());
    }
    if let Some(lanes) = options.compute_per_core {
        builder = builder.compute_per_core(lanes);
    }
    if let Some(root) = &options.root {
        if !root.is_dir() {
            return Err(format!("--root {}: no such directory", root.display()));
        }
        builder = builder.topology(Topology::read_from(root).map_err(|error| error.to_string())?);
    }
    builder.plan().map_err(|error| error.to_string())
}

fn as_json(plan: &Plan) -> Value {
    json!({
        "format": 1,
        "lanes": plan.lanes.iter().map(|lane| self::lane(lane, plan)).collect::<Vec<_>>(),
        "left_out": plan.left_out.iter().map(|out| json!({ "cpu": out.cpu, "reason": out.reason })).collect::<Vec<_>>(),
        "notes": plan.notes,
    })
}

fn lane(lane: &LanePlan, plan: &Plan) -> Value {
    let role = match lane.role {
        Role::Poll => "poll",
        Role::Compute => "compute",
        Role::Shared => "shared",
        _ => "unknown",
    };
    let sharing = match plan.sharing.get(lane.pair) {
        Some(Sharing::Seen) => "seen",
        Some(Sharing::Denied) => "denied",
        _ => "unknown",
    };
    json!({
        "lane": lane.lane,
        "pair": lane.pair,
        "role": role,
        "cpu": lane.cpu,
        "partner": lane.partner,
        "siblings": lane.siblings,
        "sharing": sharing,
        "llc": lane.llc,
        "node": lane.node,
    })
}
