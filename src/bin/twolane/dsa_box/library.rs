//! Where is the library that is preloaded?

use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

const NAME: &str = "libdsa_preload.so";
const ENV: &str = "DSA_MODEL_LIBRARY";

/// The library: the one that was named, else the first that is there. `Err`: none, and how it is made.
pub fn find(named: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(path) = named {
        let there = there(path).ok_or_else(|| format!("--library {}: no such file; {HOW}", path.display()))?;
        return check(there).map_err(|why| format!("--library {why}"));
    }
    if let Some(path) = env::var_os(ENV).filter(|path| !path.is_empty()).map(PathBuf::from) {
        let there = there(&path).ok_or_else(|| format!("{ENV}={}: no such file; {HOW}", path.display()))?;
        return check(there).map_err(|why| format!("{ENV}={why}"));
    }
    let beside = env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())).unwrap_or_default();
    let places = [beside.join(NAME), beside.join("examples").join(NAME), beside.join("../lib").join(NAME)];
    let found = places.iter().find_map(|path| there(path)).ok_or_else(|| {
        format!(
            "{NAME} is not beside this program, nor in {}, nor in ../lib; {HOW}; or name it with --library or {ENV}",
            beside.join("examples").display()
        )
    })?;
    check(found)
}

const HOW: &str = "build it with `cargo build --release --features sim,cli --bin twolane --example dsa_preload`";

/// Whether the loader takes it: what it does not take it passes over with a warning, and the program would run without devices.
fn check(path: PathBuf) -> Result<PathBuf, String> {
    let shown = path.display();
    if path.as_os_str().as_encoded_bytes().iter().any(|byte| b": \t\n".contains(byte)) {
        return Err(format!(
            "{shown}: the loader takes colons and blanks for separators: copy it to a path without, and name that with --library"
        ));
    }
    let mut head = [0; HEAD];
    let read = File::open(&path).and_then(|mut file| file.read_exact(&mut head));
    match read {
        Err(error) if error.kind() != ErrorKind::UnexpectedEof => Err(format!("{shown}: {error}")),
        Ok(()) if is_library(&head) => Ok(path),
        _ => Err(format!("{shown}: not a shared library for 64-bit x86; {HOW}")),
    }
}

/// As much of a file as tells its kind.
const HEAD: usize = 20;

/// An ELF file for this machine that others load (ET_DYN).
fn is_library(head: &[u8; HEAD]) -> bool {
    const CLASS_64: u8 = 2;
    const LITTLE_ENDIAN: u8 = 1;
    const DYNAMIC: [u8; 2] = 3_u16.to_le_bytes();
    const X86_64: [u8; 2] = 62_u16.to_le_bytes();
    head.starts_with(b"\x7fELF")
        && (head[4], head[5]) == (CLASS_64, LITTLE_ENDIAN)
        && (&head[16..18], &head[18..20]) == (&DYNAMIC[..], &X86_64[..])
}

/// From the root, as the loader wants it.
fn there(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok()?;
    path.is_file().then_some(path)
}
