//! `neighbour_slowdown_ratio`: what does a large copy take from a neighbour that lives in the cache?
//!
//! **Method.** On one cpu a neighbour follows pointers through 32 MiB, in an order that no prefetcher guesses: each hop is a load that waits for
//! the one before. On the other cpu, 64 MiB are copied again and again, one copy a period, which is what `memcpy` takes and a tenth more: the same
//! work in the same time, so that the faster copy gets no blame for doing more. A slot is two periods, after one that sets the scene. Figure: the
//! neighbour's nanoseconds a hop beside the engine's copies, over those beside the reference's (medians).
//!
//! **Reference.** `memcpy`.
//!
//! **Bound.** Below 1 by more than the noise. Copies by `memcpy` get 1.
//!
//! Only a machine whose two cpus share a cache can show it, and on one whose cache is too small for the chain even alone (some virtual machines get a
//! share of theirs) nothing is there to be displaced: then the copies and the neighbour meet in memory's bandwidth only.
//!
//! **Beside.** The hop with nobody copying; the ratio when both copy as fast as they can; their speeds then.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use twolane::offload::bench::CpuEngine;

use crate::common::figure::{Bound, Figure, Noise};
use crate::common::lanes::Machine;
use crate::common::seat::Seat;
use crate::common::slots::{Cell, SLOTS, interleave};
use crate::common::stats::median;
use crate::common::witness::Witness;

/// What the neighbour needs: as much as the last-level caches that one pair gets.
const CHAIN: usize = 32 << 20;
const COPY: usize = 64 << 20;
const LINE: usize = 64;
/// Periods, or copies as fast as they come for so long.
const PERIODS: u32 = 2;
const FLAT_OUT: Duration = Duration::from_millis(20);
/// Slots as fast as they can: they are only read beside.
const SLOTS_FLAT_OUT: usize = 10;
/// Hops between two looks at the flag.
const HOPS: u64 = 256;

pub fn slowdown_ratio(machine: &Machine) -> Result<Figure, String> {
    let mut bench = Bench::new(machine)?;
    let witness = Witness::new(machine.cpus(), [bench.copying.id(), bench.chasing.id()]);
    let alone = bench.beside(None, Pace::FlatOut)?.hop_ns;

    let (mut ours_rates, mut memcpy_rates) = (Vec::new(), Vec::new());
    let flat_out = interleave(SLOTS_FLAT_OUT, &witness, |cell| {
        let seen = bench.beside(Some(cell), Pace::FlatOut)?;
        if cell == Cell::Ours { &mut ours_rates } else { &mut memcpy_rates }.push(seen.gb_s);
        Ok(Some(seen.hop_ns))
    })?;
    // The best of memcpy, so that it always finds the time for its copy.
    let fastest = memcpy_rates.iter().copied().fold(f64::NAN, f64::max);
    let slowest = memcpy_rates.iter().copied().fold(f64::NAN, f64::min).max(fastest / 2.0);
    let period = Duration::from_nanos((COPY as f64 / slowest * 1.1) as u64);

    let slots = interleave(SLOTS, &witness, |cell| Ok(Some(bench.beside(Some(cell), Pace::Each(period))?.hop_ns)))?;
    Ok(Figure {
        name: "neighbour_slowdown_ratio",
        value: median(&slots.ours) / median(&slots.references()),
        bound: Bound::AtMost(1.0),
        noise: Some(Noise { aa: median(&slots.a_again) / median(&slots.a), neutral: 1.0 }),
        clean: Some(slots.clean()),
        beside: vec![
            ("hop_alone_ns", alone),
            ("hop_beside_ours_ns", median(&slots.ours)),
            ("hop_beside_memcpy_ns", median(&slots.references())),
            ("period_ms", period.as_secs_f64() * 1e3),
            ("flat_out_ratio", median(&flat_out.ours) / median(&flat_out.references())),
            ("flat_out_ours_gb_s", median(&ours_rates)),
            ("flat_out_memcpy_gb_s", median(&memcpy_rates)),
        ],
    })
}

/// When the next copy begins.
#[derive(Clone, Copy)]
enum Pace {
    FlatOut,
    Each(Duration),
}

struct Seen {
    hop_ns: f64,
    gb_s: f64,
}

struct Bench {
    copying: Seat,
    chasing: Seat,
    engine: CpuEngine,
    chain: Arc<Vec<u64>>,
    buffers: Option<(Vec<u8>, Vec<u8>)>,
}

impl Bench {
    fn new(machine: &Machine) -> Result<Self, String> {
        let (copying, chasing) = (Seat::on(machine.poll)?, Seat::on(machine.compute)?);
        let engine = copying.run(CpuEngine::calibrated)?;
        let buffers = Some((vec![1; COPY], vec![2; COPY]));
        Ok(Self { copying, chasing, engine, chain: Arc::new(chain()), buffers })
    }

    /// A slot; `None`: nobody copies.
    fn beside(&mut self, copy: Option<Cell>, pace: Pace) -> Result<Seen, String> {
        let (hops, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let chase = {
            let (chain, hops, over) = (Arc::clone(&self.chain), Arc::clone(&hops), Arc::clone(&over));
            self.chasing.start(move || follow(&chain, &hops, &over))
        };
        let (src, mut dst) = self.buffers.take().ok_or("the buffers went with a slot that failed")?;
        let engine = self.engine;
        let done = self.copying.run(move || {
            let mut once = || match copy {
                Some(Cell::Ours) => engine.copy(black_box(&src[..]), black_box(&mut dst[..])),
                Some(Cell::A | Cell::AAgain) => black_box(&mut dst[..]).copy_from_slice(black_box(&src[..])),
                // Awake, so that nobody else gets the cpu and disturbs in its stead.
                None => wait_until(Instant::now() + FLAT_OUT / 4),
            };
            once();
            let (from, began) = (hops.load(Relaxed), Instant::now());
            let mut copies = 0;
            match pace {
                Pace::FlatOut => {
                    while began.elapsed() < FLAT_OUT {
                        once();
                        copies += 1;
                    }
                }
                Pace::Each(period) => {
                    while copies < PERIODS {
                        once();
                        copies += 1;
                        wait_until(began + period * copies);
                    }
                }
            }
            let ns = began.elapsed().as_nanos() as f64;
            let hop_ns = ns / (hops.load(Relaxed) - from) as f64;
            (Seen { hop_ns, gb_s: copies as f64 * COPY as f64 / ns }, (src, dst))
        });
        over.store(true, Relaxed);
        chase.wait()?;
        let (seen, buffers) = done?;
        self.buffers = Some(buffers);
        Ok(seen)
    }
}

/// The place of the next hop, a line each, in one cycle through all of them (Sattolo's shuffle).
fn chain() -> Vec<u64> {
    const STRIDE: usize = LINE / size_of::<u64>();
    let mut order: Vec<u32> = (0..(CHAIN / LINE) as u32).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    for at in (1..order.len()).rev() {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        order.swap(at, (random % at as u64) as usize);
    }
    let mut chain = vec![0; CHAIN / size_of::<u64>()];
    for (at, next) in order.iter().enumerate() {
        chain[at * STRIDE] = u64::from(*next) * STRIDE as u64;
    }
    chain
}

fn wait_until(then: Instant) {
    while Instant::now() < then {
        std::hint::spin_loop();
    }
}

fn follow(chain: &[u64], hops: &AtomicU64, over: &AtomicBool) {
    let mut at = 0;
    while !over.load(Relaxed) {
        for _ in 0..HOPS {
            at = chain[at as usize];
        }
        hops.fetch_add(HOPS, Relaxed);
    }
    black_box(at);
}
