//! The future of one operation, from the moment it is asked for to the moment its buffers come back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::center::Center;
use super::copies::{Copies, Engine};
use super::cpu::{self, Stores, Work};
use super::device::{Device, Way};
use super::durable;
use super::errand::{Awaited, errand};
use super::flow::How;
use super::held::Held;
use super::request::{Request, sealed};
use super::route::Mode;
use super::submitted::Submitted;
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
    /// `None`: an errand has it, or it was given back.
    request: Option<Held<R>>,
    stage: Stage<R>,
}

enum Stage<R: Request> {
    /// Over.
    Ready(Result<Verdict, Failure>),
    /// With a device.
    Device(Submitted),
    /// On its way on a compute lane.
    Sent(Awaited<R>),
    /// In the hands of whoever polls.
    Here(Box<Here>),
    Taken,
}

/// Work that is done where it is polled.
struct Here {
    work: Work,
    slice: usize,
    /// What is to be written back to memory in the end.
    durable: Option<Operation>,
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
    #[inline(always)]
    pub(super) fn start(copies: &Copies, request: R) -> Self {
        let mut this = Self { request: Some(Held::new(request)), stage: Stage::Taken };
        if this.was_plain(copies) {
            return this;
        }
        match this.request.take() {
            Some(held) => Self::choose(copies, held.into_inner()),
            None => unreachable!("it was put there above"),
        }
    }

    /// Does it if it is a copy for which nothing else comes into question: small, and to cost no more than `memcpy`; or for the one queue that there is, and
    /// to cost no more than a descriptor.
    #[inline(always)]
    fn was_plain(&mut self, copies: &Copies) -> bool {
        let (Some(held), center) = (&mut self.request, &*copies.center) else { return false };
        let Ok(sealed::Described(Operation::Copy { src, dst, len })) = held.value_mut().operation() else {
            return false;
        };
        let sizes = &center.sizes;
        let demanded = copies.engine == Engine::Device;
        let small = match &center.device {
            None => len <= sizes.at_once_max,
            Some(device) => {
                let small = device.router.is_small(Kind::Copy, copies.intent, Mode::Overlapped, len);
                if demanded || (!small && copies.engine == Engine::Auto) {
                    if copies.gather {
                        return false;
                    }
                    // SAFETY: the buffers' owner is beside it, and stays until it is over, or is left with it.
                    let ticket = unsafe { device.submit_copy((src, dst, len), copies.intent, demanded) };
                    let Some(ticket) = ticket else { return false };
                    // There is nothing to drop, and the compiler need not look for it.
                    std::mem::forget(std::mem::replace(&mut self.stage, Stage::Device(Submitted::Whole(ticket))));
                    return true;
                }
                small
            }
        };
        if !small || len >= sizes.streamed_from || demanded || copies.intent == Intent::Durable {
            return false;
        }
        // SAFETY: the buffers' owner is beside it: readable, writable and nobody else's by the contracts of their traits.
        unsafe { cpu::copy(src, dst, len, Stores::Plain) };
        // There is nothing to drop, and the compiler need not look for it.
        std::mem::forget(std::mem::replace(&mut self.stage, Stage::Ready(Ok(Verdict::Done))));
        true
    }

    #[inline(never)]
    fn choose(copies: &Copies, mut request: R) -> Self {
        let sealed::Described(operation) = match request.operation() {
            Ok(described) => described,
            Err(failure) => return Self::refused(&copies.center, request, failure),
        };
        if let Some(device) = &copies.center.device {
            if !matches!(copies.engine, Engine::Cpu | Engine::CpuHere) && operation.len() > 0 {
                let way = device.way(&operation, copies.intent, copies.engine, Mode::Overlapped, copies.gather);
                if let Way::Queue { how, .. } = way {
                    return Self::submit(copies, device, request, operation, how);
                }
            }
        }
        Self::on_cpu(copies, request, operation)
    }

    /// Without a device, or where the CPU is cheaper.
    #[inline]
    fn on_cpu(copies: &Copies, request: R, operation: Operation) -> Self {
        let len = operation.len();
        if len > copies.center.sizes.at_once_max || copies.engine == Engine::Device || copies.intent == Intent::Durable
        {
            return Self::start_large(copies, request, operation);
        }
        // SAFETY: the buffers' owner is `request`, which is here: readable, writable and nobody else's by the contracts of their traits.
        let result = unsafe { cpu::perform(&operation, copies.center.stores(len)) };
        Self { request: Some(Held::new(request)), stage: Stage::Ready(result) }
    }

    #[inline]
    fn submit(copies: &Copies, device: &Device, request: R, operation: Operation, how: How) -> Self {
        if let Err(failure) = cpu::check(&operation) {
            return Self::refused(&copies.center, request, failure);
        }
        let held = Held::new(request);
        // SAFETY: `held` stays beside it until it is over, or is left with it.
        match unsafe { Submitted::new(&copies.center, device, &operation, how, copies.engine == Engine::Device) } {
            Ok(submitted) => Self::with_device(held, submitted),
            Err(()) => Self::instead(copies, held.into_inner(), operation),
        }
    }

    /// No queue takes it.
    #[cold]
    fn instead(copies: &Copies, request: R, operation: Operation) -> Self {
        Self::on_cpu(copies, request, operation)
    }

    /// With a ticket for it, that was had elsewhere.
    #[inline]
    pub(super) fn with_device(request: Held<R>, submitted: Submitted) -> Self {
        Self { request: Some(request), stage: Stage::Device(submitted) }
    }

    #[cold]
    fn refused(center: &Center, request: R, failure: Failure) -> Self {
        center.counts.refused();
        Self { request: Some(Held::new(request)), stage: Stage::Ready(Err(failure)) }
    }

    #[inline(never)]
    fn start_large(copies: &Copies, request: R, operation: Operation) -> Self {
        let center = &copies.center;
        let len = operation.len();
        if copies.engine == Engine::Device && len > 0 {
            let what = "no device: there is no work queue that can be used, see `twolane doctor`".into();
            return Self::refused(center, request, Failure::Refused { what });
        }
        let mut work = match Work::new(&operation, center.stores(len)) {
            Ok(work) => work,
            Err(failure) => return Self::refused(center, request, failure),
        };
        let durable = (copies.intent == Intent::Durable).then_some(operation);
        if len <= center.sizes.at_once_max {
            // SAFETY: as in `on_cpu`; all of it at once.
            let verdict = unsafe { work.advance(usize::MAX) }.unwrap_or(Verdict::Done);
            // SAFETY: as above.
            durable.iter().for_each(|operation| unsafe { durable::write_back(operation) });
            return Self { request: Some(Held::new(request)), stage: Stage::Ready(Ok(verdict)) };
        }
        center.counts.sliced(len);
        let slice = center.sizes.slice;
        // In a child of the process (fork) no lane runs.
        if copies.engine == Engine::CpuHere || !center.home.is_here() {
            let here = Box::new(Here { work, slice, durable });
            return Self { request: Some(Held::new(request)), stage: Stage::Here(here) };
        }
        // SAFETY: `work` is about `request`'s buffers.
        let (errand, awaited) = unsafe { errand(request, work, slice, durable) };
        // A runtime that has ended takes nothing: the errand brings the buffers back as it is dropped.
        if let Ok((runnable, handle)) = task::future(errand, Arc::clone(&center.scheduler)) {
            drop(handle);
            center.scheduler.schedule(runnable);
        }
        Self { request: None, stage: Stage::Sent(awaited) }
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
        let result = match (&mut self.stage, &mut self.request) {
            (Stage::Ready(result), Some(_)) => std::mem::replace(result, Ok(Verdict::Done)),
            (Stage::Sent(awaited), _) => {
                let (request, result) = std::task::ready!(awaited.poll(cx));
                self.stage = Stage::Taken;
                return Poll::Ready(Self::answer(request, result));
            }
            (Stage::Device(submitted), Some(held)) => {
                let mut whole = || {
                    let described = held.value_mut().operation();
                    described.map_or(Operation::Nop, |sealed::Described(operation)| operation)
                };
                // SAFETY: the buffers give the same ranges at each call, and are beside it since it was submitted.
                std::task::ready!(unsafe { submitted.poll(&mut whole, cx) })
            }
            (Stage::Here(here), Some(_)) => {
                // SAFETY: the request is beside it, and it is not over: then the stage changes.
                let Some(verdict) = (unsafe { here.work.advance(here.slice) }) else {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                };
                // SAFETY: as above.
                here.durable.iter().for_each(|operation| unsafe { durable::write_back(operation) });
                Ok(verdict)
            }
            _ => panic!("an operation was polled after it had answered"),
        };
        let stage = std::mem::replace(&mut self.stage, Stage::Taken);
        let Some(held) = self.request.take() else { unreachable!("its request was beside it") };
        match (result, stage) {
            (Err(failure @ Failure::Quarantined { .. }), Stage::Device(submitted)) => {
                submitted.abandon(held);
                Poll::Ready(Err(Failed { failure, buffers: None }))
            }
            (result, _) => Poll::Ready(Self::answer(held.into_inner(), result)),
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

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Stage::Ready(Ok(verdict)) = this.stage {
            // A verdict is plain data: there is nothing to drop, and the compiler need not look for it.
            std::mem::forget(std::mem::replace(&mut this.stage, Stage::Taken));
            if let Some(held) = this.request.take() {
                return Poll::Ready(Ok(held.into_inner().answer(sealed::Answer(verdict))));
            }
        }
        if let Stage::Device(submitted) = &this.stage {
            if submitted.waits(cx) {
                return Poll::Pending;
            }
        }
        this.poll_pending(cx)
    }
}

impl<R: Request> Drop for Offloading<R> {
    #[inline]
    fn drop(&mut self) {
        if let Stage::Device(..) = self.stage {
            let stage = std::mem::replace(&mut self.stage, Stage::Taken);
            if let (Stage::Device(submitted), Some(held)) = (stage, self.request.take()) {
                submitted.abandon(held);
            }
        }
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
            Stage::Device(..) => "Offloading(with a device)",
            Stage::Taken => "Offloading(answered)",
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
