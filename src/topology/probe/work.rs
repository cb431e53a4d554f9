//! The arithmetic that two threads on one core compete for.
//!
//! Twelve chains that depend on each other only loosely: four of multiplications, eight of additions, exclusive ors and
//! rotations. A core finds about four instructions to start each cycle, which is all that its integer units take; a sibling
//! that does the same gets half of them. No memory is touched, so caches, their misses and what shares them have no part
//! in it. Multiplications are kept from being merged across steps by what is mixed in between.

/// The chains' state. What it holds means nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work([u64; 12]);

impl Work {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|at| at as u64 + 1))
    }

    /// Does so many turns, of a few nanoseconds each.
    #[inline(never)]
    pub(super) fn turn(&mut self, turns: u32) {
        /// Odd, so that multiplying by it loses nothing; its bits are those of the golden ratio.
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let [mut m0, mut m1, mut m2, mut m3, mut y0, mut y1, mut y2, mut y3, mut z0, mut z1, mut z2, mut z3] = self.0;
        for _ in 0..turns {
            m0 = m0.wrapping_mul(ODD) ^ y0;
            m1 = m1.wrapping_mul(ODD) ^ y1;
            m2 = m2.wrapping_mul(ODD) ^ y2;
            m3 = m3.wrapping_mul(ODD) ^ y3;
            y0 = y0.rotate_left(7).wrapping_add(z0);
            y1 = y1.rotate_left(11).wrapping_add(z1);
            y2 = y2.rotate_left(19).wrapping_add(z2);
            y3 = y3.rotate_left(23).wrapping_add(z3);
            z0 = z0.wrapping_add(ODD) ^ m1;
            z1 = z1.wrapping_sub(ODD) ^ m2;
            z2 = z2.wrapping_add(ODD) ^ m3;
            z3 = z3.wrapping_sub(ODD) ^ m0;
        }
        self.0 = std::hint::black_box([m0, m1, m2, m3, y0, y1, y2, y3, z0, z1, z2, z3]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// If the compiler saw through it, ten times the turns would not take longer.
    #[test]
    fn more_turns_take_more_time() {
        let mut work = Work::new();
        let best = |work: &mut Work, turns| {
            let time = |work: &mut Work| {
                let began = Instant::now();
                work.turn(turns);
                began.elapsed()
            };
            (0..50).map(|_| time(work)).min().unwrap()
        };
        let (few, many) = (best(&mut work, 1_000), best(&mut work, 10_000));
        assert!(many > 4 * few, "1000 turns take {few:?}, 10000 take {many:?}");
    }
}
