//! `twolane dsa-box`: runs a program with DSA devices that are not there. Files: `options` what was asked for; `program` what kind of program it is;
//! `library` where the preloaded library is; `scratch` files that go again; `shell` words for a shell; `namespace` the tree in place of the kernel's; `child` the program, and signals on the way to it;
//! `summary` what its descriptors came to.

#[allow(unsafe_code)] // signals, and what happens between fork and exec
mod child;
mod library;
#[allow(unsafe_code)] // mounts
mod namespace;
mod options;
mod program;
mod scratch;
mod shell;
mod summary;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use twolane::offload::dsa::discover::Places;
use twolane::sim::preload::{ENV_BEHAVIOUR, ENV_REDIRECT, ENV_REPORT, ENV_TRACE, ENV_TREE, report};

use crate::output;
pub use options::Options;
use options::Paths;
use scratch::Scratch;

/// Runs the program, or writes the tree. Returns the exit code.
pub fn run(options: &Options) -> Result<u8, String> {
    let tree = options.tree_to_write()?;
    if let Some(dir) = &options.tree {
        return write_only(&tree, dir);
    }
    let program = program::find(&options.command[0])?;
    let library = library::find(options.library.as_deref())?;
    let scratch = Scratch::make()?;
    let (root, counts) = (scratch.path().join("tree"), scratch.path().join("counts"));
    for dir in [&root, &counts] {
        fs::create_dir(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    }
    tree.write(&root).map_err(|error| format!("the tree in {}: {error}", root.display()))?;
    let trace = options.trace.as_deref().map(start_trace).transpose()?;

    let command = |redirect: bool| {
        let mut command = Command::new(&program);
        command.args(&options.command[1..]);
        command.envs(variables(&root));
        command.env("LD_PRELOAD", preloads(&library)).env(ENV_REPORT, &counts);
        command.env(ENV_BEHAVIOUR, options.behaviour().to_string()).env(ENV_REDIRECT, if redirect { "1" } else { "0" });
        match &trace {
            Some(trace) => command.env(ENV_TRACE, trace),
            None => command.env_remove(ENV_TRACE),
        };
        command
    };
    let in_place = |command: &mut Command| namespace::enter_before_exec(command, &root);
    let ended = match options.paths {
        Paths::None => child::run(command(false)),
        Paths::Redirect => child::run(command(true)),
        Paths::Namespace => {
            let mut command = command(false);
            in_place(&mut command)?;
            child::run(command).map_err(|why| {
                format!("{why}; --paths namespace needs CAP_SYS_ADMIN or user namespaces: use --paths redirect")
            })
        }
        // Without privileges a mount namespace changes who the program is (a user namespace): not what somebody wants who did not ask for it.
        Paths::Auto if namespace::is_privileged() => {
            let mut mounted = command(true);
            in_place(&mut mounted)?;
            child::run(mounted).or_else(|_| child::run(command(true)))
        }
        Paths::Auto => child::run(command(true)),
    }?;

    let reports = report::read(&counts).map_err(|error| format!("counts in {}: {error}", counts.display()))?;
    if let Some(path) = &options.summary {
        fs::write(path, format!("{:#}\n", summary::json(&reports, ended)))
            .map_err(|error| format!("--summary {}: {error}", path.display()))?;
    }
    if !options.quiet {
        output::tell(&summary::text(&reports, ended));
    }
    Ok(ended.code())
}

/// What a program has to find in its environment to find the tree, whatever it is made with.
fn variables(root: &Path) -> Vec<(&'static str, PathBuf)> {
    let Places { sysfs, nodes } = Places::under(root);
    vec![
        (ENV_TREE, root.to_owned()),
        // Programs of this crate.
        (Places::ENV_SYSFS, sysfs.clone()),
        (Places::ENV_NODES, nodes.clone()),
        // DPDK.
        ("DSA_SYSFS_PATH", sysfs),
        ("DSA_DEV_PATH", nodes),
    ]
}

/// The library before those that are preloaded already.
fn preloads(library: &Path) -> OsString {
    let mut all = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// An empty file for the trace: a line is added by whoever runs in the box.
fn start_trace(path: &Path) -> Result<PathBuf, String> {
    let wrong = |error: std::io::Error| format!("--trace {}: {error}", path.display());
    fs::write(path, "").map_err(wrong)?;
    fs::canonicalize(path).map_err(wrong)
}

fn write_only(tree: &twolane::sim::dsa::tree::DsaTree, dir: &Path) -> Result<u8, String> {
    let wrong = |error: std::io::Error| format!("--tree {}: {error}", dir.display());
    fs::create_dir_all(dir).map_err(wrong)?;
    let there = dir.join("sys/bus/dsa/devices");
    if there.exists() {
        return Err(format!(
            "--tree {}: there is a tree already ({}); remove it or name another directory",
            dir.display(),
            there.display()
        ));
    }
    tree.write(dir).map_err(wrong)?;
    // What accel-config looks for first: that the driver is loaded.
    fs::create_dir_all(dir.join("sys/module/idxd")).map_err(wrong)?;
    let dir = fs::canonicalize(dir).map_err(wrong)?;
    let exports: Option<String> = variables(&dir)
        .into_iter()
        .map(|(name, value)| Some(format!("export {name}={}\n", shell::quoted(value.to_str()?))))
        .collect();
    let exports =
        exports.ok_or_else(|| format!("--tree {}: the path has to be UTF-8: name another directory", dir.display()))?;
    output::print(&exports).map(|()| 0)
}
