//! A queue that died is enabled again: it is opened anew, with a new node, a new descriptor and a new portal.
//!
//! The old opening is given up first, or a dedicated queue would be busy with us. That makes the kernel drain what was submitted to it.

use super::discover::WorkQueue;
use super::open::{self, Instructions, OpenError, Wants};
use super::queue::{Condition, Queue, QueueId, Queues};

/// What became of a dead queue.
#[derive(Debug)]
#[must_use]
#[allow(dead_code)] // what the variants hold is for reports
pub(crate) enum TakenUp {
    /// This opening follows it.
    Opened(QueueId),
    /// It is not dead, so nothing was done.
    Alive,
    /// It is not among the usable queues now. Look again later.
    NotBack,
    /// It is back and could not be opened.
    Refused(OpenError),
    /// It was opened and closed again: there were too many openings in this process (`OPENINGS_MAX` of `queue::set`).
    TooMany,
}

/// Opens a dead queue anew if it is among `found`, which was read from sysfs just now.
///
/// **Blocks**: for the kernel to drain the old opening (a device that is enabled again answers at once; one that is not, and still hangs, is not
/// found), and for the answer to a no-op. Not for lanes.
pub(crate) fn take_up(queues: &Queues, dead: QueueId, found: &[WorkQueue], cpu: Instructions, wants: Wants) -> TakenUp {
    take_up_by(queues, dead, found, |queue| open::open(queue, cpu, wants))
}

fn take_up_by(
    queues: &Queues,
    dead: QueueId,
    found: &[WorkQueue],
    open: impl FnOnce(&WorkQueue) -> Result<Queue, OpenError>,
) -> TakenUp {
    let Some(old) = queues.find(dead) else { return TakenUp::NotBack };
    if !matches!(old.health().condition(), Condition::Dead(_)) {
        return TakenUp::Alive;
    }
    let Some(queue) = found.iter().find(|queue| queue.name == old.name()) else { return TakenUp::NotBack };
    // Drained or not: what was given up stays given up, and a dedicated queue that somebody else has cannot be opened.
    let _ = old.retire();
    match open(queue) {
        Err(error) => TakenUp::Refused(error),
        Ok(new) => queues.add(new).map_or(TakenUp::TooMany, TakenUp::Opened),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::Descriptor;
    use crate::offload::dsa::discover::{Explicit, Mode};
    use crate::offload::dsa::portal::{Death, Drained, NotDrained, Portal, Submitted};
    use crate::offload::dsa::queue::{Limits, OPENINGS_MAX};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::*};

    #[derive(Debug, Default)]
    struct Retires(Arc<AtomicBool>);

    impl Portal for Retires {
        unsafe fn submit(&self, _: &Descriptor) -> Submitted {
            Submitted::Accepted
        }
        fn retire(&self) -> Result<Drained, NotDrained> {
            self.0.store(true, SeqCst);
            Ok(Drained::by_the_portals_word())
        }
    }

    fn described() -> WorkQueue {
        Explicit::new("/dev/dsa/wq3.1", Mode::Dedicated).size(4).queue().unwrap()
    }

    fn opened(retired: &Arc<AtomicBool>) -> Queue {
        let queue = described();
        let limits = Limits {
            version: queue.version,
            general: queue.capabilities,
            operations: queue.operations,
            transfer_max: queue.max_transfer_size,
            batch_max: 0,
            in_flight_max: queue.size,
            block_on_fault: false,
        };
        Queue::new(&queue.name, None, limits, Box::new(Retires(retired.clone())))
    }

    #[test]
    fn a_queue_that_is_back_is_another_opening_and_the_old_one_is_given_up() {
        let (queues, retired) = (Queues::new(), Arc::new(AtomicBool::new(false)));
        let old = queues.add(opened(&retired)).unwrap();
        let found = [described()];
        let open = |_: &WorkQueue| {
            assert!(retired.load(SeqCst), "before it is opened anew");
            Ok(opened(&Arc::default()))
        };
        assert!(matches!(take_up_by(&queues, old, &found, open), TakenUp::Alive));
        queues.find(old).unwrap().health().die(Death::Disabled);
        assert!(matches!(take_up_by(&queues, old, &[], open), TakenUp::NotBack));
        assert!(!retired.load(SeqCst), "it may still hang");
        let TakenUp::Opened(new) = take_up_by(&queues, old, &found, open) else { panic!() };
        assert_ne!(old, new);
        assert!(queues.find(new).unwrap().health().is_up());
        let condition = queues.find(old).unwrap().health().condition();
        assert_eq!(condition, Condition::Dead(Death::Disabled), "what it died of");
        assert_eq!(queues.iter().count(), 2);
    }

    #[test]
    fn openings_are_bounded() {
        let queues = Queues::new();
        for _ in 0..OPENINGS_MAX {
            queues.add(opened(&Arc::default())).unwrap();
        }
        let (old, _) = queues.iter().last().unwrap();
        queues.find(old).unwrap().health().die(Death::Halted);
        let outcome = take_up_by(&queues, old, &[described()], |_| Ok(opened(&Arc::default())));
        assert!(matches!(outcome, TakenUp::TooMany));
        assert!(queues.find(QueueId::from_index(OPENINGS_MAX as u16)).is_none());
    }
}
