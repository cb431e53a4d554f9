//! Which slots of a page are taken: one word, in which a slot is a bit, and so is everything that must change together with one.
//!
//! Three facts share the word with the bits of the slots, because each is decided against them and a second word would need fences to agree
//! with this one:
//!
//! - *DORMANT*: the reaper has stopped looking. Whoever takes a slot clears it in the same step, and then owes the reaper a call.
//! - *WAITERS*: somebody waits for a slot. Whoever gives one back sees it in the same step, and then owes the waiters a look.
//! - *STIRRED*: a slot was taken, or used again by its holder. The other bits would not show it: a slot that was given back and taken again looks as
//!   if nothing had been, and the reaper, which sleeps beside slots whose operations are over, could fall asleep beside one that was published after
//!   it had looked.
//! - *RETIRED*: nobody takes a slot any more. Whoever gives back the last one sees it.

use crate::sync::atomic::{AtomicU64, Ordering::*};

/// Slots of a page. A page has 64 records; the bits of the last four are the word's own.
#[cfg(not(twolane_loom))]
pub(crate) const SLOTS: u32 = 60;
/// Few enough for the models to fill it.
#[cfg(twolane_loom)]
pub(crate) const SLOTS: u32 = 2;
const ALL: u64 = (1 << SLOTS) - 1;
const WAITERS: u64 = 1 << 60;
const RETIRED: u64 = 1 << 61;
const DORMANT: u64 = 1 << 62;
const STIRRED: u64 = 1 << 63;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Claims(AtomicU64);

/// What an attempt to take a slot came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Claim {
    /// These are the caller's, as bits; of several, fewer may be there than were asked for. `rouse`: the reaper is asleep; call it once they are published.
    Taken { slots: u64, rouse: bool },
    /// All are taken.
    Full,
    /// The page takes nobody any more; another one has its place.
    Retired,
}

/// What the one who gave back a slot has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Released {
    /// Somebody waits for a slot of this page.
    pub(crate) waiters: bool,
    /// It was the last slot of a page that takes nobody any more.
    pub(crate) emptied: bool,
}

impl Claims {
    pub(crate) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes one slot.
    #[inline]
    pub(crate) fn claim(&self) -> Claim {
        self.claim_by(|free| free & free.wrapping_neg())
    }

    /// Takes up to `wanted` slots, at least one.
    #[inline]
    pub(crate) fn claim_many(&self, wanted: u32) -> Claim {
        self.claim_by(|free| {
            let mut rest = free;
            for _ in 0..wanted {
                rest &= rest.wrapping_sub(1); // 0 stays 0
            }
            free & !rest
        })
    }

    #[inline]
    fn claim_by(&self, choose: impl Fn(u64) -> u64) -> Claim {
        // Relaxed: the exchange decides.
        let mut word = self.0.load(Relaxed);
        loop {
            let slots = choose(!word & ALL);
            if slots == 0 || word & RETIRED != 0 {
                return if word & RETIRED == 0 { Claim::Full } else { Claim::Retired };
            }
            // Acquire: the slot's last holder is done with it; partner is the Release in `release`. Lock-free: a failure means that somebody
            // else took or gave.
            match self.0.compare_exchange_weak(word, (word | slots | STIRRED) & !DORMANT, Acquire, Relaxed) {
                Ok(_) => return Claim::Taken { slots, rouse: word & DORMANT != 0 },
                Err(now) => word = now,
            }
        }
    }

    /// Gives back slots, by their bits, which the caller holds.
    #[inline]
    pub(crate) fn release(&self, slots: u64) -> Released {
        // A subtraction, since the bits are set: it returns the old word in one instruction.
        // Release: what was done with the slot comes before its next life; partner is the Acquire in `claim_by`. Acquire: whoever empties a retired page
        // sees everybody else's release.
        let word = self.0.fetch_sub(slots, AcqRel);
        debug_assert!(word & slots == slots, "a slot was given back twice");
        Released { waiters: word & WAITERS != 0, emptied: word & RETIRED != 0 && word & ALL == slots }
    }

    /// What is taken, as bits.
    #[inline]
    pub(crate) fn look(&self) -> Look {
        // Acquire: the slots' states are those of the holders that are seen here, or newer; partners are the Release in `release`, which ended the
        // lives before, and the one in `rouse`.
        Look(self.0.load(Acquire))
    }

    /// *DORMANT*, unless a slot was taken, given back, or used again since `look`, or between the last try and `look`. `false`: look again. One party
    /// does this at a time.
    #[must_use]
    pub(crate) fn fall_asleep(&self, look: Look) -> bool {
        if look.0 & STIRRED != 0 {
            // Relaxed: an update, so the next look sees through it to the Release in `rouse`, or to whatever came before a claim.
            self.0.fetch_and(!STIRRED, Relaxed);
            return false;
        }
        // Relaxed: nothing is published; the claim that clears the bit comes later in this word's order and is told so.
        self.0.compare_exchange(look.0, look.0 | DORMANT, Relaxed, Relaxed).is_ok()
    }

    /// *STIRRED*, for a slot that is held already and was published again. `true`: the reaper was asleep, call it.
    #[must_use]
    pub(crate) fn rouse(&self) -> bool {
        // Relaxed: the exchange decides.
        let mut word = self.0.load(Relaxed);
        loop {
            // Release: the slot's state; partner is the Acquire in `look`.
            match self.0.compare_exchange_weak(word, (word | STIRRED) & !DORMANT, Release, Relaxed) {
                Ok(_) => return word & DORMANT != 0,
                Err(now) => word = now,
            }
        }
    }

    /// *WAITERS*, if all slots are taken at that moment. `false`: one is free, or the page is retired.
    #[must_use]
    pub(crate) fn expect_waiters(&self) -> bool {
        // Relaxed: as in `claim_by`.
        let mut word = self.0.load(Relaxed);
        while word & ALL == ALL && word & RETIRED == 0 {
            // Relaxed: the list has its own lock; the release that sees the bit takes it.
            match self.0.compare_exchange_weak(word, word | WAITERS, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Nobody waits any more. Called with the list's lock held, under which alone the bit is set.
    pub(crate) fn no_waiters(&self) {
        // Relaxed: see `expect_waiters`.
        self.0.fetch_and(!WAITERS, Relaxed);
    }

    /// *RETIRED*. `true`: it is empty, nobody else will be told, and nobody was before.
    #[must_use]
    pub(crate) fn retire(&self) -> bool {
        // Acquire: as in `release`. Release: whoever sees the bit sees the page that took its place.
        let word = self.0.fetch_or(RETIRED, AcqRel);
        word & (RETIRED | ALL) == 0
    }
}

/// What was taken at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look(u64);

impl Look {
    /// The slots, as bits.
    #[inline]
    pub(crate) fn slots(self) -> u64 {
        self.0 & ALL
    }
    /// Somebody waits for a slot.
    pub(crate) fn waiters(self) -> bool {
        self.0 & WAITERS != 0
    }
    /// Nobody can take a slot.
    pub(crate) fn retired(self) -> bool {
        self.0 & RETIRED != 0
    }
    /// The reaper was told that nothing is outstanding here.
    pub(crate) fn dormant(self) -> bool {
        self.0 & DORMANT != 0
    }
}

/// The numbers of the slots whose bits are set, the lowest first.
#[inline]
pub(crate) fn numbers(mut slots: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        if slots == 0 {
            return None;
        }
        let number = slots.trailing_zeros();
        slots &= slots - 1;
        Some(number)
    })
}

#[cfg(all(test, not(twolane_loom)))]
mod tests {
    use super::*;

    fn taken(claim: Claim) -> u64 {
        match claim {
            Claim::Taken { slots, .. } => slots,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_lowest_free_slots_are_taken() {
        let claims = Claims::new();
        assert_eq!(taken(claims.claim()), 1);
        assert_eq!(taken(claims.claim_many(3)), 0b1110);
        assert_eq!(claims.release(0b100), Released { waiters: false, emptied: false });
        assert_eq!(taken(claims.claim_many(2)), 0b1_0100);
        assert_eq!(numbers(claims.look().slots()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!(taken(claims.claim_many(100)).count_ones(), SLOTS - 5, "as many as there are");
        assert_eq!(claims.claim(), Claim::Full);
        assert_eq!(claims.claim_many(2), Claim::Full);
    }

    #[test]
    fn a_claim_ends_the_reapers_sleep() {
        let claims = Claims::new();
        let before = claims.look();
        let slots = taken(claims.claim());
        assert!(!claims.fall_asleep(before), "a slot was taken meanwhile");
        let _ = claims.release(slots);
        assert!(fell_asleep(&claims));
        assert_eq!(claims.claim(), Claim::Taken { slots: 1, rouse: true });
        assert_eq!(claims.claim(), Claim::Taken { slots: 2, rouse: false }, "one is enough");
        assert!(!claims.fall_asleep(claims.look()), "a slot was taken since the last try");
        let before = claims.look();
        assert!(!claims.rouse(), "it is awake");
        assert!(!claims.fall_asleep(before), "a slot was used again meanwhile");
        assert!(fell_asleep(&claims) && claims.rouse() && !claims.rouse());
    }

    /// At the second try, if nothing happens.
    fn fell_asleep(claims: &Claims) -> bool {
        let fell = !claims.fall_asleep(claims.look()) && claims.fall_asleep(claims.look());
        fell && claims.look().dormant()
    }

    #[test]
    fn a_slot_that_was_given_back_and_taken_again_is_seen() {
        let claims = Claims::new();
        let slots = taken(claims.claim());
        assert!(!claims.fall_asleep(claims.look()));
        let before = claims.look();
        let _ = claims.release(slots);
        assert_eq!(taken(claims.claim()), slots, "the same slot");
        assert!(!claims.fall_asleep(before), "though the same slots are taken as before");
    }

    #[test]
    fn waiters_are_expected_while_it_is_full_only() {
        let claims = Claims::new();
        assert!(!claims.expect_waiters());
        let all = taken(claims.claim_many(SLOTS));
        assert!(claims.expect_waiters());
        assert!(claims.release(1).waiters && claims.release(2).waiters, "until the list is empty");
        claims.no_waiters();
        assert!(!claims.release(4).waiters && !claims.look().waiters());
        let _ = claims.release(all & !7);
    }

    #[test]
    fn the_last_slot_of_a_retired_page_tells() {
        let claims = Claims::new();
        let slots = taken(claims.claim_many(2));
        assert!(!claims.retire());
        assert_eq!(claims.claim(), Claim::Retired);
        assert!(!claims.expect_waiters());
        assert!(!claims.release(1).emptied && claims.release(slots & !1).emptied);
        assert!(!claims.retire(), "told already");
        assert!(Claims::new().retire(), "empty at once");
    }
}
