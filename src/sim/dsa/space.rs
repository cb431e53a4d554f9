//! What does the device find when it translates an address? The memory of this process, with pages that a test declares to be otherwise.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;

use super::memory::{self, Inaccessible, PAGE, page_of};

/// What a program and the device share: one PASID. Cloning gives the same space again.
///
/// Pages are those of the process, as they are at each access. A page can be declared to be in another state ([`PageState`]), for the device alone.
/// Several spaces stand for several processes; the device keeps them apart where it has to (Drain waits for its own PASID).
///
/// ```
/// use twolane::sim::dsa::{AddressSpace, PageState};
///
/// let space = AddressSpace::new()?;
/// let buffer = vec![0_u8; 64 * 1024];
/// space.set(buffer.as_ptr(), buffer.len(), PageState::Absent);
/// assert_eq!(space.state(buffer.as_ptr()), PageState::Absent);
/// space.clear();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AddressSpace(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    pasid: u32,
    declared: Mutex<HashMap<u64, Declared>>,
}

#[derive(Clone, Copy, Debug)]
struct Declared {
    state: PageState,
    /// An absent page: how many more faults it gives before it counts as touched.
    faults_left: u32,
}

/// How the device sees a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageState {
    /// As the process has it.
    #[default]
    ReadWrite,
    /// Readable; a write is a fault that no touch of software's cures.
    ReadOnly,
    /// Not there, and the operating system refuses page requests for it. The fault that it gives is taken to be cured by software, which touches the page.
    Absent,
    /// Not there, but a page request brings it; without one it is a fault like the above.
    Fillable,
    /// Refused for good: status 0x04, with or without page requests.
    Bad,
}

/// What a translation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Translation {
    Present,
    /// A page request would bring it.
    Requestable,
    /// A page request would be refused; without one it is a page fault.
    Refusable,
    /// Refused, whatever was asked for.
    Refused,
}

impl AddressSpace {
    /// The memory of this process.
    ///
    /// # Errors
    /// The kernel lets no process read its own memory through `process_vm_readv`: seen under seccomp filters (Docker's before Linux 4.8); allow
    /// that system call and `process_vm_writev`.
    pub fn new() -> io::Result<Self> {
        /// 20 bits in a descriptor; 0 stays unused, as in the kernel.
        const PASID_MAX: u32 = (1 << 20) - 1;
        // Relaxed: a number that differs from the others is all that is wanted.
        static NEXT: AtomicU32 = AtomicU32::new(0);
        memory::probe().map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("process_vm_readv on this process: {error}; the device model needs it, allow it (seccomp)"),
            )
        })?;
        let pasid = NEXT.fetch_add(1, Ordering::Relaxed) % PASID_MAX + 1;
        Ok(Self(Arc::new(Shared { pasid, declared: Mutex::new(HashMap::new()) })))
    }

    /// Declares the pages that the range touches to be in a state; [`ReadWrite`](PageState::ReadWrite) takes a declaration back. An absent page gives one fault.
    pub fn set(&self, start: *const u8, len: usize, state: PageState) {
        self.declare(start as u64, len as u64, state, 1);
    }

    /// Declares pages absent that fault `times` times before they count as touched: software that resumes for ever is found out, and so is software that gives up at once.
    pub fn set_absent_times(&self, start: *const u8, len: usize, times: u32) {
        let state = if times == 0 { PageState::ReadWrite } else { PageState::Absent };
        self.declare(start as u64, len as u64, state, times);
    }

    /// What the page of an address is declared to be.
    pub fn state(&self, address: *const u8) -> PageState {
        self.declared(address as u64).map_or(PageState::ReadWrite, |declared| declared.state)
    }

    /// Takes back every declaration.
    pub fn clear(&self) {
        self.0.declared.lock().clear();
    }

    /// The process address space identifier, 1 to 2^20 - 1.
    pub fn pasid(&self) -> u32 {
        self.0.pasid
    }

    pub(crate) fn declare(&self, start: u64, len: u64, state: PageState, faults: u32) {
        if len == 0 {
            return;
        }
        let mut declared = self.0.declared.lock();
        let last = page_of(start.saturating_add(len - 1));
        let mut page = page_of(start);
        loop {
            match state {
                PageState::ReadWrite => declared.remove(&page),
                _ => declared.insert(page, Declared { state, faults_left: faults }),
            };
            if page >= last {
                return;
            }
            page += PAGE;
        }
    }

    /// What the device's translation of an access says. With `residency`, pages that are not in the page tables count as absent, as they are for
    /// a real device.
    pub(crate) fn translate(&self, address: u64, write: bool, residency: bool) -> Translation {
        match self.declared(address).map(|declared| declared.state) {
            Some(PageState::Bad) => Translation::Refused,
            Some(PageState::Absent) => Translation::Refusable,
            Some(PageState::Fillable) => Translation::Requestable,
            Some(PageState::ReadOnly) if write => Translation::Refusable,
            _ if !residency => Translation::Present,
            _ => match memory::resident(address) {
                Ok(true) => Translation::Present,
                Ok(false) => Translation::Requestable,
                Err(Inaccessible) => Translation::Refusable,
            },
        }
    }

    /// Nothing is declared.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.declared.lock().is_empty()
    }

    /// A page request brought the page.
    pub(crate) fn fill(&self, address: u64) {
        self.0.declared.lock().remove(&page_of(address));
    }

    /// The fault was reported to software, which is expected to touch the page.
    pub(crate) fn reported(&self, address: u64) {
        let mut declared = self.0.declared.lock();
        let page = page_of(address);
        let Some(entry) = declared.get_mut(&page) else { return };
        if matches!(entry.state, PageState::Absent | PageState::Fillable) {
            entry.faults_left = entry.faults_left.saturating_sub(1);
            if entry.faults_left == 0 {
                declared.remove(&page);
            }
        }
    }

    fn declared(&self, address: u64) -> Option<Declared> {
        self.0.declared.lock().get(&page_of(address)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_state_translates_as_it_says() {
        let space = AddressSpace::new().unwrap();
        let memory = vec![0_u8; 3 * PAGE as usize];
        let at = memory.as_ptr() as u64 + PAGE;
        let cases = [
            (PageState::ReadWrite, Translation::Present, Translation::Present),
            (PageState::ReadOnly, Translation::Present, Translation::Refusable),
            (PageState::Absent, Translation::Refusable, Translation::Refusable),
            (PageState::Fillable, Translation::Requestable, Translation::Requestable),
            (PageState::Bad, Translation::Refused, Translation::Refused),
        ];
        for (state, reads, writes) in cases {
            space.set(at as *const u8, 1, state);
            assert_eq!(space.translate(at, false, false), reads, "{state:?}");
            assert_eq!(space.translate(at, true, false), writes, "{state:?}");
            assert_eq!(space.translate(at + PAGE, true, false), Translation::Present, "{state:?}: the page beyond");
        }
    }

    #[test]
    fn an_absent_page_is_cured_by_being_reported_as_often_as_declared() {
        let space = AddressSpace::new().unwrap();
        space.set_absent_times(0x7000 as *const u8, 2, 2);
        space.reported(0x7fff);
        assert_eq!(space.state(0x7000 as *const u8), PageState::Absent);
        space.reported(0x7000);
        assert_eq!(space.state(0x7000 as *const u8), PageState::ReadWrite);
        space.set(0x7000 as *const u8, 1, PageState::Bad);
        space.reported(0x7000);
        assert_eq!(space.state(0x7000 as *const u8), PageState::Bad, "never cured");
    }

    #[test]
    fn the_end_of_the_address_space_is_a_place_too() {
        let space = AddressSpace::new().unwrap();
        space.set(u64::MAX as *const u8, 2, PageState::Absent);
        assert_eq!(space.translate(u64::MAX, false, false), Translation::Refusable);
        assert_eq!(space.translate(0, false, true), Translation::Refusable, "nothing is mapped at 0");
    }

    #[test]
    fn spaces_have_numbers_of_their_own() {
        let (one, other) = (AddressSpace::new().unwrap(), AddressSpace::new().unwrap());
        assert_ne!(one.pasid(), other.pasid());
        assert_eq!(one.pasid(), one.clone().pasid());
    }
}
