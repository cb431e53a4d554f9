//! Operations that wait for each other, on buffers that they share: what a chain is, before it begins.

use std::ops::{Bound, RangeBounds};

use super::buffer::{ReadBuffer, WriteBuffer};
use super::operation::Pattern;
use super::{Failure, Operation, cpu};

/// Operations of one chain, at most: 1024. Each is checked against those of its stage.
pub const CHAIN_MAX: usize = 1024;

/// Operations on buffers that they share, some of which wait for others: copied here, then checksummed there, then copied on. Carried out by
/// [`Copies::run`](super::Copies::run).
///
/// A chain has *stages*: the operations of a stage are carried out in any order, or at the same time, when all those of the stages before are done. [`then`](Self::then)
/// begins one. On a device the stages are one batch with fences, where the queue takes batches; where it does not, each is submitted when the one before is done. The CPU does
/// the same, one after the other.
///
/// The chain owns its buffers: `S` are merely read, `D` are written (and may be read, too). They come back with the answer.
///
/// ```
/// use twolane::offload::{Chain, Verdict};
///
/// # let rt = twolane::Runtime::builder().build()?;
/// let mut chain = Chain::new();
/// let header = chain.source(vec![1u8; 64]);
/// let body = chain.source(vec![2u8; 4032]);
/// let frame = chain.target(vec![0u8; 4096]);
/// chain.copy(header, frame.at(..64));
/// chain.copy(body, frame.at(64..));
/// chain.then();
/// let crc = chain.crc32c(frame, 0);
///
/// let done = rt.block_on(rt.copies().run(chain))??;
/// assert!(matches!(done.verdict(crc), Ok(Verdict::Crc(_))));
/// assert_eq!(done.targets[0][..65], [[1u8; 64].as_slice(), &[2]].concat());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a chain does nothing until it is run"]
pub struct Chain<S, D> {
    pub(super) sources: Vec<S>,
    pub(super) targets: Vec<D>,
    pub(super) steps: Vec<Step>,
    /// The next operation begins a stage.
    begins: bool,
}

/// A buffer of a chain that is merely read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Source(usize);

/// A buffer of a chain that is written, and may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target(usize);

/// An operation of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepId(pub(super) usize);

/// A part of a chain's buffer, to read from. Made of a [`Source`] or a [`Target`], which stand for all of it, or by their `at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(Place);

/// A part of a chain's target, to write to. Made of a [`Target`], which stands for all of it, or by its [`at`](Target::at).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanMut(Place);

/// Where a CRC begins: a number, or the CRC that an operation of an earlier stage has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seed {
    /// 0, or the CRC of the part before.
    Value(u32),
    /// What that operation, a [`crc32c`](Chain::crc32c) or [`copy_crc32c`](Chain::copy_crc32c), will answer.
    Of(StepId),
}

impl From<u32> for Seed {
    fn from(value: u32) -> Self {
        Self::Value(value)
    }
}

impl From<StepId> for Seed {
    fn from(step: StepId) -> Self {
        Self::Of(step)
    }
}

impl Source {
    /// These bytes of it.
    pub fn at(self, range: impl RangeBounds<usize>) -> Span {
        Span(Place::of(Which::Source(self.0), range))
    }
}

impl Target {
    /// These bytes of it.
    pub fn at(self, range: impl RangeBounds<usize>) -> SpanMut {
        SpanMut(Place::of(Which::Target(self.0), range))
    }
}

impl From<Source> for Span {
    fn from(source: Source) -> Self {
        source.at(..)
    }
}
impl From<Target> for SpanMut {
    fn from(target: Target) -> Self {
        target.at(..)
    }
}
impl From<SpanMut> for Span {
    fn from(to: SpanMut) -> Self {
        Self(to.0)
    }
}
impl From<Target> for Span {
    fn from(target: Target) -> Self {
        target.at(..).into()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Source(usize),
    Target(usize),
}

/// A range of a buffer, as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    buffer: Which,
    start: usize,
    /// `None`: to the buffer's end.
    end: Option<usize>,
}

impl Place {
    fn of(buffer: Which, range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => Some(last.saturating_add(1)),
            Bound::Excluded(&end) => Some(end),
            Bound::Unbounded => None,
        };
        Self { buffer, start, end }
    }
}

/// What an operation does, in places.
#[derive(Clone, Copy, Debug)]
enum Act {
    Copy { src: Place, dst: Place },
    Fill { pattern: Pattern, dst: Place },
    Compare { left: Place, right: Place },
    ComparePattern { src: Place, pattern: u64 },
    Crc { src: Place, seed: u32 },
    CopyCrc { src: Place, dst: Place, seed: u32 },
    Dualcast { src: Place, dst: Place, dst2: Place },
}

/// An operation of a chain and what it waits for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    act: Act,
    pub(super) turn: Turn,
}

/// When an operation has its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn {
    /// In which stage, counted from 0.
    pub(super) stage: usize,
    /// It continues this one's CRC.
    pub(super) seed_of: Option<usize>,
}

impl<S: ReadBuffer, D: WriteBuffer> Chain<S, D> {
    /// Without buffers and operations.
    pub fn new() -> Self {
        Self { sources: Vec::new(), targets: Vec::new(), steps: Vec::new(), begins: false }
    }

    /// Adds a buffer that is merely read.
    pub fn source(&mut self, buffer: S) -> Source {
        self.sources.push(buffer);
        Source(self.sources.len() - 1)
    }

    /// Adds a buffer that is written, and may be read.
    pub fn target(&mut self, buffer: D) -> Target {
        self.targets.push(buffer);
        Target(self.targets.len() - 1)
    }

    /// What is added from now on waits for all that was added before.
    pub fn then(&mut self) -> &mut Self {
        self.begins = !self.steps.is_empty();
        self
    }

    /// Copies all of `src` to the beginning of `dst`. They may overlap.
    pub fn copy(&mut self, src: impl Into<Span>, dst: impl Into<SpanMut>) -> StepId {
        self.add(Act::Copy { src: src.into().0, dst: dst.into().0 }, None)
    }

    /// Fills `dst` with these 8 bytes again and again.
    pub fn fill(&mut self, dst: impl Into<SpanMut>, pattern: [u8; 8]) -> StepId {
        self.add(Act::Fill { pattern: Pattern::Eight(pattern), dst: dst.into().0 }, None)
    }

    /// Where two ranges of one length differ first.
    pub fn compare(&mut self, left: impl Into<Span>, right: impl Into<Span>) -> StepId {
        self.add(Act::Compare { left: left.into().0, right: right.into().0 }, None)
    }

    /// Where a range first differs from these 8 bytes, repeated.
    pub fn compare_pattern(&mut self, src: impl Into<Span>, pattern: [u8; 8]) -> StepId {
        self.add(Act::ComparePattern { src: src.into().0, pattern: u64::from_le_bytes(pattern) }, None)
    }

    /// CRC-32C. One that goes on where another operation has ended waits for it, in a stage of its own if need be.
    pub fn crc32c(&mut self, src: impl Into<Span>, seed: impl Into<Seed>) -> StepId {
        let (seed, seed_of) = split(seed.into());
        self.add(Act::Crc { src: src.into().0, seed }, seed_of)
    }

    /// [`copy`](Self::copy) and [`crc32c`](Self::crc32c) in one. The ranges do not overlap.
    pub fn copy_crc32c(&mut self, src: impl Into<Span>, dst: impl Into<SpanMut>, seed: impl Into<Seed>) -> StepId {
        let (seed, seed_of) = split(seed.into());
        self.add(Act::CopyCrc { src: src.into().0, dst: dst.into().0, seed }, seed_of)
    }

    /// Copies all of `src` to the beginnings of both. No two of the three overlap.
    pub fn dualcast(&mut self, src: impl Into<Span>, dst: impl Into<SpanMut>, dst2: impl Into<SpanMut>) -> StepId {
        self.add(Act::Dualcast { src: src.into().0, dst: dst.into().0, dst2: dst2.into().0 }, None)
    }

    fn add(&mut self, act: Act, seed_of: Option<usize>) -> StepId {
        let last = self.steps.last().map_or(0, |step| step.turn.stage);
        let waits = std::mem::take(&mut self.begins)
            || seed_of.is_some_and(|of| self.steps.get(of).is_some_and(|step| step.turn.stage == last));
        self.steps.push(Step { act, turn: Turn { stage: last + usize::from(waits), seed_of } });
        StepId(self.steps.len() - 1)
    }

    /// The operations, in addresses; those in the buffers that the chain has now, which may move without them.
    ///
    /// # Errors
    /// [`Failure::Refused`], with the operation's number.
    pub(super) fn operations(&mut self) -> Result<Vec<Operation>, Failure> {
        if self.steps.len() > CHAIN_MAX {
            let what = format!("a chain of {} operations: at most {CHAIN_MAX}, so run several", self.steps.len());
            return Err(Failure::Refused { what });
        }
        let mut spans = Vec::with_capacity(self.steps.len());
        let mut operations = Vec::with_capacity(self.steps.len());
        for at in 0..self.steps.len() {
            let step = self.steps[at];
            let refuse = |what: String| Failure::Refused { what: format!("operation {at} of the chain: {what}") };
            let operation = self.resolve(&step.act).map_err(refuse)?;
            let known = |of: usize| {
                let continues = |step: &Step| step.turn.stage < self.steps[at].turn.stage && step.act.has_crc();
                self.steps.get(of).is_some_and(continues)
            };
            if let Some(of) = step.turn.seed_of.filter(|&of| !known(of)) {
                return Err(refuse(format!(
                    "operation {of}, whose checksum it continues, is none before it that has one"
                )));
            }
            cpu::check(&operation).map_err(|failure| refuse(failure.to_string()))?;
            spans.push(step.act.spans());
            operations.push(operation);
        }
        if let Some((one, other)) = conflict(&self.steps, &spans, |place| self.bounds(place)) {
            let what = format!(
                "operations {one} and {other} of the chain use the same bytes, one of them to write, and neither waits for the other: put `then` between them"
            );
            return Err(Failure::Refused { what });
        }
        Ok(operations)
    }

    /// Where a place begins and ends in its buffer, whose length is known.
    fn bounds(&self, place: Place) -> (usize, usize) {
        let len = match place.buffer {
            Which::Source(at) => self.sources.get(at).map_or(0, |buffer| buffer.readable().1),
            // A length is the same at every call, and asking for it takes `&mut`: what has no end has the furthest.
            Which::Target(_) => usize::MAX,
        };
        (place.start, place.end.unwrap_or(len))
    }

    fn read(&mut self, place: Place) -> Result<(*const u8, usize), String> {
        let (start, len) = match place.buffer {
            Which::Source(at) => self.sources.get(at).map(ReadBuffer::readable).ok_or_else(|| foreign("source", at))?,
            Which::Target(_) => {
                self.write(Place { start: 0, end: None, ..place }).map(|(at, len)| (at.cast_const(), len))?
            }
        };
        within(place, len).map(|len| (start.wrapping_add(place.start), len))
    }

    fn write(&mut self, place: Place) -> Result<(*mut u8, usize), String> {
        let Which::Target(at) = place.buffer else { return Err("a source is not written".into()) };
        let (start, len) = self.targets.get_mut(at).map(WriteBuffer::writable).ok_or_else(|| foreign("target", at))?;
        within(place, len).map(|len| (start.wrapping_add(place.start), len))
    }

    fn resolve(&mut self, act: &Act) -> Result<Operation, String> {
        let room = |room: usize, len: usize| match room >= len {
            true => Ok(()),
            false => Err(format!("its destination has {room} bytes, and {len} are needed")),
        };
        Ok(match *act {
            Act::Copy { src, dst } => {
                let ((src, len), (dst, has)) = (self.read(src)?, self.write(dst)?);
                room(has, len)?;
                Operation::Copy { src, dst, len }
            }
            Act::Fill { pattern, dst } => {
                let (dst, len) = self.write(dst)?;
                Operation::Fill { pattern, dst, len }
            }
            Act::Compare { left, right } => {
                let ((left, len), (right, other)) = (self.read(left)?, self.read(right)?);
                if len != other {
                    return Err(format!("a comparison of {len} with {other} bytes: give ranges of one length"));
                }
                Operation::Compare { left, right, len }
            }
            Act::ComparePattern { src, pattern } => {
                let (src, len) = self.read(src)?;
                Operation::ComparePattern { src, pattern, len }
            }
            Act::Crc { src, seed } => {
                let (src, len) = self.read(src)?;
                Operation::Crc { src, len, seed }
            }
            Act::CopyCrc { src, dst, seed } => {
                let ((src, len), (dst, has)) = (self.read(src)?, self.write(dst)?);
                room(has, len)?;
                Operation::CopyCrc { src, dst, len, seed }
            }
            Act::Dualcast { src, dst, dst2 } => {
                let ((src, len), (dst, has), (dst2, has2)) = (self.read(src)?, self.write(dst)?, self.write(dst2)?);
                room(has, len)?;
                room(has2, len)?;
                Operation::Dualcast { src, dst, dst2, len }
            }
        })
    }
}

impl<S: ReadBuffer, D: WriteBuffer> Default for Chain<S, D> {
    fn default() -> Self {
        Self::new()
    }
}

fn split(seed: Seed) -> (u32, Option<usize>) {
    match seed {
        Seed::Value(value) => (value, None),
        Seed::Of(StepId(step)) => (0, Some(step)),
    }
}

fn foreign(what: &str, at: usize) -> String {
    format!("{what} {at} is not of this chain")
}

fn within(place: Place, len: usize) -> Result<usize, String> {
    let (start, end) = (place.start, place.end.unwrap_or(len));
    if start <= end && end <= len {
        Ok(end - start)
    } else {
        Err(format!("bytes {start}..{end} of a buffer of {len}: give a range within it, its start not behind its end"))
    }
}

impl Act {
    fn has_crc(&self) -> bool {
        matches!(self, Self::Crc { .. } | Self::CopyCrc { .. })
    }

    /// What it uses, and whether it writes it.
    fn spans(&self) -> [Option<(Place, bool)>; 3] {
        let (read, write) = (|place| Some((place, false)), |place| Some((place, true)));
        match *self {
            Self::Copy { src, dst } | Self::CopyCrc { src, dst, .. } => [read(src), write(dst), None],
            Self::Fill { dst, .. } => [write(dst), None, None],
            Self::Compare { left, right } => [read(left), read(right), None],
            Self::ComparePattern { src, .. } | Self::Crc { src, .. } => [read(src), None, None],
            Self::Dualcast { src, dst, dst2 } => [read(src), write(dst), write(dst2)],
        }
    }
}

/// Two operations of one stage of which one writes what the other uses: nobody could say what comes of it.
///
/// A destination counts with all the room that it was given, also where less is copied: what a range is to be used for is not known from its neighbours.
fn conflict(
    steps: &[Step],
    spans: &[[Option<(Place, bool)>; 3]],
    bounds: impl Fn(Place) -> (usize, usize),
) -> Option<(usize, usize)> {
    let meet = |one: Place, other: Place| {
        let ((a, b), (c, d)) = (bounds(one), bounds(other));
        one.buffer == other.buffer && a < d && c < b && a < b && c < d
    };
    let clash = |one: usize, other: usize| {
        let pairs = spans[one].iter().flatten().flat_map(|a| spans[other].iter().flatten().map(move |b| (a, b)));
        pairs.into_iter().any(|((a, a_writes), (b, b_writes))| (*a_writes || *b_writes) && meet(*a, *b))
    };
    (0..steps.len()).find_map(|other| {
        let stage = steps[other].turn.stage;
        let peers = (0..other).rev().take_while(|&one| steps[one].turn.stage == stage);
        peers.into_iter().find(|&one| clash(one, other)).map(|one| (one, other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(build: impl FnOnce(&mut Chain<Vec<u8>, Vec<u8>>)) -> Option<String> {
        let mut chain = Chain::new();
        build(&mut chain);
        chain.operations().err().map(|failure| failure.to_string())
    }

    #[test]
    fn stages_begin_with_then_and_with_what_needs_an_answer() {
        let mut chain = Chain::<Vec<u8>, Vec<u8>>::new();
        let (src, dst) = (chain.source(vec![1; 64]), chain.target(vec![0; 64]));
        chain.then(); // nothing to wait for
        chain.copy(src.at(..32), dst.at(..32));
        let first = chain.crc32c(src, 7);
        chain.then();
        chain.copy(dst.at(..8), dst.at(40..));
        let second = chain.crc32c(src, first);
        chain.crc32c(src, second);
        assert_eq!(chain.steps.iter().map(|step| step.turn.stage).collect::<Vec<_>>(), [0, 0, 1, 1, 2]);
        assert_eq!(
            chain.steps.iter().map(|step| step.turn.seed_of).collect::<Vec<_>>(),
            [None, None, None, Some(1), Some(3)]
        );
        assert!(chain.operations().is_ok());
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_number() {
        for (says, build) in [
            (
                "operation 0 of the chain: bytes 60..70 of a buffer of 64",
                (|chain| {
                    let (src, dst) = (chain.source(vec![0; 64]), chain.target(vec![0; 99]));
                    chain.copy(src.at(60..70), dst);
                }) as fn(&mut Chain<Vec<u8>, Vec<u8>>),
            ),
            ("its destination has 5 bytes, and 64 are needed", |chain| {
                let (src, dst) = (chain.source(vec![0; 64]), chain.target(vec![0; 99]));
                chain.copy(src, dst.at(10..15));
            }),
            ("a comparison of 64 with 63", |chain| {
                let src = chain.source(vec![0; 64]);
                chain.compare(src, src.at(1..));
            }),
            ("target 0 is not of this chain", |chain| {
                let dst = Chain::<Vec<u8>, Vec<u8>>::new().target(vec![]);
                chain.fill(dst, [0; 8]);
            }),
            ("operation 3, whose checksum it continues, is none before it", |chain| {
                let src = chain.source(vec![0; 64]);
                chain.crc32c(src, StepId(3));
            }),
            ("operation 0, whose checksum it continues, is none before it that has one", |chain| {
                let (src, dst) = (chain.source(vec![0; 64]), chain.target(vec![0; 64]));
                let copied = chain.copy(src, dst);
                chain.crc32c(src, copied);
            }),
            ("operations 0 and 1 of the chain use the same bytes", |chain| {
                let (src, dst) = (chain.source(vec![0; 64]), chain.target(vec![0; 64]));
                chain.copy(src, dst);
                chain.crc32c(dst, 0);
            }),
            ("operations 1 and 2 of the chain use the same bytes", |chain| {
                let (src, dst) = (chain.source(vec![0; 64]), chain.target(vec![0; 64]));
                chain.copy(src.at(..8), dst.at(..8));
                chain.copy(src.at(..8), dst.at(8..16));
                chain.fill(dst.at(15..16), [0; 8]);
            }),
            ("a chain of 1025 operations: at most 1024", |chain| {
                let src = chain.source(vec![0; 64]);
                (0..1025).for_each(|_| _ = chain.crc32c(src, 0));
            }),
        ] {
            let error = refusal(build).unwrap_or_else(|| panic!("not refused: {says}"));
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn what_others_only_read_or_wait_for_is_no_conflict() {
        assert_eq!(
            refusal(|chain| {
                let (src, dst) = (chain.source(vec![0; 64]), chain.target(vec![0; 64]));
                chain.copy(src, dst.at(..64));
                chain.crc32c(src, 0);
                chain.then();
                chain.fill(dst.at(..32), [1; 8]);
                chain.fill(dst.at(32..), [1; 8]);
                chain.fill(dst.at(32..32), [1; 8]);
                chain.then();
                chain.copy(dst.at(..40), dst.at(20..));
            }),
            None
        );
    }
}
