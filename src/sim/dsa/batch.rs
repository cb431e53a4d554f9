//! Which child of a batch may start, and what has the batch come to? (SPEC 3.8, 8.3.2)

use crate::offload::dsa::abi::{Descriptor, Flags, Status};

use super::execute::{Outcome, PageFault};
use super::record;
use super::state::operations_in;

/// A batch under way: pure bookkeeping.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    /// As the descriptor says.
    count: u64,
    /// Those of the list that could be read.
    children: Vec<Child>,
    /// The page of the list that could not be read; the children are those before it.
    list_fault: Option<PageFault>,
    /// The descriptor says that an earlier part of the batch had an error, which a fence counts.
    failed_before: bool,
    /// The device tells in the record's result whether a child did not succeed.
    tells_result: bool,
    /// A fence gave up the children from here on.
    abandoned_from: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) descriptor: Descriptor,
    pub(crate) state: ChildState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildState {
    Waiting,
    Running,
    Ended {
        status: Status,
        /// It has a record of its own, which software can see.
        reported: bool,
    },
}

impl Batch {
    pub(crate) fn new(
        list: Vec<Descriptor>,
        list_fault: Option<PageFault>,
        descriptor: &Descriptor,
        tells_result: bool,
    ) -> Self {
        let waiting = |descriptor| Child { descriptor, state: ChildState::Waiting };
        Self {
            count: operations_in(descriptor),
            children: list.into_iter().map(waiting).collect(),
            list_fault,
            failed_before: descriptor.flags().contains(Flags::BATCH_ERROR),
            tells_result,
            abandoned_from: None,
        }
    }

    pub(crate) fn children(&self) -> &[Child] {
        &self.children
    }

    /// Children that may start now. `in_order`: one after the other, each when the one before it has ended.
    pub(crate) fn startable(&mut self, in_order: bool) -> Vec<usize> {
        let mut startable = Vec::new();
        let mut all_ended = true;
        let mut failed = self.failed_before;
        let end = self.end();
        for index in 0..end {
            let is_fence = self.children[index].descriptor.flags().contains(Flags::FENCE);
            if is_fence && self.children[index].state == ChildState::Waiting {
                if !all_ended {
                    break;
                }
                if failed {
                    self.abandoned_from = Some(index);
                    break;
                }
            }
            match self.children[index].state {
                ChildState::Waiting if in_order && !all_ended => break,
                ChildState::Waiting => {
                    startable.push(index);
                    all_ended = false;
                }
                ChildState::Running => all_ended = false,
                ChildState::Ended { status, .. } => failed |= status != Status::SUCCESS,
            }
        }
        startable
    }

    pub(crate) fn start(&mut self, index: usize) -> Descriptor {
        self.children[index].state = ChildState::Running;
        self.children[index].descriptor
    }

    pub(crate) fn ended(&mut self, index: usize, status: Status, reported: bool) {
        self.children[index].state = ChildState::Ended { status, reported };
    }

    /// What it came to, once every child has ended or was given up.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        let processed = &self.children[..self.end()];
        let statuses = processed.iter().map(|child| match child.state {
            ChildState::Ended { status, .. } => Some(status),
            ChildState::Waiting | ChildState::Running => None,
        });
        let statuses: Option<Vec<Status>> = statuses.collect();
        let statuses = statuses?;
        let count = statuses.len() as u32;
        let failed = self.abandoned_from.is_some() || statuses.iter().any(|status| *status != Status::SUCCESS);
        let outcome = match self.list_fault {
            Some(fault) if self.abandoned_from.is_none() => record::list_fault(fault.address, fault.refused, count),
            _ => {
                let status = if failed { Status::BATCH_FAIL } else { Status::SUCCESS };
                Outcome { completed: count, ..Outcome::of(status) }
            }
        };
        let result = self.tells_result.then(|| u8::from(failed || self.failed_before));
        Some(Outcome { result, ..outcome })
    }

    /// Children of which software cannot have heard if it does not hear of the batch.
    pub(crate) fn unreported(&self) -> u64 {
        let reported = |child: &&Child| matches!(child.state, ChildState::Ended { reported: true, .. });
        self.count - self.children.iter().filter(reported).count() as u64
    }

    fn end(&self) -> usize {
        self.abandoned_from.unwrap_or(self.children.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::dsa::abi::FaultOperand;

    /// A list in which `f` stands for a fenced child and `-` for one without.
    fn batch(list: &str) -> Batch {
        let child =
            |letter| if letter == 'f' { Descriptor::noop().with_flags(Flags::FENCE) } else { Descriptor::noop() };
        Batch::new(list.chars().map(child).collect(), None, &Descriptor::batch(0, list.len() as u32), false)
    }

    fn end(batch: &mut Batch, index: usize, status: Status) {
        batch.start(index);
        batch.ended(index, status, false);
    }

    #[test]
    fn without_fences_all_may_start_at_once() {
        let mut batch = batch("---");
        assert_eq!(batch.startable(false), [0, 1, 2]);
        batch.start(1);
        assert_eq!(batch.startable(false), [0, 2]);
        assert_eq!(batch.outcome(), None);
    }

    #[test]
    fn in_order_is_one_after_the_other() {
        let mut batch = batch("---");
        assert_eq!(batch.startable(true), [0]);
        batch.start(0);
        assert!(batch.startable(true).is_empty());
        batch.ended(0, Status::BAD_OPCODE, true);
        assert_eq!(batch.startable(true), [1], "without a fence a failure stops nobody");
    }

    #[test]
    fn a_fence_waits_for_those_before_it_and_holds_those_behind_it() {
        let mut batch = batch("--f-");
        assert_eq!(batch.startable(false), [0, 1]);
        end(&mut batch, 1, Status::SUCCESS);
        assert_eq!(batch.startable(false), [0]);
        end(&mut batch, 0, Status::SUCCESS);
        assert_eq!(batch.startable(false), [2, 3]);
    }

    #[test]
    fn a_fence_gives_up_after_anything_but_success() {
        for status in [Status::SUCCESS_PRED, Status::PAGE_FAULT_NOBOF, Status::BAD_OPCODE] {
            let mut batch = batch("--f--f");
            end(&mut batch, 0, status);
            end(&mut batch, 1, Status::SUCCESS);
            assert!(batch.startable(false).is_empty());
            let outcome = batch.outcome().unwrap();
            assert_eq!((outcome.status, outcome.completed), (Status::BATCH_FAIL, 2), "{status:?}");
        }
    }

    #[test]
    fn on_success_the_count_is_all_of_them() {
        let mut batch = batch("-f");
        end(&mut batch, 0, Status::SUCCESS);
        assert_eq!(batch.startable(false), [1]);
        end(&mut batch, 1, Status::SUCCESS);
        let outcome = batch.outcome().unwrap();
        assert_eq!((outcome.status, outcome.completed, outcome.result), (Status::SUCCESS, 2, None));
    }

    #[test]
    fn a_failure_alone_is_told_and_stops_nobody() {
        let mut batch = batch("--");
        end(&mut batch, 0, Status::PAGE_FAULT_NOBOF);
        assert_eq!(batch.startable(false), [1]);
        end(&mut batch, 1, Status::SUCCESS);
        let outcome = batch.outcome().unwrap();
        assert_eq!((outcome.status, outcome.completed), (Status::BATCH_FAIL, 2));
    }

    #[test]
    fn what_is_behind_an_unreadable_page_is_not_processed() {
        let fault = PageFault { address: 0x1000, write: false, refused: true, operand: FaultOperand::First };
        let mut batch = Batch::new(vec![Descriptor::noop()], Some(fault), &Descriptor::batch(0xfc0, 2), true);
        assert_eq!(batch.outcome(), None);
        end(&mut batch, 0, Status::SUCCESS);
        let outcome = batch.outcome().unwrap();
        assert_eq!((outcome.status, outcome.completed, outcome.result), (Status::BATCH_PAGE_FAULT, 1, Some(0)));
        let nothing = Batch::new(Vec::new(), Some(fault), &Descriptor::batch(0xfc0, 2), false);
        assert_eq!(nothing.outcome().unwrap().completed, 0);
    }

    /// Batch continuation: the first fence counts what the part before it came to.
    #[test]
    fn an_error_before_this_part_counts_for_its_fences() {
        let list = vec![Descriptor::noop(), Descriptor::noop().with_flags(Flags::FENCE)];
        let continued = Descriptor::batch(0, 2).with_flags(Flags::BATCH_ERROR);
        let mut batch = Batch::new(list, None, &continued, true);
        assert_eq!(batch.startable(false), [0]);
        end(&mut batch, 0, Status::SUCCESS);
        assert!(batch.startable(false).is_empty());
        let outcome = batch.outcome().unwrap();
        assert_eq!((outcome.status, outcome.completed, outcome.result), (Status::BATCH_FAIL, 1, Some(1)));
    }

    #[test]
    fn unreported_children_are_those_without_a_record() {
        let mut batch = batch("---");
        batch.start(0);
        batch.ended(0, Status::BAD_OPCODE, true);
        end(&mut batch, 1, Status::SUCCESS);
        assert_eq!(batch.unreported(), 2);
    }
}
