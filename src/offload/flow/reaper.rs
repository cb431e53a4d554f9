//! Who sees what became of the operations: an ordinary poller that looks at the records, wakes tasks, and keeps the deadlines.
//!
//! It never touches memory of an operation, and it assumes no order among records. A pass looks at the record of every slot that is taken, which are at
//! most [`SLOTS`](super::claims::SLOTS) a page and a page a lane; in a service that keeps a dozen operations in flight it is a dozen loads.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;

use super::batches::missing_did_not_run;
use super::claims::{Claim, Look, numbers};
use super::close;
use super::core::Core;
use super::page::PageRef;
use super::slot::{Deadline, Origin, Slot};
use super::state::{Over, Phase, Seen};
use crate::offload::dsa::abi::{Descriptor, Flags};
use crate::offload::dsa::portal::{Death, Submitted};
use crate::offload::dsa::queue::{Condition, Queue};
use crate::poll::{Peek, PollCx, Poller, Progress, WakeBy};

/// Deadlines are looked at so often in the time that an operation has: it is given up at most an eighth late.
const LOOKS_A_TIMEOUT: u64 = 8;
/// What waits for room is tried again so often: 1 us, in which a device takes some.
const RETRY_EVERY: Duration = Duration::from_micros(1);
/// What waits in a backlog at so many looks in a row has no way out: 2 timeouts. A full queue has room again in microseconds; one that was disabled and enabled
/// again behind a portal's back says "full" for ever.
const STUCK_LOOKS: u32 = 2 * LOOKS_A_TIMEOUT as u32;
/// A page whose slots are all over, and which somebody waits for, for so many of those looks is replaced: its tickets were forgotten. 2 timeouts.
const LOST_LOOKS: u32 = 16;

/// The poller. There is one a flow; dropped, it leaves what it knows to the next.
#[derive(Debug)]
pub(crate) struct Reaper {
    core: Arc<Core>,
    sweeper: Option<Sweeper>,
}

impl Reaper {
    /// `None`: there is one already.
    pub(super) fn new(core: &Arc<Core>) -> Option<Self> {
        let sweeper = core.sweeper.lock().take()?;
        Some(Self { core: Arc::clone(core), sweeper: Some(sweeper) })
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        *self.core.sweeper.lock() = self.sweeper.take();
    }
}

impl Poller for Reaper {
    fn poll(&mut self, cx: &mut PollCx<'_>) -> Progress {
        let Some(sweeper) = &mut self.sweeper else { return Progress::Done };
        let now = nanos(cx.now());
        let swept = sweeper.sweep(&self.core, now);
        if swept.asleep && !cx.stopping() {
            return Progress::Dormant;
        }
        if !swept.asleep {
            // A parked lane would not look at deadlines, and one that dozes would not at a batch's age.
            cx.call_after(swept.closes_in.unwrap_or(Duration::MAX).min(Duration::from_nanos(sweeper.look_every)));
        }
        match swept.events {
            // Asked to end, with operations outstanding: they end, or their deadline does.
            0 if cx.stopping() && swept.open => Progress::Busy(0),
            0 => Progress::Idle,
            events => Progress::Busy(events),
        }
    }

    fn wake_by(&self) -> WakeBy<'_> {
        // What is submitted rings while the reaper is dormant; while something is outstanding it refuses to park (see `arm`).
        WakeBy::Ring
    }

    fn arm(&mut self) -> bool {
        // Nobody would tell a parked lane of a record.
        self.sweeper.as_ref().is_none_or(|sweeper| sweeper.asleep)
    }

    fn peek(&self) -> Option<Peek<'_>> {
        self.sweeper.as_ref()?.peek()
    }

    fn before_wait(&mut self) {
        if let Some(sweeper) = &mut self.sweeper {
            sweeper.close_before_wait(&self.core);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What the reaper knows.
#[derive(Debug)]
pub(crate) struct Sweeper {
    pages: Vec<Watched>,
    /// When deadlines are looked at next, and how often, in nanoseconds.
    look_at: u64,
    look_every: u64,
    /// The record that a lane that waits may watch: of the slot that has been outstanding for longest, as far as the reaper knows.
    watch: Option<(PageRef, u32)>,
    /// All pages are marked dormant, as far as the reaper knows.
    asleep: bool,
    /// Queues that are suspected, and were asked whether they live.
    asked: Vec<u16>,
}

#[derive(Debug)]
struct Watched {
    page: PageRef,
    /// Where it is used; `None`: it was replaced.
    seat: Option<usize>,
    /// Slots that were given up.
    quarantined: u64,
    /// Since when something waits in the backlog.
    waits_since: Option<u64>,
    /// Looks at deadlines in which everything was over and somebody waited for a slot.
    lost: u32,
    /// Slots that waited in the backlog at every one of the last looks, and how many looks those were.
    stuck: (u64, u32),
    /// The claims as the last sweep saw them.
    look: Look,
}

impl Watched {
    fn new(page: PageRef, seat: usize) -> Self {
        let look = page.claims.look();
        Self { page, seat: Some(seat), quarantined: 0, waits_since: None, lost: 0, stuck: (0, 0), look }
    }
}

/// What a sweep found.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub(super) struct Swept {
    /// Operations whose end was found.
    pub(super) events: u32,
    /// Something is outstanding.
    pub(super) open: bool,
    /// Nothing is, and whoever submits will call.
    pub(super) asleep: bool,
    /// The first batch that waits for more is to be closed then.
    pub(super) closes_in: Option<Duration>,
}

impl Sweeper {
    pub(super) fn new(core: &Core) -> Self {
        let look_every = (nanos(core.settings.timeout) / LOOKS_A_TIMEOUT).max(1);
        let pages = (0..core.seats()).map(|seat| Watched::new(core.page_on(seat), seat)).collect();
        Self { pages, look_at: 0, look_every, watch: None, asleep: false, asked: Vec::new() }
    }

    /// One pass, at `now`, in nanoseconds of any clock that goes on.
    pub(super) fn sweep(&mut self, core: &Arc<Core>, now: u64) -> Swept {
        let mut swept = Swept::default();
        // Relaxed: at the end everything is given up at once; `look_at_deadlines` reads it again.
        let looks = now >= self.look_at || core.expired.load(Relaxed);
        let mut watch = None;
        for watched in &mut self.pages {
            let open = watched.sweep(core, now, &mut swept);
            swept.open |= open != 0;
            if let (None, 1..) = (watch, open) {
                watch = Some((watched.page, open.trailing_zeros()));
            }
        }
        // The one that was watched is older than others that are open, while it is open itself.
        let still = |&(page, slot): &(PageRef, u32)| page.memory.record(slot).status_byte() == 0;
        self.watch = self.watch.filter(still).filter(|_| swept.open).or(watch);
        if looks {
            self.look_at = now.saturating_add(self.look_every);
            self.look_at_deadlines(core, now, &mut swept);
        }
        swept.asleep = !swept.open && swept.events == 0 && self.fall_asleep();
        self.asleep = swept.asleep;
        swept
    }

    /// Looks at the deadlines whether or not it is time.
    pub(super) fn look_now(&mut self, core: &Arc<Core>, now: u64) {
        self.look_at_deadlines(core, now, &mut Swept::default());
    }

    /// *DORMANT*, on all pages. `false`: something came meanwhile.
    fn fall_asleep(&self) -> bool {
        self.pages.iter().all(|watched| watched.look.dormant() || watched.page.claims.fall_asleep(watched.look))
    }

    /// The lane is about to wait, so nothing more will come from it: what it gathered goes. So does what waits for nothing but room. What other threads gather goes
    /// when they say so, or when its time has come, for which the lane asks to be called.
    pub(super) fn close_before_wait(&mut self, core: &Core) {
        let own = core.page();
        for watched in &mut self.pages {
            let backlog = &watched.page.backlog;
            if backlog.peek() != 0 && (watched.page.as_ptr() == own.as_ptr() || backlog.is_put_back()) {
                watched.waits_since = None;
                close::close(core, watched.page);
            }
        }
    }

    /// Submits all that waits.
    pub(super) fn close_all(&mut self, core: &Core) {
        for watched in &mut self.pages {
            if watched.page.backlog.peek() != 0 {
                watched.waits_since = None;
                close::close(core, watched.page);
            }
        }
    }

    fn peek(&self) -> Option<Peek<'_>> {
        let (page, slot) = self.watch?;
        let status: *const u8 = std::ptr::from_ref(page.memory.record(slot)).cast(); // its first byte
        // SAFETY: the page lives as long as the core, which the reaper refers to until it is dropped. The device and we access the byte
        // atomically.
        unsafe { Peek::new(status, 8, 0xff, 0) }.ok().map(Peek::watched_only)
    }

    /// Sets deadlines, gives up what is past its own, looks for late records, and replaces pages that lost too much.
    #[cold]
    fn look_at_deadlines(&mut self, core: &Arc<Core>, now: u64, swept: &mut Swept) {
        let expired = core.expired.load(Acquire);
        let is_suspect =
            |id: &u16| core.queue(*id).is_some_and(|queue| queue.health().condition() == Condition::Suspect);
        self.asked.retain(is_suspect);
        let mut fresh = Vec::new();
        for watched in &mut self.pages {
            watched.look_for_late(swept);
            watched.look_for_stuck(core, swept);
            watched.look_at_deadlines(core, now, expired, &mut self.asked, swept);
            if let Some(seat) = watched.seat.filter(|_| watched.is_worn() && !core.is_closed()) {
                // Out of memory: the page stays, with the slots that it has left.
                if let Ok(page) = core.new_page(seat) {
                    watched.seat = None;
                    watched.page.counters.pages_replaced.add(1);
                    watched.page.retire();
                    fresh.push(Watched::new(page, seat));
                }
            }
        }
        swept.open |= !fresh.is_empty();
        self.pages.append(&mut fresh);
        // A replaced page that is empty has nothing more to tell.
        self.pages.retain(|watched| watched.seat.is_some() || watched.page.claims.look().slots() != 0);
    }
}

impl Watched {
    /// Looks at all records. Returns the slots that are outstanding.
    #[inline]
    fn sweep(&mut self, core: &Core, now: u64, swept: &mut Swept) -> u64 {
        let page = self.page;
        self.look = page.claims.look();
        let mut open = 0;
        for slot in numbers(self.look.slots() & !self.quarantined) {
            if page.memory.record(slot).status_byte() == 0 || self.finish(core, slot, swept) {
                open |= 1 << slot;
            }
        }
        if page.backlog.peek() == 0 {
            self.waits_since = None;
        } else {
            let since = *self.waits_since.get_or_insert(now);
            let waited = Duration::from_nanos(now.saturating_sub(since));
            let left = match page.backlog.is_put_back() {
                true => RETRY_EVERY.checked_sub(waited).filter(|left| !left.is_zero()),
                false => core.settings.batching.left(waited),
            };
            match left {
                Some(left) => swept.closes_in = Some(swept.closes_in.map_or(left, |other| other.min(left))),
                None => {
                    self.waits_since = None;
                    close::close(core, page);
                }
            }
        }
        open
    }

    /// A record is there. Returns whether the slot is outstanding all the same: then it is a record of the slot's life before.
    fn finish(&mut self, core: &Core, slot: u32, swept: &mut Swept) -> bool {
        let page = self.page;
        let here = page.slot(slot);
        let seen = here.look();
        match seen.phase() {
            Phase::Live => {}
            Phase::Held => return true, // about to be published
            Phase::Settled | Phase::Unrun | Phase::Quarantined => return false,
        }
        // Read again, after the state: the record was zeroed before this life was published.
        if page.memory.record(slot).status_byte() == 0 {
            return true;
        }
        let origin = here.origin();
        if seen.is_batch() {
            self.finish_batch(slot, swept);
        }
        let outcome = here.over(seen, Over::Settled);
        if outcome.mine {
            swept.events = swept.events.saturating_add(1);
            if let Some(queue) = core.queue(origin.queue).filter(|queue| !queue.health().is_up()) {
                queue.health().clear(); // it answers after all, if it was only suspected
            }
        }
        page.carry_out(slot, origin, outcome);
        false
    }

    /// The record of a batch is there. Its children's records were written before it, so a child without one has none to come. That holds for those as well that were
    /// given up before: they count among what is missing, and are given back if they did not run.
    fn finish_batch(&mut self, batch: u32, swept: &mut Swept) {
        let page = self.page;
        let Some(record) = page.memory.record(batch).record() else { return };
        let children = page.slot(batch).children();
        let count = children.count_ones();
        let missing = || {
            numbers(children).filter_map(move |slot| {
                let here = page.slot(slot);
                // In this order: the origin is that of the life that is seen, or of a later one, for which nothing is declared over.
                let seen = here.look();
                let silent = matches!(seen.phase(), Phase::Live | Phase::Quarantined)
                    && here.origin().is_child_of(batch)
                    && page.memory.record(slot).status_byte() == 0
                    && here.look().still_lives(seen); // or the record may be of the slot's next life, and this one's was there
                silent.then_some((slot, seen))
            })
        };
        let number = missing().count() as u32;
        if number == 0 {
            return;
        }
        let over = match missing_did_not_run(record.status(), count, record.completed, number) {
            true => Over::Unrun,
            false => Over::Quarantined,
        };
        for (slot, seen) in missing() {
            match (seen.phase(), over) {
                (Phase::Quarantined, Over::Unrun) => self.late(slot, seen, true),
                (Phase::Quarantined, _) => {}
                _ => self.end(slot, seen, over, swept),
            }
        }
    }

    /// Declares an operation over that has no record. It keeps its credit if it may still run; a child of a batch has none.
    fn end(&mut self, slot: u32, seen: Seen, over: Over, swept: &mut Swept) {
        let page = self.page;
        let none = page.slot(slot).origin().without_credit();
        let outcome = page.slot(slot).over(seen, over);
        if outcome.mine {
            swept.events = swept.events.saturating_add(1);
            if over == Over::Quarantined {
                self.quarantined |= 1 << slot;
                page.counters.quarantined.add(u64::from(is_counted(page.slot(slot), seen)));
            }
        }
        page.carry_out(slot, none, outcome);
    }

    /// Records of operations that were given up.
    fn look_for_late(&mut self, swept: &mut Swept) {
        let page = self.page;
        for slot in numbers(self.quarantined) {
            let here = page.slot(slot);
            let seen = here.look();
            if seen.phase() != Phase::Quarantined {
                self.quarantined &= !(1 << slot); // its holder took it back, or left
                continue;
            }
            if page.memory.record(slot).status_byte() == 0 {
                continue;
            }
            if seen.is_batch() {
                self.finish_batch(slot, swept);
            }
            self.late(slot, seen, false);
        }
    }

    /// An operation that was given up has its record, or (`unrun`) did not run, and will not: whatever was kept for it is given back.
    fn late(&mut self, slot: u32, seen: Seen, unrun: bool) {
        let page = self.page;
        let here = page.slot(slot);
        let origin = here.origin();
        let outcome = here.late(seen, unrun);
        if outcome.mine {
            self.quarantined &= !(1 << slot);
            page.counters.late.add(u64::from(is_counted(here, seen)));
        }
        page.carry_out(slot, origin, outcome);
    }

    /// What waits for room that does not come is given back: it did not run. A queue that has no room although nothing of ours is in it has died.
    fn look_for_stuck(&mut self, core: &Core, swept: &mut Swept) {
        let (page, waiting) = (self.page, self.page.backlog.peek());
        self.stuck = match self.stuck {
            (slots, looks) if slots & waiting != 0 => (slots & waiting, looks + 1),
            _ => (waiting, 0),
        };
        if self.stuck.1 < STUCK_LOOKS {
            return;
        }
        for slot in numbers(std::mem::take(&mut self.stuck).0) {
            let queue = core.queue(page.slot(slot).origin().queue);
            if page.backlog.withdraw(1 << slot) {
                if let Some(queue) = queue.filter(|queue| queue.credits().taken() == 0) {
                    queue.health().die(Death::Silent);
                }
                close::unrun(page, 1 << slot);
                swept.events = swept.events.saturating_add(1);
            }
        }
    }

    fn look_at_deadlines(&mut self, core: &Core, now: u64, expired: bool, asked: &mut Vec<u16>, swept: &mut Swept) {
        let page = self.page;
        if expired {
            close::unrun(page, page.backlog.take());
        }
        let mut live = false;
        for slot in numbers(page.claims.look().slots() & !self.quarantined & !page.backlog.peek()) {
            let here = page.slot(slot);
            let seen = here.look();
            if !seen.is_live() || page.memory.record(slot).status_byte() != 0 {
                continue;
            }
            live = true;
            let timeout = nanos(core.settings.timeout);
            let twice = match here.deadline() {
                _ if expired => true,
                None => {
                    here.set_deadline(Deadline { at: now.saturating_add(timeout), again: false });
                    continue;
                }
                Some(deadline) if deadline.at > now => continue,
                Some(deadline) => deadline.again,
            };
            let id = here.origin().queue;
            let dead = core.queue(id).is_none_or(|queue| {
                if !expired {
                    match is_question(here, seen) {
                        false => self.suspect(queue, id, twice, asked),
                        // It has answered others since, if it is not suspected any more.
                        true if queue.health().condition() == Condition::Suspect => {
                            _ = queue.health().die(Death::Silent)
                        }
                        true => {}
                    }
                }
                matches!(queue.look(), Condition::Dead(_))
            });
            if dead || twice {
                self.end(slot, seen, Over::Quarantined, swept);
            } else {
                here.set_deadline(Deadline { at: now.saturating_add(timeout), again: true });
            }
        }
        let look = page.claims.look();
        self.lost = if !live && look.waiters() { self.lost + 1 } else { 0 };
    }

    /// An operation of a queue's is overdue, once or twice. One that is lost does not tell that nothing is answered any more, and all others would be lost with the queue: so the
    /// queue is asked, by a no-op, and dies if that is overdue, or could not be submitted and the operation is overdue again.
    fn suspect(&self, queue: &Queue, id: u16, twice: bool, asked: &mut Vec<u16>) {
        if !twice && queue.health().suspect() && queue.look() == Condition::Suspect && ask(self.page, queue, id) {
            asked.push(id);
        }
        if twice && queue.health().condition() == Condition::Suspect && !asked.contains(&id) {
            queue.health().die(Death::Silent);
        }
    }

    /// Whether it should be replaced.
    fn is_worn(&self) -> bool {
        self.quarantined != 0 || self.lost >= LOST_LOOKS
    }
}

/// Asks a queue whether it lives: by a no-op that nobody waits for, as a batch without children. Any answer is one. `false`: no room for it.
#[cold]
fn ask(page: PageRef, queue: &Queue, id: u16) -> bool {
    // The reaper is awake, since it asks.
    let Claim::Taken { slots: own, rouse: _ } = page.claims.claim() else { return false };
    let slot = own.trailing_zeros();
    let (here, record) = (page.slot(slot), page.memory.record(slot));
    page.memory.clear_record(slot);
    here.set_origin(Origin::alone(id));
    here.publish_batch(0);
    let question = Descriptor::noop().report_to(record.address()).with_flags(Flags::RCR);
    // SAFETY: a no-op has no address but its record's, which is zeroed, the slot's own, and in the page, which stays.
    let accepted = unsafe { queue.submit(&question) } == Submitted::Accepted;
    if !accepted {
        here.unpublish_batch();
        page.release(own);
    }
    accepted
}

/// Whether it is a no-op by which a queue was asked whether it lives.
fn is_question(slot: &Slot, seen: Seen) -> bool {
    seen.is_batch() && slot.children() == 0
}

/// Whether it counts as an operation. A batch does not: its children do, each.
fn is_counted(slot: &Slot, seen: Seen) -> bool {
    !seen.is_batch() || is_question(slot, seen)
}
