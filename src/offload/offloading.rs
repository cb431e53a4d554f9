//! The future of one operation, from the moment it is asked for to the moment its buffers come back.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::center::Center;
use super::copies::{Copies, Engine};
use super::cpu::{self, Work};
use super::device::{Device, Way};
use super::durable;
use super::errand::{Awaited, errand};
use super::flow::How;
use super::held::Held;
use super::request::{Request, sealed};
use super::route::Mode;
use super::submitted::Submitted;
use super::{Failure, Intent, Operation, Verdict};
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
pub struct Offloading<R: Request>(pub(super) Stage<R>);

pub(super) enum Stage<R: Request> {
    /// Over.
    Ready(R, Result<Verdict, Failure>),
    /// On its way on a compute lane.
    Sent(Awaited<R>),
    /// In the hands of whoever polls.
    Here(Held<R>, Work, usize, Option<Operation>),
    /// With a device.
    Device(Held<R>, Submitted),
    Taken,
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
    #[inline]
    pub(super) fn start(copies: &Copies, mut request: R) -> Self {
        let sealed::Described(operation) = match request.operation() {
            Ok(described) => described,
            Err(failure) => return Self::refused(&copies.center, request, failure),
        };
        let len = operation.len();
        if let Some(device) = &copies.center.device {
            if !matches!(copies.engine, Engine::Cpu | Engine::CpuHere) && len > 0 {
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
        // What is empty is answered without an engine, whichever was asked for.
        if len == 0 || len <= copies.center.sizes.at_once_max && copies.engine != Engine::Device {
            // SAFETY: the buffers' owner is `request`, which is here: readable, writable and nobody else's by the contracts of their traits.
            let result = unsafe { cpu::perform(&operation, copies.center.stores(len)) };
            if copies.intent == Intent::Durable {
                // SAFETY: as above.
                unsafe { durable::write_back(&operation) };
            }
            return Self(Stage::Ready(request, result));
        }
        Self::start_large(copies, request, operation)
    }

    #[inline]
    fn submit(copies: &Copies, device: &Device, request: R, operation: Operation, how: How) -> Self {
        if let Err(failure) = cpu::check(&operation) {
            return Self::refused(&copies.center, request, failure);
        }
        let held = Held::new(request);
        // SAFETY: `held` is beside it, in the stage, until it is over, or left with it.
        match unsafe { Submitted::new(&copies.center, device, &operation, how, copies.engine == Engine::Device) } {
            Ok(submitted) => Self(Stage::Device(held, submitted)),
            Err(()) => Self::on_cpu(copies, held.into_inner(), operation),
        }
    }

    #[cold]
    fn refused(center: &Center, request: R, failure: Failure) -> Self {
        center.counts.refused();
        Self(Stage::Ready(request, Err(failure)))
    }

    #[inline(never)]
    fn start_large(copies: &Copies, request: R, operation: Operation) -> Self {
        let center = &copies.center;
        let len = operation.len();
        if copies.engine == Engine::Device {
            let what = match center.device {
                None => "no device: this machine shows no work queue that can be used, see `twolane doctor`",
                Some(_) => {
                    "no work queue takes it: they are all down, or do not have the operation, see `twolane doctor`"
                }
            };
            return Self::refused(center, request, Failure::Refused { what: what.into() });
        }
        let work = match Work::new(&operation, center.stores(len)) {
            Ok(work) => work,
            Err(failure) => return Self::refused(center, request, failure),
        };
        center.counts.sliced(len);
        let slice = center.sizes.slice;
        let durable = (copies.intent == Intent::Durable).then_some(operation);
        if copies.engine == Engine::CpuHere {
            return Self(Stage::Here(Held::new(request), work, slice, durable));
        }
        // SAFETY: `work` is about `request`'s buffers.
        let (errand, awaited) = unsafe { errand(request, work, slice, durable) };
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

    fn answer(request: R, result: Result<Verdict, Failure>) -> Result<R::Output, Failed<R::Buffers>> {
        match result {
            Ok(verdict) => Ok(request.answer(sealed::Answer(verdict))),
            Err(failure) => Err(Failed { failure, buffers: Some(request.into_buffers()) }),
        }
    }
}

impl<R: Request> Future for Offloading<R> {
    type Output = Result<R::Output, Failed<R::Buffers>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let stage = &mut self.get_mut().0;
        if let Stage::Ready(..) = stage {
            let Stage::Ready(request, result) = std::mem::replace(stage, Stage::Taken) else { unreachable!() };
            return Poll::Ready(Self::answer(request, result));
        }
        Self::poll_pending(stage, cx)
    }
}

impl<R: Request> Offloading<R> {
    fn poll_pending(stage: &mut Stage<R>, cx: &mut Context<'_>) -> Poll<Result<R::Output, Failed<R::Buffers>>> {
        match stage {
            Stage::Sent(awaited) => awaited.poll(cx).map(|(request, result)| {
                *stage = Stage::Taken;
                Self::answer(request, result)
            }),
            Stage::Here(_, work, slice, durable) => {
                // SAFETY: the request is beside it, and it is not over: then the stage changes.
                let Some(verdict) = (unsafe { work.advance(*slice) }) else {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                };
                if let Some(operation) = durable {
                    // SAFETY: as above.
                    unsafe { durable::write_back(operation) };
                }
                let Stage::Here(request, ..) = std::mem::replace(stage, Stage::Taken) else { unreachable!() };
                Poll::Ready(Self::answer(request.into_inner(), Ok(verdict)))
            }
            Stage::Device(_, submitted) => {
                let result = std::task::ready!(submitted.poll(cx));
                let Stage::Device(request, submitted) = std::mem::replace(stage, Stage::Taken) else { unreachable!() };
                if let Err(failure @ Failure::Quarantined { .. }) = result {
                    submitted.abandon(request);
                    return Poll::Ready(Err(Failed { failure, buffers: None }));
                }
                Poll::Ready(Self::answer(request.into_inner(), result))
            }
            Stage::Ready(..) | Stage::Taken => panic!("an operation was polled after it had answered"),
        }
    }
}

impl<R: Request> Drop for Offloading<R> {
    fn drop(&mut self) {
        if let Stage::Device(..) = self.0 {
            let Stage::Device(request, submitted) = std::mem::replace(&mut self.0, Stage::Taken) else {
                unreachable!()
            };
            submitted.abandon(request);
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
