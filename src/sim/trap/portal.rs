//! Queues of a device model behind pages and files, for the very instructions that submit.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::ptr::{self, NonNull};

use super::maps::{self, Identity};
use super::portals::{self, Key, Slot};
use super::{Trap, handler};
use crate::arch::Capabilities;
use crate::offload::dsa::abi::limits::PORTAL_BYTES;
use crate::offload::dsa::open::Instructions;
use crate::sim::dsa::ModelPortal;

/// A queue of a device model that ENQCMD and MOVDIR64B reach, whether the cpu has them or not; see [`Trap::portal`] and [`Trap::node`].
///
/// Dropping it takes the queue out of reach: what was accepted goes on, and a later instruction kills the process (a page of ours) or finds a file
/// that is no queue (a node). Waits for traps that are under way, a matter of microseconds.
///
/// A forked child has no portal: there the instructions fault, as with a real one.
#[must_use = "the queue is out of reach when this drops"]
pub struct TrappedPortal {
    queue: ModelPortal,
    slot: &'static Slot,
    page: Option<Page>,
    process: u32,
}

impl Trap {
    /// Puts an opened queue behind a page of memory that nobody can access: [`TrappedPortal::address`]. As what `mmap` of a queue's node gives.
    ///
    /// # Errors
    /// EPERM: the model's [kernel](crate::sim::dsa::KernelProfile) lets nobody map. All portals that a process can have (64) are in use. The kernel
    /// refuses a page, or the handlers.
    pub fn portal(self, queue: ModelPortal) -> io::Result<TrappedPortal> {
        let page = Page::new()?;
        let key = Key::Page(page.start.addr().get() as u64);
        TrappedPortal::new(queue, Some(page), || Ok(key))
    }

    /// Puts an opened queue behind a file: an **empty** regular file, which is made if it is not there. Programs open and map it as they do
    /// `/dev/dsa/wq0.0`; each access to the mapping is beyond the file's end, and traps. The mapping is found when it is first stored to, so
    /// nothing need be told of it, and the file may be closed.
    ///
    /// Everybody in this process who maps the file is the queue's one client, whenever they opened it. Looking the mapping up takes a descriptor for
    /// a moment: a process that has none left dies of its submission. Linux 6.11 and later make the look quick.
    ///
    /// ```
    /// use twolane::sim::dsa::{AddressSpace, Device, DeviceConfig, Profile, QueueConfig};
    /// use twolane::sim::trap::Trap;
    ///
    /// let device = Device::new(DeviceConfig::v1().queue(QueueConfig::shared(16)), Profile::strict(1))?;
    /// let _driven = device.spawn()?;
    /// let queue = device.open(0, &AddressSpace::new()?)?;
    /// let directory = std::env::temp_dir().join(format!("trapped-{}", std::process::id()));
    /// std::fs::create_dir_all(&directory)?;
    /// let node = Trap::install()?.node(queue, directory.join("wq0.0"))?;
    /// // Any driver, given that path, has a device now.
    /// # drop(node);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`portal`](Self::portal); and the file cannot be opened for writing, is not empty or not regular, or has a queue behind it already.
    pub fn node(self, queue: ModelPortal, path: impl AsRef<Path>) -> io::Result<TrappedPortal> {
        let path = path.as_ref();
        let told = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let identity = || -> io::Result<Key> {
            // Nothing is truncated: a file with something in it is somebody's.
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
            let about = file.metadata()?;
            if !about.is_file() || about.len() > 0 {
                let why = "not an empty regular file, which is what a node of the model has to be";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
            identity_of(&file).map(Key::File)
        };
        TrappedPortal::new(queue, None, identity).map_err(told)
    }
}

impl Trap {
    /// What the driver may submit with, although no cpu has stated it: for queues behind nodes of the traps.
    pub(crate) fn instructions(self) -> Instructions {
        Instructions::of(&Capabilities::default().with_emulated_enqcmd())
    }
}

impl TrappedPortal {
    fn new(queue: ModelPortal, page: Option<Page>, key: impl FnOnce() -> io::Result<Key>) -> io::Result<Self> {
        if !queue.device().config().kernel.may_map {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        handler::install_for_portals()?;
        let key = key()?;
        let slot = portals::claim()?;
        // SAFETY: `queue` holds the device, and is dropped after `give_up` has seen that no trap is in the slot.
        unsafe { queue.device().attach(&slot.front, queue.client()) };
        // From here on, what fails is undone by the drop.
        let portal = Self { queue, slot, page, process: std::process::id() };
        portals::publish(slot, key)?;
        Ok(portal)
    }

    /// The page to submit to, at any of its 64 places. `None`: it is a file, to be mapped.
    #[must_use]
    pub fn address(&self) -> Option<*mut u8> {
        self.page.as_ref().map(|page| page.start.as_ptr())
    }

    /// `write(2)` to the queue's node, for those who interpose it: see [`ModelPortal::write`]. Not for signal handlers.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the caller's promise.
        unsafe { self.queue.write(bytes) }
    }

    /// The queue.
    pub fn queue(&self) -> &ModelPortal {
        &self.queue
    }
}

impl Drop for TrappedPortal {
    fn drop(&mut self) {
        // In a child the slot, the page and the device are the parent's, the last one perhaps with its lock taken.
        if self.process == std::process::id() {
            portals::give_up(self.slot, || self.queue.device().detach(&self.slot.front));
        } else {
            std::mem::forget(self.page.take());
        }
    }
}

impl fmt::Debug for TrappedPortal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrappedPortal")
            .field("queue", &self.queue)
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

/// A page that nobody can access, and no child has.
#[derive(Debug)]
struct Page {
    start: NonNull<u8>,
}

// SAFETY: an address; nobody accesses what is there.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    fn new() -> io::Result<Self> {
        let start = map(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)?;
        let page = Self { start };
        // SAFETY: the page that was just mapped.
        if unsafe { libc::madvise(start.as_ptr().cast(), PORTAL_BYTES, libc::MADV_DONTFORK) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(page)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`, in this process (the portal's drop sees to that), and unmapped once.
        unsafe { libc::munmap(self.start.as_ptr().cast(), PORTAL_BYTES) };
    }
}

/// How the kernel names a file in the list of mappings, learnt from a mapping: file systems may tell `stat` something else.
fn identity_of(file: &File) -> io::Result<Identity> {
    let page = Page { start: map(libc::MAP_SHARED, file.as_raw_fd())? };
    let mapping = maps::find(page.start.addr().get() as u64)?;
    mapping.map(|mapping| mapping.file).ok_or_else(|| io::Error::other("a mapping of it is not in /proc/self/maps"))
}

fn map(kind: libc::c_int, file: libc::c_int) -> io::Result<NonNull<u8>> {
    // SAFETY: a new mapping, at an address of the kernel's choice, that nobody can access.
    let start = unsafe { libc::mmap(ptr::null_mut(), PORTAL_BYTES, libc::PROT_NONE, kind, file, 0) };
    let start = if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast()) };
    start.ok_or_else(io::Error::last_os_error)
}
