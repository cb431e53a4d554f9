//! Small files under a root. Paths are those of the machine, with or without the slash in front.
//!
//!  What is missing, unreadable or too long is `None` or cut, never an error.

use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::topology::CpuList;

/// Reads under a root.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// The path as it reads on the machine itself: what a remedy names.
    pub(super) fn on_the_machine(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).map_or_else(|_| path.to_owned(), |rest| Path::new("/").join(rest))
    }

    fn place(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text without blanks around it.
    pub(super) fn text(&self, path: impl AsRef<Path>) -> Option<String> {
        let mut bytes = Vec::new();
        // Without waiting: opening a pipe that somebody left in the tree must not hang.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(self.place(path)).ok()?;
        file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// A whole number; the kernel writes -1 where it does not know, or where there is no limit.
    pub(super) fn number(&self, path: impl AsRef<Path>) -> Option<i64> {
        self.text(path)?.parse().ok()
    }

    /// A list of cpus. The kernel writes `(null)` for one that was never set.
    pub(super) fn cpus(&self, path: impl AsRef<Path>) -> Option<CpuList> {
        self.text(path)?.parse().ok()
    }

    /// The names in a directory, sorted; none where it cannot be listed.
    pub(super) fn names(&self, path: impl AsRef<Path>) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.place(path)) else { return Vec::new() };
        let mut names: Vec<String> = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// No file read here is longer where it matters: of `/proc/cpuinfo`, the first cpu's part is enough.
const FILE_BYTES_MAX: u64 = 1 << 16;
