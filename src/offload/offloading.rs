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
pub struct Offloading<R: Request>(Stage<R>);

enum Stage<R: Request> {
    /// Over. Failures are rare, and boxed.
    Ready(Held<R>, Result<Verdict, Box<Failure>>),
    /// With a device.
    Device(Held<R>, Submitted),
    /// On its way on a compute lane, with the buffers.
    Sent(Awaited<R>),
    /// In the hands of whoever polls.
    Here(Held<R>, Box<Here>),
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
    pub(super) fn start(copies: &Copies, mut held: Held<R>) -> Self {
        if let Some((src, dst, len)) = held.value_mut().copy() {
            match Plain::of(copies, len) {
                Plain::OnCpu => {
                    // SAFETY: the buffers' owner is here: readable, writable and nobody else's by the contracts of their traits.
                    unsafe { cpu::copy(src, dst, len, Stores::Plain) };
                    return Self(Stage::Ready(held, Ok(Verdict::Done)));
                }
                Plain::ByDevice { device, demanded } => {
                    // SAFETY: `held` stays beside the ticket until it is over, or is left with it.
                    if let Some(ticket) = unsafe { device.submit_copy((src, dst, len), copies.intent, demanded) } {
                        return Self(Stage::Device(held, Submitted::Whole(ticket)));
                    }
                }
                Plain::Not => {}
            }
        }
        Self::choose(copies, held)
    }

    #[cold]
    #[inline(never)]
    fn choose(copies: &Copies, mut held: Held<R>) -> Self {
        let sealed::Described(operation) = match held.value_mut().operation() {
            Ok(described) => described,
            Err(failure) => return Self::refused(&copies.center, held, failure),
        };
        if let Some(device) = &copies.center.device {
            if !matches!(copies.engine, Engine::Cpu | Engine::CpuHere) && operation.len() > 0 {
                let way = device.way(&operation, copies.intent, copies.engine, Mode::Overlapped, copies.gather);
                if let Way::Queue { how, .. } = way {
                    return Self::submit(copies, device, held, operation, how);
                }
            }
        }
        Self::on_cpu(copies, held, operation)
    }

    /// Without a device, or where the CPU is cheaper.
    #[inline]
    fn on_cpu(copies: &Copies, held: Held<R>, operation: Operation) -> Self {
        let len = operation.len();
        if len > copies.center.sizes.at_once_max || copies.engine == Engine::Device || copies.intent == Intent::Durable
        {
            return Self::start_large(copies, held, operation);
        }
        // SAFETY: the buffers' owner is `held`, which is here: readable, writable and nobody else's by the contracts of their traits.
        let result = unsafe { cpu::perform(&operation, copies.center.stores(len)) };
        Self(Stage::Ready(held, result.map_err(Box::new)))
    }

    #[inline]
    fn submit(copies: &Copies, device: &Device, held: Held<R>, operation: Operation, how: How) -> Self {
        if let Err(failure) = cpu::check(&operation) {
            return Self::refused(&copies.center, held, failure);
        }
        // SAFETY: `held` stays beside it until it is over, or is left with it.
        match unsafe { Submitted::new(&copies.center, device, &operation, how, copies.engine == Engine::Device) } {
            Ok(submitted) => Self(Stage::Device(held, submitted)),
            // No queue takes it.
            Err(()) => Self::on_cpu(copies, held, operation),
        }
    }

    /// With a ticket for it, that was had elsewhere.
    #[inline]
    pub(super) fn with_device(held: Held<R>, submitted: Submitted) -> Self {
        Self(Stage::Device(held, submitted))
    }

    #[cold]
    fn refused(center: &Center, held: Held<R>, failure: Failure) -> Self {
        center.counts.refused();
        Self(Stage::Ready(held, Err(Box::new(failure))))
    }

    #[inline(never)]
    fn start_large(copies: &Copies, held: Held<R>, operation: Operation) -> Self {
        let center = &copies.center;
        let len = operation.len();
        if copies.engine == Engine::Device && len > 0 {
            let what = "no device: there is no work queue that can be used, see `twolane doctor`".into();
            return Self::refused(center, held, Failure::Refused { what });
        }
        let mut work = match Work::new(&operation, center.stores(len)) {
            Ok(work) => work,
            Err(failure) => return Self::refused(center, held, failure),
        };
        let durable = (copies.intent == Intent::Durable).then_some(operation);
        if len <= center.sizes.at_once_max {
            // SAFETY: as in `on_cpu`; all of it at once.
            let verdict = unsafe { work.advance(usize::MAX) }.unwrap_or(Verdict::Done);
            // SAFETY: as above.
            durable.iter().for_each(|operation| unsafe { durable::write_back(operation) });
            return Self(Stage::Ready(held, Ok(verdict)));
        }
        center.counts.sliced(len);
        let slice = center.sizes.slice;
        // In a child of the process (fork) no lane runs.
        if copies.engine == Engine::CpuHere || !center.home.is_here() {
            let here = Box::new(Here { work, slice, durable });
            return Self(Stage::Here(held, here));
        }
        // SAFETY: `work` is about `held`'s buffers.
        let (errand, awaited) = unsafe { errand(held.into_inner(), work, slice, durable) };
        // A runtime that has ended takes nothing: the errand brings the buffers back as it is dropped.
        if let Ok((runnable, handle)) = task::future(errand, Arc::clone(&center.scheduler)) {
            drop(handle);
            center.scheduler.schedule(runnable);
        }
        Self(Stage::Sent(awaited))
    }

    /// Whether the answer is there: the next poll is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        matches!(self.0, Stage::Ready(..))
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
        let result = match &mut self.0 {
            Stage::Sent(awaited) => {
                let (request, result) = std::task::ready!(awaited.poll(cx));
                self.0 = Stage::Taken;
                return Poll::Ready(Self::answer(request, result));
            }
            Stage::Device(held, submitted) => {
                let mut whole = || {
                    let described = held.value_mut().operation();
                    described.map_or(Operation::Nop, |sealed::Described(operation)| operation)
                };
                // SAFETY: the buffers give the same ranges at each call, and are beside it since it was submitted.
                std::task::ready!(unsafe { submitted.poll(&mut whole, cx) })
            }
            Stage::Here(_, here) => {
                // SAFETY: the request is beside it, and it is not over: then the stage changes.
                let Some(verdict) = (unsafe { here.work.advance(here.slice) }) else {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                };
                // SAFETY: as above.
                here.durable.iter().for_each(|operation| unsafe { durable::write_back(operation) });
                Ok(verdict)
            }
            // What it came to is in the stage.
            Stage::Ready(..) => Ok(Verdict::Done),
            Stage::Taken => panic!("an operation was polled after it had answered"),
        };
        match (std::mem::replace(&mut self.0, Stage::Taken), result) {
            (Stage::Device(held, submitted), Err(failure @ Failure::Quarantined { .. })) => {
                submitted.abandon(held);
                Poll::Ready(Err(Failed { failure, buffers: None }))
            }
            (Stage::Ready(held, result), _) => {
                Poll::Ready(Self::answer(held.into_inner(), result.map_err(|failure| *failure)))
            }
            (Stage::Device(held, _) | Stage::Here(held, _), result) => {
                Poll::Ready(Self::answer(held.into_inner(), result))
            }
            (Stage::Sent(_) | Stage::Taken, _) => unreachable!("these went their way above"),
        }
    }
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
            (None, Engine::Device) => return Self::Not,
            (Some(device), Engine::Device) => return by(device, true),
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
        if let Stage::Ready(_, Ok(verdict)) = this.0 {
            if let Stage::Ready(held, _) = std::mem::replace(&mut this.0, Stage::Taken) {
                return Poll::Ready(Ok(held.into_inner().answer(sealed::Answer(verdict))));
            }
        }
        if let Stage::Device(_, submitted) = &this.0 {
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
        if let Stage::Device(..) = self.0 {
            if let Stage::Device(held, submitted) = std::mem::replace(&mut self.0, Stage::Taken) {
                submitted.abandon(held);
            }
        }
    }
}

// Nothing in it is pinned: the memory that engines have the addresses of is elsewhere.
impl<R: Request> Unpin for Offloading<R> {}

impl<R: Request> fmt::Debug for Offloading<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
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
