//! Many copies as one future: one that owns all the buffers, in the `Vec` that they come in, and is woken as seldom as it can be.
//!
//! What goes to a device plainly goes from where it is, in batches, with no future of its own: its ticket is made when it is looked at. The first ones that
//! do not go that way, and all behind them, become an [`Offloading`] each, which knows every other way.

use std::fmt;
use std::future::Future;
use std::mem::{self, ManuallyDrop};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use parking_lot::Mutex;

use super::buffer::{ReadBuffer, WriteBuffer};
use super::copies::{Copies, Engine};
use super::flow::{TOGETHER, Ticket, Tickets};
use super::held::Held;
use super::many::copy_many;
use super::offloading::{Failed, Offloading};
use super::request::{Copying, copy_of};
use super::submitted::poll_whole;
use super::{Failure, Operation};

/// Copies that have begun; the future of all of them. Made by [`Copies::copy_all`].
///
/// # Cancellation
/// As of an [`Offloading`]: dropping it gives the buffers up, and they are freed, all at once, when no device uses any of them any more; forgetting it leaks them.
///
/// # Panics
/// Polled after it was ready.
#[must_use = "the buffers come back by awaiting it"]
pub struct CopyingAll<S: ReadBuffer, D: WriteBuffer> {
    /// The first ones, which went plainly. There unless it is over.
    pairs: ManuallyDrop<Held<Vec<(S, D)>>>,
    /// Of the first [`TOGETHER`] of them.
    first: Option<Tickets>,
    /// The ticket of the one that is looked at.
    current: Option<Ticket>,
    /// So many of them were looked at to their end, or [`OVER`].
    done: usize,
    /// What is rare.
    rest: Option<Box<Rest<S, D>>>,
}

/// What became of one.
type Answer<S, D> = Result<(S, D), Failed<(S, D)>>;
/// What became of all of them.
type Answers<S, D> = Result<Vec<(S, D)>, FailedCopies<S, D>>;

/// It has answered.
const OVER: usize = usize::MAX;

struct Rest<S: ReadBuffer, D: WriteBuffer> {
    /// As `first`, of those behind them. All but the last have [`TOGETHER`].
    more: Vec<Tickets>,
    /// Of those that failed: which, why, and the ticket if a device may still write.
    failed: Vec<(usize, Failure, Option<Ticket>)>,
    /// Those behind all that went plainly.
    others: Vec<Other<S, D>>,
}

enum Other<S: ReadBuffer, D: WriteBuffer> {
    Pending(Offloading<Copying<S, D>>),
    Answered(Answer<S, D>),
}

/// Copies of which at least one has no answer.
pub struct FailedCopies<S, D> {
    /// Each one's buffers, or why it failed, in the order in which they were asked for.
    #[allow(clippy::type_complexity)] // in full, for whoever reads the page
    pub each: Vec<Result<(S, D), Failed<(S, D)>>>,
}

impl<S: ReadBuffer, D: WriteBuffer> CopyingAll<S, D> {
    /// Begins all of them.
    #[inline(always)]
    pub(super) fn start(copies: &Copies, pairs: Vec<(S, D)>) -> Self {
        // A panic on the way (a buffer's, when it is asked where it is) leaks the buffers, which a device may have by then.
        let mut pairs = ManuallyDrop::new(Held::new(pairs));
        let all = pairs.value_mut();
        let first = plainly(copies, all);
        let went = first.as_ref().map_or(0, Tickets::count);
        let rest = if went == all.len() { None } else { Some(begin_rest(copies, all, went)) };
        Self { pairs, first, current: None, done: 0, rest }
    }

    /// The ticket of one of those that went plainly, by its number.
    ///
    /// # Safety
    /// It was not made before.
    unsafe fn ticket(&self, number: usize) -> Ticket {
        let tickets = match number / TOGETHER {
            0 => self.first.as_ref(),
            run => self.rest.as_ref().and_then(|rest| rest.more.get(run - 1)),
        };
        let tickets = tickets.expect("as many tickets as pairs that went plainly");
        // SAFETY: says the caller: the number within the run goes with this number alone.
        unsafe { tickets.ticket(number % TOGETHER) }
    }

    #[inline(never)]
    fn poll_all(&mut self, cx: &mut Context<'_>) -> Poll<Answers<S, D>> {
        assert_ne!(self.done, OVER, "copies were polled after they had answered");
        // The others in any case: what they do while they are looked at should not wait.
        let (plain, others) = (self.poll_plain(cx), self.poll_others(cx));
        if plain.is_pending() || others.is_pending() { Poll::Pending } else { Poll::Ready(self.answer()) }
    }

    /// Looks at those that went plainly, one after the other: a device answers about in the order in which it was asked, so that the task is woken once or twice
    /// for all of them.
    fn poll_plain(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        while self.done < self.pairs.value_mut().len() {
            if self.current.is_none() {
                // SAFETY: `done` has just come to it.
                self.current = Some(unsafe { self.ticket(self.done) });
            }
            let (src, dst) = &mut self.pairs.value_mut()[self.done];
            let mut whole =
                || copy_of(src, dst).map_or(Operation::Nop, |(src, dst, len)| Operation::Copy { src, dst, len });
            let Some(ticket) = &mut self.current else { unreachable!("made just now") };
            // SAFETY: the buffers give the same ranges at each call, and are here since it was submitted.
            let failure = std::task::ready!(unsafe { poll_whole(ticket, &mut whole, cx) }).err();
            let ticket = self.current.take();
            if let Some(failure) = failure {
                let ticket = ticket.filter(|_| matches!(failure, Failure::Quarantined { .. }));
                self.rest.get_or_insert_with(Rest::new).failed.push((self.done, failure, ticket));
            }
            self.done += 1;
        }
        Poll::Ready(())
    }

    /// Looks at all the others: some of them do something only while they are looked at.
    fn poll_others(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut polled = Poll::Ready(());
        for other in self.rest.iter_mut().flat_map(|rest| &mut rest.others) {
            if let Other::Pending(offloading) = other {
                match Pin::new(offloading).poll(cx) {
                    Poll::Ready(answered) => *other = Other::Answered(answered),
                    Poll::Pending => polled = Poll::Pending,
                }
            }
        }
        polled
    }

    /// All are over.
    fn answer(&mut self) -> Answers<S, D> {
        self.done = OVER;
        // SAFETY: it was there until now, and nobody looks for it any more.
        let mut pairs = unsafe { ManuallyDrop::take(&mut self.pairs) }.into_inner();
        let Some(rest) = self.rest.take() else { return Ok(pairs) };
        let Rest { failed, others, .. } = *rest;
        let mut each = Vec::new();
        if failed.is_empty() {
            let mut others = others.into_iter().filter_map(Other::answer);
            loop {
                match others.next() {
                    None => return Ok(pairs),
                    Some(Ok(pair)) => pairs.push(pair),
                    Some(Err(failed)) => {
                        each.extend(pairs.into_iter().map(Ok).chain([Err(failed)]).chain(others));
                        return Err(FailedCopies { each });
                    }
                }
            }
        }
        let mut failed = failed.into_iter().peekable();
        for (number, pair) in pairs.into_iter().enumerate() {
            each.push(match failed.next_if(|(which, ..)| *which == number) {
                None => Ok(pair),
                Some((_, failure, None)) => Err(Failed { failure, buffers: Some(pair) }),
                Some((_, failure, Some(ticket))) => {
                    ticket.abandon(move || Box::new(Held::new(pair)));
                    Err(Failed { failure, buffers: None })
                }
            });
        }
        each.extend(others.into_iter().filter_map(Other::answer));
        Err(FailedCopies { each })
    }

    /// Nobody waits any more: while a device may use one of the buffers, all of them stay.
    fn abandon(&mut self) {
        // SAFETY: it is there, says the caller's look at `done`, and nobody looks for it any more.
        let mut pairs = unsafe { ManuallyDrop::take(&mut self.pairs) };
        let not_made = self.done + usize::from(self.current.is_some())..pairs.value_mut().len();
        let mut tickets: Vec<Ticket> = self.current.take().into_iter().collect();
        // SAFETY: of these none was made.
        tickets.extend(not_made.map(|number| unsafe { self.ticket(number) }));
        if let Some(rest) = &mut self.rest {
            tickets.extend(rest.failed.drain(..).filter_map(|(.., ticket)| ticket));
        }
        let kept = Arc::new(Mutex::new(pairs));
        for ticket in tickets {
            ticket.abandon(|| Box::new(Arc::clone(&kept)));
        }
    }
}

impl<S: ReadBuffer, D: WriteBuffer> Rest<S, D> {
    fn new() -> Box<Self> {
        Box::new(Self { more: Vec::new(), failed: Vec::new(), others: Vec::new() })
    }
}

impl<S: ReadBuffer, D: WriteBuffer> Other<S, D> {
    fn answer(self) -> Option<Answer<S, D>> {
        match self {
            Self::Answered(answer) => Some(answer),
            Self::Pending(_) => None, // not when all are over
        }
    }
}

/// Submits the first of these in one batch, as far as nothing about them is unusual.
#[inline(always)]
fn plainly<S: ReadBuffer, D: WriteBuffer>(copies: &Copies, pairs: &mut [(S, D)]) -> Option<Tickets> {
    let device = copies.center.device.as_ref()?;
    // One alone is no batch.
    if !matches!(copies.engine, Engine::Auto | Engine::Device) || pairs.len() < 2 {
        return None;
    }
    let most = pairs.len().min(TOGETHER);
    // SAFETY: the buffers' owner stays beside the tickets until they are over, or is left with them; buffers do not fork.
    unsafe {
        device.submit_copies(
            copies.engine == Engine::Device,
            copies.intent,
            &mut pairs[..most],
            |(src, dst)| copy_of(src, dst),
            |_, ticket| mem::forget(ticket), // made again when it is looked at
        )
    }
}

/// Begins those of `all` behind the first `went`: as far as they go plainly, that is their place; the others are taken out.
#[cold]
#[inline(never)]
fn begin_rest<S: ReadBuffer, D: WriteBuffer>(
    copies: &Copies,
    all: &mut Vec<(S, D)>,
    mut went: usize,
) -> Box<Rest<S, D>> {
    let mut rest = Rest::new();
    // A run that is short is the last one.
    while went > 0 && went % TOGETHER == 0 {
        let Some(tickets) = plainly(copies, &mut all[went..]) else { break };
        went += tickets.count();
        rest.more.push(tickets);
    }
    if went < all.len() {
        let mut others = Vec::with_capacity(all.len() - went);
        copy_many(copies, all.drain(went..), &mut others);
        rest.others = others.into_iter().map(Other::Pending).collect();
    }
    rest
}

impl<S: ReadBuffer, D: WriteBuffer> Future for CopyingAll<S, D> {
    type Output = Result<Vec<(S, D)>, FailedCopies<S, D>>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        // What was submitted just now is most likely not over.
        if let (0, None, Some(first), None) = (this.done, &this.current, &this.first, &this.rest) {
            // SAFETY: the first one to be made.
            let ticket = this.current.insert(unsafe { first.ticket(0) });
            if ticket.waits(cx.waker()) {
                return Poll::Pending;
            }
        }
        this.poll_all(cx)
    }
}

impl<S: ReadBuffer, D: WriteBuffer> Drop for CopyingAll<S, D> {
    fn drop(&mut self) {
        if self.done != OVER {
            self.abandon();
        }
    }
}

// Nothing in it is pinned: the memory that engines have the addresses of is elsewhere.
impl<S: ReadBuffer, D: WriteBuffer> Unpin for CopyingAll<S, D> {}

impl<S: ReadBuffer, D: WriteBuffer> fmt::Debug for CopyingAll<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.done == OVER { "CopyingAll(answered)" } else { "CopyingAll" })
    }
}

impl<S, D> FailedCopies<S, D> {
    /// Why they failed, each with its number.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &Failure)> {
        self.each.iter().enumerate().filter_map(|(number, one)| Some((number, &one.as_ref().err()?.failure)))
    }
}

impl<S, D> fmt::Debug for FailedCopies<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.failures()).finish()
    }
}

impl<S, D> fmt::Display for FailedCopies<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} copies failed", self.failures().count(), self.each.len())?;
        match self.failures().next() {
            Some((number, failure)) => write!(f, "; number {number}: {failure}"),
            None => Ok(()),
        }
    }
}

impl<S, D> std::error::Error for FailedCopies<S, D> {}
