//! The opened device node of a queue, given up without ever leaving its number to somebody else's file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::lineage::Lineage;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Node {
    file: File,
    lineage: Lineage,
}

impl Node {
    pub(super) fn new(file: File) -> Self {
        Self { file, lineage: Lineage::here() }
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
    pub(super) fn retire(&self) {
        // In a child the number is a copy; closing it would not let go of the queue, and writes are refused by `is_here`.
        if !self.is_here() {
            return;
        }
        let replaced = File::open("/dev/null").and_then(|closed_ear| {
            // SAFETY: both numbers are open files of ours; the old file behind ours is closed, which is what is asked for.
            let number = unsafe { libc::dup3(closed_ear.as_raw_fd(), self.file.as_raw_fd(), libc::O_CLOEXEC) };
            if number < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
        });
        // Without /dev/null, or out of descriptors: the queue stays open to the end of the process.
        debug_assert!(replaced.is_ok(), "{replaced:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_retired_node_refuses_writes_and_lets_go_of_the_file() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let node = Node::new(File::from(std::os::fd::OwnedFd::from(writer)));
        node.file().write_all(b"x").unwrap();
        node.retire();
        assert_eq!(node.file().write(b"y").unwrap_err().raw_os_error(), Some(libc::EBADF));
        let mut all = Vec::new();
        std::io::Read::read_to_end(&mut reader, &mut all).unwrap();
        assert_eq!(all, b"x", "the other end is closed");
        node.retire();
    }
}
