//! Descriptors that no child inherits, not even for the moment between a fork and an exec.
//!
//! Whoever has an opened queue keeps the kernel from draining it, and a child has what its parent had open when it was made: close-on-exec closes it with the exec, not
//! before. So a queue is opened by a thread that has a table of descriptors of its own (`unshare(CLONE_FILES)`, which takes no privilege): children are made with the table of the
//! thread that makes them.

use std::fs::File;
use std::io;
use std::path::Path;

/// A queue's node: read and write, close-on-exec (std's default).
pub(crate) fn open_node(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).open(path)
}

/// Runs `work` on a thread that shares memory and no descriptors. What it opens it must close.
///
/// # Errors
/// No thread, or a kernel (a seccomp filter) that refuses a table of its own.
pub(super) fn with_own_descriptors<R: Send>(work: impl FnOnce() -> R + Send) -> io::Result<R> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("twolane-private".into()).spawn_scoped(scope, || {
            // SAFETY: concerns the calling thread alone, which nobody else gave a descriptor to or expects one from.
            if unsafe { libc::unshare(libc::CLONE_FILES) } != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(work())
        })?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the calling process has a file open by any number.
    fn is_open(path: &Path, table: &str) -> bool {
        let links = std::fs::read_dir(table).unwrap().filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
        links.into_iter().any(|link| link == path)
    }

    #[test]
    fn what_is_opened_there_is_open_nowhere_else() {
        let path = tempfile::NamedTempFile::new().unwrap().into_temp_path();
        let seen = with_own_descriptors(|| {
            let file = open_node(&path).unwrap();
            let seen = (is_open(&path, "/proc/thread-self/fd"), is_open(&path, "/proc/self/fd"));
            drop(file);
            seen
        });
        assert_eq!(seen.unwrap(), (true, false));
        let _file = open_node(&path).unwrap();
        assert!(is_open(&path, "/proc/thread-self/fd"), "which is how one would see it");
    }

    #[test]
    fn a_panic_there_is_a_panic_here() {
        let caught = std::panic::catch_unwind(|| with_own_descriptors(|| panic!("there")));
        assert!(caught.is_err());
    }
}
