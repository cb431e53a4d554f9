//! Where is the library that is preloaded?

use std::env;
use std::path::{Path, PathBuf};

const NAME: &str = "libdsa_preload.so";
const ENV: &str = "DSA_MODEL_LIBRARY";

/// The library: the one that was named, else the first that is there. `Err`: none, and how it is made.
pub fn find(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = named {
        return there(path).ok_or_else(|| format!("--library {}: no such file; {HOW}", path.display()));
    }
    if let Some(path) = env::var_os(ENV).filter(|path| !path.is_empty()).map(PathBuf::from) {
        return there(&path).ok_or_else(|| format!("{ENV}={}: no such file; {HOW}", path.display()));
    }
    let beside = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())).unwrap_or_default();
    let places = [beside.join(NAME), beside.join("examples").join(NAME), beside.join("../lib").join(NAME)];
    places.iter().find_map(|path| there(path)).ok_or_else(|| {
        format!(
            "{NAME} is not beside this program, nor in {}, nor in ../lib; {HOW}; or name it with --library or {ENV}",
            beside.join("examples").display()
        )
    })
}

const HOW: &str = "build it with `cargo build --release --features sim,cli --bin twolane --example dsa_preload`";

/// The loader wants a path from the root, and takes colons and spaces for separators.
fn there(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    path.is_file().then_some(path)
}
