//! Where tests put trees of files.

use tempfile::TempDir;

/// An empty directory in memory where there is such a place: the largest machines have 60,000 files, which take a disk
/// a minute.
pub fn scratch() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary directory")
}
