//! The future of one operation, from the moment it is asked for to the moment its buffers come back.

use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::copies::{Copies, Engine};
use super::cpu::{self, Stores, Work};
use super::device::{Device, Way};
use super::durable;
use super::errand::{Awaited, errand};
use super::flow::Ticket;
use super::held::Held;
use super::request::{Request, sealed};
use super::route::Mode;
use super::submitted::{Otherwise, Submitted, poll_whole};
use super::timing::{CpuTiming, DeviceTiming, counted};
use super::{Failure, Intent, Kind, Operation, Verdict};
use crate::task;

/// An operation that has begun; the future of its answer.
///
/// # Cancellation
/// There is none: a device cannot be told to stop. Dropping the future gives the buffers up: they are freed when nobody uses them any more. What is
/// done on a compute lane ends at its next slice. Forgetting it leaks the buffers. Both are sound at any moment.
///
/// # Panics
/// Polled after it was ready.
#[must_use = "the buffers come back by awaiting it"]
pub struct Offloading<R: Request> {
    /// There unless the stage is `Sent` or `Taken`.
    held: ManuallyDrop<Held<R>>,
    stage: Stage<R>,
}

/// Words, not bytes: a future that begins is moved in registers.
#[repr(u64)]
enum Stage<R: Request> {
    /// Nobody has begun.
    Asked,
    /// With a device, wholly.
    Device(Ticket),
    /// Over. Failures are rare, and boxed.
    Ready(Result<Verdict, Box<Failure>>),
    /// With a device in any other way.
    Otherwise(Box<Otherwise>),
    /// On its way on a compute lane, with the buffers.
    Sent(Awaited<R>),
    /// In the hands of whoever polls.
    Here(Box<Here>),
    /// The buffers went back, or on.
    Taken,
}

/// Work that is done where it is polled.
struct Here {
    work: Work,
    slice: usize,
    /// What is to be written back to memory in the end.
    durable: Option<Operation>,
    timing: Option<Box<CpuTiming>>,
}

/// An operation without an answer, and its buffers.
#[derive(Clone, PartialEq, Eq)]
pub struct Failed<B> {
    /// Why.
    pub failure: Failure,
    /// The buffers. `None` only with [`Failure::Quarantined`]: a device may still write to them, so the library keeps them.
    pub buffers: Option<B>,
}

impl<R: Request> Offloading<R> {
    /// Begins what is asked for.
    #[inline(always)]
    pub(super) fn start(copies: &Copies, held: Held<R>) -> Self {
        // A panic on the way leaks the buffers, which a device may have by then.
        let mut held = ManuallyDrop::new(held);
        // Each way makes a future of its own, so that its first poll knows by which way it comes.
        let Some(copy) = held.value_mut().copy() else { return Self::chosen(copies, held) };
        match Self::begun_plainly(copies, copy) {
            Begun::OnCpu => Self { held, stage: Stage::Ready(Ok(Verdict::Done)) },
            Begun::ByDevice(ticket) => Self { held, stage: Stage::Device(ticket) },
            Begun::Not => Self::chosen(copies, held),
        }
    }

    /// Puts one at the end that is asked for, and is to [begin](Self::begin). In place: what is to be written later is not written now.
    ///
    /// # Safety
    /// - There is capacity.
    #[inline(always)]
    pub(super) unsafe fn ask_within(into: &mut Vec<Self>, held: Held<R>) {
        let len = into.len();
        debug_assert!(len < into.capacity());
        // SAFETY: behind the last one, and within the capacity, says the caller; both fields are written, and then it is one more.
        unsafe {
            let place = into.as_mut_ptr().add(len);
            (&raw mut (*place).held).write(ManuallyDrop::new(held));
            (&raw mut (*place).stage).write(Stage::Asked);
            into.set_len(len + 1);
        }
    }

    #[inline(always)]
    pub(super) fn is_asked(&self) -> bool {
        matches!(self.stage, Stage::Asked)
    }

    /// Begins it alone, if nobody has.
    pub(super) fn begin(&mut self, copies: &Copies) {
        if !self.is_asked() {
            return;
        }
        let begun = match self.held.value_mut().copy() {
            Some(copy) => Self::begun_plainly(copies, copy),
            None => Begun::Not,
        };
        match begun {
            Begun::OnCpu => self.go_on(Stage::Ready(Ok(Verdict::Done))),
            Begun::ByDevice(ticket) => self.go_on(Stage::Device(ticket)),
            Begun::Not => self.choose(copies),
        }
    }

    /// It was begun with others, and has this ticket for the whole of it.
    #[inline(always)]
    pub(super) fn with_device(&mut self, ticket: Ticket) {
        self.go_on(Stage::Device(ticket));
    }

    /// It was begun with others, in a batch that is timed.
    pub(super) fn with_device_timed(&mut self, otherwise: Box<Otherwise>) {
        self.go_on(Stage::Otherwise(otherwise));
    }

    /// What it is about, until somebody has begun.
    #[inline(always)]
    pub(super) fn request(&mut self) -> &mut R {
        debug_assert!(self.is_asked());
        self.held.value_mut()
    }

    /// Begins it if it is a copy for which nothing else comes into question: a small one, which is to cost no more than `memcpy`, or one for the only queue that
    /// there is, which is to cost no more than a descriptor.
    #[inline(always)]
    fn begun_plainly(copies: &Copies, (src, dst, len): (*const u8, *mut u8, usize)) -> Begun {
        match Plain::of(copies, len) {
            Plain::OnCpu => {
                // SAFETY: the buffers' owner is with the caller: readable, writable and nobody else's by the contracts of their traits.
                unsafe { cpu::copy(src, dst, len, Stores::Plain) };
                Begun::OnCpu
            }
            Plain::ByDevice { device, demanded } => {
                // SAFETY: the buffers' owner stays beside the ticket until it is over, or is left with it.
                match unsafe { device.submit_copy((src, dst, len), copies.intent, demanded) } {
                    Some(ticket) => Begun::ByDevice(ticket),
                    None => Begun::Not,
                }
            }
            Plain::Not => Begun::Not,
        }
    }

    /// Begins it, whatever it is.
    #[cold]
    #[inline(never)]
    fn chosen(copies: &Copies, held: ManuallyDrop<Held<R>>) -> Self {
        let mut this = Self { held, stage: Stage::Asked };
        this.choose(copies);
        this
    }

    /// From a stage in which there is nothing to drop to another.
    #[inline(always)]
    fn go_on(&mut self, stage: Stage<R>) {
        debug_assert!(matches!(self.stage, Stage::Asked | Stage::Taken));
        // SAFETY: a place of ours, in which there is nothing to drop.
        unsafe { (&raw mut self.stage).write(stage) };
    }

    fn choose(&mut self, copies: &Copies) {
        let stage = match self.held.value_mut().operation() {
            Ok(sealed::Described(operation)) => self.by_whom(copies, &operation),
            Err(failure) => Err(failure),
        };
        let stage = stage.unwrap_or_else(|failure| {
            copies.center.counts.refused();
            Stage::Ready(Err(Box::new(failure)))
        });
        self.go_on(stage);
    }

    /// Begins it, and says how far that is. With `Sent` the buffers are gone.
    fn by_whom(&mut self, copies: &Copies, operation: &Operation) -> Result<Stage<R>, Failure> {
        let mut timing = None;
        if let Some(device) = &copies.center.device {
            if !matches!(copies.engine, Engine::Cpu | Engine::CpuHere) && operation.len() > 0 {
                let way = device.way(operation, copies.intent, copies.engine, Mode::Overlapped, copies.gather);
                match way {
                    Way::Queue { how, timed } => {
                        cpu::check(operation)?;
                        let demanded = copies.engine == Engine::Device;
                        // What waits for others is submitted by somebody else.
                        let timed = timed && !copies.gather;
                        let timing = timed.then(|| DeviceTiming::alone(device, operation, copies.intent, how));
                        // SAFETY: the buffers' owner stays beside it until it is over, or is left with it.
                        match unsafe { Submitted::new(&copies.center, device, operation, how, demanded, timing) } {
                            Ok(Submitted::Whole(ticket)) => return Ok(Stage::Device(ticket)),
                            Ok(Submitted::Otherwise(otherwise)) => return Ok(Stage::Otherwise(otherwise)),
                            Err(()) => {}
                        }
                    }
                    Way::Cpu { timed: true } => timing = Some(CpuTiming::new(&copies.center, operation, copies.intent)),
                    Way::Cpu { timed: false } => {}
                }
            }
        }
        self.on_cpu(copies, operation, timing)
    }

    /// Without a device, or where the CPU is cheaper.
    fn on_cpu(
        &mut self,
        copies: &Copies,
        operation: &Operation,
        mut timing: Option<Box<CpuTiming>>,
    ) -> Result<Stage<R>, Failure> {
        let (center, len) = (&copies.center, operation.len());
        let durable = copies.intent == Intent::Durable;
        if copies.engine == Engine::Device && len > 0 {
            let what = "no device: there is no work queue that can be used, see `twolane doctor`".into();
            return Err(Failure::Refused { what });
        }
        if len <= center.sizes.at_once_max && !durable {
            // A failure here is the operation's own end, and no refusal.
            // SAFETY: the buffers' owner is here: readable, writable and nobody else's by the contracts of their traits.
            let result = counted(&mut timing, || unsafe { cpu::perform(operation, center.stores(len)) });
            timing.iter().filter(|_| result.is_ok()).for_each(|timing| timing.learn());
            return Ok(Stage::Ready(result.map_err(Box::new)));
        }
        let mut work = Work::new(operation, center.stores(len))?;
        let durable = durable.then_some(*operation);
        if len <= center.sizes.at_once_max {
            // SAFETY: as above; all of it at once.
            let verdict = unsafe { work.advance(usize::MAX) }.unwrap_or(Verdict::Done);
            // SAFETY: as above.
            durable.iter().for_each(|operation| unsafe { durable::write_back(operation) });
            return Ok(Stage::Ready(Ok(verdict)));
        }
        center.counts.sliced(len);
        let slice = center.sizes.slice;
        // In a child of the process (fork) no lane runs.
        if copies.engine == Engine::CpuHere || !center.home.is_here() {
            return Ok(Stage::Here(Box::new(Here { work, slice, durable, timing })));
        }
        self.go_on(Stage::Taken);
        // SAFETY: they are there, and the stage is `Taken` until it is `Sent`.
        let held = unsafe { self.take_held() };
        // SAFETY: `work` is about these buffers.
        let (errand, awaited) = unsafe { errand(held.into_inner(), work, slice, durable, timing) };
        // A runtime that has ended takes nothing: the errand brings the buffers back as it is dropped.
        if let Ok((runnable, handle)) = task::future(errand, Arc::clone(&center.scheduler)) {
            drop(handle);
            center.scheduler.schedule(runnable);
        }
        Ok(Stage::Sent(awaited))
    }

    /// The buffers.
    ///
    /// # Safety
    /// They are there, and the stage is `Sent` or `Taken` before anybody looks for them again, also by a panic.
    #[inline(always)]
    unsafe fn take_held(&mut self) -> Held<R> {
        // SAFETY: says the caller.
        unsafe { ManuallyDrop::take(&mut self.held) }
    }

    /// Whether the answer is there: the next poll is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready(..))
    }

    #[inline]
    fn answer(request: R, result: Result<Verdict, Failure>) -> Answered<R> {
        match result {
            Ok(verdict) => Ok(request.answer(sealed::Answer(verdict))),
            Err(failure) => Err(failed(request, failure)),
        }
    }

    #[inline(never)]
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<Answered<R>> {
        let result = match &mut self.stage {
            Stage::Sent(awaited) => {
                let (request, result) = std::task::ready!(awaited.poll(cx));
                self.stage = Stage::Taken;
                return Poll::Ready(Self::answer(request, result));
            }
            Stage::Device(ticket) => {
                let mut whole = || whole(&mut self.held);
                // SAFETY: the buffers give the same ranges at each call, and are beside it since it was submitted.
                std::task::ready!(unsafe { poll_whole(ticket, &mut whole, cx) })
            }
            Stage::Otherwise(otherwise) => {
                let mut whole = || whole(&mut self.held);
                // SAFETY: as above.
                std::task::ready!(unsafe { otherwise.poll(&mut whole, cx) })
            }
            Stage::Here(here) => {
                // SAFETY: the request is beside it, and it is not over: then the stage changes.
                let Some(verdict) = counted(&mut here.timing, || unsafe { here.work.advance(here.slice) }) else {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                };
                here.timing.iter().for_each(|timing| timing.learn());
                // SAFETY: as above.
                here.durable.iter().for_each(|operation| unsafe { durable::write_back(operation) });
                Ok(verdict)
            }
            Stage::Ready(result) => std::mem::replace(result, Ok(Verdict::Done)).map_err(|failure| *failure),
            Stage::Taken => panic!("an operation was polled after it had answered"),
            // Its buffer panicked when it was asked where it is, among others of `copy_many`.
            Stage::Asked => panic!("an operation was polled that was never begun"),
        };
        let stage = std::mem::replace(&mut self.stage, Stage::Taken);
        // SAFETY: it was none of the stages without buffers, and is `Taken` now.
        let held = unsafe { self.take_held() };
        match result {
            Err(failure @ Failure::Quarantined { .. }) => {
                stage.abandon(held);
                Poll::Ready(Err(Failed { failure, buffers: None }))
            }
            result => Poll::Ready(Self::answer(held.into_inner(), result)),
        }
    }
}

/// What was asked for in the beginning.
fn whole<R: Request>(held: &mut Held<R>) -> Operation {
    held.value_mut().operation().map_or(Operation::Nop, |sealed::Described(operation)| operation)
}

impl<R: Request> Stage<R> {
    /// Nobody waits any more: the buffers stay as long as a device may use them.
    fn abandon(self, held: Held<R>) {
        match self {
            Self::Device(ticket) => ticket.abandon(move || Box::new(held)),
            Self::Otherwise(otherwise) => otherwise.abandon(held),
            Self::Asked | Self::Ready(_) | Self::Sent(_) | Self::Here(_) | Self::Taken => drop(held),
        }
    }
}

/// How a copy began, if it was plain.
enum Begun {
    /// And ended.
    OnCpu,
    ByDevice(Ticket),
    Not,
}

/// Whether a copy is one for which nothing else comes into question, and which is therefore to cost next to nothing.
enum Plain<'a> {
    /// Small: no more than `memcpy`.
    OnCpu,
    /// For a device, at once: no more than a descriptor, if there is one queue.
    ByDevice {
        device: &'a Device,
        demanded: bool,
    },
    Not,
}

impl<'a> Plain<'a> {
    #[inline(always)]
    fn of(copies: &'a Copies, len: usize) -> Self {
        let center = &*copies.center;
        let by = |device, demanded| if copies.gather { Self::Not } else { Self::ByDevice { device, demanded } };
        let small = match (&center.device, copies.engine) {
            // The first to be asked about: who demands a device counts instructions.
            (Some(device), _) if copies.demands_at_once => return Self::ByDevice { device, demanded: true },
            (_, Engine::Device) => return Self::Not,
            (None, _) => len <= center.sizes.at_once_max,
            (Some(device), engine) => {
                let small = device.router.is_small(Kind::Copy, copies.intent, Mode::Overlapped, len);
                if !small && engine == Engine::Auto {
                    return by(device, false);
                }
                small
            }
        };
        if small && len < center.sizes.streamed_from && copies.intent != Intent::Durable {
            Self::OnCpu
        } else {
            Self::Not
        }
    }
}

/// What a future answers with.
type Answered<R> = Result<<R as Request>::Output, Failed<<R as Request>::Buffers>>;

#[cold]
fn failed<R: Request>(request: R, failure: Failure) -> Failed<R::Buffers> {
    Failed { failure, buffers: Some(request.into_buffers()) }
}

impl<R: Request> Future for Offloading<R> {
    type Output = Answered<R>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        match &this.stage {
            Stage::Device(ticket) if ticket.waits(cx.waker()) => Poll::Pending,
            &Stage::Ready(Ok(verdict)) => {
                // A verdict is plain data: there is nothing to drop, and the compiler need not look for it.
                std::mem::forget(std::mem::replace(&mut this.stage, Stage::Taken));
                // SAFETY: it was ready, and is `Taken` now.
                let held = unsafe { this.take_held() };
                Poll::Ready(Ok(held.into_inner().answer(sealed::Answer(verdict))))
            }
            _ => this.poll_pending(cx),
        }
    }
}

impl<R: Request> Drop for Offloading<R> {
    #[inline]
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Taken) {
            return;
        }
        let stage = std::mem::replace(&mut self.stage, Stage::Taken);
        if matches!(stage, Stage::Sent(_)) {
            return;
        }
        // SAFETY: it was none of the stages without buffers, and is `Taken` now.
        let held = unsafe { self.take_held() };
        stage.abandon(held);
    }
}

// Nothing in it is pinned: the memory that engines have the addresses of is elsewhere.
impl<R: Request> Unpin for Offloading<R> {}

impl<R: Request> fmt::Debug for Offloading<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stage {
            Stage::Ready(..) => "Offloading(ready)",
            Stage::Sent(_) => "Offloading(on a compute lane)",
            Stage::Here(..) => "Offloading(where it is polled)",
            Stage::Device(_) | Stage::Otherwise(_) => "Offloading(with a device)",
            Stage::Asked | Stage::Taken => "Offloading(answered)",
        })
    }
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("failure", &self.failure).field("buffers", &self.buffers.is_some()).finish()
    }
}

impl<B> fmt::Display for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.failure, f)
    }
}

impl<B> std::error::Error for Failed<B> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.failure)
    }
}
