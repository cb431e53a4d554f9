//! The knobs of copies.

use super::Builder;
use crate::offload::dsa::discover::{Explicit, ExplicitError, Places, WorkQueue};

/// Whether copies may go to a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Offload {
    /// To Intel DSA's work queues where this process can use some, and where it pays; else the CPU does them.
    #[default]
    Auto,
    /// Never: no queue is looked for or opened.
    Off,
    /// As `Auto`, but a runtime without a usable work queue is an error, which says what to do.
    Demand,
}

/// What [`Builder::build`] hands on.
#[derive(Clone, Debug, Default)]
pub(crate) struct OffloadConfig {
    pub offload: Offload,
    pub calibrate: bool,
    pub batch_anyway: bool,
    pub places: Places,
    pub explicit: Vec<WorkQueue>,
    #[cfg(feature = "sim")]
    pub models: Vec<crate::sim::dsa::DriverSide>,
}

impl Builder {
    /// Whether [copies](crate::offload) may go to a device. Default: [`Offload::Auto`]. Queues are looked for where [`Places`] says, which
    /// `TWOLANE_DSA_SYSFS` and `TWOLANE_DSA_DEV` override; each is opened and tried with a no-op, half a second at most.
    ///
    /// A runtime with a queue has one more poller, the reaper, which counts as none while nothing is outstanding.
    ///
    /// # Errors
    /// At [`build`](Self::build): [`Error::NoWorkQueue`](crate::Error::NoWorkQueue) with [`Offload::Demand`].
    #[must_use]
    pub fn offload(mut self, offload: Offload) -> Self {
        self.offload.offload = offload;
        self
    }

    /// Measures, once in a process, from which size copies should go round the caches: up to 50 ms and 64 MiB, given back. Default: `false`; half of 16 MiB
    /// is taken then.
    #[must_use]
    pub fn calibrate_copies(mut self, calibrate: bool) -> Self {
        self.offload.calibrate = calibrate;
        self
    }

    /// Adds a work queue that is described by hand, for containers without `/sys`.
    ///
    /// # Errors
    /// [`ExplicitError`]: the description cannot be right.
    pub fn work_queue(mut self, queue: Explicit) -> Result<Self, ExplicitError> {
        self.offload.explicit.push(queue.queue()?);
        Ok(self)
    }

    /// Tries batches on mapped portals although sysfs hides them, as kernels do that refuse them through `write(2)`. Each queue is asked by a batch of two
    /// no-ops. Default: `false`.
    #[must_use]
    pub fn batch_anyway(mut self, anyway: bool) -> Self {
        self.offload.batch_anyway = anyway;
        self
    }

    /// Lets copies go to a [model](crate::sim::dsa) of the device, by instruction, instead of the machine's work queues.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn model_device(mut self, device: &crate::sim::dsa::Device) -> Self {
        self.offload.models.push(crate::sim::dsa::DriverSide::new(device, None));
        self
    }

    /// As [`model_device`](Self::model_device), in an address space of the caller's, who can then say how the device sees this page or that.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn model_device_in(mut self, device: &crate::sim::dsa::Device, space: &crate::sim::dsa::AddressSpace) -> Self {
        self.offload.models.push(crate::sim::dsa::DriverSide::new(device, Some(space)));
        self
    }
}
