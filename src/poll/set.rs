//! The pollers of one lane, and one sweep over them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use once_cell::sync::OnceCell;

use super::fds::{self, Fds};
use super::handle::End;
use super::{AnyPoller, Bounds, KeptPeek, Peek, PollCx, Progress, WakeBy};
use crate::task::contain;
use crate::wait::clock::Ticks;

/// Names a poller within its lane; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PollerId(u64);

/// What a sweep found.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    /// Arrivals, over all pollers.
    pub events: u32,
    /// Some poller did housekeeping (`Busy(0)`).
    pub housekeeping: bool,
    /// Some poller ended.
    pub ended: bool,
    /// Some poller became dormant.
    pub dormant: bool,
    /// Pollers that panicked.
    pub panics: u32,
}

/// How much of the set a sweep calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sweep {
    /// Not the pollers whose peek is quiet.
    Peeking,
    /// Everybody, whatever the peeks say.
    Full,
}

struct Slot {
    id: PollerId,
    poller: Box<dyn AnyPoller>,
    peek: Option<KeptPeek>,
    bounds: Option<Bounds>,
    called_at: Ticks,
    stopping: bool,
    armed: bool,
    /// Said so ([`Progress::Dormant`]), and the lane was not rung since.
    dormant: bool,
    wake: Wake,
    /// When it asked to be called again at the latest.
    due: Option<Ticks>,
    /// The earliest deadline that the lane was told for it and that has not passed.
    told: Option<Ticks>,
}

/// How a poller is woken, as asked at adoption.
#[derive(Debug)]
enum Wake {
    Never,
    Ring,
    /// A duplicate of its descriptor: what is in the epoll set must be open until it is taken out, whatever the poller does with its own.
    Fd(OwnedFd),
}

/// See the module's documentation.
pub(crate) struct PollerSet {
    slots: Vec<Slot>,
    next_id: u64,
    /// The runtime shuts down: every poller is asked to end.
    stopping: bool,
    /// How long a quiet peek may keep the lane from calling a poller.
    peek_refresh: u64,
    /// Made when the first poller with a descriptor comes.
    fds: Option<Fds>,
    /// Pollers with a descriptor.
    watched: usize,
    consent: bool,
    lends: bool,
    /// Index of the poller that is being called: for whoever catches its panic, and, read by other threads, for the report of a lane that
    /// does not come back.
    at: Arc<AtomicUsize>,
}

impl PollerSet {
    /// `peek_refresh` in ticks.
    pub(crate) fn new(peek_refresh: u64) -> Self {
        Self {
            slots: Vec::new(),
            next_id: 0,
            stopping: false,
            peek_refresh,
            fds: None,
            watched: 0,
            consent: true,
            lends: true,
            at: Arc::new(AtomicUsize::new(0)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether there is nobody to call: no poller, or dormant ones only. A lane with such a set works as one without pollers.
    #[inline]
    pub(crate) fn nobody_awake(&self) -> bool {
        self.slots.iter().all(|slot| slot.dormant)
    }

    /// The lane was rung: dormant pollers are called again. `true`: there were some.
    pub(crate) fn rouse(&mut self) -> bool {
        let mut roused = false;
        for slot in &mut self.slots {
            roused |= std::mem::take(&mut slot.dormant);
        }
        roused
    }

    /// Whether every poller can be woken from a park.
    #[inline]
    pub(crate) fn consents(&self) -> bool {
        self.consent
    }

    /// Whether every poller lets the parked lane run any task.
    pub(crate) fn lends(&self) -> bool {
        self.lends
    }

    /// The bounds in force on a lane with these pollers, of which those that state none have `default`.
    pub(crate) fn bounds(&self, default: Bounds) -> Bounds {
        Bounds::tightest(self.slots.iter().map(|slot| slot.bounds), default)
    }

    /// The peek of the only poller that is awake, if there is just one: its word tells all there is to wait for.
    #[inline]
    pub(crate) fn lone_peek(&self) -> Option<&Peek<'_>> {
        let mut awake = self.slots.iter().filter(|slot| !slot.dormant);
        match (awake.next(), awake.next()) {
            (Some(slot), None) => slot.peek.as_ref().map(KeptPeek::get),
            _ => None,
        }
    }

    /// The descriptors to park on, if some poller has one.
    pub(crate) fn fds(&self) -> Option<&Fds> {
        self.fds.as_ref().filter(|_| self.watched > 0)
    }

    /// Takes a poller in. Its descriptor, if it has one, goes into the epoll set beside the eventfd `bell`; if that fails, or the poller's
    /// own methods panic, the poller ends here. Returns whether something panicked.
    pub(crate) fn adopt(&mut self, poller: Box<dyn AnyPoller>, bell: &OnceCell<OwnedFd>) -> bool {
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let wake = match poller.wake_by() {
                WakeBy::Never => Ok(Wake::Never),
                WakeBy::Ring => Ok(Wake::Ring),
                WakeBy::Fd(fd) => self.watch(fd, bell).map(Wake::Fd),
            };
            (wake, kept(&*poller), poller.bounds())
        }));
        match asked {
            Ok((Ok(wake), peek, bounds)) => {
                let id = PollerId(self.next_id);
                self.next_id += 1;
                let stopping = self.stopping || poller.stop_requested();
                self.slots.push(Slot {
                    id,
                    poller,
                    peek,
                    bounds,
                    called_at: Ticks::default(),
                    stopping,
                    armed: false,
                    dormant: false,
                    wake,
                    due: None,
                    told: None,
                });
                self.recount();
                false
            }
            Ok((Err(error), ..)) => poller.end(End::Unwakeable(error)),
            Err(payload) => poller.end(End::Panicked(payload)),
        }
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, bell: &OnceCell<OwnedFd>) -> io::Result<OwnedFd> {
        let fd = fd.try_clone_to_owned()?;
        self.open_fds(bell)?.add(fd.as_fd())?;
        Ok(fd)
    }

    fn open_fds(&mut self, bell: &OnceCell<OwnedFd>) -> io::Result<&Fds> {
        let bell = bell.get_or_try_init(fds::new_bell)?;
        Ok(match self.fds.take() {
            Some(fds) => self.fds.insert(fds),
            None => self.fds.insert(Fds::new(bell.as_fd())?),
        })
    }

    /// Reads the stop requests; call when the doorbell rang.
    pub(crate) fn hear_stops(&mut self, runtime_stops: bool) {
        self.stopping |= runtime_stops;
        for slot in &mut self.slots {
            slot.stopping |= self.stopping || slot.poller.stop_requested();
        }
    }

    /// One call of each poller that the sweep is for, in order of adoption. `deadline` hears of pollers that want to be called by an instant;
    /// the lane answers with [`due`](Self::due) when it has come. `call` calls one, and may look at the clock around it.
    #[inline]
    pub(crate) fn sweep(
        &mut self,
        cx: &mut PollCx<'_>,
        now: Ticks,
        sweep: Sweep,
        call: impl Fn(&mut dyn AnyPoller, &mut PollCx<'_>) -> Progress + Copy,
        ticks_of: impl Fn(Duration) -> u64,
        mut deadline: impl FnMut(Ticks, PollerId),
    ) -> Swept {
        let mut swept = Swept::default();
        let mut at = 0;
        while at < self.slots.len() {
            // One guard for the whole sweep: it costs nothing until somebody panics, and `at` says who did.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                self.sweep_from(&mut at, cx, now, sweep, &mut swept, call, &ticks_of, &mut deadline)
            }));
            let end = match outcome {
                Ok(None) => break,
                Ok(Some(end)) => end,
                Err(payload) => End::Panicked(payload),
            };
            swept.panics += u32::from(self.remove(at, end));
            swept.ended = true;
        }
        swept
    }

    /// Sweeps from `at` on; stops at a poller that has to be removed.
    #[inline]
    #[allow(clippy::too_many_arguments)] // the locals of `sweep`, whose loop this is
    fn sweep_from(
        &mut self,
        at: &mut usize,
        cx: &mut PollCx<'_>,
        now: Ticks,
        sweep: Sweep,
        swept: &mut Swept,
        call: impl Fn(&mut dyn AnyPoller, &mut PollCx<'_>) -> Progress,
        ticks_of: &impl Fn(Duration) -> u64,
        deadline: &mut impl FnMut(Ticks, PollerId),
    ) -> Option<End> {
        cx.call_after = None; // of a poller that ended in the call in which it asked
        while let Some(slot) = self.slots.get_mut(*at) {
            if slot.dormant || sweep == Sweep::Peeking && !slot.stopping && slot.is_quiet(now, self.peek_refresh) {
                slot.poller.skipped();
                *at += 1;
                continue;
            }
            // Relaxed: a hint for a report.
            self.at.store(*at, Relaxed);
            cx.stopping = slot.stopping;
            slot.called_at = now;
            slot.due = None;
            let progress = call(&mut *slot.poller, cx);
            slot.ask();
            match progress {
                Progress::Idle | Progress::Dormant if slot.stopping => return Some(End::Done),
                Progress::Idle => {}
                Progress::Dormant => (slot.dormant, swept.dormant) = (true, true),
                Progress::Busy(0) => swept.housekeeping = true,
                Progress::Busy(n) => {
                    swept.events = swept.events.saturating_add(n);
                    if slot.peek.is_none() {
                        // It may have something to look at by now.
                        slot.peek = kept(&*slot.poller);
                    }
                }
                Progress::Done => return Some(End::Done),
            }
            if let Some(delay) = cx.call_after.take() {
                let due = now.after(ticks_of(delay));
                slot.due = Some(due);
                slot.tell(due, deadline);
            }
            *at += 1;
        }
        None
    }

    /// A deadline told for this poller has come. If the poller has not moved it meanwhile, the next sweep calls it, whatever its peek says.
    pub(crate) fn due(&mut self, id: PollerId, now: Ticks, mut deadline: impl FnMut(Ticks, PollerId)) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.id == id) else { return };
        slot.told = None;
        match slot.due {
            Some(due) if due > now => slot.tell(due, &mut deadline),
            Some(_) => slot.called_at = Ticks::default(),
            None => {}
        }
    }

    /// Tells everybody that the lane is about to wait. Returns how many panicked (and were removed).
    pub(crate) fn before_wait(&mut self) -> u32 {
        self.each(|slot| {
            slot.poller.before_wait();
            true
        })
        .panics
    }

    /// Arms everybody; on the first refusal disarms those armed, in reverse. `true`: all are armed.
    pub(crate) fn arm(&mut self) -> Armed {
        let visit = self.each(|slot| {
            slot.armed = slot.poller.arm();
            slot.armed
        });
        if visit.completed && visit.panics == 0 {
            return Armed { all: true, panics: 0 };
        }
        Armed { all: false, panics: visit.panics + self.disarm() }
    }

    /// Disarms whoever is armed, in reverse. Returns how many panicked (and were removed).
    pub(crate) fn disarm(&mut self) -> u32 {
        let mut panics = 0;
        for at in (0..self.slots.len()).rev() {
            let slot = &mut self.slots[at];
            if std::mem::take(&mut slot.armed) {
                let disarm = || {
                    slot.poller.disarm();
                    slot.ask();
                };
                if let Err(payload) = catch_unwind(AssertUnwindSafe(disarm)) {
                    panics += u32::from(self.remove(at, End::Panicked(payload)));
                }
            }
        }
        panics
    }

    /// Ends everybody: the runtime is over.
    pub(crate) fn drop_all(&mut self) -> u32 {
        let mut panics = 0;
        while !self.slots.is_empty() {
            panics += u32::from(self.remove(self.slots.len() - 1, End::Dropped));
        }
        panics
    }

    /// Index of the poller that is being called, or was called last, as other threads see it.
    pub(crate) fn at(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.at)
    }

    /// The pollers' names, by that index.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.slots.iter().map(|slot| slot.poller.name())
    }

    /// Visits pollers in order until one answers `false`; removes those that panic.
    fn each(&mut self, mut visit: impl FnMut(&mut Slot) -> bool) -> Visit {
        let mut panics = 0;
        let mut at = 0;
        while at < self.slots.len() {
            let slot = &mut self.slots[at];
            let visit = || {
                let go_on = visit(slot);
                slot.ask();
                go_on
            };
            match catch_unwind(AssertUnwindSafe(visit)) {
                Ok(true) => at += 1,
                Ok(false) => return Visit { completed: false, panics },
                Err(payload) => panics += u32::from(self.remove(at, End::Panicked(payload))),
            }
        }
        Visit { completed: true, panics }
    }

    fn remove(&mut self, at: usize, end: End) -> bool {
        let slot = self.slots.remove(at);
        self.recount();
        if let (Wake::Fd(fd), Some(fds)) = (&slot.wake, &self.fds) {
            fds.remove(fd.as_fd());
        }
        slot.poller.end(end)
    }

    fn recount(&mut self) {
        self.consent = !self.slots.iter().any(|slot| matches!(slot.wake, Wake::Never));
        self.watched = self.slots.iter().filter(|slot| matches!(slot.wake, Wake::Fd(_))).count();
        // User code, asked once per change of the set; a panic here counts as "no".
        self.lends = self.slots.iter().all(|slot| {
            let mut lends = false;
            let _ = contain(|| lends = slot.poller.lend_while_armed());
            lends
        });
    }
}

/// Result of [`PollerSet::arm`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Armed {
    pub all: bool,
    pub panics: u32,
}

struct Visit {
    completed: bool,
    panics: u32,
}

impl Slot {
    /// Tells the lane of a deadline, unless it knows of an earlier one: a poller that asks in every call must not fill the lane's heap.
    fn tell(&mut self, due: Ticks, deadline: &mut impl FnMut(Ticks, PollerId)) {
        if self.told.is_none_or(|told| due < told) {
            self.told = Some(due);
            deadline(due, self.id);
        }
    }

    /// Asks for the peek again, after the poller was touched by `&mut`.
    #[inline]
    fn ask(&mut self) {
        if self.peek.is_some() {
            self.peek = kept(&*self.poller);
        }
    }

    /// Whether the peek saves this call.
    #[inline]
    fn is_quiet(&self, now: Ticks, refresh: u64) -> bool {
        match &self.peek {
            None => false,
            Some(peek) => {
                let peek = peek.get();
                !peek.is_watched_only()
                    && (peek.is_complete() || now.since(self.called_at) < refresh)
                    && peek.is_quiet()
            }
        }
    }
}

/// The poller's peek, to be kept beside it.
#[allow(unsafe_code)] // it outlives the borrow by which it was lent
fn kept(poller: &dyn AnyPoller) -> Option<KeptPeek> {
    // SAFETY: every call by which this set touches a poller by `&mut` (`poll`, `arm`, `disarm`, `before_wait`) is followed by `Slot::ask`, which replaces the
    // peek before anybody looks; if the call panics, or the poller ends, the slot goes, and the peek with it.
    poller.peek().map(|peek| unsafe { KeptPeek::new(peek) })
}

impl std::fmt::Debug for PollerSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.slots.iter().map(|slot| slot.poller.name())).finish()
    }
}
