//! The devices of this process: made when it opens a queue for the first time.

use std::ffi::c_int;
use std::fs;
use std::io::Write;
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use parking_lot::Mutex;
use twolane::offload::dsa::discover::{Places, find};
use twolane::sim::dsa::{AddressSpace, Device, Driven};
use twolane::sim::preload::{self, Modelled, report};
use twolane::sim::trap::Trap;

use crate::complain;
use crate::opened::{self, Queue, Quiet};
use crate::settings::Settings;

pub struct World {
    /// The process whose world it is.
    pub pid: u32,
    trap: Trap,
    space: AddressSpace,
    devices: Vec<Modelled>,
    models: Vec<Device>,
    nodes: Vec<Node>,
    /// The threads that drive the devices, for as long as the process lives.
    _driven: Vec<Driven>,
}

/// The node of a queue.
struct Node {
    device: usize,
    queue: usize,
    dedicated: bool,
    /// What identifies the file, whatever it is called.
    file: (u64, u64),
}

static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
/// Who has the traps in: a process's number; 0 for nobody. A child inherits handlers and this.
static HAS_TRAPS: AtomicU32 = AtomicU32::new(0);
/// Held while a world is made, and around `fork`: a child must not find one half made.
pub static MAKING: Mutex<()> = Mutex::new(());

/// The world of this process, if it has been made.
pub fn get() -> Option<&'static World> {
    // Acquire: the world behind the pointer. Partner: the Release in `get_or_make`.
    // SAFETY: null, or a world that is never freed.
    unsafe { WORLD.load(Ordering::Acquire).as_ref() }
}

/// The world of this process. `Err`: an errno; why has been told.
pub fn get_or_make(settings: &'static Settings) -> Result<&'static World, c_int> {
    if let Some(world) = get() {
        // Of another process: one that shares our memory until it executes something else (vfork). It gets no devices.
        return if world.pid == std::process::id() { Ok(world) } else { Err(libc::EPERM) };
    }
    let _making = MAKING.lock();
    if let Some(world) = get() {
        return Ok(world);
    }
    let world = World::make(settings).map_err(|why| {
        complain::line(&why);
        libc::ENODEV
    })?;
    let world: &'static World = Box::leak(Box::new(world));
    // Release: partner of `get`.
    WORLD.store(std::ptr::from_ref(world).cast_mut(), Ordering::Release);
    Ok(world)
}

/// The traps, if they are in. Async-signal-safe. Not for a process that shares our memory until it executes something else (vfork): its handlers are its own.
pub fn trap() -> Option<Trap> {
    // Relaxed: the handlers tell for themselves whether they are in.
    if HAS_TRAPS.load(Ordering::Relaxed) != std::process::id() {
        return None;
    }
    // Installed already, so that this is a look at a cell.
    Trap::install().ok()
}

/// In a child: the parent's devices are copies that nothing drives, perhaps with a lock taken. They are left alone, and the child gets its own.
pub fn disown() {
    // Relaxed: a child has one thread.
    WORLD.store(std::ptr::null_mut(), Ordering::Relaxed);
    if HAS_TRAPS.load(Ordering::Relaxed) != 0 {
        HAS_TRAPS.store(std::process::id(), Ordering::Relaxed);
    }
}

impl World {
    fn make(settings: &'static Settings) -> Result<Self, String> {
        // What it opens and reads is the library's own.
        let _quiet = Quiet::begin();
        let tree = settings.tree.display();
        let found = find(&Places::under(&settings.tree));
        let devices = preload::machine(&found, settings.behaviour.kernel_profile());
        if devices.is_empty() {
            let why: Vec<String> = found.skipped.iter().map(ToString::to_string).collect();
            return Err(format!(
                "no usable work queue under {tree}: {}",
                if why.is_empty() { "there is no device".into() } else { why.join("; ") }
            ));
        }
        let trap = Trap::install().map_err(|error| format!("handlers of signals: {error}"))?;
        HAS_TRAPS.store(std::process::id(), Ordering::Relaxed); // see `trap`
        let space = AddressSpace::new().map_err(|error| error.to_string())?;
        let mut nodes = Vec::new();
        let mut models = Vec::new();
        for (device, modelled) in devices.iter().enumerate() {
            for (queue, node) in modelled.queues.iter().enumerate() {
                let file = fs::metadata(&node.node).map_err(|error| format!("{}: {error}", node.node.display()))?;
                nodes.push(Node { device, queue, dedicated: node.dedicated, file: (file.dev(), file.ino()) });
            }
            models.push(model(modelled, settings)?);
        }
        let _driven = drive(&models)?;
        Ok(Self { pid: std::process::id(), trap, space, devices, models, nodes, _driven })
    }

    /// The number of the node that a descriptor is of. `None`: it is of another file.
    pub fn node(&self, fd: c_int) -> Option<usize> {
        let file = identity(fd)?;
        self.nodes.iter().position(|node| node.file == file)
    }

    /// Makes a descriptor a queue, if it is of a node. `Err`: an errno.
    pub fn adopt(&self, fd: c_int) -> Result<(), c_int> {
        let Some(number) = self.node(fd) else { return Ok(()) };
        let node = &self.nodes[number];
        // As long as the file, its copies in children and its mappings live: as the kernel does it, and across processes.
        // SAFETY: locks a file that the caller has open.
        if node.dedicated && unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(libc::EBUSY);
        }
        let path = &self.devices[node.device].queues[node.queue].node;
        opened::enter(fd, number, || {
            Queue::new(self.trap, self.models[node.device].open(node.queue, &self.space)?, path)
        })
    }
}

/// Whether a descriptor is of the file at a path.
pub fn is_at(fd: c_int, path: &Path) -> bool {
    let _quiet = Quiet::begin();
    fs::metadata(path).is_ok_and(|file| identity(fd) == Some((file.dev(), file.ino())))
}

/// What identifies the file of a descriptor.
fn identity(fd: c_int) -> Option<(u64, u64)> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: `stat` has room for the answer.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it has written the answer.
    let stat = unsafe { stat.assume_init() };
    Some((stat.st_dev, stat.st_ino))
}

/// A device that tells what it does, if that is wanted.
fn model(modelled: &Modelled, settings: &'static Settings) -> Result<Device, String> {
    let counts = match &settings.report {
        Some(dir) => Some(
            report::Writer::create(dir, &modelled.name)
                .map_err(|error| format!("counts in {}: {error}", dir.display()))?,
        ),
        None => None,
    };
    let trace = match &settings.trace {
        Some(path) => {
            let file = fs::OpenOptions::new().create(true).append(true).open(path);
            Some(file.map_err(|error| format!("trace {}: {error}", path.display()))?)
        }
        None => None,
    };
    let (name, queues): (_, Vec<String>) =
        (modelled.name.clone(), modelled.queues.iter().map(|queue| queue.name.clone()).collect());
    let config = modelled.config.clone();
    let mut profile = settings.behaviour.profile();
    if counts.is_some() || trace.is_some() {
        profile = profile.observe(move |entry, counters| {
            if let Some(counts) = &counts {
                counts.note(entry, counters);
            }
            if let Some(mut trace) = trace.as_ref() {
                // One call a line: lines of several processes do not mix. A full disk costs the trace, not the program.
                let _ = trace.write_all(preload::line(&name, &config, &queues, entry).as_bytes());
            }
        });
    }
    Device::new(modelled.config.clone(), profile).map_err(|error| format!("{}: {error}", modelled.name))
}

/// Starts the devices, on threads that take none of the program's signals.
fn drive(models: &[Device]) -> Result<Vec<Driven>, String> {
    let before = block_signals();
    let driven =
        models.iter().map(|model| model.spawn().map_err(|error| format!("a thread for the model: {error}"))).collect();
    // SAFETY: puts a mask back that was in force.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    driven
}

/// Blocks what comes from outside on this thread, and returns the mask that was in force. What a thread raises itself stays open: blocked, it would kill without a word.
fn block_signals() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `sigfillset` writes the set, the others change and apply it; all pointers are to these two.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        for signal in
            [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP, libc::SIGSYS, libc::SIGABRT]
        {
            libc::sigdelset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    }
}
