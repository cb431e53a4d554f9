//! The way into any queue through the kernel: `write(2)` of descriptors to the opened node. For processes that may not map the portal
//! (CAP_SYS_RAWIO), and for cpus that lack the instruction.
//!
//! The kernel takes whole descriptors in their order, stops at the first that fails, and says how many bytes it took. It fills in the process and, for a
//! shared queue, tries a while before it says EAGAIN. It does **not** look whether the queue is alive: into a halted device a dedicated queue's write
//! vanishes and is reported as done, and on a queue that was disabled the kernel follows a pointer that is gone (read from its source, 6.12). So
//! `state` is read before every write. Between the two a queue can still die, which nobody outside of the kernel can prevent.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use super::node::Node;
use super::state::StateSource;
use super::{Death, Drained, NotDrained, Portal, Submitted};
use crate::arch;
use crate::offload::dsa::abi::Descriptor;
use crate::offload::dsa::abi::limits::DESCRIPTOR_BYTES;

/// Writes of one submission that a signal may interrupt before it counts as a full queue.
const INTERRUPTIONS_MAX: u32 = 16;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Written {
    node: Node,
    state: Box<dyn StateSource>,
}

impl Written {
    pub(super) fn new(node: File, path: &Path, state: Box<dyn StateSource>) -> Self {
        Self { node: Node::new(node, path), state }
    }

    fn write(&self, descriptors: &[Descriptor]) -> (usize, Submitted) {
        // A system call orders in practice; Intel's libraries fence here as well, since non-temporal stores of a source may be on their way.
        arch::store_fence();
        let (mut accepted, mut interruptions) = (0, 0);
        while accepted < descriptors.len() {
            if let Some(death) = self.death() {
                return (accepted, Submitted::Dead(death));
            }
            let rest = as_bytes(&descriptors[accepted..]);
            match judge((&mut self.node.file()).write(rest), rest.len()) {
                Wrote::Descriptors(count) => accepted += count,
                Wrote::Interrupted if interruptions < INTERRUPTIONS_MAX => interruptions += 1,
                Wrote::Interrupted | Wrote::Full => return (accepted, Submitted::Full),
                Wrote::Died { after, death } => return (accepted + after, Submitted::Dead(death)),
            }
        }
        (accepted, Submitted::Accepted)
    }
}

impl Portal for Written {
    unsafe fn submit(&self, descriptor: &Descriptor) -> Submitted {
        self.write(std::slice::from_ref(descriptor)).1
    }

    unsafe fn submit_many(&self, descriptors: &[Descriptor]) -> (usize, Submitted) {
        self.write(descriptors)
    }

    fn death(&self) -> Option<Death> {
        if self.node.is_here() { self.state.death() } else { Some(Death::Forked) }
    }

    fn retire(&self) -> Result<Drained, NotDrained> {
        self.node.retire().or_else(|not| match self.state.death() {
            // Its node goes first, then the driver waits for what is in it, then the state says so.
            Some(Death::Disabled | Death::Gone) if self.node.is_here() => Ok(Drained::by_the_portals_word()),
            _ => Err(not),
        })
    }
}

/// What one write came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrote {
    /// So many, at least one: go on with what follows.
    Descriptors(usize),
    /// None, for a signal.
    Interrupted,
    /// None now.
    Full,
    /// None after these, ever.
    Died { after: usize, death: Death },
}

/// Judges what a write of `asked` bytes, whole descriptors and at least one, returned.
fn judge(returned: io::Result<usize>, asked: usize) -> Wrote {
    match returned {
        // The kernel takes whole descriptors, and says 0 to less than one only: a file that does otherwise is no queue.
        Ok(bytes) if bytes == 0 || bytes % DESCRIPTOR_BYTES != 0 || bytes > asked => {
            Wrote::Died { after: bytes.min(asked) / DESCRIPTOR_BYTES, death: Death::Errno(libc::EIO) }
        }
        Ok(bytes) => Wrote::Descriptors(bytes / DESCRIPTOR_BYTES),
        Err(error) => match error.raw_os_error() {
            // A shared queue stayed full for as many tries as its `enqcmds_retries` says; a halted one says the same.
            Some(libc::EAGAIN) => Wrote::Full,
            Some(libc::EINTR) => Wrote::Interrupted,
            // EPERM: another process's queue, in the kernel's eyes. EINVAL: a batch, or a record that is not aligned, either of which the opening and
            // the builder of descriptors rule out; or a kernel that has no write for queues.
            errno => Wrote::Died { after: 0, death: Death::Errno(errno.unwrap_or(libc::EIO)) },
        },
    }
}

fn as_bytes(descriptors: &[Descriptor]) -> &[u8] {
    // SAFETY: plain data without padding (asserted in `abi`), of the same extent and lifetime.
    unsafe { std::slice::from_raw_parts(descriptors.as_ptr().cast(), size_of_val(descriptors)) }
}

#[cfg(test)]
mod tests {
    use super::super::test_device::AnyState;
    use super::*;
    use std::io::Read;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    /// A portal whose other end is a stream that takes as much as fits, and then says EAGAIN.
    fn portal(state: AnyState) -> (Written, UnixStream) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        (Written::new(File::from(OwnedFd::from(ours)), Path::new("/dev/null"), Box::new(state)), theirs)
    }

    #[test]
    fn a_write_is_judged_as_the_kernel_means_it() {
        let errno = |errno| judge(Err(io::Error::from_raw_os_error(errno)), 192);
        let died = |after, errno| Wrote::Died { after, death: Death::Errno(errno) };
        for (found, meant) in [
            (judge(Ok(192), 192), Wrote::Descriptors(3)),
            (judge(Ok(64), 192), Wrote::Descriptors(1)),
            (judge(Ok(0), 192), died(0, libc::EIO)),
            (judge(Ok(100), 192), died(1, libc::EIO)),
            (judge(Ok(256), 192), died(3, libc::EIO)),
            (errno(libc::EAGAIN), Wrote::Full),
            (errno(libc::EINTR), Wrote::Interrupted),
            (errno(libc::EINVAL), died(0, libc::EINVAL)),
            (errno(libc::EPERM), died(0, libc::EPERM)),
            (errno(libc::EBADF), died(0, libc::EBADF)),
        ] {
            assert_eq!(found, meant);
        }
    }

    #[test]
    fn many_descriptors_go_in_one_write_and_in_order() {
        let (portal, mut device) = portal(AnyState::default());
        let sent: Vec<Descriptor> = (1..=5).map(|n| Descriptor::memmove(n, 0, 1)).collect();
        // SAFETY: no device reads them.
        assert_eq!(unsafe { portal.submit_many(&sent) }, (5, Submitted::Accepted));
        let mut bytes = [0; 5 * DESCRIPTOR_BYTES];
        device.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, as_bytes(&sent));
    }

    #[test]
    fn a_full_queue_says_how_many_it_took() {
        let (portal, mut device) = portal(AnyState::default());
        let many = vec![Descriptor::noop(); 100_000];
        // SAFETY: no device reads them.
        let (accepted, stopped) = unsafe { portal.submit_many(&many) };
        if stopped == Submitted::Full {
            assert!((1..100_000).contains(&accepted));
            let mut bytes = vec![0; accepted * DESCRIPTOR_BYTES];
            device.read_exact(&mut bytes).unwrap();
        } else {
            // The socket's buffer took a part of a descriptor, which no queue does.
            assert_eq!(stopped, Submitted::Dead(Death::Errno(libc::EIO)));
        }
    }

    #[test]
    fn state_is_read_before_every_write() {
        let state = AnyState::default();
        let (portal, mut device) = portal(state.clone());
        // SAFETY: no device reads them.
        let submit = || unsafe { portal.submit(&Descriptor::noop()) };
        assert_eq!(submit(), Submitted::Accepted);
        assert_eq!(state.looks(), 1);
        state.set(Some(Death::Halted));
        assert_eq!(submit(), Submitted::Dead(Death::Halted));
        let _ = portal.retire().unwrap();
        drop(portal);
        let mut all = Vec::new();
        device.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), DESCRIPTOR_BYTES, "nothing was written to the dead one");
    }

    #[test]
    fn a_retired_portal_writes_to_nobody() {
        let (portal, _device) = portal(AnyState::default());
        let _ = portal.retire().unwrap();
        // SAFETY: no device reads it.
        let submitted = unsafe { portal.submit(&Descriptor::noop()) };
        assert_eq!(submitted, Submitted::Dead(Death::Errno(libc::EBADF)));
    }
}
