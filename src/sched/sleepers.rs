//! Which compute lanes search, which sleep, which parked poll lanes would lend themselves: whom to wake for a task.
//!
//! One word per cache domain holds the number of searching lanes and a mask of sleeping ones, so that both change in one step; a
//! second word beside it holds the lenders. Poll lanes with pollers are in neither count. `README.md` beside this file states the
//! protocol and proves that no task waits beside an idle lane; `tests/loom_sleepers.rs` checks it.

use crossbeam_utils::CachePadded;

use crate::sync::atomic::{AtomicU64, Ordering::*, fence};

/// Lanes per word: what is left of 64 bits beside the count. A larger cache domain is split.
pub(crate) const LANES_PER_WORD: usize = 48;
const SEARCHING_ONE: u64 = 1 << LANES_PER_WORD;
const SLEEPING_MASK: u64 = SEARCHING_ONE - 1;

/// How many lanes of a word may search at once: half of them, so that a herd does not outnumber the work (rule of Go and tokio).
fn searchers_max(lanes: usize) -> u64 {
    lanes.div_ceil(2).max(1) as u64
}

/// Holding one means: this lane is counted as searching in its word, and nobody is woken for new work meanwhile. It must be given
/// back: [`Sleepers::found`] or [`Sleepers::sleep`].
#[derive(Debug)]
#[must_use = "a searcher that is never given back keeps every other lane asleep"]
pub(crate) struct Searching(());

/// Holding one means: this lane's bit was set in the sleeping mask, by it. It must be given back by [`Sleepers::wake_up`].
#[derive(Debug)]
#[must_use = "a lane that stays in the mask takes wakes that it will not act on"]
pub(crate) struct Asleep(());

/// What the last step of a search leaves to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "if the last searcher leaves without looking again, work may wait beside sleeping lanes"]
pub(crate) enum Left {
    /// Others still search.
    OthersSearch,
    /// This was the last one: look at every queue once more, and [`Sleepers::notify`] if there is work.
    Last,
}

/// Whom [`Sleepers::notify`] chose. The caller rings that lane's doorbell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the chosen lane sleeps until its doorbell is rung"]
pub(crate) enum Notify {
    /// Somebody searches and will find the work.
    SearcherFinds,
    /// Wake this sleeping lane: it is already counted as searching.
    Sleeper(usize),
    /// Wake this parked poll lane: it lends itself for a task.
    Lender(usize),
    /// Every lane is at work; they look at the queues when they finish. Poll lanes that are awake are told by `help_wanted`.
    AllBusy,
}

#[derive(Debug)]
struct Word {
    /// High 16 bits: searching lanes. Low 48: sleeping lanes.
    state: CachePadded<AtomicU64>,
    /// Parked poll lanes that lend themselves.
    lenders: CachePadded<AtomicU64>,
    /// Lanes whose sibling is parked: the core would be theirs alone. A hint.
    quiet: CachePadded<AtomicU64>,
    /// Lane number by bit.
    lanes: Box<[usize]>,
    searchers_max: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Sleepers {
    words: Box<[Word]>,
    /// Word and bit by lane number.
    place: Box<[(usize, u64)]>,
}

impl Sleepers {
    /// `domains[lane]` is the cache domain of each lane, in any numbering.
    pub(crate) fn new(domains: &[usize]) -> Self {
        let mut groups: Vec<(usize, Vec<usize>)> = Vec::new();
        for (lane, &domain) in domains.iter().enumerate() {
            match groups.iter_mut().rev().find(|(d, lanes)| *d == domain && lanes.len() < LANES_PER_WORD) {
                Some((_, lanes)) => lanes.push(lane),
                None => groups.push((domain, vec![lane])),
            }
        }
        let mut place = vec![(0, 0); domains.len()];
        for (word, (_, lanes)) in groups.iter().enumerate() {
            for (bit, &lane) in lanes.iter().enumerate() {
                place[lane] = (word, 1 << bit);
            }
        }
        let words = groups.into_iter().map(|(_, lanes)| Word {
            state: CachePadded::new(AtomicU64::new(0)),
            lenders: CachePadded::new(AtomicU64::new(0)),
            quiet: CachePadded::new(AtomicU64::new(0)),
            searchers_max: searchers_max(lanes.len()),
            lanes: lanes.into(),
        });
        Self { words: words.collect(), place: place.into() }
    }

    fn of(&self, lane: usize) -> (&Word, u64) {
        let (word, bit) = self.place[lane];
        (&self.words[word], bit)
    }

    /// Index of the word (cache domain, split) that `lane` is in: also the index of its injector.
    pub(crate) fn domain(&self, lane: usize) -> usize {
        self.place[lane].0
    }

    /// How many domains there are.
    pub(crate) fn domains(&self) -> usize {
        self.words.len()
    }

    /// *StartSearch*. `None`: enough lanes of this domain search already; go to sleep instead.
    pub(crate) fn search(&self, lane: usize) -> Option<Searching> {
        let (word, _) = self.of(lane);
        // Relaxed: to be counted promises nothing to others but that `found` or `sleep` follows, and those carry the fences.
        let counted = word.state.fetch_update(Relaxed, Relaxed, |state| {
            (state >> LANES_PER_WORD < word.searchers_max).then_some(state + SEARCHING_ONE)
        });
        counted.is_ok().then_some(Searching(()))
    }

    /// *EndSearch*, with work in hand.
    pub(crate) fn found(&self, lane: usize, searching: Searching) -> Left {
        let Searching(()) = searching;
        let (word, _) = self.of(lane);
        // Release: publishes what this lane moved into its own deque while it was counted on. Partner: whoever leaves last, by the fence in
        // `sleep` or below, since the updates of this word are one release sequence.
        let before = word.state.fetch_sub(SEARCHING_ONE, Release);
        debug_assert!(before >> LANES_PER_WORD > 0, "a searcher left that was never counted");
        if before >> LANES_PER_WORD > 1 {
            return Left::OthersSearch;
        }
        fence(SeqCst); // RecheckFence: pairs with PostFence in `notify`.
        Left::Last
    }

    /// *CommitSleep* and *SleepFence*: one step from searching (or from a refused search) to sleeping. Afterwards look at the queues of
    /// every domain once more; then block, or [`wake_up`](Self::wake_up).
    pub(crate) fn sleep(&self, lane: usize, searching: Option<Searching>) -> Asleep {
        let (word, bit) = self.of(lane);
        let leave = if searching.is_some() { SEARCHING_ONE } else { 0 };
        // One addition does both: the bit is clear (only this lane sets it, and it is awake), and the count includes us if we leave it.
        // Relaxed: ordered by the fence that follows.
        let before = word.state.fetch_add(bit.wrapping_sub(leave), Relaxed);
        debug_assert!(before & bit == 0, "a lane went to sleep twice");
        fence(SeqCst); // SleepFence: pairs with PostFence in `notify`.
        Asleep(())
    }

    /// *WakeUp*: after a block, or instead of one. Whoever cleared the bit, the lane is counted as searching from here on.
    pub(crate) fn wake_up(&self, lane: usize, asleep: Asleep) -> Searching {
        let Asleep(()) = asleep;
        let (word, bit) = self.of(lane);
        // Relaxed: see `search`. If the bit is gone, the notifier that took it counted us in the same step.
        let _ =
            word.state.fetch_update(Relaxed, Relaxed, |state| (state & bit != 0).then(|| state - bit + SEARCHING_ONE));
        Searching(())
    }

    /// *PostFence* and *ChooseWake*: call after pushing a task. `near`: the lane or domain to prefer, by lane number.
    pub(crate) fn notify(&self, near: Option<usize>) -> Notify {
        fence(SeqCst); // PostFence: pairs with SleepFence in `sleep` and `lend`, and with RecheckFence in `found`.
        let start = near.map_or(0, |lane| self.place[lane].0);
        let order = || (start..self.words.len()).chain(0..start).map(|at| &self.words[at]);
        // Relaxed: the fence above orders these loads after the push; what they decide is settled by the compare-and-swap below.
        if order().any(|word| word.state.load(Relaxed) >> LANES_PER_WORD != 0) {
            return Notify::SearcherFinds;
        }
        order().find_map(Word::take_sleeper).or_else(|| order().find_map(Word::take_lender)).unwrap_or(Notify::AllBusy)
    }

    /// *AnnounceLender* and *SleepFence*: a poll lane is about to park and would run a task. Look at the queues once more afterwards.
    pub(crate) fn lend(&self, lane: usize) {
        let (word, bit) = self.of(lane);
        // Relaxed: ordered by the fence that follows.
        word.lenders.fetch_or(bit, Relaxed);
        fence(SeqCst); // SleepFence: pairs with PostFence in `notify`.
    }

    /// *RetractLender*. True if somebody took the offer: there is work to look for.
    pub(crate) fn unlend(&self, lane: usize) -> bool {
        let (word, bit) = self.of(lane);
        // Acquire: if somebody took the bit, we see what was pushed before, even if something else woke us before its ring. Partner: PostFence
        // in `notify`, before the compare-and-swap whose value we read.
        word.lenders.fetch_and(!bit, Acquire) & bit == 0
    }

    /// Says whether the sibling of `lane` is parked, so that waking `lane` gives it a core of its own.
    pub(crate) fn sibling_quiet(&self, lane: usize, quiet: bool) {
        let (word, bit) = self.of(lane);
        // Relaxed: a hint.
        if quiet {
            word.quiet.fetch_or(bit, Relaxed);
        } else {
            word.quiet.fetch_and(!bit, Relaxed);
        }
    }

    /// Whether every one of `lanes` sleeps and nobody searches. For the shutdown, which then looks at the queues.
    pub(crate) fn all_asleep(&self, lanes: impl IntoIterator<Item = usize>) -> bool {
        // Relaxed: the caller repeats the question after looking at the queues.
        self.words.iter().all(|word| word.state.load(Relaxed) >> LANES_PER_WORD == 0)
            && lanes.into_iter().all(|lane| {
                let (word, bit) = self.of(lane);
                word.state.load(Relaxed) & bit != 0
            })
    }
}

impl Word {
    /// Moves the best sleeper from the mask into the count, in one step.
    fn take_sleeper(&self) -> Option<Notify> {
        // Relaxed: see `notify`.
        let mut state = self.state.load(Relaxed);
        loop {
            let bit = choose(state & SLEEPING_MASK, self.quiet.load(Relaxed))?;
            match self.state.compare_exchange_weak(state, state - bit + SEARCHING_ONE, Relaxed, Relaxed) {
                Ok(_) => return Some(Notify::Sleeper(self.lanes[bit.trailing_zeros() as usize])),
                Err(now) => state = now,
            }
        }
    }

    fn take_lender(&self) -> Option<Notify> {
        // Relaxed: see `notify`.
        let mut mask = self.lenders.load(Relaxed);
        loop {
            let bit = choose(mask, 0)?;
            match self.lenders.compare_exchange_weak(mask, mask - bit, Relaxed, Relaxed) {
                Ok(_) => return Some(Notify::Lender(self.lanes[bit.trailing_zeros() as usize])),
                Err(now) => mask = now,
            }
        }
    }
}

/// The first sleeper whose sibling is quiet, else the first: low lanes stay warm, high ones may sleep on.
fn choose(sleeping: u64, quiet: u64) -> Option<u64> {
    let best = if sleeping & quiet != 0 { sleeping & quiet } else { sleeping };
    (best != 0).then(|| best & best.wrapping_neg())
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;

    #[test]
    fn chooses_a_quiet_core_first_and_low_lanes_else() {
        for (sleeping, quiet, want) in [
            (0, 0, None),
            (0, !0, None),
            (0b1100, 0, Some(0b100)),
            (0b1100, 0b1000, Some(0b1000)),
            (0b1, 0b10, Some(1)),
        ] {
            assert_eq!(choose(sleeping, quiet), want, "sleeping {sleeping:b}, quiet {quiet:b}");
        }
    }

    #[test]
    fn a_large_domain_is_split_and_every_lane_has_a_place_of_its_own() {
        let sleepers = Sleepers::new(&[7; 100]);
        assert_eq!(sleepers.domains(), 3);
        let mut places = sleepers.place.to_vec();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), 100);
    }

    #[test]
    fn one_wake_in_flight_then_the_next_after_it_is_found() {
        let sleepers = Sleepers::new(&[0, 0, 0]);
        let asleep: Vec<_> = (0..3).map(|lane| sleepers.sleep(lane, None)).collect();
        assert_eq!(sleepers.notify(None), Notify::Sleeper(0), "the first push wakes the first sleeper");
        assert_eq!(sleepers.notify(None), Notify::SearcherFinds, "the second waits for it to find work");
        let mut asleep = asleep.into_iter();
        let searching = sleepers.wake_up(0, asleep.next().unwrap());
        assert_eq!(sleepers.found(0, searching), Left::Last, "it looks again, since it is the only one");
        assert_eq!(sleepers.notify(Some(0)), Notify::Sleeper(1), "and wakes the next");
        let searching = sleepers.wake_up(1, asleep.next().unwrap());
        let _ = sleepers.found(1, searching);
    }

    #[test]
    fn searchers_are_capped_at_half() {
        let sleepers = Sleepers::new(&[0; 4]);
        let first = sleepers.search(0);
        let second = sleepers.search(1);
        assert!(first.is_some() && second.is_some());
        assert!(sleepers.search(2).is_none());
    }

    #[test]
    fn a_lender_is_taken_last_and_once() {
        let sleepers = Sleepers::new(&[0, 0]);
        sleepers.lend(0);
        let asleep = sleepers.sleep(1, None);
        assert_eq!(sleepers.notify(None), Notify::Sleeper(1));
        let searching = sleepers.wake_up(1, asleep);
        let _ = sleepers.found(1, searching);
        assert_eq!(sleepers.notify(None), Notify::Lender(0));
        assert_eq!(sleepers.notify(None), Notify::AllBusy);
        assert!(sleepers.unlend(0), "the lane sees that it was called");
    }
}
