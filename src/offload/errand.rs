//! A large operation for the CPU, carried out on a compute lane while somebody waits for it.
//!
//! The errand is a task like any other. It takes the buffers along, works in slices, lets others have the lane in between, and brings the buffers back; also if it
//! is dropped half-way, by a runtime that ends.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use super::cpu::Work;
use super::held::Held;
use super::timing::{CpuTiming, counted};
use super::{Failure, Operation, Verdict, durable};

/// The lane's half.
pub(super) struct Errand<R> {
    /// There until it is delivered.
    request: Option<Held<R>>,
    work: Work,
    slice: usize,
    /// What is to be written back to memory in the end.
    durable: Option<Operation>,
    timing: Option<Box<CpuTiming>>,
    meeting: Arc<Mutex<Meeting<R>>>,
}

/// The half of whoever waits.
pub(super) struct Awaited<R>(Arc<Mutex<Meeting<R>>>);

enum Meeting<R> {
    Expected(Option<Waker>),
    Delivered(R, Result<Verdict, Failure>),
    /// Nobody waits any more, or what was delivered is taken.
    Over,
}

/// An errand and the way to hear of it. Slices are of `slice` bytes.
///
/// # Safety
/// - The operation of `work`, and the one in `durable`, are on `request`'s buffers, so that its addresses are good as long as `request` is.
pub(super) unsafe fn errand<R: Send>(
    request: R,
    work: Work,
    slice: usize,
    durable: Option<Operation>,
    timing: Option<Box<CpuTiming>>,
) -> (Errand<R>, Awaited<R>) {
    let meeting = Arc::new(Mutex::new(Meeting::Expected(None)));
    let awaited = Awaited(Arc::clone(&meeting));
    (Errand { request: Some(Held::new(request)), work, slice, durable, timing, meeting }, awaited)
}

impl<R: Send> Future for Errand<R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if this.request.is_none() || matches!(*this.meeting.lock(), Meeting::Over) {
            return Poll::Ready(());
        }
        // SAFETY: says the caller of `errand`; the request is still here, and the work was not over.
        match counted(&mut this.timing, || unsafe { this.work.advance(this.slice) }) {
            Some(verdict) => {
                this.timing.iter().for_each(|timing| timing.learn());
                if let Some(operation) = &this.durable {
                    // SAFETY: as above.
                    unsafe { durable::write_back(operation) };
                }
                this.deliver(Ok(verdict));
                Poll::Ready(())
            }
            None => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl<R> Errand<R> {
    fn deliver(&mut self, result: Result<Verdict, Failure>) {
        let Some(request) = self.request.take() else { return };
        let mut meeting = self.meeting.lock();
        let Meeting::Expected(waker) = &mut *meeting else {
            // Nobody waits: the buffers go, not under the lock.
            drop(meeting);
            return;
        };
        let waker = waker.take();
        *meeting = Meeting::Delivered(request.into_inner(), result);
        drop(meeting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<R> Drop for Errand<R> {
    fn drop(&mut self) {
        self.deliver(Err(Failure::Shutdown));
    }
}

// Nothing in it is pinned: the buffers' memory is elsewhere.
impl<R> Unpin for Errand<R> {}

impl<R> Awaited<R> {
    /// The buffers and what became of them. Not called again after `Ready`.
    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<(R, Result<Verdict, Failure>)> {
        let mut meeting = self.0.lock();
        match &mut *meeting {
            Meeting::Expected(waker) => {
                match waker {
                    Some(waker) => waker.clone_from(cx.waker()),
                    None => *waker = Some(cx.waker().clone()),
                }
                Poll::Pending
            }
            _ => match std::mem::replace(&mut *meeting, Meeting::Over) {
                Meeting::Delivered(request, result) => Poll::Ready((request, result)),
                _ => unreachable!("an errand was polled after it was over"),
            },
        }
    }
}

impl<R> Drop for Awaited<R> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.0.lock(), Meeting::Over);
        // Buffers and wakers are user code's: dropped after the lock.
        drop(before);
    }
}
