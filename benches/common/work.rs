//! Work of a known length: what a call of a poller costs beside looking.

use super::stats::best;
use super::ticks;

/// So many steps of which each waits for the one before.
#[inline]
pub fn work(steps: u32) {
    let mut value = 1_u64;
    for _ in 0..steps {
        value = std::hint::black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
}

/// Steps for a call of so many nanoseconds, its two looks at the clock included.
pub fn steps_for(call_ns: f64) -> u32 {
    const MANY: u32 = 10_000;
    let time = |steps: u32| {
        let once = |_| {
            let began = ticks::now();
            work(steps);
            ticks::ns_between(began, ticks::now())
        };
        best(&(0..100).map(once).collect::<Vec<f64>>())
    };
    let clock = time(0);
    let step = time(MANY) / f64::from(MANY);
    ((call_ns - clock) / step).max(0.0).round() as u32
}

/// Random instants: exponentially distributed gaps, in ticks.
pub struct Gaps {
    dice: u64,
    mean: f64,
}

impl Gaps {
    pub fn new(mean_ns: f64, seed: u64) -> Self {
        // Any seed but 0 is as good as another; consecutive ones are far apart after the multiplication.
        Self {
            dice: seed.wrapping_add(1).wrapping_mul(0x2545_F491_4F6C_DD1D) | 1,
            mean: mean_ns / ticks::ns_per_tick(),
        }
    }

    pub fn next(&mut self) -> u64 {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        let unit = ((self.dice >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        (-unit.ln() * self.mean) as u64
    }
}
