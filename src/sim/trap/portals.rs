//! Which pages are portals, and of which queue? A table in a `static`, which traps read while others change it.
//!
//! A slot is found by its page's address, or by the file that is mapped at an address. A trap that has found one *enters* it (counts itself in,
//! and looks again whether the slot is what it was); whoever gives a slot up takes its keys away first and then waits until nobody is in it. So
//! what is behind a slot lives for as long as a trap may touch it, and a slot that is given away is nobody else's yet.

use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::maps::{self, Identity};
use super::submit::Place;
use crate::offload::dsa::abi::limits::PORTAL_BYTES;
use crate::sim::dsa::front::Front;

/// Portals in a process at a time: four devices of eight queues, twice.
const SLOTS: usize = 64;

static TABLE: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];
/// Slots in use, of each kind: for traps that have nothing to look for.
static PAGES: AtomicU32 = AtomicU32::new(0);
static FILES: AtomicU32 = AtomicU32::new(0);

/// One portal.
#[derive(Debug)]
pub(super) struct Slot {
    /// The process that made it. 0: free. [`TAKEN`]: nobody's portal yet, or no more.
    process: AtomicU32,
    /// By address: the page. 0: by file.
    page: AtomicU64,
    /// By file: its identity. All zero: by address.
    device: AtomicU64,
    inode: AtomicU64,
    /// Traps that are in it now.
    inside: AtomicU32,
    pub(super) front: Front,
}

/// No process has this number (Linux's largest is 2^22).
const TAKEN: u32 = u32::MAX;

/// What a portal is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Page(u64),
    File(Identity),
}

impl Slot {
    const fn new() -> Self {
        Self {
            process: AtomicU32::new(0),
            page: AtomicU64::new(0),
            device: AtomicU64::new(0),
            inode: AtomicU64::new(0),
            inside: AtomicU32::new(0),
            front: Front::new(),
        }
    }

    /// Relaxed, here and in `set_key`: keys are written before the process is, and read after it.
    fn key(&self) -> Key {
        match self.page.load(Relaxed) {
            0 => {
                let device = self.device.load(Relaxed);
                let (major, minor) = ((device >> 32) as u32, device as u32);
                Key::File(Identity { major, minor, inode: self.inode.load(Relaxed) })
            }
            page => Key::Page(page),
        }
    }

    fn set_key(&self, key: Key) {
        let (page, file) = match key {
            Key::Page(page) => (page, Identity::default()),
            Key::File(file) => (0, file),
        };
        self.page.store(page, Relaxed);
        self.device.store(u64::from(file.major) << 32 | u64::from(file.minor), Relaxed);
        self.inode.store(file.inode, Relaxed);
    }
}

/// A slot that a trap is in. Async-signal-safe, its drop included.
#[derive(Debug)]
pub(super) struct Inside(&'static Slot);

impl Inside {
    pub(super) fn front(&self) -> &'static Front {
        &self.0.front
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Release: what was done to the front comes before whoever waits for the slot goes on. Partner: the load in `give_up`.
        self.0.inside.fetch_sub(1, Release);
    }
}

/// What a look at the table finds.
#[derive(Debug)]
enum Found {
    Here(Inside),
    /// It is a portal of the process that this one was forked from: not mapped here.
    Forked,
    Nothing,
}

/// Whether some page is a portal. Async-signal-safe, as everything up to `claim`.
pub(super) fn has_page(address: u64) -> bool {
    // Relaxed: a portal is made before anybody submits to it, which its maker sees to.
    PAGES.load(Relaxed) > 0
        && TABLE.iter().any(|slot| slot.process.load(Acquire) != 0 && slot.key() == Key::Page(page_of(address)))
}

/// Whether mapped files may be portals.
pub(super) fn has_files() -> bool {
    FILES.load(Relaxed) > 0 // Relaxed: see `has_page`
}

/// Whether there are portals.
pub(super) fn has_any() -> bool {
    PAGES.load(Relaxed) > 0 || has_files() // Relaxed: see `has_page`
}

/// What is at an address.
pub(super) fn at(address: u64) -> Place<Inside> {
    match look_up(Key::Page(page_of(address))) {
        Found::Here(inside) => return Place::Portal(inside),
        Found::Forked => return Place::Nothing,
        Found::Nothing => {}
    }
    let mapping = match maps::find(address) {
        Ok(Some(mapping)) => mapping,
        Ok(None) => return Place::Nothing,
        Err(_) => return Place::Unknown,
    };
    if mapping.file != Identity::default() && has_files() {
        match look_up(Key::File(mapping.file)) {
            Found::Here(inside) if mapping.writable => return Place::Portal(inside),
            Found::Here(_) | Found::Forked => return Place::Nothing,
            Found::Nothing => {}
        }
    }
    if mapping.writable { Place::Memory } else { Place::Nothing }
}

fn look_up(key: Key) -> Found {
    for slot in &TABLE {
        // Acquire: the keys behind it. Partner: the Release in `claim`.
        let process = slot.process.load(Acquire);
        if process == 0 || process == TAKEN || slot.key() != key {
            continue;
        }
        if process != std::process::id() {
            return Found::Forked;
        }
        // SeqCst, this and the look after it: either whoever gives the slot up sees this trap inside, or this trap sees it given up. Partner:
        // the store and the load in `give_up`.
        slot.inside.fetch_add(1, SeqCst);
        let inside = Inside(slot);
        if slot.process.load(SeqCst) == process && slot.key() == key {
            return Found::Here(inside);
        }
    }
    Found::Nothing
}

/// Takes a slot, with nothing to find it by yet.
///
/// # Errors
/// All are taken.
pub(super) fn claim() -> io::Result<&'static Slot> {
    let me = std::process::id();
    for slot in &TABLE {
        // Acquire: whoever had the slot is done with it. Partner: the Release in `give_up`. What a fork left behind is free as well: its traps are
        // the parent's.
        let process = slot.process.load(Relaxed); // Relaxed: the exchange decides
        let free = process == 0 || (process != TAKEN && process != me);
        if free && slot.process.compare_exchange(process, TAKEN, Acquire, Relaxed).is_ok() {
            if process != 0 {
                forget(slot);
            }
            return Ok(slot);
        }
    }
    let why = format!("all {SLOTS} portals that traps can have in a process are in use: drop some");
    Err(io::Error::new(io::ErrorKind::QuotaExceeded, why))
}

/// From now on the slot is found by its key.
///
/// # Errors
/// Another slot has that key.
pub(super) fn publish(slot: &'static Slot, key: Key) -> io::Result<()> {
    static ONE_AT_A_TIME: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock();
    let me = std::process::id();
    if TABLE.iter().any(|other| other.process.load(Acquire) == me && other.key() == key) {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "a queue of a device model is behind it already"));
    }
    slot.set_key(key);
    // Release: the key is there before the process. Partner: the Acquire in `look_up`.
    slot.process.store(me, Release);
    count_of(key).fetch_add(1, Relaxed); // Relaxed: see `has_page`
    Ok(())
}

/// Takes the slot's key away, and waits until no trap is in it. Then `done` ends what is behind it, and the slot is free.
pub(super) fn give_up(slot: &'static Slot, done: impl FnOnce()) {
    // SeqCst: see `look_up`.
    if slot.process.swap(TAKEN, SeqCst) == std::process::id() {
        count_of(slot.key()).fetch_sub(1, Relaxed); // Relaxed: see `has_page`
    }
    // A trap is in a slot for microseconds, or as long as its thread is not run.
    while slot.inside.load(SeqCst) != 0 {
        std::thread::yield_now();
    }
    done();
    // Release: see `claim`.
    slot.process.store(0, Release);
}

/// A slot of the process that this one was forked from: nobody is in it here, whatever its counter says.
fn forget(slot: &Slot) {
    // Relaxed: the slot is this thread's alone.
    slot.inside.store(0, Relaxed);
    let count = count_of(slot.key());
    let _ = count.fetch_update(Relaxed, Relaxed, |count| count.checked_sub(1));
}

fn count_of(key: Key) -> &'static AtomicU32 {
    match key {
        Key::Page(_) => &PAGES,
        Key::File(_) => &FILES,
    }
}

pub(super) fn page_of(address: u64) -> u64 {
    address & !(PORTAL_BYTES as u64 - 1)
}
