//! The knobs of copies.

use std::time::Duration;

use super::Builder;
use crate::arch::Capabilities;
use crate::error::Error;
use crate::offload::batch::Batching;
use crate::offload::dsa::discover::{Explicit, ExplicitError, Places, WorkQueue};
use crate::offload::dsa::open::Instructions;
use crate::offload::flow::LIST_LEN;

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
    pub timeout: Option<Duration>,
    pub batch_count: Option<usize>,
    pub batch_bytes: Option<usize>,
    pub batch_age: Option<Duration>,
    pub neighbour_cache: usize,
    pub places: Places,
    pub explicit: Vec<WorkQueue>,
    #[cfg(feature = "sim")]
    pub models: Vec<crate::sim::dsa::DriverSide>,
    #[cfg(feature = "sim")]
    pub null: Vec<crate::sim::dsa::NullQueue>,
    #[cfg(all(feature = "sim", target_arch = "x86_64"))]
    pub emulated: Option<crate::sim::trap::Trap>,
}

/// What [`Builder::copy_timeout`] may be: below, a page that the kernel reads from disk would pass for a dead device; above, nobody would still wait.
const TIMEOUTS: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(60);

/// What [`Builder::batch_count`] may be: what a batch's list has room for.
const COUNTS: std::ops::RangeInclusive<usize> = 1..=LIST_LEN;
/// What [`Builder::batch_bytes`] may be: past 1 GiB a batch keeps a device busy for longer than anybody waits.
const BYTES: std::ops::RangeInclusive<usize> = 1..=1 << 30;
/// What [`Builder::neighbour_cache`] may be at most: no cache has 64 GiB.
const CACHE_MAX: usize = 64 << 30;

impl OffloadConfig {
    /// What can be said without looking at the machine. `max_added`: what a lane may add to the latency of what waits for it.
    pub(crate) fn check(&self, max_added: Duration) -> Result<(), Error> {
        let wrong = |knob, value: String, want| Err(Error::Knob { knob, value, want });
        if let Some(timeout) = self.timeout.filter(|timeout| !TIMEOUTS.contains(timeout)) {
            return wrong("copy_timeout", format!("{timeout:?}"), "10 ms to 60 s");
        }
        if let Some(count) = self.batch_count.filter(|count| !COUNTS.contains(count)) {
            return wrong("batch_count", count.to_string(), "1 (no batches) to 16 operations");
        }
        if let Some(bytes) = self.batch_bytes.filter(|bytes| !BYTES.contains(bytes)) {
            return wrong("batch_bytes", bytes.to_string(), "1 byte to 1 GiB");
        }
        if self.neighbour_cache > CACHE_MAX {
            return wrong(
                "neighbour_cache",
                self.neighbour_cache.to_string(),
                "0 (nothing is known) to 64 GiB, in bytes",
            );
        }
        if let Some(age) = self.batch_age.filter(|age| *age > max_added) {
            return wrong("batch_age", format!("{age:?}"), "0 to max_added: raise that, or lower this");
        }
        Ok(())
    }

    /// When a batch closes, by what was [checked](Self::check).
    pub(crate) fn batching(&self, max_added: Duration) -> Batching {
        Batching {
            // At most LIST_LEN.
            count: self.batch_count.map_or(Batching::COUNT, |count| count as u32),
            bytes: self.batch_bytes.map_or(Batching::BYTES, |bytes| bytes as u64),
            age: self.batch_age.unwrap_or(Batching::AGE.min(max_added)),
        }
    }
}

impl OffloadConfig {
    /// What queues are submitted to with: what the cpu states, or what the traps carry out.
    pub(crate) fn instructions(&self, cpu: &Capabilities) -> Instructions {
        #[cfg(all(feature = "sim", target_arch = "x86_64"))]
        if let Some(trap) = self.emulated {
            return trap.instructions();
        }
        Instructions::of(cpu)
    }
}

impl Builder {
    /// Whether [copies](crate::offload) may go to a device. Default: [`Offload::Auto`]. Queues are looked for where [`Places`] says, which
    /// `TWOLANE_DSA_SYSFS` and `TWOLANE_DSA_DEV` override; each is opened and tried with a no-op, half a second at most.
    ///
    /// A runtime with a queue has one more poller, the reaper, which counts as none while nothing is outstanding.
    ///
    /// # Errors
    /// At [`build`](Self::build): [`Error::NoWorkQueue`] with [`Offload::Demand`].
    pub fn offload(mut self, offload: Offload) -> Self {
        self.offload.offload = offload;
        self
    }

    /// Measures, once in a process, from which size copies should go round the caches: up to 50 ms and 64 MiB, given back. Default: `false`; half of 16 MiB
    /// is taken then.
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

    /// Where work queues are looked for. Default: where the kernel shows them, [`Places::default`]; for containers that see a host's `/sys` elsewhere, and
    /// for trees that a test has written (`sim::dsa::tree`, feature `sim`). `TWOLANE_DSA_SYSFS` and `TWOLANE_DSA_DEV` override it.
    pub fn dsa_places(mut self, places: Places) -> Self {
        self.offload.places = places;
        self
    }

    /// Tries batches on mapped portals although sysfs hides them, as kernels do that refuse them through `write(2)`. Each queue is asked by a batch of two
    /// no-ops. Default: `false`.
    pub fn batch_anyway(mut self, anyway: bool) -> Self {
        self.offload.batch_anyway = anyway;
        self
    }

    /// How long a device may leave an operation unanswered before something is taken to be wrong: then it has as long again, or less if sysfs says that the device is
    /// disabled or halted; then the operation is given up, with its buffers ([`Failure::Quarantined`](crate::offload::Failure::Quarantined)). 10 ms to 60 s; default: 1 s.
    ///
    /// A device answers in microseconds. What takes longer is a fault that the kernel serves from disk, and giving up too early costs the buffers.
    ///
    /// # Errors
    /// At [`build`](Self::build): [`Error::Knob`], out of range.
    pub fn copy_timeout(mut self, timeout: Duration) -> Self {
        self.offload.timeout = Some(timeout);
        self
    }

    /// How many operations go to a device in one batch, at most, be they [gathered](crate::offload::Copies::gathered) or
    /// [asked for at once](crate::offload::Copies::copy_many). 1 (no batches) to 16; default: 8. `TWOLANE_BATCH_COUNT` overrides it.
    ///
    /// More saves the core some work an operation, and the first waits for the last. Effect: `batched` over `batches` of the
    /// [counts](crate::offload::CopyCounts).
    ///
    /// # Errors
    /// At [`build`](Self::build): [`Error::Knob`], out of range.
    pub fn batch_count(mut self, operations: usize) -> Self {
        self.offload.batch_count = Some(operations);
        self
    }

    /// At how many bytes in all what is [gathered](crate::offload::Copies::gathered) goes to a device without waiting for more. 1 byte to 1 GiB; default: 64 KiB, which
    /// keep a device busy for 2 us: beside that, what one batch more costs no longer shows. `TWOLANE_BATCH_BYTES` overrides it. Effect: as of
    /// [`batch_count`](Self::batch_count).
    ///
    /// # Errors
    /// At [`build`](Self::build): [`Error::Knob`], out of range.
    pub fn batch_bytes(mut self, bytes: usize) -> Self {
        self.offload.batch_bytes = Some(bytes);
        self
    }

    /// How long what is [gathered](crate::offload::Copies::gathered) waits for more, at most. From 0 to [`max_added`](Self::max_added), beyond which nothing that a lane
    /// does may delay anything; default: 1 us, or `max_added` where that is less. `TWOLANE_BATCH_AGE` overrides it. The lane that has the reaper keeps it to within a pass. What is
    /// gathered on that lane goes when the lane is about to wait, whatever its age.
    ///
    /// Longer makes larger batches and later answers. Effect: as of [`batch_count`](Self::batch_count).
    ///
    /// # Errors
    /// At [`build`](Self::build): [`Error::Knob`], out of range.
    pub fn batch_age(mut self, age: Duration) -> Self {
        self.offload.batch_age = Some(age);
        self
    }

    /// What computes beside the copies lives in so many bytes of the last-level cache, and suffers where a copy displaces them. Copies whose two ranges leave less room than that
    /// go to a device already where that costs the core a little more than to copy (0.04 ns a byte, an estimate from a published study of a neighbour beside `memcpy`), and
    /// past the caches where the CPU does them, though not below 64 KiB. 0 to 64 GiB; default: 0, nothing is known of a neighbour. `TWOLANE_NEIGHBOUR_CACHE` overrides it.
    ///
    /// Effect: [`CopyCounts::device`](crate::offload::CopyCounts::device) grows. What a neighbour gains by it was not measured by us: there was no device, and no cache that two of our
    /// cpus were seen to share. Too large a value costs the copies themselves: what is streamed is not in
    /// the cache for whoever reads it next.
    ///
    /// # Errors
    /// At [`build`](Self::build): [`Error::Knob`], out of range.
    pub fn neighbour_cache(mut self, bytes: usize) -> Self {
        self.offload.neighbour_cache = bytes;
        self
    }

    /// Lets copies go to a [model](crate::sim::dsa) of the device, by instruction, instead of the machine's work queues.
    #[cfg(feature = "sim")]
    pub fn model_device(mut self, device: &crate::sim::dsa::Device) -> Self {
        self.offload.models.push(crate::sim::dsa::DriverSide::new(device, None));
        self
    }

    /// As [`model_device`](Self::model_device), in an address space of the caller's, who can then say how the device sees this page or that.
    #[cfg(feature = "sim")]
    pub fn model_device_in(mut self, device: &crate::sim::dsa::Device, space: &crate::sim::dsa::AddressSpace) -> Self {
        self.offload.models.push(crate::sim::dsa::DriverSide::new(device, Some(space)));
        self
    }

    /// Lets the driver submit by ENQCMD and MOVDIR64B although the cpu states neither: [traps](crate::sim::trap) carry them out. For queues behind
    /// [nodes of the traps](crate::sim::trap::Trap::node), which the runtime finds where [`dsa_places`](Self::dsa_places) says and opens and maps as
    /// it does a kernel's. Default: what the cpu states, and `write(2)` where it states nothing.
    ///
    /// ```
    /// use twolane::offload::Engine;
    /// use twolane::sim::dsa::tree::{Device as Described, DsaTree, Queue};
    /// use twolane::sim::dsa::{AddressSpace, Device, DeviceConfig, Profile, QueueConfig};
    /// use twolane::sim::trap::Trap;
    /// use twolane::{Offload, Placement, Runtime};
    ///
    /// // What the kernel would show, and what is behind it.
    /// let dir = tempfile::tempdir()?;
    /// let tree = DsaTree::new().device(Described::v1(0).queue(Queue::shared(16))).write(dir.path())?;
    /// let device = Device::new(DeviceConfig::v1().queue(QueueConfig::shared(16)), Profile::strict(1))?;
    /// let _driven = device.spawn()?;
    /// let trap = Trap::install()?;
    /// let node = trap.node(device.open(0, &AddressSpace::new()?)?, tree.node("wq0.0"))?;
    ///
    /// let rt = Runtime::builder()
    ///     .placement(Placement::Unpinned)
    ///     .env_overrides(false)
    ///     .dsa_places(tree.places())
    ///     .emulate_submissions(trap)
    ///     .offload(Offload::Demand)
    ///     .build()?;
    /// let asked = rt.copies().on(Engine::Device).copy(vec![7; 5000], vec![0; 5000]);
    /// let (src, dst) = rt.block_on(asked)??;
    /// assert_eq!(src, dst);
    /// assert!(device.counters().accepted > 0, "ENQCMD went to the model");
    /// drop(rt);
    /// drop(node);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(all(feature = "sim", target_arch = "x86_64"))]
    pub fn emulate_submissions(mut self, installed: crate::sim::trap::Trap) -> Self {
        self.offload.emulated = Some(installed);
        self
    }

    /// Lets copies go to a queue that does nothing and is [finished by hand](crate::sim::dsa::NullQueue): for counting instructions.
    #[cfg(feature = "sim")]
    pub fn null_queue(mut self, queue: &crate::sim::dsa::NullQueue) -> Self {
        self.offload.null.push(queue.clone());
        self
    }
}
