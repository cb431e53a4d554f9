//! The way into a queue of the model: what the cpu's instructions and the kernel's `write(2)` would do.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::offload::dsa::abi::Descriptor;

use super::config::QueueMode;
use super::device::Device;
use super::page::PagePortal;
use super::queue::{Arrival, QueueState};
use super::state::DeviceState;
use super::submission::{Enqcmd, GeneralProtection, cpu_checks};

/// An opened work queue: the file, and the portal that can be mapped from it. Dropping it closes the file; what it submitted goes on.
///
/// The verbs are `unsafe` for the reason for which a portal is: the device reads and writes memory wherever a descriptor says.
pub struct ModelPortal {
    device: Device,
    client: usize,
    queue: usize,
    mode: QueueMode,
    /// Who opened it.
    process: u32,
    checks_mm: bool,
}

impl ModelPortal {
    pub(crate) fn new(device: Device, client: usize, queue: usize, mode: QueueMode, checks_mm: bool) -> Self {
        Self { device, client, queue, mode, process: std::process::id(), checks_mm }
    }

    /// A child has a copy of the device as it was, perhaps with its lock taken: it may not touch it.
    fn check_process(&self) -> Result<(), GeneralProtection> {
        if std::process::id() == self.process { Ok(()) } else { Err(GeneralProtection::Forked) }
    }

    /// ENQCMD of a descriptor to an offset in the portal's page.
    ///
    /// # Errors
    /// What would raise #GP.
    ///
    /// # Safety
    /// Until the descriptor has ended (its record is written; never, if it is lost): every address in it, and in a batch's list, is valid for what the
    /// operation does there, and nobody uses what is written there. Addresses that are not mapped at all are answered with a fault.
    pub unsafe fn enqcmd(&self, offset: usize, descriptor: &Descriptor) -> Result<Enqcmd, GeneralProtection> {
        self.check_process()?;
        cpu_checks(offset, descriptor, Arrival::Deferrable)?;
        let answer = self.device.lock().enqcmd(self.client, descriptor);
        self.device.wake();
        Ok(answer)
    }

    /// MOVDIR64B of a descriptor to an offset in the portal's page. There is no answer: if the queue is full, disabled or shared, it is dropped.
    ///
    /// # Errors
    /// What would raise #GP.
    ///
    /// # Safety
    /// As [`enqcmd`](Self::enqcmd).
    pub unsafe fn movdir64b(&self, offset: usize, descriptor: &Descriptor) -> Result<(), GeneralProtection> {
        self.check_process()?;
        cpu_checks(offset, descriptor, Arrival::Posted)?;
        self.device.lock().movdir64b(self.client, descriptor);
        self.device.wake();
        Ok(())
    }

    /// `write(2)` to the queue's file: whole descriptors, in order; how many bytes were taken. What is no whole descriptor at the end is left.
    ///
    /// # Errors
    /// Of the first descriptor: EAGAIN (queue full, disabled, or halted; all the same), EINVAL (a batch where the
    /// [kernel](super::KernelProfile) refuses them, a record that is not aligned, a kernel without `write`), EPERM (a forked child). If a later one
    /// fails, those before it are told by the number.
    ///
    /// # Safety
    /// As [`enqcmd`](Self::enqcmd).
    pub unsafe fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if self.checks_mm && self.check_process().is_err() {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        let written = self.device.lock().write(self.client, bytes);
        self.device.wake();
        written
    }

    /// `mmap(2)` of the portal: a real page in memory, drained by the device; see [`PagePortal`].
    ///
    /// # Errors
    /// EPERM: the [kernel](super::KernelProfile) wants CAP_SYS_RAWIO. Others: no memory for the page.
    ///
    /// # Safety
    /// As [`enqcmd`](Self::enqcmd), for everything that is stored to the page.
    pub unsafe fn map(&self) -> io::Result<PagePortal> {
        if !self.device.lock().config.kernel.may_map {
            return Err(io::Error::from_raw_os_error(libc::EPERM));
        }
        PagePortal::new(&self.device, self.client)
    }

    /// Closes the file as the kernel does, which waits until nothing of this client's is in flight. Drives the device meanwhile if nobody else does.
    ///
    /// # Errors
    /// It was not drained in time; it is closed all the same, and what hangs still hangs.
    pub fn close(self, within: Duration) -> io::Result<()> {
        self.drain(within)
    }

    pub(crate) fn drain(&self, within: Duration) -> io::Result<()> {
        let until = Instant::now() + within;
        self.device.lock().close(self.client);
        if self.device.lock().kept_open {
            return Err(io::Error::from(io::ErrorKind::ResourceBusy));
        }
        while !self.device.lock().is_drained(self.client) {
            if Instant::now() >= until {
                return Err(io::Error::from(io::ErrorKind::TimedOut));
            }
            // Step by step: others may submit without end.
            if !self.device.step() {
                self.device.run_until_idle();
                std::thread::yield_now();
            }
        }
        self.device.lock().watch.forget(self.client);
        Ok(())
    }

    /// Whose submissions they are, by number in the device.
    #[cfg(target_arch = "x86_64")] // for traps
    pub(crate) fn client(&self) -> usize {
        self.client
    }

    pub(crate) fn is_forked(&self) -> bool {
        self.check_process().is_err()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Who may submit to the queue, and how.
    pub fn mode(&self) -> QueueMode {
        self.mode
    }

    /// The queue's number.
    pub fn queue(&self) -> usize {
        self.queue
    }

    /// What sysfs would say now: of the device, and of the queue.
    pub fn states(&self) -> (DeviceState, QueueState) {
        let state = self.device.lock();
        (state.life, state.queues[self.queue].state)
    }
}

impl Drop for ModelPortal {
    fn drop(&mut self) {
        if self.check_process().is_ok() {
            self.device.lock().close(self.client);
        }
    }
}

impl fmt::Debug for ModelPortal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelPortal").field("queue", &self.queue).field("mode", &self.mode).finish_non_exhaustive()
    }
}
