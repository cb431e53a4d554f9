//! A chain that has begun: which of its operations are under way, which come next, and the future of its answer.
//!
//! What comes next is decided by [`waves`], which is pure, from what is left: so an operation that a batch left out, behind a fence that an earlier one's fault has closed,
//! is simply left, and comes when that one is done.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::buffer::{ReadBuffer, WriteBuffer};
use super::center::Center;
use super::chain::{Chain, StepId, Turn};
use super::copies::{Copies, Engine};
use super::cpu::{self, Work};
use super::device::{Device, Way};
use super::dsa::abi::limits::BATCH_MIN;
use super::dsa::chain::{Extent, Needs, Wave, scatter_gather, waves};
use super::flow::{How, NotTogether, Settled, Ticket};
use super::held::Held;
use super::route::Mode;
use super::submitted::Submitted;
use super::{Failed, Failure, Intent, Operation, Verdict, durable};

/// Operations of a chain that are with a device one by one, at most: more depth brings nothing (published: 32 entries reach the peak), and others want slots, too.
const SINGLES_MAX: usize = 32;

/// Those that are read, and those that are written.
type Buffers<S, D> = (Vec<S>, Vec<D>);

/// A chain that has begun; the future of its answer. From [`Copies::run`].
///
/// # Cancellation
/// As of an [`Offloading`](super::Offloading): none. Dropped, it gives the buffers up, which stay until the device has answered for what it has; the stages behind are not
/// begun.
///
/// # Panics
/// Polled after it was ready.
#[must_use = "the buffers come back by awaiting it"]
pub struct Chaining<S: ReadBuffer, D: WriteBuffer> {
    run: Run,
    /// `None`: given back.
    buffers: Option<Arc<Kept<Buffers<S, D>>>>,
}

/// What a chain came to, and its buffers.
#[derive(Clone, Debug)]
pub struct Chained<S, D> {
    /// The buffers that were read, in the order in which they were added.
    pub sources: Vec<S>,
    /// The buffers that were written, likewise.
    pub targets: Vec<D>,
    verdicts: Vec<Result<Verdict, Failure>>,
}

impl<S, D> Chained<S, D> {
    /// What an operation came to. [`Failure::NotDone`]: one that it waited for failed.
    ///
    /// # Panics
    /// The operation is of another, longer chain.
    pub fn verdict(&self, step: StepId) -> Result<Verdict, &Failure> {
        self.verdicts[step.0].as_ref().copied()
    }

    /// What each came to, in the order in which they were added.
    pub fn verdicts(&self) -> impl ExactSizeIterator<Item = Result<Verdict, &Failure>> {
        self.verdicts.iter().map(|verdict| verdict.as_ref().copied())
    }

    /// The first operation that failed, if one did.
    pub fn failure(&self) -> Option<&Failure> {
        self.verdicts.iter().find_map(|verdict| verdict.as_ref().err())
    }
}

/// Copies of lists of buffers; the future of their answer. From [`Copies::copy_list`].
///
/// # Cancellation
/// As of a [`Chaining`].
///
/// # Panics
/// Polled after it was ready.
#[must_use = "the buffers come back by awaiting it"]
#[derive(Debug)]
pub struct CopyingLists<S: ReadBuffer, D: WriteBuffer>(Chaining<S, D>);

/// Buffers that several operations use, until the last of them has ended.
struct Kept<T>(Held<T>);

// SAFETY: nobody gets at the value by a shared reference: it is taken out or dropped by the last that has it.
unsafe impl<T: Send> Sync for Kept<T> {}

impl Copies {
    /// Carries out a [`Chain`]: its first stage begins in this call, and what is small is done in it.
    ///
    /// One engine is chosen for all of it, by its largest operation; what a device does not have, or does not do to its end, is left to the CPU, operation by operation, in its turn. The
    /// CPU works where the future is polled, in slices between which the future yields.
    ///
    /// # Errors
    /// Of the future: [`Failed`] with the buffers if the chain cannot be carried out as it stands ([`Failure::Refused`]: nothing was done), and without them if a device has an
    /// operation and does not answer ([`Failure::Quarantined`]). What becomes of single operations stands in [`Chained`].
    ///
    /// # Cost
    /// Some allocations a chain.
    pub fn run<S: ReadBuffer, D: WriteBuffer>(&self, mut chain: Chain<S, D>) -> Chaining<S, D> {
        let operations = chain.operations();
        let turns = chain.steps.iter().map(|step| step.turn).collect();
        self.begin(operations, turns, chain.sources, chain.targets)
    }

    /// Copies the bytes of `sources`, one buffer after the other, to `targets`, filling one after the other: gathers if there is one target, scatters if there is one source, and
    /// cuts anew otherwise. All of the sources is copied; the targets have room for it. Answers with both.
    ///
    /// ```
    /// # let rt = twolane::Runtime::builder().build()?;
    /// let parts = vec![b"head".to_vec(), b"er, ".to_vec(), b"body".to_vec()];
    /// let (_, whole) = rt.block_on(rt.copies().copy_list(parts, vec![vec![0; 12]]))??;
    /// assert_eq!(whole[0], b"header, body");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Of the future: [`Failed`]; [`Failure::Refused`] if there is not room enough. What is in the targets then is undefined (initialised, as ever).
    ///
    /// # Cost
    /// Some allocations a list. On a device, a descriptor for each piece that lies within one source and one target, in batches where those are taken.
    pub fn copy_list<S: ReadBuffer, D: WriteBuffer>(&self, sources: Vec<S>, mut targets: Vec<D>) -> CopyingLists<S, D> {
        let from: Vec<_> =
            sources.iter().map(ReadBuffer::readable).map(|(start, bytes)| Extent { start, bytes }).collect();
        let to: Vec<_> =
            targets.iter_mut().map(WriteBuffer::writable).map(|(start, bytes)| Extent { start, bytes }).collect();
        let total = |sum: usize, bytes: &usize| sum.saturating_add(*bytes);
        let wanted = from.iter().map(|extent| extent.bytes).fold(0, |sum, bytes| total(sum, &bytes));
        let room = to.iter().map(|extent| extent.bytes).fold(0, |sum, bytes| total(sum, &bytes));
        let operations = super::check_room("list of targets", room, wanted)
            .map(|()| scatter_gather(&from, &to, self.piece_max()).collect::<Vec<_>>());
        let turns = vec![Turn::default(); operations.as_ref().map_or(0, Vec::len)];
        CopyingLists(self.begin(operations, turns, sources, targets))
    }

    /// The largest piece that any queue takes: what is larger is cut again.
    fn piece_max(&self) -> usize {
        let queues = self.center.device.iter().flat_map(|device| device.flow.queues().iter());
        let least = queues.map(|(_, queue)| queue.limits().transfer_max).min();
        least.and_then(|max| usize::try_from(max).ok()).unwrap_or(usize::MAX)
    }

    fn begin<S: ReadBuffer, D: WriteBuffer>(
        &self,
        operations: Result<Vec<Operation>, Failure>,
        turns: Vec<Turn>,
        sources: Vec<S>,
        targets: Vec<D>,
    ) -> Chaining<S, D> {
        let run = match operations.and_then(|operations| Run::new(self, operations, turns)) {
            Ok(run) => run,
            Err(failure) => {
                self.center.counts.refused();
                Run::refused(&self.center, failure)
            }
        };
        let mut chaining = Chaining { run, buffers: Some(Arc::new(Kept(Held::new((sources, targets))))) };
        if chaining.run.begins_at_once() {
            // SAFETY: the buffers are beside it; see `Chaining`'s `poll` and `drop`.
            let _ = unsafe { chaining.run.poll(usize::MAX, &mut Context::from_waker(Waker::noop())) };
        }
        chaining
    }
}

impl<S: ReadBuffer, D: WriteBuffer> Future for Chaining<S, D> {
    type Output = Result<Chained<S, D>, Failed<Buffers<S, D>>>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        assert!(this.buffers.is_some(), "a chain was polled after it had answered");
        let slice = this.run.center.sizes.slice;
        // SAFETY: the buffers are beside it, and left with what is outstanding when they go.
        std::task::ready!(unsafe { this.run.poll(slice, cx) });
        let quarantined = this.run.quarantined();
        this.leave();
        let Some(buffers) = this.buffers.take() else { unreachable!("asserted above") };
        if let Some(failure) = quarantined {
            return Poll::Ready(Err(Failed { failure, buffers: None }));
        }
        let Ok(Kept(held)) = Arc::try_unwrap(buffers) else {
            unreachable!("nothing is outstanding, and nothing else has them")
        };
        let (sources, targets) = held.into_inner();
        Poll::Ready(match this.run.refused.take() {
            Some(failure) => Err(Failed { failure, buffers: Some((sources, targets)) }),
            None => Ok(Chained { sources, targets, verdicts: this.run.verdicts() }),
        })
    }
}

impl<S: ReadBuffer, D: WriteBuffer> Chaining<S, D> {
    /// Leaves the buffers with all that is outstanding.
    fn leave(&mut self) {
        let Some(buffers) = &self.buffers else { return };
        for outstanding in self.run.take_outstanding() {
            let buffers = Arc::clone(buffers);
            match outstanding {
                Outstanding::Alone(submitted) => submitted.abandon(buffers),
                Outstanding::Child(ticket) => ticket.abandon(|| Box::new(buffers)),
            }
        }
    }
}

impl<S: ReadBuffer, D: WriteBuffer> Drop for Chaining<S, D> {
    fn drop(&mut self) {
        self.leave();
    }
}

// Nothing in it is pinned: the memory that engines have the addresses of is elsewhere.
impl<S: ReadBuffer, D: WriteBuffer> Unpin for Chaining<S, D> {}

impl<S: ReadBuffer, D: WriteBuffer> fmt::Debug for Chaining<S, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chaining")
            .field("operations", &self.run.operations.len())
            .field("over", &self.run.first)
            .finish_non_exhaustive()
    }
}

impl<S: ReadBuffer, D: WriteBuffer> Future for CopyingLists<S, D> {
    type Output = Result<Buffers<S, D>, Failed<Buffers<S, D>>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let chained = std::task::ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(chained.and_then(|done| match done.failure().cloned() {
            Some(failure) => Err(Failed { failure, buffers: Some((done.sources, done.targets)) }),
            None => Ok((done.sources, done.targets)),
        }))
    }
}

/// The operations of a chain, without its buffers.
struct Run {
    center: Arc<Center>,
    operations: Vec<Operation>,
    turns: Vec<Turn>,
    hands: Vec<Hand>,
    /// Those before this one are over.
    first: usize,
    /// `None`: the CPU does it all.
    how: Option<How>,
    /// The device was asked for by name.
    demanded: bool,
    durable: bool,
    /// Several stages may go in one batch, with fences.
    batches: bool,
    /// Given up by the reaper, with the buffers.
    given_up: Vec<Outstanding>,
    refused: Option<Failure>,
}

/// Where an operation is.
enum Hand {
    Todo,
    Device(Outstanding),
    Cpu(Work),
    Over(Result<Verdict, Failure>),
}

enum Outstanding {
    Alone(Submitted),
    Child(Ticket),
}

impl Run {
    fn new(copies: &Copies, operations: Vec<Operation>, turns: Vec<Turn>) -> Result<Self, Failure> {
        let center = &copies.center;
        let demanded = copies.engine == Engine::Device;
        let largest = operations.iter().max_by_key(|operation| operation.len()).filter(|largest| largest.len() > 0);
        let device = center.device.as_ref().filter(|_| !matches!(copies.engine, Engine::Cpu | Engine::CpuHere));
        let how = device.zip(largest).and_then(|(device, largest)| {
            match device.way(largest, copies.intent, copies.engine, Mode::Batched, false) {
                Way::Queue { how, .. } => Some(how),
                Way::Cpu { .. } => None,
            }
        });
        if demanded && largest.is_some() && how.is_none() {
            let what = "no device: there is no work queue that can be used, see `twolane doctor`".into();
            return Err(Failure::Refused { what });
        }
        let hands = operations.iter().map(|_| Hand::Todo).collect();
        Ok(Self {
            center: Arc::clone(center),
            operations,
            turns,
            hands,
            first: 0,
            how,
            demanded,
            durable: copies.intent == Intent::Durable,
            batches: true,
            given_up: Vec::new(),
            refused: None,
        })
    }

    fn refused(center: &Arc<Center>, failure: Failure) -> Self {
        Self {
            center: Arc::clone(center),
            operations: Vec::new(),
            turns: Vec::new(),
            hands: Vec::new(),
            first: 0,
            how: None,
            demanded: false,
            durable: false,
            batches: false,
            given_up: Vec::new(),
            refused: Some(failure),
        }
    }

    /// Whether the call that asks for it does some of it: hands it to a device, or does what is small.
    fn begins_at_once(&self) -> bool {
        let bytes = || self.operations.iter().fold(0_usize, |sum, operation| sum.saturating_add(operation.len()));
        self.how.is_some() || bytes() <= self.center.sizes.at_once_max
    }

    /// Looks after what is under way, and begins what may begin. The CPU works on `budget` bytes, about.
    ///
    /// # Safety
    /// The operations' memory is valid for them, and not used otherwise, until this has said `Ready` and [`take_outstanding`](Self::take_outstanding) has nothing; what it
    /// has is abandoned with the memory.
    unsafe fn poll(&mut self, mut budget: usize, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            // SAFETY: says the caller.
            let begun = unsafe { self.begin() };
            // SAFETY: says the caller.
            let ended = unsafe { self.look(&mut budget, cx) };
            self.first += self.hands[self.first..].iter().take_while(|hand| matches!(hand, Hand::Over(_))).count();
            if self.first == self.hands.len() {
                return Poll::Ready(());
            }
            if !begun && !ended {
                return Poll::Pending;
            }
        }
    }

    /// What is under way. Whether some of it ended.
    ///
    /// # Safety
    /// As [`poll`](Self::poll).
    unsafe fn look(&mut self, budget: &mut usize, cx: &mut Context<'_>) -> bool {
        let mut ended = false;
        for at in self.first..self.hands.len() {
            let operation = self.operations[at];
            let settled = match &mut self.hands[at] {
                Hand::Todo | Hand::Over(_) => continue,
                Hand::Cpu(work) => {
                    if *budget == 0 {
                        cx.waker().wake_by_ref(); // others have the lane in between
                        continue;
                    }
                    // SAFETY: says the caller; it is not over, or its hand would be another.
                    let verdict = unsafe { work.advance(*budget) };
                    *budget = budget.saturating_sub(operation.len());
                    match verdict {
                        None => {
                            *budget = 0;
                            cx.waker().wake_by_ref();
                            continue;
                        }
                        // SAFETY: says the caller.
                        Some(verdict) => unsafe { self.written(Ok(verdict), &operation) },
                    }
                }
                Hand::Device(Outstanding::Alone(submitted)) => {
                    // SAFETY: says the caller; it is what was submitted.
                    match unsafe { submitted.poll(&mut || operation, cx) } {
                        Poll::Pending => continue,
                        Poll::Ready(result) => result,
                    }
                }
                Hand::Device(Outstanding::Child(ticket)) => {
                    // SAFETY: as above.
                    let settled = match unsafe { ticket.poll(|| operation, cx.waker()) } {
                        Poll::Pending => continue,
                        Poll::Ready(settled) => settled,
                    };
                    // SAFETY: says the caller; the device is done with it, or it is given up.
                    match unsafe { self.settle(settled, &operation) } {
                        Some(result) => result,
                        None => {
                            self.hands[at] = Hand::Todo;
                            // A batch that was stopped, or whose list was not read: what is left goes stage by stage, so that this ends.
                            self.batches = false;
                            ended = true;
                            continue;
                        }
                    }
                }
            };
            ended = true;
            let given_up = matches!(settled, Err(Failure::Quarantined { .. }));
            if let (Hand::Device(outstanding), true) =
                (std::mem::replace(&mut self.hands[at], Hand::Over(settled)), given_up)
            {
                self.given_up.push(outstanding);
            }
        }
        ended
    }

    /// What became of one of a batch; `None`: it did not run.
    ///
    /// # Safety
    /// As [`poll`](Self::poll); no device has it.
    unsafe fn settle(&self, settled: Settled, operation: &Operation) -> Option<Result<Verdict, Failure>> {
        let (verdict, write_back) = match settled {
            Settled::NeverRan => return None,
            Settled::Failed(failure) => return Some(Err(failure)),
            Settled::Done(verdict) => (verdict, false),
            Settled::WriteBack(verdict) => (verdict, true),
            Settled::OnCpu { rest, write_back, .. } => {
                let stores = self.center.stores(rest.operation.len());
                // SAFETY: says the caller; what is left is a part of it.
                match unsafe { cpu::perform(&rest.operation, stores) } {
                    Ok(verdict) => (rest.lift(verdict), write_back),
                    Err(failure) => return Some(Err(failure)),
                }
            }
        };
        if write_back {
            // SAFETY: says the caller.
            unsafe { durable::write_back(operation) };
        }
        Some(Ok(verdict))
    }

    /// The CPU did it: where durability was asked for, it writes it back, too.
    ///
    /// # Safety
    /// As [`settle`](Self::settle).
    unsafe fn written(&self, result: Result<Verdict, Failure>, operation: &Operation) -> Result<Verdict, Failure> {
        if self.durable && result.is_ok() {
            // SAFETY: says the caller.
            unsafe { durable::write_back(operation) };
        }
        result
    }

    /// Begins what may begin. Whether something did, or is not to be done at all.
    ///
    /// # Safety
    /// As [`poll`](Self::poll).
    unsafe fn begin(&mut self) -> bool {
        let Some(next) = (self.first..self.hands.len()).find(|&at| !matches!(self.hands[at], Hand::Over(_))) else {
            return false;
        };
        let stage = self.turns[next].stage;
        if self.skip(stage) {
            return true;
        }
        let under_way = self.hands[next..].iter().filter(|hand| matches!(hand, Hand::Device(_) | Hand::Cpu(_))).count();
        // Beside what is under way, only others of its stage.
        let last = if under_way > 0 { stage } else { usize::MAX };
        let is_todo = |at: &usize| matches!(self.hands[*at], Hand::Todo) && self.turns[*at].stage <= last;
        let todo: Vec<usize> = (next..self.hands.len()).filter(is_todo).collect();
        if todo.is_empty() {
            return false;
        }
        let Some(how) = self.how else {
            // One after the other.
            return under_way == 0 && {
                self.give_to_cpu(todo[0]);
                true
            };
        };
        let center = Arc::clone(&self.center);
        let Some(device) = &center.device else { unreachable!("a device was chosen") };
        // SAFETY: says the caller.
        unsafe { self.submit(device, how, &todo, under_way) }
    }

    /// Submits what may go now of `todo`, which are in their order.
    ///
    /// # Safety
    /// As [`poll`](Self::poll).
    unsafe fn submit(&mut self, device: &Device, how: How, todo: &[usize], mut under_way: usize) -> bool {
        let batch_max = if self.batches { device.flow.batch_max(how.queue) } else { 0 };
        let needs = self.needs(todo);
        let at_once: Vec<Wave> = waves(&needs, BATCH_MIN, batch_max as u32).take_while(|wave| !wave.waits).collect(); // at most a list's
        let mut begun = false;
        for wave in at_once {
            let members = &todo[wave.range.clone()];
            members.iter().for_each(|&at| self.take_seed(at));
            if wave.batch {
                let operation =
                    |(n, &at): (usize, &usize)| (self.operations[at], wave.is_fenced(&needs, wave.range.start + n));
                let operations: Vec<_> = members.iter().enumerate().map(operation).collect();
                let mut tickets = Vec::with_capacity(members.len());
                // SAFETY: says the caller.
                match unsafe { device.flow.submit_fenced(&operations, how, |ticket| tickets.push(ticket)) } {
                    Ok(()) => {
                        for (&at, ticket) in members.iter().zip(tickets) {
                            self.hands[at] = Hand::Device(Outstanding::Child(ticket));
                        }
                        (begun, under_way) = (true, under_way + members.len());
                        continue;
                    }
                    // What is under way makes room, and wakes.
                    Err(NotTogether::Now) if under_way > 0 => return begun,
                    // One by one, each of which waits for room by itself.
                    Err(_) => {
                        self.batches = false;
                        return true;
                    }
                }
            }
            for &at in members {
                if under_way >= SINGLES_MAX {
                    return begun;
                }
                let operation = self.operations[at];
                // SAFETY: says the caller.
                let submitted = match cpu::check(&operation).ok().filter(|()| operation.len() > 0) {
                    // SAFETY: says the caller.
                    Some(()) => unsafe { Submitted::new(&self.center, device, &operation, how, self.demanded, None) },
                    None => Err(()), // nothing to do, or an error, which the CPU tells
                };
                match submitted {
                    Ok(submitted) => self.hands[at] = Hand::Device(Outstanding::Alone(submitted)),
                    Err(()) => self.give_to_cpu(at),
                }
                (begun, under_way) = (true, under_way + 1);
            }
        }
        begun
    }

    fn give_to_cpu(&mut self, at: usize) {
        self.take_seed(at);
        let operation = &self.operations[at];
        self.hands[at] = match Work::new(operation, self.center.stores(operation.len())) {
            Ok(work) => Hand::Cpu(work),
            Err(failure) => Hand::Over(Err(failure)),
        };
    }

    /// The checksum that it goes on with is known by now.
    fn take_seed(&mut self, at: usize) {
        let Some(Hand::Over(Ok(Verdict::Crc(crc)))) = self.turns[at].seed_of.and_then(|of| self.hands.get(of)) else {
            return;
        };
        if let Operation::Crc { seed, .. } | Operation::CopyCrc { seed, .. } = &mut self.operations[at] {
            *seed = *crc;
        }
    }

    /// What each of those that are left waits for among those that are left.
    fn needs(&self, todo: &[usize]) -> Vec<Needs> {
        let need = |(n, &at): (usize, &usize)| {
            let unknown = |of: usize| !matches!(self.hands[of], Hand::Over(_));
            match self.turns[at].seed_of {
                Some(of) if unknown(of) => Needs::Answer,
                _ if n > 0 && self.turns[at].stage != self.turns[todo[n - 1]].stage => Needs::Order,
                _ => Needs::Nothing,
            }
        };
        todo.iter().enumerate().map(need).collect()
    }

    /// If one of a stage before `stage` failed, what is not begun will not be. Whether that is so.
    fn skip(&mut self, stage: usize) -> bool {
        let failed = |at: &usize| matches!(self.hands[*at], Hand::Over(Err(_))) && self.turns[*at].stage < stage;
        let Some(because) = (0..self.hands.len()).find(failed) else { return false };
        let mut skipped = false;
        for at in self.first..self.hands.len() {
            if matches!(self.hands[at], Hand::Todo) {
                self.hands[at] = Hand::Over(Err(Failure::NotDone { because }));
                skipped = true;
            }
        }
        skipped
    }

    /// Why the buffers cannot be given back, if they cannot.
    fn quarantined(&self) -> Option<Failure> {
        let given_up = |hand: &Hand| match hand {
            Hand::Over(Err(failure @ Failure::Quarantined { .. })) => Some(failure.clone()),
            _ => None,
        };
        self.hands.iter().find_map(given_up)
    }

    /// All that a device may still have.
    fn take_outstanding(&mut self) -> Vec<Outstanding> {
        let mut all = std::mem::take(&mut self.given_up);
        for hand in &mut self.hands {
            if let Hand::Device(_) = hand {
                if let Hand::Device(outstanding) = std::mem::replace(hand, Hand::Over(Err(Failure::Shutdown))) {
                    all.push(outstanding);
                }
            }
        }
        all
    }

    fn verdicts(&mut self) -> Vec<Result<Verdict, Failure>> {
        let verdict = |hand| match hand {
            Hand::Over(verdict) => verdict,
            _ => unreachable!("all are over"),
        };
        std::mem::take(&mut self.hands).into_iter().map(verdict).collect()
    }
}
