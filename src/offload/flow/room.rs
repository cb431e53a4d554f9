//! Waiting for a slot of a page that is full: back-pressure, as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::core::Core;
use super::page::PageRef;
use super::waiters::WaiterId;

/// Ready when submitting is worth another try. Made by [`Flow::room`](super::Flow::room).
///
/// Somebody else may take the slot meanwhile: then wait again, with [`again`](Self::again), which keeps the place at the head of the queue. Dropped after
/// it was woken and before it was polled, it wakes the next.
#[must_use = "it waits when it is polled"]
#[derive(Debug)]
pub(crate) struct Room {
    core: Arc<Core>,
    waits: Option<(PageRef, WaiterId)>,
    again: bool,
}

impl Room {
    pub(super) fn new(core: &Arc<Core>) -> Self {
        Self { core: Arc::clone(core), waits: None, again: false }
    }

    /// The slot was somebody else's: waits for the next one, before all others.
    pub(crate) fn again(&mut self) {
        self.again = true;
    }
}

impl Future for Room {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Some((page, id)) = self.waits {
            if page.waiters.renew(id, cx.waker()) {
                return Poll::Pending;
            }
            self.waits = None;
            return Poll::Ready(());
        }
        if self.core.is_closed() {
            return Poll::Ready(()); // to be told so by the next attempt
        }
        let page = self.core.page();
        let again = std::mem::take(&mut self.again);
        match page.waiters.register(&page.claims, cx.waker(), again) {
            Some(id) => {
                self.waits = Some((page, id));
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some((page, id)) = self.waits {
            if page.waiters.cancel(&page.claims, id) {
                page.pass_on(); // woken, and going without having looked
            }
        }
    }
}
