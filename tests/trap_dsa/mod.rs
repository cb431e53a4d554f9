//! Queues of the device model behind portals that trap, and the instructions that go to them.
#![allow(dead_code, unsafe_code)] // each test uses a part; instructions

use std::arch::asm;
use std::path::{Path, PathBuf};

use twolane::offload::dsa::abi::{CompletionSlot, Descriptor, Flags};
use twolane::sim::dsa::{AddressSpace, Device, DeviceConfig, Driven, Profile, QueueConfig, QueueMode};
use twolane::sim::trap::{Trap, TrappedPortal};

pub const PAGE: usize = 4096;

/// A queue, its portal, and where to submit to. Fields in the order in which they go.
pub struct Trapped {
    pub name: &'static str,
    pub at: *mut u8,
    /// Unmapped when it drops, if it is a node's.
    mapped: bool,
    pub portal: TrappedPortal,
    pub driven: Option<Driven>,
    pub device: Device,
    pub directory: Option<tempfile::TempDir>,
}

// SAFETY: an address in a page that is mapped while this lives; instructions go there from any thread.
unsafe impl Send for Trapped {}
// SAFETY: as above.
unsafe impl Sync for Trapped {}

/// One of each: both kinds of queues, behind a page and behind a node. Nobody drives the devices.
pub fn portals(profile: &Profile) -> [Trapped; 4] {
    let shared = || QueueConfig::shared(16).threshold(8);
    let dedicated = || QueueConfig::dedicated(16);
    [
        Trapped::page("ENQCMD to a page", shared(), profile),
        Trapped::node("ENQCMD to a node", shared(), profile),
        Trapped::page("MOVDIR64B to a page", dedicated(), profile),
        Trapped::node("MOVDIR64B to a node", dedicated(), profile),
    ]
}

impl Trapped {
    pub fn page(name: &'static str, queue: QueueConfig, profile: &Profile) -> Self {
        let device = Device::new(DeviceConfig::v1().queue(queue), profile.clone()).unwrap();
        let opened = device.open(0, &AddressSpace::new().unwrap()).unwrap();
        let portal = Trap::install().unwrap().portal(opened).unwrap();
        let at = portal.address().unwrap();
        Self { name, at, mapped: false, portal, driven: None, device, directory: None }
    }

    pub fn node(name: &'static str, queue: QueueConfig, profile: &Profile) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let device = Device::new(DeviceConfig::v1().queue(queue), profile.clone()).unwrap();
        let opened = device.open(0, &AddressSpace::new().unwrap()).unwrap();
        let portal = Trap::install().unwrap().node(opened, directory.path().join("wq0.0")).unwrap();
        let at = map(&directory.path().join("wq0.0"), std::ptr::null_mut());
        Self { name, at, mapped: true, portal, driven: None, device, directory: Some(directory) }
    }

    pub fn path(&self) -> PathBuf {
        self.directory.as_ref().unwrap().path().join("wq0.0")
    }

    /// A thread drives the device from now on.
    pub fn spawn(mut self) -> Self {
        self.driven = Some(self.device.spawn().unwrap());
        self
    }

    pub fn mode(&self) -> QueueMode {
        self.portal.queue().mode()
    }

    /// A descriptor by the instruction of the queue's mode, to a place. Whether it was taken, as far as one is told.
    ///
    /// # Safety
    /// What the descriptor names lives until its record is written.
    pub unsafe fn submit(&self, place: usize, descriptor: &Descriptor) -> bool {
        // SAFETY: a portal, and the caller's promise.
        unsafe {
            let to = self.at.add(place % 64 * 64);
            match self.mode() {
                QueueMode::Shared => !enqcmd(to, descriptor.to_bytes().as_ptr()),
                QueueMode::Dedicated => {
                    movdir64b(to, descriptor.to_bytes().as_ptr());
                    true
                }
            }
        }
    }
}

impl Drop for Trapped {
    fn drop(&mut self) {
        // Buffers of tests go away: nothing may be written any more.
        self.device.halt();
        if self.mapped {
            unmap(self.at);
        }
    }
}

/// Maps a node as drivers do: one page, for writing, populated. The file is closed at once. Where the kernel likes, or over what is at `at`.
pub fn map(path: &Path, at: *mut u8) -> *mut u8 {
    use std::os::fd::AsRawFd;
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let kind = libc::MAP_SHARED | libc::MAP_POPULATE | if at.is_null() { 0 } else { libc::MAP_FIXED };
    // SAFETY: a new mapping, or one over a page of the test's.
    let start = unsafe { libc::mmap(at.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE, kind, file.as_raw_fd(), 0) };
    assert_ne!(start, libc::MAP_FAILED);
    start.cast()
}

pub fn unmap(page: *mut u8) {
    // SAFETY: a page that `map` gave, which nobody uses any more.
    assert_eq!(unsafe { libc::munmap(page.cast(), PAGE) }, 0);
}

/// ENQCMD. Whether it says "retry".
///
/// # Safety
/// 64 bytes at `from`, a portal at `to`; what the descriptor names lives until its record is written.
pub unsafe fn enqcmd(to: *mut u8, from: *const u8) -> bool {
    let retry: u8;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("sfence", "enqcmd {to}, [{from}]", "setz {retry}", to = in(reg) to, from = in(reg) from, retry = out(reg_byte) retry);
    }
    retry != 0
}

/// MOVDIR64B.
///
/// # Safety
/// As [`enqcmd`].
pub unsafe fn movdir64b(to: *mut u8, from: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { asm!("sfence", "movdir64b {to}, [{from}]", to = in(reg) to, from = in(reg) from) };
}

pub fn no_op(slot: &CompletionSlot) -> Descriptor {
    slot.clear_all();
    Descriptor::noop().report_to(slot.address()).with_flags(Flags::RCR)
}

/// What cpus raise that this one may not raise: the fault that the kernel would tell of, at an instruction. The thread sends itself the signal, and
/// is at the instruction when it arrives.
///
/// # Safety
/// As [`enqcmd`]; what the traps do not take kills the process.
pub unsafe fn faulting(
    instruction: Faulting,
    to: *mut u8,
    from: *const u8,
    signal: i32,
    code: i32,
    address: *const u8,
) {
    /// The beginning of `siginfo_t`, as the kernel fills it in for a fault.
    #[repr(C)]
    struct Info {
        signal: i32,
        errno: i32,
        code: i32,
        address: u64,
        rest: [u64; 13],
    }
    let info = Info { signal, errno: 0, code, address: address.addr() as u64, rest: [0; 13] };
    macro_rules! raise {
        ($instruction:literal) => {
            asm!("syscall", $instruction, inout("rax") libc::SYS_rt_tgsigqueueinfo => _, in("rdi") libc::getpid(), in("rsi") libc::gettid(),
                in("rdx") signal, in("r10") &info, in("r12") to, in("r13") from, out("rcx") _, out("r11") _)
        };
    }
    // SAFETY: the caller's promise; a thread may send itself any signal.
    unsafe {
        match instruction {
            Faulting::Enqcmd => raise!("enqcmd r12, [r13]"),
            Faulting::Movdir64b => raise!("movdir64b r12, [r13]"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Faulting {
    Enqcmd,
    Movdir64b,
}
