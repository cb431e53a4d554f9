//! Operations that belong together: which go at once, and what must wait for what. Pure plans; nothing is allocated.
//!
//! Between descriptors a device keeps no order, but in a batch, where a fence makes a descriptor wait for those before it. So dependent operations
//! become one batch with fences where batches are taken, and *waves* where they are not: a wave is submitted when the one before it is done. What
//! needs the *answer* of an operation before it (a CRC that goes on) starts a wave in any case, since its descriptor cannot be written earlier.
//!
//! A fence closes at anything but a plain success: at a page fault too. What a batch left undone behind a fence
//! ([`Settled::NeverRan`](crate::offload::flow::Settled::NeverRan)) is planned again once what failed before it was resumed and done; if it failed for good, what depends on it is not to be done at all.

use std::ops::Range;

use super::abi::limits;
use crate::offload::Operation;

/// What an operation of a chain waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Nothing of the chain.
    Nothing,
    /// All operations before it are to be done.
    Order,
    /// As `Order`, and something in it is known only then.
    Answer,
}

/// Operations that are submitted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wave {
    /// Which of the chain.
    pub(crate) range: Range<usize>,
    /// As one batch; else singly.
    pub(crate) batch: bool,
    /// To be submitted when all waves before it are done; else at any time.
    pub(crate) waits: bool,
}

impl Wave {
    /// Whether this one of the chain carries a fence: it waits for those before it in its batch.
    pub(crate) fn is_fenced(&self, chain: &[Needs], index: usize) -> bool {
        // The first waits with its wave.
        self.batch && index > self.range.start && chain[index] != Needs::Nothing
    }
}

/// The waves of a chain on a queue that takes batches of `batch_max` (0: none) and no smaller than `batch_min`.
///
/// Whatever does not wait for a wave may overtake it: two waves of a chain that is cut for its length only run side by side.
pub(crate) fn waves(chain: &[Needs], batch_min: u32, batch_max: u32) -> impl Iterator<Item = Wave> {
    let (least, most) = (batch_min.max(1) as usize, batch_max as usize);
    let mut start = 0;
    std::iter::from_fn(move || {
        let first = *chain.get(start)?;
        let rest = &chain[start + 1..];
        // What lies behind a fence of an earlier wave waits as well: nothing says that it does not need what that fence was for.
        let after_order = chain[1..start.max(1)].iter().any(|needs| *needs != Needs::Nothing);
        let waits = start > 0 && (first != Needs::Nothing || after_order);
        // A fence sees its own batch only: beside waves that are not waited for, there is none.
        let fences = most > 0 && (waits || start == 0);
        // Up to what has to wait in software, or to what a batch holds.
        let more = match most {
            _ if !fences => {
                let room = if most == 0 { usize::MAX } else { most - 1 };
                rest.iter().take(room).take_while(|needs| **needs == Needs::Nothing).count()
            }
            _ => rest.iter().take(most - 1).take_while(|needs| **needs != Needs::Answer).count(),
        };
        let range = start..start + 1 + more;
        start = range.end;
        let long = range.len() >= least.max(limits::BATCH_MIN as usize) || (least == 1 && range.len() == 1);
        Some(Wave { batch: most > 0 && range.len() > 1 && long, waits, range })
    })
}

/// A range of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent<P> {
    pub(crate) start: P,
    pub(crate) bytes: usize,
}

/// The copies that move a list of ranges to another, in order: each is within one source and one destination, and of `most` bytes at most. They end
/// where the shorter list does.
///
/// They may be carried out in any order, so no destination may share a byte with a source: the caller sees to it, as for
/// [`Operation::CopyCrc`](crate::offload::Operation).
pub(crate) fn scatter_gather<'a>(
    sources: &'a [Extent<*const u8>],
    destinations: &'a [Extent<*mut u8>],
    most: usize,
) -> impl Iterator<Item = Operation> + 'a {
    let (mut from, mut to) = ((0, 0), (0, 0));
    std::iter::from_fn(move || {
        // Empty ranges, and those that are used up.
        while sources.get(from.0).is_some_and(|source| source.bytes == from.1) {
            from = (from.0 + 1, 0);
        }
        while destinations.get(to.0).is_some_and(|destination| destination.bytes == to.1) {
            to = (to.0 + 1, 0);
        }
        let (source, destination) = (sources.get(from.0)?, destinations.get(to.0)?);
        let len = (source.bytes - from.1).min(destination.bytes - to.1).min(most.max(1));
        let copy =
            Operation::Copy { src: source.start.wrapping_add(from.1), dst: destination.start.wrapping_add(to.1), len };
        (from.1, to.1) = (from.1 + len, to.1 + len);
        Some(copy)
    })
}

#[cfg(test)]
mod tests {
    use super::Needs::{Answer, Nothing, Order};
    use super::*;

    /// `b0-3 s3-4!`: a batch of 0, 1, 2; then 3 alone, which waits. `'` behind those that carry a fence.
    fn plan(chain: &[Needs], batch_max: u32) -> String {
        let told = waves(chain, 2, batch_max).map(|wave| {
            let members = wave.range.clone().map(|n| format!("{n}{}", if wave.is_fenced(chain, n) { "'" } else { "" }));
            let members: Vec<String> = members.collect();
            format!("{}[{}]{}", if wave.batch { "b" } else { "" }, members.join(" "), if wave.waits { "!" } else { "" })
        });
        told.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn chains_become_batches_with_fences_or_waves() {
        for (chain, batch_max, expected) in [
            (&[][..], 8, ""),
            (&[Nothing], 8, "[0]"),
            (&[Order], 8, "[0]"),
            (&[Nothing, Nothing, Nothing], 8, "b[0 1 2]"),
            (&[Nothing, Nothing, Nothing], 0, "[0 1 2]"),
            (&[Nothing, Order, Order], 8, "b[0 1' 2']"),
            (&[Nothing, Order, Order], 0, "[0] [1]! [2]!"),
            (&[Nothing, Nothing, Order, Nothing], 0, "[0 1] [2 3]!"),
            (&[Nothing, Nothing, Order, Nothing], 8, "b[0 1 2' 3]"),
            // A value that is not known yet: no fence gives it.
            (&[Nothing, Answer, Answer], 8, "[0] [1]! [2]!"),
            (&[Nothing, Order, Answer, Order, Nothing], 8, "b[0 1'] b[2 3' 4]!"),
            // Too long for one batch: the parts run side by side, unless there is order in what went before.
            (&[Nothing, Nothing, Nothing, Nothing, Nothing], 2, "b[0 1] b[2 3] [4]"),
            (&[Nothing, Order, Nothing, Nothing], 2, "b[0 1'] b[2 3]!"),
            (&[Nothing, Nothing, Order, Nothing, Nothing], 2, "b[0 1] b[2 3]! [4]!"),
            // A fence would not see the batch beside its own.
            (&[Nothing, Nothing, Nothing, Order, Nothing], 2, "b[0 1] [2] b[3 4]!"),
            (&[Nothing, Nothing, Nothing, Nothing, Order], 3, "b[0 1 2] [3] [4]!"),
        ] {
            assert_eq!(plan(chain, batch_max), expected, "{chain:?} by {batch_max}");
        }
    }

    #[test]
    fn every_member_is_in_one_wave_and_behind_what_it_needs() {
        // All chains of up to six members.
        for len in 1..=6_u32 {
            for number in 0..3_u32.pow(len) {
                let chain: Vec<Needs> =
                    (0..len).map(|n| [Nothing, Order, Answer][(number / 3_u32.pow(n) % 3) as usize]).collect();
                for batch_max in [0, 2, 3, 32] {
                    let waves: Vec<Wave> = waves(&chain, 2, batch_max).collect();
                    let members: Vec<usize> = waves.iter().flat_map(|wave| wave.range.clone()).collect();
                    assert_eq!(members, (0..chain.len()).collect::<Vec<_>>());
                    for wave in &waves {
                        assert!(!wave.batch || (2..=batch_max as usize).contains(&wave.range.len()));
                        for n in wave.range.clone().skip(1) {
                            assert_ne!(chain[n], Answer, "an answer is known between waves only");
                            assert!(chain[n] == Nothing || wave.is_fenced(&chain, n));
                            assert!(
                                chain[n] == Nothing || wave.waits || wave.range.start == 0,
                                "a fence sees its batch only"
                            );
                        }
                        let first = wave.range.start;
                        assert!(first == 0 || chain[first] == Nothing || wave.waits);
                    }
                }
            }
        }
    }

    #[test]
    fn lists_of_ranges_become_copies() {
        let source = |start: usize, bytes| Extent { start: start as *const u8, bytes };
        let destination = |start: usize, bytes| Extent { start: start as *mut u8, bytes };
        let copies = |sources: &[_], destinations: &[_], most| -> Vec<(usize, usize, usize)> {
            scatter_gather(sources, destinations, most)
                .map(|operation| match operation {
                    Operation::Copy { src, dst, len } => (src.addr(), dst.addr(), len),
                    other => panic!("{other:?}"),
                })
                .collect()
        };
        let (a, b) = (source(1000, 10), source(2000, 20));
        let (x, y) = (destination(5000, 15), destination(6000, 15));
        let all = usize::MAX;
        assert_eq!(copies(&[a, b], &[x, y], all), [(1000, 5000, 10), (2000, 5010, 5), (2005, 6000, 15)]);
        assert_eq!(copies(&[a], &[x, y], all), [(1000, 5000, 10)], "the shorter list ends it");
        assert_eq!(copies(&[a, source(1, 0), b], &[destination(1, 0), x], all), [(1000, 5000, 10), (2000, 5010, 5)]);
        assert_eq!(copies(&[b], &[x], 8), [(2000, 5000, 8), (2008, 5008, 7)]);
        assert_eq!(copies(&[], &[x], all), []);
    }
}
