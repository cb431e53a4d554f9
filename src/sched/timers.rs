//! A lane's own deadlines, earliest first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::wait::clock::Ticks;

/// Deadlines with what is due at each. Owner only; no lock.
#[derive(Debug)]
pub(crate) struct Deadlines<T>(BinaryHeap<Reverse<(Ticks, T)>>);

impl<T: Ord> Deadlines<T> {
    pub(crate) fn new() -> Self {
        Self(BinaryHeap::new())
    }

    pub(crate) fn add(&mut self, at: Ticks, what: T) {
        self.0.push(Reverse((at, what)));
    }

    /// When the earliest is due. `None`: nothing is planned.
    #[inline]
    pub(crate) fn next(&self) -> Option<Ticks> {
        self.0.peek().map(|Reverse((at, _))| *at)
    }

    /// Takes the earliest, if it is due by `now`.
    pub(crate) fn pop_due(&mut self, now: Ticks) -> Option<T> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|Reverse((_, what))| what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_in_order_of_time_and_not_before() {
        let mut deadlines = Deadlines::new();
        for (at, what) in [(30, 'c'), (10, 'a'), (20, 'b')] {
            deadlines.add(Ticks(at), what);
        }
        assert_eq!(deadlines.next(), Some(Ticks(10)));
        assert_eq!(deadlines.pop_due(Ticks(9)), None);
        assert_eq!(deadlines.pop_due(Ticks(20)), Some('a'));
        assert_eq!(deadlines.pop_due(Ticks(20)), Some('b'));
        assert_eq!(deadlines.pop_due(Ticks(20)), None);
        assert_eq!(deadlines.next(), Some(Ticks(30)));
    }
}
