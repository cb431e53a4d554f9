//! Files that go again.

use std::env;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// A directory of our own, removed with all that is in it when this drops.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it under the directory for temporary files, for nobody else to look into.
    pub fn make() -> Result<Self, String> {
        /// Names that others have taken are tried past; this many in a row are nobody's doing but an attacker's.
        const TRIES: u32 = 1000;
        let base = env::temp_dir();
        for n in 0..TRIES {
            let path = base.join(format!("twolane-dsa-box-{}-{n}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return path.canonicalize().map(Self).map_err(|error| format!("{}: {error}", path.display())),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(format!("{}: {error}; TMPDIR names another place", path.display())),
            }
        }
        Err(format!(
            "{}: every name for a directory of this process is taken; TMPDIR names another place",
            base.display()
        ))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            crate::output::complain(&format!("{} is left: {error}", self.0.display()));
        }
    }
}
