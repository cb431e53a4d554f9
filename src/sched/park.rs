//! How a lane blocks in the kernel: one way for all roles, since a lane can be woken for a ring, for a task, by a descriptor and by a
//! deadline, in any mixture.
//!
//! The steps are those of `README.md`: arm the pollers, *Offer* (sleeper, lender or neither), *Announce* with *SleepFence*, one full pass,
//! re-check, block; then everything backwards.

use std::time::Duration;

use super::current::Doing;
use super::doorbell::ParkIn;
use super::phase::Phase;
use super::poll_lane::Wait;
use super::sleepers::Asleep;
use super::worker::{ParkedFor, Worker};
use crate::placement::Role;
use crate::poll::Sweep;
use crate::poll::fds::GRAIN;
use crate::wait::clock::Ticks;
use crate::wait::ledger::{Kind as Time, WINDOW_NS};

/// For what tasks a parked lane may be woken.
enum Offer {
    /// For all: it is a compute lane now.
    Sleeper(Asleep),
    /// For all: every poller agreed to wait.
    Lender,
    /// For none.
    None,
}

/// What the re-check found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    /// Nothing: block.
    No,
    /// A task that this lane offered to run.
    ForWork,
    /// Something for the lane itself.
    ForOther,
}

impl Worker {
    /// Blocks until rung, needed, woken by a descriptor, or `until`. Returns at once if any of these came first.
    pub(super) fn park(&mut self, until: Option<Ticks>) {
        let timeout = until.map(|until| self.clock.duration(until.since(self.stamp)));
        if self.pollers.fds().is_some() && timeout.is_some_and(|timeout| timeout < GRAIN) {
            // epoll counts milliseconds; what is left of the last one is waited for awake.
            return self.doze(self.max_added.max(1), Wait::Doze);
        }
        if !self.arm() {
            self.own().counters.park_refusals.add(1);
            self.parked = Some(ParkedFor { slept: 0, rung: false, wake: None });
            return;
        }
        // Asked only now: arming may have removed pollers that panicked.
        let place = if self.pollers.fds().is_some() { ParkIn::Epoll } else { ParkIn::Futex };
        let offer = self.offer();
        self.own().doorbell.announce(place);
        self.tell_siblings(true);

        let stay = self.must_stay(&offer);
        let (slept, wake) = match stay {
            Stay::No => self.block(place, timeout, until),
            Stay::ForWork | Stay::ForOther => {
                self.own().counters.park_refusals.add(1);
                (0, None)
            }
        };

        self.tell_siblings(false);
        self.own().doorbell.retract();
        self.called = self.retract(offer);
        self.disarm();
        self.sweep = Sweep::Full;
        if !self.pollers.nobody_awake() {
            let rung = self.called || stay == Stay::ForWork || self.own().doorbell.epoch() != self.seen;
            self.parked = Some(ParkedFor { slept, rung, wake });
        }
    }

    /// Makes every poller ready to wake the lane.
    fn arm(&mut self) -> bool {
        self.flush_before_wait();
        let armed = self.cx.while_doing(Doing::Pass, || self.pollers.arm());
        if armed.panics > 0 {
            self.count_panics(armed.panics);
            self.pollers_changed();
        }
        armed.all
    }

    fn disarm(&mut self) {
        let panics = self.cx.while_doing(Doing::Pass, || self.pollers.disarm());
        if panics > 0 {
            self.count_panics(panics);
            self.pollers_changed();
        }
    }

    /// *Offer*: says for what tasks this lane may be woken.
    fn offer(&mut self) -> Offer {
        let sleepers = &self.shared.sleepers;
        if self.pollers.nobody_awake() || self.own().info.plan.role != Role::Poll {
            Offer::Sleeper(sleepers.sleep(self.lane, self.searching.take()))
        } else if self.pollers.lends() {
            sleepers.lend(self.lane);
            Offer::Lender
        } else {
            Offer::None
        }
    }

    /// *Re-check*, after every announcement: whether there is something that a park would sleep through. The epoch comes last, since the full
    /// pass may ring.
    fn must_stay(&mut self, offer: &Offer) -> Stay {
        let found = if self.pollers.is_empty() {
            false
        } else {
            let swept = self.pass(Sweep::Full);
            swept.events > 0 || swept.ended
        };
        let due = self.deadlines.next().is_some_and(|next| next <= self.stamp);
        if !matches!(offer, Offer::None) && self.shared.work_waits() {
            Stay::ForWork
        } else if found || due || self.inbox_left || self.own().doorbell.epoch() != self.seen {
            Stay::ForOther
        } else {
            Stay::No
        }
    }

    /// *Block*. Returns for how long, and what the wake took where that is known, in ticks.
    fn block(&mut self, place: ParkIn, timeout: Option<Duration>, until: Option<Ticks>) -> (u64, Option<u64>) {
        if self.shared.phase.now() >= Phase::Draining {
            self.shared.exits.nudge(); // the shutdown waits for lanes to come to rest
        }
        self.book(Time::Empty);
        let began = self.stamp;
        let lane = &self.me;
        let cpu = self.cpu_ticks();
        self.ledger.park_begins(began, cpu, &lane.times);
        lane.counters.parks.add(1);
        match place {
            // The set is there: `place` was chosen by it, and a pass that ended a poller does not get here.
            ParkIn::Epoll => self.pollers.fds().into_iter().for_each(|fds| fds.wait(timeout)),
            ParkIn::Futex => lane.doorbell.block(self.seen, timeout),
        }
        self.stamp = self.clock.now();
        // Not settled: a system call would come before the pollers. The next park, or the window's end, does it.
        self.ledger.park_ends(self.stamp, &lane.times);
        if self.stamp.since(self.timed_at) >= self.clock.ticks_from_ns(WINDOW_NS) {
            // Parks settle the windows of a lane that parks a lot, and none would be over.
            self.ledger.hasten();
        }
        // A note that is older than this park is of a ring that lost its way, or of one long heeded; one that comes later is left out.
        let rung_at = Ticks(lane.doorbell.rung_at());
        let from = if rung_at > began { Some(rung_at) } else { until.filter(|until| *until > began) };
        let wake = from.filter(|from| *from <= self.stamp).map(|from| self.stamp.since(from).max(1));
        (self.stamp.since(began).max(1), wake)
    }

    /// Takes the offer back. `true`: a lender was called, or would have been.
    fn retract(&mut self, offer: Offer) -> bool {
        let sleepers = &self.shared.sleepers;
        match offer {
            Offer::Sleeper(asleep) => {
                self.searching = Some(sleepers.wake_up(self.lane, asleep));
                false
            }
            // Called by name; or something waits and there is nobody else to come for it.
            Offer::Lender => {
                sleepers.unlend(self.lane) || self.shared.work_waits() && self.shared.nobody_comes(self.lane)
            }
            Offer::None => false,
        }
    }

    /// Tells the sleepers' word that the lanes beside this one have the core to themselves, or no longer.
    fn tell_siblings(&self, quiet: bool) {
        for &sibling in &self.siblings {
            self.shared.sleepers.sibling_quiet(sibling, quiet);
        }
    }
}
