//! The opened device node of a queue that is written to, given up without ever leaving its number to somebody else's file, and with proof.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use super::drained::{Drained, NotDrained};
use super::lineage::Lineage;
use super::private::{open_node, with_own_descriptors};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Node {
    file: File,
    /// Where it was opened, and is opened again to see that it was drained.
    path: PathBuf,
    /// What takes its place; opened ahead, because there may be no number left when it is needed.
    closed_ear: Option<File>,
    lineage: Lineage,
}

impl Node {
    pub(super) fn new(file: File, path: &Path) -> Self {
        Self { file, path: path.into(), closed_ear: closed_ear().ok(), lineage: Lineage::here() }
    }

    /// Whether this process opened it.
    #[inline(always)]
    pub(super) fn is_here(&self) -> bool {
        self.lineage.is_here()
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Closes the queue, and puts a file that takes no writes in its place, in one step: a thread that is about to write to the number gets EBADF, and
    /// never writes to what is opened next. Blocks if this was the kernel's last reference and the device hangs.
    ///
    /// That this process's number is closed proves nothing: a child that was made by a fork, or by a spawn that has not come to its exec, may have the queue open too, and as
    /// long as it has, nothing is drained. So the queue is then opened once more where no child can have it, and closed again, upon which the kernel drains all of this process's
    /// (its PASID's) operations if the queue is shared. A dedicated one cannot be opened as long as anybody has it.
    pub(super) fn retire(&self) -> Result<Drained, NotDrained> {
        // In a child the number is a copy; closing it would not let go of the queue, and writes are refused by `is_here`.
        if !self.is_here() {
            return Err(NotDrained::because("the queue was opened by the parent of this process"));
        }
        self.close().map_err(NotDrained::of("the queue could not be closed"))?;
        with_own_descriptors(|| open_node(&self.path).map(drop)).and_then(|opened| opened).map_err(NotDrained::of(
            "the closed queue could not be opened to see that it was drained (does a child have it open?)",
        ))?;
        Ok(Drained::by_the_portals_word())
    }

    fn close(&self) -> io::Result<()> {
        let other;
        let closed_ear = match &self.closed_ear {
            Some(file) => file,
            None => {
                other = closed_ear()?;
                &other
            }
        };
        // SAFETY: both numbers are open files of ours; the old file behind ours is closed, which is what is asked for.
        let number = unsafe { libc::dup3(closed_ear.as_raw_fd(), self.file.as_raw_fd(), libc::O_CLOEXEC) };
        if number < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// A file that takes no writes.
fn closed_ear() -> io::Result<File> {
    File::open("/dev/null")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn node(path: &Path) -> (std::os::unix::net::UnixStream, Node) {
        let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        (reader, Node::new(File::from(std::os::fd::OwnedFd::from(writer)), path))
    }

    #[test]
    fn a_retired_node_refuses_writes_and_lets_go_of_the_file() {
        let queue = tempfile::NamedTempFile::new().unwrap();
        let (mut reader, node) = node(queue.path());
        node.file().write_all(b"x").unwrap();
        let _ = node.retire().unwrap();
        assert_eq!(node.file().write(b"y").unwrap_err().raw_os_error(), Some(libc::EBADF));
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut all).unwrap();
        assert_eq!(all, b"x", "the other end is closed");
        let _ = node.retire().unwrap();
    }

    #[test]
    fn what_cannot_be_opened_again_is_not_known_to_be_drained() {
        let gone = tempfile::NamedTempFile::new().unwrap().into_temp_path().to_path_buf();
        let (_reader, node) = node(&gone);
        let error = node.retire().unwrap_err().to_string();
        assert!(error.contains("No such file") && error.contains("drained"), "{error}");
        assert_eq!(node.file().write(b"y").unwrap_err().raw_os_error(), Some(libc::EBADF), "closed all the same");
    }

    #[test]
    fn without_a_number_to_spare_it_is_closed_by_the_file_that_was_opened_ahead() {
        let queue = tempfile::NamedTempFile::new().unwrap();
        let (_reader, node) = node(queue.path());
        let without = Node {
            closed_ear: None,
            file: node.file().try_clone().unwrap(),
            path: queue.path().into(),
            lineage: node.lineage,
        };
        let _ = without.retire().unwrap();
        let _ = node.retire().unwrap();
    }
}
