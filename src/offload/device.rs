//! The device's side of a runtime: the flow to its queues, and who decides what goes there.

use std::cell::Cell;

use super::dsa::prepare::Manner;
use super::dsa::queue::QueueId;
use super::flow::{Flow, How};
use super::route::{self, Ask, Choice, Mode, QueueView, Router};
use super::{Engine, Intent, Operation, Reopening};

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
    /// How long the CPU may work on an operation in one go, in nanoseconds; 0: as long as it takes.
    pub(crate) bound_ns: u32,
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
        let up = self.flow.queues().iter().filter(|(_, queue)| queue.health().is_up());
        up.take(VIEWS_MAX).position(|(id, _)| id == queue).unwrap_or(VIEWS_MAX - 1)
    }

    /// Opens queues that are back. **Blocks.**
    pub(crate) fn reopen(&self) {
        self.reopening.look(self.flow.queues());
    }

    /// What is outstanding on the queue.
    pub(crate) fn ahead(&self, queue: QueueId) -> u32 {
        self.flow.queues().find(queue).map_or(0, |queue| queue.credits().taken())
    }

    /// Who does it.
    #[inline]
    pub(crate) fn way(&self, operation: &Operation, intent: Intent, engine: Engine, mode: Mode, gather: bool) -> Way {
        let (kind, len) = (operation.kind(), operation.len());
        let demanded = engine == Engine::Device;
        if !demanded && self.router.is_small(kind, intent, mode, len) {
            return Way::Cpu { timed: false };
        }
        let mut views = [QueueView { fit: false, outstanding: 0, depth: 0, remote: false }; VIEWS_MAX];
        let mut ids = [QueueId::from_index(0); VIEWS_MAX];
        let (mut count, mut down) = (0, 0);
        // The latest openings have the word: an old one of the same queue is dead.
        for (id, queue) in self.flow.queues().iter() {
            if !queue.health().is_up() {
                down += 1;
                continue;
            }
            if count == VIEWS_MAX {
                break;
            }
            let remote = matches!((self.node, queue.node()), (Some(ours), Some(theirs)) if ours != theirs);
            let (outstanding, depth) = (queue.credits().taken(), queue.credits().all());
            views[count] = QueueView { fit: true, outstanding, depth, remote };
            ids[count] = id;
            count += 1;
        }
        self.reopening.notice(down);
        let turn = TURN.with(|turn| {
            turn.set(turn.get().wrapping_add(1));
            turn.get()
        });
        let ask = Ask { kind, len, intent, mode, crowded: false, bound_ns: self.bound_ns, turn };
        let manner = Manner { intent, block_on_fault: false };
        let Choice { by, timed } = self.router.decide(&ask, &views[..count]);
        match by {
            route::Engine::Device { queue, .. } => Way::Queue { how: How { queue: ids[queue], manner, gather }, timed },
            // Demanded: the least busy one, whatever it costs.
            route::Engine::Cpu { .. } if demanded => {
                let least =
                    (0..count).min_by_key(|&at| (views[at].outstanding >= views[at].depth, views[at].outstanding));
                least.map_or(Way::Cpu { timed: false }, |at| Way::Queue {
                    how: How { queue: ids[at], manner, gather },
                    timed: false,
                })
            }
            route::Engine::Cpu { .. } => Way::Cpu { timed },
        }
    }
}
