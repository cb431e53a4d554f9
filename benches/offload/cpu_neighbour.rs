//! `neighbour_slowdown_ratio`: what does a large copy take from a neighbour that lives in the cache?
//!
//! **Method.** On one cpu a neighbour follows pointers through 32 MiB, in an order that no prefetcher guesses: each hop is a load that waits for
//! the one before. On the other cpu, 64 MiB are copied again and again, for 30 ms a slot after one copy that sets the scene. Figure: the
//! neighbour's nanoseconds a hop beside the engine's copies, over those beside the reference's (medians).
//!
//! **Reference.** `memcpy`.
//!
//! **Bound.** Below 1 by more than the noise. Copies by `memcpy` get 1.
//!
//! **Beside.** The hop with nobody copying, and the copies' speeds: a copy that is slower disturbs less, and that would be no merit.

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
const SLOT: Duration = Duration::from_millis(30);
/// Hops between two looks at the flag.
const HOPS: u64 = 256;

pub fn slowdown_ratio(machine: &Machine) -> Result<Figure, String> {
    let (copying, chasing) = (Seat::on(machine.poll)?, Seat::on(machine.compute)?);
    let witness = Witness::new(machine.cpus(), [copying.id(), chasing.id()]);
    let engine = copying.run(CpuEngine::calibrated)?;
    let chain = Arc::new(chain());
    let (mut rates_ours, mut rates_memcpy) = (Vec::new(), Vec::new());
    let mut buffers = Some((vec![1u8; COPY], vec![2u8; COPY]));

    let mut beside = |copy: Option<Cell>| -> Result<f64, String> {
        let (hops, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let chase = {
            let (chain, hops, over) = (Arc::clone(&chain), Arc::clone(&hops), Arc::clone(&over));
            chasing.start(move || follow(&chain, &hops, &over))
        };
        let (src, mut dst) = buffers.take().ok_or("the buffers went with a slot that failed")?;
        let counted = Arc::clone(&hops);
        let done = copying.run(move || {
            let mut once = || match copy {
                Some(Cell::Ours) => engine.copy(black_box(&src), black_box(&mut dst)),
                Some(Cell::A | Cell::AAgain) => black_box(&mut dst[..]).copy_from_slice(black_box(&src)),
                None => std::thread::sleep(Duration::from_millis(5)),
            };
            once();
            let (from, began) = (counted.load(Relaxed), Instant::now());
            let mut copies = 0;
            while began.elapsed() < SLOT {
                once();
                copies += 1;
            }
            let ns = began.elapsed().as_nanos() as f64;
            (ns / (counted.load(Relaxed) - from) as f64, (copies * COPY) as f64 / ns, (src, dst))
        });
        over.store(true, Relaxed);
        chase.wait()?;
        let (hop, rate, back) = done?;
        buffers = Some(back);
        match copy {
            Some(Cell::Ours) => rates_ours.push(rate),
            Some(_) => rates_memcpy.push(rate),
            None => {}
        }
        Ok(hop)
    };

    let alone = beside(None)?;
    let slots = interleave(SLOTS, &witness, |cell| beside(Some(cell)).map(Some))?;
    let reference = median(&slots.a);
    Ok(Figure {
        name: "neighbour_slowdown_ratio",
        value: median(&slots.ours) / median(&slots.references()),
        bound: Bound::AtMost(1.0),
        noise: Some(Noise { aa: median(&slots.a_again) / reference, neutral: 1.0 }),
        clean: Some(slots.clean()),
        beside: vec![
            ("hop_alone_ns", alone),
            ("hop_beside_ours_ns", median(&slots.ours)),
            ("hop_beside_memcpy_ns", median(&slots.references())),
            ("ours_gb_s", median(&rates_ours)),
            ("memcpy_gb_s", median(&rates_memcpy)),
        ],
    })
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
