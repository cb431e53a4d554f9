//! The way to ask for bulk operations: what for, by which engine, and then what.

use std::fmt;
use std::sync::Arc;

use super::buffer::{ReadBuffer, WriteBuffer};
use super::center::Center;
use super::count::CopyCounts;
use super::held::Held;
use super::many::copy_many;
use super::operation::{Dif, DifWrite, Pattern};
use super::request::*;
use super::{CopyingAll, Intent, Offloading};

/// Who shall carry an operation out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// Whoever is cheaper, by size, load and intent: the device if there is one and it pays, else the CPU.
    #[default]
    Auto,
    /// The CPU. What is small is done at once, what is large on a compute lane.
    Cpu,
    /// The CPU, on the thread that polls the future, in slices: between two of them the future yields.
    CpuHere,
    /// The device, whatever it costs. An error where there is none, or where it cannot do the operation.
    Device,
}

/// Bulk operations on owned buffers, as futures. From [`Handle::copies`](crate::Handle::copies); a clone costs a reference count.
///
/// An operation begins when the method is called; the [`Offloading`] that it returns is the way to its end. Buffers are given by value and come back
/// with the answer. What is small is done by the calling thread before the method returns, and the future is born ready.
///
/// ```
/// # let rt = twolane::Runtime::builder().build()?;
/// let (src, dst) = (vec![7u8; 1 << 20], vec![0u8; 1 << 20]);
/// let (src, dst) = rt.block_on(rt.copies().copy(src, dst))??;
/// assert_eq!(src, dst);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Copies {
    pub(super) center: Arc<Center>,
    pub(super) intent: Intent,
    pub(super) engine: Engine,
    pub(super) gather: bool,
    /// The device is demanded, and nothing is gathered.
    pub(super) demands_at_once: bool,
}

impl Copies {
    pub(crate) fn new(center: Arc<Center>) -> Self {
        Self { center, intent: Intent::default(), engine: Engine::default(), gather: false, demands_at_once: false }
    }

    /// What the result is for, which decides where it should end up: in the caches or in memory. Default: [`Intent::default`].
    #[must_use]
    pub fn intent(self, intent: Intent) -> Self {
        Self { intent, ..self }
    }

    /// Who shall do it. Default: [`Engine::Auto`].
    #[must_use]
    pub fn on(self, engine: Engine) -> Self {
        Self { engine, demands_at_once: engine == Engine::Device && !self.gather, ..self }
    }

    /// Lets what goes to a device wait for others, up to [`batch_age`](crate::Builder::batch_age), to go in one batch with them: saves the core some work an operation,
    /// costs latency. For many at once, [`copy_many`](Self::copy_many) needs no waiting. Default: off.
    #[must_use]
    pub fn gathered(self, gather: bool) -> Self {
        Self { gather, demands_at_once: self.engine == Engine::Device && !gather, ..self }
    }

    #[inline(always)]
    fn start<R: Request>(&self, request: R) -> Offloading<R> {
        Offloading::start(self, Held::new(request))
    }

    /// Copies all of `src` to the beginning of `dst`, which has room for it. Answers with both.
    #[inline(always)]
    pub fn copy<S: ReadBuffer, D: WriteBuffer>(&self, src: S, dst: D) -> Offloading<Copying<S, D>> {
        self.start(Copying { src, dst })
    }

    /// Many [copies](Self::copy), asked for at once: what goes to a device goes in batches of up to 8, which costs the core about half as much a copy. The
    /// futures go to `into`, in the order of the pairs; one that is used again makes it free of allocations.
    ///
    /// ```
    /// # let rt = twolane::Runtime::builder().build()?;
    /// let mut copying = Vec::new();
    /// rt.copies().copy_many((0..20).map(|n| (vec![n; 4096], vec![0; 4096])), &mut copying);
    /// for copy in copying {
    ///     let (src, dst) = rt.block_on(copy)??;
    ///     assert_eq!(src, dst);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_many<S: ReadBuffer, D: WriteBuffer>(
        &self,
        pairs: impl IntoIterator<Item = (S, D)>,
        into: &mut Vec<Offloading<Copying<S, D>>>,
    ) {
        copy_many(self, pairs, into);
    }

    /// As [`copy_many`](Self::copy_many), with one future for all of them, which gives the pairs back in their `Vec`. What goes to a device does so from where it is, so that
    /// this costs the core least a copy, and wakes the task least often. Copies that a device does not take plainly (there are several queues, or none; it is
    /// full; the CPU is cheaper) begin as `copy_many` would have them.
    ///
    /// # Errors
    /// At least one failed: [`FailedCopies`](super::FailedCopies) has the others' buffers, and why.
    ///
    /// # Cost
    /// No allocation for up to 8 pairs that go to the only queue there is.
    ///
    /// ```
    /// # let rt = twolane::Runtime::builder().build()?;
    /// let pairs: Vec<_> = (0..8).map(|n| (vec![n; 4096], vec![0; 4096])).collect();
    /// for (src, dst) in rt.block_on(rt.copies().copy_all(pairs))?? {
    ///     assert_eq!(src, dst);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline(always)]
    pub fn copy_all<S: ReadBuffer, D: WriteBuffer>(&self, pairs: Vec<(S, D)>) -> CopyingAll<S, D> {
        CopyingAll::start(self, pairs)
    }

    /// Submits what [waits for others](Self::gathered) on the calling thread.
    pub fn flush_gathered(&self) {
        if let Some(device) = &self.center.device {
            device.flow.flush();
        }
    }

    /// How many operations of which size went where, since the runtime began.
    #[must_use]
    pub fn counts(&self) -> CopyCounts {
        self.center.counts()
    }

    /// Fills `dst` with these 8 bytes again and again; the last time as far as there is room.
    pub fn fill<D: WriteBuffer>(&self, dst: D, pattern: [u8; 8]) -> Offloading<Filling<D>> {
        self.start(Filling { dst, pattern: Pattern::Eight(pattern) })
    }

    /// As [`fill`](Self::fill), with 16 bytes. Devices before version 2 leave it to the CPU.
    pub fn fill16<D: WriteBuffer>(&self, dst: D, pattern: [u8; 16]) -> Offloading<Filling<D>> {
        self.start(Filling { dst, pattern: Pattern::Sixteen(pattern) })
    }

    /// Where two buffers of one length differ first, in bytes from their start; `None`: they are equal.
    pub fn compare<L: ReadBuffer, R: ReadBuffer>(&self, left: L, right: R) -> Offloading<Comparing<L, R>> {
        self.start(Comparing { left, right })
    }

    /// Where a buffer first differs from these 8 bytes, repeated; `None`: nowhere.
    pub fn compare_pattern<S: ReadBuffer>(&self, src: S, pattern: [u8; 8]) -> Offloading<ComparingPattern<S>> {
        self.start(ComparingPattern { src, pattern: u64::from_le_bytes(pattern) })
    }

    /// CRC-32C (Castagnoli, as in iSCSI). `seed`: 0, or the CRC of the part before this one.
    pub fn crc32c<S: ReadBuffer>(&self, src: S, seed: u32) -> Offloading<Checksumming<S>> {
        self.start(Checksumming { src, seed })
    }

    /// [`copy`](Self::copy) and [`crc32c`](Self::crc32c) in one. The buffers must not overlap, as owned ones do not.
    pub fn copy_crc32c<S: ReadBuffer, D: WriteBuffer>(
        &self,
        src: S,
        dst: D,
        seed: u32,
    ) -> Offloading<CopyingChecksummed<S, D>> {
        self.start(CopyingChecksummed { src, dst, seed })
    }

    /// Copies all of `src` to two destinations. A device does it only if these lie at the same place within their pages (address bits 11 to 0); else the CPU.
    pub fn dualcast<S: ReadBuffer, D: WriteBuffer, E: WriteBuffer>(
        &self,
        src: S,
        dst: D,
        dst2: E,
    ) -> Offloading<Dualcasting<S, D, E>> {
        self.start(Dualcasting { src, dst, dst2 })
    }

    /// Writes to `record` what makes `modified` from `original`: for each 8 bytes that differ, their offset (in units of 8 bytes, 16 bits, little-endian)
    /// and the bytes. At most 512 KiB at a time, in multiples of 8 bytes, aligned to 8; `record` has 80 bytes at least.
    pub fn create_delta<O: ReadBuffer, M: ReadBuffer, R: WriteBuffer>(
        &self,
        original: O,
        modified: M,
        record: R,
    ) -> Offloading<CreatingDelta<O, M, R>> {
        self.start(CreatingDelta { original, modified, record })
    }

    /// Applies a record of [`create_delta`](Self::create_delta), whole, to `dst`.
    pub fn apply_delta<R: ReadBuffer, D: WriteBuffer>(&self, record: R, dst: D) -> Offloading<ApplyingDelta<R, D>> {
        self.start(ApplyingDelta { record, dst })
    }

    /// Checks blocks against the T10 protection information behind each.
    pub fn dif_check<S: ReadBuffer>(&self, src: S, dif: Dif) -> Offloading<CheckingDif<S>> {
        self.start(CheckingDif { src, dif })
    }

    /// Copies blocks and adds protection information behind each: `dst` has room for 8 more bytes a block.
    pub fn dif_insert<S: ReadBuffer, D: WriteBuffer>(
        &self,
        src: S,
        dst: D,
        dif: Dif,
    ) -> Offloading<InsertingDif<S, D>> {
        self.start(InsertingDif { src, dst, dif })
    }

    /// Checks blocks, and copies them without their protection information.
    pub fn dif_strip<S: ReadBuffer, D: WriteBuffer>(&self, src: S, dst: D, dif: Dif) -> Offloading<StrippingDif<S, D>> {
        self.start(StrippingDif { src, dst, dif })
    }

    /// Checks blocks, and copies them with other protection information.
    pub fn dif_update<S: ReadBuffer, D: WriteBuffer>(
        &self,
        src: S,
        dst: D,
        check: Dif,
        write: DifWrite,
    ) -> Offloading<UpdatingDif<S, D>> {
        self.start(UpdatingDif { src, dst, check, write })
    }

    /// Writes what the caches have of the buffer to memory, and gives the lines up.
    pub fn flush<D: WriteBuffer>(&self, dst: D) -> Offloading<Flushing<D>> {
        self.start(Flushing { dst })
    }
}

impl fmt::Debug for Copies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Copies").field("intent", &self.intent).field("engine", &self.engine).finish_non_exhaustive()
    }
}
