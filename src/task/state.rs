//! The state word: where a task is in its life, who may touch which part of it, and how many still refer to it.
//!
//! One `AtomicUsize` holds flags and the reference count. Nobody else looks at bits: every change is a named transition, a pure
//! function on a [`Word`] that answers with the next word and with the caller's duty, and [`State`] applies it atomically.
//!
//! ```text
//!                3 claim (the runnable left behind is stale: CLAIMED)
//!             ┌──────────────────────────────┐
//!             │                              ▼
//!  1 new ─► QUEUED ────── 2 start ──────► RUNNING ─────── 8 complete ──────► COMPLETE ─── 9 release, the last ───► freed
//!             ▲ ▲                          │ │ ▲ │
//!             │ └── 5 suspend (was woken) ─┘ │ └─┘ 6 wake, abort: noted for `suspend`
//!             │                              │
//!             │                              ▼ 5 suspend
//!             └──── 7 wake, abort, ──────── IDLE
//!                   9 release, the last
//!                     (a future nobody can wake any more is queued to be dropped)
//! ```
//!
//! QUEUED is `SCHEDULED` without `RUNNING`; IDLE is none of `SCHEDULED`, `RUNNING` and `COMPLETE`. A closure is never idle: it
//! finishes in its first poll. Beside these edges there are: *stale* (10), where a runnable left behind by a claim clears `CLAIMED` and
//! goes; *publish* and *retract* (11), which pass the join waker's slot to the completer and back; *detach* (12), the handle's end.
//!
//! # Orderings
//!
//! Every transition is one read-modify-write with `AcqRel`, also where it leaves the word as it was (a wake that finds the task
//! queued), so that all of them stand in one release sequence: whoever starts, completes, joins or frees a task sees everything that
//! was done before any earlier transition. Transitions that write nothing decide on an `Acquire` load and say why that is enough.

use std::fmt;
use std::process::abort;

use crate::sync::atomic::AtomicUsize;
use crate::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// A fresh [`Runnable`](super::Runnable) exists or, together with `RUNNING`, the runner owes one (the task was woken meanwhile).
/// Set by *new*, *wake*, *abort* and the last *release*; cleared by *start*, *claim* and *complete*.
const SCHEDULED: usize = 1 << 0;

/// A runner has the body to itself. Set by *start* and *claim*; cleared by the same runner, in *suspend* or *complete*.
const RUNNING: usize = 1 << 1;

/// The body is gone; the output lies in its place if there was a handle to take it. Set by *complete*, never cleared, never together with
/// `RUNNING` or `SCHEDULED`.
const COMPLETE: usize = 1 << 2;

/// The body is to be dropped at the next occasion instead of being polled. Set by *abort* and the last *release*; never cleared.
const ABORTED: usize = 1 << 3;

/// The [`JoinHandle`](super::JoinHandle) exists. Set by *new*; cleared by *detach*. Whoever of *complete* and *detach* comes second
/// has to drop the output.
const HANDLE: usize = 1 << 4;

/// The slot of the join waker belongs to the completer; without the bit it belongs to the handle. Set by *publish*; cleared by *retract* and
/// *detach*, and by nobody once the task is complete.
const WAKER: usize = 1 << 5;

/// A stale runnable is in some queue. Set by *claim*; cleared by *stale*. At most one: a second claim waits for it.
const CLAIMED: usize = 1 << 6;

/// One reference; the count fills the word from here up. Runnables (fresh and stale), runners, wakers and the handle own one each.
const REFERENCE: usize = 1 << 7;

/// A count past half its range aborts the process, as `Arc` does: threads that count up at once cannot cover the other half.
const WORD_MAX: usize = usize::MAX / 2;

/// The word, shared.
pub(super) struct State(AtomicUsize);

/// The word, as read at one moment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(usize);

/// What to do with the task of a runnable that was popped.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// The body is yours: poll it.
    Poll,
    /// The body is yours: drop it, the task was aborted.
    Cancel,
    /// It runs or ran elsewhere: release the runnable's reference.
    Stale,
}

/// Whether a handle got the body.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// The body is yours, and a reference of your own.
    Granted,
    /// It is not queued, or an earlier claim left a stale runnable in the queue.
    Refused,
}

/// What a runner has to do after its future was pending.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspend {
    /// Nothing: body and reference are given up.
    Idle,
    /// Schedule a runnable, for which a reference was added, then release your own.
    Requeue,
    /// The body is still yours: drop it, the task was aborted or nobody is left to wake it.
    Cancel,
}

/// What a runner has to do after it stored the output.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complete {
    /// Nothing: the output is the handle's, your reference is given up.
    Released,
    /// Take the join waker out of its slot, release your reference, wake.
    WakeJoiner,
    /// There is no handle: drop the output, release your reference.
    DropOutput,
}

/// Whether a wake or an abort has to queue the task.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Submit {
    /// Schedule a runnable; a reference was added for it.
    Schedule,
    /// Nothing: whoever runs or pops the task will notice, or it is complete.
    Nothing,
}

/// Who has the join waker's slot after *publish* or *retract*.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// As asked: the completer after *publish*, the handle after *retract*.
    Passed,
    /// The task is complete, take the output. The slot stays where it was.
    Complete,
}

/// What a handle has to do at its end.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detach {
    /// Nothing: the reference is given up.
    Released,
    /// Empty the slot of the join waker, release your reference.
    DropWaker,
    /// The task is complete: drop the output, release your reference.
    DropOutput,
}

/// What giving up a reference asks for.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// Nothing.
    Shared,
    /// It was the last one: free the allocation.
    Free,
    /// It was the last one of an idle future. Schedule a runnable, so that a lane drops the body; your reference is back, and one for the
    /// runnable: release yours again afterwards.
    Bury,
}

impl State {
    /// Edge 1: queued, with a reference for the runnable and one for the handle.
    pub(super) fn new() -> Self {
        Self(AtomicUsize::new(Word::NEW.0))
    }

    /// Edges 2 and 10, by whoever popped a runnable.
    pub(super) fn start(&self) -> Start {
        self.apply(Word::start)
    }

    /// Edge 3, by the handle.
    pub(super) fn claim(&self) -> Claim {
        self.apply(Word::claim)
    }

    /// Edge 5, by the runner.
    pub(super) fn suspend(&self) -> Suspend {
        self.apply(Word::suspend)
    }

    /// Edge 8, by the runner, after the body is gone and the output is stored.
    pub(super) fn complete(&self) -> Complete {
        self.apply(Word::complete)
    }

    /// Edges 6 and 7, by the owner of a waker.
    pub(super) fn wake(&self) -> Submit {
        self.apply(Word::wake)
    }

    /// Edges 6 and 7, by the handle or the registry.
    pub(super) fn abort(&self) -> Submit {
        self.apply(Word::abort)
    }

    /// Edge 7, by the registry: as [`abort`](Self::abort), but only of a future that waits.
    pub(super) fn abort_idle(&self) -> Submit {
        self.apply(Word::abort_idle)
    }

    /// Edge 11, by the handle: gives the slot, filled, to the completer.
    pub(super) fn publish(&self) -> Slot {
        self.apply(Word::publish)
    }

    /// Edge 11, by the handle: takes the slot back.
    pub(super) fn retract(&self) -> Slot {
        self.apply(Word::retract)
    }

    /// Edge 12, by the handle.
    pub(super) fn detach(&self) -> Detach {
        self.apply(Word::detach)
    }

    /// Edge 9, by any owner of a reference.
    pub(super) fn release(&self) -> Release {
        self.apply(Word::release)
    }

    /// Adds a reference, by any owner of one.
    pub(super) fn retain(&self) {
        // Relaxed: the caller's reference keeps the task alive, and the new owner learns of it by the caller's own means.
        if self.0.fetch_add(REFERENCE, Relaxed) > WORD_MAX {
            abort();
        }
    }

    /// The word now, with everything that happened before it got that value.
    pub(super) fn load(&self) -> Word {
        // Acquire: partner is the Release half of `complete`; a handle that reads `COMPLETE` goes on to read the output.
        Word(self.0.load(Acquire))
    }

    /// Applies a transition; again if another thread came in between.
    fn apply<D>(&self, transition: impl Fn(Word) -> (Option<Word>, D)) -> D {
        let mut now = self.load();
        loop {
            let (next, duty) = transition(now);
            let Some(next) = next else { return duty };
            // AcqRel: see "Orderings" above; the partners are all other transitions.
            match self.0.compare_exchange_weak(now.0, next.0, AcqRel, Acquire) {
                Ok(_) => return duty,
                Err(changed) => now = Word(changed),
            }
        }
    }
}

/// The transitions, as pure functions: the next word (`None` leaves it alone) and the duty of the caller.
impl Word {
    const NEW: Self = Self(SCHEDULED | HANDLE | (2 * REFERENCE));

    /// The body is gone and the output was stored or dropped.
    pub(super) fn is_complete(self) -> bool {
        self.has(COMPLETE)
    }

    /// The body is to be dropped, not polled.
    pub(super) fn is_aborted(self) -> bool {
        self.has(ABORTED)
    }

    fn start(self) -> (Option<Self>, Start) {
        // Of a stale and a fresh runnable in the queues, the first to be popped goes and the second one runs: they are alike.
        if self.has(CLAIMED) {
            return (Some(self.without(CLAIMED)), Start::Stale);
        }
        debug_assert!(self.is_queued(), "a runnable was popped of a task that has none: {self:?}");
        let next = self.without(SCHEDULED).with(RUNNING);
        (Some(next), if self.has(ABORTED) { Start::Cancel } else { Start::Poll })
    }

    fn claim(self) -> (Option<Self>, Claim) {
        if !self.is_queued() || self.has(CLAIMED) {
            return (None, Claim::Refused);
        }
        (Some(self.without(SCHEDULED).with(RUNNING | CLAIMED).plus_reference()), Claim::Granted)
    }

    fn suspend(self) -> (Option<Self>, Suspend) {
        debug_assert!(self.has(RUNNING) && !self.has(COMPLETE), "suspended without running: {self:?}");
        // The sole reference is the runner's, no waker, no handle, and it was not woken meanwhile (by itself, or by a waker that is gone). Writing
        // nothing is enough, since nobody is left to change the word.
        if self.has(ABORTED) || (self.references() == 1 && !self.has(SCHEDULED)) {
            return (None, Suspend::Cancel);
        }
        let next = self.without(RUNNING);
        if self.has(SCHEDULED) {
            (Some(next.plus_reference()), Suspend::Requeue)
        } else {
            (Some(next.minus_reference()), Suspend::Idle)
        }
    }

    fn complete(self) -> (Option<Self>, Complete) {
        debug_assert!(self.has(RUNNING) && !self.has(COMPLETE), "completed without running: {self:?}");
        let next = self.without(RUNNING | SCHEDULED).with(COMPLETE);
        if !self.has(HANDLE) {
            (Some(next), Complete::DropOutput)
        } else if self.has(WAKER) {
            (Some(next), Complete::WakeJoiner)
        } else {
            (Some(next.minus_reference()), Complete::Released)
        }
    }

    fn wake(self) -> (Option<Self>, Submit) {
        if self.has(COMPLETE) {
            (None, Submit::Nothing)
        } else if self.is_idle() {
            (Some(self.with(SCHEDULED).plus_reference()), Submit::Schedule)
        } else {
            // Written even if nothing changes: the next *start* or *suspend* has to see what the waking thread did before.
            (Some(self.with(SCHEDULED)), Submit::Nothing)
        }
    }

    fn abort(self) -> (Option<Self>, Submit) {
        if self.has(COMPLETE | ABORTED) {
            (None, Submit::Nothing)
        } else if self.is_idle() {
            (Some(self.with(SCHEDULED | ABORTED).plus_reference()), Submit::Schedule)
        } else {
            (Some(self.with(ABORTED)), Submit::Nothing)
        }
    }

    fn abort_idle(self) -> (Option<Self>, Submit) {
        // An idle task is never ABORTED: *abort* queues it in the same step.
        if self.is_idle() { self.abort() } else { (None, Submit::Nothing) }
    }

    fn publish(self) -> (Option<Self>, Slot) {
        debug_assert!(self.has(HANDLE) && !self.has(WAKER), "published twice or by a stranger: {self:?}");
        if self.has(COMPLETE) { (None, Slot::Complete) } else { (Some(self.with(WAKER)), Slot::Passed) }
    }

    fn retract(self) -> (Option<Self>, Slot) {
        debug_assert!(self.has(HANDLE), "retracted by a stranger: {self:?}");
        if self.has(COMPLETE) {
            (None, Slot::Complete)
        } else if self.has(WAKER) {
            (Some(self.without(WAKER)), Slot::Passed)
        } else {
            // It never left the handle; only the handle could give it away.
            (None, Slot::Passed)
        }
    }

    fn detach(self) -> (Option<Self>, Detach) {
        debug_assert!(self.has(HANDLE), "detached twice: {self:?}");
        let next = self.without(HANDLE | WAKER);
        if self.has(COMPLETE) {
            // The completer saw the handle and left the output to it; nobody looks at `HANDLE` any more.
            (None, Detach::DropOutput)
        } else if self.has(WAKER) || self.references() == 1 {
            // The last reference of an idle future goes through *release*, which knows what to do.
            (Some(next), Detach::DropWaker)
        } else {
            (Some(next.minus_reference()), Detach::Released)
        }
    }

    fn release(self) -> (Option<Self>, Release) {
        if self.references() > 1 {
            (Some(self.minus_reference()), Release::Shared)
        } else if self.has(COMPLETE) {
            // Nobody else is left to change the word; the Acquire load has seen what the others did before they released theirs.
            (None, Release::Free)
        } else {
            debug_assert!(self.is_idle() && !self.has(HANDLE), "a reference was lost: {self:?}");
            (Some(self.with(SCHEDULED | ABORTED).plus_reference()), Release::Bury)
        }
    }

    /// Any of `flags` is set.
    fn has(self, flags: usize) -> bool {
        self.0 & flags != 0
    }

    fn is_queued(self) -> bool {
        self.has(SCHEDULED) && !self.has(RUNNING | COMPLETE)
    }

    fn is_idle(self) -> bool {
        !self.has(SCHEDULED | RUNNING | COMPLETE)
    }

    fn references(self) -> usize {
        self.0 / REFERENCE
    }

    fn with(self, flags: usize) -> Self {
        Self(self.0 | flags)
    }

    fn without(self, flags: usize) -> Self {
        Self(self.0 & !flags)
    }

    fn plus_reference(self) -> Self {
        if self.0 > WORD_MAX {
            abort();
        }
        Self(self.0 + REFERENCE)
    }

    fn minus_reference(self) -> Self {
        debug_assert!(self.references() > 1, "the last reference goes through `release`: {self:?}");
        Self(self.0 - REFERENCE)
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.load().fmt(f)
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [(usize, &str); 7] = [
            (SCHEDULED, "scheduled"),
            (RUNNING, "running"),
            (COMPLETE, "complete"),
            (ABORTED, "aborted"),
            (HANDLE, "handle"),
            (WAKER, "waker"),
            (CLAIMED, "claimed"),
        ];
        for (_, name) in NAMES.iter().filter(|(flag, _)| self.has(*flag)) {
            write!(f, "{name}|")?;
        }
        write!(f, "{} references", self.references())
    }
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;

    /// A word: its flags and its count of references.
    type Parts = (usize, usize);

    fn word((flags, references): Parts) -> Word {
        Word(flags | (references * REFERENCE))
    }

    const S: usize = SCHEDULED;
    const R: usize = RUNNING;
    const C: usize = COMPLETE;
    const A: usize = ABORTED;
    const H: usize = HANDLE;
    const W: usize = WAKER;
    const L: usize = CLAIMED;

    /// Rows of the word before, the word after (`None`: left alone), and the caller's duty.
    fn check<D: PartialEq + fmt::Debug>(
        transition: impl Fn(Word) -> (Option<Word>, D),
        rows: &[(Parts, Option<Parts>, D)],
    ) {
        for (before, after, duty) in rows {
            let before = word(*before);
            let (next, told) = transition(before);
            assert_eq!(next, after.map(word), "from {before:?}");
            assert_eq!(&told, duty, "from {before:?}");
        }
    }

    #[test]
    fn start_takes_a_queued_body_or_clears_one_claim() {
        check(
            Word::start,
            &[
                ((S | H, 2), Some((R | H, 2)), Start::Poll),
                ((S | A, 1), Some((R | A, 1)), Start::Cancel),
                ((R | L | H, 3), Some((R | H, 3)), Start::Stale),
                ((L | H, 2), Some((H, 2)), Start::Stale),
                ((C | L, 1), Some((C, 1)), Start::Stale),
                ((S | L, 3), Some((S, 3)), Start::Stale), // the other runnable of the two will run
                ((S | R | L, 3), Some((S | R, 3)), Start::Stale),
            ],
        );
    }

    #[test]
    fn a_claim_is_granted_while_queued_and_once_at_a_time() {
        check(
            Word::claim,
            &[
                ((S | H, 2), Some((R | L | H, 3)), Claim::Granted),
                ((S | A | H, 2), Some((R | A | L | H, 3)), Claim::Granted), // to be dropped by the claimer
                ((S | L | H, 3), None, Claim::Refused),
                ((S | R | H, 3), None, Claim::Refused),
                ((R | H, 2), None, Claim::Refused),
                ((H, 2), None, Claim::Refused),
                ((C | H, 2), None, Claim::Refused),
            ],
        );
    }

    #[test]
    fn a_pending_future_idles_requeues_or_ends() {
        check(
            Word::suspend,
            &[
                ((R | H, 2), Some((H, 1)), Suspend::Idle),
                ((R, 2), Some((0, 1)), Suspend::Idle),
                ((R | S | H, 2), Some((S | H, 3)), Suspend::Requeue),
                ((R | L, 2), Some((L, 1)), Suspend::Idle), // the stale runnable's reference is left
                ((R | A | H, 2), None, Suspend::Cancel),
                ((R | S | A | H, 2), None, Suspend::Cancel),
                ((R, 1), None, Suspend::Cancel),              // no waker and no handle
                ((R | S, 1), Some((S, 2)), Suspend::Requeue), // the same, but woken: a detached future that yields
            ],
        );
    }

    #[test]
    fn completion_tells_who_cares_for_the_output() {
        check(
            Word::complete,
            &[
                ((R | H, 2), Some((C | H, 1)), Complete::Released),
                ((R | S | A | H, 2), Some((C | A | H, 1)), Complete::Released),
                ((R | H | W, 2), Some((C | H | W, 2)), Complete::WakeJoiner),
                ((R, 1), Some((C, 1)), Complete::DropOutput),
                ((R | L | H, 3), Some((C | L | H, 2)), Complete::Released),
            ],
        );
    }

    #[test]
    fn a_wake_schedules_the_idle_only() {
        check(
            Word::wake,
            &[
                ((H, 2), Some((S | H, 3)), Submit::Schedule),
                ((L, 2), Some((S | L, 3)), Submit::Schedule), // a fresh runnable beside the stale one
                ((R, 2), Some((R | S, 2)), Submit::Nothing),
                ((S, 2), Some((S, 2)), Submit::Nothing),
                ((R | S, 2), Some((R | S, 2)), Submit::Nothing),
                ((C, 1), None, Submit::Nothing),
            ],
        );
    }

    #[test]
    fn an_abort_schedules_the_idle_and_marks_the_others() {
        check(
            Word::abort,
            &[
                ((H, 2), Some((S | A | H, 3)), Submit::Schedule),
                ((S | H, 2), Some((S | A | H, 2)), Submit::Nothing),
                ((R | H, 2), Some((R | A | H, 2)), Submit::Nothing),
                ((S | A | H, 2), None, Submit::Nothing),
                ((C | H, 1), None, Submit::Nothing),
            ],
        );
    }

    #[test]
    fn the_slot_goes_to_and_fro_until_completion() {
        check(Word::publish, &[((S | H, 2), Some((S | H | W, 2)), Slot::Passed), ((C | H, 1), None, Slot::Complete)]);
        check(
            Word::retract,
            &[
                ((R | H | W, 2), Some((R | H, 2)), Slot::Passed),
                ((R | H, 2), None, Slot::Passed),
                ((C | H | W, 1), None, Slot::Complete),
            ],
        );
    }

    #[test]
    fn a_handle_leaves_nothing_behind() {
        check(
            Word::detach,
            &[
                ((S | H, 2), Some((S, 1)), Detach::Released),
                ((R | H | W, 2), Some((R, 2)), Detach::DropWaker),
                ((H, 1), Some((0, 1)), Detach::DropWaker), // the last reference goes through `release`
                ((C | H, 1), None, Detach::DropOutput),
                ((C | H | W, 2), None, Detach::DropOutput),
            ],
        );
    }

    #[test]
    fn the_last_reference_frees_or_buries() {
        check(
            Word::release,
            &[
                ((C, 2), Some((C, 1)), Release::Shared),
                ((C, 1), None, Release::Free),
                ((C | A | H | W, 1), None, Release::Free),
                ((0, 2), Some((0, 1)), Release::Shared),
                ((0, 1), Some((S | A, 2)), Release::Bury),
            ],
        );
    }

    #[test]
    fn a_word_reads_as_its_flags() {
        assert_eq!(format!("{:?}", Word::NEW), "scheduled|handle|2 references");
    }
}
