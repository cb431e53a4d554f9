//! The device's side of a runtime: the flow to its queues, and who decides what goes there.

use std::cell::Cell;

use super::cpu::calibrate::Footprint;
use super::dsa::prepare::Manner;
use super::dsa::queue::{Queue, QueueId};
use super::flow::{Flow, How, Ticket, Tickets};
use super::route::{self, Ask, BatchGain, Choice, Mode, QueueView, Router};
use super::{Engine, Intent, Kind, Operation, Reopening};

/// Queues that a decision looks at: more than that are more than a service has opened.
const VIEWS_MAX: usize = route::QUEUES_MAX;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) flow: Flow,
    pub(crate) router: Router,
    /// What becomes of queues that died.
    pub(crate) reopening: Reopening,
    /// The node that the runtime's lanes are on; `None`: on several, or not known.
    pub(crate) node: Option<u32>,
    /// What the neighbours need of the cache.
    pub(crate) footprint: Footprint,
}

thread_local! {
    /// Counts the thread's decisions: one in some is timed.
    static TURN: Cell<u32> = const { Cell::new(0) };
}

/// Where an operation goes, and how long it takes if that is to be told.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Cpu { timed: bool },
    Queue { how: How, timed: bool },
}

impl Device {
    /// The largest piece that the queue takes, in bytes.
    #[inline]
    pub(crate) fn transfer_max(&self, queue: QueueId) -> usize {
        let max = self.flow.queues().find(queue).map_or(0, |queue| queue.limits().transfer_max);
        usize::try_from(max).unwrap_or(usize::MAX)
    }

    /// The queue's place among those that a decision looks at, as things are now.
    pub(crate) fn place(&self, queue: QueueId) -> usize {
        let mut up = self.up(|queue| queue.health().is_up()).take(VIEWS_MAX);
        up.position(|(id, _)| id == queue).unwrap_or(VIEWS_MAX - 1)
    }

    /// Opens queues that are back. **Blocks.**
    pub(crate) fn reopen(&self) {
        self.reopening.look(self.flow.queues());
    }

    /// What is outstanding on the queue.
    pub(crate) fn ahead(&self, queue: QueueId) -> u32 {
        self.flow.queues().find(queue).map_or(0, |queue| queue.credits().taken())
    }

    /// A copy to the one queue that there is, if that is who does it. `None`: nothing was done, and [`way`](Self::way) says more.
    ///
    /// # Safety
    /// As [`Flow::submit`].
    #[inline(always)]
    pub(crate) unsafe fn submit_copy(
        &self,
        copy: (*const u8, *mut u8, usize),
        intent: Intent,
        demanded: bool,
    ) -> Option<Ticket> {
        let may_go = |queue: &Queue| {
            let plainly =
                || self.router.is_plainly_for(&self.view(queue), Kind::Copy, intent, Mode::Overlapped, copy.2);
            demanded || plainly() && self.takes_untimed_turn()
        };
        // SAFETY: the caller's promise.
        unsafe { self.flow.submit_copy(may_go, copy, intent) }
    }

    /// Of these copies as many as [`Flow::submit_copies`] takes, as [`submit_copy`](Self::submit_copy) decides.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn submit_copies<T>(
        &self,
        demanded: bool,
        intent: Intent,
        copies: &mut [T],
        copy_of: impl Fn(&mut T) -> Option<(*const u8, *mut u8, usize)>,
        put: impl Fn(&mut T, Ticket),
    ) -> Option<Tickets> {
        let go = |queue: &Queue, copies: &mut [T]| {
            if demanded { copies.len() } else { self.go(queue, intent, copies, &copy_of) }
        };
        // SAFETY: the caller's promise.
        unsafe { self.flow.submit_copies(go, intent, copies, &copy_of, put) }
    }

    /// Takes the thread's turn, unless it is one that is timed: that is left to [`way`](Self::way).
    #[inline(always)]
    fn takes_untimed_turn(&self) -> bool {
        TURN.with(|turn| {
            let now = turn.get().wrapping_add(1);
            let untimed = !self.router.is_timed(now);
            if untimed {
                turn.set(now);
            }
            untimed
        })
    }

    /// How many of these are for this queue, of the first ones. None if they are to be timed.
    #[inline(never)]
    fn go<T>(
        &self,
        queue: &Queue,
        intent: Intent,
        copies: &mut [T],
        copy_of: &impl Fn(&mut T) -> Option<(*const u8, *mut u8, usize)>,
    ) -> usize {
        if copies.is_empty() || !self.takes_untimed_turn() {
            return 0;
        }
        let view = self.view(queue);
        let (mut count, mut gain) = (0, BatchGain::default());
        for one in copies {
            let Some((_, _, len)) = copy_of(one) else { break };
            if !self.router.is_plainly_for(&view, Kind::Copy, intent, Mode::Batched, len) {
                break;
            }
            gain.add(&self.router, Kind::Copy, intent, len);
            count += 1;
        }
        // Where it does not pay, the longer way looks whether a trial is due.
        if self.router.batch_pays(gain) { count } else { 0 }
    }

    /// Who does it.
    pub(crate) fn way(&self, operation: &Operation, intent: Intent, engine: Engine, mode: Mode, gather: bool) -> Way {
        let (kind, len) = (operation.kind(), operation.len());
        let demanded = engine == Engine::Device;
        if !demanded && self.router.is_small(kind, intent, mode, len) {
            return Way::Cpu { timed: false };
        }
        let turn = TURN.with(|turn| {
            turn.set(turn.get().wrapping_add(1));
            turn.get()
        });
        let crowded = route::crowds(len, self.footprint.needs, self.footprint.cache);
        // The CPU's pieces are the runtime's own (`CpuSizes`).
        let ask = Ask { kind, len, intent, mode, crowded, bound_ns: 0, turn };
        let manner = Manner { intent, block_on_fault: false };
        let mut down = 0;
        let first = {
            let mut up = self.up(|queue| {
                let up = queue.health().is_up();
                down += usize::from(!up);
                up
            });
            // Nearly always there is one queue.
            (up.next(), up.next())
        };
        if down > 0 {
            self.reopening.notice(down);
        }
        match first {
            (Some((id, queue)), None) => {
                let chosen = self.router.decide(&ask, &[self.view(queue)]);
                let to_device = demanded || matches!(chosen.by, route::Engine::Device { .. });
                let how = How { queue: id, manner, gather };
                if to_device { Way::Queue { how, timed: chosen.timed } } else { Way::Cpu { timed: chosen.timed } }
            }
            (None, _) => Way::Cpu { timed: false },
            (Some(_), Some(_)) => self.way_of_many(&ask, manner, demanded, gather),
        }
    }

    /// The queues that are up, by this; old openings are not.
    #[inline]
    fn up(&self, mut is_up: impl FnMut(&Queue) -> bool) -> impl Iterator<Item = (QueueId, &Queue)> {
        self.flow.queues().iter().filter(move |(_, queue)| is_up(queue))
    }

    #[inline]
    fn view(&self, queue: &Queue) -> QueueView {
        let remote = matches!((self.node, queue.node()), (Some(ours), Some(theirs)) if ours != theirs);
        QueueView { fit: true, outstanding: queue.credits().taken(), depth: queue.credits().all(), remote }
    }

    #[inline(never)]
    fn way_of_many(&self, ask: &Ask, manner: Manner, demanded: bool, gather: bool) -> Way {
        let mut views = [QueueView { fit: false, outstanding: 0, depth: 0, remote: false }; VIEWS_MAX];
        let mut ids = [QueueId::from_index(0); VIEWS_MAX];
        let mut count = 0;
        for (id, queue) in self.up(|queue| queue.health().is_up()).take(VIEWS_MAX) {
            (views[count], ids[count]) = (self.view(queue), id);
            count += 1;
        }
        let Choice { by, timed } = self.router.decide(ask, &views[..count]);
        let queue = match by {
            route::Engine::Device { queue, .. } => Some(queue),
            // Demanded: the least busy one, whatever it costs.
            route::Engine::Cpu { .. } if demanded => {
                (0..count).min_by_key(|&at| (views[at].outstanding >= views[at].depth, views[at].outstanding))
            }
            route::Engine::Cpu { .. } => None,
        };
        queue.map_or(Way::Cpu { timed }, |queue| Way::Queue { how: How { queue: ids[queue], manner, gather }, timed })
    }
}

#[cfg(all(test, feature = "sim"))]
mod tests {
    use super::*;
    use crate::sim::dsa::{Device as Model, DeviceConfig, Profile, QueueConfig};
    use crate::{Builder, Placement, Runtime};

    /// Whether a copy of so many bytes goes to the device, where nothing was learnt yet.
    fn goes(knobs: impl Fn(Builder) -> Builder, mode: Mode, len: usize) -> bool {
        let model = Model::new(DeviceConfig::v1().queue(QueueConfig::shared(16)), Profile::strict(1)).unwrap();
        let _driven = model.spawn().unwrap();
        let builder = Runtime::builder().placement(Placement::Unpinned).env_overrides(false).model_device(&model);
        let rt = knobs(builder).build().unwrap();
        let copies = rt.copies();
        let copy = Operation::Copy { src: std::ptr::null(), dst: std::ptr::null_mut(), len };
        let way = copies.center.device.as_ref().unwrap().way(&copy, Intent::Soon, Engine::Auto, mode, false);
        matches!(way, Way::Queue { .. })
    }

    #[test]
    fn a_copy_that_displaces_what_a_neighbour_needs_goes_sooner() {
        let alone = |len: usize| goes(|builder| builder, Mode::Waited, len);
        let first = (1..64).map(|step| step << 10).find(|&len| alone(len)).expect("a device pays from some size on");
        let below = first - (first >> 4);
        assert!(!alone(below), "{below}");
        let beside = |needs| goes(|builder| builder.neighbour_cache(needs), Mode::Waited, below);
        assert!(beside(1 << 30), "{below}: there is no room at all");
        assert!(!beside(1), "{below}: there is room for both");
    }
}
